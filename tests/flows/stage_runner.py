"""Build one stage of a recipe in a process of its own, on inputs that are built; what the kill-and-resume test kills."""

from __future__ import annotations

from pathlib import Path

from korealbert import recipe as recipes
from korealbert.artifact import Artifact, Runtime, Store, build


def build_one(recipe: Path, label: str, store: Path) -> None:
    """Build ``label`` alone; what it reads must be in the store."""
    runtime = Runtime(store=store, workers=1, threads=1)
    names: dict[str, str] = {}
    for each, node in recipes.until(recipes.graph(recipes.load(recipe)), label).items():
        inputs = {role: names[other] for role, other in node.inputs.items()}
        names[each] = node.stage.identity(node.spec, inputs, Store(runtime.store)).name
        if each == label:
            artifacts = {role: Artifact(name, runtime.store / name) for role, name in inputs.items()}
            build(node.stage, node.spec, artifacts, runtime, label=label)
