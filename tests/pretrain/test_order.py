"""Training order: a permutation per epoch, computed from the position alone."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from korealbert.pretrain.data import gather_at, micro_batches, permute, rows_at
from korealbert.pretrain.spec import PretrainSpec
from tests.pretrain.synthetic import SyntheticBatches


@settings(max_examples=60)
@given(st.integers(1, 5000), st.integers(0, 2**32 - 1), st.integers(0, 1000))
def test_every_epoch_visits_every_row_once(size: int, seed: int, epoch: int) -> None:
    rows = permute(np.arange(size), size, seed=seed, epoch=epoch)
    assert np.array_equal(np.sort(rows), np.arange(size))


@settings(max_examples=30)
@given(st.integers(0, 700), st.integers(1, 200))
def test_any_stretch_can_be_computed_without_the_rest(start: int, count: int) -> None:
    whole = rows_at(0, 1000, num_rows=97, num_views=3, seed=5)
    stretch = rows_at(start, count, num_rows=97, num_views=3, seed=5)
    for all_of_it, part in zip(whole, stretch, strict=True):
        assert np.array_equal(all_of_it[start : start + count], part)


def test_epochs_seeds_and_neighbours_are_unrelated() -> None:
    size = 20_000
    first, second, other = (permute(np.arange(size), size, seed=s, epoch=e) for s, e in ((1, 0), (1, 1), (2, 0)))
    for a, b in ((first, second), (first, other), (first, np.arange(size)), (first[:-1], first[1:])):
        assert abs(np.corrcoef(a, b)[0, 1]) < 0.03
        assert np.count_nonzero(a == b) < 15  # One by chance on average.


def test_positions_beyond_the_last_row_are_refused() -> None:
    with pytest.raises(ValueError, match=r"\[0, 10\)"):
        permute(np.array([10]), 10, seed=1, epoch=0)


def test_an_epoch_reads_one_view_and_the_next_epoch_the_next() -> None:
    views, _ = rows_at(0, 100, num_rows=20, num_views=3, seed=1)
    assert views.tolist() == [0] * 20 + [1] * 20 + [2] * 20 + [0] * 20 + [1] * 20


def test_a_batch_across_epochs_keeps_the_order_of_positions() -> None:
    source = SyntheticBatches(5, num_views=3)
    together = gather_at(source, 3, 9, seed=1)
    one_by_one = [gather_at(source, 3 + i, 1, seed=1) for i in range(9)]
    assert np.array_equal(together.input_ids, np.concatenate([batch.input_ids for batch in one_by_one]))
    assert np.array_equal(together.mlm_labels, np.concatenate([batch.mlm_labels for batch in one_by_one]))


@pytest.mark.parametrize("world_size", [1, 2, 4])
def test_any_number_of_ranks_computes_the_same_micro_batches(world_size: int) -> None:
    spec = PretrainSpec(steps=10, global_batch_size=16, micro_batch_size=4)
    expected = micro_batches(
        SyntheticBatches(30), spec, start=3 * spec.global_batch_size, count=spec.global_batch_size, rank=0, world_size=1
    )
    shares = [
        micro_batches(
            SyntheticBatches(30),
            spec,
            start=3 * spec.global_batch_size,
            count=spec.global_batch_size,
            rank=r,
            world_size=world_size,
        )
        for r in range(world_size)
    ]
    found = [share[m] for m in range(4 // world_size) for share in shares]
    for ours, theirs in zip(found, expected, strict=True):
        assert np.array_equal(ours.input_ids, theirs.input_ids)
