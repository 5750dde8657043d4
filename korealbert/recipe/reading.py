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
from korealbert.finetune.init import INITS, Init
from korealbert.finetune.spec import FinetuneSpec
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
    pretrain: PretrainSpec | None
    """None where the recipe does not say how many ``steps``: it does for the stages before."""
    export: export.ExportSpec
    finetune: Mapping[str, FinetuneSpec]
    """By ``BENCHMARK/INIT/SEED``."""
    report: report.ReportSpec


B = TypeVar("B", bound=Spec)
_SINGLE: dict[str, type[Spec]] = {
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


def load(path: Path, *, data: Path | None = None) -> Recipe:
    """Read and validate a recipe.

    Relative paths in it start at the recipe's own directory; ``${data}`` in a path stands for the directory that the
    recipe's top-level ``data`` names, or for the argument ``data``. Raises RecipeError for anything that could not run.
    """
    return _Reader(Path(path), data).recipe()


class _Reader:
    """Turns one TOML file into specs; knows file and table for every error."""

    def __init__(self, path: Path, data: Path | None) -> None:
        self.path = path
        try:
            self.tables = tomllib.loads(path.read_text("utf-8-sig"))  # Some editors begin a file with a byte order mark.
        except FileNotFoundError:
            raise RecipeError(f"{path}: no such recipe{nearest(path.name, _neighbours(path))}") from None
        except IsADirectoryError:
            raise RecipeError(f"{path}: is a directory; name a recipe's TOML file") from None
        except UnicodeDecodeError as error:
            raise RecipeError(f"{path}: byte {error.start} is not UTF-8; save the recipe as UTF-8") from None
        except (tomllib.TOMLDecodeError, RecursionError) as error:
            raise RecipeError(f"{path}: not valid TOML: {error}") from None
        for name in _TOP:
            if not isinstance(self.tables.get(name, ""), str):
                raise RecipeError(f"{path}: field {name!r} must be a string, it is {self.tables[name]!r}")
        self.root = path.resolve().parent
        self.data = data.resolve() if data else Path(os.path.normpath(self.root / str(self.tables.get("data", "."))))

    def recipe(self) -> Recipe:
        for name in self.tables:
            known = [*_TOP, *_PER_NAME, *_SINGLE]
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
        single: dict[str, Any] = {name: self._spec(kind, name) for name, kind in _SINGLE.items() if name != "pretrain"}
        single["pretrain"] = self._spec(PretrainSpec, "pretrain") if "steps" in self._table("pretrain") else None
        self._check_across(sources, **single)
        return Recipe(
            name=str(self.tables.get("name", self.path.stem)),
            description=str(self.tables.get("description", "")),
            crawl={name: self._crawl(name, sources[name]) for name in self._names("crawl")},
            fetch={name: self._spec(FetchSpec, f"fetch.{name}") for name in self._names("fetch")},
            extract=sources,
            clean={name: self._spec(clean.CleanSpec, f"clean.{name}") for name in sources},
            finetune=self._cells(),
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
        if specs["pretrain"] is None:
            return
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
            table = self._table(f"finetune.{name}")
            self._refuse_reserved(f"finetune.{name}", table, ("seed", "init"))
            axes = {axis: table.pop(axis) for axis in FinetuneGrid.model_fields if axis in table}
            grid = self._validate(FinetuneGrid, f"finetune.{name}", axes)
            for init in grid.inits:
                for seed in grid.seeds:
                    cell = {**table, "init": init, "seed": seed}
                    cell.setdefault("task", name)
                    cells[f"{name}/{init}/{seed}"] = self._validate(FinetuneSpec, f"finetune.{name}", cell)
        return cells

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
            raise RecipeError("\n".join(self._explain(kind, name, problem) for problem in error.errors())) from None
        self._check_files(spec, name)
        return spec

    def _with_data(self, value: Any) -> Any:
        if isinstance(value, str):
            return value.replace("${data}", str(self.data))
        if isinstance(value, dict):
            return {key: self._with_data(item) for key, item in value.items()}
        return [self._with_data(item) for item in value] if isinstance(value, list) else value

    def _explain(self, kind: type[BaseModel], table: str, problem: Any) -> str:
        location = [str(part) for part in problem["loc"]]
        where = f"{self.path}, [{table}]"
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

    def _check_files(self, spec: Spec, table: str) -> None:
        for name, path in _paths_of(spec):
            if not path.exists():
                raise RecipeError(f"{self.path}, [{table}], field {name!r}: no such file or directory: {path}")


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
