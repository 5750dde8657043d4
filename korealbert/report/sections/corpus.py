"""Size of the corpus by source and category, and after every stage."""

from __future__ import annotations

from collections.abc import Mapping

from korealbert.corpus.balance import BalanceStats, BeforeAndAfter
from korealbert.corpus.dedup.stage import DedupStats
from korealbert.documents.shards import DocumentStats
from korealbert.formatting import by_number, compact, count, percent
from korealbert.report.artifacts import Artifacts
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
    return Section(
        "corpus",
        "Corpus",
        [*blocks, Text(artifacts.origin(*(stage for stage in artifacts.counting if stage != "examples")), quiet=True)],
    )


def _through(artifacts: Artifacts) -> Table:
    rows = []
    for stage in artifacts.counting:
        for label, artifact in artifacts.of(stage).items():
            stats = artifact.stats_as(DocumentStats)
            kept = percent(stats.documents_out / stats.documents_in if stats.documents_in else None)
            numbers = (stats.documents_in, sum(stats.dropped.values()), stats.quarantined, stats.documents_out)
            rows.append([label, *map(count, numbers), kept, count(stats.characters_out)])
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
    """Characters by source after the last stage that counts by source."""
    dedup = artifacts.stats("dedup", DedupStats)
    if dedup and dedup.sources:
        return "deduplication", {name: counts.get("characters_out", 0) for name, counts in dedup.sources.items()}
    stage, after = ("clean", "cleaning") if artifacts.of("clean") else ("extract", "extraction")
    found = {label.split("/", 1)[-1]: artifact.stats_as(DocumentStats) for label, artifact in artifacts.of(stage).items()}
    return after, {source: stats.characters_out or 0 for source, stats in found.items()}


def _categories(artifacts: Artifacts) -> Mapping[str, BeforeAndAfter]:
    balance = artifacts.stats("balance", BalanceStats)
    categories = balance.categories if balance else {}
    return dict(sorted(categories.items(), key=lambda item: (-item[1].after_characters, item[0])))


def _by_category(artifacts: Artifacts) -> Figure | None:
    categories = list(_categories(artifacts).items())
    if not categories:
        return None
    rows = []
    for name, sizes in categories[: charts.MAX_BARS]:
        before, after = sizes.before_characters, sizes.after_characters
        rows.append(charts.Bar(name or "none", after, f"{compact(before)} → {compact(after)}", before))
    more = f", the largest {charts.MAX_BARS} of {len(categories)}" if len(categories) > charts.MAX_BARS else ""
    label = "Characters by category before and after balancing: " + "; ".join(f"{row.label} {row.text}" for row in rows)
    caption = f"Characters by category before (grey) and after balancing{more}"
    return Figure("categories", caption, charts.bars(rows, label=label))


def _category_table(categories: Mapping[str, BeforeAndAfter]) -> Table:
    rows = []
    for name, sizes in categories.items():
        numbers = (sizes.before_documents, sizes.after_documents, sizes.before_characters, sizes.after_characters)
        rows.append([name or "none", *map(count, numbers)])
    header = ["Category", "Documents before", "after", "Characters before", "after"]
    return Table("Categories", header, rows, frozenset({1, 2, 3, 4}))
