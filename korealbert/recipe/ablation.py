"""An ablation: one TOML file with a recipe, the cells of a grid over it, and the table of a paper that they reproduce.

A cell is a row of the table: the recipe with some fields changed, by dotted name. Cells are listed (``[[cells]]``) or are all
combinations of ``[[axes]]``. Each is pretrained once per seed and fine-tuned on every benchmark of the recipe.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, Self, TypeVar

from pydantic import Field, ValidationError, model_validator

from korealbert.artifact import EACH_ONCE, Spec, refuse_repeats
from korealbert.formatting import nearest
from korealbert.recipe.benchmarks import check_ensemble, refuse_bi_encoders, refuse_unknown_metrics
from korealbert.recipe.reading import load
from korealbert.recipe.specs import Recipe
from korealbert.recipe.tables import DATA, KINDS, RecipeError, explained, flattened, kind_of, located, named_recipe, read_toml
from korealbert.report.ablation.spec import AblationReportSpec, Row
from korealbert.report.paper_columns import Column, Measure, Printed, other_metrics

_Overrides = dict[str, Any]
"""Values of fields by dotted name, which may be quoted or nested tables of TOML."""


class Level(Spec):
    """One value of an axis."""

    label: str = Field(min_length=1)
    """Its name in the table. A cell's label is the labels of its levels, joined by spaces."""
    set: _Overrides = Field(default_factory=dict)
    """Fields that it changes in the recipe."""


class Axis(Spec):
    """One dimension of a grid."""

    levels: tuple[Level, ...] = Field(min_length=1)
    """Levels in the order of the paper; those of the last axis vary fastest."""


class Cell(Spec):
    """One row of the table."""

    label: str = Field(min_length=1)
    """Its name in the table."""
    set: _Overrides = Field(default_factory=dict)
    """Fields that it changes in the recipe."""
    without: tuple[str, ...] = ()
    """Fields or tables of the recipe that it removes: ``["extract.news", "clean.news"]``."""
    printed: str | None = None
    """Its name in the published table, unless the template of [printed] gives it; empty if the paper does not have it."""
    starts_from: str = ""
    """Label of an earlier cell whose weights its training starts from, seed by seed. They must fit: the same model with another
    number of layers that share all weights (ALBERT, appendix A.1)."""
    ensemble: tuple[str, ...] = ()
    """Labels of cells whose fine-tuning runs form an ensemble by the mean of their probabilities. The row trains nothing."""
    members: int | None = Field(default=None, ge=2)
    """How many of these runs the ensemble takes: the best on dev of each benchmark. By default all."""


class AblationSpec(Spec):
    """The whole file."""

    name: str = ""
    """Short name, by default that of the file."""
    title: str = Field(default="", max_length=200)
    """Title of the report, by default the name."""
    description: str = ""
    """The comparison in a sentence."""
    recipe: str
    """The recipe that all cells change, relative to this file. Paths that cells set are relative to the recipe."""
    seeds: Annotated[tuple[Annotated[int, Field(ge=0, lt=2**32)], ...], EACH_ONCE] = Field(min_length=1)
    """One pretraining per cell and seed."""
    set: _Overrides = Field(default_factory=dict)
    """Fields that all cells change in the recipe."""
    without: tuple[str, ...] = ()
    """Fields or tables of the recipe that all cells remove."""
    shared: tuple[Literal["dedup", "balance", "vocab", "examples", "views"], ...] = ()
    """Stages that all cells take from the first one even if their inputs differ: ``["vocab"]``."""
    cells: tuple[Cell, ...] = ()
    """Rows in the order of the paper."""
    axes: tuple[Axis, ...] = ()
    """Instead of cells, the axes of a grid: the rows are all combinations of levels."""
    noise: Mapping[Annotated[str, Field(pattern=r"^[\w-]+$")], _Overrides] = Field(default_factory=dict)
    """Noises, by name, under which held-out rows are scored: fields of ``views`` to change in the recipe."""
    columns: tuple[Column, ...] = ()
    """Columns in the order of the paper. By default the held-out accuracies and each benchmark with its own metric."""
    baseline: str = ""
    """Label of the cell that the others are compared with, by default the first."""
    printed: Printed | None = None
    """Source of the paper's numbers."""
    curves: bool = False
    """Whether to draw held-out accuracies over the steps, a line for each row."""
    layers: bool = False
    """Whether to measure how far each layer moves the vectors of held-out tokens, under the first of ``noise``."""
    confidence: float = Field(default=0.95, gt=0.5, lt=1)
    """Confidence level of the intervals."""
    notes: tuple[str, ...] = ()
    """Sentences for the reader of the report."""

    @model_validator(mode="after")
    def _one_kind_of_grid(self) -> Self:
        if bool(self.cells) == bool(self.axes):
            raise ValueError("give either [[cells]] or [[axes]]" + (", not both" if self.cells else ""))
        labels = [cell.label for cell in self.grid]
        refuse_repeats("cells", labels)
        refuse_repeats("names of cells", [key_of(label) for label in labels])
        if self.baseline and self.baseline not in labels:
            raise ValueError(
                f"baseline = {self.baseline!r} is no cell{nearest(self.baseline, labels)}; name one of {', '.join(labels)}"
            )
        if self.layers and not self.noise:
            raise ValueError("layers = true measures under the first of [noise.NAME], and there is none; add one")
        return self

    @model_validator(mode="after")
    def _cells_know_each_other(self) -> Self:
        trained: list[str] = []
        for cell in self.grid:
            wanted = [cell.starts_from] if cell.starts_from else list(cell.ensemble)
            for label in wanted:
                if label not in trained:
                    near = nearest(label, trained)
                    raise ValueError(f"cell {cell.label!r}: no cell {label!r} is trained before it{near}; name one above it")
            if cell.ensemble and (cell.set or cell.without or cell.starts_from):
                raise ValueError(f"cell {cell.label!r}: an ensemble trains nothing; remove set, without and starts_from")
            if cell.members is not None and not cell.ensemble:
                raise ValueError(
                    f"cell {cell.label!r}: members belongs to an ensemble; remove it, or name the cells of one in ensemble"
                )
            if not cell.ensemble:
                trained.append(cell.label)
        return self

    @property
    def grid(self) -> tuple[Cell, ...]:
        """All cells, listed or combined from axes."""
        if self.cells:
            return self.cells
        combined = []
        for levels in itertools.product(*(axis.levels for axis in self.axes)):
            fields: _Overrides = {}
            for level in levels:
                own = flattened(level.set)
                refuse_repeats("fields set by axes", [*fields, *own])
                fields |= own
            combined.append(Cell(label=" ".join(level.label for level in levels), set=fields))
        return tuple(combined)


def key_of(label: str) -> str:
    """Return a cell's label as part of a stage's label: ``mlm-sop`` for ``MLM+SOP``."""
    return re.sub(r"\W+", "-", label.lower()).strip("-") or "cell"


_NOT_TRAINED: _Overrides = {"pretrain.sop_weight": 0.0, "pretrain.wop_weight": 0.0, "pretrain.frozen": []}
"""Fields of a recipe that is read for the views of a [noise.NAME] alone, which need no targets for its losses. Without these
losses it may lack the tensors that ``frozen`` names."""

_RESERVED = {
    "pretrain.seed": "seeds are the ablation's own field",
    "report": "an ablation has a report of its own",
    "data": "it is set in the recipe, or by --data",
    "name": "it is set in the ablation",
    "description": "it is set in the ablation",
}
"""Fields that no cell may set, with the reason."""


@dataclass(frozen=True)
class Ablation:
    """An ablation as read, with the recipe of every cell."""

    spec: AblationSpec
    name: str
    description: str
    cells: Mapping[str, Recipe]
    """Recipes by the key of their cell, in the order of the table."""
    noise: Mapping[str, Recipe]
    """The first cell's recipe under each noise of ``spec.noise``."""
    report: AblationReportSpec
    """Layout of the table."""


def load_ablation(path: Path, *, data: Path | None = None, overrides: Mapping[str, Any] | None = None) -> Ablation:
    """Read and validate an ablation with the recipes of all its cells.

    ``overrides`` replace fields or whole tables of all these recipes by dotted name, after what the file itself sets. Raises
    RecipeError if the ablation could not run.
    """
    spec = _validated(path, AblationSpec, read_toml(path))
    base = named_recipe(str(path), path, spec.recipe)
    if base.is_file() and (kind := kind_of(base)) != "model":
        raise RecipeError(f"{path}, field 'recipe': {base} is itself a recipe of {KINDS[kind]}; name one of a model")
    overrides = overrides or {}
    recipes, noise = _load_cells(path, spec, base, data, overrides)
    columns = _columns(path, spec, recipes)
    _check_parts(path, spec, recipes, {column.benchmark for column in columns if column.benchmark})
    rows = [_row(path, spec, cell, recipes, overrides) for cell in spec.grid]
    name = spec.name or path.stem
    layout = {
        "title": spec.title or name,
        "description": spec.description,
        "rows": [row.model_dump() for row in rows],
        "columns": [column.model_dump() for column in columns],
        "baseline": spec.baseline or rows[0].label,
        "printed": spec.printed and spec.printed.model_dump(),
        "confidence": spec.confidence,
        "notes": (
            *spec.notes,
            *_measured(path, spec, columns, recipes),
            *other_metrics(columns, spec.printed, _measures(recipes)),
        ),
        "curves": spec.curves,
        "noises": {name: recipe.views.model_dump(mode="json") for name, recipe in noise.items()},
    }
    return Ablation(spec, name, spec.description, recipes, noise, _validated(path, AblationReportSpec, layout))


def _load_cells(
    path: Path, spec: AblationSpec, base: Path, data: Path | None, overrides: Mapping[str, Any]
) -> tuple[dict[str, Recipe], dict[str, Recipe]]:
    """Load the recipe of each cell by its key, and that of the first cell under each noise. Raises RecipeError."""
    wrong: dict[str, str] = {}

    def recipe_of(where: str, cell: Cell, *more: _Overrides) -> Recipe | None:
        try:
            fields: _Overrides = {}
            for part in (*map(flattened, (spec.set, cell.set, *more)), overrides, _NOT_TRAINED if more else {}):
                _refuse_reserved(part)
                fields = {name: value for name, value in fields.items() if name not in part} | dict(part)
            return load(base, data=data, overrides=fields, without=(*spec.without, *cell.without))
        except ValueError as error:
            for line in str(error).splitlines():
                wrong.setdefault(line, f"{path}, {where}: ")
            return None

    trained = [cell for cell in spec.grid if not cell.ensemble]
    recipes = {key_of(cell.label): found for cell in trained if (found := recipe_of(f"cell {cell.label!r}", cell))}
    noise = {}
    for name, fields_of in spec.noise.items():
        if len(recipes) == len(trained) and (found := recipe_of(f"[noise.{name}]", trained[0], {"views": fields_of})):
            noise[name] = found
    if wrong:
        last = [line for line in wrong if line.startswith(DATA)]
        raise RecipeError("\n".join([*(where + line for line, where in wrong.items() if line not in last), *last]))
    return recipes, noise


def _row(path: Path, spec: AblationSpec, cell: Cell, recipes: Mapping[str, Recipe], overrides: Mapping[str, Any]) -> Row:
    """Return the row of a cell, with the settings that it has and no override replaces."""
    settings = [f"without {name}" for name in cell.without]
    for name, value in flattened(cell.set).items():
        if not any(f"{name}.".startswith(f"{other}.") for other in overrides):
            settings.append(f"{name} = {json.dumps(value, ensure_ascii=False)}")
    if cell.starts_from:
        settings.append(f"starts from {cell.starts_from}")
    key = key_of(cell.label)
    return Row(
        key=key,
        label=cell.label,
        model=_printed_name(path, spec, cell),
        settings=tuple(settings),
        ensemble=cell.ensemble,
        snapshot=None if cell.ensemble else recipes[key].export.snapshot,
    )


def _refuse_reserved(fields: Mapping[str, Any]) -> None:
    for name in (within for field, value in fields.items() for within in (field, *flattened({field: value}))):
        for reserved, reason in _RESERVED.items():
            if name == reserved or name.startswith(f"{reserved}."):
                raise ValueError(f"set: {name!r} cannot be set here: {reason}")


def _check_parts(path: Path, spec: AblationSpec, recipes: Mapping[str, Recipe], benchmarks: Set[str]) -> None:
    """Raise RecipeError if a cell changes a shared stage, starts from a snapshot, or cannot be the ensemble that it names."""
    first = next(iter(recipes.values()))
    for cell in spec.grid:
        own = recipes.get(key_of(cell.label), first)
        with located(f"{path}, cell {cell.label!r}"):
            for table in spec.shared:
                if getattr(own, table) != getattr(first, table):
                    raise ValueError(
                        f"its [{table}] is not that of {spec.grid[0].label!r}, which `shared` gives to all cells; set it in "
                        "that cell or for all, or take it out of shared"
                    )
            if cell.starts_from:
                _check_start(cell.starts_from, recipes[key_of(cell.starts_from)], own)
            for name in sorted(benchmarks) if cell.ensemble else ():
                parts = {label: recipes[key_of(label)].finetune[name] for label in cell.ensemble}
                check_ensemble(name, parts, trainings=len(spec.seeds), members=cell.members)


def _check_start(label: str, start: Recipe, own: Recipe) -> None:
    """Raise ValueError if a training cannot start from the end of the one that has this label."""
    if start.export.snapshot is not None:
        raise ValueError(
            f"a training starts from the end of another, and {label!r} is its snapshot of step {start.export.snapshot:,}; name "
            "a cell without export.snapshot"
        )
    if not own.pretrain.fits(start.pretrain.shape):
        raise ValueError(
            f"the weights of {label!r} do not fit its [pretrain.model]; the two may differ in num_layers and dropout alone, "
            "with share = 'all' in a single group"
        )


def _printed_name(path: Path, spec: AblationSpec, cell: Cell) -> str:
    """Return the name of a cell in the published table, or "" if it has none."""
    if spec.printed is None:
        if cell.printed:
            raise RecipeError(f"{path}, cell {cell.label!r}: printed = {cell.printed!r} needs a table; add [printed]")
        return ""
    if cell.printed == "":
        return ""
    with located(f"{path}, cell {cell.label!r}"):
        name = spec.printed.model_of(cell.label, cell.printed)
    return name


def _measured(path: Path, spec: AblationSpec, columns: Sequence[Column], recipes: Mapping[str, Recipe]) -> Iterator[str]:
    """Yield notes on columns that measure NSP or use another head.

    Raises RecipeError for heads that do not compare, and for unknown metrics.
    """
    benchmarks = next(iter(recipes.values())).finetune
    refuse_bi_encoders(str(path), columns, benchmarks)
    refuse_unknown_metrics(str(path), columns, benchmarks)
    labels = {key_of(cell.label): cell.label for cell in spec.grid}
    nsp = [labels[key] for key, recipe in recipes.items() if recipe.views.sentence_task == "nsp"]
    titles_by_head: dict[str, list[str]] = {}
    for column in columns:
        if column.heldout == "sop" and not column.noise and nsp:
            yield f"{column.title}: accuracy of NSP in {', '.join(nsp)}."
        heads = {recipe.finetune[column.benchmark].first.head for recipe in recipes.values()} if column.benchmark else {"own"}
        if len(heads) > 1:
            raise RecipeError(
                f"{path}, column {column.title!r}: its cells have the heads {', '.join(sorted(heads))}; give all one head"
            )
        (head,) = heads
        if head != "own":
            titles_by_head.setdefault(head, []).append(column.title)
    for head, titles in titles_by_head.items():
        yield f"Head {head}: {', '.join(titles)}."


def _measures(recipes: Mapping[str, Recipe]) -> dict[str, Measure]:
    """Return what the benchmarks of the first cell measure, by name."""
    cells = {name: benchmark.first for name, benchmark in next(iter(recipes.values())).finetune.items()}
    return {name: Measure(cell.task_name, cell.benchmark.title, cell.benchmark.metric) for name, cell in cells.items()}


def _columns(path: Path, spec: AblationSpec, recipes: Mapping[str, Recipe]) -> tuple[Column, ...]:
    """Return the columns of the file, checked against the recipes and the published table, or by default of the recipes."""
    finetuned = [recipe.finetune for recipe in recipes.values()]
    common = [name for name in finetuned[0] if all(name in benchmarks for benchmarks in finetuned)]
    for name in common:
        for init in {column.init for column in spec.columns if column.benchmark == name} or {"pretrained"}:
            if not all(init in benchmarks[name].grid.inits for benchmarks in finetuned):
                raise RecipeError(
                    f"{path}: [finetune.{name}] of the recipe has no init {init!r}, which a column compares; add it to inits, "
                    "or remove the column"
                )
    snapshot = any(recipe.export.snapshot for recipe in recipes.values())
    if not spec.columns:
        if snapshot:
            raise RecipeError(
                f"{path}: a cell has export.snapshot, of which no held-out accuracies are known; name [[columns]]"
            )
        heldout = [Column(title=f"{task.upper()} held out", heldout=task) for task in ("mlm", "sop", "wop")]
        return (*heldout, *(Column(title=name, benchmark=name) for name in common))
    for column in spec.columns:
        with located(f"{path}, column {column.title!r}"):
            _check_column(column, spec, common, snapshot=snapshot)
    for name in spec.noise:
        if not any(column.noise == name for column in spec.columns):
            raise RecipeError(f"{path}, [noise.{name}]: no column is scored under it; name it in one, or remove it")
    return spec.columns


def _check_column(column: Column, spec: AblationSpec, benchmarks: Sequence[str], *, snapshot: bool) -> None:
    """Raise ValueError if a column names what is not there. ``benchmarks``: those of all cells; ``snapshot``: one has it."""
    try:
        printed = spec.printed.elsewhere(column.source).pairs() if spec.printed is not None else set()
    except ValidationError as error:
        raise ValueError(error.errors()[0]["msg"].removeprefix("Value error, ")) from None
    if column.benchmark and column.benchmark not in benchmarks:
        near, known = nearest(column.benchmark, benchmarks), ", ".join(benchmarks) or "none"
        raise ValueError(f"no benchmark {column.benchmark!r} in all cells{near}; they have {known}")
    if column.noise and column.noise not in spec.noise:
        raise ValueError(f"no table [noise.{column.noise}]{nearest(column.noise, spec.noise)}; add it, or correct noise")
    if column.printed is not None and column.printed not in printed:
        known = ", ".join(f"{task} {metric}" for task, metric in sorted(printed)) or "nothing: there is no [printed]"
        raise ValueError(f"printed = {list(column.printed)} is not in the published table; it has {known}")
    if column.heldout and not column.noise and snapshot:
        remedy = "score it under a [noise.NAME], which uses the weights of that step"
        raise ValueError(f"it is measured at the end of a training, and a cell has export.snapshot; {remedy}")


S = TypeVar("S", bound=Spec)


def _validated(path: Path, kind: type[S], tables: Mapping[str, Any]) -> S:
    """Make a spec from the values of a TOML file, strictly: no "3" for 3."""
    try:
        return kind.model_validate_json(json.dumps(tables, default=str), strict=True)
    except ValidationError as error:
        raise RecipeError(explained(path, kind, "", error)) from None
