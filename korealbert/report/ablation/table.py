"""The paper's table with our numbers above the printed ones, and differences from the baseline."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import compress
from statistics import median

from korealbert.formatting import MISSING, compact, fixed, percent, signed
from korealbert.report import published
from korealbert.report.ablation.runs import Estimate, Values, estimate
from korealbert.report.ablation.spec import AblationReportSpec, Row
from korealbert.report.paper_columns import Column, mean_of
from korealbert.report.render import charts
from korealbert.report.render.blocks import Block, Figure, Figures, Fold, Section, Table, Text
from korealbert.report.sections.benchmarks import as_printed, by_source

OURS, PRINTED = "ours", "printed"

_ONE_PRETRAINING = "†"
"""Mark of an interval over the fine-tuning runs of a single pretraining run."""


def estimates(spec: AblationReportSpec, values: Values, row: Row) -> dict[str, Estimate]:
    """Return the means of a row by column title, for columns without undefined values."""
    known = [column for column in spec.columns if not values.missing(row.key, column.title)]
    found = {column: list(values.independent(row.key, column.title).values()) for column in known}
    return {column.title: estimate(own, spec.confidence, column.decimals) for column, own in found.items() if own}


def differences(spec: AblationReportSpec, values: Values, row: Row) -> dict[str, Estimate]:
    """Return the mean differences from the baseline, paired by seed, by column title.

    Columns without common seeds or with undefined scores are left out. An ensemble has no seed.
    """
    found: dict[str, Estimate] = {}
    if row.ensemble or spec.baseline_row.ensemble:
        return found
    for column in (column for column in spec.columns if column.is_score):
        if any(values.missing(each.key, column.title) for each in (row, spec.baseline_row)):
            continue
        own, other = (values.independent(each.key, column.title) for each in (row, spec.baseline_row))
        pairs = [own[seed] - other[seed] for seed in sorted(own.keys() & other.keys())]
        if pairs:
            found[column.title] = estimate(pairs, spec.confidence)
    return found


def printed(spec: AblationReportSpec, row: Row) -> dict[str, tuple[str, float | None]]:
    """Return the published values of a row by column title."""
    if spec.printed is None or not row.model:
        return {}
    found = {}
    for column in spec.columns:
        values = spec.printed.elsewhere(column.source).values(row.model)
        if column.printed in values:
            found[column.title] = values[column.printed]
    return found


def section(spec: AblationReportSpec, values: Values) -> Section:
    """Show the paper's table, and how to read it."""
    ours = {row.key: estimates(spec, values, row) for row in spec.rows}
    body: list[list[str]] = []
    marked = set()
    for row in spec.rows:
        marked.add(len(body))
        cells = (
            values.missing(row.key, c.title) or _cell(c, ours[row.key].get(c.title), values.counts(row.key, c.title)[0] == 1)
            for c in spec.columns
        )
        body.append([row.label, OURS, _runs(spec, values, row), *cells])
        if spec.printed is not None and spec.printed.statistic == "median" and (middle := _over_all(spec, values, row, median)):
            body.append(["", f"{OURS}, median", "", *middle])
        if theirs := printed(spec, row):
            body.append(["", PRINTED, "", *(theirs.get(c.title, (MISSING, None))[0] for c in spec.columns)])
    header = ["", "From", "Runs", *(column.title for column in spec.columns)]
    title = f"{spec.title}, × 100" if spec.printed is None else f"{spec.title}, × 100, beside {spec.printed.source}"
    blocks: list[Block] = [
        Table(title, header, body, frozenset(range(2, len(header))), frozenset(marked)),
        Text(_how_to_read(spec, single=any(_ONE_PRETRAINING in cell for row in body for cell in row[3:])), quiet=True),
        *(Text(line, quiet=True) for line in _notes(spec, values)),
        *(Text(note, quiet=True) for note in spec.notes),
    ]
    return Section("table", "The table", [*blocks, *_medians(spec, values), *_other_models(spec)])


def _other_models(spec: AblationReportSpec) -> list[Block]:
    """Show the printed numbers of models without a row of ours; nothing if there are none."""
    if spec.printed is None:
        return []
    ours = {row.model for row in spec.rows}
    printed_rows = by_source(spec.printed.table)[spec.printed.source]
    rows = [row for row in printed_rows if row[0] not in ours]
    title = f"Other models of {spec.printed.source}, as printed"
    problems = [note for _, note in published.known_problems(spec.printed.table)]
    return [Fold(title, [as_printed(title, rows, problems)])] if rows else []


def _notes(spec: AblationReportSpec, values: Values) -> list[str]:
    """Return notes on parameters, losses, undefined scores, and scores over a part of the official examples."""
    lines = [f"{c.title}: of the encoder, without heads." for c in spec.columns if c.training == "parameters"]
    lines += [f"{c.title}: the mean of the held-out targets in nats, not × 100." for c in spec.columns if c.is_loss]
    for column in spec.columns:
        rows: dict[str, list[str]] = {}
        for row in spec.rows:
            if note := values.note(row.key, column.title):
                rows.setdefault(note, []).append(row.label)
        everywhere = [row.label for row in spec.rows if values.counts(row.key, column.title)[0]]
        for note, labels in rows.items():
            of = "" if labels == everywhere else f", {', '.join(labels)}"
            beside = "; the printed ones are of the whole test set" if column.printed and "examples" in note else ""
            lines.append(f"Ours of {column.title}{of}: {note}{beside}.")
    return lines


def _medians(spec: AblationReportSpec, values: Values) -> list[Block]:
    """Show the median and best score over all runs of each row; nothing if no row has two runs."""
    scores = [column.is_score for column in spec.columns]
    body: list[list[str]] = []
    for row in spec.rows:
        if middle := _over_all(spec, values, row, median):
            best = _over_all(spec, values, row, max)
            body += [[row.label, "median", *compress(middle, scores)], ["", "best", *compress(best, scores)]]
    header = ["", "Of all runs", *(column.title for column in spec.columns if column.is_score)]
    table = Table("Median and best of ours, × 100", header, body, frozenset(range(2, len(header))))
    return [Fold("Median and best over all runs", [table])] if body else []


def _over_all(spec: AblationReportSpec, values: Values, row: Row, statistic: Callable[[Sequence[float]], float]) -> list[str]:
    """Return a statistic over all runs of a row for each column, or nothing if no column of scores has two runs.

    Columns that are averages get the average of the statistics, as papers average what they print.
    """
    runs = {column.title: values.all(row.key, column.title) if column.is_score else [] for column in spec.columns}
    if max(map(len, runs.values())) < 2:
        return []
    shown = []
    for column in spec.columns:
        missing = values.missing(row.key, column.title) if column.is_score else MISSING
        groups = [[runs[title] for title in group] for group in column.parts]
        shown.append(missing or mean_of(groups, statistic))
    return shown


def _runs(spec: AblationReportSpec, values: Values, row: Row) -> str:
    """Return ``2 × 3``: number of pretraining runs, and of fine-tuning runs of each."""
    counts = [values.counts(row.key, column.title) for column in spec.columns]
    pretrained, finetuned = (max(numbers, default=0) for numbers in zip(*counts, strict=True))
    return f"{pretrained} × {finetuned}"


def _cell(column: Column, found: Estimate | None, single: bool) -> str:
    """Return a mean with its interval; parameters have none, since all runs of a row have the same number."""
    if found is None:
        return MISSING
    if column.training == "parameters":
        return compact(found.mean)
    return f"{found.text}{_ONE_PRETRAINING}" if single and found.half_width is not None else found.text


def _how_to_read(spec: AblationReportSpec, *, single: bool) -> str:
    text = (
        f"± is half the width of the {percent(spec.confidence, 0)} Student t interval of the mean over pretraining runs, each "
        "the mean of its fine-tuning runs; Runs: pretraining runs × fine-tuning runs of each. A score without ± comes from a "
        "single run."
    )
    if single:
        text += f" {_ONE_PRETRAINING}: over the fine-tuning runs of a single pretraining run; it says nothing about other ones."
    return text


def differences_section(spec: AblationReportSpec, values: Values) -> Section | None:
    """Show differences from the baseline, ours above the printed ones, and how many would be significant by chance."""
    baseline = spec.baseline_row
    body: list[list[str]] = []
    marked = set()
    with_interval = significant = 0
    for row in spec.rows:
        if row is baseline:
            continue
        found = differences(spec, values, row)
        with_interval += sum(bool(each.half_width) for each in found.values())
        significant += sum(each.excludes_zero for each in found.values())
        marked.add(len(body))
        shown = (_difference(found.get(c.title)) for c in spec.columns)
        body.append([row.label, OURS, *shown])
        if spec.printed is not None and row.model and baseline.model:
            body.append(["", PRINTED, *_printed_differences(spec, row, baseline)])
    if not body:
        return None
    header = ["", "From", *(column.title for column in spec.columns)]
    text = "Differences are paired: the same seeds on both sides, and the interval is that of their mean. "
    if with_interval:
        text += (
            f"{significant} of {with_interval} intervals do not contain 0 (marked *). Without any true difference, about "
            f"{fixed(with_interval * (1 - spec.confidence), 1)} would be expected by chance."
        )
    else:
        text += "No difference has an interval, which needs two or more runs with the same seeds, and values that differ."
    whose = "ours and the paper's" if any(row[1] == PRINTED for row in body) else "ours"
    title = f"Differences from {spec.baseline}, {whose}, × 100"
    table = Table(title, header, body, frozenset(range(2, len(header))), frozenset(marked))
    return Section("differences", f"Differences from {spec.baseline}", [table, Text(text, quiet=True)])


def _difference(found: Estimate | None) -> str:
    if found is None:
        return MISSING
    return f"{found.signed_text} *" if found.excludes_zero else found.signed_text


def _printed_differences(spec: AblationReportSpec, row: Row, baseline: Row) -> list[str]:
    own, other = (printed(spec, each) for each in (row, baseline))

    def shown(column: Column) -> str:
        if not column.is_score:
            return MISSING
        a, b = (side.get(column.title, ("", None))[1] for side in (own, other))
        return MISSING if a is None or b is None else signed(a - b, 1)

    return [shown(column) for column in spec.columns]


def figures(spec: AblationReportSpec, values: Values) -> Section | None:
    """Draw every value as a dot, with one drawing per column."""
    drawn = []
    for number, column in enumerate(spec.columns):
        if column.training == "parameters":
            continue
        strips = [_strip(spec, values, row, column) for row in spec.rows if values.independent(row.key, column.title)]
        if not strips:
            continue
        label = f"{column.title}: " + "; ".join(f"{strip.label} {strip.text}" for strip in strips)
        svg = charts.strips(strips, label=label, x_unit="× 100" if column.is_score else column.training or "nats")
        drawn.append(Figure(f"column-{number + 1}", column.title, svg))
    text = "A dot is one value of a mean: a pretraining run, or a fine-tuning run if there is a single pretraining run."
    return Section("runs", "Every run", [Figures(drawn), Text(text, quiet=True)]) if drawn else None


def _strip(spec: AblationReportSpec, values: Values, row: Row, column: Column) -> charts.Strip:
    own = values.independent(row.key, column.title)
    dots = [(value, f"seed {seed}: {fixed(value, column.decimals)}") for seed, value in own.items()]
    text = values.missing(row.key, column.title) or estimate(list(own.values()), spec.confidence, column.decimals).text
    return charts.Strip(row.label, dots, text, 2 if row.label == spec.baseline else 1)


def summary(spec: AblationReportSpec, values: Values) -> list[Mapping[str, object]]:
    """Return one record per row and column; limits are None without an interval."""
    records: list[Mapping[str, object]] = []
    for row in spec.rows:
        ours, theirs = estimates(spec, values, row), printed(spec, row)
        for column in spec.columns:
            found = ours.get(column.title)
            mean, half = (None, None) if found is None else (found.mean, found.half_width)
            pretraining, finetuning = values.counts(row.key, column.title)
            source = spec.printed.elsewhere(column.source).source if spec.printed and column.title in theirs else None
            low, high = (None, None) if mean is None or half is None else (mean - half, mean + half)
            records.append(
                {
                    "row": row.label,
                    "column": column.title,
                    "mean": mean,
                    "low": low,
                    "high": high,
                    "confidence": None if half is None else spec.confidence,
                    "values": 0 if found is None else found.values,
                    "pretraining_runs": pretraining,
                    "finetuning_runs": finetuning,
                    "printed": theirs.get(column.title, (None, None))[0],
                    "source": source,
                    "note": values.note(row.key, column.title) or None,
                }
            )
    assert all(not isinstance(v, float) or math.isfinite(v) for record in records for v in record.values())
    return records
