"""What cleaning took out of the documents that stayed, rule by rule."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping

from korealbert.corpus.clean.stage import CleanStats
from korealbert.formatting import by_number, count, fixed
from korealbert.report.artifacts import Artifacts
from korealbert.report.render import charts
from korealbert.report.render.blocks import Block, Figure, Figures, Fold, Section, Table, Text

_MAX_ROWS = 40
"""Rows of a table of names that nobody chose; a corpus of many outlets has thousands of sections."""


def section(artifacts: Artifacts) -> Section | None:
    """Removals by rule, normalised characters and masked data by kind, and sections that the category map does not know."""
    rules = _per_source(artifacts, lambda stats: stats.removed)
    blocks: list[Block] = []
    if rules:
        ranked = by_number(_total(rules))
        rows = [charts.Bar(rule, number, count(number)) for rule, number in ranked[: charts.MAX_BARS]]
        label = "Removals by rule: " + "; ".join(f"{row.label} {row.text}" for row in rows)
        characters = sum(stats.removed_characters for stats in _cleaned(artifacts).values())
        removals = sum(number for _, number in ranked)
        blocks += [
            Text(f"{count(removals)} removals by {len(ranked)} rules took out {count(characters)} characters."),
            Figures([Figure("removed", "Removals by rule", charts.bars(rows, label=label))]),
            Fold("All rules", [_table("Removals by rule and source", "Rule", rules)]),
        ]
    if kinds := _per_source(artifacts, lambda stats: stats.normalized):
        blocks.append(Fold("Normalized characters", [_table("Characters normalized before any rule", "Kind", kinds)]))
    if masked := _per_source(artifacts, lambda stats: stats.masked):
        blocks.append(_table("Personal data masked, in spans", "Kind", masked))
    if agreement := _agreement(artifacts):
        blocks.append(agreement)
    if sections := _per_source(artifacts, lambda stats: stats.unmapped_sections):
        table = _table("Sections that the category map does not know, in documents", "Section", sections)
        blocks.append(Fold("Unknown sections", [table]))
    if not blocks:
        return None
    return Section("removed", "What cleaning removed", [*blocks, Text(artifacts.origin("clean"), quiet=True)])


def _agreement(artifacts: Artifacts) -> Table | None:
    """How far the sentence rules and Kiwi agree on a sample of each source."""
    rows = [
        [source, fixed(found.f1, 3), *map(count, (found.both, found.rules_only, found.kiwi_only, found.documents))]
        for source, stats in _cleaned(artifacts).items()
        if (found := stats.sentence_agreement)
    ]
    header = ["Source", "F1", "Both", "Rules alone", "Kiwi alone", "Documents"]
    title = "Sentence boundaries: rules against Kiwi on a sample"
    return Table(title, header, rows, frozenset(range(1, len(header)))) if rows else None


Counts = Mapping[str, Mapping[str, int]]


def _cleaned(artifacts: Artifacts) -> dict[str, CleanStats]:
    """Statistics of all clean stages by source."""
    return {label.split("/", 1)[-1]: artifact.stats_as(CleanStats) for label, artifact in artifacts.of("clean").items()}


def _per_source(artifacts: Artifacts, of: Callable[[CleanStats], Mapping[str, int]]) -> Counts:
    """One statistic of all clean stages by source; sources without it are left out."""
    return {source: counts for source, stats in _cleaned(artifacts).items() if (counts := of(stats))}


def _total(counts: Counts) -> Counter[str]:
    total: Counter[str] = Counter()
    for part in counts.values():
        total.update(part)
    return total


def _table(title: str, what: str, counts: Counts) -> Table:
    ranked = by_number(_total(counts))
    rows = [[name, count(n), *(count(part.get(name, 0)) for part in counts.values())] for name, n in ranked[:_MAX_ROWS]]
    if len(ranked) > _MAX_ROWS:
        rows.append([f"{len(ranked) - _MAX_ROWS:,} more", count(sum(n for _, n in ranked[_MAX_ROWS:])), *[""] * len(counts)])
    header = [what, "All", *counts]
    return Table(title, header, rows, frozenset(range(1, len(header))))
