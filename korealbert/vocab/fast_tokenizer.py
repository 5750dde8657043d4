"""The same vocabulary for the ``tokenizers`` library: one ``tokenizer.json`` with the ids of SentencePiece.

Built piece by piece, because the converters for ALBERT lower-case, take accents off and decompose Hangul: with them most
Korean words end as ``<unk>``. The one difference is on purpose: ``[MASK]`` and its kin, written out in a text, are the special
pieces here (a fill-mask prompt needs that), and the characters they consist of in SentencePiece. With ``split_special_tokens``
they are so here too: fine-tuning reads texts that way.
"""

from __future__ import annotations

import re
from itertools import pairwise, product
from typing import Any

from tokenizers import AddedToken, Regex, Tokenizer, decoders, pre_tokenizers, processors
from tokenizers.models import BPE, Unigram

from korealbert.vocab.morphemes import BOUNDARY
from korealbert.vocab.normalisation import normalizer
from korealbert.vocab.tokenizer import FIRST_ORDINARY_ID, SPECIAL, SPECIAL_PIECES

UNIGRAM = 1
"""``trainer_spec.model_type`` of a unigram model; BPE is 2."""

_BYTE_PIECE = ("<", "0", "x", "0123456789ABCDEF", "0123456789ABCDEF", ">")
"""Which characters the piece of a byte is written with, place by place."""


def fast_tokenizer(model: Any) -> Tokenizer:
    """The fast tokenizer of a parsed SentencePiece ``ModelProto`` that ``training`` has written."""
    tokenizer = Tokenizer(_pieces(model))
    tokenizer.normalizer = normalizer()
    # After [MASK] no ▁ is added, so that "[MASK]을" continues the masked word.
    steps: list[pre_tokenizers.PreTokenizer] = [pre_tokenizers.Metaspace(prepend_scheme="first", split=True)]
    if any(piece.piece == BOUNDARY for piece in model.pieces):
        steps.append(pre_tokenizers.Split(BOUNDARY, "removed"))
    steps.append(pre_tokenizers.Split(Regex(_within_special_pieces(model)), "merged_with_next"))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(steps)
    tokenizer.decoder = decoders.Sequence(
        [decoders.Metaspace(prepend_scheme="first"), *([decoders.ByteFallback(), decoders.Fuse()] if _bytes(model) else [])]
    )
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS]:0 $A:0 [SEP]:0",
        pair="[CLS]:0 $A:0 [SEP]:0 $B:1 [SEP]:1",
        special_tokens=[("[CLS]", SPECIAL.cls), ("[SEP]", SPECIAL.sep)],
    )
    tokenizer.add_special_tokens(
        [AddedToken(piece, normalized=False, special=True, lstrip=piece == "[MASK]") for piece in SPECIAL_PIECES]
    )
    return tokenizer


def _within_special_pieces(model: Any) -> str:
    """Regular expression of what follows a place within each special piece, to cut there what is written like one.

    For the library's unigram model they are words like any other, and so are the pieces of bytes: ``<0x41>`` in a text is six
    characters. Where two characters meet that do so in no ordinary piece, one of them known, the cut changes nothing else. (Two
    unknown ones would be one ``<unk>`` and come out as two.)
    """
    ordinary = [piece.piece for piece in model.pieces[FIRST_ORDINARY_ID:] if piece.type != piece.BYTE]
    known = set(ordinary)
    met = {pair for piece in ordinary for pair in pairwise(piece)}
    rests = []
    for written in (*(tuple(piece) for piece in SPECIAL_PIECES), *([_BYTE_PIECE] if _bytes(model) else [])):
        places = range(1, len(written))
        free = (place for place in places if _never_meet(written[place - 1], written[place], known, met))
        place = next(free, len(written) - 1)
        before, rest = "".join(map(_one_of, written[:place])), "".join(map(_one_of, written[place:]))
        rests.append(f"(?<={before}){rest}")
    return "|".join(rests)


def _never_meet(first: str, second: str, known: set[str], met: set[tuple[str, str]]) -> bool:
    """Whether no character of ``first`` stands before one of ``second`` in a piece, and one of the two is always known."""
    return not met & set(product(first, second)) and (known.issuperset(first) or known.issuperset(second))


def _one_of(characters: str) -> str:
    """Regular expression of one of some letters and digits, or of the one character."""
    return re.escape(characters) if len(characters) == 1 else f"[{characters}]"


def _bytes(model: Any) -> bool:
    return bool(model.trainer_spec.byte_fallback)


def _pieces(model: Any) -> Unigram | BPE:
    scored = [(piece.piece, piece.score) for piece in model.pieces]
    if model.trainer_spec.model_type == UNIGRAM:
        return Unigram(scored, unk_id=SPECIAL.unk, byte_fallback=_bytes(model))
    ids = {piece: number for number, (piece, _) in enumerate(scored)}
    return BPE(ids, _merges(model, ids), unk_token=SPECIAL_PIECES[SPECIAL.unk], fuse_unk=True, byte_fallback=_bytes(model))


def _merges(model: Any, ids: dict[str, int]) -> list[tuple[str, str]]:
    """Every way to merge two pieces into a third, the third one's rank first: what SentencePiece's BPE does without a list."""
    merges: list[tuple[int, int, int, tuple[str, str]]] = []
    for rank, piece in enumerate(model.pieces):
        if piece.type != piece.NORMAL:
            continue
        for cut in range(1, len(piece.piece)):
            left, right = piece.piece[:cut], piece.piece[cut:]
            if left in ids and right in ids:
                merges.append((rank, ids[left], ids[right], (left, right)))
    return [pair for *_, pair in sorted(merges)]
