"""The form of an ablation's TOML file.

A cell is a row of the table: the recipe with some fields set otherwise, by dotted name. Cells are listed (``[[cells]]``), or
are all combinations of ``[[axes]]``. Each is pretrained once per seed and fine-tuned on every benchmark of the recipe.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from korealbert.artifact import Spec, refuse_repeats
from korealbert.recipe.tables import flattened, nearest
from korealbert.report.ablation.spec import Column, Printed

Overrides = dict[str, Any]
"""Fields by dotted name (quoted, or as TOML nests them), with their values."""


class Level(Spec):
    """One value of an axis."""

    label: str = Field(min_length=1)
    """As printed; a cell's label is those of its levels, joined by a space."""
    set: Overrides = Field(default_factory=dict)
    """Fields that it sets otherwise than the recipe."""


class Axis(Spec):
    """One dimension of a grid."""

    levels: tuple[Level, ...] = Field(min_length=1)
    """In the order of the paper; those of the last axis change fastest."""


class Cell(Spec):
    """One row of the table."""

    label: str = Field(min_length=1)
    """As printed."""
    set: Overrides = Field(default_factory=dict)
    """Fields that it sets otherwise than the recipe."""
    without: tuple[str, ...] = ()
    """Fields or tables of the recipe that it takes out: ``["extract.news", "clean.news"]``."""
    printed: str | None = None
    """Its name in the published table, where the template of [printed] does not give it; empty: not in the paper."""


class AblationSpec(Spec):
    """The whole file."""

    name: str = ""
    """Short name; the file's by default."""
    title: str = Field(default="", max_length=200)
    """Title of the report; the name by default."""
    description: str = ""
    """What is compared, in a sentence."""
    recipe: str
    """The recipe that all cells start from, seen from this file. Paths that cells set start at the recipe, as all in it do."""
    seeds: tuple[Annotated[int, Field(ge=0, lt=2**32)], ...] = Field(min_length=1)
    """One pretraining per cell and seed."""
    set: Overrides = Field(default_factory=dict)
    """Fields that all cells set otherwise than the recipe."""
    shared: tuple[Literal["dedup", "balance", "vocab", "examples", "views"], ...] = ()
    """Stages that all cells take from the first one although what they read may differ: ``["vocab"]``."""
    cells: tuple[Cell, ...] = ()
    """Rows one by one, in the order of the paper."""
    axes: tuple[Axis, ...] = ()
    """Or as a grid: every combination of levels."""
    noise: Mapping[Annotated[str, Field(pattern=r"^[\w-]+$")], Overrides] = Field(default_factory=dict)
    """Noises by name under which held-out rows are scored, as fields of ``views`` set otherwise than the recipe."""
    columns: tuple[Column, ...] = ()
    """Columns in the order of the paper. By default the held-out accuracies and each benchmark with its own metric."""
    baseline: str = ""
    """Label of the cell that differences are from; the first by default."""
    printed: Printed | None = None
    """Where the paper's numbers are."""
    confidence: float = Field(default=0.95, gt=0.5, lt=1)
    """Of the intervals."""
    notes: tuple[str, ...] = ()
    """Sentences for the reader of the report."""

    @field_validator("seeds")
    @classmethod
    def _each_once(cls, seeds: tuple[int, ...]) -> tuple[int, ...]:
        refuse_repeats("seeds", seeds)
        return seeds

    @model_validator(mode="after")
    def _one_kind_of_grid(self) -> Self:
        if bool(self.cells) == bool(self.axes):
            raise ValueError("give either [[cells]] or [[axes]]" + (", not both" if self.cells else ""))
        labels = [cell.label for cell in self.grid]
        refuse_repeats("cells", labels)
        refuse_repeats("names of cells", [key_of(label) for label in labels])
        if self.baseline and self.baseline not in labels:
            raise ValueError(f"baseline = {self.baseline!r} is no cell{nearest(self.baseline, labels)}")
        return self

    @property
    def grid(self) -> tuple[Cell, ...]:
        """All cells, listed or combined."""
        if self.cells:
            return self.cells
        combined = []
        for levels in itertools.product(*(axis.levels for axis in self.axes)):
            fields: Overrides = {}
            for level in levels:
                own = flattened(level.set)
                refuse_repeats("fields set by axes", [*fields, *own])
                fields |= own
            combined.append(Cell(label=" ".join(level.label for level in levels), set=fields))
        return tuple(combined)


def key_of(label: str) -> str:
    """A label as part of a stage's label: ``MLM+SOP`` as ``mlm-sop``."""
    return re.sub(r"\W+", "-", label.lower()).strip("-") or "cell"
