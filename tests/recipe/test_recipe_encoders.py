"""Recipes name encoders and benchmarks: what is measured on which, and names and files that are refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from korealbert import recipe as recipes
from korealbert.artifact import Store
from korealbert.pretrain.runtime import TrainingRuntime
from korealbert.recipe import RecipeError
from korealbert.recipe.reading import load_evaluation

ROOT = Path(__file__).parents[2]
SAMPLE = ROOT / "data_specs" / "recipes" / "small-sample.toml"


@pytest.fixture
def editable(specs: Path) -> Path:
    """Return the sample recipe, which a test may change."""
    return specs / "recipes" / "small-sample.toml"


def test_others_encoders_are_measured_on_every_benchmark_beside_the_model(editable: Path, tmp_path: Path) -> None:
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs" / "config.json").write_text("{}")
    editable.write_text(f'{editable.read_text()}\n[encoder.theirs]\npath = "{tmp_path / "theirs"}"\n')
    nodes = recipes.graph(recipes.load(editable))
    cell = nodes["finetune/theirs/nsmc/pretrained/1"]
    assert cell.inputs == {"model": "encoder/theirs", "features": "features/theirs/nsmc"}
    assert cell.spec == nodes["finetune/nsmc/pretrained/1"].spec
    assert not any(label.startswith("finetune/theirs/nsmc/random") for label in nodes)
    assert nodes["summary/nsmc"].inputs["theirs/pretrained/1"] == "finetune/theirs/nsmc/pretrained/1"
    assert set(recipes.until(nodes, "finetune/theirs/nsmc/pretrained/1")) == {
        *("encoder/theirs", "features/theirs/nsmc", "finetune/theirs/nsmc/pretrained/1"),
    }
    assert list(nodes)[-1] == "report" and "encoder/theirs" in nodes["report"].inputs


def test_a_bi_encoder_may_learn_from_triples_first_and_its_file_is_one_of_the_recipe(editable: Path) -> None:
    asked = {"train": "../sample/korsts_train.tsv", "epochs": 2, "learning_rate": 1e-4}
    plain = recipes.graph(recipes.load(editable, overrides={"finetune.korsts.head": "bi-encoder"}))
    nodes = recipes.graph(
        recipes.load(editable, overrides={"finetune.korsts.head": "bi-encoder", "finetune.korsts.contrast": asked})
    )
    spec = nodes["finetune/korsts/random/2"].spec.model_dump()
    assert spec["contrast"]["train"] == str(editable.parent.parent / "sample" / "korsts_train.tsv")
    assert (spec["contrast"]["task"], spec["contrast"]["epochs"]) == ("kornli", 2)
    assert nodes["features/korsts"].spec == plain["features/korsts"].spec, "features know nothing of it"
    for changed, message in (
        ({"train": "none.tsv"}, r"\[finetune\.korsts\], field 'contrast\.train': no such file or directory"),
        ({"epoch": 1}, r"unknown field 'contrast\.epoch' \(did you mean 'epochs'\?\)"),
        ({"task": "nsmc"}, r"field 'contrast\.task': nsmc has no pairs that entail and contradict"),
    ):
        with pytest.raises(RecipeError, match=message):
            given = {"finetune.korsts.head": "bi-encoder", "finetune.korsts.contrast": {**asked, **changed}}
            recipes.load(editable, overrides=given)


def test_inputs_longer_than_a_model_has_positions_are_refused_by_name(editable: Path, tmp_path: Path) -> None:
    with pytest.raises(
        RecipeError, match=r"\[finetune\.nsmc\], field 'max_length': 600 exceeds the 512 positions of \[pretrain\.m"
    ):
        recipes.load(editable, overrides={"finetune.nsmc.max_length": 600})
    pairs = {"train": "../sample/korsts_train.tsv", "max_length": 600}
    with pytest.raises(RecipeError, match=r"\[bi_encoder\.nli\], field 'max_length': 600 exceeds the 512 positions of \[pretr"):
        recipes.load(editable, overrides={"bi_encoder.nli": pairs})
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    editable.write_text(f'{editable.read_text()}\n[encoder.theirs]\npath = "{theirs}"\n')
    with pytest.raises(RecipeError, match=r"\[encoder\.theirs\]: .*theirs: has no config\.json; give the directory of a"):
        recipes.load(editable)
    for config, longest in (({"model_type": "bert"}, 20), ({"model_type": "roberta"}, 18), ({"pad_token_id": 3}, 20)):
        (theirs / "config.json").write_text(json.dumps({"max_position_embeddings": 20, **config}))
        with pytest.raises(RecipeError, match=rf"exceeds the {longest} positions of \[encoder\.theirs\]; lower it"):
            recipes.load(editable)


def test_an_encoder_is_not_named_like_an_init(editable: Path, tmp_path: Path) -> None:
    editable.write_text(f'{editable.read_text()}\n[encoder.random]\npath = "{tmp_path}"\n')
    with pytest.raises(RecipeError, match=r"\[encoder\.random\]: 'random' names initial weights; choose another name"):
        recipes.load(editable)


def test_an_empty_benchmark_file_is_an_error_before_training(editable: Path, tmp_path: Path) -> None:
    (tmp_path / "empty.txt").touch()
    named = {"finetune.nsmc.test": str(tmp_path / "empty.txt")}
    prepared = recipes.prepare(editable, Store(tmp_path / "store"), overrides=named)
    with pytest.raises(
        RecipeError, match=r"^small-sample, features/nsmc: field 'test': .*empty\.txt is empty; NSMC comes from"
    ):
        prepared.check(TrainingRuntime(store=tmp_path / "store", device="cpu"))


@pytest.mark.parametrize("name", ["pretrained", "random"])
def test_a_benchmark_is_not_named_like_an_init(editable: Path, name: str) -> None:
    table = editable.read_text().partition("[finetune.nsmc]")[2].partition("\n[")[0]
    editable.write_text(f'{editable.read_text()}\n[finetune.{name}]\ntask = "nsmc"\n{table}\n')
    with pytest.raises(RecipeError, match=rf"\[finetune\.{name}\]: '{name}' names initial weights; choose another name"):
        recipes.load(editable)


def test_the_speed_column_is_measured_where_shapes_are_named(editable: Path) -> None:
    assert "speed" not in recipes.graph(recipes.load(editable))
    editable.write_text(f'{editable.read_text()}\n[speed]\narchitectures = ["KoBERT"]\n')
    assert "speed" in recipes.graph(recipes.load(editable))


def test_a_name_with_a_dot_is_refused_with_its_line(editable: Path) -> None:
    editable.write_text(editable.read_text() + '\n[extract."books.v2"]\nformat = "text"\n')
    line = len(editable.read_text().splitlines()) - 1
    message = rf"sample\.toml, line {line}: \[extract\.\"books\.v2\"\]: a name contains no dot; write books_v2$"
    with pytest.raises(RecipeError, match=message):
        recipes.load(editable)


@pytest.mark.parametrize(
    ("table", "name", "message"),
    [
        ("finetune", "a\\nb", r'"a\\nb"\]: a name contains no control characters; write a_b$'),
        ("finetune", "a\\u001b[2J", r'"a\\u001b\[2J"\]: a name contains no control characters; write a_2J$'),
        ("encoder", "", r'""\]: a name is not empty'),
        ("finetune", "korsts/", r'"korsts/"\]: a name is not empty.*; write korsts$'),
        ("encoder", "a" * 101, "a name has at most 100 characters"),
    ],
)
def test_a_name_that_no_label_can_hold_is_refused(editable: Path, table: str, name: str, message: str) -> None:
    editable.write_text(f'{editable.read_text()}\n[{table}."{name}"]\ntask = "nsmc"\n')
    with pytest.raises(RecipeError, match=message) as error:
        recipes.load(editable)
    assert str(error.value).isprintable()


@pytest.mark.parametrize("table", ["encoder", "finetune"])
def test_a_slash_in_the_name_of_an_encoder_or_a_benchmark_is_refused(editable: Path, table: str) -> None:
    """The cell of ``small/nsmc`` would be the one of an encoder ``small`` on ``nsmc``."""
    editable.write_text(f'{editable.read_text()}\n[{table}."small/nsmc"]\ntask = "nsmc"\n')
    message = rf"(?m)\[{table}\.small/nsmc\]: labels put a slash between encoder and benchmark.*; write small_nsmc$"
    with pytest.raises(RecipeError, match=message):
        recipes.load(editable)


def test_a_column_of_a_metric_that_its_benchmark_lacks_is_refused(specs: Path) -> None:
    path = specs / "recipes" / "encoders.toml"
    path.write_text(path.read_text().replace('benchmark = "korsts"', 'benchmark = "korsts"\nmetric = "pearsn"'))
    message = (
        r"\[report\.table\], column 'KorSTS': korsts has no metric 'pearsn' \(did you mean 'pearson'\?\); it has spearman, "
    )
    with pytest.raises(RecipeError, match=message):
        load_evaluation(path)
