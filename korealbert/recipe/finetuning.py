"""The stages of one benchmark: its files, its features, a search on dev, a cell for each init and seed, and their summary."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from korealbert.artifact import Spec, Stage
from korealbert.corpus.crawl import fetch
from korealbert.finetune import features, stage, summary, trials
from korealbert.finetune.search import SearchSpec, trial_cell
from korealbert.finetune.spec import FeaturesSpec, FinetuneSpec, RemoteFile
from korealbert.finetune.splits import SPLITS
from korealbert.recipe.benchmarks import Benchmark, FinetuneGrid


class Add(Protocol):
    """How a stage joins the graph."""

    def __call__(self, label: str, stage: Stage[Any], spec: Spec, **inputs: str) -> str:
        """Add a stage under a label, with the labels of its inputs by role; returns the label."""


def add_benchmark(add: Add, name: str, benchmark: Benchmark[FinetuneGrid], *, model: str, root: str = "") -> dict[str, str]:
    """Add all stages of a benchmark but its summary; the labels of its cells by ``INIT/SEED``.

    ``model`` is the label of the encoder, ``root`` begins the names of all stages after their kind, where there are several
    encoders.
    """
    inputs = {"model": model, **_files(add, name, benchmark.first)}
    inputs["features"] = add(f"features/{root}{name}", features.STAGE, benchmark.first.features(), **inputs)
    chosen = {}
    if benchmark.grid.search is not None:
        one_of_each = {spec.init: spec for spec in benchmark.cells.values()}
        for init, spec in one_of_each.items():
            chosen[init] = _add_search(add, f"search/{root}{name}/{init}", spec, benchmark.grid.search, inputs)
    finished = {}
    for cell, spec in benchmark.cells.items():
        settings = {"settings": chosen[spec.init]} if chosen else {}
        finished[cell] = add(f"finetune/{root}{name}/{cell}", stage.STAGE, spec, **inputs, **settings)
    return finished


def add_encoders(add: Add, name: str, benchmark: Benchmark[FinetuneGrid], encoders: Mapping[str, str]) -> dict[str, str]:
    """Add the cells of several encoders, given by name with their labels; the labels of the cells by ``ENCODER/INIT/SEED``."""
    pretrained = benchmark.only(init="pretrained")
    finished: dict[str, str] = {}
    if pretrained is not None:
        for encoder, model in encoders.items():
            found = add_benchmark(add, name, pretrained, model=model, root=f"{encoder}/")
            finished |= {f"{encoder}/{cell}": label for cell, label in found.items()}
    return finished


def add_summary(add: Add, name: str, benchmark: Benchmark[FinetuneGrid], finished: Mapping[str, str]) -> None:
    """Add the summary of a benchmark's cells, given by ``SYSTEM/SEED``, unless the recipe wants none."""
    if finished and benchmark.grid.resamples:
        spec = summary.SummarySpec(**dict(benchmark.first.features()), resamples=benchmark.grid.resamples)
        add(f"summary/{name}", summary.STAGE, spec, **_files(add, name, benchmark.first), **finished)


def _files(add: Add, name: str, spec: FeaturesSpec) -> dict[str, str]:
    """The stages that fetch files named by URL, by split."""
    places = {split: getattr(spec, split) for split in SPLITS}
    return {
        split: add(
            f"benchmark/{name}/{split}",
            fetch.STAGE,
            fetch.FetchSpec(
                url=place.url, name=place.name, checksum=f"sha256:{place.sha256}", private_hosts=place.private_hosts
            ),
        )
        for split, place in places.items()
        if isinstance(place, RemoteFile)
    }


def _add_search(add: Add, root: str, cell: FinetuneSpec, search: SearchSpec, inputs: Mapping[str, str]) -> str:
    """The trials of a search and the choice among them; the label of the choice."""
    dev_inputs = {role: label for role, label in inputs.items() if role != "test"}
    grid = search.grid() if search.method == "grid" else []
    tried: dict[str, str] = {}
    for number in range(search.size):
        place = f"{root}/{number:03d}"
        settings = {}
        if not grid:
            seen = {f"{n}/{seed}": tried[f"{n}/{seed}"] for n in search.seen_before(number) for seed in search.seeds}
            proposal = trials.ProposalSpec(search=search, number=number)
            settings = {"settings": add(f"{place}/proposal", trials.PROPOSAL, proposal, **seen)}
        for seed in search.seeds:
            spec = trial_cell(cell, seed, grid[number] if grid else None)
            tried[f"{number}/{seed}"] = add(f"{place}/{seed}", stage.STAGE, spec, **dev_inputs, **settings)
    return add(f"{root}/selection", trials.SELECTION, trials.SelectionSpec(search=search), **tried)
