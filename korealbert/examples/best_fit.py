"""Packs several sequences into each row, without padding between them: the layout, and batches of packed rows.

Stored rows do not change. Sequences are packed into rows of L tokens by best fit, longest first: each goes into the row where
it leaves the least room. The layout depends only on their lengths, so every process computes the same one, all views share it,
and a position in the training order refers to a packed row. Legend: B packed rows of L tokens, n sequences in them, S slots for
sequences in each, T tokens in total.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt

from korealbert.examples.batches import IGNORED, Batch, ExampleBatches
from korealbert.examples.schema import Array, View
from korealbert.examples.segments import Ints, before, ranges, slots
from korealbert.vocab.tokenizer import SPECIAL

_WIDTHS = 16
"""Widths of prediction slots are multiples of row length / this, so that few shapes occur and few slots are unused."""


@dataclass(frozen=True)
class _Layout:
    """The sequences of each packed row."""

    members: npt.NDArray[np.uint32]
    """[n]: numbers of the sequences, one packed row after another, each with its longest first."""
    offsets: Ints
    """[B + 1]: start of each packed row in ``members``."""

    def __len__(self) -> int:
        return len(self.offsets) - 1


def best_fit(sizes: Array, capacity: int) -> _Layout:
    """Pack sequences of ``sizes`` (tokens [n], 1 to ``capacity``) into rows of ``capacity``: best fit, longest first.

    Equal sizes are packed together, so the work grows with the number of distinct sizes, not of sequences.
    """
    order = np.argsort((capacity - sizes).astype(np.uint16), kind="stable").astype(np.uint32)  # Linear for 16-bit integers.
    counts = np.bincount(sizes, minlength=capacity + 1)
    opened: dict[int, list[Ints]] = {}  # Packed rows by their free room.
    room_of = np.zeros(capacity + 1, dtype=np.bool_)
    row_of = np.empty(len(sizes), dtype=np.uint32)
    laid = rows = 0
    for size in np.flatnonzero(counts)[::-1].tolist():
        end = laid + int(counts[size])
        while laid < end:
            rooms = np.flatnonzero(room_of[size:])
            room = int(rooms[0]) + size if rooms.size else capacity
            each = room // size
            needed = -(-(end - laid) // each)
            if rooms.size:
                candidates = np.concatenate(opened.pop(room))
                room_of[room] = False
            else:
                candidates = np.arange(rows, rows + needed)
                rows += needed
            taken, left = candidates[:needed], candidates[needed:]
            placed = min(len(taken) * each, end - laid)
            row_of[laid : laid + placed] = np.repeat(taken, each)[:placed]
            laid += placed
            last = placed - (len(taken) - 1) * each
            for part, rest in ((left, room), (taken[:-1], room - each * size), (taken[-1:], room - last * size)):
                if part.size and rest:
                    opened.setdefault(rest, []).append(part)
                    room_of[rest] = True
    by_row = np.argsort(row_of, kind="stable")
    offsets = np.concatenate([[0], np.cumsum(np.bincount(row_of, minlength=rows))]).astype(np.int64)
    return _Layout(order[by_row], offsets)


class PackedBatches(ExampleBatches):
    """Packed rows of one split under any of its views; ``num_rows`` counts these.

    Raises ValueError as ``ExampleBatches`` does, and for views of pairs (NSP), whose lengths differ from view to view.
    """

    def __init__(self, examples: Path, views: Path, split: Literal["train", "heldout"], *, wop_reach: int = 0) -> None:
        super().__init__(examples, views, split, wop_reach=wop_reach)
        if self.num_rows and self.header(0).sentence_task == "nsp":
            raise ValueError(
                f"{views.name} continues rows with those of others (NSP), which cannot be packed; take SOP or none"
            )
        sizes = [rows.length + np.uint16(2) + (np.diff(rows.sentence_offsets) > 1) for rows in self._rows.shards]
        self._sizes: Array = np.concatenate([np.empty(0, dtype=np.uint16), *sizes]).astype(np.uint16)
        """[n]: tokens of each sequence, including ``[CLS]`` and ``[SEP]``."""
        self._layout = best_fit(self._sizes, self.sequence_length)
        self.num_rows = len(self._layout)
        self._slots = int(np.diff(self._layout.offsets).max(initial=0))
        of_size = np.bincount(self._sizes) * np.arange(int(self._sizes.max(initial=0)) + 1)
        tokens = int(of_size.sum())
        self.fill = tokens / max(1, self.num_rows * self.sequence_length)
        """Share of all positions that hold tokens."""
        self.attended = int((of_size * np.arange(len(of_size))).sum() / max(1, tokens))
        """Tokens of its own sequence that a token sees, on average."""

    def gather(self, view: int, rows: npt.NDArray[np.int64]) -> Batch:
        """As ``ExampleBatches.gather``, with ``lengths`` and ``sop_labels`` [B, S] and ``token_type_ids`` [B, 0].

        Positions count from the start of the packed row, word-order labels within their own sequence.
        """
        begins, counts = self._layout.offsets[rows], self._layout.offsets[rows + 1] - self._layout.offsets[rows]
        numbers = self._layout.members[ranges(begins, counts)].astype(np.int64)
        table = self._use(view)
        noise = table.take(numbers)
        sizes = self._sizes[numbers].astype(np.int64)
        ends = np.cumsum(sizes)
        row_of = np.repeat(np.arange(len(rows)), counts)
        # All earlier rows' tokens precede a packed row's first sequence, whose position is row · L.
        preceding = (ends - sizes)[(np.cumsum(counts) - counts)] if len(rows) else ends[:0]
        starts = ends - sizes + (np.arange(len(rows)) * self.sequence_length - preceding)[row_of]
        moves = self._wop_count(numbers, noise, table.header)
        flat = np.zeros(len(rows) * self.sequence_length, dtype=np.int64)
        try:
            self._place(flat, numbers, noise, starts, sizes, swapped=table.header.sentence_task == "sop")
            locate = partial(_locate, starts, sizes, row_of, len(rows), self.sequence_length)
            mlm = locate(noise.mlm_pos, noise.mlm_count.astype(np.int64))
            wop = locate(noise.wop_pos, moves)
            origins = noise.wop_src[before(moves, noise.wop_src.shape[1])].astype(np.int64)
            mlm_labels, arrivals = flat[mlm.places], flat[wop.begins + origins]
            flat[mlm.places] = noise.mlm_id[before(noise.mlm_count.astype(np.int64), noise.mlm_id.shape[1])]
            flat[wop.places] = arrivals
        except IndexError as error:
            raise self._damaged(view, error) from error
        return Batch(
            input_ids=flat.reshape(len(rows), self.sequence_length),
            token_type_ids=np.zeros((len(rows), 0), dtype=np.int64),
            lengths=slots(counts, sizes, self._slots, np.int64),
            mlm_positions=mlm.slots(mlm.within, 0),
            mlm_labels=mlm.slots(mlm_labels, IGNORED),
            sop_labels=slots(counts, np.where(noise.sop < 0, IGNORED, noise.sop), self._slots, np.int64, IGNORED),
            wop_positions=wop.slots(wop.within, 0),
            wop_labels=wop.slots(self._wop_classes(wop.places - wop.begins, origins), IGNORED),
        )

    def _place(self, flat: Ints, numbers: Ints, noise: View, starts: Ints, sizes: Ints, *, swapped: bool) -> None:
        """Write clean sequences with their special tokens into ``flat``, from ``starts`` on."""
        ids, lengths = self._rows.columns(["ids", "length"], numbers)
        length, first = lengths.astype(np.int64), noise.a_len.astype(np.int64)
        paired = first < length
        if not np.array_equal(length + 2 + paired, sizes):
            raise IndexError("segments of another length than the row's")
        source, target = np.arange(len(ids)) * ids.shape[1], starts + 1
        second = length - first
        turned = (noise.sop == 1) if swapped else np.zeros(len(ids), dtype=np.bool_)
        # The row stores a swapped pair in its original order, so its first segment comes second here.
        pieces = ids.reshape(-1)
        for begins, count, place in (
            (source + np.where(turned, second, 0), first, target),
            (source + np.where(turned, 0, first), second, target + first + 1),
        ):
            flat[ranges(place, count)] = pieces[ranges(begins, count)]
        flat[starts] = SPECIAL.cls
        flat[target + first] = SPECIAL.sep
        flat[(starts + sizes - 1)[paired]] = SPECIAL.sep


@dataclass(frozen=True)
class _Slots:
    """The targets of one task in packed rows, flat and in order."""

    places: Ints
    """Position in the flat tokens."""
    begins: Ints
    """Start of each target's sequence there."""
    within: Ints
    """Position in the packed row."""
    counts: Ints
    """[B]"""
    width_unit: int

    def slots(self, values: Ints, unused: int) -> Ints:
        """Return the values row by row: [B, P]."""
        width = -(-max(1, int(self.counts.max(initial=0))) // self.width_unit) * self.width_unit
        return slots(self.counts, values, width, np.int64, unused)


def _locate(starts: Ints, sizes: Ints, row_of: Ints, rows: int, length: int, positions: Array, counts: Ints) -> _Slots:
    """Locate targets in packed rows from ``positions`` within their sequences [n, P], ``counts`` [n] of which are used."""
    if counts.max(initial=0) > positions.shape[1]:
        raise IndexError("more targets than slots")
    begins, within = np.repeat(starts, counts), positions[before(counts, positions.shape[1])]
    if (within >= np.repeat(sizes, counts)).any():
        raise IndexError("a position beyond its sequence")
    places = begins + within
    in_row = np.bincount(row_of, counts, rows).astype(np.int64)
    within_row = places - np.repeat(np.arange(rows) * length, in_row)
    return _Slots(places, begins, within_row, in_row, max(1, length // _WIDTHS))
