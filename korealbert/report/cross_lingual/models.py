"""What the artifacts of a post-training say of its models: scores by model, benchmark and metric; curves; distributions."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from korealbert.artifact import Artifact
from korealbert.finetune.analysis import Distribution
from korealbert.formatting import MISSING, mean_and_sd, spread
from korealbert.report import scores
from korealbert.report.scores import Benchmark, Cell

PHASE_TITLES = {"phase1": "Phase 1", "phase2": "Phase 2"}
ENGLISH = "language_loss/"
"""What the names of systems begin with that read English, before the vocabulary that they read it with."""


@dataclass(frozen=True)
class Score:
    """One value of one fine-tuning run."""

    model: str
    """``itl/phase2``, ``control/mlm``, ``source``, ``itl/phase1/500`` for a snapshot."""
    vocabulary: str
    """``ko`` or ``en``: whose vocabulary the model had; ``ko`` for Korean benchmarks, but of the source."""
    english: bool
    """Whether the benchmark is one of the language-loss matrix."""
    benchmark: str
    """The recipe's name of it."""
    task: str
    metric: str
    seed: int
    value: float
    """Test score × 100."""
    artifact: str


class Results:
    """All scores of a run."""

    def __init__(self, artifacts: Mapping[str, Artifact]) -> None:
        self.artifacts = artifacts
        self.benchmarks = scores.read(self._of("finetune"), self._of("summary"))
        self.scores = [score for benchmark in self.benchmarks for cell in benchmark.cells for score in _scores(benchmark, cell)]

    def _of(self, stage: str) -> dict[str, Artifact]:
        """All artifacts of a stage, in the order of the graph."""
        return {label: artifact for label, artifact in self.artifacts.items() if label.startswith(f"{stage}/")}

    @property
    def models(self) -> list[str]:
        """Models with a Korean score, in the order of the graph."""
        return list(dict.fromkeys(score.model for score in self.scores if not score.english))

    def of_language(self, *, english: bool) -> list[Benchmark]:
        """The English benchmarks, or the Korean ones."""
        return [b for b in self.benchmarks if b.cells[0].system.startswith(ENGLISH) == english]

    @property
    def variants(self) -> list[str]:
        """Names of the transferred models."""
        return [label.split("/")[1] for label in self.artifacts if label.startswith("transfer/")]

    @property
    def korean_benchmarks(self) -> list[tuple[str, str]]:
        """(benchmark, task's own metric first, then the others) of all Korean scores."""
        return list(dict.fromkeys((score.benchmark, score.metric) for score in self.scores if not score.english))

    def values(
        self, model: str, task: str, metric: str, *, english: bool = False, vocabulary: str | None = None
    ) -> list[float]:
        """Values of a model on a task, by seed. Where several benchmarks of the recipe are of that task, of the first."""
        found = [
            s
            for s in self.scores
            if (s.model, s.task, s.metric, s.english) == (model, task, metric, english)
            and (vocabulary is None or s.vocabulary == vocabulary)
        ]
        return [s.value for s in sorted(found, key=lambda s: s.seed) if s.benchmark == found[0].benchmark]

    def of_benchmark(self, model: str, benchmark: str, metric: str) -> list[float]:
        """Values of a model on a Korean benchmark of the recipe, by seed."""
        wanted = (model, benchmark, metric, False)
        found = [s for s in self.scores if (s.model, s.benchmark, s.metric, s.english) == wanted]
        return [s.value for s in sorted(found, key=lambda s: s.seed)]

    def transfer_of(self, variant: str) -> Mapping[str, Any]:
        """The settings of a variant."""
        spec: Mapping[str, Any] = self.artifacts[f"transfer/{variant}"].manifest["spec"]
        return spec

    def title(self, model: str) -> str:
        """A model's name as people write it: ``itl, Phase 1``."""
        name, _, rest = model.partition("/")
        if name == "control":
            return f"{rest}, from scratch"
        return f"{name}, {PHASE_TITLES[rest]}" if rest in PHASE_TITLES else model

    def system_title(self, system: str) -> str:
        """The name of a benchmark's system as people write it: ``itl, Phase 1, Vocab-En``."""
        model, vocabulary, english = _parts(system)
        title = self.title(model)
        return f"{title}, Vocab-{vocabulary.title()}" if english and model != "source" else title


def shown(values: Sequence[float]) -> str:
    """Mean and deviation over seeds, or a dash."""
    return spread(values) if values else MISSING


def mean(values: Sequence[float]) -> float | None:
    """The mean over seeds, or None where there is none."""
    return mean_and_sd(values)[0] if values else None


def distributions(results: Results, task: str) -> dict[str, Distribution]:
    """Predictions by gold label, summed over the seeds of Korean cells as their ``analysis.json`` has them, by model."""
    summed: dict[str, dict[str, Counter[str]]] = {}
    for benchmark in results.benchmarks:
        for cell in benchmark.cells if benchmark.task == task else ():
            model, _, english = _parts(cell.system)
            if not english:
                found = json.loads((cell.artifact.path / "analysis.json").read_text("utf-8"))
                for gold, row in found["dist"].items():
                    summed.setdefault(model, {}).setdefault(gold, Counter()).update(row)
    return {model: {gold: dict(row) for gold, row in rows.items()} for model, rows in summed.items()}


def _parts(system: str) -> tuple[str, str, bool]:
    """Model, whose vocabulary it has, and whether it reads English."""
    name = system.removesuffix("/pretrained")
    if name.startswith(ENGLISH):
        vocabulary, _, model = name.removeprefix(ENGLISH).partition("/")
        return model, vocabulary, True
    return name, "en" if name == "source" else "ko", False


def _scores(benchmark: Benchmark, cell: Cell) -> Iterator[Score]:
    model, vocabulary, english = _parts(cell.system)
    for metric in benchmark.metrics:
        value = float(cell.metrics["test"][metric])
        yield Score(model, vocabulary, english, benchmark.name, benchmark.task, metric, cell.seed, value, cell.artifact.name)
