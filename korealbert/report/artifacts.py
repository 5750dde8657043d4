"""The artifacts of one run by their labels, and the section that lists them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from korealbert.artifact import Artifact, Stage, Statistics, ancestors
from korealbert.formatting import MISSING, flat
from korealbert.report.render.blocks import Fold, Section, Table, Text

T = TypeVar("T", bound=Statistics)

_MAX_NAMED = 4
"""Most artifacts of one stage that a sentence names one by one."""


class Artifacts:
    """The artifacts of one run by label (``clean/news``, ``finetune/nsmc/random/2``), in the order of the DAG."""

    def __init__(self, inputs: Mapping[str, Artifact], stages: Sequence[Stage[Any]]) -> None:
        self._stages = {stage.label: stage for stage in stages}
        order = list(self._stages)
        self.by_label = {label: inputs[label] for label in sorted(inputs, key=lambda label: _label_order(label, order))}

    @property
    def counting(self) -> list[str]:
        """The stages that count documents: in, out, dropped, quarantined."""
        return [
            label
            for label, stage in self._stages.items()
            if any(a.manifest["recipe"]["stage"] == stage.name and "documents_in" in a.stats for a in self.of(label).values())
        ]

    @property
    def missing(self) -> list[str]:
        """Required stages that this run does not have, up to the last that it has: a corpus lacks no training."""
        required = [label for label, stage in self._stages.items() if stage.required]
        last = max((place for place, label in enumerate(required) if self.of(label)), default=-1)
        return [label for label in required[: last + 1] if not self.of(label)]

    def of(self, stage: str) -> dict[str, Artifact]:
        """All artifacts of a stage by label."""
        return {label: artifact for label, artifact in self.by_label.items() if label.split("/")[0] == stage}

    def one(self, stage: str) -> Artifact | None:
        """The artifact of a stage that occurs once in a run, or None."""
        return next(iter(self.of(stage).values()), None)

    def stats(self, stage: str, kind: type[T]) -> T | None:
        """Its statistics, or None."""
        artifact = self.one(stage)
        return artifact.stats_as(kind) if artifact else None

    def origin(self, *stages: str) -> str:
        """A sentence that names the artifacts which numbers come from."""
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


def _label_order(label: str, stages: Sequence[str]) -> tuple[Any, ...]:
    """Stage by stage, those that are not among ``stages`` last; within a stage by name, numbers by their value."""
    stage, *rest = label.split("/")
    position = stages.index(stage) if stage in stages else len(stages)
    words = [re.split(r"(\d+)", part) for part in rest]
    return position, stage, [[(int(w), "") if w.isdigit() else (-1, w) for w in part] for part in words]


_SHORT_DIGEST = 12

_MAX_FILES = 12
"""Most files listed per artifact; large corpora have thousands of shards."""


def lineage(artifacts: Artifacts) -> Section:
    """Every input of the report and all its ancestors; then each file with its digest.

    Time and machine are in the manifests only, so that reports of equal artifacts have equal bytes.
    """
    labels = {artifact.name: label for label, artifact in artifacts.by_label.items()}
    found = ancestors(artifacts.by_label)
    ordered = list(artifacts.by_label.values())
    ordered += [artifact for name, artifact in found.items() if name not in labels]
    header = ["Label", "Artifact", "Built from", "Seeds", "Code", "sha256 of its bytes"]
    rows = [_row(artifact, labels) for artifact in ordered]
    files = [row for artifact in ordered for row in _files(artifact, labels.get(artifact.name, artifact.name))]
    text = (
        "An artifact's name is the hash of its recipe: stage, version, every setting, every input. Equal names mean equal "
        "recipes, equal digests mean equal bytes. The manifest in each artifact's directory holds the whole recipe."
    )
    file_table = Table("Files", ["Artifact", "File", "sha256", "Bytes"], files, frozenset({3}))
    return Section(
        "lineage", "Lineage", [Text(text), Table("Artifacts", header, rows), Fold("Files and their digests", [file_table])]
    )


def _files(artifact: Artifact, label: str) -> list[list[str]]:
    entries = sorted(artifact.manifest["files"].items())
    rows = [[label, name, entry["sha256"][:_SHORT_DIGEST], f"{entry['size']:,}"] for name, entry in entries[:_MAX_FILES]]
    if len(entries) > _MAX_FILES:
        size = sum(entry["size"] for _, entry in entries[_MAX_FILES:])
        rows.append([label, f"{len(entries) - _MAX_FILES:,} more, see its manifest", MISSING, f"{size:,}"])
    return rows


def _row(artifact: Artifact, labels: Mapping[str, str]) -> list[str]:
    manifest = artifact.manifest
    recipe = manifest["recipe"]
    parents = [labels.get(name, name) for name in manifest["inputs"].values()]
    seeds = ", ".join(f"{name}\N{NO-BREAK SPACE}{value}" for name, value in _seeds(manifest["spec"])) or MISSING
    code = f"{manifest['host'].get('korealbert', MISSING)}, {recipe['stage']} v{recipe['version']}"
    digest = artifact.output_digest[:_SHORT_DIGEST]
    label = labels.get(artifact.name, manifest.get("label", MISSING))
    return [label, artifact.name, ", ".join(parents) or "raw input", seeds, code, digest]


def _seeds(spec: Mapping[str, Any]) -> list[tuple[str, int]]:
    """Fields of a recipe that seed randomness, by dotted name."""
    return [(name, value) for name, value in flat(spec).items() if f".{name}".endswith((".seed", "_seed"))]
