"""An ablation: one TOML file that names a recipe, the cells of a grid over it, and the table of the paper that they refill."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from korealbert.artifact import Spec
from korealbert.recipe.ablation_spec import AblationSpec, Cell, Overrides, key_of
from korealbert.recipe.kinds import KINDS, kind_of
from korealbert.recipe.reading import Recipe, load
from korealbert.recipe.tables import RecipeError, explained, flattened, nearest, read_toml
from korealbert.report.ablation.spec import AblationReportSpec, Column, Row

RESERVED = {
    "pretrain.seed": "seeds are the ablation's own field",
    "report": "an ablation has a report of its own",
    "data": "it is set in the recipe, or by --data",
    "name": "it is set in the ablation",
    "description": "it is set in the ablation",
}
"""What no cell may set, and why."""


@dataclass(frozen=True)
class Ablation:
    """A file read, with the recipe of every cell."""

    spec: AblationSpec
    name: str
    description: str
    cells: Mapping[str, Recipe]
    """Recipes by the key of their row, in the order of the table."""
    noise: Mapping[str, Recipe]
    """The first cell's recipe under each noise of ``spec.noise``."""
    report: AblationReportSpec
    """Layout of the table."""


def load_ablation(path: Path, *, data: Path | None = None, overrides: Mapping[str, Any] | None = None) -> Ablation:
    """Read and validate an ablation with the recipes of all its cells.

    ``overrides`` are fields by dotted name that take the place of those of every recipe and cell. Raises RecipeError for
    anything that could not run.
    """
    spec = _validated(path, AblationSpec, read_toml(path))
    base = path.parent / spec.recipe
    if base.is_file() and (kind := kind_of(base)) != "model":
        raise RecipeError(f"{path}, field 'recipe': {base} is itself a recipe of {KINDS[kind]}; name one of a model")

    def recipe_of(where: str, cell: Cell, *more: Overrides) -> Recipe:
        try:
            fields = {
                name: value for part in (spec.set, cell.set, *more, overrides or {}) for name, value in flattened(part).items()
            }
            _refuse_reserved(fields)
            return load(base, data=data, overrides=fields, without=cell.without)
        except ValueError as error:
            raise RecipeError(f"{path}, {where}: {error}") from None

    recipes: dict[str, Recipe] = {}
    rows = []
    for cell in spec.grid:
        recipes[key_of(cell.label)] = recipe_of(f"cell {cell.label!r}", cell)
        own = tuple(f"without {name}" for name in cell.without)
        own += tuple(f"{name} = {json.dumps(value, ensure_ascii=False)}" for name, value in flattened(cell.set).items())
        rows.append(Row(key=key_of(cell.label), label=cell.label, model=_printed_name(path, spec, cell), settings=own))
    noise = {name: recipe_of(f"[noise.{name}]", spec.grid[0], {"views": fields}) for name, fields in spec.noise.items()}
    name = spec.name or path.stem
    layout = {
        "title": spec.title or name,
        "description": spec.description,
        "rows": [row.model_dump() for row in rows],
        "columns": [column.model_dump() for column in _columns(path, spec, recipes)],
        "baseline": spec.baseline or rows[0].label,
        "printed": spec.printed and spec.printed.model_dump(),
        "confidence": spec.confidence,
        "notes": spec.notes,
    }
    return Ablation(spec, name, spec.description, recipes, noise, _validated(path, AblationReportSpec, layout))


def _refuse_reserved(fields: Overrides) -> None:
    for name in fields:
        for reserved, reason in RESERVED.items():
            if name == reserved or name.startswith(f"{reserved}."):
                raise ValueError(f"set: {name!r} cannot be set here: {reason}")


def _printed_name(path: Path, spec: AblationSpec, cell: Cell) -> str:
    """The published name of a cell, or nothing where the paper has none."""
    if spec.printed is None:
        if cell.printed:
            raise RecipeError(f"{path}, cell {cell.label!r}: printed = {cell.printed!r} wants a table; add [printed]")
        return ""
    if cell.printed == "":
        return ""
    printed = spec.printed if cell.printed is None else spec.printed.model_copy(update={"model": cell.printed})
    try:
        return printed.model_of(cell.label)
    except ValueError as error:
        raise RecipeError(f"{path}, cell {cell.label!r}: {error}") from None


def _columns(path: Path, spec: AblationSpec, recipes: Mapping[str, Recipe]) -> tuple[Column, ...]:
    """The columns of the file, checked against recipes and published table, or those that the recipes give."""
    benchmarks = [recipe.finetune for recipe in recipes.values()]
    common = [name for name in benchmarks[0] if all(name in each for each in benchmarks)]
    for name in common:
        if not all("pretrained" in each[name].grid.inits for each in benchmarks):
            raise RecipeError(
                f"{path}: [finetune.{name}] of the recipe has no init 'pretrained', which is what an ablation compares"
            )
    if not spec.columns:
        heldout = [Column(title=f"{task.upper()} held out", heldout=task) for task in ("mlm", "sop", "wop")]
        return (*heldout, *(Column(title=name, benchmark=name) for name in common))
    table = spec.printed.pairs() if spec.printed is not None else set()
    for column in spec.columns:
        where = f"{path}, column {column.title!r}"
        if column.benchmark and column.benchmark not in common:
            known = ", ".join(common) or "none"
            raise RecipeError(
                f"{where}: no benchmark {column.benchmark!r} in all cells{nearest(column.benchmark, common)}; they have {known}"
            )
        if column.noise and column.noise not in spec.noise:
            raise RecipeError(f"{where}: no table [noise.{column.noise}]{nearest(column.noise, spec.noise)}")
        if column.printed is not None and column.printed not in table:
            known = ", ".join(f"{task} {metric}" for task, metric in sorted(table)) or "nothing: there is no [printed]"
            raise RecipeError(f"{where}: printed = {list(column.printed)} is not in the published table; it has {known}")
    for name in spec.noise:
        if not any(column.noise == name for column in spec.columns):
            raise RecipeError(f"{path}, [noise.{name}]: no column is scored under it; name it in one, or remove it")
    return spec.columns


S = TypeVar("S", bound=Spec)


def _validated(path: Path, kind: type[S], tables: Mapping[str, Any]) -> S:
    """A spec from TOML's values, strictly: no "3" for 3."""
    try:
        return kind.model_validate_json(json.dumps(tables, default=str), strict=True)
    except ValidationError as error:
        raise RecipeError(explained(path, kind, "", error)) from None
