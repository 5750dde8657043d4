"""Reading a recipe's TOML file into the validated specs of every stage."""

from __future__ import annotations

import difflib
import json
import os
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypeVar, get_args

from pydantic import BaseModel, Field, ValidationError, ValidationInfo, field_validator

from korealbert.artifact import InputPath, Spec, refuse_repeats
from korealbert.corpus import balance, clean, dedup
from korealbert.corpus.crawl.source import load_source
from korealbert.corpus.crawl.spec import CrawlSpec
from korealbert.corpus.fetch import FetchSpec
from korealbert.corpus.sources import ExtractSpec
from korealbert.examples import packing
from korealbert.examples.views import ViewsSpec
from korealbert.export import stage as export
from korealbert.finetune import tasks
from korealbert.finetune.encoder_files import EncoderSpec
from korealbert.finetune.init import INITS, Init
from korealbert.finetune.search import LIST, RANGE, SearchSpec
from korealbert.finetune.spec import LOCAL, REMOTE, FinetuneSpec
from korealbert.finetune.speed_column import SpeedSpec
from korealbert.pretrain.spec import PretrainSpec
from korealbert.report import stage as report
from korealbert.vocab import sizes
from korealbert.vocab import stage as vocab


class RecipeError(ValueError):
    """A recipe that cannot be run; the message names file, table, field and remedy."""


class FinetuneGrid(Spec):
    """The cells of one benchmark: every init times every seed under one set of hyper-parameters."""

    seeds: tuple[Annotated[int, Field(ge=0, lt=2**63)], ...] = Field(default=(1, 2, 3), min_length=1)
    """One fine-tuning run per seed; the report gives mean and standard deviation over them."""
    inits: tuple[Init, ...] = Field(default=INITS, min_length=1)
    """Start from the pretrained weights, and from random ones under the same budget."""
    search: SearchSpec | None = None
    """Settings to choose on dev, for each init on its own, before the seeds run with the chosen ones."""
    resamples: int = Field(default=1000, ge=0)
    """Draws of every confidence interval and test over the test examples; 0: none are computed."""

    @field_validator("seeds", "inits")
    @classmethod
    def _each_once(cls, values: tuple[Any, ...], info: ValidationInfo) -> tuple[Any, ...]:
        refuse_repeats(str(info.field_name), values)
        return values


@dataclass(frozen=True)
class CorpusRecipe:
    """The validated specs from raw text to one balanced corpus, which recipes of all kinds begin with."""

    name: str
    description: str
    crawl: Mapping[str, CrawlSpec]
    """By source, for sources whose pages are crawled."""
    fetch: Mapping[str, FetchSpec]
    """By source, for sources whose dump is fetched."""
    extract: Mapping[str, ExtractSpec]
    clean: Mapping[str, clean.CleanSpec]
    dedup: dedup.DedupSpec
    balance: balance.BalanceSpec


@dataclass(frozen=True)
class Recipe(CorpusRecipe):
    """The validated specs of every stage, ready to form a graph."""

    vocab: vocab.VocabSpec
    vocab_sizes: sizes.VocabSizesSpec
    examples: packing.ExamplesSpec
    views: ViewsSpec
    examples_long: packing.ExamplesSpec | None
    """Rows of pretraining's phase of long sequences, where it has one."""
    views_long: ViewsSpec | None
    """Their noise."""
    pretrain: PretrainSpec
    export: export.ExportSpec
    finetune: Mapping[str, FinetuneSpec]
    """By ``BENCHMARK/INIT/SEED``."""
    grids: Mapping[str, FinetuneGrid]
    """By ``BENCHMARK``: what makes cells of a table."""
    encoder: Mapping[str, EncoderSpec]
    """By name: others' encoders that every benchmark measures too."""
    speed: SpeedSpec
    report: report.ReportSpec

    def cells(self, benchmark: str) -> dict[str, FinetuneSpec]:
        """The fine-tuning cells of a benchmark, by ``BENCHMARK/INIT/SEED``."""
        return {name: spec for name, spec in self.finetune.items() if name.rsplit("/", 2)[0] == benchmark}


VARIANTS = (LOCAL, REMOTE, LIST, RANGE)
"""What pydantic names in a place besides fields: which of several forms a value has."""

B = TypeVar("B", bound=Spec)
SINGLE_TABLES: dict[str, type[Spec]] = {
    "dedup": dedup.DedupSpec,
    "balance": balance.BalanceSpec,
    "vocab": vocab.VocabSpec,
    "vocab_sizes": sizes.VocabSizesSpec,
    "examples": packing.ExamplesSpec,
    "views": ViewsSpec,
    "pretrain": PretrainSpec,
    "export": export.ExportSpec,
    "speed": SpeedSpec,
    "report": report.ReportSpec,
}
_LONG: dict[str, type[Spec]] = {"examples_long": packing.ExamplesSpec, "views_long": ViewsSpec}
PER_SOURCE = ("crawl", "fetch", "extract", "clean")
_TOP = ("name", "description", "data")


def load(
    path: Path, *, data: Path | None = None, overrides: Mapping[str, Any] | None = None, without: Iterable[str] = ()
) -> Recipe:
    """Read and validate a recipe.

    Relative paths in it start at the recipe's own directory; ``${data}`` in a path stands for the directory that the
    recipe's top-level ``data`` names, or for the argument ``data``. ``overrides`` holds fields or whole tables by dotted name
    (``pretrain.model.share``) that take the place of the recipe's, ``without`` names some that are taken out before. Raises
    RecipeError for anything that could not run.
    """
    return Reader(Path(path), data, overrides, without).recipe()


def read_toml(path: Path) -> dict[str, Any]:
    """The tables of a TOML file. Raises RecipeError naming the file, and the nearest one where it does not exist."""
    try:
        return tomllib.loads(path.read_text("utf-8-sig"))  # Some editors begin a file with a byte order mark.
    except FileNotFoundError:
        raise RecipeError(f"{path}: no such recipe{nearest(path.name, _neighbours(path))}") from None
    except IsADirectoryError:
        raise RecipeError(f"{path}: is a directory; name a recipe's TOML file") from None
    except UnicodeDecodeError as error:
        raise RecipeError(f"{path}: byte {error.start} is not UTF-8; save the recipe as UTF-8") from None
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise RecipeError(f"{path}: not valid TOML: {error}") from None


def override(tables: dict[str, Any], name: str, value: Any) -> None:
    """Put a value in place of the field or table of this dotted name. Raises ValueError where the way there is no table."""
    *parents, last = name.split(".")
    if not all((*parents, last)):
        raise ValueError(f"{name!r} is no dotted name of a field")
    table = tables
    for depth, parent in enumerate(parents, start=1):
        inner = table.setdefault(parent, {})
        if not isinstance(inner, dict):
            raise ValueError(f"{name!r} goes through {'.'.join(parents[:depth])!r}, which is {inner!r} and no table")
        table = inner
    table[last] = value


def take_out(tables: dict[str, Any], name: str) -> None:
    """Remove the field or table of this dotted name. Raises ValueError where there is none."""
    *parents, last = name.split(".")
    table: Any = tables
    for parent in parents:
        table = table.get(parent) if isinstance(table, dict) else None
    if not isinstance(table, dict) or last not in table:
        raise ValueError(f"there is no {name!r} to take out")
    del table[last]


class Reader:
    """Turns one TOML file into specs; knows file and table for every error."""

    def __init__(
        self, path: Path, data: Path | None, overrides: Mapping[str, Any] | None = None, without: Iterable[str] = ()
    ) -> None:
        self.path = path
        self.tables = read_toml(path)
        try:
            for name in without:
                take_out(self.tables, name)
            for name, value in (overrides or {}).items():
                override(self.tables, name, value)
        except ValueError as error:
            raise RecipeError(f"{path}: {error}") from None
        for name in _TOP:
            if not isinstance(self.tables.get(name, ""), str):
                raise RecipeError(f"{path}: field {name!r} must be a string, it is {self.tables[name]!r}")
        self.root = path.resolve().parent
        self.data = data.resolve() if data else Path(os.path.normpath(self.root / str(self.tables.get("data", "."))))

    def recipe(self) -> Recipe:
        """A recipe of a model from raw text."""
        sources = self.sources([*SINGLE_TABLES, *_LONG, "encoder", "finetune"])
        single: dict[str, Any] = {name: self.spec(kind, name) for name, kind in SINGLE_TABLES.items()}
        self.check_sources(sources, **single)
        length, positions = single["examples"].sequence_length, single["pretrain"].model.max_positions
        if length > positions:
            raise RecipeError(
                f"{self.path}: [examples] sequence_length = {length} exceeds [pretrain.model] max_positions = {positions}; "
                "shorten the examples or raise max_positions"
            )
        return Recipe(
            **self.brought(sources),
            finetune=self._cells(),
            grids={name: self._grid(name) for name in self.names("finetune")},
            encoder=self._encoders(),
            **single,
            **self._long(**single),
        )

    def sources(self, tables: Iterable[str]) -> dict[str, ExtractSpec]:
        """The sources by name, once it is clear that the file has no table but those of sources and ``tables``."""
        known = [*_TOP, *PER_SOURCE, *tables]
        for name in self.tables:
            if name not in known:
                raise RecipeError(f"{self.path}: unknown table or field [{name}]{nearest(name, known)}")
        sources = {name: self.spec(ExtractSpec, f"extract.{name}", source=name) for name in self.names("extract")}
        if not sources:
            raise RecipeError(f"{self.path}: no [extract.NAME] table; a recipe needs at least one source")
        for table in ("crawl", "fetch", "clean"):
            for name in self.names(table):
                if name not in sources:
                    remedy = f"a source begins with [extract.{name}]"
                    raise RecipeError(
                        f"{self.path}, [{table}.{name}]: no source of this name{nearest(name, sources)}; {remedy}"
                    )
        for name, source in sources.items():
            if not source.paths and name not in self.names("crawl") + self.names("fetch"):
                remedy = f"name files in paths, or add [crawl.{name}] or [fetch.{name}]"
                raise RecipeError(f"{self.path}, [extract.{name}]: nothing to extract; {remedy}")
        return sources

    def brought(self, sources: Mapping[str, ExtractSpec]) -> dict[str, Any]:
        """Name and description of the recipe, and what its sources are made of."""
        return {
            "name": str(self.tables.get("name", self.path.stem)),
            "description": str(self.tables.get("description", "")),
            "crawl": {name: self._crawl(name, sources[name]) for name in self.names("crawl")},
            "fetch": {name: self.spec(FetchSpec, f"fetch.{name}") for name in self.names("fetch")},
            "extract": sources,
            "clean": {name: self.spec(clean.CleanSpec, f"clean.{name}") for name in sources},
        }

    def _long(self, *, examples: packing.ExamplesSpec, pretrain: PretrainSpec, **_: Any) -> dict[str, Any]:
        """The specs of the long rows and their views: as those of the short ones, where they do not say otherwise."""
        given = [name for name in _LONG if name in self.tables]
        if pretrain.long is None:
            if given:
                remedy = "say from which step on in [pretrain.long], or remove the table"
                raise RecipeError(f"{self.path}, [{given[0]}]: [pretrain] has no phase of long sequences; {remedy}")
            return dict.fromkeys(_LONG)
        length, short = pretrain.model.longest_sequence, examples.sequence_length
        # A document gives up to 2 + length / short times as many short rows as long ones: so the documents that are held out
        # of the long rows have been held out of the short ones.
        held_out = max(1, examples.heldout_max_rows * short // (length + 2 * short))
        inherited = {**self.table("examples"), "sequence_length": length, "heldout_max_rows": held_out}
        rows = self.validate(packing.ExamplesSpec, "examples_long", {**inherited, **self.table("examples_long")})
        if not short < rows.sequence_length <= length:
            raise RecipeError(
                f"{self.path}, [examples_long]: sequence_length = {rows.sequence_length} must lie above {short} of [examples] "
                f"and not above {length} positions of [pretrain.model]"
            )
        noise = merged(self.table("views"), self.table("views_long"))
        return {"examples_long": rows, "views_long": self.validate(ViewsSpec, "views_long", noise)}

    def _crawl(self, name: str, extract: ExtractSpec) -> CrawlSpec:
        spec = self.spec(CrawlSpec, f"crawl.{name}")
        if extract.format != "warc":
            raise RecipeError(f'{self.path}, [extract.{name}]: a crawl stores WARC files; set format = "warc"')
        try:
            load_source(spec.source.path)
        except ValueError as error:
            raise RecipeError(f"{self.path}, [crawl.{name}], field 'source': {error}") from None
        return spec

    def check_sources(self, sources: Iterable[str], **specs: Any) -> None:
        """What no table can know alone: the names of sources that ``balance``, ``dedup`` and ``vocab`` speak of."""
        named = {
            "[balance], field 'sources'": specs["balance"].sources if "balance" in self.tables else (),
            "[dedup], field 'priority'": specs["dedup"].priority,
            "[vocab], field 'source_weights'": specs["vocab"].source_weights,
        }
        for where, names in named.items():
            for name in names:
                if name not in sources:
                    raise RecipeError(f"{self.path}, {where}: no source {name!r}{nearest(name, sources)}")

    def names(self, table: str) -> list[str]:
        """The names of ``[table.NAME]``, in the order of the file."""
        section = self.tables.get(table, {})
        if not isinstance(section, dict) or not all(isinstance(value, dict) for value in section.values()):
            raise RecipeError(f"{self.path}: write [{table}.NAME], one table per {table}")
        return list(section)

    def table(self, name: str) -> dict[str, Any]:
        """A copy of the table of this dotted name; an empty one where the file has none."""
        table: Any = self.tables
        for part in name.split("."):
            table = table.get(part, {})
        if not isinstance(table, dict):
            raise RecipeError(f"{self.path}: [{name}] must be a table, it is a {type(table).__name__}")
        return dict(table)

    def _encoders(self) -> dict[str, EncoderSpec]:
        for name in self.names("encoder"):
            if name in INITS:
                raise RecipeError(f"{self.path}, [encoder.{name}]: this name says what fine-tuning starts from; choose another")
        return {name: self.spec(EncoderSpec, f"encoder.{name}") for name in self.names("encoder")}

    def _cells(self) -> dict[str, FinetuneSpec]:
        cells = {}
        for name in self.names("finetune"):
            where, grid = f"finetune.{name}", self._grid(name)
            table = self.table(where)
            self._refuse_reserved(where, table, ("seed", "init"))
            settings = {field: value for field, value in table.items() if field not in FinetuneGrid.model_fields}
            settings.setdefault("task", name)
            if "test" not in settings:
                raise RecipeError(f"{self.path}, [{where}]: field 'test' is missing")
            for init in grid.inits:
                for seed in grid.seeds:
                    cell = self.validate(FinetuneSpec, where, {**settings, "init": init, "seed": seed})
                    cells[f"{name}/{init}/{seed}"] = cell
            if grid.search is not None:
                self._check_search(where, grid.search, settings, cell)
        return cells

    def _grid(self, name: str) -> FinetuneGrid:
        table = self.table(f"finetune.{name}")
        axes = {axis: table[axis] for axis in FinetuneGrid.model_fields if axis in table}
        return self.validate(FinetuneGrid, f"finetune.{name}", axes)

    def _check_search(self, where: str, search: SearchSpec, settings: Mapping[str, Any], cell: FinetuneSpec) -> None:
        for name in search.axes:
            if name in settings:
                raise RecipeError(f"{self.path}, [{where}]: {name!r} is given and searched; remove one of the two")
        try:
            search.check(cell)
        except ValueError as error:
            raise RecipeError(f"{self.path}, [{where}], field 'search': {error}") from None

    def spec(self, kind: type[B], name: str, **extra: Any) -> B:
        """The spec of a table; ``extra`` are fields that the recipe sets and the table must not."""
        table = self.table(name)
        self._refuse_reserved(name, table, extra)
        return self.validate(kind, name, {**table, **extra})

    def _refuse_reserved(self, name: str, table: Mapping[str, Any], reserved: Iterable[str]) -> None:
        for field_name in reserved:
            if field_name in table:
                raise RecipeError(f"{self.path}, [{name}]: field {field_name!r} is set by the recipe itself; remove it")

    def validate(self, kind: type[B], name: str, table: dict[str, Any]) -> B:
        """A spec from the fields of the table of this name. Raises RecipeError naming file, table, field and remedy."""
        try:
            # By way of JSON, because pydantic's strict mode takes JSON's arrays for tuples, but no "60" for 60.
            text = json.dumps(self._with_data(table), default=str)
            spec = kind.model_validate_json(text, strict=True, context={"root": self.root})
        except ValidationError as error:
            # A default that follows from other fields cannot be drawn where one of them is wrong; that one is told.
            told = [problem for problem in error.errors() if problem["type"] != "default_factory_not_called"]
            raise RecipeError("\n".join(explain(self.path, kind, name, problem) for problem in told)) from None
        self._check_files(spec, name)
        return spec

    def _with_data(self, value: Any) -> Any:
        if isinstance(value, str):
            return value.replace("${data}", str(self.data))
        if isinstance(value, dict):
            return {key: self._with_data(item) for key, item in value.items()}
        return [self._with_data(item) for item in value] if isinstance(value, list) else value

    def _check_files(self, spec: Spec, table: str) -> None:
        for name, path in _paths_of(spec):
            if not path.exists():
                origin = ""
                if isinstance(spec, FinetuneSpec):
                    task = tasks.load(spec.task)
                    origin = f"; {task.title} comes from {task.origin}; name a URL with its sha256 to have it fetched"
                raise RecipeError(f"{self.path}, [{table}], field {name!r}: no such file or directory: {path}{origin}")


def explain(path: Path, kind: type[BaseModel], table: str, problem: Any) -> str:
    """One validation error of pydantic as file, table, field and remedy."""
    location = [str(part) for part in problem["loc"] if part not in VARIANTS]
    where = f"{path}, [{table}]" if table else str(path)
    if problem["type"] == "extra_forbidden":
        *parents, name = location
        valid = _fields_at(kind, parents)
        return f"{where}: unknown field {'.'.join(location)!r}{nearest(name, valid)}; valid: {', '.join(valid)}"
    message = problem["msg"].removeprefix("Value error, ")
    if problem["type"] == "missing":
        return f"{where}: field {'.'.join(location)!r} is missing"
    if not location:
        return f"{where}: {message}"
    got = "" if isinstance(problem["input"], dict) else f" (it is {problem['input']!r})"
    return f"{where}, field {'.'.join(location)!r}: {message}{got}"


def _paths_of(value: Any, name: str = "") -> Iterable[tuple[str, Path]]:
    if isinstance(value, InputPath):
        yield name, value.path
    elif isinstance(value, BaseModel):
        for child in type(value).model_fields:
            yield from _paths_of(getattr(value, child), f"{name}.{child}".lstrip("."))
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from _paths_of(item, f"{name}.{key}")
    elif isinstance(value, tuple | list):
        for index, item in enumerate(value):
            yield from _paths_of(item, f"{name}.{index}")


def _fields_at(kind: Any, parents: list[str]) -> list[str]:
    """Field names of the model found by following ``parents`` from ``kind`` through nested annotations."""
    for parent in parents:
        if isinstance(kind, type) and issubclass(kind, BaseModel) and parent in kind.model_fields:
            kind = kind.model_fields[parent].annotation
        kind = next((part for part in _inside(kind) if isinstance(part, type) and issubclass(part, BaseModel)), kind)
    return list(kind.model_fields) if isinstance(kind, type) and issubclass(kind, BaseModel) else []


def merged(table: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """A table with some fields changed, those of tables within it one by one."""
    both = {
        name: merged(table[name], value) if isinstance(value, dict) and isinstance(table.get(name), dict) else value
        for name, value in changes.items()
    }
    return {**table, **both}


def _inside(kind: Any) -> Iterable[Any]:
    """An annotation and all that it is made of."""
    yield kind
    for part in get_args(kind):
        yield from _inside(part)


def nearest(name: str, valid: Iterable[str]) -> str:
    """`` (did you mean …?)``, or nothing where no valid name is near."""
    close = difflib.get_close_matches(name, list(valid), n=1, cutoff=0.5)
    return f" (did you mean {close[0]!r}?)" if close else ""


def _neighbours(path: Path) -> list[str]:
    return [p.name for p in path.parent.glob("*.toml")] if path.parent.is_dir() else []
