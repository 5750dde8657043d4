"""The plan of a run: whether each stage is cached, stale or new, why, and what it costs. Nothing is run."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

from korealbert.artifact import Artifact, Runtime, Spec, Store
from korealbert.corpus.dedup.evaluation_files import contents_removed
from korealbert.corpus.dedup.stage import DedupSpec
from korealbert.finetune.spec import FinetuneSpec, content_of_test
from korealbert.formatting import duration, flat, size
from korealbert.pretrain.spec import PretrainSpec
from korealbert.recipe import dag, registry
from korealbert.recipe.ablation import load_ablation
from korealbert.recipe.grid import ablation_graph
from korealbert.recipe.machines import HALF, Machine, figures, machine_named, this_machine
from korealbert.recipe.nodes import Node, downstream, select
from korealbert.recipe.nodes import until as part_until
from korealbert.recipe.pricing import Cost, Prices
from korealbert.recipe.reading import load, load_corpus, load_cross_lingual, load_evaluation
from korealbert.recipe.tables import Kind, RecipeError, confined, kind_of, located
from korealbert.recipe.work import Volume, Work

_READERS: dict[Kind, tuple[Callable[..., Any], Callable[[Any], dict[str, Node]]]] = {
    "model": (load, dag.graph),
    "corpus": (load_corpus, dag.corpus_graph),
    "cross-lingual": (load_cross_lingual, dag.transfer_graph),
    "evaluation": (load_evaluation, dag.evaluation_graph),
    "ablation": (load_ablation, ablation_graph),
}
"""The loader of each kind of recipe, and what makes a graph of it."""


@dataclass(frozen=True)
class Planned:
    """Plan of one stage."""

    label: str
    name: str
    """The artifact's name in the store."""
    status: Literal["cached", "stale", "new"]
    reasons: tuple[str, ...]
    """Why it is stale: ``max_chars: 100 → 200``, ``inputs: documents``, damage."""
    cost: Cost | None = None
    """Estimated cost of building it; None if it is cached."""
    width: int = 0
    """Width of the model that it trains."""
    advice: str = ""
    """Of a pretraining: a precision in which the machine would train faster, and warnings if its GPUs cannot share the batches
    or have too little memory. Of a deduplication, also a cached one: benchmarks whose test texts it leaves in the corpus."""

    @property
    def takes(self) -> str:
        """The expected time, or ""; marked with ~ unless it is based on stages that were built here."""
        if self.cost is None:
            return ""
        shown = "network" if self.cost.seconds is None else duration(self.cost.seconds)
        return shown if self.cost.basis == "measured" else f"~ {shown}"

    @property
    def price(self) -> str:
        """Operations of a pretraining and the hours that a GPU takes for them, or "" if they are few."""
        operations = self.cost.operations if self.cost is not None else 0
        if not operations:
            return ""
        hours = machine_named(_GPU).training_seconds(operations, 0, width=self.width, precision="bf16") / 3600
        if hours < _MIN_HOURS:
            return ""
        shown = f"{hours:,.0f}" if hours >= 10 else f"{hours:.2g}"
        utilised = min(1.0, self.width / figures().utilised_from_width) * figures().utilisation
        return f"{operations:.2g} operations, about {shown} hours of an H100 that is utilised at {utilised:.0%}"


_MIN_HOURS = 0.1
_GPU = "h100"


def total(planned: Iterable[Planned]) -> str:
    """Say how much time, disk and memory the stages that are to run take together; "" if there are none."""
    costs = [stage.cost for stage in planned if stage.cost is not None]
    if not costs:
        return ""
    seconds = duration(sum(cost.seconds or 0.0 for cost in costs))
    network = "" if all(cost.seconds is not None for cost in costs) else ", and what the network takes"
    disk, memory = sum(cost.disk_bytes for cost in costs), max(cost.memory_bytes for cost in costs)
    return f"about {seconds}{network}, {size(disk)} on disk, {size(memory)} of memory"


@dataclass(frozen=True)
class _Prepared:
    """The part of a recipe of any kind that a run is to build."""

    name: str
    description: str
    nodes: Mapping[str, Node]
    """By label, every stage after its inputs."""
    rerun: frozenset[str]
    """Labels of the stages to build even if they are cached."""
    planned: list[Planned]
    """Plan of each stage, in the order of ``nodes``."""

    def named(self, names: Iterable[str], *, option: str) -> set[str]:
        """Return the labels that names select among ``nodes``. Raises RecipeError if one selects nothing."""
        return {label for name in names for label in select(self.nodes, name, option=option)}

    def check(self, runtime: Runtime, *, elsewhere: Collection[str] = ()) -> None:
        """Raise RecipeError if a stage to be built cannot be built here; stages built ``elsewhere`` are not checked."""
        for stage in self.planned:
            node = self.nodes[stage.label]
            if stage.status == "cached" or stage.label in elsewhere:
                continue
            if missing := [name for name in node.stage.needs if find_spec(name) is None]:
                remedy = "install korealbert with its dependencies, or name an earlier stage by --until"
                raise RecipeError(f"{self.name}, {stage.label}: it needs {', '.join(missing)}, not installed here; {remedy}")
            if node.stage.check is not None:
                with located(f"{self.name}, {stage.label}"):
                    node.stage.check(node.spec, runtime)


def labels(path: Path, *, data: Path | None = None) -> list[str]:
    """Return the labels of all stages of a recipe of any kind. Raises RecipeError if it could not run."""
    read, graph = _READERS[kind_of(path)]
    return list(graph(read(path, data=data, overrides=None)))


def prepare(
    path: Path,
    store: Store,
    *,
    until: str | None = None,
    rerun: Iterable[str] | None = None,
    from_stage: str | None = None,
    data: Path | None = None,
    overrides: Mapping[str, Any] | None = None,
    data_root: Path | None = None,
    machine: str | None = None,
    workers: int | None = None,
    threads: int | None = None,
) -> _Prepared:
    """Read a recipe of any kind, take the part that ``until`` depends on, and plan it.

    ``rerun`` names stages to build even if they are cached, ``from_stage`` one to rebuild with all its downstream stages.
    ``overrides`` are fields by dotted name. If ``data_root`` is given, all files of the recipe must lie in it. ``machine``
    names the profile that costs are estimated for, by default this machine, ``workers`` and ``threads`` how much of it a run
    uses, by default all cores. Raises RecipeError if the recipe could not run or a name selects nothing.
    """
    read, graph = _READERS[kind_of(path)]
    with confined(data_root):
        source = read(path, data=data, overrides=overrides)
        all_nodes = graph(source)
    nodes = part_until(all_nodes, until)

    def selected(name: str, option: str) -> set[str]:
        labels = nodes.keys() & select(all_nodes, name, option=option)
        if not labels:
            raise RecipeError(
                f"{option}: the recipe has {name!r}, but outside the part up to {until!r}; "
                f"drop until, or let it name {name!r} or a stage after it"
            )
        return labels

    to_rebuild = downstream(nodes, selected(from_stage, "from")) if from_stage is not None else set()
    for name in rerun or ():
        to_rebuild |= selected(name, "rerun")
    planned = plan(nodes, store, rerun=to_rebuild, machine=machine, workers=workers, threads=threads)
    return _Prepared(source.name, source.description, nodes, frozenset(to_rebuild), planned)


def plan(
    nodes: Mapping[str, Node],
    store: Store,
    *,
    rerun: Collection[str] = (),
    machine: str | None = None,
    workers: int | None = None,
    threads: int | None = None,
) -> list[Planned]:
    """Plan all stages of a graph, with reasons and costs, without running anything.

    ``rerun`` holds labels to build even if they are cached, ``machine`` is the profile of another machine, ``workers`` and
    ``threads`` are those of the run.
    """
    profile = None if machine is None else machine_named(machine)
    history = store.artifacts()
    names: dict[str, str] = {}
    artifacts: dict[str, Artifact | None] = {}
    planned = []
    identified: dict[str, Mapping[str, Any]] = {}
    for label, node in nodes.items():
        identity = node.stage.identity(node.spec, {role: names[other] for role, other in node.inputs.items()}, store)
        artifact = store.find(identity.name)
        fault = store.fault(identity.name, {role: artifacts[other] for role, other in node.inputs.items()})
        names[label], artifacts[label], identified[label] = identity.name, artifact, identity.document["spec"]
        reasons = tuple(filter(None, (fault, "to be built again" if artifact and label in rerun else None)))
        if artifact is None and fault is None and (earlier := _newest(history, label, node.stage.name)) is not None:
            reasons = _difference(earlier.manifest, identity.document, node.spec)
        status: Literal["cached", "stale", "new"] = "stale" if reasons else "cached" if artifact else "new"
        planned.append(Planned(label, identity.name, status, reasons))
    left_in = _left_in(nodes, identified)
    planned = [replace(stage, advice=left_in) if isinstance(nodes[stage.label].spec, DedupSpec) else stage for stage in planned]
    if all(stage.status == "cached" for stage in planned):
        return planned
    prices = Prices(history, registry.by_name(), profile or this_machine(), workers=workers, threads=threads)
    return list(_priced(planned, nodes, artifacts, prices))


def _priced(
    planned: Iterable[Planned], nodes: Mapping[str, Node], artifacts: Mapping[str, Artifact | None], prices: Prices
) -> Iterator[Planned]:
    """Yield the stages, with their costs if they are to run."""
    volumes: dict[str, Volume] = {}
    for stage in planned:
        node = nodes[stage.label]
        given = {role: volumes[other] for role, other in node.inputs.items()}
        volumes[stage.label], work = prices.volume(node.stage, node.spec, given, artifacts[stage.label])
        if stage.status == "cached":
            yield stage
        else:
            training = node.spec if isinstance(node.spec, PretrainSpec) else None
            cost = prices.cost(stage.label, node.stage.name, work, training=training is not None)
            advice = "; ".join([*_unshared(training, prices.machine), *_advice(work, prices.machine)]) if training else ""
            yield replace(stage, cost=cost, width=work.width, advice=advice or stage.advice)


def _left_in(nodes: Mapping[str, Node], identified: Mapping[str, Mapping[str, Any]]) -> str:
    """Say which benchmarks of a run have a test file that is removed from none of its corpora; "" if none has.

    ``identified`` holds the specs as they enter the identities, by label. Benchmarks are named as in the recipe, by the part of
    the label before the weights and the seed.
    """
    corpora = [identified[label] for label, node in nodes.items() if isinstance(node.spec, DedupSpec)]
    removed = set().union(*map(contents_removed, corpora))
    tested = [label for label, node in nodes.items() if isinstance(node.spec, FinetuneSpec) and node.spec.tested]
    left = dict.fromkeys(label.split("/")[-3] for label in tested if content_of_test(identified[label]) not in removed)
    remedy = "may be in the corpus: name their files in [[dedup.decontaminate]]"
    return f"test texts of {', '.join(left)} {remedy}" if left else ""


def _unshared(spec: PretrainSpec, machine: Machine) -> Iterator[str]:
    """Yield why a rank for each GPU of a machine could not share the global batches, if that is so."""
    if not machine.chip.memory_gb:  # cores of a processor share the work of one rank
        return
    for batch, micro_batch in spec.batches:
        try:
            spec.micro_batches(machine.chips, batch, micro_batch)
        except ValueError as error:
            yield str(error)
            return


def _advice(work: Work, machine: Machine) -> Iterator[str]:
    faster, chip = machine.faster_precision, machine.chip
    if faster is not None:
        alike = HALF if chip.memory_gb and faster in HALF else {faster}  # Processors have no fast products in fp16.
        slow = {"precision": work.precision} | ({"optimizer.arithmetic": work.muon_arithmetic} if work.muon_operations else {})
        if fields := [field for field, precision in slow.items() if precision not in alike]:
            settings = " and ".join(f'{field} = "{faster}"' for field in fields)
            who = "it trains" if fields[0] == "precision" else "Muon computes"
            fast = f"multiplies about {machine.speedup:.2g} times as fast in {faster}"
            yield f"{who} in {slow[fields[0]]}; this machine {fast}: set {settings}"
    if 0 < chip.memory_gb * 1e9 < work.memory:
        yield f"it needs about {work.memory / 1e9:,.0f} GB of the {chip.memory_gb:g} GB that a chip has: lower micro_batch_size"


def _newest(history: list[Artifact], label: str, stage: str) -> Artifact | None:
    """Return the newest artifact of this label, or of this stage if recipes have only one of it."""
    same = [a for a in history if a.manifest["label"] == label]
    same = same or [a for a in history if a.manifest["recipe"]["stage"] == stage and "/" not in label]
    return same[-1] if same else None


_MAX_NAMED_INPUTS = 5
"""Changed inputs that a reason names; a report may have a hundred."""


def _difference(earlier: Mapping[str, Any], new: Mapping[str, Any], spec: Spec) -> tuple[str, ...]:
    """Say how a recipe and spec differ from the manifest of an earlier artifact: fields, old → new, and roles of inputs."""
    old = earlier["recipe"]
    reasons = []
    if old["version"] != new["version"]:
        reasons.append(f"stage version: {old['version']} → {new['version']}")
    fields = changed_fields(earlier["spec"], old["spec"], spec.model_dump(mode="json"), new["spec"])
    reasons += [
        f"{name}: {before} → {after}" if before != after else f"{name}: content of {after} changed"
        for name, before, after in fields
    ]
    roles = sorted(role for role in {*old["inputs"], *new["inputs"]} if old["inputs"].get(role) != new["inputs"].get(role))
    if roles:
        more = [f"{len(roles) - _MAX_NAMED_INPUTS} more"] if len(roles) > _MAX_NAMED_INPUTS else []
        reasons.append(f"inputs: {', '.join([*roles[:_MAX_NAMED_INPUTS], *more])}")
    return tuple(dict.fromkeys(reasons)) or ("its artifact is gone from the store",)


_CONTENT = re.compile(r"\.(float|sha256|name)$")
"""Suffixes that identities add to the name of a field: the binary form of a number, the content and the name of a file."""


def changed_fields(
    shown: Mapping[str, Any], identified: Any, other_shown: Mapping[str, Any], other_identified: Any
) -> list[tuple[str, Any, Any]]:
    """Return the fields in which two specs differ, by dotted name, with both values.

    Each spec is given in readable form and as it enters the identity, which includes the content of files. If both values are
    equal, the content of a file differs. Values are written as in a recipe; one that a recipe would leave out is "unset".
    """
    old_shown, new_shown = flat(shown, exact=True), flat(other_shown, exact=True)
    old_flat, new_flat = flat(identified, exact=True), flat(other_identified, exact=True)
    found = {}
    for name in sorted({*old_flat, *new_flat}):
        if old_flat.get(name) != new_flat.get(name):
            field = name if name in old_shown or name in new_shown else _CONTENT.sub("", name)
            before, after = old_shown.get(field), new_shown.get(field)
            if before is after is None and any(each.startswith(f"{field}.") for each in (*old_shown, *new_shown)):
                continue  # A whole table was or becomes unset; its fields are listed.
            found[field] = field, _as_in_a_recipe(before), _as_in_a_recipe(after)
    return list(found.values())


def _as_in_a_recipe(value: Any) -> Any:
    """Return a value as TOML has it where Python writes it otherwise: absence, flags, and texts without characters."""
    if isinstance(value, bool):
        return str(value).lower()
    return "unset" if value is None else value if value != "" else '""'
