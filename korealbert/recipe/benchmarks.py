"""The fine-tuning cells of a benchmark, from its table: ``[finetune.NAME]``."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Generic, Literal, TypeVar

from pydantic import Field, ValidationInfo, field_validator

from korealbert.artifact import Spec, refuse_repeats
from korealbert.finetune.init import INITS, Init
from korealbert.finetune.search import SearchSpec
from korealbert.finetune.spec import FinetuneSpec
from korealbert.recipe.tables import RecipeError, Tables

Seed = Annotated[int, Field(ge=0, lt=2**63)]


class FinetuneGrid(Spec):
    """The cells of one benchmark: every init times every seed under one set of hyper-parameters."""

    seeds: tuple[Seed, ...] = Field(default=(1, 2, 3), min_length=1)
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


class PretrainedGrid(FinetuneGrid):
    """The cells of one benchmark for models that are measured as they are."""

    inits: tuple[Literal["pretrained"], ...] = Field(default=("pretrained",), min_length=1)
    """From their weights alone: what a shape learns from random ones is a question about a recipe's own model."""


GridT_co = TypeVar("GridT_co", bound=FinetuneGrid, covariant=True)


@dataclass(frozen=True)
class Benchmark(Generic[GridT_co]):
    """The validated cells of one benchmark, and what makes cells of its table."""

    cells: Mapping[str, FinetuneSpec]
    """By ``INIT/SEED``; at least one."""
    grid: GridT_co

    @property
    def first(self) -> FinetuneSpec:
        """Any one of the cells: they read the same examples."""
        return next(iter(self.cells.values()))

    def only(self, *, init: Init | None = None, seeds: Collection[int] | None = None) -> Benchmark[GridT_co] | None:
        """The cells of this init and these seeds; None where there is none."""
        cells = {
            label: spec
            for label, spec in self.cells.items()
            if (init is None or spec.init == init) and (seeds is None or spec.seed in seeds)
        }
        return Benchmark(cells, self.grid) if cells else None


def read_benchmarks(tables: Tables, table: str, kind: type[GridT_co]) -> dict[str, Benchmark[GridT_co]]:
    """All ``[TABLE.NAME]`` of a file by name. Raises RecipeError for one that could not run."""
    return {name: _read(tables, table, name, kind) for name in tables.names(table)}


def too_long(cell: FinetuneSpec, positions: Mapping[str, int | None]) -> Iterator[str]:
    """Which models, of those whose positions are known, have too few of them for the inputs of a cell."""
    for model, longest in positions.items():
        if longest is not None and cell.max_length > longest:
            yield f"{cell.max_length} exceeds the {longest} positions of {model}; lower it"


def _read(tables: Tables, table: str, name: str, kind: type[GridT_co]) -> Benchmark[GridT_co]:
    where = f"{table}.{name}"
    given = tables.table(where)
    tables.refuse_reserved(where, given, ("seed", "init"))
    grid = tables.validate(kind, where, {axis: given[axis] for axis in kind.model_fields if axis in given})
    settings = {field: value for field, value in given.items() if field not in kind.model_fields}
    settings.setdefault("task", name)
    if settings.get("test") is None and settings.get("test_share") is None:
        raise RecipeError(f"{tables.path}, [{where}]: field 'test' is missing, and test_share; one says what is tested on")
    cells = {
        f"{init}/{seed}": tables.validate(FinetuneSpec, where, {**settings, "init": init, "seed": seed})
        for init in grid.inits
        for seed in grid.seeds
    }
    found = Benchmark(cells, grid)
    if grid.search is not None:
        if found.first.test is None:
            raise RecipeError(
                f"{tables.path}, [{where}]: a search wants a test file, which its trials never see; name it as test"
            )
        _check_search(tables, where, grid.search, settings, found.first)
    return found


def _check_search(tables: Tables, where: str, search: SearchSpec, settings: Mapping[str, Any], cell: FinetuneSpec) -> None:
    for name in search.axes:
        if name in settings:
            raise RecipeError(f"{tables.path}, [{where}]: {name!r} is given and searched; remove one of the two")
    try:
        search.check(cell)
    except ValueError as error:
        raise RecipeError(f"{tables.path}, [{where}], field 'search': {error}") from None
