"""Which flow builds a TOML file: told by its tables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from prefect import Flow

from flows.corpus_to_model import corpus_to_model
from flows.cross_lingual import cross_lingual
from korealbert.recipe.cross_lingual import is_cross_lingual


def flow_of(recipe: Path) -> Flow[Any, str]:
    """The flow of a recipe, or of an ablation over one. Raises RecipeError for a file that is no recipe at all."""
    return cross_lingual if is_cross_lingual(recipe) else corpus_to_model
