"""What deduplication knows of a document without its text: a row of numbers, and one hash per MinHash band.

Texts that share a band are candidates for near-duplicates. 126 permutations in 18 bands of 7 rows: two texts of Jaccard
similarity s share a band with probability 1 - (1 - s^7)^18, that is 0.986 at 0.8, 0.79 at 0.7 and 0.13 at 0.5 (Leskovec et al.,
Mining of Massive Datasets, section 3.4).

Each shard has two files: rows in the order of its documents, and a matrix with a row per band, so that one band of all
shards is read without the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from rensa import RMinHash

from korealbert.artifact.files import atomic_path
from korealbert.corpus.dedup.shingles import SHINGLE_LETTERS, Hashes, fingerprint, squeeze, window_hashes
from korealbert.documents.schema import Document

BANDS = 18
_ROWS_PER_BAND = 7
_PERMUTATIONS = BANDS * _ROWS_PER_BAND


def band_hashes(shingle_sets: Sequence[Hashes], seed: int) -> npt.NDArray[np.uint64]:
    """uint64 [texts, 18]: one hash per band. Rows of texts without shingles mean nothing.

    The same in every process and on every machine: rensa is pinned to the version whose permutations these are.
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


_SHINGLES_IN_MEMORY = 1 << 20
"""Shingles that are hashed at once while a shard is signed: 8 MB."""

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
"""Position in the shard; source, counted in the shard; characters; id; hash of letters and digits, hash of the whole text; and
whether the text is long enough for shingles."""


class SignatureWriter:
    """Signs the documents of one shard, in order."""

    def __init__(self, directory: Path, index: int, seed: int, *, near: bool) -> None:
        self._paths, self._seed, self._near = _paths(directory, index), seed, near
        self._rows: list[tuple[Any, ...]] = []
        self._bands: list[npt.NDArray[np.uint64]] = []
        self._waiting: list[Hashes] = []
        self._shingles = 0
        self.sources: dict[str, int] = {}
        """Names of the sources seen, by their number."""

    def add(self, ordinal: int, document: Document, text: str) -> None:
        """Sign a document with the text that is left of it. Raises ValueError naming an id that is not 16 hex digits."""
        squeezed = squeeze(text)
        source = self.sources.setdefault(document.source, len(self.sources))
        exact, content = fingerprint(squeezed, text), fingerprint(text, text)
        shingles = window_hashes(squeezed, SHINGLE_LETTERS) if self._near else np.empty(0, dtype=np.uint64)
        number = _number(document.id)
        self._rows.append((ordinal, source, len(text), number, exact, content, len(shingles) > 0))
        self._waiting.append(shingles)
        self._shingles += len(shingles)
        if self._shingles >= _SHINGLES_IN_MEMORY:
            self._hash()

    def _hash(self) -> None:
        self._bands.append(band_hashes(self._waiting, self._seed))
        self._waiting, self._shingles = [], 0

    def finish(self) -> None:
        """Write both files."""
        self._hash()
        for path, array in zip(self._paths, (np.array(self._rows, _SIGNATURE), np.concatenate(self._bands).T)):
            with atomic_path(path) as temporary, temporary.open("wb") as sink:
                np.save(sink, np.ascontiguousarray(array))


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


def _paths(directory: Path, index: int) -> tuple[Path, Path]:
    return directory / f"signatures-{index:05d}.npy", directory / f"bands-{index:05d}.npy"


@dataclass(frozen=True)
class Signatures:
    """The signatures of all shards. Documents are numbered through all shards, up to 2^32 - 1 of them."""

    directory: Path
    documents: Sequence[int]
    """Documents in each shard, those without a signature included."""
    sources: Sequence[Sequence[str]]
    """Source names of each shard, by their number there."""

    @cached_property
    def offsets(self) -> npt.NDArray[np.int64]:
        """Number of the first document of each shard, and behind the last one the number of all documents."""
        return np.concatenate(([0], np.cumsum(self.documents, dtype=np.int64)))

    def rows(self, shard: int) -> npt.NDArray[Any]:
        """``_SIGNATURE`` [signed documents of the shard]."""
        rows: npt.NDArray[Any] = np.load(_paths(self.directory, shard)[0])
        return rows

    def band(self, shard: int, band: int) -> npt.NDArray[np.uint64]:
        """uint64 [signed documents of the shard]: the hashes of one band."""
        return np.array(np.load(_paths(self.directory, shard)[1], mmap_mode="r")[band])
