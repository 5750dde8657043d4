"""Where every number comes from: artifacts, what they were built from, and the digests of their bytes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from korealbert.artifact import Artifact, ancestors
from korealbert.formatting import MISSING, flat
from korealbert.report.artifacts import Artifacts
from korealbert.report.render.blocks import Fold, Section, Table, Text

_SHORT_DIGEST = 12

_MAX_FILES = 12
"""Files listed per artifact; large corpora have thousands of shards."""


def section(artifacts: Artifacts) -> Section:
    """Every artifact under the report and all ancestors; then each file with its digest.

    When and on which machine they were built is left to their manifests: a report of equal artifacts has equal bytes.
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
