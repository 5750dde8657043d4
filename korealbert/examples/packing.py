"""Stage ``examples``: documents -> clean token rows, training and held-out apart.

Input: roles ``documents`` (one sentence a line, a blank line between paragraphs, hard borders between documents) and ``vocab``.
Output: ``train-*.arrow``, ``heldout-*.arrow`` (``schema.Rows``), ``dropped-*.arrow`` (documents that gave no row).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import astuple, dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, Literal

import numpy as np
from pydantic import Field, model_validator

from korealbert.arrow_tables import TableWriter
from korealbert.artifact import Inputs, Runtime, Spec, Stage, Stats
from korealbert.document_shards import DROPPED_SCHEMA, read_documents, sum_stats
from korealbert.documents import Document
from korealbert.examples.chunks import ChunkTargets, cut_document
from korealbert.examples.facts import fill_share, length_histogram
from korealbert.examples.schema import Rows, RowsHeader, id_type, pieces_per_row, write_rows
from korealbert.philox import Stream, draw_block, happens
from korealbert.shards import map_shards
from korealbert.vocab.tokenizer import Vocabulary, WordTable

DOCUMENTS_AT_ONCE = 256
SPLITS = ("train", "heldout")


class ExamplesSpec(Spec):
    """How documents become rows."""

    sequence_length: int = Field(default=128, ge=16, le=4096)
    """L: tokens of an example, ``[CLS]`` and two ``[SEP]`` included. KoreALBERT has 128, ALBERT 512."""
    short_seq_prob: float = Field(default=0.1, ge=0.0, le=1.0)
    """Share of chunks that aim at a random shorter length."""
    short_seq_scope: Literal["chunk", "document"] = "chunk"
    """Draw that per chunk (as the papers say) or once per document (as the official code does)."""
    overflow: Literal["carry", "truncate"] = "carry"
    """What becomes of a sentence's rest when a row is full: it opens the next row, or is dropped (as in the official code)."""
    min_pieces: int = Field(default=8, ge=2)
    """Shorter chunks (the ends of documents) are dropped."""
    heldout_share: float = Field(default=0.01, ge=0.0, lt=1.0)
    """Share of documents, by hash of their id, that are held out of training."""
    heldout_max_rows: int = Field(default=20_000, ge=1)
    """Held-out rows at most; further documents of the held-out share go into training."""
    seed: int = Field(default=0, ge=0, lt=1 << 63)
    """Of target lengths and of the held-out split."""

    @model_validator(mode="after")
    def _room_for_the_shortest(self) -> ExamplesSpec:
        if self.min_pieces > pieces_per_row(self.sequence_length):
            raise ValueError(
                f"min_pieces = {self.min_pieces} leaves nothing of sequence_length = {self.sequence_length}: "
                f"a row holds {pieces_per_row(self.sequence_length)} pieces beside [CLS] and two [SEP]"
            )
        return self


@dataclass(frozen=True)
class PackJob:
    """One shard of documents to pack."""

    documents: Path
    vocabulary: Path
    spec: ExamplesSpec
    heldout_quota: int
    """Held-out rows that this shard may give."""


@dataclass
class RowCollector:
    """Rows of one split of one shard, gathered until the shard is written."""

    example_ids: list[int] = field(default_factory=list)
    doc_ids: list[int] = field(default_factory=list)
    sources: list[int] = field(default_factory=list)
    pieces: list[Any] = field(default_factory=list)
    sentences: list[tuple[int, ...]] = field(default_factory=list)

    def add(self, example_id: int, doc_id: int, source: int, pieces: Any, sentence_lengths: tuple[int, ...]) -> None:
        """Add one row."""
        self.example_ids.append(example_id)
        self.doc_ids.append(doc_id)
        self.sources.append(source)
        self.pieces.append(pieces)
        self.sentences.append(sentence_lengths)

    def rows(self, width: int, vocab_size: int) -> Rows:
        """All rows as padded columns."""
        lengths = np.array([len(row) for row in self.pieces], dtype=np.uint16)
        ids = np.zeros((len(self.pieces), width), dtype=id_type(vocab_size).to_pandas_dtype())
        ids[np.arange(width) < lengths[:, None]] = np.concatenate(self.pieces)
        return Rows(
            example_id=np.array(self.example_ids, dtype=np.uint64),
            doc_id=np.array(self.doc_ids, dtype=np.uint64),
            source=np.array(self.sources, dtype=np.uint8),
            ids=ids,
            length=lengths,
            sentence_lengths=np.array([n for row in self.sentences for n in row], dtype=np.uint16),
            sentence_offsets=np.cumsum([0, *map(len, self.sentences)], dtype=np.int64),
        )


@dataclass(frozen=True)
class EncodedDocument:
    """A document as pieces."""

    pieces: Any
    """int32 [n]"""
    spaced: Any
    """bool [n]: the piece follows a space."""
    sentence_lengths: list[int]


def run(spec: ExamplesSpec, inputs: Inputs, out_dir: Path, runtime: Runtime) -> Stats:
    """Pack all documents. Raises ValueError when no row comes out, or no held-out row although some were asked for."""
    shards = inputs["documents"].files("documents-*.arrow")
    quota = -(-spec.heldout_max_rows // max(1, len(shards)))
    jobs = [PackJob(path, inputs["vocab"].path, spec, quota) for path in shards]
    parts = map_shards(pack_shard, jobs, out_dir=out_dir, runtime=runtime, step="pack", total=len(jobs))
    stats = sum_stats([{"documents_in": 0, "documents_out": 0, "dropped": {}, "rows_train": 0, "rows_heldout": 0}, *parts])
    if not stats["rows_train"]:
        raise ValueError(f"examples: no training row from {stats['documents_in']:,} documents; look at what was dropped")
    if spec.heldout_share and not stats["rows_heldout"]:
        raise ValueError(
            f"examples: none of {stats['documents_in']:,} documents fell into the held-out share of {spec.heldout_share}; "
            "raise heldout_share, or set it to 0 to train without held-out rows"
        )
    rows = stats["rows_train"] + stats["rows_heldout"]
    return {**stats, "fill": fill_share(stats["pieces"], rows, spec.sequence_length)}


def pack_shard(job: PackJob, index: int, out_dir: Path) -> dict[str, Any]:
    """Pack one shard of documents; its rows are the same whichever process packs it."""
    spec, vocabulary = job.spec, Vocabulary.load(job.vocabulary)
    words = vocabulary.words()
    width = pieces_per_row(spec.sequence_length)
    splits = {split: RowCollector() for split in SPLITS}
    sources: dict[str, int] = {}
    counts: Counter[str] = Counter()
    dropped: Counter[str] = Counter()
    dropped_pieces: Counter[str] = Counter(too_short=0, truncated=0)
    with TableWriter(out_dir / f"dropped-{index:05d}.arrow", DROPPED_SCHEMA) as writer:
        stream = read_documents(job.documents)
        while documents := list(islice(stream, DOCUMENTS_AT_ONCE)):
            doc_ids = np.array([int(document.id, 16) for document in documents], dtype=np.uint64)
            heldout = happens(draw_block(spec.seed, Stream.HELDOUT, doc_ids)[0], spec.heldout_share)
            targets = ChunkTargets(
                doc_ids,
                seed=spec.seed,
                min_pieces=spec.min_pieces,
                max_pieces=width,
                short_probability=spec.short_seq_prob,
                scope=spec.short_seq_scope,
            )
            for place, (document, encoded) in enumerate(
                zip(documents, encode_documents(documents, vocabulary, words), strict=True)
            ):
                cut = cut_document(
                    encoded.sentence_lengths,
                    encoded.spaced,
                    targets.of(place),
                    max_pieces=width,
                    min_pieces=spec.min_pieces,
                    carry=spec.overflow == "carry",
                )
                counts["documents_in"] += 1
                counts["sentences"] += len(encoded.sentence_lengths)
                counts["pieces_in"] += len(encoded.pieces)
                dropped_pieces["too_short"] += cut.too_short
                dropped_pieces["truncated"] += cut.truncated
                if not cut.chunks:
                    reason = "too_short" if len(encoded.pieces) else "no_text"
                    dropped[reason] += 1
                    writer.append((*astuple(document), reason, f"{len(encoded.pieces)} < {spec.min_pieces} pieces"))
                    continue
                counts["documents_out"] += 1
                hold = heldout[place] and len(splits["heldout"].pieces) + len(cut.chunks) <= job.heldout_quota
                collector = splits["heldout" if hold else "train"]
                source = sources.setdefault(document.source, len(sources))
                for chunk in cut.chunks:
                    pieces = encoded.pieces[chunk.begin : chunk.begin + chunk.length]
                    collector.add(index << 32 | counts["rows"], int(doc_ids[place]), source, pieces, chunk.sentence_lengths)
                    counts["rows"] += 1
                counts["pieces"] += sum(chunk.length for chunk in cut.chunks)
                counts["single_sentence_rows"] += sum(len(chunk.sentence_lengths) == 1 for chunk in cut.chunks)
    header = RowsHeader(spec.sequence_length, vocabulary.size, vocabulary.sha256, list(sources))
    stats: dict[str, Any] = {"dropped": dict(sorted(dropped.items())), "dropped_pieces": dict(dropped_pieces)}
    for split, collector in splits.items():
        counts[f"rows_{split}"] = len(collector.pieces)
        if collector.pieces:
            rows = collector.rows(width, vocabulary.size)
            write_rows(out_dir / f"{split}-{index:05d}.arrow", rows, header)
            stats = sum_stats([stats, {"length_histogram": length_histogram(rows.length, width)}])
    return {**counts, **stats}


def encode_documents(documents: list[Document], vocabulary: Vocabulary, words: WordTable) -> list[EncodedDocument]:
    """Encode the sentences of some documents; sentences without a piece (controls only) count as blank lines."""
    lines = [[line for line in document.text.split("\n") if line.strip()] for document in documents]
    encoded = iter(vocabulary.encode([line for group in lines for line in group]))
    result = []
    for group in lines:
        sentences = [ids for ids in islice(encoded, len(group)) if len(ids)]
        lengths = [len(ids) for ids in sentences]
        pieces = np.concatenate([*sentences, np.empty(0, dtype=np.int32)])
        result.append(EncodedDocument(pieces, words.spaced[pieces], lengths))
    return result


STAGE = Stage("examples", version=1, spec=ExamplesSpec, run=run)
