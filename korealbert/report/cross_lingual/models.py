"""Results of a post-training by model: scores, learning curves, distributions of predictions."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from korealbert.artifact import Artifact
from korealbert.finetune.scores.analysis import Distribution
from korealbert.formatting import MISSING, fixed, mean_and_sd, spread
from korealbert.pretrain.stage import PretrainStats
from korealbert.report import scores
from korealbert.report.render import charts
from korealbert.report.render.blocks import Figure, Figures, Section, Text
from korealbert.report.scores import Benchmark, Cell
from korealbert.report.sections.learning import points, training_lines
from korealbert.xpt.phases import PHASES

ENCODER = "encoder/"
"""Prefix of systems that are other encoders, before their names."""
PHASE_TITLES = {"phase1": "Phase 1", "phase2": "Phase 2"}
ENGLISH = "language_loss/"
"""Prefix of systems that are tested on English, before the vocabulary that they use."""


@dataclass(frozen=True)
class Score:
    """One value of one fine-tuning run."""

    model: str
    """``itl/phase2``, ``control/mlm``, ``source``, ``encoder/NAME``, or ``itl/phase1/500`` for a snapshot."""
    vocabulary: str
    """Language of the model's vocabulary, ``ko`` or ``en``: on Korean benchmarks ``ko``, except for the source. Empty for other
    encoders."""
    english: bool
    """Whether the benchmark is in English, to measure language loss."""
    benchmark: str
    """Name in the recipe, with the head if it is not the task's own."""
    task: str
    metric: str
    seed: int
    value: float | None
    """Test score × 100; None if the official script prints ``nan``."""
    artifact: str
    note: str
    """Part of the official examples that was tested, and why there is no value; usually empty."""


class Results:
    """Scores of a run."""

    def __init__(self, artifacts: Mapping[str, Artifact]) -> None:
        self.artifacts = artifacts
        self.benchmarks = scores.read(self._of("finetune"), self._of("summary"))
        self.scores = [score for benchmark in self.benchmarks for cell in benchmark.cells for score in _scores(benchmark, cell)]

    def _of(self, stage: str) -> dict[str, Artifact]:
        return {label: artifact for label, artifact in self.artifacts.items() if label.startswith(f"{stage}/")}

    @property
    def models(self) -> list[str]:
        """Models with a Korean score, in the order of the DAG."""
        return list(dict.fromkeys(score.model for score in self.scores if not score.english))

    def of_language(self, *, english: bool) -> list[Benchmark]:
        """Return the English or the Korean benchmarks."""
        return [b for b in self.benchmarks if b.cells[0].system.startswith(ENGLISH) == english]

    @property
    def variants(self) -> list[str]:
        """Names of the transferred models."""
        return [label.split("/")[1] for label in self.artifacts if label.startswith("transfer/")]

    @property
    def korean_benchmarks(self) -> list[tuple[str, str]]:
        """Benchmark and metric of all Korean scores; a benchmark's main metric is its first."""
        return list(dict.fromkeys((score.benchmark, score.metric) for score in self.scores if not score.english))

    def values(
        self, model: str, task: str, metric: str, *, english: bool = False, vocabulary: str | None = None
    ) -> list[float | None]:
        """Return a model's scores on a task by seed, on the recipe's first benchmark of that task."""
        found = [
            s
            for s in self.scores
            if (s.model, s.task, s.metric, s.english) == (model, task, metric, english)
            and (vocabulary is None or s.vocabulary == vocabulary)
        ]
        return [s.value for s in sorted(found, key=lambda s: s.seed) if s.benchmark == found[0].benchmark]

    def of_benchmark(self, model: str, benchmark: str, metric: str, *, english: bool = False) -> list[float | None]:
        """Return a model's scores on a benchmark of the recipe by seed."""
        wanted = (model, benchmark, metric, english)
        found = [s for s in self.scores if (s.model, s.benchmark, s.metric, s.english) == wanted]
        return [s.value for s in sorted(found, key=lambda s: s.seed)]

    def transfer_of(self, variant: str) -> Mapping[str, Any]:
        """Return the settings of a variant."""
        spec: Mapping[str, Any] = self.artifacts[f"transfer/{variant}"].manifest["spec"]
        return spec

    def title(self, model: str) -> str:
        """Return a model's name for people: ``itl, Phase 1``."""
        if model.startswith(ENCODER):
            return model.removeprefix(ENCODER)
        name, _, rest = model.partition("/")
        if name == "control":
            return f"{rest}, from scratch"
        return f"{name}, {PHASE_TITLES[rest]}" if rest in PHASE_TITLES else model

    def system_title(self, system: str) -> str:
        """Return a system's name for people: ``itl, Phase 1, Vocab-En``."""
        model, vocabulary, english = _parts(system)
        title = self.title(model)
        return f"{title}, Vocab-{vocabulary.title()}" if english and model != "source" else title


def shown(values: Sequence[float | None]) -> str:
    """Return mean and deviation over seeds, a dash without seeds, or the number of seeds with an undefined score."""
    defined = [value for value in values if value is not None]
    if missing := len(values) - len(defined):
        return scores.undefined_for(missing, scores.seeds(len(values)) if defined else "")
    return spread(defined) if defined else MISSING


def mean(values: Sequence[float | None]) -> float | None:
    """Return the mean over seeds, or None without seeds or with an undefined score."""
    defined = [value for value in values if value is not None]
    return mean_and_sd(defined)[0] if defined and len(defined) == len(values) else None


def distributions(results: Results, task: str) -> dict[str, Distribution]:
    """Return predictions by model and gold label from ``analysis.json``, summed over seeds, on each model's first Korean
    benchmark of the task."""
    summed: dict[str, dict[str, Counter[str]]] = {}
    read: dict[str, str] = {}
    for benchmark in results.benchmarks:
        for cell in benchmark.cells if benchmark.task == task else ():
            model, _, english = _parts(cell.system)
            if not english and read.setdefault(model, benchmark.name) == benchmark.name:
                found = cell.artifact.read_json("analysis.json")
                for gold, row in found["dist"].items():
                    summed.setdefault(model, {}).setdefault(gold, Counter()).update(row)
    return {model: {gold: dict(row) for gold, row in rows.items()} for model, rows in summed.items()}


def _parts(system: str) -> tuple[str, str, bool]:
    """Return a system's model, the language of its vocabulary, and whether it is tested on English."""
    name = system.removesuffix("/pretrained")
    if name.startswith(ENGLISH):
        vocabulary, _, model = name.removeprefix(ENGLISH).partition("/")
        return model, vocabulary, True
    return name, "" if name.startswith(ENCODER) else "en" if name == "source" else "ko", False


def _scores(benchmark: Benchmark, cell: Cell) -> Iterator[Score]:
    model, vocabulary, english = _parts(cell.system)
    named = benchmark.name_with_head, benchmark.task
    for metric in benchmark.metrics:
        why = cell.undefined(metric)
        value = None if why else float(cell.metrics["test"][metric])
        note = scores.note_of(benchmark.part, undefined=why)
        yield Score(model, vocabulary, english, *named, metric, cell.seed, value, cell.artifact.name, note)


_MAX_LINES, _MAX_MODELS = 3, 6
"""Maximum number of lines in a drawing: the number of colours in the palette, and that of colours with dash patterns."""


def training(results: Results) -> Section | None:
    """Draw the curves of each trained model; phase 2 continues where phase 1 ends."""
    runs = _runs(results)
    figures = [*_same_time(runs), *(figure for name, parts in runs.items() for figure in _panels(name, parts))]
    if not figures:
        return None
    text = (
        "As in Figure 3, training loss by step; next to it the perplexity on the held-out valid part, as a logarithm to base "
        "10. The second phase begins where the first ends, with a new warm-up of the learning rate. Before them, models whose "
        "steps had a time limit are drawn together over this time."
    )
    return Section("curves", "Figure 3: learning curves", [Text(text), Figures(figures)])


def _runs(results: Results) -> dict[str, list[Artifact]]:
    """Return the trained models by name, each with its phases."""
    runs = {name: [results.artifacts.get(f"{phase}/{name}") for phase in PHASES] for name in results.variants}
    trained = {name: [phase for phase in phases if phase is not None] for name, phases in runs.items()}
    trained |= {label: [artifact] for label, artifact in results.artifacts.items() if label.startswith("control/")}
    return {name: parts for name, parts in trained.items() if parts}


def _same_time(runs: Mapping[str, list[Artifact]]) -> list[Figure]:
    """Draw the models whose steps had a time limit over this time, up to six in a drawing; nothing if there is one alone."""
    curves = []
    for name, parts in runs.items():
        begin, curve = 0.0, []
        for artifact in parts:
            stats = artifact.stats_as(PretrainStats)
            if stats.seconds is None:
                break
            heldout = points(training_lines(artifact), "heldout", "mlm_loss")
            curve += [(begin + stats.seconds * step / max(1, stats.steps), loss / math.log(10)) for step, loss in heldout]
            begin += stats.seconds
        else:
            curves.append((name, curve))
    figures = []
    for first in range(0, len(curves) if len(curves) > 1 else 0, _MAX_MODELS):
        drawn = [charts.Line(name, curve, n) for n, (name, curve) in enumerate(curves[first : first + _MAX_MODELS], start=1)]
        title = "the same time: perplexity on the valid part (log10)"
        svg = charts.lines(drawn, label=f"{title} over seconds of steps", x_unit="seconds")
        figures.append(Figure("curve-same-time", title, svg))
    return figures


def _panels(name: str, parts: list[Artifact]) -> list[Figure]:
    losses: list[charts.Line] = []
    perplexities: list[charts.Line] = []
    offset = 0
    for number, artifact in enumerate(parts, start=1):
        records = training_lines(artifact)
        loss = [(offset + step, value) for step, value in points(records, "train", "mlm_loss")]
        heldout = [(offset + step, value / math.log(10)) for step, value in points(records, "heldout", "mlm_loss")]
        title = f"phase {number}" if len(parts) > 1 else "training"
        losses.append(charts.Line(title, loss, number))
        perplexities.append(charts.Line(title, heldout, number))
        offset += artifact.stats_as(PretrainStats).steps
    figures = []
    for kind, what, series in (
        ("loss", "training loss", losses),
        ("perplexity", "held-out perplexity (log10)", perplexities),
    ):
        drawn = [line for line in series if line.points]
        if not drawn:
            continue
        _, end = drawn[-1].points[-1]
        shown = fixed(end if kind == "loss" else 10**end)
        svg = charts.lines(drawn, label=f"{name}: {what} over steps, {shown} at the end", x_unit="steps")
        figures.append(Figure(f"curve-{name}-{kind}", f"{name}: {what}, {shown} at the end", svg))
    return figures


def language_loss(results: Results) -> Section | None:
    """Draw English scores with the source's vocabulary over the steps of both phases: at snapshots, and at each end."""
    scored = [score for score in results.scores if score.english and score.vocabulary == "en" and "/" in score.model]
    snapshots = [score for score in scored if score.model.count("/") == 2]
    if not snapshots:
        return None
    drawn_of_task: dict[str, tuple[str, str]] = {}  # Its first benchmark, and the main metric of it, which comes first.
    for score in snapshots:
        drawn_of_task.setdefault(score.task, (score.benchmark, score.metric))
    variants = [name for name in results.variants if any(score.model.startswith(f"{name}/") for score in snapshots)]
    seeds = {score.seed for score in snapshots}
    figures = []
    for (task, (benchmark, metric)), first in product(drawn_of_task.items(), range(0, len(variants), _MAX_LINES)):
        found = [score for score in scored if (score.benchmark, score.metric) == (benchmark, metric) and score.seed in seeds]
        drawn = variants[first : first + _MAX_LINES]
        curves = [_curve(results, variant, found, style) for style, variant in enumerate(drawn, start=1)]
        level = mean(results.of_benchmark("source", benchmark, metric, english=True))
        ends = "; ".join(f"{curve.name} {fixed(curve.points[-1][1])} at the end" for curve in curves if curve.points)
        source = "" if level is None else f"; the source {fixed(level)}"
        what = f"{task} {metric}"
        svg = charts.lines(curves, label=f"{what} over the steps of both phases: {ends}{source}", x_unit="steps", level=level)
        figures.append(Figure(f"language-loss-{task}", f"{what}: {ends}{source}", svg))
    text = (
        "Each snapshot, and the end of each phase where it was tested, with the source's vocabulary restored, fine-tuned "
        "with the same seeds; the dashed line is the source itself."
    )
    return Section("language-loss-curve", "English during post-training", [Text(text), Figures(figures)])


def _curve(results: Results, variant: str, found: Sequence[Score], style: int) -> charts.Line:
    """Return the mean scores of a variant over the steps of both phases; undefined scores are left out."""
    by_step: dict[int, list[float]] = {}
    for score in found:
        name, _, place = score.model.partition("/")
        if name == variant and score.value is not None:
            by_step.setdefault(_step(results.artifacts, place), []).append(score.value)
    return charts.Line(variant, [(step, sum(values) / len(values)) for step, values in sorted(by_step.items())], style)


def _step(artifacts: Mapping[str, Artifact], place: str) -> int:
    """Return the step of ``phase2/500``, or of the end of ``phase2``, counted from the start of phase 1."""
    phase, _, step = place.partition("/")
    before = _steps(artifacts, "phase1") if phase == "phase2" else 0
    return before + (int(step) if step else _steps(artifacts, phase))


def _steps(artifacts: Mapping[str, Artifact], phase: str) -> int:
    return max((a.stats_as(PretrainStats).steps for label, a in artifacts.items() if label.startswith(f"{phase}/")), default=0)
