"""Stage ``examples``: documents -> clean token rows, training and held-out apart.

Input: roles ``documents`` (one sentence a line, a blank line between paragraphs, hard borders between documents) and ``vocab``;
optionally ``heldout``, documents that all become held-out rows (then ``heldout_share`` must be 0). Output: ``train-*.arrow``,
``heldout-*.arrow`` (``schema.Rows``), ``dropped-*.arrow`` (documents that gave no row).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt
from pydantic import Field, model_validator

from korealbert.artifact import Artifact, Deployment, Inputs, Progress, Real, Runtime, Spec, Stage
from korealbert.artifact.shards import map_shards
from korealbert.documents.schema import Document
from korealbert.documents.shards import DROPPED_SCHEMA, DocumentStats, TableWriter, document_row, read_documents, sum_stats
from korealbert.examples.encoding import DocumentEncoder, EncodedDocuments, LineEncoder
from korealbert.examples.schema import MOST_SOURCES, Rows, RowsHeader, id_type, join_rows, pieces_per_row, write_rows
from korealbert.examples.segments import Chunk, Chunks, ChunkTargets, before, cut_document, windows
from korealbert.philox import Stream, draw_block, happens
from korealbert.vocab.tokenizer import KeptVocabulary, Vocabulary

_DOCUMENTS_AT_ONCE = 256
_CHARACTERS_AT_ONCE = 1_000_000
"""Documents are encoded together up to either limit, so that memory does not grow with their size."""
_FEW_HELD_OUT = 50
"""If this many documents are held out on average, the probability that none is stays below 10^-21."""
LONGEST_ROW = 8192
"""Most tokens of a row."""
MAX_SHARDS = 256
"""Maximum number of row shards. Document shards are grouped if there are more, because a batch reads from every row shard."""
_SPLITS = ("train", "heldout")
_LENGTH_CLASSES = 16


class ExamplesSpec(Spec):
    """How documents become rows."""

    later: ClassVar[frozenset[str]] = frozenset({"heldout_rest"})

    sequence_length: int = Field(default=128, ge=16, le=LONGEST_ROW)
    """L: tokens of an example, including ``[CLS]`` and two ``[SEP]``. KoreALBERT has 128, ALBERT 512."""
    short_seq_prob: float = Field(default=0.1, ge=0.0, le=1.0)
    """Share of chunks with a random shorter target length."""
    short_seq_scope: Literal["chunk", "document"] = "chunk"
    """Draw that per chunk (as the papers say) or once per document (as the official code does)."""
    overflow: Literal["carry", "truncate"] = "carry"
    """What happens to the rest of a sentence when a row is full: it opens the next row, or is dropped (as in the official
    code)."""
    min_pieces: int = Field(default=8, ge=2)
    """Shorter chunks (the ends of documents) are dropped."""
    max_characters: int = Field(default=20_000_000, ge=1)
    """Longer documents are dropped as ``too_long``, because a whole document is in memory, at about 60 bytes a character."""
    heldout_share: float = Field(default=0.01, ge=0.0, lt=1.0)
    """Share of documents, by hash of their id, held out of training: at least one document unless it is 0."""
    heldout_max_rows: int = Field(default=20_000, ge=1)
    """Maximum of held-out rows, divided evenly among shards. ``heldout_rest`` decides about further documents of the
    held-out share."""
    heldout_rest: Literal["train", "unused"] = "train"
    """Documents of the held-out share beyond ``heldout_max_rows`` go into training, or are dropped as ``heldout_unused``.
    With ``unused`` the held-out documents of a corpus are never trained on, nor in any corpus that includes it. An ablation
    that scores cells of different documents on the same held-out rows sets this itself."""
    seed: int = Field(default=0, ge=0, lt=1 << 63)
    """Seed of target lengths and of the held-out split."""

    @model_validator(mode="after")
    def _room_for_the_shortest(self) -> ExamplesSpec:
        if self.min_pieces > pieces_per_row(self.sequence_length):
            raise ValueError(
                f"min_pieces = {self.min_pieces} leaves nothing of sequence_length = {self.sequence_length}: "
                f"a row holds {pieces_per_row(self.sequence_length)} pieces beside [CLS] and two [SEP]; lower min_pieces"
            )
        return self


@dataclass(frozen=True)
class PackJob:
    """Some shards of documents that become one shard of rows."""

    documents: tuple[Path, ...]
    vocabulary: Path
    spec: ExamplesSpec
    heldout_quota: int
    """Maximum of held-out rows from this job."""
    all_heldout: bool = False
    """Whether all these documents are held out."""
    digest: str = ""
    """Of the vocabulary's artifact; a process keeps a vocabulary loaded until another digest comes."""


@dataclass
class _RowCollector:
    """The rows of one split, collected batch by batch until the shard is written."""

    width: int
    dtype: Any
    example_ids: list[int] = field(default_factory=list)
    doc_ids: list[int] = field(default_factory=list)
    sources: list[int] = field(default_factory=list)
    sentences: list[tuple[int, ...]] = field(default_factory=list)
    begins: list[int] = field(default_factory=list)
    """First piece in the current batch of each row that has no ids yet."""
    _batches: list[Rows] = field(default_factory=list)

    @property
    def count(self) -> int:
        """Return the number of rows so far."""
        return sum(len(batch) for batch in self._batches) + len(self.begins)

    def add(self, first_id: int, doc_id: int, source: int, begin: int, chunks: list[Chunk]) -> None:
        """Add the rows of a document; ``begin`` is its first piece in the current batch of documents."""
        self.example_ids.extend(range(first_id, first_id + len(chunks)))
        self.doc_ids.extend([doc_id] * len(chunks))
        self.sources.extend([source] * len(chunks))
        self.begins.extend([begin + chunk.begin for chunk in chunks])
        self.sentences.extend([chunk.sentence_lengths for chunk in chunks])

    def end_batch(self, pieces: npt.NDArray[np.int32]) -> None:
        """Turn the rows added since the last call into padded columns; ``pieces`` are those of the batch of documents."""
        if not self.begins:
            return
        lengths = np.array([sum(sentences) for sentences in self.sentences])
        padded = np.concatenate([pieces, np.zeros(self.width, dtype=pieces.dtype)]).astype(self.dtype)
        ids = windows(padded, self.width)[self.begins] * before(lengths, self.width)
        self._batches.append(
            Rows(
                example_id=np.array(self.example_ids, dtype=np.uint64),
                doc_id=np.array(self.doc_ids, dtype=np.uint64),
                source=np.array(self.sources, dtype=np.uint8),
                ids=ids,
                length=lengths.astype(np.uint16),
                sentence_lengths=np.array([n for row in self.sentences for n in row], dtype=np.uint16),
                sentence_offsets=np.cumsum([0, *map(len, self.sentences)], dtype=np.int64),
            )
        )
        for column in (self.example_ids, self.doc_ids, self.sources, self.begins, self.sentences):
            column.clear()

    def rows(self) -> Rows:
        """Return all rows; there must be at least one."""
        return join_rows(self._batches)


class ExamplesStats(DocumentStats):
    """Statistics of rows that documents were packed into; lengths are in pieces, without special ones."""

    rows_train: int
    rows_heldout: int = 0
    rows_unused: int | None = None
    """Rows that documents dropped as ``heldout_unused`` would have given; None if there are no such documents."""
    rows: int | None = None
    sentences: int | None = None
    pieces_in: int | None = None
    pieces: int | None = None
    single_sentence_rows: int | None = None
    dropped_pieces: dict[str, int] = Field(default_factory=dict)
    """By reason."""
    length_histogram: dict[str, int] = Field(default_factory=dict)
    """Rows by length: ``1-8``, ``9-16``, …"""
    fill: Real | None = None
    """Share of all positions that hold pieces."""


def run(spec: ExamplesSpec, inputs: Inputs, out_dir: Path, runtime: Runtime) -> ExamplesStats:
    """Pack all documents. Raises ValueError if there is no row, or no held-out row although some were requested."""
    groups, vocab = _groups(inputs["documents"]), inputs["vocab"]
    drawn = spec.model_copy(update={"heldout_share": _share(spec, inputs["documents"], vocab)})
    quota, more = divmod(spec.heldout_max_rows, max(1, len(groups)))
    jobs = [
        PackJob(group, vocab.path, drawn, quota + (number < more), digest=vocab.output_digest)
        for number, group in enumerate(groups)
    ]
    most = quota + (more > 0)
    if "heldout" in inputs:
        if spec.heldout_share:
            raise ValueError(
                f"examples: heldout_share = {spec.heldout_share}, but the held-out documents are given; set it to 0"
            )
        jobs += [
            PackJob(group, vocab.path, spec, 0, all_heldout=True, digest=vocab.output_digest)
            for group in _groups(inputs["heldout"])
        ]
    parts = list(map_shards(pack_shards, jobs, out_dir=out_dir, runtime=runtime, step="pack"))
    morphemes = sum_stats([{"seconds": 0.0, "megabytes": 0.0}, *(part.pop("morphemes") for part in parts)])
    if morphemes["seconds"]:  # This takes most of the stage's time.
        runtime.report(Progress(len(jobs), len(jobs), "shards", message=_rate(**morphemes)))
    stats = sum_stats([{"documents_in": 0, "documents_out": 0, "dropped": {}, "rows_train": 0, "rows_heldout": 0}, *parts])
    if not stats["rows_train"]:
        few = " at least two of them are needed, because one is held out;" if spec.heldout_share else ""
        raise ValueError(f"examples: no training row from {stats['documents_in']:,} documents;{few} look at the dropped ones")
    if stats.get("rows_unused") and not stats["rows_heldout"]:
        raise ValueError(
            f"examples: heldout_max_rows = {spec.heldout_max_rows} allows at most {most} in each of {len(groups)} shards, and "
            "every held-out document has more than its shard has room for; raise heldout_max_rows"
        )
    if spec.heldout_share and not stats["rows_heldout"]:
        raise ValueError(
            f"examples: no held-out row: of {stats['documents_in']:,} documents none fell into heldout_share = "
            f"{spec.heldout_share}, or each that did gave no row (look at the dropped ones) or more than its shard's part of "
            f"heldout_max_rows = {spec.heldout_max_rows}, at most {most}; raise heldout_share or heldout_max_rows, or set "
            "heldout_share to 0"
        )
    capacity = (stats["rows_train"] + stats["rows_heldout"]) * pieces_per_row(spec.sequence_length)
    return ExamplesStats.of({**stats, "fill": round(stats["pieces"] / capacity, 4)})


def _share(spec: ExamplesSpec, documents: Artifact, vocab: Artifact) -> float:
    """Return the share of documents to hold out: the spec's. If few documents came in and none within that share gives a row,
    it is the smallest share within which one does.

    With ``heldout_rest = "unused"`` it is always the spec's share: another one would hold out other documents of a larger
    corpus.
    """
    if spec.heldout_rest == "unused":
        return spec.heldout_share
    few = _FEW_HELD_OUT / spec.heldout_share if spec.heldout_share else 0.0
    if documents.stats.get("documents_out", few) >= few:
        return spec.heldout_share
    packer = ShardPacker(PackJob((), vocab.path, spec, 0, digest=vocab.output_digest), 0)
    found, lowest = 0, 1 << 32
    for path in documents.files("documents-*.arrow"):
        for batch in batches_of(read_documents(path)):
            found += len(batch)
            draws = draw_block(spec.seed, Stream.HELDOUT, _numbers_of(batch))[0]
            lower = (place for place in np.argsort(draws) if draws[place] < lowest)
            first = next((place for place in lower if packer.gives_rows(batch[place])), None)
            lowest = lowest if first is None else int(draws[first])
    if found < 2 or lowest == 1 << 32:
        return spec.heldout_share
    return max(spec.heldout_share, (lowest + 1) / 2.0**32)


def _groups(documents: Artifact) -> list[tuple[Path, ...]]:
    """Group shards of documents; each group becomes one shard of rows."""
    shards = documents.files("documents-*.arrow")
    together = -(-len(shards) // MAX_SHARDS)
    return [tuple(shards[i : i + together]) for i in range(0, len(shards), together or 1)]


def _rate(seconds: float, megabytes: float) -> str:
    rate = f"{megabytes:,.1f} MB in {seconds:,.0f} s of processor time, {megabytes / seconds:,.2f} MB/s a core"
    return f"cut text into morphemes and pieces: {rate}"


def pack_shards(job: PackJob, index: int, out_dir: Path) -> dict[str, Any]:
    """Pack some shards of documents into one shard of rows, identical in every process."""
    packer = ShardPacker(job, index)
    morphemes = encoder_of(job.vocabulary, job.digest)[1].morphemes
    before_it = dict(morphemes)
    with TableWriter(out_dir / f"dropped-{index:05d}.arrow", DROPPED_SCHEMA) as dropped:
        for path in job.documents:
            for documents in batches_of(read_documents(path)):
                packer.add(documents, dropped)
    return {**packer.write(out_dir), "morphemes": {name: morphemes[name] - before_it[name] for name in morphemes}}


def batches_of(documents: Iterable[Document]) -> Iterator[list[Document]]:
    """Yield documents in batches of ``_DOCUMENTS_AT_ONCE``; the one that reaches ``_CHARACTERS_AT_ONCE`` ends a batch early."""
    batch: list[Document] = []
    characters = 0
    for document in documents:
        batch.append(document)
        characters += len(document.text)
        if len(batch) == _DOCUMENTS_AT_ONCE or characters >= _CHARACTERS_AT_ONCE:
            yield batch
            batch, characters = [], 0
    if batch:
        yield batch


@lru_cache(maxsize=1)
def encoder_of(vocabulary: Path, digest: str) -> tuple[Vocabulary, DocumentEncoder | LineEncoder]:
    """Load a vocabulary and its encoder, cached: a process packs many shards, and the tables take a tenth of a second."""
    loaded = Vocabulary.load(vocabulary)
    return loaded, LineEncoder(loaded) if isinstance(loaded, KeptVocabulary) else DocumentEncoder(loaded)


def _numbers_of(documents: list[Document]) -> npt.NDArray[np.uint64]:
    """Return the ids of documents as numbers: [D]."""
    return np.array([int(document.id, 16) for document in documents], dtype=np.uint64)


class ShardPacker:
    """Collects the rows of one shard, and counts."""

    def __init__(self, job: PackJob, index: int) -> None:
        self._spec, self._heldout_quota, self._index = job.spec, job.heldout_quota, index
        self._all_heldout = job.all_heldout
        self._vocabulary, self._encoder = encoder_of(job.vocabulary, job.digest)
        self._width = pieces_per_row(job.spec.sequence_length)
        dtype = id_type(self._vocabulary.size).to_pandas_dtype()
        self._splits = {split: _RowCollector(self._width, dtype) for split in _SPLITS}
        self._sources: dict[str, int] = {}
        self._counts, self._dropped = Counter[str](), Counter[str]()
        self._dropped_pieces = Counter(too_short=0, truncated=0)

    def add(self, documents: list[Document], dropped: TableWriter) -> None:
        """Pack some documents; those that give no row are written to ``dropped``."""
        self._counts["documents_in"] += len(documents)
        limit = self._spec.max_characters
        for document in documents:
            if len(document.text) > limit:
                self._drop(document, "too_long", f"{len(document.text)} > {limit} characters", dropped)
        fitting = [document for document in documents if len(document.text) <= limit]
        if not fitting:
            return
        encoded = self._encoder.encode([document.text for document in fitting])
        doc_ids = _numbers_of(fitting)
        heldout = happens(draw_block(self._spec.seed, Stream.HELDOUT, doc_ids)[0], self._spec.heldout_share)
        self._counts.update(sentences=len(encoded.sentence_lengths), pieces_in=len(encoded.pieces))
        for place, (begin, pieces, cut) in enumerate(self._cut(encoded, doc_ids)):
            self._dropped_pieces["too_short"] += cut.too_short
            self._dropped_pieces["truncated"] += cut.truncated
            if not cut.chunks:
                reason = "too_short" if pieces else "no_text"
                self._drop(fitting[place], reason, f"{pieces} < {self._spec.min_pieces} pieces", dropped)
            elif collector := self._collector(len(cut.chunks), heldout=bool(heldout[place])):
                self._add_rows(collector, int(doc_ids[place]), fitting[place].source, begin, cut.chunks)
            else:
                self._counts["rows_unused"] += len(cut.chunks)
                self._dropped_pieces["heldout_unused"] += sum(chunk.length for chunk in cut.chunks)
                rule = f"{len(cut.chunks)} rows beyond {self._heldout_quota} held-out ones of this shard"
                self._drop(fitting[place], "heldout_unused", rule, dropped)
        for collector in self._splits.values():
            collector.end_batch(encoded.pieces)

    def gives_rows(self, document: Document) -> bool:
        """Return whether a document is neither too long nor too short for a row; it is not added."""
        if len(document.text) > self._spec.max_characters:
            return False
        [(_, _, cut)] = self._cut(self._encoder.encode([document.text]), _numbers_of([document]))
        return bool(cut.chunks)

    def _drop(self, document: Document, reason: str, rule: str, dropped: TableWriter) -> None:
        self._dropped[reason] += 1
        dropped.append((*document_row(document), reason, rule))

    def _cut(self, encoded: EncodedDocuments, doc_ids: npt.NDArray[np.uint64]) -> Iterator[tuple[int, int, Chunks]]:
        """Yield for each document its first piece, its number of pieces, and its chunks."""
        spec = self._spec
        sizes = np.bincount(encoded.documents, encoded.sentence_lengths, len(doc_ids)).astype(np.int64)
        targets = ChunkTargets(
            doc_ids,
            sizes * 5 // (4 * self._width) + 3,
            seed=spec.seed,
            min_pieces=spec.min_pieces,
            max_pieces=self._width,
            short_probability=spec.short_seq_prob,
            scope=spec.short_seq_scope,
        )
        spaced, lengths = self._encoder.spaced[encoded.pieces].tobytes(), encoded.sentence_lengths.tolist()
        ends = np.searchsorted(encoded.documents, np.arange(len(doc_ids)), side="right").tolist()
        begin = first = 0
        for place, (pieces, end) in enumerate(zip(sizes.tolist(), ends, strict=True)):
            chunks = cut_document(
                lengths[first:end],
                spaced[begin : begin + pieces],
                targets.of(place),
                max_pieces=self._width,
                min_pieces=spec.min_pieces,
                carry=spec.overflow == "carry",
            )
            yield begin, pieces, chunks
            begin, first = begin + pieces, end

    def _collector(self, rows: int, *, heldout: bool) -> _RowCollector | None:
        """Return where a document's rows go, all to the same split; None if they are unused."""
        if self._all_heldout:
            return self._splits["heldout"]
        if not heldout:
            return self._splits["train"]
        if self._splits["heldout"].count + rows <= self._heldout_quota:
            return self._splits["heldout"]
        return self._splits["train"] if self._spec.heldout_rest == "train" else None

    def _add_rows(self, collector: _RowCollector, doc_id: int, source: str, begin: int, chunks: list[Chunk]) -> None:
        self._counts["documents_out"] += 1
        number = self._sources.setdefault(source, len(self._sources))
        if number > MOST_SOURCES:
            raise ValueError(f"examples: more than {MOST_SOURCES + 1} sources in one shard, {source!r} is the next; merge some")
        collector.add(self._index << 32 | self._counts["rows"], doc_id, number, begin, chunks)
        self._counts["rows"] += len(chunks)
        self._counts["pieces"] += sum([chunk.length for chunk in chunks])
        self._counts["single_sentence_rows"] += sum([len(chunk.sentence_lengths) == 1 for chunk in chunks])

    def write(self, out_dir: Path) -> dict[str, Any]:
        """Write the shards of rows; returns the statistics of this job, which can be summed."""
        spec, vocabulary = self._spec, self._vocabulary
        header = RowsHeader(spec.sequence_length, vocabulary.size, vocabulary.sha256, list(self._sources))
        stats: dict[str, Any] = {"dropped": dict(sorted(self._dropped.items())), "dropped_pieces": dict(self._dropped_pieces)}
        for split, collector in self._splits.items():
            self._counts[f"rows_{split}"] = collector.count
            if collector.count:
                rows = collector.rows()
                write_rows(out_dir / f"{split}-{self._index:05d}.arrow", rows, header)
                stats = sum_stats([stats, {"length_histogram": _length_histogram(rows.length, self._width)}])
        return {**self._counts, **stats}


def _length_histogram(lengths: npt.NDArray[Any], width: int) -> dict[str, int]:
    """Count rows by length in pieces, in 16 classes of equal width named ``1-8``, ``9-16``, …"""
    step = -(-width // _LENGTH_CLASSES)
    counts = np.bincount((lengths.astype(np.int64) - 1) // step, minlength=-(-width // step))
    return {f"{i * step + 1}-{min((i + 1) * step, width)}": int(count) for i, count in enumerate(counts)}


STAGE = Stage(
    "examples",
    version=5,
    spec=ExamplesSpec,
    run=run,
    table="examples",
    inputs={"documents": "balance", "vocab": "vocab"},
    required=True,
    deployment=Deployment("Tokenise and pack example rows"),
)
