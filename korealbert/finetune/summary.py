"""Stage `summary` (labels ``summary/BENCHMARK``): all cells of a benchmark → what their scores say together.

Input roles: finished ``finetune`` cells as ``SYSTEM/SEED`` (a system is an init, or a model and its init); ``train``, ``dev``
and ``test``: fetched files, for those that the spec names by URL. Output: ``summary.json``. ``systems`` has for each system
``best``, ``mean``, ``sd`` and ``median`` of its seeds' test scores, the ``interval`` of their mean over other test examples,
and the scores themselves. ``comparisons`` has for each two systems the difference of their means with its interval and
``p_value``, and for accuracies ``mcnemar``: the p-value between the seeds of each that are best on dev. All of the task's own
metric, official mode.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from pyarrow import ipc
from pydantic import Field

from korealbert.artifact import Artifact, Inputs, Progress, Runtime, Stage, Stats
from korealbert.files import write_json
from korealbert.finetune import tasks
from korealbert.finetune.answered import answered, mcnemar_of
from korealbert.finetune.spec import FeaturesSpec
from korealbert.finetune.splits import read_examples
from korealbert.finetune.statistics import bootstrap, compare, spread
from korealbert.finetune.task import Example, Task


class SummarySpec(FeaturesSpec):
    """The examples of the cells, and how much is drawn from them."""

    resamples: int = Field(default=1000, ge=1)
    """Draws of every interval and every test. The smallest p-value is 1 / (resamples + 1)."""
    confidence: float = Field(default=0.95, gt=0, lt=1)
    """Share of draws within an interval."""


@dataclass(frozen=True)
class Cell:
    """A finished cell: its answers to the test examples and what its dev score was."""

    seed: int
    dev: float
    predicted: Sequence[Any]
    answered: Any


def run(spec: SummarySpec, inputs: Inputs, out_dir: Path, runtime: Runtime) -> Stats:
    """Score the cells together; see the module's docstring."""
    task = tasks.load(spec.task)
    examples = read_examples(task, spec, inputs, splits=("test",))["test"]
    systems = {name: _cells(task, examples, cells) for name, cells in _by_system(inputs).items()}
    pairs = list(itertools.combinations(systems, 2))
    draws = {"resamples": spec.resamples, "confidence": spec.confidence, "seed": spec.split_seed}
    result: dict[str, Any] = {"task": spec.task, "metric": task.metric, "examples": len(examples), **draws}
    result["systems"], result["comparisons"] = {}, []
    for done, (name, cells) in enumerate(systems.items(), start=1):
        result["systems"][name] = _together(cells, len(examples), draws)
        runtime.report(Progress(done, len(systems) + len(pairs), "intervals and tests"))
    for done, (first, second) in enumerate(pairs, start=len(systems) + 1):
        pair = _between(task, examples, systems[first], systems[second], draws)
        result["comparisons"].append({"first": first, "second": second, **pair})
        runtime.report(Progress(done, len(systems) + len(pairs), "intervals and tests"))
    write_json(out_dir / "summary.json", result)
    return {"metric": task.metric, **{name: _headline(found) for name, found in result["systems"].items()}}


def _by_system(inputs: Inputs) -> dict[str, dict[int, Artifact]]:
    found: dict[str, dict[int, Artifact]] = {}
    for role, artifact in inputs.items():
        name, slash, seed = role.rpartition("/")
        if slash:
            found.setdefault(name, {})[int(seed)] = artifact
    return {name: dict(sorted(cells.items())) for name, cells in found.items()}


def _cells(task: Task, examples: Sequence[Example], artifacts: Mapping[int, Artifact]) -> list[Cell]:
    """Raises ValueError naming a cell whose predictions are not of these examples."""
    cells = []
    for seed, artifact in artifacts.items():
        metrics = json.loads((artifact.path / "metrics.json").read_text("utf-8"))
        with ipc.open_file(str(artifact.path / "predictions.arrow")) as reader:
            table = reader.read_all()
        if table["id"].to_pylist() != [example.id for example in examples]:
            raise ValueError(f"{artifact.name}/predictions.arrow: of other examples than the test file's; rebuild the cell")
        predicted = [task.restored(value) for value in table["pred"].to_pylist()]
        answers = answered(task, examples, predicted, "official")
        cells.append(Cell(seed, metrics["dev"][metrics["selected_by"]], predicted, answers))
    return cells


def _together(cells: Sequence[Cell], examples: int, draws: Mapping[str, Any]) -> dict[str, Any]:
    everything = np.arange(examples)
    scores = {cell.seed: cell.answered.over(everything) for cell in cells}
    interval = bootstrap([cell.answered for cell in cells], examples, **draws)
    return {**spread(list(scores.values()))._asdict(), "interval": list(interval), "scores": scores}


def _between(
    task: Task, examples: Sequence[Example], first: Sequence[Cell], second: Sequence[Cell], draws: Mapping[str, Any]
) -> dict[str, Any]:
    found = compare([c.answered for c in first], [c.answered for c in second], len(examples), **draws)
    result: dict[str, Any] = {**found._asdict(), "interval": list(found.interval)}
    if task.metric == "accuracy":
        best = [max(cells, key=lambda cell: (cell.dev, -cell.seed)) for cells in (first, second)]
        p_value = mcnemar_of(examples, *(cell.predicted for cell in best))
        result["mcnemar"] = {"seeds": [cell.seed for cell in best], "p_value": p_value}
    return result


def _headline(found: Mapping[str, Any]) -> dict[str, Any]:
    return {name: round(found[name], 4) for name in ("best", "mean", "sd", "median")} | {
        "interval": [round(end, 4) for end in found["interval"]]
    }


STAGE = Stage("summary", version=1, spec=SummarySpec, run=run)
