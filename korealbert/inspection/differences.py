"""Changes that a stage made to its documents: removed and added text in its place, with the rule that removed it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import groupby
from pathlib import Path
from typing import Any

import polars as pl
from rich.text import Text

from korealbert.artifact import Artifact, Store
from korealbert.corpus.clean.news import Removal
from korealbert.corpus.clean.stage import read_removals
from korealbert.corpus.normalise import normalise
from korealbert.documents.schema import Document
from korealbert.documents.shards import DOCUMENT_SCHEMA, read_documents, read_records
from korealbert.formatting import by_number

_CONTEXT_CHARACTERS = 80
"""Characters of unchanged text shown on each side of a change."""
_EXACT_WORDS = 10_000
"""Longer texts are compared without their frequent words, which is faster but may show larger changes than necessary."""

_REMOVED, _ADDED = "[-{}-]", "{{+{}+}}"
"""Removed and added text in the format of ``git diff --word-diff`` and ``wdiff``."""

_WORD = re.compile(r"\S+")


@dataclass(frozen=True, slots=True)
class Part:
    """A stretch of a comparison."""

    kind: str
    """same, removed or added."""
    text: str
    note: str = ""
    """The rule that removed the text, and the zone of the document that it applies to."""


def changed_documents(artifact: Artifact, wanted: str = "") -> Iterator[tuple[dict[str, Any], list[Part]]]:
    """Yield each document whose text or title the stage changed, with the changes; ``wanted`` is the beginning of an id.

    Raises ValueError if the artifact was not built from documents, or its inputs are no longer those that it was built from.
    """
    store = Store(artifact.path.parent)
    inputs = {role: store.find(one.name) for role, one in artifact.inputs().items()}
    if None in inputs.values() or store.outdated(artifact, inputs):
        raise ValueError(f"{artifact.name}: an input was removed, or rebuilt with other bytes; run the stages of both again")
    # Stages number their shards as all shards of their inputs together; a shard without documents has no file.
    shards = {int(shard.stem.rpartition("-")[2]): shard for shard in artifact.files("documents-*.arrow")}
    before = [shard for _, one in sorted(artifact.inputs().items()) for shard in one.files("documents-*.arrow")]
    if not before or len(before) <= max(shards, default=0):
        raise ValueError(f"{artifact.name}: was not built from documents, so there is nothing to compare them with")
    entities = artifact.manifest["spec"].get("decode_entities")  # A field of `clean`, the only stage that normalises.
    for number, shard in shards.items():
        removals = removal_log(shard)
        for original, row in _with_originals(shard, before[number]):
            if not row["id"].startswith(wanted):
                continue
            parts = _changes(original, row, removals.get(row["id"], []), entities=entities)
            if any(part.kind != "same" for part in parts):
                yield row, parts


def _with_originals(shard: Path, source: Path) -> Iterator[tuple[Document, dict[str, Any]]]:
    """Yield each document of a shard after the one that it was made of. Stage ``quality`` repeats documents, but none that
    share an id."""
    shared = {*pl.scan_ipc(source, glob=False).select("id").filter(pl.col("id").is_duplicated()).collect()["id"]}
    documents = read_documents(source)
    original: Document | None = None
    for row in read_records(shard, DOCUMENT_SCHEMA):
        if original is None or original.id != row["id"] or row["id"] in shared:
            original = next(document for document in documents if document.id == row["id"])
        yield original, row


def _changes(original: Document, row: dict[str, Any], removals: Sequence[Removal], *, entities: bool | None) -> list[Part]:
    title = [] if original.title == row["title"] else [*words(original.title, row["title"]), Part("same", "\n")]
    return title + cleaning(original.text, row["text"], removals, entities=entities)


def cleaning(before: str, after: str, removals: Sequence[Removal], *, entities: bool | None = True) -> list[Part]:
    """Return a text with the changes by normalisation, rules and later steps in their places.

    ``after`` may be split into sentences, since white space is ignored. ``entities``: whether normalisation decoded them;
    None if there was none.
    """
    text = before if entities is None else normalise(before, entities=entities).text
    # All of these are keyed by position in the normalised text.
    removed_by, inserted = dict[int, str](), dict[int, str]()
    remaining = list(range(len(text)))
    for removal in removals:
        end = removal.start + len(removal.text)
        removed_by |= dict.fromkeys(remaining[removal.start : end], f"{removal.rule}, {removal.zone}")
        del remaining[removal.start : end]
    for start, end, new_start, new_end in _edits("".join(text[place] for place in remaining), after):
        removed_by |= dict.fromkeys(remaining[start:end], "")
        anchor = remaining[end - 1] + 1 if end else remaining[0] if remaining else len(text)
        inserted[anchor] = inserted.get(anchor, "") + after[new_start:new_end]
    normalised_away, normalised = dict[int, str](), set[int]()
    for start, end, new_start, new_end in _edits(before, text):
        normalised_away[new_start] = before[start:end]
        normalised |= set(range(new_start, new_end))
    parts: list[Part] = []
    for place, character in enumerate(f"{text}\0"):
        if added := inserted.get(place):
            parts.append(Part("added", added))
        if removed := normalised_away.get(place):
            parts.append(Part("removed", removed))
        if place < len(text):
            kind = "removed" if place in removed_by else "added" if place in normalised else "same"
            parts.append(Part(kind, character, removed_by.get(place, "")))
    return _merged(parts)


def _merged(parts: Sequence[Part]) -> list[Part]:
    groups = groupby(parts, key=lambda part: (part.kind, part.note))
    return [Part(kind, "".join(part.text for part in group), note) for (kind, note), group in groups]


def applied(before: str, removals: Sequence[Removal], *, entities: bool) -> str:
    """Return a text after normalisation and the logged removals."""
    text = normalise(before, entities=entities).text
    for removal in removals:
        text = text[: removal.start] + text[removal.start + len(removal.text) :]
    return text


def _edits(before: str, after: str) -> Iterator[tuple[int, int, int, int]]:
    """Yield start and end of differing words in both texts; a span is empty if words were only removed or only added."""
    old, new = list(_WORD.finditer(before)), list(_WORD.finditer(after))
    old_words, new_words = [word.group() for word in old], [word.group() for word in new]
    matcher = SequenceMatcher(None, old_words, new_words, autojunk=len(old) > _EXACT_WORDS)
    for kind, start, end, new_start, new_end in matcher.get_opcodes():
        if kind != "equal" and "".join(old_words[start:end]) != "".join(new_words[new_start:new_end]):
            yield *_extent(old, start, end), *_extent(new, new_start, new_end)


def _extent(words: Sequence[re.Match[str]], start: int, end: int) -> tuple[int, int]:
    """Return the span of some words, or the empty span after the preceding word if there are none."""
    if start < end:
        return words[start].start(), words[end - 1].end()
    place = words[start - 1].end() if start else 0
    return place, place


def words(before: str, after: str) -> list[Part]:
    """Compare two texts word by word. If only white space differs, the second text is shown."""
    parts: list[Part] = []
    place = 0
    for start, end, new_start, new_end in _edits(before, after):
        parts.append(Part("same", after[place:new_start]))
        parts += [Part("removed", before[start:end]), Part("added", after[new_start:new_end])]
        place = new_end
    return _merged([part for part in [*parts, Part("same", after[place:])] if part.text])


def difference(parts: Sequence[Part], *, whole: bool) -> Text:
    """Return the comparison as text; unless ``whole``, long unchanged passages are shortened."""
    text = Text()
    for number, part in enumerate(parts):
        if part.kind == "same":
            text.append(part.text if whole else _shortened(part.text, first=not number, last=number == len(parts) - 1))
            continue
        body = part.text.strip("\n")
        if not body:
            text.append(part.text)
            continue
        before, _, after = part.text.partition(body)
        text.append(before).append((_REMOVED if part.kind == "removed" else _ADDED).format(body), part.kind)
        text.append(f" ⟨{part.note}⟩" if part.note else "", "quiet").append(after)
    return text


def _shortened(text: str, *, first: bool, last: bool) -> str:
    head, tail = (0 if first else _CONTEXT_CHARACTERS), (0 if last else _CONTEXT_CHARACTERS)
    left_out = len(text) - head - tail
    if left_out <= _CONTEXT_CHARACTERS:
        return text
    return f"{text[:head]} … {left_out:,} characters … {text[len(text) - tail :] if tail else ''}"


def summary(parts: Sequence[Part]) -> str:
    """Say how much was removed and added, and by which rules."""
    rules = Counter(part.note.split(",")[0] for part in parts if part.note)
    sizes = Counter[str]()
    for part in parts:
        sizes[part.kind] += len(part.text.strip())
    by_rule = ", ".join(f"{rule} {count}" for rule, count in by_number(rules))
    return f"{sizes['removed']:,} characters removed, {sizes['added']:,} added" + (f"; by rule: {by_rule}" if by_rule else "")


def removal_log(shard: Path) -> dict[str, list[Removal]]:
    """Read what news rules removed from the documents of a ``dropped-*`` or ``documents-*`` shard."""
    kind, _, rest = shard.name.partition("-")
    assert kind in ("documents", "dropped"), shard
    return read_removals(shard.with_name(f"removals-{rest}"))
