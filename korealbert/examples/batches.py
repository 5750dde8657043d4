"""Turns rows and noise into batches: memory-mapped, gathered and noised a whole batch at a time, with numpy only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt

from korealbert.documents.shards import ShardError
from korealbert.examples.noise import NOISE_FILE, OnTheFlyView, on_the_fly_views
from korealbert.examples.schema import HELDOUT_VIEW, Array, View, ViewHeader
from korealbert.examples.segments import Ints, continue_with, rotate, with_specials
from korealbert.examples.table import RowTable, ViewTable
from korealbert.philox import Stream, draw_block, happens
from korealbert.vocab.tokenizer import SPECIAL

IGNORED = -100
"""Label of a slot without a target."""


VIEWS_IN_USE = 2
"""Views mapped into memory at once, those on both sides of an epoch's end. The files of all 40 views of a large corpus are
more than a process may map."""


@dataclass(frozen=True)
class Batch:
    """B noised sequences of L tokens, with P prediction slots and W word-order slots. All arrays are int64."""

    input_ids: npt.NDArray[np.int64]
    """[B, L], 0 on padding."""
    token_type_ids: npt.NDArray[np.int64]
    """[B, L]: 1 in the second segment and its ``[SEP]``, 0 elsewhere; [B, 0] for packed rows."""
    lengths: npt.NDArray[np.int64]
    """[B]: tokens including special ones; the attention mask is ``arange(L) < lengths``. For packed rows (``best_fit``) [B,
    S]: tokens of each sequence, 0 in unused slots."""
    mlm_positions: npt.NDArray[np.int64]
    """[B, P]: positions to predict, 0 in unused slots."""
    mlm_labels: npt.NDArray[np.int64]
    """[B, P]: ids of the clean text there, -100 in unused slots."""
    sop_labels: npt.NDArray[np.int64]
    """[B], or [B, S]: 1 = swapped (under NSP: not the continuation), 0 = as written, -100 = no label."""
    wop_positions: npt.NDArray[np.int64]
    """[B, W]: positions of moved tokens, 0 in unused slots."""
    wop_labels: npt.NDArray[np.int64]
    """[B, W]: class of each token's original position, or of the offset to it; -100 in unused slots."""


@dataclass(frozen=True)
class Clean:
    """The sequences of a batch before masks and moves."""

    input_ids: Ints
    token_type_ids: Ints
    lengths: Ints


class ExampleBatches:
    """The rows of one split under any of its views, which are stored or generated on the fly.

    With ``wop_reach`` w > 0, word-order labels are offsets from a token's position to its original one: −w to w as classes 0 to
    2w. A token from farther away has no label. Opening checks every shard against its rows: raises ValueError naming both sides
    if views belong to other rows or another vocabulary, and ShardError naming a missing or damaged file.
    """

    def __init__(self, examples: Path, views: Path, split: Literal["train", "heldout"], *, wop_reach: int = 0) -> None:
        self._rows = RowTable(examples, split)
        if not len(self._rows) and split == "train":
            raise ShardError(f"{examples}: holds no train-*.arrow; pass the directory of an examples artifact")
        self._views = _open_views(views, self._rows, split)
        self._in_use: list[int] = []
        self._reach = wop_reach
        headers = self._rows.headers or RowTable(examples, "train").headers
        self.num_rows = len(self._rows)
        self.num_views = len(self._views)
        self.sequence_length = headers[0].sequence_length
        self.vocab_size = headers[0].vocab_size

    def gather(self, view: int, rows: npt.NDArray[np.int64]) -> Batch:
        """Return the noised sequences of these rows (int64 [B], global numbers over the sorted shards) in one view.

        Raises IndexError for a view or row that does not exist, ShardError if the noise cannot belong to its rows.
        """
        if not 0 <= view < self.num_views:
            raise IndexError(f"view {view} of {self.num_views}")
        numbers = np.asarray(rows, dtype=np.int64)
        table = self._use(view)
        noise = table.take(numbers)
        moves = self._wop_count(numbers, noise, table.header)
        try:
            batch = apply_noise(self._clean(numbers, noise, table.header), noise, moves)
        except IndexError as error:
            raise self._damaged(view, error) from error
        return replace(batch, wop_labels=self._wop_classes(batch.wop_positions, batch.wop_labels))

    @staticmethod
    def _damaged(view: int, error: IndexError) -> ShardError:
        return ShardError(
            f"view {view} refers to positions that its rows do not have ({error}): one of its files is damaged; "
            "run the recipe again, which finds and rebuilds it"
        )

    def _wop_classes(self, positions: Ints, origins: Ints) -> Ints:
        """Return the labels of moved tokens, from their current and original positions (or -100)."""
        if not self._reach:
            return origins
        offsets = origins - positions
        near = (origins != IGNORED) & (np.abs(offsets) <= self._reach)
        return np.where(near, offsets + self._reach, IGNORED)

    def header(self, view: int) -> ViewHeader:
        """Return the settings of a view's noise."""
        return self._views[view].header

    def noised(self, view: int) -> tuple[float, float]:
        """Return the shares of pieces that a view predicts and moves: counted if it is stored, else as configured."""
        return self._views[view].noised

    def _use(self, view: int) -> ViewTable | OnTheFlyView:
        """Return the noise of a view, and close the files of the view used longest ago."""
        if view not in self._in_use:
            self._in_use.append(view)
            if len(self._in_use) > VIEWS_IN_USE:
                self._views[self._in_use.pop(0)].close()
        return self._views[view]

    def _clean(self, numbers: Ints, noise: View, header: ViewHeader) -> Clean:
        ids, lengths = self._rows.columns(["ids", "length"], numbers)
        length = lengths.astype(np.int64)
        first = noise.a_len.astype(np.int64)
        if header.sentence_task == "sop":
            ids = rotate(ids, np.where(noise.sop == 1, length - first, 0), length)
        elif header.sentence_task == "nsp":
            ids, length = self._continue(ids, length, noise)
        return Clean(*with_specials(ids, first, length, header.sequence_length))

    def _continue(self, ids: Array, length: Ints, noise: View) -> tuple[Array, Ints]:
        """Insert second segments from other rows, where NSP has drawn one."""
        assert noise.b_row is not None and noise.b_start is not None and noise.b_len is not None
        chosen = np.flatnonzero(noise.b_row >= 0)
        first = noise.a_len[chosen].astype(np.int64)
        (foreign,) = self._rows.columns(["ids"], noise.b_row[chosen])
        ids, length = ids.copy(), length.copy()
        ids[chosen] = continue_with(ids[chosen], first, foreign, noise.b_start[chosen])
        length[chosen] = first + noise.b_len[chosen]
        return ids, length

    def _wop_count(self, numbers: Ints, noise: View, header: ViewHeader) -> Ints:
        """Return the moved tokens per row; none if word-order noise, drawn per batch, leaves this batch out."""
        count = noise.wop_count.astype(np.int64)
        if header.batch_portion is None or not len(numbers):
            return count
        (first,) = self._rows.columns(["example_id"], numbers[:1])
        lot = draw_block(header.seed, Stream.MOVE_BATCH, first, minor=header.view)[0]
        return count * happens(lot, header.batch_portion)


def _open_views(directory: Path, rows: RowTable, split: str) -> Sequence[ViewTable | OnTheFlyView]:
    if split == "train" and (directory / NOISE_FILE).exists():
        return on_the_fly_views(directory, rows)
    if split == "heldout":
        return [ViewTable(directory / "heldout", rows, HELDOUT_VIEW)]
    directories = sorted(directory.glob("view-[0-9]*"), key=view_number)
    if not directories:
        raise ShardError(f"{directory}: holds no view-* directory; pass the directory of a views artifact")
    for view, path in enumerate(directories):
        if view_number(path) != view:
            raise ShardError(f"{directory}: view-{view:03d} is missing; rebuild the views")
    return [ViewTable(path, rows, view) for view, path in enumerate(directories)]


def view_number(directory: Path) -> int:
    """Return the number in the name of a view's directory (``view-007``, ``view-1000``)."""
    return int(directory.name.removeprefix("view-"))


def apply_noise(clean: Clean, noise: View, wop_count: Ints) -> Batch:
    """Apply masks and moves to clean sequences. Predicted tokens never move, so the order of the two does not matter."""
    mlm_positions, wop_positions = noise.mlm_pos.astype(np.int64), noise.wop_pos.astype(np.int64)
    origins = noise.wop_src.astype(np.int64)
    predicted = np.arange(mlm_positions.shape[1]) < noise.mlm_count[:, None]
    moved = np.arange(wop_positions.shape[1]) < wop_count[:, None]
    wop_positions = np.where(moved, wop_positions, 0)
    labels = np.take_along_axis(clean.input_ids, mlm_positions, axis=1)
    arrivals = np.take_along_axis(clean.input_ids, np.where(moved, origins, 0), axis=1)
    ids = clean.input_ids.copy()
    # Unused slots write [CLS] to position 0, which holds it already.
    np.put_along_axis(ids, mlm_positions, np.where(predicted, noise.mlm_id, SPECIAL.cls), axis=1)
    np.put_along_axis(ids, wop_positions, arrivals, axis=1)
    return Batch(
        input_ids=ids,
        token_type_ids=clean.token_type_ids,
        lengths=clean.lengths,
        mlm_positions=mlm_positions,
        mlm_labels=np.where(predicted, labels, IGNORED),
        sop_labels=np.where(noise.sop < 0, IGNORED, noise.sop.astype(np.int64)),
        wop_positions=wop_positions,
        wop_labels=np.where(moved, origins, IGNORED),
    )
