"""The benchmarks: one module each, found by name."""

from __future__ import annotations

import importlib
import pkgutil

from korealbert.finetune.task import Task


def names() -> list[str]:
    """All benchmarks, sorted."""
    return sorted(module.name for module in pkgutil.iter_modules(__path__))


def load(name: str) -> Task:
    """The benchmark of this name. Raises ValueError naming the known ones."""
    if name not in names():
        raise ValueError(f"there is no task {name!r}; known are {', '.join(names())}")
    task: Task = importlib.import_module(f"{__name__}.{name}").TASK
    return task
