"""Stage ``ensemble``: average the predictions of finished cells of one benchmark, and score them.

Input roles: ``finetune`` artifacts with evidence, under any name; ``train``, ``dev`` and ``test``: downloaded files, when the
spec names them by URL. Classes are averaged by their probabilities, scores directly, and spans of a context by the
probabilities of the spans and, separately, of "no answer" (ALBERT, section 4.9). Output: ``metrics.json`` with ``members``
(roles and dev scores, the best first; null if the official script prints ``nan``), test scores, and ``undefined`` as in a
cell's.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pyarrow import ipc
from pydantic import Field

from korealbert.artifact import Artifact, Inputs, Progress, Runtime, Stage, Statistics
from korealbert.artifact.files import write_json
from korealbert.documents.benchmark_files import BenchmarkFile
from korealbert.finetune.features import SPLITS, read_examples
from korealbert.finetune.scores.predictions import PREDICTIONS, read_predictions
from korealbert.finetune.scores.undefined import why_undefined
from korealbert.finetune.spec import FeaturesSpec
from korealbert.finetune.stage import EVIDENCE
from korealbert.finetune.task import Example, Task


class EnsembleSpec(FeaturesSpec):
    """The examples of the cells, and the number of members."""

    members: int | None = Field(default=None, ge=2)
    """Number of cells, the best on dev. None: all."""


class EnsembleStats(Statistics):
    """Size and test scores of an ensemble."""

    metric: str
    members: int
    test: dict[str, float | None]
    """Test scores by metric, times 100; None if the official script prints ``nan``."""


def run(spec: EnsembleSpec, inputs: Inputs, out_dir: Path, runtime: Runtime) -> EnsembleStats:
    """Combine the predictions and score them. Raises ValueError if there are too few cells."""
    task = spec.benchmark
    examples = read_examples(task, spec, inputs, splits=("test",))["test"]
    cells = {role: artifact for role, artifact in inputs.items() if role not in SPLITS}
    metrics = {role: cell.read_json("metrics.json") for role, cell in cells.items()}
    dev = {role: float(found["dev"][found["selected_by"]]) for role, found in metrics.items()}
    best = sorted(dev, key=lambda role: (-dev[role], role))[: spec.members]
    if len(best) < (spec.members or 2):
        raise ValueError(
            f"{len(best)} runs of {spec.task_name} cannot make an ensemble of {spec.members or 2}; give it more seeds"
        )
    evidence = [_evidence(cells[role], task, examples) for role in best]
    predicted = [task.joint_prediction(example, values) for example, *values in zip(examples, *evidence, strict=True)]
    runtime.report(Progress(len(best), len(best), "members"))
    official, corrected = (task.score(examples, predicted, mode) for mode in ("official", "corrected"))
    known = {role: None if why_undefined(metrics[role], metrics[role]["selected_by"], "dev") else dev[role] for role in best}
    result: dict[str, Any] = {
        "task": spec.task_name,
        "title": task.title,
        "metric": task.metric,
        "members": [{"role": role, "artifact": cells[role].name, "dev": known[role]} for role in best],
        "examples_test": len(examples),
        "examples_test_official": task.official_size(examples),
        "test": dict(official.values),
        "test_corrected": dict(corrected.values),
        "warnings": list(official.warnings),
    }
    if official.undefined:
        result["undefined"] = dict(official.undefined)
    write_json(out_dir / "metrics.json", result)
    test = {name: None if name in official.undefined else value for name, value in official.values.items()}
    return EnsembleStats(metric=task.metric, members=len(best), test=test)


def _evidence(cell: Artifact, task: Task, examples: Sequence[Example]) -> list[Any]:
    """Read the evidence of a cell. Raises ValueError if it has none, or is of another task or other examples."""
    path = cell.path / EVIDENCE
    if not path.is_file():
        raise ValueError(f"{path}: no such file; build the cell with evidence = true")
    with ipc.open_file(str(path)) as reader:
        table = reader.read_all()
    read_predictions(
        BenchmarkFile(cell.path / PREDICTIONS), task, examples
    )  # Checks task and gold values, which evidence lacks.
    if table["id"].to_pylist() != [example.id for example in examples]:
        raise ValueError(f"{path}: of other examples than the test file's; rebuild the cell")
    found: list[Any] = table["evidence"].to_pylist()
    return found


STAGE = Stage("ensemble", version=2, spec=EnsembleSpec, run=run)
