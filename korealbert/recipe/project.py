"""A new project: a recipe for the user's own files, after a look at them.

Nothing is asked. Formats follow from names and first bytes, columns from the first records; vocabulary, steps and batches from
the size of the text and the number of cores. The recipe can be run at once, and its comments give the reason of each choice.
"""

from __future__ import annotations

import csv
import json
import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import Any

import jinja2
import pyarrow as pa
import pyarrow.parquet as pq

from korealbert.artifact import Store
from korealbert.artifact.files import atomic_write
from korealbert.documents.containers import is_archive, open_files
from korealbert.documents.schema import Quarantined
from korealbert.documents.streams import ReadLimits
from korealbert.recipe.planning import prepare
from korealbert.recipe.pricing import PACKED
from korealbert.recipe.reference import json_schema
from korealbert.recipe.tables import RecipeError

RECIPE = "recipe.toml"
_SCHEMA = "recipe.schema.json"
"""The file that ``korealbert run`` takes where none is named, and the one that its first line names for editors."""

_EXTRACTED = "wiki_"
"""How the files of WikiExtractor begin, which have no ending."""
_FORMATS = {
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
    _EXTRACTED: "wikiextractor",
}
_FILES_LOOKED_AT, _BYTES_LOOKED_AT, _RECORDS_LOOKED_AT = 200, 1 << 18, 100
_NAMUWIKI = {"namespace", "title", "text"}
"""Fields of the records of NamuWiki's dumps."""
_PARQUET_LOOKED_AT = 1 << 28
"""Bytes: the schema of such a file is at its end."""
_FIELDS: Mapping[str, tuple[str, ...]] = {
    "title": ("title", "headline", "subject", "제목", "기사제목"),
    "outlet": ("outlet", "publisher", "source", "언론사"),
    "category": ("category", "section", "topic", "분류"),
    "url": ("url", "link", "주소"),
    "published": ("published", "date", "created_at", "작성일", "날짜"),
    "id": ("id", "doc_id"),
}
_LONGEST_DOCUMENT = 4 << 20
"""Bytes: a larger file of text holds many documents, which nothing but blank lines parts; the longest novels are shorter."""
_BYTES_PER_PIECE = 4.5
"""Of Korean text in UTF-8 under a vocabulary of 8,000."""
_VOCABULARIES = ((3e8, 32_000), (3e7, 16_000), (4e6, 8_000), (1e6, 4_000), (3e5, 2_000))
"""From so many bytes of text on, so many pieces."""
_SECONDS, _MOST_EPOCHS = 600, 20
"""Of pretraining, at most, for a first model on this machine."""
_LENGTH = 64


@dataclass(frozen=True)
class Source:
    """Files of one format below one path."""

    name: str
    format: str
    path: Path
    members: str = "*"
    fields: Mapping[str, str] = field(default_factory=dict)
    """Columns of records by their role; an empty name: there is none."""
    delimiter: str = ""
    """Between columns; empty: the format's own."""
    markdown: bool = False
    encoding: str = "utf-8"

    @property
    def paragraphs(self) -> bool:
        """Whether files of text are so large that paragraphs must be the documents."""
        return any(_size(path) > _LONGEST_DOCUMENT for path in _files(self) if not is_archive(path.name))


def told(source: Source) -> str:
    """A source as people read it: its name, format and place, how many files, and the unit of a document."""
    files = [_size(path) for path in _files(source)]
    count = f"{len(files):,} file{'s' * (len(files) != 1)}, {sum(files) / 1e6:,.1f} MB"
    each = f", a document is a {'paragraph' if source.paragraphs else 'file'}" if source.format == "text" else ""
    return f"{source.name}: {source.format}, {source.path}: {count}{each}"


def look(paths: Sequence[Path]) -> list[Source]:
    """Sources in files and directories: one for each path and format. Raises RecipeError where nothing can be read."""
    found: list[Source] = []
    for path in paths:
        if not path.exists():
            raise RecipeError(f"{path}: no such file or directory")
        here = list(_sources(path.resolve(), taken={source.name for source in found}))
        if not here:
            raise RecipeError(f"{path}: holds no file of a known format; known are {', '.join(sorted(_FORMATS))}")
        found += here
    return found


def _sources(path: Path, taken: set[str]) -> Iterator[Source]:
    first: dict[str, bytes] = {}
    seen: Counter[str] = Counter()
    for raw in islice(open_files([path], "*", ReadLimits()), _FILES_LOOKED_AT):
        if isinstance(raw, Quarantined) or not (tail := _tail(raw.name)):
            continue
        seen[tail] += 1
        if not first.get(tail):
            first[tail] = b""
            with suppress(Exception):  # The extract stage reports unreadable records with their position.
                first[tail] = raw.read(_PARQUET_LOOKED_AT if tail.startswith(".parquet") else _BYTES_LOOKED_AT)
    several = path.is_dir() or is_archive(path.name)
    for tail in sorted(seen):
        kind = _FORMATS[_ending(tail)]
        name = _name(path.name if len(seen) == 1 else f"{path.name.split('.')[0]}-{_ending(tail).strip('._')}", taken)
        taken.add(name)
        delimiter = "\t" if _ending(tail) == ".tsv" else ""
        records = _records(kind, first[tail], delimiter or ",")
        if kind == "json" and records and records[0].keys() >= _NAMUWIKI:
            kind, records = "namuwiki", []
        members = f"*{tail}" + "*" * (tail == _EXTRACTED) if several else "*"
        yield Source(name, kind, path, members, _columns(records), delimiter, _ending(tail) == ".md", _encoding(first[tail]))


def _tail(name: str) -> str:
    """The part of a file's name that gives its format and packing, ``.jsonl.zst``; empty where neither is known."""
    last = PurePosixPath(name).name.lower()
    if last.startswith((".", "readme", "license")):
        return ""
    if re.fullmatch(r"wiki_\d+(\.\w+)?", last):
        return _EXTRACTED
    found = re.search(rf"({'|'.join(map(re.escape, _FORMATS))})({'|'.join(map(re.escape, PACKED))})?$", last)
    return found[0] if found else ""


def _ending(tail: str) -> str:
    """The part that gives the format."""
    return next(ending for ending in sorted(_FORMATS, key=len, reverse=True) if tail.startswith(ending))


def _name(written: str, taken: set[str]) -> str:
    """A name of a source as recipes allow it, which no other source has."""
    stem = unicodedata.normalize("NFKC", written).split(".")[0].lower()
    name = re.sub(r"[^a-z0-9_-]+", "-", stem).strip("-_") or "source"
    numbered = (f"{name}-{number}" for number in range(2, len(taken) + 3))
    return name if name not in taken else next(n for n in numbered if n not in taken)


def _encoding(begin: bytes) -> str:
    if begin.startswith(b"PAR1"):
        return "utf-8"
    try:
        begin[: -1 - 3].decode("utf-8")  # The last character may be cut.
    except UnicodeDecodeError as error:
        return "auto" if error.start < len(begin) - 8 else "utf-8"
    return "utf-8"


def _records(kind: str, begin: bytes, delimiter: str) -> list[dict[str, Any]]:
    """The first records, for formats that have fields."""
    if kind not in ("jsonl", "json", "csv", "parquet"):
        return []
    if kind == "parquet":
        with suppress(pa.ArrowException):
            return list(next(pq.ParquetFile(pa.BufferReader(begin)).iter_batches(_RECORDS_LOOKED_AT)).to_pylist())
        return []
    text = begin.decode("cp949" if _encoding(begin) == "auto" else "utf-8-sig", "replace")
    if kind == "csv":
        return list(islice(csv.DictReader(text.splitlines(), delimiter=delimiter), _RECORDS_LOOKED_AT))
    return list(_objects(text))


def _columns(records: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Fields or columns by meaning: the longest text is the text."""
    lengths: Counter[str] = Counter()
    for record in records:
        lengths.update({str(key): len(value) for key, value in record.items() if isinstance(value, str)})
    if not lengths:
        return {}
    text = next((name for name in ("text", "본문") if lengths[name]), lengths.most_common(1)[0][0])
    known = {key for record in records for key in record}
    roles = {role: next((name for name in names if name in known and name != text), "") for role, names in _FIELDS.items()}
    return {"text": text, **roles}


def _objects(text: str) -> Iterator[dict[str, Any]]:
    """The first whole JSON objects of a list, or of lines."""
    decoder, position = json.JSONDecoder(), 0
    for _ in range(_RECORDS_LOOKED_AT):
        position = text.find("{", position)
        if position < 0:
            return
        try:
            value, position = decoder.raw_decode(text, position)
        except ValueError:
            return
        if isinstance(value, dict):
            yield value


def _files(source: Source) -> Iterator[Path]:
    files = source.path.rglob("*") if source.path.is_dir() else [source.path]
    return (p for p in files if p.is_file() and (p == source.path or fnmatchcase(p.name, source.members)))


def _size(path: Path) -> int:
    """Approximate bytes of text in a file; compressed bytes count several times."""
    return path.stat().st_size * PACKED.get(path.suffix.lower(), 1)


def _settings(sources: Sequence[Source], share: float = 1.0) -> dict[str, Any]:
    """Settings that follow from the size of the text; ``share`` of the steps that it would be worth."""
    size = sum(_size(path) for source in sources for path in _files(source))
    batch = 16 if size < 1e6 else 32
    per_step, pieces = batch * _LENGTH, max(1.0, size / _BYTES_PER_PIECE)
    steps = max(50, round(share * _MOST_EPOCHS * pieces / per_step))
    epochs = steps * per_step / pieces
    return {
        "megabytes": f"{size / 1e6:,.1f}",
        "vocabulary": next((pieces for least, pieces in _VOCABULARIES if size >= least), 500),
        "heldout": 0.05 if size < 1e6 else 0.005,
        "length": _LENGTH,
        "batch": batch,
        "steps": steps,
        "epochs": f"{epochs:,.1f}",
        "views": max(1, min(4, round(epochs))),
    }


def _quoted(value: str) -> str:
    """A basic string of TOML, which is one of JSON."""
    return json.dumps(value, ensure_ascii=False)


def write(directory: Path, paths: Sequence[Path]) -> list[Source]:
    """Make a directory with a recipe for these files and a ``.gitignore``; returns the sources found.

    Raises RecipeError where the directory holds a recipe already, or nothing can be read.
    """
    if (directory / RECIPE).exists():
        raise RecipeError(f"{directory / RECIPE} exists; name another directory")
    sources = look(paths)
    loader = jinja2.PackageLoader(__package__)
    templates = jinja2.Environment(loader=loader, trim_blocks=True, lstrip_blocks=True, autoescape=False)  # noqa: S701 (TOML)
    templates.filters["quoted"] = _quoted
    template = templates.get_template(RECIPE)

    def write_recipe(share: float) -> None:
        text = template.render(name=directory.resolve().name, sources=sources, **_settings(sources, share))
        atomic_write(directory / RECIPE, text.encode())

    directory.mkdir(parents=True, exist_ok=True)
    atomic_write(directory / _SCHEMA, json.dumps(json_schema(), ensure_ascii=False).encode())
    if not (directory / ".gitignore").exists():
        atomic_write(directory / ".gitignore", b"store/\n")
    write_recipe(1.0)
    planned = prepare(directory / RECIPE, Store(directory / "store")).planned
    costs = [stage.cost for stage in planned if stage.label == "pretrain" and stage.cost is not None]
    if costs and (seconds := costs[0].seconds or 0.0) > _SECONDS:
        write_recipe(_SECONDS / seconds)
    return sources
