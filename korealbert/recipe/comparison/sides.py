"""The two sides of a comparison: a recipe with its artifacts in the store, the report of a run, or an artifact with its
ancestors. Stages are matched by label."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from korealbert.artifact import Artifact, Store, ancestors
from korealbert.recipe.planning import prepare
from korealbert.recipe.registry import ABLATION, CROSS_LINGUAL, REPORT

_REPORTS = {REPORT.name, ABLATION.name, CROSS_LINGUAL.name}
_MAX_NAME_CHARACTERS = 14
"""Longer names do not fit above a column; the sides are then called A and B."""


@dataclass(frozen=True)
class ComparedStage:
    """One stage of a side."""

    recipe: Mapping[str, Any]
    """The document that its identity is the hash of: stage, version, spec, inputs."""
    spec: Mapping[str, Any]
    """Its settings in readable form."""
    artifact: Artifact | None
    """None if it is not built."""


@dataclass(frozen=True)
class Side:
    """One of the two things that are compared."""

    name: str
    stages: Mapping[str, ComparedStage]
    """By label."""
    root: str = ""
    """The label of the given artifact; "" for a recipe."""
    store: Path | None = None
    """The directory of the store; None if the side is not a recipe."""

    def artifacts(self) -> dict[str, Artifact]:
        """Return the artifacts of the stages that are built, by label."""
        return {label: stage.artifact for label, stage in self.stages.items() if stage.artifact is not None}


def of_recipe(path: Path, store: Store, name: str = "", **asked: Any) -> Side:
    """Return a recipe with its artifacts in the store; ``asked`` goes to ``prepare``. Raises RecipeError."""
    prepared = prepare(path, store, **asked)
    stages, names = {}, {stage.label: stage.name for stage in prepared.planned}
    for label, node in prepared.nodes.items():
        inputs = {role: names[other] for role, other in node.inputs.items()}
        identity = node.stage.identity(node.spec, inputs, store)
        stages[label] = ComparedStage(identity.document, node.spec.model_dump(mode="json"), store.find(names[label]))
    return Side(name or path.stem, stages, store=store.root)


def of_artifact(artifact: Artifact, name: str = "") -> Side:
    """Return a run, given by its report, or an artifact with its ancestors. Raises ArtifactError for a damaged manifest."""
    root = str(artifact.manifest["label"])
    if artifact.manifest["recipe"]["stage"] in _REPORTS:
        found = {**artifact.inputs(), root: artifact}
    else:
        found = {str(one.manifest["label"]): one for one in ancestors({root: artifact}).values()}
    stages = {
        label: ComparedStage(one.manifest["recipe"], one.manifest["spec"], one)
        for label, one in found.items()
        if (one.path / "manifest.json").is_file()
    }
    return Side(name or artifact.name, stages, root)


def built_in_both(first: Side, second: Side) -> dict[str, tuple[Artifact, Artifact]]:
    """Return the artifacts of the stages that are built on both sides, by label."""
    one, other = first.artifacts(), second.artifacts()
    return {label: (one[label], other[label]) for label in one if label in other}


def are_of_one_stage(first: Side, second: Side) -> bool:
    """Return whether the sides are artifacts of the same stage under two labels."""
    if first.root == second.root or not (first.root and second.root):
        return False
    return bool(first.stages[first.root].recipe["stage"] == second.stages[second.root].recipe["stage"])


def aligned(first: Side, second: Side) -> Side:
    """Return the second side with its root labelled like that of the first if both are artifacts of the same stage."""
    if not are_of_one_stage(first, second):
        return second
    stages = {first.root if label == second.root else label: stage for label, stage in second.stages.items()}
    return replace(second, stages=stages)


def named_apart(first: Side, second: Side) -> tuple[Side, Side]:
    """Return the sides under the names A and B, unless their own names differ and fit above a column."""
    if first.name == second.name or max(len(first.name), len(second.name)) > _MAX_NAME_CHARACTERS:
        return replace(first, name="A"), replace(second, name="B")
    return first, second
