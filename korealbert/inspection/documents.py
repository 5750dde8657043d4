"""Documents of an artifact as text: kept, dropped (with the matched passage marked), changed, or quarantined."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from rich.text import Text

from korealbert.artifact import Artifact
from korealbert.corpus.clean.news import Removal
from korealbert.documents.shards import (
    DOCUMENT_SCHEMA,
    DROPPED_SCHEMA,
    QUARANTINE_SCHEMA,
    DocumentStats,
    read_batches,
    read_records,
)
from korealbert.inspection.differences import (
    Part,
    applied,
    changed_documents,
    cleaning,
    difference,
    removal_log,
    summary,
    words,
)
from korealbert.inspection.evidence import text_spans, title_spans

_EVIDENCE = "⟪{}⟫"
"""Mark around text that a rule matched."""

_MAX_CHARACTERS = 1_200
"""Longer texts are cut to their beginning, or to the surroundings of the first marked passage."""


def documents(artifact: Artifact, *, whole: bool = False, wanted: str = "") -> Iterator[Text]:
    """Yield the documents of an artifact; ``wanted`` is the beginning of an id."""
    for path in artifact.files("documents-*.arrow"):
        for row in read_records(path, DOCUMENT_SCHEMA):
            if row["id"].startswith(wanted):
                yield Text.assemble(_head(row), _marked(row["text"], [], whole=whole))


def dropped(artifact: Artifact, reason: str, *, whole: bool = False, wanted: str = "") -> Iterator[Text]:
    """Yield the documents dropped for a reason (``all``: any), with the passage that the rule matched marked.

    For a duplicate, the document that was kept is named and the differences from it are shown. Raises ValueError listing the
    reasons if no document was dropped for this one.
    """
    reasons = artifact.stats_as(DocumentStats).dropped
    if reason != "all" and reason not in reasons:
        raise ValueError(f"{artifact.name}: nothing dropped for {reason!r}; reasons: {', '.join(reasons) or 'none'}")
    for path in artifact.files("dropped-*.arrow"):
        removals = removal_log(path)
        for row in read_records(path, DROPPED_SCHEMA):
            if reason in ("all", row["reason"]) and row["id"].startswith(wanted):
                head = _head(row, title_spans(artifact, row))
                yield Text.assemble(head, _why_dropped(artifact, row, removals.get(row["id"], []), whole=whole))


def _why_dropped(artifact: Artifact, row: dict[str, Any], removals: Sequence[Removal], *, whole: bool) -> Text:
    """Return the text of a dropped document, which shows why it was dropped."""
    if row["reason"] in ("exact_duplicate", "near_duplicate", "contained"):
        return _beside_survivor(artifact, row, whole=whole)
    if row["reason"] != "removed_share":
        return _marked(row["text"], text_spans(artifact, row), whole=whole)
    entities = bool(artifact.manifest["spec"]["decode_entities"])
    after = applied(row["text"], removals, entities=entities)
    return _changed(cleaning(row["text"], after, removals, entities=entities), whole=whole)


def changes(artifact: Artifact, *, whole: bool, wanted: str) -> Iterator[Text]:
    """Yield the documents that a stage changed, with removed and added text in its place."""
    for row, parts in changed_documents(artifact, wanted):
        yield Text.assemble(_head(row), _changed(parts, whole=whole))


def _changed(parts: Sequence[Part], *, whole: bool) -> Text:
    return Text.assemble((f"{summary(parts)}\n", "quiet"), difference(parts, whole=whole))


def quarantined(artifact: Artifact) -> Iterator[Text]:
    """Yield input that could not be read, with position, reason and remedy."""
    for path in artifact.files("quarantine-*.arrow"):
        for row in read_records(path, QUARANTINE_SCHEMA):
            field = f" in field {row['field']!r}" if row["field"] else ""
            yield Text.assemble(
                (f"{row['file']}, {row['position']}\n", "heading"),
                (f"{row['reason']}{field}: {row['remedy']}\n", "reason"),
                (row["excerpt"], "quiet"),
            )


def _head(row: dict[str, Any], spans: Sequence[tuple[int, int]] = ()) -> Text:
    facts = [row[name] for name in ("source", "outlet", "authors", "category", "published", "url") if row[name]]
    title = _marked(row["title"], spans, whole=True)
    title.stylize("heading")
    text = Text.assemble((f"{row['id']}  ", "heading"), title, "\n", (f"{'  '.join(facts)}\n", "quiet"))
    if "reason" in row:
        text.append(f"dropped: {row['reason']}  {row['rule']}".rstrip() + "\n", "reason")
    return text


def _marked(text: str, spans: Sequence[tuple[int, int]], *, whole: bool) -> Text:
    """Return a text with its spans marked; unless ``whole``, a long text is cut to the surroundings of the first span."""
    first, last = 0, len(text)
    if not whole and len(text) > _MAX_CHARACTERS:
        first = max(0, spans[0][0] - _MAX_CHARACTERS // 3) if spans and spans[0][1] > _MAX_CHARACTERS else 0
        last = min(len(text), first + _MAX_CHARACTERS)
    shown = Text()
    if first:
        shown.append(f"{first:,} characters … ", "quiet")
    place = first
    for span in spans:
        start, end = max(span[0], place), min(span[1], last)
        if start < end:
            shown.append(text[place:start]).append(_EVIDENCE.format(text[start:end]), "evidence")
            place = end
    shown.append(text[place:last])
    if last < len(text):
        shown.append(f" … {len(text) - last:,} more characters", "quiet")
    return shown


def _beside_survivor(artifact: Artifact, row: dict[str, Any], *, whole: bool) -> Text:
    """Return the differences of a duplicate from the document that was kept."""
    identity = row["rule"].partition(" ")[0]
    survivor = _find_document(artifact, identity)
    if survivor is None:
        return Text.assemble((f"kept: {identity}, not in this artifact\n", "quiet"), _marked(row["text"], [], whole=whole))
    text = Text.assemble((f"kept: {identity}  {survivor['title']}  ({survivor['source']})\n", "quiet"))
    parts = words(survivor["text"], row["text"])
    if all(part.kind == "same" for part in parts):
        return text.append_text(_marked(row["text"], [], whole=whole))
    text.append("removed: only in the kept document; added: only in this one\n", "quiet")
    return text.append_text(difference(parts, whole=whole))


def _find_document(artifact: Artifact, identity: str) -> dict[str, Any] | None:
    for path in artifact.files("documents-*.arrow"):
        for batch in read_batches(path, DOCUMENT_SCHEMA):
            ids = batch["id"].to_pylist()
            if identity in ids:
                row: dict[str, Any] = batch.slice(ids.index(identity), 1).to_pylist()[0]
                return row
    return None
