"""Small random checkpoints with tokenizers as published: their special pieces come first, among the others or last."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import torch
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import (
    BertConfig,
    BertForMaskedLM,
    ModernBertConfig,
    ModernBertForMaskedLM,
    PreTrainedModel,
    PreTrainedTokenizerFast,
    RobertaConfig,
    RobertaForMaskedLM,
)

from tests.pretrain.shards import WHAT, WHEN, WHERE, WHO
from tests.xpt.sources import SIZES

TEXT = [f"{who} {when} {where} {what}" for who in WHO for when in WHEN for where in WHERE for what in WHAT]
SQUARE = {role: f"[{role.upper()}]" for role in ("pad", "unk", "cls", "sep", "mask")}
POINTED = {"cls": "<s>", "pad": "<pad>", "sep": "</s>", "unk": "<unk>", "mask": "<mask>"}
UNUSED_ROWS = 3
"""Rows of ModernBERT's word table after its pieces."""


def byte_level(directory: Path) -> int:
    """As of ModernBERT: byte-level BPE whose special pieces come after the others."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, trim_offsets=True)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    tokenizer.train_from_iterator(TEXT, trainers.BpeTrainer(vocab_size=360, initial_alphabet=alphabet, show_progress=False))
    tokenizer.add_special_tokens([AddedToken(piece, special=True) for piece in SQUARE.values()])
    return _save(tokenizer, directory, SQUARE)


def word_pieces(directory: Path) -> int:
    """As of KLUE-BERT, whose ``tokenizer_config.json`` and ``tokenizer.json`` disagree about case."""
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))  # noqa: S106
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True, strip_accents=False)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    trainer = trainers.WordPieceTrainer(vocab_size=120, special_tokens=list(SQUARE.values()), show_progress=False)
    tokenizer.train_from_iterator([*TEXT, "KBS 뉴스"], trainer)
    size = _save(tokenizer, directory, SQUARE)
    described = {"tokenizer_class": "BertTokenizer", "do_lower_case": False, "strip_accents": False}
    names = {f"{role}_token": piece for role, piece in SQUARE.items()}
    (directory / "tokenizer_config.json").write_text(json.dumps({**described, **names}))
    return size


def unigram(directory: Path) -> int:
    """As of XLM-R: special pieces are part of the unigram model, except ``<mask>``, which comes last."""
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always")
    tokenizer.decoder = decoders.Metaspace(prepend_scheme="always")
    first = [piece for role, piece in POINTED.items() if role != "mask"]
    trainer = trainers.UnigramTrainer(vocab_size=110, special_tokens=first, unk_token="<unk>", show_progress=False)  # noqa: S106
    tokenizer.train_from_iterator(TEXT, trainer)
    tokenizer.add_special_tokens([AddedToken("<mask>", special=True, lstrip=True)])
    return _save(tokenizer, directory, POINTED)


def _save(tokenizer: Tokenizer, directory: Path, special: dict[str, str]) -> int:
    cls, sep = ((special[role], tokenizer.token_to_id(special[role])) for role in ("cls", "sep"))
    tokenizer.post_processor = processors.BertProcessing(sep, cls)
    tokenizer.enable_truncation(20)  # As in published sentence encoders.
    names = {f"{role}_token": piece for role, piece in special.items()}
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, model_max_length=62, **names).save_pretrained(directory)
    return tokenizer.get_vocab_size()


def _modernbert(size: int, ids: dict[str, int]) -> PreTrainedModel:
    special = {f"{role}_token_id": ids[role] for role in ("pad", "cls", "sep")}
    rows = size + UNUSED_ROWS
    return ModernBertForMaskedLM(ModernBertConfig(**_SIZES, vocab_size=rows, num_hidden_layers=3, local_attention=8, **special))


def _bert(size: int, ids: dict[str, int]) -> PreTrainedModel:
    return BertForMaskedLM(BertConfig(**_SIZES, vocab_size=size, num_hidden_layers=2, pad_token_id=ids["pad"]))


def _roberta(size: int, ids: dict[str, int]) -> PreTrainedModel:
    config = RobertaConfig(**_SIZES, vocab_size=size, num_hidden_layers=2, type_vocab_size=1, pad_token_id=ids["pad"])
    return RobertaForMaskedLM(config)


_SIZES = {**SIZES, "max_position_embeddings": 66}

KINDS: dict[str, tuple[Callable[[Path], int], dict[str, str], Callable[[int, dict[str, int]], PreTrainedModel]]] = {
    "modernbert": (byte_level, SQUARE, _modernbert),
    "bert": (word_pieces, SQUARE, _bert),
    "roberta": (unigram, POINTED, _roberta),
}
"""By family: a function that writes the tokenizer, its special pieces by role, and a function that makes the model."""


def make_checkpoint(family: str, directory: Path) -> Path:
    """Write a random model of this family and its tokenizer into ``directory``."""
    directory.mkdir(parents=True)
    write, special, model_of = KINDS[family]
    size = write(directory)
    tokenizer = Tokenizer.from_file(str(directory / "tokenizer.json"))
    torch.manual_seed(4)
    model = model_of(size, {role: tokenizer.token_to_id(piece) for role, piece in special.items()})
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim == 1:
                parameter.add_(torch.randn_like(parameter) * 0.1)
    model.save_pretrained(directory)
    return directory
