"""The few MediaWiki templates whose text is part of the sentence; all others are dropped."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import lru_cache

from korealbert.corpus.markup.layout import literal

_FIRST_ARGUMENT = (
    *("한자", "국기나라", "nowrap", "date", "날짜", "연도", "ruby", "루비", "일본어", "훈민정음"),
    *("작게", "small", "크게", "big", "굵게", "기울임", "강조", "em", "strong", "abbr", "약자"),
    *("nobr", "줄바꿈 없음", "줄바꿈없음", "sup", "sub", "위첨자", "아래첨자", "중앙", "center", "가운데"),
    *("인용문", "인용문2", "quote", "blockquote", "cquote"),
)
_SECOND_ARGUMENT = ("llang", "lang", "언어고리", "언어", "색", "color", "글자색", "font color", "transl")
_DEFAULT_ARGUMENTS = dict.fromkeys(_FIRST_ARGUMENT, 1) | dict.fromkeys(_SECOND_ARGUMENT, 2)
"""Template name (lower case) → the argument that it shows."""

_UNITS = frozenset({"단위"})
"""Templates of a number and its power: `1 = m`, `2 = 2`."""

_MEASURES = frozenset({"convert", "cvt", "변환", "단위 변환", "단위변환"})
_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
_RANGES = {"to": "–", "-": "–", "–": "–", "and": ", ", "by": " × ", "x": " × ", "×": " × ", "~": "~", "에서": "~"}

_DATES = frozenset(
    {
        *("date", "날짜", "시작일", "종료일", "시작일과 경과", "시작일과 나이", "발행일", "개봉일"),
        *("출생일", "출생일과 나이", "출생일과나이", "사망일", "사망일과 나이", "사망일과나이"),
        *("start date", "end date", "start date and age", "film date", "birth date", "birth date and age"),
        *("birth-date and age", "death date", "death date and age", "dob", "bda"),
    }
)
"""They show year, month and day, their first three arguments; ages, which change, are left out."""
_MONEY = frozenset({"화폐", "통화", "currency"})
"""They show an amount and its currency, in either order."""

_CHARACTERS = {
    "=": literal("="),
    "·": "·",
    "•": "•",
    "nbsp": " ",
    "spaces": " ",
    "ndash": "–",
    "mdash": "—",
    "snd": " – ",
    "–": "–",
}

_INLINE_PREFIXES = ("formatnum:", "lang-", "언어-")
"""Templates with such names stand for their first argument, or for what follows the colon."""

DISAMBIGUATION = frozenset(
    {
        *("동음이의", "동음이의어", "동명이인", "동음이의어 문서"),
        *("인명 동음이의", "지명 동음이의", "학교 동음이의", "성씨 동음이의"),
        *("disambig", "disambiguation", "dab", "hndis", "geodis"),
    }
)


@lru_cache(maxsize=4096)
def template_key(name: str) -> str:
    """A template's name as MediaWiki compares it, in lower case and without its namespace, nor marks of removed comments."""
    key = " ".join(name.replace("_", " ").replace("\0", "").split()).lower()
    for prefix in ("틀:", "template:"):
        key = key.removeprefix(prefix).lstrip()
    return key


def is_inline(key: str, extra: Mapping[str, int]) -> bool:
    """Whether a template shows text of its arguments."""
    return (
        key in _DEFAULT_ARGUMENTS
        or key in extra
        or key in _MEASURES
        or key in _CHARACTERS
        or key in _DATES
        or key in _MONEY
        or key in _UNITS
        or key.startswith(_INLINE_PREFIXES)
    )


def inline_text(key: str, arguments: list[str], extra: Mapping[str, int]) -> str:
    """What an inline template shows; empty if it lacks that argument. ``arguments`` are raw (``name=value``)."""
    if key in _CHARACTERS:
        return _CHARACTERS[key]
    if key.startswith("formatnum:"):
        return key.removeprefix("formatnum:").strip()
    numbered: dict[int, str] = {}
    unnamed = 0
    for argument in arguments:
        name, equals, value = argument.partition("=")
        if not equals:
            unnamed += 1
            numbered[unnamed] = argument.strip()
        elif name.strip() in ("1", "2", "3", "4"):
            numbered[int(name)] = value.strip()
    if key not in extra:
        for keys, shown in _SHOWN:
            if key in keys:
                return shown(numbered)
    return numbered.get(extra.get(key) or _DEFAULT_ARGUMENTS.get(key, 1), "")


def _unit(numbered: Mapping[int, str]) -> str:
    return numbered.get(1, "") + numbered.get(2, "").translate(_SUPERSCRIPTS)


def _date(numbered: Mapping[int, str]) -> str:
    """2014년 5월 1일, as precise as it is given; what is no number is shown as it is."""
    if not numbered.get(1, "").isdecimal():
        return numbered.get(1, "")
    parts = []
    for number, unit in enumerate("년월일", 1):
        if not (value := numbered.get(number, "")).isdecimal():
            break
        parts.append(f"{value if unit == '년' else value.lstrip('0')}{unit}")
    return " ".join(parts) if len(parts) > 1 or len(numbered) > 1 else numbered[1]


def _money(numbered: Mapping[int, str]) -> str:
    one, other = numbered.get(1, ""), numbered.get(2, "")
    amount, currency = (one, other) if any(map(str.isdecimal, one)) else (other, one)
    return f"{amount}{'' if '가' <= currency[:1] <= '힣' else ' '}{currency}".strip()


def _measure(numbered: Mapping[int, str]) -> str:
    value, following, third, fourth = (numbered.get(n, "") for n in range(1, 5))
    if following in _RANGES and third:
        return f"{value}{_RANGES[following]}{third} {fourth}".strip()
    return f"{value} {following}".strip() if value else ""


_SHOWN: tuple[tuple[Collection[str], Callable[[Mapping[int, str]], str]], ...] = (
    (_UNITS, _unit),
    (_MEASURES, _measure),
    (_DATES, _date),
    (_MONEY, _money),
)
