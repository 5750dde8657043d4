"""Layout of an ablation's report: rows and columns as a paper prints them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Self

from pydantic import Field, model_validator

from korealbert.artifact import Spec, refuse_repeats
from korealbert.report.paper_columns import Column, Printed


class Row(Spec):
    """One model of the ablation."""

    later: ClassVar[frozenset[str]] = frozenset({"ensemble", "snapshot"})

    key: str
    """Key in the labels of its artifacts: ``pretrain/KEY/SEED``."""
    label: str
    """Name of the row, as printed."""
    model: str = ""
    """Name in the published table; empty if the paper has no such row."""
    settings: tuple[str, ...] = ()
    """Settings that differ from the recipe: ``views.word_order.portion = 1.0``."""
    snapshot: int | None = None
    """Training step whose weights the row has. None: the last."""
    ensemble: tuple[str, ...] = ()
    """Labels of the rows whose fine-tuning runs form an ensemble; such a row has no training."""


class AblationReportSpec(Spec):
    """Layout of an ablation's report; our numbers come from its inputs."""

    later: ClassVar[frozenset[str]] = frozenset({"curves", "noises"})

    title: str = Field(min_length=1, max_length=200)
    """Title of the report."""
    description: str = ""
    """Sentence on what is compared."""
    rows: tuple[Row, ...] = Field(min_length=1)
    """Rows in the order of the paper."""
    columns: tuple[Column, ...] = Field(min_length=1)
    """Columns in the order of the paper."""
    baseline: str
    """Label of the row that the others are compared with."""
    printed: Printed | None = None
    """Source of the printed numbers."""
    confidence: float = Field(default=0.95, gt=0.5, lt=1)
    """Confidence level of the intervals."""
    notes: tuple[str, ...] = ()
    """Notes below the table."""
    curves: bool = False
    """Whether to draw held-out accuracies over the steps, one line per row."""
    noises: Mapping[str, Mapping[str, Any]] = Field(default_factory=dict)
    """Spec of the views for each noise of a column."""

    @property
    def baseline_row(self) -> Row:
        """The row that the others are compared with."""
        return next(row for row in self.rows if row.label == self.baseline)

    @model_validator(mode="after")
    def _check(self) -> Self:
        refuse_repeats("columns", [column.title for column in self.columns])
        titles = {column.title for column in self.columns if column.is_score and (column.benchmark or column.heldout)}
        for column in self.columns:
            for title in (title for group in column.average for title in group):
                if title not in titles:
                    raise ValueError(
                        f"column {column.title!r} averages {title!r}; columns with content are {', '.join(titles)}"
                    )
            if any(not group for group in column.average):
                raise ValueError(f"column {column.title!r} averages an empty list; name columns in it")
        if self.baseline not in {row.label for row in self.rows}:
            raise ValueError(f"baseline = {self.baseline!r} is no row; rows are {', '.join(row.label for row in self.rows)}")
        return self
