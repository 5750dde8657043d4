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
from korealbert.examples import packing, views
from korealbert.export import stage as export
from korealbert.finetune import tasks
from korealbert.finetune.init import INITS, Init
from korealbert.finetune.search import LIST, RANGE, SearchSpec
from korealbert.finetune.spec import LOCAL, REMOTE, FinetuneSpec
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
class Recipe:
    """The validated specs of every stage, ready to form a graph."""

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
    vocab: vocab.VocabSpec
    vocab_sizes: sizes.VocabSizesSpec
    examples: packing.ExamplesSpec
    views: views.ViewsSpec
    pretrain: PretrainSpec
    export: export.ExportSpec
    finetune: Mapping[str, FinetuneSpec]
    """By ``BENCHMARK/INIT/SEED``."""
    grids: Mapping[str, FinetuneGrid]
    """By ``BENCHMARK``: what makes cells of a table."""
    report: report.ReportSpec


VARIANTS = (LOCAL, REMOTE, LIST, RANGE)
"""What pydantic names in a place besides fields: which of several forms a value has."""

B = TypeVar("B", bound=Spec)
SINGLE_TABLES: dict[str, type[Spec]] = {
    "dedup": dedup.DedupSpec,
    "balance": balance.BalanceSpec,
    "vocab": vocab.VocabSpec,
    "vocab_sizes": sizes.VocabSizesSpec,
    "examples": packing.ExamplesSpec,
    "views": views.ViewsSpec,
    "pretrain": PretrainSpec,
    "export": export.ExportSpec,
    "report": report.ReportSpec,
}
_PER_NAME = ("crawl", "fetch", "extract", "clean", "finetune")
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
    return _Reader(Path(path), data, overrides or {}, without).recipe()


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


class _Reader:
    """Turns one TOML file into specs; knows file and table for every error."""

    def __init__(self, path: Path, data: Path | None, overrides: Mapping[str, Any], without: Iterable[str]) -> None:
        self.path = path
        self.tables = read_toml(path)
        try:
            for name in without:
                take_out(self.tables, name)
            for name, value in overrides.items():
                override(self.tables, name, value)
        except ValueError as error:
            raise RecipeError(f"{path}: {error}") from None
        for name in _TOP:
            if not isinstance(self.tables.get(name, ""), str):
                raise RecipeError(f"{path}: field {name!r} must be a string, it is {self.tables[name]!r}")
        self.root = path.resolve().parent
        self.data = data.resolve() if data else Path(os.path.normpath(self.root / str(self.tables.get("data", "."))))

    def recipe(self) -> Recipe:
        for name in self.tables:
            known = [*_TOP, *_PER_NAME, *SINGLE_TABLES]
            if name not in known:
                raise RecipeError(f"{self.path}: unknown table or field [{name}]{nearest(name, known)}")
        sources = {name: self._spec(ExtractSpec, f"extract.{name}", source=name) for name in self._names("extract")}
        if not sources:
            raise RecipeError(f"{self.path}: no [extract.NAME] table; a recipe needs at least one source")
        for table in ("crawl", "fetch", "clean"):
            for name in self._names(table):
                if name not in sources:
                    remedy = f"a source begins with [extract.{name}]"
                    raise RecipeError(
                        f"{self.path}, [{table}.{name}]: no source of this name{nearest(name, sources)}; {remedy}"
                    )
        for name, source in sources.items():
            if not source.paths and name not in self._names("crawl") + self._names("fetch"):
                remedy = f"name files in paths, or add [crawl.{name}] or [fetch.{name}]"
                raise RecipeError(f"{self.path}, [extract.{name}]: nothing to extract; {remedy}")
        single: dict[str, Any] = {name: self._spec(kind, name) for name, kind in SINGLE_TABLES.items()}
        self._check_across(sources, **single)
        return Recipe(
            name=str(self.tables.get("name", self.path.stem)),
            description=str(self.tables.get("description", "")),
            crawl={name: self._crawl(name, sources[name]) for name in self._names("crawl")},
            fetch={name: self._spec(FetchSpec, f"fetch.{name}") for name in self._names("fetch")},
            extract=sources,
            clean={name: self._spec(clean.CleanSpec, f"clean.{name}") for name in sources},
            finetune=self._cells(),
            grids={name: self._grid(name) for name in self._names("finetune")},
            **single,
        )

    def _crawl(self, name: str, extract: ExtractSpec) -> CrawlSpec:
        spec = self._spec(CrawlSpec, f"crawl.{name}")
        if extract.format != "warc":
            raise RecipeError(f'{self.path}, [extract.{name}]: a crawl stores WARC files; set format = "warc"')
        try:
            load_source(spec.source.path)
        except ValueError as error:
            raise RecipeError(f"{self.path}, [crawl.{name}], field 'source': {error}") from None
        return spec

    def _check_across(self, sources: Iterable[str], **specs: Any) -> None:
        """What no table can know alone: names of sources, and lengths that must fit each other."""
        named = {
            "[balance], field 'sources'": specs["balance"].sources if "balance" in self.tables else (),
            "[dedup], field 'priority'": specs["dedup"].priority,
            "[vocab], field 'source_weights'": specs["vocab"].source_weights,
        }
        for where, names in named.items():
            for name in names:
                if name not in sources:
                    raise RecipeError(f"{self.path}, {where}: no source {name!r}{nearest(name, sources)}")
        length, positions = specs["examples"].sequence_length, specs["pretrain"].model.max_positions
        if length > positions:
            raise RecipeError(
                f"{self.path}: [examples] sequence_length = {length} exceeds [pretrain.model] max_positions = {positions}; "
                "shorten the examples or raise max_positions"
            )

    def _names(self, table: str) -> list[str]:
        section = self.tables.get(table, {})
        if not isinstance(section, dict) or not all(isinstance(value, dict) for value in section.values()):
            raise RecipeError(f"{self.path}: write [{table}.NAME], one table per {table}")
        return list(section)

    def _table(self, name: str) -> dict[str, Any]:
        table: Any = self.tables
        for part in name.split("."):
            table = table.get(part, {})
        if not isinstance(table, dict):
            raise RecipeError(f"{self.path}: [{name}] must be a table, it is a {type(table).__name__}")
        return dict(table)

    def _cells(self) -> dict[str, FinetuneSpec]:
        cells = {}
        for name in self._names("finetune"):
            where, grid = f"finetune.{name}", self._grid(name)
            table = self._table(where)
            self._refuse_reserved(where, table, ("seed", "init"))
            settings = {field: value for field, value in table.items() if field not in FinetuneGrid.model_fields}
            settings.setdefault("task", name)
            if "test" not in settings:
                raise RecipeError(f"{self.path}, [{where}]: field 'test' is missing")
            for init in grid.inits:
                for seed in grid.seeds:
                    cell = self._validate(FinetuneSpec, where, {**settings, "init": init, "seed": seed})
                    cells[f"{name}/{init}/{seed}"] = cell
            if grid.search is not None:
                self._check_search(where, grid.search, settings, cell)
        return cells

    def _grid(self, name: str) -> FinetuneGrid:
        table = self._table(f"finetune.{name}")
        axes = {axis: table[axis] for axis in FinetuneGrid.model_fields if axis in table}
        return self._validate(FinetuneGrid, f"finetune.{name}", axes)

    def _check_search(self, where: str, search: SearchSpec, settings: Mapping[str, Any], cell: FinetuneSpec) -> None:
        for name in search.axes:
            if name in settings:
                raise RecipeError(f"{self.path}, [{where}]: {name!r} is given and searched; remove one of the two")
        try:
            search.check(cell)
        except ValueError as error:
            raise RecipeError(f"{self.path}, [{where}], field 'search': {error}") from None

    def _spec(self, kind: type[B], name: str, **extra: Any) -> B:
        table = self._table(name)
        self._refuse_reserved(name, table, extra)
        return self._validate(kind, name, {**table, **extra})

    def _refuse_reserved(self, name: str, table: Mapping[str, Any], reserved: Iterable[str]) -> None:
        for field_name in reserved:
            if field_name in table:
                raise RecipeError(f"{self.path}, [{name}]: field {field_name!r} is set by the recipe itself; remove it")

    def _validate(self, kind: type[B], name: str, table: dict[str, Any]) -> B:
        try:
            # By way of JSON, because pydantic's strict mode takes JSON's arrays for tuples, but no "60" for 60.
            text = json.dumps(self._with_data(table), default=str)
            spec = kind.model_validate_json(text, strict=True, context={"root": self.root})
        except ValidationError as error:
            raise RecipeError("\n".join(explain(self.path, kind, name, problem) for problem in error.errors())) from None
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
        inner = [kind, *get_args(kind)]
        kind = next((part for part in inner if isinstance(part, type) and issubclass(part, BaseModel)), kind)
    return list(kind.model_fields) if isinstance(kind, type) and issubclass(kind, BaseModel) else []


def nearest(name: str, valid: Iterable[str]) -> str:
    """`` (did you mean …?)``, or nothing where no valid name is near."""
    close = difflib.get_close_matches(name, list(valid), n=1, cutoff=0.5)
    return f" (did you mean {close[0]!r}?)" if close else ""


def _neighbours(path: Path) -> list[str]:
    return [p.name for p in path.parent.glob("*.toml")] if path.parent.is_dir() else []
