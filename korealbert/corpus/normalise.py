"""Unicode and whitespace normalisation: the first step of cleaning and of every comparison of texts.

Extraction has a lighter step of its own, ``records.tidy``. CPython's Unicode normalisation sorts the combining marks after a
letter by insertion, which takes minutes for 400,000 of them. ``composed`` takes linear time, because it first limits the
marks of each letter to ``_MAX_MARKS`` in words longer than ``LONGEST_WORD``.
"""

from __future__ import annotations

import html
import html.entities
import itertools
import re
import unicodedata
from collections import Counter
from dataclasses import dataclass
from typing import Literal

_MAX_MARKS = 30
"""Combining marks that a letter keeps: the limit of Unicode's stream-safe text format (UAX 15, section 13)."""
LONGEST_WORD = 1_024
"""Characters of a word up to which each of its marks takes less than 1 µs, however they are ordered."""
_LONGER_WORD = re.compile(rf"(?<!\S)\S{{{LONGEST_WORD + 1},}}")
# Latin, Greek, Hangul, kana and Chinese characters; none of them is a combining mark.
_NO_MARKS = "\x00-\u02ff\u0370-\u0482\u048a-\u0590\u1100-\u11ff\u3000-\u3029\u3030-\u3098\u309b-\ua66e\uac00-\ud7ff"
_MAY_BE_MARKS = re.compile(f"[^{_NO_MARKS}]{{{_MAX_MARKS + 1},}}")


def composed(text: str, form: Literal["NFC", "NFKC"] = "NFC") -> str:
    """Return the text in a composed normal form. Idempotent."""
    if _may_have_longer_word(text):
        text = _LONGER_WORD.sub(lambda word: _MAY_BE_MARKS.sub(_limit_marks, word[0]), text)
    return text if unicodedata.is_normalized(form, text) else unicodedata.normalize(form, text)


def _may_have_longer_word(text: str) -> bool:
    """Return False if a blank or line feed is among any ``LONGEST_WORD`` + 1 characters in a row."""
    start = 0
    while len(text) - start > LONGEST_WORD:
        end = start + LONGEST_WORD + 1
        start = text.rfind(" ", start, end) + 1 or text.rfind("\n", start, end) + 1
        if not start:
            return True
    return False


def _limit_marks(run: re.Match[str]) -> str:
    kept: list[str] = []
    marks = 0
    for character in run.group():
        marks = marks + 1 if unicodedata.combining(character) else 0
        if marks <= _MAX_MARKS:
            kept.append(character)
    return "".join(kept)


_ENTITY = re.compile(r"&(?:#[0-9]{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]{1,31});")
_LINE_BREAK = re.compile("\r\n|[\r\x0b\x0c\x85\u2028\u2029]")
# Korean pages use Hangul fillers (U+3164, U+FFA0) as blanks.
_SPACE = re.compile("[\t\u00a0\u1680\u2000-\u200a\u202f\u205f\u3000\u3164\uffa0]")
_JOINED_LETTER = "[\u0600-\u0dff\u1000-\u109f\u1780-\u18af\ufb50-\ufdcf\ufe70-\ufefc]"
"""Letters of scripts in which a joiner or non-joiner after one is spelling: Arabic, those of India, Khmer, Mongolian."""
_EMOJI = "\u2190-\u2bff\U0001f000-\U0001faff"
_ZERO_WIDTH = re.compile(
    "[\u00ad\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u2064\u2066-\u206f\ufeff\U000e0000-\U000e007f]"
    f"|[\u200c\u200d](?<!{_JOINED_LETTER}.)(?!(?<=[{_EMOJI}\ufe0f]\u200d)[{_EMOJI}])"
)
_CONTROL = re.compile("[\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]")
_SUSPICIOUS = re.compile(
    "[&\t\r\x00-\x08\x0b-\x1f\x7f-\xa0\xad\u1680\u180e\u2000-\u200f\u2028-\u202f\u205f-\u206f\u3000\u3164\ud800-\udfff"
    "\ufdd0-\ufdef\ufeff\uffa0\ufffe\uffff\U000e0000-\U000e007f]"
)
_MAX_NESTED_ENTITIES = 64
"""Levels of entities within entities that are decoded (``&amp;amp;lt;`` has three); each takes a pass over the text."""
_SPACES = re.compile(" {2,}")
_AROUND_BREAK = re.compile(" *\n *")
_BLANK_LINES = re.compile("\n{3,}")


@dataclass(frozen=True, slots=True)
class _Normalised:
    text: str
    counts: dict[str, int]
    """Removed or replaced characters by kind: ``control``, ``zero_width``, ``space``, ``line_break``, ``entity``; no zeros."""


def normalise(text: str, *, entities: bool = True) -> _Normalised:
    """Convert a text to NFC with one kind of space and line break, without entities, controls and zero-width characters.

    Joiners stay where they are spelling: after letters of Arabic and Indic scripts, and within emoji (a family of four).

    Runs of spaces, and of blank lines, become one; lines and the text are stripped. Entities are decoded until none is left
    (``&amp;quot;`` is ``"``), but only those that HTML 5 names and that end in ``;``: ``R&D`` and ``&lt=`` stay. A text
    with deeper nesting than ``_MAX_NESTED_ENTITIES`` loses its ampersands. ``entities=False`` is for text about markup, whose
    entities stay. Idempotent.
    """
    counts: Counter[str] = Counter()
    text = _characters(text, counts, entities) if _SUSPICIOUS.search(text) else composed(text)
    if "  " in text:
        text = _SPACES.sub(" ", text)
    if " \n" in text or "\n " in text:
        text = _AROUND_BREAK.sub("\n", text)
    if "\n\n\n" in text:
        text = _BLANK_LINES.sub("\n\n", text)
    text = text.strip(" \n")
    return _Normalised(text, dict(sorted(counts.items())))


def _characters(text: str, counts: Counter[str], entities: bool) -> str:
    for round_number in itertools.count():
        for kind, pattern, replacement in (
            ("line_break", _LINE_BREAK, "\n"),
            ("space", _SPACE, " "),
            ("zero_width", _ZERO_WIDTH, ""),
            ("control", _CONTROL, ""),
        ):
            text, hits = pattern.subn(replacement, text)
            if hits:
                counts[kind] += hits
        text = composed(text)  # before decoding, because NFC turns U+037E into the semicolon that ends an entity
        decoded = 0

        def decode(match: re.Match[str]) -> str:
            nonlocal decoded
            whole = match.group()
            if whole[1] != "#" and whole[1:] not in html.entities.html5:
                return whole
            decoded += 1
            return html.unescape(whole).replace("\ufffd", "")

        if entities:
            text = _ENTITY.sub(decode, text)
        if not decoded:
            break
        counts["entity"] += decoded
        if round_number == _MAX_NESTED_ENTITIES:
            text = text.replace("&", "")
    return text


_VIEW = {code: code - 0xFEE0 for code in range(0xFF01, 0xFF5F)}
_VIEW.update(str.maketrans("【】〔〕〈〉《》©Ⓒㆍ・‧∙•", "[][]<><>ⓒⓒ·····"))


def with_line_breaks(text: str, start: int, end: int) -> tuple[int, int]:
    """Widen a span of whole lines so that deleting it leaves the larger of the gaps above and below it."""
    above, below = start, end
    while above and text[above - 1] == "\n":
        above -= 1
    while below < len(text) and text[below] == "\n":
        below += 1
    if not above:
        return 0, below
    if below == len(text) or start - above < below - end:
        return above, end if below < len(text) else below
    return start, below


HIDDEN_EMAIL = "[email protected]"
"""What Cloudflare shows in the place of an e-mail address; scripts would put it back."""
_HIDDEN_EMAIL_VIEW = "mail@protected.kr"


def with_emails(text: str) -> str:
    """Return the text with an address as long as ``HIDDEN_EMAIL`` in its place, for patterns."""
    return text.replace(HIDDEN_EMAIL, _HIDDEN_EMAIL_VIEW) if HIDDEN_EMAIL in text else text


def matching_view(text: str) -> str:
    """Return the text with one spelling of ASCII, brackets, copyright signs and middle dots, for patterns; offsets stay."""
    return with_emails(text.translate(_VIEW))
