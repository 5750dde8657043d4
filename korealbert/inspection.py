"""Renderings of what lies in an artifact, for the terminal: documents, drops with their reason, quarantine, noise."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rich.console import Group, RenderableType
from rich.rule import Rule
from rich.text import Text

from korealbert.arrow_tables import read_batches
from korealbert.artifact import Artifact
from korealbert.document_shards import DOCUMENT_SCHEMA, DROPPED_SCHEMA, QUARANTINE_SCHEMA

MAX_CHARS_SHOWN = 1_200
"""Longer texts are cut, with the number of characters left out."""


def documents(artifact: Artifact, dropped: str | None) -> Iterator[RenderableType]:
    """Documents of a data artifact; with ``dropped`` those dropped for this reason (``all`` for any).

    Raises ValueError naming the reasons that occur when none was dropped for the one asked for.
    """
    reasons = artifact.stats.get("dropped", {})
    if dropped not in (None, "all") and dropped not in reasons:
        raise ValueError(f"{artifact.name}: nothing dropped for {dropped!r}; reasons: {', '.join(reasons) or 'none'}")
    pattern, schema = ("documents-*", DOCUMENT_SCHEMA) if dropped is None else ("dropped-*", DROPPED_SCHEMA)
    for path in artifact.files(f"{pattern}.arrow"):
        for batch in read_batches(path, schema):
            for row in batch.to_pylist():
                if dropped in (None, "all", row.get("reason")):
                    yield _document(row)


def _document(row: dict[str, Any]) -> RenderableType:
    facts = [row[name] for name in ("source", "outlet", "authors", "category", "published", "url") if row[name]]
    head = Text(f"{row['id']}  {row['title']}", style="bold")
    parts = [head, Text("  ".join(facts), style="dim")]
    if "reason" in row:
        parts.append(Text(f"dropped: {row['reason']}  {row['rule']}", style="yellow"))
    return Group(*parts, _cut(row["text"]), Rule(style="dim"))


def _cut(text: str) -> Text:
    left_out = len(text) - MAX_CHARS_SHOWN
    shown = Text(text[:MAX_CHARS_SHOWN])
    return shown.append(f" … {left_out:,} more characters", style="dim") if left_out > 0 else shown


def quarantined(artifact: Artifact) -> Iterator[RenderableType]:
    """Input that could not be read as documents, with position, reason and remedy."""
    for path in artifact.files("quarantine-*.arrow"):
        for batch in read_batches(path, QUARANTINE_SCHEMA):
            for row in batch.to_pylist():
                where = Text(f"{row['file']}, {row['position']}", style="bold")
                field = f" in field {row['field']!r}" if row["field"] else ""
                why = Text(f"{row['reason']}{field}: {row['remedy']}", style="yellow")
                yield Group(where, why, Text(row["excerpt"], style="dim"), Rule(style="dim"))


def removals(artifact: Artifact) -> Iterator[RenderableType]:
    """What cleaning deleted from each document, with rule and zone, above the text that stayed."""
    from korealbert.corpus.clean import read_removals  # noqa: PLC0415 (loads the corpus package only when asked)

    for path in artifact.files("documents-*.arrow"):
        cut = read_removals(path.with_name(path.name.replace("documents", "removals")))
        for batch in read_batches(path, DOCUMENT_SCHEMA):
            for row in batch.to_pylist():
                if row["id"] in cut:
                    lines = [
                        Text(f"- {text}", style="red").append(f"   {rule} ({zone})", style="dim")
                        for rule, zone, text in cut[row["id"]]
                    ]
                    yield Group(*lines, _document(row))


def examples(artifact: Artifact, view: int) -> Iterator[RenderableType]:
    """Example rows of a views artifact under one view's noise: masks, replacements, swapped segments, moved tokens."""
    from korealbert.examples.render import render_rows  # noqa: PLC0415

    views = artifact.stats["views"]
    if not 0 <= view < views:
        raise ValueError(f"{artifact.name} has views 0 to {views - 1}, not {view}")
    inputs = artifact.inputs()
    for row in render_rows(inputs["examples"].path, artifact.path, inputs["vocab"].path, view):
        yield Group(row, Rule(style="dim"))


def crawled(artifact: Artifact, outcome: str | None) -> Iterator[RenderableType]:
    """URLs that a crawl came to know, with what became of them; with ``outcome`` those of this state or reason (all: any).

    Raises ValueError naming the outcomes that occur when none is the one asked for.
    """
    from korealbert.corpus.crawl.stage import read_log  # noqa: PLC0415 (loads the corpus package only when asked)

    found: set[str] = set()
    shown = False
    for row in read_log(artifact.path):
        words = {row["state"], row.get("reason", "")} - {""}
        found |= words
        if outcome in (None, "all", *words):
            shown = True
            yield _url(row)
    if outcome is not None and not shown:
        raise ValueError(f"{artifact.name}: no URL was {outcome!r}; outcomes: {', '.join(sorted(found))}")


def _url(row: dict[str, Any]) -> RenderableType:
    what = ": ".join(row[name] for name in ("state", "reason") if name in row)
    where = f"page {row['file']}, byte {row['offset']}" if "offset" in row else ""
    facts = [
        row["kind"],
        row.get("section"),
        row.get("published"),
        row.get("fetched"),
        where,
        row.get("detail"),
        row.get("other"),
    ]
    return Group(Text(row["url"], style="bold"), Text(what, style="yellow"), Text("  ".join(filter(None, facts)), style="dim"))
