"""One straight build of the tiny recipe, shared by the tests of flows, and one server for the runs of a module."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from prefect.settings import temporary_settings

from flows.services.local_server import temporary_server
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


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[Any, str]]:
    """A server of a module's own, as the settings of its clients."""
    with temporary_server(tmp_path_factory.mktemp("server")) as settings:
        yield settings


@pytest.fixture
def one_server(server: dict[Any, str], monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Runs of a test, in this process and in others, report to the module's server; to start one takes longer than they do."""
    for setting, value in server.items():
        monkeypatch.setenv(setting.name, value)
    with temporary_settings(server):
        yield
