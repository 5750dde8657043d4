"""Curves and facts of the trainings of two sides."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import product
from typing import Any

from korealbert.artifact import Artifact
from korealbert.formatting import compact, count, duration, fixed, percent
from korealbert.recipe.comparison.sides import Side, built_in_both
from korealbert.report.render import charts
from korealbert.report.render.blocks import Block, Figure, Figures, Table
from korealbert.report.sections.learning import OBJECTIVES, points, training_lines

_Lines = Sequence[dict[str, Any]]
"""Lines of ``metrics.jsonl``."""
_Curve = Sequence[tuple[float, float]]
"""Steps and values."""

_TABULATED_STEPS = 8
"""Steps of a curve that a table shows."""

_FACTS: tuple[tuple[str, str, Callable[[float], str]], ...] = (
    ("Parameters", "parameters", compact),
    ("Steps", "steps", count),
    ("Tokens", "tokens", compact),
    ("Tokens a second", "tokens_per_second", compact),
)
"""Title, name and format of the statistics that are shown."""


def curves(first: Side, second: Side) -> list[Block]:
    """Return tables and drawings of the trainings that both sides have, unless their bytes are the same."""
    blocks: list[Block] = []
    for label, pair in built_in_both(first, second).items():
        lines = [training_lines(artifact) for artifact in pair]
        if all(lines) and pair[0].output_digest != pair[1].output_digest:
            names = [first.name, second.name]
            blocks += [_facts(label, names, pair), *_drawn(label, dict(zip(names, lines, strict=True)))]
    return blocks


def _facts(label: str, names: Sequence[str], trainings: Sequence[Artifact]) -> Table:
    """Return a table of size, volume, speed and time."""
    rows = [[title, *(shown(training.stats.get(key) or 0) for training in trainings)] for title, key, shown in _FACTS]
    rows.append(["Time", *(duration(training.manifest["wall_seconds"]) for training in trainings)])
    return Table(label, ["", *names], rows, frozenset({1, 2}))


def _drawn(label: str, lines_by_side: Mapping[str, _Lines]) -> list[Block]:
    """Plot the curves of both sides together for each objective, and tabulate the MLM ones."""
    figures, tables = [], []
    for (key, title), kind in product(OBJECTIVES.items(), ("loss", "accuracy")):
        rows, found = _known(f"{key}_{kind}", lines_by_side)
        if not all(found.values()):
            continue
        drawn = [charts.Line(name, curve, style) for style, (name, curve) in enumerate(found.items(), 1)]
        caption = f"{title}: {kind}, {rows}"
        svg = charts.lines(drawn, label=f"{label}, {caption}", x_unit="steps", share=kind == "accuracy")
        figures.append(Figure(f"{label.replace('/', '-')}-{key}-{kind}", caption, svg))
        if key == "mlm":
            tables.append(_tabulated(caption, found, percent if kind == "accuracy" else fixed))
    return [Figures(figures), *tables] if figures else []


def _known(measure: str, lines_by_side: Mapping[str, _Lines]) -> tuple[str, Mapping[str, _Curve]]:
    """Return the curves of a measure by side, on held-out rows if both sides have one there, else in training; and where."""
    heldout, train = (
        {name: points(lines, split, measure) for name, lines in lines_by_side.items()} for split in ("heldout", "train")
    )
    return ("held out", heldout) if all(heldout.values()) else ("training", train)


def _tabulated(title: str, curves: Mapping[str, _Curve], shown: Callable[[float | None], str]) -> Table:
    """Return a table of evenly spaced steps of the curves."""
    values = [dict(curve) for curve in curves.values()]
    steps = sorted({step for curve in values for step in curve})
    last = len(steps) - 1
    chosen = sorted({steps[round(place * last / (_TABULATED_STEPS - 1))] for place in range(_TABULATED_STEPS)})
    rows = [[count(step), *(shown(curve.get(step)) for curve in values)] for step in chosen]
    return Table(title, ["Step", *curves], rows, frozenset({1, 2}))
