"""Which documents are copies of which: a decision over signatures, independent of shards, workers and input order.

All documents have one ranking: source priority, then longer text, then id. A document goes when it duplicates a better one that
stays: the same letters and digits (exact), or a common band and a Jaccard similarity of at least the threshold (near). So every
dropped document has a survivor, and a chain of ever less similar texts does not fall as a whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import polars as pl

from korealbert.corpus.minhash import BANDS
from korealbert.corpus.shingles import Hashes, jaccard

NEIGHBOURS = 16
"""Better-ranked texts of the same band that a text is compared with, beside the best of all; a larger bucket (a template that
a million articles share) would otherwise cost the square of its size."""

Ranks = npt.NDArray[np.uint32]


@dataclass(frozen=True)
class Duplicate:
    """Why a document goes."""

    rank: int
    survivor: int
    """Rank of the document that stays in its place."""
    similarity: float | None
    """Jaccard similarity of the shingles; None for exact duplicates."""


def rank_documents(signatures: pl.LazyFrame, priority: Sequence[str]) -> pl.DataFrame:
    """Columns ``rank``, ``exact``, ``shard``, ``ordinal``, ``id``, best document first.

    ``priority`` names sources, best first; the others follow by name. Shard and ordinal decide between equal copies of one id.
    """
    place = pl.col("source").replace_strict(
        list(priority), list(range(len(priority))), default=len(priority), return_dtype=pl.UInt32
    )
    ordered = signatures.select("shard", "ordinal", "id", "source", "characters", "exact", "content", place=place).sort(
        ["place", "source", "characters", "id", "content", "shard", "ordinal"],
        descending=[False, False, True, False, False, False, False],
    )
    return ordered.select("shard", "ordinal", "id", "exact").collect(engine="streaming").with_row_index("rank")


def exact_duplicates(ranking: pl.DataFrame) -> pl.DataFrame:
    """Columns ``rank``, ``survivor``: documents whose letters and digits a better one has too."""
    survivor = pl.col("rank").min().over("exact")
    return ranking.select("rank", survivor=survivor).filter(pl.col("rank") != pl.col("survivor"))


def candidate_pairs(signatures: pl.LazyFrame, ranking: pl.DataFrame, out: Path) -> pl.DataFrame:
    """Pairs of ranks ``better`` < ``worse`` that share a band, by worse, then better. One band is in memory at a time."""
    places = ranking.lazy().select("rank", "shard", "ordinal")
    out.mkdir(parents=True, exist_ok=True)
    for band in range(BANDS):
        column = f"band_{band:02d}"
        bucketed = (
            signatures.filter(pl.col("shingles") > 0)
            .select("shard", "ordinal", bucket=column)
            .join(places, on=["shard", "ordinal"])
            .select("bucket", "rank")
            .sort("bucket", "rank")
            .collect(engine="streaming")
            .filter(pl.len().over("bucket") > 1)
        )
        better = [
            pl.col("rank").first().over("bucket"),
            *(pl.col("rank").shift(k).over("bucket") for k in range(1, NEIGHBOURS + 1)),
        ]
        pairs = pl.concat(bucketed.select(better=one, worse="rank") for one in better)
        pairs.filter(pl.col("better") < pl.col("worse")).unique().write_ipc(out / f"pairs-{band:02d}.arrow")
    found = pl.scan_ipc(sorted(out.glob("pairs-*.arrow"))).unique().collect(engine="streaming")
    return found.sort("worse", "better")


def near_duplicates(pairs: pl.DataFrame, shingles_of: Callable[[int], Hashes], threshold: float) -> Iterator[Duplicate]:
    """Decide in ranking order: a text goes when a better candidate that stayed is similar enough, the best such one first.

    ``shingles_of`` gives the sorted shingle hashes of a rank. ``pairs`` hold no exact duplicates.
    """
    gone: set[int] = set()
    for better, worse in pairs.iter_rows():
        if worse in gone or better in gone:
            continue
        left, right = shingles_of(better), shingles_of(worse)
        if min(len(left), len(right)) < threshold * max(len(left), len(right)):
            continue
        similarity = jaccard(left, right)
        if similarity >= threshold:
            gone.add(worse)
            yield Duplicate(worse, better, similarity)


class ShingleStore:
    """Shingles of candidate documents in one file, read by memory map: the page cache bounds the memory, not the corpus."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._spans: dict[int, tuple[int, int]] = {}
        self._end = 0
        path.unlink(missing_ok=True)

    def add(self, items: Iterator[tuple[int, Hashes]]) -> None:
        """Append the shingles of each rank."""
        with self._path.open("ab") as sink:
            for rank, hashes in items:
                sink.write(hashes.tobytes())
                self._spans[rank] = (self._end, self._end + len(hashes))
                self._end += len(hashes)

    def reader(self) -> Callable[[int], Hashes]:
        """A function from rank to shingles."""
        if not self._end:
            return lambda rank: np.empty(0, dtype=np.uint64)
        mapped = np.memmap(self._path, dtype=np.uint64, mode="r")
        return lambda rank: np.asarray(mapped[slice(*self._spans[rank])])
