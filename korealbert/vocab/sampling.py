"""Draw sentences from the documents: a weighted sample that depends on the seed and the text, not on shards or workers.

Every sentence gets a priority from (seed, document id, line). The ``limit`` smallest are the sample. One pass counts priorities
in bins, a second keeps the sentences of the bins that are needed: memory holds the sample, never the corpus.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from korealbert.arrow_tables import TableWriter, read_batches
from korealbert.artifact import Runtime
from korealbert.document_shards import read_documents
from korealbert.documents import Document
from korealbert.philox import Stream, draw_block
from korealbert.shards import map_shards

MAX_SENTENCE_BYTES = 4_192
"""SentencePiece leaves out longer training sentences (its default); they are left out and counted here."""

DOCUMENTS_AT_ONCE = 512
_BINS_PER_OCTAVE = 256
_LOWEST_OCTAVE = -64
SAMPLE_SCHEMA = pa.schema([("priority", pa.float64()), ("document", pa.uint64()), ("line", pa.uint32()), ("text", pa.string())])


@dataclass(frozen=True)
class SampleRequest:
    """What to draw from one shard of documents."""

    path: Path
    seed: int
    weights: dict[str, float]
    """Relative probability of a sentence by source; 1 for sources not named, 0 leaves one out."""
    last_bin: int | None = None
    """Keep sentences up to this bin of priorities; None counts only."""


@dataclass(frozen=True)
class Sentences:
    """Candidates of some documents, as parallel columns."""

    priority: npt.NDArray[np.float64]
    document: npt.NDArray[np.uint64]
    line: npt.NDArray[np.int64]
    text: list[str]


def sample_sentences(
    shards: list[Path], *, seed: int, weights: dict[str, float], limit: int, out_dir: Path, runtime: Runtime
) -> tuple[list[str], dict[str, int]]:
    """At most ``limit`` sentences in the order of their priority, and the counts ``sentences`` and ``too_long_sentences``."""
    scratch = out_dir / ".sample"
    scratch.mkdir(exist_ok=True)
    requests = [SampleRequest(path, seed, weights) for path in shards]
    counted = map_shards(_count, requests, out_dir=out_dir, runtime=runtime, step="count-sentences", total=len(shards))
    counts = {key: sum(part[key] for part in counted) for key in ("sentences", "too_long_sentences")}
    last_bin = _bin_that_fills(counted, limit)
    keep = [SampleRequest(path, seed, weights, last_bin) for path in shards]
    map_shards(_keep, keep, out_dir=scratch, runtime=runtime, step="sample-sentences", total=len(shards))
    batches = [batch for path in sorted(scratch.glob("*.arrow")) for batch in read_batches(path, SAMPLE_SCHEMA)]
    table = pa.Table.from_batches(batches, SAMPLE_SCHEMA)
    # The document and line decide between equal priorities, so the order is total and the same for any sharding.
    table = table.sort_by([("priority", "ascending"), ("document", "ascending"), ("line", "ascending")])
    return table["text"].slice(0, limit).to_pylist(), counts


def _count(request: SampleRequest, index: int, out_dir: Path) -> dict[str, Any]:
    bins: dict[int, int] = {}
    sentences = too_long = 0
    for candidates, skipped in _candidates(request):
        for number, count in zip(*np.unique(_bin(candidates.priority), return_counts=True), strict=True):
            bins[int(number)] = bins.get(int(number), 0) + int(count)
        sentences += len(candidates.text)
        too_long += skipped
    return {"sentences": sentences, "too_long_sentences": too_long, "bins": {str(b): n for b, n in sorted(bins.items())}}


def _keep(request: SampleRequest, index: int, out_dir: Path) -> dict[str, Any]:
    kept = 0
    last_bin = request.last_bin
    assert last_bin is not None
    with TableWriter(out_dir / f"sample-{index:05d}.arrow", SAMPLE_SCHEMA) as writer:
        for candidates, _ in _candidates(request):
            for i in np.flatnonzero(_bin(candidates.priority) <= last_bin):
                row = (candidates.priority[i], candidates.document[i], candidates.line[i], candidates.text[i])
                writer.append(row)
                kept += 1
    return {"kept": kept}


def _bin_that_fills(counted: list[dict[str, Any]], limit: int) -> int:
    """The first bin of priorities up to which at least ``limit`` sentences lie (the last bin of all if fewer)."""
    totals: dict[int, int] = {}
    for part in counted:
        for number, count in part["bins"].items():
            totals[int(number)] = totals.get(int(number), 0) + count
    reached = 0
    for number in sorted(totals):
        reached += totals[number]
        if reached >= limit:
            return number
    return max(totals, default=0)


def _bin(priority: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
    """Bins of equal ratio: fine enough that the last one holds 0.3 % of the sample."""
    octaves = np.log2(np.maximum(priority, 2.0**_LOWEST_OCTAVE))
    bins: npt.NDArray[np.int64] = np.floor(octaves * _BINS_PER_OCTAVE).astype(np.int64)
    return bins


def _candidates(request: SampleRequest) -> Iterator[tuple[Sentences, int]]:
    """Sentences with their priorities, some documents at a time, and how many were left out as too long."""
    documents = read_documents(request.path)
    while some := list(islice(documents, DOCUMENTS_AT_ONCE)):
        yield _prioritise(some, request)


def _prioritise(documents: list[Document], request: SampleRequest) -> tuple[Sentences, int]:
    """Priorities -ln(u) / weight: the smallest k are a weighted sample without replacement (Efraimidis and Spirakis 2006)."""
    ids: list[int] = []
    numbers: list[int] = []
    texts: list[str] = []
    weights: list[float] = []
    too_long = 0
    for document in documents:
        weight = request.weights.get(document.source, 1.0)
        if weight == 0.0:
            continue
        for number, line in enumerate(document.text.split("\n")):
            text = line.strip()
            if not text:
                continue
            if len(text.encode("utf-8")) > MAX_SENTENCE_BYTES:
                too_long += 1
                continue
            ids.append(int(document.id, 16))
            numbers.append(number)
            texts.append(text)
            weights.append(weight)
    document_ids = np.array(ids, dtype=np.uint64)
    high, low, *_ = draw_block(request.seed, Stream.VOCABULARY_SAMPLE, document_ids, minor=np.array(numbers, dtype=np.uint64))
    uniform = ((high << np.uint64(21)) | (low >> np.uint64(11))) * 2.0**-53 + 2.0**-54
    priority = -np.log(uniform) / np.array(weights)
    return Sentences(priority, document_ids, np.array(numbers, dtype=np.int64), texts), too_long
