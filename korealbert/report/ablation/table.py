"""Chapters of an ablation's report that compare its rows: the paper's table, differences from the baseline, every run.

Our numbers are above the printed ones. Scores are times 100, losses are in nats. The numbers of a row are by title of the
column, without the columns that have none.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
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
    """Return the means of a row over its runs. Columns with undefined values have none."""
    found = {}
    for column in spec.columns:
        runs = values.independent(row.key, column.title)
        if runs and not values.missing(row.key, column.title):
            found[column.title] = estimate(list(runs.values()), spec.confidence, column.decimals)
    return found


def differences(spec: AblationReportSpec, values: Values, row: Row) -> dict[str, Estimate]:
    """Return the mean differences of a row's scores from the baseline's, paired by seed.

    Columns without common seeds or with undefined scores have none. An ensemble has no seed, so none at all.
    """
    sides = row, spec.baseline_row
    found: dict[str, Estimate] = {}
    if any(side.ensemble for side in sides):
        return found
    for column in spec.columns:
        if column.is_score and not any(values.missing(side.key, column.title) for side in sides):
            own, of_baseline = (values.independent(side.key, column.title) for side in sides)
            if common := sorted(own.keys() & of_baseline.keys()):
                found[column.title] = estimate([own[seed] - of_baseline[seed] for seed in common], spec.confidence)
    return found


def printed(spec: AblationReportSpec, row: Row) -> dict[str, tuple[str, float | None]]:
    """Return the published values of a row, each as printed and as a number."""
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
    body = [line for row in spec.rows for line in _lines_of(spec, values, row)]
    beside = "" if spec.printed is None else f", beside {spec.printed.source}"
    table = _table(f"{spec.title}, × 100{beside}", ["", "From", "Runs"], spec.columns, body)
    single = any(_ONE_PRETRAINING in cell for line in body for cell in line[3:])
    notes = [_how_to_read(spec.confidence, single=single), *_notes(spec, values), *spec.notes]
    below = [Text(note, quiet=True) for note in notes]
    return Section("table", "The table", [table, *below, *_medians(spec, values), *_other_models(spec)])


def _table(title: str, first: Sequence[str], columns: Sequence[Column], body: Sequence[Sequence[str]]) -> Table:
    """Return a table with a column of numbers for each of ``columns`` behind the ``first`` ones, of which the second is "From".

    Our means are marked; if there is nothing else, none is, and the column "From" is left out.
    """
    header = [*first, *(column.title for column in columns)]
    marked = frozenset(number for number, line in enumerate(body) if line[1] == OURS)
    if len(marked) < len(body):
        return Table(title, header, body, frozenset(range(2, len(header))), marked)
    rows = [[line[0], *line[2:]] for line in body]
    return Table(title, [header[0], *header[2:]], rows, frozenset(range(1, len(header) - 1)))


def _lines_of(spec: AblationReportSpec, values: Values, row: Row) -> list[list[str]]:
    """Return the lines of a row: our means, our medians if the paper prints medians, and what it prints."""
    ours, theirs = estimates(spec, values, row), printed(spec, row)
    cells = [
        values.missing(row.key, column.title)
        or _cell(column, ours.get(column.title), single=values.counts(row.key, column.title)[0] == 1)
        for column in spec.columns
    ]
    lines = [[row.label, OURS, _number_of_runs(spec, values, row), *cells]]
    if spec.printed is not None and spec.printed.statistic == "median" and (medians := _over_all(spec, values, row, median)):
        lines.append(["", f"{OURS}, median", "", *medians])
    if theirs:
        lines.append(["", PRINTED, "", *(theirs.get(column.title, (MISSING, None))[0] for column in spec.columns)])
    return lines


def _cell(column: Column, found: Estimate | None, *, single: bool) -> str:
    """Return a mean with its interval; parameters have none, since all runs of a row have the same number."""
    if found is None:
        return MISSING
    if column.training == "parameters":
        return compact(found.mean)
    return f"{found.text}{_ONE_PRETRAINING}" if single and found.half_width is not None else found.text


def _number_of_runs(spec: AblationReportSpec, values: Values, row: Row) -> str:
    """Return ``2 × 3``: number of pretraining runs, and of fine-tuning runs of each."""
    counts = [values.counts(row.key, column.title) for column in spec.columns]
    pretraining, finetuning = map(max, zip(*counts, strict=True))
    return f"{pretraining} × {finetuning}"


def _how_to_read(confidence: float, *, single: bool) -> str:
    text = (
        f"± is half the width of the {percent(confidence, 0)} Student t interval of the mean over pretraining runs, each "
        "the mean of its fine-tuning runs; Runs: pretraining runs × fine-tuning runs of each. A score without ± comes from a "
        "single run."
    )
    if single:
        text += f" {_ONE_PRETRAINING}: over the fine-tuning runs of a single pretraining run; it says nothing about other ones."
    return text


def _notes(spec: AblationReportSpec, values: Values) -> list[str]:
    """Return notes on parameters, losses, undefined scores, and scores over a part of the official examples.

    Columns of which the same is to be said share a note.
    """
    said = [("", column, ": of the encoder, without heads.") for column in spec.columns if column.training == "parameters"]
    said += [
        ("", column, ": the mean of the held-out targets in nats, not × 100.") for column in spec.columns if column.is_loss
    ]
    said += [("Ours of ", column, remark) for column in spec.columns for remark in _remarks(spec, values, column)]
    titles: dict[tuple[str, str], list[str]] = {}
    for begin, column, end in said:
        titles.setdefault((begin, end), []).append(column.title)
    return [f"{begin}{', '.join(alike)}{end}" for (begin, end), alike in titles.items()]


def _remarks(spec: AblationReportSpec, values: Values, column: Column) -> list[str]:
    """Return `` in A, B: undefined: …`` for each remark on scores of a column; rows are named unless it holds for all."""
    labels_by_remark: dict[str, list[str]] = {}
    for row in spec.rows:
        if remark := values.note(row.key, column.title):
            labels_by_remark.setdefault(remark, []).append(row.label)
    scored = [row.label for row in spec.rows if values.counts(row.key, column.title)[0]]
    remarks = []
    for remark, labels in labels_by_remark.items():
        where = "" if labels == scored else f" in {', '.join(labels)}"
        beside = "; the printed ones are of the whole test set" if column.printed and "examples" in remark else ""
        remarks.append(f"{where}: {remark}{beside}.")
    return remarks


def _medians(spec: AblationReportSpec, values: Values) -> list[Block]:
    """Show the median and best score over all runs of each row; nothing if no row has two runs."""
    are_scores = [column.is_score for column in spec.columns]
    body: list[list[str]] = []
    for row in spec.rows:
        for first, name, statistic in ((row.label, "median", median), ("", "best", max)):
            if shown := _over_all(spec, values, row, statistic):
                body.append([first, name, *compress(shown, are_scores)])
    columns = list(compress(spec.columns, are_scores))
    table = _table("Median and best of ours, × 100", ["", "Of all runs"], columns, body)
    return [Fold("Median and best over all runs", [table])] if body else []


def _over_all(spec: AblationReportSpec, values: Values, row: Row, statistic: Callable[[Sequence[float]], float]) -> list[str]:
    """Return a statistic over all runs of a row for each column, or nothing if no column of scores has two runs.

    Columns that are averages get the average of the statistics, as papers average what they print.
    """
    runs = {column.title: values.all(row.key, column.title) for column in spec.columns if column.is_score}
    if max(map(len, runs.values()), default=0) < 2:
        return []

    def shown(column: Column) -> str:
        groups = [[runs[title] for title in group] for group in column.parts]
        return values.missing(row.key, column.title) or mean_of(groups, statistic)

    return [shown(column) if column.is_score else MISSING for column in spec.columns]


def _other_models(spec: AblationReportSpec) -> list[Block]:
    """Show the printed numbers of models without a row of ours; nothing if there are none."""
    if spec.printed is None:
        return []
    ours = {row.model for row in spec.rows}
    rows = [row for row in by_source(spec.printed.table)[spec.printed.source] if row[0] not in ours]
    title = f"Other models of {spec.printed.source}, as printed"
    problems = [note for _, note in published.known_problems(spec.printed.table)]
    return [Fold(title, [as_printed(title, rows, problems)])] if rows else []


def differences_section(spec: AblationReportSpec, values: Values) -> Section | None:
    """Show differences from the baseline, ours above the printed ones, and how many would be significant by chance."""
    body: list[list[str]] = []
    found: list[Estimate] = []
    for row in spec.rows:
        if row is spec.baseline_row:
            continue
        ours = differences(spec, values, row)
        found += ours.values()
        body.append([row.label, OURS, *(_difference(ours.get(column.title)) for column in spec.columns)])
        if spec.printed is not None and row.model and spec.baseline_row.model:
            body.append(["", PRINTED, *_printed_differences(spec, row)])
    if not body:
        return None
    whose = ", ours and the paper's" if any(line[1] == PRINTED for line in body) else ""
    title = f"Differences from {spec.baseline}"
    table = _table(f"{title}{whose}, × 100", ["", "From"], spec.columns, body)
    text = "Differences are paired: the same seeds on both sides, and the interval is that of their mean. "
    return Section("differences", title, [table, Text(text + _by_chance(found, spec.confidence), quiet=True)])


def _difference(found: Estimate | None) -> str:
    if found is None:
        return MISSING
    return f"{found.signed_text} *" if found.excludes_zero else found.signed_text


def _printed_differences(spec: AblationReportSpec, row: Row) -> list[str]:
    sides = [printed(spec, each) for each in (row, spec.baseline_row)]
    shown = []
    for column in spec.columns:
        own, of_baseline = (side.get(column.title, (MISSING, None))[1] for side in sides)
        if not column.is_score or own is None or of_baseline is None:
            shown.append(MISSING)
        else:
            shown.append(signed(own - of_baseline, 1))
    return shown


def _by_chance(found: Collection[Estimate], confidence: float) -> str:
    """Say how many differences are significant, and how many would be without any true difference."""
    with_interval = sum(bool(each.half_width) for each in found)
    if not with_interval:
        return "No difference has an interval, which needs two or more runs with the same seeds, and values that differ."
    significant = sum(each.excludes_zero for each in found)
    return (
        f"{significant} of {with_interval} intervals do not contain 0 (marked *). Without any true difference, about "
        f"{fixed(with_interval * (1 - confidence), 1)} would be expected by chance."
    )


def figures(spec: AblationReportSpec, values: Values) -> Section | None:
    """Draw every value as a dot, with one drawing per column."""
    drawn = []
    for number, column in enumerate(spec.columns, start=1):
        rows = [row for row in spec.rows if values.independent(row.key, column.title)]
        if column.training == "parameters" or not rows:
            continue
        strips = [_strip(spec, values, row, column) for row in rows]
        label = f"{column.title}: " + "; ".join(f"{strip.label} {strip.text}" for strip in strips)
        svg = charts.strips(strips, label=label, x_unit="× 100" if column.is_score else column.training or "nats")
        drawn.append(Figure(f"column-{number}", column.title, svg))
    text = "A dot is one value of a mean: a pretraining run, or a fine-tuning run if there is a single pretraining run."
    return Section("runs", "Every run", [Figures(drawn), Text(text, quiet=True)]) if drawn else None


def _strip(spec: AblationReportSpec, values: Values, row: Row, column: Column) -> charts.Strip:
    runs = values.independent(row.key, column.title)
    dots = [(value, f"seed {seed}: {fixed(value, column.decimals)}") for seed, value in runs.items()]
    text = values.missing(row.key, column.title) or estimate(list(runs.values()), spec.confidence, column.decimals).text
    return charts.Strip(row.label, dots, text, style=2 if row.label == spec.baseline else 1)


def summary(spec: AblationReportSpec, values: Values) -> list[Mapping[str, object]]:
    """Return one record per row and column, of finite numbers; limits are None without an interval."""
    records: list[Mapping[str, object]] = []
    for row in spec.rows:
        ours, theirs = estimates(spec, values, row), printed(spec, row)
        for column in spec.columns:
            found = ours.get(column.title)
            low, high = (found and found.limits) or (None, None)
            pretraining_runs, finetuning_runs = values.counts(row.key, column.title)
            paper = spec.printed.elsewhere(column.source) if spec.printed and column.title in theirs else None
            records.append(
                {
                    "row": row.label,
                    "column": column.title,
                    "mean": None if found is None else found.mean,
                    "low": low,
                    "high": high,
                    "confidence": None if low is None else spec.confidence,
                    "values": 0 if found is None else found.values,
                    "pretraining_runs": pretraining_runs,
                    "finetuning_runs": finetuning_runs,
                    "printed": theirs.get(column.title, (None, None))[0],
                    "source": paper and paper.source,
                    "note": values.note(row.key, column.title) or None,
                }
            )
    assert all(not isinstance(value, float) or math.isfinite(value) for record in records for value in record.values())
    return records
