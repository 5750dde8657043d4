"""Fill [MASK] with an exported model's predictions."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from tokenizers.decoders import ByteLevel
from transformers import AutoModelForMaskedLM, AutoTokenizer

from korealbert.huggingface.directory import longest_input
from korealbert.huggingface.loading import quiet_loading
from korealbert.vocab.morphemes import for_directory

Candidates = list[tuple[str, float]]
"""Pieces with their probabilities, the most probable first."""


def fill(model_dir: Path, texts: Sequence[str], top: int) -> list[list[Candidates]]:
    """Return, for every text, the ``top`` candidates of each of its masks in order.

    Raises ValueError if ``model_dir`` is not an exported model, or if a text has no mask or is too long for the model.
    """
    for needed in ("config.json", "tokenizer_config.json"):
        if not (model_dir / needed).is_file():
            raise ValueError(f"{model_dir}: no exported model here ({needed} is missing); name an artifact of the stage export")
    try:
        with quiet_loading():
            tokenizer = for_directory(AutoTokenizer.from_pretrained(model_dir, local_files_only=True), model_dir)
            model = AutoModelForMaskedLM.from_pretrained(model_dir, local_files_only=True, use_safetensors=True).eval()
    except SafetensorError as error:
        raise ValueError(f"{model_dir / 'model.safetensors'}: not a whole safetensors file ({error}); export again") from None
    return [_filled(model, tokenizer, text, top) for text in texts]


def _filled(model: Any, tokenizer: Any, text: str, top: int) -> list[Candidates]:
    encoded = tokenizer(text, return_tensors="pt")
    ids = encoded["input_ids"][0]
    longest = longest_input(model.config.to_dict())
    if longest is not None and len(ids) > longest:
        raise ValueError(f"the text has {len(ids):,} pieces, the model takes {longest:,}; shorten it")
    positions = (ids == tokenizer.mask_token_id).nonzero()[:, 0]
    if not len(positions):
        raise ValueError(f"the text has no {tokenizer.mask_token}; write it in place of a word")
    with torch.inference_mode():
        probabilities = model(**encoded).logits[0, positions].softmax(-1)
    best = probabilities.topk(min(top, probabilities.shape[-1]))
    return [
        [(_piece(tokenizer, int(i)), float(p)) for p, i in zip(values, indices, strict=True)]
        for values, indices in zip(best.values, best.indices, strict=True)
    ]


def _piece(tokenizer: Any, number: int) -> str:
    """Return a piece as people read it; pieces of a byte-level tokenizer (GPT-2's kind) are decoded."""
    decoder = getattr(getattr(tokenizer, "backend_tokenizer", None), "decoder", None)
    piece: str = tokenizer.convert_ids_to_tokens(number)
    return tokenizer.decode([number]) if isinstance(decoder, ByteLevel) else piece
