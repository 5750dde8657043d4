"""How long an input an encoder in Hugging Face format can read, known from its configuration alone."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

OFFSET_POSITIONS = (
    *("camembert", "data2vec-text", "longformer", "mpnet", "roberta", "roberta-prelayernorm"),
    *("xlm-roberta", "xlm-roberta-xl"),
)
"""Model types that count positions from the padding id on, so that part of the position table is never reached."""

_PAD_ID = 1
"""Theirs, where a configuration names none."""


def longest_input(config: Mapping[str, Any]) -> int | None:
    """Pieces for which there are positions; None where the configuration sets no bound."""
    positions = config.get("max_position_embeddings")
    if not isinstance(positions, int):
        return None
    if config.get("model_type") not in OFFSET_POSITIONS:
        return positions
    pad_id = config.get("pad_token_id", _PAD_ID)
    return positions - (pad_id or 0) - 1


def longest_input_of(directory: Path) -> int | None:
    """The same of the model in a directory. Raises ValueError where its ``config.json`` cannot be read."""
    file = directory / "config.json"
    if not file.is_file():
        raise ValueError(f"{directory}: has no config.json; give the directory of a Hugging Face checkpoint")
    try:
        config = json.loads(file.read_bytes())
    except ValueError as error:
        raise ValueError(f"{file}: not valid JSON: {error}") from None
    if not isinstance(config, dict):
        raise ValueError(f"{file}: expected a JSON object, found {type(config).__name__}")
    return longest_input(config)
