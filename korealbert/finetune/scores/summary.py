"""Stage `summary` (labels ``summary/BENCHMARK``): means, intervals and tests of all runs of a benchmark.

Input roles: finished ``finetune`` artifacts as ``SYSTEM/SEED`` (a system is an init, or a model and its init); ``train``,
``dev`` and ``test``: downloaded files, when the spec names them by URL.

Output: ``summary.json``, about the task's main metric in official mode. ``systems`` has for each system ``best``, ``mean``,
``sd`` and ``median`` of its seeds' test scores, the ``interval`` of the mean over other seeds and test examples, and the
scores. ``comparisons`` has for each pair of systems the difference of their means with interval and ``p_value``; for accuracies
``mcnemar`` is the p-value between each system's best seed on dev. If the official script prints ``nan`` for a seed, its score
and everything computed from it are null, and the system's ``undefined`` has the reason by seed.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import ConfigDict, Field

from korealbert.artifact import Artifact, Deployment, Inputs, Progress, Runtime, Stage, Statistics
from korealbert.artifact.files import write_json
from korealbert.documents.benchmark_files import BenchmarkFile
from korealbert.finetune import tasks
from korealbert.finetune.features import read_examples
from korealbert.finetune.metrics import Interval
from korealbert.finetune.scores.predictions import PREDICTIONS, read_predictions
from korealbert.finetune.scores.resampling import Answered, Draws
from korealbert.finetune.scores.statistics import Comparison, answered, compare, intervals, mcnemar_of, spread
from korealbert.finetune.scores.undefined import why_undefined
from korealbert.finetune.spec import FeaturesSpec
from korealbert.finetune.task import Example, Task


class SummarySpec(FeaturesSpec):
    """The examples of the runs, and the settings of the statistics."""

    resamples: int = Field(default=1000, ge=2)
    """Resamples of every interval and every test."""
    confidence: float = Field(default=0.95, gt=0, lt=1)
    """Confidence level of every interval."""


@dataclass(frozen=True)
class Cell:
    """A finished fine-tuning run: its answers to the test examples and its dev score."""

    seed: int
    dev: float
    predicted: Sequence[Any]
    answered: Answered
    undefined: str
    """Why the official script prints ``nan`` for its test score; empty if it prints a number."""


class SystemStats(Statistics):
    """Test scores of a system over its seeds, times 100, rounded to four digits; None if a seed's score is undefined."""

    best: float | None
    mean: float | None
    sd: float | None
    median: float | None
    interval: tuple[float, float] | None
    """Interval of the mean over other seeds and test examples; for a single seed over other test examples."""


class SummaryStats(Statistics):
    """The task's main metric, and the scores by system."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, SystemStats]

    metric: str

    @property
    def systems(self) -> dict[str, SystemStats]:
        """Scores by system."""
        return self.__pydantic_extra__


def run(spec: SummarySpec, inputs: Inputs, out_dir: Path, runtime: Runtime) -> SummaryStats:
    """Score the runs together; see the module's docstring."""
    task = tasks.load(spec.task)
    examples = read_examples(task, spec, inputs, splits=("test",))["test"]
    systems = {name: list(answers_of(task, examples, cells).values()) for name, cells in _by_system(inputs).items()}
    answers = [[cell.answered for cell in cells] for cells in systems.values()]
    draws = Draws(len(examples), spec.resamples, spec.split_seed)
    drawn = {"resamples": spec.resamples, "confidence": spec.confidence, "seed": spec.split_seed}
    result: dict[str, Any] = {"task": spec.task_name, "metric": task.metric, "examples": len(examples), **drawn}
    result["systems"] = {
        name: _summarised(cells, len(examples), ends.of_score(task.metric))
        for (name, cells), ends in zip(systems.items(), intervals(answers, draws, confidence=spec.confidence), strict=True)
    }
    runtime.report(Progress(1, 2, "intervals and tests"))
    compared = zip(itertools.combinations(systems, 2), compare(answers, draws, confidence=spec.confidence), strict=True)
    result["comparisons"] = [
        {"first": first, "second": second, **_compared(task, examples, found, (systems[first], systems[second]))}
        for (first, second), found in compared
    ]
    runtime.report(Progress(2, 2, "intervals and tests"))
    write_json(out_dir / "summary.json", result)
    return SummaryStats.of({"metric": task.metric, **{name: _headline(found) for name, found in result["systems"].items()}})


def _by_system(inputs: Inputs) -> dict[str, dict[int, Artifact]]:
    found: dict[str, dict[int, Artifact]] = {}
    for role, artifact in inputs.items():
        name, slash, seed = role.rpartition("/")
        if slash:
            found.setdefault(name, {})[int(seed)] = artifact
    return {name: dict(sorted(cells.items())) for name, cells in found.items()}


def answers_of(task: Task, examples: Sequence[Example], artifacts: Mapping[int, Artifact]) -> dict[int, Cell]:
    """Return finished runs by seed. Raises ValueError if the predictions of one are not of this task and these examples."""
    cells = {}
    for seed, artifact in artifacts.items():
        metrics = artifact.read_json("metrics.json")
        predicted = [
            task.restored(value) for _, value in read_predictions(BenchmarkFile(artifact.path / PREDICTIONS), task, examples)
        ]
        answers = answered(task, examples, predicted, "official")
        why = why_undefined(metrics, task.metric)
        cells[seed] = Cell(seed, metrics["dev"][metrics["selected_by"]], predicted, answers, why)
    return cells


_SYSTEM_FIELDS = tuple(SystemStats.model_fields)


def _summarised(cells: Sequence[Cell], examples: int, ends: Interval) -> dict[str, Any]:
    everything = np.ones((examples, 1))
    scores = {cell.seed: None if cell.undefined else float(cell.answered.over(everything)[0]) for cell in cells}
    if undefined := {cell.seed: cell.undefined for cell in cells if cell.undefined}:
        return {**dict.fromkeys(_SYSTEM_FIELDS), "scores": scores, "undefined": undefined}
    return {
        **spread([score for score in scores.values() if score is not None])._asdict(),
        "interval": list(ends),
        "scores": scores,
    }


def _compared(
    task: Task, examples: Sequence[Example], found: Comparison, pair: tuple[Sequence[Cell], Sequence[Cell]]
) -> dict[str, Any]:
    if any(cell.undefined for cells in pair for cell in cells):
        return dict.fromkeys(Comparison._fields)
    result: dict[str, Any] = {**found._asdict(), "interval": list(found.interval.of_difference(task.metric))}
    if task.metric == "accuracy":
        best = [max(cells, key=lambda cell: (cell.dev, -cell.seed)) for cells in pair]
        p_value = mcnemar_of(examples, *(cell.predicted for cell in best))
        result["mcnemar"] = {"seeds": [cell.seed for cell in best], "p_value": p_value}
    return result


def _headline(found: Mapping[str, Any]) -> dict[str, Any]:
    if "undefined" in found:
        return dict.fromkeys(_SYSTEM_FIELDS)
    rounded: dict[str, Any] = {name: round(found[name], 4) for name in _SYSTEM_FIELDS if name != "interval"}
    return {**rounded, "interval": [round(end, 4) for end in found["interval"]]}


STAGE = Stage(
    "summary",
    version=7,
    spec=SummarySpec,
    run=run,
    inputs={"CELL": "finetune/NAME/CELL"},
    deployment=Deployment("Means; intervals and paired tests of the cells"),
)
