"""A benchmark that a TOML file defines: its form, its labels, its metric and its published scores, and where its files are."""

from __future__ import annotations

import json
import os
import re
import tomllib
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Discriminator, Field, Tag, ValidationError, field_validator, model_validator

from korealbert.artifact import EACH_ONCE, InputPath, Spec
from korealbert.artifact.spec import PRIVATE_HOSTS, explained, refuse_outside, refuse_special
from korealbert.formatting import closest, nearest

_SUFFIX = ".toml"
"""Ending of the name of such a file; no benchmark of the package has it."""


class RemoteFile(Spec):
    """A benchmark file that is fetched once, under the checksum that it must have."""

    url: str = Field(pattern=r"^https?://.+$")
    """Its address."""
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")
    """The checksum of the file as it comes, in lower-case hex digits."""
    name: str = Field(default="", pattern=r"^[^/\x00]*$")
    """Name of the file; its ending says how it is read. By default the last part of the URL."""
    private_hosts: Annotated[tuple[str, ...], PRIVATE_HOSTS] = ()
    """Hosts that may lie at a private address; all others must lie at public ones."""

    @field_validator("private_hosts", mode="before")
    @classmethod
    def _list_is_a_tuple(cls, value: Any) -> Any:
        # FeaturesSpec has looked at the table before pydantic does, who then no longer takes a list of JSON for a tuple.
        return tuple(value) if isinstance(value, list) else value


LOCAL, REMOTE = "local file", "remote file"
"""Tags of the two kinds of ``DataFile`` in the locations of pydantic's errors."""


def _kind_of_file(value: Any) -> str:
    return REMOTE if isinstance(value, Mapping | RemoteFile) else LOCAL


DataFile = Annotated[Annotated[InputPath, Tag(LOCAL)] | Annotated[RemoteFile, Tag(REMOTE)], Discriminator(_kind_of_file)]
"""A path, or a table of URL and checksum."""

Kind = Literal["classification", "pairs", "regression", "tagging", "spans", "choice"]


def _named_or_placed(value: object) -> object:
    if not isinstance(value, str | int) or isinstance(value, bool) or value == "":
        raise ValueError("write the name of a column, or its position from 0")
    return value


Column = Annotated[str | int, BeforeValidator(_named_or_placed)]
"""A name, or a position from 0 in files without a header."""

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
    "classification": (("text", "label"), ()),
    "pairs": (("text", "pair", "label"), ()),
    "regression": (("text", "label"), ("pair",)),
    "tagging": (("text", "tags"), ()),
    "spans": (("text", "pair", "answer"), ("answer_start",)),
    "choice": (("text", "options", "label"), ("pair",)),
}
"""The columns that each kind needs, and optional ones in addition to ``id``."""

_TABULAR = ("tsv", "csv", "jsonl", "json")
_FORMATS: dict[Kind, tuple[str, ...]] = {"tagging": (*_TABULAR, "conll"), "spans": (*_TABULAR, "squad")}
"""The formats of kinds that have one of their own."""


class Columns(Spec):
    """The columns of a table, or fields of a JSON object, by their meaning.

    A name with dots (``labels.real``) leads through JSON objects. Positions are for tables without a header line.
    """

    id: Column | None = None
    """Unique id of each example in a file. None: the number of the line, in JSON that of the record."""
    text: Column | None = None
    """The text; of spans the context."""
    pair: Column | None = None
    """The second text; of spans and choices the question."""
    label: Column | None = None
    """The label as ``spellings`` write it; of regression a number."""
    tags: Column | None = None
    """Tags of all units of the text: a list, or a string with blanks between them."""
    options: Annotated[tuple[Column, ...], EACH_ONCE] = ()
    """The columns of the options in order, or the one field that is a list of them."""
    answer: Column | None = None
    """The answer's text; empty where there is none."""
    answer_start: Column | None = None
    """Offset in the context in characters, from 0. None: the only place where the context contains it."""

    @property
    def given(self) -> dict[str, list[Column]]:
        """The columns that are named, by field."""
        found = {name: getattr(self, name) for name in type(self).model_fields}
        return {
            name: list(value) if isinstance(value, tuple) else [value]
            for name, value in found.items()
            if value not in (None, ())
        }


class Settings(Spec):
    """Fine-tuning settings of a benchmark, wherever a recipe does not say otherwise."""

    epochs: int | None = Field(default=None, ge=1, le=1000)
    """Passes over the training examples."""
    batch_size: int | None = Field(default=None, ge=1)
    """Examples of one optimiser step."""
    learning_rate: float | None = Field(default=None, gt=0, le=1)
    """Peak of the learning rate."""
    warmup_ratio: float | None = Field(default=None, ge=0, lt=1)
    """Share of the steps over which it rises."""
    weight_decay: float | None = Field(default=None, ge=0, lt=1)
    """Decoupled weight decay."""
    dropout: float | None = Field(default=None, ge=0, lt=1)
    """Dropout before the head."""
    max_length: int | None = Field(default=None, ge=8)
    """Longest input in pieces."""


def _as_printed(value: object) -> object:
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else value


class PublishedScore(Spec):
    """A score that somebody printed, of the same test set and metric."""

    model: str = Field(min_length=1)
    """Whose score it is."""
    metric: str = ""
    """The metric. Empty: the benchmark's main one."""
    value: Annotated[str, BeforeValidator(_as_printed), Field(pattern=r"^-?\d+(\.\d+)?$")]
    """As printed, times 100: a number, or a string that keeps its last zeros."""
    source: str = Field(min_length=1)
    """The publication."""
    note: str = ""
    """Remarks for a comparison."""


class Definition(Spec):
    """A benchmark defined by a TOML file: the layout of its official files, and its metrics."""

    beside: ClassVar[frozenset[str]] = frozenset({"origin", "published"})

    name: str = Field(pattern=r"^[a-z][a-z0-9_]*$")
    """Its name in stores and tables."""
    title: str = Field(min_length=1)
    """Its name for people."""
    kind: Kind
    """``classification``: a label for a text. ``pairs``: for two. ``regression``: a number for one or two texts. ``tagging``:
    named entities among words or characters. ``spans``: answers within a context. ``choice``: one of several options."""
    origin: str = Field(min_length=1)
    """Origin and licence of its official files."""
    format: Literal["tsv", "csv", "jsonl", "json", "conll", "squad"]
    """``tsv``: tab-separated, quotation marks are text. ``csv``: RFC 4180. ``jsonl``: a JSON object a line. ``json``: a list of
    objects. ``conll``: a unit and its tag a line, blank lines between sentences (tagging). ``squad``: SQuAD's JSON (spans)."""
    key: str = ""
    """json: the field of the outermost object that holds the list."""
    columns: Columns = Columns()
    """The fields of a record."""
    labels: Annotated[tuple[str, ...], EACH_ONCE] = ()
    """The labels; of tagging the types of entities; of choices the names of their places."""
    spellings: Annotated[tuple[str, ...], EACH_ONCE] = ()
    """How the files write the labels, in the same order, where they write something else."""
    scale: tuple[float, float] = (0.0, 5.0)
    """Regression: the lowest and the highest gold score."""
    unit: Literal["words", "characters"] = "words"
    """Tagging: the unit that has a tag. Words are separated by blanks."""
    compared: Literal["characters", "words"] = "characters"
    """Spans: F1 over the answers' characters, as KorQuAD 1, or over their words, as SQuAD."""
    answerable: bool = True
    """Spans: every question has an answer."""
    metric: str = ""
    """The main metric. Empty: the first of its kind."""
    official_dev: bool = False
    """Whether it has a dev set of its own, so that a recipe must name its file. Otherwise 5 % of train are held out, unless a
    recipe names a dev file."""
    test_examples: int = Field(default=0, ge=0)
    """Size of the official test set; scores over another number say so. 0: there is no official number."""
    defaults: Settings = Settings()
    """Settings of fine-tuning."""
    published: tuple[PublishedScore, ...] = ()
    """Scores that others printed."""

    @property
    def metrics(self) -> tuple[str, ...]:
        """All metrics, the main one first. F1 of one class exists only for two labels: it is that of the second."""
        offered = [name for name in _METRICS[self.kind] if name != "f1" or self.kind == "spans" or len(self.labels) == 2]
        own = self.metric or offered[0]
        return (own, *(name for name in offered if name != own))

    @property
    def settings(self) -> dict[str, int | float]:
        """The settings that are given."""
        return {name: value for name in Settings.model_fields if (value := getattr(self.defaults, name)) is not None}

    @model_validator(mode="after")
    def _parts_fit(self) -> Definition:
        if problems := [*self._wrong_columns(), *self._wrong_labels(), *self._ambiguous(), *self._wrong_metrics()]:
            raise ValueError("\n".join(problems))
        return self

    def _wrong_columns(self) -> Iterator[str]:
        formats, form = _FORMATS.get(self.kind, _TABULAR), self.format
        if form not in formats:
            form = "tsv"  # Any table: what is wrong with the columns of each.
            yield f"field 'format': {self.format!r} is none of kind {self.kind}; write {' or '.join(formats)}"
        needed, further = _COLUMNS[self.kind]
        if form not in _TABULAR:
            needed, further = (), (("text", "tags") if form == "conll" else ())
        given = self.columns.given
        for name in needed:
            if name not in given:
                yield f"field 'columns.{name}' is missing; kind {self.kind} needs {', '.join(needed)}"
        for name in given:
            if name not in (*needed, *further, *(() if form == "conll" else ("id",))):
                yield f"field 'columns.{name}': format {form} of kind {self.kind} has no use for it; remove it"
        written = [column for columns in given.values() for column in columns]
        positions = sum(isinstance(column, int) for column in written)
        if form == "conll" and positions < len(written):
            yield "field 'columns': columns of conll are positions from 0; write numbers"
        elif form in ("json", "jsonl", "squad") and positions:
            yield f"field 'columns': fields of {form} have names; write them instead of positions"
        elif 0 < positions < len(written):
            yield "field 'columns': names and positions; write names of the header line, or positions where there is none"
        if any(isinstance(column, int) and column < 0 for column in written):
            yield "field 'columns': a position lies below 0; the first column is 0"
        if self.key and self.format in formats and form != "json":
            yield f"field 'key': format {self.format} has none; remove it, or write format = \"json\""

    def _wrong_labels(self) -> Iterator[str]:
        unlabelled = self.kind in ("regression", "spans")
        fewest = 0 if unlabelled else 1 if self.kind == "tagging" else 2
        if unlabelled and self.labels:
            yield f"field 'labels': kind {self.kind} has none; remove them"
        elif len(self.labels) < fewest:
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
        """What stands for one label as a spelling and for another as a name."""
        places = {written: number for number, written in enumerate(self.spellings)}
        if twice := [name for number, name in enumerate(self.labels) if places.get(name, number) != number]:
            remedy = "rename the labels, which need not be as the files write them"
            yield f"field 'spellings': {', '.join(map(repr, twice))} is the name of another label too; {remedy}"
        if self.kind == "tagging" and {"B", "I"} <= set(self.labels):
            yield "field 'labels': types B and I make B-I a tag of either, for I-B may be written B-I; rename one"

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


class Files(Spec):
    """The official files. Paths start at the directory of the benchmark's TOML file; a recipe may name others."""

    train: DataFile | None = None
    """Training file: a path, or a URL with its sha256."""
    train_member: str = ""
    """Name of the file within ``train``, when that is an archive."""
    dev: DataFile | None = None
    """Dev file."""
    dev_member: str = ""
    """Name of the file within ``dev``, when that is an archive."""
    test: DataFile | None = None
    """Test file."""
    test_member: str = ""
    """Name of the file within ``test``, when that is an archive."""

    @model_validator(mode="after")
    def _members_have_archives(self) -> Files:
        bare = [split for split in ("train", "dev", "test") if self.of(split).keys() == {f"{split}_member"}]
        if bare:
            raise ValueError("; ".join(f"{split}_member is given without {split}; name the archive" for split in bare))
        return self

    def of(self, split: str) -> dict[str, Any]:
        """The fields of a split, empty where it has none."""
        names = (split, f"{split}_member")
        return {name: getattr(self, name) for name in names if getattr(self, name)}


class BenchmarkTable(Definition):
    """The TOML file of a benchmark: its definition, and where its files are."""

    files: Files = Files()
    """The official files, for recipes that name none."""

    @property
    def definition(self) -> Definition:
        """The content without the places of files."""
        return Definition(**{name: getattr(self, name) for name in Definition.model_fields})

    @property
    def _unit_of_lists(self) -> str:
        """What the tokens of a sentence or the strings of a list are; empty where there is neither."""
        if self.format not in ("conll", "json", "jsonl"):
            return ""
        if self.kind == "choice":
            return "texts" if len(self.columns.options) == 1 else ""
        return self.unit if self.kind == "tagging" else ""

    @property
    def decontamination(self) -> str:
        """The table of a recipe that keeps the texts of the test file out of a corpus."""
        test, given = self.files.test, self.columns.given
        texts = ("text", "pair", "options") if self.kind == "choice" else ("text", "pair")
        columns = [column for name in texts for column in given.get(name, [])]
        if self.format == "conll":
            columns = [0 if self.columns.text is None else self.columns.text]
        fields = {
            "name": self.name,
            "path": str(test) if isinstance(test, InputPath) else "PATH OF THE TEST FILE",
            "member": self.files.test_member,
            "format": "korquad" if self.format == "squad" else self.format,
            "columns": columns,
            "key": self.key,
            "unit": self._unit_of_lists,
        }
        # Strings, numbers and lists of them are written in TOML as in JSON.
        written = [f"{name} = {json.dumps(value, ensure_ascii=False)}" for name, value in fields.items() if value]
        if self.format in ("tsv", "csv") and isinstance(columns[0], int):
            written.append("header = false")
        return "\n".join(["[[dedup.decontaminate]]", *written])


def is_file(task: str) -> bool:
    """Whether a task is named by its file."""
    return task.endswith(_SUFFIX)


def read_table(path: Path, *, within: Path | None = None, taken: Callable[[], list[str]] = list) -> BenchmarkTable:
    """Read the TOML file of a benchmark. ``within``: the directory that no path may lead out of; ``taken``: other names.

    Raises ValueError whose lines name file, field and remedy, for all that is wrong with it.
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
        problems = [*_told(path, error), *_told_behind(path, content, error), *problems]
    if problems:
        raise ValueError("\n".join(problems))
    return table


def _told(path: Path, error: ValidationError) -> list[str]:
    message = explained(str(path), BenchmarkTable, error, (LOCAL, REMOTE))
    return message.replace(f"{path}: field", f"{path}, field").splitlines()


_STAND_INS = {"name": "x", "title": "x", "origin": "x", "format": "tsv"}
"""Values of fields that a benchmark needs, where its own cannot be read."""


def _told_behind(path: Path, content: dict[str, Any], error: ValidationError) -> list[str]:
    """Mistakes between fields, which pydantic looks for only where it can read each of them.

    They are those that remain where each misspelt name is the nearest one, and what else it cannot read is left out.
    """
    places = [[part for part in problem["loc"] if part not in (LOCAL, REMOTE)] for problem in error.errors()]
    if not all(places):
        return []
    for place, problem in zip(places, error.errors(), strict=True):
        _mend(content, place, problem["type"], str(problem.get("ctx", {}).get("expected", "")))
    if content.get("kind") not in list(_METRICS):  # It may be a list, which no mapping can look up.
        return []
    # What is said of a field already, or follows from a field that cannot be read, is no mistake of its own.
    said = [".".join(map(str, place)) for place in places]
    said += [] if "format" in content else ["key", "columns"]
    said += ["spellings", "columns.options", "metric"] if "labels" in said else []
    fields = {name: value for name, value in {**_STAND_INS, **content}.items() if name in Definition.model_fields}
    try:
        Definition.model_validate_json(json.dumps(fields), strict=True)
    except ValidationError as further:
        lines = _told(path, further)
        return [line for line in lines if not any(f"field {name!r}" in line or f"field '{name}." in line for name in said)]
    return []


def _mend(content: dict[str, Any], place: list[str | int], fault: str, expected: str) -> None:
    """Replace what pydantic found wrong by the nearest that is right, or remove it."""
    match place:
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
