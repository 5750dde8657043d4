"""Stage ``dedup``: all sources → one set of documents without copies, near-copies and evaluation texts.

Three steps: sign every shard (map), decide who stays (one reduce over signatures, and over the texts of candidates alone),
write every shard (map). Work files live in ``.work`` within the output directory and vanish with its completion.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
from pydantic import Field, model_validator

from korealbert.arrow_tables import TableWriter, read_batches
from korealbert.artifact import Inputs, Runtime, Spec, Stage, Stats
from korealbert.corpus.benchmarks import EvaluationFile
from korealbert.corpus.decontaminate import Decontaminated, index_evaluation_texts, load_evaluation_texts
from korealbert.corpus.minhash import BANDS, band_hashes
from korealbert.corpus.near_duplicates import ShingleStore, candidate_pairs, exact_duplicates, near_duplicates, rank_documents
from korealbert.corpus.shingles import Hashes, fingerprint, shingles, squeeze
from korealbert.document_shards import NO_DOCUMENTS, DocumentShard, read_documents, sum_stats
from korealbert.documents import Drop
from korealbert.files import write_json
from korealbert.shards import map_shards

DOCUMENTS_PER_SIGNING = 500
"""Documents whose shingles are in memory at once while a shard is signed."""

SIGNATURE_SCHEMA = pa.schema(
    [
        ("shard", pa.uint32()),
        ("ordinal", pa.uint32()),
        ("id", pa.string()),
        ("source", pa.string()),
        ("characters", pa.uint32()),
        ("exact", pa.uint64()),
        ("content", pa.uint64()),
        ("shingles", pa.uint32()),
        *((f"band_{band:02d}", pa.uint64()) for band in range(BANDS)),
    ]
)
DECISION_SCHEMA = pa.schema([("ordinal", pa.uint32()), ("reason", pa.string()), ("rule", pa.string())])


class DedupSpec(Spec):
    """What counts as a copy, whose copy stays, and which texts the corpus must not hold."""

    priority: tuple[str, ...] = ()
    """Sources from the one whose documents stay to the one whose go; those not named come last, by name."""
    near: bool = True
    """Whether to look for near-duplicates, or for exact ones only."""
    threshold: float = Field(default=0.8, gt=0, le=1)
    """Least Jaccard similarity of 5-letter shingles of near-duplicates."""
    seed: int = Field(default=1, ge=0, lt=1 << 32)
    """Seed of the MinHash permutations."""
    decontaminate: tuple[EvaluationFile, ...] = ()
    """Files of evaluation sets whose texts are removed."""
    min_letters: int = Field(default=8, ge=1)
    """Evaluation texts of fewer letters and digits are removed only where they are a whole paragraph, not a line of one."""

    @model_validator(mode="after")
    def _names_are_unique(self) -> DedupSpec:
        for kind, names in (("priority", self.priority), ("decontaminate", [one.name for one in self.decontaminate])):
            doubled = sorted(name for name, count in Counter(names).items() if count > 1)
            if doubled:
                raise ValueError(f"{kind}: {', '.join(doubled)} named twice; name each once")
        return self


@dataclass(frozen=True)
class _Job:
    shard: Path
    spec: DedupSpec


def _work(out_dir: Path) -> Path:
    return out_dir / ".work"


def _touched(out_dir: Path, index: int) -> Path:
    """The ordinals of a shard's documents that hold evaluation texts: the others need no second look."""
    return _work(out_dir) / f"touched-{index:05d}.json"


def _decontaminated(text: str, spec: DedupSpec, out_dir: Path) -> Decontaminated:
    if not spec.decontaminate:
        return Decontaminated(text)
    return load_evaluation_texts(_work(out_dir) / "evaluation").decontaminate(text)


def sign_shard(job: _Job, index: int, out_dir: Path) -> Stats:
    """Write the signatures of one shard's documents; contaminated ones get none."""
    rows: list[tuple[Any, ...]] = []
    sets: list[Hashes] = []
    touched: list[int] = []
    with TableWriter(_work(out_dir) / f"signatures-{index:05d}.arrow", SIGNATURE_SCHEMA) as table:

        def flush() -> None:
            for row, bands in zip(rows, band_hashes(sets, job.spec.seed).tolist()):
                table.append((*row, *bands))
            rows.clear()
            sets.clear()

        for ordinal, document in enumerate(read_documents(job.shard)):
            clean = _decontaminated(document.text, job.spec, out_dir)
            if clean.touched:
                touched.append(ordinal)
            if clean.drop is not None:
                continue
            squeezed = squeeze(clean.text)
            sets.append(shingles(squeezed) if job.spec.near else np.empty(0, dtype=np.uint64))
            exact, content = fingerprint(squeezed, clean.text), fingerprint(clean.text, clean.text)
            rows.append((index, ordinal, document.id, document.source, len(clean.text), exact, content, len(sets[-1])))
            if len(rows) == DOCUMENTS_PER_SIGNING:
                flush()
        flush()
    write_json(_touched(out_dir, index), touched)
    return {}


def decide(jobs: Sequence[_Job], index: int, out_dir: Path) -> Stats:
    """Find all copies in the shards of all jobs and write each shard's list of documents to drop."""
    work = _work(out_dir)
    tables = sorted(work.glob("signatures-*.arrow"))
    if not tables:
        return {"candidate_pairs": 0}
    spec, signatures = jobs[0].spec, pl.scan_ipc(tables)
    ranking = rank_documents(signatures, spec.priority)
    exact = exact_duplicates(ranking)
    drops = exact.with_columns(reason=pl.lit("exact_duplicate"), similarity=pl.lit(None, dtype=pl.Float64))
    candidates = 0
    if spec.near:
        unique = ranking.join(exact, on="rank", how="anti")
        pairs = candidate_pairs(signatures, unique, work / "pairs")
        candidates = len(pairs)
        store = ShingleStore(work / "shingles.bin")
        wanted = pl.concat([pairs["better"], pairs["worse"]]).unique()
        for shard, part in unique.filter(pl.col("rank").is_in(wanted.implode())).partition_by("shard", as_dict=True).items():
            ranks = dict(zip(part["ordinal"].to_list(), part["rank"].to_list()))
            store.add(_shingles_of(jobs[int(shard[0])], ranks, out_dir))
        found = list(near_duplicates(pairs, store.reader(), spec.threshold))
        near = pl.DataFrame(
            {
                "rank": pl.Series([one.rank for one in found], dtype=pl.UInt32),
                "survivor": pl.Series([one.survivor for one in found], dtype=pl.UInt32),
                "reason": pl.Series(["near_duplicate"] * len(found), dtype=pl.String),
                "similarity": pl.Series([one.similarity for one in found], dtype=pl.Float64),
            }
        )
        drops = pl.concat([drops, near])
    _write_decisions(drops, ranking, work)
    return {"candidate_pairs": candidates}


def _shingles_of(job: _Job, ranks: dict[int, int], out_dir: Path) -> Iterator[tuple[int, Hashes]]:
    for ordinal, document in enumerate(read_documents(job.shard)):
        if ordinal in ranks:
            yield ranks[ordinal], shingles(squeeze(_decontaminated(document.text, job.spec, out_dir).text))


def _write_decisions(drops: pl.DataFrame, ranking: pl.DataFrame, work: Path) -> None:
    placed = (
        drops.join(ranking.select("rank", "shard", "ordinal"), on="rank")
        .join(ranking.select(survivor="rank", survivor_id="id"), on="survivor")
        .sort("shard", "ordinal")
    )
    for shard, part in placed.partition_by("shard", as_dict=True, maintain_order=True).items():
        with TableWriter(work / f"decisions-{int(shard[0]):05d}.arrow", DECISION_SCHEMA) as table:
            for row in part.iter_rows(named=True):
                similar = "" if row["similarity"] is None else f" {row['similarity']:.3f}"
                table.append((row["ordinal"], row["reason"], f"{row['survivor_id']}{similar}"))


def write_shard(job: _Job, index: int, out_dir: Path) -> Stats:
    """Write what stays of one shard."""
    decided: dict[int, Drop] = {}
    decisions = _work(out_dir) / f"decisions-{index:05d}.arrow"
    if decisions.exists():
        for batch in read_batches(decisions, DECISION_SCHEMA):
            ordinals, reasons, rules = (column.to_pylist() for column in batch.columns)
            decided.update((ordinal, Drop(reason, rule)) for ordinal, reason, rule in zip(ordinals, reasons, rules))
    paragraphs: Counter[str] = Counter()
    lines: Counter[str] = Counter()
    sources: dict[str, Any] = {}
    touched = set(json.loads(_touched(out_dir, index).read_bytes()))
    with DocumentShard(out_dir, index) as shard:
        for ordinal, document in enumerate(read_documents(job.shard)):
            clean = Decontaminated(document.text)
            if ordinal in touched:
                clean = _decontaminated(document.text, job.spec, out_dir)
            drop = clean.drop or decided.get(ordinal)
            if drop is None:
                shard.keep(replace(document, text=clean.text))
                paragraphs.update(clean.paragraphs)
                lines.update(clean.lines)
            else:
                shard.drop(document, drop)
            sources = sum_stats([sources, {document.source: _counted(clean, drop)}])
    removed = {"paragraphs_decontaminated": paragraphs.total(), "lines_decontaminated": lines.total()}
    return {**shard.stats, **removed, "decontaminated": dict(sorted((paragraphs + lines).items())), "sources": sources}


def _counted(clean: Decontaminated, drop: Drop | None) -> dict[str, Any]:
    if drop is not None:
        return {"documents_in": 1, "documents_out": 0, "characters_out": 0, drop.reason: 1}
    return {"documents_in": 1, "documents_out": 1, "characters_out": len(clean.text)}


def run(spec: DedupSpec, inputs: Inputs, out_dir: Path, runtime: Runtime) -> Stats:
    """Deduplicate the ``documents`` shards of all roles, taken together.

    Statistics beside the conserved counts: ``paragraphs_decontaminated``, ``lines_decontaminated`` (of documents that stay),
    ``decontaminated`` {benchmark: paragraphs and lines}, ``candidate_pairs``, ``sources`` {source: counts by outcome}.
    Drop reasons: ``exact_duplicate`` (rule: the survivor's id), ``near_duplicate`` (its id and the similarity),
    ``contaminated``.
    """
    jobs = [_Job(shard, spec) for role in sorted(inputs) for shard in inputs[role].files("documents-*.arrow")]
    work = _work(out_dir)
    work.mkdir(exist_ok=True)
    if spec.decontaminate and not (work / "evaluation" / "header.json").exists():
        index_evaluation_texts(spec.decontaminate, spec.min_letters, work / "evaluation")
    map_shards(sign_shard, jobs, out_dir=out_dir, runtime=runtime, step="sign", total=len(jobs))
    decided = map_shards(decide, [jobs], out_dir=out_dir, runtime=runtime, step="decide", total=1)
    parts = map_shards(write_shard, jobs, out_dir=out_dir, runtime=runtime, step="write", total=len(jobs))
    return sum_stats([NO_DOCUMENTS, _NONE, *decided, *parts])


_NONE: Stats = {
    "paragraphs_decontaminated": 0,
    "lines_decontaminated": 0,
    "decontaminated": {},
    "candidate_pairs": 0,
    "sources": {},
}
"""The statistics of no documents, beside the conserved counts."""

STAGE = Stage("dedup", version=3, spec=DedupSpec, run=run)
