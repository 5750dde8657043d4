"""Whether two near-copies are one template, filled in twice: equal but for names and numbers.

Texts are of one template if their sentences have equally many words and numbers, and differ only in those that are exchanged
for others in the same place with the same particle (경주에서 for 포항에서, 1.25 for 1.50). Any other difference (a word more,
another ending, a corrected letter) makes them versions of one text. So does a single exchanged word without a particle, which
may be an adverb or a verb, unless it opens the text, returns, is the name of a person, or has the same head as the other
(월요일 and 화요일, 왼쪽 and 오른쪽); and a single exchange in a long text, which may be a correction, unless it opens the text.
What is no sentence (a heading, a menu, a copyright line) belongs to the page.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from typing import NamedTuple

from korealbert.corpus.dedup.signatures import THOUSANDS
from korealbert.corpus.dedup.subjects import SURNAMES, is_verb
from korealbert.corpus.particles import is_particle, lengths_before_particles

_TOKEN = re.compile(
    r"(?:(?<![\w.,:/)\]-])[-−])?\d+(?:[.,:]\d+)*|[\u3040-\u309f]+|[\u30a0-\u30ff]+|[\u4e00-\u9fff々]+"
    r"|[^\W\d_\u3040-\u30ff\u4e00-\u9fff々]+"
)
"""A number with its sign, or letters: of Japanese, which has no blanks, of one of its scripts."""
_NO_NAME = re.compile("[\u3040-\u309f]+|[\u4e00-\u9fff々]{7,}|.{25,}")
"""Hiragana, whole clauses of Chinese and of other scripts without blanks."""
_HANGUL = re.compile("[가-힣]+")
_PERSON = re.compile(f"[{SURNAMES}][가-힣]{{2}}")
_ADJECTIVE = re.compile(".*[운게히고며서지던]")
"""Words that are verbs, adjectives or adverbs rather than names with a common head: 새로운, 빠르게."""
_OPENING_WORDS = 10
_MIN_SHARE = 0.01
"""Share of a text's words and numbers that are exchanged; fewer may be corrections."""
_BETWEEN = re.compile(r"(?<=[.?!…])\s+|(?<=[。！？])\s*|\n+")
_SENTENCE = re.compile(r"[.?!…。！？다요죠까][\"'”’」』)\]]*\s*$")
_MAX_LETTERS = 40
"""Of a name with its particle."""
_MIN_SYLLABLES = 2
"""Of a name; shorter words are pronouns, articles and stems of verbs."""
_MIN_LETTERS = 4
"""Words of this length, in jamo or Latin letters, that differ in a single one are spellings of one word."""
_SAME_PARTICLE = {"은": "는", "이": "가", "을": "를", "과": "와", "으로": "로", "이나": "나", "이란": "란"}
"""Particle after a consonant → the same one after a vowel."""


class _Exchange(NamedTuple):
    """A name or number that another text has in the same place."""

    ours: str
    theirs: str
    certain: bool
    """Whether it has a particle, or another sign of being a name or number."""


def same_template(one: str, other: str) -> bool:
    """Return whether two texts, in lower case and NFKC, are equal but for names and numbers, and not equal altogether."""
    left, right = _words(one), _words(other)
    if len(left) != len(right):
        return False
    times = Counter[tuple[str, str]]()
    certain = opens = False
    for place, (word, instead) in enumerate(zip(left, right)):
        if word == instead or _in_one_form(word) == _in_one_form(instead):
            continue
        exchange = _exchange(word, instead)
        if exchange is None:
            return False
        times[exchange.ours, exchange.theirs] += 1
        certain |= exchange.certain
        opens |= place < _OPENING_WORDS
    enough = times.total() >= _MIN_SHARE * len(left)
    return opens or (certain and enough) or max(times.values(), default=0) > 1


def _words(text: str) -> list[str]:
    """Return the words and numbers of a text's sentences; of the whole text if it has none."""
    parts = _BETWEEN.split(text)
    return _TOKEN.findall("\n".join(filter(_SENTENCE.search, parts)) or text)


def _in_one_form(token: str) -> str:
    """Return a number without the marks of thousands, or a particle in one form."""
    return THOUSANDS.sub("", token) if token[-1].isdecimal() else _SAME_PARTICLE.get(token, token)


def _exchange(one: str, other: str) -> _Exchange | None:
    if one[-1].isdecimal() and other[-1].isdecimal():
        return _Exchange(one, other, certain=True)
    if max(len(one), len(other)) > _MAX_LETTERS:
        return None
    stems, others = _stems(one), _stems(other)
    particle = max(stems.keys() & others.keys(), key=len)
    name, instead = stems[particle], others[particle]
    persons = _PERSON.fullmatch(name) is not None and _PERSON.fullmatch(instead) is not None
    verbs = is_verb(name) + is_verb(instead)
    other_role = not particle and not persons and (verbs > 0 or len(stems) > 1 < len(others))
    inflected = bool(set(stems.values()) & set(others.values()))
    if verbs > 1 or other_role or inflected or not _are_names(name, instead):
        return None
    same_head = name[-1] == instead[-1] and _HANGUL.fullmatch(name) is not None and not _ADJECTIVE.fullmatch(name)
    return _Exchange(name, instead, certain=bool(particle) or persons or same_head)


def _are_names(one: str, other: str) -> bool:
    """Return whether two words may be names of the same script, and are not spellings of one."""
    if _NO_NAME.fullmatch(one) or _NO_NAME.fullmatch(other) or one[-1].isdecimal() or other[-1].isdecimal():
        return False
    hangul = [_HANGUL.fullmatch(word) is not None for word in (one, other)]
    if hangul[0] != hangul[1] or (hangul[0] and min(len(one), len(other)) < _MIN_SYLLABLES):
        return False
    return not _are_spellings(unicodedata.normalize("NFD", one), unicodedata.normalize("NFD", other))


def _stems(word: str) -> dict[str, str]:
    """Return the possible stems of a word by the particle after them."""
    hangul = _HANGUL.search(word)
    found = {"": word}
    if hangul and hangul.end() == len(word):
        lengths = lengths_before_particles(word[hangul.start() :])
        lengths += [0] if hangul.start() and is_particle(hangul[0]) else []
        for length in (hangul.start() + one for one in lengths):
            found[_SAME_PARTICLE.get(word[length:], word[length:])] = word[:length]
    return found


def _are_spellings(one: str, other: str) -> bool:
    """Return whether one letter more, less or another, or two swapped ones, make one word of the other; not of short words."""
    start = next((at for at, (left, right) in enumerate(zip(one, other)) if left != right), min(len(one), len(other)))
    rest, others = one[start:], other[start:]
    similar = rest[1:] == others[1:] or rest[1:] == others or rest == others[1:]
    similar |= rest[:2] == others[1::-1] and rest[2:] == others[2:]
    return similar and max(len(one), len(other)) >= _MIN_LETTERS
