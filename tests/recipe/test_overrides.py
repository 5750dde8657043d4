"""Overrides of a run mean the same on a recipe and on an ablation of it: they come last, and a table replaces a table."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest

from korealbert import recipe as recipes
from korealbert.recipe import RecipeError
from tests.editing import edit


@pytest.fixture
def editable(specs: Path) -> Path:
    """The sample's table II, as a test may change it."""
    return specs / "ablations" / "sample" / "korealbert-table-2.toml"


MUON: dict[str, Any] = {"pretrain.optimizer": {"name": "muon", "lr": 0.02}}


def test_rows_do_not_claim_what_an_override_replaced(editable: Path) -> None:
    edit(editable, "[[cells]]\n", "[[cells]]\nset.pretrain.optimizer.lr = 4e-3\n")
    for overrides in ({}, {"pretrain.optimizer.lr": 2e-3}, MUON):
        rows = recipes.load_ablation(editable, overrides=overrides).report.rows
        assert ("pretrain.optimizer.lr = 0.004" in rows[0].settings) == (not overrides)


@pytest.mark.parametrize("overrides", [MUON, {"views.masking": {}}, {"pretrain.optimizer": {}, "pretrain.optimizer.lr": 0.5}])
def test_a_table_replaces_a_table_on_an_ablation_too(editable: Path, overrides: dict[str, Any]) -> None:
    own = "set.views.masking.rate = 0.3\nset.pretrain.optimizer.weight_decay = 0.5\n"
    edit(editable, "set.pretrain.steps = 30\n", f"set.pretrain.steps = 30\n{own}")
    given = copy.deepcopy(overrides)
    recipe = recipes.load(editable.parents[2] / "recipes" / "small-sample.toml", overrides=overrides)
    ablation = recipes.load_ablation(editable, overrides=overrides)
    for cell in ablation.cells.values():
        assert ("views.masking" in overrides) == (cell.pretrain.optimizer != recipe.pretrain.optimizer)
        assert ("views.masking" not in overrides) == (cell.views.masking.rate == 0.3)
    assert overrides == given, "they stay the caller's"


@pytest.mark.parametrize("overrides", [{"report": {}}, {"pretrain": {"seed": 3}}, {"pretrain.seed": 3}])
def test_what_an_ablation_sets_itself_is_refused_in_a_table_too(editable: Path, overrides: dict[str, Any]) -> None:
    with pytest.raises(RecipeError, match=r"'(report|pretrain\.seed)' cannot be set here"):
        recipes.load_ablation(editable, overrides=overrides)
