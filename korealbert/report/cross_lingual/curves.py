"""Figure 3 (training loss over steps, a panel per model) and what it lacks: perplexity, and English over the snapshots."""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import product

from korealbert.artifact import Artifact
from korealbert.formatting import fixed
from korealbert.pretrain.stage import PretrainStats
from korealbert.report.cross_lingual.models import Results, mean
from korealbert.report.render import charts
from korealbert.report.render.blocks import Figure, Figures, Section, Text
from korealbert.report.sections.learning import training_lines
from korealbert.xpt.phases import PHASES

_Points = list[tuple[float, float]]

_MOST_LINES = 3
"""Lines of one drawing: as many as the palette has colours."""


def training(results: Results) -> Section | None:
    """One panel per trained model; phase 2 goes on where phase 1 ends."""
    runs: dict[str, list[Artifact]] = {}
    for variant in results.variants:
        phases = (results.artifacts.get(f"{phase}/{variant}") for phase in PHASES)
        runs[variant] = [artifact for artifact in phases if artifact is not None]
    runs |= {label: [artifact] for label, artifact in results.artifacts.items() if label.startswith("control/")}
    figures = [figure for name, parts in runs.items() if parts for figure in _panels(name, parts)]
    if not figures:
        return None
    text = (
        "As in Figure 3, training loss by step; beside it perplexity of the held-out valid part, in a logarithm to base 10. "
        "The second phase begins where the first ends, with a learning rate that rises anew."
    )
    return Section("curves", "Figure 3: learning curves", [Text(text), Figures(figures)])


def _panels(name: str, parts: list[Artifact]) -> list[Figure]:
    losses: list[charts.Line] = []
    perplexities: list[charts.Line] = []
    offset = 0
    for number, artifact in enumerate(parts, start=1):
        loss: _Points = []
        heldout: _Points = []
        for line in training_lines(artifact):
            step = offset + line["step"]
            if line["split"] == "train" and line.get("mlm_loss") is not None:
                loss.append((step, line["mlm_loss"]))
            if line["split"] == "heldout" and line.get("mlm_loss") is not None:
                heldout.append((step, line["mlm_loss"] / math.log(10)))
        title = f"phase {number}" if len(parts) > 1 else "training"
        losses.append(charts.Line(title, loss, number))
        perplexities.append(charts.Line(title, heldout, number))
        offset += artifact.stats_as(PretrainStats).steps
    key = name.replace("/", "-")
    figures = []
    for kind, series in (("loss", losses), ("perplexity", perplexities)):
        drawn = [line for line in series if line.points]
        if not drawn:
            continue
        end = drawn[-1].points[-1][1]
        shown = fixed(end) if kind == "loss" else fixed(10**end)
        what = "training loss" if kind == "loss" else "held-out perplexity (log10)"
        svg = charts.lines(drawn, label=f"{name}: {what} over steps, {shown} at the end", x_unit="steps")
        figures.append(Figure(f"curve-{key}-{kind}", f"{name}: {what}, {shown} at the end", svg))
    return figures


def language_loss(results: Results) -> Section | None:
    """English scores with the source's vocabulary put back, over the steps of both phases: snapshots, and the end of each."""
    scored = [score for score in results.scores if score.english and score.vocabulary == "en" and "/" in score.model]
    snapshots = [score for score in scored if score.model.count("/") == 2]
    if not snapshots:
        return None
    own = dict(reversed(list(dict.fromkeys((score.task, score.metric) for score in snapshots))))
    variants = [name for name in results.variants if any(score.model.startswith(f"{name}/") for score in snapshots)]
    seeds = {score.seed for score in snapshots}
    figures = []
    for (task, metric), number in product(own.items(), range(0, len(variants), _MOST_LINES)):
        curves = []
        for style, variant in enumerate(variants[number : number + _MOST_LINES], start=1):
            points: dict[float, list[float]] = {}
            for score in scored:
                name, _, place = score.model.partition("/")
                if (name, score.task, score.metric) == (variant, task, metric) and score.seed in seeds:
                    points.setdefault(_step(results.artifacts, place), []).append(score.value)
            curves.append(charts.Line(variant, [(at, sum(v) / len(v)) for at, v in sorted(points.items())], style))
        level = mean(results.values("source", task, metric, english=True))
        ends = "; ".join(f"{curve.name} {fixed(curve.points[-1][1])} at the end" for curve in curves if curve.points)
        beside = "" if level is None else f"; the source {fixed(level)}"
        what = f"{task} {metric}"
        svg = charts.lines(curves, label=f"{what} over the steps of both phases: {ends}{beside}", x_unit="steps", level=level)
        key = f"language-loss-{task}" + (f"-{number // _MOST_LINES + 1}" if number else "")
        figures.append(Figure(key, f"{what}: {ends}{beside}", svg))
    text = (
        "Each snapshot, and the end of each phase where the matrix has it, with its source's vocabulary put back, fine-tuned "
        "under the same seeds; the dashed line is the source itself."
    )
    return Section("language-loss-curve", "English along the way", [Text(text), Figures(figures)])


def _step(artifacts: Mapping[str, Artifact], place: str) -> int:
    """The step, counted over both phases, of ``phase2/500``, or of the end of ``phase2``."""
    phase, _, step = place.partition("/")
    before = _steps(artifacts, "phase1") if phase == "phase2" else 0
    return before + (int(step) if step else _steps(artifacts, phase))


def _steps(artifacts: Mapping[str, Artifact], phase: str) -> int:
    return max((a.stats_as(PretrainStats).steps for label, a in artifacts.items() if label.startswith(f"{phase}/")), default=0)
