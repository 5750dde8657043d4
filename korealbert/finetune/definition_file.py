"""The TOML file that defines a benchmark: its definition, the paths or URLs of its official files, and every mistake in it."""

from __future__ import annotations

import json
import os
import re
import tomllib
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

from pydantic import ValidationError, model_validator

from korealbert.artifact import InputPath, Spec
from korealbert.artifact.spec import explained, refuse_outside, refuse_special
from korealbert.documents.benchmark_files import LOCAL, REMOTE, DataFile
from korealbert.finetune.definition import KINDS, Columns, Definition
from korealbert.formatting import closest, nearest

_SUFFIX = ".toml"
"""File extension that tells the path of a definition from the name of a benchmark."""


class Files(Spec):
    """The official files. Paths are relative to the directory of the benchmark's TOML file; a recipe may name other files."""

    train: DataFile | None = None
    """Training file: a path, or a URL with its sha256."""
    train_member: str = ""
    """Name of the file in ``train``, if that is an archive."""
    dev: DataFile | None = None
    """Dev file."""
    dev_member: str = ""
    """Name of the file in ``dev``, if that is an archive."""
    test: DataFile | None = None
    """Test file."""
    test_member: str = ""
    """Name of the file in ``test``, if that is an archive."""

    @model_validator(mode="after")
    def _members_have_archives(self) -> Files:
        bare = [split for split in ("train", "dev", "test") if self.of(split).keys() == {f"{split}_member"}]
        if bare:
            raise ValueError("; ".join(f"{split}_member is given without {split}; name the archive" for split in bare))
        return self

    def of(self, split: str) -> dict[str, Any]:
        """Return the fields of a split that are set."""
        names = (split, f"{split}_member")
        return {name: getattr(self, name) for name in names if getattr(self, name)}


class BenchmarkTable(Definition):
    """The TOML file of a benchmark: its definition and its official files."""

    files: Files = Files()
    """The official files, for recipes that name none."""

    @property
    def definition(self) -> Definition:
        """The content without the files."""
        return Definition(**{name: getattr(self, name) for name in Definition.model_fields})

    @property
    def _unit_of_lists(self) -> str:
        """The unit of a list in the test file: words or characters of a sentence, or texts; "" if there is no list."""
        if self.format not in ("conll", "json", "jsonl", "parquet"):
            return ""
        if self.kind == "choice":
            return "texts" if len(self.columns.options) == 1 else ""
        return self.unit if self.kind == "tagging" else ""

    @property
    def decontamination(self) -> str:
        """A recipe's table that removes the texts of the test file from a corpus."""
        test, given = self.files.test, self.columns.given
        texts = ("text", "pair", "options") if self.kind == "choice" else ("text", "pair")
        columns = [column for name in texts for column in given.get(name, [])]
        if self.format == "conll":
            columns = [0 if self.columns.text is None else self.columns.text]
        fields = {
            "name": self.name,
            "path": "PATH OF THE TEST FILE" if test is None else _place(test),
            "member": self.files.test_member,
            "format": "korquad" if self.format == "squad" else self.format,
            "columns": columns,
            "key": self.key,
            "unit": self._unit_of_lists,
        }
        written = [f"{name} = {_as_toml(value)}" for name, value in fields.items() if value]
        if self.format in ("tsv", "csv") and isinstance(columns[0], int):
            written.append("header = false")
        return "\n".join(["[[dedup.decontaminate]]", *written])


def _place(file: DataFile) -> str | dict[str, Any]:
    return str(file) if isinstance(file, InputPath) else file.model_dump(mode="json", exclude_defaults=True)


def _as_toml(value: Any) -> str:
    """Write a value; strings, numbers and lists of them are as in JSON."""
    if isinstance(value, dict):
        return f"{{ {', '.join(f'{name} = {_as_toml(each)}' for name, each in value.items())} }}"
    return json.dumps(value, ensure_ascii=False)


def is_file(task: str) -> bool:
    """Return whether a task is the path of a TOML file."""
    return task.endswith(_SUFFIX)


def read_table(path: Path, *, within: Path | None, taken: Callable[[], list[str]]) -> BenchmarkTable:
    """Read the TOML file of a benchmark.

    ``within``: a directory that no path may leave. ``taken``: returns names that the benchmark may not have. Raises ValueError
    with a line for every mistake, naming file, field and remedy.
    """
    if within is not None:
        refuse_outside(path, within)
    refuse_special(path)
    try:
        text = json.dumps(tomllib.loads(path.read_text("utf-8-sig")), default=str)
    except FileNotFoundError:
        others = [each.name for each in path.parent.glob(f"*{_SUFFIX}")]
        raise ValueError(f"{path}: no such file{nearest(path.name, others)}; name the TOML file of a benchmark") from None
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: byte {error.start} is not UTF-8; save the file as UTF-8") from None
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise ValueError(f"{path}: not valid TOML: {error}") from None
    except OSError as error:
        raise ValueError(f"{path}: cannot be read ({error.strerror}); name the TOML file of a benchmark") from None
    context = {"root": Path(os.path.normpath(path.parent)), "within": within}
    content, problems = json.loads(text), list[str]()
    if content.get("name") in taken():
        problems.append(f"{path}, field 'name': {content['name']!r} is a benchmark of korealbert; choose another name")
    try:
        table = BenchmarkTable.model_validate_json(text, strict=True, context=context)
    except ValidationError as error:
        problems = [*_messages(path, error), *_further_messages(path, content, error), *problems]
    if problems:
        raise ValueError("\n".join(problems))
    return table


def _messages(path: Path, error: ValidationError) -> list[str]:
    message = explained(str(path), BenchmarkTable, error, (LOCAL, REMOTE))
    return message.replace(f"{path}: field", f"{path}, field").splitlines()


_PLACEHOLDERS = {"name": "x", "title": "x", "origin": "x", "format": "tsv"}
"""Valid values of required fields that cannot be read."""


def _further_messages(path: Path, content: dict[str, Any], error: ValidationError) -> list[str]:
    """Return the mistakes between fields, which pydantic looks for only if each field is valid.

    To find them the content is repaired: a misspelt name becomes the nearest one, other unreadable values are removed.
    """
    locations = [[part for part in problem["loc"] if part not in (LOCAL, REMOTE)] for problem in error.errors()]
    if not all(locations):
        return []
    for location, problem in zip(locations, error.errors(), strict=True):
        _repair(content, location, problem["type"], str(problem.get("ctx", {}).get("expected", "")))
    if content.get("kind") not in KINDS:  # It may be a list, which is not hashable.
        return []
    # Leave out fields that have a message already, and mistakes that follow from a field that cannot be read.
    reported = [".".join(map(str, location)) for location in locations]
    reported += [] if "format" in content else ["key", "columns"]
    reported += ["spellings", "columns.options", "metric"] if "labels" in reported else []
    fields = {name: value for name, value in {**_PLACEHOLDERS, **content}.items() if name in Definition.model_fields}
    try:
        Definition.model_validate_json(json.dumps(fields), strict=True)
    except ValidationError as further:
        lines = _messages(path, further)
        return [line for line in lines if not any(f"field '{n}'" in line or f"field '{n}." in line for n in reported)]
    return []


def _repair(content: dict[str, Any], location: list[str | int], fault: str, expected: str) -> None:
    """Replace an invalid value by the nearest valid one, or remove it."""
    match location:
        case ["published", int(number), *_]:
            score = content["published"][number]
            metric = score.get("metric") if isinstance(score, dict) else None
            content["published"][number] = {"model": "x", "value": "1", "source": "x", "metric": str(metric or "")}
        case ["columns", str(name), int(number)]:
            content["columns"][name][number] = f"{content['columns'][name][number]} {number}"
        case ["labels" | "spellings" as name, int(number)]:
            content[name][number] = f"{content[name][number]} {number}"
        case ["columns" | "defaults" as table, str(name)]:
            _rename(content[table], name, Columns.model_fields if table == "columns" else (), fault)
        case [str(name)] if fault == "literal_error":
            content[name] = closest(str(content[name]), re.findall(r"'([^']*)'", expected))
            if content[name] is None:
                del content[name]
        case [str(name), *_]:
            _rename(content, name, BenchmarkTable.model_fields, fault)


def _rename(table: dict[str, Any], name: str, known: Collection[str], fault: str) -> None:
    value = table.pop(name, None)
    right = closest(name, known) if fault == "extra_forbidden" else None
    if right is not None:
        table.setdefault(right, value)
