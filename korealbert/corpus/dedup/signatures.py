"""Shingles and signatures, which deduplication compares instead of texts.

Texts are reduced to letters and digits, because copies of a Korean text differ mostly in spacing and punctuation. For exact
copies, decimal points, signs and the ends of numbers count as well: 1.5조 is not 15조. Shingles are
hashes of all windows of 5 letters. Those of candidates are kept on disk, in a file per shard, and read one document at a time,
without a memory map, whose pages would count as memory of this process.

Texts that share a MinHash band are candidates for near-duplicates. With 126 permutations in 18 bands of 7 rows, two texts of
Jaccard similarity s share a band with probability 1 - (1 - s^7)^18: 0.986 at 0.8, 0.79 at 0.7, 0.13 at 0.5 (Leskovec et al.,
Mining of Massive Datasets, section 3.4).

The signatures of a shard are three files: a row per document; a matrix with a row per band, so that one band of all shards can
be read without the others; and anchors, sampled windows that find texts contained in others (Schleimer et al. 2003, Winnowing).
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from rensa import RMinHash

from korealbert.artifact.files import atomic_path
from korealbert.documents.schema import Document
from korealbert.philox import hash64, mix64

Hashes = npt.NDArray[np.uint64]
Positions = npt.NDArray[np.int64]

SHINGLE_LETTERS = 5
_POLYNOMIAL_BASE = np.uint64(0x5851F42D4C957F2D)


def squeeze(text: str) -> str:
    """Return the letters and digits of a text in lower case."""
    codes = _codes(text)
    if codes.dtype == np.uint32:
        return codes[_letters_and_digits()[codes]].tobytes().decode("utf-32-le", "surrogatepass").lower()
    squeezed = _squeezed()[codes]
    letters = squeezed[squeezed > 0].tobytes().decode("utf-16-le")
    return letters.lower() if "Σ" in letters or "İ" in letters else letters


_POINT, _MINUS, _APART = "ˑ", "ˉ", "ˈ"
"""Letters that stand for a decimal point, for a minus, and for what separates two numbers."""
THOUSANDS = re.compile(r",(?<=\d,)(?=\d{3}(?!\d))")
DECIMAL = re.compile(r"\.(?<=\d\.)(?<!\.\d\.)(?<!\.\d\d\.)(?=\d+(?!\.?\d))")
"""A decimal point; the points of a date (2019.10.1) separate numbers."""
_SIGN = re.compile(r"[-−－](?<=[^\w\n].)(?=\d)")
"""A minus; at the beginning of a line it is a bullet."""
_BETWEEN = re.compile(r"(\d)[\W_]++(?=\d)")


def with_figures(text: str) -> str:
    """Return the letters and digits of a text in lower case, with letters for decimal points, signs and separators of numbers.

    So 1.5 is neither 15 nor 1 5, nor is -5 equal to 5, but 1,000 and 1000 are one.
    """
    text = _SIGN.sub(_MINUS, DECIMAL.sub(_POINT, THOUSANDS.sub("", text)))
    return squeeze(_BETWEEN.sub(rf"\1{_APART}", text))


def letters_in(text: str) -> int:
    """Return how many letters and digits a text of ``with_figures`` has."""
    return len(text) - sum(map(text.count, (_POINT, _MINUS, _APART)))


def _codes(text: str) -> npt.NDArray[np.uint16] | npt.NDArray[np.uint32]:
    """Return the code points: uint16 if all are in the basic plane, which makes look-ups twice as fast, else uint32."""
    codes = np.frombuffer(text.encode("utf-16-le", "surrogatepass"), dtype=np.uint16)
    if len(codes) == len(text):
        return codes
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype=np.uint32)


def fingerprint(squeezed: str, text: str) -> int:
    """Hash a squeezed text to 64 bits, or its other characters if it has no letters and digits.

    The chance of a collision among 40 million texts is about 4e-5.
    """
    return hash64(squeezed or "".join(text.split()))


class PrefixHashes:
    """Hashes of substrings of a text, by prefix sums of a polynomial modulo 2^64 over mixed code points.

    Takes time linear in the text's length, whatever the length of the substrings.
    """

    def __init__(self, squeezed: str) -> None:
        self._length = len(squeezed)
        codes = _codes(squeezed)
        powers, self._inverses = _powers(1 << max(len(squeezed) - 1, 0).bit_length())
        self._sums = np.zeros(len(codes) + 1, dtype=np.uint64)
        terms = _mixed_codes()[codes] if codes.dtype == np.uint16 else _mix(codes.astype(np.uint64))
        terms *= powers[: len(codes)]
        np.cumsum(terms, out=self._sums[1:])

    def windows(self, width: int) -> Hashes:
        """Return the hash of each substring of ``width`` characters: uint64 [length - width + 1], empty for shorter texts."""
        count = self._length - width + 1
        if count <= 0:
            return np.empty(0, dtype=np.uint64)
        sums: Hashes = self._sums[width:] - self._sums[:-width]
        sums *= self._inverses[:count]
        return _mix(sums)

    def runs(self, starts: Positions, widths: Positions) -> Hashes:
        """Return the hashes of the substrings at ``starts``: uint64 [starts], 0 for those that go beyond the end."""
        ends = np.minimum(starts + widths, self._length)
        hashes = _mix((self._sums[ends] - self._sums[starts]) * self._inverses[starts])
        hashes[ends - starts != widths] = 0
        return hashes


def shingles(squeezed: str) -> Hashes:
    """Return the sorted distinct hashes of the 5-letter shingles; empty for texts of fewer letters."""
    hashes = np.sort(PrefixHashes(squeezed).windows(SHINGLE_LETTERS))  # np.unique takes ten times as long
    distinct: Hashes = hashes[begins_run(hashes)]
    return distinct


def begins_run(ordered: Hashes) -> npt.NDArray[np.bool_]:
    """Return which values differ from the one before: bool [values]."""
    begins = np.ones(len(ordered), dtype=bool)
    np.not_equal(ordered[1:], ordered[:-1], out=begins[1:])
    return begins


def jaccard(left: Hashes, right: Hashes) -> float:
    """Return the Jaccard similarity of two sorted arrays without repetitions; 0 if both are empty."""
    common = len(np.intersect1d(left, right, assume_unique=True))
    union = len(left) + len(right) - common
    return common / union if union else 0.0


def _mix(values: Hashes) -> Hashes:
    """Return the output of splitmix64 for each state."""
    return mix64(values + np.uint64(0x9E3779B97F4A7C15))


@lru_cache(maxsize=1)
def _squeezed() -> npt.NDArray[np.uint16]:
    """Return each letter and digit in lower case, and 0 for other characters: uint16 [65536].

    Σ and İ stay as they are: the lower case of one depends on the letter before, that of the other is two characters.
    """
    characters = map(chr, range(0x10000))
    return np.array([ord(one if one in "Σİ" else one.lower()) if one.isalnum() else 0 for one in characters], dtype=np.uint16)


@lru_cache(maxsize=1)
def _mixed_codes() -> Hashes:
    """Return ``_mix`` of each code point of the basic plane: uint64 [65536]."""
    return _mix(np.arange(0x10000, dtype=np.uint64))


@lru_cache(maxsize=1)
def _letters_and_digits() -> npt.NDArray[np.bool_]:
    """Return which code points are letters or digits: bool [1114112]. Unicode has none beyond plane 3.

    Looking them up is five times as fast as a regular expression.
    """
    table = np.zeros(sys.maxunicode + 1, dtype=bool)
    table[:0x40000] = [chr(code).isalnum() for code in range(0x40000)]
    return table


@lru_cache(maxsize=32)
def _powers(count: int) -> tuple[Hashes, Hashes]:
    """Return the base to the powers 0 … count - 1, and their inverses modulo 2^64, which exist because the base is odd."""
    inverse = np.uint64(pow(int(_POLYNOMIAL_BASE), -1, 1 << 64))
    both = []
    for factor in (_POLYNOMIAL_BASE, inverse):
        powers = np.full(count, factor, dtype=np.uint64)
        powers[0] = 1
        both.append(np.cumprod(powers, dtype=np.uint64))
    return both[0], both[1]


class Compared(NamedTuple):
    """Sorted hashes by which a candidate is compared, and its text."""

    shingles: Hashes
    """Without repetitions."""
    words: Hashes
    """Of the words of the text, with repetitions; odd for numbers, else even."""
    title: Hashes
    """Of the words of the title, of those that the opening repeats, and of its identifiers, without repetitions."""
    numbered: Hashes
    """Of the title's identifiers, sorted, after the hash of the rest of the title; empty without identifiers."""
    text: Hashes
    """The text in NFKC and lower case, without what its page adds, see ``packed``."""


def packed(text: str) -> Hashes:
    """Return a text as UTF-8 in words of 8 bytes, padded with blanks."""
    encoded = text.encode("utf-8", "surrogatepass")
    return np.frombuffer(encoded.ljust(-(-len(encoded) // 8) * 8), dtype=np.uint64)


def unpacked(words: Hashes) -> str:
    """Return a text from ``packed``, with the blanks."""
    return words.tobytes().decode("utf-8", "surrogatepass")


def write_candidates(directory: Path, index: int, items: Iterable[tuple[int, Compared]]) -> None:
    """Write the hashes of a shard's candidates, given with their ordinals in order."""
    spans, end = [], 0
    data, table = _candidate_paths(directory, index)
    with atomic_path(data) as temporary, temporary.open("wb") as sink:
        for ordinal, compared in items:
            span = [ordinal, end]
            for hashes in compared:
                sink.write(hashes.tobytes())
                span.append(end := end + len(hashes))
            spans.append(span)
    save_array(table, np.array(spans, dtype=np.int64).reshape(-1, 2 + len(Compared._fields)))


def save_array(path: Path, array: npt.NDArray[Any]) -> None:
    """Write a ``.npy`` file atomically."""
    with atomic_path(path) as temporary, temporary.open("wb") as sink:
        np.save(sink, array)


class Candidates:
    """Reads the output of ``write_candidates`` for all shards; holds 56 bytes per candidate in memory."""

    def __init__(self, directory: Path, offsets: npt.NDArray[np.int64]) -> None:
        self._directory, self._offsets = directory, offsets
        self._spans = cache(lambda shard: np.load(_candidate_paths(directory, shard)[1]))

    def _span(self, number: int) -> tuple[int, list[int]]:
        shard = int(np.searchsorted(self._offsets, number, side="right")) - 1
        spans = self._spans(shard)
        return shard, spans[np.searchsorted(spans[:, 0], number - self._offsets[shard]), 1:].tolist()

    def length(self, number: int) -> int:
        """Return the number of shingles of a document, given by its number."""
        _, (start, end, *_) = self._span(number)
        return end - start

    def read(self, number: int) -> Compared:
        """Return the hashes of a document, given by its number."""
        shard, (start, *ends) = self._span(number)
        path = _candidate_paths(self._directory, shard)[0]
        hashes = np.fromfile(path, dtype="<u8", count=ends[-1] - start, offset=8 * start)
        return Compared(*np.split(hashes, np.array(ends[:-1]) - start))


def _candidate_paths(directory: Path, index: int) -> tuple[Path, Path]:
    return directory / f"candidates-{index:05d}.bin", directory / f"candidates-{index:05d}.npy"


BANDS = 18
_ROWS_PER_BAND = 7
_PERMUTATIONS = BANDS * _ROWS_PER_BAND


def band_hashes(shingle_sets: Sequence[Hashes], seed: int) -> npt.NDArray[np.uint64]:
    """Return one hash per band: uint64 [texts, 18]. Rows of texts without shingles have no meaning.

    The permutations are those of the pinned version of rensa, the same in every process and on every machine.
    """
    if not shingle_sets:
        return np.empty((0, BANDS), dtype=np.uint64)
    offsets = np.concatenate(([0], np.cumsum([len(one) for one in shingle_sets]))).astype(np.uint64)
    flat = np.concatenate(shingle_sets) if offsets[-1] else np.empty(0, dtype=np.uint64)
    matrix = RMinHash.digest_matrix_from_flat_token_hashes(flat, offsets, _PERMUTATIONS, seed)
    digests = np.array(matrix.to_rows(), dtype=np.uint64).reshape(len(shingle_sets), BANDS, _ROWS_PER_BAND)
    hashes = np.broadcast_to(np.arange(BANDS, dtype=np.uint64), (len(shingle_sets), BANDS)).copy()
    for row in range(_ROWS_PER_BAND):
        hashes = (hashes ^ digests[:, :, row]) * np.uint64(0x9E3779B97F4A7C15)
        hashes ^= hashes >> np.uint64(32)
    return hashes


_ANCHOR_LETTERS, _ANCHOR_EVERY = 24, 8
"""Windows of 24 letters are anchors if their hash is divisible by 8 (a power of two), so that a text contains the anchors of
each of its parts."""
_ANCHOR = np.dtype([("hash", "<u8"), ("ordinal", "<u4")])

_SHINGLES_IN_MEMORY = 1 << 20
"""Shingles after which the waiting documents of a shard are signed: 8 MB."""

_SIGNATURE = np.dtype(
    [
        ("ordinal", "<u4"),
        ("source", "<u2"),
        ("characters", "<u4"),
        ("id", "<u8"),
        ("exact", "<u8"),
        ("content", "<u8"),
        ("shingled", "?"),
    ]
)
"""``ordinal``: position in the shard. ``source``: number of the source in the shard. ``exact``: hash of letters and figures.
``content``: hash of the whole text. ``shingled``: whether the text is long enough for shingles."""


class SignatureWriter:
    """Signs the documents of one shard, in order."""

    def __init__(self, directory: Path, index: int, seed: int, *, near: bool, contained: bool) -> None:
        self._paths, self._seed, self._near, self._contained = _paths(directory, index), seed, near, contained
        self._rows: list[tuple[Any, ...]] = []
        self._bands: list[npt.NDArray[np.uint64]] = []
        self._anchors = [np.empty(0, _ANCHOR)]
        self._waiting: list[Hashes] = []
        self._shingles = 0
        self.sources: dict[str, int] = {}
        """Numbers of the sources by name."""

    def add(self, ordinal: int, document: Document, text: str) -> None:
        """Sign a document with its decontaminated text. Raises ValueError naming an id that is not 16 hex digits."""
        squeezed = squeeze(text)
        source = self.sources.setdefault(document.source, len(self.sources))
        exact, content = fingerprint(with_figures(text), text), fingerprint(text, text)
        prefixes = PrefixHashes(squeezed) if self._near else None
        hashes = prefixes.windows(SHINGLE_LETTERS) if prefixes else np.empty(0, dtype=np.uint64)
        if prefixes and self._contained:
            self._anchors.append(_anchors(prefixes, ordinal))
        number = _number(document.id)
        self._rows.append((ordinal, source, len(text), number, exact, content, len(hashes) > 0))
        self._waiting.append(hashes)
        self._shingles += len(hashes)
        if self._shingles >= _SHINGLES_IN_MEMORY:
            self._hash()

    def _hash(self) -> None:
        self._bands.append(band_hashes(self._waiting, self._seed))
        self._waiting, self._shingles = [], 0

    def finish(self) -> None:
        """Write the files."""
        self._hash()
        arrays = np.array(self._rows, _SIGNATURE), np.concatenate(self._bands).T, np.concatenate(self._anchors)
        for path, array in zip(self._paths, arrays, strict=True):
            save_array(path, np.ascontiguousarray(array))


def _number(document_id: str) -> int:
    try:
        number = int(document_id, 16)
    except ValueError:
        number = -1
    if f"{number:016x}" != document_id:
        raise ValueError(
            f"document id {document_id!r} is not 16 hex digits; ids come from korealbert.documents.schema.document_id"
        )
    return number


def _anchors(prefixes: PrefixHashes, ordinal: int) -> npt.NDArray[Any]:
    hashes = prefixes.windows(_ANCHOR_LETTERS)
    chosen = np.sort(hashes[hashes & np.uint64(_ANCHOR_EVERY - 1) == 0])
    chosen = chosen[begins_run(chosen)]
    rows = np.empty(len(chosen), _ANCHOR)
    rows["hash"], rows["ordinal"] = chosen, ordinal
    return rows


def _paths(directory: Path, index: int) -> tuple[Path, Path, Path]:
    signatures, bands, anchors = (directory / f"{kind}-{index:05d}.npy" for kind in ("signatures", "bands", "anchors"))
    return signatures, bands, anchors


@dataclass(frozen=True)
class Signatures:
    """The signatures of all shards. Documents have consecutive numbers over all shards, at most 2^32 - 1."""

    directory: Path
    documents: Sequence[int]
    """Documents in each shard, with or without a signature."""
    sources: Sequence[Sequence[str]]
    """Source names of each shard, by their number in it."""

    @cached_property
    def offsets(self) -> npt.NDArray[np.int64]:
        """The number of each shard's first document, and at the end the count of all documents."""
        return np.concatenate(([0], np.cumsum(self.documents, dtype=np.int64)))

    def rows(self, shard: int) -> npt.NDArray[Any]:
        """Return a shard's rows: ``_SIGNATURE`` [signed documents]."""
        rows: npt.NDArray[Any] = np.load(_paths(self.directory, shard)[0])
        return rows

    def band(self, shard: int, band: int) -> npt.NDArray[np.uint64]:
        """Return the hashes of one band: uint64 [signed documents of the shard]."""
        return np.array(np.load(_paths(self.directory, shard)[1], mmap_mode="r")[band])

    def anchors(self, shard: int) -> npt.NDArray[Any]:
        """Return the distinct anchors of each document of a shard: rows of ``hash`` and ``ordinal``."""
        rows: npt.NDArray[Any] = np.load(_paths(self.directory, shard)[2])
        return rows
