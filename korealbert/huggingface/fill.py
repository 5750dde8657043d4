"""Predictions of an exported model for [MASK]."""

from __future__ import annotations

from pathlib import Path

import torch
from safetensors import SafetensorError
from transformers import AutoModelForMaskedLM, AutoTokenizer, logging

from korealbert.vocab.morphemes import for_directory


def fill(model_dir: Path, text: str, top: int) -> list[list[tuple[str, float]]]:
    """For every mask in ``text``, in order, the ``top`` most probable pieces with their probabilities.

    Raises ValueError when ``model_dir`` is no exported model, ``text`` has no mask token or is too long for the model.
    """
    for needed in ("config.json", "tokenizer_config.json"):
        if not (model_dir / needed).is_file():
            raise ValueError(f"{model_dir}: no exported model here ({needed} is missing); name an artifact of the stage export")
    logging.disable_progress_bar()
    logging.set_verbosity_error()  # It would warn of the sentence-order head, which masked words do not need.
    tokenizer = for_directory(AutoTokenizer.from_pretrained(model_dir, local_files_only=True), model_dir)
    try:
        model = AutoModelForMaskedLM.from_pretrained(model_dir, local_files_only=True, use_safetensors=True).eval()
    except SafetensorError as error:
        raise ValueError(f"{model_dir / 'model.safetensors'}: not a whole safetensors file ({error}); export again") from None
    encoded = tokenizer(text, return_tensors="pt")
    ids = encoded["input_ids"][0]
    if len(ids) > model.config.max_position_embeddings:
        raise ValueError(f"the text has {len(ids):,} pieces, the model takes {model.config.max_position_embeddings:,}")
    positions = (ids == tokenizer.mask_token_id).nonzero()[:, 0]
    if not len(positions):
        raise ValueError(f"the text holds no {tokenizer.mask_token}: write it where a word is wanted")
    with torch.inference_mode():
        probabilities = model(**encoded).logits[0, positions].softmax(-1)
    best = probabilities.topk(min(top, probabilities.shape[-1]))
    return [
        [(tokenizer.convert_ids_to_tokens(int(i)), float(p)) for p, i in zip(values, indices, strict=True)]
        for values, indices in zip(best.values, best.indices, strict=True)
    ]
