"""One straight build of the tiny recipe, shared by the tests of flows."""

from __future__ import annotations

from pathlib import Path

import pytest

from korealbert import recipe as recipes
from korealbert.artifact import Artifact, build
from korealbert.pretrain.runtime import TrainingRuntime

TINY = Path(__file__).parents[1] / "recipes" / "tiny.toml"


@pytest.fixture(scope="session")
def straight(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Artifact]:
    """Every stage of the tiny recipe, built without interruption by one worker and one thread; by label."""
    runtime = TrainingRuntime(store=tmp_path_factory.mktemp("straight") / "store", workers=1, threads=1)
    built: dict[str, Artifact] = {}
    for label, node in recipes.graph(recipes.load(TINY)).items():
        inputs = {role: built[other] for role, other in node.inputs.items()}
        built[label] = build(node.stage, node.spec, inputs, runtime, label=label).artifact
    return built
