"""Unique identifiers of the act on personal information: numbers of residents, foreigners, passports and driving licenses."""

from __future__ import annotations

import re
from datetime import date
from functools import partial

from korealbert.corpus.clean.personal_data.recognizer import (
    LABEL_REACH,
    MAYBE_AFTER_NUMBER,
    MAYBE_BEFORE_NUMBER,
    NOT_AFTER_NUMBER,
    NOT_BEFORE_NUMBER,
    OF_OWNER,
    Recognizer,
    is_specimen,
    text_before,
)

# Residents and registered foreigners

_PERSON = re.compile(rf"{MAYBE_AFTER_NUMBER}([0-9]{{6}})( ?[-–] ?|[ /._~]|)([0-9]{{7}}){MAYBE_BEFORE_NUMBER}")
_CENTURY = {"9": 1800, "0": 1800, "1": 1900, "2": 1900, "3": 2000, "4": 2000, "5": 1900, "6": 1900, "7": 2000, "8": 2000}
"""The seventh digit → the century of birth."""
_FOREIGN = "5678"
"""The seventh digit of foreigners."""
_RESIDENT_WEIGHTS = (2, 3, 4, 5, 6, 7, 8, 9, 2, 3, 4, 5)
_RANDOM_NUMBERS_FROM = date(2020, 10, 5)
"""Resident numbers given since then have no check digit (주민등록법 시행규칙, in force 2020-10-05)."""
_BORN_BY = date(2030, 12, 31)
"""Resident numbers of later days of birth are none. A constant, so that a text is masked alike whenever that is done."""

_PERSON_LABEL = re.compile(
    rf"(?:주민 ?(?:등록)?|외국인 ?(?:등록)?|거소 ?(?:신고)?)(?:증)? ?(?:번호|No\.?)(?: ?13자리)?{OF_OWNER}\Z"
)
_PERSON_AFTER = re.compile(r" ?[(/\[] ?(?:주민|외국인) ?(?:등록)? ?번호(?! ?[가-힣])")
"""Labels before and after a number: with one, neither date nor check digit must be right."""
_PERSON_CUE = re.compile("(?:주민|외국인)(?: ?등록)?(?: ?번호)?[^0-9\n]{0,6}\\Z")
"""What two numbers with a blank between need before them."""


def _person(match: re.Match[str], *, foreign: bool) -> int | None:
    """Check the number of a resident or registered foreigner: its date must exist and its check digit be right.

    Numbers given since ``_RANDOM_NUMBERS_FROM`` have no check digit and need a hyphen. Two numbers with a blank between need a
    cue word, with another mark a label. A number without a hyphen that is also a valid Korean bar code is taken for one.
    """
    digits = match[1] + match[3]
    if (digits[6] in _FOREIGN) != foreign:
        return None
    born = _birthday(digits)
    if _PERSON_LABEL.search(text_before(match, LABEL_REACH)) or _PERSON_AFTER.match(match.string, match.end()):
        return match.start() if born or not is_specimen(digits) else None
    if not born or born > _BORN_BY or match[2] in {*"/._~"}:
        return None
    weighted = sum(weight * int(digit) for weight, digit in zip(_RESIDENT_WEIGHTS, digits))
    checked = ((13 if foreign else 11) - weighted % 11) % 10 == int(digits[12])
    if match[2].strip():
        valid = checked or born >= _RANDOM_NUMBERS_FROM
    elif match[2]:
        valid = checked and _PERSON_CUE.search(text_before(match, 16)) is not None
    else:
        valid = checked and not _is_bar_code(digits)
    return match.start() if valid else None


def _birthday(digits: str) -> date | None:
    try:
        return date(_CENTURY[digits[6]] + int(digits[:2]), int(digits[2:4]), int(digits[4:6]))
    except ValueError:
        return None


def _is_bar_code(digits: str) -> bool:
    weighted = sum(int(digit) * (1 + 2 * (position % 2)) for position, digit in enumerate(digits))
    return digits.startswith("880") and weighted % 10 == 0


_THIRTEEN_DIGITS = re.compile("[0-9]{6}[-– /._~]{0,3}[0-9]{7}")
RESIDENT_NUMBER = Recognizer(_THIRTEEN_DIGITS, _PERSON, partial(_person, foreign=False))
FOREIGNER_NUMBER = Recognizer(_THIRTEEN_DIGITS, _PERSON, partial(_person, foreign=True))

# Passports

_PASSPORT_NUMBER = "[A-Z] ?(?:[0-9]{8}|[0-9]{3}[A-Z][0-9]{4})"
_PASSPORT = re.compile(
    r"(?:여권(?: ?번호)?|(?<![A-Za-z])(?i:passport(?: ?(?:number|no\.?|#))?))[ :=은는이가(]{0,3}"
    rf"({_PASSPORT_NUMBER})(?![0-9A-Za-z])"
    rf"|(?:여권 ?번호|(?<![A-Za-z])(?i:passport ?(?:number|no\.?|#))){OF_OWNER}"
    rf"([A-Z]{{1,2}}[ -]?[0-9]{{7,8}}|{_PASSPORT_NUMBER})(?![0-9A-Za-z])"
    rf"|(?<![0-9A-Za-z])({_PASSPORT_NUMBER})(?= ?[(/]? ?여권(?: ?번호|\)|$))"
)


def _passport(match: re.Match[str]) -> int:
    return match.start(match.lastindex or 0)


PASSPORT = Recognizer(re.compile("여권|(?i:passport)"), _PASSPORT, _passport)

# Driving licenses

_PROVINCE = "서울|부산|경기|강원|충북|충남|전북|전남|경북|경남|제주|대구|인천|광주|대전|울산"
_LICENSE = re.compile(
    rf"{NOT_AFTER_NUMBER}(?:(?:(?:1[1-9]|2[0-8])-|(?:{_PROVINCE})[ -]?)[0-9]{{2}}-[0-9]{{6}}-[0-9]{{2}}"
    rf"|(?P<parted>(?:(?:1[1-9]|2[0-8])[ .]|(?:{_PROVINCE}) ?)[0-9]{{2}}(?P<blank>[ .])[0-9]{{6}}(?P=blank)[0-9]{{2}})"
    rf"|(?P<solid>[0-9]{{12}})){NOT_BEFORE_NUMBER}"
)
"""Province, year, serial number and two check digits, whose rule is not public."""
_LICENSE_CUE = re.compile(r"(?:면허[^0-9\n]{0,16}|(?<![가-힣])번호[^0-9\n]{0,6})\Z")
"""What numbers with hyphens need."""
_LICENSE_NAME = re.compile(r"면허[^0-9\n]{0,16}\Z")
"""What numbers with blanks or dots need: they may be figures of a table."""
_LICENSE_LABEL = re.compile(rf"면허(?:증)? ?(?:번호|No\.?){OF_OWNER}\Z")
"""What twelve digits in a row need."""
_LICENSE_CUE_REACH = 24


def _license(match: re.Match[str]) -> int | None:
    """Require a cue word, because lots, tenders and files are numbered in the same form."""
    after = match.string[match.end() : match.end() + 8]
    cue = _LICENSE_LABEL if match["solid"] else _LICENSE_NAME if match["parted"] else _LICENSE_CUE
    named = cue.search(text_before(match, _LICENSE_CUE_REACH)) or ("면허" in after and not match["solid"])
    return match.start() if named and not is_specimen(re.sub("[^0-9]", "", match[0])) else None


DRIVING_LICENSE = Recognizer(re.compile("[0-9]{2}[-. ][0-9]{6}[-. ][0-9]{2}|[0-9]{12}"), _LICENSE, _license)
