"""Retrieval in a recipe: which systems search which collection, and errors in its tables."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest

from korealbert import recipe as recipes
from korealbert.recipe import RecipeError
from korealbert.recipe.reading import load_evaluation


@pytest.fixture
def editable(specs: Path) -> Path:
    """The sample recipe, as a test may change it."""
    return specs / "recipes" / "small-sample.toml"


def collection(directory: Path) -> Path:
    (directory / "qrels").mkdir(parents=True)
    for name in ("corpus.jsonl", "queries.jsonl", "qrels/test.tsv"):
        (directory / name).touch()
    return directory


def test_a_collection_is_searched_by_every_system_of_the_recipe(editable: Path, tmp_path: Path) -> None:
    remote = {"url": "https://host/miracl.zip", "sha256": "0" * 64}
    asked = {
        "retrieval.toy": {"path": str(collection(tmp_path / "toy")), "seeds": [4], "k1": 0.9, "max_length": 64},
        "retrieval.far": {"path": remote, "split": "dev", "inits": ["pretrained"]},
        "bi_encoder.nli": {"train": "../sample/korsts_train.tsv", "seeds": [1, 2], "inits": ["pretrained"]},
        "encoder.theirs": {"recipe": "../recipes/small-sample.toml"},
    }
    nodes = recipes.graph(recipes.load(editable, overrides=copy.deepcopy(asked)))
    found = {label for label in nodes if label.startswith(("retrieval/", "bi_encoder/", "benchmark/"))}
    trained = {f"{root}pretrained/{seed}" for root in ("", "theirs/") for seed in (1, 2)}
    alike = {"bm25-morphemes", "bm25-pieces", "theirs/bm25-pieces", "pretrained", "theirs/pretrained"}
    assert found == {"benchmark/far/data", "retrieval/toy/random/4"} | {
        *(f"retrieval/{name}/{system}" for name in ("toy", "far") for system in alike),
        *(f"retrieval/{name}/nli/{each}" for name in ("toy", "far") for each in trained),
        *(f"bi_encoder/nli/{each}" for each in trained),
    }
    assert nodes["retrieval/toy/bm25-morphemes"].inputs == {}
    assert nodes["retrieval/far/nli/theirs/pretrained/2"].inputs == {
        "data": "benchmark/far/data",
        "model": "bi_encoder/nli/theirs/pretrained/2",
    }
    assert nodes["bi_encoder/nli/pretrained/1"].inputs == {"model": "export", "apart/1": "benchmark/far/data"}
    sharing = {"pretrain.model.share": "attention", **{name: asked[name] for name in ("bi_encoder.nli", "retrieval.toy")}}
    untold = recipes.graph(recipes.load(editable, overrides=copy.deepcopy(sharing)))
    as_trained = {"model": "export", "pretrain": "pretrain"}
    assert untold["bi_encoder/nli/pretrained/1"].inputs == as_trained == untold["retrieval/toy/random/4"].inputs
    assert untold["retrieval/toy/pretrained"].inputs == nodes["retrieval/toy/random/4"].inputs == {"model": "export"}
    apart = nodes["bi_encoder/nli/pretrained/1"].spec.apart_from
    assert [(str(each.path), each.split) for each in apart[:1]] == [(str(tmp_path / "toy"), "test")]
    vectors, baseline = nodes["retrieval/toy/random/4"].spec, nodes["retrieval/toy/bm25-pieces"].spec
    assert (vectors.init, vectors.seed, vectors.max_length, vectors.k1) == ("random", 4, 64, 1.2)
    assert (baseline.k1, baseline.max_length) == (0.9, None), "each has what it depends on"
    for changed, message in (
        ({"retrieval.toy.path": "none"}, r"\[retrieval\.toy\], field 'path': no such file or directory"),
        ({"retrieval.toy.init": "random"}, r"\[retrieval\.toy\]: field 'init' is set by the recipe itself"),
        ({"retrieval.toy.max_length": 513}, r"\[retrieval\.toy\], field 'max_length': 513 exceeds the 512 positions of \["),
        ({"retrieval.toy.depht": 3}, r"unknown field 'depht' \(did you mean 'depth'\?\)"),
        ({"bi_encoder.theirs": asked["bi_encoder.nli"]}, r"\[bi_encoder\.theirs\]: another system has this name"),
        ({"bi_encoder.nli.task": "nsmc"}, r"\[bi_encoder\.nli\], field 'task': nsmc has no pairs that entail"),
    ):
        with pytest.raises(RecipeError, match=message):
            recipes.load(editable, overrides=copy.deepcopy(asked) | changed)


def test_a_recipe_of_others_encoders_has_no_random_weights_to_search_with(editable: Path, tmp_path: Path) -> None:
    recipe = editable.with_name("searched.toml")
    table = f'[encoder.theirs]\nrecipe = "small-sample.toml"\n\n[retrieval.toy]\npath = "{collection(tmp_path / "toy")}"\n'
    recipe.write_text(table, "utf-8")
    assert not load_evaluation(recipe).retrieval.bi_encoders
    for field, value in (("seeds", [4]), ("inits", ["random"])):
        with pytest.raises(RecipeError, match=rf"\[retrieval\.toy\]: field '{field}' is set by the recipe itself; remove it"):
            load_evaluation(recipe, overrides={f"retrieval.toy.{field}": value})
    with pytest.raises(RecipeError, match=r"\[retrieval\.toy\], field 'max_length': 600 exceeds the 512 positions of \[enc"):
        load_evaluation(recipe, overrides={"retrieval.toy.max_length": 600})
