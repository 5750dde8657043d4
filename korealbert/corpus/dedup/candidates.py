"""Which documents are copies of which: a decision over signatures, independent of shards, workers and input order.

All documents have one ranking (see ``ranking``). A document goes when it duplicates a better one that stays: the same letters
and digits (exact), or a common band and a Jaccard similarity of at least the threshold (near). The best of exact copies may
then go for a near one; so every dropped document has a survivor, directly or through one other, and a chain of ever less
similar texts does not fall as a whole.

One partition of rows at a time and two bytes per document are held in memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from korealbert.corpus.dedup.external_sort import ROWS_PER_PARTITION, Partitions, Ranking, partitions_for
from korealbert.corpus.dedup.signatures import BANDS, ShingleStore, Signatures, begins_run, jaccard

NEIGHBOURS = 16
"""Better-ranked texts of the same band that a text is compared with, in addition to the best of all; a larger bucket (a
template that a million articles share) would otherwise cost the square of its size."""

RANKS_PER_PARTITION = ROWS_PER_PARTITION // 8
"""Ranks whose pairs are in one partition: a text has at most 18 · 17 pairs, so they take at most 160 MB."""

_BUCKETED = np.dtype([("bucket", "<u8"), ("rank", "<u4")])
_RANK_BITS = np.uint64(32)

Ranks = npt.NDArray[np.uint32]
_Gone = npt.NDArray[np.bool_]
"""bool [documents], by number: which ones go."""


def exact_duplicates(signatures: Signatures, ranking: Ranking, out: Path) -> Iterator[tuple[Ranks, Ranks]]:
    """Ranks, and ranks of their survivors: documents whose letters and digits a better one has too."""
    for rows in _buckets(signatures, ranking, None, None, out):
        copies = np.flatnonzero(~begins_run(rows["bucket"]))
        best = rows["rank"][_starts(rows)]
        yield rows["rank"][copies], best[copies]


def candidate_pairs(signatures: Signatures, ranking: Ranking, gone: _Gone, out: Path) -> None:
    """Write the pairs of a better and a worse rank that share a band, without those of documents that are gone."""
    pairs = _partitioned_pairs(out)
    pairs.clear()
    for band in range(BANDS):
        for rows in _buckets(signatures, ranking, band, gone, out):
            found = _pairs(rows)
            pairs.append(found, (found >> _RANK_BITS) // np.uint64(RANKS_PER_PARTITION))


def read_pairs(signatures: Signatures, out: Path) -> Iterator[Ranks]:
    """uint32 [pairs, 2], some at a time: worse and better ranks, each pair once, by worse, then better."""
    for partition in range(partitions_for(int(signatures.offsets[-1]), RANKS_PER_PARTITION)):
        packed = np.sort(_partitioned_pairs(out).read(partition))
        packed = packed[begins_run(packed)]
        yield np.stack([packed >> _RANK_BITS, packed & np.uint64(0xFFFFFFFF)], axis=1).astype(np.uint32)


def _partitioned_pairs(out: Path) -> Partitions:
    return Partitions(out / "pairs", "<u8")


def near_duplicates(
    pairs: Iterable[tuple[int, int]], gone: _Gone, store: ShingleStore, threshold: float
) -> Iterator[tuple[int, float]]:
    """Decide in ranking order: a text goes when a better candidate that stayed is similar enough, the best such one first.

    ``pairs`` are the numbers of a worse and a better document, sorted by their ranks, without exact duplicates. Gives positions
    in ``pairs`` with the similarity, and brings ``gone`` up to date.
    """
    current, shingles = -1, np.empty(0, dtype=np.uint64)
    for position, (worse, better) in enumerate(pairs):
        if gone[worse] or gone[better]:
            continue
        least, most = sorted((store.length(worse), store.length(better)))
        if least < threshold * most:
            continue
        if worse != current:
            current, shingles = worse, store.shingles(worse)
        similarity = jaccard(shingles, store.shingles(better))
        if similarity >= threshold:
            gone[worse] = True
            yield position, similarity


def _buckets(
    signatures: Signatures, ranking: Ranking, band: int | None, gone: _Gone | None, out: Path
) -> Iterator[npt.NDArray[Any]]:
    """``_BUCKETED`` rows of all that share a bucket with another, by bucket and rank; no bucket is cut in two.

    The bucket is the hash of a band, or that of letters and digits.
    """
    count = partitions_for(int(signatures.offsets[-1]), ROWS_PER_PARTITION)
    partitions = Partitions(out / "buckets", _BUCKETED)
    partitions.clear()
    waiting: list[npt.NDArray[Any]] = []

    def flush() -> None:
        rows = np.concatenate([np.empty(0, _BUCKETED), *waiting])
        partitions.append(rows, rows["bucket"] % np.uint64(count))
        waiting.clear()

    for shard, (start, documents) in enumerate(zip(signatures.offsets.tolist(), signatures.documents)):
        signed = signatures.rows(shard)
        rows = np.empty(len(signed), _BUCKETED)
        rows["bucket"] = signed["exact"] if band is None else signatures.band(shard, band)
        rows["rank"] = ranking.ranks(start, start + documents)[signed["ordinal"]]
        waiting.append(rows if gone is None else rows[signed["shingled"] & ~gone[start + signed["ordinal"]]])
        if sum(map(len, waiting)) >= ROWS_PER_PARTITION:
            flush()
    flush()
    for partition in range(count):
        rows = partitions.read(partition)
        rows = rows[np.lexsort((rows["rank"], rows["bucket"]))]
        first = begins_run(rows["bucket"])
        alone = first & np.append(first[1:], True)[: len(rows)]
        yield rows[~alone]


def _starts(rows: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """For each row the index at which its bucket begins."""
    return np.maximum.accumulate(np.where(begins_run(rows["bucket"]), np.arange(len(rows)), 0))


def _pairs(rows: npt.NDArray[Any]) -> npt.NDArray[np.uint64]:
    """Each row with the best of its bucket and with the ``NEIGHBOURS`` before it, as worse · 2^32 + better, each pair once."""
    ranks, starts, index = rows["rank"].astype(np.uint64), _starts(rows), np.arange(len(rows))
    found = [ranks[starts < index] << _RANK_BITS | ranks[starts[starts < index]]]
    for back in range(1, NEIGHBOURS + 1):
        worse = np.flatnonzero(index - back >= starts)
        found.append(ranks[worse] << _RANK_BITS | ranks[worse - back])
    return np.unique(np.concatenate(found))
