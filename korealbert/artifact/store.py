"""Artifacts and the directory that holds them: found by name, checked against their manifests, locked while they are built."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from korealbert.artifact import locks
from korealbert.artifact.files import DigestMemory, digest_of_listing
from korealbert.artifact.manifest import misfit
from korealbert.artifact.spec import ARTIFACT_NAME, Identity

OPENING = ".opening.json"
"""Names the recipe and the input bytes that a partial directory was begun with."""


class ArtifactError(Exception):
    """A stage's output breaks the contract: lost documents, a wrong digest, a directory that nobody finished."""


@dataclass(frozen=True)
class Artifact:
    """A finished output directory; its manifest tells everything about how it came to be."""

    name: str
    path: Path

    @cached_property
    def manifest(self) -> dict[str, Any]:
        """The parsed ``manifest.json``. Raises ArtifactError naming the file when it is not one."""
        path = self.path / "manifest.json"
        try:
            loaded = json.loads(path.read_text("utf-8"))
        except ValueError as error:
            raise ArtifactError(f"{path}: not a whole manifest ({error}); remove the directory or run its stage") from None
        if wrong := misfit(loaded):
            raise ArtifactError(f"{path}: not a manifest, {wrong}; remove the directory")
        return dict(loaded)

    @property
    def stats(self) -> dict[str, Any]:
        """What the stage counted."""
        stats: dict[str, Any] = self.manifest["stats"]
        return stats

    @property
    def output_digest(self) -> str:
        """sha256 over the names and digests of all files: equal for equal bytes, whoever built them."""
        return str(self.manifest["output_digest"])

    def files(self, pattern: str) -> list[Path]:
        """Output files that match a glob pattern, sorted by name."""
        return sorted(self.path.glob(pattern))

    def inputs(self) -> dict[str, Artifact]:
        """The artifacts that this one was built from, by role; they lie beside it in the store."""
        return {role: Artifact(name, self.path.parent / name) for role, name in self.manifest["inputs"].items()}


def ancestors(artifacts: Mapping[str, Artifact]) -> dict[str, Artifact]:
    """All ancestors of the given artifacts and themselves, by name, inputs before what was built from them."""
    found: dict[str, Artifact] = {}

    def visit(artifact: Artifact) -> None:
        if artifact.name not in found:
            for parent in artifact.inputs().values():
                visit(parent)
            found[artifact.name] = artifact

    for artifact in artifacts.values():
        visit(artifact)
    return found


class Store:
    """A directory of artifacts: one sub-directory each, complete if and only if it exists under its own name."""

    def __init__(self, root: Path) -> None:
        self.root = Path(root).resolve()
        self.digests = DigestMemory(self.root / ".digests")

    def find(self, name: str) -> Artifact | None:
        """The finished artifact of this name with a readable manifest, or None; see ``fault``."""
        artifact = Artifact(name, self.root / name)
        return artifact if artifact.path.is_dir() and self.unreadable(artifact) is None else None

    def fault(self, name: str, inputs: Mapping[str, Artifact | None]) -> str | None:
        """What keeps the artifact of this name from being used, or None; None too where there is no artifact.

        A manifest that cannot be read, damaged files, or an input (by role; None while it is not built) whose bytes are not
        those that the artifact was built from.
        """
        artifact = Artifact(name, self.root / name)
        if not artifact.path.exists():
            return None
        return self.unreadable(artifact) or self.damage(artifact) or self.outdated(artifact, inputs)

    def unreadable(self, artifact: Artifact) -> str | None:
        """What keeps a directory under an artifact's name from being one, or None."""
        try:
            _ = artifact.manifest
        except FileNotFoundError:
            return "manifest.json is missing"
        except ArtifactError as error:
            return str(error)
        return None

    def directories(self) -> list[Path]:
        """Every directory under an artifact's name, readable or not."""
        return sorted(path for path in self.root.iterdir() if ARTIFACT_NAME.fullmatch(path.name) and path.is_dir())

    def artifacts(self) -> list[Artifact]:
        """All finished artifacts with a readable manifest, oldest first; none where there is no store."""
        found = [Artifact(path.name, path) for path in self.directories()] if self.root.is_dir() else []
        complete = [artifact for artifact in found if self.unreadable(artifact) is None]
        return sorted(complete, key=lambda artifact: (artifact.manifest["created"], artifact.name))

    def damage(self, artifact: Artifact) -> str | None:
        """What is wrong with the files of an artifact, or None. Unchanged files are not read twice."""
        for relative, expected in artifact.manifest["files"].items():
            path = artifact.path / relative
            if not path.is_file():
                return f"{relative} is missing"
            if path.stat().st_size != expected["size"]:
                return f"{relative} has {path.stat().st_size:,} bytes, its manifest says {expected['size']:,}"
            if self.digests.of(path) != expected["sha256"]:
                return f"{relative} has another sha256 than its manifest says"
        return None

    def outdated(self, artifact: Artifact, inputs: Mapping[str, Artifact | None]) -> str | None:
        """Which input has been rebuilt with other bytes than the artifact was built from, or None."""
        for role, built_from in artifact.manifest["built_from"].items():
            current = inputs.get(role)
            if current is not None and current.output_digest != built_from:
                return f"input {role} ({current.name}) was rebuilt with other bytes"
        return None

    def rot(self, artifact: Artifact) -> list[str]:
        """Everything that is wrong with the bytes of an artifact, each file read anew whatever is remembered of it."""
        expected = artifact.manifest["files"]
        faults = []
        for relative, entry in expected.items():
            path = artifact.path / relative
            if not path.is_file():
                faults.append(f"{relative} is missing")
            elif self.digests.read_again(path) != entry["sha256"]:
                faults.append(f"{relative} has another sha256 than its manifest says")
        present = {str(path.relative_to(artifact.path)) for path in artifact.path.rglob("*") if not path.is_dir()}
        faults += [f"{name} is not in the manifest" for name in sorted(present - {*expected, "manifest.json"})]
        if digest_of_listing({name: entry["sha256"] for name, entry in expected.items()}) != artifact.output_digest:
            faults.append("manifest.json: its output_digest is not that of its files")
        if identity_of(artifact.manifest).name != artifact.name:
            faults.append("manifest.json: its recipe is that of another artifact")
        return faults

    def lock_file(self, name: str) -> Path:
        """The file whose lock a builder of this artifact holds."""
        return self.root / ".locks" / f"{name}.lock"

    def lock(self, name: str, *, waiting: Callable[[str], None] | None = None) -> AbstractContextManager[None]:
        """Keep two builders of one artifact apart; ``waiting`` is told who the other is. Raises ReadOnlyStore."""
        return locks.exclusive(self.lock_file(name), waiting=waiting)


def identity_of(manifest: Mapping[str, Any]) -> Identity:
    """The identity that a manifest's recipe spells out. Raises ArtifactError where it spells none."""
    try:
        recipe = manifest["recipe"]
        return Identity(recipe["stage"], recipe["version"], recipe["spec"], recipe["inputs"])
    except (KeyError, TypeError) as error:
        raise ArtifactError(f"manifest.json: its recipe is not one ({error!r})") from None
