"""What a search tries: settings of a fine-tuning cell, all of a grid or those that Optuna proposes."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import Discriminator, Field, Tag, ValidationError, model_validator

from korealbert.artifact import Spec, refuse_repeats
from korealbert.finetune.spec import FinetuneSpec

Settings = dict[str, int | float]
"""Fields of a cell's spec with the values that a search tries."""

MAX_SETTINGS = 1000
"""Largest search: each of its settings is a stage or several in the DAG."""

LIST, RANGE = "list of values", "range"
"""How pydantic tells the two kinds of ``Axis`` apart in the places that its errors name."""


class Range(Spec):
    """Numbers from ``low`` to ``high``."""

    low: float
    """The smallest."""
    high: float
    """The largest; whole numbers reach it."""
    log: bool = False
    """Draw the logarithm evenly instead of the number."""

    @model_validator(mode="after")
    def _is_one(self) -> Self:
        if self.low >= self.high:
            raise ValueError(f"low = {self.low:g} must lie below high = {self.high:g}")
        if self.log and self.low <= 0:
            raise ValueError(f"log needs low above 0, it is {self.low:g}")
        return self


def _kind(value: Any) -> str:
    return RANGE if isinstance(value, Mapping | Range) else LIST


def _whole(axis: Any) -> Any:
    if isinstance(axis, Range) and not (axis.low.is_integer() and axis.high.is_integer()):
        raise ValueError(f"low = {axis.low:g} and high = {axis.high:g} must be whole")
    return axis


Whole = Annotated[
    Annotated[tuple[int, ...], Field(min_length=1), Tag(LIST)] | Annotated[Range, Tag(RANGE)], Discriminator(_kind)
]
Real = Annotated[
    Annotated[tuple[float, ...], Field(min_length=1), Tag(LIST)] | Annotated[Range, Tag(RANGE)], Discriminator(_kind)
]


class SearchSpec(Spec):
    """A search over settings on dev; test is scored with the chosen one alone.

    ``epochs``, ``batch_size``, ``learning_rate``, ``warmup_ratio``, ``weight_decay`` and ``dropout`` are searched where they
    are given, as a list of values or (for Optuna) as a table with ``low``, ``high`` and ``log``.
    """

    method: Literal["grid", "optuna"] = "grid"
    """``grid``: every combination. ``optuna``: ``trials`` settings, each proposed from what was seen before by TPE."""
    epochs: Whole | None = None
    """Numbers of epochs to try."""
    batch_size: Whole | None = None
    """Batch sizes to try."""
    learning_rate: Real | None = None
    """Learning rates to try."""
    warmup_ratio: Real | None = None
    """Shares of warm-up to try."""
    weight_decay: Real | None = None
    """Weight decays to try."""
    dropout: Real | None = None
    """Dropouts to try."""
    trials: int | None = Field(default=None, ge=1, le=MAX_SETTINGS)
    """Settings that Optuna tries."""
    at_once: int = Field(default=1, ge=1)
    """Settings that Optuna proposes before it sees the scores of any of them: as many can be tried at the same time."""
    seeds: tuple[Annotated[int, Field(ge=0, lt=2**63)], ...] = Field(default=(1,), min_length=1)
    """Seeds that each setting is tried with; the mean of their dev scores decides."""
    sampler_seed: int = Field(default=0, ge=0, lt=2**31)
    """Seeds Optuna's proposals."""

    @model_validator(mode="after")
    def _can_be_run(self) -> Self:
        refuse_repeats("seeds", self.seeds)
        if not self.axes:
            raise ValueError(f"nothing to search: give values of {', '.join(AXES)}")
        for name, axis in self.axes.items():
            if name in WHOLE:
                _whole(axis)
            if not isinstance(axis, Range):
                refuse_repeats(name, axis)
            elif self.method == "grid":
                raise ValueError(f'{name}: a grid takes a list of values; write one, or method = "optuna"')
        if self.method == "optuna" and self.trials is None:
            raise ValueError("trials is missing: how many settings may Optuna try?")
        if self.method == "grid" and (self.trials is not None or self.at_once != 1):
            raise ValueError('trials and at_once belong to method = "optuna"; a grid tries every combination')
        if self.size > MAX_SETTINGS:
            raise ValueError(f'a grid of {self.size:,} settings; give at most {MAX_SETTINGS:,}, or method = "optuna"')
        return self

    @property
    def axes(self) -> dict[str, tuple[int | float, ...] | Range]:
        """What is searched, by field."""
        return {name: getattr(self, name) for name in AXES if getattr(self, name) is not None}

    @property
    def size(self) -> int:
        """How many settings are tried."""
        return self.trials if self.trials is not None else math.prod(map(len, self._listed.values()))

    def grid(self) -> list[Settings]:
        """Every combination; the last field changes fastest."""
        return [dict(zip(self.axes, values, strict=True)) for values in itertools.product(*self._listed.values())]

    @property
    def _listed(self) -> dict[str, tuple[int | float, ...]]:
        return {name: axis for name, axis in self.axes.items() if not isinstance(axis, Range)}

    def seen_before(self, number: int) -> range:
        """The numbers of the settings whose scores Optuna sees when it proposes this one."""
        return range(number - number % self.at_once)

    def check(self, cell: FinetuneSpec) -> None:
        """Raise ValueError naming the field where a value that may be tried is not allowed in a cell."""
        for name, axis in self.axes.items():
            ends = (axis.low, axis.high) if isinstance(axis, Range) else axis
            for value in ends:
                try:
                    cell.with_settings({name: int(value) if name in WHOLE else value})
                except ValidationError as error:
                    raise ValueError(f"{name} = {value:g}: {error.errors()[0]['msg']}") from None


AXES = ("epochs", "batch_size", "learning_rate", "warmup_ratio", "weight_decay", "dropout")
"""Fields that a search may choose. The length limit is none: features would have to be made for each."""

WHOLE = ("epochs", "batch_size")


def trial_cell(cell: FinetuneSpec, seed: int, settings: Settings | None = None) -> FinetuneSpec:
    """A cell of the search: without the test file, so that nothing can be selected on test."""
    without_test = {"test": None, "test_member": "", "max_test_examples": None}
    return cell.with_settings({**without_test, "seed": seed, **(settings or {})})
