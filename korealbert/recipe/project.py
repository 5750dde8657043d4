"""A new project: a recipe for the user's own files, after a look at what they are.

Nothing is asked. Formats follow from names and first bytes, columns from the first records; vocabulary, steps and batches from
the size of the text and the number of cores. What is written can be run at once, and says of each choice why.
"""

from __future__ import annotations

import csv
import json
import os
import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import Any

from korealbert.artifact import Store
from korealbert.artifact.files import atomic_write
from korealbert.documents.containers import is_archive, open_files
from korealbert.documents.schema import Quarantined
from korealbert.documents.streams import RawFile, ReadLimits
from korealbert.recipe.planning import prepare
from korealbert.recipe.tables import RecipeError

RECIPE = "recipe.toml"
"""The file that ``korealbert run`` takes where none is named."""

_FORMATS = {
    ".txt": "text",
    ".md": "text",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "json",
    ".csv": "books",
    ".tsv": "books",
    ".xml": "mediawiki",
    ".html": "html",
    ".htm": "html",
    ".warc": "warc",
}
_PACKED = {".gz": 3, ".zst": 4, ".bz2": 4, ".xz": 4, ".zip": 3, ".tgz": 3}
"""Endings of packed files, and how many times as long their text is, about."""
_FILES_LOOKED_AT, _BYTES_LOOKED_AT, _RECORDS_LOOKED_AT = 200, 1 << 18, 100
_FIELDS: Mapping[str, tuple[str, ...]] = {
    "title": ("title", "headline", "subject", "제목", "기사제목"),
    "outlet": ("outlet", "publisher", "source", "언론사"),
    "category": ("category", "section", "topic", "분류"),
    "url": ("url", "link", "주소"),
    "published": ("published", "date", "created_at", "작성일", "날짜"),
    "id": ("id", "doc_id"),
}
_BYTES_PER_CHARACTER, _CHARACTERS_PER_PIECE = 2.6, 2.2
"""Of Korean prose in UTF-8, with its spaces and digits; and of pieces of a vocabulary of 8,000."""
_PIECES_PER_SECOND = 7_000
"""That the small model trains on one core; see docs/results.md."""
_SECONDS = 1_200
"""Of pretraining that a first model is worth."""
_MOST_EPOCHS = 30
_BATCH, _LENGTH = 32, 128


@dataclass(frozen=True)
class Source:
    """Files of one format below one path."""

    name: str
    format: str
    path: Path
    members: str = "*"
    files: int = 1
    """Looked at."""
    fields: Mapping[str, str] = field(default_factory=dict)
    """Columns of records by their role; an empty name: there is none."""


def look(paths: Sequence[Path]) -> list[Source]:
    """What lies in files and directories: a source for each path and format. Raises RecipeError where nothing can be read."""
    found: list[Source] = []
    for path in paths:
        if not path.exists():
            raise RecipeError(f"{path}: no such file or directory")
        here = list(_sources(path.resolve(), taken={source.name for source in found}))
        if not here:
            raise RecipeError(f"{path}: holds no file of a known format; known endings are {', '.join(sorted(_FORMATS))}")
        found += here
    return found


def _sources(path: Path, taken: set[str]) -> Iterator[Source]:
    first: dict[str, bytes] = {}
    endings: Counter[str] = Counter()
    for raw in islice(open_files([path], "*", ReadLimits()), _FILES_LOOKED_AT):
        ending = _ending(raw.name) if isinstance(raw, RawFile) else ""
        if isinstance(raw, Quarantined) or PurePosixPath(raw.name).name.startswith(".") or _format(ending, raw.name) is None:
            continue
        endings[ending] += 1
        if ending not in first:
            with suppress(Exception):  # What cannot be read now is told of by the extract stage, with its position.
                first[ending] = raw.read(_BYTES_LOOKED_AT)
    whole = path.is_dir() or is_archive(path.name)
    for ending, files in endings.items():
        kind = _format(ending, ending or "wiki_00")
        assert kind is not None
        name = _name(path.name if len(endings) == 1 else f"{path.name}-{ending.lstrip('.')}", taken)
        taken = {*taken, name}
        columns = _columns(kind, first.get(ending, b""), "\t" if ending == ".tsv" else ",")
        members = f"*{ending}*" if whole and len(endings) > 1 else "*"
        yield Source(name, kind, path, members, files, columns)


def _ending(name: str) -> str:
    """The ending that tells the format: ``.jsonl`` of ``a.jsonl.zst``."""
    suffixes = [suffix.lower() for suffix in PurePosixPath(name).suffixes]
    return next((suffix for suffix in reversed(suffixes) if suffix not in _PACKED and suffix in _FORMATS), "")


def _format(ending: str, name: str) -> str | None:
    extracted = re.fullmatch(r"wiki_\d+(\.\w+)?", PurePosixPath(name).name)
    return "wikiextractor" if extracted else _FORMATS.get(ending)


def _name(written: str, taken: set[str]) -> str:
    """A name of a source as recipes allow it, which no other source has."""
    stem = unicodedata.normalize("NFKC", written).split(".")[0].lower()
    name = re.sub(r"[^a-z0-9_-]+", "-", stem).strip("-_") or "source"
    numbered = (f"{name}-{number}" for number in range(2, len(taken) + 3))
    return name if name not in taken else next(n for n in numbered if n not in taken)


def _columns(kind: str, begin: bytes, delimiter: str) -> dict[str, str]:
    """Which field or column holds what: the longest text is the text. Empty for formats without any."""
    if kind not in ("jsonl", "json", "books"):
        return {}
    lines = begin.decode("utf-8-sig", "replace").splitlines()
    records: list[dict[str, Any]] = []
    if kind == "books":
        records = list(islice(csv.DictReader(lines, delimiter=delimiter), _RECORDS_LOOKED_AT))
    else:
        for text in _objects("\n".join(lines)):
            records.append(text)
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


def _bytes(source: Source) -> int:
    """Bytes of text below a path, about; what is packed counts several times."""
    files = [source.path] if source.path.is_file() else [p for p in source.path.rglob("*") if p.is_file()]
    ending = source.members.strip("*")
    return sum(p.stat().st_size * _PACKED.get(p.suffix.lower(), 1) for p in files if ending in p.name)


@dataclass(frozen=True)
class _Sizes:
    """What follows from the size of the text and the machine."""

    megabytes: float
    vocabulary: int
    steps: int
    epochs: float
    minutes: float


def _sizes(size: int, cores: int) -> _Sizes:
    pieces = size / _BYTES_PER_CHARACTER / _CHARACTERS_PER_PIECE
    limits = ((3e8, 32_000), (3e7, 16_000), (4e6, 8_000), (1e6, 4_000), (3e5, 2_000))
    vocabulary = next((words for least, words in limits if size >= least), 500)
    affordable = _SECONDS * _PIECES_PER_SECOND * cores / (_BATCH * _LENGTH)
    steps = max(50, round(min(affordable, _MOST_EPOCHS * pieces / (_BATCH * _LENGTH)), -1))
    trained = steps * _BATCH * _LENGTH
    return _Sizes(size / 1e6, vocabulary, int(steps), trained / max(pieces, 1), trained / _PIECES_PER_SECOND / cores / 60)


def _text(name: str, sources: Sequence[Source], sizes: _Sizes) -> str:
    quoted = lambda value: json.dumps(value, ensure_ascii=False)  # noqa: E731 (TOML's basic strings are JSON's)
    lines = [
        f"# {name}: {sizes.megabytes:,.1f} MB of text, about. Every field has a default; docs/recipes.md lists them all.",
        f"name = {quoted(name)}",
    ]
    for source in sources:
        lines += ["", f"[extract.{source.name}]", f"format = {quoted(source.format)}"]
        lines += [f"paths = [{quoted(str(source.path))}]"]
        if source.members != "*":
            lines += [f"members = {quoted(source.members)}          # of what lies there, these files"]
        if source.format == "text":
            lines += ['document = "file"              # one document a file; "record": one a paragraph']
        if source.path.suffix == ".tsv":
            lines += ['delimiter = "\\t"']
        if source.fields:
            columns = ", ".join(f"{role} = {quoted(column)}" for role, column in source.fields.items())
            lines += [f"fields = {{ {columns} }}   # which column holds what"]
        lines += ['license = ""                   # terms under which the text may be used']
        lines += ["", f"[clean.{source.name}.limits]", "min_characters = 100           # shorter documents are dropped"]
    few = sizes.megabytes < 1
    lines += [
        *("", "[vocab]", f"size = {sizes.vocabulary}", "at_most = true                 # fewer pieces where the text gives no more"),
        *("", "[examples]", f"sequence_length = {_LENGTH}", f"heldout_share = {0.05 if few else 0.01}           # rows for scores"),
        *("", "[views]", f"views = {4 if few else 1}                        # different noise for so many epochs"),
        *("", "[pretrain]", f"steps = {sizes.steps}                     # {sizes.epochs:,.1f} passes, {sizes.minutes:,.0f} minutes"),
        *(f"global_batch_size = {_BATCH}", f"micro_batch_size = {_BATCH}"),
        *(f"log_every = {max(1, sizes.steps // 50)}", f"heldout_every = {max(1, sizes.steps // 10)}"),
        f"checkpoint_every = {max(1, sizes.steps // 10)}          # what a killed run loses at most",
        *("", "[pretrain.model]                # a small ALBERT", "embedding_size = 64", "hidden_size = 192"),
        *("num_layers = 4", "num_heads = 6"),
        *("", "[pretrain.optimizer]", 'name = "adamw"', "lr = 1e-3"),
        *("", "[export]", f"title = {quoted(name)}"),
        *("", "# A benchmark, measured with and without this pretraining, is a table; docs/evaluation.md lists them:"),
        *("# [finetune.nsmc]", '# train = "ratings_train.txt"', '# test = "ratings_test.txt"', "# seeds = [1, 2, 3]"),
    ]
    return "\n".join(lines) + "\n"


def write(directory: Path, paths: Sequence[Path]) -> list[Source]:
    """Make a directory with a recipe for these files and a ``.gitignore``; returns the sources found.

    Raises RecipeError where the directory holds a recipe already, or nothing can be read.
    """
    if (directory / RECIPE).exists():
        raise RecipeError(f"{directory / RECIPE} exists; name another directory")
    sources = look(paths)
    cores = len(os.sched_getaffinity(0))
    text = _text(directory.resolve().name, sources, _sizes(sum(map(_bytes, sources)), cores))
    directory.mkdir(parents=True, exist_ok=True)
    atomic_write(directory / RECIPE, text.encode())
    if not (directory / ".gitignore").exists():
        atomic_write(directory / ".gitignore", b"store/\n")
    prepare(directory / RECIPE, Store(directory / "store"))  # It can be read, and planned.
    return sources
