"""Stage ``quality``: score all documents by a classifier and a language model, and drop or repeat them accordingly.

It runs between ``dedup`` and ``balance`` if a recipe has ``[quality]``. Steps: sample training texts (map), train the models
(one reduce), score and write (map). In addition to the usual shards it writes ``scores-*.arrow``.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from functools import partial
from heapq import nsmallest
from pathlib import Path
from typing import Literal

import numpy as np
import polars as pl
import pyarrow as pa
from pydantic import Field, model_validator

from korealbert.artifact import Artifact, Deployment, InputPath, Inputs, Runtime, Spec, Stage, Stats
from korealbert.artifact.files import note_written, unambiguous, write_json
from korealbert.artifact.shards import map_shards
from korealbert.corpus.quality.models import Classifier, LanguageModel, codes, train_classifier, train_language_model
from korealbert.documents.schema import Document, Drop
from korealbert.documents.shards import (
    NO_DOCUMENTS,
    DocumentShard,
    DocumentStats,
    TableWriter,
    read_documents,
    read_rows,
    refuse_nothing_kept,
    sum_stats,
)
from korealbert.philox import hash64

_SCORES_SCHEMA = pa.schema(
    [("id", pa.string()), ("source", pa.string()), ("quality", pa.float64()), ("perplexity", pa.float64())]
)
"""Rows of ``scores-*.arrow``, one for each document, kept or dropped; a score without a model is null."""
_TEXT_SCHEMA = pa.schema([("role", pa.string()), ("draw", pa.uint64()), ("text", pa.string())])

_LAST_DRAWS = "last-draws.json"
"""The largest draw of each role in training: a document of its sources with a larger one was not chosen."""
_LABELS = {"1": "good", "0": "bad", "1.0": "good", "0.0": "bad", "True": "good", "False": "bad", "good": "good", "bad": "bad"}
PERPLEXITY_EDGES = (10, 20, 30, 40, 60, 80, 120, 160, 240, 320, 480, 640)
"""Lower edges of the bins of the histogram of perplexities after the first bin."""


class ClassifierSpec(Spec):
    """Good and bad texts that a linear classifier is trained on."""

    good: tuple[str, ...] = ()
    """Sources of good documents (an encyclopedia)."""
    bad: tuple[str, ...] = ()
    """Sources of bad documents (the web, reviews)."""
    labelled: tuple[InputPath, ...] = ()
    """JSON Lines files of your own: objects with ``text`` and ``label`` (good or bad, 1 or 0, true or false)."""
    documents: int = Field(default=5_000, ge=10)
    """Maximum of documents of the good, and of the bad sources, chosen at random."""


class ReferenceSpec(Spec):
    """Texts that a small n-gram language model is trained on."""

    reference: tuple[str, ...] = Field(min_length=1)
    """Sources of good language; a low perplexity means that a text is similar to them. Their own texts are scored as if the
    model had not read them."""
    documents: int = Field(default=20_000, ge=10)
    """Maximum of their documents, chosen at random."""


class QualitySpec(Spec):
    """How documents are scored, and which are dropped or repeated for their scores."""

    classifier: ClassifierSpec | None = None
    """The classifier that scores quality; None: quality is not scored."""
    perplexity: ReferenceSpec | None = None
    """The language model that scores perplexity; None: perplexity is not scored."""
    sources: tuple[str, ...] = ()
    """Sources whose documents are dropped and repeated; empty: all. Documents of all sources are scored."""
    min_quality: float = Field(default=0.0, ge=0, le=1)
    """A document of lower quality is dropped as ``low_quality``."""
    pareto: float | None = Field(default=None, gt=0)
    """A document is kept if a random number from a Pareto distribution of this shape is above 1 - quality, else
    dropped as ``low_quality``. GPT-3 used 9 (Brown et al. 2020, arXiv 2005.14165, appendix A), which keeps 91 % of the
    documents of quality 0.99, 42 % of 0.9, 3 % of 0.5 and 0.2 % of 0."""
    max_perplexity: float | None = Field(default=None, gt=1)
    """A document of higher perplexity is dropped as ``high_perplexity``."""
    copies: dict[str, int] = Field(default_factory=dict)
    """How often a document is repeated, by the minimum of copies (with itself) that deduplication found:
    ``{ 3 = 2, 10 = 3 }``. Documents that share an id are not repeated. Texts on many sites are often good (FineWeb2: Penedo
    et al. 2025, arXiv 2506.20920)."""
    max_characters: int = Field(default=3_000, ge=100)
    """How much of the beginning of a text the models read."""
    seed: int = Field(default=1, ge=0, lt=1 << 63)
    """Seed of all random choices."""

    @model_validator(mode="after")
    def _is_consistent(self) -> QualitySpec:
        trained = self.classifier
        if trained is not None and not (trained.labelled or (trained.good and trained.bad)):
            raise ValueError("classifier: name good and bad sources, or files in labelled")
        if trained is not None and (both := set(trained.good) & set(trained.bad)):
            raise ValueError(f"classifier: {', '.join(sorted(both))} is good and bad; name it once")
        if trained is None and (self.min_quality or self.pareto is not None):
            raise ValueError("min_quality and pareto need a classifier; add [quality.classifier]")
        if self.perplexity is None and self.max_perplexity is not None:
            raise ValueError("max_perplexity needs a reference; add [quality.perplexity]")
        if bad := [size for size, times in self.copies.items() if not (size.isdecimal() and int(size) > 1 and times >= 1)]:
            raise ValueError(f"copies: {', '.join(bad)}: give a number of copies above 1 and, as its value, 1 or more")
        return self

    def named_sources(self) -> Iterator[str]:
        """Yield every source that a field names."""
        yield from self.sources
        if self.classifier is not None:
            yield from (*self.classifier.good, *self.classifier.bad)
        if self.perplexity is not None:
            yield from self.perplexity.reference


class QualityError(ValueError):
    """There is nothing to train a model on."""


def _draw(spec: QualitySpec, role: str, document: Document) -> int:
    """Return the hash that decides on a document; by its text too, because records of a source may share an id."""
    return hash64(f"{spec.seed}\0{role}\0{document.id}\0{document.text[: spec.max_characters]}")


def _roles(spec: QualitySpec) -> dict[str, tuple[tuple[str, ...], int]]:
    """Return the sources and the maximum of texts of each role in training."""
    roles: dict[str, tuple[tuple[str, ...], int]] = {}
    if spec.classifier is not None:
        roles |= {"good": (spec.classifier.good, spec.classifier.documents)}
        roles |= {"bad": (spec.classifier.bad, spec.classifier.documents)}
    if spec.perplexity is not None:
        roles["reference"] = (spec.perplexity.reference, spec.perplexity.documents)
    return roles


def _sample_shard(spec: QualitySpec, shard: Path, index: int, out_dir: Path) -> Stats:
    """Write the texts of a shard that may be chosen for training."""
    roles = _roles(spec)
    found: dict[str, list[tuple[int, str]]] = {role: [] for role in roles}
    for document in read_documents(shard):
        for role, (sources, count) in roles.items():
            if document.source in sources:
                found[role].append((_draw(spec, role, document), document.text[: 2 * spec.max_characters]))
                if len(found[role]) >= 2 * count:
                    found[role] = nsmallest(count, found[role])
    with TableWriter(out_dir / ".work" / f"sample-{index:05d}.arrow", _TEXT_SCHEMA) as table:
        for role, (_, count) in roles.items():
            for draw, text in nsmallest(count, found[role]):
                table.append((role, draw, text))
    return {}


def _read_labelled(path: Path) -> Iterator[tuple[Literal["good", "bad"], str]]:
    """Yield label and text of each line of a file. Raises ValueError naming file and line of an invalid one."""
    with path.open("rb") as handle:
        for number, line in enumerate(handle, 1):
            if not line.strip():
                continue
            try:
                record = json.loads(line, object_pairs_hook=unambiguous)
                label, text = _LABELS[str(record["label"])], record["text"]
            except (ValueError, KeyError, TypeError, RecursionError):
                label, text = "", None
            if not label or not isinstance(text, str):
                raise ValueError(f'{path}, line {number}: expected {{"text": "…", "label": "good"}}, or bad, 1, 0, true, false')
            yield ("good" if label == "good" else "bad"), text


def _check(spec: QualitySpec, runtime: Runtime) -> None:
    """Raise ValueError if a labelled file cannot be read, or one of the two labels has no text."""
    if spec.classifier is None:
        return
    labels = {label for file in spec.classifier.labelled for label, _ in _read_labelled(file.path)}
    if missing := [label for label in ("good", "bad") if label not in labels and not getattr(spec.classifier, label)]:
        named = ", ".join(str(file) for file in spec.classifier.labelled)
        raise QualityError(
            f"{named}: no {missing[0]} text, and no source of {missing[0]} texts is named; add lines or a source"
        )


def _train(spec: QualitySpec, index: int, out_dir: Path) -> Stats:
    """Train the models on the chosen texts, note the last draw of each role, and count its texts."""
    work = out_dir / ".work"
    texts: dict[str, list[str]] = {}
    tables = sorted(work.glob("sample-*.arrow"))
    last_draw = {}
    for role, (_, count) in _roles(spec).items():
        drawn = ((draw, text) for path in tables for name, draw, text in read_rows(path, _TEXT_SCHEMA) if name == role)
        chosen = nsmallest(count, drawn)
        texts[role] = [text for _, text in chosen]
        last_draw[role] = max((draw for draw, _ in chosen), default=-1)
    write_json(work / _LAST_DRAWS, last_draw)
    if spec.classifier is not None:
        for file in spec.classifier.labelled:
            for label, text in _read_labelled(file.path):
                texts[label].append(text)
    for role, found in texts.items():
        if not found:
            named = ", ".join(_roles(spec)[role][0]) or "labelled files"
            raise QualityError(f"[quality]: there is no {role} text to train on in {named}; name sources that hold some")
        if role == "reference" and len(found) == 1:
            raise QualityError(
                f"[quality]: {', '.join(_roles(spec)[role][0])} holds one reference text, which cannot be judged by the others;"
                " name sources that hold more"
            )
    if spec.classifier is not None:
        good, bad = ([codes(text, spec.max_characters) for text in texts[label]] for label in ("good", "bad"))
        np.save(work / "classifier.npy", train_classifier(good, bad, spec.seed).values)
        note_written(work / "classifier.npy")
    if spec.perplexity is not None:
        model = train_language_model(codes(text, spec.max_characters) for text in texts["reference"])
        np.save(work / "language-model.npy", model.tables)
        note_written(work / "language-model.npy")
    return {"trained_on": {role: len(found) for role, found in texts.items()}}


def copies_found(dedup: Artifact) -> dict[str, int]:
    """Return the number of copies, with itself, of each document for which deduplication dropped others."""
    copies = _copies(dedup)
    return {} if copies is None else dict(copies.collect(engine="streaming").iter_rows())


def cluster_sizes(dedup: Artifact) -> dict[int, int]:
    """Return how many documents have each number of copies, with themselves, from 2 on."""
    copies = _copies(dedup)
    sizes = None if copies is None else copies.group_by("size").len().sort("size")
    return {} if sizes is None else dict(sizes.collect(engine="streaming").iter_rows())


def _copies(dedup: Artifact) -> pl.LazyFrame | None:
    shards = dedup.files("dropped-*.arrow")
    if not shards:
        return None
    dropped = pl.scan_ipc(shards, glob=False).select("id", "reason", survivor=pl.col("rule").str.head(16))
    exact = dropped.filter(pl.col("reason") == "exact_duplicate").group_by("survivor").agg(exact=pl.len())
    # A near-duplicate may itself have been the best of several exact copies.
    near = dropped.filter(pl.col("reason") == "near_duplicate").join(exact, left_on="id", right_on="survivor", how="left")
    near = near.group_by("survivor").agg(near=pl.len() + pl.col("exact").fill_null(0).sum())
    both = exact.join(near, on="survivor", how="full", coalesce=True)
    # An exact copy may have its survivor's id, if that repeats.
    lost = dropped.filter(pl.col("reason") != "exact_duplicate").select(survivor="id")
    return both.join(lost, on="survivor", how="anti").select(
        "survivor", size=1 + pl.col("exact").fill_null(0) + pl.col("near").fill_null(0)
    )


def _pareto_drops(spec: QualitySpec, document: Document, quality: float) -> bool:
    """Apply GPT-3's ``numpy.random.pareto(shape) > 1 - quality``, with a random number from its hash."""
    if spec.pareto is None:
        return False
    uniform = (_draw(spec, "pareto", document) + 1) / 2**64
    return bool(uniform ** (-1 / spec.pareto) - 1 <= 1 - quality)


def _judge(spec: QualitySpec, document: Document, quality: float | None, perplexity: float | None) -> Drop | None:
    """Return the drop ``low_quality`` or ``high_perplexity``, which names score and limit, or None."""
    if spec.sources and document.source not in spec.sources:
        return None
    if quality is not None and quality < spec.min_quality:
        return Drop("low_quality", f"{quality:.4f} < {spec.min_quality}")
    if quality is not None and _pareto_drops(spec, document, quality):
        return Drop("low_quality", f"{quality:.4f}, drawn by pareto({spec.pareto})")
    if perplexity is not None and spec.max_perplexity is not None and perplexity > spec.max_perplexity:
        return Drop("high_perplexity", f"{perplexity} > {spec.max_perplexity}")
    return None


def _score_shard(spec: QualitySpec, job: tuple[Path, dict[str, int]], index: int, out_dir: Path) -> Stats:
    """Write the scores and the kept documents of a shard, which is given with its repeated documents."""
    (path, copies), work = job, out_dir / ".work"
    classifier = Classifier(np.load(work / "classifier.npy", mmap_mode="r")) if spec.classifier is not None else None
    model = LanguageModel(np.load(work / "language-model.npy", mmap_mode="r")) if spec.perplexity is not None else None
    references = spec.perplexity.reference if spec.perplexity is not None else ()
    last_draw = json.loads((work / _LAST_DRAWS).read_bytes())["reference"] if references else -1
    scores: dict[str, dict[str, dict[str, int]]] = {}
    sources: dict[str, Counter[str]] = {}
    repeated = 0
    with DocumentShard(out_dir, index) as shard, TableWriter(out_dir / f"scores-{index:05d}.arrow", _SCORES_SCHEMA) as table:
        for document in read_documents(path):
            letters = codes(document.text, spec.max_characters)
            quality = round(classifier.score(letters), 4) if classifier is not None else None
            seen = document.source in references and _draw(spec, "reference", document) <= last_draw
            perplexity = model.perplexity(letters, seen=seen) if model is not None else None
            table.append((document.id, document.source, quality, perplexity))
            drop = _judge(spec, document, quality, perplexity)
            times = copies.get(document.id, 1) if not spec.sources or document.source in spec.sources else 1
            if drop is not None:
                shard.drop(document, drop)
            else:
                for _ in range(times):
                    shard.keep(document)
                repeated += times - 1
            bins = scores.setdefault(document.source, {"quality": {}, "perplexity": {}})
            counted = sources.setdefault(document.source, Counter())
            copied = times if drop is None else 0
            counted.update(documents_in=1, documents_out=copied, characters_out=copied * len(document.text))
            counted.update({"repeated": times - 1} if drop is None else {drop.reason: 1})
            for name, value in (("quality", quality), ("perplexity", perplexity)):
                if value is not None:
                    number = str(_bin(name, value))
                    bins[name][number] = bins[name].get(number, 0) + 1
    stats = shard.stats
    stats["documents_in"] -= repeated
    return {**stats, "repeated": repeated, "scores": scores, "sources": sources}


def _bin(name: str, value: float) -> int:
    """Return the bin of a score's histogram: tenths of quality, or bins of ``PERPLEXITY_EDGES``."""
    return min(9, int(value * 10)) if name == "quality" else sum(value >= edge for edge in PERPLEXITY_EDGES)


class QualityStats(DocumentStats):
    """Scores of all documents, and counts."""

    trained_on: dict[str, int] = Field(default_factory=dict)
    """Texts by role: good, bad, reference."""
    scores: dict[str, dict[str, dict[str, int]]] = Field(default_factory=dict)
    """Source → quality or perplexity → number of the bin → documents, kept or dropped."""
    sources: dict[str, dict[str, int]] = Field(default_factory=dict)
    """By source: documents_in, documents_out and characters_out with repeated ones, repeated, and documents by drop reason."""


def run(spec: QualitySpec, inputs: Inputs, out_dir: Path, runtime: Runtime) -> QualityStats:
    """Score ``documents``, drop and repeat. Drop reasons: ``low_quality``, ``high_perplexity``.

    Raises ValueError naming the drops if no document is left.
    """
    shards = inputs["documents"].files("documents-*.arrow")
    (out_dir / ".work").mkdir(exist_ok=True)
    trained: Stats = {}
    if spec.classifier is not None or spec.perplexity is not None:
        map_shards(partial(_sample_shard, spec), shards, out_dir=out_dir, runtime=runtime, step="sample")
        [trained] = map_shards(_train, [spec], out_dir=out_dir, runtime=runtime, step="train")
    jobs = list(zip(shards, _times(spec, inputs["documents"], shards), strict=True))
    parts = map_shards(partial(_score_shard, spec), jobs, out_dir=out_dir, runtime=runtime, step="score")
    stats = sum_stats([NO_DOCUMENTS, {"repeated": 0, "scores": {}, "sources": {}}, trained, *parts])
    refuse_nothing_kept("quality", {"all sources": stats}, "Change min_quality, pareto and max_perplexity in [quality]")
    return QualityStats.of(stats)


def _times(spec: QualitySpec, dedup: Artifact, shards: list[Path]) -> list[dict[str, int]]:
    """Return for each shard how often its repeated documents are in the corpus."""
    if not spec.copies:
        return [{} for _ in shards]
    steps = sorted((int(size), times) for size, times in spec.copies.items())
    times = {}
    for document, size in copies_found(dedup).items():
        reached = [number for minimum, number in steps if size >= minimum]
        if reached and reached[-1] > 1:
            times[document] = reached[-1]
    found = []
    for shard in shards:
        ids = pl.scan_ipc(shard, glob=False).select("id").collect()["id"].to_list()
        found.append([one for one in ids if one in times])
    # Which of several documents with one id had the copies is unknown.
    documents = Counter(one for ids in found for one in ids)
    return [{one: times[one] for one in ids if documents[one] == 1} for ids in found]


STAGE = Stage(
    "quality",
    version=5,
    spec=QualitySpec,
    run=run,
    table="quality",
    inputs={"documents": "dedup"},
    check=_check,
    deployment=Deployment("Scores of quality; what is left out or repeated for them"),
)
