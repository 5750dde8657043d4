"""Where the text comes from, and how much of it is left after every stage."""

from __future__ import annotations

from collections.abc import Mapping

from korealbert.formatting import by_number, compact, count, percent
from korealbert.report.artifacts import DATA_STAGES, Artifacts
from korealbert.report.render import charts
from korealbert.report.render.blocks import Block, Figure, Figures, Fold, Section, Table, Text


def section(artifacts: Artifacts) -> Section | None:
    """Documents and characters by source, through every stage, and categories before and after balancing."""
    through = _through(artifacts)
    if not through.rows:
        return None
    figures = [figure for figure in (_by_source(artifacts), _by_category(artifacts)) if figure]
    blocks: list[Block] = [Figures(figures)] if figures else []
    blocks.append(through)
    if categories := _categories(artifacts):
        blocks.append(Fold("Categories before and after balancing", [_category_table(categories)]))
    return Section("corpus", "Corpus", [*blocks, Text(artifacts.origin(*DATA_STAGES[:-1]), quiet=True)])


def _through(artifacts: Artifacts) -> Table:
    rows = []
    for stage in DATA_STAGES:
        for label, artifact in artifacts.of(stage).items():
            stats = artifact.stats
            if "documents_in" not in stats:
                continue
            dropped, taken = sum(stats.get("dropped", {}).values()), stats["documents_in"]
            kept = percent(stats["documents_out"] / taken if taken else None)
            numbers = (taken, dropped, stats.get("quarantined", 0), stats["documents_out"])
            rows.append([label, *map(count, numbers), kept, count(stats.get("characters_out"))])
    header = ["Stage", "Documents in", "Dropped", "Quarantined", "Documents out", "Kept", "Characters out"]
    return Table("Every document is accounted for", header, rows, frozenset(range(1, 7)))


def _by_source(artifacts: Artifacts) -> Figure | None:
    after, sizes = _sizes_by_source(artifacts)
    total = sum(sizes.values())
    if not total:
        return None
    rows = [
        charts.Bar(name, size, f"{compact(size)} · {percent(size / total)}")
        for name, size in by_number(sizes)[: charts.MAX_BARS]
    ]
    label = f"Characters by source after {after}: " + "; ".join(f"{row.label} {row.text}" for row in rows)
    return Figure("sources", f"Characters by source, after {after}", charts.bars(rows, label=label))


def _sizes_by_source(artifacts: Artifacts) -> tuple[str, dict[str, int]]:
    """Characters by source after the last stage that still tells sources apart."""
    if sources := artifacts.stats("dedup").get("sources"):
        return "deduplication", {name: counts.get("characters_out", 0) for name, counts in sources.items()}
    stage, after = ("clean", "cleaning") if artifacts.of("clean") else ("extract", "extraction")
    return after, {label.split("/", 1)[-1]: a.stats.get("characters_out", 0) for label, a in artifacts.of(stage).items()}


def _categories(artifacts: Artifacts) -> Mapping[str, Mapping[str, int]]:
    categories: Mapping[str, Mapping[str, int]] = artifacts.stats("balance").get("categories") or {}
    return dict(sorted(categories.items(), key=lambda item: (-item[1].get("after_characters", 0), item[0])))


def _by_category(artifacts: Artifacts) -> Figure | None:
    categories = list(_categories(artifacts).items())
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
