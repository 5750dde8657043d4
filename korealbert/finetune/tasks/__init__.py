"""Benchmarks by name: those of the package, in the ``TASKS`` of each module, and those that TOML files define."""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from korealbert.finetune import toml_tasks
from korealbert.finetune.definition import Definition
from korealbert.finetune.definition_file import BenchmarkTable, is_file, read_table
from korealbert.finetune.task import Task
from korealbert.formatting import nearest


def names() -> list[str]:
    """Return the names of all benchmarks of the package, sorted."""
    return sorted(_tasks())


def load(task: str | Definition | Mapping[str, Any]) -> Task:
    """Return the benchmark with a name or a definition, also one in a manifest. Raises ValueError for an unknown name."""
    if isinstance(task, str):
        if task not in _tasks():
            remedy = f"known are {', '.join(names())}, and any TOML file that defines one"
            raise ValueError(f"there is no task {task!r}{nearest(task, names())}; {remedy}")
        return _tasks()[task]
    definition = task if isinstance(task, Definition) else Definition.model_validate(task)
    made = toml_tasks.task_of(definition)
    made.id_fields = (definition.columns.id if isinstance(definition.columns.id, str) else "id",)  # No record has positions.
    return made


def table_of(path: Path, *, within: Path | None = None) -> BenchmarkTable:
    """Read the TOML file of a benchmark, whose name must not be that of a shipped one; see ``read_table``."""
    return read_table(path, within=within, taken=names)


def find(written: str) -> Task:
    """Return the benchmark with a name, title or TOML file; case, hyphens, ``glue_`` and ``klue_`` are ignored.

    Raises ValueError naming the known ones if none or several match, or listing all mistakes of a file.
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
    """Return the name in stores and tables of the benchmark that ``find`` finds. Raises ValueError as ``find`` does."""
    if is_file(written):
        return table_of(Path(written)).name
    found = find(written)
    return next(name for name in names() if load(name) is found)


def name_of_task(task: Task) -> str:
    """Return the name in stores and tables of a benchmark with any head."""
    definition = getattr(task, "definition", None)
    if isinstance(definition, Definition):
        return definition.name
    return next(name for name in names() if type(load(name)) is type(task))


@cache
def _tasks() -> Mapping[str, Task]:
    """Return all benchmarks by name. Their modules import neither torch nor transformers."""
    modules = [f"{__name__}.{module.name}" for module in pkgutil.iter_modules(__path__)]
    return {name: task for module in modules for name, task in importlib.import_module(module).TASKS.items()}


def _core(name: str) -> str:
    return re.sub(r"^(glue|klue)", "", re.sub(r"[^a-z0-9]", "", name.lower()))
