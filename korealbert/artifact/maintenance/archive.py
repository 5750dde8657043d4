"""Export an artifact with everything it was built from to one archive, and import it.

The archive is a plain tar of regular files (shards are already compressed): first ``korealbert.json``, which lists the
artifacts, then each artifact's manifest and its files in the manifest's order. Equal artifacts give equal archives.

An archive may come from anyone, so an import trusts nothing in it: it ends at the first difference from what was announced, and
nothing enters the store before every byte was read and every digest matched.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
import tarfile
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import IO, Any

from korealbert.artifact import locks
from korealbert.artifact.files import (
    MANIFEST,
    atomic_write,
    explaining_full_disk,
    replace_directory,
    require_space,
    sha256_and_stamp,
    unambiguous,
)
from korealbert.artifact.spec import ARTIFACT_NAME
from korealbert.artifact.store import (
    Artifact,
    ArtifactError,
    Store,
    ancestors,
    check_conservation,
    digest_of_output,
    faults_within,
    identity_of,
)
from korealbert.artifact.tar import TarFault, TarMember, TarReader

_INDEX = "korealbert.json"
_FORMAT = 1
_MANIFEST_BYTES = 256 << 20
"""Largest manifest or index that is read into memory."""
_NAME_BYTES, _PATH_BYTES = 255, 1024
"""Longest name that file systems accept, and longest path within an artifact that leaves room for the store's path."""
_BLOCK = 1 << 20
_PROBLEM = "not a whole archive of `korealbert export` (a plain tar)"
_REMEDY = "copy it again, or export again with this version"


class _NotAsExported(Exception):
    """The archive differs from what ``export`` writes."""


def export(artifact: Artifact, stream: IO[bytes]) -> list[str]:
    """Write an artifact and its ancestors to a stream and return their names, inputs first.

    Raises ArtifactError if an ancestor is missing from the store or was rebuilt with other bytes, or a file does not match its
    manifest.
    """
    try:
        lineage = list(ancestors({"": artifact}).values())
    except FileNotFoundError as error:
        raise ArtifactError(f"{error.filename} is missing, and an export needs all inputs; run its stage again") from None
    for each in lineage:
        if stale := Store(each.path.parent).outdated(each, each.inputs()):
            raise ArtifactError(f"{each.name}: {stale}, and an export needs those it was built from; run its stage again")
    index = {"format": _FORMAT, "artifacts": {each.name: each.output_digest for each in lineage}}
    with tarfile.open(fileobj=stream, mode="w|", format=tarfile.PAX_FORMAT) as tar:
        content = (json.dumps(index, indent=1) + "\n").encode()
        tar.addfile(_member(_INDEX, len(content)), io.BytesIO(content))
        for each in lineage:
            manifest = (each.path / "manifest.json").read_bytes()
            tar.addfile(_member(f"{each.name}/manifest.json", len(manifest)), io.BytesIO(manifest))
            for name, entry in each.manifest["files"].items():
                with (each.path / name).open("rb") as source:
                    reader = _Hashing(source)
                    try:
                        tar.addfile(_member(f"{each.name}/{name}", entry["size"]), reader)
                    except OSError as error:
                        if "end of data" not in str(error):
                            raise
                    if reader.digest != entry["sha256"] or source.read(1):
                        raise ArtifactError(f"{each.path / name} is not the file that its manifest lists; rebuild {each.name}")
    return [each.name for each in lineage]


def import_archive(store: Store, stream: IO[bytes]) -> dict[str, bool]:
    """Read an archive into the store; returns its artifacts by name, inputs first, and whether each is new there.

    All or nothing: the store shows no artifact until the archive's last byte was checked. Raises ArtifactError with the
    problem, DiskFull and ReadOnlyStore.
    """
    staging = store.root / f".import-{os.getpid()}-{os.urandom(4).hex()}"
    with explaining_full_disk("import", store.root, resumes=False), locks.exclusive(staging.with_name(f"{staging.name}.lock")):
        try:
            imported = [Artifact(name, staging / name) for name in _read(store, stream, staging)]
            for each in imported:
                _is_there(store, each)  # Check all before the first is moved.
            return {each.name: _move_into_store(store, each) for each in imported}
        finally:
            shutil.rmtree(staging, ignore_errors=True)
            staging.with_name(f"{staging.name}.lock").unlink(missing_ok=True)


class _Hashing(io.RawIOBase):
    """Passes a file's bytes on and computes their sha256."""

    def __init__(self, source: IO[bytes] | TarReader) -> None:
        self._source = source
        self._hash = hashlib.sha256()

    def read(self, size: int = -1) -> bytes:
        content = self._source.read(size)
        self._hash.update(content)
        return content

    @property
    def digest(self) -> str:
        return self._hash.hexdigest()


def _member(name: str, size: int) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.size, member.mode = size, 0o644
    return member


def _read(store: Store, stream: IO[bytes], staging: Path) -> list[str]:
    """Read an archive into a staging directory and return the names of its artifacts."""
    try:
        return _Reader(TarReader(stream.read), store, staging).read()
    except (TarFault, _NotAsExported) as error:
        raise ArtifactError(f"{_PROBLEM}: {error}; {_REMEDY}") from None
    except (RecursionError, UnicodeError, OverflowError) as error:
        raise ArtifactError(f"{_PROBLEM}: a name or number cannot be read ({error}); {_REMEDY}") from None


class _Reader:
    """Reads an archive member by member into a staging directory and checks each against the manifests."""

    def __init__(self, tar: TarReader, store: Store, staging: Path) -> None:
        self._tar, self._store, self._staging = tar, store, staging

    def read(self) -> list[str]:
        """Return the names of the archive's artifacts, after copying all of them to the staging directory."""
        index = self._json(_INDEX)
        announced = index.get("artifacts")
        if index.get("format") != _FORMAT or not isinstance(announced, dict) or not announced:
            raise _NotAsExported(f"{_INDEX}: found format {index.get('format')!r}, expected a list of artifacts in {_FORMAT}")
        for name, output_digest in announced.items():
            if not ARTIFACT_NAME.fullmatch(name):
                raise _NotAsExported(f"{_INDEX}: {name!r} is no name of an artifact")
            self._artifact(name, output_digest, set(announced))
        if (member := self._tar.next()) is not None:
            raise _NotAsExported(f"{member.name!r} follows where the archive should end")
        return list(announced)

    def _artifact(self, name: str, output_digest: Any, announced: set[str]) -> None:
        out = self._staging / name
        out.mkdir(parents=True)
        content = self._content(f"{name}/manifest.json")
        atomic_write(out / MANIFEST, content)
        artifact = Artifact(name, out)
        files = _checked_files(artifact)
        if absent := {str(each) for each in artifact.manifest["inputs"].values()} - announced:
            raise _NotAsExported(f"{name}: built from {', '.join(sorted(absent))}, which the archive does not hold")
        require_space(self._store.root, sum(entry["size"] for entry in files.values()), f"import of {name}")
        for relative, entry in files.items():
            if self._copy(f"{name}/{relative}", entry["size"], out / relative) != entry["sha256"]:
                raise _NotAsExported(f"{name}/{relative}: another sha256 than its manifest says")
        if not digest_of_output(files) == artifact.output_digest == output_digest:
            raise _NotAsExported(f"{name}: its files, manifest and {_INDEX} disagree about its output")
        try:
            check_conservation(name, artifact.manifest["stats"], out)
        except ArtifactError as error:
            raise _NotAsExported(str(error)) from None

    def _next(self, wanted: str) -> TarMember:
        member = self._tar.next()
        if member is None:
            raise _NotAsExported(f"the archive ends before {wanted!r}")
        if member.name != wanted:
            raise _NotAsExported(f"{member.name!r} is in the archive instead of {wanted!r}")
        if not member.is_file or member.is_sparse:
            raise _NotAsExported(f"{member.name!r} is no regular file; links, devices and sparse files are not imported")
        return member

    def _content(self, wanted: str) -> bytes:
        member = self._next(wanted)
        if member.size > _MANIFEST_BYTES:
            raise _NotAsExported(f"{wanted!r} has {member.size:,} bytes, more than any manifest")
        return b"".join(iter(lambda: self._tar.read(_BLOCK), b""))

    def _json(self, wanted: str) -> dict[str, Any]:
        try:
            found = json.loads(self._content(wanted), object_pairs_hook=unambiguous)
        except (ValueError, RecursionError) as error:
            raise _NotAsExported(f"{wanted}: not JSON: {error}") from None
        return found if isinstance(found, dict) else {}

    def _copy(self, wanted: str, size: int, target: Path) -> str:
        member = self._next(wanted)
        if member.size != size:
            raise _NotAsExported(f"{wanted!r} has {member.size:,} bytes, its manifest says {size:,}")
        reader = _Hashing(self._tar)
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("xb") as handle:
            shutil.copyfileobj(reader, handle, _BLOCK)
            os.fsync(handle.fileno())
        return reader.digest


def _checked_files(artifact: Artifact) -> Mapping[str, Mapping[str, Any]]:
    """Return the files that an untrusted manifest lists. Raises _NotAsExported if it is invalid or lists files elsewhere."""
    try:
        named = identity_of(artifact.manifest).name
    except ArtifactError:
        raise _NotAsExported(f"{artifact.name}/manifest.json: not the manifest of an artifact") from None
    except (TypeError, RecursionError) as error:
        raise _NotAsExported(f"{artifact.name}/manifest.json: its recipe has no canonical form ({error})") from None
    if named != artifact.name or artifact.manifest["name"] != artifact.name:
        raise _NotAsExported(f"{artifact.name}/manifest.json: its recipe is that of {named}")
    files, inputs = artifact.manifest["files"], artifact.manifest["inputs"]
    if inputs != artifact.manifest["recipe"]["inputs"]:
        raise _NotAsExported(f"{artifact.name}/manifest.json: inputs and recipe differ")
    taken = {*files, MANIFEST}
    for name in files:
        path = PurePosixPath(name)
        odd = path.is_absolute() or str(path) != name or any(part.startswith(".") for part in path.parts) or not path.parts
        long = any(len(part.encode()) > _NAME_BYTES for part in path.parts) or len(name.encode()) > _PATH_BYTES
        clashing = any(str(parent) in taken for parent in path.parents)
        if odd or name == MANIFEST or not name.isprintable() or "\\" in name or long or clashing:
            raise _NotAsExported(f"{artifact.name}/manifest.json: {name!r} does not name a file within the artifact")
    return dict(files)


def _move_into_store(store: Store, imported: Artifact) -> bool:
    """Move an imported artifact into the store; False if it is there already. Raises ArtifactError if other bytes are there."""
    with store.lock(imported.name):
        if _is_there(store, imported):
            return False
        target = store.root / imported.name
        seen: dict[Path, tuple[str, list[int]]] = {}

        def digest(path: Path) -> str:
            seen[path] = sha256_and_stamp(path)
            return seen[path][0]

        if faults := faults_within(imported.path, imported.name, imported.manifest, digest, scratch=False):
            raise ArtifactError(f"{imported.name}: {faults[0]} after it was copied; check the disk")
        replace_directory(imported.path, target)
        for path, known in seen.items():
            store.digests.remember(target / path.relative_to(imported.path), *known)
        return True


def _is_there(store: Store, imported: Artifact) -> bool:
    present = store.find(imported.name)
    if present is None or store.damage(present) is not None:
        return False
    if present.output_digest != imported.output_digest:
        raise ArtifactError(
            f"{imported.name} is in the store with other bytes (a training run is not repeatable on every machine); "
            f"remove {present.path} first if the archive's is wanted"
        )
    return True
