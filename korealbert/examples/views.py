"""Stage ``views``: clean rows -> n views of noise, and one of the held-out rows; epoch e reads view e mod n.

Input: roles ``examples`` and ``vocab``. Output: ``view-000/train-00000.arrow`` …, ``heldout/heldout-00000.arrow``
(``schema.View``), each aligned row by row with the shard of rows of the same name. With ``stored = false`` the training views
are one file, ``noise.json``, and generated when they are read.

A view depends on nothing but its number. If the store has an artifact with fewer or more views of the same rows and noise,
these are linked and only the others are generated: to add ten views, raise ``views`` by ten.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import Field, model_validator

from korealbert.artifact import Artifact, Deployment, Inputs, Real, Runtime, Spec, Stage, Statistics, Stats, Store
from korealbert.artifact.files import note_written
from korealbert.artifact.shards import map_shards
from korealbert.documents.shards import sum_stats
from korealbert.examples.masking import MaskingSpec
from korealbert.examples.noise import NoiseSettings, draw_view, noise_rates, view_header, write_noise
from korealbert.examples.schema import HELDOUT_VIEW, SentenceTask, open_rows, open_view, write_view
from korealbert.examples.table import RowTable
from korealbert.examples.word_order import WordOrderSpec
from korealbert.vocab.tokenizer import Vocabulary, WordTable

_MOST_VIEWS = 10_000
"""This many names are tried to find finished views of the same noise, which takes a quarter of a second."""


class ViewsSpec(Spec):
    """Kinds of noise, and the number of views."""

    views: int = Field(default=10, ge=1, le=_MOST_VIEWS)
    """Number of views: epochs before noise repeats (the official code makes 40 static copies)."""
    sentence_task: SentenceTask = "sop"
    """Sentence order (ALBERT), next sentence (BERT), or pairs without a task."""
    masking: MaskingSpec = MaskingSpec()
    """Masked words."""
    word_order: WordOrderSpec = WordOrderSpec()
    """Moved tokens."""
    stored: bool = True
    """Write the views to disk, or let training draw the same noise itself: no disk space, but some processor time."""
    seed: int = Field(default=0, ge=0, lt=1 << 63)
    """Seed of all noise."""

    @model_validator(mode="after")
    def _noise_leaves_text(self) -> ViewsSpec:
        if self.masking.highest_rate + self.word_order.rate > 0.75:
            which = "rate" if self.masking.highest_rate == self.masking.rate else "rate_from"
            raise ValueError(
                f"masking.{which} {self.masking.highest_rate} + word_order.rate {self.word_order.rate} leave under a quarter "
                "of the text; lower one of them"
            )
        return self

    @model_validator(mode="after")
    def _rate_is_reached(self) -> ViewsSpec:
        masks = self.masking
        if masks.rate_from is not None and "rate_views" not in masks.model_fields_set and self.views < masks.rate_views:
            raise ValueError(
                f"masking.rate = {masks.rate} would come in view {masks.rate_views} of views = {self.views}; set "
                f"masking.rate_views = {max(2, self.views)}, or {masks.rate_views} if more views will follow"
            )
        return self

    def word_units(self) -> list[str]:
        """Return the fields that choose words as units, with their values."""
        masks, moves = self.masking.unit == "whole_word", self.word_order.unit == "word" and self.word_order.portion > 0
        return ['masking.unit = "whole_word"'] * masks + ['word_order.unit = "word"'] * moves

    def noise(self, sequence_length: int, vocab_size: int) -> NoiseSettings:
        """Return the noise settings for rows of this kind."""
        return NoiseSettings(
            seed=self.seed,
            sentence_task=self.sentence_task,
            masking=self.masking,
            word_order=self.word_order,
            sequence_length=sequence_length,
            vocab_size=vocab_size,
        )


@dataclass(frozen=True)
class ViewJob:
    """One shard of rows in one view."""

    rows: Path
    view: int
    target: Path | None
    """Relative to the stage's directory; None if the noise is only counted."""
    vocabulary: Path
    spec: ViewsSpec
    finished: Path | None = None
    """The same shard in another artifact."""
    digests: tuple[str, str] = ("", "")
    """Of the artifacts of rows and vocabulary; a process keeps both loaded until other digests come."""


class NoiseStats(Statistics):
    """Noise realised in some rows: counts, and shares from ``noise_rates``."""

    rows: int | None = None
    pieces: int | None = None
    cut_words: int | None = None
    mlm_targets: int | None = None
    masked: int | None = None
    random: int | None = None
    kept: int | None = None
    wop_rows: int | None = None
    wop_pieces: int | None = None
    wop_targets: int | None = None
    sop_rows: int | None = None
    sop_swapped: int | None = None
    single_segment: int | None = None
    ngrams_1: int = 0
    """N-grams of 1, 2, … words chosen for prediction."""
    ngrams_2: int = 0
    ngrams_3: int = 0
    ngrams_4: int = 0
    ngrams_5: int = 0
    mlm_rate: Real | None = None
    masked_share: Real | None = None
    random_share: Real | None = None
    kept_share: Real | None = None
    wop_portion: Real | None = None
    wop_rate: Real | None = None
    sop_swapped_share: Real | None = None


class ViewsStats(NoiseStats):
    """Noise of all training views; of the first one only, if they are not stored."""

    views: int
    heldout: NoiseStats | None = None
    """Noise of the held-out rows."""


def run(spec: ViewsSpec, inputs: Inputs, out_dir: Path, runtime: Runtime) -> ViewsStats:
    """Draw all views. Raises ValueError if rows and vocabulary do not belong together, or NSP has no second document."""
    examples, vocab = inputs["examples"].path, inputs["vocab"].path
    if spec.sentence_task == "nsp":
        _refuse_one_document(examples)
    jobs = list(_jobs(spec, inputs, runtime))
    for directory in {job.target.parent for job in jobs if job.target is not None}:
        (out_dir / directory).mkdir(exist_ok=True)
    parts = map_shards(_make_shard, jobs, out_dir=out_dir, runtime=runtime, step="views")
    train = sum_stats(part for job, part in zip(jobs, parts, strict=True) if job.view != HELDOUT_VIEW)
    heldout = sum_stats(part for job, part in zip(jobs, parts, strict=True) if job.view == HELDOUT_VIEW)
    if not spec.stored:
        table = RowTable(examples, "train")
        settings = spec.noise(table.headers[0].sequence_length, table.headers[0].vocab_size)
        write_noise(out_dir, settings, spec.views, table, Vocabulary.load(vocab).words())
    stats: Stats = {"views": spec.views, **train, **noise_rates(train)}
    if heldout:
        stats["heldout"] = {**heldout, **noise_rates(heldout)}
    return ViewsStats.of(stats)


def _refuse_one_document(examples: Path) -> None:
    """Raise ValueError if all rows of a split come from one document, since NSP draws from a second one."""
    for split, remedy in (("train", "take more documents"), ("heldout", "raise examples.heldout_share, or set it to 0")):
        table = RowTable(examples, split)
        documents = {int(i) for shard in table.shards for i in np.unique(shard.doc_id)}
        if len(table) and len(documents) < 2:
            raise ValueError(
                f"views.sentence_task = 'nsp' needs two documents to draw from, the {split} rows come from one; {remedy}, "
                "or set sentence_task = 'sop'"
            )


def _jobs(spec: ViewsSpec, inputs: Inputs, runtime: Runtime) -> Iterator[ViewJob]:
    """Yield the shards of all views, each with the file of an artifact that has the same noise, if there is one."""
    examples, vocab = inputs["examples"], inputs["vocab"]
    digests = examples.output_digest, vocab.output_digest
    finished = _same_noise(spec, inputs, runtime)
    views = [(view, f"view-{view:03d}", "train-*.arrow") for view in range(spec.views if spec.stored else 1)]
    for view, directory, shards in (*views, (HELDOUT_VIEW, "heldout", "heldout-*.arrow")):
        kept = spec.stored or view == HELDOUT_VIEW
        source = finished.path / directory if finished is not None and kept else None
        if source is not None and not source.is_dir():
            source = None
        for path in examples.files(shards):
            target = Path(directory, path.name) if kept else None
            linked = None if source is None else source / path.name
            yield ViewJob(path, view, target, vocab.path, spec, linked, digests)


def _same_noise(spec: ViewsSpec, inputs: Inputs, runtime: Runtime) -> Artifact | None:
    """Return the undamaged artifact with the most views that differs from the wanted one only in their number.

    Its inputs and spec give its name, so no other artifact is opened.
    """
    store = Store(runtime.store)
    present = {path.name for path in store.directories()} if spec.stored else set()
    wanted = STAGE.identity(spec, {role: artifact.name for role, artifact in inputs.items()}, store)
    for views in range(_MOST_VIEWS if present else 0, 0, -1):
        name = replace(wanted, spec={**wanted.spec, "views": views}).name
        # An artifact with as many views is the wanted one itself, which must be generated again.
        if name in present and views != spec.views and store.fault(name, inputs) is None:
            return store.find(name)
    return None


def _make_shard(job: ViewJob, index: int, out_dir: Path) -> dict[str, Any]:
    """Link one shard's noise in one view if it is finished, else generate it. Returns its counts."""
    if job.finished is None or job.target is None:
        return draw_shard(job, out_dir)
    target = out_dir / job.target
    target.unlink(missing_ok=True)
    try:
        os.link(job.finished, target)
    except OSError:  # The file system has no hard links.
        shutil.copyfile(job.finished, target)
    note_written(target)
    return dict(open_view(target)[1].counts)


def draw_shard(job: ViewJob, out_dir: Path) -> dict[str, Any]:
    """Draw one shard's noise in one view. Returns its counts."""
    rows, header = open_rows(job.rows)
    of_rows, of_vocabulary = job.digests
    vocabulary, words = _vocabulary(job.vocabulary, of_vocabulary)
    if vocabulary.sha256 != header.vocab_sha256:
        raise ValueError(
            f"{job.rows}: packed with the vocabulary {header.vocab_sha256}, but {vocabulary.path} is {vocabulary.sha256}; "
            "pack the examples again with this vocabulary"
        )
    if not vocabulary.marks_words and (units := job.spec.word_units()):
        raise ValueError(
            f"views.{units[0]}: the pieces of the tokenizer in {vocabulary.path} do not show where words begin; "
            'set the unit to "token"'
        )
    settings = job.spec.noise(header.sequence_length, header.vocab_size)
    split = job.rows.name.split("-")[0]
    pool = _row_table(job.rows.parent, split, of_rows) if settings.sentence_task == "nsp" else None
    view, parts = draw_view(rows, words, settings, job.view, pool)
    counts = sum_stats(parts)
    if job.target is not None:
        about = view_header(settings, view=job.view, vocab_sha256=header.vocab_sha256, rows_digest=header.digest)
        write_view(out_dir / job.target, view, replace(about, counts=counts))
    return counts


@lru_cache(maxsize=1)
def _vocabulary(path: Path, digest: str) -> tuple[Vocabulary, WordTable]:
    """Load a vocabulary and its word tables, cached: a process draws many shards, and they take a tenth of a second."""
    vocabulary = Vocabulary.load(path)
    return vocabulary, vocabulary.words()


@lru_cache(maxsize=2)
def _row_table(examples: Path, split: str, digest: str) -> RowTable:
    """Open the rows from which second segments are drawn, cached for the same reason."""
    return RowTable(examples, split)


STAGE = Stage(
    "views",
    version=4,
    spec=ViewsSpec,
    run=run,
    table="views",
    inputs={"examples": "examples", "vocab": "vocab"},
    required=True,
    shows="examples",
    deployment=Deployment("Precompute masking and order noise"),
)
