"""Artifacts and the store that holds them: finding, verifying and locking artifacts.

``Store.fault`` says why an artifact cannot be used; ``korealbert.recipe.planning`` turns that into cached, stale or new.
"""

from __future__ import annotations

import errno
import itertools
import json
import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Self, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from korealbert.artifact import locks
from korealbert.artifact.files import (
    DIGESTS,
    MANIFEST,
    DigestMemory,
    FileChanged,
    digest_of_listing,
    expanded,
    read_digested,
    refuse_overwriting,
    sha256_of_file,
)
from korealbert.artifact.markers import rows_of
from korealbert.artifact.spec import ARTIFACT_NAME, Identity, Statistics

_ArtifactName = Annotated[str, StringConstraints(pattern=rf"^{ARTIFACT_NAME.pattern}\z")]


def _within(name: str) -> str:
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or not path.parts:
        raise ValueError("not the name of a file within the artifact")
    return name


class _Fact(BaseModel):
    model_config = ConfigDict(strict=True)


class _File(_Fact):
    sha256: str
    size: Annotated[int, Field(ge=0)]
    measured: bool = False


class _Recipe(_Fact):
    stage: str
    version: int
    spec: Any
    inputs: dict[str, _ArtifactName]


class _Manifest(_Fact):
    """The fields of a manifest. Further fields are allowed if the manifest has a digest."""

    name: str
    label: Annotated[str, StringConstraints(pattern=r"^[^\x00-\x1f\x7f]*\z")]
    recipe: _Recipe
    spec: dict[str, Any]
    inputs: dict[str, _ArtifactName]
    built_from: dict[str, str]
    stats: dict[str, Any]
    files: dict[Annotated[str, AfterValidator(_within)], _File]
    output_digest: str
    wall_seconds: Annotated[float, Field(ge=0)]
    created: str
    host: dict[str, Any]


class _Counts(_Fact):
    """The statistics of a stage of documents that must add up."""

    documents_in: int
    documents_out: int
    repeated: int = 0
    dropped: dict[str, int] = Field(default_factory=dict)
    quarantined: int = 0


def _misfit(loaded: object, *, digested: bool) -> str | None:
    """Return why a JSON value (``digested``: with a digest) is no manifest, or None if it is one."""
    try:
        _Manifest.model_validate(loaded)
    except ValidationError as error:
        lacking = sorted(".".join(map(str, each["loc"])) for each in error.errors() if each["type"] == "missing")
        return f"it lacks {', '.join(lacking)}" if lacking else _first_problems(error)
    if not digested and isinstance(loaded, dict) and (more := sorted(loaded.keys() - _Manifest.model_fields.keys())):
        return f"it has {', '.join(map(repr, more))} but no valid digest"
    return None


def _first_problems(error: ValidationError) -> str:
    return "; ".join(f"{'.'.join(map(str, each['loc'])) or 'all of it'}: {each['msg']}" for each in error.errors()[:3])


T = TypeVar("T", bound=Statistics)

STORE_VARIABLE = "KOREALBERT_STORE"
"""Environment variable with the default store. Workers set it for their runs."""
ENVIRONMENT_FILE = Path(".env")
"""File in the project's root with the credentials for every ``prefect`` command there, and the store of running services."""


def default_store() -> Path:
    """Return the default store: ``KOREALBERT_STORE`` in the environment or in ``.env``, else ``store``.

    ``make up`` writes the variable to ``.env``, and ``make down`` removes it.
    """
    named = os.environ.get(STORE_VARIABLE)
    with suppress(OSError, UnicodeDecodeError):  # The file is missing, or it is another user's.
        lines = "" if named else ENVIRONMENT_FILE.read_text("utf-8")
        for value in re.findall(rf"^{STORE_VARIABLE}=(.*)$", lines, re.MULTILINE):  # As in a shell, the last one counts.
            named = re.sub(r"""^(["'])(.*)\1$""", r"\2", value.strip())
    return expanded(named or "store")


class ArtifactError(Exception):
    """An artifact breaks the contract: it lost documents, has a wrong digest, or is unfinished."""


@dataclass(frozen=True)
class Artifact:
    """A finished output directory; its manifest records how it was built."""

    name: str
    path: Path

    @cached_property
    def manifest(self) -> dict[str, Any]:
        """Return the parsed ``manifest.json``. Raises ArtifactError if it is invalid or does not match its own digest."""
        path = self.path / MANIFEST
        try:
            loaded, digested = read_digested(path.read_bytes())
        except ValueError as error:
            raise ArtifactError(f"{path}: not a whole manifest ({error}); remove the directory or run its stage") from None
        if wrong := _misfit(loaded, digested=digested):
            raise ArtifactError(f"{path}: not a manifest, {wrong}; remove the directory")
        return dict(loaded)

    @property
    def stats(self) -> dict[str, Any]:
        """Return the stage's statistics."""
        stats: dict[str, Any] = self.manifest["stats"]
        return stats

    def stats_as(self, kind: type[T]) -> T:
        """Return the statistics as an object of the stage's class. Raises ArtifactError naming artifact and field if they do
        not fit."""
        try:
            return kind.model_validate(self.stats)
        except ValidationError as error:
            problem = f"its statistics are no {kind.__name__} ({_first_problems(error)})"
            raise ArtifactError(f"{self.name}: {problem}; build it again") from None

    @property
    def output_digest(self) -> str:
        """Return the sha256 over names and digests of all files except measured ones: equal bytes, equal digest."""
        return str(self.manifest["output_digest"])

    @property
    def size(self) -> int:
        """Return the bytes of all files except the manifest."""
        return sum(entry["size"] for entry in self.manifest["files"].values())

    def files(self, pattern: str) -> list[Path]:
        """Return the output files that match a glob pattern, sorted by name."""
        return sorted(self.path.glob(pattern))

    def read_json(self, name: str) -> Any:
        """Return the parsed content of a JSON output file."""
        return json.loads((self.path / name).read_text("utf-8"))

    def inputs(self) -> dict[str, Artifact]:
        """Return the artifacts that this one was built from, by role. They are in the same store."""
        return {role: Artifact(name, self.path.parent / name) for role, name in self.manifest["inputs"].items()}


def ancestors(artifacts: Mapping[str, Artifact]) -> dict[str, Artifact]:
    """Return the given artifacts and all their ancestors by name, inputs first."""
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
    """A directory of artifacts. An artifact is complete if and only if its sub-directory has the artifact's own name."""

    def __init__(self, root: Path) -> None:
        self.root = expanded(root).resolve()
        self.digests = DigestMemory(self.root / DIGESTS)

    def make(self) -> Self:
        """Create the directory if it does not exist. Raises ArtifactError if that is impossible, as within an artifact."""
        try:
            refuse_overwriting(self.root)
            self.root.mkdir(parents=True, exist_ok=True)
        except ValueError as error:
            raise ArtifactError(str(error)) from None
        except OSError as error:
            raise ArtifactError(f"{self.root}: no store can be made here ({error.strerror}); name another directory") from None
        with suppress(OSError):  # It is read-only.
            self.digests.directory.mkdir(exist_ok=True)
        return self

    def find(self, name: str) -> Artifact | None:
        """Return the finished artifact of this name if its manifest is readable, else None; see ``fault``."""
        artifact = Artifact(name, self.root / name)
        return artifact if artifact.path.is_dir() and self.unreadable(artifact) is None else None

    def fault(self, name: str, inputs: Mapping[str, Artifact | None]) -> str | None:
        """Return why the artifact of this name cannot be used, or None if it can be used or does not exist.

        Reasons are an unreadable manifest, damaged files, or an input (by role; None while it is not built) whose bytes differ
        from those that the artifact was built from. Raises PermissionError if this user may not read it: it may be whole, and
        another user's.
        """
        artifact = Artifact(name, self.root / name)
        if not artifact.path.exists():
            return None
        fault = self.unreadable(artifact) or self.damage(artifact) or self.outdated(artifact, inputs)
        if fault is not None:
            _refuse_forbidden(artifact.path)
        return fault

    def unreadable(self, artifact: Artifact) -> str | None:
        """Return why a directory with an artifact's name has no readable manifest, or None."""
        try:
            _ = artifact.manifest
        except FileNotFoundError:
            return "manifest.json is missing"
        except (OSError, ArtifactError) as error:
            return str(error)
        return None

    def directories(self) -> list[Path]:
        """Return every directory with an artifact's name, readable or not."""
        return sorted(path for path in self.root.iterdir() if ARTIFACT_NAME.fullmatch(path.name) and path.is_dir())

    def artifacts(self) -> list[Artifact]:
        """Return all finished artifacts with a readable manifest, oldest first; none if there is no store."""
        found = [Artifact(path.name, path) for path in self.directories()] if self.root.is_dir() else []
        complete = [artifact for artifact in found if self.unreadable(artifact) is None]
        return sorted(complete, key=lambda artifact: (artifact.manifest["created"], artifact.name))

    def damage(self, artifact: Artifact) -> str | None:
        """Return what is wrong with an artifact's files, or None. Unchanged files are not read twice."""
        wrong = faults_of_manifest(artifact.name, artifact.manifest)
        faults = _faults_of_files(artifact.path, artifact.manifest, self.digests.of, scratch=True)
        return next(itertools.chain(wrong, faults), None)

    def outdated(self, artifact: Artifact, inputs: Mapping[str, Artifact | None]) -> str | None:
        """Return which input has been rebuilt with other bytes since the artifact was built, or None."""
        for role, built_from in artifact.manifest["built_from"].items():
            current = inputs.get(role)
            if current is not None and current.output_digest != built_from:
                return f"input {role} ({current.name}) was rebuilt with other bytes"
        return None

    def verify(self, artifact: Artifact) -> list[str]:
        """Return everything that is wrong with an artifact. Every file is read again, even if its digest is cached."""
        return faults_within(
            artifact.path, artifact.name, artifact.manifest, partial(self.digests.of, again=True), scratch=False
        )

    def lock_file(self, name: str) -> Path:
        """Return the file that a builder of this artifact locks."""
        return self.root / ".locks" / f"{name}.lock"

    def lock(self, name: str, *, waiting: Callable[[str], None] | None = None) -> AbstractContextManager[None]:
        """Keep two builders of one artifact apart; ``waiting`` is called with the other one. Raises ReadOnlyStore."""
        return locks.exclusive(self.lock_file(name), waiting=waiting)


def _refuse_forbidden(directory: Path) -> None:
    """Raise PermissionError if this user may not read a directory or something in it."""
    for path in (directory, *directory.rglob("*")):
        if path.exists() and not os.access(path, os.R_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))


def faults_within(
    directory: Path, name: str, manifest: Mapping[str, Any], digest: Callable[[Path], str] = sha256_of_file, *, scratch: bool
) -> list[str]:
    """Return all inconsistencies between files, manifest and documents in an artifact's directory.

    ``scratch`` allows hidden files there too.
    """
    faults = [*_faults_of_files(directory, manifest, digest, scratch=scratch), *faults_of_manifest(name, manifest)]
    if not faults:
        try:
            check_conservation(name, manifest["stats"], directory)
        except ArtifactError as error:
            faults.append(str(error))
    return faults


def _faults_of_files(
    directory: Path, manifest: Mapping[str, Any], digest: Callable[[Path], str], *, scratch: bool
) -> Iterator[str]:
    for relative, expected in manifest["files"].items():
        path = directory / relative
        try:
            if not path.is_file():
                yield f"{relative} is missing"
            elif path.stat().st_size != expected["size"]:
                yield f"{relative} has {path.stat().st_size:,} bytes, its manifest says {expected['size']:,}"
            elif digest(path) != expected["sha256"]:
                yield f"{relative} has another sha256 than its manifest says"
        except (OSError, FileChanged) as error:
            yield str(error)
    # Readers of an artifact glob for files, and a directory's name may match the pattern too.
    expected_names = {*manifest["files"], MANIFEST}
    directories = {str(parent) for name in manifest["files"] for parent in Path(name).parents}
    extra = {*output_files(directory, scratch=not scratch, directories=True)} - expected_names - directories
    yield from (f"{relative} is not in the manifest" for relative in sorted(extra))


def faults_of_manifest(name: str, manifest: Mapping[str, Any]) -> list[str]:
    """Return where the manifest of an artifact of this name contradicts itself."""
    faults = []
    if digest_of_output(manifest["files"]) != manifest["output_digest"]:
        faults.append("manifest.json: its output_digest is not that of its files")
    if identity_of(manifest).name != name or manifest["name"] != name:
        faults.append("manifest.json: its recipe is that of another artifact")
    try:
        check_conservation("manifest.json", manifest["stats"])
    except ArtifactError as error:
        faults.append(str(error))
    return faults


def digest_of_output(files: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the output digest of a manifest's files. Measured files do not count."""
    return digest_of_listing({name: entry["sha256"] for name, entry in files.items() if not entry.get("measured")})


def output_files(directory: Path, *, scratch: bool = False, directories: bool = False) -> list[str]:
    """Return the names of all files within a stage's directory, sorted.

    ``scratch`` adds hidden files, ``directories`` adds directories. A link to a directory counts as a file.
    """
    found = (path for path in directory.rglob("*") if directories or path.is_symlink() or not path.is_dir())
    names = (path.relative_to(directory) for path in found)
    return sorted(str(name) for name in names if scratch or not any(part.startswith(".") for part in name.parts))


def check_conservation(name: str, stats: Mapping[str, Any], directory: Path | None = None) -> None:
    """Raise ArtifactError unless ``in + repeated = out + Σ dropped[reason] + quarantined``, if the stage counts documents.

    The rows of ``documents-*``, ``dropped-*`` and ``quarantine-*`` in ``directory`` must agree with these counts.
    """
    if "documents_in" not in stats:
        return
    try:
        counts = _Counts.model_validate(stats)
    except ValidationError as error:
        raise ArtifactError(
            f"{name}: its statistics do not count documents ({_first_problems(error)}); build it again"
        ) from None
    dropped = sum(counts.dropped.values())
    accounted = counts.documents_out + dropped + counts.quarantined
    if counts.documents_in + counts.repeated != accounted:
        repeated = f" and {counts.repeated:,} copies were made" if counts.repeated else ""
        raise ArtifactError(
            f"{name}: {counts.documents_in:,} documents came in{repeated}, but {counts.documents_out:,} out"
            f" + {dropped:,} dropped + {counts.quarantined:,} quarantined = {accounted:,}"
        )
    counted = {"documents": counts.documents_out, "dropped": dropped, "quarantine": counts.quarantined}
    if directory is None:
        return
    for kind, count in counted.items():
        files = sorted(directory.glob(f"{kind}-*.arrow"))
        try:
            rows = sum(map(rows_of, files))
        except (OSError, ValueError) as error:
            raise ArtifactError(f"{name}: {kind}-*.arrow cannot be read ({error}); build it again") from None
        if files and rows != count:
            raise ArtifactError(f"{name}: {count:,} documents are counted as {kind}, but {kind}-*.arrow hold {rows:,}")


def identity_of(manifest: Mapping[str, Any]) -> Identity:
    """Return the identity that a manifest's recipe describes. Raises ArtifactError if it describes none."""
    try:
        recipe = manifest["recipe"]
        return Identity(recipe["stage"], recipe["version"], recipe["spec"], recipe["inputs"])
    except (KeyError, TypeError) as error:
        raise ArtifactError(f"manifest.json: its recipe cannot be read ({error!r})") from None
