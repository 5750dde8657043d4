"""The recipes and ablations that the package ships, each known by its name: ``sample``, ``albert-table-2``."""

from __future__ import annotations

import os
from pathlib import Path

SPECS = Path(__file__).parent / "data_specs"
"""Recipes, ablations, rules, sources, benchmarks and the sample."""
_FOLDERS = (SPECS / "recipes", SPECS / "ablations")


def names() -> list[str]:
    """Return the names of recipes, then of ablations; those over the sample start with ``sample/``."""
    return [path.relative_to(each).with_suffix("").as_posix() for each in _FOLDERS for path in sorted(each.rglob("*.toml"))]


def is_shipped(file: Path) -> bool:
    """Whether the package ships this file."""
    return file.resolve().is_relative_to(SPECS.resolve())


def shipped(recipe: Path) -> Path:
    """Return the file of a recipe: itself if it exists, else the shipped one of this name (``sample``). ``~`` is expanded."""
    recipe = Path(os.path.expanduser(recipe))  # noqa: PTH111 (Path's raises RuntimeError for an unknown user)
    if recipe.is_absolute() or ".." in recipe.parts or os.path.exists(recipe):  # noqa: PTH110 (Path's raises PermissionError)
        return recipe
    named = (each / f"{recipe}.toml" for each in _FOLDERS)
    return next((ours for ours in named if os.path.isfile(ours)), recipe)  # noqa: PTH113
