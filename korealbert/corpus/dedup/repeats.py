"""Repeated passages of the corpus: lines, paragraphs and runs of words, of which only the best copies stay.

Copies are ranked as documents are (``candidates``), then by their place in the document. Two steps: every shard writes a sorted
row for each passage, without those that better ones of the same shard make superfluous (map); the rows of a range of hashes are
merged over all shards, which says what goes (map over ranges). Memory holds the passages of one shard, or one range of rows.

Lines and paragraphs are compared as letters and digits, runs of words as they are written, white space apart: windows of a
fixed number of words, each by its hash. What goes is all that those windows cover which stood before; Lee et al. 2022 (arXiv
2107.06499) find the same by a suffix array.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from pathlib import Path

import numpy as np
import numpy.typing as npt
from pydantic import Field, model_validator

from korealbert.artifact import Spec
from korealbert.corpus.dedup.candidates import Ranking
from korealbert.corpus.dedup.signatures import PrefixHashes, begins_run, save_array, squeeze
from korealbert.corpus.normalise import with_gap
from korealbert.philox import hash64

ROWS_PER_RANGE = 1 << 22
"""Rows of a range of hashes: 64 MB, three times that while they are sorted."""

_SENTENCES, _PARAGRAPHS, _WORDS = range(3)
_KINDS = ("sentences", "paragraphs", "words")
"""Names of the kinds by their numbers, which are the last two bits of a row's hash."""

_Units = npt.NDArray[np.uint64]
"""uint64 [2, passages]: hashes; rank of the document (32 bits) and place there (line, paragraph or first word)."""
_Marks = npt.NDArray[np.uint64]
"""uint64 [passages that go], sorted: number of the document (32 bits), kind (2), place there (30)."""
_RANK_BITS, _KIND_BITS = np.uint64(32), np.uint64(30)
_PLACE, _KIND = np.uint64((1 << 30) - 1), np.uint64(3)


class Repeats(Spec):
    """How often a passage may occur in the corpus."""

    sentences: int = Field(default=0, ge=0)
    """So many lines of the same letters and digits stay, each in the best document that has it; 0: lines are not looked at. The
    clean stage puts a sentence on a line."""
    paragraphs: int = Field(default=0, ge=0)
    """The same for paragraphs."""
    words: int = Field(default=0, ge=0)
    """Runs of so many words that stood in a better document, or before in the same one, go (30 words are about 50 pieces of a
    vocabulary, the length of Lee et al. 2022); 0: not looked at."""
    min_letters: int = Field(default=20, ge=1)
    """Lines and paragraphs of fewer letters and digits always stay; the rest of a line from which words were removed goes
    too if it has fewer."""

    @model_validator(mode="after")
    def _asks(self) -> Repeats:
        if not (self.sentences or self.paragraphs or self.words):
            raise ValueError("set sentences, paragraphs or words, or remove [dedup.repeats]")
        if 0 < self.words < _FEWEST_WORDS:
            raise ValueError(f"words: runs of {self.words} words are ordinary phrases; {_FEWEST_WORDS} or more")
        return self


_FEWEST_WORDS = 8


def _units(text: str, spec: Repeats) -> Iterator[_Units]:
    """Hashes and places of a text's passages, kind by kind."""
    if spec.sentences:
        yield _hashed(((number, squeeze(line)) for number, line in enumerate(text.split("\n"))), _SENTENCES, spec)
    if spec.paragraphs:
        lines = text.split("\n")
        whole = ("".join(squeeze(lines[number]) for number in numbers) for numbers in _paragraphs(lines))
        yield _hashed(enumerate(whole), _PARAGRAPHS, spec)
    if spec.words and len(words := text.split()) >= spec.words:
        ends = np.cumsum([len(word) + 1 for word in words], dtype=np.int64)
        starts = np.concatenate(([0], ends[: -spec.words]))
        hashes = PrefixHashes(" ".join(words)).runs(starts, ends[spec.words - 1 :] - 1 - starts)
        yield np.stack([hashes & ~_KIND | np.uint64(_WORDS), np.arange(len(starts), dtype=np.uint64)])


def _paragraphs(lines: Sequence[str]) -> Iterator[list[int]]:
    """Numbers of the lines of each paragraph."""
    for blank, numbers in groupby(range(len(lines)), lambda number: not lines[number].strip()):
        if not blank:
            yield list(numbers)


def _hashed(passages: Iterable[tuple[int, str]], kind: int, spec: Repeats) -> _Units:
    found = [(hash64(letters) & ~3 | kind, place) for place, letters in passages if len(letters) >= spec.min_letters]
    return np.array(found, dtype=np.uint64).reshape(-1, 2).T


def _sorted(units: Sequence[_Units]) -> _Units:
    joined = np.concatenate([np.empty((2, 0), dtype=np.uint64), *units], axis=1)
    return joined[:, np.lexsort((joined[1], joined[0]))]


def _superfluous(units: _Units, spec: Repeats) -> npt.NDArray[np.bool_]:
    """bool [passages], which are sorted: whether as many better ones have the same hash as may stay.

    A window of words that overlaps the best one in the same document is none of them: it would take that one's own words.
    """
    hashes, places = units
    begins = np.flatnonzero(begins_run(hashes))
    best = np.repeat(begins, np.diff(begins, append=len(hashes)))
    kinds = (hashes & _KIND).astype(np.intp)
    allowed = np.array([spec.sentences, spec.paragraphs, 1])[kinds]
    overlaps = (kinds == _WORDS) & (places - places[best] < np.uint64(spec.words))  # of another document 2^32 and more
    superfluous: npt.NDArray[np.bool_] = (np.arange(len(hashes)) - best >= allowed) & ~overlaps
    return superfluous


def write_units(directory: Path, index: int, documents: Iterable[tuple[int, str]], ranking: Ranking, spec: Repeats) -> int:
    """Write the passages of a shard's documents, given by rank and text; returns how many are to be merged with others."""
    parts = []
    for rank, text in documents:
        for units in _units(text, spec):
            units[1] |= np.uint64(rank << 32)
            parts.append(units)
    units = _sorted(parts)
    goes = _superfluous(units, spec)
    save_array(_path(directory, "units", index), units[:, ~goes])
    save_array(_path(directory, "repeated-in", index), _marks(units[:, goes], ranking))
    return len(goes) - int(goes.sum())


def ranges(units: int) -> list[tuple[int, int]]:
    """Ranges of hashes, first and last, each with about ``ROWS_PER_RANGE`` of so many rows."""
    count = max(1, -(-units // ROWS_PER_RANGE))
    bounds = [(number << 64) // count for number in range(count + 1)]
    return [(first, end - 1) for first, end in pairwise(bounds)]


def merge_range(directory: Path, index: int, bounds: tuple[int, int], shards: int, ranking: Ranking, spec: Repeats) -> None:
    """Write which passages go whose hashes are in a range."""
    parts = []
    for shard in range(shards):
        units = np.load(_path(directory, "units", shard), mmap_mode="r")
        start = np.searchsorted(units[0], np.uint64(bounds[0]))
        end = np.searchsorted(units[0], np.uint64(bounds[1]), "right")
        parts.append(np.array(units[:, start:end]))
    units = _sorted(parts)
    save_array(_path(directory, "repeated", index), _marks(units[:, _superfluous(units, spec)], ranking))


def _marks(units: _Units, ranking: Ranking) -> _Marks:
    hashes, places = units
    numbers = ranking.numbers((places >> _RANK_BITS).astype(np.uint32)).astype(np.uint64)
    return np.sort(numbers << _RANK_BITS | (hashes & _KIND) << _KIND_BITS | places & _PLACE)


def read_marks(directory: Path, index: int, numbers: tuple[int, int], merged: int) -> dict[int, _Marks]:
    """Ordinal in the shard → the document's passages that go."""
    parts = [np.load(_path(directory, "repeated-in", index))]
    for part in range(merged):
        marks = np.load(_path(directory, "repeated", part), mmap_mode="r")
        start, end = np.searchsorted(marks, np.array(numbers, dtype=np.uint64) << _RANK_BITS)
        parts.append(np.array(marks[start:end]))
    found = np.sort(np.concatenate(parts))
    starts = np.flatnonzero(begins_run(found >> _RANK_BITS))
    return {int(part[0] >> _RANK_BITS) - numbers[0]: part for part in np.split(found, starts[1:]) if len(part)}


def _path(directory: Path, kind: str, index: int) -> Path:
    """``units``: passages of a shard; ``repeated-in``: those that go for better ones there; ``repeated``: those of a range."""
    return directory / f"{kind}-{index:05d}.npy"


@dataclass(frozen=True, slots=True)
class _Removal:
    """One deleted passage."""

    kind: str
    start: int
    """Offset in the text before anything was deleted."""
    text: str
    """The deleted text, including white space around it."""


@dataclass(frozen=True, slots=True)
class Shortened:
    """A text without repeated passages, and the removed ones in order."""

    text: str
    removals: tuple[_Removal, ...] = ()

    def restored(self) -> str:
        """The original text."""
        text = self.text
        for one in self.removals:
            text = text[: one.start] + one.text + text[one.start :]
        return text


@dataclass(slots=True)
class _Line:
    start: int
    end: int
    words: list[tuple[int, int]]
    """Extents of its words in the text."""
    gone: list[bool]
    """Flags of the words that are removed."""
    kind: int = -1
    """Why the whole line goes; -1: it does not."""


def shorten(text: str, marks: _Marks, spec: Repeats) -> Shortened:
    """Delete the passages that ``marks`` name. A line or paragraph of which nothing is left leaves no blank one."""
    lines = _lines(text)
    kinds, places = marks >> _KIND_BITS & _KIND, (marks & _PLACE).astype(np.int64)
    _mark_words(lines, places[kinds == _WORDS], spec)
    paragraphs = list(_paragraphs(text.split("\n")))
    for place in places[kinds == _PARAGRAPHS].tolist():
        for number in paragraphs[place]:
            lines[number].kind = _PARAGRAPHS
    for number in places[kinds == _SENTENCES].tolist():
        lines[number].kind = _SENTENCES
    for line in lines:
        if line.kind < 0 and any(line.gone):
            rest = "".join(text[start:end] for (start, end), gone in zip(line.words, line.gone) if not gone)
            if len(squeeze(rest)) < spec.min_letters:
                line.kind = _WORDS
    spans = sorted([*_whole_lines(text, lines), *(span for line in lines if line.kind < 0 for span in _parts(line))])
    left, removals, position = [], [], 0
    for start, end, kind in spans:
        removals.append(_Removal(_KINDS[kind], start, text[start:end]))
        left.append(text[position:start])
        position = end
    return Shortened("".join([*left, text[position:]]), tuple(removals))


def _lines(text: str) -> list[_Line]:
    lines, start = [], 0
    for content in text.split("\n"):
        words, position = [], start
        for word in content.split():
            position = text.index(word, position)
            words.append((position, position + len(word)))
            position += len(word)
        lines.append(_Line(start, start + len(content), words, [False] * len(words)))
        start += len(content) + 1
    return lines


def _mark_words(lines: Sequence[_Line], firsts: npt.NDArray[np.int64], spec: Repeats) -> None:
    """Mark the words that windows cover, which begin at the words of these numbers."""
    if not len(firsts):
        return
    change = np.zeros(sum(len(line.words) for line in lines) + 1, dtype=np.int64)
    np.add.at(change, firsts, 1)
    np.add.at(change, firsts + spec.words, -1)
    gone = iter((np.cumsum(change) > 0).tolist())
    for line in lines:
        line.gone = [next(gone) for _ in line.words]


def _whole_lines(text: str, lines: Sequence[_Line]) -> Iterator[tuple[int, int, int]]:
    """Extents of neighbouring lines that go, with the smaller of the gaps above and below, and why."""
    written = [line for line in lines if line.words]
    for goes, group in groupby(written, lambda line: line.kind >= 0):
        if not goes:
            continue
        run = list(group)
        yield *with_gap(text, run[0].start, run[-1].end), run[0].kind


def _parts(line: _Line) -> Iterator[tuple[int, int, int]]:
    """Extents of the runs of words of a line that go, with the blank behind them, or at its end the one before them."""
    for goes, group in groupby(range(len(line.words)), line.gone.__getitem__):
        if goes:
            run = list(group)
            if run[-1] + 1 < len(line.words):
                yield line.words[run[0]][0], line.words[run[-1] + 1][0], _WORDS
            else:
                yield line.words[run[0] - 1][1], line.words[run[-1]][1], _WORDS
