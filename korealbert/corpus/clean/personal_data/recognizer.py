"""What a recognizer of one kind is, and what the kinds share: bounds of a number, words around it, and specimens."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple


class Recognizer(NamedTuple):
    """How one kind of personal data is found in a text."""

    prefilter: re.Pattern[str]
    """A fast pattern that finds any text with such numbers."""
    pattern: re.Pattern[str]
    """Matches such numbers and others of their form."""
    check: Callable[[re.Match[str]], int | None]
    """Returns where the number in a match begins (words before it stay), or None if it is not of the kind."""


NOT_AFTER_NUMBER = r"(?<![0-9A-Za-z])(?<![0-9][-.,/])"
NOT_BEFORE_NUMBER = r"(?![0-9])(?![-.,/][0-9])"
"""The bounds of a number that is no part of a longer one, a decimal, a date or a list."""

MAYBE_AFTER_NUMBER = r"(?<![0-9A-Za-z])(?<![0-9][-.])(?:(?<![0-9][,/])|(?<=[0-9]{4}[,/]))"
MAYBE_BEFORE_NUMBER = r"(?![0-9])(?![-.][0-9])(?![,/][0-9]{2,}+(?! ?[-–.)]))(?!(?:권|쪽|호(?!출|실|텔))(?![가-힣]{2}))"
"""Bounds of numbers that may be listed with a comma or stroke and no blank, and end in an extension (``02-123-4567/8``) or in
the last digits of others (``02-123-4567/4568``)."""

COUNTED = r"(?:명|원|개|년|여|만|억|대|건|가구|점|배|톤|평|주|달러|시간|km|m|kg|t|㎡|%)"
"""Units after a quantity or a range of quantities (``1600-2000명``)."""

OF_OWNER = r"(?:[ :=은는이가을를()\[\]<>,제]{0,4}| ?[:=(] ?[가-힣]{3}[ ,:)\]]{1,3})"
"""Between a label and its number: marks and a particle, or the owner's name behind a mark."""
LABEL_REACH = 32
"""So many characters before a number are searched for its label."""


def text_before(match: re.Match[str], characters: int) -> str:
    """Return so many characters before a match."""
    return match.string[max(0, match.start() - characters) : match.start()]


def is_specimen(digits: str) -> bool:
    """Return whether a number shows its form only: one digit throughout, or each digit one more than that before (789012)."""
    return len({(int(digit) - place) % 10 for place, digit in enumerate(digits)}) == 1 or len(set(digits)) == 1
