"""Bars, histograms, lines, strips of dots and matrices, small enough for several in a row."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from korealbert import formatting
from korealbert.report.render.markup import WIDTH, Svg, join, tag, text, text_width, wrapped

LEFT, RIGHT, TOP, BOTTOM = 42.0, 6.0, 26.0, 34.0
"""Margins of charts with axes, in units."""

_LINE = 15.0
"""Units from one line of a label to the next."""

MAX_BARS = 12
"""Largest number of bars in a drawing; the table next to it has all values."""

MAX_POINTS = 240
"""Largest number of points of a line. More are averaged, since a chart has fewer pixels."""


@dataclass(frozen=True)
class Bar:
    """A labelled value; ``before`` is a grey bar below it."""

    label: str
    value: float
    text: str
    before: float | None = None


def bars(rows: Sequence[Bar], *, label: str) -> Svg:
    """Draw horizontal bars from 0, each below its label and number; these follow ``label`` in the text for screen readers."""
    largest = max((max(row.value, row.before or 0.0) for row in rows), default=0.0) or 1.0
    paired = any(row.before is not None for row in rows)
    pitch = 40 if paired else 34
    body, y = [], 0.0
    for row in rows:
        heading, below = _heading(y + 13, row.label, row.text)
        y += below
        body.append(heading)
        body.append(_bar(y + 19, row.value / largest, "mark-1"))
        if row.before is not None:
            body.append(_bar(y + 27, row.before / largest, "ghost"))
        y += pitch
    listed = "; ".join(f"{row.label} {row.text}" for row in rows)
    return Svg(y, f"{label}: {listed}", join(*body))


def _heading(y: float, label: str, value: str) -> tuple[Markup, float]:
    """Return a row's label at the left and its value at the right, and the height of the label's lines after the first."""
    width = WIDTH - text_width(value) - 12
    lines = wrapped(re.split("(?<=[ /-])", label), width)
    left = [text(0, y + number * _LINE, line, width=width) for number, line in enumerate(lines)]
    return join(*left, text(WIDTH, y, value, kind="value", anchor="end")), (len(lines) - 1) * _LINE


def _bar(y: float, share: float, kind: str) -> Markup:
    track = tag("rect", class_="track", x=0, y=y, width=WIDTH, height=6, rx=3)
    # Small values get a bar of 6 units, so that they differ from 0.
    mark = tag("rect", class_=kind, x=0, y=y, width=max(share * WIDTH, 6), height=6, rx=3) if share > 0 else ""
    return join(track, mark)


def histogram(bins: Sequence[tuple[str, float]], *, label: str, unit: str) -> Svg:
    """Draw vertical bars over named bins; heights are shares of the total."""
    total = sum(value for _, value in bins) or 1.0
    top = max((value / total for _, value in bins), default=0.0) or 1.0
    height, floor = 200.0, 200.0 - BOTTOM
    pitch = (WIDTH - LEFT - RIGHT) / max(1, len(bins))
    scale = _Scale(0.0, top, floor, TOP)
    body = [_y_axis(scale, [tick for tick in ticks(0.0, top, 4) if tick <= top], share=True)]
    every = max(1, math.ceil(max((text_width(name) for name, _ in bins), default=0.0) * 1.25 / pitch))
    for index, (name, value) in enumerate(bins):
        x, y = LEFT + index * pitch, scale(value / total)
        tooltip = tag("title", f"{name}: {formatting.count(value)} ({formatting.percent(value / total)})")
        shape = tag("rect", tooltip, class_="mark-1", x=x + 0.5, y=y, width=max(pitch - 1, 0.5), height=max(floor - y, 0.0))
        body.append(shape)
        if index % every == 0:
            body.append(text(x + pitch / 2, floor + 15, name, kind="tick", anchor="middle"))
    body.append(text(WIDTH - RIGHT, height - 3, unit, kind="axis", anchor="end"))
    return Svg(height, label, join(*body))


STYLES = 6
"""Number of line styles."""


@dataclass(frozen=True)
class Line:
    """A named series of (x, y)."""

    name: str
    points: Sequence[tuple[float, float]]
    style: int = 1
    """Colour of the palette and dash pattern: 1 to 6; from 4 on the colours repeat."""


_DOTS = {1: 4.0, 2: 2.8, 3: 1.6, 4: 4.0, 5: 2.8, 6: 1.6}
"""Radius of points by style. They differ, so that coinciding curves are all visible."""


def lines(series: Sequence[Line], *, label: str, x_unit: str, level: float | None = None, share: bool = False) -> Svg:
    """Draw lines over a common x axis from 0; ``level`` is a dashed horizontal line, ``share`` shows y as percentages."""
    drawn = [Line(line.name, thinned(line.points), line.style) for line in series if line.points]
    values = [y for line in drawn for _, y in line.points] + ([level] if level is not None else [])
    x_end = max((x for line in drawn for x, _ in line.points), default=1.0) or 1.0
    low, high = min(values, default=0.0), max(values, default=1.0)
    margin = abs(high) / 50 if low == high else 0.0  # It puts a constant curve into the middle.
    y_ticks = ticks(low - margin, high + margin, 5)
    legend, above = _legend(drawn)
    height = 220.0 + above
    x_scale = _Scale(0.0, x_end, LEFT, WIDTH - RIGHT)
    y_scale = _Scale(y_ticks[0], y_ticks[-1], height - BOTTOM, TOP + above)
    # Steps and epochs get no ticks at fractions.
    only_integers = all(float(x).is_integer() for line in drawn for x, _ in line.points)
    x_ticks = [tick for tick in ticks(0.0, x_end, 4) if tick <= x_end and not (only_integers and tick % 1)]
    body = [_y_axis(y_scale, y_ticks, share=share)]
    for tick in x_ticks:
        anchor = "end" if tick > 0.95 * x_end else "middle"
        body.append(text(x_scale(tick), height - BOTTOM + 15, formatting.compact(tick), kind="tick", anchor=anchor))
    body.append(text(WIDTH - RIGHT, height - 3, x_unit, kind="axis", anchor="end"))
    if level is not None:
        body.append(tag("line", class_="level", x1=LEFT, x2=WIDTH - RIGHT, y1=y_scale(level), y2=y_scale(level)))
    for line in sorted(drawn, key=lambda line: line.style):
        path = "M" + "L".join(f"{x_scale(x):.1f} {y_scale(y):.1f}" for x, y in line.points)
        body.append(tag("path", class_=f"line-{line.style}", d=path))
        if len(line.points) <= 12:
            body += [
                tag("circle", class_=f"mark-{(line.style - 1) % 3 + 1}", cx=x_scale(x), cy=y_scale(y), r=_DOTS[line.style])
                for x, y in line.points
            ]
    return Svg(height, label, join(legend, *body))


def _legend(series: Sequence[Line]) -> tuple[Markup, float]:
    """Return a legend with line samples, and the height of its rows after the first."""
    body, x, y = [], LEFT, 0.0
    for line in series:
        width = 19 + text_width(line.name)
        if x > LEFT and x + width > WIDTH:
            x, y = LEFT, y + 17
        body.append(tag("line", class_=f"line-{line.style}", x1=x, x2=x + 14, y1=y + 9, y2=y + 9))
        body.append(text(x + 19, y + 13, line.name, width=WIDTH - x - 19))
        x += width + 18
    return join(*body), y


@dataclass(frozen=True)
class Strip:
    """A row of single values."""

    label: str
    values: Sequence[tuple[float, str]]
    """Values with their tooltips."""
    text: str
    """Text at the end of the row."""
    style: int = 1
    mean_mark: bool = True


def strips(rows: Sequence[Strip], *, label: str, x_unit: str, levels: Sequence[tuple[float, str]] = ()) -> Svg:
    """Draw a row of dots per strip over a common axis that need not begin at 0, with a tall mark at the mean.

    ``levels`` are values with tooltips, drawn as thin lines in the rows that have a mean mark.
    """
    values = [value for row in rows for value, _ in row.values] + [value for value, _ in levels]
    x_ticks = ticks(min(values, default=0.0), max(values, default=1.0), 5)
    scale = _Scale(x_ticks[0], x_ticks[-1], 6.0, WIDTH - 6.0)
    body: list[Markup] = []
    floor = 4.0
    for row in rows:
        heading, below = _heading(floor + 10, row.label, row.text)
        y = floor + 24 + below
        floor += 46 + below
        body.append(heading)
        body.append(tag("line", class_="track-line", x1=0, x2=WIDTH, y1=y, y2=y))
        if row.mean_mark:
            body += [
                tag("line", tag("title", tip), class_="level-3", x1=scale(value), x2=scale(value), y1=y - 7, y2=y + 7)
                for value, tip in levels
            ]
        body += [
            tag("circle", tag("title", tip), class_=f"dot-{row.style}", cx=scale(value), cy=y, r=4.5)
            for value, tip in row.values
        ]
        if row.mean_mark and len(row.values) > 1:
            mean = scale(math.fsum(value for value, _ in row.values) / len(row.values))
            body.append(tag("line", class_=f"mean-{row.style}", x1=mean, x2=mean, y1=y - 8, y2=y + 8))
    grid = [tag("line", class_="grid", x1=scale(tick), x2=scale(tick), y1=0, y2=floor) for tick in x_ticks]
    for position, tick in enumerate(x_ticks):
        anchor = "start" if position == 0 else "end" if position == len(x_ticks) - 1 else "middle"
        x = {"start": 0.0, "end": float(WIDTH)}.get(anchor, scale(tick))
        body.append(text(x, floor + 15, f"{tick:g}", kind="tick", anchor=anchor))
    body.append(text(WIDTH, floor + 31, x_unit, kind="axis", anchor="end"))
    return Svg(floor + 34, label, join(*grid, *body))


def matrix(labels: Sequence[str], counts: Sequence[Sequence[int]], *, label: str) -> Svg:
    """Draw a confusion matrix with gold labels as rows and predicted labels as columns, shaded by shares of the row.

    If a label is wider than its column, those of every second column are a line lower.
    """
    left = min(120.0, max(text_width(name) for name in labels) + 8)
    side = (WIDTH - left) / len(labels)
    height = min(side, 26.0)
    numbered = side >= text_width("100")
    body = []
    for row, (name, values) in enumerate(zip(labels, counts, strict=True)):
        y, total = row * height, sum(values)
        body.append(text(left - 6, y + height / 2 + 4, name, anchor="end", width=left - 6))
        for column, value in enumerate(values):
            share = value / total if total else 0.0
            tip = tag("title", f"{name} → {labels[column]}: {formatting.count(value)} ({formatting.percent(share)})")
            x = left + column * side
            body.append(tag("rect", class_="track", x=x, y=y, width=side - 1, height=height - 1))
            opacity = round(_DEEPEST * share**0.5, 3)  # The square root makes rare confusions visible.
            body.append(tag("rect", tip, class_="mark-1", x=x, y=y, width=side - 1, height=height - 1, fill_opacity=opacity))
            if numbered and value:
                body.append(text(x + side / 2, y + height / 2 + 4, f"{share * 100:.0f}", anchor="middle"))
    floor = len(labels) * height
    if not numbered:
        return Svg(floor + 20, label, join(*body))
    fit = side * 12 / 11  # Ticks have 11 of a label's 12 units.
    lines = 2 if max(map(text_width, labels)) > fit else 1
    for column, name in enumerate(labels):
        x, y = left + (column + 0.5) * side, floor + 13 + column % lines * _LINE
        body.append(text(x, y, name, kind="tick", anchor="middle", width=fit * lines))
    return Svg(floor + 20 + (lines - 1) * _LINE, label, join(*body))


_DEEPEST = 0.48
"""Opacity of the darkest cell of a matrix. A number on it has a contrast of 4.5 or more, in light and in dark mode."""


@dataclass(frozen=True)
class _Scale:
    """Linear map from values to units."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        return self.start + (value - self.low) / ((self.high - self.low) or 1.0) * (self.end - self.start)


def _y_axis(scale: _Scale, at: Sequence[float], *, share: bool) -> Markup:
    body = []
    for tick in at:
        y = scale(tick)
        name = f"{tick * 100:g} %" if share else f"{tick:g}"
        body.append(tag("line", class_="grid", x1=LEFT, x2=WIDTH - RIGHT, y1=y, y2=y))
        body.append(text(LEFT - 6, y + 4, name, kind="tick", anchor="end"))
    return join(*body)


def ticks(low: float, high: float, about: int) -> list[float]:
    """Return roughly ``about`` round numbers, at least two, that include ``low`` and ``high`` in their range."""
    span = (high - low) or abs(high) or 1.0
    power = 10.0 ** math.floor(math.log10(span / about))
    step = next(power * factor for factor in (1, 2, 2.5, 5, 10) if span / (power * factor) <= about)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    # Rounding removes floating-point errors: 3 * 0.1 is 0.30000000000000004.
    return [round(index * step, 12) for index in range(first, max(last, first + 1) + 1)]


def thinned(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Average neighbouring points to about ``MAX_POINTS`` at most; the last point is kept."""
    width = math.ceil(len(points) / MAX_POINTS)
    if width <= 1:
        return list(points)
    groups = [points[start : start + width] for start in range(0, len(points) - 1, width)]
    means = [(math.fsum(x for x, _ in g) / len(g), math.fsum(y for _, y in g) / len(g)) for g in groups]
    return [*means, points[-1]]
