"""A recipe: one TOML file that holds the specs of all stages, the graph they form, and the plan of what would run and why."""

from __future__ import annotations

import difflib
import json
import os
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args

from pydantic import BaseModel, Field, ValidationError

from korealbert.artifact import Artifact, Identity, InputPath, Spec, Stage, Store
from korealbert.corpus import balance, clean, dedup, extract
from korealbert.examples import packing, views
from korealbert.export import huggingface
from korealbert.finetune import stage as finetune
from korealbert.finetune.spec import FinetuneSpec
from korealbert.pretrain import stage as pretrain
from korealbert.pretrain.spec import PretrainSpec
from korealbert.report import stage as report
from korealbert.vocab import training as vocab


class RecipeError(ValueError):
    """A recipe that cannot be run; the message names file, table, field and remedy."""


class FinetuneGrid(Spec):
    """The cells of one benchmark: every start times every seed under one set of hyper-parameters."""

    seeds: tuple[int, ...] = Field(default=(1, 2, 3), min_length=1)
    """One fine-tuning run per seed; the report gives mean and standard deviation over them."""
    inits: tuple[Literal["pretrained", "random"], ...] = Field(default=("pretrained", "random"), min_length=1)
    """Start from the pretrained weights, and from random ones under the same budget."""


@dataclass(frozen=True)
class Recipe:
    """The validated specs of every stage, ready to form a graph."""

    name: str
    path: Path
    description: str
    extract: Mapping[str, extract.ExtractSpec]
    clean: Mapping[str, clean.CleanSpec]
    dedup: dedup.DedupSpec
    balance: balance.BalanceSpec
    vocab: vocab.VocabSpec
    examples: packing.ExamplesSpec
    views: views.ViewsSpec
    pretrain: PretrainSpec
    export: huggingface.ExportSpec
    finetune: Mapping[str, FinetuneSpec]
    """By ``task/init/seed``."""
    report: report.ReportSpec


@dataclass(frozen=True)
class Node:
    """One stage of a recipe's graph."""

    label: str
    """The stage's name within the recipe: ``extract/news``, ``vocab``, ``finetune/nsmc/random/2``."""
    stage: Stage[Any]
    spec: Spec
    inputs: Mapping[str, str] = field(default_factory=dict)
    """Labels of the stages it reads, by role."""


def graph(recipe: Recipe) -> dict[str, Node]:
    """The DAG of a recipe by label, every stage after those it reads."""
    nodes: dict[str, Node] = {}

    def add(label: str, stage: Stage[Any], spec: Spec, **inputs: str) -> str:
        nodes[label] = Node(label, stage, spec, inputs)
        return label

    cleaned = {}
    for source, spec in recipe.extract.items():
        documents = add(f"extract/{source}", extract.STAGE, spec)
        cleaned[source] = add(f"clean/{source}", clean.STAGE, recipe.clean[source], documents=documents)
    unique = add("dedup", dedup.STAGE, recipe.dedup, **cleaned)
    corpus = add("balance", balance.STAGE, recipe.balance, documents=unique)
    vocabulary = add("vocab", vocab.STAGE, recipe.vocab, documents=corpus)
    rows = add("examples", packing.STAGE, recipe.examples, documents=corpus, vocab=vocabulary)
    noise = add("views", views.STAGE, recipe.views, examples=rows, vocab=vocabulary)
    weights = add("pretrain", pretrain.STAGE, recipe.pretrain, vocab=vocabulary, examples=rows, views=noise)
    model = add("export", huggingface.STAGE, recipe.export, pretrain=weights, vocab=vocabulary)
    for cell, cell_spec in recipe.finetune.items():
        add(f"finetune/{cell}", finetune.STAGE, cell_spec, model=model)
    add("report", report.STAGE, recipe.report, **{label: label for label in nodes})
    return nodes


def select(nodes: Mapping[str, Node], labels: Iterable[str], *, option: str) -> list[str]:
    """The labels that the given names mean: a label itself, or all labels below it (``clean`` means every ``clean/…``).

    Raises RecipeError with the nearest valid name for a name that means nothing; ``option`` is named in the message.
    """
    chosen: list[str] = []
    for name in labels:
        below = [label for label in nodes if label == name or label.startswith(f"{name}/")]
        if not below:
            known = sorted({*nodes, *(label.split("/")[0] for label in nodes)})
            raise RecipeError(f"{option}: the recipe has no stage {name!r}{_nearest(name, known)}; stages: {', '.join(known)}")
        chosen += below
    return chosen


def until(nodes: Mapping[str, Node], target: str | None) -> dict[str, Node]:
    """The part of the graph that is needed to build ``target`` (all of it for None), in the same order."""
    if target is None:
        return dict(nodes)
    needed: set[str] = set()
    frontier = select(nodes, [target], option="until")
    while frontier:
        label = frontier.pop()
        if label not in needed:
            needed.add(label)
            frontier += nodes[label].inputs.values()
    return {label: node for label, node in nodes.items() if label in needed}


# --- reading -----------------------------------------------------------------------------------------------------------------

B = TypeVar("B", bound=Spec)
_SINGLE: dict[str, type[Spec]] = {
    "dedup": dedup.DedupSpec,
    "balance": balance.BalanceSpec,
    "vocab": vocab.VocabSpec,
    "examples": packing.ExamplesSpec,
    "views": views.ViewsSpec,
    "pretrain": PretrainSpec,
    "export": huggingface.ExportSpec,
    "report": report.ReportSpec,
}
_PER_NAME = ("extract", "clean", "finetune")
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
            self.tables = tomllib.loads(path.read_text("utf-8"))
        except FileNotFoundError:
            raise RecipeError(f"{path}: no such recipe{_nearest(path.name, _neighbours(path))}") from None
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
                raise RecipeError(f"{self.path}: unknown table or field [{name}]{_nearest(name, known)}")
        sources = {name: self._spec(extract.ExtractSpec, f"extract.{name}", source=name) for name in self._names("extract")}
        if not sources:
            raise RecipeError(f"{self.path}: no [extract.NAME] table; a recipe needs at least one source")
        for name in self._names("clean"):
            if name not in sources:
                raise RecipeError(f"{self.path}, [clean.{name}]: no source of this name{_nearest(name, sources)}")
        single: dict[str, Any] = {name: self._spec(kind, name) for name, kind in _SINGLE.items()}
        self._check_across(sources, **single)
        return Recipe(
            name=str(self.tables.get("name", self.path.stem)),
            path=self.path,
            description=str(self.tables.get("description", "")),
            extract=sources,
            clean={name: self._spec(clean.CleanSpec, f"clean.{name}") for name in sources},
            finetune=self._cells(),
            **single,
        )

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
                    raise RecipeError(f"{self.path}, {where}: no source {name!r}{_nearest(name, sources)}")
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
            return f"{where}: unknown field {'.'.join(location)!r}{_nearest(name, valid)}; valid: {', '.join(valid)}"
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


def _nearest(name: str, valid: Iterable[str]) -> str:
    close = difflib.get_close_matches(name, list(valid), n=1, cutoff=0.5)
    return f" (did you mean {close[0]!r}?)" if close else ""


def _neighbours(path: Path) -> list[str]:
    return [p.name for p in path.parent.glob("*.toml")] if path.parent.is_dir() else []


# --- planning ----------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Planned:
    """What a run would do with one stage."""

    label: str
    name: str
    """The artifact's name in the store."""
    status: Literal["cached", "stale", "new"]
    reasons: tuple[str, ...]
    """Why it is stale: ``max_chars: 100 → 200``, ``input documents: clean-1… → clean-2…``, damage."""
    estimate_seconds: float | None
    """Wall time of the newest build of the same stage, None if it was never built."""


def plan(nodes: Mapping[str, Node], store: Store, *, rerun: Iterable[str] = ()) -> list[Planned]:
    """What would run, and why, without running anything. ``rerun`` holds labels to build anew although cached."""
    history = store.artifacts()
    forced = set(rerun)
    names: dict[str, str] = {}
    standing: dict[str, Artifact | None] = {}
    planned = []
    for label, node in nodes.items():
        inputs = {role: names[other] for role, other in node.inputs.items()}
        identity = store.identify(node.stage, node.spec, inputs)
        names[label] = identity.name
        artifact = store.find(identity.name)
        standing[label] = artifact
        earlier = _newest(history, label, node.stage.name)
        seconds = earlier.manifest["wall_seconds"] if earlier else None
        status: Literal["cached", "stale", "new"]
        reasons: tuple[str, ...]
        if artifact is None and (store.root / identity.name).exists():
            status, reasons = "stale", (str(store.unreadable(Artifact(identity.name, store.root / identity.name))),)
        elif artifact is None:
            status, reasons = ("stale", difference(earlier, identity, node.spec)) if earlier else ("new", ())
        else:
            fault = store.damage(artifact) or store.outdated(artifact, {r: standing[o] for r, o in node.inputs.items()})
            asked = "asked for by --rerun" if label in forced else None
            reasons = tuple(reason for reason in (fault, asked) if reason)
            status = "stale" if reasons else "cached"
            seconds = artifact.manifest["wall_seconds"]
        planned.append(Planned(label, identity.name, status, reasons, None if status == "cached" else seconds))
    return planned


def _newest(history: list[Artifact], label: str, stage: str) -> Artifact | None:
    """The newest artifact of the same label, else of the same stage where a recipe has only one of it."""
    same = [a for a in history if a.manifest["label"] == label]
    same = same or [a for a in history if a.manifest["recipe"]["stage"] == stage and "/" not in label]
    return same[-1] if same else None


def difference(earlier: Artifact, identity: Identity, spec: Spec) -> tuple[str, ...]:
    """Which fields and inputs differ between the newest artifact of a stage and the wanted one, old → new."""
    old, new = earlier.manifest["recipe"], identity.document
    reasons = []
    if old["version"] != new["version"]:
        reasons.append(f"stage version: {old['version']} → {new['version']}")
    for role in sorted({*old["inputs"], *new["inputs"]}):
        before, after = old["inputs"].get(role, "none"), new["inputs"].get(role, "none")
        if before != after:
            reasons.append(f"input {role}: {before} → {after}")
    old_shown, new_shown = _flat(earlier.manifest["spec"]), _flat(spec.model_dump(mode="json"))
    old_flat, new_flat = _flat(old["spec"]), _flat(new["spec"])
    for name in sorted({*old_flat, *new_flat}):
        if old_flat.get(name) != new_flat.get(name):
            shown = name.removesuffix(".float").removesuffix(".sha256").removesuffix(".name")
            before, after = old_shown.get(shown, "unset"), new_shown.get(shown, "unset")
            reasons.append(f"{shown}: {before} → {after}" if before != after else f"{shown}: content of {after} changed")
    return tuple(dict.fromkeys(reasons)) or ("its artifact is gone from the store",)


def _flat(value: Any, prefix: str = "") -> dict[str, Any]:
    if isinstance(value, dict | list) and value:
        items = value.items() if isinstance(value, dict) else enumerate(value)
        return {k: v for key, item in items for k, v in _flat(item, f"{prefix}.{key}".lstrip(".")).items()}
    return {prefix: value}
