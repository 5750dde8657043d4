"""Fetches and sends files of object stores and of the Hugging Face hub with fsspec.

The package of each protocol takes its credentials from the environment (``AWS_…``, ``HF_TOKEN``, …), never from a recipe. Its
messages are not shown, because they may quote credentials.
"""

from __future__ import annotations

import errno
import json
import logging
import os
import re
import shutil
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from korealbert.artifact import Progress, Runtime, markers
from korealbert.artifact.files import files_of, known_digested, sync_file, write_digested
from korealbert.documents.containers import is_hidden

SCHEMES = ("hf", "s3", "gs", "gcs", "az", "abfs", "memory")
"""Allowed protocols of fsspec: none that reads files of this machine or wraps another protocol."""
_PACKAGES = {"hf": "huggingface_hub", "s3": "s3fs", "gs": "gcsfs", "gcs": "gcsfs", "az": "adlfs", "abfs": "adlfs"}
_EDITION_FIELDS = ("ETag", "etag", "md5Hash", "blob_id", "sha256", "LastModified", "mtime", "last_commit", "created")
"""Fields of a listing that, like the size, change with the content of a file."""
_CREDENTIAL_ERRORS = re.compile("Credential|Unauthorized|Authentication|Profile|Gated")
"""Part of the names of errors that a retry cannot fix (of botocore, google-auth, azure)."""
_REFUSED_STATUSES = (401, 403)
"""With an invalid token huggingface_hub raises an error like any other, which has the answer."""
_ABSENT_ERRORS = re.compile("NotFound|NoSuch")
_ABSENT_PARTS = {"RepositoryNotFound": "repository", "RevisionNotFound": "revision"}
"""Parts of the names of errors of huggingface_hub, of which it makes a FileNotFoundError → what is absent."""
_HUB_KINDS = ("hf://datasets/", "hf://spaces/", "hf://buckets/")
"""Addresses of the hub without one of these are those of models."""
_HOSTS = {
    "hf": ("HF_ENDPOINT", "huggingface.co"),
    "s3": ("AWS_ENDPOINT_URL", "s3.amazonaws.com"),
    **dict.fromkeys(("gs", "gcs"), ("STORAGE_EMULATOR_HOST", "storage.googleapis.com")),
    **dict.fromkeys(("az", "abfs"), ("AZURE_STORAGE_CONNECTION_STRING", "blob.core.windows.net")),
}
"""Variable that names another server, and the usual server, for messages."""
_UNREACHED_ERRORS = re.compile("Connect(?!ionReset|ionAborted)|Resol|gaierror|Timeout|DNS|Unreachable")
"""Part of the names of errors before a server has answered (of httpx, urllib3, aiohttp, botocore)."""
MAX_WAIT_SECONDS = 300.0
MAX_UNREACHED_SECONDS = 10.0
"""Retries go on for so long while no server has answered at all, as without a network or at a misspelt address."""
BLOCK_BYTES = 1 << 20

log = logging.getLogger(__name__)


class FetchError(RuntimeError):
    """A file cannot be fetched, or is not the requested one."""


class Interrupted(ConnectionError):
    """A transfer broke off, or the server has a temporary error; another try may continue."""


def fetch_remote(
    url: str, out_dir: Path, runtime: Runtime, *, max_bytes: int, retries: int, backoff_seconds: float, name: str = ""
) -> list[Path]:
    """Copy the files of ``url`` to ``files/`` in ``out_dir``; a later try continues if no file has changed since.

    Names are relative to the part of ``url`` without ``*``, with ``_`` for ``/``. Raises FetchError and Interrupted.
    """
    filesystem = _filesystem(url)
    listed = _with_retries(url, retries, backoff_seconds, lambda: _listed(filesystem, url), answered=False)
    names = _names(url, list(listed), name)
    size = sum(facts["size"] or 0 for facts in listed.values())
    if size > max_bytes:
        raise FetchError(f"{url}: {size:,} bytes, more than max_bytes = {max_bytes:,}")
    note, directory = out_dir / ".listing.json", out_dir / "files"
    previous = known_digested(note)
    if previous != {"files": listed}:
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir()
        for index in range(len((previous or {"files": ()})["files"])):
            markers.marker(out_dir, "fetch", index).unlink(missing_ok=True)
        write_digested(note, {"files": listed})
    received = 0
    for index, (path, facts) in enumerate(listed.items()):
        target, done = directory / names[path], markers.marker(out_dir, "fetch", index)
        if markers.fault(done):
            _with_retries(url, retries, backoff_seconds, partial(_copy, filesystem, path, target, max_bytes - received))
            found = target.stat().st_size
            if facts["size"] not in (None, found):
                raise FetchError(f"{url}, {path}: {found:,} bytes came, {facts['size']:,} were listed; run again")
            markers.write(done, {}, markers.facts_of([target], out_dir))
        received += target.stat().st_size
        runtime.report(Progress(received, size or None, "bytes"))
    if _with_retries(url, retries, backoff_seconds, lambda: _listed(filesystem, url)) != listed:
        shutil.rmtree(directory)
        note.unlink()
        raise FetchError(f"{url}: files changed while they were fetched; run again when nothing writes them")
    note.unlink()
    return [directory / one for one in names.values()]


def send(directory: Path, url: str) -> None:
    """Copy the files of a directory to ``url``, where there may only be files of an earlier try. Raises FetchError."""
    filesystem = _filesystem(url)
    base = str(filesystem._strip_protocol(url)).rstrip("/")
    files = {file.relative_to(directory).as_posix(): file for file in files_of(directory)}

    def other_files() -> list[str]:
        found = filesystem.find(base) if filesystem.exists(base) else []
        return [one for one in found if one.removeprefix(base).strip("/") not in files]

    if found := _with_retries(url, 0, 0, other_files):
        raise FetchError(f"{url} is there and holds other files ({found[0]}); name another directory")
    for name, file in files.items():
        _with_retries(url, 0, 0, partial(filesystem.put_file, str(file), f"{base}/{name}"))


def _filesystem(url: str) -> Any:
    scheme = url.partition("://")[0]
    package = _PACKAGES.get(scheme, "fsspec")
    try:
        import fsspec  # noqa: PLC0415 (heavy, and wanted for such addresses alone)

        return fsspec.filesystem(scheme, **({} if scheme == "memory" else {"use_listings_cache": False}))
    except ImportError:
        raise FetchError(f"{url}: {scheme}:// needs {package}, which is not installed: pip install {package}") from None
    except Exception as error:
        raise FetchError(f"{url}: {package} cannot be set up ({type(error).__name__}); see to its credentials") from None


def _listed(filesystem: Any, url: str) -> dict[str, dict[str, Any]]:
    """Return size and edition of every file, sorted by path."""
    filesystem.invalidate_cache()
    path = filesystem._strip_protocol(url)
    if "*" in path:
        everything = filesystem.glob(path, detail=True)
    else:
        everything = filesystem.find(path, detail=True) or {path: filesystem.info(path)}
    below = path.strip("/")
    below = below.partition("*")[0].rpartition("/")[0] if "*" in below else below
    # Without hidden files, such as .gitattributes, unless a part of the pattern begins with a dot.
    hidden = {one for one in everything if is_hidden(one.strip("/").removeprefix(below)) and not is_hidden(path.strip("/"))}
    found = {one: facts for one, facts in everything.items() if one not in hidden}
    files = {one: facts for one, facts in sorted(found.items()) if facts["type"] == "file"}
    if not files:
        raise FileNotFoundError
    return {
        one: {
            "size": facts.get("size"),
            "edition": {key: str(facts[key]) for key in _EDITION_FIELDS if facts.get(key) is not None},
        }
        for one, facts in files.items()
    }


def _names(url: str, paths: list[str], name: str) -> dict[str, str]:
    """Return the local name of each file by path. Raises FetchError."""
    if name and len(paths) > 1:
        raise FetchError(f"{url}: name is for one file, and there are {len(paths)}; remove it")
    if len(paths) == 1:
        only = name or paths[0].rpartition("/")[2]
        if not _usable(only):
            raise FetchError(f"{url}: the file's name is hidden or no text, and would be lost here; set name")
        return {paths[0]: only}
    fixed = url.partition("://")[2].partition("*")[0]
    above = fixed.rpartition("/")[0] if "*" in url else fixed.rstrip("/")
    names = {path: path.strip("/").removeprefix(above.strip("/")).strip("/").replace("/", "_") for path in paths}
    if len(set(names.values())) < len(names) or not all(map(_usable, names.values())):
        raise FetchError(f"{url}: two files have one name when '/' is '_', or one is hidden; fetch fewer of them by a pattern")
    return names


def _usable(name: str) -> bool:
    """Return whether an artifact keeps a file of this name; hidden files are temporary."""
    return name.isprintable() and name[:1] not in ("", ".")


def _copy(filesystem: Any, path: str, target: Path, max_bytes: int) -> None:
    part = target.with_name(f".{target.name}.part")
    size = 0
    with filesystem.open(path, "rb") as source, part.open("wb") as sink:
        while block := source.read(BLOCK_BYTES):
            size += len(block)
            if size > max_bytes:
                raise FetchError(f"{path}: more than max_bytes in all")
            sink.write(block)
    sync_file(part)
    part.replace(target)


def refuse_unreached(url: str, server: str, problem: str, tries: int, seconds: float) -> None:
    """Raise FetchError if no server has answered for ``seconds``, with the wait before the next try, that are too many."""
    if seconds > MAX_UNREACHED_SECONDS:
        times = f"{tries} tr{'y' if tries == 1 else 'ies'}"
        remedy = "check the address, and this machine's network or proxy; or fetch it elsewhere, and name the files in paths"
        raise FetchError(f"{url}: {server} was not reached in {times} ({problem}): {remedy}")


def _server(url: str) -> str:
    variable, usual = _HOSTS.get(url.partition("://")[0], ("", "the store"))
    return f"{usual} (or what {variable} names)" if variable and os.environ.get(variable) else usual


def _with_retries(url: str, retries: int, backoff_seconds: float, work: Callable[[], Any], *, answered: bool = True) -> Any:
    """Return the result of ``work``, which is retried after temporary errors.

    ``answered``: whether the server has answered before; if not, it is tried only for ``MAX_UNREACHED_SECONDS``.
    """
    package, begin = _PACKAGES.get(url.partition("://")[0], "fsspec"), time.monotonic()
    for attempt in range(retries + 1):
        try:
            return work()
        except (FetchError, AssertionError):
            raise
        except Exception as error:
            if getattr(error, "errno", None) in (errno.ENOSPC, errno.EDQUOT):
                raise
            problem = type(error).__name__  # the message may quote a signed address or a header
            if final := _final_message(error, problem, url, package):
                raise FetchError(f"{url}: {final}") from None
            answered = answered or _UNREACHED_ERRORS.search(problem) is None
        if attempt < retries:
            wait = min(MAX_WAIT_SECONDS, backoff_seconds * 2**attempt)
            if not answered:
                refuse_unreached(url, _server(url), problem, attempt + 1, time.monotonic() - begin + wait)
            log.warning("%s: %s; trying again in %.0f s", url, problem, wait)
            time.sleep(wait)
    raise Interrupted(f"{url}: {problem}; {retries + 1} tries brought nothing; files that came before are kept")


def _final_message(error: Exception, problem: str, url: str, package: str) -> str:
    """Return the message for an error that a retry cannot fix; empty for other errors."""
    causes = f"{problem}, {type(error.__cause__).__name__}"
    refused = getattr(getattr(error, "response", None), "status_code", None) in _REFUSED_STATUSES
    if refused or isinstance(error, PermissionError) or _CREDENTIAL_ERRORS.search(causes):
        return f"access is denied ({problem}); check the credentials that {package} finds"
    if isinstance(error, FileNotFoundError) or _ABSENT_ERRORS.search(problem):
        private = "; if it is private, set HF_TOKEN" if url.startswith("hf:") else ""
        if url.startswith("hf:") and not url.startswith(_HUB_KINDS):
            private = f"; this is the address of a model: a dataset is hf://datasets/{url.removeprefix('hf://')}"
        absent = next((part for name, part in _ABSENT_PARTS.items() if name in causes), None)
        return f"there is no such {absent or 'file, or none that the pattern matches'}{private}"
    if isinstance(error, (ValueError, TypeError, NotImplementedError)) and not isinstance(
        error, (json.JSONDecodeError, UnicodeError)
    ):
        return f"{package} cannot read this address ({problem}); correct it"
    return ""
