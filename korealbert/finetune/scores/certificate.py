"""Certificates of scores: canonical JSON about the origin of a score, which may be signed.

A certificate has digests of the gold file and the predictions (if a cell made them, also of its recipe and model), versions of
code, packages, processor and BLAS, and the metrics. It has no time and no absolute path: paths are relative to its directory.
A signature is a file beside it; see ``signatures``. ``verification`` checks a certificate.
"""

from __future__ import annotations

import json
import os
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, ValidationError

from korealbert.artifact import Artifact, ArtifactError, Spec
from korealbert.artifact.files import (
    MANIFEST,
    atomic_path,
    digest_of_listing,
    files_of,
    is_of_an_artifact,
    refuse_overwriting,
    sha256_of_file,
    unambiguous,
)
from korealbert.artifact.host import host_facts
from korealbert.artifact.spec import explained
from korealbert.artifact.store import faults_of_manifest
from korealbert.finetune import tasks
from korealbert.finetune.definition_file import is_file
from korealbert.finetune.metrics import Mode
from korealbert.finetune.scores.predictions import differences, digest_of
from korealbert.finetune.scores.scoring import Scored, named_file, score_file
from korealbert.finetune.scores.signatures import is_signature, program_of, signatures, signed

_MAX_BYTES = 16 << 20
"""Larger files are not read as certificates."""

_Digest = Field(pattern=r"^[0-9a-f]{64}$")


class Data(Spec):
    """A file or a directory."""

    path: str = Field(pattern=r"^[^/]")
    """Path from the certificate's directory, with forward slashes."""
    member: str = ""
    """Name of the file in an archive."""
    bytes: int = Field(ge=0)
    """Total size of all files."""
    sha256: str = _Digest
    """Digest of the file as stored, or of the listing of a directory."""


class Model(Spec):
    """The model artifact that made the predictions."""

    name: str
    output_digest: str = _Digest
    files: dict[str, str]
    """sha256 of the artifact's files by name; empty if the store no longer had the artifact."""


class _Cell(Spec):
    """The artifact whose predictions were scored."""

    name: str
    label: str
    recipe: dict[str, Any]
    """The artifact's identity: stage, version, settings with the digests of files, and the names of its inputs."""
    manifest_sha256: str = _Digest
    model: Model | None


class _Code(Spec):
    """The package that scored."""

    version: str
    sha256: str = _Digest
    """Digest of the listing of its Python files."""


class Certificate(Spec):
    """The origin of a score."""

    korealbert_certificate: Literal[1]
    task: str
    """Name of the benchmark."""
    benchmark: Data | None
    """The benchmark's TOML file, if it has one."""
    mode: Mode
    gold: Data
    predictions: Data
    metrics: dict[str, Any]
    """Metrics as ``korealbert score`` prints them."""
    cell: _Cell | None
    """The cell that made the predictions; None if they are not in an artifact of a store."""
    code: _Code
    host: dict[str, Any]
    """Interpreter, packages, processor and BLAS."""

    def written(self) -> bytes:
        """Return canonical JSON: sorted names, no blanks, UTF-8, a line feed at the end."""
        value = self.model_dump(mode="json")
        text = json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
        return f"{text}\n".encode()


def certify(task: str, gold: str, predictions: str, mode: Mode, out: Path, *, key: Path | None = None) -> Scored:
    """Score a prediction file and write a certificate, signed if a key is given. Returns the scores.

    ``key``: a private ssh key (or a public one whose private key an agent has), or a secret key of minisign. The signature of
    an earlier certificate is removed.

    Raises as ``score_file``, and FileNotFoundError naming a missing directory. Raises ValueError if signing fails, if a file
    changes meanwhile, if ``out`` or its signature is in an artifact or would replace another kind of file, or if the cell's
    recipe has another task or gold file. Nothing is written then.
    """
    program = None if key is None else program_of(key)
    truth, given = named_file(gold), named_file(predictions)
    places = [truth.path, given.path, *([Path(task)] if is_file(task) else ())]
    for written in (out, *signatures(out)):
        refuse_overwriting(written, [*places, *([] if key is None else [key])])
    _refuse_other_files(out)
    names = [_named(place, out) for place in places]
    before = [measured(place) if place.exists() else None for place in places]
    with ExitStack() as files:
        draft = files.enter_context(atomic_path(out))
        scored = score_file(task, gold, predictions, mode)
        data = [
            _data(place, of, name) for place, of, name in zip(places, (truth.member, given.member, ""), names, strict=False)
        ]
        for place, seen, now in zip(places, before, data, strict=True):
            if seen != (now.bytes, now.sha256):
                raise ValueError(f"{place}: changed while it was scored; run again when nothing writes it")
        cell, named = cell_of(given.path), tasks.name_of(task)
        for other in differences(cell.recipe if cell else {}, named, truth, given.path.name):
            raise ValueError(f"{given.path}: {other.text}; name the task and the gold file of the cell")
        certificate = Certificate(
            korealbert_certificate=1,
            task=named,
            benchmark=data[2] if is_file(task) else None,
            mode=mode,
            gold=data[0],
            predictions=data[1],
            metrics=scored.facts(),
            cell=cell,
            code=code_here(),
            host=host_facts(),
        )
        content = certificate.written()
        draft.write_bytes(content)
        kept = None
        if key is not None and program is not None:
            kept, signature = signed(out, content, key, program)
            files.enter_context(atomic_path(kept)).write_bytes(signature)
    for earlier in signatures(out):
        if earlier != kept:
            earlier.unlink(missing_ok=True)
    return scored


def _refuse_other_files(out: Path) -> None:
    """Raise ValueError if a certificate or its signature would replace another kind of file."""
    for place, is_ours, wanted in (
        (out, _is_certificate, "certificate"),
        *((s, is_signature, "signature") for s in signatures(out)),
    ):
        if (place.exists() or place.is_symlink()) and not (place.is_file() and is_ours(place)):
            raise ValueError(
                f"{place}: it exists already and is not a {wanted} that this command wrote; name another file to write"
            )


def _is_certificate(path: Path) -> bool:
    """Return whether a file is a certificate of any version, even if it was changed."""
    if path.stat().st_size > _MAX_BYTES:
        return False
    try:
        value = json.loads(path.read_bytes())
    except (ValueError, RecursionError):
        return False
    return isinstance(value, dict) and "korealbert_certificate" in value


def _named(path: Path, out: Path) -> str:
    """Return a path as the certificate names it. Raises ValueError if the path is not valid UTF-8."""
    name = _relative(path, out).as_posix()
    try:
        name.encode()
    except UnicodeEncodeError:
        raise ValueError(f"{name!a}: a certificate holds names in UTF-8; rename the file or its directory") from None
    return name


def _data(path: Path, member: str, name: str) -> Data:
    size, digest = measured(path)
    return Data(path=name, member=member, bytes=size, sha256=digest)


def _relative(path: Path, out: Path) -> Path:
    """Return a path relative to the certificate's directory, which may be a link."""
    directory = out.absolute().parent
    relative = Path(os.path.relpath(path.absolute(), directory))
    if (directory / relative).exists() and (directory / relative).samefile(path):
        return relative
    return Path(os.path.relpath(path.parent.resolve() / path.name, directory.resolve()))


def measured(path: Path) -> tuple[int, str]:
    """Return bytes and sha256 of a file, or of the files of a directory."""
    return sum(each.stat().st_size for each in files_of(path)), digest_of(path)


def cell_of(predictions: Path) -> _Cell | None:
    """Return the artifact that a file of predictions is in. Raises ArtifactError if the two do not match its manifest."""
    directory = predictions.absolute().parent
    manifest = directory / MANIFEST
    if not manifest.is_file() or not is_of_an_artifact(directory):
        return None
    found = Artifact(directory.name, directory)
    if wrong := faults_of_manifest(found.name, found.manifest):
        raise ArtifactError(f"{directory}: {wrong[0]}; run its stage again")
    if found.manifest["files"].get(predictions.name, {}).get("sha256") != sha256_of_file(predictions):
        raise ArtifactError(f"{predictions}: not the predictions in its manifest; run its stage again")
    model = None
    if name := found.manifest["recipe"]["inputs"].get("model"):
        built_from = found.manifest["built_from"].get("model")
        if built_from is None:
            raise ArtifactError(f"{manifest}: it has no digest of its model; run its stage again")
        made = Artifact(name, directory.parent / name)
        there = (made.path / MANIFEST).is_file() and made.output_digest == built_from
        model = Model(name=name, output_digest=built_from, files=_files(made) if there else {})
    return _Cell(
        name=found.manifest["name"],
        label=found.manifest["label"],
        recipe=found.manifest["recipe"],
        manifest_sha256=sha256_of_file(manifest),
        model=model,
    )


def _files(artifact: Artifact) -> dict[str, str]:
    """Return the sha256 by name of the files that an artifact's digest covers."""
    return {name: entry["sha256"] for name, entry in artifact.manifest["files"].items() if not entry.get("measured")}


@cache
def code_here() -> _Code:
    """Return version and digest of the package that runs."""
    root = Path(__file__).parents[2]
    files = {path.relative_to(root).as_posix(): sha256_of_file(path) for path in root.rglob("*.py")}
    return _Code(version=host_facts()["korealbert"], sha256=digest_of_listing(files))


def read_certificate(path: Path) -> Certificate:
    """Read a certificate. Raises ValueError naming file, field and remedy if it is not one, or not in canonical form."""
    if path.stat().st_size > _MAX_BYTES:
        raise ValueError(f"{path}: larger than any certificate; name the file that --certificate wrote")
    content = path.read_bytes()
    try:
        value = json.loads(content, object_pairs_hook=unambiguous)
        certificate = Certificate.model_validate_json(json.dumps(value), strict=True)
    except ValidationError as error:
        remedy = "it is no certificate of this version; name the file that --certificate wrote"
        raise ValueError(f"{explained(str(path), Certificate, error)}; {remedy}") from None
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path}: no certificate ({error}); name the file that --certificate wrote") from None
    if certificate.written() != content:
        raise ValueError(f"{path}: not the canonical JSON that --certificate writes; it was changed since")
    return certificate
