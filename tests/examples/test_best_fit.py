"""Packed rows contain the same as single rows, and little space is left empty."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest

from korealbert.artifact import Artifact, Runtime, build
from korealbert.documents.shards import ShardError
from korealbert.examples.batches import IGNORED, Batch, ExampleBatches
from korealbert.examples.best_fit import PackedBatches, best_fit
from korealbert.examples.schema import open_view, write_view
from korealbert.examples.views import STAGE, ViewsSpec
from korealbert.examples.word_order import WordOrderSpec
from tests.examples.made import SEQUENCE_LENGTH


@pytest.mark.parametrize(("largest", "capacity"), [(16, 16), (5, 16), (1024, 1024), (300, 1024)])
def test_every_sequence_lies_in_one_row_that_has_room_for_it(largest: int, capacity: int) -> None:
    sizes = np.random.default_rng(capacity + largest).integers(3, largest + 1, 3000).astype(np.uint16)
    layout = best_fit(sizes, capacity)
    assert sorted(layout.members.tolist()) == list(range(3000))
    tokens = np.add.reduceat(sizes[layout.members].astype(np.int64), layout.offsets[:-1])
    assert tokens.max() <= capacity
    assert (np.diff(layout.offsets) > 0).all()
    if largest == 300:
        assert sizes.sum(dtype=np.int64) / (len(layout) * capacity) > 0.99


def test_the_layout_is_that_of_the_textbook() -> None:
    sizes = np.random.default_rng(3).integers(2, 21, 400).astype(np.uint16)
    rooms: list[int] = []
    for size in sorted(sizes.tolist(), reverse=True):
        best = min((room for room in rooms if room >= size), default=None)
        if best is None:
            rooms.append(20 - size)
        else:
            rooms[rooms.index(best)] -= size
    layout = best_fit(sizes, 20)
    tokens = np.add.reduceat(sizes[layout.members].astype(np.int64), layout.offsets[:-1])
    assert sorted((20 - tokens).tolist()) == sorted(rooms)


def test_no_sequence_makes_no_row() -> None:
    assert len(best_fit(np.empty(0, dtype=np.uint16), 16)) == 0


@pytest.fixture(scope="module", params=["sop", "none"])
def noised(request: pytest.FixtureRequest, runtime: Runtime, packed: Artifact, vocab: Artifact) -> Artifact:
    spec = ViewsSpec(views=2, sentence_task=request.param, word_order=WordOrderSpec(portion=1.0))
    return build(STAGE, spec, {"examples": packed, "vocab": vocab}, runtime).artifact


@pytest.mark.parametrize("reach", [0, 3])
def test_packed_rows_hold_the_sequences_and_targets_of_the_single_ones(packed: Artifact, noised: Artifact, reach: int) -> None:
    single = ExampleBatches(packed.path, noised.path, "train", wop_reach=reach)
    source = PackedBatches(packed.path, noised.path, "train", wop_reach=reach)
    chosen = np.random.default_rng(4).permutation(source.num_rows)[:9]
    batch = source.gather(1, chosen)
    assert all(getattr(batch, f.name).dtype == np.int64 for f in fields(Batch))
    most = int((batch.mlm_labels != IGNORED).sum(1).max())
    assert 0 <= batch.mlm_labels.shape[1] - most < SEQUENCE_LENGTH // 16, "few slots that nothing uses"
    for place, row in enumerate(chosen):
        members = source._layout.members[source._layout.offsets[row] : source._layout.offsets[row + 1]].astype(np.int64)
        alone, begin = single.gather(1, members), 0
        lengths = batch.lengths[place]
        assert lengths[: len(members)].tolist() == alone.lengths.tolist()
        assert not lengths[len(members) :].any()
        assert batch.sop_labels[place, : len(members)].tolist() == alone.sop_labels.tolist()
        assert (batch.sop_labels[place, len(members) :] == IGNORED).all()
        for task in ("mlm", "wop"):
            wanted: dict[int, int] = {}
            for one in range(len(members)):
                labels = getattr(alone, f"{task}_labels")[one]
                positions = getattr(alone, f"{task}_positions")[one]
                start = int(alone.lengths[:one].sum())
                wanted |= {start + int(p): int(c) for p, c in zip(positions, labels, strict=True) if c != IGNORED}
            found = zip(getattr(batch, f"{task}_positions")[place], getattr(batch, f"{task}_labels")[place], strict=True)
            assert {int(p): int(c) for p, c in found if c != IGNORED} == wanted
        for one, length in enumerate(alone.lengths):
            assert batch.input_ids[place, begin : begin + length].tolist() == alone.input_ids[one, :length].tolist()
            begin += length
        assert not batch.input_ids[place, begin:].any()


def test_no_rows_make_an_empty_batch(packed: Artifact, noised: Artifact) -> None:
    batch = PackedBatches(packed.path, noised.path, "train").gather(1, np.empty(0, dtype=np.int64))
    assert batch.input_ids.shape == (0, SEQUENCE_LENGTH)
    assert all(len(getattr(batch, f.name)) == 0 for f in fields(Batch))


def test_offsets_lead_to_where_a_token_was(packed: Artifact, noised: Artifact) -> None:
    absolute, relative = (ExampleBatches(packed.path, noised.path, "train", wop_reach=reach) for reach in (0, 3))
    rows = np.arange(absolute.num_rows)
    where, offsets = absolute.gather(0, rows), relative.gather(0, rows)
    used = offsets.wop_labels != IGNORED
    assert set(np.unique(offsets.wop_labels[used])) == {0, 1, 2, 4, 5, 6}  # No token stays, so none has offset 0.
    assert (offsets.wop_positions + offsets.wop_labels - 3)[used].tolist() == where.wop_labels[used].tolist()
    far = (where.wop_labels != IGNORED) & ~used
    assert (np.abs(where.wop_labels - where.wop_positions)[far] > 3).all()


def test_every_sequence_comes_once_an_epoch_and_no_special_token_is_masked(packed: Artifact, noised: Artifact) -> None:
    source = PackedBatches(packed.path, noised.path, "train")
    single = ExampleBatches(packed.path, noised.path, "train")
    batch = source.gather(0, np.arange(source.num_rows))
    whole = single.gather(0, np.arange(single.num_rows))
    assert batch.lengths.sum() == whole.lengths.sum()
    assert (batch.mlm_labels != IGNORED).sum() == (whole.mlm_labels != IGNORED).sum()
    assert batch.mlm_labels[batch.mlm_labels != IGNORED].min() >= 5
    assert source.fill == pytest.approx(batch.lengths.sum() / (source.num_rows * SEQUENCE_LENGTH))


def test_heldout_rows_are_packed_too(packed: Artifact, noised: Artifact) -> None:
    heldout = PackedBatches(packed.path, noised.path, "heldout")
    assert heldout.gather(0, np.arange(heldout.num_rows)).lengths.sum() > 0


def test_pairs_of_two_documents_are_refused(runtime: Runtime, packed: Artifact, vocab: Artifact) -> None:
    spec = ViewsSpec(views=1, sentence_task="nsp")
    views = build(STAGE, spec, {"examples": packed, "vocab": vocab}, runtime).artifact
    with pytest.raises(ValueError, match="cannot be packed"):
        PackedBatches(packed.path, views.path, "train")


def test_places_that_a_row_does_not_have_are_damage(packed: Artifact, noised: Artifact, tmp_path: Path) -> None:
    (tmp_path / "view-000").mkdir()
    for number, path in enumerate(sorted((noised.path / "view-000").glob("*.arrow"))):
        view, header = open_view(path)
        if not number:
            view.mlm_pos.setflags(write=False)
            positions = view.mlm_pos.copy()
            positions[:, 0] = SEQUENCE_LENGTH - 1
            view = type(view)(**{**{f.name: getattr(view, f.name) for f in fields(view)}, "mlm_pos": positions})
        write_view(tmp_path / "view-000" / path.name, view, header)
    source = PackedBatches(packed.path, tmp_path, "train")
    with pytest.raises(ShardError, match="refers to positions that its rows do not have"):
        source.gather(0, np.arange(source.num_rows))
