"""The artifacts of one run by their labels."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from korealbert.artifact import Artifact, Stage, Statistics, ancestors
from korealbert.report.render.blocks import Block, Section, Text

T = TypeVar("T", bound=Statistics)

_MAX_NAMED = 4
"""A sentence lists the artifacts of a stage by name up to this number, and only counts more of them."""


class Artifacts:
    """Artifacts of one run by label (``clean/news``, ``finetune/nsmc/random/2``), in the order of the DAG."""

    def __init__(self, inputs: Mapping[str, Artifact], stages: Sequence[Stage[Any]]) -> None:
        self._stages = {stage.label: stage for stage in stages}
        order = list(self._stages)
        self.by_label = {label: inputs[label] for label in sorted(inputs, key=lambda label: _label_order(label, order))}

    @property
    def counting(self) -> list[str]:
        """Labels of the stages that count documents."""
        return [
            label
            for label, stage in self._stages.items()
            if any(a.manifest["recipe"]["stage"] == stage.name and "documents_in" in a.stats for a in self.of(label).values())
        ]

    @property
    def missing(self) -> list[str]:
        """Required stages that the run lacks before the last one that it has; a run of a corpus alone lacks no training."""
        required = [label for label, stage in self._stages.items() if stage.required]
        last = max((place for place, label in enumerate(required) if self.of(label)), default=-1)
        return [label for label in required[: last + 1] if not self.of(label)]

    def of(self, prefix: str) -> dict[str, Artifact]:
        """Return the artifacts by label whose label begins with a stage or more of a label: ``pretrain/wop30``."""
        return {label: artifact for label, artifact in self.by_label.items() if f"{label}/".startswith(f"{prefix}/")}

    def one(self, stage: str) -> Artifact | None:
        """Return the artifact of a stage that occurs once in a run, or None."""
        return next(iter(self.of(stage).values()), None)

    def stats(self, stage: str, kind: type[T]) -> T | None:
        """Return the statistics of a stage that occurs once in a run, or None."""
        artifact = self.one(stage)
        return artifact.stats_as(kind) if artifact else None

    def origin(self, *stages: str) -> str:
        """Return a sentence that names the artifacts of these stages."""
        parts = []
        for stage in stages:
            found = self.of(stage)
            if len(found) > _MAX_NAMED:
                parts.append(f"the {len(found)} artifacts of {stage}")
            else:
                parts += [
                    artifact.name if label == stage else f"{label} ({artifact.name})" for label, artifact in found.items()
                ]
        return f"Read from {', '.join(parts)}; see Lineage." if parts else ""

    def section(self, anchor: str, title: str, blocks: Sequence[Block], *stages: str) -> Section | None:
        """Return a section that ends with the ``origin`` of its blocks, or None without blocks."""
        return Section(anchor, title, [*blocks, Text(self.origin(*stages), quiet=True)]) if blocks else None


def refuse_swapped(artifacts: Mapping[str, Artifact], model_of: Callable[[str], str]) -> None:
    """Raise ValueError if a cell was built from another model than its label says, or from another task than its benchmark.

    ``model_of`` returns the label of a cell's model, or "" if the artifact is not a cell. A cell passes if none of the models
    is among its ancestors.
    """
    _refuse_mixed_tasks(artifacts)
    above: dict[str, set[str]] = {}
    for name, artifact in ancestors(artifacts).items():  # Inputs come before downstream artifacts.
        above[name] = {name}.union(*(above[parent] for parent in artifact.manifest["inputs"].values()))
    own = {label: model for label in artifacts if (model := model_of(label)) in artifacts}
    models = {artifacts[model].name: model for model in own.values()}
    for label, model in own.items():
        own_name, model_name = artifacts[label].name, artifacts[model].name
        found, expected = (above[own_name] - {own_name}) & models.keys(), above[model_name] & models.keys()
        if found and found != expected:
            others = ", ".join(sorted(models[name] for name in found - expected)) or "an earlier model"
            raise ValueError(
                f"{label} ({artifacts[label].name}): built from {others}, not from {model}; its score belongs to another row. "
                "Give each label the artifact of its own model"
            )


def _refuse_mixed_tasks(artifacts: Mapping[str, Artifact]) -> None:
    """Raise ValueError unless the cells and ensembles of each benchmark have one task."""
    cells: dict[str, dict[str, list[str]]] = {}
    for label, artifact in artifacts.items():
        stage, *rest = label.split("/")
        if stage in ("finetune", "ensemble") and artifact.files("metrics.json"):
            benchmark = rest[-3] if stage == "finetune" else rest[-1]
            task = artifact.read_json("metrics.json").get("task")
            cells.setdefault(benchmark, {}).setdefault(str(task), []).append(label)
    for benchmark, tasks in cells.items():
        if len(tasks) > 1:
            found = "; ".join(f"{task}: {', '.join(labels[:_MAX_NAMED])}" for task, labels in sorted(tasks.items()))
            raise ValueError(f"cells of {benchmark!r} are of several tasks ({found}); give each label its own artifact")


def _label_order(label: str, stages: Sequence[str]) -> tuple[Any, ...]:
    """Sort key: by stage, unknown stages last; within a stage by name, with numbers by their value."""
    stage, *rest = label.split("/")
    position = stages.index(stage) if stage in stages else len(stages)
    words = [re.split(r"(\d+)", part) for part in rest]
    return position, stage, [[(int(w), "") if w.isdecimal() else (-1, w) for w in part] for part in words]
