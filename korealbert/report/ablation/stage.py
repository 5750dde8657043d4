"""Stage `ablation`: all artifacts of a grid → the table of its paper, as HTML, Markdown, CSV and SVG.

Input roles are labels of the grid: ``pretrain/ROW/SEED``, ``export/ROW/SEED``, ``intrinsic/ROW/SEED/NOISE``,
``finetune/ROW/SEED/BENCHMARK/INIT/SEED`` and those of their ancestors. Output: ``report.html``, ``report.md``,
``table.csv`` (means, intervals and the printed numbers), ``runs.csv`` (every value), ``tables/*`` (every table as CSV,
Markdown and LaTeX) and ``figures/*.svg``.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl

from korealbert.artifact import Inputs, Runtime, Stage, Statistics
from korealbert.examples.packing import ExamplesStats
from korealbert.formatting import MISSING, compact, count, percent
from korealbert.pretrain.stage import PretrainStats, Reached
from korealbert.report import published
from korealbert.report.ablation import curves, table
from korealbert.report.ablation.misplaced import refuse_misplaced
from korealbert.report.ablation.runs import Values
from korealbert.report.ablation.spec import AblationReportSpec
from korealbert.report.artifacts import Artifacts
from korealbert.report.render.blocks import Block, Section, Table, Text
from korealbert.report.render.writer import write_report
from korealbert.report.scores import note_of
from korealbert.report.sections.lineage import MEASURED, closing


class AblationStats(Statistics):
    """Size of the table, and its estimates as text by row and column."""

    rows: int
    columns: int
    means: dict[str, dict[str, str]]


def run(
    spec: AblationReportSpec, inputs: Inputs, out_dir: Path, runtime: Runtime, stages: Sequence[Stage[Any]] = ()
) -> AblationStats:
    """Write the report; see the module's docstring. ``stages``: all stages in the order of the report."""
    artifacts = Artifacts(inputs, stages)
    refuse_misplaced(spec.rows, spec.noises, artifacts)
    values = Values.read(spec.rows, spec.columns, artifacts.by_label, baseline=spec.baseline)
    chapters = [
        table.section(spec, values),
        table.differences_section(spec, values),
        table.figures(spec, values),
        curves.section(spec, artifacts) if spec.curves else None,
        curves.layers(spec, artifacts),
        _models(spec, artifacts),
        _known_problems(spec),
    ]
    sections = closing(artifacts, chapters)
    summary = pl.DataFrame(table.summary(spec, values), infer_schema_length=None)
    numbers = {"table.csv": summary, "runs.csv": _runs(spec, values)}
    write_report(out_dir, spec.title, _lede(spec, artifacts), sections, numbers, runtime)
    missing = {
        row.label: {c.title: text for c in spec.columns if (text := values.missing(row.key, c.title))} for row in spec.rows
    }
    means = {
        row.label: missing[row.label] | {title: found.text for title, found in table.estimates(spec, values, row).items()}
        for row in spec.rows
    }
    return AblationStats(rows=len(spec.rows), columns=len(spec.columns), means=means)


def _lede(spec: AblationReportSpec, artifacts: Artifacts) -> str:
    """The comparison with its sizes, so that nobody mistakes a small run for the paper's."""
    # Rows that are snapshots of one training have its artifact under labels of their own.
    trainings = {artifact.name: artifact for artifact in artifacts.of("pretrain").values()}
    pretrained = [artifact.stats_as(PretrainStats) for artifact in trainings.values()]
    parameters, steps, tokens = (
        " to ".join(dict.fromkeys((shown(min(sizes)), shown(max(sizes)))))
        for shown, sizes in (
            (compact, [training.parameters for training in pretrained]),
            (count, [training.steps for training in pretrained]),
            (compact, [training.tokens for training in pretrained]),
        )
    )
    return (
        f"{spec.description} {len(pretrained)} pretraining runs of {parameters} parameters with heads, {steps} steps and "
        f"{tokens} tokens each; {len({artifact.name for artifact in artifacts.of('finetune').values()})} fine-tuning runs."
    ).strip()


def _models(spec: AblationReportSpec, artifacts: Artifacts) -> Section:
    """Settings, size and data of every row."""
    body = []
    for row in spec.rows:
        trained = list(artifacts.of(f"pretrain/{row.key}").values())
        if not trained:
            continue
        trainings = [artifact.stats_as(PretrainStats) for artifact in trained]
        stats, reached = trainings[0], Reached.of(trained[0], row.snapshot)
        rollbacks = sum(training.rollbacks for training in trainings)
        steps = count(stats.steps) if row.snapshot is None else f"{count(row.snapshot)} of {count(stats.steps)}"
        tokens = MISSING if reached.tokens is None else count(reached.tokens)
        epochs = MISSING if reached.epochs is None else f"{reached.epochs:g}"
        figures = (count(stats.parameters), steps, tokens, epochs, count(rollbacks))
        body.append([row.label, "; ".join(row.settings) or MISSING, *figures])
    header = [
        "",
        "Settings other than the recipe's",
        "Parameters, with heads",
        "Steps",
        "Tokens",
        "Epochs",
        "Returns after a collapse",
    ]
    blocks: list[Block] = [Table("Models", header, body, frozenset(range(2, 7)), prose=frozenset({1}))]
    examples = artifacts.stats("examples", ExamplesStats)
    if examples and examples.rows_heldout:
        share = percent(examples.rows_heldout / (examples.rows_heldout + examples.rows_train))
        rest = f" Neither trained on nor scored: {count(examples.rows_unused)} rows." if examples.rows_unused else ""
        held_out = f"Held out of training: {count(examples.rows_heldout)} rows, {share} of the corpus.{rest}"
        blocks.append(Text(held_out, quiet=True))
    return Section("models", "Models", blocks)


def _known_problems(spec: AblationReportSpec) -> Section | None:
    """Known misprints of the printed numbers."""
    found = published.notes(spec.printed.table) if spec.printed is not None else []
    return Section("problems", "Known problems of the printed numbers", [Text(note) for note in found]) if found else None


def _runs(spec: AblationReportSpec, values: Values) -> pl.DataFrame:
    """Every value: row, column, seeds; null with a note where it is undefined."""
    records = []
    for row in spec.rows:
        for column in spec.columns:
            place = row.key, column.title
            runs: dict[tuple[int, int], float | None] = dict.fromkeys(values.undefined[place])
            runs |= {(seed, number): value for seed, own in values.runs[place].items() for number, value in own.items()}
            for seeds, value in sorted(runs.items(), key=lambda run: run[0]):
                note = note_of(values.parts[place], undefined=values.undefined[place].get(seeds, ""))
                records.append((row.label, column.title, seeds[0], seeds[1] if column.benchmark else None, value, note or None))
    names = ("row", "column", "pretraining_seed", "finetuning_seed", "value", "note")
    kinds = (pl.String(), pl.String(), pl.Int64(), pl.Int64(), pl.Float64(), pl.String())
    return pl.DataFrame(records, schema=dict(zip(names, kinds, strict=True)), orient="row")


STAGE = Stage("ablation", version=6, spec=AblationReportSpec, run=run, measured=MEASURED)
