"""All shards of a split as one table with global row numbers, memory-mapped; rows are gathered whole batches at a time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from functools import cached_property
from pathlib import Path

import numpy as np

from korealbert.examples.schema import FIXED_COLUMNS, Array, Rows, RowsHeader, View, ViewHeader, open_rows, open_view
from korealbert.examples.segments import Ints


class ShardedNumbers:
    """Global row numbers over consecutive shards."""

    def __init__(self, lengths: list[int]) -> None:
        self.offsets = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])

    def __len__(self) -> int:
        return int(self.offsets[-1])

    def groups(self, numbers: Ints) -> Iterator[tuple[int, Ints, Ints]]:
        """For each shard that occurs: the shard, where in ``numbers`` it occurs, and the rows within the shard.

        Raises IndexError for a number outside the table.
        """
        if numbers.size and not 0 <= int(numbers.min()) <= int(numbers.max()) < len(self):
            raise IndexError(f"rows {numbers.min()}..{numbers.max()} of a table of {len(self)}")
        shard = np.searchsorted(self.offsets, numbers, side="right") - 1
        order = np.argsort(shard, kind="stable")
        borders = np.flatnonzero(np.diff(shard[order])) + 1
        for where in np.split(order, borders) if numbers.size else []:
            index = int(shard[where[0]])
            yield index, where, numbers[where] - self.offsets[index]


class RowTable:
    """The clean rows of one split (``train`` or ``heldout``) over all shards in order of their names."""

    def __init__(self, examples: Path, split: str) -> None:
        self.paths = sorted(examples.glob(f"{split}-*.arrow"))
        opened = [open_rows(path) for path in self.paths]
        self.shards: list[Rows] = [rows for rows, _ in opened]
        self.headers: list[RowsHeader] = [header for _, header in opened]
        self.numbers = ShardedNumbers([len(rows) for rows in self.shards])
        for path, header in zip(self.paths, self.headers, strict=True):
            if header.common != self.headers[0].common:
                raise ValueError(f"{path}: packed as {header.common}, but {self.paths[0].name} as {self.headers[0].common}")

    def __len__(self) -> int:
        return len(self.numbers)

    def column(self, name: str, numbers: Ints) -> Array:
        """One column at some rows, in the order asked for."""
        first = getattr(self.shards[0], name)
        result = np.empty((len(numbers), *first.shape[1:]), dtype=first.dtype)
        for shard, where, local in self.numbers.groups(numbers):
            result[where] = getattr(self.shards[shard], name)[local]
        return result

    def take(self, numbers: Ints) -> Rows:
        """Some rows, in the order asked for, with their sentence lengths."""
        counts, begins = np.empty((2, len(numbers)), dtype=np.int64)
        for shard, where, local in self.numbers.groups(numbers):
            offsets = self.shards[shard].sentence_offsets
            begins[where], counts[where] = offsets[local], offsets[local + 1] - offsets[local]
        offsets = np.concatenate([[0], np.cumsum(counts)])
        lengths = np.empty(offsets[-1], dtype=np.uint16)
        inner = np.arange(offsets[-1]) - np.repeat(offsets[:-1], counts)
        for shard, where, _ in self.numbers.groups(numbers):
            mine = np.repeat(np.isin(np.arange(len(numbers)), where), counts)
            lengths[mine] = self.shards[shard].sentence_lengths[(np.repeat(begins, counts) + inner)[mine]]
        columns = {name: self.column(name, numbers) for name in FIXED_COLUMNS}
        return Rows(**columns, sentence_lengths=lengths, sentence_offsets=offsets)


class ViewTable:
    """One view's noise over all shards, row by row beside a ``RowTable``.

    Raises ValueError naming both sides when the noise was drawn for other rows or another vocabulary.
    """

    def __init__(self, directory: Path, rows: RowTable) -> None:
        self.rows = rows
        self.shards: list[View] = []
        self.headers: list[ViewHeader] = []
        for path, header in zip(rows.paths, rows.headers, strict=True):
            view, mine = open_view(directory / path.name)
            _check_belongs(directory / path.name, mine, path, header)
            self.shards.append(view)
            self.headers.append(mine)

    @cached_property
    def names(self) -> list[str]:
        """The columns that this view has."""
        return [f.name for f in fields(View) if getattr(self.shards[0], f.name) is not None]

    def take(self, numbers: Ints) -> View:
        """Noise of some rows, in the order asked for."""
        first = self.shards[0]
        columns = {}
        for name in self.names:
            column = getattr(first, name)
            columns[name] = np.empty((len(numbers), *column.shape[1:]), dtype=column.dtype)
        for shard, where, local in self.rows.numbers.groups(numbers):
            for name, column in columns.items():
                column[where] = getattr(self.shards[shard], name)[local]
        return View(**columns)


def _check_belongs(view_path: Path, view: ViewHeader, rows_path: Path, rows: RowsHeader) -> None:
    """Refuse noise that was drawn for something else."""
    facts = [
        ("vocabulary", view.vocab_sha256, rows.vocab_sha256),
        ("vocabulary size", view.vocab_size, rows.vocab_size),
        ("sequence length", view.sequence_length, rows.sequence_length),
        ("rows digest", view.rows_digest, rows.digest),
    ]
    for what, of_view, of_rows in facts:
        if of_view != of_rows:
            raise ValueError(
                f"{view_path}: its {what} is {of_view}, that of {rows_path} is {of_rows}; "
                "build the views anew from these examples"
            )
