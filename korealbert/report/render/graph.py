"""A graph drawn from top to bottom: boxes in layers, each below all that it was made from."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from korealbert.report.render.markup import Svg, join, tag, text, wrapped

_BOX_WIDTH, _LINE, _PADDING = 200.0, 16.0, 10.0
_INSIDE = _BOX_WIDTH - 2 * _PADDING
_BESIDE, _BELOW = 18.0, 34.0
"""Units between the boxes of a layer, and between layers."""

_MOST_BESIDE = 5
"""Boxes of a row; a layer of more has several rows. As many fit a page of 1,300 pixels."""


@dataclass(frozen=True)
class Box:
    """A node: its label, further lines below, and the target of its link (empty: none); a stack is several artifacts."""

    label: str
    lines: Sequence[str]
    link: str = ""
    stack: bool = False


def layered(boxes: Sequence[Box], above: Mapping[str, set[str]], *, label: str) -> Svg:
    """The graph; ``above`` has, for each label, those that it was made from. Arrows that a longer way implies are left out."""
    parents = reduced({box.label: above.get(box.label, set()) for box in boxes})
    layers = _layers(boxes, parents)
    places = _places(layers, parents)
    width = max(len(layer) for layer in layers) * (_BOX_WIDTH + _BESIDE) - _BESIDE
    left = {name: 1 + x * (_BOX_WIDTH + _BESIDE) for name, x in places.items()}
    top, height, bottom = dict[str, float](), dict[str, float](), -_BELOW
    for layer in layers:
        lines = max(len(_lines_of_label(box)) + len(box.lines) for box in layer)
        own = _PADDING * 2 + _LINE * lines - 4
        top |= {box.label: bottom + _BELOW for box in layer}
        height |= {box.label: own for box in layer}
        bottom += _BELOW + own
    body: list[Markup] = []
    for name, found in parents.items():
        for parent in sorted(found):
            x1, y1 = left[parent] + _BOX_WIDTH / 2, top[parent] + height[parent]
            x2, y2 = left[name] + _BOX_WIDTH / 2, top[name] - 5
            bend = max(_BELOW * 0.6, (y2 - y1) * 0.5)
            path = f"M{x1:.1f} {y1:.1f}C{x1:.1f} {y1 + bend:.1f} {x2:.1f} {y2 - bend:.1f} {x2:.1f} {y2:.1f}"
            body.append(tag("path", class_="edge", d=path))
            body.append(tag("path", class_="edge-head", d=f"M{x2 - 4:.1f} {y2 - 1:.1f}h8l-4 6z"))
    body += [_drawn(box, left[box.label], top[box.label], height[box.label]) for box in boxes]
    return Svg(bottom + 4, label, join(*body), width=width + 6)


def _drawn(box: Box, x: float, y: float, height: float) -> Markup:
    body: list[Markup] = []
    if box.stack:
        body.append(tag("rect", class_="box", x=x + 4, y=y + 4, width=_BOX_WIDTH, height=height, rx=7))
    body.append(tag("rect", class_="box", x=x, y=y, width=_BOX_WIDTH, height=height, rx=7))
    label = _lines_of_label(box)
    for number, line in enumerate([*label, *box.lines]):
        kind, width = ("value", _INSIDE) if number < len(label) else ("tick", _INSIDE * 12 / 11)
        body.append(text(x + _PADDING, y + _PADDING + 10 + number * _LINE, line, kind=kind, width=width))
    return tag("a", *body, class_="node", href=box.link) if box.link else tag("g", *body, class_="node")


def _lines_of_label(box: Box) -> list[str]:
    """The label on as many lines as it needs, broken behind slashes."""
    return wrapped(re.split("(?<=/)", box.label), _INSIDE)


def reduced(above: Mapping[str, set[str]]) -> dict[str, set[str]]:
    """The same order with the fewest arrows: without those to what another parent was made from too.

    ``above`` has, for each node, those that it was made from. Of nodes in a circle, which only stacks form, some arrow stays.
    """
    known: dict[str, set[str]] = {}

    def before(name: str) -> set[str]:
        if name not in known:
            known[name] = set()  # Stacks may feed each other; a circle ends here.
            known[name] = set().union(*(before(parent) | {parent} for parent in above[name])) - {name}
        return known[name]

    return {
        name: {one for one in found if not any(one in before(other) for other in found - {one})}
        for name, found in above.items()
    }


def _layers(boxes: Sequence[Box], parents: Mapping[str, set[str]]) -> list[list[Box]]:
    """Each box as low as its downstream boxes allow, so that arrows are short; boxes without any, high."""
    depth: dict[str, int] = {}

    def down(name: str) -> int:
        if name not in depth:
            depth[name] = 0
            depth[name] = max((down(parent) + 1 for parent in parents[name]), default=0)
        return depth[name]

    for box in boxes:
        down(box.label)
    children: dict[str, list[str]] = {box.label: [] for box in boxes}
    for name, found in parents.items():
        for parent in found:
            children[parent].append(name)
    for name in sorted(depth, key=lambda name: -depth[name]):
        if children[name]:
            depth[name] = max(depth[name], min(depth[child] for child in children[name]) - 1)
    rows = []
    for level in sorted(set(depth.values())):
        layer = [box for box in boxes if depth[box.label] == level]
        rows += [layer[start : start + _MOST_BESIDE] for start in range(0, len(layer), _MOST_BESIDE)]
    return rows


def _places(layers: Sequence[Sequence[Box]], parents: Mapping[str, set[str]]) -> dict[str, float]:
    """Position of each box in its row, in boxes from the left: ordered by its parents' middle, each row centred."""
    widest = max(len(layer) for layer in layers)
    places: dict[str, float] = {}

    def middle(box: Box) -> float:
        found = [places[parent] for parent in parents[box.label] if parent in places]
        return sum(found) / len(found) if found else widest / 2

    for layer in layers:
        ordered = sorted(layer, key=middle)
        places |= {box.label: (widest - len(layer)) / 2 + number for number, box in enumerate(ordered)}
    return places
