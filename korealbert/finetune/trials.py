"""Stages `proposal` and `selection` of a search: dev scores of cells → the settings to try next, and the best of all.

Labels ``search/BENCHMARK/INIT/TRIAL/proposal`` and ``search/BENCHMARK/INIT/selection``; the cells between them are stages
``finetune`` without test, ``search/BENCHMARK/INIT/TRIAL/SEED``. Input roles of both: cells, as ``TRIAL/SEED``. Output of
both: ``settings.json``, the settings of a cell; of a selection also ``trials.json``: every setting with its dev scores by
seed.

A search has no database: its finished cells are its memory. Optuna sees them anew for each proposal, with a seed of the
proposal's own, so that a search killed anywhere goes on to the same settings.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from korealbert.artifact import Inputs, Runtime, Spec, Stage, Stats
from korealbert.artifact.files import write_json
from korealbert.finetune.search import WHOLE, Range, SearchSpec, Settings

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution

TRIES = 100
"""Proposals of settings that were tried already, after which one is repeated."""


class ProposalSpec(Spec):
    """One proposal of Optuna."""

    search: SearchSpec
    """What may be tried."""
    number: int
    """The trial's number from 0. The first ten settings are random ones."""


class SelectionSpec(Spec):
    """The choice of a search."""

    search: SearchSpec
    """What was tried."""


@dataclass(frozen=True)
class Trial:
    """A setting and its dev scores by seed; None where the loss was not finite."""

    number: int
    settings: Settings
    scores: dict[int, float | None]

    @property
    def dev(self) -> float | None:
        """Mean over the seeds, None where one of them diverged."""
        known = [score for score in self.scores.values() if score is not None]
        return sum(known) / len(known) if len(known) == len(self.scores) else None


def propose(spec: ProposalSpec, inputs: Inputs, out_dir: Path, runtime: Runtime) -> Stats:
    """Settings that no earlier trial had, as far as the space has any left."""
    import optuna  # noqa: PLC0415 (planning does without)

    distributions = {name: _distribution(name, axis) for name, axis in spec.search.axes.items()}
    with _quiet():
        sampler = optuna.samplers.TPESampler(seed=_seed(spec))
        study = optuna.create_study(direction="maximize", sampler=sampler)
        seen = read_trials(spec.search, inputs)
        for trial in seen:
            study.add_trial(_told(trial, distributions))
        known = {_key(trial.settings): trial for trial in seen}
        for _ in range(TRIES):
            asked = study.ask(distributions)
            settings: Settings = dict(asked.params)
            if _key(settings) not in known:
                break
            dev = known[_key(settings)].dev
            study.tell(asked, dev, state=None if dev is not None else optuna.trial.TrialState.FAIL)
    write_json(out_dir / "settings.json", settings)
    return {"trial": spec.number, **settings}


def select(spec: SelectionSpec, inputs: Inputs, out_dir: Path, runtime: Runtime) -> Stats:
    """The settings with the best mean dev score, the earliest of equals. Raises ValueError when every setting diverged."""
    trials = read_trials(spec.search, inputs)
    scored = [trial for trial in trials if trial.dev is not None]
    if not scored:
        raise ValueError(f"all {len(trials)} settings of the search diverged; give lower values of learning_rate")
    best = max(scored, key=lambda trial: (trial.dev, -trial.number))
    write_json(out_dir / "settings.json", best.settings)
    rows = [{"trial": t.number, "settings": t.settings, "dev": t.dev, "scores": t.scores} for t in trials]
    write_json(out_dir / "trials.json", rows)
    diverged = len(trials) - len(scored)
    return {"trials": len(trials), "diverged": diverged, "trial": best.number, "dev": best.dev, "settings": best.settings}


def read_trials(search: SearchSpec, inputs: Inputs) -> list[Trial]:
    """The trials that the cells of a search are of, by number."""
    cells: dict[int, dict[int, Any]] = {}
    for role, artifact in inputs.items():
        number, seed = map(int, role.split("/"))
        cells.setdefault(number, {})[seed] = json.loads((artifact.path / "metrics.json").read_text("utf-8"))
    trials = []
    for number, by_seed in sorted(cells.items()):
        settings = next(iter(by_seed.values()))["settings"]
        scores = {seed: metrics["dev"].get(metrics["selected_by"]) for seed, metrics in sorted(by_seed.items())}
        trials.append(Trial(number, {name: settings[name] for name in search.axes}, scores))
    return trials


def _distribution(name: str, axis: tuple[int | float, ...] | Range) -> BaseDistribution:
    from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution  # noqa: PLC0415 (planning does without)

    if not isinstance(axis, Range):
        return CategoricalDistribution(axis)
    if name in WHOLE:
        return IntDistribution(int(axis.low), int(axis.high), log=axis.log)
    return FloatDistribution(axis.low, axis.high, log=axis.log)


def _told(trial: Trial, distributions: dict[str, BaseDistribution]) -> Any:
    import optuna  # noqa: PLC0415 (planning does without)

    state = optuna.trial.TrialState.COMPLETE if trial.dev is not None else optuna.trial.TrialState.FAIL
    return optuna.trial.create_trial(params=trial.settings, distributions=distributions, value=trial.dev, state=state)


def _key(settings: Settings) -> str:
    return json.dumps(settings, sort_keys=True)


def _seed(spec: ProposalSpec) -> int:
    """Another for every proposal: proposals of one round see the same scores, and must not be the same."""
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


PROPOSAL = Stage("proposal", version=1, spec=ProposalSpec, run=propose)
SELECTION = Stage("selection", version=1, spec=SelectionSpec, run=select)
