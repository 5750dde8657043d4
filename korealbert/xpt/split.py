"""Stage ``xpt_split`` (labels ``split/train``, ``split/valid``, ``split/test``): documents → one of three disjoint parts.

Input: role ``documents`` (one sentence a line). Output: ``documents-*.arrow``. Documents (or sentences) are ordered by a hash
of seed and id (or text). The first ones are the test part, the next the valid part, the rest the train part. Thus a smaller
train part is contained in every larger one of the same seed, and its size does not change the other two parts.

No sentence is in two parts. At document level, where documents may have sentences in common, the train part excludes those of
the other two parts, and the valid part those of the test part.

A part ends when it has enough sentences. That border is found without sorting all hashes: a histogram of their first 16 bits
tells in which of its bins the border lies, and only that bin is sorted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from korealbert.artifact import Inputs, Runtime, Spec, Stage, Stats
from korealbert.artifact.files import atomic_path
from korealbert.artifact.shards import map_shards
from korealbert.documents.schema import Document
from korealbert.documents.shards import NO_DOCUMENTS, DocumentShard, DocumentStats, read_documents, sum_stats
from korealbert.philox import hash64

Part = Literal["train", "valid", "test"]
_Hashes = NDArray[np.uint64]
"""Sorted hashes of sentences."""


class SplitSpec(Spec):
    """One of the three parts of a corpus."""

    part: Part
    """The part that is written."""
    level: Literal["document", "sentence"] = "document"
    """The unit that is split. The paper seems to split sentences, which puts neighbours in a text into different parts."""
    test_sentences: int = Field(default=88_000, ge=1)
    """Sentences of the test part (Chameleon: 88,000)."""
    valid_sentences: int = Field(default=100_000, ge=1)
    """Sentences of the valid part (Chameleon: 100,000)."""
    train_sentences: int | None = Field(default=None, ge=1)
    """Sentences of the train part: 400,000 or 4,000,000 in Chameleon. None: all that are left."""
    seed: int = Field(default=0, ge=0, lt=1 << 63)
    """Seed of the order."""

    @model_validator(mode="after")
    def _only_train_has_a_size(self) -> Self:
        if self.part != "train" and self.train_sentences is not None:
            raise ValueError(f"train_sentences = {self.train_sentences} says nothing about the {self.part} part; remove it")
        return self


_BINS = 1 << 16
_SHIFT = np.uint64(48)

MEASURED = np.dtype([("draw", np.uint64), ("sentences", np.uint32)])
"""Hash and number of sentences of a document, or of one sentence."""


class Border(NamedTuple):
    """The end of a part: it contains all units whose hash is below ``draw``, and ``sentences`` of the document with hash
    ``draw``."""

    draw: int
    sentences: int


WHOLE = 1 << 62
"""More sentences than a document has."""

START = Border(-1, 0)
"""The border before the first part."""


@dataclass(frozen=True)
class _SplitJob:
    """One shard of documents."""

    shard: Path
    spec: SplitSpec
    begin: Border = START
    """The border after which the part, or what a step considers, begins."""
    end: Border | None = None
    """The border at which it ends; None: at the last hash."""
    excluded: Path | None = None
    """File with the sorted hashes of sentences that the part must not contain."""
    measured: str = "measure"
    """Prefix of the output files of ``_measure``."""


class SplitStats(DocumentStats):
    """Size of one part."""

    sentences_in: int = 0
    sentences_out: int = 0


def run(spec: SplitSpec, inputs: Inputs, out_dir: Path, runtime: Runtime) -> SplitStats:
    """Write one part. Raises ValueError if the corpus has too few sentences for the requested sizes."""
    (out_dir / ".work").mkdir(exist_ok=True)
    shards = inputs["documents"].files("documents-*.arrow")

    def over_shards(step: str, function: Callable[[_SplitJob, int, Path], Stats], **fields: object) -> list[Stats]:
        jobs = [replace(_SplitJob(shard, spec), **fields) for shard in shards]  # type: ignore[arg-type]
        return map_shards(function, jobs, out_dir=out_dir, runtime=runtime, step=step)

    over_shards("measure", _measure)
    begin, end = _range(spec, sorted((out_dir / ".work").glob("measure-*.npy")))
    excluded = None
    if spec.level == "document" and spec.part != "test":
        # All sentences of a document that the border cuts are excluded, since it is not yet known which of them its part has.
        over_shards("exclude", _note_sentences, end=begin._replace(sentences=WHOLE))
        excluded = _join_hashes(out_dir / ".work")
    if spec.part == "train" and spec.train_sentences is not None:
        over_shards("remaining", _measure, begin=begin, excluded=excluded, measured="remaining")
        remaining = sorted((out_dir / ".work").glob("remaining-*.npy"))
        end = _train_end(spec, remaining, begin)
    stats = sum_stats([NO_DOCUMENTS, *over_shards("write", _write_part, begin=begin, end=end, excluded=excluded)])
    if not stats.get("sentences_out"):
        raise ValueError(f"split: no sentence is left for the {spec.part} part; the corpus is too small for these sizes")
    return SplitStats.of(stats)


def _range(spec: SplitSpec, measured: list[Path]) -> tuple[Border, Border | None]:
    """Return the borders of the part; the end of the train part is None."""
    available, wanted = sentences_after(measured, START), spec.test_sentences + spec.valid_sentences
    if available <= wanted:
        raise ValueError(
            f"split: the corpus has {available:,} sentences, and test_sentences + valid_sentences = {wanted:,} leave none to "
            "train on; lower them or take more text"
        )
    cut = spec.level == "document"
    test = find_border(measured, after=START, sentences=spec.test_sentences, divisible=cut)
    if spec.part == "test":
        return START, test
    if sentences_after(measured, test) <= spec.valid_sentences:  # The document that the border cuts may be the last.
        raise ValueError(f"split: valid_sentences = {spec.valid_sentences:,} leaves no sentence to train on; lower it")
    valid = find_border(measured, after=test, sentences=spec.valid_sentences, divisible=cut)
    return (test, valid) if spec.part == "valid" else (valid, None)


def _train_end(spec: SplitSpec, remaining: list[Path], begin: Border) -> Border | None:
    assert spec.train_sentences is not None
    available = sentences_after(remaining, begin)
    if available < spec.train_sentences:
        raise ValueError(
            f"split: {available:,} sentences are left to train on, but train_sentences = {spec.train_sentences:,}; "
            "lower it, or take more text"
        )
    if available == spec.train_sentences:
        return None
    return find_border(remaining, after=begin, sentences=spec.train_sentences, divisible=spec.level == "document")


def _sentences_of(text: str) -> Iterator[str]:
    """Yield the sentences of a document, one a line."""
    return (line for line in text.split("\n") if line.strip())


def _draw(spec: SplitSpec, what: str) -> int:
    """Return the 64-bit hash by which a document id or a sentence is ordered."""
    return hash64(f"{spec.seed}\0{what.strip()}")


def _note_sentences(job: _SplitJob, index: int, out_dir: Path) -> Stats:
    """Write the hashes of all sentences before ``job.end``, which include those of the earlier parts."""
    hashes = [
        hash64(sentence.strip()) for document in read_documents(job.shard) for sentence in _sentences_of_part(document, job)
    ]
    _save(out_dir / ".work" / f"exclude-{index:05d}.npy", np.unique(np.array(hashes, dtype=np.uint64)))
    return {}


def _measure(job: _SplitJob, index: int, out_dir: Path) -> Stats:
    """Write a ``MEASURED`` entry for each document (or sentence) after ``job.begin``, without excluded sentences."""
    rows: list[tuple[int, int]] = []
    excluded = _load(job.excluded)
    for document in read_documents(job.shard):
        if job.spec.level == "sentence":
            rows += [(_draw(job.spec, sentence), 1) for sentence in _sentences_of_part(document, job)]
        elif left := len(_sentences_of_part(document, job, excluded)):
            rows.append((_draw(job.spec, document.id), left))
    _save(out_dir / ".work" / f"{job.measured}-{index:05d}.npy", np.array(rows, dtype=MEASURED))
    return {}


def _write_part(job: _SplitJob, index: int, out_dir: Path) -> Stats:
    """Write the documents of the part, and count those of other parts as dropped."""
    elsewhere = sentences_in = sentences_out = 0
    excluded = _load(job.excluded)
    with DocumentShard(out_dir, index) as shard:
        for document in read_documents(job.shard):
            sentences = _sentences_of_part(document, job, excluded)
            sentences_in += sum(1 for _ in _sentences_of(document.text))
            sentences_out += len(sentences)
            if sentences:
                shard.keep(replace(document, text=_without_others(document.text, sentences)))
            else:
                elsewhere += 1
    counts = {"documents_in": elsewhere, "dropped": {"in_no_or_another_part": elsewhere} if elsewhere else {}}
    return sum_stats([shard.stats, counts, {"sentences_in": sentences_in, "sentences_out": sentences_out}])


def _sentences_of_part(document: Document, job: _SplitJob, excluded: _Hashes | None = None) -> list[str]:
    """Return the lines of a document between the job's borders whose hashes are not ``excluded``, in order."""
    lines = list(_sentences_of(document.text))
    if job.spec.level == "sentence":
        return [line for line in lines if _between(_draw(job.spec, line), job)]
    number = _draw(job.spec, document.id)
    if not _between(number, job):
        return []
    if excluded is not None and lines:
        hashes = np.array([hash64(line.strip()) for line in lines], dtype=np.uint64)
        lines = [line for line, barred in zip(lines, _among(hashes, excluded).tolist(), strict=True) if not barred]
    return lines[: job.end.sentences] if job.end is not None and number == job.end.draw else lines


def _between(number: int, job: _SplitJob) -> bool:
    return job.begin.draw < number and (job.end is None or number <= job.end.draw)


def _among(hashes: _Hashes, sorted_hashes: _Hashes) -> NDArray[np.bool_]:
    places = np.searchsorted(sorted_hashes, hashes)
    found: NDArray[np.bool_] = np.append(sorted_hashes, hashes[:1])[places] == hashes
    return found & (places < len(sorted_hashes))


def _load(path: Path | None) -> _Hashes | None:
    return None if path is None else np.load(path)


def _without_others(text: str, sentences: list[str]) -> str:
    """Return the text with only these of its lines; paragraphs stay separate."""
    wanted, paragraphs = iter([*sentences, None]), []
    following = next(wanted)
    for paragraph in text.split("\n\n"):
        lines = []
        for line in paragraph.split("\n"):
            if line == following:
                lines.append(line)
                following = next(wanted)
        if lines:
            paragraphs.append("\n".join(lines))
    return "\n\n".join(paragraphs)


def _join_hashes(work: Path) -> Path:
    joined = np.unique(np.concatenate([np.load(path) for path in sorted(work.glob("exclude-*.npy"))]))
    _save(work / "excluded.npy", joined)
    return work / "excluded.npy"


def _save(path: Path, array: NDArray[np.generic]) -> None:
    with atomic_path(path) as temporary, temporary.open("wb") as handle:
        np.save(handle, array)


def sentences_after(files: Sequence[Path], border: Border) -> int:
    """Return the number of sentences after a border."""
    return sum(int(table["sentences"].sum(dtype=np.int64)) for table in _after(files, border))


def find_border(files: Sequence[Path], *, after: Border, sentences: int, divisible: bool) -> Border:
    """Return the end of a part of ``sentences`` that begins after a border, where there must be more than that.

    ``files`` hold arrays of ``MEASURED``. If ``divisible``, the last document is cut so that the part has exactly this size.
    Otherwise, and if several documents have the hash of the last one, it may be smaller.
    """
    histogram = np.zeros(_BINS, dtype=np.int64)
    for table in _after(files, after):
        np.add.at(histogram, (table["draw"] >> _SHIFT).astype(np.int64), table["sentences"].astype(np.int64))
    upto = np.cumsum(histogram)
    bin_ = int(np.searchsorted(upto, sentences, side="right"))
    before = int(upto[bin_ - 1]) if bin_ else 0
    joined = np.concatenate([table[table["draw"] >> _SHIFT == np.uint64(bin_)] for table in _after(files, after)])
    draws, group = np.unique(joined["draw"], return_inverse=True)
    counts = np.bincount(group, joined["sentences"]).astype(np.int64)
    ends = before + np.cumsum(counts)
    last = int(np.searchsorted(ends, sentences, side="right"))
    rest = sentences - int(ends[last] - counts[last])
    alone = np.count_nonzero(joined["sentences"][group == last]) == 1
    return Border(int(draws[last]), rest) if divisible and alone and rest else Border(int(draws[last]) - 1, WHOLE)


def _after(files: Sequence[Path], border: Border) -> Iterator[NDArray[np.void]]:
    for path in files:
        table = np.load(path, mmap_mode="r")
        yield table if border.draw < 0 else table[table["draw"] > np.uint64(border.draw)]


STAGE = Stage("xpt_split", version=3, spec=SplitSpec, run=run)
