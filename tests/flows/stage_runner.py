"""Builds one stage of a recipe in a separate process, on inputs that exist; the kill-and-resume test kills it."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

from korealbert import recipe as recipes
from korealbert.artifact import Artifact, Store, build
from korealbert.pretrain.runtime import TrainingRuntime


def begun(partial: Path) -> bool:
    """Whether a stage has written anything into its directory."""
    try:
        return any(not path.name.startswith(".opening") for path in partial.rglob("*") if path.is_file())
    except FileNotFoundError:  # A directory in it has just gone.
        return True


def build_one(recipe: Path, label: str, store: Path, held: Path | None = None) -> None:
    """Build only ``label``; its inputs must be in the store. Hang once the stage has written into the directory ``held``."""

    def stand_still(event: str, arguments: tuple[Any, ...]) -> None:
        if held is not None and event in ("open", "os.rename") and begun(held):
            time.sleep(600)

    if held is not None:
        sys.addaudithook(stand_still)
    runtime = TrainingRuntime(store=store, workers=1, threads=1)
    names: dict[str, str] = {}
    for each, node in recipes.until(recipes.graph(recipes.load(recipe)), label).items():
        inputs = {role: names[other] for role, other in node.inputs.items()}
        names[each] = node.stage.identity(node.spec, inputs, Store(runtime.store)).name
        if each == label:
            artifacts = {role: Artifact(name, runtime.store / name) for role, name in inputs.items()}
            build(node.stage, node.spec, artifacts, runtime, label=label)
