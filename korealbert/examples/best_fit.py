"""Packing of several sequences into each row, without padding between them: the layout, and batches of packed rows.

Stored rows do not change. Sequences are packed into rows of L tokens by best fit, the longest first: each goes into the row
where it leaves the least room. The layout depends only on their lengths, so every process computes the same one, all views
share it, and a position in the training order names a packed row instead of a single one. Legend: B packed rows of L tokens,
n sequences in them, S slots for sequences in each, T tokens of all.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt

from korealbert.examples.batches import IGNORED, Batch, ExampleBatches
from korealbert.examples.schema import Array, View
from korealbert.examples.segments import Ints, before, ranges, slots
from korealbert.vocab.tokenizer import SPECIAL

_WIDTHS = 16
"""Widths of prediction slots are multiples of a row's length divided by this: few shapes occur, and few slots are unused."""


@dataclass(frozen=True)
class _Layout:
    """The sequences of each packed row."""

    members: npt.NDArray[np.uint32]
    """[n]: numbers of the sequences, packed row after packed row, the longest of each first."""
    offsets: Ints
    """[B + 1]: where each packed row begins in ``members``."""

    def __len__(self) -> int:
        return len(self.offsets) - 1


def best_fit(sizes: Array, capacity: int) -> _Layout:
    """Lay sequences of ``sizes`` (tokens [n], 1 to ``capacity``) into rows of ``capacity``: best fit, in falling order.

    Equal sizes are laid together, so the work grows with the number of distinct sizes and not with that of sequences.
    """
    order = np.argsort((capacity - sizes).astype(np.uint16), kind="stable").astype(np.uint32)  # Linear for 16 bits.
    counts = np.bincount(sizes, minlength=capacity + 1)
    opened: dict[int, list[Ints]] = {}  # Packed rows by the room that is left in them.
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
        """[n]: tokens of each sequence, ``[CLS]`` and ``[SEP]`` included."""
        self._layout = best_fit(self._sizes, self.sequence_length)
        self.num_rows = len(self._layout)
        self._slots = int(np.diff(self._layout.offsets).max(initial=0))
        of_size = np.bincount(self._sizes) * np.arange(int(self._sizes.max(initial=0)) + 1)
        tokens = int(of_size.sum())
        self.fill = tokens / max(1, self.num_rows * self.sequence_length)
        """Share of all places that tokens fill."""
        self.attended = int((of_size * np.arange(len(of_size))).sum() / max(1, tokens))
        """Tokens of its own sequence that a token sees, on average."""

    def gather(self, view: int, rows: npt.NDArray[np.int64]) -> Batch:
        """As ``ExampleBatches.gather``, with ``lengths`` and ``sop_labels`` [B, S] and ``token_type_ids`` [B, 0].

        Positions count from the begin of the packed row, labels of word order within their own sequence.
        """
        begins, counts = self._layout.offsets[rows], self._layout.offsets[rows + 1] - self._layout.offsets[rows]
        numbers = self._layout.members[ranges(begins, counts)].astype(np.int64)
        table = self._use(view)
        noise = table.take(numbers)
        sizes = self._sizes[numbers].astype(np.int64)
        ends = np.cumsum(sizes)
        row_of = np.repeat(np.arange(len(rows)), counts)
        # The tokens of all earlier rows precede a packed row's first sequence; its own places begin at row · L.
        in_front = (ends - sizes)[(np.cumsum(counts) - counts)] if len(rows) else ends[:0]
        starts = ends - sizes + (np.arange(len(rows)) * self.sequence_length - in_front)[row_of]
        moves = self._wop_count(numbers, noise, table.header)
        flat = np.zeros(len(rows) * self.sequence_length, dtype=np.int64)
        try:
            self._lay(flat, numbers, noise, starts, sizes, swapped=table.header.sentence_task == "sop")
            targets = _Targets(starts, sizes, row_of, len(rows), self.sequence_length)
            mlm = targets.of(noise.mlm_pos, noise.mlm_count.astype(np.int64))
            wop = targets.of(noise.wop_pos, moves)
            origins = noise.wop_src[before(moves, noise.wop_src.shape[1])].astype(np.int64)
            mlm_labels, arrivals = flat[mlm.places], flat[wop.begins + origins]
            flat[mlm.places] = noise.mlm_id[before(noise.mlm_count.astype(np.int64), noise.mlm_id.shape[1])]
            flat[wop.places] = arrivals
        except IndexError as error:
            raise self._damaged(view, error) from error
        return Batch(
            input_ids=flat.reshape(len(rows), -1),
            token_type_ids=np.zeros((len(rows), 0), dtype=np.int64),
            lengths=slots(counts, sizes, self._slots, np.int64),
            mlm_positions=mlm.slots(mlm.within, 0),
            mlm_labels=mlm.slots(mlm_labels, IGNORED),
            sop_labels=slots(counts, np.where(noise.sop < 0, IGNORED, noise.sop), self._slots, np.int64, IGNORED),
            wop_positions=wop.slots(wop.within, 0),
            wop_labels=wop.slots(self._wop_classes(wop.places - wop.begins, origins), IGNORED),
        )

    def _lay(self, flat: Ints, numbers: Ints, noise: View, starts: Ints, sizes: Ints, *, swapped: bool) -> None:
        """Clean sequences with their special tokens, from ``starts`` on."""
        ids, lengths = self._rows.columns(["ids", "length"], numbers)
        length, first = lengths.astype(np.int64), noise.a_len.astype(np.int64)
        paired = first < length
        if not np.array_equal(length + 2 + paired, sizes):
            raise IndexError("segments of another length than the row's")
        source, target = np.arange(len(ids)) * ids.shape[1], starts + 1
        second = length - first
        turned = (noise.sop == 1) if swapped else np.zeros(len(ids), dtype=np.bool_)
        # A swapped pair is in the row in reverse: its first segment there is the second of the sequence.
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
    """Targets of one task in packed rows, flat and in order."""

    places: Ints
    """In the flat tokens."""
    begins: Ints
    """Where the sequence of each begins there."""
    within: Ints
    """Position in the packed row."""
    counts: Ints
    """[B]"""
    width_unit: int

    def slots(self, values: Ints, unused: int) -> Ints:
        """[B, P]: the values row by row."""
        width = -(-max(1, int(self.counts.max(initial=0))) // self.width_unit) * self.width_unit
        return slots(self.counts, values, width, np.int64, unused)


@dataclass(frozen=True)
class _Targets:
    """Finds targets: the places of sequences in the flat tokens, and their packed rows."""

    starts: Ints
    sizes: Ints
    row_of: Ints
    rows: int
    length: int

    def of(self, positions: Array, counts: Ints) -> _Slots:
        """From positions within their sequences [n, P] and how many of them are used [n]."""
        if counts.max(initial=0) > positions.shape[1]:
            raise IndexError("more targets than slots")
        begins, within = np.repeat(self.starts, counts), positions[before(counts, positions.shape[1])]
        if (within >= np.repeat(self.sizes, counts)).any():
            raise IndexError("a position beyond its sequence")
        places = begins + within
        in_row = np.bincount(self.row_of, counts, self.rows).astype(np.int64)
        within_row = places - np.repeat(np.arange(self.rows) * self.length, in_row)
        return _Slots(places, begins, within_row, in_row, max(1, self.length // _WIDTHS))
