"""What a benchmark is: the form of its records, its labels and metrics, its default settings and published scores."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, ClassVar, Literal, get_args

from pydantic import BeforeValidator, Field, model_validator

from korealbert.artifact import EACH_ONCE, Spec
from korealbert.formatting import nearest

Kind = Literal["classification", "pairs", "regression", "tagging", "spans", "choice"]
KINDS: tuple[Kind, ...] = get_args(Kind)


def _name_or_position(value: object) -> object:
    if not isinstance(value, str | int) or isinstance(value, bool) or value == "":
        raise ValueError("write the name of a column, or its position from 0")
    return value


Column = Annotated[str | int, BeforeValidator(_name_or_position)]
"""A column's name, or its position from 0 in files without a header."""

_METRICS: dict[Kind, tuple[str, ...]] = {
    "classification": ("accuracy", "macro_f1", "mcc", "f1"),
    "pairs": ("accuracy", "macro_f1", "mcc", "f1"),
    "regression": ("spearman", "pearson"),
    "tagging": ("entity_micro_f1", "entity_macro_f1", "accuracy"),
    "spans": ("f1", "em"),
    "choice": ("accuracy", "macro_f1"),
}
"""The metrics of each kind; the first is the default."""

_COLUMNS: dict[Kind, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "classification": (("text", "label"), ("id",)),
    "pairs": (("text", "pair", "label"), ("id",)),
    "regression": (("text", "label"), ("id", "pair")),
    "tagging": (("text", "tags"), ("id",)),
    "spans": (("text", "pair", "answer"), ("id", "answer_start")),
    "choice": (("text", "options", "label"), ("id", "pair")),
}
"""Required and optional columns of each kind."""
_COLUMNS_OF_FORMAT: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "conll": ((), ("text", "tags")),
    "squad": ((), ("id",)),
}
"""The same of formats that are not tables, whatever the kind."""

_TABULAR = ("tsv", "csv", "jsonl", "json", "parquet")
_FORMATS: dict[Kind, tuple[str, ...]] = {"tagging": (*_TABULAR, "conll"), "spans": (*_TABULAR, "squad")}
"""The formats of kinds that allow more than tables."""


class Columns(Spec):
    """The columns of a table, or fields of a JSON object, by their meaning.

    A name with dots (``labels.real``) leads through JSON objects. Positions are for tables without a header line.
    """

    id: Column | None = None
    """Unique id of each example in a file. None: the line number, in JSON the record's number."""
    text: Column | None = None
    """The text; for spans the context."""
    pair: Column | None = None
    """The second text; for spans and choices the question."""
    label: Column | None = None
    """The label as in ``spellings``; for regression a number."""
    tags: Column | None = None
    """Tags of all units of the text: a list, or a string in which blanks separate them."""
    options: Annotated[tuple[Column, ...], EACH_ONCE] = ()
    """The columns of the options in order, or the one field that is a list of options."""
    answer: Column | None = None
    """The answer's text; empty if there is no answer."""
    answer_start: Column | None = None
    """The answer's offset in the context in characters, from 0. None: the context must contain the answer exactly once."""

    @property
    def given(self) -> dict[str, list[Column]]:
        """The columns that are set, by field."""
        found = {name: getattr(self, name) for name in type(self).model_fields}
        return {
            name: list(value) if isinstance(value, tuple) else [value]
            for name, value in found.items()
            if value not in (None, ())
        }


class Settings(Spec):
    """Default fine-tuning settings of a benchmark, which a recipe may replace."""

    epochs: int | None = Field(default=None, ge=1, le=1000)
    """Passes over the training examples."""
    batch_size: int | None = Field(default=None, ge=1)
    """Examples per optimiser step."""
    learning_rate: float | None = Field(default=None, gt=0, le=1)
    """Peak learning rate."""
    warmup_ratio: float | None = Field(default=None, ge=0, lt=1)
    """Share of the steps over which the learning rate rises."""
    weight_decay: float | None = Field(default=None, ge=0, lt=1)
    """Decoupled weight decay."""
    dropout: float | None = Field(default=None, ge=0, lt=1)
    """Dropout before the head."""
    max_length: int | None = Field(default=None, ge=8)
    """Longest input in pieces."""


def _as_printed(value: object) -> object:
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else value


class PublishedScore(Spec):
    """A published score of the same test set."""

    model: str = Field(min_length=1)
    """The model's name."""
    metric: str = ""
    """The metric. Empty: the benchmark's main one."""
    value: Annotated[str, BeforeValidator(_as_printed), Field(pattern=r"^-?\d+(\.\d+)?$")]
    """The score as printed, times 100: a number, or a string to keep trailing zeros."""
    source: str = Field(min_length=1)
    """The publication."""
    note: str = ""
    """Remarks for a comparison."""


class Definition(Spec):
    """The layout of a benchmark's official files, and its metrics."""

    beside: ClassVar[frozenset[str]] = frozenset({"origin", "published"})

    name: str = Field(pattern=r"^[a-z][a-z0-9_]*$")
    """Name in stores and tables."""
    title: str = Field(min_length=1)
    """Name for people."""
    kind: Kind
    """``classification``: a label for a text. ``pairs``: a label for two texts. ``regression``: a number for one or two texts.
    ``tagging``: named entities among words or characters. ``spans``: answers in a context. ``choice``: one of some options."""
    origin: str = Field(min_length=1)
    """Origin and license of its official files."""
    format: Literal["tsv", "csv", "jsonl", "json", "parquet", "conll", "squad"]
    """``tsv``: tab-separated, with literal quotation marks. ``csv``: RFC 4180. ``jsonl``: a JSON object per line. ``json``: a
    list of objects. ``parquet``: a record per row, with the fields of ``jsonl``. ``conll``: a unit and its tag per line, blank
    lines between sentences (tagging). ``squad``: SQuAD's JSON (spans)."""
    key: str = ""
    """json: the field of the outermost object that contains the list."""
    columns: Columns = Columns()
    """The fields of a record."""
    labels: Annotated[tuple[str, ...], EACH_ONCE] = ()
    """The labels; for tagging the entity types; for choices the names of the positions."""
    spellings: Annotated[tuple[str, ...], EACH_ONCE] = ()
    """How the files write the labels, in the same order, if they do not use ``labels``."""
    scale: tuple[float, float] = (0.0, 5.0)
    """Regression: the lowest and the highest gold score."""
    unit: Literal["words", "characters"] = "words"
    """Tagging: the unit that has a tag. Words are separated by blanks."""
    compared: Literal["characters", "words"] = "characters"
    """Spans: F1 over the answers' characters, as in KorQuAD 1, or over their words, as in SQuAD."""
    answerable: bool = True
    """Spans: whether every question has an answer."""
    metric: str = ""
    """The main metric. Empty: the first of its kind."""
    official_dev: bool = False
    """Whether there is an official dev set, which a recipe must then name. Otherwise 5 % of train are held out, unless a
    recipe names a dev file."""
    test_examples: int = Field(default=0, ge=0)
    """Size of the official test set; scores over fewer examples are marked. 0: unknown."""
    defaults: Settings = Settings()
    """Default fine-tuning settings."""
    published: tuple[PublishedScore, ...] = ()
    """Published scores."""

    @property
    def metrics(self) -> tuple[str, ...]:
        """All metrics, the main one first. ``f1`` of a classification is that of the second of exactly two labels."""
        offered = [name for name in _METRICS[self.kind] if name != "f1" or self.kind == "spans" or len(self.labels) == 2]
        own = self.metric or offered[0]
        return (own, *(name for name in offered if name != own))

    @property
    def settings(self) -> dict[str, int | float]:
        """The default settings that are set."""
        return {name: value for name in Settings.model_fields if (value := getattr(self.defaults, name)) is not None}

    @model_validator(mode="after")
    def _parts_fit(self) -> Definition:
        if problems := [*self._wrong_columns(), *self._wrong_labels(), *self._ambiguous(), *self._wrong_metrics()]:
            raise ValueError("\n".join(problems))
        return self

    def _wrong_columns(self) -> Iterator[str]:
        formats = _FORMATS.get(self.kind, _TABULAR)
        form = self.format if self.format in formats else "tsv"  # The columns are then checked as those of a table.
        if form != self.format:
            yield f"field 'format': kind {self.kind} has no {self.format!r}; write {' or '.join(formats)}"
        needed, optional = _COLUMNS_OF_FORMAT.get(form, _COLUMNS[self.kind])
        given = self.columns.given
        for name in needed:
            if name not in given:
                yield f"field 'columns.{name}' is missing; kind {self.kind} needs {', '.join(needed)}"
        for name in given:
            if name not in (*needed, *optional):
                yield f"field 'columns.{name}': format {form} of kind {self.kind} has no use for it; remove it"
        yield from _wrong_positions(form, [column for columns in given.values() for column in columns])
        if self.key and self.format in formats and form != "json":
            yield f"field 'key': format {self.format} has none; remove it, or write format = \"json\""

    def _wrong_labels(self) -> Iterator[str]:
        unlabelled = self.kind in ("regression", "spans")
        fewest = 1 if self.kind == "tagging" else 2
        if unlabelled and self.labels:
            yield f"field 'labels': kind {self.kind} has none; remove them"
        elif not unlabelled and len(self.labels) < fewest:
            what = "the types of entities" if self.kind == "tagging" else "two labels at least"
            yield f"field 'labels': kind {self.kind} has {len(self.labels)}; name {what}"
        if self.spellings and (self.kind == "tagging" or len(self.spellings) != len(self.labels)):
            remedy = "leave them out" if self.kind == "tagging" else "give one for each, in the order of labels"
            yield f"field 'spellings': {len(self.spellings)} for {len(self.labels)} labels; {remedy}"
        options = len(self.columns.options)
        if options > 1 and options != len(self.labels):
            yield f"field 'columns.options': {options} options for {len(self.labels)} labels; name a label for each"
        if self.scale[0] >= self.scale[1]:
            yield f"field 'scale': from {self.scale[0]:g} to {self.scale[1]:g}; write [lowest, highest]"

    def _ambiguous(self) -> Iterator[str]:
        """Yield an error for each word that is the spelling of one label and the name of another."""
        positions = {written: number for number, written in enumerate(self.spellings)}
        if twice := [name for number, name in enumerate(self.labels) if positions.get(name, number) != number]:
            remedy = "rename the labels, which need not be as the files write them"
            yield f"field 'spellings': {', '.join(map(repr, twice))} is the name of another label too; {remedy}"
        if self.kind == "tagging" and {"B", "I"} <= set(self.labels):
            yield "field 'labels': with types B and I the tag B-I is ambiguous, because I-B may be written B-I; rename one"

    def _wrong_metrics(self) -> Iterator[str]:
        known = _METRICS[self.kind]
        if self.metric and self.metric not in known:
            near = nearest(self.metric, known)
            yield f"field 'metric': kind {self.kind} has no {self.metric!r}{near}; it has {', '.join(known)}"
        elif self.metric == "f1" and self.kind != "spans" and len(self.labels) != 2:
            yield "field 'metric': f1 is of the second of two labels; take macro_f1 for more"
        offered = [name for name in self.metrics if name in known]
        for number, score in enumerate(self.published):
            if score.metric and score.metric not in offered:
                what = f"{score.metric!r} is none of its metrics{nearest(score.metric, offered)}"
                yield f"field 'published.{number}.metric': {what}; it has {', '.join(offered)}"


def _wrong_positions(form: str, columns: Sequence[Column]) -> Iterator[str]:
    """Yield the mistakes in columns of a format that are positions, or should be."""
    positions = [column for column in columns if isinstance(column, int)]
    if form == "conll" and len(positions) < len(columns):
        yield "field 'columns': columns of conll are positions from 0; write numbers"
    elif form in ("json", "jsonl", "parquet", "squad") and positions:
        yield f"field 'columns': fields of {form} have names; write them instead of positions"
    elif 0 < len(positions) < len(columns):
        yield "field 'columns': names and positions are mixed; write names of the header line, or positions if there is none"
    if any(position < 0 for position in positions):
        yield "field 'columns': a position is negative; the first column is 0"
