"""All stages, one line each. To add a stage, write it in its room and add its line here.

Its ``Stage`` declares name, table, inputs, place in reports and deployment. Recipes, the graph, reports, ``inspect``,
docs/recipes.md and prefect.yaml take them from here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Literal

from korealbert.artifact import Stage
from korealbert.corpus import balance, extract
from korealbert.corpus.clean import stage as clean
from korealbert.corpus.crawl import fetch
from korealbert.corpus.crawl import stage as crawl
from korealbert.corpus.dedup import stage as dedup
from korealbert.corpus.quality import stage as quality
from korealbert.examples import packing, views
from korealbert.finetune import features, search
from korealbert.finetune import stage as finetune
from korealbert.finetune.encoders import speed
from korealbert.finetune.encoders import stage as encoder_stage
from korealbert.finetune.retrieval import bi_encoder
from korealbert.finetune.retrieval import stage as retrieval
from korealbert.finetune.scores import ensemble, summary
from korealbert.huggingface import export
from korealbert.pretrain import cooccurrence, intrinsic
from korealbert.pretrain import stage as pretrain
from korealbert.report import stage as report
from korealbert.report.ablation import stage as ablation
from korealbert.report.cross_lingual import stage as cross_lingual
from korealbert.vocab import sizes
from korealbert.vocab import stage as vocab
from korealbert.xpt import kept_tokenizer, phases, source, split, transfer, vocabulary_swap

CORPUS: tuple[Stage[Any], ...] = (
    crawl.STAGE,
    fetch.STAGE,
    extract.STAGE,
    clean.STAGE,
    dedup.STAGE,
    quality.STAGE,
    balance.STAGE,
    vocab.STAGE,
    sizes.STAGE,
)
"""Stages of a corpus and its vocabulary. A recipe of a corpus alone has only their tables and `[report]`."""

MODEL: tuple[Stage[Any], ...] = (
    packing.STAGE,
    views.STAGE,
    cooccurrence.STAGE,
    pretrain.STAGE,
    export.STAGE,
    fetch.BENCHMARK,
    features.STAGE,
    search.SELECTION,
    encoder_stage.STAGE,
    finetune.STAGE,
    summary.STAGE,
    bi_encoder.STAGE,
    retrieval.STAGE,
    speed.STAGE,
)
"""Stages of a model and its evaluation."""

STAGES = (*CORPUS, *MODEL)
"""In the order of reports. A stage that ``dag.graph`` does not name is built, from its declared inputs, if a recipe has its
table."""

REPORT = replace(report.STAGE, run=partial(report.run, stages=STAGES))
ABLATION = replace(ablation.STAGE, run=partial(ablation.run, stages=STAGES))
CROSS_LINGUAL = replace(cross_lingual.STAGE, run=partial(cross_lingual.run, stages=STAGES))
"""The reports of a recipe or evaluation, of an ablation, and of a post-training."""


def tables(stages: Sequence[Stage[Any]] = STAGES) -> Mapping[str, Stage[Any]]:
    """Return the stages with a single table in a recipe, and the report, by the name of the table."""
    return {stage.table: stage for stage in (*stages, REPORT) if stage.table and "." not in stage.table}


def names(stages: Sequence[Stage[Any]] = STAGES) -> list[str]:
    """Return the names of all tables of ``stages``: ``dedup``, and ``clean`` for ``[clean.SOURCE]``."""
    return [stage.table.split(".")[0] for stage in stages if stage.table]


def per_source() -> list[str]:
    """Return the names of tables that a recipe has once for each source, in the order of the stages."""
    return [stage.table.removesuffix(".SOURCE") for stage in STAGES if stage.table.endswith(".SOURCE")]


def shows(name: str) -> Literal["documents", "examples", "urls"]:
    """Return which contents ``inspect`` shows of the artifacts of a stage."""
    return next((stage.shows for stage in STAGES if stage.name == name), "documents")


def by_name() -> Mapping[str, Stage[Any]]:
    """Return all stages by name, including reports and the stages of post-trainings and ablations."""
    xpt = (split.STAGE, source.STAGE, kept_tokenizer.STAGE, transfer.STAGE, phases.STAGE, vocabulary_swap.STAGE)
    further = (*xpt, intrinsic.STAGE, search.PROPOSAL, ensemble.STAGE)
    return {stage.name: stage for stage in (*STAGES, *further, REPORT, ABLATION, CROSS_LINGUAL)}
