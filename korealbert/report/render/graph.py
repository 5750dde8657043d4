"""Draw a graph from top to bottom: boxes in layers, each below its inputs."""

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

_MAX_BOXES_PER_ROW = 5
"""Larger layers have several rows. This many boxes fit a page of 1,300 pixels."""


@dataclass(frozen=True)
class Box:
    """A node: its label, further lines, and the target of its link (empty: none). A stack stands for several artifacts."""

    label: str
    lines: Sequence[str]
    link: str = ""
    stack: bool = False


def layered(boxes: Sequence[Box], above: Mapping[str, set[str]], *, label: str) -> Svg:
    """Draw the graph; ``above`` has the inputs of each label. Arrows that a longer path implies are left out."""
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
    """Break the label after slashes into as many lines as it needs."""
    return wrapped(re.split("(?<=/)", box.label), _INSIDE)


def reduced(above: Mapping[str, set[str]]) -> dict[str, set[str]]:
    """Return the transitive reduction: the inputs of each node without those that are also ancestors of another input.

    ``above`` has the inputs of each node. Nodes in a cycle, which only stacks can form, keep at least one arrow.
    """
    known: dict[str, set[str]] = {}

    def ancestors(name: str) -> set[str]:
        if name not in known:
            known[name] = set()  # Ends the recursion in a cycle.
            known[name] = set().union(*(ancestors(parent) | {parent} for parent in above[name])) - {name}
        return known[name]

    return {
        name: {parent for parent in parents if not any(parent in ancestors(other) for other in parents - {parent})}
        for name, parents in above.items()
    }


def _layers(boxes: Sequence[Box], parents: Mapping[str, set[str]]) -> list[list[Box]]:
    """Place each box directly above the highest of its downstream boxes, which keeps arrows short, and others directly below
    their inputs."""
    depth: dict[str, int] = {}

    def set_depth(name: str) -> int:
        if name not in depth:
            depth[name] = 0
            depth[name] = max((set_depth(parent) + 1 for parent in parents[name]), default=0)
        return depth[name]

    for box in boxes:
        set_depth(box.label)
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
        rows += [layer[start : start + _MAX_BOXES_PER_ROW] for start in range(0, len(layer), _MAX_BOXES_PER_ROW)]
    return rows


def _places(layers: Sequence[Sequence[Box]], parents: Mapping[str, set[str]]) -> dict[str, float]:
    """Return how many boxes are left of each box. Rows are centred and ordered by the mean place of the inputs."""
    widest = max(len(layer) for layer in layers)
    places: dict[str, float] = {}

    def middle(box: Box) -> float:
        found = [places[parent] for parent in parents[box.label] if parent in places]
        return sum(found) / len(found) if found else widest / 2

    for layer in layers:
        ordered = sorted(layer, key=middle)
        places |= {box.label: (widest - len(layer)) / 2 + number for number, box in enumerate(ordered)}
    return places
