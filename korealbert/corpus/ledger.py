"""What became of the documents of each source from one stage to the next, read from the statistics of the stages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from korealbert.artifact import Artifact
from korealbert.corpus.balance import BalanceStats
from korealbert.corpus.dedup.stage import DedupStats
from korealbert.corpus.quality.stage import QualityStats
from korealbert.documents.shards import DocumentStats

STAGES = {
    "extract": "extraction",
    "clean": "cleaning",
    "dedup": "deduplication",
    "quality": "the choice by quality",
    "balance": "balancing",
}
"""The stages that count by source, and what they do."""
_SIZES = frozenset({"documents_in", "documents_out", "characters_out", "repeated"})


@dataclass(frozen=True)
class Passed:
    """The documents of one source in one stage; ``entered - Σ left_out + repeated = left``."""

    entered: int
    left: int
    characters: int
    left_out: Mapping[str, int]
    """By reason; ``quarantined`` are records that could not be read."""
    repeated: int = 0


Ledger = Mapping[str, Mapping[str, Passed]]
"""Stage → source → its documents."""


def ledger(by_stage: Mapping[str, Iterable[Artifact]]) -> Ledger:
    """Return the counts of the stages in ``STAGES`` that have them by source, in the order of the stages."""
    found: dict[str, dict[str, Passed]] = {}
    for stage in STAGES:
        passed: dict[str, Passed] = {}
        for artifact in by_stage.get(stage, ()):
            passed |= _passed(stage, artifact)
        if passed:
            found[stage] = passed
    return found


def _passed(stage: str, artifact: Artifact) -> dict[str, Passed]:
    if stage == "balance":
        balanced = artifact.stats_as(BalanceStats).sources
        return {
            source: Passed(
                sizes.before_documents,
                sizes.after_documents,
                sizes.after_characters,
                {"balanced_out": sizes.before_documents - sizes.after_documents},
            )
            for source, sizes in balanced.items()
        }
    if stage in ("dedup", "quality"):
        counted = (artifact.stats_as(DedupStats) if stage == "dedup" else artifact.stats_as(QualityStats)).sources
        return {
            source: Passed(
                counts.get("documents_in", 0),
                counts.get("documents_out", 0),
                counts.get("characters_out", 0),
                {reason: number for reason, number in counts.items() if reason not in _SIZES},
                counts.get("repeated", 0),
            )
            for source, counts in counted.items()
        }
    stats = artifact.stats_as(DocumentStats)
    left_out = {**stats.dropped, "quarantined": stats.quarantined}
    source = str(artifact.manifest["label"]).split("/", 1)[-1]
    return {source: Passed(stats.documents_in, stats.documents_out, stats.characters_out or 0, left_out)}


def rows(book: Ledger) -> tuple[list[str], list[tuple[str, dict[str, int]]]]:
    """Return the sources, and rows of a table that adds up: a label, and a number for each source.

    What a stage leaves out is negative, and copies that it makes are positive.
    """
    sources = list(dict.fromkeys(source for passed in book.values() for source in passed))
    lines: list[tuple[str, dict[str, int]]] = []
    for stage, passed in book.items():
        if not lines:
            lines.append((f"before {STAGES[stage]}", {source: one.entered for source, one in passed.items()}))
        reasons = dict.fromkeys(reason for one in passed.values() for reason in one.left_out)
        for reason in reasons:
            lines.append((f"{stage}: {reason}", {source: -one.left_out.get(reason, 0) for source, one in passed.items()}))
        lines.append((f"{stage}: copies made", {source: one.repeated for source, one in passed.items()}))
        lines = [line for line in lines if any(line[1].values())]
        lines.append((f"after {STAGES[stage]}", {source: one.left for source, one in passed.items()}))
    for passed in list(book.values())[-1:]:
        lines.append(("characters", {source: one.characters for source, one in passed.items()}))
    return sources, lines
