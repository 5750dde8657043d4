"""What a stage is: a recipe-addressed, restartable, verifiable step from artifacts to an artifact.

A stage is a plain function ``run(spec, inputs, out_dir, runtime) -> stats``. ``build()`` gives it identity (the recipe: stage,
version, spec, input names), a place to work (``<name>.partial``), and a proof of completion (``manifest.json`` written
last, then one atomic rename). Whether a run was killed, repeated or moved to more workers, the same recipe ends in the
same directory.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import platform
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from hashlib import sha256
from importlib import metadata
from pathlib import Path
from typing import Any, Generic, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, GetCoreSchemaHandler, PrivateAttr, ValidationInfo
from pydantic_core import CoreSchema, core_schema

from korealbert.files import DigestMemory, digest_of_listing, replace_directory, write_json

Stats = dict[str, Any]
"""JSON-able facts of a stage's run; data stages carry ``documents_in``, ``documents_out``, ``dropped`` and ``quarantined``."""


class ArtifactError(Exception):
    """A stage's output breaks the contract: lost documents, a wrong digest, a directory that nobody finished."""


MANIFEST_FIELDS = frozenset(
    {"name", "label", "recipe", "spec", "inputs", "built_from", "stats", "files", "output_digest"}
    | {"wall_seconds", "created", "host"}
)
"""What every ``manifest.json`` holds."""


class Spec(BaseModel):
    """Everything that changes a stage's bytes. Unknown fields are errors; a spec is never mutated."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class InputPath(os.PathLike[str]):
    """A file or directory named by a spec. It enters the identity by name and content: moving it elsewhere rebuilds nothing.

    Relative paths start at ``root`` of the validation context (a recipe passes its own directory), else at the working
    directory.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)

    def __fspath__(self) -> str:
        return str(self.path)

    def __repr__(self) -> str:
        return f"InputPath({str(self.path)!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, InputPath) and self.path == other.path

    def __hash__(self) -> int:
        return hash(self.path)

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        def parse(value: Any, info: ValidationInfo) -> InputPath:
            if isinstance(value, InputPath):
                return value
            if not isinstance(value, str | os.PathLike) or not str(value):
                raise ValueError("expected the path of a file or directory")
            root = Path((info.context or {}).get("root", "."))
            return cls(Path(os.path.normpath(root / Path(value).expanduser())))

        return core_schema.with_info_plain_validator_function(
            parse, serialization=core_schema.plain_serializer_function_ser_schema(str)
        )

    def __str__(self) -> str:
        return str(self.path)


@dataclass(frozen=True)
class Progress:
    """One report of a running stage. ``total`` is None while unknown; ``metrics`` are the newest values worth watching."""

    done: int
    total: int | None
    unit: str
    metrics: Mapping[str, float] = field(default_factory=dict)
    message: str = ""


Device = Literal["auto", "cpu", "cuda"]
"""Where training runs; auto takes CUDA where there is one."""


class Runtime(BaseModel):
    """Where and how fast a stage runs; never part of its identity. Data stages give equal bytes under any runtime; threads,
    processes and device may move the last bits of training."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    store: Path = Path("store")
    """Directory that holds all artifacts."""
    workers: int = Field(default=os.cpu_count() or 1, ge=1)
    """Processes of the data stages."""
    processes: int = Field(default=1, ge=1)
    """Training processes (ranks) on this machine."""
    threads: int = Field(default=os.cpu_count() or 1, ge=1)
    """CPU threads over all training processes together."""
    device: Device = "auto"
    """The device of all training processes."""

    _report: Callable[[Progress], None] | None = PrivateAttr(default=None)

    def reporting_to(self, report: Callable[[Progress], None]) -> Runtime:
        """The same runtime with another receiver of progress reports."""
        runtime = self.model_copy()
        runtime._report = report
        return runtime

    def report(self, progress: Progress) -> None:
        """Pass a progress report on to whoever watches (a terminal bar, the Prefect UI, nobody)."""
        if self._report is not None:
            self._report(progress)


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
        missing = MANIFEST_FIELDS - set(loaded) if isinstance(loaded, dict) else MANIFEST_FIELDS
        if missing:
            raise ArtifactError(f"{path}: not a manifest, it lacks {', '.join(sorted(missing))}; remove the directory")
        return dict(loaded)

    @property
    def stats(self) -> Stats:
        """What the stage counted."""
        stats: Stats = self.manifest["stats"]
        return stats

    @property
    def output_digest(self) -> str:
        """sha256 over the names and digests of all files: equal for equal bytes, whoever built them."""
        return str(self.manifest["output_digest"])

    def files(self, pattern: str) -> list[Path]:
        """Output files that match a glob pattern, sorted by name."""
        return sorted(self.path.glob(pattern))

    def inputs(self) -> dict[str, Artifact]:
        """The artifacts that this one was built from, by role; they stand beside it in the store."""
        return {role: Artifact(name, self.path.parent / name) for role, name in self.manifest["inputs"].items()}


def lineage(artifacts: Mapping[str, Artifact]) -> dict[str, Artifact]:
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


Inputs = Mapping[str, Artifact]
S = TypeVar("S", bound=Spec)


@dataclass(frozen=True)
class Stage(Generic[S]):
    """A named, versioned step. ``version`` is raised when the same spec should give different bytes."""

    name: str
    version: int
    spec: type[S]
    run: Callable[[S, Inputs, Path, Runtime], Stats]


@dataclass(frozen=True)
class Identity:
    """The recipe of one artifact: canonical, hashable, comparable field by field."""

    stage: str
    version: int
    spec: Any
    inputs: Mapping[str, str]

    @cached_property
    def document(self) -> dict[str, Any]:
        """The canonical JSON document that the key is the hash of."""
        return {"stage": self.stage, "version": self.version, "spec": self.spec, "inputs": dict(self.inputs)}

    @cached_property
    def name(self) -> str:
        """``<stage>-<first 16 hex digits of the sha256 of the document>``."""
        canonical_bytes = json.dumps(self.document, sort_keys=True, ensure_ascii=False, separators=(",", ":")).encode()
        return f"{self.stage}-{sha256(canonical_bytes).hexdigest()[:16]}"


def canonical(value: Any, digest: Callable[[Path], str]) -> Any:
    """A JSON value that stands for ``value`` in an identity; refuses what has no one canonical form."""
    if value is None or isinstance(value, bool | int | str):
        return value.value if isinstance(value, Enum) else value
    if isinstance(value, float):
        return {"float": value.hex()}
    if isinstance(value, InputPath):
        # The name counts beside the content: its ending says how to read the file, and it is part of some documents' ids.
        return {"name": value.path.name, "sha256": digest(value.path)}
    if isinstance(value, BaseModel):
        return {name: canonical(getattr(value, name), digest) for name in type(value).model_fields}
    if isinstance(value, Mapping):
        return {str(key): canonical(value[key], digest) for key in sorted(value)}
    if isinstance(value, tuple | list):
        return [canonical(item, digest) for item in value]
    raise TypeError(f"a spec cannot hold a {type(value).__name__}: it has no canonical form")


class Store:
    """A directory of artifacts: one sub-directory each, complete if and only if it exists under its own name."""

    def __init__(self, root: Path) -> None:
        self.root = Path(root).resolve()
        self.digests = DigestMemory(self.root / ".digests")

    def identify(self, stage: Stage[Any], spec: Spec, inputs: Mapping[str, str]) -> Identity:
        """The identity that ``build`` would give: known before anything runs. ``inputs`` are artifact names by role."""
        return Identity(stage.name, stage.version, canonical(spec, self.digests.of), dict(sorted(inputs.items())))

    def find(self, name: str) -> Artifact | None:
        """The finished artifact of this name, or None; see ``unreadable`` for one whose manifest is damaged."""
        artifact = Artifact(name, self.root / name)
        return artifact if artifact.path.is_dir() and self.unreadable(artifact) is None else None

    def unreadable(self, artifact: Artifact) -> str | None:
        """What keeps a directory under an artifact's name from being one, or None."""
        try:
            _ = artifact.manifest
        except FileNotFoundError:
            return "manifest.json is missing"
        except ArtifactError as error:
            return str(error)
        return None

    def artifacts(self) -> list[Artifact]:
        """All finished artifacts with a readable manifest, oldest first."""
        found = [Artifact(path.parent.name, path.parent) for path in self.root.glob("*/manifest.json")]
        complete = [artifact for artifact in found if "." not in artifact.name and self.unreadable(artifact) is None]
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
        """Why an artifact no longer stands on its inputs (one was built anew with other bytes), or None."""
        for role, built_from in artifact.manifest["built_from"].items():
            current = inputs.get(role)
            if current is not None and current.output_digest != built_from:
                return f"input {role} ({current.name}) was built anew with other bytes"
        return None

    @contextlib.contextmanager
    def lock(self, name: str) -> Iterator[None]:
        """Keep two builders of one artifact apart. The kernel frees the lock when its holder dies, however it dies."""
        path = self.root / ".locks" / f"{name}.lock"
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("w") as handle:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield


@dataclass(frozen=True)
class Built:
    """What ``build`` did: the artifact, and whether it stood already."""

    artifact: Artifact
    cached: bool
    repaired: str | None = None
    """Why an artifact that stood already was rebuilt: damage, or an input with other bytes."""


def build(
    stage: Stage[S], spec: S, inputs: Inputs, runtime: Runtime, *, label: str | None = None, rerun: bool = False
) -> Built:
    """Build an artifact, or find it built.

    ``label`` is the stage's name within a recipe (``clean/news``); it is recorded for people and does not enter the identity.
    ``rerun`` builds anew although cached. Raises whatever the stage raises (the partial directory stays for the next try) and
    ``ArtifactError`` when the stage's stats lose documents.
    """
    store = Store(runtime.store)
    identity = store.identify(stage, spec, {role: artifact.name for role, artifact in inputs.items()})
    with store.lock(identity.name):
        standing = store.find(identity.name)
        repaired = None
        if standing is None and (store.root / identity.name).exists():
            repaired = store.unreadable(Artifact(identity.name, store.root / identity.name))
        if standing is not None and not rerun:
            repaired = store.damage(standing) or store.outdated(standing, inputs)
            if repaired is None:
                return Built(standing, cached=True)
        artifact = _build_anew(store, stage, spec, identity, inputs, runtime, label or stage.name)
        return Built(artifact, cached=False, repaired=repaired)


def _build_anew(
    store: Store, stage: Stage[S], spec: S, identity: Identity, inputs: Inputs, runtime: Runtime, label: str
) -> Artifact:
    partial = store.root / f"{identity.name}.partial"
    started_from = {role: artifact.output_digest for role, artifact in sorted(inputs.items())}
    opening = {"recipe": identity.document, "built_from": started_from}
    if not _same_opening(partial, opening):
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        write_json(partial / OPENING, opening, sort_keys=True)
    if not (partial / "manifest.json").exists():  # Else the last try was killed between its manifest and the rename.
        start = time.monotonic()
        stats = stage.run(spec, inputs, partial, runtime)
        check_conservation(identity.name, stats)
        digests = _digests(store, partial)
        manifest = {
            "name": identity.name,
            "label": label,
            **opening,
            "spec": json.loads(spec.model_dump_json()),
            "inputs": dict(identity.inputs),
            "stats": stats,
            "files": {name: {"sha256": digest, "size": (partial / name).stat().st_size} for name, digest in digests.items()},
            "output_digest": digest_of_listing(digests),
            "wall_seconds": round(time.monotonic() - start, 3),
            "created": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "host": host_facts(),
        }
        write_json(partial / "manifest.json", manifest, sort_keys=True)
    # Only now may the traces that a resumed stage works from go; the opening last, for it is what makes a partial usable.
    for hidden in sorted(partial.rglob(".*"), key=lambda path: path.name == OPENING):
        if hidden.is_dir():
            shutil.rmtree(hidden)
        else:
            hidden.unlink(missing_ok=True)  # It may have gone with a hidden directory above it.
    target = store.root / identity.name
    replace_directory(partial, target)
    artifact = Artifact(identity.name, target)
    store.digests.remember({target / name: entry["sha256"] for name, entry in artifact.manifest["files"].items()})
    return artifact


OPENING = ".opening.json"
"""Names the recipe and the input bytes that a partial directory was begun with."""


def _digests(store: Store, directory: Path) -> dict[str, str]:
    """sha256 of every output file by relative name; hidden files are a stage's scratch and do not count."""
    names = (path.relative_to(directory) for path in sorted(directory.rglob("*")) if path.is_file())
    outputs = [name for name in names if not any(part.startswith(".") for part in name.parts)]
    for name in outputs:
        (directory / name).chmod(0o644)  # safetensors writes files that only their owner can read.
    return {str(name): store.digests.of(directory / name) for name in outputs}


def _same_opening(partial: Path, opening: Mapping[str, Any]) -> bool:
    """Whether a partial directory was begun from this very recipe and these very bytes."""
    for name in (OPENING, "manifest.json"):
        try:
            found = json.loads((partial / name).read_text("utf-8"))
        except (FileNotFoundError, ValueError):
            continue
        return {field: found.get(field) for field in opening} == opening
    return False


def check_conservation(name: str, stats: Stats) -> None:
    """Documents are conserved: ``in = out + Σ dropped[reason] + quarantined``, where a stage counts documents at all."""
    if "documents_in" not in stats:
        return
    dropped = sum(stats.get("dropped", {}).values())
    accounted = stats["documents_out"] + dropped + stats.get("quarantined", 0)
    if stats["documents_in"] != accounted:
        raise ArtifactError(
            f"{name}: {stats['documents_in']:,} documents came in, but {stats['documents_out']:,} out + {dropped:,} dropped"
            f" + {stats.get('quarantined', 0):,} quarantined = {accounted:,}"
        )


def host_facts() -> dict[str, Any]:
    """What built an artifact: code version, interpreter, machine and the packages whose versions can change results."""
    packages = ("pyarrow", "polars", "sentencepiece", "kiwipiepy", "torch", "deepspeed", "transformers", "numpy")
    versions = {}
    for package in packages:
        with contextlib.suppress(metadata.PackageNotFoundError):
            versions[package] = metadata.version(package)
    return {
        "korealbert": metadata.version("korealbert"),
        "python": platform.python_version(),
        "machine": f"{platform.system()} {platform.machine()}",
        "cores": os.cpu_count(),
        "packages": versions,
    }
