"""The corpus: size by source, category and stage; dropped and quarantined documents; text that cleaning removed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path, PurePath
from typing import Any

import pyarrow as pa

from korealbert.artifact import Artifact
from korealbert.corpus import ledger
from korealbert.corpus.balance import BalanceStats, BeforeAndAfter
from korealbert.corpus.clean.stage import CleanStats
from korealbert.corpus.dedup.stage import DedupStats
from korealbert.corpus.extract import ExtractStats
from korealbert.corpus.quality.stage import cluster_sizes
from korealbert.documents.shards import DROPPED_SCHEMA, QUARANTINE_SCHEMA, DocumentStats, read_batches
from korealbert.formatting import MISSING, by_number, compact, count, fixed, percent
from korealbert.report.artifacts import Artifacts
from korealbert.report.render import charts
from korealbert.report.render.blocks import Block, Figure, Figures, Fold, Section, Table, Text
from korealbert.report.render.text import shortened

_MAX_ROWS = 40
"""Maximum number of rows in a table of names from the data; a corpus of many outlets has thousands of sections."""

_EXAMPLE_CHARACTERS = 60
"""Maximum number of characters quoted from a dropped document."""

_SHARDS_OF_EXAMPLES = 100
"""Maximum number of shards that are opened for examples; a rare reason need not occur in the first one."""

_CLUSTER_SIZES = (2, 3, 4, 6, 11, 101, 1001)
"""Smallest size in each row of the table of clusters."""

_Counts = Mapping[str, Mapping[str, int]]
"""Counts by source and name."""


def section(artifacts: Artifacts) -> Section | None:
    """Show documents and characters by source and stage, and categories before and after balancing."""
    through = _through(artifacts)
    if not through.rows:
        return None
    figures = [figure for figure in (_by_source(artifacts), _by_category(artifacts)) if figure]
    blocks: list[Block] = [Figures(figures)] if figures else []
    blocks.append(through)
    if table := _ledger_table(artifacts):
        blocks.append(table)
    if clusters := _clusters(artifacts):
        blocks.append(clusters)
    if categories := _categories(artifacts):
        blocks.append(Fold("Categories before and after balancing", [_category_table(categories)]))
    return artifacts.section("corpus", "Corpus", blocks, *(stage for stage in artifacts.counting if stage != "examples"))


def _through(artifacts: Artifacts) -> Table:
    rows = []
    counted = [(label, artifact.stats_as(DocumentStats)) for label, artifact in _data_artifacts(artifacts)]
    copied = any(stats.repeated for _, stats in counted)
    for label, stats in counted:
        kept = percent((stats.documents_out - stats.repeated) / stats.documents_in if stats.documents_in else None)
        copies = [stats.repeated] if copied else []
        numbers = (stats.documents_in, sum(stats.dropped.values()), stats.quarantined, *copies, stats.documents_out)
        rows.append([label, *map(count, numbers), kept, count(stats.characters_out)])
    copies_made = ["Copies made"] if copied else []
    header = ["Stage", "Documents in", "Dropped", "Quarantined", *copies_made, "Documents out", "Kept", "Characters out"]
    return Table("Every document is accounted for", header, rows, frozenset(range(1, len(header))))


def _by_source(artifacts: Artifacts) -> Figure | None:
    after, sizes = _sizes_by_source(artifacts)
    total = sum(sizes.values())
    if not total:
        return None
    rows = [
        charts.Bar(name, size, f"{compact(size)} · {percent(size / total)}")
        for name, size in by_number(sizes)[: charts.MAX_BARS]
    ]
    drawing = charts.bars(rows, label=f"Characters by source after {after}")
    return Figure("sources", f"Characters by source, after {after}", drawing)


def _ledger(artifacts: Artifacts) -> ledger.Ledger:
    return ledger.ledger({stage: artifacts.of(stage).values() for stage in ledger.STAGES})


def _sizes_by_source(artifacts: Artifacts) -> tuple[str, dict[str, int]]:
    """Return the last stage that counts by source, and the characters by source after it."""
    for stage, passed in reversed(list(_ledger(artifacts).items())):
        return ledger.STAGES[stage], {source: one.characters for source, one in passed.items()}
    return "", {}


def _ledger_table(artifacts: Artifacts) -> Table | None:
    """Show what became of the documents of each source; every column adds up."""
    sources, lines = ledger.rows(_ledger(artifacts))
    rows = [
        [_words(label), count(sum(numbers.values())), *(count(numbers.get(source, 0)) for source in sources)]
        for label, numbers in lines
    ]
    header = ["Documents", "All", *sources]
    title = "Documents by source, from one stage to the next; every column adds up"
    return Table(title, header, rows, frozenset(range(1, len(header)))) if rows else None


def _clusters(artifacts: Artifacts) -> Table | None:
    """Show how many documents had copies among all sources, by their number."""
    dedup, stats = artifacts.one("dedup"), artifacts.stats("dedup", DedupStats)
    sizes = cluster_sizes(dedup) if dedup else {}
    if stats is None or not sizes:
        return None
    rows = []
    for low, high in pairwise((*_CLUSTER_SIZES, max(sizes) + 1)):
        found = sum(number for size, number in sizes.items() if low <= size < high)
        if found:
            copies = sum(number * (size - 1) for size, number in sizes.items() if low <= size < high)
            rows.append([str(low) if high == low + 1 else f"{low:,} to {high - 1:,}", count(found), count(copies)])
    compared_pairs = f"; {count(stats.candidate_pairs)} candidate pairs" if stats.candidate_pairs else ""
    title = f"Clusters of exact copies and near-duplicates, by size{compared_pairs}"
    return Table(title, ["Documents in a cluster", "Clusters", "Copies dropped"], rows, frozenset({1, 2}))


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
    caption = f"Characters by category before (grey) and after balancing{more}"
    return Figure("categories", caption, charts.bars(rows, label="Characters by category before and after balancing"))


def _category_table(categories: Mapping[str, BeforeAndAfter]) -> Table:
    rows = []
    for name, sizes in categories.items():
        numbers = (sizes.before_documents, sizes.after_documents, sizes.before_characters, sizes.after_characters)
        rows.append([name or "none", *map(count, numbers)])
    header = ["Category", "Documents before", "Documents after", "Characters before", "Characters after"]
    return Table("Categories", header, rows, frozenset({1, 2, 3, 4}))


def removed(artifacts: Artifacts) -> Section | None:
    """Show removals by rule, normalised characters, masked personal data, and sections missing from the category map."""
    rules = _per_source(artifacts, lambda stats: stats.removed)
    blocks: list[Block] = []
    if rules:
        ranked = by_number(_total(rules))
        rows = [charts.Bar(rule, number, count(number)) for rule, number in ranked[: charts.MAX_BARS]]
        characters = sum(stats.removed_characters for stats in _cleaned(artifacts).values())
        removals = sum(number for _, number in ranked)
        blocks += [
            Text(
                f"{count(removals)} removals by {len(ranked)} rules took out {count(characters)} characters of documents, "
                "kept or dropped."
            ),
            Figures([Figure("removed", "Removals by rule", charts.bars(rows, label="Removals by rule"))]),
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
    return artifacts.section("removed", "What cleaning removed", blocks, "clean")


def _agreement(artifacts: Artifacts) -> Table | None:
    """Show how far the sentence rules and Kiwi agree on a sample of each source."""
    rows = [
        [source, fixed(found.f1, 3), *map(count, (found.both, found.rules_only, found.kiwi_only, found.documents))]
        for source, stats in _cleaned(artifacts).items()
        if (found := stats.sentence_agreement)
    ]
    header = ["Source", "F1", "Both", "Rules alone", "Kiwi alone", "Documents"]
    title = "Sentence boundaries on a sample: our rules, and Kiwi, a morphological analyser that splits sentences too"
    return Table(title, header, rows, frozenset(range(1, len(header)))) if rows else None


def _cleaned(artifacts: Artifacts) -> dict[str, CleanStats]:
    """Return the statistics of all clean stages by source."""
    return {label.split("/", 1)[-1]: artifact.stats_as(CleanStats) for label, artifact in artifacts.of("clean").items()}


def _per_source(artifacts: Artifacts, of: Callable[[CleanStats], Mapping[str, int]]) -> _Counts:
    """Return one statistic of all clean stages by source; sources without it are left out."""
    return {source: counts for source, stats in _cleaned(artifacts).items() if (counts := of(stats))}


def _total(counts: _Counts) -> Counter[str]:
    total: Counter[str] = Counter()
    for part in counts.values():
        total.update(part)
    return total


def _table(title: str, what: str, counts: _Counts) -> Table:
    ranked = by_number(_total(counts))
    rows = [[name, count(n), *(count(part.get(name, 0)) for part in counts.values())] for name, n in ranked[:_MAX_ROWS]]
    if len(ranked) > _MAX_ROWS:
        rows.append([f"{len(ranked) - _MAX_ROWS:,} more", count(sum(n for _, n in ranked[_MAX_ROWS:])), *[""] * len(counts)])
    header = [what, "All", *counts]
    return Table(title, header, rows, frozenset(range(1, len(header))))


def dropped(artifacts: Artifacts, examples_per_reason: int) -> Section | None:
    """Show dropped documents by stage and reason with examples, quarantined input, and markup that extraction leaves out."""
    tables = (
        _dropped(artifacts, examples_per_reason),
        _decontaminated(artifacts),
        _repeated(artifacts),
        _quarantined(artifacts),
        _constructs(artifacts),
    )
    blocks: list[Block] = [table for table in tables if table.rows]
    if examples := _quarantine_examples(artifacts, examples_per_reason):
        blocks.append(Fold("Examples from quarantine", [examples]))
    return artifacts.section("dropped", "Dropped documents and reasons", blocks, *artifacts.counting)


def _data_artifacts(artifacts: Artifacts) -> list[tuple[str, Artifact]]:
    return [(label, artifact) for stage in artifacts.counting for label, artifact in artifacts.of(stage).items()]


def _dropped(artifacts: Artifacts, examples_per_reason: int) -> Table:
    rows = []
    for label, artifact in _data_artifacts(artifacts):
        stats = artifact.stats_as(DocumentStats)
        reasons, taken = stats.dropped, stats.documents_in
        quotes = _quotes(artifact, reasons, examples_per_reason) if reasons and examples_per_reason else {}
        for reason, number in by_number(reasons):
            if number:
                share = percent(number / taken if taken else None)
                rows.append([label, _words(reason), count(number), share, " · ".join(quotes.get(reason, []))])
    header = ["Stage", "Reason", "Documents", "Share of input", "For example"]
    return Table(
        "Dropped documents; they are kept beside each stage's output", header, rows, frozenset({2, 3}), prose=frozenset({4})
    )


def _quotes(artifact: Artifact, reasons: Mapping[str, int], limit: int) -> dict[str, list[str]]:
    """Return titles (or beginnings) of dropped documents by reason.

    They are of the first batch of each shard, until every reason has as many as there are or as the limit allows.
    """
    found: dict[str, list[str]] = {reason: [] for reason in reasons}
    for path in artifact.files("dropped-*.arrow")[:_SHARDS_OF_EXAMPLES]:
        for row in _first_rows(path, DROPPED_SCHEMA, ["reason", "title", "text"]):
            quote = shortened(row["title"] or row["text"], _EXAMPLE_CHARACTERS)
            if quote and len(found.setdefault(row["reason"], [])) < limit:
                found[row["reason"]].append(f"“{quote}”")
        if all(len(found[reason]) >= min(limit, number) for reason, number in reasons.items()):
            break
    return found


def _decontaminated(artifacts: Artifacts) -> Table:
    stats = artifacts.stats("dedup", DedupStats)
    passages, characters = (stats.decontaminated, stats.characters_decontaminated) if stats else ({}, {})
    rows = [[benchmark, count(number), count(characters.get(benchmark, 0))] for benchmark, number in by_number(passages)]
    title = "Benchmark texts taken out of documents that stay"
    return Table(title, ["Benchmark", "Paragraphs and lines", "Characters"], rows, frozenset({1, 2}))


def _repeated(artifacts: Artifacts) -> Table:
    stats = artifacts.stats("dedup", DedupStats)
    rows = [[_words(kind), count(characters)] for kind, characters in by_number(stats.characters_repeated if stats else {})]
    return Table("Repeated passages taken out of documents that stay", ["Passages", "Characters"], rows, frozenset({1}))


def _quarantined(artifacts: Artifacts) -> Table:
    rows = []
    for label, artifact in _data_artifacts(artifacts):
        for reason, number in by_number(artifact.stats_as(DocumentStats).quarantine_reasons):
            rows.append([label, _words(reason), count(number)])
    return Table("Quarantined: input that could not be read", ["Stage", "Reason", "Records"], rows, frozenset({2}))


def _quarantine_examples(artifacts: Artifacts, limit: int) -> Table | None:
    rows = []
    for label, artifact in _data_artifacts(artifacts):
        seen: Counter[str] = Counter()
        reasons = artifact.stats_as(DocumentStats).quarantine_reasons
        for path in artifact.files("quarantine-*.arrow")[:_SHARDS_OF_EXAMPLES]:
            if all(seen[reason] >= min(limit, number) for reason, number in reasons.items()):
                break
            for bad in _first_rows(path, QUARANTINE_SCHEMA):
                seen[bad["reason"]] += 1
                if seen[bad["reason"]] <= limit:
                    where = f"{_file_name(bad['file'])}, {bad['position']}"
                    rows.append([label, _words(bad["reason"]), where, bad["field"] or MISSING, bad["remedy"]])
    header = ["Stage", "Reason", "Where", "Field", "Remedy"]
    return Table("Some of them, with what their owner can do", header, rows, prose=frozenset({2, 4})) if rows else None


def _first_rows(path: Path, schema: pa.Schema, columns: Sequence[str] | None = None) -> list[dict[str, Any]]:
    """Return the rows of the first batch of a shard by column."""
    batch = next(iter(read_batches(path, schema)), None)
    return [] if batch is None else batch.select(columns or schema.names).to_pylist()


def _file_name(file: str) -> str:
    """Return a file's name without its directories, which are private; a file in an archive keeps its path there."""
    path, separator, member = file.partition("::")
    return f"{PurePath(path).name}{separator}{member}"


def _constructs(artifacts: Artifacts) -> Table:
    rows = []
    for label, artifact in artifacts.of("extract").items():
        stats = artifact.stats_as(ExtractStats)
        for construct, characters in by_number(stats.lost_characters):
            if characters:
                share = percent(characters / stats.source_characters if stats.source_characters else None)
                rows.append([label, _words(construct), count(characters), share])
    header = ["Stage", "Construct", "Characters", "Share of the source"]
    return Table("Markup whose text extraction leaves out", header, rows, frozenset({2, 3}))


def _words(name: str) -> str:
    return name.replace("_", " ")
