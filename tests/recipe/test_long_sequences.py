"""Recipes with long sequences at the end: rows and views of their own, and what these inherit."""

from __future__ import annotations

from pathlib import Path

import pytest

from korealbert import recipe as recipes
from korealbert.examples.views import ViewsSpec
from korealbert.pretrain.rows import target_problems
from korealbert.pretrain.spec import PretrainSpec
from korealbert.recipe import RecipeError
from tests.editing import edit


@pytest.fixture
def editable(specs: Path) -> Path:
    """The sample recipe, as a test may change it."""
    return specs / "recipes" / "small-sample.toml"


LONG = """
[pretrain.long]
from_step = 50
micro_batch_size = 4

[views_long.masking]
rate = 0.2
"""


def test_long_sequences_are_rows_and_views_of_their_own_that_pretraining_reads(editable: Path) -> None:
    plain = recipes.graph(recipes.load(editable))
    editable.write_text(edit(editable, "views = 4", 'views = 4\n\n[views.masking]\nunit = "token"').read_text() + LONG)
    recipe = recipes.load(editable)
    assert recipe.examples_long is not None
    assert recipe.views_long is not None
    assert (recipe.examples_long.sequence_length, recipe.examples_long.heldout_share) == (512, recipe.examples.heldout_share)
    assert recipe.examples_long.heldout_max_rows == 20_000 * 128 // (512 + 256)
    assert (recipe.views_long.views, recipe.views_long.masking.unit, recipe.views_long.masking.rate) == (4, "token", 0.2)
    nodes = recipes.graph(recipe)
    assert set(nodes) - set(plain) == {"examples/long", "views/long"}
    roles = {"vocab": "vocab", "examples": "examples", "views": "views"}
    assert plain["pretrain"].inputs == roles
    assert nodes["pretrain"].inputs == {**roles, "examples_long": "examples/long", "views_long": "views/long"}
    assert nodes["views/long"].inputs == {"examples": "examples/long", "vocab": "vocab"}


RAMPS = """
[views.masking]
mask_portion = 1.0
random_portion = 0.0
rate = 0.15
rate_from = 0.3
rate_views = 4
max_predictions = 30

[views.word_order]
amount = "ramp"
ramp_views = 3
portion_ramp_views = 2
rate = 0.1
"""


def test_ramps_and_slots_of_short_rows_are_not_inherited_by_long_ones(editable: Path) -> None:
    editable.write_text(edit(editable, "views = 4", "views = 4\n" + RAMPS).read_text() + LONG.partition("[views_long")[0])
    recipe = recipes.load(editable)
    short, long = recipe.views, recipe.views_long
    assert long is not None
    assert [short.masking.rate_in(view) for view in (0, 3)] == pytest.approx([0.3, 0.15])
    assert {long.masking.rate_in(view) for view in range(4)} == {0.15}
    assert (long.masking.mask_portion, long.masking.slots(512)) == (1.0, 76)
    assert (short.word_order.amount, long.word_order.amount, long.word_order.rate) == ("ramp", "fixed", 0.1)
    assert {long.word_order.portion_in(view) for view in range(4)} == {long.word_order.portion}


def test_long_rows_may_have_a_ramp_of_their_own(editable: Path) -> None:
    ramp = "rate_from = 0.3\nrate_views = 2\n"
    editable.write_text(edit(editable, "views = 4", "views = 4\n" + RAMPS).read_text() + LONG + ramp)
    long = recipes.load(editable).views_long
    assert long is not None
    assert [long.masking.rate_in(view) for view in range(3)] == pytest.approx([0.3, 0.2, 0.2])


@pytest.mark.parametrize(
    ("added", "message"),
    [
        ("[examples_long]\nsequence_length = 256\n", r"\[examples_long\]: \[pretrain\] has no phase of long sequences"),
        (LONG + "[examples_long]\nsequence_length = 128\n", r"sequence_length = 128 must exceed 128 of \[examples\]"),
        (LONG + "[examples_long]\nsequence_length = 1024\n", r"sequence_length = 1024 must .* not exceed the 512 positions"),
        (LONG.replace("from_step = 50", "from_step = 60"), r"long.from_step = 60 is not below steps = 60"),
        (LONG.replace("size = 4", "size = 5"), r"micro_batch_size = 5 does not divide global_batch_size = 16"),
    ],
)
def test_mistakes_about_long_sequences_are_named(editable: Path, added: str, message: str) -> None:
    editable.write_text(editable.read_text() + added)
    with pytest.raises(RecipeError, match=message):
        recipes.load(editable)


def test_positions_beyond_the_longest_rows_take_long_rows_of_a_given_length(editable: Path) -> None:
    edit(editable, "num_layers = 3", "num_layers = 3\nmax_positions = 16384")
    editable.write_text(editable.read_text() + LONG)
    with pytest.raises(RecipeError, match=r"\[pretrain.long\]: .* all 16384 positions .* at most 8192 .* \[examples_long\]"):
        recipes.load(editable)
    editable.write_text(editable.read_text() + "[examples_long]\nsequence_length = 4096\n")
    rows = recipes.load(editable).examples_long
    assert rows is not None and rows.sequence_length == 4096


def test_a_loss_may_have_its_targets_in_long_rows_alone() -> None:
    spec = {"steps": 20, "long": {"from_step": 10}}
    pairs, none = ViewsSpec(), ViewsSpec(sentence_task="none")
    assert not list(target_problems(PretrainSpec(**spec), none, pairs))
    assert not list(target_problems(PretrainSpec(**spec), pairs, none))
    (problem,) = target_problems(PretrainSpec(**spec), none, none)
    assert "in [views] and [views_long] swaps nothing" in problem
    (problem,) = target_problems(PretrainSpec(**spec, order_from_step=10), pairs, none)
    assert "in [views_long] swaps nothing" in problem
