"""Learning curves of pretraining and fine-tuning, and the speed of architectures."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import polars as pl

from korealbert.artifact import Artifact
from korealbert.examples.views import ViewsStats
from korealbert.finetune.encoders.inference import BACKENDS
from korealbert.finetune.scores.undefined import why_undefined
from korealbert.formatting import MISSING, compact, count, fixed, percent
from korealbert.pretrain.cooccurrence import CooccurrenceStats
from korealbert.pretrain.stage import PretrainStats
from korealbert.report import published
from korealbert.report.artifacts import Artifacts
from korealbert.report.render import charts
from korealbert.report.render.blocks import Block, Figure, Figures, Section, Table, Text
from korealbert.report.render.markup import COLOUR_OF_INIT
from korealbert.report.scores import Benchmark

OBJECTIVES = {
    "mlm": "Masked pieces (MLM)",
    "sop": "Sentence order (SOP)",
    "wop": "Word order (WOP)",
    "rtd": "Replaced tokens (RTD)",
    "replaced": "Replaced tokens that were found",
    "bow": "Masked pieces from the mean (bag of words)",
}
"""Titles of pretraining objectives by the prefix of their metrics."""

_CHANCE = {"sop": 0.5}
"""Accuracy of guessing; for other objectives it is close to 0."""

_Point = tuple[float, float]


def section(artifacts: Artifacts, benchmarks: Sequence[Benchmark]) -> Section | None:
    """Show the learning curves of pretraining and fine-tuning."""
    blocks: list[Block] = []
    if figures := pretraining_figures(artifacts):
        blocks += [Text(_size(artifacts)), *_rollbacks(artifacts), Figures(figures)]
    if benchmarks:
        blocks += [
            Text("Fine-tuning: score on dev after each epoch, mean over seeds. For each seed, the best epoch is tested."),
            Figures([figure for benchmark in benchmarks for figure in _finetuning(benchmark)]),
        ]
    return artifacts.section("learning", "Learning curves", blocks, "cooccurrence", "pretrain")


def pretraining_figures(artifacts: Artifacts) -> list[Figure]:
    """Return the curves of pretraining, and its learning rate at the logged steps, between which its peak may lie."""
    records = training_lines(artifacts.one("pretrain"))
    targets = heldout_targets(artifacts)
    curves = [_curve(records, key, kind, targets.get(key)) for key in OBJECTIVES for kind in ("loss", "accuracy")]
    figures = [figure for figure in curves if figure is not None]
    if rates := points(records, "train", "learning_rate"):
        most = max(rate for _, rate in rates)
        label = f"Learning rate over steps, {most:g} the highest logged"
        svg = charts.lines([charts.Line("learning rate", rates)], label=label, x_unit="steps")
        figures.append(Figure("pretrain-learning-rate", f"Learning rate, {most:g} the highest logged", svg))
    return figures


def _curve(records: Sequence[dict[str, Any]], key: str, kind: str, targets: int | None) -> Figure | None:
    """Draw the loss or accuracy of an objective, in training and on ``targets`` held-out pieces; None without values."""
    train, heldout = (points(records, split, f"{key}_{kind}") for split in ("train", "heldout"))
    if not heldout and not train:
        return None
    is_accuracy = kind == "accuracy"
    _, end = (heldout or train)[-1]
    shown = percent(end) if is_accuracy else fixed(end, 3)
    if heldout and is_accuracy and targets is not None:
        shown += f" of {count(targets)}"
    svg = charts.lines(
        [charts.Line("training", train, 2), charts.Line("held out", heldout, 1)],
        label=f"{OBJECTIVES[key]}: {kind} over steps, {shown} at the end",
        x_unit="steps",
        level=_CHANCE.get(key) if is_accuracy else None,
        share=is_accuracy,
    )
    return Figure(f"pretrain-{key}-{kind}", f"{OBJECTIVES[key]}: {kind}, {shown} at the end", svg)


def heldout_targets(artifacts: Artifacts) -> dict[str, int | None]:
    """Return the number of held-out pieces or rows that each objective predicts."""
    views = artifacts.stats("views", ViewsStats)
    noise = views.heldout if views else None
    return {"mlm": noise.mlm_targets, "sop": noise.sop_rows, "wop": noise.wop_targets} if noise else {}


def training_lines(artifact: Artifact | None) -> list[dict[str, Any]]:
    """Return the parsed lines of a training's ``metrics.jsonl``; none if it has no such file."""
    if artifact is None or not artifact.files("metrics.jsonl"):
        return []
    lines = (artifact.path / "metrics.jsonl").read_text("utf-8").splitlines()
    return [json.loads(line) for line in lines if line.strip()]


def _rollbacks(artifacts: Artifacts) -> list[Block]:
    events = [record for record in training_lines(artifacts.one("pretrain")) if record.get("split") == "guard"]
    if not events:
        return []
    rows = [
        [
            count(event.get("at_step")),
            count(event["step"]),
            str(event.get("fault", MISSING)),
            count(event.get("skipped_sequences")),
            f"{event['rate_factor']:g}" if "rate_factor" in event else MISSING,
        ]
        for event in events
    ]
    header = ["At step", "Back to step", "What was wrong", "Sequences left out", "Rate factor"]
    return [Table("Training returned to a checkpoint", header, rows, frozenset({0, 1, 3, 4}), prose=frozenset({2}))]


def points(records: Sequence[dict[str, Any]], split: str, key: str) -> list[_Point]:
    """Return a metric's values by step, for the lines of one split that have it."""
    chosen = [record for record in records if record.get("split") == split]
    return [(record["step"], record[key]) for record in chosen if record.get(key) is not None]


def _finetuning(benchmark: Benchmark) -> Iterator[Figure]:
    """Draw a benchmark's scores on dev: of pretrained and random weights, and of other encoders, six in a drawing."""
    systems = benchmark.systems
    for first in range(0, len(systems), charts.STYLES):
        yield _drawn(benchmark, systems[first : first + charts.STYLES])


def _drawn(benchmark: Benchmark, systems: Sequence[str]) -> Figure:
    series = []
    of_inits = {system: COLOUR_OF_INIT[system] for system in systems if system in COLOUR_OF_INIT}
    others = (style for style in range(1, charts.STYLES + 1) if style not in of_inits.values())
    for system in systems:
        per_epoch: dict[int, list[float]] = {}
        for cell in benchmark.of(system):
            for record in cell.metrics.get("epochs", []):
                per_epoch.setdefault(record["epoch"], []).append(record[benchmark.metric])
        points = [(float(epoch), sum(values) / len(values)) for epoch, values in sorted(per_epoch.items())]
        series.append(charts.Line(system, points, of_inits.get(system) or next(others)))
    name = f"{benchmark.title}: {benchmark.metric_title} on dev"
    undefined = {
        cell.system
        for cell in benchmark.cells
        for record in cell.metrics.get("epochs", [])[-1:]
        if why_undefined({"dev": record}, benchmark.metric, "dev")
    }
    ends = "; ".join(
        f"{line.name} {'undefined' if line.name in undefined else fixed(line.points[-1][1])} at the end"
        for line in series
        if line.points
    )
    return Figure(f"finetune-{benchmark.name}", name, charts.lines(series, label=f"{name}; {ends}", x_unit="epochs"))


def _size(artifacts: Artifacts) -> str:
    """Return size and length of pretraining in words, or ""."""
    stats = artifacts.stats("pretrain", PretrainStats)
    if stats is None:
        return ""
    parts = (f"{compact(stats.parameters)} parameters", f"{count(stats.steps)} steps", f"{compact(stats.tokens)} tokens")
    text = f"Pretrained: {', '.join(parts)}."
    if (begun := artifacts.stats("cooccurrence", CooccurrenceStats)) is not None:
        text += f" Word embeddings were initialised from co-occurrences in {compact(begun.tokens)} tokens."
    if stats.rollbacks:
        times = "once" if stats.rollbacks == 1 else f"{count(stats.rollbacks)} times"
        text += (
            f" After a collapse, training returned to a checkpoint {times}, skipped the data since then and lowered the rate."
        )
    return text


_PRINTED_IN = "KoreALBERT Table III"

_PRINTED_NAMES = {
    "M-BERT": "mBERT",
    "XLM-R base": "XLM-R",
    "KoBERT": "KoBERT",
    "KoreALBERT base": "KoreALBERT-Base",
    "KoreALBERT large": "KoreALBERT-Large",
}
"""Our names and the paper's names of the shapes."""


def speed(artifacts: Artifacts) -> Section | None:
    """Show the speeds that stage ``speed`` measured, with the printed ones."""
    artifact = artifacts.one("speed")
    if artifact is None:
        return None
    found = artifact.read_json("speed.json")
    printed = _printed_speeds()
    rows = []
    for name, row in found["rows"].items():
        parameters, speedup, note = printed.get(_PRINTED_NAMES.get(name, ""), ("", "", ""))
        spread = f"{row['lowest']:.2f} to {row['highest']:.2f}" if name != found["baseline"] else ""
        measured = [f"{row['speedup']:.2f}×", spread, compact(row["pieces_per_second"])]
        rows.append([name, count(row["parameters"]), *measured, parameters, speedup, note])
    header = ["Shape", "Parameters", "Speed-up", "Over turns", "Pieces/s", "Parameters, printed", "Speed-up, printed", "Note"]
    method = (
        f"Training steps from random weights, batch {found['batch_size']}, {found['sequence_length']} pieces, "
        f"{found['precision']} on {found['device']}. Each shape takes turns with {found['baseline']}; speed-ups are medians of "
        f"{found['steps']} turns."
    )
    if found["shrink"] > 1:
        method += f" Widths and vocabularies were reduced to 1/{found['shrink']}; parameters are those of the full shapes."
    blocks: list[Block] = [
        Text(method),
        Table(f"Training speed relative to {found['baseline']}", header, rows, frozenset(range(1, 7)), prose=frozenset({7})),
        *_inference({name: row["inference"] for name, row in found["rows"].items() if "inference" in row}),
    ]
    return artifacts.section("speed", "Speed of architectures", blocks, "speed")


def _inference(found: Mapping[str, Mapping[str, Mapping[str, float]]]) -> list[Block]:
    if not found:
        return []
    rows = []
    for name, by_backend in found.items():
        measured = [by_backend[backend] for backend in BACKENDS]
        per_second = [compact(each["examples_per_second"]) for each in measured]
        ratios = [f"{each['speedup']:.2f}×" for each in measured[1:]]
        rows.append([name, *per_second, *ratios, *(count(each["peak_mb"]) for each in measured)])
    first, *others = BACKENDS.values()
    header = [
        "Shape",
        *(f"{backend}, examples/s" for backend in BACKENDS.values()),
        *(f"{backend} / {first}" for backend in others),
    ]
    header += [f"{backend}, MB" for backend in BACKENDS.values()]
    note = "Forward passes of the same batches on the CPU, in turns. MB: peak memory of a process that does nothing else."
    return [Text(note), Table("Speed and memory of inference", header, rows, frozenset(range(1, len(header))))]


def _printed_speeds() -> dict[str, tuple[str, str, str]]:
    """Return parameters, speed-up and notes that the paper prints for each model."""
    frame = published.load("korealbert").filter(pl.col("source") == _PRINTED_IN, pl.col("task").is_in(["params", "speed"]))
    found: dict[str, dict[str, str]] = {}
    for model, task, value, note in frame.select("model", "task", "value", "note").iter_rows():
        facts = found.setdefault(model, {"params": "", "speed": "", "note": ""})
        facts[task] = value
        facts["note"] = f"{facts['note']} {note}".strip()
    return {model: (facts["params"], facts["speed"], facts["note"]) for model, facts in found.items()}
