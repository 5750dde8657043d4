"""Particles and forms of 이다 that follow a Korean word."""

from __future__ import annotations

import re
from functools import lru_cache

_CASES = {True: ("은", "이", "을"), False: ("는", "가", "를")}
"""Case particles, which no other particle follows, by whether the word before them ends in a consonant."""
_AFTER_CONSONANT = ("과", "이나", "이랑", "이라도", "이든", "이야", "이란", "아")
_AFTER_VOWEL = ("와", "나", "랑", "라도", "든", "야", "며", "고", "라", "란", "다", "면")
_AFTER_BOTH = (
    *("의", "에", "에서", "에선", "에게", "에게서", "한테", "께", "께서", "도", "만", "까지", "부터", "보다", "처럼", "마다"),
    *("밖에", "조차", "마저", "하고", "뿐", "만큼", "같이", "이다", "입니다", "이에요", "예요", "인", "임"),
)
_DIRECTIONAL = ("으로", "로", "으로서", "로서", "으로써", "로써", "으로선", "로선")
_SECOND = ("", "는", "도", "만", "의", "까지", "은", "부터", "라도", "을", "를", "이", "와", "처럼", "조차")
"""Particles that may follow another one: 에서는, 까지도, 부터의, 만을."""
_COPULA = re.compile("이(?:었|라|지만|기|며|면|므로|자|던|니|고|든|건)|(?:였|라고|라는|라서|라면|라기|지만)|인(?:데|지|가)")
"""Beginnings of forms of 이다: 이라고, 이었던, 였으며, 이지만, 인데."""
_COPULA_FIRST_SYLLABLES = frozenset("이였라지인")


def _has_final(letter: str) -> bool | None:
    """Return whether a letter ends in a consonant; None if unknown (Latin letters, digits)."""
    code = ord(letter) - 0xAC00
    return code % 28 > 0 if 0 <= code < 11172 else None


@lru_cache(maxsize=4)
def _particles(final: bool | None) -> frozenset[str]:
    ends = [final] if final is not None else [True, False]
    cases = [one for end in ends for one in _CASES[end]]
    first = [*_AFTER_BOTH, *_DIRECTIONAL, *(one for end in ends for one in (_AFTER_CONSONANT if end else _AFTER_VOWEL))]
    return frozenset([*cases, *(one + second for one in first for second in _SECOND)])


@lru_cache(maxsize=1)
def _after_syllables() -> tuple[frozenset[str], ...]:
    """Return the particles, 들, and 들 with particles that may follow a vowel, and those that may follow a consonant."""
    plural = frozenset(("들", *("들" + one for one in _particles(True))))
    return _particles(False) | plural, _particles(True) | plural


def lengths_before_particles(word: str) -> list[int]:
    """Return the possible lengths of a Hangul word without its particles: [2, 3] for 제주도는, which is 제주 or 제주도."""
    after = _after_syllables()
    return [
        length
        for length in range(1, len(word))
        if word[length:] in after[(ord(word[length - 1]) - 0xAC00) % 28 > 0]
        or (word[length] in _COPULA_FIRST_SYLLABLES and _COPULA.match(word, length))
        or (word[length] == "들" and _COPULA.match(word, length + 1))
    ]


def is_word_of(word: str, entry: str) -> bool:
    """Return whether a word is an entry with or without particles: 카지노들에서는 is of 카지노, 카지노은 is not."""
    if not word.startswith(entry):
        return False
    rest = word[len(entry) :]
    plural = rest.removeprefix("들")
    if plural != rest and (not plural or is_particle(plural, True)):
        return True
    return not rest or is_particle(rest, _has_final(entry[-1]))


def is_particle(ending: str, final: bool | None = None) -> bool:
    """Return whether an ending is a particle or a form of 이다; ``final``: whether the word before it ends in a consonant."""
    return ending in _particles(final) or _COPULA.match(ending) is not None
