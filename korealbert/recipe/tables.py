"""Reads the tables of a recipe's TOML file into specs, with errors that name file, table, field and remedy; kinds of recipe."""

from __future__ import annotations

import json
import os
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from copy import deepcopy
from pathlib import Path
from typing import Any, Literal, Self, TypeVar, cast

from pydantic import BaseModel, ValidationError

from korealbert.artifact import InputPath, Spec
from korealbert.artifact.files import expanded
from korealbert.artifact.spec import explained as explained_at
from korealbert.artifact.spec import refuse_outside, refuse_special
from korealbert.corpus.dedup.stage import DedupSpec
from korealbert.corpus.normalise import composed
from korealbert.corpus.quality.stage import QualitySpec
from korealbert.corpus.readers.spec import ORIGINS, ExtractSpec
from korealbert.documents.benchmark_files import LOCAL, REMOTE
from korealbert.documents.containers import is_archive
from korealbert.finetune import tasks
from korealbert.finetune.definition_file import is_file
from korealbert.finetune.search import LIST, RANGE
from korealbert.finetune.spec import ContrastSpec, FinetuneSpec
from korealbert.finetune.task import Task
from korealbert.formatting import closest, nearest
from korealbert.model.config import MODERN, POST_NORM
from korealbert.pretrain.optimizer_spec import FALLING, MOMENTS, MUON, STABLE
from korealbert.recipe import registry
from korealbert.shipped import SPECS, is_shipped, names

DATA = "${data}"
"""In paths, stands for the directory of the recipe's data."""
SHIPPED = "${shipped}"
"""In paths, stands for the directory of rules, sources and benchmarks in the package."""
TOP = ("name", "description", "data")
"""Fields of a recipe outside its tables."""
_MAX_NAME_CHARACTERS = 100
"""Limits the name of a table, which becomes part of labels, columns and messages."""
_UNION_TAGS = (LOCAL, REMOTE, LIST, RANGE, POST_NORM, MODERN, MOMENTS, MUON, FALLING, STABLE)
"""Parts of pydantic's error locations that are no fields, but say which type of a union was tried."""


def _rule_against(name: str) -> str | None:
    """Return the rule that the name of a table breaks, or None."""
    if "." in name:
        return "contains no dot"
    if not name.isprintable():
        return "contains no control characters"
    if len(name) > _MAX_NAME_CHARACTERS:
        return f"has at most {_MAX_NAME_CHARACTERS} characters"
    if any(not part or part != part.strip() for part in name.split("/")):
        return "is not empty, and neither it nor a part between slashes begins or ends with a blank"
    return None


B = TypeVar("B", bound=Spec)
T = TypeVar("T")

_data_root: ContextVar[Path | None] = ContextVar("data_root", default=None)


@contextmanager
def confined(data_root: Path | None) -> Iterator[None]:
    """Refuse paths outside a directory in all recipes that are read in this context; None allows any path."""
    if data_root is not None and not data_root.is_dir():
        raise RecipeError(f"the data root {data_root} is no directory; name one with --data-root")
    token = _data_root.set(data_root)
    try:
        yield
    finally:
        _data_root.reset(token)


def data_root() -> Path | None:
    """Return the directory that recipes are confined to in this context, if any."""
    return _data_root.get()


def named_recipe(where: str, naming: Path, name: str) -> Path:
    """Return the path of a recipe that the file ``naming`` names. Raises RecipeError if it lies outside the data root."""
    within = data_root()
    with located(f"{where}, field 'recipe'"):
        path = naming.resolve().parent / expanded(name)
        if within is not None:
            refuse_outside(path, within)
        refuse_special(path)
    return path


class RecipeError(ValueError):
    """A recipe that cannot be run; each line of the message names file, table, field and remedy."""


@contextmanager
def located(where: object) -> Iterator[None]:
    """Raise a ValueError of the block as a RecipeError that begins with its place."""
    try:
        yield
    except ValueError as error:
        raise RecipeError(f"{where}: {error}") from None


class Problems:
    """Collects errors of independent parts of a recipe, and raises them as one RecipeError at the end of a ``with`` block."""

    def __init__(self) -> None:
        self._found: list[str] = []

    def of(self, read: Callable[[], T]) -> T:
        """Return what ``read`` returns. If it raises RecipeError, return None, which must not be used within the block."""
        try:
            return read()
        except RecipeError as error:
            self._found += str(error).splitlines()
            return cast(T, None)

    def add(self, problem: str) -> None:
        """Add an error."""
        self._found.append(problem)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._found and kind is None:
            found = sorted(dict.fromkeys(self._found), key=lambda line: line.startswith(DATA))
            remark = len(found) == 2 and found[1].startswith(DATA)
            raise RecipeError(("; " if remark else "\n").join(found))


def read_toml(path: Path) -> dict[str, Any]:
    """Read the tables of a TOML file. Raises RecipeError, with the nearest name if the file does not exist."""
    try:
        refuse_special(path)  # A pipe can be read only once.
        return tomllib.loads(path.read_text("utf-8-sig"))  # Some editors begin a file with a byte order mark.
    except FileNotFoundError:
        remedy = "" if (near := nearest(path.name, _neighbours(path))) else "; `korealbert new DIR --from FILES` makes one"
        raise RecipeError(f"{path}: no such recipe{near}{remedy}") from None
    except IsADirectoryError:
        inside = sorted(str(each) for each in path.glob("*.toml"))
        near = nearest(str(path / "recipe.toml"), inside)
        raise RecipeError(f"{path}: is a directory; name a recipe's TOML file{near}") from None
    except UnicodeDecodeError as error:
        raise RecipeError(f"{path}: byte {error.start} is not UTF-8; save the recipe as UTF-8") from None
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        remedy = "; put names that are not in Latin letters in quotes" if "for a key part" in str(error) else ""
        raise RecipeError(f"{path}: not valid TOML: {error}{remedy}") from None
    except ValueError as error:
        raise RecipeError(str(error)) from None


def _override(tables: dict[str, Any], name: str, value: Any) -> None:
    """Set the field or table of a dotted name. Raises ValueError if the name leads through something that is no table."""
    *parents, last = name.split(".")
    if not all((*parents, last)):
        raise ValueError(f"{name!r} is no dotted name of a field; write one such as pretrain.steps")
    table = tables
    for depth, parent in enumerate(parents, start=1):
        inner = table.setdefault(parent, {})
        if not isinstance(inner, dict):
            raise ValueError(f"{name!r} goes through {'.'.join(parents[:depth])!r}, which is {inner!r} and no table")
        table = inner
    table[last] = deepcopy(value)  # The next name may lead into it.


def flattened(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Write nested and dotted names all as dotted ones. Raises ValueError if one is given twice."""
    found: dict[str, Any] = {}
    for name, value in fields.items():
        inner = {f"{name}.{key}": v for key, v in flattened(value).items()} if isinstance(value, dict) else {name: value}
        for key, leaf in inner.items():
            if key in found:
                raise ValueError(f"set: {key!r} is given twice; give it once")
            found[key] = leaf
    return found


def _take_out(tables: dict[str, Any], name: str) -> None:
    """Remove the field or table of a dotted name. Raises ValueError if there is none."""
    *parents, last = name.split(".")
    table: Any = tables
    for parent in parents:
        table = table.get(parent) if isinstance(table, dict) else None
    if not isinstance(table, dict) or last not in table:
        raise ValueError(f"there is no {name!r} to remove; correct the name")
    del table[last]


class Tables:
    """Turns the tables of one TOML file into specs, and names file and table in every error."""

    def __init__(
        self, path: Path, data: Path | None, overrides: Mapping[str, Any] | None = None, without: Iterable[str] = ()
    ) -> None:
        self.path = path
        self.data_given = data
        self.tables = read_toml(path)
        with located(path):
            for name in without:
                _take_out(self.tables, name)
            for name, value in (overrides or {}).items():
                _override(self.tables, name, value)
        for name in TOP:
            if not isinstance(self.tables.get(name, ""), str):
                raise RecipeError(f"{path}: field {name!r} must be a string, it is {self.tables[name]!r}")
        self.root = path.resolve().parent
        with located(f"--data {data}" if data else f"{path}, field 'data'"):
            given = expanded(str(self.tables.get("data", ".")))
            self.data = data.resolve() if data else Path(os.path.normpath(self.root / given))
            refuse_special(self.data)
        if data is not None and not data.is_dir():
            raise RecipeError(f"--data {data}: no such directory; name the one that holds the recipe's data")

    def names(self, table: str) -> list[str]:
        """Return the names of ``[table.NAME]`` in the order of the file. Raises RecipeError for a name that is not allowed."""
        section = self.tables.get(table, {})
        if not isinstance(section, dict):
            raise RecipeError(f"{self.path}: write [{table}.NAME], one table per {table}")
        if wrong := {name: value for name, value in section.items() if not isinstance(value, dict)}:
            sources = self.tables.get("extract", {}) if table != "extract" else {}
            if isinstance(sources, dict) and wrong.keys() <= sources.keys():  # Tables of sources, each written as a field.
                raise RecipeError("\n".join(self._no_table(f"{table}.{name}", value) for name, value in wrong.items()))
            raise RecipeError(f"{self.path}: write [{table}.NAME], one table per {table}")
        for name in section:
            if (rule := _rule_against(name)) is not None:
                quoted = re.compile(rf"""["']{re.escape(name)}["']""")
                lines = enumerate(self.path.read_text("utf-8-sig").splitlines(), start=1)
                place = next((f", line {number}" for number, line in lines if quoted.search(line)), "")
                shown = json.dumps(name, ensure_ascii=not name.isprintable())
                better = re.sub(r"[^\w/ -]+", "_", name).strip("_/ ")[:_MAX_NAME_CHARACTERS]
                raise RecipeError(f"{self.path}{place}: [{table}.{shown}]: a name {rule}; write {better or 'another'}")
        return list(section)

    def table(self, name: str) -> dict[str, Any]:
        """Return a copy of the table of a dotted name, empty if the file has none."""
        table, way = self.tables, name.split(".")
        for depth, part in enumerate(way, start=1):
            table = table.get(part, {})
            if not isinstance(table, dict):
                raise RecipeError(self._no_table(".".join(way[:depth]), table))
        return dict(table)

    def _no_table(self, name: str, value: Any) -> str:
        return f"{self.path}: [{name}] must be a table, it is a {type(value).__name__}"

    def spec(self, kind: type[B], name: str, **extra: Any) -> B:
        """Read the spec of a table; ``extra`` are fields that the recipe sets itself and the table must not set."""
        table = self.table(name)
        self.refuse_reserved(name, table, extra)
        return self.validate(kind, name, {**table, **extra})

    def refuse_reserved(self, name: str, table: Mapping[str, Any], reserved: Iterable[str]) -> None:
        """Raise RecipeError if a table sets a field that the recipe sets itself."""
        for field_name in reserved:
            if field_name in table:
                raise RecipeError(f"{self.path}, [{name}]: field {field_name!r} is set by the recipe itself; remove it")

    def validate(self, kind: type[B], name: str, table: dict[str, Any]) -> B:
        """Make a spec from the fields of a table. Raises RecipeError naming file, table, field and remedy."""
        try:
            # Validated as JSON, where strict mode still accepts arrays for tuples, but no "60" for 60.
            text = json.dumps(self._with_places(table), default=str)
            spec = kind.model_validate_json(text, strict=True, context={"root": self.root, "within": data_root()})
        except ValidationError as error:
            raise RecipeError(explained(self.path, kind, name, error)) from None
        self._check_files(spec, name, in_data=DATA in json.dumps(table, default=str))
        return spec

    def _with_places(self, value: Any) -> Any:
        if isinstance(value, str):
            return value.replace(DATA, str(self.data)).replace(SHIPPED, str(SPECS))
        if isinstance(value, dict):
            return {key: self._with_places(item) for key, item in value.items()}
        return [self._with_places(item) for item in value] if isinstance(value, list) else value

    def _check_files(self, spec: Spec, table: str, *, in_data: bool) -> None:
        """Raise RecipeError naming every missing file of a table and where to get it.

        It also names directories in place of files, and patterns that select nothing.
        """
        where = f"{self.path}, [{table}], field"
        paths = list(_paths_of(spec))
        missing = [(name, path) for name, path in paths if not path.exists()]
        ours = [path for _, path in missing if in_data and path.is_relative_to(self.data)]
        summarised = [] if self.data.exists() else ours
        described = ours if is_shipped(self.path) else []
        lines = [
            f"{where} {name!r}: no such file or directory: {path}{_instead(path)}"
            f"{self._origin(spec, name, shipped=path in described)}"
            for name, path in missing
            if path not in summarised
        ]
        lines += [
            f"{where} {name!r}: {path} is a directory; name the file in it"
            for name, path in paths
            if path.is_dir() and _is_file(spec, name)
        ]
        if ours:
            lacking = f"{self.path}, field 'data': no such directory: {self.data}; " if summarised else ""
            lines.append(f"{lacking}{DATA} stands for {self.data}; name the directory of your data with --data")
        if isinstance(spec, ExtractSpec) and spec.paths and all(_is_plain_file(one.path) for one in spec.paths):
            effect = "selects files of directories and archives, and paths names none; remove it, or the files from paths"
            changed = [name for name, is_set in (("members", spec.members != "*"), ("exclude", spec.exclude)) if is_set]
            lines += [f"{where} {name!r}: it {effect}" for name in changed if spec.source not in self.names("fetch")]
        if lines:
            raise RecipeError("\n".join(lines))

    def _origin(self, spec: Spec, field: str, *, shipped: bool) -> str:
        """Say where to get the missing file of a field; ``shipped``: a recipe of the package names it in its data."""
        with suppress(ValueError):
            task = None
            if isinstance(spec, FinetuneSpec):
                task = tasks.load(spec.task)
            elif isinstance(spec, DedupSpec) and field.startswith("decontaminate."):
                # Shipped recipes call such a file by its benchmark: klue-sts-dev.
                task = self._benchmark(spec.decontaminate[int(field.split(".")[1])].name.rpartition("-")[0])
            if task is not None:
                return f"; {task.title} comes from {task.origin}; name a URL with its sha256 to have it fetched"
        if isinstance(spec, ExtractSpec) and spec.format in ORIGINS:
            return f"; {ORIGINS[spec.format]}"
        if hub := getattr(spec, "hub", ""):
            return f"; it is at https://huggingface.co/{hub}"
        return "; the first lines of the recipe say what it is" if shipped else ""

    def _benchmark(self, name: str) -> Task:
        """Return the benchmark of ``[finetune.NAME]``, or the one of this name. Raises ValueError if there is none."""
        given = self.tables["finetune"][name].get("task", name) if name in self.names("finetune") else name
        if not is_file(str(given)):
            return tasks.find(str(given))
        return tasks.load(tasks.table_of(self.root / self._with_places(given), within=data_root()).definition)


def _is_plain_file(path: Path) -> bool:
    return path.is_file() and not is_archive(path.name)


def _is_file(spec: Spec, field: str) -> bool:
    """Return whether a path field of a benchmark, of triples, or of evaluation or labelled texts takes a file alone."""
    if isinstance(spec, FinetuneSpec) and "." not in field:
        return field not in tasks.load(spec.task).directories
    triples = spec.contrast if isinstance(spec, FinetuneSpec) else spec
    if isinstance(triples, ContrastSpec):
        return field.endswith("train") and "train" not in tasks.load(triples.task).directories
    return isinstance(spec, DedupSpec | QualitySpec)


def _instead(path: Path) -> str:
    """Suggest what a missing path was meant to be: a pattern, or the nearest name in its directory."""
    pattern = next((part for part in path.parts if set("*?[") & set(part)), None)
    if pattern is not None:
        directory = Path(*path.parts[: path.parts.index(pattern)])
        inside = json.dumps(path.relative_to(directory).as_posix(), ensure_ascii=False)
        return f"; patterns are not expanded here: name the directory {directory} and set members = {inside}"
    if path.is_symlink():
        return "; it is a link that leads to nothing, or in a circle"
    names: list[str] = []
    with suppress(OSError):  # There is no such directory, or it may not be listed.
        names = sorted(each.name for each in path.parent.iterdir())
    if composed(path.name) in map(composed, names):
        return "; a file of this name is there, but in another form of Unicode (NFD, as macOS writes it): rename it"
    return nearest(path.name, names)


def explained(path: Path, kind: type[BaseModel], table: str, error: ValidationError) -> str:
    """Write the errors that pydantic found, one a line."""
    return explained_at(f"{path}, [{table}]" if table else str(path), kind, error, _UNION_TAGS)


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


def merged(table: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return a table with some fields changed, merging the tables within it."""
    both = {
        name: merged(table[name], value) if isinstance(value, dict) and isinstance(table.get(name), dict) else value
        for name, value in changes.items()
    }
    return {**table, **both}


def _neighbours(path: Path) -> list[str]:
    """Return the names of recipes in the directory of a path, and of those in the package."""
    here = [p.name for p in path.parent.glob("*.toml")] if path.parent.is_dir() else []
    return here if path.is_absolute() else [*here, *names()]


Kind = Literal["model", "corpus", "cross-lingual", "evaluation", "ablation"]

KINDS: dict[Kind, str] = {
    "model": "a model from raw text",
    "corpus": "a corpus alone",
    "cross-lingual": "a cross-lingual post-training",
    "evaluation": "an evaluation of existing encoders",
    "ablation": "an ablation",
}
"""What a recipe of each kind makes."""


def kind_of(path: Path) -> Kind:
    """Return the kind of a recipe. Raises RecipeError if it cannot be read.

    An ablation names a recipe to start from, a cross-lingual recipe has tables of transfer or training phases, and an
    evaluation has encoders and no text. A corpus has only tables of its text and vocabulary; misspelt names count as the
    nearest known one, and names near to none are ignored.
    """
    tables = read_toml(path)
    known = (*TOP, *registry.names(), registry.REPORT.table)
    if wrong := [name for name in tables if name != name.lower() and name.lower() in known]:
        raise RecipeError("\n".join(f"{path}: [{name}]: write it in lower case, [{name.lower()}]" for name in wrong))
    if "recipe" in tables:
        return "ablation"
    if {"transfer", "phase1", "phase2"} & tables.keys():
        return "cross-lingual"
    if "extract" in tables and not any(closest(name, known) in registry.names(registry.MODEL) for name in tables):
        return "corpus"
    return "evaluation" if "encoder" in tables and "extract" not in tables else "model"
