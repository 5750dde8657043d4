"""Stage ``dedup``: remove copies, near-copies and evaluation texts from the documents of all sources.

Steps: sign every shard (map, ``signatures.py``), find exact copies and candidates (one reduce, ``candidates.py``), write the
hashes of candidates (map), compare them (one reduce), write every shard (map). With ``[dedup.repeats]`` (``repeats.py``) there
are two more before the last: write the passages of kept documents (map), and find repeated ones (map over ranges of hashes).
``repeats-*.arrow`` then has the deleted passages.

Work files are in ``.work`` of the output until it is complete: about 200 bytes per document, 1.5 per letter, and 14 per letter
of candidates. Memory holds one partition of rows (some 300 MB; more above 1,024 bucket partitions, about 500 M rows:
docs/scale.md), 4 bytes per document and 56 per candidate.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import count, pairwise
from math import isnan
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pydantic import Field, model_validator

from korealbert.artifact import Deployment, Inputs, Runtime, Spec, Stage, Stats, refuse_repeats
from korealbert.artifact.files import note_written, write_json
from korealbert.artifact.shards import map_shards
from korealbert.corpus.clean.personal_data import Kind
from korealbert.corpus.dedup.candidates import (
    ANCHOR_COUNTS,
    RANKING_FILES,
    Instances,
    Partitions,
    Ranking,
    Ranks,
    candidate_pairs,
    contained,
    contained_pairs,
    exact_duplicates,
    near_duplicates,
    rank_documents,
    read_contained,
    read_pairs,
)
from korealbert.corpus.dedup.decontaminate import Decontaminated, index_evaluation_texts, letters_of, load_evaluation_texts
from korealbert.corpus.dedup.evaluation_files import EvaluationFile, downloaded
from korealbert.corpus.dedup.repeats import Repeats, Shortened, merge_range, ranges, read_marks, shorten, write_passages
from korealbert.corpus.dedup.signatures import Candidates, Signatures, SignatureWriter, shingles, squeeze, write_candidates
from korealbert.corpus.dedup.subjects import compared
from korealbert.documents.schema import Document, Drop
from korealbert.documents.shards import (
    NO_DOCUMENTS,
    DocumentShard,
    DocumentStats,
    TableWriter,
    read_documents,
    refuse_nothing_kept,
    sum_stats,
)

_REPEATS_SCHEMA = pa.schema([("id", pa.string()), ("kind", pa.string()), ("start", pa.int64()), ("text", pa.string())])
"""Rows of ``repeats-*.arrow``; inserted at ``start`` one after the other, they restore the decontaminated text."""

_DECISION = np.dtype([("number", "<u4"), ("survivor", "<u8"), ("similarity", "<f8")])
"""A document to drop: its number, the survivor's id, their similarity (NaN for exact copies)."""


class DedupSpec(Spec):
    """What a copy is, which source's copy is kept, and which texts the corpus must not have."""

    later: ClassVar[frozenset[str]] = frozenset({"repeats"})

    priority: tuple[str, ...] = ()
    """Sources, best first: of two copies, that of the earlier source is kept. Sources not named come last, by name."""
    near: bool = True
    """Whether near-duplicates are dropped, or only exact ones."""
    threshold: float = Field(default=0.8, gt=0, le=1)
    """Minimum Jaccard similarity of 5-letter shingles of near-duplicates. Both are kept if their subjects differ: most of their
    numbers do, or each is about a word of its own title or opening (매리너 6호 and 7호, 2011년 and 2012년, the men's race
    and the women's), or they are instances of one template: equal but for names and numbers, boilerplate aside. Up to 50
    such instances are kept."""
    contained: float = Field(default=0.9, ge=0, le=1)
    """A text is dropped if this share of its 5-letter shingles is in a longer one of any source (the first version of a report,
    a text that another quotes). 0, or without ``near``: off. A passage that more than 17 texts share counts as boilerplate, so
    a text that so many others quote in full is kept."""
    seed: int = Field(default=1, ge=0, lt=1 << 32)
    """Seed of the MinHash permutations."""
    decontaminate: tuple[EvaluationFile, ...] = ()
    """Files of evaluation sets whose texts are removed, also in the form that ``personal_data`` masks. A title that is such a
    text is removed."""
    min_letters: int = Field(default=5, ge=1)
    """Evaluation texts of fewer letters and digits are removed only as whole paragraphs, not as lines."""
    repeats: Repeats | None = None
    """Limits for passages that are in several documents; None: none. The best documents keep theirs: those of the first source
    in ``priority``, then longer ones, then those of the smaller id, as for whole copies."""

    @model_validator(mode="after")
    def _names_are_unique(self) -> DedupSpec:
        refuse_repeats("priority", self.priority)
        refuse_repeats("decontaminate", [one.name for one in self.decontaminate])
        return self


@dataclass(frozen=True)
class _Job:
    shard: Path
    spec: DedupSpec
    numbers: tuple[int, int] = (0, 0)
    """Numbers of its first document and of the one after its last; known after signing."""
    ranges: int = 0
    """Number of ranges of passage hashes; known after they are written."""


def _work(out_dir: Path) -> Path:
    return out_dir / ".work"


def _changed_path(out_dir: Path, index: int) -> Path:
    """Return the file with the ordinals of a shard's documents that decontamination changes."""
    return _work(out_dir) / f"touched-{index:05d}.json"


def _decisions(out_dir: Path, reason: str) -> Partitions:
    """Return the documents that are dropped for a reason, in a partition for each shard."""
    return Partitions(_work(out_dir) / reason, _DECISION)


def _decontaminated(text: str, spec: DedupSpec, out_dir: Path) -> Decontaminated:
    if not spec.decontaminate:
        return Decontaminated(text)
    return load_evaluation_texts(_work(out_dir) / "evaluation").decontaminate(text)


def _clean_title(title: str, spec: DedupSpec, out_dir: Path) -> tuple[str, Counter[str]]:
    """Return a title, or "" and its benchmark if it is an evaluation text or contains one."""
    found = _decontaminated(title, spec, out_dir) if len(title) >= spec.min_letters else Decontaminated(title)
    if not found.changed or len(letters_of(title)) < spec.min_letters:
        return title, Counter()
    return "", (found.paragraphs + found.lines) or Counter([found.dropped_for])


def _read_decontaminated(
    job: _Job, index: int, out_dir: Path, chosen: npt.NDArray[np.bool_] | None = None
) -> Iterator[tuple[int, Document, Decontaminated]]:
    """Read all or the ``chosen`` documents of a signed shard, and decontaminate those again that signing found changed."""
    changed = set(json.loads(_changed_path(out_dir, index).read_bytes()))
    ordinals = count() if chosen is None else np.flatnonzero(chosen).tolist()
    for ordinal, document in zip(ordinals, read_documents(job.shard, chosen)):
        text = document.text
        yield ordinal, document, _decontaminated(text, job.spec, out_dir) if ordinal in changed else Decontaminated(text)


def masked_kinds(inputs: Inputs) -> list[tuple[Kind, ...]]:
    """Return the sets of kinds of personal data that cleaning masked in the inputs."""
    found = set()
    for artifact in inputs.values():
        with suppress(FileNotFoundError):  # without a manifest it is unknown how shards were cleaned
            found.add(tuple(artifact.manifest["spec"].get("personal_data", ())))
    return sorted(found)


def _index(masked: list[tuple[Kind, ...]], spec: DedupSpec, index: int, out_dir: Path) -> Stats:
    index_evaluation_texts(spec.decontaminate, spec.min_letters, _work(out_dir) / "evaluation", masked)
    return {}


def _sign_shard(job: _Job, index: int, out_dir: Path) -> Stats:
    """Write the signatures of a shard's documents that are not dropped as contaminated."""
    signatures = SignatureWriter(_work(out_dir), index, job.spec.seed, near=job.spec.near, contained=job.spec.contained > 0)
    changed: list[int] = []
    documents = 0
    for ordinal, document in enumerate(read_documents(job.shard)):
        documents += 1
        clean = _decontaminated(document.text, job.spec, out_dir)
        if clean.changed:
            changed.append(ordinal)
        if clean.drop is None:
            signatures.add(ordinal, document, clean.text)
    signatures.finish()
    write_json(_changed_path(out_dir, index), changed)
    return {"documents": documents, "sources": list(signatures.sources)}


def _find(spec: DedupSpec, signatures: Signatures, index: int, out_dir: Path) -> Stats:
    """Rank all documents; find exact copies, and candidates for near ones and for texts contained in others."""
    work = _work(out_dir)
    ranking = rank_documents(signatures, spec.priority, work)
    decisions = _decisions(out_dir, "exact_duplicate").cleared()
    gone = np.zeros(int(signatures.offsets[-1]), dtype=bool)
    for ranks, survivors in exact_duplicates(signatures, ranking, work):
        gone[ranking.numbers(ranks)] = True
        _note_drops(decisions, signatures, ranking, ranks, survivors, np.full(len(ranks), np.nan))
    candidates = 0
    wanted = np.zeros(len(gone), dtype=bool)
    if spec.near:
        candidate_pairs(signatures, ranking, gone, work)
        for pairs in read_pairs(signatures, work):
            candidates += len(pairs)
            wanted[ranking.numbers(np.unique(pairs))] = True
    if spec.near and spec.contained:
        contained_pairs(signatures, ranking, gone, work)
        for pairs in read_contained(signatures, ranking, work):
            candidates += len(pairs)
            wanted[ranking.numbers(np.unique(pairs))] = True
        note_written(work / "shared-anchors")
        note_written(work / ANCHOR_COUNTS)
    gone.tofile(work / "gone.bin")
    wanted.tofile(work / "wanted.bin")
    for name in (*RANKING_FILES, "gone.bin", "wanted.bin", "pairs", "exact_duplicate"):
        note_written(work / name)
    return {"candidate_pairs": candidates}


def _prepare_shard(job: _Job, index: int, out_dir: Path) -> Stats:
    """Write the hashes of a shard's candidates."""
    start, end = job.numbers
    wanted = np.fromfile(_work(out_dir) / "wanted.bin", dtype=bool, count=end - start, offset=start)
    documents = _read_decontaminated(job, index, out_dir, wanted) if wanted.any() else ()
    candidates = (
        (ordinal, compared(document.title, clean.text, shingles(squeeze(clean.text)))) for ordinal, document, clean in documents
    )
    write_candidates(_work(out_dir), index, candidates)
    return {}


def _compare(spec: DedupSpec, signatures: Signatures, index: int, out_dir: Path) -> Stats:
    """Find near-duplicates, best documents first, then texts contained in others."""
    work, ranking = _work(out_dir), Ranking(_work(out_dir))
    decisions = _decisions(out_dir, "near_duplicate").cleared()
    gone = np.fromfile(work / "gone.bin", dtype=bool)
    candidates, instances = Candidates(work, signatures.offsets), Instances()
    for pairs in read_pairs(signatures, work):
        numbers = ranking.numbers(pairs.ravel()).reshape(-1, 2)
        found = list(near_duplicates(map(tuple, numbers), gone, candidates, spec.threshold, instances))
        positions = np.array([position for position, _ in found], dtype=np.int64)
        worse, better = pairs[positions].T
        _note_drops(decisions, signatures, ranking, worse, better, np.array([similarity for _, similarity in found]))
    note_written(decisions.directory)
    if not spec.contained:
        return {}
    decisions = _decisions(out_dir, "contained").cleared()
    parts = np.zeros(len(gone), dtype=bool)
    for pairs in read_contained(signatures, ranking, work):
        numbers = ranking.numbers(pairs.ravel()).reshape(-1, 2)
        held = list(contained(map(tuple, numbers), gone, parts, candidates, spec.contained))
        part_column = np.array([better_is_part for _, better_is_part, _ in held], dtype=np.intp)
        positions = np.array([position for position, _, _ in held], dtype=np.intp)
        shares = np.array([share for _, _, share in held])
        _note_drops(decisions, signatures, ranking, pairs[positions, part_column], pairs[positions, 1 - part_column], shares)
    note_written(decisions.directory)
    return {}


def _note_drops(
    decisions: Partitions,
    signatures: Signatures,
    ranking: Ranking,
    ranks: Ranks,
    survivors: Ranks,
    similarity: npt.NDArray[np.float64],
) -> None:
    """Write to each shard's partition which of its documents are dropped, given by ``ranks``."""
    rows = np.empty(len(ranks), _DECISION)
    rows["number"], rows["survivor"], rows["similarity"] = ranking.numbers(ranks), ranking.ids(survivors), similarity
    decisions.append(rows, np.searchsorted(signatures.offsets, rows["number"], side="right") - 1)


def _read_drops(job: _Job, index: int, out_dir: Path) -> dict[int, Drop]:
    """Return the drops of a shard's documents by ordinal."""
    return {
        number - job.numbers[0]: Drop(reason, f"{survivor:016x}" + ("" if isnan(similarity) else f" {similarity:.3f}"))
        for reason in ("exact_duplicate", "near_duplicate", "contained")
        for number, survivor, similarity in _decisions(out_dir, reason).read(index).tolist()
    }


def _write_passages(job: _Job, index: int, out_dir: Path) -> Stats:
    """Write the passages of a shard's documents that are kept."""
    assert job.spec.repeats is not None
    work, drops = _work(out_dir), _read_drops(job, index, out_dir)
    ranking = Ranking(work)
    ranks = ranking.ranks(*job.numbers).tolist()
    kept = (
        (ranks[ordinal], clean.text)
        for ordinal, _, clean in _read_decontaminated(job, index, out_dir)
        if clean.drop is None and ordinal not in drops
    )
    return {"units": write_passages(work, index, kept, ranking, job.spec.repeats)}


def _merge_range(repeats: Repeats, shards: int, bounds: tuple[int, int], index: int, out_dir: Path) -> Stats:
    merge_range(_work(out_dir), index, bounds, shards, Ranking(_work(out_dir)), repeats)
    return {}


def _write_shard(job: _Job, index: int, out_dir: Path) -> Stats:
    """Write the documents of a shard that are kept."""
    spec, drops = job.spec, _read_drops(job, index, out_dir)
    marks = read_marks(_work(out_dir), index, job.numbers, job.ranges) if spec.repeats else {}
    paragraphs: Counter[str] = Counter()
    lines: Counter[str] = Counter()
    contaminated: Counter[str] = Counter()
    repeated: Counter[str] = Counter()
    sources: dict[str, Any] = {}
    with DocumentShard(out_dir, index) as shard, TableWriter(out_dir / f"repeats-{index:05d}.arrow", _REPEATS_SCHEMA) as log:
        for ordinal, document, found in _read_decontaminated(job, index, out_dir):
            clean, drop = found, found.drop or drops.get(ordinal)
            if drop is None and spec.repeats and ordinal in marks:
                shortened = shorten(clean.text, marks[ordinal], spec.repeats)
                clean, drop = _without_repeats(clean, shortened, spec, out_dir)
                if drop is None:
                    for removal in shortened.removals:
                        log.append((document.id, removal.kind, removal.start, removal.text))
                        repeated[removal.kind] += len(removal.text)
            if drop is None:
                title, removed_titles = _clean_title(document.title, spec, out_dir)
                shard.keep(replace(document, text=clean.text, title=title))
                paragraphs.update(clean.paragraphs)
                lines.update(clean.lines + removed_titles)
                contaminated.update(clean.characters)
            else:
                shard.drop(document, drop)
            sources = sum_stats([sources, {document.source: _counted(clean, drop)}])
    removed = {"paragraphs_decontaminated": paragraphs.total(), "lines_decontaminated": lines.total()}
    by_benchmark = {"decontaminated": paragraphs + lines, "characters_decontaminated": contaminated}
    stats = {**shard.stats, **removed, "sources": sources}
    stats |= {name: dict(sorted(counts.items())) for name, counts in by_benchmark.items()}
    return stats | ({"characters_repeated": dict(repeated)} if spec.repeats else {})


def _without_repeats(
    clean: Decontaminated, shortened: Shortened, spec: DedupSpec, out_dir: Path
) -> tuple[Decontaminated, Drop | None]:
    """Decontaminate a shortened document again, because what is left may be an evaluation text."""
    if not shortened.text:
        kinds = sorted({one.kind for one in shortened.removals})
        return clean, Drop("repeated", f"{', '.join(kinds)}: nothing else in it")
    again = _decontaminated(shortened.text, spec, out_dir)
    counts = (clean.paragraphs + again.paragraphs, clean.lines + again.lines, clean.characters + again.characters)
    return Decontaminated(again.text, again.drop, *counts), again.drop


def _counted(clean: Decontaminated, drop: Drop | None) -> dict[str, Any]:
    if drop is not None:
        return {"documents_in": 1, "documents_out": 0, "characters_out": 0, drop.reason: 1}
    return {"documents_in": 1, "documents_out": 1, "characters_out": len(clean.text)}


class DedupStats(DocumentStats):
    """Copies and evaluation texts that were removed."""

    paragraphs_decontaminated: int = 0
    """Removed from kept documents, like the next three."""
    lines_decontaminated: int = 0
    """Includes titles."""
    decontaminated: dict[str, int] = Field(default_factory=dict)
    """Paragraphs and lines by benchmark."""
    characters_decontaminated: dict[str, int] = Field(default_factory=dict)
    """Characters of these paragraphs and lines with their line breaks, without titles, by benchmark."""
    candidate_pairs: int = 0
    """Pairs of documents that may be near-copies, and pairs of which one may contain the other."""
    characters_repeated: dict[str, int] = Field(default_factory=dict)
    """Characters of repeated passages that were removed from kept documents, with white space, by kind: sentences, paragraphs,
    words."""
    sources: dict[str, dict[str, int]] = Field(default_factory=dict)
    """By source: documents_in, documents_out, characters_out, and documents by drop reason."""


def run(spec: DedupSpec, inputs: Inputs, out_dir: Path, runtime: Runtime) -> DedupStats:
    """Deduplicate the ``documents`` shards of all roles together; further roles hold downloaded evaluation files.

    Drop reasons: ``exact_duplicate`` (rule: the id of the best copy, which may itself be dropped for another reason),
    ``near_duplicate`` (the survivor's id and the similarity), ``contained`` (the id of the longer text, which may itself be a
    part of another, and the share), ``contaminated``, ``repeated`` (better documents have all its passages).
    Raises ValueError naming the drops if no document is left, or the sources if they have none.
    """
    spec = spec.model_copy(update={"decontaminate": tuple(downloaded(spec.decontaminate, inputs))})
    jobs = [_Job(shard, spec) for role in sorted(inputs) for shard in inputs[role].files("documents-*.arrow")]
    work = _work(out_dir)
    work.mkdir(exist_ok=True)
    if spec.decontaminate:
        map_shards(partial(_index, masked_kinds(inputs)), [spec], out_dir=out_dir, runtime=runtime, step="evaluation")
    signed = map_shards(_sign_shard, jobs, out_dir=out_dir, runtime=runtime, step="sign")
    if not any(one["documents"] for one in signed):
        _refuse_empty_sources(inputs)
    signatures = Signatures(work, [one["documents"] for one in signed], [one["sources"] for one in signed])
    jobs = [replace(job, numbers=numbers) for job, numbers in zip(jobs, pairwise(signatures.offsets.tolist()))]
    found = map_shards(partial(_find, spec), [signatures], out_dir=out_dir, runtime=runtime, step="find")
    if spec.near:
        map_shards(_prepare_shard, jobs, out_dir=out_dir, runtime=runtime, step="prepare")
        map_shards(partial(_compare, spec), [signatures], out_dir=out_dir, runtime=runtime, step="compare")
    if spec.repeats:
        written = map_shards(_write_passages, jobs, out_dir=out_dir, runtime=runtime, step="units")
        merging = ranges(sum(one["units"] for one in written))
        map_shards(partial(_merge_range, spec.repeats, len(jobs)), merging, out_dir=out_dir, runtime=runtime, step="merge")
        jobs = [replace(job, ranges=len(merging)) for job in jobs]
    parts = map_shards(_write_shard, jobs, out_dir=out_dir, runtime=runtime, step="write")
    nothing = {**NO_DOCUMENTS, "paragraphs_decontaminated": 0, "lines_decontaminated": 0}
    nothing |= {"decontaminated": {}, "characters_decontaminated": {}, "candidate_pairs": 0, "sources": {}} | (
        {"characters_repeated": {}} if spec.repeats else {}
    )
    stats = sum_stats([nothing, *found, *parts])
    refuse_nothing_kept("dedup", {"all sources": stats}, "Change decontaminate and repeats in [dedup]")
    return DedupStats.of(stats)


def _refuse_empty_sources(inputs: Inputs) -> None:
    """Raise ValueError naming the sources that had documents before cleaning, with their drops."""
    empty = {}
    for source, artifact in sorted(inputs.items()):
        with suppress(FileNotFoundError):  # without a manifest it is unknown what was cleaned
            if "documents_in" in artifact.stats:  # no evaluation file
                empty[source] = artifact.stats
    if first := next((source for source, stats in empty.items() if stats["documents_in"]), None):
        remedy = f"`korealbert inspect clean/{first} --dropped all` shows them; change [clean.{first}.limits], or in"
        refuse_nothing_kept("dedup", empty, f"{remedy} [extract.{first}] what a document is")


STAGE = Stage(
    "dedup",
    version=22,
    spec=DedupSpec,
    run=run,
    table="dedup",
    inputs={"SOURCE": "clean/SOURCE"},
    required=True,
    deployment=Deployment("Exact and near duplicates; benchmark decontamination"),
)
