"""A model that a recipe starts from or measures: in a directory, in a package, or made by another recipe."""

from __future__ import annotations

from typing import Self

from pydantic import model_validator

from korealbert.huggingface.package import ModelPlace


class ModelTable(ModelPlace):
    """Where a model is: ALBERT, BERT, RoBERTa, ELECTRA; to be measured, also XLM-R, DistilBERT, BigBird, …"""

    recipe: str | None = None
    """Or another recipe, seen from this one: its exported model, built as part of this graph."""

    @model_validator(mode="after")
    def _one_of_all(self) -> Self:
        if sum(place is not None for place in (self.path, self.package, self.recipe)) != 1:
            raise ValueError("give either path (a directory in Hugging Face format), package and folder, or recipe")
        return self

    def place(self) -> ModelPlace:
        """Without the recipe: what the stage that checks the model is told."""
        return ModelPlace(path=self.path, package=self.package, folder=self.folder)
