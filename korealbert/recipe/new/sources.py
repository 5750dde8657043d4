"""Sources of text in a user's files: what is there, by format, columns, delimiter and encoding; and what is left out.

Every file is looked at, of each the first bytes. Files that one ``[extract]`` table reads become one source; so columns of two
CSV files with other headers are two sources. ``korealbert.recipe.new.project`` writes the tables.
"""

from __future__ import annotations

import os
import re
import unicodedata
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import cached_property
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

from korealbert.corpus.extract import ExtractionError, check_installed, parse, raw_parts
from korealbert.corpus.readers.framing import RawRecords
from korealbert.corpus.readers.json import json_records
from korealbert.corpus.readers.records import Outcome, Tally, is_missing
from korealbert.corpus.readers.spec import ExtractSpec
from korealbert.documents.containers import MemberFilter, is_archive
from korealbert.documents.schema import Document, Quarantined
from korealbert.formatting import by_number
from korealbert.recipe.new.columns import (
    NAMUWIKI,
    Table,
    decoded,
    encoding_of,
    fields_of,
    further_columns,
    is_one_object,
    nested_text,
    text_column,
)
from korealbert.recipe.new.files import ENDINGS, STORE, Below, File, ending_of, files_below, is_about, literal, unit
from korealbert.recipe.tables import RecipeError

CONVERT = "convert text in other forms to .txt, or to .jsonl with the field text"
_KNOWN = f"{', '.join(ENDINGS)}, and files of WikiExtractor; compressed or in archives"
_BYTES_READ = 12_000_000
"""Of a source, as documents: for the length of documents, and the characters that the vocabulary must cover."""
_MEMBERS_APART = 20
"""Members of an archive that is shared with other columns or another encoding: so many may each be a source, where as many
patterns would have to exclude the others."""
_LIMITS = (100, 20, 5)
"""Least characters of a document: the first that loses at most this share of the text."""
_LOST_AT_MOST = 0.1
_TAG, _TAGGED = re.compile(r"</[a-zA-Z][\w:.-]*>|<br ?/?>"), 0.1
"""Of HTML or XML; and the share of documents from which on it is told."""
_WITHOUT = 1_000
"""Records without the field of text that are looked at."""
_ONE_OBJECT = "that is one object of texts by their ids, and not of records"
_BAD_SHARE = 0.05
"""Of records that extraction bears by default."""


class Read(NamedTuple):
    """The first documents of a source."""

    lengths: Sequence[int]
    """In characters."""
    characters: frozenset[str]
    """All that occur, composed as a vocabulary has them."""
    size: float
    """Bytes of text in the whole source; about, if it is longer than what was read."""
    fault: str
    """The first record that cannot be read, and why; the first file without a record where there is no other fault."""
    bad: int
    """How many cannot be read."""
    blank: int
    """How many of these are files without a record."""
    tags: Mapping[str, int]
    """Documents by the closing tags of HTML or XML that they hold."""
    without: Sequence[Mapping[str, Any]]
    """The first records of JSON without the field of text."""


@dataclass(frozen=True)
class Source:
    """Files that one ``[extract]`` table reads."""

    name: str
    format: str
    paths: tuple[Path, ...]
    members: str = "*"
    exclude: tuple[str, ...] = ()
    """Patterns of members of archives that are not read."""
    fields: Mapping[str, str] = field(default_factory=dict)
    """Columns of records by their role; an empty name: there is none."""
    delimiter: str = ""
    """Between columns; empty: the format's own."""
    columns: tuple[str, ...] = ()
    """Names of columns that have no header line."""
    skip_rows: int = 0
    """Rows before the header: a title."""
    quoted: bool = True
    """Whether quotation marks quote fields of a table; otherwise they are text."""
    further: tuple[str, ...] = ()
    """Fields or columns that have prose too, and are not read."""
    blank: float = 0.0
    """Share of the first records whose field of text is empty, and one of those is not."""
    without: Sequence[Mapping[str, Any]] = ()
    """Of the first records those that have no field of text."""
    unread: str = ""
    """A list or object of the records that has more prose than their text."""
    markdown: bool = False
    encoding: str = "utf-8"
    document: str = ""
    """What is one in format text: a file, a record (paragraph) or a line."""
    files: int = 0
    empty_files: int = 0
    size: float = 0.0
    """Bytes of all files once unpacked, about."""

    @property
    def bad_share(self) -> float:
        """Of the records that were looked at, those that cannot be read."""
        return self.read.bad / max(1, self.read.bad + len(self.read.lengths))

    @cached_property
    def instead(self) -> tuple[str, ...]:
        """Fields or columns that have the prose of records without the field of text."""
        found = further_columns(self.fields.get("text", ""), [*self.without, *self.read.without])
        return tuple(name for name in found if name not in self.further)

    @property
    def bears_bad(self) -> bool:
        """Whether a run bears as many."""
        return self.bad_share <= (self.max_bad_share or _BAD_SHARE)

    @property
    def max_bad_share(self) -> float | None:
        """The share of unreadable records to bear, where the empty files are more than the default bears."""
        share = self.empty_files / max(self.files, self.empty_files + len(self.read.lengths))
        return None if share <= 0.8 * _BAD_SHARE else min(1.0, round(share + _BAD_SHARE, 2))

    @cached_property
    def read(self) -> Read:
        """The first documents, as extraction reads them."""
        lengths, characters, tags, faults, blank = list[int](), set[str](), Counter[str](), list[str](), list[str]()
        size, without = 0.0, list[Mapping[str, Any]]()
        for outcome in _outcomes(self, without):
            if isinstance(outcome, Document):
                lengths.append(len(outcome.text))
                size += len(outcome.text.encode("utf-8", "replace"))
                characters.update(unicodedata.normalize("NFKC", outcome.text))
                tags.update(set(_TAG.findall(outcome.text)) if "<" in outcome.text else ())
                if size >= _BYTES_READ:
                    size = max(size, self.size)
                    break
            elif isinstance(outcome, Quarantined):
                (blank if outcome.reason in ("empty_file", "no_records") else faults).append(str(outcome))
        fault = next(iter([*faults, *blank]), "")
        return Read(lengths, frozenset(characters), size, fault, len(faults) + len(blank), len(blank), tags, without)

    @property
    def tag(self) -> str:
        """The tag that most of its documents hold, if many do."""
        tag, count = max(self.read.tags.items(), key=itemgetter(1), default=("", 0))
        return tag if count > _TAGGED * len(self.read.lengths) else ""

    @cached_property
    def min_characters(self) -> int:
        """The least length of a document that loses little of the text."""
        lengths = self.read.lengths
        bearable = _LOST_AT_MOST * sum(lengths)
        return next((limit for limit in _LIMITS if sum(n for n in lengths if n < limit) <= bearable), _LIMITS[-1])


@dataclass(frozen=True)
class Found:
    """The sources in some files."""

    sources: tuple[Source, ...]
    left_out: Mapping[str, int]
    """Files that no source reads: by ending, or by the reason."""
    repeated: tuple[Path, ...] = ()
    """Paths given that lie in others given, or are the same."""


def look(paths: Sequence[Path], project: Path) -> Found:
    """Sources in files and directories; what ``new`` and ``run`` write into the directory of the project is none.

    Files named one by one are taken together, as those of a directory are.

    Raises RecipeError where nothing can be read, naming the path and why.
    """
    found: list[Source] = []
    left_out: Counter[str] = Counter()
    repeated: list[Path] = []
    resolved = [path.resolve() for path in paths]
    given, seen = set(resolved), set[Path]()
    files, parts = list[Path](), list[list[Path]]()
    for path, place in zip(paths, resolved, strict=True):
        if not path.exists():
            raise RecipeError(f"{path}: no such file or directory")
        if place in seen or given & set(place.parents):
            repeated.append(path)
            continue
        seen.add(place)
        part = [] if path.is_dir() else files
        if not part:
            parts.append(part)
        part.append(place)
    for part in parts:
        here, out = _sources(part, project.resolve(), {source.name for source in found})
        left_out.update(out)
        if not here:
            told = f"only {listed(out)}" if out else "no file"
            hold = f"{paths[resolved.index(part[0])]}" + (f" and {len(part) - 1:,} more: hold" if part[1:] else ": holds")
            raise RecipeError(f"{hold} no file of a known format that has text in it, {told}; known are {_KNOWN}; {CONVERT}")
        found += here
    return Found(tuple(found), left_out, tuple(repeated))


def listed(left_out: Mapping[str, int]) -> str:
    """``3 .pdf, 1 .hwp``, those of which there are most first."""
    return ", ".join(f"{count:,} {what}" for what, count in by_number(left_out))


def _sources(paths: Sequence[Path], project: Path, taken: set[str]) -> tuple[list[Source], Counter[str]]:
    """The sources below one directory or in some files, and what is left out there."""
    below = files_below(paths, project)
    left_out, roots = below.left_out, {path: number for number, path in enumerate(paths)}
    groups = sorted(_groups(below.files, left_out), key=lambda group: min(roots[_root(file, roots)] for file in group[3]))
    stems = [_stem({_root(file, roots) for file in group}) for *_, group in groups]
    found: list[Source] = []
    texts: dict[str, list[File]] = {}
    for tail, format_, _, group in groups:
        if format_ == "text":
            texts.setdefault(tail, []).extend(group)  # In all encodings, of which two are two sources.
    for (tail, format_, fields, group), stem in zip(groups, stems, strict=True):
        name = _name(stem if stems.count(stem) == 1 else f"{stem}-{ending_of(tail).strip('._')}", taken)
        taken.add(name)
        table = next((file.table for file in group if file.table.delimiter), Table())
        records = [record for file in group for record in file.table.records]
        encodings = {encoding_of(file.begin) for file in group}
        text = fields.get("text", "")
        with_text = [record for record in records if not is_missing(record.get(text))]
        further = further_columns(text, with_text) if fields else ()
        blank = [one for one in with_text if not str(one[text]).strip() and any(one.get(name) for name in further)]
        source = Source(
            name=name,
            format=format_,
            paths=tuple(paths),
            fields=fields,
            delimiter="" if table.delimiter == "," else table.delimiter,
            columns=table.columns,
            skip_rows=table.skipped,
            quoted=table.quoted,
            unread=nested_text(fields["text"], records)[0] if fields else "",
            further=further,
            blank=len(blank) / max(1, len(records)),
            without=[record for record in records if is_missing(record.get(text))] if fields else (),
            markdown=ending_of(tail) == ".md",
            encoding=next((each for each in ("utf-16", "auto") if each in encodings), "utf-8"),
            document=unit(texts[tail]) if format_ == "text" else "",
        )
        for placed in map(_decodable, _placed(source, roots, group, below, taken)):
            if placed.read.lengths or not placed.read.fault:
                found.append(placed)
            else:
                left_out[f"{tail} of which nothing can be read ({placed.read.fault})"] += placed.files
    return found, left_out


def _root(file: File, roots: Mapping[Path, int]) -> Path:
    """The one of these paths that a file is, or is below."""
    return file.path if file.path in roots else next(iter(roots))


def _stem(paths: Collection[Path]) -> str:
    """What a source of these files, or of this directory, is called."""
    return (next(iter(paths)) if len(paths) == 1 else common_directory(paths)).name.split(".")[0]


def common_directory(paths: Collection[Path]) -> Path:
    """The innermost directory that holds these files and directories."""
    return Path(os.path.commonpath([path.parent for path in paths]))


def _decodable(source: Source) -> Source:
    """The source, in CP949 where UTF-8 is found out to be wrong behind the first bytes of its files."""
    if source.encoding != "utf-8" or not source.read.bad:
        return source
    other = replace(source, encoding="auto")
    return other if source.read.bad > other.read.bad else source


def _placed(
    source: Source, roots: Mapping[Path, int], group: Sequence[File], below: Below, taken: set[str]
) -> Iterator[Source]:
    """The source with the paths and the patterns that mean its files, and none of the others below that directory.

    Where few members of an archive have an ending that many others have too, each is a source; so is each archive where what is
    excluded of one is wanted of another.
    """

    def part(files: Sequence[File], number: int, **changes: Any) -> Source:
        name = source.name if not number else _name(source.name, taken)
        taken.add(name)
        empty, size = sum(file.is_empty for file in files), sum(file.size for file in files)
        return replace(source, name=name, files=len(files), empty_files=empty, size=size, **changes)

    wanted = {file.path for file in group}
    pattern, own = _pattern([file.tail for file in group]), set(group)
    beside = (file for file in (*below.files, *below.members) if file.path in wanted and file not in own)
    rivals = [file for file in beside if fnmatchcase(file.member, pattern)]
    exclude, conflict = _exclusions(rivals, [name for file in group for name in _names_within(file, roots)])
    loose, packed = [file for file in group if not file.member], [file for file in group if file.member]
    apart = len(packed) <= min(_MEMBERS_APART, len(exclude))
    if (conflict and len(wanted) > 1) or (apart and loose and packed):
        archives = ([file for file in packed if file.path == one] for one in sorted({file.path for file in packed}))
        for number, files in enumerate(filter(None, (loose, *archives))):
            yield from _placed(part(files, number), roots, files, below, taken)
        return
    if apart and packed:
        for number, file in enumerate(packed):
            yield part([file], number, paths=(file.path,), members=literal(file.member))
        return
    unwanted = {file.path for file in below.files} - wanted | below.paths
    unwanted = {one for one in unwanted if is_archive(one.name) or one.name == STORE or fnmatchcase(one.name, pattern)}
    around = {parent for one in unwanted for parent in one.parents}
    above = {parent for one in wanted for parent in one.parents}

    def cover(here: Path) -> Iterator[Path]:
        """The fewest paths that contain all files wanted and none unwanted."""
        if here in wanted or here not in around:
            yield here
            return
        for inner in sorted(here.iterdir()):
            if inner in wanted or inner in above:
                yield from cover(inner)

    paths = tuple(path for root in roots if root.is_dir() or root in wanted for path in cover(root))
    inside_of = any(one.is_dir() or is_archive(one.name) for one in paths)
    yield part(group, 0, paths=paths, members=pattern if inside_of else "*", exclude=exclude)


def _names_within(file: File, roots: Mapping[Path, int]) -> list[str]:
    """What patterns may be matched against: a member's name, or a file's path within each directory from this one on."""
    if file.member:
        return [file.member]
    parts = file.path.relative_to(_root(file, roots)).parts
    return ["/".join(parts[start:]) for start in range(len(parts))]


def _exclusions(rivals: Sequence[File], own: Sequence[str]) -> tuple[tuple[str, ...], bool]:
    """The fewest patterns that match members of archives which are not wanted, and whether one matches one that is."""
    around = {folder for name in own for folder in _folders(name)}
    found: dict[str, None] = {}
    for file in rivals:
        last = file.member.rpartition("/")[2]
        if file.hidden:
            found |= dict.fromkeys((".[!/]*", "*/.*"))
        elif is_about(last):
            found[f"*/{literal(last)}" if last != file.member else literal(last)] = None
        else:
            alone = next((folder for folder in _folders(file.member) if folder not in around), "")
            found[f"{literal(alone)}/*" if alone else literal(file.member)] = None
    taken = MemberFilter("*", tuple(found))
    return tuple(found), not all(taken.takes(name) for name in own)


def _folders(name: str) -> list[str]:
    """The folders around a member of an archive, the outermost first."""
    parts = name.split("/")[:-1]
    return ["/".join(parts[:end]) for end in range(1, len(parts) + 1)]


def _pattern(tails: Sequence[str]) -> str:
    """The fnmatch pattern of names that end so, in upper or lower case as they do."""
    letters = [sorted(set(spelt)) for spelt in zip(*tails, strict=True)]
    return "*" + "".join(spelt[0] if len(spelt) == 1 else f"[{''.join(spelt)}]" for spelt in letters)


def _name(written: str, taken: set[str]) -> str:
    """A name of a source as recipes allow it, which no other source has."""
    stem = unicodedata.normalize("NFKC", written).lower()
    name = re.sub(r"[^a-z0-9_-]+", "-", stem).strip("-_") or "source"
    numbered = (f"{name}-{number}" for number in range(2, len(taken) + 3))
    return name if name not in taken else next(n for n in numbered if n not in taken)


def _groups(files: Sequence[File], left_out: Counter[str]) -> Iterator[tuple[str, str, Mapping[str, str], list[File]]]:
    """Files that one table reads, with their ending, format and fields; those that none reads are counted as left out.

    Empty files go with the others of their ending.
    """
    tails: dict[str, list[File]] = {}
    for file in files:
        tails.setdefault(file.tail.lower(), []).append(file)
    for tail, here in sorted(tails.items()):
        left_out.update(f"{tail} {file.fault}" for file in here if file.fault)
        groups = list(_alike(tail, [file for file in here if not file.is_empty and not file.fault], left_out))
        empty = [file for file in here if file.is_empty]
        if not groups:
            left_out.update([f"empty {tail}"] * len(empty))
            continue
        largest = max(range(len(groups)), key=lambda number: len(groups[number][2]))
        for number, (format_, fields, group) in enumerate(groups):
            yield tail, format_, fields, group + empty * (number == largest)


def _alike(tail: str, files: Sequence[File], left_out: Counter[str]) -> Iterator[tuple[str, Mapping[str, str], list[File]]]:
    """Files of one ending by what they hold, encoding, delimiter and the column of text."""
    parts: dict[tuple[Any, ...], list[File]] = {}
    for file in files:
        table = file.table
        wiki = ending_of(tail) == ".json" and bool(table.records) and table.records[0].keys() >= NAMUWIKI
        kind = "namuwiki" if wiki else file.kind
        alike = encoding_of(file.begin) == "utf-16", table.delimiter, table.columns, table.quoted, table.skipped
        parts.setdefault((kind, *alike), []).append(file)
    for (kind, *_), part in parts.items():
        try:
            check_installed(ExtractSpec.model_validate({"source": "new", "format": kind}))
        except ExtractionError as error:
            left_out.update([f"{tail} ({error})"] * len(part))
            continue
        if kind not in ("json", "jsonl", "csv", "parquet"):
            yield kind, {}, part
            continue
        remaining = part
        while remaining:
            text = text_column([record for file in remaining for record in file.table.records])
            if not text:
                left_out.update(f"{tail} {_without_text(file)}" for file in remaining)
                break
            these = [file for file in remaining if any(text in record for record in file.table.records)]
            remaining = [file for file in remaining if file not in set(these)]
            records = [record for file in these for record in file.table.records]
            nested, little = nested_text(text, records)
            if kind.startswith("json") and is_one_object(records):
                left_out.update([f"{tail} {_ONE_OBJECT}"] * len(these))
                continue
            if little:
                left_out.update([f"{tail} whose text is in {nested}"] * len(these))
                continue
            yield kind, fields_of(text, records), these


def _without_text(file: File) -> str:
    """Why records are no texts, as a relative clause."""
    if file.kind.startswith("json") and is_one_object(file.table.records):
        return _ONE_OBJECT
    if file.kind == "parquet" and not file.table.records:
        return "without a row"
    nested, _ = nested_text("", file.table.records)
    if not nested and not file.table.records and decoded(file.begin).lstrip().startswith("["):
        return "that is a list, and not of objects"
    return f"whose text is in {nested}" if nested else "whose records have no field of text"


def _outcomes(source: Source, without: list[Mapping[str, Any]]) -> Iterator[Outcome]:
    """The records of a source, as the extract stage reads them; the first of JSON that lack the text go into ``without``."""
    given = {name: value for name, value in vars(source).items() if name in ExtractSpec.model_fields and value}
    spec = ExtractSpec.model_validate(given | {"source": source.name, "quoted": source.quoted})
    for part in raw_parts(spec):
        tally = Tally()
        yield from parse(spec, part, tally)
        further = _WITHOUT - len(without) if tally.missing_fields["text"] and source.format in ("json", "jsonl") else 0
        if further and isinstance(part, RawRecords):
            there = (record for *_, record in json_records(part, Tally()) if isinstance(record, dict))
            without += [record for record in there if is_missing(record.get(source.fields["text"]))][:further]
