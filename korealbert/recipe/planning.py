"""What a run of a recipe would do with each stage, and why, without running anything."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

from korealbert.artifact import Artifact, Identity, Runtime, Spec, Store
from korealbert.formatting import flat
from korealbert.model.config import ModelSpec
from korealbert.model.parameters import training_flops
from korealbert.pretrain.spec import PretrainSpec
from korealbert.recipe import dag
from korealbert.recipe.ablation import grid, load_ablation
from korealbert.recipe.cross_lingual import load_cross_lingual, transfer_graph
from korealbert.recipe.dag import Node
from korealbert.recipe.reading import load, load_corpus, load_evaluation
from korealbert.recipe.tables import Kind, RecipeError, confined, kind_of

_READERS: dict[Kind, tuple[Callable[..., Any], Callable[[Any], dict[str, Node]]]] = {
    "model": (load, dag.graph),
    "corpus": (load_corpus, dag.corpus_graph),
    "cross-lingual": (load_cross_lingual, transfer_graph),
    "evaluation": (load_evaluation, dag.evaluation_graph),
    "ablation": (load_ablation, grid),
}
"""How a recipe of each kind is read, and the graph it forms."""


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
    """Wall time of the newest build of the same stage, None if it was never built or is not to run."""
    operations: int | None = None
    """Floating-point operations of a pretraining that is to run, from its spec alone; None of other stages."""

    @property
    def took(self) -> str:
        """The estimate as people read it, or nothing."""
        return f"{self.estimate_seconds:,.0f} s" if self.estimate_seconds is not None else ""

    @property
    def price(self) -> str:
        """The operations, and what they are in hours of a GPU, as people read it; nothing below some minutes."""
        hours = (self.operations or 0) / (_H100 * _UTILISED) / 3600
        if hours < _LEAST_HOURS:
            return ""
        shown = f"{hours:,.0f}" if hours >= 10 else f"{hours:.2g}"
        return f"{self.operations:.2g} operations, about {shown} hours of an H100 that is utilised at {_UTILISED:.0%}"


_LEAST_HOURS = 0.1
_H100, _UTILISED = 989e12, 0.4
"""Nominal operations per second of an H100 (SXM) in bf16, without sparsity, and the share of them that a training reaches."""


@dataclass(frozen=True)
class _Prepared:
    """The part of a recipe of any kind that a run is to build."""

    name: str
    description: str
    nodes: Mapping[str, Node]
    """By label, every stage after those it reads."""
    rerun: frozenset[str]
    """Labels of the stages to build although they are cached."""
    planned: list[Planned]
    """What would happen to each, in the order of ``nodes``."""

    def named(self, names: Iterable[str], *, option: str) -> set[str]:
        """The labels that names mean among ``nodes``. Raises RecipeError where one means nothing."""
        return {label for name in names for label in dag.select(self.nodes, name, option=option)}

    def check(self, runtime: Runtime, *, elsewhere: Collection[str] = ()) -> None:
        """Raise RecipeError naming the stage where one that would be built here, not ``elsewhere``, could not be."""
        for stage in self.planned:
            node = self.nodes[stage.label]
            if node.stage.check is None or stage.status == "cached" or stage.label in elsewhere:
                continue
            try:
                node.stage.check(node.spec, runtime)
            except ValueError as error:
                raise RecipeError(f"{self.name}, {stage.label}: {error}") from None


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
) -> _Prepared:
    """Read a recipe of any kind, take the part that ``until`` needs, and plan it.

    ``rerun`` names stages to build although they are cached, ``from_stage`` one that is so built with all downstream stages;
    ``overrides`` are fields by dotted name. All files that the recipe names must lie in ``data_root``, if it is given. Raises
    RecipeError for a recipe that could not run and for names that mean nothing in it.
    """
    read, graph = _READERS[kind_of(path)]
    with confined(data_root):
        source = read(path, data=data, overrides=overrides)
        whole = graph(source)
    nodes = dag.until(whole, until)
    labels = dag.onward(nodes, from_stage) if from_stage is not None else set()
    for name in rerun or ():
        inside = nodes.keys() & dag.select(whole, name, option="rerun")
        if not inside:
            raise RecipeError(
                f"rerun: the recipe has {name!r}, but outside the part up to {until!r}; "
                f"drop until, or let it name {name!r} or a stage after it"
            )
        labels |= inside
    return _Prepared(source.name, source.description, nodes, frozenset(labels), plan(nodes, store, rerun=labels))


def plan(nodes: Mapping[str, Node], store: Store, *, rerun: Collection[str] = ()) -> list[Planned]:
    """What would run, and why, without running anything. ``rerun`` holds labels to build although they are cached."""
    history = store.artifacts()
    names: dict[str, str] = {}
    artifacts: dict[str, Artifact | None] = {}
    planned = []
    for label, node in nodes.items():
        identity = node.stage.identity(node.spec, {role: names[other] for role, other in node.inputs.items()}, store)
        artifact = store.find(identity.name)
        fault = store.fault(identity.name, {role: artifacts[other] for role, other in node.inputs.items()})
        names[label], artifacts[label] = identity.name, artifact
        earlier = artifact or _newest(history, label, node.stage.name)
        seconds = earlier.manifest["wall_seconds"] if earlier else None
        reasons = tuple(filter(None, (fault, "named by rerun" if artifact and label in rerun else None)))
        if artifact is None and fault is None and earlier is not None:
            reasons = difference(earlier, identity, node.spec)
        status: Literal["cached", "stale", "new"] = "stale" if reasons else "cached" if artifact else "new"
        waiting = status != "cached"
        operations = _operations(node, nodes) if waiting else None
        planned.append(Planned(label, identity.name, status, reasons, seconds if waiting else None, operations))
    return planned


def _operations(node: Node, nodes: Mapping[str, Node]) -> int | None:
    """Operations of a pretraining from fresh weights. Of packed rows at most: the sequences in one see less than all of it."""
    spec = node.spec
    if not isinstance(spec, PretrainSpec) or ("initial" in node.inputs and spec.model == ModelSpec()):
        return None

    def inputs(role: str) -> Any:
        return nodes[node.inputs[role]].spec

    vocab_size, total = inputs("vocab").size, 0
    suffixes = ("", "_long") if spec.long else ("",)
    config = spec.config_for(vocab_size=vocab_size, sequence_length=inputs("examples" + suffixes[-1]).sequence_length)
    starts = sorted({0, *(phase.until_step for phase in spec.batch_warmup), *([spec.long.from_step] if spec.long else [])})
    for start, end in pairwise([*starts, spec.steps]):
        suffix = suffixes[spec.is_long(start)]
        length, noise = inputs("examples" + suffix).sequence_length, inputs("views" + suffix)
        slots = {"mlm_slots": noise.masking.slots(length), "wop_slots": noise.word_order.slots(length)}
        total += (end - start) * spec.batch_at(start) * training_flops(config, length=length, **slots)
    return total


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
    old_shown, new_shown = flat(earlier.manifest["spec"], exact=True), flat(spec.model_dump(mode="json"), exact=True)
    old_flat, new_flat = flat(old["spec"], exact=True), flat(new["spec"], exact=True)
    for name in sorted({*old_flat, *new_flat}):
        if old_flat.get(name) != new_flat.get(name):
            shown = name.removesuffix(".float").removesuffix(".sha256").removesuffix(".name")
            before, after = old_shown.get(shown, "unset"), new_shown.get(shown, "unset")
            reasons.append(f"{shown}: {before} → {after}" if before != after else f"{shown}: content of {after} changed")
    return tuple(dict.fromkeys(reasons)) or ("its artifact is gone from the store",)
