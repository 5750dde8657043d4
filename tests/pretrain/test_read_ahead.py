"""Reading ahead gives the same batches in any order of requests, on any number of ranks."""

from __future__ import annotations

import threading

import numpy as np
import pytest
import torch

from korealbert.pretrain.data import (
    ReadAhead,
    TensorBatch,
    gather_at,
    in_row_order,
    micro_batches,
    on_host,
    rows_at,
    to_device,
    to_tensors,
)
from korealbert.pretrain.spec import PretrainSpec
from tests.pretrain.synthetic import SyntheticBatches


def test_results_are_those_of_the_request() -> None:
    asked: list[tuple[int, int]] = []

    def load(start: int, count: int) -> list[int]:
        asked.append((start, count))
        return list(range(start, start + count))

    reader = ReadAhead(load)
    for start, count in ((0, 4), (4, 4), (8, 4), (40, 4), (44, 2), (46, 2), (0, 4)):  # Straight on, a jump, another size, back.
        assert reader.take(start, count) == list(range(start, start + count))
    assert asked.count((4, 4)) == asked.count((8, 4)) == asked.count((46, 2)) == 1, "not loaded twice"


def test_all_loads_are_made_in_one_thread() -> None:
    """Also after a wrong guess: views open and close their files, which two threads must not do at once."""
    threads: set[int] = set()

    def load(start: int, count: int) -> int:
        threads.add(threading.get_ident())
        return start

    reader = ReadAhead(load)
    for start in (0, 4, 100, 104, 0):
        assert reader.take(start, 4) == start
    assert len(threads) == 1


def test_the_next_stretch_is_loaded_before_it_is_asked_for() -> None:
    begun = threading.Event()

    def load(start: int, count: int) -> int:
        if start == 8:
            begun.set()
        return start

    reader = ReadAhead(load)
    assert reader.take(0, 8) == 0
    assert begun.wait(300)
    assert reader.take(8, 8) == 8


def test_an_error_of_the_reader_is_raised_when_its_batch_is_taken() -> None:
    def load(start: int, count: int) -> int:
        if start == 2:
            raise IndexError("row 2 of 2")
        return start

    reader = ReadAhead(load)
    assert reader.take(0, 2) == 0
    with pytest.raises(IndexError, match="row 2 of 2"):
        reader.take(2, 2)
    assert reader.take(4, 2) == 4


def test_host_tensors_are_the_batch() -> None:
    batch = gather_at(SyntheticBatches(20), 3, 5, seed=1)
    host = on_host(batch, pinned=False)
    for name in TensorBatch._fields:
        assert np.array_equal(getattr(host, name).numpy(), getattr(batch, name))
        assert torch.equal(getattr(to_tensors(batch, torch.device("cpu")), name), getattr(host, name))
    assert all(moved.dtype == torch.int64 for moved in to_device(host, torch.device("cpu")))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="pinned memory needs a GPU")
def test_pinned_tensors_reach_the_gpu() -> None:
    batch = gather_at(SyntheticBatches(20), 3, 5, seed=1)
    host = on_host(batch, pinned=True)
    assert all(tensor.is_pinned() for tensor in host)
    moved = to_device(host, torch.device("cuda"))
    torch.cuda.synchronize()
    assert all(torch.equal(tensor.cpu(), there) for tensor, there in zip(moved, host, strict=True))


@pytest.mark.parametrize(("before", "after"), [(1, 4), (4, 2), (2, 1)])
def test_a_run_that_goes_on_with_other_ranks_reads_on_where_it_stopped(before: int, after: int) -> None:
    # Three steps of 16 from 37 rows: the stop lies in the middle of the second epoch.
    spec = PretrainSpec(steps=6, global_batch_size=16, micro_batch_size=4)
    source = SyntheticBatches(37)
    seen: list[int] = []
    for step in range(6):
        ranks = before if step < 3 else after
        shares = [micro_batches(source, spec, start=16 * step, count=16, rank=rank, world_size=ranks) for rank in range(ranks)]
        assert {len(share) for share in shares} == {4 // ranks}, "equal work for every rank"
        assert {len(batch.lengths) for share in shares for batch in share} == {4}, "no batch is cut short by an epoch's end"
        seen.extend(
            int(batch.input_ids[i].sum())
            for m in range(4 // ranks)
            for share in shares
            for batch in (share[m],)
            for i in range(4)
        )
    views, rows = rows_at(0, 96, num_rows=37, num_views=source.num_views, seed=spec.seed)
    expected = [int(source.gather(int(view), np.array([row])).input_ids.sum()) for view, row in zip(views, rows, strict=True)]
    assert seen == expected


@pytest.mark.parametrize("world_size", [1, 2, 3])
def test_held_out_rows_are_read_once_each_and_the_last_batch_is_smaller(world_size: int) -> None:
    source = SyntheticBatches(22)
    sizes: list[int] = []
    for rank in range(world_size):
        sizes.extend(len(batch.lengths) for _, batch in in_row_order(source, 4, rank=rank, world_size=world_size))
    assert sorted(sizes) == [2, 4, 4, 4, 4, 4]
