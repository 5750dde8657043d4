"""Verification of certificates: signature, digests, cell and model, and the metrics by scoring again."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from korealbert.artifact import Artifact, ArtifactError, Identity
from korealbert.artifact.files import MANIFEST, entries_of
from korealbert.artifact.host import host_facts
from korealbert.artifact.store import faults_within
from korealbert.documents.benchmark_files import BenchmarkFile
from korealbert.finetune import tasks
from korealbert.finetune.definition_file import is_file
from korealbert.finetune.scores.certificate import Certificate, Data, Model, cell_of, code_here, measured, read_certificate
from korealbert.finetune.scores.predictions import differences
from korealbert.finetune.scores.scoring import MEMBER_MARK, score_file
from korealbert.finetune.scores.signatures import Finding, check_signature


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


def _place(path: Path, data: Data) -> Path:
    """Return the place of a file relative to a certificate, or to the target of a link to one."""
    named, target = path.parent / data.path, path.resolve().parent / data.path
    return target if path.is_symlink() and not named.exists() else named


def _same_data(name: str, data: Data, path: Path) -> Finding:
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
        _, digest = measured(path)
    except OSError as error:
        return Finding("differs", f"{name}: {path} cannot be read ({error.strerror}); name it with --{name}")
    if digest != data.sha256:
        return Finding("differs", f"{name}: sha256 of {path} is {digest}, the certificate has {data.sha256}")
    return Finding("agrees", f"{name}: {path}, sha256 {digest}")


def _same_cell(certificate: Certificate, places: Mapping[str, Path]) -> Iterator[Finding]:
    cell, predictions = certificate.cell, places["predictions"]
    try:
        here = cell_of(predictions) if predictions.is_file() else None
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


def _same_model(model: Model | None, here: Model | None, store: Path) -> Iterator[Finding]:
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
    code, here = certificate.code, code_here()
    if code == here:
        yield Finding("agrees", f"code: korealbert {code.version}, sha256 {code.sha256}")
    else:
        scored, now = (f"{each.version} ({each.sha256[:12]})" for each in (code, here))
        yield Finding("note", f"code: scored with korealbert {scored}, here {now}")
    given, host = certificate.host, host_facts()
    names = [name for name in sorted({*given, *host}) if given.get(name) != host.get(name)]
    other = [f"{name} {_of(given, name)}, here {_of(host, name)}" for name in names]
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
