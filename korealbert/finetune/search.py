"""Hyperparameter search over fine-tuning settings: a grid, or proposals by Optuna. Stages `proposal` and `selection`.

Labels: ``search/BENCHMARK/INIT/TRIAL/proposal`` proposes the settings of a trial; ``search/BENCHMARK/INIT/TRIAL/SEED``
(stage ``finetune`` without test) scores them on dev; ``search/BENCHMARK/INIT/selection`` selects the best. Inputs of proposal
and selection are the finished runs, in roles ``TRIAL/SEED``. Both write ``settings.json``; a selection also writes
``trials.json``, all settings with their dev scores by seed.

A search has no database. For every proposal Optuna is told all finished runs again and gets a seed that depends only on the
proposal's number, so that a killed search continues with the same settings.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

import numpy as np
from pydantic import Discriminator, Field, Tag, ValidationError, model_validator

from korealbert.artifact import Inputs, Runtime, Spec, Stage, Statistics, refuse_repeats
from korealbert.artifact.files import write_json
from korealbert.artifact.spec import Real
from korealbert.finetune.scores.undefined import why_undefined
from korealbert.finetune.spec import FinetuneSpec

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution

Settings = dict[str, int | float]
"""One combination of values, by field of the fine-tuning spec."""

_MAX_SETTINGS = 1000
"""Limits the size of the DAG, in which each setting has one or more stages."""

LIST, RANGE = "list of values", "range"
"""Names of the two kinds of axis in pydantic's error locations."""


class Range(Spec):
    """Numbers from ``low`` to ``high``."""

    low: float
    """Smallest value."""
    high: float
    """Largest value; included for whole numbers."""
    log: bool = False
    """Draw values evenly on a logarithmic scale."""

    @model_validator(mode="after")
    def _is_one(self) -> Self:
        if self.low >= self.high:
            raise ValueError(f"low = {self.low:g} must be less than high = {self.high:g}; swap or change them")
        if self.log and self.low <= 0:
            raise ValueError(f"log = true needs low above 0, it is {self.low:g}; raise it, or remove log")
        return self


def _kind(value: Any) -> str:
    return RANGE if isinstance(value, Mapping | Range) else LIST


def _whole(axis: Any) -> Any:
    if isinstance(axis, Range) and not (axis.low.is_integer() and axis.high.is_integer()):
        raise ValueError(f"low = {axis.low:g} and high = {axis.high:g} must be whole numbers, as the values of this field are")
    return axis


_WholeAxis = Annotated[
    Annotated[tuple[int, ...], Field(min_length=1), Tag(LIST)] | Annotated[Range, Tag(RANGE)], Discriminator(_kind)
]
_RealAxis = Annotated[
    Annotated[tuple[float, ...], Field(min_length=1), Tag(LIST)] | Annotated[Range, Tag(RANGE)], Discriminator(_kind)
]


class SearchSpec(Spec):
    """A search over settings by dev score; only the selected setting is scored on test.

    ``epochs``, ``batch_size``, ``learning_rate``, ``embedding_lr_factor``, ``warmup_ratio``, ``weight_decay`` and ``dropout``
    are searched if they are given, as a list of values or (for Optuna) as a table with ``low``, ``high`` and ``log``.
    """

    method: Literal["grid", "optuna"] = "grid"
    """``grid``: every combination. ``optuna``: ``trials`` settings, each proposed by TPE from earlier results."""
    epochs: _WholeAxis | None = None
    """Numbers of epochs to try."""
    batch_size: _WholeAxis | None = None
    """Batch sizes to try."""
    learning_rate: _RealAxis | None = None
    """Learning rates to try."""
    embedding_lr_factor: _RealAxis | None = None
    """Factors of the learning rate of embeddings to try."""
    warmup_ratio: _RealAxis | None = None
    """Shares of warm-up to try."""
    weight_decay: _RealAxis | None = None
    """Weight decays to try."""
    dropout: _RealAxis | None = None
    """Dropouts to try."""
    trials: int | None = Field(default=None, ge=1, le=_MAX_SETTINGS)
    """Number of settings that Optuna tries."""
    at_once: int = Field(default=1, ge=1)
    """Number of settings that Optuna proposes together, without seeing each other's scores; they can run in parallel."""
    seeds: tuple[Annotated[int, Field(ge=0, lt=2**63)], ...] = Field(default=(1,), min_length=1)
    """Seeds for each setting; settings are compared by their mean dev score."""
    sampler_seed: int = Field(default=0, ge=0, lt=2**31)
    """Seed of Optuna's proposals."""

    @model_validator(mode="after")
    def _can_be_run(self) -> Self:
        refuse_repeats("seeds", self.seeds)
        if not self.axes:
            raise ValueError(f"nothing to search: give values of {', '.join(AXES)}")
        for name, axis in self.axes.items():
            if name in _WHOLE:
                _whole(axis)
            if not isinstance(axis, Range):
                refuse_repeats(name, axis)
            elif self.method == "grid":
                raise ValueError(f'{name}: a grid takes a list of values; write one, or method = "optuna"')
        if self.method == "optuna" and self.trials is None:
            raise ValueError("trials is missing: how many settings may Optuna try?")
        if self.method == "grid" and (self.trials is not None or self.at_once != 1):
            raise ValueError('trials and at_once belong to method = "optuna"; a grid tries every combination')
        if self.size > _MAX_SETTINGS:
            raise ValueError(f'a grid of {self.size:,} settings; give at most {_MAX_SETTINGS:,}, or method = "optuna"')
        return self

    @property
    def axes(self) -> dict[str, tuple[int | float, ...] | Range]:
        """The searched values by field."""
        return {name: getattr(self, name) for name in AXES if getattr(self, name) is not None}

    @property
    def size(self) -> int:
        """The number of settings that are tried."""
        return self.trials if self.trials is not None else math.prod(map(len, self._listed.values()))

    def grid(self) -> list[Settings]:
        """Return every combination of values; the last field changes fastest."""
        return [dict(zip(self.axes, values, strict=True)) for values in itertools.product(*self._listed.values())]

    @property
    def _listed(self) -> dict[str, tuple[int | float, ...]]:
        return {name: axis for name, axis in self.axes.items() if not isinstance(axis, Range)}

    def seen_before(self, number: int) -> range:
        """Return the numbers of the trials whose scores Optuna knows when it proposes this one."""
        return range(number - number % self.at_once)

    def check(self, cell: FinetuneSpec) -> None:
        """Raise ValueError naming the field if a searched value is not allowed in the fine-tuning spec."""
        for name, axis in self.axes.items():
            ends = (axis.low, axis.high) if isinstance(axis, Range) else axis
            for value in ends:
                try:
                    cell.with_settings({name: int(value) if name in _WHOLE else value})
                except ValidationError as error:
                    raise ValueError(f"{name} = {value:g}: {error.errors()[0]['msg']}") from None
        for name, other in (("epochs", "steps"), ("warmup_ratio", "warmup_steps")):
            if name in self.axes and getattr(cell, other) is not None:
                raise ValueError(f"{name} is searched, but {other} = {getattr(cell, other)} replaces it; remove one")


AXES = ("epochs", "batch_size", "learning_rate", "embedding_lr_factor", "warmup_ratio", "weight_decay", "dropout")
"""Fields that can be searched. ``max_length`` is not among them, because each value would need its own features."""

_WHOLE = ("epochs", "batch_size")


def trial_cell(cell: FinetuneSpec, seed: int, settings: Settings | None = None) -> FinetuneSpec:
    """Return the spec of one run of a search: it has no test file, so that nothing can be selected on test."""
    without_test = {"test": None, "test_member": "", "max_test_examples": None, "onnx": ()}
    return cell.with_settings({**without_test, "seed": seed, **(settings or {})})


_MAX_REPEATED_PROPOSALS = 100
"""After this many proposals of known settings the last one is taken: the space may have no others."""


class ProposalSpec(Spec):
    """One proposal of Optuna."""

    search: SearchSpec
    """The space to search."""
    number: int
    """The trial's number from 0. The first ten trials are random."""


class SelectionSpec(Spec):
    """The selection of a search's best setting."""

    search: SearchSpec
    """The space that was searched."""


@dataclass(frozen=True)
class _Trial:
    """A setting and its dev scores by seed; None if the run diverged or the official script prints ``nan``."""

    number: int
    settings: Settings
    scores: dict[int, float | None]
    undefined: frozenset[str]
    """Reasons for a ``nan`` of the official script."""

    @property
    def dev(self) -> float | None:
        """The mean over the seeds; None if a seed has no score."""
        known = [score for score in self.scores.values() if score is not None]
        return sum(known) / len(known) if len(known) == len(self.scores) else None


class ProposalStats(Statistics):
    """The proposed value of each searched field."""

    trial: int
    """The trial's number from 0."""
    epochs: int | None = None
    batch_size: int | None = None
    learning_rate: Real | None = None
    embedding_lr_factor: Real | None = None
    warmup_ratio: Real | None = None
    weight_decay: Real | None = None
    dropout: Real | None = None


class SelectionStats(Statistics):
    """The selected setting, and the number of trials."""

    trials: int
    diverged: int
    """Trials with a seed that diverged or has no defined score; they cannot be selected."""
    trial: int
    """The number of the selected trial."""
    dev: Real
    """Its mean dev score over the seeds, times 100."""
    settings: dict[str, Real]
    """Its values by field."""


def propose(spec: ProposalSpec, inputs: Inputs, out_dir: Path, runtime: Runtime) -> ProposalStats:
    """Propose settings that no earlier trial had, unless the space has no others."""
    import optuna  # noqa: PLC0415 (planning does without)

    distributions = {name: _distribution(name, axis) for name, axis in spec.search.axes.items()}
    with _quiet():
        sampler = optuna.samplers.TPESampler(seed=_seed(spec))
        study = optuna.create_study(direction="maximize", sampler=sampler)
        seen = _read_trials(spec.search, inputs)
        for trial in seen:
            study.add_trial(_as_optuna_trial(trial, distributions))
        known = {_key(trial.settings): trial for trial in seen}
        for _ in range(_MAX_REPEATED_PROPOSALS):
            asked = study.ask(distributions)
            settings: Settings = dict(asked.params)
            if _key(settings) not in known:
                break
            dev = known[_key(settings)].dev
            study.tell(asked, dev, state=None if dev is not None else optuna.trial.TrialState.FAIL)
    write_json(out_dir / "settings.json", settings)
    return ProposalStats.of({"trial": spec.number, **settings})


def select(spec: SelectionSpec, inputs: Inputs, out_dir: Path, runtime: Runtime) -> SelectionStats:
    """Select the settings with the best mean dev score, the earliest of equals. Raises ValueError if none has a score."""
    trials = _read_trials(spec.search, inputs)
    scored = [trial for trial in trials if trial.dev is not None]
    if not scored:
        given = {score for trial in trials for score in trial.undefined}
        fate = f"diverged or have no defined score ({', '.join(sorted(given))})" if given else "diverged"
        raise ValueError(f"all {len(trials)} settings of the search {fate}; give lower values of learning_rate")
    best = max(scored, key=lambda trial: (trial.dev, -trial.number))
    write_json(out_dir / "settings.json", best.settings)
    rows = [{"trial": t.number, "settings": t.settings, "dev": t.dev, "scores": t.scores} for t in trials]
    write_json(out_dir / "trials.json", rows)
    diverged = len(trials) - len(scored)
    chosen = {"trial": best.number, "dev": best.dev, "settings": best.settings}
    return SelectionStats.of({"trials": len(trials), "diverged": diverged, **chosen})


def _read_trials(search: SearchSpec, inputs: Inputs) -> list[_Trial]:
    """Return the finished trials of a search, ordered by number."""
    cells: dict[int, dict[int, Any]] = {}
    for role, artifact in inputs.items():
        number, seed = map(int, role.split("/"))
        cells.setdefault(number, {})[seed] = artifact.read_json("metrics.json")
    trials = []
    for number, by_seed in sorted(cells.items()):
        settings = next(iter(by_seed.values()))["settings"]
        why = {seed: why_undefined(metrics, metrics["selected_by"], "dev") for seed, metrics in by_seed.items()}
        dev = {seed: metrics["dev"].get(metrics["selected_by"]) for seed, metrics in sorted(by_seed.items())}
        scores = {seed: None if why[seed] else score for seed, score in dev.items()}
        undefined = frozenset(filter(None, why.values()))
        trials.append(_Trial(number, {name: settings[name] for name in search.axes}, scores, undefined))
    return trials


def _distribution(name: str, axis: tuple[int | float, ...] | Range) -> BaseDistribution:
    from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution  # noqa: PLC0415 (planning does without)

    if not isinstance(axis, Range):
        return CategoricalDistribution(axis)
    if name in _WHOLE:
        return IntDistribution(int(axis.low), int(axis.high), log=axis.log)
    return FloatDistribution(axis.low, axis.high, log=axis.log)


def _as_optuna_trial(trial: _Trial, distributions: dict[str, BaseDistribution]) -> Any:
    import optuna  # noqa: PLC0415 (planning does without)

    state = optuna.trial.TrialState.COMPLETE if trial.dev is not None else optuna.trial.TrialState.FAIL
    return optuna.trial.create_trial(params=trial.settings, distributions=distributions, value=trial.dev, state=state)


def _key(settings: Settings) -> str:
    return json.dumps(settings, sort_keys=True)


def _seed(spec: ProposalSpec) -> int:
    """Return a different seed for every proposal, since proposals of one round see the same scores and must differ."""
    return int(np.random.SeedSequence([spec.search.sampler_seed, spec.number]).generate_state(1)[0])


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    import optuna  # noqa: PLC0415 (planning does without)

    verbosity = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    try:
        yield
    finally:
        optuna.logging.set_verbosity(verbosity)


PROPOSAL = Stage("proposal", version=1, spec=ProposalSpec, run=propose, label="search")
SELECTION = Stage("selection", version=1, spec=SelectionSpec, run=select, label="search")
