"""No module imports itself through others, so each room can be read and loaded on its own."""

from __future__ import annotations

from graphlib import CycleError, TopologicalSorter

import grimp


def test_no_module_imports_itself_by_way_of_others() -> None:
    graph = grimp.build_graph("korealbert", cache_dir=None)  # annotations' imports (TYPE_CHECKING) count as well
    order = TopologicalSorter({module: graph.find_modules_directly_imported_by(module) for module in graph.modules})
    try:
        order.prepare()
    except CycleError as error:
        raise AssertionError(f"a circle of imports: {' -> '.join(reversed(error.args[1]))}") from None
