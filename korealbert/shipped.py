"""The recipes that the package ships, each known by its name: ``sample``."""

from __future__ import annotations

from pathlib import Path

RECIPES = Path(__file__).parent / "data_specs" / "recipes"


def shipped(recipe: Path) -> Path:
    """The file of a recipe; where there is none of a bare name (``sample``), the recipe of this name that the package ships."""
    ours = RECIPES / f"{recipe}.toml"
    return ours if len(recipe.parts) == 1 and not recipe.exists() and ours.is_file() else recipe
