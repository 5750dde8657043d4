"""Removal of repeated passages (lines, paragraphs, runs of words), of which only the best copies are kept.

Copies are ranked as their documents are (``candidates``), then by their place in the document. Each shard writes its passages
sorted by hash, without those that have enough better copies in the same shard (map). Then the passages of each range of hashes
are merged over all shards (map over ranges). Memory holds the passages of one shard, or of one range.

Lines and paragraphs are compared by their letters and figures, runs of words by the hash of each window of a fixed number of
words. All words of repeated windows are removed; Lee et al. 2022 (arXiv 2107.06499) find the same by a suffix array.
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
from korealbert.corpus.dedup.signatures import PrefixHashes, begins_run, letters_in, save_array, squeeze, with_figures
from korealbert.corpus.normalise import with_line_breaks
from korealbert.philox import hash64

ROWS_PER_RANGE = 1 << 22
"""Passages of a range of hashes: 64 MB, and three times as much while they are sorted."""

_SENTENCES, _PARAGRAPHS, _WORDS = range(3)
_KINDS = ("sentences", "paragraphs", "words")
"""Names of the kinds, whose numbers are the last two bits of a passage's hash."""

_Passages = npt.NDArray[np.uint64]
"""Passages: uint64 [2, passages] of hashes, and ranks of documents (32 bits) with places (line, paragraph or first word)."""
_Marks = npt.NDArray[np.uint64]
"""Passages to remove, sorted: uint64 [passages] of document number (32 bits), kind (2) and place (30)."""
_RANK_BITS, _KIND_BITS = np.uint64(32), np.uint64(30)
_PLACE, _KIND = np.uint64((1 << 30) - 1), np.uint64(3)


class Repeats(Spec):
    """How often a passage may occur in the corpus."""

    sentences: int = Field(default=0, ge=0)
    """How many lines with the same letters and figures are kept, those of the best documents; 0: all. After the clean stage a
    line is a sentence."""
    paragraphs: int = Field(default=0, ge=0)
    """The same for paragraphs."""
    words: int = Field(default=0, ge=0)
    """Runs of this many words are removed if a better document has them, or the same one earlier; 0: none. 30 words are about
    50 pieces of a vocabulary, the length of Lee et al. 2022."""
    min_letters: int = Field(default=20, ge=1)
    """Lines and paragraphs of fewer letters and digits are kept, but what is left of a line from which words were removed is
    removed as well if it has fewer."""

    @model_validator(mode="after")
    def _limits_something(self) -> Repeats:
        if not (self.sentences or self.paragraphs or self.words):
            raise ValueError("set sentences, paragraphs or words, or remove [dedup.repeats]")
        if 0 < self.words < _MIN_WORDS:
            raise ValueError(f"words: runs of {self.words} words are ordinary phrases; set {_MIN_WORDS} or more")
        return self


_MIN_WORDS = 8


def _passages(text: str, spec: Repeats) -> Iterator[_Passages]:
    """Yield the passages of a text, one array for each kind."""
    if spec.sentences:
        yield _hashed(((number, with_figures(line)) for number, line in enumerate(text.split("\n"))), _SENTENCES, spec)
    if spec.paragraphs:
        lines = text.split("\n")
        whole = (with_figures(" ".join(lines[number] for number in numbers)) for numbers in _paragraphs(lines))
        yield _hashed(enumerate(whole), _PARAGRAPHS, spec)
    if spec.words and len(words := text.split()) >= spec.words:
        ends = np.cumsum([len(word) + 1 for word in words], dtype=np.int64)
        starts = np.concatenate(([0], ends[: -spec.words]))
        hashes = PrefixHashes(" ".join(words)).runs(starts, ends[spec.words - 1 :] - 1 - starts)
        yield np.stack([hashes & ~_KIND | np.uint64(_WORDS), np.arange(len(starts), dtype=np.uint64)])


def _paragraphs(lines: Sequence[str]) -> Iterator[list[int]]:
    """Yield the numbers of the lines of each paragraph."""
    for blank, numbers in groupby(range(len(lines)), lambda number: not lines[number].strip()):
        if not blank:
            yield list(numbers)


def _hashed(passages: Iterable[tuple[int, str]], kind: int, spec: Repeats) -> _Passages:
    found = [(hash64(letters) & ~3 | kind, place) for place, letters in passages if letters_in(letters) >= spec.min_letters]
    return np.array(found, dtype=np.uint64).reshape(-1, 2).T


def _sorted(passages: Sequence[_Passages]) -> _Passages:
    joined = np.concatenate([np.empty((2, 0), dtype=np.uint64), *passages], axis=1)
    return joined[:, np.lexsort((joined[1], joined[0]))]


def _superfluous(passages: _Passages, spec: Repeats) -> npt.NDArray[np.bool_]:
    """Return which of the sorted passages have as many better copies as are kept: bool [passages].

    A window of words that overlaps the best copy is never superfluous, because removing it would remove words of that copy.
    """
    hashes, places = passages
    begins = np.flatnonzero(begins_run(hashes))
    best = np.repeat(begins, np.diff(begins, append=len(hashes)))
    kinds = (hashes & _KIND).astype(np.intp)
    allowed = np.array([spec.sentences, spec.paragraphs, 1])[kinds]
    # Places in different documents differ by 2^32 and more.
    overlaps = (kinds == _WORDS) & (places - places[best] < np.uint64(spec.words))
    superfluous: npt.NDArray[np.bool_] = (np.arange(len(hashes)) - best >= allowed) & ~overlaps
    return superfluous


def write_passages(directory: Path, index: int, documents: Iterable[tuple[int, str]], ranking: Ranking, spec: Repeats) -> int:
    """Write the passages of a shard's documents, given as ranks and texts; return how many must be merged with other shards."""
    parts = []
    for rank, text in documents:
        for passages in _passages(text, spec):
            passages[1] |= np.uint64(rank << 32)
            parts.append(passages)
    passages = _sorted(parts)
    superfluous = _superfluous(passages, spec)
    save_array(_path(directory, "units", index), passages[:, ~superfluous])
    save_array(_path(directory, "repeated-in", index), _marks(passages[:, superfluous], ranking))
    return int((~superfluous).sum())


def ranges(passages: int) -> list[tuple[int, int]]:
    """Return ranges of hashes, as first and last, that have about ``ROWS_PER_RANGE`` of the passages each."""
    count = max(1, -(-passages // ROWS_PER_RANGE))
    bounds = [(number << 64) // count for number in range(count + 1)]
    return [(first, end - 1) for first, end in pairwise(bounds)]


def merge_range(directory: Path, index: int, bounds: tuple[int, int], shards: int, ranking: Ranking, spec: Repeats) -> None:
    """Write which passages with hashes in a range are removed."""
    parts = []
    for shard in range(shards):
        passages = np.load(_path(directory, "units", shard), mmap_mode="r")
        start = np.searchsorted(passages[0], np.uint64(bounds[0]))
        end = np.searchsorted(passages[0], np.uint64(bounds[1]), "right")
        parts.append(np.array(passages[:, start:end]))
    passages = _sorted(parts)
    save_array(_path(directory, "repeated", index), _marks(passages[:, _superfluous(passages, spec)], ranking))


def _marks(passages: _Passages, ranking: Ranking) -> _Marks:
    hashes, places = passages
    numbers = ranking.numbers((places >> _RANK_BITS).astype(np.uint32)).astype(np.uint64)
    return np.sort(numbers << _RANK_BITS | (hashes & _KIND) << _KIND_BITS | places & _PLACE)


def read_marks(directory: Path, index: int, numbers: tuple[int, int], merged: int) -> dict[int, _Marks]:
    """Return the passages to remove of each document of a shard, by ordinal."""
    parts = [np.load(_path(directory, "repeated-in", index))]
    for part in range(merged):
        marks = np.load(_path(directory, "repeated", part), mmap_mode="r")
        start, end = np.searchsorted(marks, np.array(numbers, dtype=np.uint64) << _RANK_BITS)
        parts.append(np.array(marks[start:end]))
    found = np.sort(np.concatenate(parts))
    starts = np.flatnonzero(begins_run(found >> _RANK_BITS))
    return {int(part[0] >> _RANK_BITS) - numbers[0]: part for part in np.split(found, starts[1:]) if len(part)}


def _path(directory: Path, kind: str, index: int) -> Path:
    """Return the path of a shard's passages (``units``), or of those to remove in a shard (``repeated-in``) or range."""
    return directory / f"{kind}-{index:05d}.npy"


@dataclass(frozen=True, slots=True)
class _Removal:
    kind: str
    start: int
    """Offset in the original text."""
    text: str
    """The deleted text, including white space around it."""


@dataclass(frozen=True, slots=True)
class Shortened:
    """A text without repeated passages, and the removed passages in order."""

    text: str
    removals: tuple[_Removal, ...] = ()


@dataclass(slots=True)
class _Line:
    start: int
    end: int
    words: list[tuple[int, int]]
    """Spans of its words in the text."""
    removed: list[bool]
    """Which of its words are removed."""
    kind: int = -1
    """The kind of passage for which the whole line is removed, or -1."""


def shorten(text: str, marks: _Marks, spec: Repeats) -> Shortened:
    """Remove the passages ``marks``, without leaving blank lines in their place."""
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
        if line.kind < 0 and any(line.removed):
            rest = "".join(text[start:end] for (start, end), removed in zip(line.words, line.removed) if not removed)
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
    """Mark the words of the windows that begin at these numbers of words."""
    if not len(firsts):
        return
    change = np.zeros(sum(len(line.words) for line in lines) + 1, dtype=np.int64)
    np.add.at(change, firsts, 1)
    np.add.at(change, firsts + spec.words, -1)
    removed = iter((np.cumsum(change) > 0).tolist())
    for line in lines:
        line.removed = [next(removed) for _ in line.words]


def _whole_lines(text: str, lines: Sequence[_Line]) -> Iterator[tuple[int, int, int]]:
    """Yield the spans and kinds of neighbouring lines that are removed, with the smaller of the gaps above and below."""
    for removed, group in groupby((line for line in lines if line.words), lambda line: line.kind >= 0):
        if removed:
            run = list(group)
            begin, end = with_line_breaks(text, run[0].start, run[-1].end)
            same = [list(part) for _, part in groupby(run, lambda line: line.kind)]
            begins = [begin, *(part[0].start for part in same[1:])]
            yield from zip(begins, [*begins[1:], end], (part[0].kind for part in same), strict=True)


def _parts(line: _Line) -> Iterator[tuple[int, int, int]]:
    """Yield the spans of words of a line that are removed, with the blank after them, or the one before at the line's end."""
    for removed, group in groupby(range(len(line.words)), line.removed.__getitem__):
        if removed:
            run = list(group)
            if run[-1] + 1 < len(line.words):
                yield line.words[run[0]][0], line.words[run[-1] + 1][0], _WORDS
            else:
                yield line.words[run[0] - 1][1], line.words[run[-1]][1], _WORDS
