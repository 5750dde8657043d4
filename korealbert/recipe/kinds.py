"""Which kind of recipe a TOML file is: told by its tables."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from korealbert.recipe.tables import read_toml

Kind = Literal["model", "cross-lingual", "evaluation", "ablation"]

KINDS: dict[Kind, str] = {
    "model": "a model from raw text",
    "cross-lingual": "a cross-lingual post-training",
    "evaluation": "an evaluation of others' encoders",
    "ablation": "an ablation",
}
"""What each makes."""


def kind_of(path: Path) -> Kind:
    """The kind of a recipe. Raises RecipeError where it cannot be read.

    An ablation names the recipe that it starts from, a cross-lingual one says how a source is transferred or trained on, an
    evaluation has encoders and no text.
    """
    tables = read_toml(path)
    if "recipe" in tables:
        return "ablation"
    if {"transfer", "phase1", "phase2"} & tables.keys():
        return "cross-lingual"
    return "evaluation" if "encoder" in tables and "extract" not in tables else "model"
