"""Certificates of scores: canonical JSON about the origin of a score, which may be signed and is verified by scoring again.

A certificate has digests of the gold file and the predictions (if a cell made them, also of its recipe and model), versions of
code, packages, processor and BLAS, and the metrics. It has no time and no absolute path: paths are relative to its directory.
A signature is a file beside it; see ``signatures``.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, ValidationError

from korealbert.artifact import Artifact, ArtifactError, Identity, Spec
from korealbert.artifact.files import (
    MANIFEST,
    atomic_path,
    digest_of_listing,
    entries_of,
    files_of,
    is_of_an_artifact,
    refuse_overwriting,
    sha256_of_file,
    unambiguous,
)
from korealbert.artifact.host import host_facts
from korealbert.artifact.spec import explained
from korealbert.artifact.store import faults_of_manifest, faults_within
from korealbert.documents.benchmark_files import BenchmarkFile
from korealbert.finetune import tasks
from korealbert.finetune.definition import is_file
from korealbert.finetune.metrics import Mode
from korealbert.finetune.scores.predictions import differences, digest_of
from korealbert.finetune.scores.scoring import MEMBER_MARK, Scored, score_file
from korealbert.finetune.scores.signatures import Finding, check_signature, is_signature, program_of, signatures, signed

_MAX_BYTES = 16 << 20
"""Larger files are not read as certificates."""

_Digest = Field(pattern=r"^[0-9a-f]{64}$")


class _Data(Spec):
    """A file or a directory."""

    path: str = Field(pattern=r"^[^/]")
    """Path from the certificate's directory, with forward slashes."""
    member: str = ""
    """Name of the file in an archive."""
    bytes: int = Field(ge=0)
    """Total size of all files."""
    sha256: str = _Digest
    """Digest of the file as stored, or of the listing of a directory."""


class _Model(Spec):
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
    model: _Model | None


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
    benchmark: _Data | None
    """The benchmark's TOML file, if it has one."""
    mode: Mode
    gold: _Data
    predictions: _Data
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
    (gold_path, _, member), (path, _, inner) = gold.partition(MEMBER_MARK), predictions.partition(MEMBER_MARK)
    places = [Path(each) for each in (gold_path, path, *([task] if is_file(task) else ()))]
    for written in (out, *signatures(out)):
        refuse_overwriting(written, [*places, *([] if key is None else [key])])
    _refuse_other_files(out)
    names = [_named(place, out) for place in places]
    before = [_measured(place) if place.exists() else None for place in places]
    with ExitStack() as files:
        draft = files.enter_context(atomic_path(out))
        scored = score_file(task, gold, predictions, mode)
        data = [_data(place, of, name) for place, of, name in zip(places, (member, inner, ""), names, strict=False)]
        for place, seen, now in zip(places, before, data, strict=True):
            if seen != (now.bytes, now.sha256):
                raise ValueError(f"{place}: changed while it was scored; run again when nothing writes it")
        cell, named = _cell(Path(path)), tasks.name_of(task)
        for other in differences(cell.recipe if cell else {}, named, BenchmarkFile(places[0], member), places[1].name):
            raise ValueError(f"{path}: {other.text}; name the task and the gold file of the cell")
        certificate = Certificate(
            korealbert_certificate=1,
            task=named,
            benchmark=data[2] if is_file(task) else None,
            mode=mode,
            gold=data[0],
            predictions=data[1],
            metrics=scored.facts(),
            cell=cell,
            code=_code(),
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


def _data(path: Path, member: str, name: str) -> _Data:
    size, digest = _measured(path)
    return _Data(path=name, member=member, bytes=size, sha256=digest)


def _relative(path: Path, out: Path) -> Path:
    """Return a path relative to the certificate's directory, which may be a link."""
    directory = out.absolute().parent
    relative = Path(os.path.relpath(path.absolute(), directory))
    if (directory / relative).exists() and (directory / relative).samefile(path):
        return relative
    return Path(os.path.relpath(path.parent.resolve() / path.name, directory.resolve()))


def _measured(path: Path) -> tuple[int, str]:
    """Return bytes and sha256 of a file, or of the files of a directory."""
    return sum(each.stat().st_size for each in files_of(path)), digest_of(path)


def _cell(predictions: Path) -> _Cell | None:
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
        model = _Model(name=name, output_digest=built_from, files=_files(made) if there else {})
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
def _code() -> _Code:
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


def verify(
    path: Path,
    *,
    gold: Path | None = None,
    predictions: Path | None = None,
    benchmark: Path | None = None,
    key: Path | None = None,
) -> Iterator[Finding]:
    """Check a certificate: its signature, the digests of the files that it names, and its metrics by scoring again.

    Cell and model are compared with their manifests, and these with their files. If the manifest is not beside the
    predictions, a note says that they are not checked.

    ``gold``, ``predictions`` and ``benchmark`` are the places of these files, if not where the certificate says; ``key`` is the
    public key that must have signed it. Raises ValueError for a file that is not a certificate, for a ``benchmark`` if the
    certificate names none, and for a file without a public key.
    """
    certificate = read_certificate(path)
    if benchmark is not None and certificate.benchmark is None:
        raise ValueError(f"{path}: it names no TOML file for {certificate.task}; leave --benchmark {benchmark} out")
    yield check_signature(path, key)
    named = {"gold": certificate.gold, "predictions": certificate.predictions}
    if certificate.benchmark is not None:
        named = {"benchmark": certificate.benchmark, **named}
    given = {"benchmark": benchmark, "gold": gold, "predictions": predictions}
    places = {name: given[name] or _place(path, data) for name, data in named.items()}
    files_agree = True
    for name, place in places.items():
        finding = _same_data(name, named[name], place)
        files_agree = files_agree and finding.verdict == "agrees"
        yield finding
    if certificate.benchmark is not None and certificate.benchmark.member:
        yield Finding(
            "differs", f"benchmark: the certificate has the member {certificate.benchmark.member!r}; a TOML file has none"
        )
    yield from _same_cell(certificate, places)
    yield from _same_software(certificate)
    if files_agree:
        yield from _same_metrics(certificate, places)
    else:
        yield Finding("differs", "metrics: not computed, since these files are not the ones that were scored")


def _place(path: Path, data: _Data) -> Path:
    """Return the place of a file relative to a certificate, or to the target of a link to one."""
    named, target = path.parent / data.path, path.resolve().parent / data.path
    return target if path.is_symlink() and not named.exists() else named


def _same_data(name: str, data: _Data, path: Path) -> Finding:
    """Compare a file or directory with its size and digest in the certificate."""
    try:
        if not (path.is_file() or path.is_dir()):
            return Finding("differs", f"{name}: no file at {path}; name it with --{name}")
        size = 0
        for each in entries_of(path) if path.is_dir() else [path]:  # Stop early: another directory may be huge.
            size += each.stat().st_size if each.is_file() else 0
            if size > data.bytes:
                return Finding("differs", f"{name}: {path} has more than the {data.bytes:,} bytes of the certificate's")
        if size != data.bytes:
            return Finding("differs", f"{name}: {path} has {size:,} bytes, the certificate's had {data.bytes:,}")
        _, digest = _measured(path)
    except OSError as error:
        return Finding("differs", f"{name}: {path} cannot be read ({error.strerror}); name it with --{name}")
    if digest != data.sha256:
        return Finding("differs", f"{name}: sha256 of {path} is {digest}, the certificate has {data.sha256}")
    return Finding("agrees", f"{name}: {path}, sha256 {digest}")


def _same_cell(certificate: Certificate, places: Mapping[str, Path]) -> Iterator[Finding]:
    cell, predictions = certificate.cell, places["predictions"]
    try:
        here = _cell(predictions) if predictions.is_file() else None
    except (ArtifactError, OSError) as error:
        yield Finding("differs", f"cell: {error}")
        return
    if cell is None:
        if here is not None:
            yield Finding(
                "note", f"cell: the certificate names none, but {predictions} is a file of {here.name} ({here.label})"
            )
        return
    gold = BenchmarkFile(places["gold"], certificate.gold.member)
    scored = certificate.task, gold, Path(certificate.predictions.path).name
    found = differences(cell.recipe, *scored, stored=certificate.gold.sha256)
    yield from (Finding("differs", difference.text) for difference in found)
    named = _name_of(cell.recipe)
    if here is None:
        if named != cell.name:
            yield Finding("differs", f"recipe: it is that of {named}, not of {cell.name}")
        yield Finding(
            "note",
            f"cell: not checked, since no manifest is beside {predictions}; its name, label, recipe and "
            "model are only claimed by the author of the certificate",
        )
        return
    compared = {
        "name": (cell.name, here.name),
        "label": (cell.label, here.label),
        "recipe": (named, _name_of(here.recipe)),
        "manifest": (cell.manifest_sha256, here.manifest_sha256),
    }
    other = {field: values for field, values in compared.items() if values[0] != values[1]}
    for field, (then, now) in other.items():
        yield Finding("differs", f"{field}: the certificate has {then}, the manifest beside {predictions} {now}")
    if not other:
        yield Finding("agrees", f"cell: {cell.name} ({cell.label}), its recipe and predictions, as in its manifest")
    yield from _same_model(cell.model, here.model, predictions.absolute().parent.parent)


def _name_of(recipe: Mapping[str, Any]) -> str:
    """Return the artifact name that a recipe gives, or the recipe's error."""
    try:
        return Identity(**recipe).name
    except (TypeError, ValueError) as error:
        return str(error)


def _same_model(model: _Model | None, here: _Model | None, store: Path) -> Iterator[Finding]:
    """Compare a model with the one in the cell's manifest, and that one with its files."""
    then, now = ((each.name, each.output_digest) if each else None for each in (model, here))
    if model is None or here is None or then != now:
        if then != now:
            yield Finding("differs", f"model: the certificate has {then}, the manifest of the cell {now}")
        return
    made = Artifact(here.name, store / here.name)
    if not (made.path / MANIFEST).is_file():
        yield Finding("note", f"model: {model.name} is the cell's; not checked are its files, since it is not in {store}")
        return
    try:
        faults = faults_within(made.path, made.name, made.manifest, scratch=True)
    except (ArtifactError, OSError) as error:
        faults = [str(error)]
    if not faults and made.output_digest != model.output_digest:
        faults = [f"its digest is {made.output_digest}, the certificate has {model.output_digest}"]
    if not faults and model.files and model.files != here.files:
        faults = ["its files are not those of the certificate"]
    if faults:
        yield Finding("differs", f"model: {made.path}: {faults[0]}")
    else:
        yield Finding("agrees", f"model: {model.name}, {len(here.files)} files")


def _same_software(certificate: Certificate) -> Iterator[Finding]:
    code, here = certificate.code, _code()
    if code == here:
        yield Finding("agrees", f"code: korealbert {code.version}, sha256 {code.sha256}")
    else:
        yield Finding("note", f"code: scored with korealbert {code.version} ({code.sha256[:12]}), here {here.version}"
                      f" ({here.sha256[:12]})")  # fmt: skip
    then, now = certificate.host, host_facts()
    other = [
        f"{name} {_of(then, name)}, here {_of(now, name)}" for name in sorted({*then, *now}) if then.get(name) != now.get(name)
    ]
    yield Finding("note", f"machine: {'; '.join(other)}") if other else Finding("agrees", "machine: the same kind and packages")


def _of(host: Mapping[str, Any], name: str) -> str:
    return repr(host[name]) if name in host else "not named"


def _same_metrics(certificate: Certificate, places: Mapping[str, Path]) -> Iterator[Finding]:
    task = str(places["benchmark"]) if "benchmark" in places else certificate.task
    files = {
        name: MEMBER_MARK.join(filter(None, (str(places[name]), data.member)))
        for name, data in (("gold", certificate.gold), ("predictions", certificate.predictions))
    }
    try:
        if is_file(task) and "benchmark" not in places:
            raise ValueError("a benchmark of a TOML file without the digest of that file")
        if (named := tasks.name_of(task)) != certificate.task:
            yield Finding("differs", f"task: the certificate has {certificate.task}, the benchmark is {named}")
        recipe = certificate.cell.recipe if certificate.cell else None
        scored = score_file(task, files["gold"], files["predictions"], certificate.mode, recipe=recipe)
    except (ValueError, OSError) as error:
        yield Finding("differs", f"metrics: they cannot be computed: {error}")
        return
    now = json.loads(json.dumps(scored.facts()))
    for name in (*certificate.metrics, *(name for name in now if name not in certificate.metrics)):
        then, found = certificate.metrics.get(name), now.get(name)
        if name in certificate.metrics and name in now and then == found and type(then) is type(found):
            yield Finding("agrees", f"{name}: {then}")
        else:
            yield Finding("differs", f"{name}: the certificate has {then}, scored again {found}")
