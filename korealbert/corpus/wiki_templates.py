"""The few MediaWiki templates whose text is part of the sentence; all others are dropped."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from korealbert.corpus.wiki_literals import literal

FIRST_ARGUMENT = (
    *("한자", "국기나라", "nowrap", "date", "날짜", "연도", "ruby", "루비", "일본어", "훈민정음"),
    *("작게", "small", "크게", "big", "굵게", "기울임", "강조", "em", "strong", "abbr", "약자"),
    *("nobr", "줄바꿈 없음", "줄바꿈없음", "sup", "sub", "위첨자", "아래첨자", "중앙", "center", "가운데"),
    *("인용문", "인용문2", "quote", "blockquote", "cquote"),
)
SECOND_ARGUMENT = ("llang", "lang", "언어고리", "언어", "색", "color", "글자색", "font color", "transl")
DEFAULT_ARGUMENTS = dict.fromkeys(FIRST_ARGUMENT, 1) | dict.fromkeys(SECOND_ARGUMENT, 2)
"""Template name (lower case) → the argument that it shows."""

MEASURES = frozenset({"convert", "cvt", "변환", "단위 변환", "단위변환"})
_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
RANGES = {"to": "–", "-": "–", "–": "–", "and": ", ", "by": " × ", "x": " × ", "×": " × ", "~": "~", "에서": "~"}

CHARACTERS = {
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

INLINE_PREFIXES = ("formatnum:", "lang-", "언어-")
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
        key in DEFAULT_ARGUMENTS
        or key in extra
        or key in MEASURES
        or key in CHARACTERS
        or key == "단위"
        or key.startswith(INLINE_PREFIXES)
    )


def inline_text(key: str, arguments: list[str], extra: Mapping[str, int]) -> str:
    """What an inline template shows; empty if it lacks that argument. ``arguments`` are raw (``name=value``)."""
    if key in CHARACTERS:
        return CHARACTERS[key]
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
    if key == "단위":
        return numbered.get(1, "") + numbered.get(2, "").translate(_SUPERSCRIPTS)
    if key in MEASURES:
        return _measure(numbered)
    if key in ("date", "날짜") and numbered.get(1, "").isdecimal() and numbered.get(2, "").isdecimal():
        return "".join(f"{numbered[n]}{unit} " for n, unit in enumerate("년월일", 1) if numbered.get(n)).strip()
    return numbered.get(extra.get(key) or DEFAULT_ARGUMENTS.get(key, 1), "")


def _measure(numbered: Mapping[int, str]) -> str:
    value, following, third, fourth = (numbered.get(n, "") for n in range(1, 5))
    if following in RANGES and third:
        return f"{value}{RANGES[following]}{third} {fourth}".strip()
    return f"{value} {following}".strip() if value else ""
