"""Files of text below a path, each with its first bytes and records; and what has no known format there."""

from __future__ import annotations

import re
import zipfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import NamedTuple

import pyarrow as pa

from korealbert.artifact.files import entries_of
from korealbert.corpus.readers.records import writable
from korealbert.documents.containers import MemberFilter, is_archive, open_files
from korealbert.documents.schema import Quarantined
from korealbert.documents.streams import RawFile, ReadFault, ReadLimits
from korealbert.formatting import size as formatted
from korealbert.recipe.new.columns import (
    Table,
    format_of,
    is_json_list,
    no_text,
    table_of_csv,
    table_of_json,
    table_of_parquet,
    table_of_text,
    whole_lines,
)
from korealbert.recipe.tables import RecipeError
from korealbert.recipe.work import PACKED

SCHEMA, STORE = "recipe.schema.json", "store"
"""What ``new`` and ``run`` write beside a recipe."""
EXTRACTED = "wiki_"
"""How the files of WikiExtractor begin, which have no ending."""
FORMATS = {
    ".txt": "text",
    ".md": "text",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "json",
    ".csv": "csv",
    ".tsv": "csv",
    ".parquet": "parquet",
    ".xml": "mediawiki",
    ".html": "html",
    ".htm": "html",
    ".warc": "warc",
    ".wet": "wet",
    EXTRACTED: "wikiextractor",
}
ENDINGS = tuple(ending for ending in FORMATS if ending != EXTRACTED)
_PART = r"-p\d+p\d+"
"""Between ending and packing of the parts in which Wikipedia's dumps come: ``….xml-p1p82407.bz2``."""
_TAIL = re.compile(rf"({'|'.join(map(re.escape, ENDINGS))})({_PART})?({'|'.join(map(re.escape, PACKED))})?$", re.IGNORECASE)
RENAME = "rename it (convmv -f cp949 -t utf-8 -r --notest DIRECTORY)"
_ABOUT = re.compile(
    rf"(readme|licen[cs]e)([._-]?[a-z]{{2}})?(\.(txt|md|html?))?|.*-multistream-index\d*\.txt({_PART})?(\.bz2)?", re.IGNORECASE
)
"""Names of files about the others: ``README.ko.md``, ``LICENSE``, the index of a dump of Wikipedia."""
_HIDDEN = "hidden, whose names or folders begin with a point"
_MEMBERS_LOOKED_AT = 2_000
"""Of one archive; later ones are taken to be like these."""
_LONGEST_DOCUMENT = 64 << 10
"""Bytes of a file of text from which on it holds more than one document, if blank lines part it: some 20,000 Korean characters,
more than an article has. A book in paragraphs gives as many rows as a book in one piece."""
FEW_FILES = 20
"""Fewer files are too few documents to train on some and hold out others. Of large ones so many are read on."""
_LARGEST_FILE = 4 << 20
"""Bytes of a file of text that is never one document; the longest novels are shorter."""
_WRAPPED, _LONGEST_OF_A_PAGE, _TEXTS = 0.6, 200, 1_000
"""Share of lines nearly as long as the longest, from which on they are lines of a page and not texts, and the characters that
the longest such line has; those that lines have on average, from which on they are texts and not their paragraphs."""
_BYTES_LOOKED_AT, _MOST_BYTES = 1 << 16, 1 << 22
"""Of a file; of one whose first record is longer, or whose first records lack a field."""
_PARQUET_LOOKED_AT = 1 << 28
"""Bytes: the schema of such a file is at its end."""


@dataclass(eq=False)
class File:
    """A file, or a member of an archive."""

    path: Path
    member: str
    """Empty: the file itself."""
    size: float
    tail: str
    """The part of its name that gives format and packing, as it is written: ``.TXT``, ``.jsonl.zst``."""
    begin: bytes = b""
    table: Table = field(default_factory=Table)
    """Of formats that have columns."""
    kind: str = ""
    """Its format, by its name and by what it holds."""
    hidden: bool = False
    """Whether it, or a folder that it is in, has a name that begins with a point."""
    fault: str = ""
    """Why no source can read it, as a relative clause."""

    @property
    def is_empty(self) -> bool:
        """Whether it holds nothing but blanks."""
        return not self.begin.strip() and self.size < _BYTES_LOOKED_AT and not self.fault

    def text(self) -> str:
        """Its first characters, of a long file whole lines, for which it is opened again; line ends are line feeds."""
        begin, limit = self.begin, _BYTES_LOOKED_AT
        if len(begin) == limit:
            limit = _MOST_BYTES
            for raw in open_files([self.path], MemberFilter(literal(self.member) if self.member else "*"), ReadLimits()):
                with suppress(ReadFault):
                    begin = raw.read(limit) if isinstance(raw, RawFile) else begin
        text = whole_lines(begin, cut=len(begin) == limit)
        return text.replace("\r", "" if "\n" in text else "\n").strip()


class Below(NamedTuple):
    """What is below one path or several."""

    files: list[File]
    """Of known formats."""
    members: list[File]
    """Members of archives that no source may read."""
    paths: set[Path]
    """Paths that no source may contain."""
    left_out: Counter[str]
    """Files of no known format, by ending."""


def literal(name: str) -> str:
    """The fnmatch pattern of this name alone."""
    return re.sub(r"([*?[])", r"[\1]", name)


def files_below(paths: Sequence[Path], project: Path) -> Below:
    """The files of known formats below some paths, and what is beside them.

    The store of a new project is one before it exists; other stores are known by their digests.
    """
    found, hidden = Below([], [], {project / SCHEMA, project / STORE}, Counter()), 0
    directory = next((path for path in paths if path.is_dir()), None)
    listing = paths if directory is None else sorted(entries_of(directory))
    stores = {one.parent for one in listing if one.name == ".digests"} | {project / STORE}
    for file in listing:
        name = file.relative_to(directory) if directory else Path(file.name)
        if file.is_dir():
            continue
        ours = file in found.paths or file.name == SCHEMA or stores & set(file.parents)
        if ours or any(part.startswith(".") for part in name.parts):
            found.paths.add(file)
            if directory is None:
                found.left_out[writable(file.name)] += 1
            hidden += not ours
            continue
        if not file.is_file():
            what = "that links to nothing" if not file.exists() else "that is no regular file"
            found.left_out[f"{_label(File(file, '', 0, ''))} {what}"] += 1
            continue
        if (shown := writable(str(file))) != str(file):
            raise RecipeError(f"{shown}: this name is not UTF-8, so that no run can read it; {RENAME}")
        here = list(_opened(file))
        found.files.extend(one for one in here if one.tail)
        found.members.extend(one for one in here if not one.tail and one.member)
        found.left_out.update(_label(one) for one in here if not one.tail and not one.hidden)
        hidden += sum(one.hidden for one in here)
        if not any(one.tail for one in here):
            found.paths.add(file)
    if hidden and not found.files and not found.left_out:
        found.left_out[_HIDDEN] = hidden
    return found


def _label(file: File) -> str:
    name = PurePosixPath(file.member or file.path.name)
    ending = name.name if is_about(name.name) else writable(name.suffix.lower()) or "without an ending"
    nested = " in an archive, which must be unpacked first" if file.member and is_archive(name.name) else ""
    return f"{ending}{nested} {file.fault}".rstrip()


def is_about(name: str) -> bool:
    """Whether a file of this name is about the others."""
    return _ABOUT.fullmatch(name) is not None


def _opened(file: Path) -> Iterator[File]:
    """A file with its first bytes, or the members of an archive."""
    total = file.stat().st_size * PACKED.get(file.suffix.lower(), 1)
    if not is_archive(file.name):
        members = [File(file, "", total, _tail(file.name))]
        if members[0].tail:
            for raw in open_files([file], "*", ReadLimits()):
                _begin(members[0], raw)
        yield from members
        return
    members, faults = [], list[Quarantined]()
    for raw in islice(open_files([file], "*", ReadLimits()), _MEMBERS_LOOKED_AT):
        if isinstance(raw, Quarantined):
            faults.append(raw)  # Of an archive of which something is read the extract stage reports it, with its position.
            continue
        member = raw.name.partition("::")[2]
        hidden = any(part.startswith(".") for part in PurePosixPath(member).parts)
        members.append(File(file, member, total, "" if hidden else _tail(member), hidden=hidden))
        _begin(members[-1], raw)
    if faults and not any(one.tail for one in members):
        yield File(file, "", total, "", fault=_unreadable(faults[0]))
    sizes = dict[str, int]()
    with suppress(zipfile.BadZipFile, OSError):
        if file.suffix.lower() == ".zip":
            sizes = {one.filename: one.file_size for one in zipfile.ZipFile(file).infolist()}
    for one in members:
        short = one.tail and len(one.begin) < _BYTES_LOOKED_AT
        one.size = sizes.get(one.member, len(one.begin) if short else total / len(members))
    yield from members


def _unreadable(fault: ReadFault | Quarantined) -> str:
    """Why nothing of a file can be read, as a relative clause."""
    return "without a file" if fault.reason == "no_members" else f"that cannot be read ({fault.reason}: {fault.remedy})"


def _begin(file: File, raw: RawFile | Quarantined) -> None:
    """Read the first bytes of a file, and the first of its records."""
    if isinstance(raw, Quarantined) or not file.tail:
        return
    ending = ending_of(file.tail)
    file.kind = FORMATS[ending]
    try:
        file.begin = raw.read(_PARQUET_LOOKED_AT if file.kind == "parquet" and file.member else _BYTES_LOOKED_AT)
        if file.kind == "parquet":
            file.table = table_of_parquet(file.begin if file.member else file.path)
        elif file.kind not in ("warc", "wet", "html"):
            _look(file, raw, ending)
    except ReadFault as fault:
        file.fault = "" if file.begin else _unreadable(fault)
    except (pa.ArrowException, OSError):
        cut = file.member and len(file.begin) == _PARQUET_LOOKED_AT
        file.fault = "too large for an archive: unpack it" if cut else "that cannot be read as Parquet"


def _look(file: File, raw: RawFile, ending: str) -> None:
    """Find out what a file of text holds. Raises ReadFault."""
    file.fault = no_text(file.begin)
    cut = len(file.begin) == _BYTES_LOOKED_AT

    @cache
    def longer() -> bytes:
        return file.begin + raw.read(_MOST_BYTES)

    if ending == ".txt":
        file.table = table_of_text(file.begin, cut=cut)
        first = longer() if cut and b"\n" not in file.begin else file.begin
        file.kind = "csv" if file.table.delimiter else format_of(first, cut=cut)
    elif ending == ".xml":
        file.kind = format_of(file.begin, cut=cut)
        file.fault = file.fault or ("that is no dump of MediaWiki" if file.kind in ("text", "json", "jsonl") else "")
    elif file.kind == "jsonl" and is_json_list(file.begin):
        file.kind = "json"
    if file.kind not in ("csv", "json", "jsonl") or file.fault:
        return

    def table(begin: bytes, *, cut: bool, more: bool = False) -> Table:
        if file.kind != "csv":
            return table_of_json(begin, more=more)
        first = file.table.delimiter or ("\t" if ending == ".tsv" else ",")
        return table_of_csv(begin, first=first, cut=cut, more=more)

    file.table = file.table if file.table.delimiter else table(file.begin, cut=cut)
    if file.table.escaped:
        file.fault = r'whose quotation marks within fields are escaped (\") and not doubled ("")'
    if cut and (not file.table.records or file.table.lacking):
        whole = longer()
        cut = len(whole) == _BYTES_LOOKED_AT + _MOST_BYTES
        later = table(whole, cut=cut, more=True)
        file.table = file.table.with_late(later) if file.table.records else table(whole, cut=cut)
        if cut and not file.table.records:
            file.fault = f"whose first {formatted(len(whole))} hold no whole record"


def _tail(name: str) -> str:
    """The part of a file's name that gives its format and packing, as it is written; empty where neither is known.

    An asterisk in it stands for a number.
    """
    last = PurePosixPath(name).name
    if last.startswith(".") or is_about(last):
        return ""
    if re.fullmatch(r"wiki_\d+(\.\w+)?", last):
        return f"{EXTRACTED}*"
    found = _TAIL.search(last)
    return "" if found is None else f"{found[1]}{'-p*' if found[2] else ''}{found[3] or ''}"


def ending_of(tail: str) -> str:
    """The part that gives the format."""
    return next(ending for ending in sorted(FORMATS, key=len, reverse=True) if tail.lower().startswith(ending))


def unit(files: Sequence[File]) -> str:
    """What a document is in files of text: a file, unless these are few or large and blank lines or lines part them."""
    sizes = sorted(file.size for file in files)
    if len(files) >= FEW_FILES and sizes[len(sizes) // 2] < _LONGEST_DOCUMENT and sizes[-1] < _LARGEST_FILE:
        return "file"
    looked_at = files[:: -(-len(files) // FEW_FILES)]
    fewest = max(FEW_FILES, 2 * len(looked_at))
    paragraphs, lines, size = 0, list[int](), 0
    for file in looked_at:
        text = file.text()
        paragraphs += len(re.findall(r"\n[ \t]*\n", text)) + 1
        lines += [len(line) for line in text.split("\n") if line.strip()]
        size += len(text.encode("utf-8", "replace"))
    long = sum(lines) > _TEXTS * len(lines) and len(lines) > 2 * paragraphs
    if paragraphs >= fewest and size < _LONGEST_DOCUMENT * paragraphs and not long:
        return "record"
    longest = max(lines, default=0)
    of_page = longest <= _LONGEST_OF_A_PAGE and sum(n > 0.8 * longest for n in lines) >= _WRAPPED * len(lines)
    if len(lines) >= fewest and not of_page:
        return "line"
    return "record" if sizes[-1] >= _LARGEST_FILE else "file"
