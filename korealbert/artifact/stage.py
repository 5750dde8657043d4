"""What a stage is: a recipe-addressed, restartable, verifiable step from artifacts to an artifact.

A stage is a plain function ``run(spec, inputs, out_dir, runtime) -> stats``. ``build()`` gives it identity (the recipe: stage,
version, spec, input names), a place to work (``<name>.partial``), and a proof of completion (``manifest.json`` written
last, then one atomic rename). Whether a run was killed, repeated or moved to more workers, the same recipe ends in the
same directory.
"""

from __future__ import annotations

import contextlib
import json
import os
import platform
import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any, Generic, Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr

from korealbert.artifact.disk_space import telling_of_a_full_disk
from korealbert.artifact.files import digest_of_listing, replace_directory, write_json
from korealbert.artifact.locks import ReadOnlyStore
from korealbert.artifact.spec import Identity, Spec, canonical
from korealbert.artifact.store import OPENING, Artifact, ArtifactError, Store

Stats = dict[str, Any]
"""JSON-able facts of a stage's run; data stages carry ``documents_in``, ``documents_out``, ``dropped`` and ``quarantined``."""

Inputs = Mapping[str, Artifact]
"""What a stage reads, by role."""

S = TypeVar("S", bound=Spec)


@dataclass(frozen=True)
class Progress:
    """One report of a running stage. ``total`` is None while unknown; ``metrics`` are the newest values worth watching."""

    done: int
    total: int | None
    unit: str
    metrics: Mapping[str, float] = field(default_factory=dict)
    message: str = ""

    @property
    def note(self) -> str:
        """The newest metrics in one line: ``loss 2.345  learning_rate 0.001``."""
        return "  ".join(f"{name} {value:,.4g}" for name, value in self.metrics.items())


class Runtime(BaseModel):
    """Where and how wide a stage runs; never part of its identity. Data stages give equal bytes under any runtime."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    store: Path = Path("store")
    """Directory that holds all artifacts."""
    workers: int = Field(default=os.cpu_count() or 1, ge=1)
    """Processes of the data stages."""
    engine: str = Field(default="local", pattern=r"^(local|auto|ray://[\w.:\[\]-]+)$")
    """Where data stages map over shards: this machine's processes, or a Ray cluster whose nodes all see the store (``auto`` is
    the one that runs on this machine; ``ray://HOST:10001`` another)."""

    _report: Callable[[Progress], None] | None = PrivateAttr(default=None)

    def reporting_to(self, report: Callable[[Progress], None]) -> Self:
        """The same runtime with another receiver of progress reports."""
        runtime = self.model_copy()
        runtime._report = report
        return runtime

    def report(self, progress: Progress) -> None:
        """Pass a progress report on to whoever watches (a terminal bar, the Prefect UI, nobody)."""
        if self._report is not None:
            self._report(progress)


@dataclass(frozen=True)
class Stage(Generic[S]):
    """A named, versioned step. ``version`` is raised when the same spec should give different bytes."""

    name: str
    version: int
    spec: type[S]
    run: Callable[[S, Inputs, Path, Runtime], Stats]
    needs_alike: Callable[[S, Inputs], str] | None = None
    """For cells, of which several may run at once: names what their need for memory depends on. None: a stage that takes the
    whole machine."""
    check: Callable[[S, Runtime], None] | None = None
    """Raises ValueError where spec and runtime exclude each other; asked of all stages of a recipe before one is built."""

    def kind(self, spec: S, inputs: Inputs) -> str:
        """What cells that need the same memory have in common."""
        return f"{self.name} {self.needs_alike(spec, inputs) if self.needs_alike else ''}"

    def identity(self, spec: Spec, inputs: Mapping[str, str], store: Store) -> Identity:
        """The identity of the artifact that ``build`` would give: known before anything runs.

        ``inputs`` are artifact names by role; ``store`` remembers the digests of the files that ``spec`` names.
        """
        return Identity(self.name, self.version, canonical(spec, store.digests.of), dict(sorted(inputs.items())))


@dataclass(frozen=True)
class Built:
    """What ``build`` did: the artifact, and whether it was in the store already."""

    artifact: Artifact
    cached: bool
    repaired: str | None = None
    """Why an artifact that was in the store had to be rebuilt: damage, or an input with other bytes."""


def cached(stage: Stage[S], spec: S, inputs: Inputs, runtime: Runtime) -> Artifact | None:
    """The artifact that ``build`` would find in the store, or None where it would build one."""
    store = Store(runtime.store)
    name = stage.identity(spec, {role: artifact.name for role, artifact in inputs.items()}, store).name
    return store.find(name) if store.fault(name, inputs) is None else None


def build(
    stage: Stage[S], spec: S, inputs: Inputs, runtime: Runtime, *, label: str | None = None, rerun: bool = False
) -> Built:
    """Build an artifact, or find it in the store.

    ``label`` is the stage's name within a recipe (``clean/news``); it is recorded for people and does not enter the identity.
    ``rerun`` builds it although it is cached. Raises whatever the stage raises (the partial directory stays for the next try)
    and ``ArtifactError`` when the stage's stats lose documents, ``DiskFull``, and ``ReadOnlyStore`` when there is something to
    build in a store that may only be read. While another process builds the same artifact, this one waits for it and takes it.
    """
    store = Store(runtime.store)
    label = label or stage.name
    identity = stage.identity(spec, {role: artifact.name for role, artifact in inputs.items()}, store)

    def waiting(holder: str) -> None:
        runtime.report(Progress(0, None, "stages", message=f"{label}: waiting for {holder}, which builds {identity.name}"))

    try:
        with telling_of_a_full_disk(label, store.root / f"{identity.name}.partial"), store.lock(identity.name, waiting=waiting):
            found, fault = store.find(identity.name), store.fault(identity.name, inputs)
            if found is not None and fault is None and not rerun:
                return Built(found, cached=True)
            artifact = _build(store, stage, spec, identity, inputs, runtime, label)
            return Built(artifact, cached=False, repaired=fault)
    except ReadOnlyStore:
        found, fault = store.find(identity.name), store.fault(identity.name, inputs)
        if found is None or fault is not None or rerun:
            raise
        return Built(found, cached=True)


def _build(
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
    corpus = ("pyarrow", "polars", "kiwipiepy", "rensa", "httpcore", "protego", "fastwarc", "lxml", "trafilatura")
    packages = (*corpus, "sentencepiece", "torch", "deepspeed", "transformers", "numpy")
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
