"""The benchmarks: one module each, found by name."""

from __future__ import annotations

import importlib
import pkgutil
import re

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


def find(written: str) -> Task:
    """The benchmark that a person means: its name or its title, in any case, with or without hyphens, ``glue_`` and ``klue_``.

    Raises ValueError naming the known ones when there is none, or several.
    """
    wanted = _core(written)
    known = {name: load(name) for name in names()}
    alike = [name for name, task in known.items() if wanted in (_core(name), _core(task.title))]
    found = [written] if written in known else alike
    if len(found) != 1:
        problem = f"{written!r} is {' or '.join(found)}" if found else f"there is no task {written!r}"
        raise ValueError(f"{problem}; known are {', '.join(known)}")
    return known[found[0]]


def _core(name: str) -> str:
    return re.sub(r"^(glue|klue)", "", re.sub(r"[^a-z0-9]", "", name.lower()))
