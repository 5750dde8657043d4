"""An evaluation: encoders of directories and of other recipes, measured side by side, and what its file may not hold."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from korealbert.artifact import Artifact, Store
from korealbert.flows.corpus_to_model import flow_of
from korealbert.pretrain.runtime import TrainingRuntime
from korealbert.recipe import RecipeError, prepare
from korealbert.recipe.dag import evaluation_graph
from korealbert.recipe.reading import load_evaluation
from tests.building import build_all
from tests.flows.conftest import TINY

SAMPLE = Path(__file__).parents[2] / "data_specs" / "sample"
BENCHMARK = f"""
[finetune.nsmc]
train = "{SAMPLE}/nsmc_train.txt"
test = "{SAMPLE}/nsmc_test.txt"
seeds = [1]
max_train_examples = 8
max_test_examples = 8
"""


def written(directory: Path, text: str) -> Path:
    path = directory / "encoders.toml"
    path.write_text(text + BENCHMARK, "utf-8")
    return path


def test_a_recipes_model_and_a_directory_stand_beside_each_other(tmp_path: Path) -> None:
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs" / "config.json").write_text("{}")
    file = written(tmp_path, f'[encoder.ours]\nrecipe = "{TINY}"\n[encoder.theirs]\npath = "theirs"\n')
    nodes = evaluation_graph(load_evaluation(file))
    assert nodes["encoder/ours"].inputs == {"model": "encoder/ours/export"}
    assert nodes["encoder/ours/pretrain"].inputs["vocab"] == "encoder/ours/vocab"
    assert nodes["encoder/theirs"].inputs == {}
    assert set(nodes["summary/nsmc"].inputs) == {"ours/pretrained/1", "theirs/pretrained/1"}
    assert not any(label.split("/")[0] in ("pretrain", "vocab", "extract") for label in nodes)
    assert flow_of(file).name == "evaluation"


def test_random_weights_of_each_stand_beside_it_where_the_recipe_wants_them(tmp_path: Path) -> None:
    file = written(tmp_path, f'[encoder.ours]\nrecipe = "{TINY}"\n')
    file.write_text(f'{file.read_text("utf-8")}inits = ["pretrained", "random"]\n', "utf-8")
    nodes = evaluation_graph(load_evaluation(file))
    assert set(nodes["summary/nsmc"].inputs) == {"ours/pretrained/1", "ours/random/1"}
    assert nodes["finetune/ours/nsmc/random/1"].inputs == nodes["finetune/ours/nsmc/pretrained/1"].inputs


def test_stages_of_the_named_recipe_are_those_that_it_has_itself(tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    file = written(tmp_path, f'[encoder.ours]\nrecipe = "{TINY}"\n')
    below = {stage.label: stage.name for stage in prepare(file, store).planned}
    itself = {stage.label: stage.name for stage in prepare(TINY, store, until="export").planned}
    assert {f"encoder/ours/{label}": name for label, name in itself.items()}.items() <= below.items()


def test_it_comes_to_a_report_that_names_the_best(tmp_path: Path, straight: dict[str, Artifact]) -> None:
    runtime = TrainingRuntime(store=tmp_path / "store", threads=1, workers=1)
    shutil.copytree(straight["vocab"].path.parent, runtime.store)
    file = written(tmp_path, f'[encoder.one]\nrecipe = "{TINY}"\n[encoder.other]\nrecipe = "{TINY}"\n')
    built = build_all(evaluation_graph(load_evaluation(file)), runtime)
    assert built["encoder/one/pretrain"].name == straight["pretrain"].name
    text = (built["report"].path / "report.md").read_text("utf-8")
    headline = r"^NSMC: [\d.]+ accuracy on 8 of 50,000 examples of the test set by one/pretrained \(.+\)\.$"
    assert re.search(headline, text, re.MULTILINE)
    assert "| other/pretrained |" in text and "Random means" not in text


ENCODER = '[encoder.a]\npath = "."\n'
MISTAKES = {
    "nothing to measure on": (ENCODER, "no [finetune.NAME] table"),
    "a table of pretraining": (f"{ENCODER}[pretrain]\nsteps = 3\n{BENCHMARK}", "unknown table or field [pretrain]"),
    "two places": (f'{ENCODER}recipe = "x.toml"\n{BENCHMARK}', "give either path"),
    "set without a recipe": (f"{ENCODER}set.pretrain.steps = 3\n{BENCHMARK}", "set and without change fields of a recipe"),
    "without a recipe": (f'{ENCODER}without = ["pretrain.seed"]\n{BENCHMARK}', "set and without change fields of a recipe"),
    "set of no field": (f'[encoder.a]\nrecipe = "{TINY}"\nset.pretrain.stepps = 3\n{BENCHMARK}', "unknown field 'stepps'"),
    "no test": (f"{ENCODER}{BENCHMARK.replace('test =', 'dev =')}", "field 'test' is missing"),
    "two test sets": (f"{ENCODER}{BENCHMARK}test_share = 0.1\n", "give one of them"),
    "no such recipe": (f'[encoder.a]\nrecipe = "x.toml"\n{BENCHMARK}', "[encoder.a], field 'recipe': "),
    "itself": (f'[encoder.a]\nrecipe = "encoders.toml"\n{BENCHMARK}', "is itself a recipe of an evaluation"),
}


@pytest.mark.parametrize(("text", "message"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_is_named(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "encoders.toml"
    file.write_text(text, "utf-8")
    with pytest.raises(RecipeError, match=re.escape(message)):
        prepare(file, Store(tmp_path / "store"))


def test_fields_of_the_named_recipe_can_be_set_and_removed(tmp_path: Path) -> None:
    changes = ("set.pretrain.steps = 7", "", 'without = ["pretrain.log_every"]')
    encoders = [f'[encoder.{name}]\nrecipe = "{TINY}"\n{change}\n' for name, change in zip("abc", changes, strict=True)]
    nodes = evaluation_graph(load_evaluation(written(tmp_path, "".join(encoders))))
    specs = [nodes[f"encoder/{name}/pretrain"].spec.model_dump() for name in "abc"]
    assert specs[0] == specs[1] | {"steps": 7} != specs[1]
    assert specs[2] == specs[1] | {"log_every": 50} != specs[1]
