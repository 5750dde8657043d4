"""Stage ``xpt_report`` (label ``report``): all artifacts of a post-training → Chameleon's tables and figure with our numbers.

Input roles are the labels of the artifacts; none is required. Output: ``report.html``, ``report.md``, ``scores.csv`` (every
value), ``tables/*`` (every table as CSV, Markdown and LaTeX) and ``figures/*.svg``.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl
from pydantic import Field

from korealbert.artifact import Inputs, Runtime, Spec, Stage, Statistics
from korealbert.formatting import compact, count
from korealbert.huggingface.checkpoint import SourceStats
from korealbert.report.artifacts import Artifacts, refuse_swapped
from korealbert.report.cross_lingual import models, printed, tables
from korealbert.report.cross_lingual.models import ENCODER, Results
from korealbert.report.render.blocks import Section, Table, Text
from korealbert.report.render.writer import write_report
from korealbert.report.sections import corpus, training_data
from korealbert.report.sections.lineage import MEASURED, closing
from korealbert.xpt.split import SplitStats
from korealbert.xpt.transfer import TransferStats


class CrossLingualReportSpec(Spec):
    """Names in the report; all numbers come from its inputs."""

    title: str = Field(default="korealbert: an English encoder learns Korean", min_length=1, max_length=200)
    """Title of the report."""
    model_name: str = Field(default="ours", min_length=1, max_length=100)
    """Name of this run's models in ``scores.csv``, before the variant."""


class CrossLingualReportStats(Statistics):
    """Contents of the report."""

    sections: list[str]
    figures: int
    scores: int


def run(
    spec: CrossLingualReportSpec, inputs: Inputs, out_dir: Path, runtime: Runtime, stages: Sequence[Stage[Any]] = ()
) -> CrossLingualReportStats:
    """Write the report. ``stages``: all stages in the order of the report."""
    artifacts = Artifacts(inputs, stages)
    refuse_swapped(artifacts.by_label, _model_of)
    results = Results(inputs)
    chapters = [
        tables.korean(results),
        tables.intrinsic(results),
        models.training(results),
        tables.language_loss(results),
        models.language_loss(results),
        tables.errors(results),
        printed.section(),
        _transfers(results),
        _split(artifacts),
        corpus.section(artifacts),
        corpus.dropped(artifacts, examples_per_reason=0),
        corpus.removed(artifacts),
        training_data.vocabulary(artifacts),
    ]
    sections = closing(artifacts, chapters)
    numbers = {"scores.csv": _scores(results, spec.model_name)}
    figures = write_report(out_dir, spec.title, _lede(results), sections, numbers, runtime)
    anchors = [section.anchor for section in sections]
    return CrossLingualReportStats(sections=anchors, figures=figures, scores=len(results.scores))


def _model_of(label: str) -> str:
    """Return the label of the model that was fine-tuned or tested: ``PHASE/VARIANT``, ``control/NAME`` or ``encoder/NAME``."""
    stage, *rest = label.split("/")
    if stage not in ("finetune", "intrinsic"):
        return ""
    name, kind, *_ = [*(rest[2:] if rest[0] == "language_loss" else rest), "", ""]
    return f"{name}/{kind}" if name in ("control", "encoder") else f"{kind}/{name}"


def _lede(results: Results) -> str:
    source = results.artifacts.get("source")
    parts = []
    if source is not None:
        stats = source.stats_as(SourceStats)
        size = f" and {compact(stats.parameters)} parameters" if stats.parameters is not None else ""
        parts.append(f"A source of {stats.layers} layers{size} ({stats.model_type}) learns Korean")
    if variants := results.variants:
        parts.append(f"in {len(variants)} variant{'s' * (len(variants) > 1)}: {', '.join(variants)}")
    return " ".join(parts) + "." if parts else "A cross-lingual post-training."


def _transfers(results: Results) -> Section | None:
    rows = []
    for label, artifact in results.artifacts.items():
        if label.startswith("transfer/"):
            spec, stats = artifact.manifest["spec"], artifact.stats_as(TransferStats)
            how = ["ITL" if spec["itl"] else "no ITL", f"{spec['encoder']} encoder", f"ITL {spec['itl_init']}"]
            parts = (stats.parameters_copied, stats.parameters_fresh, stats.parameters_encoder, stats.parameters_translation)
            rows.append([label.split("/")[1], ", ".join(how), str(stats.layers), *map(count, (stats.parameters, *parts))])
    if not rows:
        return None
    of = ["Copied", "Fresh", "Of the encoder", "Of translation layers"]
    header = ["Variant", "Settings", "Layers", "Parameters", *of]
    text = (
        "Translation layers are ordinary layers at either end, so an exported model is a plain encoder of N + 2 layers that "
        "AutoModel loads. If the source shares layers (ALBERT), these are exported as equal copies, with the same outputs in a "
        "larger file. Fine-tuning here still trains them as one shared block."
    )
    table = Table("", header, rows, frozenset(range(2, 8)))
    return Section("transfers", "What was transferred", [table, Text(text, quiet=True)])


def _split(artifacts: Artifacts) -> Section | None:
    parts = artifacts.of("split")
    if not parts:
        return None
    rows = []
    for label, artifact in parts.items():
        stats = artifact.stats_as(SplitStats)
        figures = map(count, (stats.documents_out, stats.sentences_out, stats.characters_out))
        rows.append([label.split("/")[1], *figures, str(artifact.manifest["spec"]["level"])])
    title = "Parts of the corpus"
    header = ["Part", "Documents", "Sentences", "Characters", "Split by"]
    return Section("split", title, [Table("", header, rows, frozenset({1, 2, 3}))])


def _scores(results: Results, model: str) -> pl.DataFrame:
    """Return all scores, one per row. ``value`` is times 100, or null if the official script prints ``nan``; ``note`` says why,
    and which part of the official examples was tested."""
    records = [
        (
            results.title(s.model) if s.model.startswith(ENCODER) else f"{model} {s.model}",
            *(s.vocabulary, s.benchmark, s.task, s.seed, s.metric, s.value, s.artifact, s.note),
        )
        for s in results.scores
    ]
    columns = ("model", "vocabulary", "benchmark", "task", "seed", "metric", "value", "source", "note")
    text, whole, real = pl.String(), pl.Int64(), pl.Float64()
    kinds = (text, text, text, text, whole, text, real, text, text)
    return pl.DataFrame(records, schema=dict(zip(columns, kinds, strict=True)), orient="row")


STAGE = Stage("xpt_report", version=16, spec=CrossLingualReportSpec, run=run, measured=MEASURED)
