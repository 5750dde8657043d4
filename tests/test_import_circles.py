"""There are no circular imports, so each room can be read and loaded in one order."""

from __future__ import annotations

from graphlib import CycleError, TopologicalSorter

import grimp


def test_there_are_no_circular_imports() -> None:
    graph = grimp.build_graph("korealbert", cache_dir=None)  # Includes imports under TYPE_CHECKING.
    order = TopologicalSorter({module: graph.find_modules_directly_imported_by(module) for module in graph.modules})
    try:
        order.prepare()
    except CycleError as error:
        raise AssertionError(f"circular imports: {' -> '.join(reversed(error.args[1]))}") from None
