"""Lock files of torch's compilations of DeepSpeed's extensions, which a killed one leaves behind."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from pathlib import Path

log = logging.getLogger(__name__)


def extension_directory(environment: Mapping[str, str]) -> Path:
    """Where torch compiles extensions of DeepSpeed: ``TORCH_EXTENSIONS_DIR``, or its place in the user's cache."""
    given = environment.get("TORCH_EXTENSIONS_DIR")
    cache = Path(environment.get("XDG_CACHE_HOME") or Path(environment.get("HOME", "/")) / ".cache")
    return Path(given) if given else cache / "torch_extensions"


def clear_stale_locks(directory: Path) -> list[Path]:
    """Remove and return the lock files that nobody holds, one or two folders deep; each is logged.

    torch keeps such a file open while it compiles; one that a killed compilation left would make the next wait for ever.
    """
    found = [path for pattern in ("*/lock", "*/*/lock") for path in directory.glob(pattern)]
    stale = [path for path in found if path.is_file() and not _is_open(path)]
    for path in stale:
        path.unlink(missing_ok=True)
        log.warning("removed %s: a compilation that was killed left it, and the next one would wait for it", path)
    return stale


def _is_open(path: Path) -> bool:
    wanted = path.stat()
    for descriptor in Path("/proc").glob("[0-9]*/fd/*"):
        try:
            seen = os.stat(descriptor)  # noqa: PTH116 - follows the link to the open file, deleted or not
        except OSError:  # Another user's process, or one that has just ended.
            continue
        if (seen.st_dev, seen.st_ino) == (wanted.st_dev, wanted.st_ino):
            return True
    return False
