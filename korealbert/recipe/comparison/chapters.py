"""Differences between two runs, artifacts or recipes, as chapters of a page: settings, corpora, scores and pretraining."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import takewhile
from typing import Any

from korealbert.formatting import MISSING, count, signed
from korealbert.inspection.differences import words
from korealbert.recipe.comparison.curves import curves
from korealbert.recipe.comparison.scores import scores
from korealbert.recipe.comparison.sides import ComparedStage, Side, aligned, built_in_both, named_apart
from korealbert.recipe.planning import changed_fields
from korealbert.report.render.blocks import Block, Section, Table, Text

_MAX_VALUE_CHARACTERS = 40
"""Of longer values, only the words that differ are shown."""


def compare(first: Side, second: Side) -> list[Section]:
    """Return the differences as sections of a page, none if both sides are the same."""
    first, second = named_apart(first, second)
    matched = aligned(first, second)
    found = (
        ("settings", "Settings", _settings(first, matched)),
        ("corpora", "Corpora", _corpora(first, matched)),
        ("scores", "Scores", scores(first, second)),
        ("curves", "Pretraining", curves(first, matched)),
    )
    return [Section(anchor, title, blocks) for anchor, title, blocks in found if blocks]


def introduction(first: Side, second: Side) -> str:
    """Return an introduction: which side is A and which is B, how many stages are equal, and what is not built."""
    second = aligned(first, second)
    sides = [(renamed.name, side) for renamed, side in zip(named_apart(first, second), (first, second), strict=True)]
    named = [(short, f"{side.root} ({side.name})" if side.root else side.name) for short, side in sides if short != side.name]
    called = "".join(f"{short} is {name}. " for short, name in named)
    common = first.stages.keys() & second.stages.keys()
    same = sum(first.stages[label].recipe == second.stages[label].recipe for label in common)
    differ = sum(one.output_digest != other.output_digest for one, other in built_in_both(first, second).values())
    text = f"{called}{count(same)} of {count(len(common))} common stages have the same recipe"
    text += f"; the bytes of {count(differ)} differ." if differ else "."
    return text + "".join(_unbuilt(short, side) for short, side in sides)


def _unbuilt(name: str, side: Side) -> str:
    """Say how much of a recipe is built, as only its settings are known otherwise; "" if all is, and for artifacts."""
    built, stages = len(side.artifacts()), len(side.stages)
    if side.store is None or built == stages:
        return ""
    if built:
        return f" {count(built)} of {count(stages)} stages of {name} are built in {side.store}."
    missing = f" No stage of {name} is built in {side.store}, so only settings are compared"
    return f"{missing}; if it was run into another store, name the directory of its report there."


def _settings(first: Side, second: Side) -> list[Block]:
    """Return the fields that differ, the stages of which only the inputs do, and those of one side alone.

    Changes that are the same in several stages of one kind share a line.
    """
    blocks: list[Block] = []
    labels_by_change: dict[tuple[str, str, str, str], list[str]] = {}
    only_inputs = []
    for label in (label for label in first.stages if label in second.stages):
        one, other = first.stages[label], second.stages[label]
        changes = _changes(one, other)
        for change in changes:
            labels_by_change.setdefault((_kind(label), *change), []).append(label)
        if not changes and one.recipe != other.recipe:
            only_inputs.append(label)
    if labels_by_change:
        rows = [[_labels(labels), *change] for (_, *change), labels in labels_by_change.items()]
        blocks.append(Table("Fields that differ", ["Stage", "Field", first.name, second.name], rows, prose=frozenset({2, 3})))
    if only_inputs:
        blocks.append(Text(f"Only the inputs of {_counted(only_inputs)} differ.", quiet=True))
    for side, opposite in ((first, second), (second, first)):
        if alone := [label for label in side.stages if label not in opposite.stages]:
            blocks.append(Text(f"Only {side.name} has {_counted(alone)}."))
    return blocks


def _changes(one: ComparedStage, other: ComparedStage) -> list[tuple[str, str, str]]:
    """Return the fields in which two stages differ, each with both values as text."""
    fields = changed_fields(one.spec, one.recipe["spec"], other.spec, other.recipe["spec"])
    if one.recipe["version"] != other.recipe["version"]:
        fields = [("stage version", one.recipe["version"], other.recipe["version"]), *fields]
    return [(field, *_shown(before, after)) for field, before, after in fields]


def _shown(before: Any, after: Any) -> tuple[str, str]:
    """Format two values; of long texts only the words that differ. Equal values are paths of files whose content differs."""
    if before == after:
        return "content 1", "content 2"
    if isinstance(before, str) and isinstance(after, str) and max(len(before), len(after)) > _MAX_VALUE_CHARACTERS:
        parts = words(before, after)
        old, new = (" … ".join(part.text.strip() for part in parts if part.kind == kind) for kind in ("removed", "added"))
        return old or MISSING, new or MISSING
    return str(before), str(after)


def _kind(label: str) -> str:
    """Return the kind of stage of a label: ``finetune`` for ``finetune/nsmc/pretrained/1``."""
    return label.partition("/")[0]


def _labels(labels: Sequence[str]) -> str:
    """Write one label, or the common beginning of several: ``finetune/nsmc (6 stages)``."""
    if len(labels) == 1:
        return labels[0]
    columns = zip(*(label.split("/") for label in labels), strict=False)
    common = takewhile(lambda column: len(set(column)) == 1, columns)
    return f"{'/'.join(column[0] for column in common)} ({len(labels)} stages)"


def _counted(labels: Iterable[str]) -> str:
    """List labels by kind of stage: ``vocab, examples, finetune (6 stages)``."""
    by_kind: dict[str, list[str]] = {}
    for label in labels:
        by_kind.setdefault(_kind(label), []).append(label)
    return ", ".join(map(_labels, by_kind.values()))


def _corpora(first: Side, second: Side) -> list[Block]:
    """Return tables of the documents that came out of common stages, and of those left out, where their numbers differ."""
    sizes, reasons = [], []
    for label, pair in built_in_both(first, second).items():
        before, after = (artifact.stats for artifact in pair)
        if "documents_out" not in before or "documents_out" not in after:
            continue
        documents, characters = ([stats.get(name) for stats in (before, after)] for name in ("documents_out", "characters_out"))
        if documents[0] != documents[1] or characters[0] != characters[1]:
            change = signed(after["documents_out"] - before["documents_out"], 0)
            sizes.append([label, *map(count, documents), change, *map(count, characters)])
        for kind in ("dropped", "quarantine_reasons"):
            was, now = Counter(before.get(kind, {})), Counter(after.get(kind, {}))
            differing = [reason for reason in sorted(was.keys() | now.keys()) if was[reason] != now[reason]]
            reasons += [[label, reason, count(was[reason]), count(now[reason])] for reason in differing]
    blocks: list[Block] = []
    names = [first.name, second.name]
    if sizes:
        documents_of, characters_of = ([f"{what}, {name}" for name in names] for what in ("Documents", "Characters"))
        header = ["Stage", *documents_of, "Change", *characters_of]
        blocks.append(Table("Documents that come out", header, sizes, frozenset({1, 2, 3, 4, 5})))
    if reasons:
        blocks.append(Table("Documents left out", ["Stage", "Reason", *names], reasons, frozenset({2, 3})))
    return blocks
