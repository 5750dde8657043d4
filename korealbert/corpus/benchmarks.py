"""Reading the texts of evaluation sets, for decontamination: TSV, CSV, JSON, JSON lines, KorQuAD, CoNLL, plain lines."""

from __future__ import annotations

import codecs
import csv
import io
import json
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Any, Literal

from pydantic import Field, field_validator, model_validator

from korealbert.artifact import InputPath, Spec
from korealbert.benchmark_files import BenchmarkFile, Line

Column = str | int


class Benchmark(Spec):
    """One file of an evaluation set whose texts the corpus must not hold."""

    name: str = Field(min_length=1)
    """What statistics and drop reasons call it."""
    path: InputPath
    """The file, plain, ``.gz``, ``.bz2`` or ``.zst``, or a tar archive that holds it."""
    member: str = ""
    """Name of the file within ``path``, when that is an archive."""
    format: Literal["tsv", "csv", "json", "jsonl", "korquad", "conll", "lines"]
    """tsv: tab-separated, quotation marks are text (NSMC, KorNLI). csv: RFC 4180. json: a list of objects. jsonl: one object a
    line. korquad: SQuAD's shape. conll: a token a line, blank lines between sentences, ``##`` comments. lines: a text a
    line."""
    columns: tuple[Column, ...] = ()
    """Which fields hold text: names (keys, header names) or positions from 0. korquad: of context, question (default both)."""
    header: bool = True
    """tsv, csv: whether the first row names the columns."""
    encoding: str = "utf-8"
    """Text encoding; a byte order mark is always taken off."""
    passages: Literal["document", "paragraph", "ignore"] = "document"
    """What goes where a long stretch of a benchmark text is found inside other text: the document, the paragraph, nothing.
    ``paragraph`` for sources that put many independent texts into one document (reviews of one film)."""

    @field_validator("encoding")
    @classmethod
    def _encoding_is_known(cls, encoding: str) -> str:
        try:
            codecs.lookup(encoding)
        except LookupError as error:
            raise ValueError(f"{error}; utf-8 and cp949 are usual") from error
        return encoding

    @model_validator(mode="after")
    def _columns_fit_format(self) -> Benchmark:
        wants = self.format in ("tsv", "csv", "json", "jsonl", "conll")
        if wants and not self.columns:
            raise ValueError(
                f"benchmark {self.name}: format {self.format} needs columns, the names or positions of the text fields"
            )
        if self.format == "conll" and not all(isinstance(column, int) for column in self.columns):
            raise ValueError(f"benchmark {self.name}: columns of conll are positions, counted from 0")
        return self

    @property
    def file(self) -> BenchmarkFile:
        """Where the texts stand."""
        return BenchmarkFile(self.path.path, self.member)


def read_texts(benchmark: Benchmark) -> Iterator[str]:
    """All texts of a benchmark file, as they stand in it.

    Raises ValueError naming file, place and remedy where it is not what the table says, or holds no text at all.
    """
    reader = {"tsv": _tsv, "csv": _csv, "conll": _conll, "lines": _lines, "korquad": _korquad}.get(benchmark.format, _json)
    blank = True
    for text in reader(benchmark):
        blank = blank and not text.strip()
        yield text
    if blank:
        remedy = "fetch the official file again, correct format, columns or header of its table, or take that out of the recipe"
        raise ValueError(f"{benchmark.file}: no text of benchmark {benchmark.name} in it; {remedy}")


def _lines(benchmark: Benchmark) -> Iterator[str]:
    return (line.text for line in benchmark.file.lines(benchmark.encoding))


def _tsv(benchmark: Benchmark) -> Iterator[str]:
    lines = (line for line in benchmark.file.lines(benchmark.encoding) if line.text)
    return _columns(benchmark, ((line.number, line.text.split("\t")) for line in lines))


def _csv(benchmark: Benchmark) -> Iterator[str]:
    rows = csv.reader(io.StringIO(benchmark.file.text(benchmark.encoding), newline=""))
    try:
        yield from _columns(benchmark, ((rows.line_num, row) for row in rows if row))
    except csv.Error as error:
        raise Line(str(benchmark.file), rows.line_num, "").error("row", str(error), "correct its quotation marks") from error


def _columns(benchmark: Benchmark, rows: Iterable[tuple[int, list[str]]]) -> Iterator[str]:
    """The wanted fields of numbered rows, of which the first may name them."""
    positions: list[int] | None = None
    for number, row in rows:
        if positions is None:
            positions = [_position(benchmark, column, row) for column in benchmark.columns]
            if benchmark.header:
                continue
        for position in positions:
            if position >= len(row):
                problem = f"the row has {len(row)} fields, column {position} is not among them"
                raise Line(str(benchmark.file), number, "").error(f"column {position}", problem, "restore the official line")
            yield row[position]


def _position(benchmark: Benchmark, column: Column, first: list[str]) -> int:
    if isinstance(column, int):
        return column
    if benchmark.header and column in first:
        return first.index(column)
    raise ValueError(f"{benchmark.file}: no column {column!r}; the first row is {first}: name one of them, or a position")


def _conll(benchmark: Benchmark) -> Iterator[str]:
    for filled, lines in groupby(_lines(benchmark), key=lambda line: bool(line.strip())):
        rows = [line.split("\t") for line in lines if filled and not line.startswith("##")]
        for column in benchmark.columns if rows else ():
            yield " ".join(row[int(column)] for row in rows if int(column) < len(row))


def _json(benchmark: Benchmark) -> Iterator[str]:
    if benchmark.format == "jsonl":
        lines = (line for line in benchmark.file.lines(benchmark.encoding) if line.text.strip())
        records = ((f"line {line.number}", _parsed(benchmark, line.text, line.number)) for line in lines)
    else:
        whole = _parsed(benchmark, benchmark.file.text(benchmark.encoding))
        records = ((f"record {number}", record) for number, record in enumerate(whole, 1))
    for place, record in records:
        for column in benchmark.columns:
            if not isinstance(record, dict) or column not in record:
                keys = sorted(record) if isinstance(record, dict) else type(record).__name__
                raise ValueError(f"{benchmark.file}, {place}: no field {column!r} in {keys}; correct columns")
            yield str(record[column])


def _parsed(benchmark: Benchmark, text: str, line: int = 1) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        place = f"{benchmark.file}, line {line + error.lineno - 1}, column {error.colno}"
        raise ValueError(f"{place}: not JSON: {error.msg}; fetch the official file again") from error


def _korquad(benchmark: Benchmark) -> Iterator[str]:
    wanted = benchmark.columns or ("context", "question")
    content = _parsed(benchmark, benchmark.file.text(benchmark.encoding))
    try:
        for article in content["data"]:
            for paragraph in article["paragraphs"]:
                if "context" in wanted:
                    yield paragraph["context"]
                if "question" in wanted:
                    yield from (question["question"] for question in paragraph["qas"])
    except (KeyError, TypeError) as error:
        raise ValueError(f"{benchmark.file}: not KorQuAD's shape (data → paragraphs → context, qas): {error!r}") from error
