"""Decides which documents are copies, on signatures: independent of shards, workers and input order.

All documents are ranked: by source (``[dedup] priority``), then longer ones first, then by id. A document is dropped if it
duplicates a better one that is kept: by equal letters and figures (exact), or by a common band and a Jaccard similarity of at
least the threshold (near). The best of several exact copies may itself be dropped for a near-duplicate. So every dropped
document has a survivor, directly or through one other document, and of a chain of texts that are each similar to the next, not
all are dropped.

Rows are sorted on disk in partitions. Memory holds one partition of rows and four bytes per document.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from korealbert.corpus.dedup.signatures import BANDS, Candidates, Compared, Signatures, begins_run, jaccard, unpacked
from korealbert.corpus.dedup.subjects import different_subjects
from korealbert.corpus.dedup.templates import same_template

ROWS_PER_PARTITION = 1 << 19
"""Rows that are sorted at once: a few tens of MB with the copies for sorting."""
_MAX_BUCKET_PARTITIONS = 1 << 10
"""Limits the files that each flush opens, nearly all partitions; above 500 million rows, partitions become longer."""

Rows = npt.NDArray[Any]
Ranks = npt.NDArray[np.uint32]


class Partitions:
    """Rows of one dtype in numbered files, which are appended to. Writers start with ``cleared`` ones."""

    def __init__(self, directory: Path, dtype: npt.DTypeLike) -> None:
        self.directory, self.dtype = directory, np.dtype(dtype)

    def cleared(self) -> Self:
        """Delete all rows, including those of a killed try."""
        shutil.rmtree(self.directory, ignore_errors=True)
        self.directory.mkdir(parents=True)
        return self

    def append(self, rows: Rows, partitions: npt.NDArray[np.integer[Any]]) -> None:
        """Add each row to its partition, in order."""
        order = np.argsort(partitions, kind="stable")
        present, starts = np.unique(partitions[order], return_index=True)
        for partition, part in zip(present.tolist(), np.split(rows[order], starts[1:])):
            with self._path(partition).open("ab") as sink:
                sink.write(part.astype(self.dtype, copy=False).tobytes())

    def read(self, partition: int) -> Rows:
        """Return all rows of a partition, in the order in which they were added."""
        path = self._path(partition)
        return np.fromfile(path, dtype=self.dtype) if path.exists() else np.empty(0, dtype=self.dtype)

    def _path(self, partition: int) -> Path:
        return self.directory / f"{partition:05d}.bin"


def _count_partitions(rows: int, rows_each: int) -> int:
    """Return the number of partitions for some rows; at least one."""
    return max(1, -(-rows // rows_each))


RANKING_FILES = ("numbers.bin", "ids.bin", "ranks.bin")
"""Files of a ranking."""
_UNRANKED = 0xFFFFFFFF
"""Rank of documents without a signature."""

_SPLITTER_SAMPLE = 1 << 16
"""Documents, spread over all shards, that are sampled to split all documents into partitions of about equal size."""

_KEY = np.dtype([("first", "<u8"), ("id", "<u8"), ("content", "<u8"), ("number", "<u4")])
_RANK = np.dtype([("number", "<u4"), ("rank", "<u4")])


@dataclass(frozen=True)
class Ranking:
    """Files that map document numbers to ranks, and ranks to numbers and ids."""

    directory: Path

    def ranks(self, start: int, stop: int) -> Ranks:
        """Return the ranks of the documents ``start`` to ``stop - 1``, ``_UNRANKED`` for those without one."""
        return np.fromfile(self.directory / "ranks.bin", dtype="<u4", count=stop - start, offset=4 * start)

    def numbers(self, ranks: Ranks) -> npt.NDArray[np.uint32]:
        """Return the numbers of the documents with these ranks."""
        return self._values("numbers.bin", "<u4", ranks)

    def ids(self, ranks: Ranks) -> npt.NDArray[np.uint64]:
        """Return the ids of the documents with these ranks, as numbers."""
        return self._values("ids.bin", "<u8", ranks)

    def _values(self, name: str, dtype: str, ranks: Ranks) -> Rows:
        # Mapped anew by each call, so that no pages stay in memory.
        return np.array(np.memmap(self.directory / name, dtype=dtype, mode="r")[ranks]) if len(ranks) else np.empty(0, dtype)


def rank_documents(signatures: Signatures, priority: Sequence[str], directory: Path) -> Ranking:
    """Rank all documents. ``priority`` names sources, best first; the others follow by name."""
    source_ranks = _source_ranks(signatures, priority)
    count = _count_partitions(int(signatures.offsets[-1]), ROWS_PER_PARTITION)
    keyed = Partitions(directory / "keys", _KEY).cleared()
    splitters = _splitters(signatures, source_ranks, count)
    for shard in range(len(signatures.documents)):
        keys = _keys(signatures, shard, source_ranks)
        keyed.append(keys, np.searchsorted(splitters, keys["first"], side="right"))
    by_number = Partitions(directory / "places", _RANK).cleared()
    ranked = 0
    with (directory / "numbers.bin").open("wb") as numbers, (directory / "ids.bin").open("wb") as ids:
        for partition in range(count):
            keys = keyed.read(partition)
            keys = keys[np.lexsort((keys["number"], keys["content"], keys["id"], keys["first"]))]
            numbers.write(keys["number"].tobytes())
            ids.write(keys["id"].tobytes())
            rows = np.empty(len(keys), _RANK)
            rows["number"], rows["rank"] = keys["number"], np.arange(ranked, ranked + len(keys))
            by_number.append(rows, keys["number"] // ROWS_PER_PARTITION)
            ranked += len(keys)
    with (directory / "ranks.bin").open("wb") as ranks:
        for partition in range(count):
            rows = by_number.read(partition)
            part = np.full(ROWS_PER_PARTITION, _UNRANKED, dtype="<u4")
            part[rows["number"] % ROWS_PER_PARTITION] = rows["rank"]
            ranks.write(part.tobytes())
    return Ranking(directory)


def _source_ranks(signatures: Signatures, priority: Sequence[str]) -> dict[str, int]:
    present = {name for names in signatures.sources for name in names}
    ordered = [*priority, *sorted(present - set(priority))]
    return {name: rank for rank, name in enumerate(ordered)}


def _keys(signatures: Signatures, shard: int, source_ranks: dict[str, int]) -> Rows:
    """Return the sort keys (``_KEY``) of a shard's documents.

    ``first`` packs 16 bits of the source's rank, 32 of the length (inverted, so that longer texts come first), 16 of the id.
    """
    rows = signatures.rows(shard)
    ranks = np.array([source_ranks[name] for name in signatures.sources[shard]], dtype=np.uint64)
    keys = np.empty(len(rows), _KEY)
    inverted = np.uint64(0xFFFFFFFF) - rows["characters"].astype(np.uint64)
    if len(rows):
        keys["first"] = ranks[rows["source"]] << np.uint64(48) | inverted << np.uint64(16) | rows["id"] >> np.uint64(48)
    keys["id"], keys["content"] = rows["id"], rows["content"]
    keys["number"] = signatures.offsets[shard] + rows["ordinal"]
    return keys


def _splitters(signatures: Signatures, source_ranks: dict[str, int], count: int) -> npt.NDArray[np.uint64]:
    """Return the ``first`` keys at which partitions after the first one begin: uint64 [count - 1]."""
    if count == 1:
        return np.empty(0, dtype=np.uint64)
    step = max(1, int(signatures.offsets[-1]) // _SPLITTER_SAMPLE)
    parts = [_keys(signatures, shard, source_ranks)["first"][::step] for shard in range(len(signatures.documents))]
    sample = np.sort(np.concatenate(parts))
    return sample[len(sample) * np.arange(1, count) // count]


NEIGHBOURS = 16
"""A text is compared with this many of the better-ranked texts in its bucket, and with the best one. Comparing all would take
quadratic time for a template that a million articles share."""

RANKS_PER_PARTITION = ROWS_PER_PARTITION // 8
"""Limits the ranks whose pairs are in one partition: at most 18 · 17 pairs of bands each, 160 MB in all."""
_FEWEST_RANKS = 1 << 12
"""Ranks whose pairs are in one partition, of up to 4 million documents; above, more, because the number of partitions is
limited. A pair is there for each anchor that two texts share, so one text may have thousands: 8 bytes each."""

MAX_INSTANCES = 50
"""Near-copies that differ in names and numbers alone are kept up to this many of each template; more are generated text."""

ANCHOR_COUNTS = "anchor-counts.bin"
"""File with the number of anchors of each document."""
_MIN_SHARED_ANCHORS = 0.25
"""Share of a text's anchors that another text needs to become a candidate for containing it; anchors of boilerplate are not
counted as shared."""

_BUCKETED = np.dtype([("bucket", "<u8"), ("rank", "<u4")])
_RANK_BITS = np.uint64(32)

_Flags = npt.NDArray[np.bool_]
"""bool [documents], by number."""


def exact_duplicates(signatures: Signatures, ranking: Ranking, out: Path) -> Iterator[tuple[Ranks, Ranks]]:
    """Yield the ranks of documents whose letters and figures equal those of a better one, and the ranks of the best ones."""
    for rows in _buckets(_signed(signatures, ranking, None, None), int(signatures.offsets[-1]), out):
        copies = np.flatnonzero(~begins_run(rows["bucket"]))
        best = rows["rank"][_starts(rows)]
        yield rows["rank"][copies], best[copies]


def candidate_pairs(signatures: Signatures, ranking: Ranking, gone: _Flags, out: Path) -> None:
    """Write the pairs of documents that share a band, without documents that are ``gone``."""
    pairs = Partitions(out / "pairs", "<u8").cleared()
    for band in range(BANDS):
        for rows in _buckets(_signed(signatures, ranking, band, gone), int(signatures.offsets[-1]), out):
            _append_pairs(pairs, rows, _ranks_each(signatures))


def read_pairs(signatures: Signatures, out: Path) -> Iterator[Ranks]:
    """Yield the distinct pairs of a worse and a better rank in order, some at a time: uint32 [pairs, 2]."""
    for partition in range(_count_partitions(int(signatures.offsets[-1]), _ranks_each(signatures))):
        packed = np.sort(Partitions(out / "pairs", "<u8").read(partition))
        yield _unpack(packed[begins_run(packed)])


def _ranks_each(signatures: Signatures) -> int:
    """Return the number of ranks whose pairs are in one partition."""
    return min(max(int(signatures.offsets[-1]) // _MAX_BUCKET_PARTITIONS, _FEWEST_RANKS), RANKS_PER_PARTITION)


def _append_pairs(pairs: Partitions, rows: Rows, ranks_each: int) -> None:
    """Append the pairs of ``_BUCKETED`` rows, each to the partition of its worse rank."""
    packed = _pairs(rows)
    pairs.append(packed, (packed >> _RANK_BITS) // np.uint64(ranks_each))


def _unpack(packed: npt.NDArray[np.uint64]) -> Ranks:
    return np.stack([packed >> _RANK_BITS, packed & np.uint64(0xFFFFFFFF)], axis=1).astype(np.uint32)


class Instances:
    """Counts the texts that are kept as instances of a template, by the best of them."""

    def __init__(self) -> None:
        self._templates: dict[int, int] = {}
        self._counts: Counter[int] = Counter()

    def exhausted(self, instance: int) -> bool:
        """Return whether ``MAX_INSTANCES`` of the template of this text are kept."""
        return 1 + self._counts[self._templates.get(instance, instance)] >= MAX_INSTANCES

    def add(self, instance: int, better: int) -> None:
        """Count a text as an instance of the template of a better one."""
        template = self._templates[instance] = self._templates.get(better, better)
        self._counts[template] += 1


def near_duplicates(
    pairs: Iterable[tuple[int, int]], gone: _Flags, candidates: Candidates, threshold: float, instances: Instances
) -> Iterator[tuple[int, float]]:
    """Yield the positions of pairs whose worse document is dropped, with their similarity; update ``gone`` and ``instances``.

    ``pairs`` are the numbers of a worse and a better document, sorted by rank, without exact duplicates. A document is dropped
    for the best candidate that is kept, similar enough and about the same subject, or of the same template as many others.
    """
    for worse, group in groupby(enumerate(pairs), lambda each: each[1][0]):
        ours: Compared | None = None
        template: int | None = None
        for position, (_, better) in group:
            least, most = sorted((candidates.length(worse), candidates.length(better)))
            if gone[worse] or gone[better] or least < threshold * most:
                continue
            ours, theirs = ours or candidates.read(worse), candidates.read(better)
            similarity = jaccard(ours.shingles, theirs.shingles)
            if similarity < threshold or different_subjects(ours, theirs):
                continue
            if same_template(unpacked(ours.text), unpacked(theirs.text)) and not instances.exhausted(better):
                template = better if template is None else template
                continue
            gone[worse] = True
            yield position, similarity
        if template is not None and not gone[worse]:
            instances.add(worse, template)


def contained(
    pairs: Iterable[tuple[int, int]], gone: _Flags, parts: _Flags, candidates: Candidates, threshold: float
) -> Iterator[tuple[int, bool, float]]:
    """Yield the positions of pairs in which one text contains the other, whether the better one is the part, and the share.

    ``pairs`` are the numbers of a worse and a better document. A part has at least ``threshold`` of its shingles in the longer
    text, is about the same subject, and is no other instance of a template. Updates ``parts``. A part may contain others, which
    are in the longest text as well.
    """
    for position, (worse, better) in enumerate(pairs):
        if gone[worse] or gone[better]:
            continue
        better_is_part = candidates.length(better) < candidates.length(worse)
        part, whole = (better, worse) if better_is_part else (worse, better)
        if parts[part] or not candidates.length(part):
            continue
        short, long = candidates.read(part), candidates.read(whole)
        common = np.intersect1d(short.shingles, long.shingles, assume_unique=True)
        share = len(common) / len(short.shingles)
        if share < threshold or different_subjects(short, long) or same_template(unpacked(short.text), unpacked(long.text)):
            continue
        parts[part] = True
        yield position, better_is_part, share


def contained_pairs(signatures: Signatures, ranking: Ranking, gone: _Flags, out: Path) -> None:
    """Write a pair of ranks for each anchor that two documents share and few others have, and each document's anchor count."""
    pairs = Partitions(out / "shared-anchors", "<u8").cleared()
    counts = np.zeros(int(signatures.offsets[-1]), dtype=np.uint16)
    for shard, start in enumerate(signatures.offsets[:-1].tolist()):
        anchors = np.bincount(signatures.anchors(shard)["ordinal"])
        counts[start : start + len(anchors)] = np.minimum(anchors, np.iinfo(np.uint16).max)
    counts.tofile(out / ANCHOR_COUNTS)
    for rows in _buckets(_anchored(signatures, ranking, gone), int(counts.sum(dtype=np.int64)), out):
        _append_pairs(pairs, rows[_in_small_bucket(rows)], _ranks_each(signatures))


def read_contained(signatures: Signatures, ranking: Ranking, out: Path) -> Iterator[Ranks]:
    """Yield pairs of a worse and a better rank that share enough anchors, some at a time: uint32 [pairs, 2]."""
    counts = np.fromfile(out / ANCHOR_COUNTS, dtype=np.uint16)
    for partition in range(_count_partitions(int(signatures.offsets[-1]), _ranks_each(signatures))):
        packed = np.sort(Partitions(out / "shared-anchors", "<u8").read(partition))
        starts = np.flatnonzero(begins_run(packed))
        pairs = _unpack(packed[starts])
        fewest = counts[ranking.numbers(pairs.ravel())].reshape(-1, 2).min(axis=1)
        yield pairs[np.diff(starts, append=len(packed)) >= _MIN_SHARED_ANCHORS * fewest]


def _in_small_bucket(rows: Rows) -> npt.NDArray[np.bool_]:
    """Return which rows share their bucket with at most ``NEIGHBOURS`` others; anchors of more are boilerplate: bool [rows]."""
    sizes = np.diff(np.flatnonzero(begins_run(rows["bucket"])), append=len(rows))
    return np.repeat(sizes <= NEIGHBOURS + 1, sizes)


def _signed(signatures: Signatures, ranking: Ranking, band: int | None, gone: _Flags | None) -> Iterator[Rows]:
    """Yield ``_BUCKETED`` rows of each shard; the bucket is the hash of a band, or else of letters and figures."""
    for shard, (start, documents) in enumerate(zip(signatures.offsets.tolist(), signatures.documents)):
        signed = signatures.rows(shard)
        rows = np.empty(len(signed), _BUCKETED)
        rows["bucket"] = signed["exact"] if band is None else signatures.band(shard, band)
        rows["rank"] = ranking.ranks(start, start + documents)[signed["ordinal"]]
        yield rows if gone is None else rows[signed["shingled"] & ~gone[start + signed["ordinal"]]]


def _anchored(signatures: Signatures, ranking: Ranking, gone: _Flags) -> Iterator[Rows]:
    """Yield ``_BUCKETED`` rows of each shard; the bucket is an anchor."""
    for shard, (start, documents) in enumerate(zip(signatures.offsets.tolist(), signatures.documents)):
        anchors = signatures.anchors(shard)
        rows = np.empty(len(anchors), _BUCKETED)
        rows["bucket"] = anchors["hash"]
        rows["rank"] = ranking.ranks(start, start + documents)[anchors["ordinal"]]
        yield rows[~gone[start + anchors["ordinal"]]]


def _buckets(shards: Iterable[Rows], total: int, out: Path) -> Iterator[Rows]:
    """Yield the rows that share a bucket with another, sorted by bucket and rank, in batches of whole buckets."""
    count = min(_count_partitions(total, ROWS_PER_PARTITION), _MAX_BUCKET_PARTITIONS)
    partitions = Partitions(out / "buckets", _BUCKETED).cleared()
    waiting: list[Rows] = []

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
        shared = rows[order[~alone]]  # few, so that sorting by two keys is cheap
        yield shared[np.lexsort((shared["rank"], shared["bucket"]))]


def _starts(rows: Rows) -> npt.NDArray[np.int64]:
    """Return the index at which the bucket of each row begins."""
    return np.maximum.accumulate(np.where(begins_run(rows["bucket"]), np.arange(len(rows)), 0))


def _pairs(rows: Rows) -> npt.NDArray[np.uint64]:
    """Pair each row with the best of its bucket and the ``NEIGHBOURS`` before it, as worse · 2^32 + better."""
    ranks, starts, index = rows["rank"].astype(np.uint64), _starts(rows), np.arange(len(rows))
    far = np.flatnonzero(index - NEIGHBOURS > starts)
    found = [ranks[far] << _RANK_BITS | ranks[starts[far]]]
    for back in range(1, NEIGHBOURS + 1):
        worse = np.flatnonzero(index - back >= starts)
        found.append(ranks[worse] << _RANK_BITS | ranks[worse - back])
    return np.concatenate(found)
