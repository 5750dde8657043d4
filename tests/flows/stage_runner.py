"""Build one stage of a recipe in a process of its own, on inputs that are built; what the kill-and-resume test kills.

Usage: python stage_runner.py RECIPE LABEL STORE WORKERS
"""

from __future__ import annotations

import sys
from pathlib import Path

from korealbert import recipe as recipes
from korealbert.artifact import Artifact, Runtime, Store, build


def main(recipe: str, label: str, store: str, workers: str) -> None:
    runtime = Runtime(store=Path(store), workers=int(workers), threads=1)
    names: dict[str, str] = {}
    for each, node in recipes.until(recipes.graph(recipes.load(Path(recipe))), label).items():
        inputs = {role: names[other] for role, other in node.inputs.items()}
        names[each] = node.stage.identity(node.spec, inputs, Store(runtime.store)).name
        if each == label:
            artifacts = {role: Artifact(name, runtime.store / name) for role, name in inputs.items()}
            built = build(node.stage, node.spec, artifacts, runtime, label=label)
            print(built.artifact.name, built.artifact.output_digest)


if __name__ == "__main__":
    main(*sys.argv[1:])
