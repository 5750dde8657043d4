"""What a stage is: a named, restartable, verifiable step from artifacts to an artifact.

A stage is a plain function ``run(spec, inputs, out_dir, runtime) -> stats``. ``build()`` computes its identity from stage,
version, spec and input names, lets it work in ``<name>.partial``, writes ``manifest.json`` last, and renames the directory
atomically. The same recipe ends in the same directory, however often the run was killed, repeated or moved to more workers.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatch
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Generic, Literal, Self, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, PrivateAttr

from korealbert.artifact import changes, markers
from korealbert.artifact.files import (
    MANIFEST,
    OPENING,
    FileChanged,
    expanded,
    explaining_full_disk,
    replace_directory,
    sha256_and_stamp,
    stamp,
    sync_file,
    utc_now,
    write_digested,
    write_json,
)
from korealbert.artifact.host import host_facts
from korealbert.artifact.locks import ReadOnlyStore
from korealbert.artifact.spec import Identity, Spec, Statistics, canonical, input_paths
from korealbert.artifact.store import (
    Artifact,
    ArtifactError,
    Store,
    check_conservation,
    default_store,
    digest_of_output,
    faults_within,
    output_files,
)

Stats = dict[str, Any]
"""What a stage counted, as JSON values. Data stages have ``documents_in``, ``documents_out``, ``dropped``, ``quarantined``."""

Inputs = Mapping[str, Artifact]
"""What a stage reads, by role."""

S = TypeVar("S", bound=Spec)

_TRIES = 3
"""How often a stage is run when its finished shards change on disk, before an error blames the disk."""

log = logging.getLogger(__name__)


class InputChanged(ArtifactError):
    """A file or artifact was changed while a stage read it."""


@dataclass(frozen=True)
class Progress:
    """A progress report of a running stage. ``total`` is None while it is unknown; ``metrics`` are the latest ones."""

    done: int
    total: int | None
    unit: str
    metrics: Mapping[str, float] = field(default_factory=dict)
    message: str = ""

    @property
    def note(self) -> str:
        """Return the metrics in one line: ``loss 2.345  learning_rate 0.001``."""
        return "  ".join(f"{name} {value:,.4g}" for name, value in self.metrics.items())


class Runtime(BaseModel):
    """Where a stage runs and on how many workers; not part of its identity. Data stages give equal bytes under any runtime."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    store: Annotated[Path, AfterValidator(expanded)] = Field(default_factory=default_store)
    """Directory of all artifacts: by default the one that ``KOREALBERT_STORE`` names, else ``store``."""
    workers: int = Field(default=os.cpu_count() or 1, ge=1)
    """Processes of the data stages."""
    engine: str = Field(default="local", pattern=r"^(local|auto|ray://[\w.:\[\]-]+)$")
    """Where data stages map over shards: in processes on this machine (``local``), or on a Ray cluster whose nodes all see the
    store (``auto`` is the cluster on this machine, ``ray://HOST:10001`` another one)."""

    _report: Callable[[Progress], None] | None = PrivateAttr(default=None)

    def reporting_to(self, report: Callable[[Progress], None]) -> Self:
        """Return the same runtime with another receiver of progress reports."""
        runtime = self.model_copy()
        runtime._report = report
        return runtime

    def report(self, progress: Progress) -> None:
        """Pass a progress report to the receiver, if there is one (a terminal bar, the Prefect UI)."""
        if self._report is not None:
            self._report(progress)


@dataclass(frozen=True)
class Deployment:
    """How ``prefect.yaml`` deploys a stage on its own."""

    description: str
    """Inputs and output in a few words."""
    queue: Literal["build", "crawl"] = "build"
    """``crawl`` is for stages that wait for the network, and that continue instead of starting again."""
    nightly: str = ""
    """A cron schedule. It is off until someone turns it on."""
    gpu: bool = False
    """Whether the stage is also deployed to the GPU worker, as ``NAME-gpu``."""
    recipe: str = ""
    """Name of a shipped recipe with this stage, if the sample recipe has none."""


@dataclass(frozen=True)
class Stage(Generic[S]):
    """A named, versioned step. Raise ``version`` when the same spec gives different bytes."""

    name: str
    version: int
    spec: type[S]
    run: Callable[[S, Inputs, Path, Runtime], Statistics | Stats]
    memory_class: Callable[[S, Inputs], str] | None = None
    """Only for cells, several of which may run at once: returns a key; cells with equal keys need the same memory. None for a
    stage that takes the whole machine."""
    check: Callable[[S, Runtime], None] | None = None
    """Raises ValueError if spec and runtime exclude each other. It is called for all stages before the first is built."""

    needs: tuple[str, ...] = ()
    """Packages that the stage imports when it runs, and that an environment for data stages alone may lack."""

    table: str = ""
    """Name of its table in a recipe: ``vocab``, or ``extract.SOURCE`` if there is one table for each source; empty if none."""
    inputs: Mapping[str, str] = field(default_factory=dict, hash=False)
    """Labels of its inputs in a model's recipe, by role. A role in capitals stands for several."""
    label: str = ""
    """Prefix of its labels, and its name in reports; by default the stage's name."""
    required: bool = False
    """Whether every run has this stage. Reports name required stages that are missing."""
    shows: Literal["documents", "examples", "urls"] = "documents"
    """What ``inspect`` shows of its output."""
    deployment: Deployment | None = None
    """None for a stage that is only built as part of a whole run."""
    continued: tuple[str, ...] = ()
    """Patterns of output files that a resumed stage continues. Before a stage resumes, all other files without a marker are
    removed."""
    measured: tuple[str, ...] = ()
    """Patterns of output files that record times or machines. They are verified like all others, but the output digest leaves
    them out, so that it is the same on every machine."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "label", self.label or self.name)

    def kind(self, spec: S, inputs: Inputs) -> str:
        """Return the key of what this cell may need: cells with the same key need the same memory."""
        return f"{self.name} {self.memory_class(spec, inputs) if self.memory_class else ''}"

    def identity(self, spec: Spec, inputs: Mapping[str, str], store: Store, *, again: bool = False) -> Identity:
        """Return the identity of the artifact that ``build`` would give, before anything runs.

        ``inputs`` are artifact names by role. ``store`` caches the digests of the files that ``spec`` names; ``again`` reads
        these files even if their digests are cached. Raises ValueError if ``spec`` names the store itself, which a run writes.
        """
        for path in map(Path, input_paths(spec)):
            if path.resolve() == store.root:
                raise ValueError(f"{path}: this directory is the store; name a directory in it, or another store (--store)")
        digest = partial(store.digests.of, again=again)
        return Identity(self.name, self.version, canonical(spec, digest), dict(sorted(inputs.items())))


@dataclass(frozen=True)
class Built:
    """What ``build`` returns: the artifact, and whether it was in the store already."""

    artifact: Artifact
    cached: bool
    repaired: str | None = None
    """Why an artifact in the store was rebuilt: it was damaged, or an input has other bytes."""


def cached(stage: Stage[S], spec: S, inputs: Inputs, runtime: Runtime) -> Artifact | None:
    """Return the artifact that ``build`` would find in the store, or None if it would build one."""
    store = Store(runtime.store)
    name = stage.identity(spec, {role: artifact.name for role, artifact in inputs.items()}, store).name
    return store.find(name) if store.fault(name, inputs) is None else None


def build(
    stage: Stage[S], spec: S, inputs: Inputs, runtime: Runtime, *, label: str | None = None, rerun: bool = False
) -> Built:
    """Build an artifact, or find it in the store.

    ``label`` is the stage's name within a recipe (``clean/news``). It is recorded for people and is not part of the identity.
    ``rerun`` builds the artifact even if it is cached. While another process builds the same artifact, this one waits and then
    returns it.

    Raises whatever the stage raises (the partial directory stays for the next try), ``ArtifactError`` if the statistics lose
    documents, ``DiskFull``, and ``ReadOnlyStore`` if something must be built in a read-only store.
    """
    store = Store(runtime.store)
    label = label or stage.name
    identity = stage.identity(spec, {role: artifact.name for role, artifact in inputs.items()}, store)

    def waiting(holder: str) -> None:
        runtime.report(Progress(0, None, "stages", message=f"{label}: waiting for {holder}, which builds {identity.name}"))

    try:
        with explaining_full_disk(label, store.root / f"{identity.name}.partial"), store.lock(identity.name, waiting=waiting):
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
    store.make()
    partial, target = store.root / f"{identity.name}.partial", store.root / identity.name
    opening = {
        "recipe": identity.document,
        "built_from": {role: artifact.output_digest for role, artifact in sorted(inputs.items())},
    }
    markers.remove_misplaced(partial)
    sealed = _sealed(partial, identity.name, opening)
    if sealed is None:
        _open(stage, partial, opening, spec, inputs)
        start, used = time.monotonic(), _processor_seconds()
        stats, files = _run(store, stage, spec, identity, inputs, runtime, partial)
        check_conservation(identity.name, stats, partial)
        entries = {name: _entry(stage, name, digest, seen[0]) for name, (digest, seen) in files.items()}
        sealed = {
            "name": identity.name,
            "label": label,
            **opening,
            "spec": json.loads(spec.model_dump_json()),
            "inputs": dict(identity.inputs),
            "stats": stats,
            "files": entries,
            "output_digest": digest_of_output(entries),
            "wall_seconds": round(time.monotonic() - start, 3),
            "processor_seconds": round(_processor_seconds() - used, 3),
            "created": utc_now(),
            "host": host_facts() | runtime.model_dump(include={"workers", "threads"}),
        }
        write_digested(partial / MANIFEST, sealed, sort_keys=True)
    else:
        files = {name: (entry["sha256"], stamp(partial / name)) for name, entry in sealed["files"].items()}
    # The manifest is written, so the scratch files can go. The opening goes last: without it a partial directory is useless.
    for hidden in sorted(partial.rglob(".*"), key=lambda path: path.name == OPENING):
        if hidden.is_dir():
            shutil.rmtree(hidden)
        else:
            hidden.unlink(missing_ok=True)  # It may have been in a hidden directory.
    replace_directory(partial, target)
    for name, (digest, seen) in files.items():
        store.digests.remember(target / name, digest, seen)
    return Artifact(identity.name, target)


def _entry(stage: Stage[Any], name: str, digest: str, size: int) -> dict[str, Any]:
    """Return what the manifest records about a file."""
    measured = any(fnmatch(name, pattern) for pattern in stage.measured)
    return {"sha256": digest, "size": size, **({"measured": True} if measured else {})}


def _processor_seconds() -> float:
    """Return the processor time of this process and of its ended children, summed over all cores."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def _run(
    store: Store, stage: Stage[S], spec: S, identity: Identity, inputs: Inputs, runtime: Runtime, partial: Path
) -> tuple[Stats, dict[str, tuple[str, list[int]]]]:
    """Run a stage until the files of all its shards match their markers.

    Returns the statistics, and sha256 and stamp of each file.
    """
    for _ in range(_TRIES):
        try:
            with markers.stage_run(partial):
                result = stage.run(spec, inputs, partial, runtime)
        except Exception as error:
            # A changed input may be the cause of the error.
            if changed := _changed_since(spec, inputs, partial):
                raise _input_changed(stage, partial, changed) from error
            raise
        stats = result.facts() if isinstance(result, Statistics) else result
        _refuse_changed(store, stage, spec, identity, inputs, partial)
        for path in sorted(partial.rglob("[!.]*"), reverse=True):
            if path.is_dir() and not any(path.iterdir()):
                path.rmdir()  # A manifest lists only files.
        names = [name for name in output_files(partial) if name != MANIFEST]
        for name in names:
            (partial / name).chmod(0o644)  # safetensors writes files that only their owner can read.
            sync_file(partial / name)
        files = {name: sha256_and_stamp(partial / name) for name in names}
        damaged = markers.distrusted(partial, {name: digest for name, (digest, _) in files.items()})
        if not damaged:
            return stats, files
        markers.forget(damaged)
    raise ArtifactError(f"{identity.name}: finished files change on disk ({next(iter(damaged.values()))}); check the disk")


def _sealed(partial: Path, name: str, opening: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the manifest of a build that was killed between manifest and rename, if all files match it."""
    try:
        manifest = Artifact(name, partial).manifest
    except (FileNotFoundError, ArtifactError):
        return None
    if {field: manifest[field] for field in opening} != opening:
        return None
    faults = faults_within(partial, name, manifest, scratch=True)
    for fault in faults:
        log.warning("%s: %s; it is built again", partial.name, fault)
    return None if faults else manifest


def _open(stage: Stage[S], partial: Path, opening: Mapping[str, Any], spec: Spec, inputs: Inputs) -> None:
    """Start a partial directory, or continue one that was started from this recipe and these bytes."""
    try:
        found = json.loads((partial / OPENING).read_text("utf-8"))
        begun = {field: found.get(field) for field in opening} == opening
    except (FileNotFoundError, ValueError, AttributeError):
        begun = False
    if not begun:
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
    now = {**opening, **changes.stamps_of_inputs(spec), "artifacts": changes.stamps_of_artifacts(inputs)}
    if not begun or found != now:
        if not begun or changes.changed(found, now) or changes.changed_artifacts(found.get("artifacts", {}), now["artifacts"]):
            if begun:  # Files may have been changed and changed back, and shards read in between.
                log.warning("%s: input files have new times; its shards are built again", partial.name)
            _forget_shards(partial)
        write_json(partial / OPENING, now, sort_keys=True)
    _remove_unnamed(stage, partial)


def _forget_shards(partial: Path) -> None:
    """Remove all shards with their markers, and files of unfinished jobs: other input may give fewer shards."""
    for done in list(partial.rglob(markers.DONE)):
        named = {path for marker in done.glob("*.json") for path in markers.named(marker)}
        for path in named | {*done.parent.rglob("*.arrow")}:
            path.unlink(missing_ok=True)
        shutil.rmtree(done)


def _remove_unnamed(stage: Stage[S], partial: Path) -> None:
    """Remove output files without a marker, such as those of a killed job: the manifest would list every file here."""
    named = {path for marker in partial.rglob(f"{markers.DONE}/*.json") for path in markers.named(marker)}
    for path in map(partial.joinpath, output_files(partial)):
        if path not in named and not any(fnmatch(str(path.relative_to(partial)), pattern) for pattern in stage.continued):
            log.info("%s: no finished job wrote it; it is removed", path)
            path.unlink()


def _refuse_changed(store: Store, stage: Stage[S], spec: S, identity: Identity, inputs: Inputs, partial: Path) -> None:
    """Raise InputChanged and forget the shards if an input is no longer the one that the identity was computed from."""
    changed = []
    for role, artifact in inputs.items():
        now = Artifact(artifact.name, artifact.path)
        fault = store.unreadable(now)
        if fault is None and now.output_digest != artifact.output_digest:
            fault = "rebuilt with other bytes"
        if fault := fault or store.damage(now):
            changed.append(f"{artifact.path} (input {role}: {fault})")
    changed = changed or _changed_since(spec, inputs, partial)
    try:
        # Read again, because writing through a memory map need not change a file's times.
        if not changed and stage.identity(spec, identity.inputs, store, again=True).document != identity.document:
            changed = [str(path) for path in input_paths(spec)]
    except (OSError, FileChanged) as error:
        changed.append(str(error))
    if changed:
        raise _input_changed(stage, partial, changed)


def _changed_since(spec: Spec, inputs: Inputs, partial: Path) -> list[str]:
    """Return which inputs were written since the stage began, judged by times.

    This includes inputs whose bytes are the same again: the stage may have read other ones in between.
    """
    try:
        begun = json.loads((partial / OPENING).read_text("utf-8"))
        artifacts = changes.changed_artifacts(begun["artifacts"], changes.stamps_of_artifacts(inputs))
        written = [f"{inputs[role].path} (input {role}: {name} was written)" for role, name in artifacts.items()]
        return [*written, *changes.changed(begun, changes.stamps_of_inputs(spec))]
    except (OSError, FileChanged) as error:
        return [str(error)]


def _input_changed(stage: Stage[Any], partial: Path, changed: Sequence[str]) -> InputChanged:
    _forget_shards(partial)
    return InputChanged(f"{', '.join(changed)}: changed while {stage.name} read it; run again when nothing writes it")
