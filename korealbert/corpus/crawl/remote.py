"""Files of object stores and of the Hugging Face hub, fetched and sent through fsspec: one, a pattern, all of a directory.

Credentials are those that the protocol's package finds in its environment (``AWS_…``, ``HF_TOKEN``, …); none is in a recipe. No
message of such a package is passed on, for it may quote one.
"""

from __future__ import annotations

import errno
import json
import logging
import re
import shutil
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from korealbert.artifact import Progress, Runtime, markers
from korealbert.artifact.files import files_of, known_digested, sync_file, write_digested

SCHEMES = ("hf", "s3", "gs", "gcs", "az", "abfs", "memory")
"""Protocols of fsspec that may be named; those that reach into this machine or wrap others may not."""
_PACKAGES = {"hf": "huggingface_hub", "s3": "s3fs", "gs": "gcsfs", "gcs": "gcsfs", "az": "adlfs", "abfs": "adlfs"}
_EDITION = ("ETag", "etag", "md5Hash", "blob_id", "sha256", "LastModified", "mtime", "last_commit", "created")
"""Fields of the protocols' listings that change with a file's content, in addition to its size."""
_NO_CREDENTIALS = re.compile("Credential|Unauthorized|Authentication|Profile|Gated")
"""In the names of packages' own errors that no retry mends (botocore's NoCredentialsError, google-auth's, azure's)."""
_ABSENT = re.compile("NotFound|NoSuch")
MAX_WAIT_SECONDS = 300.0
BLOCK_BYTES = 1 << 20

log = logging.getLogger(__name__)


class FetchError(RuntimeError):
    """A file that could not be fetched, or is not the requested one."""


class Interrupted(ConnectionError):
    """A transfer that broke off, or a server with a temporary error; another try may continue."""


def fetch_remote(
    url: str, out_dir: Path, runtime: Runtime, *, max_bytes: int, retries: int, backoff_seconds: float, name: str = ""
) -> list[Path]:
    """Copy the files of ``url`` to ``files/`` in ``out_dir``; a later try keeps finished ones while all are still as they were.

    Names are those below the part of ``url`` that has no ``*``, with ``_`` for ``/``. Raises FetchError and Interrupted.
    """
    system = _system(url)
    listed = _tried(url, retries, backoff_seconds, lambda: _listed(system, url))
    names = _names(url, list(listed), name)
    size = sum(facts["size"] or 0 for facts in listed.values())
    if size > max_bytes:
        raise FetchError(f"{url}: {size:,} bytes, more than max_bytes = {max_bytes:,}")
    note, directory = out_dir / ".listing.json", out_dir / "files"
    begun = known_digested(note)
    if begun != {"files": listed}:
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir()
        for index in range(len((begun or {"files": ()})["files"])):
            markers.marker(out_dir, "fetch", index).unlink(missing_ok=True)
        write_digested(note, {"files": listed})
    came = 0
    for index, (path, facts) in enumerate(listed.items()):
        target, done = directory / names[path], markers.marker(out_dir, "fetch", index)
        if markers.fault(done):
            _tried(url, retries, backoff_seconds, partial(_copy, system, path, target, max_bytes - came))
            found = target.stat().st_size
            if facts["size"] not in (None, found):
                raise FetchError(f"{url}, {path}: {found:,} bytes came, {facts['size']:,} were listed; run again")
            markers.write(done, {}, markers.facts_of([target], out_dir))
        came += target.stat().st_size
        runtime.report(Progress(came, size or None, "bytes"))
    if _tried(url, retries, backoff_seconds, lambda: _listed(system, url)) != listed:
        shutil.rmtree(directory)
        note.unlink()
        raise FetchError(f"{url}: files changed while they were fetched; run again when nothing writes them")
    note.unlink()
    return [directory / one for one in names.values()]


def send(directory: Path, url: str) -> None:
    """Copy the files of a directory to ``url``, which must hold none but those of an earlier try. Raises FetchError."""
    system = _system(url)
    base = str(system._strip_protocol(url)).rstrip("/")
    files = {file.relative_to(directory).as_posix(): file for file in files_of(directory)}

    def others() -> list[str]:
        return (
            [one for one in system.find(base) if one.removeprefix(base).strip("/") not in files] if system.exists(base) else []
        )

    if found := _tried(url, 0, 0, others):
        raise FetchError(f"{url} is there and holds other files ({found[0]}); name another directory")
    for name, file in files.items():
        _tried(url, 0, 0, partial(system.put_file, str(file), f"{base}/{name}"))


def _system(url: str) -> Any:
    scheme = url.partition("://")[0]
    package = _PACKAGES.get(scheme, "fsspec")
    try:
        import fsspec  # noqa: PLC0415 (heavy, and wanted for such addresses alone)

        return fsspec.filesystem(scheme, **({} if scheme == "memory" else {"use_listings_cache": False}))
    except ImportError:
        raise FetchError(f"{url}: {scheme}:// needs {package}, which is not installed: pip install {package}") from None
    except Exception as error:
        raise FetchError(f"{url}: {package} cannot be set up ({type(error).__name__}); see to its credentials") from None


def _listed(system: Any, url: str) -> dict[str, dict[str, Any]]:
    """Path → size and edition of every file, by path."""
    system.invalidate_cache()
    path = system._strip_protocol(url)
    if "*" in path:
        found = system.glob(path, detail=True)
    else:  # All below a directory but hidden files, as a repository of the hub has: .gitattributes.
        everything = system.find(path, detail=True) or {path: system.info(path)}
        below = path.strip("/")
        hidden = {one for one in everything if "/." in one.strip("/").removeprefix(below)}
        found = {one: facts for one, facts in everything.items() if one not in hidden}
    files = {one: facts for one, facts in sorted(found.items()) if facts["type"] == "file"}
    if not files:
        raise FileNotFoundError
    return {
        one: {"size": facts.get("size"), "edition": {key: str(facts[key]) for key in _EDITION if facts.get(key) is not None}}
        for one, facts in files.items()
    }


def _names(url: str, paths: list[str], name: str) -> dict[str, str]:
    """Path → name of its file here."""
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
    """Whether a file of this name stays in an artifact, whose hidden files are scratch."""
    return name.isprintable() and name[:1] not in ("", ".")


def _copy(system: Any, path: str, target: Path, most: int) -> None:
    part = target.with_name(f".{target.name}.part")
    size = 0
    with system.open(path, "rb") as source, part.open("wb") as sink:
        while block := source.read(BLOCK_BYTES):
            size += len(block)
            if size > most:
                raise FetchError(f"{path}: more than max_bytes in all")
            sink.write(block)
    sync_file(part)
    part.replace(target)


def _tried(url: str, retries: int, backoff_seconds: float, work: Callable[[], Any]) -> Any:
    """Return the result of ``work``, which is tried again after errors that may pass."""
    package = _PACKAGES.get(url.partition("://")[0], "fsspec")
    for attempt in range(retries + 1):
        try:
            return work()
        except (FetchError, AssertionError):
            raise
        except Exception as error:
            if getattr(error, "errno", None) in (errno.ENOSPC, errno.EDQUOT):
                raise
            problem = type(error).__name__  # Its text may quote a signed address or a header.
            if final := _final(error, problem, url, package):
                raise FetchError(f"{url}: {final}") from None
        if attempt < retries:
            wait = min(MAX_WAIT_SECONDS, backoff_seconds * 2**attempt)
            log.warning("%s: %s; trying again in %.0f s", url, problem, wait)
            time.sleep(wait)
    raise Interrupted(f"{url}: {problem}; {retries + 1} tries brought nothing; files that came before are kept")


def _final(error: Exception, problem: str, url: str, package: str) -> str:
    """Return the message for an error that no further try mends; empty for others."""
    if isinstance(error, PermissionError) or _NO_CREDENTIALS.search(problem):
        return f"access is denied ({problem}); see to the credentials that {package} finds"
    if isinstance(error, FileNotFoundError) or _ABSENT.search(problem):
        private = "; if it is private, set HF_TOKEN" if url.startswith("hf:") else ""
        return f"there is no such file, or none that the pattern matches{private}"
    if isinstance(error, (ValueError, TypeError, NotImplementedError)) and not isinstance(
        error, (json.JSONDecodeError, UnicodeError)
    ):
        return f"{package} cannot read this address ({problem}); correct it"
    return ""
