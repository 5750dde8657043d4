"""The files of known formats below a path, each with its first bytes and records, and the files that are left out."""

from __future__ import annotations

import codecs
import glob
import re
import zipfile
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import NamedTuple

import pyarrow as pa

from korealbert.artifact.files import DIGESTS, entries_of
from korealbert.corpus.readers.records import writable
from korealbert.corpus.readers.spec import DUMP_PART, is_note
from korealbert.corpus.readers.text import MARKDOWN_ENDINGS, PLAIN_ENDINGS, SUBTITLE_ENDINGS, is_subtitles
from korealbert.documents.containers import MemberFilter, is_archive, is_hidden, member_of, open_files
from korealbert.documents.schema import Quarantined
from korealbert.documents.streams import RawFile, ReadFault, ReadLimits
from korealbert.formatting import size as formatted
from korealbert.recipe.new.delimited import table_of_csv, table_of_text
from korealbert.recipe.new.formats import decoded, decoding_fault, format_of, is_json_list, whole_lines
from korealbert.recipe.new.tables import Table, table_of_arrow, table_of_json, table_of_parquet
from korealbert.recipe.tables import RecipeError
from korealbert.recipe.work import PACKED

SCHEMA, STORE = "recipe.schema.json", "store"
"""Names that ``new`` and ``run`` write beside a recipe."""
_WIKI_PREFIX = "wiki_"
"""Beginning of the names of WikiExtractor's files, which have no ending."""
_FORMATS = {
    **dict.fromkeys((*PLAIN_ENDINGS, *MARKDOWN_ENDINGS, *SUBTITLE_ENDINGS), "text"),
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "json",
    ".csv": "csv",
    ".tsv": "csv",
    ".parquet": "parquet",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".xml": "mediawiki",
    ".html": "html",
    ".htm": "html",
    ".warc": "warc",
    ".wet": "wet",
    _WIKI_PREFIX: "wikiextractor",
}
ENDINGS = tuple(ending for ending in _FORMATS if ending != _WIKI_PREFIX)
_TAIL = re.compile(rf"({'|'.join(map(re.escape, ENDINGS))})({DUMP_PART})?({'|'.join(map(re.escape, PACKED))})?$", re.IGNORECASE)
RENAME = "rename it (convmv -f cp949 -t utf-8 -r --notest DIRECTORY)"
_MAX_MEMBERS = 2_000
"""Members of one archive that are looked at; later ones are taken to be alike."""
_MAX_DOCUMENT_BYTES = 64 << 10
"""A text with blank lines holds several documents if it is longer: some 20,000 Korean characters, more than an article has. A
book in paragraphs gives as many rows as a book in one piece."""
MIN_DOCUMENTS = 20
"""Fewer documents are too few to train on some and hold out others. Also the number of files read to find paragraphs."""
MAX_ARTICLE_LINES = 40
"""Each of several short files with fewer lines or paragraphs, on average, is one text: 99 % of 1,200 news articles
have at most 41 sentences."""
_MAX_ONE_DOCUMENT = 4 << 20
"""Bytes of the longest file that may be one document; the longest novels are shorter."""
_MIN_WRAPPED_SHARE, _MAX_WRAPPED_CHARACTERS = 0.6, 200
"""Lines belong to a wrapped page if this share is nearly as long as the longest, which has no more characters than this, and
most end within a sentence."""
_SENTENCE_END = re.compile(r"([.!?…。！？]|[다요죠까])[\"'”’」』)\]]*$")
_WHITE_SPACE = codecs.BOM_UTF8 + codecs.BOM_UTF16 + b"\0 \t\r\n\v\f"
"""Bytes of white space and of byte order marks, in UTF-8 or UTF-16."""
_MIN_TEXT_CHARACTERS = 1_000
"""Lines with more characters on average are whole texts rather than their paragraphs."""
_SAMPLE_BYTES, _MAX_SAMPLE_BYTES = 1 << 16, 1 << 22
"""Bytes read of a file, and of one whose first record is longer or whose first records lack a text."""
_MAX_COLUMNAR_BYTES = 1 << 28
"""Bytes read of a Parquet or Arrow file in an archive: the schema of Parquet is at its end."""


@dataclass(eq=False)
class File:
    """A file, or a member of an archive."""

    path: Path
    member: str
    """Empty for a file that is no archive."""
    size: float
    tail: str
    """The part of its name that gives format and packing, as written: ``.TXT``, ``.jsonl.zst``. Empty if neither is known."""
    begin: bytes = b""
    table: Table = field(default_factory=Table)
    """Its first records, if its format has columns."""
    kind: str = ""
    """Its format, by name and content."""
    fault: str = ""
    """Why no source can read it, as a phrase to follow its name."""

    @property
    def is_empty(self) -> bool:
        """Whether it holds only white space and perhaps a byte order mark."""
        return not self.begin.strip(_WHITE_SPACE) and self.size < _SAMPLE_BYTES and not self.fault

    def text(self) -> str:
        """Return its first characters with line feeds as line ends. A long file is opened again to read more of it."""
        begin, limit = self.begin, _SAMPLE_BYTES
        if len(begin) == limit:
            limit = _MAX_SAMPLE_BYTES
            for raw in open_files([self.path], MemberFilter(glob.escape(self.member) if self.member else "*"), ReadLimits()):
                with suppress(ReadFault):
                    begin = raw.read(limit) if isinstance(raw, RawFile) else begin
        text = whole_lines(begin, cut=len(begin) == limit)
        return text.replace("\r", "" if "\n" in text else "\n").strip()


class FilesBelow(NamedTuple):
    """What is below one path or several."""

    files: list[File]
    """Files of known formats."""
    other_members: list[File]
    """Members of archives that no source may read."""
    other_paths: set[Path]
    """Paths that no source may contain."""
    left_out: Counter[str]
    """Files of no known format, counted by ending."""


def files_below(paths: Sequence[Path], project: Path) -> FilesBelow:
    """Return the files below one directory, or of some files, with their first bytes read.

    Stores are skipped: that of the project even before it exists, others if they have a directory of digests.
    """
    found, hidden = FilesBelow([], [], {project / SCHEMA, project / STORE}, Counter()), 0
    directory = next((path for path in paths if path.is_dir()), None)
    listing = paths if directory is None else sorted(entries_of(directory))
    stores = {one.parent for one in listing if one.name == DIGESTS} | {project / STORE}
    for file in listing:
        name = file.relative_to(directory) if directory else Path(file.name)
        if file.is_dir():
            continue
        ours = file in found.other_paths or file.name == SCHEMA or stores & set(file.parents)
        if ours or is_hidden(name.as_posix()):
            found.other_paths.add(file)
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
        here = _opened(file)
        found.files.extend(one for one in here if one.tail)
        found.other_members.extend(one for one in here if not one.tail and one.member)
        found.left_out.update(_label(one) for one in here if not one.tail)
        if not any(one.tail for one in here):
            found.other_paths.add(file)
    if hidden and not found.files and not found.left_out:
        found.left_out["hidden, as their names or folders begin with a dot"] = hidden
    return found


def _label(file: File) -> str:
    """Name what a left-out file is: its ending, or its whole name if that says more, and its fault."""
    name = PurePosixPath(file.member or file.path.name)
    ending = name.name if is_note(name.name) else writable(name.suffix.lower()) or "without an ending"
    nested = " in an archive, which must be unpacked first" if file.member and is_archive(name.name) else ""
    return f"{ending}{nested} {file.fault}".rstrip()


def _opened(file: Path) -> list[File]:
    """Return a file, or the members of an archive, with their first bytes read."""
    total = file.stat().st_size * PACKED.get(file.suffix.lower(), 1)
    if not is_archive(file.name):
        whole = File(file, "", total, _tail(file.name))
        if whole.tail:
            for raw in open_files([file], "*", ReadLimits()):
                _read_begin(whole, raw)
        return [whole]
    members, faults = list[File](), list[Quarantined]()
    for raw in islice(open_files([file], "*", ReadLimits()), _MAX_MEMBERS):
        member = member_of(file, raw.file if isinstance(raw, Quarantined) else raw.name)
        if isinstance(raw, Quarantined) and not (raw.reason == "packed_file" and is_archive(member)):
            faults.append(raw)
            continue
        members.append(File(file, member, total, _tail(member)))
        _read_begin(members[-1], raw)
    sizes = dict[str, int]()
    with suppress(zipfile.BadZipFile, OSError):
        if file.suffix.lower() == ".zip":
            sizes = {one.filename: one.file_size for one in zipfile.ZipFile(file).infolist()}
    for one in members:
        short = one.tail and len(one.begin) < _SAMPLE_BYTES
        one.size = sizes.get(one.member, len(one.begin) if short else total / len(members))
    if faults and not any(one.tail for one in members):  # Otherwise the extract stage reports faults with their position.
        return [File(file, "", total, "", fault=_unreadable(faults[0])), *members]
    return members


def _unreadable(fault: ReadFault | Quarantined) -> str:
    """Return why nothing of a file can be read, as a phrase to follow its name."""
    return (
        "without a file, apart from hidden ones"
        if fault.reason == "no_members"
        else f"that cannot be read ({fault.reason}: {fault.remedy})"
    )


def _read_begin(file: File, raw: RawFile | Quarantined) -> None:
    """Read the first bytes and records of a file of a known format."""
    if isinstance(raw, Quarantined) or not file.tail:
        return
    ending = ending_of(file.tail)
    file.kind = _FORMATS[ending]
    try:
        columnar = file.kind in ("parquet", "arrow")
        file.begin = raw.read(_MAX_COLUMNAR_BYTES if columnar and file.member else _SAMPLE_BYTES)
        if columnar:
            table_of = table_of_parquet if file.kind == "parquet" else table_of_arrow
            file.table = table_of(file.begin if file.member else file.path)
        elif file.kind not in ("warc", "wet", "html"):
            _read_text(file, raw, ending)
    except ReadFault as fault:
        file.fault = "" if file.begin else _unreadable(fault)
    except (pa.ArrowException, OSError):
        cut = file.member and len(file.begin) == _MAX_COLUMNAR_BYTES
        file.fault = "too large for an archive: unpack it" if cut else f"that cannot be read as {file.kind.capitalize()}"


def _read_text(file: File, raw: RawFile, ending: str) -> None:
    """Find the format and the first records of a text file. Raises ReadFault."""
    file.fault = decoding_fault(file.begin)
    cut = len(file.begin) == _SAMPLE_BYTES

    @cache
    def longer() -> bytes:
        return file.begin + raw.read(_MAX_SAMPLE_BYTES)

    if ending in PLAIN_ENDINGS:
        file.table = table_of_text(file.begin, cut=cut)
        first = longer() if cut and b"\n" not in file.begin else file.begin
        file.kind = "csv" if file.table.delimiter else format_of(first, cut=cut)
    elif ending == ".xml":
        file.kind = format_of(file.begin, cut=cut)
        file.fault = file.fault or ("that is no dump of MediaWiki" if file.kind in ("text", "json", "jsonl") else "")
    elif ending in SUBTITLE_ENDINGS and not file.is_empty and not is_subtitles(decoded(file.begin)):
        file.fault = file.fault or "without times of subtitles"
    elif file.kind == "jsonl" and is_json_list(file.begin):
        file.kind = "json"
    if file.kind not in ("csv", "json", "jsonl") or file.fault:
        return

    def table(begin: bytes, *, cut: bool, more: bool = False) -> Table:
        if file.kind != "csv":
            return table_of_json(begin, more=more)
        preferred = file.table.delimiter or ("\t" if ending == ".tsv" else ",")
        return table_of_csv(begin, preferred=preferred, cut=cut, more=more)

    file.table = file.table if file.table.delimiter else table(file.begin, cut=cut)
    if file.table.escaped:
        file.fault = r'whose quotation marks within fields are escaped (\") and not doubled ("")'
    if cut and (not file.table.records or file.table.empty_bodies):
        whole = longer()
        cut = len(whole) == _SAMPLE_BYTES + _MAX_SAMPLE_BYTES
        later = table(whole, cut=cut, more=True)
        file.table = file.table.extended(later) if file.table.records else table(whole, cut=cut)
        if cut and not file.table.records:
            file.fault = f"whose first {formatted(len(whole))} hold no whole record"


def _tail(name: str) -> str:
    """Return the part of a file's name that gives its format and packing, or "". An asterisk in it stands for a number."""
    last = PurePosixPath(name).name
    if last.startswith(".") or is_note(last):
        return ""
    if re.fullmatch(r"wiki_\d+(\.\w+)?", last):
        return f"{_WIKI_PREFIX}*"
    found = _TAIL.search(last)
    return "" if found is None else f"{found[1]}{'-p*' if found[2] else ''}{found[3] or ''}"


def ending_of(tail: str) -> str:
    """Return the part of a tail that gives the format, a key of ``_FORMATS``."""
    return next(ending for ending in sorted(_FORMATS, key=len, reverse=True) if tail.lower().startswith(ending))


def units(texts: Mapping[str, Sequence[File]]) -> dict[str, str]:
    """Return by ending what a document is in text files. A few files beside many short ones of other endings are like these.

    A file of subtitles is a document however few there are: its blank lines separate sentences. Empty files say nothing.
    """
    filled = {tail: [file for file in files if not file.is_empty] or files for tail, files in texts.items()}
    others = {tail: files for tail, files in filled.items() if ending_of(tail) not in SUBTITLE_ENDINGS}
    like = "file" if _are_many_short([file for files in others.values() for file in files]) else ""
    return dict.fromkeys(texts, "file") | {tail: like or _unit(files) for tail, files in others.items()}


def _unit(files: Sequence[File]) -> str:
    """Return what a document is in text files: "file", or "record" (a paragraph) or "line" if the files are few or large."""
    if _are_many_short(files):
        return "file"
    sample = files[:: -(-len(files) // MIN_DOCUMENTS)]
    articles = len(files) > 1 and _median(files) < _MAX_DOCUMENT_BYTES
    fewest = max(MIN_DOCUMENTS, (MAX_ARTICLE_LINES if articles else 2) * len(sample))
    paragraphs, lines, ends, size = 0, list[int](), 0, 0
    for file in sample:
        text = file.text()
        paragraphs += len(re.findall(r"\n[ \t]*\n", text)) + 1
        here = [line for line in text.split("\n") if line.strip()]
        lines += map(len, here)
        ends += sum(_SENTENCE_END.search(line.rstrip()) is not None for line in here)
        size += len(text.encode("utf-8", "replace"))
    lines_are_texts = sum(lines) > _MIN_TEXT_CHARACTERS * len(lines) and len(lines) > 2 * paragraphs
    if paragraphs >= fewest and size < _MAX_DOCUMENT_BYTES * paragraphs and not lines_are_texts:
        return "record"
    longest = max(lines, default=0)
    nearly_longest = sum(length > 0.8 * longest for length in lines)
    wrapped = longest <= _MAX_WRAPPED_CHARACTERS and nearly_longest >= _MIN_WRAPPED_SHARE * len(lines) and 2 * ends < len(lines)
    if len(lines) >= fewest and not wrapped:
        return "line"
    return "record" if max(file.size for file in files) >= _MAX_ONE_DOCUMENT else "file"


def _are_many_short(files: Sequence[File]) -> bool:
    """Return whether there are enough files to train on, at least half of them short and none very long."""
    if len(files) < MIN_DOCUMENTS or max(file.size for file in files) >= _MAX_ONE_DOCUMENT:
        return False
    return _median(files) < _MAX_DOCUMENT_BYTES


def _median(files: Sequence[File]) -> float:
    """Return the median size of files in bytes."""
    return sorted(file.size for file in files)[len(files) // 2]
