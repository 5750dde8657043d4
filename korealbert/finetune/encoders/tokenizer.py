"""Load tokenizers of encoders in Hugging Face format, and check them against the encoder of the same directory.

BERTs whose vocabulary is a SentencePiece model, such as KoBERT, have a ``.model`` file, a tokenizer class of their own in
Python, and perhaps a ``vocab.txt`` that numbers the pieces. ``AutoTokenizer`` would load them as WordPiece, or with XLNet's
order of special pieces. A fast tokenizer is built from the SentencePiece model instead.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from sentencepiece import sentencepiece_model_pb2
from tokenizers import AddedToken, Tokenizer, decoders, normalizers, pre_tokenizers, processors
from tokenizers.models import Unigram
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from korealbert.artifact.files import write_json
from korealbert.finetune.encoders.encoder import LOCAL_ONLY, first_line, load_config
from korealbert.huggingface.directory import OFFSET_POSITIONS, SENTENCEPIECE_FILES, TOKENIZER_FILES, copy_files
from korealbert.vocab.morphemes import for_directory


def load_tokenizer(directory: Path) -> Any:
    """Load the tokenizer of a directory.

    Raises ValueError naming the directory if the tokenizer has no offsets or no padding, or does not fit the encoder.
    """
    try:
        config = load_config(directory)
        tokenizer = _tokenizer(directory, config.model_type)
    except Exception as error:
        problem = f"no tokenizer that can be loaded ({first_line(error)})"
        raise ValueError(f"{directory}: {problem}; put its tokenizer.json beside config.json") from error
    if not tokenizer.is_fast:
        raise ValueError(f"{directory}: its tokenizer has no offsets; save it with a tokenizer.json")
    if tokenizer.pad_token_id is None or tokenizer.cls_token_id is None:
        raise ValueError(f"{directory}/tokenizer_config.json: has no pad_token or no cls_token; name both there")
    _check_together(directory, tokenizer, config)
    _check_own_pieces(directory, tokenizer)
    return for_directory(tokenizer, directory)


def _tokenizer(directory: Path, model_type: str) -> Any:
    model = _sentencepiece_of_wordpiece_family(directory, model_type)
    if model is not None:
        return _tokenizer_from_sentencepiece(model)
    # [SEP] in a text is text, as in pretraining.
    return AutoTokenizer.from_pretrained(directory, split_special_tokens=True, **LOCAL_ONLY)


def copy_tokenizer(directory: Path, out_dir: Path) -> None:
    """Copy the tokenizer of a directory so that ``AutoTokenizer`` gives the same pieces as ``load_tokenizer``.

    If ``AutoTokenizer`` would misread the files, the fast tokenizer that was built from the SentencePiece model is saved
    instead.
    """
    model = _sentencepiece_of_wordpiece_family(directory, load_config(directory).model_type)
    if model is None:
        copy_files(directory, out_dir, (*TOKENIZER_FILES, SENTENCEPIECE_FILES))
        return
    _tokenizer_from_sentencepiece(model).save_pretrained(out_dir)
    described = out_dir / "tokenizer_config.json"
    # A class name that versions 4 and 5 of transformers both have.
    settings = {**json.loads(described.read_text("utf-8")), "tokenizer_class": "PreTrainedTokenizerFast"}
    write_json(described, settings, indent=2, sort_keys=True)


def _check_together(directory: Path, tokenizer: Any, config: Any) -> None:
    largest = max(tokenizer.get_vocab().values())
    if largest >= config.vocab_size:
        problem = f"the tokenizer has a piece number {largest:,}, config.json a vocab_size of {config.vocab_size:,}"
        raise ValueError(f"{directory}: {problem}; the two do not belong together; copy both again")
    if config.model_type in OFFSET_POSITIONS and tokenizer.pad_token_id != config.pad_token_id:
        problem = f"the tokenizer pads with {tokenizer.pad_token_id}, config.json has pad_token_id {config.pad_token_id}"
        raise ValueError(
            f"{directory}: {problem}, from which positions are counted; the two do not belong together; copy both again"
        )


_HANGUL_WORD = re.compile(r"▁?([가-힣]+)")
"""A piece of Hangul syllables that begins a word, as SentencePiece or WordPiece writes it."""

_SAMPLE = 200
"""Number of pieces that are tested; enough to tell a few unreachable ones from all."""

_MAX_LOST_SHARE = 0.5
"""Some pieces may be unreachable in any tokenizer; from this share on the tokenizer is wrong."""


def _check_own_pieces(directory: Path, tokenizer: Any) -> None:
    """Raise ValueError if Korean words that are pieces of the vocabulary are tokenized as unknown.

    BERT's and ALBERT's tokenizers lower-case by default, which splits ``김`` into three jamo. With a vocabulary of syllables
    every Korean text then becomes a row of unknown pieces.
    """
    words = [found[1] for piece in sorted(tokenizer.get_vocab()) if (found := _HANGUL_WORD.fullmatch(piece))][:_SAMPLE]
    if not words or tokenizer.unk_token_id is None:
        return
    lost = sum(tokenizer.unk_token_id in ids for ids in tokenizer(words, add_special_tokens=False)["input_ids"])
    if lost > _MAX_LOST_SHARE * len(words):
        raise ValueError(
            f"{directory}/tokenizer_config.json: {lost} of {len(words)} Korean pieces of its vocabulary come out as"
            f" {tokenizer.unk_token}, because the tokenizer takes syllables apart; set do_lower_case to false, with ALBERT also"
            " keep_accents to true"
        )


_WORDPIECE_FAMILIES = ("bert", "distilbert", "electra")

_UNIGRAM = 1
"""``trainer_spec.model_type`` of a unigram model."""

_ROLES = {"pad_token": "[PAD]", "cls_token": "[CLS]", "sep_token": "[SEP]", "mask_token": "[MASK]"}


def _sentencepiece_of_wordpiece_family(directory: Path, model_type: str) -> Path | None:
    """Return the SentencePiece model of a directory whose model type implies WordPiece; None if it has a ``tokenizer.json``."""
    if model_type not in _WORDPIECE_FAMILIES or (directory / "tokenizer.json").exists():
        return None
    return next(iter(sorted(directory.glob(SENTENCEPIECE_FILES))), None)


def _tokenizer_from_sentencepiece(model: Path) -> Any:
    """Build a fast tokenizer from a SentencePiece unigram model; inputs are ``[CLS] a [SEP]`` or ``[CLS] a [SEP] b [SEP]``.

    A ``vocab.txt`` in the same directory numbers the pieces. Raises ValueError naming the file if it is not a unigram model,
    lacks a special piece, or has other pieces than ``vocab.txt``.
    """
    proto = sentencepiece_model_pb2.ModelProto()
    try:
        proto.ParseFromString(model.read_bytes())
    except Exception as error:
        raise ValueError(f"{model}: not a SentencePiece model; is the download complete?") from error
    if proto.trainer_spec.model_type != _UNIGRAM:
        raise ValueError(f"{model}: not a unigram model; convert its tokenizer to a tokenizer.json")
    scores = {piece.piece: piece.score for piece in proto.pieces}
    written = _numbered(model, scores)
    unknown = next(piece.piece for piece in proto.pieces if piece.type == piece.UNKNOWN)
    for piece in _ROLES.values():
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
    tokenizer.add_special_tokens([AddedToken(piece, special=True, normalized=False) for piece in (unknown, *_ROLES.values())])
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, unk_token=unknown, **_ROLES, split_special_tokens=True, name_or_path=str(model.parent)
    )


def _numbered(model: Path, scores: dict[str, float]) -> list[str]:
    listed = model.parent / "vocab.txt"
    if not listed.exists():
        return list(scores)
    pieces = listed.read_text("utf-8").splitlines()
    if sorted(pieces) != sorted(scores):
        other = sorted({*pieces} ^ {*scores})[:3]
        raise ValueError(
            f"{listed}: other pieces than {model.name} ({', '.join(other)}, …); the two do not belong together; copy both again"
        )
    return pieces
