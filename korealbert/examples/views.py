"""Stage ``views``: clean rows -> n views of noise, and one of the held-out rows; epoch e reads view e mod n.

Input: roles ``examples`` and ``vocab``. Output: ``view-000/train-00000.arrow`` …, ``heldout/heldout-00000.arrow``
(``schema.View``), each aligned row by row with the shard of rows of the same name.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import Field, model_validator

from korealbert.artifact import Inputs, Runtime, Spec, Stage, Stats
from korealbert.document_shards import sum_stats
from korealbert.examples.masking import MaskingSpec
from korealbert.examples.noise import NoiseSettings, draw, noise_rates
from korealbert.examples.schema import HELDOUT_VIEW, SentenceTask, View, ViewHeader, open_rows, write_view
from korealbert.examples.table import RowTable
from korealbert.examples.word_order import WordOrderSpec
from korealbert.shards import map_shards
from korealbert.vocab.tokenizer import Vocabulary

ROWS_AT_ONCE = 1_024
"""Rows drawn together: enough to hide numpy's overhead, few enough to stay in the processor's cache."""


class ViewsSpec(Spec):
    """What noise the rows get, and how many times over."""

    views: int = Field(default=10, ge=1, le=10_000)
    """Views drawn: epochs before noise repeats (the official code makes 40 static copies)."""
    sentence_task: SentenceTask = "sop"
    """Sentence order (ALBERT), next sentence (BERT), or pairs without a task."""
    masking: MaskingSpec = MaskingSpec()
    """Masked words."""
    word_order: WordOrderSpec = WordOrderSpec()
    """Moved tokens."""
    seed: int = Field(default=0, ge=0, lt=1 << 63)
    """Of all noise."""

    @model_validator(mode="after")
    def _noise_leaves_text(self) -> ViewsSpec:
        if self.masking.rate + self.word_order.rate > 0.75:
            raise ValueError(
                f"masking.rate {self.masking.rate} + word_order.rate {self.word_order.rate} leave under a quarter of the text"
            )
        return self

    def noise(self, sequence_length: int, vocab_size: int) -> NoiseSettings:
        """The noise for rows of this kind."""
        return NoiseSettings(self.seed, self.sentence_task, self.masking, self.word_order, sequence_length, vocab_size)


@dataclass(frozen=True)
class ViewJob:
    """One shard of rows in one view."""

    rows: Path
    view: int
    target: Path
    """Relative to the stage's directory."""
    vocabulary: Path
    spec: ViewsSpec


def run(spec: ViewsSpec, inputs: Inputs, out_dir: Path, runtime: Runtime) -> Stats:
    """Draw all views. Raises ValueError when rows and vocabulary do not belong together, or NSP has no second document."""
    examples, vocab = inputs["examples"], inputs["vocab"].path
    train, heldout = examples.files("train-*.arrow"), examples.files("heldout-*.arrow")
    if spec.sentence_task == "nsp":
        for split in ("train", "heldout"):
            _check_documents(RowTable(examples.path, split), split)
    directories = [(view, Path(f"view-{view:03d}"), train) for view in range(spec.views)]
    directories.append((HELDOUT_VIEW, Path("heldout"), heldout))
    jobs = [ViewJob(path, view, name / path.name, vocab, spec) for view, name, paths in directories for path in paths]
    for _, name, _ in directories:
        (out_dir / name).mkdir(exist_ok=True)
    parts = map_shards(draw_shard, jobs, out_dir=out_dir, runtime=runtime, step="views", total=len(jobs))
    by_split = {
        split: sum_stats(
            part for job, part in zip(jobs, parts, strict=True) if (job.view == HELDOUT_VIEW) == (split == "heldout")
        )
        for split in ("train", "heldout")
    }
    stats: Stats = {"views": spec.views, **by_split["train"], **noise_rates(by_split["train"])}
    if by_split["heldout"]:
        stats["heldout"] = {**by_split["heldout"], **noise_rates(by_split["heldout"])}
    return stats


def draw_shard(job: ViewJob, index: int, out_dir: Path) -> dict[str, Any]:
    """Draw one shard's noise in one view."""
    rows, header = open_rows(job.rows)
    vocabulary = Vocabulary.load(job.vocabulary)
    if vocabulary.sha256 != header.vocab_sha256:
        raise ValueError(
            f"{job.rows}: packed with the vocabulary {header.vocab_sha256}, but {vocabulary.path} is {vocabulary.sha256}; "
            "pack the examples anew with this vocabulary"
        )
    words, noise = vocabulary.words(), job.spec.noise(header.sequence_length, header.vocab_size)
    pool = RowTable(job.rows.parent, job.rows.name.split("-")[0]) if noise.sentence_task == "nsp" else None
    drawn = [
        draw(rows.slice(start, min(start + ROWS_AT_ONCE, len(rows))), words, noise, job.view, pool)
        for start in range(0, len(rows), ROWS_AT_ONCE)
    ]
    joined = {
        f.name: np.concatenate([getattr(part.view, f.name) for part in drawn])
        for f in fields(View)
        if getattr(drawn[0].view, f.name) is not None
    }
    per_batch = job.spec.word_order.scope == "batch"
    write_view(
        out_dir / job.target,
        View(**joined),
        ViewHeader(
            sequence_length=header.sequence_length,
            vocab_size=header.vocab_size,
            vocab_sha256=header.vocab_sha256,
            rows_digest=header.digest,
            view=job.view,
            sentence_task=job.spec.sentence_task,
            prediction_slots=noise.masking.slots(header.sequence_length),
            word_order_slots=noise.word_order.slots(header.sequence_length),
            batch_portion=job.spec.word_order.portion if per_batch else None,
            seed=job.spec.seed,
        ),
    )
    return sum_stats(part.counts() for part in drawn)


def _check_documents(table: RowTable, split: str) -> None:
    if len(table) and len({int(i) for shard in table.shards for i in np.unique(shard.doc_id)}) < 2:
        raise ValueError(f"views.sentence_task = 'nsp' needs two documents to draw from, the {split} rows come from one")


STAGE = Stage("views", version=1, spec=ViewsSpec, run=run)
