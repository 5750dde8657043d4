"""Columns of a paper's table, and the published numbers of that table, for ablations and other reports."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from statistics import fmean
from typing import ClassVar, Literal, NamedTuple, Self

import polars as pl
from pydantic import Field, field_validator, model_validator

from korealbert.artifact import Spec
from korealbert.finetune.spec import Init
from korealbert.formatting import MISSING, fixed
from korealbert.report import published
from korealbert.report.scores import metric_title

Task = Literal["mlm", "sop", "wop"]

Training = Literal["parameters", "speedup", "hours"]


class Printed(Spec):
    """The published table that the rows belong to."""

    later: ClassVar[frozenset[str]] = frozenset({"statistic"})

    table: str
    """File of published scores: albert, ax_encoder, klue_readme, koelectra_readme, korealbert, xpt."""
    source: str
    """Name of the table in this file: ``ALBERT Table 4``."""
    model: str = "{label}"
    """The table's name for the model of a row: ``{label}`` is replaced by the row's label, ``*`` matches anything."""
    statistic: Literal["mean", "median"] = "mean"
    """Statistic over runs that the paper prints. With ``median``, our medians over all runs are shown in addition to means."""

    @field_validator("table")
    @classmethod
    def _known_table(cls, name: str) -> str:
        published.load(name)
        return name

    @model_validator(mode="after")
    def _known_source(self) -> Self:
        known = published.load(self.table)["source"].unique(maintain_order=True).to_list()
        if self.source not in known:
            raise ValueError(f"source = {self.source!r} is not in published/{self.table}.csv; known are {', '.join(known)}")
        return self

    @property
    def _rows(self) -> pl.DataFrame:
        return published.load(self.table).filter(source=self.source)

    def model_of(self, label: str, template: str | None = None) -> str:
        """Return the published name of a row's model, by the table's template or another one.

        Raises ValueError unless it matches exactly one model of the table.
        """
        wanted = (self.model if template is None else template).replace("{label}", label)
        pattern = re.compile(".*".join(map(re.escape, wanted.split("*"))))
        models: list[str] = self._rows["model"].unique(maintain_order=True).to_list()
        found = [model for model in models if pattern.fullmatch(model)]
        if len(found) != 1:
            raise ValueError(
                f"{wanted!r} matches {len(found)} models of {self.source}, not one; it has {', '.join(models)}. "
                'Correct the label or the template, or write printed = "" for a row that is not in the paper'
            )
        return found[0]

    def elsewhere(self, source: str) -> Self:
        """Return the same models in another table of the paper, or this table if ``source`` is empty."""
        return self.model_validate({**self.model_dump(), "source": source}) if source else self

    def pairs(self) -> set[tuple[str, str]]:
        """Return every task and metric that the table prints."""
        return set(self._rows.select("task", "metric").iter_rows())

    def values(self, model: str) -> dict[tuple[str, str], tuple[str, float | None]]:
        """Return the values of a model by task and metric, each as printed and as a number."""
        rows = self._rows.filter(model=model).select("task", "metric", "value", "number").iter_rows()
        return {(task, metric): (value, number) for task, metric, value, number in rows}


class Column(Spec):
    """A column: a benchmark's metric, a held-out accuracy, a mean of columns, a cost of training, or printed numbers alone."""

    later: ClassVar[frozenset[str]] = frozenset({"training", "source", "init"})

    title: str = Field(min_length=1)
    """Title of the column, as printed."""
    benchmark: str = ""
    """A benchmark of the recipe, whose table is [finetune.NAME]."""
    metric: str = ""
    """Metric of the benchmark, by default the task's main one; or ``loss`` of held-out rows, by default their accuracy."""
    init: Init = "pretrained"
    """Initial weights of the benchmark's runs; ``random`` for what a row's shape and vocabulary score without pretraining."""
    heldout: Task | None = None
    """What is predicted on held-out rows: masked pieces, sentence order (or next sentence, depending on the noise), word
    order."""
    noise: str = ""
    """Noise of the held-out rows; by default that of the row's own views."""
    average: tuple[tuple[str, ...], ...] = ()
    """Titles of the columns to average; those of one inner list are averaged first (F1 and EM of one benchmark)."""
    training: Training | None = None
    """A cost of pretraining: ``parameters`` of the encoder, without heads; ``speedup``, tokens per second relative to the
    baseline, on the machines that both ran on; or ``hours`` of its steps, if its budget is a time."""
    printed: tuple[str, str] | None = None
    """Task and metric of the printed number."""
    source: str = ""
    """Table of the paper that the printed number is in, if it is another one: ``ALBERT Table 1``."""

    @property
    def parts(self) -> tuple[tuple[str, ...], ...]:
        """Titles of the columns that it averages, in groups; of any other column its own title."""
        return self.average or ((self.title,),)

    @property
    def is_score(self) -> bool:
        """Whether the values are scores times 100."""
        return self.training is None and not self.is_loss

    @property
    def is_loss(self) -> bool:
        """Whether the values are held-out losses in nats."""
        return self.heldout is not None and self.metric == "loss"

    @property
    def decimals(self) -> int:
        """Decimals that are shown of a mean."""
        return 3 if self.is_loss else 2

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        kinds = [name for name in ("benchmark", "heldout", "average", "training") if getattr(self, name)]
        if len(kinds) > 1 or not (kinds or self.printed):
            raise ValueError(
                f"column {self.title!r} has {' and '.join(kinds) or 'no content'}; give one of benchmark, heldout, average, "
                "training"
            )
        if self.heldout and self.metric not in ("", "loss"):
            raise ValueError(f'column {self.title!r}: metric = {self.metric!r} of heldout is unknown; write "loss", or nothing')
        if self.metric and not (self.benchmark or self.heldout):
            raise ValueError(f"column {self.title!r}: metric = {self.metric!r} belongs to a benchmark or to heldout; remove it")
        if self.init != "pretrained" and (not self.benchmark or self.printed):
            raise ValueError(
                f"column {self.title!r}: init = {self.init!r} belongs to a benchmark without a printed number; remove it"
            )
        if self.noise and not self.heldout:
            raise ValueError(f"column {self.title!r}: noise = {self.noise!r} belongs to heldout; remove it")
        return self


def mean_of(groups: Sequence[Sequence[Sequence[float]]], statistic: Callable[[Sequence[float]], float]) -> str:
    """Return the mean over groups of the mean of a statistic of their columns, as papers average what they print.

    It is a dash if a column has no values.
    """
    if not all(values for group in groups for values in group):
        return MISSING
    return fixed(fmean(fmean(map(statistic, group)) for group in groups))


class Measure(NamedTuple):
    """Task and main metric of a benchmark."""

    task: str
    title: str
    """Title of the task."""
    metric: str


_HELDOUT: Mapping[Task, tuple[str, ...]] = {"mlm": ("MLM",), "sop": ("SOP", "NSP"), "wop": ("WOP",)}
"""Names of the held-out tasks in published tables, which call their metric ``intrinsic_acc``."""


def other_metrics(columns: Sequence[Column], printed: Printed | None, measures: Mapping[str, Measure]) -> list[str]:
    """Return a sentence on each column whose printed number may measure something else; ``measures`` are by benchmark."""
    sentences = []
    for column in columns:
        if printed is None or column.printed is None:
            continue
        task, name = column.printed
        if column.heldout is not None:
            ours = f"{column.metric or 'accuracy'} of {column.heldout.upper()} on held-out rows"
            same = not column.is_loss and name == "intrinsic_acc" and task in _HELDOUT[column.heldout]
        elif (measure := measures.get(column.benchmark)) is not None:
            metric = column.metric or measure.metric
            ours = f"{metric_title(metric)} of {measure.title}"
            same = published.matches(measure.task, metric, printed.table, column.printed)
        else:
            continue
        if not same:
            averages = [each.title for each in columns if any(column.title in group for group in each.average)]
            sentences.append(
                f"{column.title}: ours is {ours}, the printed number is called {name!r} of {task!r}"
                + (f"; the difference is in {', '.join(averages)} too." if averages else ".")
            )
    return sentences
