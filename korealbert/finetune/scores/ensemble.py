"""Stage ``ensemble``: finished cells of one benchmark → the scores of their averaged predictions.

Input roles: ``finetune`` artifacts that kept their evidence, by any name; ``train``, ``dev`` and ``test``: fetched files, for
those that the spec names by URL. For a class the probabilities of all members are averaged, for a score the predictions, for a
span of a context the probabilities of the spans and the decision that there is no answer, each apart (ALBERT, section 4.9).
Output: ``metrics.json`` with ``members`` (roles and their dev scores, the best first; null where the official script prints
``nan``) and the test scores of one prediction per example; ``undefined`` as in that of a cell.
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
from korealbert.finetune.scores.kept import PREDICTIONS, read_kept
from korealbert.finetune.scores.undefined import why_undefined
from korealbert.finetune.spec import FeaturesSpec
from korealbert.finetune.stage import EVIDENCE
from korealbert.finetune.task import Example, Task


class EnsembleSpec(FeaturesSpec):
    """The examples of the cells, and how many of these answer."""

    members: int | None = Field(default=None, ge=2)
    """The best on dev. None: all."""


class EnsembleStats(Statistics):
    """Its size and its test scores."""

    metric: str
    members: int
    test: dict[str, float | None]
    """By metric, times 100; None where the official script prints ``nan``."""


def run(spec: EnsembleSpec, inputs: Inputs, out_dir: Path, runtime: Runtime) -> EnsembleStats:
    """Answer together; see the module's docstring. Raises ValueError where there are fewer cells than members are wanted."""
    task = spec.benchmark
    examples = read_examples(task, spec, inputs, splits=("test",))["test"]
    cells = {role: artifact for role, artifact in inputs.items() if role not in SPLITS}
    metrics = {role: cell.read_json("metrics.json") for role, cell in cells.items()}
    dev = {role: float(found["dev"][found["selected_by"]]) for role, found in metrics.items()}
    best = sorted(dev, key=lambda role: (-dev[role], role))[: spec.members]
    if len(best) < (spec.members or 2):
        raise ValueError(f"{len(best)} runs of {spec.task} cannot make an ensemble of {spec.members or 2}; give it more seeds")
    evidence = [_evidence(cells[role], task, examples) for role in best]
    predicted = [task.agreed(example, weighed) for example, *weighed in zip(examples, *evidence, strict=True)]
    runtime.report(Progress(len(best), len(best), "members"))
    official, corrected = (task.score(examples, predicted, mode) for mode in ("official", "corrected"))
    known = {role: None if why_undefined(metrics[role], metrics[role]["selected_by"], "dev") else dev[role] for role in best}
    result: dict[str, Any] = {
        "task": spec.task,
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
    """Raises ValueError naming an artifact that kept none, or that of another task or other examples."""
    path = cell.path / EVIDENCE
    if not path.is_file():
        raise ValueError(f"{path}: there is none; build the cell with evidence = true")
    with ipc.open_file(str(path)) as reader:
        table = reader.read_all()
    read_kept(BenchmarkFile(cell.path / PREDICTIONS), task, examples)  # The evidence names neither the task nor gold values.
    if table["id"].to_pylist() != [example.id for example in examples]:
        raise ValueError(f"{path}: of other examples than the test file's; rebuild the cell")
    found: list[Any] = table["evidence"].to_pylist()
    return found


STAGE = Stage("ensemble", version=2, spec=EnsembleSpec, run=run)
