"""Curves of an ablation: held-out accuracy along the steps (ALBERT, figure 2), and what each layer does (its figure 1)."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence

from korealbert.report.ablation.spec import AblationReportSpec
from korealbert.report.artifacts import Artifacts
from korealbert.report.render import charts
from korealbert.report.render.blocks import Block, Figure, Figures, Section, Text
from korealbert.report.sections.learning import OBJECTIVES, points, training_lines

_MEASURES = {
    "l2": ("Distance between the input and the output of a layer", "L2 distance"),
    "degrees": ("Angle between the input and the output of a layer", "degrees"),
}
"""Title and unit of what ``layers.json`` holds."""


def section(spec: AblationReportSpec, artifacts: Artifacts) -> Section | None:
    """Accuracy on the held-out rows of each row's own views along the steps, the mean over pretraining seeds."""
    figures = []
    for key, name in OBJECTIVES.items():
        found = {row.label: _mean_curve(artifacts, row.key, f"{key}_accuracy") for row in spec.rows}
        if any(found.values()):
            svg = charts.lines(_lines(found), label=f"{name}: held-out accuracy along the steps", x_unit="steps", share=True)
            figures.append(Figure(f"curve-{key}", f"{name}: accuracy on held-out rows", svg))
    note = "Each row is scored on the noise of its own views while it trains; a line is the mean over pretraining seeds."
    return _section("curves", "Along the steps", figures, note)


def layers(spec: AblationReportSpec, artifacts: Artifacts) -> Section | None:
    """How far each layer moves the vectors of held-out tokens, by row, the mean over pretraining seeds."""
    measured = {
        row: [a.read_json("layers.json") for a in artifacts.of(f"intrinsic/{row.key}").values() if a.files("layers.json")]
        for row in spec.rows
    }
    figures = []
    for kind, (title, unit) in _MEASURES.items():
        found = {
            row.label: [
                (float(layer), statistics.fmean(values))
                for layer, values in enumerate(zip(*(one[kind] for one in of_row), strict=True), start=1)
            ]
            for row, of_row in measured.items()
            if of_row
        }
        if found:
            svg = charts.lines(_lines(found), label=f"{title}, {unit}", x_unit="layer")
            figures.append(Figure(f"layers-{kind}", f"{title}, {unit}", svg))
    note = "Means over all real tokens of the held-out rows, and over pretraining seeds."
    return _section("layers", "What layers change", figures, note)


def _section(name: str, title: str, figures: Sequence[Figure], note: str) -> Section | None:
    blocks: list[Block] = [Figures(figures), Text(note, quiet=True)]
    return Section(name, title, blocks) if figures else None


def _lines(found: Mapping[str, Sequence[tuple[float, float]]]) -> list[charts.Line]:
    return [charts.Line(name, points, 1 + number % charts.STYLES) for number, (name, points) in enumerate(found.items())]


def _mean_curve(artifacts: Artifacts, row: str, name: str) -> list[tuple[float, float]]:
    """Means over the seeds at every step that all of them were scored at."""
    curves = [dict(points(training_lines(run), "heldout", name)) for run in artifacts.of(f"pretrain/{row}").values()]
    steps = sorted(set.intersection(*map(set, curves))) if curves else []
    return [(float(step), statistics.fmean(curve[step] for curve in curves)) for step in steps]
