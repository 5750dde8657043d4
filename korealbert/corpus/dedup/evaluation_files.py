"""Texts of evaluation sets, for decontamination: TSV, CSV, JSON, JSON Lines, Parquet, KorQuAD, CoNLL, plain lines."""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, ClassVar, Literal

from pydantic import Field, NonNegativeInt, field_validator, model_validator

from korealbert.artifact import InputPath, Inputs, Spec
from korealbert.artifact.files import json_fault
from korealbert.corpus.readers.records import is_missing
from korealbert.documents.benchmark_files import (
    JSON,
    BenchmarkFile,
    DataFile,
    Line,
    conll_sentences,
    csv_rows,
    json_elements,
    local_path,
    parquet_rows,
)

_Column = str | NonNegativeInt
_KORQUAD = ("context", "question")


class EvaluationFile(Spec):
    """A file of an evaluation set whose texts are removed from the corpus."""

    later: ClassVar[frozenset[str]] = frozenset({"key", "unit"})

    name: str = Field(min_length=1)
    """Its name in statistics and drop reasons."""
    path: DataFile
    """The file, compressed or not, in an archive or not: a path, or a table of URL and checksum as in ``[finetune.NAME]``."""
    member: str = ""
    """Name of the file within ``path``, if that is an archive."""
    format: Literal["tsv", "csv", "json", "jsonl", "parquet", "korquad", "conll", "lines"]
    """tsv: tab-separated, quotation marks are text (NSMC, KorNLI). csv: RFC 4180. json: a list of objects. jsonl: one object
    per line. parquet: as data sets of the Hugging Face hub have it. korquad: SQuAD's format. conll: one token per line, blank
    lines between sentences, ``##`` comments. lines: a text per line."""
    columns: tuple[_Column, ...] = ()
    """Fields with text: names (keys, header names) or positions from 0. korquad: context, question or both (default). json,
    jsonl, parquet: dots lead through objects and lists of objects (``dialogue.text``). A field may be text, a number, null
    (which is skipped), a list of those, or a list of such lists; anything else is an error."""
    key: str = ""
    """json: the field of the outermost object that holds the list."""
    unit: Literal["words", "characters", "texts"] | None = None
    """What a token of conll, or a string in a list of json, jsonl or parquet, is: a word, a character, or (in lists) a whole
    text. None: a word; the columns of conll must then be separated by tabs, otherwise by tabs or blanks."""
    header: bool = True
    """tsv, csv: whether the first row names the columns. Must be given if columns are positions."""
    encoding: str = "utf-8"
    """Text encoding; a byte order mark is always removed."""
    passages: Literal["document", "paragraph", "ignore"] = "document"
    """What is removed if other text contains a long stretch of a benchmark text: the document, the paragraph, or nothing.
    ``paragraph`` is for sources with many independent texts in one document (reviews of one film)."""

    @field_validator("encoding")
    @classmethod
    def _encoding_is_known(cls, encoding: str) -> str:
        try:
            io.TextIOWrapper(io.BytesIO(), encoding).read()
        except (LookupError, UnicodeError) as error:  # also for transformations of text or bytes: rot13, base64
            raise ValueError(f"{str(error).partition(';')[0]}; utf-8 and cp949 are usual") from error
        return encoding

    @model_validator(mode="after")
    def _columns_fit_format(self) -> EvaluationFile:
        if self.format in ("tsv", "csv", "json", "jsonl", "parquet", "conll") and not self.columns:
            raise ValueError(
                f"benchmark {self.name}: format {self.format} needs columns, the names or positions of the text fields"
            )
        positions = all(isinstance(column, int) for column in self.columns)
        if self.format == "korquad" and (unknown := [column for column in self.columns if column not in _KORQUAD]):
            raise ValueError(f"benchmark {self.name}: korquad has no column {unknown[0]!r}; name {' or '.join(_KORQUAD)}")
        if self.format == "conll" and not positions:
            raise ValueError(f"benchmark {self.name}: columns of conll are positions, counted from 0")
        if self.unit and self.format not in ("conll", "json", "jsonl", "parquet"):
            raise ValueError(f"benchmark {self.name}: format {self.format} has no use for unit; remove it")
        if self.unit == "texts" and self.format == "conll":
            raise ValueError(f"benchmark {self.name}: a token of conll is no text of its own; write words or characters")
        if self.format in ("tsv", "csv") and positions and "header" not in self.model_fields_set:
            raise ValueError(
                f"benchmark {self.name}: columns are positions; set header = false if the first row of the file is a text, or"
                " true if it names the columns"
            )
        return self

    @property
    def file(self) -> BenchmarkFile:
        """The file with its member, to read."""
        assert isinstance(self.path, InputPath), "read what ``downloaded`` returns"
        return BenchmarkFile(self.path.path, self.member)


def contents_removed(identified: Mapping[str, Any]) -> set[tuple[str, str]]:
    """Return checksums and archive members of the files whose texts a deduplication removes, from its spec in the identity."""
    return {(file["path"]["sha256"], file["member"]) for file in identified.get("decontaminate", [])}


def input_role(number: int) -> str:
    """Return the role of the stage's input with the file at this position of ``decontaminate``, if that is named by URL."""
    return f"decontaminate.{number}"  # Names of sources, the other roles, have no dot.


def downloaded(files: Iterable[EvaluationFile], inputs: Inputs) -> Iterator[EvaluationFile]:
    """Yield the files, as downloaded if they are named by URL. Raises ValueError if one is missing among the inputs."""
    for number, one in enumerate(files):
        yield one.model_copy(update={"path": InputPath(local_path(one.path, inputs, input_role(number)))})


def read_texts(evaluation: EvaluationFile) -> Iterator[str]:
    """Yield all texts of a benchmark file, unchanged.

    Raises ValueError naming file, place and remedy if the file does not fit its table, or has no text.
    """
    reader = {"tsv": _tsv, "csv": _csv, "conll": _conll, "lines": _lines, "korquad": _korquad}.get(evaluation.format, _json)
    blank = True
    for text in reader(evaluation):
        blank = blank and not text.strip()
        yield text
    if blank:
        remedy = "fetch the official file again, correct format, columns or header of its table, or take that out of the recipe"
        raise ValueError(f"{evaluation.file}: no text of benchmark {evaluation.name} in it; {remedy}")


def _lines(evaluation: EvaluationFile) -> Iterator[str]:
    return (line.text for line in evaluation.file.lines(evaluation.encoding))


def _tsv(evaluation: EvaluationFile) -> Iterator[str]:
    lines = (line for line in evaluation.file.lines(evaluation.encoding) if line.text)
    return _columns(evaluation, ((line.number, line.text.split("\t")) for line in lines))


def _csv(evaluation: EvaluationFile) -> Iterator[str]:
    rows = csv_rows(evaluation.file, evaluation.encoding)
    return _columns(evaluation, ((line.number, row) for line, row in rows))


def _columns(evaluation: EvaluationFile, rows: Iterable[tuple[int, list[str]]]) -> Iterator[str]:
    """Yield the fields of numbered rows that are in ``columns``; the first row may be a header, and no row is longer."""
    positions: list[int] = []
    width = 0
    for number, row in rows:
        if not width:
            width, positions = len(row), [_position(evaluation, column, row) for column in evaluation.columns]
            if evaluation.header:
                continue
        if len(row) > width:
            problem = f"the row has {len(row)} fields, the first row {width}"
            raise evaluation.file.error(
                number, f"column {width}", problem, "restore the official line, or quote its separators"
            )
        for position in positions:
            if position >= len(row):
                problem = f"the row has {len(row)} fields, column {position} is not among them"
                raise evaluation.file.error(number, f"column {position}", problem, "restore the official line")
            yield row[position]


def _position(evaluation: EvaluationFile, column: _Column, first: list[str]) -> int:
    if isinstance(column, int):
        return column
    if evaluation.header and first.count(column) == 1:
        return first.index(column)
    if evaluation.header and column in first:
        raise ValueError(f"{evaluation.file}: the first row names {column!r} more than once: {first}; write its position")
    raise ValueError(f"{evaluation.file}: no column {column!r}; the first row is {first}: name one of them, or a position")


def _conll(evaluation: EvaluationFile) -> Iterator[str]:
    columns = [int(column) for column in evaluation.columns]
    for sentence in conll_sentences(evaluation.file, evaluation.encoding):
        for line, row in sentence:
            if evaluation.unit is None and len(row) > 1 and "\t" not in line.text:
                remedy = 'write unit = "words" or "characters" in its table, or tabs in the file'
                raise line.error(f"column {columns[0]}", "its columns have blanks between them, no tabs", remedy)
            if max(columns) >= len(row):
                problem = f"the line has {len(row)} columns, column {max(columns)} is not among them"
                raise line.error(f"column {max(columns)}", problem, "restore the official line, or correct columns")
        for column in columns:
            yield _joined(evaluation, [row[column] for _, row in sentence])


def _joined(evaluation: EvaluationFile, tokens: Iterable[str]) -> str:
    return ("" if evaluation.unit == "characters" else " ").join(tokens)


def _json(evaluation: EvaluationFile) -> Iterator[str]:
    if evaluation.format == "jsonl":
        lines = (line for line in evaluation.file.lines(evaluation.encoding) if line.text.strip())
        records = ((line.position, _parsed(line)) for line in lines)
    elif evaluation.format == "parquet":
        records = ((f"row {number}", row) for number, row in enumerate(parquet_rows(evaluation.file), 1))
    else:
        records = (
            (f"record {number}", value) for number, (_, value) in enumerate(_elements(evaluation, evaluation.key or None), 1)
        )
    for place, record in records:
        for column in evaluation.columns:
            for value in _values(evaluation, place, column, [record], str(column)):
                yield from _texts_of(evaluation, place, column, value)


def _values(evaluation: EvaluationFile, place: str, column: _Column, within: Any, name: str) -> Iterator[Any]:
    """Yield the values at a name with dots: one for each object of the lists that it leads through, none for null."""
    outer, _, rest = name.partition(".")
    for each in within if isinstance(within, list) else [] if within is None else [within]:
        if isinstance(each, dict) and name in each:
            yield each[name]
        elif isinstance(each, dict) and rest and outer in each:
            yield from _values(evaluation, place, column, each[outer], rest)
        else:
            keys = sorted(each) if isinstance(each, dict) else type(each).__name__
            raise ValueError(f"{evaluation.file}, {place}: no field {column!r} in {keys}; correct columns")


def _texts_of(evaluation: EvaluationFile, place: str, column: _Column, value: Any) -> Iterator[str]:
    """Yield the texts of a field: its text, the texts of a list according to ``unit``, or those of several lists."""
    nested = isinstance(value, list) and any(isinstance(each, list) for each in value)
    for each in value if nested else [value]:
        if isinstance(each, list) and all(is_missing(one) or _is_text(one) for one in each):
            texts = [str(one) for one in each if not is_missing(one)]
            yield from texts if evaluation.unit == "texts" else [_joined(evaluation, texts)]
        elif is_missing(each):
            continue
        elif _is_text(each) and not nested:
            yield str(each)
        else:
            shown = json.dumps(value, ensure_ascii=False, default=repr)
            problem = f"field {column!r} holds {shown[:60]}{'…' * (len(shown) > 60)}, neither text nor a list of texts"
            objects = [one for one in (each if isinstance(each, list) else [each]) if isinstance(one, dict) and one]
            remedy = "correct columns"
            if objects:
                longest = max(objects[0], key=lambda name: len(str(objects[0][name])))
                remedy = f"name a field of its objects, as {column}.{longest}"
            raise ValueError(f"{evaluation.file}, {place}: {problem}; {remedy}")


def _is_text(value: Any) -> bool:
    return isinstance(value, str | int | float) and not isinstance(value, bool)


def _elements(evaluation: EvaluationFile, key: str | None) -> Iterator[tuple[Line, Any]]:
    remedy = "name the field that holds its records as key, or correct format"
    return json_elements(evaluation.file, key=key, encoding=evaluation.encoding, remedy=remedy)


def _parsed(line: Line) -> Any:
    try:
        return JSON.decode(line.text)
    except (ValueError, RecursionError) as error:
        raise line.error("record", f"no JSON ({json_fault(error)})", "fetch the official file again") from error


def _korquad(evaluation: EvaluationFile) -> Iterator[str]:
    wanted = evaluation.columns or _KORQUAD
    for line, article in _elements(evaluation, "data"):
        try:
            for paragraph in article["paragraphs"]:
                if "context" in wanted:
                    yield _checked(paragraph["context"])
                if "question" in wanted:
                    yield from (_checked(question["question"]) for question in paragraph["qas"])
        except (KeyError, TypeError) as error:
            problem = f"not KorQuAD's shape (data → paragraphs → context, qas): {error!r}"
            raise line.error("data", problem, "correct format, or fetch the official file again") from error


def _checked(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r:.60} is no text")
    return value
