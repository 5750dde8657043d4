"""A graph of stages, and the parts of it that a name selects."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from korealbert.artifact import Spec, Stage
from korealbert.formatting import nearest
from korealbert.recipe.tables import RecipeError


@dataclass(frozen=True)
class Node:
    """One stage of a recipe's graph."""

    label: str
    """The stage's name within the recipe: ``extract/news``, ``vocab``, ``finetune/nsmc/random/2``."""
    stage: Stage[Any]
    spec: Spec
    inputs: Mapping[str, str] = field(default_factory=dict)
    """Labels of its inputs, by role."""


class Nodes:
    """A graph under construction. Every stage is added after its inputs."""

    def __init__(self) -> None:
        self.by_label: dict[str, Node] = {}

    def add(self, label: str, stage: Stage[Any], spec: Spec, /, **inputs: str) -> str:
        """Add a stage with the labels of its inputs by role; return its label. Raises RecipeError if another stage has it."""
        node = Node(label, stage, spec, inputs)
        if self.by_label.setdefault(label, node) != node:
            raise RecipeError(f"two stages would be {label!r}; rename a cell, noise or table that is part of this label")
        return label


def select(nodes: Mapping[str, Node], name: str, *, option: str) -> list[str]:
    """Return the labels that a name selects: the label itself, or all labels below it (``clean`` selects every ``clean/…``).

    Raises RecipeError, which names ``option`` and the nearest valid name, if there are none.
    """
    labels = [label for label in nodes if label == name or label.startswith(f"{name}/")]
    if not labels:
        known = sorted({*nodes, *(label.split("/")[0] for label in nodes)})
        raise RecipeError(f"{option}: the recipe has no stage {name!r}{nearest(name, known)}; stages: {', '.join(known)}")
    return labels


def downstream(nodes: Mapping[str, Node], labels: Iterable[str]) -> set[str]:
    """Return these labels and those of all downstream stages."""
    found = set(labels)
    for label, node in nodes.items():  # Inputs come first.
        if found & set(node.inputs.values()):
            found.add(label)
    return found


def until(nodes: Mapping[str, Node], target: str | None) -> dict[str, Node]:
    """Return the part of the graph that ``target`` depends on, in the same order, or all of it if ``target`` is None.

    Raises RecipeError if ``target`` selects nothing.
    """
    if target is None:
        return dict(nodes)
    needed: set[str] = set()
    frontier = select(nodes, target, option="until")
    while frontier:
        label = frontier.pop()
        if label not in needed:
            needed.add(label)
            frontier += nodes[label].inputs.values()
    return {label: node for label, node in nodes.items() if label in needed}
