"""The deployments of prefect.yaml: each stage has one, with parameters its flow takes, schedules off, a pool that exists."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest
import yaml

from korealbert import recipe as recipes
from korealbert.artifact import Store
from korealbert.flows import one_stage
from korealbert.flows.services.installation import POOLS
from tests.flows.conftest import TINY

ROOT = Path(__file__).parents[2]
DEPLOYMENTS: list[dict[str, Any]] = yaml.safe_load((ROOT / "prefect.yaml").read_text("utf-8"))["deployments"]


def flow_of(deployment: dict[str, Any]) -> Any:
    file, name = deployment["entrypoint"].split(":")
    return getattr(importlib.import_module(file.removesuffix(".py").replace("/", ".")), name)


@pytest.mark.parametrize("deployment", DEPLOYMENTS, ids=lambda each: str(each["name"]))
def test_a_deployment_is_described_tagged_typed_and_runs_nothing_by_itself(deployment: dict[str, Any]) -> None:
    flow = flow_of(deployment)
    assert deployment["description"] and "korealbert" in deployment["tags"]
    pool = deployment["work_pool"]
    assert pool["work_queue_name"] in POOLS[pool["name"]]
    assert "concurrency_limit" not in deployment, "a lease that dies with the server, and the run with it; queues have limits"
    assert all(schedule["active"] is False for schedule in deployment.get("schedules", []))
    properties = flow.parameters.properties
    assert set(deployment.get("parameters", {})) <= set(properties)
    for name, schema in properties.items():
        described = schema.get("description") or schema.get("title")
        assert described, f"{flow.name}: {name} shows nothing in the UI"
        assert len(str(schema.get("description", ""))) > 20, f"{flow.name}: {name} has no description"
    flow.validate_parameters({"stage": "vocab", **deployment.get("parameters", {})} if flow.name == "one-stage" else {})


def test_every_stage_has_a_deployment_of_its_own() -> None:
    stages = {label.split("/")[0] for label in recipes.graph(recipes.load(TINY))}
    names = {each["name"] for each in DEPLOYMENTS if each["entrypoint"].endswith(":one_stage")}
    assert {*stages, "crawl", "fetch", "vocab_sizes"} <= names
    assert len({each["name"] for each in DEPLOYMENTS}) == len(DEPLOYMENTS), "bare names must be clear"


_BY_TABLE = {"quality", "cooccurrence", "bi_encoder", "retrieval"}
"""Stages that no shipped recipe has; a recipe has them once it has their table."""


def test_the_recipe_of_a_stages_deployment_has_the_stage(tmp_path: Path) -> None:
    of_recipe: dict[str, set[str]] = {}
    for deployment in DEPLOYMENTS:
        if not deployment["entrypoint"].endswith(":one_stage"):
            continue
        given = {"recipe": str(one_stage.SAMPLE), **deployment["parameters"]}
        if given["recipe"] not in of_recipe:
            prepared = recipes.prepare(ROOT / given["recipe"], Store(tmp_path))
            of_recipe[given["recipe"]] = {label.split("/")[0] for label in prepared.nodes}
        assert given["stage"] in of_recipe[given["recipe"]] | _BY_TABLE, deployment["name"]


def test_the_deployments_of_stages_are_those_that_stages_declare() -> None:
    current = (ROOT / "prefect.yaml").read_text("utf-8")
    assert current == one_stage.page(current), "python -m korealbert.flows.one_stage"
