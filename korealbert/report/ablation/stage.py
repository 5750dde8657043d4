"""Stage `ablation`: all artifacts of a grid → the paper's table with our numbers, as HTML, Markdown, CSV and SVG.

Input roles are labels of the grid: ``pretrain/ROW/SEED``, ``export/ROW/SEED``, ``intrinsic/ROW/SEED/NOISE``,
``finetune/ROW/SEED/BENCHMARK/INIT/SEED`` and those of their ancestors. Output: ``report.html``, ``report.md``,
``table.csv`` (means, intervals and the printed numbers), ``runs.csv`` (every value), ``tables/*`` (every table as CSV,
Markdown and LaTeX) and ``figures/*.svg``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import polars as pl

from korealbert.artifact import Inputs, Runtime, Stage, Statistics
from korealbert.examples.packing import ExamplesStats
from korealbert.formatting import MISSING, compact, count, percent
from korealbert.pretrain.stage import PretrainStats, Reached
from korealbert.report import published
from korealbert.report.ablation import table
from korealbert.report.ablation.label_checks import check_labels
from korealbert.report.ablation.runs import Values
from korealbert.report.ablation.spec import AblationReportSpec
from korealbert.report.artifacts import Artifacts
from korealbert.report.render import charts
from korealbert.report.render.blocks import Block, Figure, Figures, Section, Table, Text
from korealbert.report.render.writer import write_report
from korealbert.report.scores import note_of
from korealbert.report.sections.learning import OBJECTIVES, points, training_lines
from korealbert.report.sections.lineage import MEASURED, closing


class AblationStats(Statistics):
    """Contents of the report."""

    rows: int
    columns: int
    means: dict[str, dict[str, str]]
    """Means with intervals by row and column, as text."""


def run(
    spec: AblationReportSpec, inputs: Inputs, out_dir: Path, runtime: Runtime, stages: Sequence[Stage[Any]] = ()
) -> AblationStats:
    """Write the report. ``stages``: all stages in the order of the report."""
    artifacts = Artifacts(inputs, stages)
    check_labels(spec.rows, spec.noises, artifacts)
    values = Values.read(spec.rows, spec.columns, artifacts.by_label, baseline=spec.baseline)
    chapters = [
        table.section(spec, values),
        table.differences_section(spec, values),
        table.figures(spec, values),
        _curves(spec, artifacts) if spec.curves else None,
        _layers(spec, artifacts),
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
    """Return the description with the sizes of the runs, so that nobody mistakes a small run for the paper's."""
    # Rows that are snapshots of one training share its artifact.
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
    fine_tuned = {artifact.name for artifact in artifacts.of("finetune").values()}
    return (
        f"{_sentence(spec.description)} {len(pretrained)} pretraining runs of {parameters} parameters with heads, {steps} "
        f"steps and {tokens} tokens each; {len(fine_tuned)} fine-tuning runs."
    ).strip()


def _sentence(text: str) -> str:
    """Return text with a full stop, unless it is empty or ends with a mark."""
    return text if not text or text.rstrip()[-1:] in ".!?…" else f"{text.rstrip()}."


def _models(spec: AblationReportSpec, artifacts: Artifacts) -> Section:
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
    figures_header = ["Parameters, with heads", "Steps", "Tokens", "Epochs", "Returns after a collapse"]
    header = ["", "Settings other than the recipe's", *figures_header]
    blocks: list[Block] = [Table("Models", header, body, frozenset(range(2, 7)), prose=frozenset({1}))]
    examples = artifacts.stats("examples", ExamplesStats)
    if examples and examples.rows_heldout:
        share = percent(examples.rows_heldout / (examples.rows_heldout + examples.rows_train))
        rest = f" Neither trained on nor scored: {count(examples.rows_unused)} rows." if examples.rows_unused else ""
        held_out = f"Held out of training: {count(examples.rows_heldout)} rows, {share} of the corpus.{rest}"
        blocks.append(Text(held_out, quiet=True))
    return Section("models", "Models", blocks)


_LAYER_MEASURES = {
    "l2": ("Distance between the input and the output of a layer", "L2 distance"),
    "degrees": ("Angle between the input and the output of a layer", "degrees"),
}
"""Titles and units of the values in ``layers.json``."""


def _curves(spec: AblationReportSpec, artifacts: Artifacts) -> Section | None:
    """Draw held-out accuracies over the steps, averaged over pretraining seeds (ALBERT, figure 2)."""
    figures = []
    for key, name in OBJECTIVES.items():
        found = {row.label: _mean_curve(artifacts, row.key, f"{key}_accuracy") for row in spec.rows}
        if any(found.values()):
            svg = charts.lines(_lines(found), label=f"{name}: held-out accuracy along the steps", x_unit="steps", share=True)
            figures.append(Figure(f"curve-{key}", f"{name}: accuracy on held-out rows", svg))
    note = "During training, each row is scored on the noise of its own views; a line is the mean over pretraining seeds."
    return Section("curves", "Along the steps", [Figures(figures), Text(note, quiet=True)]) if figures else None


def _layers(spec: AblationReportSpec, artifacts: Artifacts) -> Section | None:
    """Draw how far each layer moves the vectors of held-out tokens, averaged over pretraining seeds (ALBERT, figure 1)."""
    measured = {
        row.label: [a.read_json("layers.json") for a in artifacts.of(f"intrinsic/{row.key}").values() if a.files("layers.json")]
        for row in spec.rows
    }
    figures = []
    for kind, (title, unit) in _LAYER_MEASURES.items():
        found = {
            label: list(enumerate(map(fmean, zip(*(run[kind] for run in runs), strict=True)), start=1))
            for label, runs in measured.items()
            if runs
        }
        if found:
            svg = charts.lines(_lines(found), label=f"{title}, {unit}", x_unit="layer")
            figures.append(Figure(f"layers-{kind}", f"{title}, {unit}", svg))
    note = "Means over all real tokens of the held-out rows, and over pretraining seeds."
    return Section("layers", "What layers change", [Figures(figures), Text(note, quiet=True)]) if figures else None


def _lines(found: Mapping[str, Sequence[tuple[float, float]]]) -> list[charts.Line]:
    return [charts.Line(name, points, 1 + number % charts.STYLES) for number, (name, points) in enumerate(found.items())]


def _mean_curve(artifacts: Artifacts, row: str, name: str) -> list[tuple[float, float]]:
    """Return means over seeds at the steps that all of them have."""
    curves = [dict(points(training_lines(run), "heldout", name)) for run in artifacts.of(f"pretrain/{row}").values()]
    steps = sorted(set.intersection(*map(set, curves))) if curves else []
    return [(step, fmean(curve[step] for curve in curves)) for step in steps]


def _known_problems(spec: AblationReportSpec) -> Section | None:
    found = published.notes(spec.printed.table) if spec.printed is not None else []
    return Section("problems", "Known problems of the printed numbers", [Text(note) for note in found]) if found else None


def _runs(spec: AblationReportSpec, values: Values) -> pl.DataFrame:
    """Return every value by row, column and seeds; undefined ones are null with a note."""
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


STAGE = Stage("ablation", version=16, spec=AblationReportSpec, run=run, measured=MEASURED)
