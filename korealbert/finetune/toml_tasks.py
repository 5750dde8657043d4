"""Tasks of benchmarks that a TOML file defines: their readers and metrics."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, cast

import numpy as np

from korealbert.documents.benchmark_files import BenchmarkFile, Line, conll_sentences, csv_rows
from korealbert.finetune.definition import Column, Definition, Kind
from korealbert.finetune.metrics import Mode
from korealbert.finetune.metrics.answers import em_and_f1, korquad_f1, normalise_korquad, normalise_squad, squad_f1
from korealbert.finetune.metrics.labels import ClassCounts, accuracy, binary_f1, macro_f1, mcc, pearson, spearman
from korealbert.finetune.metrics.units import (
    OUTSIDE,
    entity_macro_f1,
    entity_micro_f1,
    lenient_counts,
    strict_counts,
    undefined_macro_f1,
)
from korealbert.finetune.records import (
    Identifiers,
    Record,
    check_width,
    json_lines,
    json_list,
    normalisation_hint,
    parquet_records,
)
from korealbert.finetune.scores.resampling import Additive
from korealbert.finetune.task import PAIR_HEADS, POOLING_HEADS, Example, Scores, Task
from korealbert.finetune.task_types.questions import Answer, Question, QuestionAnswering
from korealbert.finetune.task_types.sequence import Choice, MultipleChoice, SequenceClassification, SequenceRegression
from korealbert.finetune.task_types.tagged import Tagged, Tagging, entity_tags, unit_spans
from korealbert.formatting import nearest

_MEASURES: dict[str, Callable[[Sequence[Any], Sequence[Any]], float]] = {
    "accuracy": accuracy,
    "macro_f1": macro_f1,
    "mcc": mcc,
    "f1": binary_f1,
    "spearman": spearman,
    "pearson": pearson,
}


def task_of(definition: Definition) -> Task:
    """Make the task of a definition."""
    base = _KINDS[definition.kind]
    attributes: dict[str, Any] = {
        "definition": definition,
        "title": definition.title,
        "origin": definition.origin,
        "official_test_examples": definition.test_examples,
        "has_official_dev": definition.official_dev,
        "metric": definition.metrics[0],
        "defaults": definition.settings,
        **base.attributes(definition),
    }
    return cast(Task, type(definition.name, (base,), attributes)())


def _field(record: Record, column: Column) -> tuple[Record, str]:
    """Return the object that contains a column, and the column's key in it."""
    name = str(column)
    if name in record.fields or not isinstance(column, str):
        return record, name
    *parents, last = name.split(".")
    for parent in parents:
        record = record.record(parent)
    return record, last


def _text(record: Record, column: Column) -> str:
    inner, name = _field(record, column)
    return inner.text(name)


def _written(record: Record, column: Column) -> str:
    """Return a label or an id, which may be a string, a number or a boolean in JSON."""
    inner, name = _field(record, column)
    return inner.written(name)


def _parts(record: Record, column: Column, separator: str | None) -> list[str]:
    """Return a list of strings, or the parts of a string."""
    inner, name = _field(record, column)
    if isinstance(inner.fields.get(name), str):
        return inner.text(name).split(separator)
    return inner.texts(name)


def _rows(definition: Definition, file: BenchmarkFile) -> Iterator[Record]:
    """Yield the rows of a table, by the names of its columns or, without a header line, by their positions."""
    wanted = [column for columns in definition.columns.given.values() for column in columns]
    named = any(isinstance(column, str) for column in wanted)
    rows = csv_rows(file) if definition.format == "csv" else ((line, line.text.split("\t")) for line in file.lines())
    header: list[str] = []
    for line, fields in rows:
        if not header:
            header = fields if named else [str(position) for position in range(len(fields))]
            _check_header(line, header, [str(column) for column in wanted], named=named)
            if named:
                continue
        check_width(line, fields, header)
        yield Record(line, dict(zip(header, fields, strict=True)))


def _check_header(line: Line, header: Sequence[str], wanted: Sequence[str], *, named: bool) -> None:
    if twice := next((name for name in wanted if header.count(name) > 1), None):
        raise line.error(twice, "two columns have this name", "give each its own, in the header line and in [columns]")
    for name in wanted:
        if name not in header:
            has = f"the header line has {', '.join(header)[:200]!r}" if named else f"the first row has {len(header)} columns"
            remedy = f"correct [columns] of the benchmark{nearest(name, header)}, or format"
            raise line.error(name, f"there is no such column{normalisation_hint(name, header)}; {has}", remedy)


class _Defined(Task):
    """Base class of all kinds."""

    definition: ClassVar[Definition]

    @classmethod
    @abstractmethod
    def attributes(cls, definition: Definition) -> dict[str, Any]:
        """Return the class attributes that depend on the kind."""

    def read(self, file: BenchmarkFile) -> list[Example]:
        """Read all examples, in order."""
        seen = Identifiers()
        column, found = self.definition.columns.id, list[Example]()
        for count, record in enumerate(self.records(file), start=1):
            if column is not None:
                name = seen.once(_written(record, column), line=record.line, field=str(column))
            else:
                # Records of one JSON list may be on one line.
                name = str(count if self.definition.format == "json" else record.line.number)
            found.append(self.example(record, name))
        return found

    def records(self, file: BenchmarkFile) -> Iterator[Record]:
        """Yield the record of each example."""
        if self.definition.format == "jsonl":
            return json_lines(file)
        if self.definition.format == "parquet":
            return parquet_records(file)
        if self.definition.format == "json":
            return json_list(file, key=self.definition.key or None)
        return _rows(self.definition, file)

    @abstractmethod
    def example(self, record: Record, name: str) -> Example:
        """Make the example of a record. Raises ValueError naming file, line, field and remedy."""

    @property
    def metrics(self) -> tuple[str, ...]:
        """See ``Task``."""
        return self.definition.metrics

    def column(self, name: str) -> Column:
        """Return a column that this kind needs."""
        column: Column = getattr(self.definition.columns, name)
        return column


class _Classification(_Defined, SequenceClassification):
    """A label for a text or a pair."""

    @classmethod
    def attributes(cls, definition: Definition) -> dict[str, Any]:
        """Return labels, metrics and heads."""
        heads = PAIR_HEADS if definition.kind == "pairs" else POOLING_HEADS
        measures = {name: _MEASURES[name] for name in definition.metrics}
        own = {"labels": definition.labels, "spellings": definition.spellings, "measures": measures}
        return own if definition.kind == "choice" else {**own, "heads": heads}

    def example(self, record: Record, name: str) -> Example:
        """Make an example of one or two texts."""
        pair = _text(record, self.column("pair")) if self.definition.kind == "pairs" else None
        return Example(name, _text(record, self.column("text")), self.gold(record), pair=pair)

    def gold(self, record: Record) -> int:
        """Return the position of the label."""
        column = self.column("label")
        return self.label(_written(record, column), line=record.line, field=f"{record.path}{column}")


class _Choice(_Classification, MultipleChoice):
    """One of several options."""

    def example(self, record: Record, name: str) -> Example:
        """Make an example of a text, an optional question, and the options."""
        options, columns = list[str](), self.definition.columns
        for column in columns.options:
            options += [_text(record, column)] if len(columns.options) > 1 else _parts(record, column, "\t")
        if len(options) != len(self.labels):
            problem = f"{len(options)} options for the {len(self.labels)} labels of {self.title}"
            raise record.error(str(columns.options[0]), problem, "give one option for each label")
        pair = None if columns.pair is None else _text(record, columns.pair)
        return Choice(name, _text(record, self.column("text")), self.gold(record), pair=pair, options=tuple(options))

    def posed(self, example: Choice, option: str) -> tuple[str, str]:
        """Ask ``[CLS] text [SEP] question option [SEP]``."""
        return example.text, f"{example.pair} {option}" if example.pair else option


class _Regression(_Defined, SequenceRegression):
    """A number for a text or a pair."""

    @classmethod
    def attributes(cls, definition: Definition) -> dict[str, Any]:
        """Return scale, metrics and heads. Error analysis distinguishes scores at the middle of the scale."""
        low, high = definition.scale
        heads = POOLING_HEADS if definition.columns.pair is None else PAIR_HEADS
        measures = {name: _MEASURES[name] for name in definition.metrics}
        return {"scale": (low, high), "threshold": (low + high) / 2, "measures": measures, "heads": heads}

    def example(self, record: Record, name: str) -> Example:
        """Make an example of one or two texts and their score."""
        column, second = self.column("label"), self.definition.columns.pair
        score = self.gold_score(_written(record, column), line=record.line, field=f"{record.path}{column}")
        return Example(name, _text(record, self.column("text")), score, pair=None if second is None else _text(record, second))


_PREFIXED, _SUFFIXED = re.compile(r"([BI])[-_](.+)"), re.compile(r"(.+)[-_]([BI])")


class _Tagging(_Defined, Tagging):
    """Named entities among words or characters. Tags may be written ``B-PER``, ``PER-B`` or ``PER_B``, and ``O`` or ``-``."""

    labels_every_piece = False

    @classmethod
    def attributes(cls, definition: Definition) -> dict[str, Any]:
        """Return tags and units."""
        tags, unit = entity_tags(definition.labels), definition.unit
        return {"tags": tags, "unit": unit, "counted": unit, "needs_every_unit": unit == "words"}

    def read(self, file: BenchmarkFile) -> list[Example]:
        """Read all sentences. Raises ValueError also if none has a unit."""
        found = super().read(file)
        if found and not any(example.target for example in found):
            problem, columns = f"no sentence has any {self.unit}", self.definition.columns
            raise file.error(1, str(columns.tags), problem, "give sentences with tags, or correct text and tags of [columns]")
        return found

    def records(self, file: BenchmarkFile) -> Iterator[Record]:
        """Yield the record of each sentence."""
        return self._sentences(file) if self.definition.format == "conll" else super().records(file)

    def _sentences(self, file: BenchmarkFile) -> Iterator[Record]:
        """Yield the units and tags of each sentence of a CoNLL file."""
        columns = self.definition.columns
        unit_column = 0 if columns.text is None else int(columns.text)
        tag_column = -1 if columns.tags is None else int(columns.tags)
        for sentence in conll_sentences(file):
            units, tags = list[str](), list[str]()
            for line, fields in sentence:
                if len(fields) < 2 or max(unit_column, tag_column) >= len(fields):
                    problem = f"found {line.text[:40]!r}"
                    raise line.error("tag", problem, "a line is a unit and its tag, with a tab or blanks between columns")
                units.append(fields[unit_column])
                tags.append(fields[tag_column])
            yield Record(sentence[0][0], {"units": units, "tags": tags})

    def example(self, record: Record, name: str) -> Tagged:
        """Make a sentence with the tag of each unit."""
        conll = self.definition.format == "conll"
        separator = " " if self.unit == "words" else ""
        column = "units" if conll else self.column("text")
        inner, field = _field(record, column)
        if isinstance(inner.fields.get(field), str):
            text = inner.text(field)
            units = text.split(" ") if separator else list(text)
        else:
            units = inner.texts(field)
        written = _parts(record, "tags" if conll else self.column("tags"), None)
        if len(written) != len(units):
            problem = f"{len(written)} tags for {len(units)} {self.unit}"
            raise record.error(
                "tags" if conll else str(self.column("tags")), problem, f"give one tag for each of the {self.unit}"
            )
        tags = tuple(self.tag(tag, line=record.line, field=f"tags[{number}]") for number, tag in enumerate(written))
        return Tagged(name, separator.join(units), tags, spans=unit_spans(units, len(separator)))

    def tag(self, written: str, *, line: Line, field: str) -> str:
        """Convert a tag written as ``B-PER``, ``PER-B`` or ``PER_B``, or as ``O`` or ``-``, to ``B-PER`` or ``O``.

        Raises ValueError naming the known tags if it is unknown.
        """
        found = OUTSIDE if written == "-" else written
        if found not in self.tags and (suffixed := _SUFFIXED.fullmatch(written)):
            found = f"{suffixed[2]}-{suffixed[1]}"
        elif found not in self.tags and (prefixed := _PREFIXED.fullmatch(written)):
            found = f"{prefixed[1]}-{prefixed[2]}"
        return super().tag(found, line=line, field=field)

    def score(self, examples: Sequence[Example], predicted: Sequence[Any], mode: Mode) -> Scores:
        """Compute seqeval's ``entity_micro_f1``, its strict ``entity_macro_f1`` over types, and ``accuracy`` of units."""
        gold = [example.target for example in examples]
        values = {
            "entity_micro_f1": entity_micro_f1(gold, predicted),
            "entity_macro_f1": entity_macro_f1(gold, predicted),
            "accuracy": accuracy([tag for tags in gold for tag in tags], [tag for tags in predicted for tag in tags]),
        }
        found = any(tag != OUTSIDE for tags in predicted for tag in tags)
        ordered = {name: values[name] for name in self.definition.metrics}
        undefined = undefined_macro_f1(gold, predicted) if mode == "official" else {}
        return Scores(ordered, () if found else ("no entity is predicted",), undefined)

    def answered(self, examples: Sequence[Example], predicted: Sequence[Any], mode: Mode) -> Additive:
        """Compute each metric from counts."""
        rows = list(zip((example.target for example in examples), predicted, strict=True))
        if self.metric == "accuracy":
            right_N2 = np.array([[sum(a == b for a, b in zip(g, p, strict=True)), len(g)] for g, p in rows], dtype=np.float64)
            return Additive(right_N2, lambda sums_BK: 100 * sums_BK[:, 0] / np.maximum(sums_BK[:, 1], 1))
        if self.metric == "entity_macro_f1":
            return Additive.of_counts([strict_counts(g, p, self.definition.labels) for g, p in rows], ClassCounts.macro_f1)
        return Additive.of_counts([lenient_counts(g, p) for g, p in rows], ClassCounts.micro_f1)


class _Spans(_Defined, QuestionAnswering):
    """Answers within a context."""

    @classmethod
    def attributes(cls, definition: Definition) -> dict[str, Any]:
        """Return id field, answerability and heads."""
        heads = ("own",) if definition.answerable else ("own", "answerability")
        return {"id_fields": (str(definition.columns.id or "id"),), "answerable": definition.answerable, "heads": heads}

    def read(self, file: BenchmarkFile) -> list[Example]:
        """Read all questions."""
        return QuestionAnswering.read(self, file) if self.definition.format == "squad" else _Defined.read(self, file)

    def question(self, record: Record, context: str, article: str) -> Question:
        """Read a question of SQuAD's form and locate its answers.

        Raises ValueError also if an answer is not at its given offset. Without an offset an answer must be in the context, and
        the first one must be there exactly once.
        """
        found = super().question(record, context, article)
        placed = []
        for number, answer in enumerate(found.target):
            field = f"answers[{number}]"
            if answer.begin != -1:  # The file gives an offset.
                _check_visible(record, f"{field}.text", answer.text)
                _check_place(record, f"{field}.answer_start", answer, context)
                placed.append(answer)
            else:
                begin = _only_place(record, f"{field}.text", answer.text, context, repeated=number > 0)
                placed.append(Answer(answer.text, begin))
        return replace(found, target=tuple(placed))

    def example(self, record: Record, name: str) -> Question:
        """Make a question with its only answer, or with none."""
        columns = self.definition.columns
        context, answer = _text(record, self.column("text")), _text(record, self.column("answer"))
        field = f"{record.path}{columns.answer}"
        if not answer:
            if self.answerable:
                remedy = "give the answer, or say answerable = false in the benchmark's file"
                raise record.line.error(field, "there is none", remedy)
            return Question(name, _text(record, self.column("pair")), (), pair=context, article=context)
        _check_visible(record, str(columns.answer), answer)
        if columns.answer_start is not None and (written := _written(record, columns.answer_start)):
            if not re.fullmatch(r"[0-9]+", written):
                raise record.error(str(columns.answer_start), f"found {written!r}", "give a number of characters from 0")
            begin = int(written)
            _check_place(record, str(columns.answer_start), Answer(answer, begin), context)
        else:
            begin = _only_place(record, str(columns.answer), answer, context)
        return Question(name, _text(record, self.column("pair")), (Answer(answer, begin),), pair=context, article=context)

    def measures(self, question: Question, predicted: str, mode: Mode) -> Mapping[str, float]:
        """Return exact match of normalised answers and F1 of their characters or words; no answer equals an empty one."""
        words = self.definition.compared == "words"
        normalise, f1 = (normalise_squad, squad_f1) if words else (normalise_korquad, korquad_f1)
        accepted = question.accepted if self.answerable else [text for text in question.accepted if normalise(text)] or [""]
        values = em_and_f1(predicted, accepted, normalise=normalise, f1=f1, mode=mode if self.answerable else "corrected")
        return {name: values[name] for name in self.definition.metrics}


def _check_visible(record: Record, field: str, answer: str) -> None:
    """Raise ValueError if an answer is blank: no piece of the context would cover it."""
    if not answer.strip():
        raise record.error(field, f"found {answer!r}, which has no character that can be seen", "give the answer that it has")


def _only_place(record: Record, field: str, answer: str, context: str, *, repeated: bool = False) -> int:
    """Return the offset of an answer in a context that must contain it exactly once; if ``repeated``, at least once.

    Raises ValueError otherwise, or if the answer is blank.
    """
    _check_visible(record, field, answer)
    begin = context.find(answer)
    if begin >= 0 and (repeated or context.find(answer, begin + 1) < 0):
        return begin
    times = sum(context.startswith(answer, place) for place in range(len(context)))  # Places may overlap.
    remedy = "say where it begins in a column answer_start" if times else "an answer is a part of the context"
    raise record.error(field, f"{answer[:40]!r} is in the context {times} times", remedy)


def _check_place(record: Record, field: str, answer: Answer, context: str) -> None:
    """Raise ValueError if an answer is not at its offset in the context."""
    found = context[answer.begin : answer.begin + len(answer.text)] if answer.begin >= 0 else ""
    if found != answer.text:
        problem = f"the context of {len(context):,} characters has {found[:40]!r} at {answer.begin}, not {answer.text[:40]!r}"
        raise record.error(field, problem, "count it in characters of the context, from 0")


_KINDS: dict[Kind, type[_Defined]] = {
    "classification": _Classification,
    "pairs": _Classification,
    "regression": _Regression,
    "tagging": _Tagging,
    "spans": _Spans,
    "choice": _Choice,
}
