"""Does a tokenizer reach the pieces that its vocabulary has? A normaliser of the wrong settings takes Hangul apart silently."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

HANGUL_WORD = re.compile(r"▁?([가-힣]+)")
"""A piece of syllables that begins a word, as SentencePiece or WordPiece writes it."""

SAMPLE = 200
"""So many pieces are asked for."""

MAX_LOST_SHARE = 0.5
"""A piece may be unreachable by itself; where half of them are, none is reached."""


def check_own_pieces(directory: Path, tokenizer: Any) -> None:
    """Raise ValueError where Korean words that are pieces of the vocabulary come out as unknown.

    BERT's and ALBERT's tokenizers lower-case unless told otherwise, and with that take ``김`` apart into three jamo, of which
    a vocabulary of syllables knows nothing: every Korean text becomes a row of unknown pieces.
    """
    words = [found[1] for piece in sorted(tokenizer.get_vocab()) if (found := HANGUL_WORD.fullmatch(piece))][:SAMPLE]
    if not words or tokenizer.unk_token_id is None:
        return
    lost = sum(tokenizer.unk_token_id in ids for ids in tokenizer(words, add_special_tokens=False)["input_ids"])
    if lost > MAX_LOST_SHARE * len(words):
        raise ValueError(
            f"{directory}/tokenizer_config.json: {lost} of {len(words)} Korean pieces of its vocabulary come out as"
            f" {tokenizer.unk_token}, because the tokenizer takes syllables apart; set do_lower_case to false, with ALBERT also"
            " keep_accents to true"
        )
