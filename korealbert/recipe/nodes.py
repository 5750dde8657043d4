"""A graph of stages, and the parts of it that names mean."""

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
    """Labels of the stages it reads, by role."""


class Nodes:
    """A graph that is being made, every stage after those it reads."""

    def __init__(self) -> None:
        self.by_label: dict[str, Node] = {}

    def add(self, label: str, stage: Stage[Any], spec: Spec, /, **inputs: str) -> str:
        """Add one stage with the labels of its inputs by role; returns its label."""
        self.by_label[label] = Node(label, stage, spec, inputs)
        return label


def select(nodes: Mapping[str, Node], name: str, *, option: str) -> list[str]:
    """The labels that a name means: a label itself, or all labels below it (``clean`` means every ``clean/…``).

    Raises RecipeError with the nearest valid name when it means nothing; ``option`` is named in the message.
    """
    labels = [label for label in nodes if label == name or label.startswith(f"{name}/")]
    if not labels:
        known = sorted({*nodes, *(label.split("/")[0] for label in nodes)})
        raise RecipeError(f"{option}: the recipe has no stage {name!r}{nearest(name, known)}; stages: {', '.join(known)}")
    return labels


def onward(nodes: Mapping[str, Node], labels: Iterable[str]) -> set[str]:
    """These labels, and those of all downstream stages."""
    found = set(labels)
    for label, node in nodes.items():  # Inputs come before what reads them.
        if found & set(node.inputs.values()):
            found.add(label)
    return found


def until(nodes: Mapping[str, Node], target: str | None) -> dict[str, Node]:
    """The part of the graph that is needed to build ``target`` (all of it for None), in the same order.

    Raises RecipeError when ``target`` means nothing.
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
