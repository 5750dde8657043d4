"""The benchmarks by name. Each module names its own in ``TASKS``."""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Mapping
from functools import cache

from korealbert.finetune.task import Task
from korealbert.formatting import nearest


def names() -> list[str]:
    """All benchmarks, sorted."""
    return sorted(_tasks())


def load(name: str) -> Task:
    """The benchmark of this name. Raises ValueError naming the known ones."""
    if name not in _tasks():
        raise ValueError(f"there is no task {name!r}{nearest(name, names())}; known are {', '.join(names())}")
    return _tasks()[name]


def find(written: str) -> Task:
    """The benchmark that a person means: its name or its title, in any case, with or without hyphens, ``glue_`` and ``klue_``.

    Raises ValueError naming the known ones when there is none, or several.
    """
    wanted = _core(written)
    matches = [name for name in names() if wanted in (_core(name), _core(load(name).title))]
    found = [written] if written in names() else matches
    if len(found) != 1:
        problem = (
            f"{written!r} is {' or '.join(found)}" if found else f"there is no task {written!r}{nearest(written, names())}"
        )
        raise ValueError(f"{problem}; known are {', '.join(names())}")
    return load(found[0])


@cache
def _tasks() -> Mapping[str, Task]:
    """All benchmarks by name. Their modules load neither torch nor transformers."""
    modules = [f"{__name__}.{module.name}" for module in pkgutil.iter_modules(__path__)]
    return {name: task for module in modules for name, task in importlib.import_module(module).TASKS.items()}


def _core(name: str) -> str:
    return re.sub(r"^(glue|klue)", "", re.sub(r"[^a-z0-9]", "", name.lower()))
