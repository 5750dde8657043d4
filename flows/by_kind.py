"""Which flow builds a TOML file: told by its tables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from prefect import Flow

from flows.corpus_to_model import corpus_to_model
from flows.cross_lingual import cross_lingual
from flows.evaluation import evaluation
from korealbert.recipe.tables import Kind, kind_of

FLOWS: dict[Kind, Flow[Any, str]] = {
    "model": corpus_to_model,
    "ablation": corpus_to_model,
    "cross-lingual": cross_lingual,
    "evaluation": evaluation,
}


def flow_of(recipe: Path) -> Flow[Any, str]:
    """The flow of a recipe, or of an ablation over one. Raises RecipeError for a file that is no recipe at all."""
    return FLOWS[kind_of(recipe)]
