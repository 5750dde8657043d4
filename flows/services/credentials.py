"""User and password of the server on this machine: made once, kept for their owner alone."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from korealbert.artifact.files import atomic_write

FILE = Path(".env")
"""In the project's root, where every ``prefect`` command reads it."""

CLIENT, SERVER = "PREFECT_API_AUTH_STRING", "PREFECT_SERVER_API_AUTH_STRING"


def new_credentials() -> dict[str, str]:
    """A user and a password that nobody can guess, for server and client."""
    return dict.fromkeys((SERVER, CLIENT), f"korealbert:{secrets.token_urlsafe(24)}")


def credentials(path: Path) -> dict[str, str]:
    """The server's user and password: of the environment, else of the file, else made now and written there for its owner."""
    if SERVER in os.environ:
        return {SERVER: os.environ[SERVER], CLIENT: os.environ.get(CLIENT, os.environ[SERVER])}
    lines = path.read_text("utf-8").splitlines() if path.exists() else []
    known = dict(line.split("=", 1) for line in lines if "=" in line and not line.lstrip().startswith("#"))
    if SERVER not in known:
        known |= new_credentials()
        before = os.umask(0o077)  # From its first byte on it is its owner's alone.
        try:
            atomic_write(path, "\n".join([*lines, *(f"{key}={known[key]}" for key in (SERVER, CLIENT)), ""]).encode())
        finally:
            os.umask(before)
    return {SERVER: known[SERVER], CLIENT: known.get(CLIENT, known[SERVER])}
