"""All stages, one line each. Adding a stage is writing it in its room, and adding its line here.

A stage's name, table, inputs, place in reports and deployment are declared in its module (``Stage``). Recipes, the graph,
reports, ``inspect``, docs/recipes.md and prefect.yaml take them from here.
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
"""Those of a corpus and its vocabulary: a recipe of a corpus alone has no other tables but `[report]`."""

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
"""Those of a model, and of what is measured on it."""

STAGES = (*CORPUS, *MODEL)
"""In the order of reports. A stage with a table that ``dag.graph`` does not name is built where a recipe has
its table, from the inputs that it declares."""

REPORT = replace(report.STAGE, run=partial(report.run, stages=STAGES))
"""The report of a recipe or an evaluation."""
ABLATION = replace(ablation.STAGE, run=partial(ablation.run, stages=STAGES))
"""The report of a grid."""
CROSS_LINGUAL = replace(cross_lingual.STAGE, run=partial(cross_lingual.run, stages=STAGES))
"""The report of a post-training, whose own stages ``dag.transfer_graph`` chains."""


def tables(stages: Sequence[Stage[Any]] = STAGES) -> Mapping[str, Stage[Any]]:
    """Those of ``stages`` that have one table in a recipe, and the report, by the name of the table."""
    return {stage.table: stage for stage in (*stages, REPORT) if stage.table and "." not in stage.table}


def names(stages: Sequence[Stage[Any]] = STAGES) -> list[str]:
    """The tables of ``stages``, whether one or many of a kind: ``dedup``, and ``clean`` for ``[clean.SOURCE]``."""
    return [stage.table.split(".")[0] for stage in stages if stage.table]


def per_source() -> list[str]:
    """The tables that a recipe has once for each source, in the order of the stages."""
    return [stage.table.removesuffix(".SOURCE") for stage in STAGES if stage.table.endswith(".SOURCE")]


def shows(name: str) -> Literal["documents", "examples", "urls"]:
    """The contents that ``inspect`` shows of the artifacts of a stage."""
    return next((stage.shows for stage in STAGES if stage.name == name), "documents")


def by_name() -> Mapping[str, Stage[Any]]:
    """All stages by their own name, those of reports, a post-training and an ablation too."""
    xpt = (split.STAGE, source.STAGE, kept_tokenizer.STAGE, transfer.STAGE, phases.STAGE, vocabulary_swap.STAGE)
    further = (*xpt, intrinsic.STAGE, search.PROPOSAL, ensemble.STAGE)
    return {stage.name: stage for stage in (*STAGES, *further, REPORT, ABLATION, CROSS_LINGUAL)}
