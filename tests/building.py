"""Builds the stages of a recipe one after the other, without Prefect."""

from __future__ import annotations

from collections.abc import Mapping

from korealbert.artifact import Artifact, Runtime, build
from korealbert.recipe import Node


def build_all(nodes: Mapping[str, Node], runtime: Runtime) -> dict[str, Artifact]:
    """Return the artifacts of all nodes by label."""
    built: dict[str, Artifact] = {}
    for label, node in nodes.items():
        inputs = {role: built[other] for role, other in node.inputs.items()}
        built[label] = build(node.stage, node.spec, inputs, runtime, label=label).artifact
    return built
