"""All shards of a split as one memory-mapped table with global row numbers; whole batches of rows are gathered at a time."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path

import numpy as np

from korealbert.documents.shards import ShardError
from korealbert.examples.schema import FIXED_COLUMNS, Array, Rows, RowsHeader, View, ViewHeader, open_rows, open_view
from korealbert.examples.segments import Ints


class _ShardedNumbers:
    """Global row numbers over consecutive shards."""

    def __init__(self, lengths: list[int]) -> None:
        self.offsets = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])

    def __len__(self) -> int:
        return int(self.offsets[-1])

    def locate(self, numbers: Ints) -> _Places:
        """Return where rows are. Raises IndexError for a number outside the table."""
        if numbers.size and not 0 <= int(numbers.min()) <= int(numbers.max()) < len(self):
            raise IndexError(f"rows {numbers.min()}..{numbers.max()} of a table of {len(self)}")
        shard = np.searchsorted(self.offsets, numbers, side="right") - 1
        return _Places(shard, numbers - self.offsets[shard])


@dataclass(frozen=True)
class _Places:
    """Some rows of a sharded table, in the order given."""

    shard: Ints
    local: Ints
    """Number of each row within its shard."""

    @cached_property
    def by_shard(self) -> tuple[Ints, list[tuple[int, int, Ints]]]:
        """Return the order that sorts the rows by shard, and each shard's number, first place in that order, and rows."""
        order = np.argsort(self.shard, kind="stable")
        shard, local = self.shard[order], self.local[order]
        begins = np.flatnonzero(np.diff(shard, prepend=-1))
        return order, list(zip(shard[begins].tolist(), begins.tolist(), np.split(local, begins[1:]), strict=False))


_ROWS_PER_SHARD = 4
"""A batch with fewer rows per shard, as is usual with many shards, is gathered row by row."""


class Column:
    """A fixed-width column over all shards."""

    def __init__(self, shards: Sequence[Array]) -> None:
        self._shards = shards
        self._bytes = [np.ascontiguousarray(shard).reshape(-1).view(np.uint8).data for shard in shards]

    def at(self, places: _Places) -> Array:
        """Return the column at some rows, in the order given."""
        first, count = self._shards[0], len(places.local)
        order, groups = places.by_shard
        if _ROWS_PER_SHARD * len(groups) > count:
            return self._slices(places)
        found = np.empty((count, *first.shape[1:]), dtype=first.dtype)
        for shard, begin, local in groups:
            self._shards[shard].take(local, axis=0, out=found[begin : begin + len(local)], mode="clip")
        if len(groups) == 1:
            return found
        result = np.empty_like(found)
        result[order] = found
        return result

    def _slices(self, places: _Places) -> Array:
        """Gather row by row as slices of bytes, which costs a tenth of indexing arrays."""
        first = self._shards[0]
        width = first.itemsize * math.prod(first.shape[1:])
        begins = (places.local * width).tolist()
        shards = map(self._bytes.__getitem__, places.shard.tolist())
        rows = bytearray().join([shard[begin : begin + width] for shard, begin in zip(shards, begins, strict=True)])
        return np.frombuffer(rows, dtype=first.dtype).reshape(len(begins), *first.shape[1:])


class RowTable:
    """The clean rows of one split (``train`` or ``heldout``) over all shards, in order of their names."""

    def __init__(self, examples: Path, split: str) -> None:
        self.directory = examples
        self.paths = sorted(examples.glob(f"{split}-*.arrow"))
        opened = [open_rows(path) for path in self.paths]
        self.shards: list[Rows] = [rows for rows, _ in opened]
        self.headers: list[RowsHeader] = [header for _, header in opened]
        self.numbers = _ShardedNumbers([len(rows) for rows in self.shards])
        self._columns = {name: Column([getattr(rows, name) for rows in self.shards]) for name in FIXED_COLUMNS if self.shards}
        for path, header in zip(self.paths, self.headers, strict=True):
            if header.common != self.headers[0].common:
                raise ValueError(f"{path}: packed as {header.common}, but {self.paths[0].name} as {self.headers[0].common}")

    def __len__(self) -> int:
        return len(self.numbers)

    def columns(self, names: Sequence[str], numbers: Ints) -> list[Array]:
        """Return columns at some rows, in the order given."""
        places = self.numbers.locate(numbers)
        return [self._columns[name].at(places) for name in names]

    def take(self, numbers: Ints) -> Rows:
        """Return some rows, in the order given, with their sentence lengths."""
        places = self.numbers.locate(numbers)
        sentences = []
        for shard, row in zip(places.shard.tolist(), places.local.tolist(), strict=True):
            offsets, lengths = self.shards[shard].sentence_offsets, self.shards[shard].sentence_lengths
            sentences.append(lengths[offsets[row] : offsets[row + 1]])
        columns = {name: column.at(places) for name, column in self._columns.items()}
        return Rows(
            **columns,
            sentence_lengths=np.concatenate([*sentences, np.empty(0, dtype=np.uint16)]),
            sentence_offsets=np.cumsum([0, *map(len, sentences)]),
        )

    def rows_without(self, doc_id: int) -> Ints:
        """Return the numbers of the rows of all documents but one."""
        shards = zip(self.numbers.offsets, self.shards, strict=False)
        return np.concatenate([begin + np.flatnonzero(rows.doc_id != doc_id) for begin, rows in shards])


class ViewTable:
    """One view's noise over all shards, row by row next to a ``RowTable``; mapped into memory while it is in use.

    Raises ValueError naming both sides if the noise belongs to other rows, another vocabulary or another view, and ShardError
    if rows that the view has noise for are missing.
    """

    def __init__(self, directory: Path, rows: RowTable, view: int) -> None:
        self._rows = rows
        self._paths = [directory / path.name for path in rows.paths]
        self._columns: dict[str, Column] = {}
        check_complete(directory, (path.name for path in directory.glob("*.arrow")), rows)
        counts: Counter[str] = Counter()
        batches = 1.0
        for path, rows_path, rows_header in zip(self._paths, rows.paths, rows.headers, strict=True):
            header = open_view(path)[1]
            check_belongs(path, header, rows_path, rows_header)
            if path == self._paths[0]:
                self.header = header
                """Metadata of the first shard; the fields used are equal in all shards."""
                if header.batch_portion is not None:
                    batches = header.batch_portion
            if header.view != view or header.common != self.header.common:
                raise ValueError(
                    f"{path}: holds view {header.view} of {header.common}, expected view {view} of {self.header.common}; "
                    "rebuild the views"
                )
            counts.update(header.counts)
        pieces = max(1, counts["pieces"])
        self.noised = counts["mlm_targets"] / pieces, counts["wop_targets"] / pieces * batches
        """Shares of all pieces that are predicted and that are moved."""

    def take(self, numbers: Ints) -> View:
        """Return the noise of some rows, in the order given."""
        if not self._columns:
            shards = [open_view(path)[0] for path in self._paths]
            names = [f.name for f in fields(View) if getattr(shards[0], f.name) is not None]
            self._columns = {name: Column([getattr(shard, name) for shard in shards]) for name in names}
        places = self._rows.numbers.locate(numbers)
        return View(**{name: column.at(places) for name, column in self._columns.items()})

    def close(self) -> None:
        """Release the files until the next ``take``."""
        self._columns = {}


def check_complete(views: Path, names: Iterable[str], rows: RowTable) -> None:
    """Raise ShardError if a shard of rows is missing for which there is noise (``names``)."""
    if missing := sorted(set(names) - {path.name for path in rows.paths}):
        raise ShardError(
            f"{views}: holds noise for {missing[0]}, but {rows.directory} has no such shard of rows; rebuild the examples"
        )


def check_belongs(view_path: Path, view: ViewHeader, rows_path: Path, rows: RowsHeader) -> None:
    """Raise ValueError if the noise is for other rows or another vocabulary."""
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
                "build the views again from these examples"
            )
