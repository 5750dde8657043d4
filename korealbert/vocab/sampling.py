"""Draws a weighted sample of sentences from the documents; it depends on seed and text, but not on shards or workers.

Every sentence gets a priority from (seed, document id, line). The sample is the sentences with the smallest priorities, as many
as two limits allow. A first pass counts sentences and characters in bins of priority, a second one keeps the bins that are
needed: memory holds the sample, never the corpus.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from korealbert.artifact import Runtime
from korealbert.artifact.shards import map_shards
from korealbert.documents.shards import DOCUMENT_SCHEMA, TableWriter, read_batches, sum_stats
from korealbert.philox import Stream, draw_block

MAX_SENTENCE_BYTES = 4_192
"""SentencePiece ignores longer training sentences (its default), so they are left out and counted here."""

_BINS_PER_OCTAVE = 256
_LOWEST_OCTAVE = -64
_SAMPLE_SCHEMA = pa.schema(
    [
        ("priority", pa.float64()),
        ("document", pa.uint64()),
        ("line", pa.uint32()),
        ("source", pa.string()),
        ("text", pa.string()),
    ]
)
"""Sentences with their sort keys."""


@dataclass(frozen=True)
class SampleLimits:
    """The sample stays within both limits, but contains at least one sentence."""

    sentences: int
    characters: int


@dataclass(frozen=True)
class _SampleRequest:
    """The job of one shard: which sentences to sample."""

    path: Path
    seed: int
    weights: dict[str, float]
    """Relative probability of a sentence by source; 1 for sources not named, 0 excludes one."""
    last_bin: int | None = None
    """Keep sentences up to this bin of priorities; None only counts."""


@dataclass(frozen=True)
class Sample:
    """Sentences in order of their priority."""

    sentences: list[str]
    counts: dict[str, Any]
    """``sentences`` and ``too_long_sentences`` of the corpus; ``sampled_sentences``, ``sampled_characters`` and
    ``sampled_by_source`` of the sample."""


def sample_sentences(
    shards: list[Path], *, seed: int, weights: dict[str, float], limits: SampleLimits, out_dir: Path, runtime: Runtime
) -> Sample:
    """Draw the sample. Raises ValueError if ``weights`` names a source that no document has."""
    scratch = out_dir / ".sample"
    scratch.mkdir(exist_ok=True)
    requests = [_SampleRequest(path, seed, weights) for path in shards]
    counted = map_shards(_count, requests, out_dir=out_dir, runtime=runtime, step="count-sentences")
    total = sum_stats([{"sentences": 0, "too_long_sentences": 0, "documents_by_source": {}, "bins": {}}, *counted])
    if unknown := sorted(weights.keys() - total["documents_by_source"].keys()):
        known = ", ".join(sorted(total["documents_by_source"])) or "none"
        raise ValueError(
            f"vocab.source_weights names {', '.join(unknown)}, but the sources of the documents are {known}; correct the names"
        )
    keep = [_SampleRequest(path, seed, weights, _bin_that_fills(total["bins"], limits)) for path in shards]
    map_shards(_keep, keep, out_dir=scratch, runtime=runtime, step="sample-sentences")
    batches = [batch for path in sorted(scratch.glob("*.arrow")) for batch in read_batches(path, _SAMPLE_SCHEMA)]
    table = pa.Table.from_batches(batches, _SAMPLE_SCHEMA)
    # Document and line break ties, so the order is the same for any sharding.
    table = table.sort_by([("priority", "ascending"), ("document", "ascending"), ("line", "ascending")])
    characters = np.cumsum(pc.utf8_length(table["text"]).to_numpy())
    fitting = int(np.searchsorted(characters, limits.characters, side="right"))
    table = table.slice(0, min(max(fitting, 1), limits.sentences))
    counts = {
        "sentences": total["sentences"],
        "too_long_sentences": total["too_long_sentences"],
        "sampled_sentences": len(table),
        "sampled_characters": int(characters[len(table) - 1]) if len(table) else 0,
        "sampled_by_source": dict(sorted(Counter(table["source"].to_pylist()).items())),
    }
    return Sample(table["text"].to_pylist(), counts)


def _count(request: _SampleRequest, index: int, out_dir: Path) -> dict[str, Any]:
    bins: dict[str, dict[str, int]] = {}
    sentences = too_long = 0
    documents = Counter[str]()
    for batch in read_batches(request.path, DOCUMENT_SCHEMA):
        documents.update(batch["source"].to_pylist())
        candidates, skipped = _candidates(batch, request)
        lengths = pc.utf8_length(candidates["text"]).to_numpy()
        numbers, places = np.unique(_bin(candidates["priority"].to_numpy()), return_inverse=True)
        within = np.bincount(places, minlength=len(numbers)), np.bincount(places, weights=lengths, minlength=len(numbers))
        for number, count, characters in zip(numbers, *within, strict=True):
            found = bins.setdefault(str(number), {"sentences": 0, "characters": 0})
            found["sentences"] += int(count)
            found["characters"] += int(characters)
        sentences += len(candidates)
        too_long += skipped
    return {"sentences": sentences, "too_long_sentences": too_long, "documents_by_source": dict(documents), "bins": bins}


def _keep(request: _SampleRequest, index: int, out_dir: Path) -> dict[str, Any]:
    kept = 0
    assert request.last_bin is not None
    with TableWriter(out_dir / f"sample-{index:05d}.arrow", _SAMPLE_SCHEMA) as writer:
        for batch in read_batches(request.path, DOCUMENT_SCHEMA):
            candidates, _ = _candidates(batch, request)
            chosen = candidates.filter(_bin(candidates["priority"].to_numpy()) <= request.last_bin)
            for row in zip(*(column.to_pylist() for column in chosen.columns), strict=True):
                writer.append(row)
            kept += len(chosen)
    return {"kept": kept}


def _bin_that_fills(bins: dict[str, dict[str, int]], limits: SampleLimits) -> int:
    """Return the first bin of priorities up to which the sentences reach a limit, or the last bin if they do not."""
    sentences = characters = 0
    ordered = sorted(map(int, bins))
    for number in ordered:
        sentences += bins[str(number)]["sentences"]
        characters += bins[str(number)]["characters"]
        if sentences >= limits.sentences or characters >= limits.characters:
            return number
    return ordered[-1] if ordered else 0


def _bin(priority: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
    """Return bins of equal ratio, so fine that the last one contains 0.3 % of the sample."""
    octaves = np.log2(np.maximum(priority, 2.0**_LOWEST_OCTAVE))
    bins: npt.NDArray[np.int64] = np.floor(octaves * _BINS_PER_OCTAVE).astype(np.int64)
    return bins


def _candidates(documents: pa.RecordBatch, request: _SampleRequest) -> tuple[pa.RecordBatch, int]:
    """Return the lines of some documents with their priorities, and how many were excluded as too long.

    Priorities are -ln(u) / weight: the smallest k are a weighted sample without replacement (Efraimidis and Spirakis 2006).
    """
    sources = documents["source"].to_pylist()
    lines = pc.split_pattern(documents["text"], "\n")
    text = pc.utf8_trim_whitespace(lines.flatten())
    document = pc.list_parent_indices(lines).to_numpy()
    line = np.arange(len(text)) - lines.offsets.to_numpy()[document]
    weight = np.array([request.weights.get(source, 1.0) for source in sources])[document]
    size = pc.binary_length(text).to_numpy()
    wanted = (size > 0) & (weight > 0)
    taken = np.flatnonzero(wanted & (size <= MAX_SENTENCE_BYTES))
    ids = np.array([int(name, 16) for name in documents["id"].to_pylist()], dtype=np.uint64)[document[taken]]
    high, low, *_ = draw_block(request.seed, Stream.VOCABULARY_SAMPLE, ids, minor=line[taken].astype(np.uint64))
    uniform = ((high << np.uint64(21)) | (low >> np.uint64(11))) * 2.0**-53 + 2.0**-54
    columns = [
        -np.log(uniform) / weight[taken],
        ids,
        line[taken].astype(np.uint32),
        documents["source"].take(pa.array(document[taken])),
        text.take(pa.array(taken)),
    ]
    return pa.record_batch(columns, schema=_SAMPLE_SCHEMA), int(np.count_nonzero(wanted)) - len(taken)
