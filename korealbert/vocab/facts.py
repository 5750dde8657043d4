"""What a vocabulary does to text, in numbers and examples for whoever chooses one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from korealbert.vocab.tokenizer import SPECIAL, Vocabulary

SENTENCES_MEASURED = 20_000
SYLLABLES = frozenset(map(chr, range(0xAC00, 0xD7A4)))
"""The 11,172 modern Hangul syllables of Unicode."""

MAX_PIECES_PER_WORD = 8
"""Words of so many pieces or more are one class of the histogram."""

SPECIMENS = (
    "할머니께서는 장터에서 사 오신 복숭아를 손주들에게 나누어 주셨다.",
    "연구진이 개발한 초소형 관측기는 내년 봄부터 시험가동에 들어갈 예정입니다.",
    "그 영화 진짜 꿀잼이었음ㅋㅋㅋ 두 번 봐도 안 질려요!!",
    "2023년 4분기 매출은 1조 2,400억원으로, 전년 동기 대비 8.7% 늘었다.",
    "AlbertModel의 config.json에는 hidden_size=768이라고 적혀 있다.",
    "조선 후기의 실학자 정약용(丁若鏞)은 『목민심서』를 남겼다.",
)
"""Sentences of our own, in several registers, whose cut is shown: of any corpus, so that vocabularies compare."""


def vocabulary_facts(vocabulary: Vocabulary, sentences: Sequence[str]) -> dict[str, Any]:
    """Facts measured on the first sentences of the training sample (which is in random order).

    ``characters_per_piece`` counts spaces; ``pieces_per_word`` counts words between spaces, and ``words_by_pieces`` says how
    many have 1, 2, … of them; ``unknown_share`` and ``byte_share`` are of pieces. A character is covered that can be written on
    its own in proper pieces: ``character_coverage`` is their share among the visible ones; ``hangul_syllables_covered`` counts
    among all 11,172, ``hangul_syllables_in_text_covered`` among those that the text holds. ``word_start_share`` is of pieces
    (0.63 in Korean Wikipedia with 32,000 pieces; the official ALBERT rule finds 0.98). ``specimens`` shows the cut of
    ``SPECIMENS``, pieces set apart by spaces.
    """
    measured = list(sentences[:SENTENCES_MEASURED])
    encoded = vocabulary.encode(measured)
    ids = np.concatenate([*encoded, np.empty(0, dtype=np.int32)])
    if not len(ids):
        raise ValueError(f"vocab: {len(measured):,} sentences hold nothing that a piece could stand for; look at the corpus")
    first = np.zeros(len(ids), dtype=np.bool_)
    first[np.cumsum([0, *map(len, encoded)])[:-1][[len(sentence) > 0 for sentence in encoded]]] = True
    proper = vocabulary.proper()
    characters = Counter("".join(measured))
    words = np.diff(np.flatnonzero([*(vocabulary.words().spaced[ids] | first), True]))
    covered = covered_characters(vocabulary, sorted(SYLLABLES | characters.keys()))
    visible = {character: count for character, count in characters.items() if not character.isspace()}
    seen = SYLLABLES & characters.keys()
    return {
        "pieces": vocabulary.size,
        "characters_per_piece": round(sum(characters.values()) / len(ids), 4),
        "pieces_per_word": round(float(words.mean()), 4),
        "words_by_pieces": _histogram(words),
        "unknown_share": round(float(np.mean(ids == SPECIAL.unk)), 6),
        "byte_share": round(float(np.mean(~proper[ids] & (ids != SPECIAL.unk))), 6),
        "character_coverage": round(sum(n for c, n in visible.items() if c in covered) / max(1, sum(visible.values())), 6),
        "hangul_syllables_covered": len(SYLLABLES & covered),
        "hangul_syllables_in_text": len(seen),
        "hangul_syllables_in_text_covered": len(seen & covered),
        "word_start_share": round(float(np.mean(vocabulary.words().mark(ids, first))), 4),
        "specimens": [" ".join(vocabulary.pieces(pieces)) for pieces in vocabulary.encode(SPECIMENS)],
        "sha256": vocabulary.sha256,
    }


def covered_characters(vocabulary: Vocabulary, characters: Sequence[str]) -> set[str]:
    """Those of some characters that the vocabulary can write on their own, without ``<unk>`` or bytes."""
    proper = vocabulary.proper()
    encoded = vocabulary.encode(characters)
    return {character for character, ids in zip(characters, encoded, strict=True) if len(ids) and proper[ids].all()}


def _histogram(pieces_per_word: Any) -> dict[str, int]:
    """Words by the number of their pieces; the last class, ``8+``, is open."""
    counts = np.bincount(np.minimum(pieces_per_word, MAX_PIECES_PER_WORD), minlength=MAX_PIECES_PER_WORD + 1)[1:]
    names = [*map(str, range(1, MAX_PIECES_PER_WORD)), f"{MAX_PIECES_PER_WORD}+"]
    return {name: int(count) for name, count in zip(names, counts, strict=True)}
