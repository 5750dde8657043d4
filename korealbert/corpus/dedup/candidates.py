"""Decision which documents are copies of which, over signatures: independent of shards, workers and input order.

All documents are ranked: by source (``[dedup] priority``), then the longer first, then the smaller id. A document goes when it
duplicates a better one that stays: the same letters and digits (exact), or a common band and a Jaccard similarity of at least
the threshold (near). The best of exact copies may then go for a near one; so every dropped document has a survivor, directly or
through one other, and a chain of ever less similar texts does not fall as a whole.

Rows are sorted on disk in partitions, which are joined one at a time.

One partition of rows at a time and two bytes per document are held in memory.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from korealbert.corpus.dedup.signatures import BANDS, Candidates, Compared, Signatures, begins_run, jaccard
from korealbert.corpus.dedup.subjects import different_subjects

ROWS_PER_PARTITION = 1 << 19
"""Rows that are sorted at once; a few tens of MB with the copies that sorting takes."""
_BUCKET_PARTITIONS_AT_MOST = 1 << 10
"""Partitions of rows by bucket, each of which nearly every flush opens: above 500 million rows they become longer instead of
more, or opening them would take the square of the rows."""

Rows = npt.NDArray[Any]


class Partitions:
    """Rows of one dtype in numbered files, each appended to; whoever writes starts with ``cleared`` ones."""

    def __init__(self, directory: Path, dtype: npt.DTypeLike) -> None:
        self.directory, self.dtype = directory, np.dtype(dtype)

    def cleared(self) -> Self:
        """The same without any rows; those of a killed try are deleted too."""
        shutil.rmtree(self.directory, ignore_errors=True)
        self.directory.mkdir(parents=True)
        return self

    def append(self, rows: Rows, partitions: npt.NDArray[np.integer[Any]]) -> None:
        """Add each row to the partition given for it, in the order of ``rows``."""
        order = np.argsort(partitions, kind="stable")
        present, starts = np.unique(partitions[order], return_index=True)
        for partition, part in zip(present.tolist(), np.split(rows[order], starts[1:])):
            with self._path(partition).open("ab") as sink:
                sink.write(part.astype(self.dtype, copy=False).tobytes())

    def read(self, partition: int) -> Rows:
        """All rows of a partition, in the order in which they were added."""
        path = self._path(partition)
        return np.fromfile(path, dtype=self.dtype) if path.exists() else np.empty(0, dtype=self.dtype)

    def _path(self, partition: int) -> Path:
        return self.directory / f"{partition:05d}.bin"


def _partitions_for(rows: int, rows_each: int) -> int:
    """How many partitions hold that many rows; at least one."""
    return max(1, -(-rows // rows_each))


RANKING_FILES = ("numbers.bin", "ids.bin", "ranks.bin")
"""Files of a ranking in its directory."""
_UNRANKED = 0xFFFFFFFF
"""Stands for the rank of a document without a signature."""

_SAMPLED_FOR_SPLITTING = 1 << 16
"""Documents, spread over all shards, whose order shows where to cut the rest into parts of about equal size."""

_KEY = np.dtype([("first", "<u8"), ("id", "<u8"), ("content", "<u8"), ("number", "<u4")])
_PLACE = np.dtype([("number", "<u4"), ("rank", "<u4")])


@dataclass(frozen=True)
class Ranking:
    """Files that hold the rank of a document's number, and the number and id of a rank."""

    directory: Path

    def ranks(self, start: int, stop: int) -> npt.NDArray[np.uint32]:
        """Ranks of the documents ``start`` to ``stop - 1``; ``_UNRANKED`` where one has none."""
        return np.fromfile(self.directory / "ranks.bin", dtype="<u4", count=stop - start, offset=4 * start)

    def numbers(self, ranks: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint32]:
        """The numbers of the documents of these ranks."""
        return self._picked("numbers.bin", "<u4", ranks)

    def ids(self, ranks: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint64]:
        """Their ids, as numbers."""
        return self._picked("ids.bin", "<u8", ranks)

    def _picked(self, name: str, dtype: str, ranks: npt.NDArray[np.uint32]) -> npt.NDArray[Any]:
        # The map goes with the call, and with it the pages that it touched.
        return np.array(np.memmap(self.directory / name, dtype=dtype, mode="r")[ranks]) if len(ranks) else np.empty(0, dtype)


def rank_documents(signatures: Signatures, priority: Sequence[str], directory: Path) -> Ranking:
    """Sort all documents. ``priority`` names sources, best first; the others follow by name."""
    places = _places(signatures, priority)
    count = _partitions_for(int(signatures.offsets[-1]), ROWS_PER_PARTITION)
    keyed = Partitions(directory / "keys", _KEY).cleared()
    splitters = _splitters(signatures, places, count)
    for shard in range(len(signatures.documents)):
        keys = _keys(signatures, shard, places)
        keyed.append(keys, np.searchsorted(splitters, keys["first"], side="right"))
    by_number = Partitions(directory / "places", _PLACE).cleared()
    ranked = 0
    with (directory / "numbers.bin").open("wb") as numbers, (directory / "ids.bin").open("wb") as ids:
        for partition in range(count):
            keys = keyed.read(partition)
            keys = keys[np.lexsort((keys["number"], keys["content"], keys["id"], keys["first"]))]
            numbers.write(keys["number"].tobytes())
            ids.write(keys["id"].tobytes())
            ranked_here = np.empty(len(keys), _PLACE)
            ranked_here["number"], ranked_here["rank"] = keys["number"], np.arange(ranked, ranked + len(keys))
            by_number.append(ranked_here, keys["number"] // ROWS_PER_PARTITION)
            ranked += len(keys)
    with (directory / "ranks.bin").open("wb") as ranks:
        for partition in range(count):
            found = by_number.read(partition)
            part = np.full(ROWS_PER_PARTITION, _UNRANKED, dtype="<u4")
            part[found["number"] % ROWS_PER_PARTITION] = found["rank"]
            ranks.write(part.tobytes())
    return Ranking(directory)


def _places(signatures: Signatures, priority: Sequence[str]) -> dict[str, int]:
    """Source → its place in the order of sources."""
    present = {name for names in signatures.sources for name in names}
    ordered = [*priority, *sorted(present - set(priority))]
    return {name: place for place, name in enumerate(ordered)}


def _keys(signatures: Signatures, shard: int, places: dict[str, int]) -> npt.NDArray[Any]:
    """``_KEY`` of a shard's documents. ``first``: 16 bits of source, 32 of missing characters, 16 of the id."""
    rows = signatures.rows(shard)
    place = np.array([places[name] for name in signatures.sources[shard]], dtype=np.uint64)
    keys = np.empty(len(rows), _KEY)
    fewer = np.uint64(0xFFFFFFFF) - rows["characters"].astype(np.uint64)
    if len(rows):
        keys["first"] = place[rows["source"]] << np.uint64(48) | fewer << np.uint64(16) | rows["id"] >> np.uint64(48)
    keys["id"], keys["content"] = rows["id"], rows["content"]
    keys["number"] = signatures.offsets[shard] + rows["ordinal"]
    return keys


def _splitters(signatures: Signatures, places: dict[str, int], count: int) -> npt.NDArray[np.uint64]:
    """uint64 [count - 1]: from which first key on a document belongs to the next partition."""
    if count == 1:
        return np.empty(0, dtype=np.uint64)
    step = max(1, int(signatures.offsets[-1]) // _SAMPLED_FOR_SPLITTING)
    parts = [_keys(signatures, shard, places)["first"][::step] for shard in range(len(signatures.documents))]
    sample = np.sort(np.concatenate(parts))
    return sample[len(sample) * np.arange(1, count) // count]


NEIGHBOURS = 16
"""Better-ranked texts of the same band that a text is compared with, in addition to the best of all; a larger bucket (a
template that a million articles share) would otherwise cost the square of its size."""

RANKS_PER_PARTITION = ROWS_PER_PARTITION // 8
"""Ranks whose pairs are in one partition: a text has at most 18 · 17 pairs, so they take at most 160 MB."""

ANCHOR_COUNTS = "anchor-counts.bin"
"""File of the number of anchors of each document."""
_SHARED_ANCHORS = 0.25
"""Least share of a text's anchors in another one for it to be looked for there; some are boilerplate and not counted."""

_BUCKETED = np.dtype([("bucket", "<u8"), ("rank", "<u4")])
_RANK_BITS = np.uint64(32)

Ranks = npt.NDArray[np.uint32]
_Gone = npt.NDArray[np.bool_]
"""bool [documents], by number: which ones go."""


def exact_duplicates(signatures: Signatures, ranking: Ranking, out: Path) -> Iterator[tuple[Ranks, Ranks]]:
    """Ranks, and ranks of their survivors: documents whose letters and digits a better one has too."""
    for rows in _buckets(_signed(signatures, ranking, None, None), int(signatures.offsets[-1]), out):
        copies = np.flatnonzero(~begins_run(rows["bucket"]))
        best = rows["rank"][_starts(rows)]
        yield rows["rank"][copies], best[copies]


def candidate_pairs(signatures: Signatures, ranking: Ranking, gone: _Gone, out: Path) -> None:
    """Write the pairs of a better and a worse rank that share a band, without those of documents that are gone."""
    pairs = _partitioned_pairs(out).cleared()
    for band in range(BANDS):
        for rows in _buckets(_signed(signatures, ranking, band, gone), int(signatures.offsets[-1]), out):
            found = _pairs(rows)
            pairs.append(found, (found >> _RANK_BITS) // np.uint64(RANKS_PER_PARTITION))


def read_pairs(signatures: Signatures, out: Path) -> Iterator[Ranks]:
    """uint32 [pairs, 2], some at a time: worse and better ranks, each pair once, by worse, then better."""
    for partition in range(_partitions_for(int(signatures.offsets[-1]), RANKS_PER_PARTITION)):
        packed = np.sort(_partitioned_pairs(out).read(partition))
        packed = packed[begins_run(packed)]
        yield np.stack([packed >> _RANK_BITS, packed & np.uint64(0xFFFFFFFF)], axis=1).astype(np.uint32)


def _partitioned_pairs(out: Path) -> Partitions:
    return Partitions(out / "pairs", "<u8")


def near_duplicates(
    pairs: Iterable[tuple[int, int]], gone: _Gone, candidates: Candidates, threshold: float
) -> Iterator[tuple[int, float]]:
    """Decide in ranking order: a text goes when a better candidate that stayed is similar enough, the best such one first.

    ``pairs`` are the numbers of a worse and a better document, sorted by their ranks, without exact duplicates. Gives positions
    in ``pairs`` with the similarity, and brings ``gone`` up to date. A text about another subject stays.
    """
    current: tuple[int, Compared] | None = None
    for position, (worse, better) in enumerate(pairs):
        if gone[worse] or gone[better]:
            continue
        least, most = sorted((candidates.length(worse), candidates.length(better)))
        if least < threshold * most:
            continue
        if current is None or worse != current[0]:
            current = worse, candidates.read(worse)
        other = candidates.read(better)
        similarity = jaccard(current[1].shingles, other.shingles)
        if similarity >= threshold and not different_subjects(current[1], other):
            gone[worse] = True
            yield position, similarity


def contained(
    pairs: Iterable[tuple[int, int]], gone: _Gone, held: _Gone, candidates: Candidates, threshold: float
) -> Iterator[tuple[int, bool, float]]:
    """Decide which texts are parts of longer ones: at least ``threshold`` of their shingles are in one that is not a copy.

    ``pairs`` are numbers of a worse and a better document. Gives positions in ``pairs``, whether it is the better one that
    goes, and the share, and brings ``held`` up to date. A text that goes may hold others, which the longest one then has too.
    """
    for position, (worse, better) in enumerate(pairs):
        if gone[worse] or gone[better]:
            continue
        goes_better = candidates.length(better) < candidates.length(worse)
        part, whole = (better, worse) if goes_better else (worse, better)
        if held[part] or not candidates.length(part):
            continue
        short, long = candidates.read(part), candidates.read(whole)
        common = np.intersect1d(short.shingles, long.shingles, assume_unique=True)
        share = len(common) / len(short.shingles)
        if share >= threshold and not different_subjects(short, long):
            held[part] = True
            yield position, goes_better, share


def contained_pairs(signatures: Signatures, ranking: Ranking, gone: _Gone, out: Path) -> None:
    """Write the pairs of ranks that share an anchor which few texts have, once for each; and how many documents have."""
    pairs = _shared_anchors(out).cleared()
    counts = np.zeros(int(signatures.offsets[-1]), dtype=np.uint16)
    for shard, start in enumerate(signatures.offsets[:-1].tolist()):
        anchors = np.bincount(signatures.anchors(shard)["ordinal"])
        counts[start : start + len(anchors)] = np.minimum(anchors, np.iinfo(np.uint16).max)
    counts.tofile(out / ANCHOR_COUNTS)
    for rows in _buckets(_anchored(signatures, ranking, gone), int(counts.sum(dtype=np.int64)), out):
        found = _pairs(rows[_in_small_bucket(rows)])
        pairs.append(found, (found >> _RANK_BITS) // np.uint64(RANKS_PER_PARTITION))


def read_contained(signatures: Signatures, ranking: Ranking, out: Path) -> Iterator[Ranks]:
    """uint32 [pairs, 2], some at a time: worse and better ranks that share enough anchors for one to be in the other."""
    counts = np.fromfile(out / ANCHOR_COUNTS, dtype=np.uint16)
    for partition in range(_partitions_for(int(signatures.offsets[-1]), RANKS_PER_PARTITION)):
        packed = np.sort(_shared_anchors(out).read(partition))
        starts = np.flatnonzero(begins_run(packed))
        pairs = np.stack([packed[starts] >> _RANK_BITS, packed[starts] & np.uint64(0xFFFFFFFF)], axis=1).astype(np.uint32)
        fewest = counts[ranking.numbers(pairs.ravel())].reshape(-1, 2).min(axis=1)
        yield pairs[np.diff(starts, append=len(packed)) >= _SHARED_ANCHORS * fewest]


def _shared_anchors(out: Path) -> Partitions:
    return Partitions(out / "shared-anchors", "<u8")


def _in_small_bucket(rows: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """bool [rows]: whether not more than ``NEIGHBOURS`` + 1 share the bucket; an anchor of more is a phrase or boilerplate."""
    sizes = np.diff(np.flatnonzero(begins_run(rows["bucket"])), append=len(rows))
    return np.repeat(sizes <= NEIGHBOURS + 1, sizes)


def _signed(signatures: Signatures, ranking: Ranking, band: int | None, gone: _Gone | None) -> Iterator[npt.NDArray[Any]]:
    """``_BUCKETED`` rows, shard by shard: the bucket is the hash of a band, or that of letters and digits."""
    for shard, (start, documents) in enumerate(zip(signatures.offsets.tolist(), signatures.documents)):
        signed = signatures.rows(shard)
        rows = np.empty(len(signed), _BUCKETED)
        rows["bucket"] = signed["exact"] if band is None else signatures.band(shard, band)
        rows["rank"] = ranking.ranks(start, start + documents)[signed["ordinal"]]
        yield rows if gone is None else rows[signed["shingled"] & ~gone[start + signed["ordinal"]]]


def _anchored(signatures: Signatures, ranking: Ranking, gone: _Gone) -> Iterator[npt.NDArray[Any]]:
    """``_BUCKETED`` rows, shard by shard: the bucket is an anchor."""
    for shard, (start, documents) in enumerate(zip(signatures.offsets.tolist(), signatures.documents)):
        anchors = signatures.anchors(shard)
        rows = np.empty(len(anchors), _BUCKETED)
        rows["bucket"] = anchors["hash"]
        rows["rank"] = ranking.ranks(start, start + documents)[anchors["ordinal"]]
        yield rows[~gone[start + anchors["ordinal"]]]


def _buckets(shards: Iterable[npt.NDArray[Any]], total: int, out: Path) -> Iterator[npt.NDArray[Any]]:
    """Yield, of at most ``total`` rows, those that share a bucket with another, by bucket and rank; no bucket is cut in two."""
    count = min(_partitions_for(total, ROWS_PER_PARTITION), _BUCKET_PARTITIONS_AT_MOST)
    partitions = Partitions(out / "buckets", _BUCKETED).cleared()
    waiting: list[npt.NDArray[Any]] = []

    def flush() -> None:
        rows = np.concatenate([np.empty(0, _BUCKETED), *waiting])
        partitions.append(rows, rows["bucket"] % np.uint64(count))
        waiting.clear()

    for rows in shards:
        waiting.append(rows)
        if sum(map(len, waiting)) >= ROWS_PER_PARTITION:
            flush()
    flush()
    for partition in range(count):
        rows = partitions.read(partition)
        bucket = np.ascontiguousarray(rows["bucket"])
        order = np.argsort(bucket)
        first = begins_run(bucket[order])
        alone = first & np.append(first[1:], True)[: len(rows)]
        shared = rows[order[~alone]]  # few, so that only they are sorted by both
        yield shared[np.lexsort((shared["rank"], shared["bucket"]))]


def _starts(rows: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """For each row the index at which its bucket begins."""
    return np.maximum.accumulate(np.where(begins_run(rows["bucket"]), np.arange(len(rows)), 0))


def _pairs(rows: npt.NDArray[Any]) -> npt.NDArray[np.uint64]:
    """Each row with the best of its bucket and the ``NEIGHBOURS`` before it, as worse · 2^32 + better, once a bucket."""
    ranks, starts, index = rows["rank"].astype(np.uint64), _starts(rows), np.arange(len(rows))
    far = np.flatnonzero(index - NEIGHBOURS > starts)
    found = [ranks[far] << _RANK_BITS | ranks[starts[far]]]
    for back in range(1, NEIGHBOURS + 1):
        worse = np.flatnonzero(index - back >= starts)
        found.append(ranks[worse] << _RANK_BITS | ranks[worse - back])
    return np.concatenate(found)
