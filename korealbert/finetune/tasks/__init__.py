"""The benchmarks by name: those of the package, which each module names in ``TASKS``, and those that TOML files define."""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from korealbert.finetune import defined
from korealbert.finetune.definition import BenchmarkTable, Definition, is_file, read_table
from korealbert.finetune.task import Task
from korealbert.formatting import nearest


def names() -> list[str]:
    """All benchmarks of the package, sorted."""
    return sorted(_tasks())


def load(task: str | Definition | Mapping[str, Any]) -> Task:
    """The benchmark of a name, or of a definition, also as a manifest holds it. Raises ValueError naming the known ones."""
    if isinstance(task, str):
        if task not in _tasks():
            remedy = f"known are {', '.join(names())}, and any TOML file that defines one"
            raise ValueError(f"there is no task {task!r}{nearest(task, names())}; {remedy}")
        return _tasks()[task]
    definition = task if isinstance(task, Definition) else Definition.model_validate(task)
    made = defined.task_of(definition)
    made.id_fields = (definition.columns.id if isinstance(definition.columns.id, str) else "id",)  # No record has positions.
    return made


def table_of(path: Path, *, within: Path | None = None) -> BenchmarkTable:
    """The TOML file of a benchmark outside the package; see ``read_table``. Its name is no shipped one's."""
    return read_table(path, within=within, taken=names)


def find(written: str) -> Task:
    """The benchmark that a person means: its name or its title, in any case, with or without hyphens, ``glue_`` and ``klue_``;
    or its TOML file.

    Raises ValueError naming the known ones when there is none, or several, and all that is wrong with a file.
    """
    if is_file(written):
        return load(table_of(Path(written)).definition)
    wanted = _core(written)
    matches = [name for name in names() if wanted in (_core(name), _core(load(name).title))]
    found = [written] if written in names() else matches
    if len(found) != 1:
        problem = (
            f"{written!r} is {' or '.join(found)}" if found else f"there is no task {written!r}{nearest(written, names())}"
        )
        raise ValueError(f"{problem}; known are {', '.join(names())}")
    return load(found[0])


def name_of(written: str) -> str:
    """The name in stores and tables of the benchmark that a person means. Raises ValueError as ``find`` does."""
    if is_file(written):
        return table_of(Path(written)).name
    found = find(written)
    return next(name for name in names() if load(name) is found)


def name_of_task(task: Task) -> str:
    """The name in stores and tables of a benchmark, whatever its head."""
    definition = getattr(task, "definition", None)
    if isinstance(definition, Definition):
        return definition.name
    return next(name for name in names() if type(load(name)) is type(task))


@cache
def _tasks() -> Mapping[str, Task]:
    """All benchmarks by name. Their modules load neither torch nor transformers."""
    modules = [f"{__name__}.{module.name}" for module in pkgutil.iter_modules(__path__)]
    return {name: task for module in modules for name, task in importlib.import_module(module).TASKS.items()}


def _core(name: str) -> str:
    return re.sub(r"^(glue|klue)", "", re.sub(r"[^a-z0-9]", "", name.lower()))
