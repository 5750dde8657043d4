"""Stage ``examples``: documents -> clean token rows, training and held-out apart.

Input: roles ``documents`` (one sentence a line, a blank line between paragraphs, hard borders between documents) and ``vocab``.
Output: ``train-*.arrow``, ``heldout-*.arrow`` (``schema.Rows``), ``dropped-*.arrow`` (documents that gave no row).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from pydantic import Field, model_validator

from korealbert.arrow_tables import TableWriter
from korealbert.artifact import Inputs, Runtime, Spec, Stage, Stats
from korealbert.document_shards import DROPPED_SCHEMA, document_row, read_documents, sum_stats
from korealbert.documents import Document
from korealbert.examples.chunks import Chunk, Chunks, ChunkTargets, cut_document
from korealbert.examples.schema import Rows, RowsHeader, id_type, pieces_per_row, write_rows
from korealbert.philox import Stream, draw_block, happens
from korealbert.shards import map_shards
from korealbert.vocab.tokenizer import Vocabulary, WordTable

DOCUMENTS_AT_ONCE = 256
SPLITS = ("train", "heldout")
LENGTH_CLASSES = 16


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
    capacity = (stats["rows_train"] + stats["rows_heldout"]) * pieces_per_row(spec.sequence_length)
    return {**stats, "fill": round(stats["pieces"] / capacity, 4)}


def pack_shard(job: PackJob, index: int, out_dir: Path) -> dict[str, Any]:
    """Pack one shard of documents; its rows are the same whichever process packs it."""
    packer = ShardPacker(job, index, Vocabulary.load(job.vocabulary))
    with TableWriter(out_dir / f"dropped-{index:05d}.arrow", DROPPED_SCHEMA) as dropped:
        stream = read_documents(job.documents)
        while documents := list(islice(stream, DOCUMENTS_AT_ONCE)):
            packer.add(documents, dropped)
    return packer.write(out_dir)


class ShardPacker:
    """Gathers the rows of one shard of documents, and counts."""

    def __init__(self, job: PackJob, index: int, vocabulary: Vocabulary) -> None:
        self._spec, self._heldout_quota, self._index = job.spec, job.heldout_quota, index
        self._vocabulary, self._words = vocabulary, vocabulary.words()
        self._width = pieces_per_row(job.spec.sequence_length)
        self._splits = {split: RowCollector() for split in SPLITS}
        self._sources: dict[str, int] = {}
        self._counts, self._dropped = Counter[str](), Counter[str]()
        self._dropped_pieces = Counter(too_short=0, truncated=0)

    def add(self, documents: list[Document], dropped: TableWriter) -> None:
        """Pack some documents; those that give no row are written to ``dropped``."""
        doc_ids = np.array([int(document.id, 16) for document in documents], dtype=np.uint64)
        heldout = happens(draw_block(self._spec.seed, Stream.HELDOUT, doc_ids)[0], self._spec.heldout_share)
        encoded = encode_documents(documents, self._vocabulary, self._words)
        for place, cut in enumerate(self._cut(encoded, doc_ids)):
            document, pieces = documents[place], encoded[place].pieces
            self._count(encoded[place], cut)
            if cut.chunks:
                collector = self._collector(len(cut.chunks), heldout=bool(heldout[place]))
                self._add_rows(collector, int(doc_ids[place]), document.source, pieces, cut.chunks)
            else:
                reason = "too_short" if len(pieces) else "no_text"
                self._dropped[reason] += 1
                dropped.append((*document_row(document), reason, f"{len(pieces)} < {self._spec.min_pieces} pieces"))

    def _cut(self, encoded: list[EncodedDocument], doc_ids: npt.NDArray[np.uint64]) -> Iterator[Chunks]:
        spec = self._spec
        targets = ChunkTargets(
            doc_ids,
            seed=spec.seed,
            min_pieces=spec.min_pieces,
            max_pieces=self._width,
            short_probability=spec.short_seq_prob,
            scope=spec.short_seq_scope,
        )
        for place, document in enumerate(encoded):
            yield cut_document(
                document.sentence_lengths,
                document.spaced,
                targets.of(place),
                max_pieces=self._width,
                min_pieces=spec.min_pieces,
                carry=spec.overflow == "carry",
            )

    def _count(self, encoded: EncodedDocument, cut: Chunks) -> None:
        self._counts.update(documents_in=1, sentences=len(encoded.sentence_lengths), pieces_in=len(encoded.pieces))
        self._dropped_pieces.update(too_short=cut.too_short, truncated=cut.truncated)

    def _collector(self, rows: int, *, heldout: bool) -> RowCollector:
        """Where a document's rows go; all of them to one split."""
        fits = len(self._splits["heldout"].pieces) + rows <= self._heldout_quota
        return self._splits["heldout" if heldout and fits else "train"]

    def _add_rows(self, collector: RowCollector, doc_id: int, source: str, pieces: Any, chunks: list[Chunk]) -> None:
        self._counts["documents_out"] += 1
        number = self._sources.setdefault(source, len(self._sources))
        for chunk in chunks:
            part = pieces[chunk.begin : chunk.begin + chunk.length]
            collector.add(self._index << 32 | self._counts["rows"], doc_id, number, part, chunk.sentence_lengths)
            self._counts["rows"] += 1
        self._counts["pieces"] += sum(chunk.length for chunk in chunks)
        self._counts["single_sentence_rows"] += sum(len(chunk.sentence_lengths) == 1 for chunk in chunks)

    def write(self, out_dir: Path) -> dict[str, Any]:
        """Write the shards of rows; the statistics of this shard of documents, summable."""
        spec, vocabulary = self._spec, self._vocabulary
        header = RowsHeader(spec.sequence_length, vocabulary.size, vocabulary.sha256, list(self._sources))
        stats: dict[str, Any] = {"dropped": dict(sorted(self._dropped.items())), "dropped_pieces": dict(self._dropped_pieces)}
        for split, collector in self._splits.items():
            self._counts[f"rows_{split}"] = len(collector.pieces)
            if collector.pieces:
                rows = collector.rows(self._width, vocabulary.size)
                write_rows(out_dir / f"{split}-{self._index:05d}.arrow", rows, header)
                stats = sum_stats([stats, {"length_histogram": length_histogram(rows.length, self._width)}])
        return {**self._counts, **stats}


def length_histogram(lengths: npt.NDArray[Any], width: int) -> dict[str, int]:
    """Rows by length in pieces, in 16 classes of equal width named ``1-8``, ``9-16``, …"""
    step = -(-width // LENGTH_CLASSES)
    counts = np.bincount((lengths.astype(np.int64) - 1) // step, minlength=-(-width // step))
    return {f"{i * step + 1}-{min((i + 1) * step, width)}": int(count) for i, count in enumerate(counts)}


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


STAGE = Stage("examples", version=2, spec=ExamplesSpec, run=run)
