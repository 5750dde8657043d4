"""A label is that of one stage: a recipe or an ablation in which two would share one is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from korealbert import recipe as recipes
from korealbert.recipe import RecipeError
from tests.editing import edit
from tests.recipe.test_retrieval import collection


def test_a_cell_is_not_named_like_a_stage_of_the_recipe(specs: Path) -> None:
    path = specs / "ablations" / "sample" / "korealbert-table-2.toml"
    long = "set.pretrain.long = { from_step = 20, micro_batch_size = 4 }\nset.examples_long.heldout_max_rows = 4\n"
    edit(path, "[printed]", f"{long}set.views.masking.unit = 'token'\n\n[printed]")
    edit(path, 'label = "MLM+WOP"', 'label = "long"\nprinted = ""\nset.examples.sequence_length = 64')
    with pytest.raises(RecipeError, match="two stages would be 'examples/long'; rename a cell, noise or table"):
        recipes.ablation_graph(recipes.load_ablation(path))


def test_nor_like_its_noise(specs: Path) -> None:
    path = specs / "ablations" / "sample" / "korealbert-table-2.toml"
    edit(path, 'label = "MLM+WOP"', 'label = "Noise order"\nprinted = ""')
    with pytest.raises(RecipeError, match="two stages would be 'views/noise-order'"):
        recipes.ablation_graph(recipes.load_ablation(path))


def test_a_collection_is_not_named_like_a_system_on_another(specs: Path, tmp_path: Path) -> None:
    searched = {"path": str(collection(tmp_path / "toy"))}
    triples = {"train": "../sample/korsts_train.tsv", "seeds": [1]}
    asked = {
        "retrieval": {"ko": searched, "ko/nli": searched},
        "bi_encoder.ours": triples,
        "encoder.nli": {"recipe": "small-sample.toml"},
    }
    recipe = recipes.load(specs / "recipes" / "small-sample.toml", overrides=asked)
    with pytest.raises(RecipeError, match="two stages would be 'retrieval/ko/nli/bm25-pieces'"):
        recipes.graph(recipe)
