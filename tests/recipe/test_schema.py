"""The JSON Schema accepts all shipped recipes and refuses what reading a recipe refuses."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from typer.testing import CliRunner

from korealbert.flows.cli import app
from korealbert.recipe.new import project
from korealbert.recipe.reference import json_schema
from tests.recipe.new.test_project import prose

ROOT = Path(__file__).parents[2]
RECIPES = [*sorted((ROOT / "data_specs").glob("recipes/*.toml")), *sorted((ROOT / "data_specs").glob("ablations/**/*.toml"))]
SAMPLE = (ROOT / "data_specs" / "recipes" / "sample.toml").read_text("utf-8")


@pytest.fixture(scope="module")
def schema() -> Any:
    return jsonschema.Draft202012Validator(json.loads(CliRunner().invoke(app, ["schema"]).output))


def test_it_is_a_schema_of_the_draft_that_it_names(schema: Any) -> None:
    assert schema.schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    jsonschema.Draft202012Validator.check_schema(schema.schema)


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: str(path.relative_to(ROOT / "data_specs")))
def test_every_shipped_recipe_is_valid(path: Path, schema: Any) -> None:
    assert not [f"{list(e.path)}: {e.message}" for e in schema.iter_errors(tomllib.loads(path.read_text("utf-8")))]


MISTAKES = {
    "a table": {"vocabs": {}},
    "a field": {"vocab": {"siz": 300}},
    "a type": {"vocab": {"size": "300"}},
    "a limit": {"examples": {"sequence_length": -1}},
    "a format": {"extract": {"x": {"format": "cvs", "paths": ["a"]}}},
    "no format": {"extract": {"x": {"paths": ["a"]}}},
    "what the table's name says": {"extract": {"x": {"format": "csv", "paths": ["a"], "source": "x"}}},
    "a list": {"extract": {"x": {"format": "csv", "paths": "a"}}},
    "a genre": {"clean": {"x": {"limits": "poems"}}},
    "a field within": {"clean": {"x": {"limits": {"min_charcters": 3}}}},
    "a model's field": {"pretrain": {"steps": 1, "model": {"hiden_size": 3}}},
    "an optimiser": {"pretrain": {"steps": 1, "optimizer": {"name": "sgd"}}},
    "a task": {"finetune": {"x": {"task": "nsmcc", "train": "a", "test": "b"}}},
    "a setting": {"finetune": {"nsmc": {"train": "a", "test": "b", "epoch": 3}}},
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_typo_is_not(mistake: str, schema: Any) -> None:
    assert not schema.is_valid(MISTAKES[mistake])


RIGHT = [
    {"clean": {"x": {"limits": "law"}}},
    {"clean": {"x": {"limits": {"preset": "law", "min_characters": 3}}}},
    {"extract": {"x": {"format": "csv", "paths": ["a"], "fields": {"text": "body"}}}},
    {"extract": {"x": {"format": "csv", "paths": ["a"], "fields": {"text": ["lead", "body"]}}}},
    {"finetune": {"nsmc": {"train": {"url": "https://a.kr/b", "sha256": "0" * 64}, "test": "b", "seeds": [1]}}},
    {"pretrain": {"steps": 9, "model": {"architecture": "modern"}, "schedule": {"decay": "stable_linear"}}},
]


@pytest.mark.parametrize("recipe", RIGHT)
def test_each_form_of_a_field_is_valid(recipe: dict[str, Any], schema: Any) -> None:
    assert not [e.message for e in schema.iter_errors(recipe)]


def test_fields_have_their_meaning_default_and_limits(schema: Any) -> None:
    size = schema.schema["$defs"]["VocabSpec"]["properties"]["size"]
    assert size["description"] and size["default"] and size["minimum"]
    found = schema.schema["$defs"]["ExtractSpec"]["properties"]["format"]
    assert "parquet" in found["enum"] and found["description"].startswith("mediawiki: XML dump.")


def test_a_new_project_names_the_schema_beside_it(tmp_path: Path, schema: Any) -> None:
    (tmp_path / "a.txt").write_text("\n\n".join(map(prose, range(30))))
    project.write(tmp_path / "mine", [tmp_path / "a.txt"])
    recipe = (tmp_path / "mine" / "recipe.toml").read_text("utf-8")
    line, name = recipe.splitlines()[0].split(" ")
    assert line == "#:schema"
    assert json.loads((tmp_path / "mine" / name).read_text("utf-8")) == json_schema() == schema.schema
    assert schema.is_valid(tomllib.loads(recipe))
