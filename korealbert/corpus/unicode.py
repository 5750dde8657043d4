"""Unicode normalisation in linear time: CPython sorts the combining marks behind a letter by insertion.

That is quadratic in the marks, and nothing bounds them: 400,000 in a row take minutes. In a stretch without blanks that is
longer than ``LONGEST_WORD`` each letter therefore keeps ``_MOST_MARKS`` marks, more than any writing system gives it.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Literal

_MOST_MARKS = 30
"""Marks in a row that a letter keeps: the limit of Unicode's stream-safe text format (UAX 15, section 13)."""
LONGEST_WORD = 1_024
"""Characters: below, all marks of a word cost less than 1 µs each, however they are ordered."""
_LONGER_WORD = re.compile(rf"(?<!\S)\S{{{LONGEST_WORD + 1},}}")
# Latin, Greek, Hangul, kana and Chinese characters, of which none is a combining mark.
_NO_MARKS = "\x00-\u02ff\u0370-\u0482\u048a-\u0590\u1100-\u11ff\u3000-\u3029\u3030-\u3098\u309b-\ua66e\uac00-\ud7ff"
_MAY_BE_MARKS = re.compile(f"[^{_NO_MARKS}]{{{_MOST_MARKS + 1},}}")


def composed(text: str, form: Literal["NFC", "NFKC"] = "NFC") -> str:
    """The text in a composed normal form; idempotent."""
    if len(text) > LONGEST_WORD and max(map(len, text.split("\n"))) > LONGEST_WORD:
        text = _LONGER_WORD.sub(_limited, text)
    return text if unicodedata.is_normalized(form, text) else unicodedata.normalize(form, text)


def _limited(word: re.Match[str]) -> str:
    return _MAY_BE_MARKS.sub(_few_marks, word.group())


def _few_marks(run: re.Match[str]) -> str:
    kept: list[str] = []
    marks = 0
    for character in run.group():
        marks = marks + 1 if unicodedata.combining(character) else 0
        if marks <= _MOST_MARKS:
            kept.append(character)
    return "".join(kept)
