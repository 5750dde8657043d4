"""Rows of the official TSV files. They carry literal quotation marks, so nothing here is a CSV reader."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator

from korealbert.benchmark_files import BenchmarkFile, Line


def tsv_rows(
    file: BenchmarkFile,
    header: tuple[str, ...],
    *,
    leave_out: Callable[[Line, list[str]], bool] | None = None,
    numbers: Collection[str] = (),
) -> Iterator[tuple[Line, list[str]]]:
    """Rows of a tab-separated file whose first line must be ``header``; each row has exactly as many fields.

    Quotes are ordinary characters and no field is ever read as missing: ``null`` and ``NA`` are words people write.
    ``leave_out(line, fields)`` picks rows that a benchmark is known to be broken at; they are skipped. The columns
    ``numbers`` hold whole numbers: where one does not, the columns of a row have moved.
    """
    lines = file.lines()
    first = next(lines, None)
    found = first.text if first else ""
    if tuple(found.split("\t")) != header:
        expected = "<TAB>".join(header)
        raise file.error(1, "header", f"found {found[:80]!r}", f"the official file begins with {expected}")
    for line in lines:
        fields = line.text.split("\t")
        if leave_out is not None and leave_out(line, fields):
            continue
        if len(fields) != len(header):
            problem = f"{len(fields)} fields instead of {len(header)}"
            raise line.error(header[min(len(fields), len(header)) - 1], problem, "restore the line from the official file")
        for name, value in zip(header, fields, strict=True):
            if name in numbers and not (value.isascii() and value.isdecimal()):
                problem = f"found {value[:40]!r} where a whole number stands"
                raise line.error(name, problem, "the columns have moved; restore the line from the official file")
        yield line, fields
