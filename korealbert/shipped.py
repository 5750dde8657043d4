"""The recipes that the package ships, and the ablations over them, each known by its name: ``sample``, ``albert-table-2``."""

from __future__ import annotations

from pathlib import Path

SPECS = Path(__file__).parent / "data_specs"
"""Recipes, ablations, rules, sources, benchmarks and the sample."""
_FOLDERS = (SPECS / "recipes", SPECS / "ablations")


def names() -> list[str]:
    """Of recipes, then of ablations; those over the sample are below ``sample/``."""
    return [path.relative_to(each).with_suffix("").as_posix() for each in _FOLDERS for path in sorted(each.rglob("*.toml"))]


def is_shipped(file: Path) -> bool:
    """Whether the package ships this file."""
    return file.resolve().is_relative_to(SPECS.resolve())


def shipped(recipe: Path) -> Path:
    """The file of a recipe; where there is none of its name (``sample``), the one of this name that the package ships."""
    if recipe.exists() or recipe.is_absolute() or ".." in recipe.parts:
        return recipe
    return next((ours for each in _FOLDERS if (ours := each / f"{recipe}.toml").is_file()), recipe)
