"""Details of benchmarks: errors, entity types, differences between systems, comparison with published scores."""

from __future__ import annotations

import json
import statistics
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import polars as pl

from korealbert.finetune import tasks
from korealbert.finetune.features import FeaturesStats
from korealbert.finetune.task import Task
from korealbert.formatting import MISSING, by_number, count, fixed, percent, signed
from korealbert.report import published
from korealbert.report.artifacts import Artifacts
from korealbert.report.render import charts
from korealbert.report.render.blocks import Block, Figure, Figures, Fold, Section, Table, Text
from korealbert.report.scores import Benchmark, Cell, metric_title

_MAX_DRAWN = 16
"""With more labels, no confusion matrix is drawn; there is only the table."""

_LISTED_PREDICTIONS = 6
"""Number of predictions listed for a gold label, unless the task sets another one."""

_MAX_TEXT = 160
"""Number of characters quoted of a hard example."""


def errors(benchmarks: Sequence[Benchmark], hardest: int) -> Section | None:
    """Show errors of the run with the best dev score for each benchmark: of the run's own model, or else of the
    best encoder."""
    blocks: list[Block] = []
    figures: list[Figure] = []
    for benchmark in benchmarks:
        cell = max(benchmark.of(benchmark.lead), key=lambda cell: (cell.dev, -cell.seed))
        path = cell.artifact.path / "analysis.json"
        if path.exists():
            found = json.loads(path.read_text("utf-8"))
            figures += _drawn(benchmark, found)
            blocks += _tables(benchmark, cell, found, hardest)
    if not blocks:
        return None
    text = "Predictions on the test examples by gold label, from the seed with the best dev score."
    return Section("errors", "Errors", [Text(text), *([Figures(figures)] if figures else []), *blocks])


def _drawn(benchmark: Benchmark, found: Mapping[str, Any]) -> list[Figure]:
    labels, counts = found["confusion"]["labels"], found["confusion"]["counts"]
    if not 1 < len(labels) <= _MAX_DRAWN:
        return []
    label = f"{benchmark.title}: share of each gold label's {found['unit']} by predicted label"
    svg = charts.matrix(labels, counts, label=label)
    return [Figure(f"confusion-{benchmark.name}", f"{benchmark.title}: gold in rows, predicted in columns, % of a row", svg)]


def _tables(benchmark: Benchmark, cell: Cell, found: Mapping[str, Any], hardest: int) -> list[Block]:
    rows = []
    for gold, predicted in found["dist"].items():
        total, right = sum(predicted.values()), predicted.get(gold, 0)
        listed = list(predicted.items())[: found.get("listed") or _LISTED_PREDICTIONS]
        rows.append([gold, count(total), percent(right / total), ", ".join(f"{name} {count(n)}" for name, n in listed)])
    header = ["Gold", found["unit"].capitalize(), "Correct", "Predicted labels, most frequent first"]
    title = f"{benchmark.title}: predictions by gold label, {cell.system}, seed {cell.seed}"
    blocks: list[Block] = [Table(title, header, rows, frozenset({1, 2}), prose=frozenset({3}))]
    task = tasks.load(benchmark.cells[0].spec["task"])
    if task.about_labels:
        blocks.append(Text(f"{benchmark.title}: {task.about_labels}", quiet=True))
    if hard := found["hardest"][:hardest]:
        quoted = []
        for example in hard:
            texts = " / ".join(_cut(text) for text in (example["text"], example.get("pair")) if text)
            labels = [_formatted(_label_name(task, example[kind])) for kind in ("gold", "pred")]
            quoted.append([example["id"], texts, *labels, fixed(example["loss"])])
        title = f"{benchmark.title}: the test examples with the largest loss"
        header = ["Example", "Text", "Gold", "Predicted", "Loss"]
        table = Table(title, header, quoted, frozenset({4}), prose=frozenset({1, 2, 3}))
        blocks.append(Fold(f"Hardest examples of {benchmark.title}", [table]))
    return blocks


def _cut(text: str) -> str:
    return text if len(text) <= _MAX_TEXT else f"{text[:_MAX_TEXT].rstrip()}…"


def _label_name(task: Task, value: Any) -> Any:
    """Return the name of a label that ``analysis.json`` has as a number; other values are returned unchanged."""
    return task.fields(value).get("label", value) if isinstance(value, int) else value


def _formatted(value: Any) -> str:
    if isinstance(value, dict):
        value = {name: part for name, part in value.items() if part is not None and name != "probs"}
    if isinstance(value, float):
        return fixed(value)
    return MISSING if value in (None, "") else _cut(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))


_NER_TASK = "naver_ner"

_PRINTED_IN = "KoreALBERT Table IV"


def printed_counts() -> dict[str, int]:
    """Return the paper's counts by entity type."""
    frame = published.load("korealbert").filter((pl.col("source") == _PRINTED_IN) & pl.col("metric").str.starts_with("count_"))
    return {metric.removeprefix("count_"): int(n) for metric, n in frame.select("metric", "number").iter_rows()}


def entity_types(artifacts: Artifacts) -> list[Block]:
    """Compare tags and entities of each type in Naver NER with the printed counts; empty if the run has no Naver NER."""
    found = [(artifact.stats_as(FeaturesStats), artifact.manifest["spec"]) for artifact in artifacts.of("features").values()]
    counted = [(stats, spec) for stats, spec in found if stats.task == _NER_TASK and stats.tags]
    if not counted:
        return []
    stats, spec = counted[0]
    printed = printed_counts()
    totals = sum(stats.tags.values()) or 1, sum(printed.values())
    order = [kind for kind, _ in by_number({kind: printed.get(kind, 0) for kind in (*printed, *stats.tags)})]
    rows = []
    for kind in order:
        tags = stats.tags.get(kind, 0)
        share = percent(printed[kind] / totals[1]) if kind in printed else ""
        numbers = [count(stats.entities.get(kind, 0)), count(tags), percent(tags / totals[0]), count(printed.get(kind)), share]
        rows.append([kind, *numbers])
    header = ["Type", "Entities", "Tags", "Share of tags", "Printed", "Share printed"]
    title = tasks.load(_NER_TASK).title
    table = Table(f"{title}: entity types in the data, beside {_PRINTED_IN}", header, rows, frozenset({1, 2, 3, 4, 5}))
    parts = {split: getattr(stats, f"examples_{split}") for split in ("train", "dev", "test")}
    limits = [f"{name} = {spec[name]}" for name in (f"max_{split}_examples" for split in parts) if spec.get(name)]
    sentences = f"{count(sum(parts.values()))} sentences"
    text = (
        (f"Counted over {sentences}, as {' and '.join(limits)}: " if limits else f"Counted over all {sentences}: ")
        + ", ".join(f"{count(number)} {split}" for split, number in parts.items() if number)
        + ". Tags are eojeols with B or I, which the paper counts over 90,000 sentences. An entity begins with a B, or with an "
        "I that does not continue an entity of its type."
    )
    return [table, Text(text, quiet=True)]


_SMALLEST_P = 0.0005
"""Smaller p-values would be shown as 0.000."""

MAX_OPEN = 12
"""Tables of more pairs are folded; nine systems make 36."""

_TWO_SEEDS = "Two seeds are too few to know their spread: intervals are wide."


def about_few_seeds(benchmarks: Sequence[Benchmark]) -> list[Text]:
    """Warn about systems with too few seeds in benchmarks without differences; ``about_seeds`` covers the others."""
    alone = [benchmark for benchmark in benchmarks if not benchmark.summary.get("comparisons")]
    numbers = {len(benchmark.values(system)) for benchmark in alone for system in benchmark.systems}
    one_seed = "One seed is too few: an interval over other test examples alone does not cover other seeds."
    text = " ".join(text for number, text in ((1, one_seed), (2, _TWO_SEEDS)) if number in numbers)
    return [Text(text, quiet=True)] if text else []


def about_seeds(pairs: Collection[tuple[int, int]]) -> str:
    """Explain what intervals and p-values of differences cover; ``pairs``: numbers of seeds of the compared systems."""
    found = []
    if any(max(pair) > 1 for pair in pairs):
        found.append("Intervals and p-values of differences of means cover other seeds and other test examples (Student's t).")
    if any(max(pair) == 1 for pair in pairs):
        found.append(
            "One seed is too few: intervals and p-values between single seeds cover other test examples, but not other seeds."
        )
    if any(min(pair) == 1 < max(pair) for pair in pairs):
        found.append("A single seed is assumed to vary like the several of the other system, which cannot be checked here.")
    if any(1 < min(pair) < max(pair) for pair in pairs):
        found.append("Of unequal numbers of seeds, the fewer are assumed to vary at least like those of both systems together.")
    if any(2 in pair for pair in pairs):
        found.append(_TWO_SEEDS)
    return " ".join(found)


def about_undefined(
    benchmark: Benchmark, name: Callable[[str], str] = str, *, split: str = "test", form: str = "", after: str = "."
) -> list[Text]:
    """Explain undefined scores, one line per metric, system and reason.

    ``name`` returns a system's title; ``form`` is added for ONNX models: ``, ONNX int8``.
    """
    lines = []
    for metric in benchmark.metrics:
        found: dict[tuple[str, str], list[str]] = {}
        for system in benchmark.systems:
            for seed, why in benchmark.undefined(system, metric, kind=split).items():
                found.setdefault((name(system), why), []).append(str(seed))
        lines += [
            f"{benchmark.title}, {metric_title(metric)}{form}: undefined by the official script, {system}, "
            f"seed{'s' if len(numbers) > 1 else ''} {', '.join(numbers)}: {why}{after}"
            for (system, why), numbers in found.items()
        ]
    return [Text(line, quiet=True) for line in lines]


def paired_differences(benchmarks: Sequence[Benchmark], name: Callable[[str], str] = str) -> list[Block]:
    """Show the differences between all pairs of systems that summaries compare; ``name`` returns a system's title."""
    rows, seeds = [], set()
    for benchmark in benchmarks:
        number = {system: len(found["scores"]) for system, found in benchmark.summary.get("systems", {}).items()}
        for pair in benchmark.summary.get("comparisons", []):
            between = f"{name(pair['first'])} minus {name(pair['second'])}"
            if benchmark.undefined(pair["first"]) or benchmark.undefined(pair["second"]):
                rows.append([f"{benchmark.title}, {benchmark.metric_title}", between, "undefined", *3 * [MISSING]])
                continue
            low, high = pair["interval"]
            seeds.add((number[pair["first"]], number[pair["second"]]))
            p_values = [p_value(test.get("p_value")) for test in (pair, pair.get("mcnemar") or {})]
            measured = [signed(pair["difference"]), f"{signed(low)} to {signed(high)}", *p_values]
            rows.append([f"{benchmark.title}, {benchmark.metric_title}", between, *measured])
    if not rows:
        return []
    header = ["Benchmark", "Systems", "Difference", "Interval", "p", "p, McNemar"]
    text = f"{about_seeds(seeds)} McNemar's test compares the seeds that are best on dev, over test examples alone."
    title = "Differences between systems, test"
    note, columns = Text(text, quiet=True), frozenset({2, 3, 4, 5})
    if len(rows) > MAX_OPEN:
        return [Fold(f"{title}: {len(rows)} pairs", [Table("", header, rows, columns), note])]
    return [Table(title, header, rows, columns), note]


def p_value(value: float | None) -> str:
    """Format a p-value with three decimals; a smaller one is not called 0."""
    if value is None:
        return MISSING
    return "<0.001" if value < _SMALLEST_P else fixed(value, 3)


def comparison(benchmarks: Sequence[Benchmark], tables: Sequence[published.TableOrScore]) -> Section | None:
    """Show our scores by benchmark and metric with published scores folded below, then the published tables as printed."""
    if not tables:
        return None
    blocks: list[Block] = [Text(_EXPLANATION)] if benchmarks else []
    blocks += [block for benchmark in benchmarks for block in _leaderboards(benchmark, tables)]
    reasons = dict.fromkeys(
        why for benchmark in benchmarks for why in published.not_comparable(benchmark.compared_with, tables)
    )
    if apart := [benchmark.title for benchmark in benchmarks if benchmark.head == "bi-encoder"]:
        reasons[f"published scores of {_BI_ENCODERS} {'; '.join(apart)}."] = None
    blocks += [Text(f"Not comparable with ours: {why}", quiet=True) for why in reasons]
    for name in (table for table in tables if isinstance(table, str)):
        problems = [note for _, note in published.known_problems(name)]
        printed = [as_printed(source, rows, problems) for source, rows in by_source(name).items()]
        known = [Text(note, quiet=True) for note in published.notes(name)]
        blocks.append(Fold(f"As printed: {_PUBLICATIONS.get(name, name)}", [*known, *printed]))
    return Section("published", "Comparison with published scores", blocks)


_PUBLICATIONS = {
    "albert": "ALBERT",
    "ax_encoder": "model card of A.X-Encoder",
    "klue_readme": "README of KLUE's baselines",
    "koelectra_readme": "README of KoELECTRA",
    "korealbert": "KoreALBERT",
    "xpt": "cross-lingual post-training (LanguageChameleon, XPT)",
}
"""Titles of the published tables."""

_BI_ENCODERS = (
    "pairs are of cross-encoders, which read both sentences at once. A bi-encoder encodes each alone, so its scores are not "
    "compared with them:"
)

_EXPLANATION = (
    "Score is what the benchmark's official script prints; ours are mean ± sd over seeds. Corrected: the same predictions, "
    "scored as the benchmark's paper defines. Oracle: the best score that the tokenizer's pieces and the length limit allow. A "
    "table has only scores of the same task, split and metric. Published models differ in size, corpus and budget; each source "
    "is named, and known problems are noted in the row."
)


def _leaderboards(benchmark: Benchmark, tables: Sequence[published.TableOrScore]) -> list[Block]:
    """Show the tables of the main metric, and of every other metric with published scores."""
    found = {metric: published.comparable(benchmark.compared_with, metric, tables) for metric in benchmark.metrics}
    shown = [(metric, printed) for metric, printed in found.items() if metric == benchmark.metric or printed.height]
    return [block for metric, printed in shown for block in _leaderboard(benchmark, metric, printed)]


def _leaderboard(benchmark: Benchmark, metric: str, published_scores: pl.DataFrame) -> list[Block]:
    """Show our scores, the best first, with the published scores folded below them."""
    title = f"{benchmark.title}, {metric_title(metric)}"
    entries = []
    for system in benchmark.systems:
        if values := benchmark.values(system, metric):
            reasons = dict.fromkeys(benchmark.undefined(system, metric).values())
            note = "; ".join(filter(None, (benchmark.head_of(system), benchmark.part, *reasons)))
            entries.append((statistics.fmean(values), [*_own(benchmark, system, metric), "this run", note]))
    entries.sort(key=lambda entry: -entry[0])
    rows = [row for _, row in entries]
    header = ["Model", "Score", benchmark.interval_title, "Median", "Best", "Seeds", "Corrected", "Oracle", "Source", "Note"]
    ours = Table(title, header, rows, frozenset(range(1, 8)), frozenset(range(len(rows))), frozenset({9}))
    if not published_scores.height:
        return [ours]
    printed = [list(row) for row in published_scores.select("model", "value", "source", "note").iter_rows()]
    summary = f"{len(printed)} published, {printed[-1][1]} to {printed[0][1]}" if len(printed) > 1 else "1 published score"
    header = ["Model", "Score", "Source", "Note"]
    return [
        ours,
        Fold(f"{title}: {summary}", [Table(f"{title}, published", header, printed, frozenset({1}), prose=frozenset({3}))]),
    ]


def _own(benchmark: Benchmark, system: str, metric: str) -> list[str]:
    values = benchmark.values(system, metric)
    corrected, oracle = (benchmark.values(system, metric, kind=kind) for kind in ("test_corrected", "test_oracle"))
    unknown = benchmark.undefined(system, metric, kind="test_oracle")
    interval = benchmark.intervals.get(system) if metric == benchmark.metric else None
    several = len(values) > 1 and not benchmark.undefined(system, metric)
    return [
        system,
        benchmark.shown(system, metric),
        f"{fixed(interval[0])} to {fixed(interval[1])}" if interval else "",
        fixed(statistics.median(values)) if several else "",
        fixed(max(values)) if several else "",
        str(len(values)),
        fixed(statistics.fmean(corrected)) if corrected else "",
        "undefined" if unknown else fixed(statistics.fmean(oracle)) if oracle else "",
    ]


_Printed = tuple[str, str, str, str, Sequence[int]]
"""Model, task, metric, value and the numbers of known problems."""


def by_source(name: str) -> dict[str, list[_Printed]]:
    """Return the rows of each table in a file of published scores."""
    sources: dict[str, list[_Printed]] = {}
    columns = ("model", "task", "metric", "value", "noted", "source")
    for *row, source in published.load(name).select(*columns).iter_rows():
        sources.setdefault(source, []).append(tuple(row))
    return sources


_MAX_HEADER_CHARACTERS = 160
"""Sum over columns of the longest word in the header; this many characters fit into 1,300 pixels."""


def as_printed(source: str, rows: Sequence[_Printed], notes: Sequence[str]) -> Table:
    """Return a published table, with models as rows and tasks with metrics as columns, or the reverse if it is too wide.

    If the source prints two values for a cell, both are shown. Notes on all rows are in the title. For other notes, rows have
    only the numbers, as there is no space for texts.
    """
    columns = list(dict.fromkeys((task, metric) for _, task, metric, *_ in rows))
    models = list(dict.fromkeys(model for model, *_ in rows))
    everywhere = set.intersection(*(set(noted) for *_, noted in rows))
    values: defaultdict[tuple[str, str, str], list[str]] = defaultdict(list)
    problems: defaultdict[str, set[int]] = defaultdict(set)
    for model, task, metric, value, noted in rows:
        values[model, task, metric].append(value)
        problems[model] |= set(noted) - everywhere
    texts = [notes[number - 1].rstrip(".") for number in sorted(everywhere)]
    title = " ".join([source, *(f"({text})" for text in texts if text.lower() not in source.lower())])
    if sum(max(map(len, f"{task} {metric}".split())) for task, metric in columns) > _MAX_HEADER_CHARACTERS:
        body = [[" ".join(column), *(" / ".join(values[model, *column]) for model in models)] for column in columns]
        return Table(title, ["Metric", *models], body, frozenset(range(1, len(models) + 1)))
    body = []
    for model in models:
        numbers = ", ".join(map(str, sorted(problems[model])))
        body.append([model, *(" / ".join(values[model, *column]) for column in columns), numbers])
    header = ["Model", *map(" ".join, columns), "Problems"]
    return Table(title, header, body, frozenset(range(1, len(header) - 1)))
