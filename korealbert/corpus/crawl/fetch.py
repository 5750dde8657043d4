"""The fetch stage: downloads and verifies one dump by URL, or copies a local file.

Files of object stores and of the Hugging Face hub (``s3://…``, ``hf://datasets/…``) are fetched with fsspec, see ``remote``.

Out: ``files/NAME``. An interrupted download continues with a Range request if ETag or date (``If-Range``) show that the file
has not changed; otherwise it starts again.
"""

from __future__ import annotations

import errno
import hashlib
import logging
import os
import re
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import IO, Annotated, Any
from urllib.parse import unquote, urljoin, urlsplit

from pydantic import Field, ValidationInfo, field_validator, model_validator

from korealbert.artifact import Deployment, InputPath, Inputs, Progress, Runtime, Spec, Stage, Statistics, markers
from korealbert.artifact.files import atomic_write, digested_json, known_digested, sync_file
from korealbert.artifact.spec import PRIVATE_HOSTS
from korealbert.corpus.crawl.client import Answer, Client, NoAnswer, PrivateAddress, ascii_url
from korealbert.corpus.crawl.remote import (
    BLOCK_BYTES,
    MAX_WAIT_SECONDS,
    SCHEMES,
    FetchError,
    Interrupted,
    fetch_remote,
    refuse_unreached,
)

_MAX_REDIRECTS = 10
_BYTES_BETWEEN_REPORTS = 16 << 20
_TRANSIENT_STATUSES = frozenset({408, 425, 429, 500, 502, 503, 504})
"""HTTP statuses after which another try may succeed."""
_DISK_FULL_ERRNOS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_HEX_CHARACTERS = {"md5": 32, "sha1": 40, "sha256": 64, "sha512": 128}

log = logging.getLogger(__name__)


class FetchSpec(Spec):
    """One file of raw data, or the files of a directory of an object store."""

    url: str = Field(default="", pattern=rf"^((https?|{'|'.join(SCHEMES)})://.+)?$")
    """Address of the file. With ``hf://datasets/OWNER/NAME``, ``s3://``, ``gs://`` or ``az://`` it may be a directory (all
    files below it except hidden ones), or a pattern (``s3://bucket/web/*.parquet``). These need the package huggingface_hub,
    s3fs, gcsfs or adlfs, which takes the credentials from the environment."""
    path: InputPath | None = None
    """A local file instead of the URL; it is copied and verified like a download."""
    name: str = Field(default="", pattern=r"^[^/\x00]*$")
    """Name of the file, whose suffix determines how it is read. By default the last part of the URL or path."""
    checksum: str = ""
    """``sha256:…``, ``sha512:…``, ``sha1:…`` or ``md5:…`` of the publisher. Without one, the received file is pinned."""
    snapshot: str = "1"
    """Name of the snapshot. Another name fetches again, because the file at a URL may change while the recipe does not."""
    max_bytes: int = Field(default=1 << 40, ge=1)
    """Larger files are refused."""
    retries: int = Field(default=8, ge=0)
    """Retries in a row that may bring no new bytes."""
    backoff_seconds: float = Field(default=2.0, ge=0)
    """Wait before the first retry; it doubles with each further one, up to five minutes."""
    timeout_seconds: float = Field(default=60.0, gt=0)
    """Time without a byte after which a transfer is interrupted. For http:// and https:// alone."""
    private_hosts: Annotated[tuple[str, ...], PRIVATE_HOSTS] = ()
    """Hosts that may have a private address; all others, including targets of redirects, must have a public one. For
    http:// and https:// alone."""

    @field_validator("url", mode="before")
    @classmethod
    def _is_remote(cls, value: object) -> object:
        scheme, mark, _ = value.partition("://") if isinstance(value, str) else ("", "", "")
        if mark and scheme.lower() == "file":
            raise ValueError('file:// is a file of this machine: set path = "…" in place of url')
        if mark and scheme not in ("http", "https", *SCHEMES):
            raise ValueError(
                f"{scheme}:// is not fetched, but http, https, {', '.join(SCHEMES)}: fetch it by hand, and set path"
            )
        return value

    @field_validator("url")
    @classmethod
    def _without_credentials(cls, value: str, info: ValidationInfo) -> str:
        scheme = value.partition("://")[0]
        if scheme in SCHEMES and (info.context or {}).get("within"):
            remedy = "fetch the files by hand, and name them as paths"
            raise ValueError(
                f"{scheme}:// is fetched with your credentials, which no recipe under a data root may use; {remedy}"
            )
        return value

    @field_validator("checksum")
    @classmethod
    def _is_checksum(cls, value: str) -> str:
        kind, _, digits = value.partition(":")
        if value and not (kind in _HEX_CHARACTERS and re.fullmatch("[0-9a-fA-F]{%d}" % _HEX_CHARACTERS[kind], digits)):  # noqa: UP031
            raise ValueError(f"expected one of {', '.join(_HEX_CHARACTERS)}, a colon and its hex digits")
        return value.lower()

    @model_validator(mode="after")
    def _one_place(self) -> FetchSpec:
        if bool(self.url) == (self.path is not None):
            raise ValueError("set url or path, one of the two")
        if "@" in urlsplit(self.url).netloc:
            raise ValueError(
                "a password in a URL would be written into every manifest; fetch the file by hand, and name it as path"
            )
        if self.remote and self.checksum:
            raise ValueError("checksum is for one file by http:// or https://, or a path; remove it")
        for name in ("timeout_seconds", "private_hosts"):
            is_set = getattr(self, name) != type(self).model_fields[name].default
            if is_set and (self.remote or self.path is not None):
                raise ValueError(f"{name} is for http:// and https:// alone; remove it")
        if self.url and not self.remote:
            ascii_url(self.url)  # raises ValueError for a host or port that is none
        if self.remote and not self.name:
            return self
        if self.file_name.startswith(".") or not self.file_name.isprintable() or not self.file_name:
            raise ValueError("the address has no usable file name: set name")
        return self

    @property
    def remote(self) -> bool:
        """Whether fsspec fetches it."""
        return self.url.partition("://")[0] in SCHEMES

    @property
    def file_name(self) -> str:
        """Name of the file in the artifact."""
        last = self.path.path.name if self.path else unquote(urlsplit(self.url).path.rpartition("/")[2])
        return self.name or last.replace("/", "_")


class FetchStats(Statistics):
    """Size of the fetched files."""

    bytes: int
    files: int


def run(spec: FetchSpec, inputs: Inputs, out_dir: Path, runtime: Runtime) -> FetchStats:
    """Fetch one file, or several of an object store.

    Raises FetchError if it cannot be fetched or has another checksum, and Interrupted if the server has a temporary error.
    """
    if spec.remote:
        (out_dir / markers.DONE).mkdir(exist_ok=True)
        limits = {"max_bytes": spec.max_bytes, "retries": spec.retries}
        files = fetch_remote(spec.url, out_dir, runtime, **limits, backoff_seconds=spec.backoff_seconds, name=spec.name)
        return FetchStats(bytes=sum(file.stat().st_size for file in files), files=len(files))
    target = out_dir / "files" / spec.file_name
    for directory in (target.parent, out_dir / markers.DONE):
        directory.mkdir(exist_ok=True)
    part, done = out_dir / ".download", markers.marker(out_dir, "fetch", 0)
    if markers.fault(done):
        if spec.path is not None:
            if spec.path.path.is_dir():
                raise FetchError(f"{spec.path}: path names a directory; name one file, or name it in paths of [extract.NAME]")
            if (size := spec.path.path.stat().st_size) > spec.max_bytes:
                raise FetchError(f"{spec.path}: {size:,} bytes, more than max_bytes = {spec.max_bytes:,}; raise it")
            shutil.copyfile(spec.path, part)
        else:
            allowed = spec.private_hosts.__contains__
            client = Client(user_agent="korealbert/0.1", may_be_private=allowed, timeout_seconds=spec.timeout_seconds)
            with closing(client):
                _download(spec, part, client, runtime)
        _verify(spec, part)
        sync_file(part)
        part.replace(target)
        markers.write(done, {}, markers.facts_of([target], out_dir))
    return FetchStats(bytes=target.stat().st_size, files=1)


def _verify(spec: FetchSpec, part: Path) -> None:
    if not spec.checksum:
        return
    kind, _, expected = spec.checksum.partition(":")
    with part.open("rb") as handle:
        found = hashlib.file_digest(handle, kind).hexdigest()
    if found != expected:
        size = part.stat().st_size
        _forget(part)
        raise FetchError(
            f"{spec.url or spec.path}: {kind} is {found} over {size:,} bytes, expected {expected}; the file was removed: fetch"
            " it again, or correct the checksum if the publisher has another edition"
        )


def _note(part: Path) -> Path:
    """Return the path of the note on which edition of the file the bytes in ``part`` belong to."""
    return part.with_name(".download.json")


def _size(part: Path) -> int:
    return part.stat().st_size if part.exists() else 0


def _download(spec: FetchSpec, part: Path, client: Client, runtime: Runtime) -> None:
    failed_tries, begin = 0, time.monotonic()
    answered = _size(part) > 0
    while True:
        before = _size(part)
        try:
            if _transfer(spec, part, client, runtime):
                return
            problem = "it broke off"
        except OSError as error:
            _raise_final(spec, error, part)
            problem = f"{type(error).__name__}: {error}"
            unreached = isinstance(error, NoAnswer) and error.reason in ("unreachable", "timeout")
        else:
            unreached = False
        answered = answered or not unreached
        failed_tries = 0 if _size(part) > before else failed_tries + 1
        if failed_tries > spec.retries:
            raise Interrupted(
                f"{spec.url}: {problem}; {failed_tries} tries in a row brought no bytes; those received before are kept"
            )
        wait = min(MAX_WAIT_SECONDS, spec.backoff_seconds * 2 ** max(0, failed_tries - 1))
        if not answered:
            refuse_unreached(
                spec.url, urlsplit(spec.url).netloc.rpartition("@")[2], problem, failed_tries, time.monotonic() - begin + wait
            )
        log.warning("%s: %s; trying again in %.0f s", spec.url, problem, wait)
        time.sleep(wait)


def _raise_final(spec: FetchSpec, error: OSError, part: Path) -> None:
    """Raise FetchError for an error that a retry cannot fix."""
    if isinstance(error, PrivateAddress):
        raise FetchError(f"{spec.url}: {error}; if that is meant, name the host in private_hosts") from None
    if isinstance(error, NoAnswer) and error.reason == "bad_certificate":
        raise FetchError(f"{spec.url}: {error}; fetch it by hand, and name it as path") from None
    if error.errno in _DISK_FULL_ERRNOS:
        raise FetchError(
            f"{spec.url}: {error.strerror} after {_size(part):,} bytes, which are kept: free disk space and run it again"
        ) from None


@contextmanager
def _answer(spec: FetchSpec, client: Client, headers: list[tuple[str, str]]) -> Iterator[Answer]:
    """Follow redirects, but not to ``ftp:`` or from HTTPS to plain HTTP."""
    url = ascii_url(spec.url)
    for _ in range(_MAX_REDIRECTS + 1):
        with client.get(url, headers) as answer:
            if not answer.location:
                yield answer
                return
            location = answer.location
        try:
            target = ascii_url(urljoin(url, location))
        except ValueError as error:
            raise FetchError(f"{url}: redirects to {location}, which is no address: {error}") from None
        if not target.startswith("https://" if url.startswith("https://") else ("http://", "https://")):
            raise FetchError(f"{url}: redirects to {target}, which is less secure")
        url = target
    raise FetchError(f"{spec.url}: more than {_MAX_REDIRECTS} redirects in a row")


def _transfer(spec: FetchSpec, part: Path, client: Client, runtime: Runtime) -> bool:
    """Fetch the missing part; return whether the file is now complete."""
    edition, digest = _read_note(part)
    kept_bytes = edition["size"] if edition else 0
    headers = [("Accept-Encoding", "identity")]
    if kept_bytes:
        headers += [("Range", f"bytes={kept_bytes}-"), ("If-Range", edition["validator"])]
    with _answer(spec, client, headers) as answer:
        if answer.status == 416 and kept_bytes:
            if edition.get("total") == kept_bytes:
                return True
            _forget(part)  # the file shrank
            return False
        if not 200 <= answer.status < 300:
            problem = f"{spec.url}: the server answers {answer.status}"
            raise Interrupted(problem) if answer.status in _TRANSIENT_STATUSES else FetchError(problem)
        start, total = _extent(answer, kept_bytes)
        if start is None:
            _forget(part)  # another part than the requested one
            return False
        if total is not None and total > spec.max_bytes:
            raise FetchError(f"{spec.url}: {total:,} bytes, more than max_bytes = {spec.max_bytes:,}")
        validator = _validator(answer)
        if start and ((validator or edition["validator"]), total) != (edition["validator"], edition["total"] or total):
            _forget(part)  # the server supports Range, but not If-Range
            return False
        if start == 0:
            # First, so that a killed run never leaves bytes of one edition with a note of another.
            _forget(part)
            edition, digest = {"validator": validator, "total": total}, hashlib.sha256()
        with part.open("r+b" if start else "wb") as handle:
            handle.seek(start)
            handle.truncate()
            received = _Part(part, handle, edition, digest, start)
            try:
                return _copy(spec, answer, received, total, runtime)
            finally:
                received.note()


def _validator(answer: Answer) -> str:
    """Return the value that identifies an edition of the file; If-Range requires a strong one."""
    etag = answer.header("ETag")
    return etag if etag and not etag.startswith("W/") else answer.header("Last-Modified")


def _extent(answer: Answer, kept_bytes: int) -> tuple[int | None, int | None]:
    """Return the offset of an answer's bytes in the file, and the file's size if known; (None, None) for another part."""
    length = answer.header("Content-Length")
    if answer.status != 206:
        return 0, int(length) if length and length.isdecimal() else None
    found = re.fullmatch(r"bytes (\d+)-(\d+)/(\d+|\*)", answer.header("Content-Range"))
    if not found or int(found[1]) != kept_bytes:
        return None, None
    return kept_bytes, int(found[2]) + 1 if found[3] == "*" else int(found[3])


class _Part:
    """Writes the received part of a file, and a note of its edition, size and SHA-256, after which the next run continues."""

    def __init__(self, path: Path, handle: IO[bytes], edition: Mapping[str, Any], digest: hashlib._Hash, size: int) -> None:
        self._path, self._handle, self._edition, self._digest, self.size = path, handle, edition, digest, size

    def append(self, block: bytes) -> None:
        """Write the next bytes."""
        self._handle.write(block)
        self._digest.update(block)
        self.size += len(block)

    def note(self) -> None:
        """Write the note, unless there is no validator to recognise the edition by."""
        self._handle.flush()
        os.fsync(self._handle.fileno())
        if self._edition["validator"]:
            known = {**self._edition, "size": self.size, "sha256": self._digest.hexdigest()}
            atomic_write(_note(self._path), digested_json(known))


def _copy(spec: FetchSpec, answer: Answer, received: _Part, total: int | None, runtime: Runtime) -> bool:
    reported = received.size
    for block in answer.blocks:
        received.append(block)
        if received.size > spec.max_bytes:
            raise FetchError(f"{spec.url}: more than max_bytes = {spec.max_bytes:,}")
        if received.size - reported >= _BYTES_BETWEEN_REPORTS:
            reported = received.size
            received.note()
            runtime.report(Progress(received.size, total, "bytes"))
    runtime.report(Progress(received.size, total or received.size, "bytes"))
    if total is not None and received.size != total:
        raise Interrupted(f"{received.size:,} of {total:,} bytes came")
    return True


def _read_note(part: Path) -> tuple[dict[str, Any], hashlib._Hash]:
    """Return the note, and the hash of the part; no note if the part has changed on the disk."""
    note, digest = known_digested(_note(part)) or {}, hashlib.sha256()
    if note and part.exists():
        left = note["size"]
        with part.open("rb") as handle:
            while block := handle.read(min(left, BLOCK_BYTES)):
                digest.update(block)
                left -= len(block)
        if left == 0 and digest.hexdigest() == note["sha256"]:
            return note, digest
        log.warning("%s: it has changed on the disk; it is fetched from the beginning", part)
    return {}, hashlib.sha256()


def _forget(part: Path) -> None:
    part.unlink(missing_ok=True)
    _note(part).unlink(missing_ok=True)


STAGE = Stage(
    "fetch",
    version=1,
    spec=FetchSpec,
    run=run,
    table="fetch.SOURCE",
    deployment=Deployment("Dumps by URL", queue="crawl", recipe="korealbert-web"),
)
BENCHMARK = replace(STAGE, label="benchmark", table="", deployment=None)
"""Fetches the files of benchmarks."""
