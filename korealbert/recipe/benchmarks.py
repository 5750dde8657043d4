"""Benchmarks of a recipe: their fine-tuning cells, read from `[finetune.NAME]`, and the stages that they form."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, Generic, Literal, NamedTuple, Self, TypeVar

from pydantic import Field, field_validator

from korealbert.artifact import EACH_ONCE, Spec
from korealbert.corpus.crawl import fetch
from korealbert.documents.benchmark_files import RemoteFile
from korealbert.finetune import features, stage
from korealbert.finetune.definition import Definition
from korealbert.finetune.scores import ensemble, summary
from korealbert.finetune.search import PROPOSAL, SELECTION, ProposalSpec, SearchSpec, SelectionSpec, trial_cell
from korealbert.finetune.spec import INITS, FeaturesSpec, FinetuneSpec, Init
from korealbert.formatting import nearest
from korealbert.huggingface import checkpoint
from korealbert.huggingface.directory import ModelPlace, read_settings
from korealbert.model.config import AnyConfig
from korealbert.recipe.nodes import Nodes
from korealbert.recipe.tables import Problems, RecipeError, Tables, located
from korealbert.report.paper_columns import Column
from korealbert.report.published import OwnScore

Seed = Annotated[int, Field(ge=0, lt=2**63)]


class FinetuneGrid(Spec):
    """The cells of one benchmark: every init times every seed under one set of hyper-parameters."""

    seeds: Annotated[tuple[Seed, ...], EACH_ONCE] = Field(default=(1, 2, 3), min_length=1)
    """One fine-tuning run per seed; the report gives mean and standard deviation over them."""
    inits: Annotated[tuple[Init, ...], EACH_ONCE] = Field(default=INITS, min_length=1)
    """Initial weights: pretrained, and random ones with the same budget as a baseline."""
    search: SearchSpec | None = None
    """Hyperparameters to choose on dev, separately for each init, before the seeds run."""
    resamples: int = Field(default=1000, ge=0)
    """Bootstrap draws of each confidence interval and test over the test examples; 0 computes none."""

    @field_validator("resamples")
    @classmethod
    def _has_a_variance(cls, number: int) -> int:
        if number == 1:
            raise ValueError("one draw has no variance; write 0 for no intervals, or some hundred")
        return number


class PretrainedGrid(FinetuneGrid):
    """The cells of one benchmark for models that are measured as they are."""

    inits: Annotated[tuple[Literal["pretrained"], ...], EACH_ONCE] = Field(default=("pretrained",), min_length=1)
    """Initial weights, only pretrained ones: random weights are a baseline for a recipe's own model."""


class EncoderGrid(FinetuneGrid):
    """The cells of one benchmark for every encoder of an evaluation."""

    inits: Annotated[tuple[Init, ...], EACH_ONCE] = Field(default=("pretrained",), min_length=1)
    """Initial weights: pretrained, and with ``random`` also random ones of the same shape."""


_GridT_co = TypeVar("_GridT_co", bound=FinetuneGrid, covariant=True)


@dataclass(frozen=True)
class Benchmark(Generic[_GridT_co]):
    """The validated cells of one benchmark, with the grid that they come from."""

    cells: Mapping[str, FinetuneSpec]
    """By ``INIT/SEED``; at least one."""
    grid: _GridT_co

    def of_architecture(self, architecture: str) -> Benchmark[_GridT_co]:
        """Return the cells with the heads that encoders of this architecture have."""
        return Benchmark({label: spec.of_architecture(architecture) for label, spec in self.cells.items()}, self.grid)

    @property
    def first(self) -> FinetuneSpec:
        """The first cell; all cells read the same examples."""
        return next(iter(self.cells.values()))

    def only(
        self, *, inits: Collection[Init] | None = None, seeds: Collection[int] | None = None
    ) -> Benchmark[_GridT_co] | None:
        """Return the cells with these inits and seeds, or None if there are none."""
        cells = {
            label: spec
            for label, spec in self.cells.items()
            if (inits is None or spec.init in inits) and (seeds is None or spec.seed in seeds)
        }
        return Benchmark(cells, self.grid) if cells else None

    def with_evidence(self) -> Benchmark[_GridT_co]:
        """Return the cells, changed to write what an ensemble averages."""
        return Benchmark({label: spec.model_copy(update={"evidence": True}) for label, spec in self.cells.items()}, self.grid)


def refuse_bi_encoders(where: str, columns: Sequence[Column], benchmarks: Mapping[str, Benchmark[Any]]) -> None:
    """Raise RecipeError if a score of a bi-encoder would be compared with a printed one, which is of a cross-encoder."""
    heads = {column.title: benchmarks[column.benchmark].first.head for column in columns if column.benchmark in benchmarks}
    for column in columns:
        parts = [column.title, *(title for group in column.average for title in group)]
        if column.printed is not None and (bi_encoders := [title for title in parts if heads.get(title) == "bi-encoder"]):
            raise RecipeError(
                f"{where}, column {column.title!r}: the printed scores are of cross-encoders, and {bi_encoders[0]!r} has "
                "head = 'bi-encoder'; remove printed, or measure the task with its own head"
            )


def refuse_unknown_metrics(where: str, columns: Sequence[Column], benchmarks: Mapping[str, Benchmark[Any]]) -> None:
    """Raise RecipeError for a column with a metric that its benchmark does not have."""
    for column in columns:
        if column.metric and column.benchmark in benchmarks:
            known = benchmarks[column.benchmark].first.benchmark.metrics
            if column.metric not in known:
                raise RecipeError(
                    f"{where}, column {column.title!r}: {column.benchmark} has no metric {column.metric!r}"
                    f"{nearest(column.metric, known)}; it has {', '.join(known)}"
                )


def read_benchmarks(tables: Tables, table: str, kind: type[_GridT_co]) -> dict[str, Benchmark[_GridT_co]]:
    """Read all ``[TABLE.NAME]`` of a file by name. Raises RecipeError if one could not run."""
    with Problems() as problems:
        found = {name: problems.of(partial(_read, tables, table, name, kind)) for name in tables.names(table)}
    first: dict[str, tuple[str, Definition]] = {}
    for name, benchmark in found.items():
        task = benchmark.first.task
        if isinstance(task, Definition) and first.setdefault(task.name, (name, task))[1] != task:
            raise RecipeError(
                f"{tables.path}, [{table}.{name}], field 'task': [{table}.{first[task.name][0]}] has another benchmark of the "
                f"name {task.name!r}; give one of them another name in its file"
            )
    return found


def published_scores(benchmarks: Mapping[str, Benchmark[Any]]) -> tuple[OwnScore, ...]:
    """Return the published scores in the TOML files of benchmarks, without repetitions."""
    defined = [benchmark.first.task for benchmark in benchmarks.values() if isinstance(benchmark.first.task, Definition)]
    rows = [
        OwnScore(**dict(score) | {"task": task.name, "metric": score.metric or task.metrics[0]})
        for task in defined
        for score in task.published
    ]
    return tuple(row for number, row in enumerate(rows) if row not in rows[:number])


def too_long(max_length: int, positions: Mapping[str, int | None]) -> Iterator[str]:
    """Yield an error for each model whose positions are too few for inputs of a length; None: their number is unknown."""
    for model, longest in positions.items():
        if longest is not None and max_length > longest:
            yield f"{max_length} exceeds the {longest} positions of {model}; lower it"


def refuse_unclear(tables: Tables, where: str, name: str) -> None:
    """Raise RecipeError for the name of an encoder or benchmark that would leave open what the label of a cell means."""
    if name in INITS:
        raise RecipeError(f"{tables.path}, [{where}]: {name!r} names initial weights; choose another name")
    if "/" in name:
        raise RecipeError(
            f"{tables.path}, [{where}]: labels put a slash between encoder and benchmark, so no name contains one; write "
            f"{name.replace('/', '_')}"
        )


def _read(tables: Tables, table: str, name: str, kind: type[_GridT_co]) -> Benchmark[_GridT_co]:
    where = f"{table}.{name}"
    refuse_unclear(tables, where, name)
    given = tables.table(where)
    tables.refuse_reserved(where, given, ("seed", "init"))
    grid = tables.validate(kind, where, {axis: given[axis] for axis in kind.model_fields if axis in given})
    settings = {field: value for field, value in given.items() if field not in kind.model_fields}
    settings.setdefault("task", name)
    for steps, other in (("steps", "epochs"), ("warmup_steps", "warmup_ratio")):
        if {steps, other} <= settings.keys():
            raise RecipeError(f"{tables.path}, [{where}]: {steps!r} and {other!r} set the same; remove one of them")
    cells = {
        f"{init}/{seed}": tables.validate(FinetuneSpec, where, {**settings, "init": init, "seed": seed})
        for init in grid.inits
        for seed in grid.seeds
    }
    found = Benchmark(cells, grid)
    if not found.first.tested:
        raise RecipeError(f"{tables.path}, [{where}]: field 'test' is missing; name a test file, or set test_share")
    if grid.search is not None:
        if found.first.test is None:
            raise RecipeError(
                f"{tables.path}, [{where}]: a search needs a test file, which its trials never read; name it as test"
            )
        _check_search(tables, where, grid.search, settings, found.first)
    return found


def _check_search(tables: Tables, where: str, search: SearchSpec, settings: Mapping[str, Any], cell: FinetuneSpec) -> None:
    for name in search.axes:
        if name in settings:
            raise RecipeError(f"{tables.path}, [{where}]: {name!r} is given and searched; remove one of the two")
    with located(f"{tables.path}, [{where}], field 'search'"):
        search.check(cell)


class Measured(NamedTuple):
    """An encoder as input of fine-tuning cells, by the labels of its stages."""

    model: str
    """The stage with its directory in Hugging Face format."""
    pretrain: str | None = None
    """Its training, if the directory does not say all that fine-tuning needs."""
    architecture: str = ""
    """Its ``model_type`` in transformers, if known: some architectures have a head of their own."""

    @classmethod
    def of(cls, model: str, pretrain: str, config: AnyConfig | None, place: ModelPlace | None = None) -> Self:
        """Describe a model by its shape, or if that is unknown, by the configuration at its place."""
        if config is not None:
            return cls(model, pretrain if checkpoint.needs_trained_config(config) else None, checkpoint.architecture(config))
        with suppress(ValueError):  # The stage that reads it from there reports the fault.
            if place is not None and (directory := place.directory()) is not None:
                return cls(model, None, str(read_settings(directory).get("model_type", "")))
        return cls(model)

    @property
    def inputs(self) -> dict[str, str]:
        """The labels of the inputs by role."""
        return {"model": self.model} if self.pretrain is None else {"model": self.model, "pretrain": self.pretrain}


def add_benchmark(
    nodes: Nodes, name: str, benchmark: Benchmark[FinetuneGrid], encoder: Measured, *, root: str = ""
) -> dict[str, str]:
    """Add all stages of a benchmark but its summary; return the labels of its cells by ``INIT/SEED``.

    ``root`` is put before the benchmark in all labels, to tell several encoders apart.
    """
    benchmark = benchmark.of_architecture(encoder.architecture)
    files = _add_files(nodes, name, benchmark.first)
    read = nodes.add(f"features/{root}{name}", features.STAGE, benchmark.first.features(), model=encoder.model, **files)
    inputs = {**encoder.inputs, **files, "features": read}
    chosen = {}
    if benchmark.grid.search is not None:
        one_of_each = {spec.init: spec for spec in benchmark.cells.values()}
        for init, spec in one_of_each.items():
            chosen[init] = _add_search(nodes, f"search/{root}{name}/{init}", spec, benchmark.grid.search, inputs)
    finished = {}
    for cell, spec in benchmark.cells.items():
        settings = {"settings": chosen[spec.init]} if chosen else {}
        finished[cell] = nodes.add(f"finetune/{root}{name}/{cell}", stage.STAGE, spec, **inputs, **settings)
    return finished


def add_benchmark_of_encoders(
    nodes: Nodes, name: str, benchmark: Benchmark[FinetuneGrid], encoders: Mapping[str, Measured]
) -> dict[str, str]:
    """Add the cells of several encoders, given by name; return the labels of the cells by ``ENCODER/INIT/SEED``."""
    finished: dict[str, str] = {}
    for encoder, measured in encoders.items():
        found = add_benchmark(nodes, name, benchmark, measured, root=f"{encoder}/")
        finished |= {f"{encoder}/{cell}": label for cell, label in found.items()}
    return finished


def add_summary(nodes: Nodes, name: str, benchmark: Benchmark[FinetuneGrid], finished: Mapping[str, str]) -> None:
    """Add the summary of a benchmark's cells, given by ``SYSTEM/SEED``, unless ``resamples`` is 0."""
    if finished and benchmark.grid.resamples:
        spec = summary.SummarySpec(**dict(benchmark.first.features()), resamples=benchmark.grid.resamples)
        nodes.add(f"summary/{name}", summary.STAGE, spec, **_add_files(nodes, name, benchmark.first), **finished)


_TEST_FIELDS = ("task", "test", "test_member", "test_share", "max_test_examples")
"""Fields that determine the test examples."""
_DRAWING_FIELDS = ("train", "train_member", "split_seed")
"""Fields that determine them too, if they are drawn from a larger number."""


def check_ensemble(name: str, parts: Mapping[str, Benchmark[FinetuneGrid]], *, trainings: int, members: int | None) -> None:
    """Raise ValueError if cells, given by label and each trained ``trainings`` times, cannot form an ensemble."""
    (label, benchmark), *others = parts.items()
    cell = benchmark.first
    if cell.benchmark.evidence_type is None:
        raise ValueError(f"{cell.task_name} has no ensembles; leave it out of the columns, or the ensemble out of the cells")
    chosen = [each.only(inits=["pretrained"]) for each in parts.values()]
    runs, wanted = trainings * sum(len(each.cells) for each in chosen if each is not None), members or 2
    if runs < wanted:
        raise ValueError(f"{runs} runs of {name} cannot make an ensemble of {wanted}; add seeds, or name fewer members")
    drawn = cell.max_test_examples is not None or cell.test_share is not None
    for other, found in others:
        for field in (*_TEST_FIELDS, *(_DRAWING_FIELDS if drawn else ())):
            if getattr(found.first, field) != getattr(cell, field):
                raise ValueError(
                    f"{label!r} and {other!r} are tested on other examples of {name}: {field!r} differs; make it equal"
                )


def add_ensemble(
    nodes: Nodes, label: str, name: str, benchmark: Benchmark[FinetuneGrid], cells: Mapping[str, str], members: int | None
) -> str:
    """Add the ensemble of a benchmark's cells: of the ``members`` that are best on dev, or of all. Return its label."""
    cell = benchmark.first
    spec = ensemble.EnsembleSpec(**dict(cell.features()) | {"head": cell.head}, members=members)
    return nodes.add(label, ensemble.STAGE, spec, **_add_files(nodes, name, cell), **cells)


def add_file(nodes: Nodes, label: str, file: RemoteFile) -> str:
    """Add the stage that fetches a file of a benchmark, unless there is one; return the label of either."""
    checksum = f"sha256:{file.sha256}"
    spec = fetch.FetchSpec(url=file.url, name=file.name, checksum=checksum, private_hosts=file.private_hosts)
    same = (other for other, node in nodes.by_label.items() if node.stage is fetch.BENCHMARK and node.spec == spec)
    return next(same, "") or nodes.add(label, fetch.BENCHMARK, spec)


def _add_files(nodes: Nodes, name: str, spec: FeaturesSpec) -> dict[str, str]:
    """Add the stages that fetch files named by URL; return their labels by split."""
    places = {split: getattr(spec, split) for split in features.SPLITS}
    return {
        split: add_file(nodes, f"benchmark/{name}/{split}", place)
        for split, place in places.items()
        if isinstance(place, RemoteFile)
    }


def _add_search(nodes: Nodes, root: str, cell: FinetuneSpec, search: SearchSpec, inputs: Mapping[str, str]) -> str:
    """Add the trials of a search and the selection among them; return the label of the selection."""
    dev_inputs = {role: label for role, label in inputs.items() if role != "test"}
    grid = search.grid() if search.method == "grid" else []
    tried: dict[str, str] = {}
    for number in range(search.size):
        place = f"{root}/{number:03d}"
        settings = {}
        if not grid:
            seen = {f"{n}/{seed}": tried[f"{n}/{seed}"] for n in search.seen_before(number) for seed in search.seeds}
            proposal = ProposalSpec(search=search, number=number)
            settings = {"settings": nodes.add(f"{place}/proposal", PROPOSAL, proposal, **seen)}
        for seed in search.seeds:
            spec = trial_cell(cell, seed, grid[number] if grid else None)
            tried[f"{number}/{seed}"] = nodes.add(f"{place}/{seed}", stage.STAGE, spec, **dev_inputs, **settings)
    return nodes.add(f"{root}/selection", SELECTION, SelectionSpec(search=search), **tried)
