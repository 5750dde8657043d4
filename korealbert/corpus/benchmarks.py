"""Reading the texts of evaluation sets, for decontamination: TSV, CSV, JSON, JSON lines, KorQuAD, CoNLL, plain lines."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Iterator
from typing import Any, Literal

import pyarrow as pa
from pydantic import Field, model_validator

from korealbert.artifact import InputPath, Spec

Column = str | int


class Benchmark(Spec):
    """One file of an evaluation set whose texts the corpus must not hold."""

    name: str = Field(min_length=1)
    """What statistics and drop reasons call it."""
    path: InputPath
    """The file; ``.zst``, ``.gz`` and ``.bz2`` are decompressed on the way."""
    format: Literal["tsv", "csv", "json", "jsonl", "korquad", "conll", "lines"]
    """tsv: tab-separated, quotation marks are text (NSMC, KorNLI). csv: RFC 4180. json: a list of objects. jsonl: one object a
    line. korquad: SQuAD's shape. conll: a token a line, blank lines between sentences, ``##`` comments. lines: a text a
    line."""
    columns: tuple[Column, ...] = ()
    """Which fields hold text: names (keys, header names) or positions from 0. korquad: of context, question (default both)."""
    header: bool = True
    """tsv, csv: whether the first row names the columns."""
    encoding: str = "utf-8-sig"
    """Text encoding; the default also takes UTF-8 without a byte order mark."""
    passages: Literal["document", "paragraph", "ignore"] = "document"
    """What goes where a long stretch of a benchmark text is found inside other text: the document, the paragraph, nothing.
    ``paragraph`` for sources that put many independent texts into one document (reviews of one film)."""

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


def read_texts(benchmark: Benchmark) -> Iterator[str]:
    """All texts of a benchmark file, as they stand in it. Raises ValueError naming file, line and column."""
    try:
        with pa.input_stream(str(benchmark.path), compression="detect") as stream:
            content = stream.read().decode(benchmark.encoding)
    except UnicodeDecodeError as error:
        raise ValueError(f"{benchmark.path}, byte {error.start}: not {benchmark.encoding}; name its encoding") from error
    if benchmark.format in ("tsv", "csv"):
        yield from _table(benchmark, content)
    elif benchmark.format == "lines":
        yield from content.splitlines()
    elif benchmark.format == "conll":
        yield from _conll(benchmark, content)
    else:
        yield from _json(benchmark, content)


def _table(benchmark: Benchmark, content: str) -> Iterator[str]:
    rows: Iterable[list[str]]
    if benchmark.format == "tsv":
        # Not splitlines: a form feed or U+2028 inside a field is no line break.
        rows = (line.rstrip("\r").split("\t") for line in content.split("\n") if line.rstrip("\r"))
    else:
        rows = csv.reader(io.StringIO(content, newline=""))
    first: list[str] | None = None
    positions: list[int] = []
    for number, row in enumerate(rows, 1):
        if first is None:
            first = row
            positions = [_position(benchmark, column, row) for column in benchmark.columns]
            if benchmark.header:
                continue
        for position in positions:
            if position >= len(row):
                raise ValueError(f"{benchmark.path}, row {number}: has {len(row)} fields, column {position} is not among them")
            yield row[position]


def _position(benchmark: Benchmark, column: Column, first: list[str]) -> int:
    if isinstance(column, int):
        return column
    if benchmark.header and column in first:
        return first.index(column)
    raise ValueError(f"{benchmark.path}: no column {column!r}; the first row is {first}: name one of them, or a position")


def _conll(benchmark: Benchmark, content: str) -> Iterator[str]:
    for block in content.replace("\r\n", "\n").split("\n\n"):
        rows = [line.split("\t") for line in block.split("\n") if line and not line.startswith("##")]
        for column in benchmark.columns:
            yield " ".join(row[int(column)] for row in rows if int(column) < len(row))


def _json(benchmark: Benchmark, content: str) -> Iterator[str]:
    try:
        if benchmark.format == "jsonl":
            records = [json.loads(line) for line in content.split("\n") if line.strip()]
        else:
            records = json.loads(content)
    except json.JSONDecodeError as error:
        raise ValueError(f"{benchmark.path}, line {error.lineno}: not JSON: {error.msg}") from error
    if benchmark.format == "korquad":
        yield from _korquad(benchmark, records)
        return
    for number, record in enumerate(records, 1):
        for column in benchmark.columns:
            if not isinstance(record, dict) or column not in record:
                keys = sorted(record) if isinstance(record, dict) else type(record).__name__
                raise ValueError(f"{benchmark.path}, record {number}: no field {column!r} in {keys}")
            yield str(record[column])


def _korquad(benchmark: Benchmark, content: Any) -> Iterator[str]:
    wanted = benchmark.columns or ("context", "question")
    try:
        for article in content["data"]:
            for paragraph in article["paragraphs"]:
                if "context" in wanted:
                    yield paragraph["context"]
                if "question" in wanted:
                    yield from (question["question"] for question in paragraph["qas"])
    except (KeyError, TypeError) as error:
        raise ValueError(f"{benchmark.path}: not KorQuAD's shape (data → paragraphs → context, qas): {error!r}") from error
