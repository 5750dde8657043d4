"""What the artifacts of a post-training say of its models: scores by model, benchmark and metric; curves; distributions."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from korealbert.artifact import Artifact
from korealbert.numbers import MISSING, mean_and_sd, spread

PHASES = ("phase1", "phase2")
PHASE_TITLES = {"phase1": "Phase 1", "phase2": "Phase 2"}


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
        self.scores = [score for label, artifact in artifacts.items() for score in _scores(label, artifact)]
        self.artifacts = artifacts

    @property
    def models(self) -> list[str]:
        """Models with a Korean score, in the order of the graph."""
        return list(dict.fromkeys(score.model for score in self.scores if not score.english))

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


def shown(values: Sequence[float]) -> str:
    """Mean and deviation over seeds, or a dash."""
    return spread(values) if values else MISSING


def mean(values: Sequence[float]) -> float | None:
    """The mean over seeds, or None where there is none."""
    return mean_and_sd(values)[0] if values else None


def metrics_lines(artifact: Artifact) -> list[dict[str, Any]]:
    """The parsed lines of a training run's ``metrics.jsonl``."""
    lines = (artifact.path / "metrics.jsonl").read_text("utf-8").splitlines()
    return [json.loads(line) for line in lines if line.strip()]


def distributions(artifacts: Mapping[str, Artifact], task: str) -> dict[str, dict[str, dict[str, int]]]:
    """Predictions by gold label, summed over seeds, by model."""
    found: dict[str, dict[str, dict[str, int]]] = {}
    for label, artifact in artifacts.items():
        stage, *rest = label.split("/")
        if stage == "distribution" and artifact.stats["task"] == task:
            rows = found.setdefault("/".join(rest[:-2]), {})
            for row in json.loads((artifact.path / "distribution.json").read_text("utf-8")):
                counts = rows.setdefault(row["gold"], {})
                for predicted, number in row["predicted"]:
                    counts[predicted] = counts.get(predicted, 0) + number
    return found


def _scores(label: str, artifact: Artifact) -> Iterator[Score]:
    stage, *rest = label.split("/")
    if stage == "finetune":
        english, vocabulary = False, "en" if rest[0] == "source" else "ko"
    elif stage == "language_loss":
        english, vocabulary, rest = True, rest[0], rest[1:]
    else:
        return
    *model, benchmark, seed = rest
    metrics = json.loads((artifact.path / "metrics.json").read_text("utf-8"))
    first = metrics["metric"]
    for name in sorted(metrics["test"], key=lambda name: (name != first, name)):
        value = metrics["test"][name]
        yield Score(
            "/".join(model), vocabulary, english, benchmark, metrics["task"], name, int(seed), float(value), artifact.name
        )
