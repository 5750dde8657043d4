"""The files that models and tokenizers consist of in Hugging Face's format."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path

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
"""``morphemes.json`` is this project's: how text is cut before the tokenizer sees it."""


def copy_files(directory: Path, out_dir: Path, patterns: Iterable[str]) -> None:
    """Copy those files of a directory that match any of the patterns, and nothing below it."""
    for path in sorted({path for pattern in patterns for path in directory.glob(pattern)}):
        shutil.copyfile(path, out_dir / path.name)
