"""The sources of text in a user's files: formats, columns, delimiters and encodings, and which files are left out.

The first bytes of every file are read. Files that one ``[extract]`` table can read become one source; CSV files with different
headers become several. ``korealbert.recipe.new.project`` writes the tables.
"""

from __future__ import annotations

import glob
import os
import re
import unicodedata
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import cached_property
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

from korealbert.corpus.extract import parse, raw_parts
from korealbert.corpus.readers.framing import RawRecords
from korealbert.corpus.readers.json import json_records
from korealbert.corpus.readers.lost_files import ENDS_READING
from korealbert.corpus.readers.records import Outcome, Tally, is_missing
from korealbert.corpus.readers.spec import ExtractSpec, is_note
from korealbert.corpus.readers.text import MARKDOWN_ENDINGS
from korealbert.documents.containers import MemberFilter, is_archive
from korealbert.documents.schema import Document, Quarantined
from korealbert.formatting import by_number
from korealbert.recipe.new.columns import further_columns, nested_text
from korealbert.recipe.new.files import ENDINGS, STORE, File, FilesBelow, ending_of, files_below, units
from korealbert.recipe.new.formats import encoding_of
from korealbert.recipe.new.groups import Group, groups_of
from korealbert.recipe.new.tables import Table
from korealbert.recipe.tables import RecipeError

_NOTES = " (by its name, notes on other files; read under another name)"
_NAMED_TXT = {"without an ending": " (add .txt to the names of texts)", ".log": " (messages of programs; name texts .txt)"}
"""How to have files read that may be text, but mostly are not."""
CONVERT = "convert text in other forms to .txt, or to .jsonl with the field text"
_KNOWN = f"{', '.join(ENDINGS)}, and files of WikiExtractor; compressed or in archives"
_MAX_SAMPLE_BYTES = 12_000_000
"""Bytes of documents read from a source, to see how long they are and which characters the vocabulary must cover."""
_MAX_SINGLE_MEMBERS = 20
"""So many members of an archive may each be a source of their own, if as many patterns would have to exclude the others."""
_LIMITS = (100, 20, 5)
"""Minimum lengths of documents; the first that loses no more than ``_MAX_LOST_SHARE`` of the text is taken."""
_MAX_LOST_SHARE = 0.1
_TAG = re.compile(r"</[a-zA-Z][\w:.-]*>|<br ?/?>")
_MIN_TAGGED_SHARE = 0.1
"""Tags of HTML or XML are reported if a larger share of the documents has them."""
_MAX_RECORDS_WITHOUT_TEXT = 1_000
"""Records without the field of the text that are looked at, to find the field that has it instead."""
_MAX_BAD_SHARE = 0.05
"""The default of ``max_bad_share``: unreadable records that extraction tolerates."""


class Sample(NamedTuple):
    """The first documents of a source."""

    lengths: Sequence[int]
    """Characters of each document."""
    characters: frozenset[str]
    """All characters that occur, in the normal form of the vocabulary (NFKC)."""
    size: float
    """Bytes of text in the whole source; an estimate if it is longer than the sample."""
    fault: str
    """The first record that cannot be read, and why; if there is none, the first file without a record."""
    bad: int
    """Number of records that cannot be read, with the files without a record."""
    blank_files: int
    """Number of files without a record."""
    cut_files: int
    """Number of files that are read only in part."""
    tags: Mapping[str, int]
    """Number of documents with each closing tag of HTML or XML."""
    without_text: Sequence[Mapping[str, Any]]
    """The first JSON records that lack the field of the text."""


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
    """Column of each role, or "" if there is none."""
    delimiter: str = ""
    """Empty for the default of the format."""
    columns: tuple[str, ...] = ()
    """Names given to the columns of a table without a header."""
    uncertain_header: tuple[str, ...] = ()
    """Names of columns that may as well be a first record."""
    skip_rows: int = 0
    """Rows above the header."""
    quoted: bool = True
    """Whether quotation marks quote fields of a table; otherwise they are text."""
    unread_columns: tuple[str, ...] = ()
    """Other fields or columns with prose."""
    blank_share: float = 0.0
    """Share of the first records whose text is blank although one of ``unread_columns`` is not."""
    without_text: Sequence[Mapping[str, Any]] = ()
    """Those of the first records that lack the field of the text."""
    unread_nested: str = ""
    """A list or object of the records that has more prose than their text."""
    markdown: bool = False
    encoding: str = "utf-8"
    document: str = ""
    """What a document is in text files: a file, a record (paragraph) or a line."""
    files: int = 0
    empty_files: int = 0
    size: float = 0.0
    """Estimated bytes of all files when unpacked."""

    @cached_property
    def sample(self) -> Sample:
        """The first documents, read as the extract stage does."""
        lengths, characters, tags, faults, blank_files = list[int](), set[str](), Counter[str](), list[str](), list[str]()
        cut_files = set[str]()
        size, without_text = 0.0, list[Mapping[str, Any]]()
        for outcome in _outcomes(self, without_text):
            if isinstance(outcome, Document):
                lengths.append(len(outcome.text))
                size += len(outcome.text.encode("utf-8", "replace"))
                characters.update(unicodedata.normalize("NFKC", outcome.text))
                tags.update(set(_TAG.findall(outcome.text)) if "<" in outcome.text else ())
                if size >= _MAX_SAMPLE_BYTES:
                    size = max(size, self.size)
                    break
            elif isinstance(outcome, Quarantined):
                (blank_files if outcome.reason in ("empty_file", "no_records") else faults).append(str(outcome))
                cut_files |= {outcome.file} if outcome.reason in ENDS_READING else set()
        bad = [*faults, *blank_files]
        fault = bad[0] if bad else ""
        counts = len(bad), len(blank_files), len(cut_files)
        return Sample(lengths, frozenset(characters), size, fault, *counts, tags, without_text)

    @property
    def bad_share(self) -> float:
        """The share of the sampled records that cannot be read, or, if that is larger, of files, as extraction counts them."""
        sample = self.sample
        return max(sample.bad / max(1, sample.bad + len(sample.lengths)), sample.cut_files / 2 / max(1, self.files))

    @property
    def max_bad_share(self) -> float | None:
        """The ``max_bad_share`` to write into the recipe if the empty files alone exceed the default; otherwise None."""
        share = self.empty_files / max(self.files, self.empty_files + len(self.sample.lengths))
        return None if share <= 0.8 * _MAX_BAD_SHARE else min(1.0, round(share + _MAX_BAD_SHARE, 2))

    @property
    def tolerates_bad(self) -> bool:
        """Whether a run goes on despite this ``bad_share``."""
        return self.bad_share <= (self.max_bad_share or _MAX_BAD_SHARE)

    @cached_property
    def columns_instead(self) -> tuple[str, ...]:
        """Fields or columns with the prose of records that lack the field of the text."""
        found = further_columns(self.fields.get("text", ""), [*self.without_text, *self.sample.without_text])
        return tuple(name for name in found if name not in self.unread_columns)

    @property
    def tag(self) -> str:
        """The most common HTML or XML tag, or "" if few documents have it."""
        tag, count = max(self.sample.tags.items(), key=itemgetter(1), default=("", 0))
        return tag if count > _MIN_TAGGED_SHARE * len(self.sample.lengths) else ""

    @cached_property
    def min_characters(self) -> int:
        """The largest minimum length of documents that loses little of the text."""
        lengths = self.sample.lengths
        tolerated = _MAX_LOST_SHARE * sum(lengths)
        return next((limit for limit in _LIMITS if sum(n for n in lengths if n < limit) <= tolerated), _LIMITS[-1])


@dataclass(frozen=True)
class FoundSources:
    """The sources in some files."""

    sources: tuple[Source, ...]
    left_out: Mapping[str, int]
    """Number of files that no source reads, by ending or reason."""
    repeated: tuple[Path, ...] = ()
    """Given paths that lie in other given ones, or are the same."""


def find_sources(paths: Sequence[Path], project: Path) -> FoundSources:
    """Find the sources in files and directories, leaving out what ``new`` and ``run`` write into the project.

    Files named one by one are taken together, like those of one directory. Raises RecipeError if a path has nothing to read.
    """
    found: list[Source] = []
    left_out: Counter[str] = Counter()
    repeated: list[Path] = []
    resolved = [path.resolve() for path in paths]
    given, seen = set(resolved), set[Path]()
    files, parts = list[Path](), list[list[Path]]()
    for path, place in zip(paths, resolved, strict=True):
        if str(path) == "-" or path.is_fifo() or path.is_char_device():
            raise RecipeError(f"{path}: this is no file, and every run reads its files anew; write it to one and name that")
        if not path.exists():
            raise RecipeError(f"{path}: no such file or directory; check the path after --from")
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
            only = f" of a known format that has text in it, only {listed(out)}" if out else ""
            hold = f"{paths[resolved.index(part[0])]}" + (f" and {len(part) - 1:,} more: hold" if part[1:] else ": holds")
            raise RecipeError(f"{hold} no file{only}; known are {_KNOWN}; {CONVERT}")
        found += here
    return FoundSources(tuple(found), left_out, tuple(repeated))


def listed(left_out: Mapping[str, int]) -> str:
    """Format counts with the largest first: ``3 .pdf, 1 .hwp``. A name that says why its file is left out is explained."""
    notes = {what: _NOTES if is_note(what) else _NAMED_TXT.get(what, "") for what in left_out}
    return ", ".join(f"{count:,} {what}{notes[what]}" for what, count in by_number(left_out))


def _sources(paths: Sequence[Path], project: Path, taken: set[str]) -> tuple[list[Source], Counter[str]]:
    """Return the sources below one directory or in some files, and what is left out there."""
    below = files_below(paths, project)
    left_out, roots = below.left_out, {path: number for number, path in enumerate(paths)}
    groups = sorted(groups_of(below.files, left_out), key=lambda group: min(roots[_root(one, roots)] for one in group.files))
    stems = [_stem({_root(file, roots) for file in group.files}) for group in groups]
    texts: dict[str, list[File]] = {}  # In all encodings: those in UTF-16 become another source.
    for group in groups:
        if group.format == "text":
            texts.setdefault(group.tail, []).extend(group.files)
    documents, found = units(texts), list[Source]()
    for group, stem in zip(groups, stems, strict=True):
        name = _name(stem if stems.count(stem) == 1 else f"{stem}-{ending_of(group.tail).strip('._')}", taken)
        taken.add(name)
        document = documents[group.tail] if group.format == "text" else ""
        source = replace(_source_of(group), name=name, paths=tuple(paths), document=document)
        for placed in map(_decodable, _placed(source, roots, group.files, below, taken)):
            if placed.sample.lengths or not placed.sample.fault:
                found.append(placed)
            else:
                left_out[f"{group.tail} of which nothing can be read ({placed.sample.fault})"] += placed.files
    return found, left_out


def _source_of(group: Group) -> Source:
    """Return the source of some files, still without name and place."""
    table = next((file.table for file in group.files if file.table.delimiter), Table())
    encodings = {encoding_of(file.begin) for file in group.files}
    source = Source(
        name="",
        format=group.format,
        paths=(),
        fields=group.fields,
        delimiter="" if table.delimiter == "," else table.delimiter,
        columns=table.columns,
        uncertain_header=table.uncertain_header,
        skip_rows=table.skipped,
        quoted=table.quoted,
        markdown=ending_of(group.tail) in MARKDOWN_ENDINGS,
        encoding=next((each for each in ("utf-16", "auto") if each in encodings), "utf-8"),
    )
    if not group.fields:
        return source
    text, records = group.fields["text"], [record for file in group.files for record in file.table.records]
    with_text = [record for record in records if not is_missing(record.get(text))]
    columns = further_columns(text, with_text)
    blank = sum(not str(one[text]).strip() and any(one.get(name) for name in columns) for one in with_text)
    return replace(
        source,
        unread_columns=columns,
        blank_share=blank / max(1, len(records)),
        without_text=[record for record in records if is_missing(record.get(text))],
        unread_nested=nested_text(text, records)[0],
    )


def _root(file: File, roots: Mapping[Path, int]) -> Path:
    """Return which of the given paths a file is, or lies below."""
    return file.path if file.path in roots else next(iter(roots))


def _stem(paths: Collection[Path]) -> str:
    """Return the name for a source of these paths."""
    return (next(iter(paths)) if len(paths) == 1 else common_directory(paths)).name.split(".")[0]


def common_directory(paths: Collection[Path]) -> Path:
    """Return the innermost directory that holds all these paths."""
    return Path(os.path.commonpath([path.parent for path in paths]))


def _decodable(source: Source) -> Source:
    """Return the source, changed to read CP949 if its files turn out not to be UTF-8 after their first bytes."""
    if source.encoding != "utf-8" or not source.sample.bad:
        return source
    other = replace(source, encoding="auto")
    return other if source.sample.bad > other.sample.bad else source


def _placed(
    source: Source, roots: Mapping[Path, int], group: Sequence[File], below: FilesBelow, taken: set[str]
) -> Iterator[Source]:
    """Yield the source with paths and patterns that match its files and no other ones below the directory.

    It is split if no patterns do that: into single members, if it has few of an archive in which many others have their ending,
    or into one source for each archive, if a pattern that one needs would exclude files of another.
    """

    def part(files: Sequence[File], number: int, **changes: Any) -> Source:
        name = source.name if not number else _name(source.name, taken)
        taken.add(name)
        empty, size = sum(file.is_empty for file in files), sum(file.size for file in files)
        return replace(source, name=name, files=len(files), empty_files=empty, size=size, **changes)

    wanted = {file.path for file in group}
    pattern, own = _pattern([file.tail for file in group]), set(group)
    beside = (file for file in (*below.files, *below.other_members) if file.path in wanted and file not in own)
    rivals = [file for file in beside if fnmatchcase(file.member, pattern)]
    exclude, conflict = _exclusions(rivals, [name for file in group for name in _names_within(file, roots)])
    loose, packed = [file for file in group if not file.member], [file for file in group if file.member]
    single = len(packed) <= min(_MAX_SINGLE_MEMBERS, len(exclude))
    if (conflict and len(wanted) > 1) or (single and loose and packed):
        archives = ([file for file in packed if file.path == one] for one in sorted({file.path for file in packed}))
        for number, files in enumerate(filter(None, (loose, *archives))):
            yield from _placed(part(files, number), roots, files, below, taken)
        return
    if single and packed:
        for number, file in enumerate(packed):
            yield part([file], number, paths=(file.path,), members=glob.escape(file.member))
        return
    unwanted = {file.path for file in below.files} - wanted | below.other_paths
    unwanted = {one for one in unwanted if is_archive(one.name) or one.name == STORE or fnmatchcase(one.name, pattern)}
    paths = _covering([root for root in roots if root.is_dir() or root in wanted], wanted, unwanted)
    has_members = any(one.is_dir() or is_archive(one.name) for one in paths)
    yield part(group, 0, paths=paths, members=pattern if has_members else "*", exclude=exclude)


def _covering(roots: Sequence[Path], wanted: Set[Path], unwanted: Set[Path]) -> tuple[Path, ...]:
    """Return the fewest paths below the given ones that contain all wanted files and no unwanted one."""
    above_wanted = {parent for one in wanted for parent in one.parents}
    above_unwanted = {parent for one in unwanted for parent in one.parents}

    def cover(here: Path) -> Iterator[Path]:
        if here in wanted or here not in above_unwanted:
            yield here
            return
        for inner in sorted(here.iterdir()):
            if inner in wanted or inner in above_wanted:
                yield from cover(inner)

    return tuple(path for root in roots for path in cover(root))


def _names_within(file: File, roots: Mapping[Path, int]) -> list[str]:
    """Return all names that patterns may be matched against: a member's, or a file's path within each directory above it."""
    if file.member:
        return [file.member]
    parts = file.path.relative_to(_root(file, roots)).parts
    return ["/".join(parts[start:]) for start in range(len(parts))]


def _exclusions(rivals: Sequence[File], own: Sequence[str]) -> tuple[tuple[str, ...], bool]:
    """Return the fewest patterns that match unwanted members of archives, and whether one also matches a wanted name."""
    around = {folder for name in own for folder in _folders(name)}
    found: dict[str, None] = {}
    for file in rivals:
        last = file.member.rpartition("/")[2]
        if is_note(last):
            found[f"*/{glob.escape(last)}" if last != file.member else glob.escape(last)] = None
        else:
            alone = next((folder for folder in _folders(file.member) if folder not in around), "")
            found[f"{glob.escape(alone)}/*" if alone else glob.escape(file.member)] = None
    members = MemberFilter("*", tuple(found))
    return tuple(found), not all(members.takes(name) for name in own)


def _folders(name: str) -> list[str]:
    """Return the folders around a member of an archive, the outermost first."""
    parts = name.split("/")[:-1]
    return ["/".join(parts[:end]) for end in range(1, len(parts) + 1)]


def _pattern(tails: Sequence[str]) -> str:
    """Return the fnmatch pattern of names with these ends, which differ in upper and lower case only."""
    letters = [sorted(set(column)) for column in zip(*tails, strict=True)]
    return "*" + "".join(cases[0] if len(cases) == 1 else f"[{''.join(cases)}]" for cases in letters)


def _name(wanted: str, taken: set[str]) -> str:
    """Return a name that recipes allow for a source, and that no other source has."""
    stem = unicodedata.normalize("NFKC", wanted).lower()
    name = re.sub(r"[^a-z0-9_-]+", "-", stem).strip("-_") or "source"
    numbered = (f"{name}-{number}" for number in range(2, len(taken) + 3))
    return next(each for each in (name, *numbered) if each not in taken)


def _outcomes(source: Source, without_text: list[Mapping[str, Any]]) -> Iterator[Outcome]:
    """Yield the records of a source as the extract stage reads them, and add JSON records without text to ``without_text``."""
    given = {name: value for name, value in vars(source).items() if name in ExtractSpec.model_fields and value}
    spec = ExtractSpec.model_validate(given | {"source": source.name, "quoted": source.quoted})
    for part in raw_parts(spec):
        tally = Tally()
        yield from parse(spec, part, tally)
        lacking = tally.missing_fields["text"] and source.format in ("json", "jsonl")
        if lacking and isinstance(part, RawRecords) and len(without_text) < _MAX_RECORDS_WITHOUT_TEXT:
            records = (record for *_, record in json_records(part, Tally()) if isinstance(record, dict))
            without_text += [record for record in records if is_missing(record.get(source.fields["text"]))]
            del without_text[_MAX_RECORDS_WITHOUT_TEXT:]
