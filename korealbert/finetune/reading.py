"""Rows of the official TSV files. They carry literal quotation marks, so nothing here is a CSV reader."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from korealbert.documents.benchmark_files import BenchmarkFile, Line
from korealbert.finetune.identifiers import Identifiers


class Form(NamedTuple):
    """What every value of a column looks like: where one does not, the columns of its row have moved."""

    pattern: re.Pattern[str]
    meaning: str
    """Of the column, with an article."""


NUMBER = Form(re.compile(r"[0-9]+"), "a whole number")

NAME = Form(re.compile(r"\S*[^\W\d]\S*"), "a name without spaces")

YEAR = Form(re.compile(r"(19|20)[0-9]{2}[a-z]*"), "a year")
"""STS joins the part to it: ``2012train``."""


def tsv_rows(
    file: BenchmarkFile,
    header: tuple[str, ...],
    *,
    leave_out: Callable[[Line, list[str]], bool] | None = None,
    forms: Mapping[str, Form] | None = None,
    unique: str = "",
) -> Iterator[tuple[Line, list[str]]]:
    """Rows of a tab-separated file whose first line must be ``header``; each row has exactly as many fields.

    Quotes are ordinary characters and no field is ever read as missing: ``null`` and ``NA`` are words people write.
    ``leave_out(line, fields)`` picks rows that a benchmark is known to be broken at; they are skipped. ``forms``
    tell what columns look like, ``unique`` names the column in which nothing stands twice.

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
        if len(fields) != len(header):
            problem = f"{len(fields)} fields instead of {len(header)}"
            raise line.error(header[min(len(fields), len(header)) - 1], problem, "restore the line from the official file")
        for name, value in zip(header, fields, strict=True):
            if forms and name in forms and not forms[name].pattern.fullmatch(value):
                problem = f"found {value[:40]!r} where {forms[name].meaning} stands"
                raise line.error(name, problem, "the columns have moved; restore the line from the official file")
            if name == unique:
                seen.once(value, line=line, field=name)
        yield line, fields
