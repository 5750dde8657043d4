"""Files of text below a path, each with its first bytes and records; and what has no known format there."""

from __future__ import annotations

import re
import zipfile
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path, PurePosixPath

from korealbert.artifact.files import entries_of
from korealbert.corpus.readers.records import writable
from korealbert.documents.containers import is_archive, open_files
from korealbert.documents.schema import Quarantined
from korealbert.documents.streams import RawFile, ReadFault, ReadLimits
from korealbert.recipe.columns import Table, table_of_csv, table_of_json, table_of_parquet, table_of_tabs
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
_TAIL = re.compile(rf"({'|'.join(map(re.escape, ENDINGS))})({'|'.join(map(re.escape, PACKED))})?$", re.IGNORECASE)
RENAME = "rename it (convmv -f cp949 -t utf-8 -r --notest DIRECTORY)"
_ABOUT = re.compile(r"(readme|licen[cs]e)([._-]?[a-z]{2})?(\.(txt|md|html?))?", re.IGNORECASE)
"""Names of files about the others: ``README.ko.md``, ``LICENSE``."""
_MEMBERS_LOOKED_AT = 2_000
"""Of one archive; later ones are taken to be like these."""
_BYTES_LOOKED_AT, _BYTES_OF_JSON = 1 << 16, 1 << 22
"""Of a file; of one whose first record is longer."""
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
    damaged: bool = False
    """Whether it cannot be read; the extract stage says why."""

    @property
    def is_empty(self) -> bool:
        """Whether it holds nothing but blanks."""
        return not self.begin.strip() and self.size < _BYTES_LOOKED_AT and not self.damaged


def files_below(path: Path, project: Path) -> tuple[list[File], Counter[str], set[Path]]:
    """The files of known formats below a path, those left out by ending, and paths that no source may contain.

    The store of a new project is one before it exists; other stores are known by their digests.
    """
    found: list[File] = []
    left_out: Counter[str] = Counter()
    listing = sorted(entries_of(path)) if path.is_dir() else [path]
    stores = {one.parent for one in listing if one.name == ".digests"} | {project / STORE}
    other = {project / SCHEMA, project / STORE}
    for file in listing:
        name = file.relative_to(path) if path.is_dir() else Path(file.name)
        if file.is_dir():
            continue
        if file in other or stores & set(file.parents) or any(part.startswith(".") for part in name.parts):
            other.add(file)
            continue
        if not file.is_file():
            what = "that links to nothing" if not file.exists() else "that is no regular file"
            left_out[f"{_label(File(file, '', 0, ''))} {what}"] += 1
            continue
        if (shown := writable(str(file))) != str(file):
            raise RecipeError(f"{shown}: this name is not UTF-8, so that no run can read it; {RENAME}")
        here = list(_opened(file))
        found += [one for one in here if one.tail]
        left_out.update(_label(one) for one in here if not one.tail)
        if not any(one.tail for one in here):
            other.add(file)
    return found, left_out, other


def _label(file: File) -> str:
    name = PurePosixPath(file.member or file.path.name)
    return name.name if _ABOUT.fullmatch(name.name) else writable(name.suffix.lower()) or "without an ending"


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
    members = []
    for raw in islice(open_files([file], "*", ReadLimits()), _MEMBERS_LOOKED_AT):
        member = raw.name.partition("::")[2] if isinstance(raw, RawFile) else ""
        if not member or any(part.startswith((".", "__MACOSX")) for part in PurePosixPath(member).parts):
            continue  # The extract stage reports what cannot be read, with its position.
        members.append(File(file, member, total, _tail(member)))
        _begin(members[-1], raw)
    sizes = dict[str, int]()
    with suppress(zipfile.BadZipFile, OSError):
        if file.suffix.lower() == ".zip":
            sizes = {one.filename: one.file_size for one in zipfile.ZipFile(file).infolist()}
    for one in members:
        short = one.tail and len(one.begin) < _BYTES_LOOKED_AT
        one.size = sizes.get(one.member, len(one.begin) if short else total / len(members))
    yield from members


def _begin(file: File, raw: RawFile | Quarantined) -> None:
    """Read the first bytes of a file, and the first of its records."""
    if isinstance(raw, Quarantined) or not file.tail:
        return
    ending = ending_of(file.tail)
    kind = FORMATS[ending]
    try:
        file.begin = raw.read(_PARQUET_LOOKED_AT if kind == "parquet" and file.member else _BYTES_LOOKED_AT)
        cut = len(file.begin) == _BYTES_LOOKED_AT
        if kind == "parquet":
            file.table = table_of_parquet(file.begin if file.member else file.path)
        elif kind == "csv":
            file.table = table_of_csv(file.begin, first="\t" if ending == ".tsv" else ",", cut=cut)
        elif ending == ".txt":
            file.table = table_of_tabs(file.begin, cut=cut)
        elif kind in ("json", "jsonl"):
            file.table = table_of_json(file.begin)
            if not file.table.records and cut:
                file.table = table_of_json(file.begin + raw.read(_BYTES_OF_JSON))
    except ReadFault:
        file.damaged = True


def _tail(name: str) -> str:
    """The part of a file's name that gives its format and packing, as it is written; empty where neither is known."""
    last = PurePosixPath(name).name
    if last.startswith(".") or _ABOUT.fullmatch(last):
        return ""
    if re.fullmatch(r"wiki_\d+(\.\w+)?", last):
        return EXTRACTED
    found = _TAIL.search(last)
    return found[0] if found else ""


def ending_of(tail: str) -> str:
    """The part that gives the format."""
    return next(ending for ending in sorted(FORMATS, key=len, reverse=True) if tail.lower().startswith(ending))
