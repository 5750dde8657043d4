"""A model that a recipe starts from or measures: in a directory, in a package, or made by another recipe."""

from __future__ import annotations

from typing import Any, Self

from pydantic import Field, model_validator

from korealbert.huggingface.package import ModelPlace


class ModelTable(ModelPlace):
    """Where a model is: ALBERT, BERT, RoBERTa, ELECTRA; to be measured, also XLM-R, DistilBERT, BigBird, …"""

    recipe: str | None = None
    """Or another recipe, seen from this one: its exported model, built as part of this graph."""
    set: dict[str, Any] = Field(default_factory=dict)
    """Fields of that recipe to set otherwise: ``set.pretrain.steps = 9_000``."""

    @model_validator(mode="after")
    def _one_of_all(self) -> Self:
        if sum(place is not None for place in (self.path, self.package, self.recipe)) != 1:
            raise ValueError("give either path (a directory in Hugging Face format), package and folder, or recipe")
        if self.set and self.recipe is None:
            raise ValueError("set changes fields of a recipe, and none is named")
        return self

    def place(self) -> ModelPlace:
        """Without the recipe: what the stage that checks the model is told."""
        return ModelPlace(path=self.path, package=self.package, folder=self.folder)
