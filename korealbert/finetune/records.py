"""Read official files and prediction files of benchmarks: TSV rows and JSON records. Errors name file, line and field.

TSV files contain literal quotation marks, which a CSV reader would interpret.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, NamedTuple
from unicodedata import normalize

from korealbert.artifact.files import entries_of, json_fault
from korealbert.documents.benchmark_files import JSON, BenchmarkFile, Line, json_elements, parquet_rows


class Identifiers:
    """The ids of one official file. A repeated id shows that part of the file was duplicated."""

    def __init__(self) -> None:
        self._lines: dict[str, Line] = {}

    def once(self, written: str, *, line: Line, field: str) -> str:
        """Return the id. Raises ValueError naming both lines if it was seen before."""
        if written in self._lines:
            before = self._lines[written]
            where = before.position if before.file == line.file else f"{before.file}, {before.position}"
            remedy = "keep one of the two, or fetch the official file again"
            raise line.error(field, f"{written!r} is in {where} too", remedy)
        self._lines[written] = line
        return written


class Form(NamedTuple):
    """The form of all values of a column. A value of another form shows that the columns of its row are shifted."""

    pattern: re.Pattern[str]
    meaning: str
    """Description of a value, with an article."""


NUMBER = Form(re.compile(r"[0-9]+"), "a whole number")

NAME = Form(re.compile(r"\S*[^\W\d]\S*"), "a name without spaces")

YEAR = Form(re.compile(r"(19|20)[0-9]{2}[a-z]*"), "a year")
"""STS appends the name of the split: ``2012train``."""


def tsv_rows(
    file: BenchmarkFile,
    header: tuple[str, ...],
    *,
    leave_out: Callable[[Line, list[str]], bool] | None = None,
    forms: Mapping[str, Form] | None = None,
    unique: str = "",
) -> Iterator[tuple[Line, list[str]]]:
    """Yield the rows of a tab-separated file whose first line must be ``header``; each row has exactly as many fields.

    Quotes are ordinary characters, and ``null`` or ``NA`` is text. ``leave_out(line, fields)`` selects rows that are known to
    be broken; they are skipped. ``forms`` maps columns to the form of their values, ``unique`` names a column without
    repeated values.

    Raises ValueError naming file, line, field and remedy.
    """
    lines = file.lines()
    first = next(lines, None)
    found = first.text if first else ""
    if tuple(found.split("\t")) != header:
        expected = "<TAB>".join(header)
        raise file.error(1, "header", f"found {found[:80]!r}", f"the official file begins with {expected}")
    seen = Identifiers()
    for line in lines:
        fields = line.text.split("\t")
        if leave_out is not None and leave_out(line, fields):
            continue
        check_width(line, fields, header)
        for name, value in zip(header, fields, strict=True):
            if forms and name in forms and not forms[name].pattern.fullmatch(value):
                problem = f"found {value[:40]!r} in place of {forms[name].meaning}"
                raise line.error(name, problem, "the columns have moved; restore the line from the official file")
            if name == unique:
                seen.once(value, line=line, field=name)
        yield line, fields


def check_width(
    line: Line, fields: Sequence[str], header: Sequence[str], remedy: str = "restore the line from the official file"
) -> None:
    """Raise ValueError naming file, line and field if a row and its header differ in their number of fields."""
    if len(fields) != len(header):
        if len(fields) < 2 and not "".join(fields).strip():
            raise line.error(header[0], "the line is blank", f"remove it, or {remedy}")
        problem = f"{len(fields)} fields instead of {len(header)}"
        raise line.error(header[min(len(fields), len(header)) - 1], problem, remedy)


def normalisation_hint(written: str, known: Iterable[str]) -> str:
    """Return a hint for an error message if an unknown name differs only in its Unicode normalisation, else ""."""
    if normalize("NFC", written) in {normalize("NFC", name) for name in known}:
        return ", which is known only in another Unicode normalisation (NFC, NFD)"
    return ""


def tsv_header(file: BenchmarkFile, known: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    """Return the header of a tab-separated file if it is a known one, else the first known one."""
    first = next(file.lines(), None)
    found = tuple(first.text.split("\t")) if first else ()
    return found if found in known else known[0]


def parts(file: BenchmarkFile, pattern: str) -> list[BenchmarkFile]:
    """Return the matching files of a directory, by path and length of name; a file is returned itself.

    Links to directories are followed, as for the digest of a directory. Raises ValueError if no file matches.
    """
    if not file.path.is_dir():
        return [file]
    found = (path for path in entries_of(file.path) if fnmatchcase(path.name, pattern) and not path.is_dir())
    paths = sorted(found, key=lambda path: (path.parent, len(path.name), path.name))
    if not paths:
        raise ValueError(
            f"{file}: holds no {pattern.removeprefix('*')} file; give train, dev or test of the official directory"
        )
    return [BenchmarkFile(path) for path in paths]


_TYPE_NAMES = {str: "a string", int: "an integer", float: "a number", list: "a list", dict: "an object"}


@dataclass(frozen=True)
class Record:
    """A JSON object of a file. ``path`` is its location in the outermost object: ``paragraphs[2].qas[0].``."""

    line: Line
    fields: Mapping[str, Any]
    path: str = ""

    def error(self, field: str, problem: str, remedy: str) -> ValueError:
        """Return the error to raise for a field of this record."""
        return self.line.error(f"{self.path}{field}", problem, remedy)

    def __contains__(self, field: str) -> bool:
        """Whether the record has a field that is not null."""
        return self.fields.get(field) is not None

    def text(self, field: str) -> str:
        """Return a field that is a string, possibly empty."""
        return str(self._typed(field, str))

    def written(self, field: str) -> str:
        """Return a field that is a string, a number or a boolean, as JSON writes it."""
        value = self.fields.get(field)
        if isinstance(value, bool):
            return str(value).lower()
        return str(value) if isinstance(value, int | float) else self.text(field)

    def number(self, field: str) -> float:
        """Return a field that is a finite number."""
        value = _float(self._typed(field, float))
        if not math.isfinite(value):
            raise self.error(field, f"found {value}", "give a finite number")
        return value

    def integer(self, field: str) -> int:
        """Return a field that is a whole number."""
        return int(self._typed(field, int))

    def texts(self, field: str) -> list[str]:
        """Return a field that is a list of strings."""
        return [str(value) for value in self._all(field, str)]

    def integers(self, field: str) -> list[int]:
        """Return a field that is a list of whole numbers."""
        return [int(value) for value in self._all(field, int)]

    def numbers(self, field: str) -> list[float]:
        """Return a field that is a list of finite numbers."""
        values = [_float(value) for value in self._all(field, float)]
        if not all(map(math.isfinite, values)):
            raise self.error(field, "holds a number that is not finite", "give finite numbers")
        return values

    def record(self, field: str) -> Record:
        """Return a field that is an object."""
        return Record(self.line, self._typed(field, dict), f"{self.path}{field}.")

    def records(self, field: str) -> list[Record]:
        """Return a field that is a list of objects."""
        objects = self._all(field, dict)
        return [Record(self.line, value, f"{self.path}{field}[{index}].") for index, value in enumerate(objects)]

    def _all(self, field: str, kind: type) -> list[Any]:
        values: list[Any] = self._typed(field, list)
        for index, value in enumerate(values):
            self._check(f"{field}[{index}]", value, kind)
        return values

    def _typed(self, field: str, kind: type) -> Any:
        if field not in self.fields:
            found = ", ".join(sorted(self.fields)) or "no field"
            problem = f"missing{normalisation_hint(field, self.fields)}; the record has {found}"
            raise self.error(field, problem, f"add {field!r}: {_TYPE_NAMES[kind]}")
        self._check(field, self.fields[field], kind)
        return self.fields[field]

    def _check(self, field: str, value: Any, kind: type) -> None:
        accepted = (int, float) if kind is float else (kind,)
        if not isinstance(value, accepted) or isinstance(value, bool):
            raise self.error(field, f"found {_short(value)}", f"give {_TYPE_NAMES[kind]}")


def json_lines(file: BenchmarkFile) -> Iterator[Record]:
    """Yield one record per line. Raises ValueError naming file and line if a line is not a JSON object."""
    for line in file.lines():
        if not line.text.strip():
            raise line.error("record", "the line is empty", "give one JSON object per line, and no line without one")
        try:
            value = JSON.decode(line.text)
        except (ValueError, RecursionError) as error:
            problem = f"{line.text[:40]!r} is no JSON ({json_fault(error)})"
            raise line.error("record", problem, "give one JSON object per line") from error
        yield _object(value, line)


def parquet_records(file: BenchmarkFile) -> Iterator[Record]:
    """Yield a record for each row of a Parquet file, with names of classes in lists. Raises ValueError as ``parquet_rows``."""
    for number, row in enumerate(parquet_rows(file, name_classes=True), start=1):
        yield Record(Line(str(file), number, "", "row"), row)


def json_list(file: BenchmarkFile, *, key: str | None = None, unique: str = "") -> Iterator[Record]:
    """Yield the objects of a file that is a JSON list, or of the list in field ``key`` of a file that is an object.

    A record's line is the one on which it begins. ``unique`` names a field whose strings must differ. Raises ValueError naming
    file and line if the JSON is wrong.
    """
    seen = Identifiers()
    for line, value in json_elements(file, key=key):
        record = _object(value, line)
        if unique:
            seen.once(record.text(unique), line=line, field=unique)
        yield record


def _object(value: Any, line: Line) -> Record:
    if not isinstance(value, dict):
        raise line.error("record", f"found {_short(value)}", "give a JSON object")
    return Record(line, value)


def _float(value: int | float) -> float:
    """Convert a JSON number; an integer that is too large becomes infinity."""
    try:
        return float(value)
    except OverflowError:
        return math.inf


def _short(value: Any) -> str:
    shown = json.dumps(value, ensure_ascii=False, default=repr)
    return shown if len(shown) <= 60 else f"{shown[:60]}…"
