"""A fast tokenizer for BERTs whose vocabulary is a SentencePiece model, as KoBERT's is.

Their directories hold a ``.model`` file, a tokenizer class of their own in Python, and perhaps ``vocab.txt``, which numbers the
pieces. ``AutoTokenizer`` takes the model type's word pieces for it, or XLNet's order of special pieces.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sentencepiece import sentencepiece_model_pb2
from tokenizers import AddedToken, Tokenizer, decoders, normalizers, pre_tokenizers, processors
from tokenizers.models import Unigram
from transformers import PreTrainedTokenizerFast

WORDPIECE_FAMILIES = ("bert", "distilbert", "electra")

UNIGRAM = 1
"""``trainer_spec.model_type`` of a unigram model."""

ROLES = {"pad_token": "[PAD]", "cls_token": "[CLS]", "sep_token": "[SEP]", "mask_token": "[MASK]"}


def sentencepiece_of_wordpiece_family(directory: Path, model_type: str) -> Path | None:
    """The SentencePiece model of a directory whose model type means word pieces, or None. A ``tokenizer.json`` goes first."""
    if model_type not in WORDPIECE_FAMILIES or (directory / "tokenizer.json").exists():
        return None
    return next(iter(sorted(directory.glob("*.model"))), None)


def tokenizer_from_sentencepiece(model: Path) -> Any:
    """``[CLS] a [SEP]`` and ``[CLS] a [SEP] b [SEP]`` around the pieces of a SentencePiece unigram model.

    Numbers are those of ``vocab.txt`` beside it, where there is one. Raises ValueError naming the file where it is no such
    model, lacks a special piece, or has other pieces than ``vocab.txt``.
    """
    proto = sentencepiece_model_pb2.ModelProto()
    try:
        proto.ParseFromString(model.read_bytes())
    except Exception as error:
        raise ValueError(f"{model}: no SentencePiece model; is the download complete?") from error
    if proto.trainer_spec.model_type != UNIGRAM:
        raise ValueError(f"{model}: not a unigram model; convert its tokenizer to a tokenizer.json")
    scores = {piece.piece: piece.score for piece in proto.pieces}
    written = _numbered(model, scores)
    unknown = next(piece.piece for piece in proto.pieces if piece.type == piece.UNKNOWN)
    for piece in ROLES.values():
        if piece not in scores:
            raise ValueError(f"{model}: has no piece {piece}; convert its tokenizer to a tokenizer.json")
    tokenizer = Tokenizer(Unigram([(piece, scores[piece]) for piece in written], written.index(unknown)))
    charsmap = proto.normalizer_spec.precompiled_charsmap
    if charsmap:
        tokenizer.normalizer = normalizers.Precompiled(charsmap)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace(prepend_scheme="always")]
    )
    tokenizer.decoder = decoders.Metaspace(prepend_scheme="always")
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS]:0 $A:0 [SEP]:0",
        pair="[CLS]:0 $A:0 [SEP]:0 $B:1 [SEP]:1",
        special_tokens=[(piece, written.index(piece)) for piece in ("[CLS]", "[SEP]")],
    )
    tokenizer.add_special_tokens([AddedToken(piece, special=True, normalized=False) for piece in (unknown, *ROLES.values())])
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, unk_token=unknown, **ROLES, split_special_tokens=True, name_or_path=str(model.parent)
    )


def _numbered(model: Path, scores: dict[str, float]) -> list[str]:
    listed = model.parent / "vocab.txt"
    if not listed.exists():
        return list(scores)
    pieces = listed.read_text("utf-8").splitlines()
    if sorted(pieces) != sorted(scores):
        other = sorted({*pieces} ^ {*scores})[:3]
        raise ValueError(f"{listed}: other pieces than {model.name} ({', '.join(other)}, …); the two do not belong together")
    return pieces
