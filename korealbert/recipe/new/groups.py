"""Groups of files that one ``[extract]`` table can read, and why other files are left out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from korealbert.corpus.extract import ExtractionError, check_installed
from korealbert.corpus.readers.spec import ExtractSpec
from korealbert.recipe.new.columns import NAMUWIKI, fields_of, is_one_object, list_of_texts, nested_text, text_column
from korealbert.recipe.new.files import File, ending_of
from korealbert.recipe.new.formats import decoded, encoding_of

_ONE_OBJECT = "that is one object of texts by their ids, and not of records"


class Group(NamedTuple):
    """Files that may become one source."""

    tail: str
    """The end of their names, in lower case."""
    format: str
    fields: Mapping[str, str]
    files: list[File]


def groups_of(files: Sequence[File], left_out: Counter[str]) -> Iterator[Group]:
    """Group files that one table can read, and count those that none can as left out.

    Empty files join the largest group of their ending.
    """
    by_tail: dict[str, list[File]] = {}
    for file in files:
        by_tail.setdefault(file.tail.lower(), []).append(file)
    for tail, here in sorted(by_tail.items()):
        left_out.update(f"{tail} {file.fault}" for file in here if file.fault)
        groups = list(_groups_by_content(tail, [file for file in here if not file.is_empty and not file.fault], left_out))
        empty = [file for file in here if file.is_empty]
        if groups:
            max(groups, key=lambda group: len(group.files)).files.extend(empty)
            yield from groups
        elif empty:
            left_out[f"empty {tail}"] += len(empty)


def _groups_by_content(tail: str, files: Sequence[File], left_out: Counter[str]) -> Iterator[Group]:
    """Group files of one ending by format, encoding, delimiter and the column of the text."""
    by_shape: dict[tuple[Any, ...], list[File]] = {}
    for file in files:
        table = file.table
        wiki = ending_of(tail) == ".json" and bool(table.records) and table.records[0].keys() >= NAMUWIKI
        kind = "namuwiki" if wiki else file.kind
        shape = encoding_of(file.begin) == "utf-16", table.delimiter, table.columns, table.quoted, table.skipped
        by_shape.setdefault((kind, *shape), []).append(file)
    for (kind, *_), alike in by_shape.items():
        try:
            check_installed(ExtractSpec.model_validate({"source": "new", "format": kind}))
        except ExtractionError as error:
            left_out[f"{tail} ({error})"] += len(alike)
            continue
        if kind not in ("json", "jsonl", "csv", "parquet", "arrow"):
            yield Group(tail, kind, {}, alike)
            continue
        remaining = alike
        while remaining:
            sampled = [record for file in remaining for record in file.table.records]
            text = text_column(sampled)
            if not text or nested_text(text, sampled)[1]:
                text = list_of_texts(sampled) or text
            if not text:
                left_out.update(f"{tail} {_why_no_text(file)}" for file in remaining)
                break
            these = [file for file in remaining if any(text in record for record in file.table.records)]
            remaining = [file for file in remaining if file not in set(these)]
            records = [record for file in these for record in file.table.records]
            nested, has_little_text = nested_text(text, records)
            if kind.startswith("json") and is_one_object(records):
                left_out[f"{tail} {_ONE_OBJECT}"] += len(these)
            elif has_little_text:
                left_out[f"{tail} whose text is in {nested}"] += len(these)
            else:
                yield Group(tail, kind, fields_of(text, records), these)


def _why_no_text(file: File) -> str:
    """Return why no text is found in the records of a file, as a phrase to follow its name."""
    if file.kind.startswith("json") and is_one_object(file.table.records):
        return _ONE_OBJECT
    if file.kind in ("parquet", "arrow") and not file.table.records:
        return "without a row"
    nested, _ = nested_text("", file.table.records)
    if not nested and not file.table.records and decoded(file.begin).lstrip().startswith("["):
        return "that is a list, and not of objects"
    return f"whose text is in {nested}" if nested else "whose records have no field of text"
