"""Where the text comes from, what became of it on the way, and what was thrown out and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import PurePath

from korealbert.arrow_tables import read_batches
from korealbert.artifact import Artifact
from korealbert.document_shards import DROPPED_SCHEMA, QUARANTINE_SCHEMA
from korealbert.report import charts
from korealbert.report.blocks import Block, Figure, Figures, Fold, Section, Table, Text
from korealbert.report.numbers import MISSING, by_number, compact, count, percent
from korealbert.report.run import Run

DATA_STAGES = ("extract", "clean", "dedup", "balance", "examples")

EXAMPLE_CHARACTERS = 60
"""Length of what is quoted from a dropped document."""


def composition(run: Run) -> Section | None:
    """Documents and characters by source, through every stage, and categories before and after balancing."""
    through = _through(run)
    if not through.rows:
        return None
    figures = [figure for figure in (_by_source(run), _by_category(run)) if figure]
    blocks: list[Block] = [Figures(figures)] if figures else []
    blocks.append(through)
    if categories := _categories(run):
        blocks.append(Fold("Categories before and after balancing", [_category_table(categories)]))
    return Section("corpus", "Corpus", [*blocks, Text(run.origin(*DATA_STAGES[:4]), quiet=True)])


def _through(run: Run) -> Table:
    rows = []
    for stage in DATA_STAGES:
        for label, artifact in run.of(stage).items():
            stats = artifact.stats
            if "documents_in" not in stats:
                continue
            dropped, taken = sum(stats.get("dropped", {}).values()), stats["documents_in"]
            kept = percent(stats["documents_out"] / taken if taken else None)
            numbers = (taken, dropped, stats.get("quarantined", 0), stats["documents_out"])
            rows.append([label, *map(count, numbers), kept, count(stats.get("characters_out"))])
    header = ["Stage", "Documents in", "Dropped", "Quarantined", "Documents out", "Kept", "Characters out"]
    return Table("Every document is accounted for", header, rows, frozenset(range(1, 7)))


def _by_source(run: Run) -> Figure | None:
    after, sizes = _sizes_by_source(run)
    total = sum(sizes.values())
    if not total:
        return None
    rows = [
        charts.Bar(name, size, f"{compact(size)} · {percent(size / total)}")
        for name, size in by_number(sizes)[: charts.MAX_BARS]
    ]
    label = f"Characters by source after {after}: " + "; ".join(f"{row.label} {row.text}" for row in rows)
    return Figure("sources", f"Characters by source, after {after}", charts.bars(rows, label=label))


def _sizes_by_source(run: Run) -> tuple[str, dict[str, int]]:
    """Characters by source after the last stage that still tells sources apart."""
    if sources := run.stats("dedup").get("sources"):
        return "deduplication", {name: counts.get("characters_out", 0) for name, counts in sources.items()}
    stage, after = ("clean", "cleaning") if run.of("clean") else ("extract", "extraction")
    return after, {label.split("/", 1)[-1]: a.stats.get("characters_out", 0) for label, a in run.of(stage).items()}


def _categories(run: Run) -> Mapping[str, Mapping[str, int]]:
    categories: Mapping[str, Mapping[str, int]] = run.stats("balance").get("categories") or {}
    return dict(sorted(categories.items(), key=lambda item: (-item[1].get("after_characters", 0), item[0])))


def _by_category(run: Run) -> Figure | None:
    categories = list(_categories(run).items())
    if not categories:
        return None
    rows = []
    for name, sizes in categories[: charts.MAX_BARS]:
        before, after = sizes.get("before_characters", 0), sizes.get("after_characters", 0)
        rows.append(charts.Bar(name or "none", after, f"{compact(before)} → {compact(after)}", before))
    more = f", the largest {charts.MAX_BARS} of {len(categories)}" if len(categories) > charts.MAX_BARS else ""
    label = "Characters by category before and after balancing: " + "; ".join(f"{row.label} {row.text}" for row in rows)
    caption = f"Characters by category before (grey) and after balancing{more}"
    return Figure("categories", caption, charts.bars(rows, label=label))


def _category_table(categories: Mapping[str, Mapping[str, int]]) -> Table:
    keys = ("before_documents", "after_documents", "before_characters", "after_characters")
    rows = [[name or "none", *(count(sizes.get(key)) for key in keys)] for name, sizes in categories.items()]
    header = ["Category", "Documents before", "after", "Characters before", "after"]
    return Table("Categories", header, rows, frozenset({1, 2, 3, 4}))


def losses(run: Run, examples_per_reason: int) -> Section | None:
    """Dropped documents by stage and reason with examples, quarantined input, and lost constructs."""
    blocks: list[Block] = []
    for table in (_dropped(run, examples_per_reason), _decontaminated(run), _quarantined(run), _constructs(run)):
        if table.rows:
            blocks.append(table)
    if examples := _quarantine_examples(run, examples_per_reason):
        blocks.append(Fold("Examples from quarantine", [examples]))
    if not blocks:
        return None
    return Section("dropped", "What was dropped, and why", [*blocks, Text(run.origin(*DATA_STAGES), quiet=True)])


def _data_artifacts(run: Run) -> list[tuple[str, Artifact]]:
    return [(label, artifact) for stage in DATA_STAGES for label, artifact in run.of(stage).items()]


def _dropped(run: Run, examples_per_reason: int) -> Table:
    rows = []
    for label, artifact in _data_artifacts(run):
        reasons, taken = artifact.stats.get("dropped", {}), artifact.stats.get("documents_in", 0)
        quotes = _quotes(artifact, examples_per_reason) if reasons and examples_per_reason else {}
        for reason, number in by_number(reasons):
            if number:
                share = percent(number / taken if taken else None)
                rows.append([label, _words(reason), count(number), share, " · ".join(quotes.get(reason, []))])
    header = ["Stage", "Reason", "Documents", "Share of input", "For example"]
    return Table(
        "Dropped documents; they are kept beside each stage's output", header, rows, frozenset({2, 3}), prose=frozenset({4})
    )


def _quotes(artifact: Artifact, limit: int) -> dict[str, list[str]]:
    """Titles (or beginnings) of dropped documents by reason, from the first batch of the first shard: a look, no census."""
    found: dict[str, list[str]] = {}
    for path in artifact.files("dropped-*.arrow")[:1]:
        batch = next(iter(read_batches(path, DROPPED_SCHEMA)), None)
        columns = batch.select(["reason", "title", "text"]).to_pydict() if batch is not None else {}
        for reason, title, text in zip(*columns.values(), strict=True):
            quote = _shortened(title or text)
            if quote and len(found.setdefault(reason, [])) < limit:
                found[reason].append(f"“{quote}”")
    return found


def _shortened(text: str) -> str:
    line = " ".join(text[: 4 * EXAMPLE_CHARACTERS].split())
    return line if len(line) <= EXAMPLE_CHARACTERS else line[: EXAMPLE_CHARACTERS - 1].rstrip() + "…"


def _decontaminated(run: Run) -> Table:
    stats = run.stats("dedup")
    rows = [[benchmark, count(passages)] for benchmark, passages in by_number(stats.get("decontaminated", {}))]
    title = "Benchmark texts taken out of documents that stay"
    return Table(title, ["Benchmark", "Paragraphs and lines"], rows, frozenset({1}))


def _quarantined(run: Run) -> Table:
    rows = []
    for label, artifact in _data_artifacts(run):
        reasons: Mapping[str, int] = artifact.stats.get("quarantine_reasons", {})
        for reason, number in by_number(reasons):
            rows.append([label, _words(reason), count(number)])
    return Table("Quarantined: input that could not be read", ["Stage", "Reason", "Records"], rows, frozenset({2}))


def _quarantine_examples(run: Run, limit: int) -> Table | None:
    rows = []
    for label, artifact in _data_artifacts(run):
        seen: Counter[str] = Counter()
        for path in artifact.files("quarantine-*.arrow")[:1]:
            batch = next(iter(read_batches(path, QUARANTINE_SCHEMA)), None)
            for bad in batch.to_pylist() if batch is not None else []:
                seen[bad["reason"]] += 1
                if seen[bad["reason"]] <= limit:
                    where = f"{_file_name(bad['file'])}, {bad['position']}"
                    rows.append([label, _words(bad["reason"]), where, bad["field"] or MISSING, bad["remedy"]])
    header = ["Stage", "Reason", "Where", "Field", "Remedy"]
    return Table("Some of them, with what their owner can do", header, rows, prose=frozenset({2, 4})) if rows else None


def _file_name(file: str) -> str:
    """The name without its directories, which say where this machine keeps things; an archive keeps its member."""
    path, separator, member = file.partition("::")
    return f"{PurePath(path).name}{separator}{member}"


def _constructs(run: Run) -> Table:
    rows = [
        [label, _words(construct), count(characters)]
        for label, artifact in run.of("extract").items()
        for construct, characters in by_number(artifact.stats.get("lost_characters", {}))
        if characters
    ]
    header = ["Stage", "Construct", "Characters"]
    return Table("Markup whose text extraction leaves out", header, rows, frozenset({2}))


def _words(name: str) -> str:
    return name.replace("_", " ")
