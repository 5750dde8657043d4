"""MediaWiki templates whose text is part of a sentence (``templates.toml``); all others show nothing."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Mapping
from functools import lru_cache
from importlib.resources import files

from korealbert.corpus.markup.layout import protect
from korealbert.corpus.particles import is_particle
from korealbert.corpus.superscripts import LEVEL, LOWERED, RAISED

_RANGES = {
    **dict.fromkeys(("to", "to(-)", "-", "–"), "–"),
    **dict.fromkeys(("and", "and(-)", "or"), ", "),
    **dict.fromkeys(("by", "x", "xx", "×"), " × "),
    **dict.fromkeys(("~", "에서"), "~"),
    **dict.fromkeys(("±", "+/-"), " ± "),
}
_CHARGE = re.compile(r"\d*[-+−–]")
_UNIT_POWER = re.compile(r"(?<=[dimnt])([23])\b")
_ACCIDENTALS = {
    **dict.fromkeys(("sharp", "#", "♯", "올림표"), "♯"),
    **dict.fromkeys(("flat", "b", "♭", "내림표"), "♭"),
    **dict.fromkeys(("natural", "♮", "제자리표"), "♮"),
    **dict.fromkeys(("doublesharp", "x"), "𝄪"),
    **dict.fromkeys(("doubleflat", "bb"), "𝄫"),
}
_LEVELS = {":^": RAISED, ":_": LOWERED}
_INLINE_PREFIXES = ("formatnum:", "lc:", "uc:", "lang-", "언어-", "link-")
"""Templates with these prefixes show their first argument, or the text after the colon."""
_OPTIONAL = re.compile(r"\[([^\[\]]*)\]")
_ARGUMENT = re.compile(r"\{(\w+)(:[\^_])?\}")

DISAMBIGUATION = frozenset(
    {
        *("동음이의", "동음이의어", "동명이인", "동음이의어 문서"),
        *("인명 동음이의", "지명 동음이의", "학교 동음이의", "성씨 동음이의"),
        *("disambig", "disambiguation", "dab", "hndis", "geodis"),
    }
)


@lru_cache(maxsize=4096)
def template_key(name: str) -> str:
    """Return a template's name in the form that is compared: lower case, without namespace and marks of removed comments."""
    key = " ".join(name.replace("_", " ").replace("\0", "").split()).lower()
    for prefix in ("틀:", "template:"):
        key = key.removeprefix(prefix).lstrip()
    return key


def is_inline(key: str, extra: Mapping[str, int | str]) -> bool:
    """Return whether a template shows text of its arguments."""
    return key in _PATTERNS or key in extra or key.startswith(_INLINE_PREFIXES)


def inline_text(key: str, arguments: list[str], extra: Mapping[str, int | str]) -> str:
    """Return the text of an inline template, or "" if an argument is missing. ``arguments`` are raw (``name=value``)."""
    function, colon, rest = key.partition(":")
    if colon and key.startswith(_INLINE_PREFIXES):
        return rest.strip().upper() if function == "uc" else rest.strip()
    given: dict[str, str] = {}
    unnamed = 0
    for argument in arguments:
        name, equals, value = argument.partition("=")
        if not equals:
            unnamed += 1
            name, value = str(unnamed), argument
        given[name.strip()] = value.strip()
    own = extra.get(key)
    patterns = _PATTERNS.get(key, ("{1}",)) if own is None else (f"{{{own}}}" if isinstance(own, int) else own,)
    return next(filter(None, (_filled(pattern, given) for pattern in patterns)), "")


def _filled(pattern: str, given: Mapping[str, str]) -> str:
    """Fill in a pattern's arguments; return "" if one is missing that is not in brackets."""
    values = {name: _COMPUTED[name](given) if name in _COMPUTED else given.get(name, "") for name in _names(pattern)}

    def complete(part: str) -> bool:
        return all(values[name] for name in _names(part))

    before = ""
    while "[" in pattern and before != pattern:
        before, pattern = pattern, _OPTIONAL.sub(lambda part: part[1] if complete(part[1]) else "", pattern)
    if not complete(pattern):
        return ""
    return _ARGUMENT.sub(lambda one: f"{_LEVELS[one[2]]}{values[one[1]]}{LEVEL}" if one[2] else values[one[1]], pattern)


@lru_cache(maxsize=4096)
def _names(pattern: str) -> frozenset[str]:
    return frozenset(name for name, _ in _ARGUMENT.findall(pattern))


def _date(given: Mapping[str, str]) -> str:
    """Write a date as 2014년 5월 1일, or as far as it is given; ages are left out, because they change."""
    year = given.get("1", "")
    if not year.isdecimal():
        return year
    parts = []
    for number, unit in enumerate("년월일", 1):
        if not (value := given.get(str(number), "")).isdecimal():
            break
        parts.append(f"{value if unit == '년' else value.lstrip('0')}{unit}")
    return " ".join(parts) if len(parts) > 1 or "2" in given else year


def _money(given: Mapping[str, str]) -> str:
    """Write an amount and its currency, which are given in either order."""
    one, other = given.get("1", ""), given.get("2", "")
    amount, currency = (one, other) if any(map(str.isdecimal, one)) else (other, one)
    return f"{amount}{'' if '가' <= currency[:1] <= '힣' else ' '}{currency}".strip()


def _measure(given: Mapping[str, str]) -> str:
    """Write a number or range with its unit, and smaller units: 10–20 km, 5 ft 11 in."""
    arguments = (given.get(str(number), "") for number in range(1, 10))
    shown, *rest = (_UNIT_POWER.sub(rf"{RAISED}\1{LEVEL}", one) if one else "" for one in arguments)
    while len(rest) > 1 and rest[0] in _RANGES and rest[1]:
        shown, rest = f"{shown}{_RANGES[rest[0]]}{rest[1]}", rest[2:]
    if not shown or not rest:
        return shown
    shown, rest = f"{shown} {rest[0]}".strip(), rest[1:]
    while len(rest) > 1 and rest[0][:1].isdecimal() and rest[1] and not rest[1][0].isdecimal():
        shown, rest = f"{shown} {rest[0]} {rest[1]}", rest[2:]
    return shown


def _country(given: Mapping[str, str]) -> str:
    return COUNTRIES.get(given.get("1", ""), given.get("1", ""))


def _accidental(given: Mapping[str, str]) -> str:
    return _ACCIDENTALS.get(given.get("1", "").lower(), "")


def _chemical(given: Mapping[str, str]) -> str:
    """Join the parts of a formula; a charge (2−) is a superscript."""
    parts = (given.get(str(number), "") for number in range(1, 20))
    return "".join(f"{RAISED}{part}{LEVEL}" if _CHARGE.fullmatch(part) else part for part in parts)


_COMPUTED: Mapping[str, Callable[[Mapping[str, str]], str]] = {
    "date": _date,
    "measure": _measure,
    "money": _money,
    "country": _country,
    "accidental": _accidental,
    "chemical": _chemical,
}


_TABLES = tomllib.loads(files(__package__).joinpath("templates.toml").read_text("utf-8"))
COUNTRIES: Mapping[str, str] = dict(pair.split(" ", 1) for pair in _TABLES["countries"].strip().replace("\n", " ").split(", "))
"""Country by the code that is its template's name."""
_AMBIGUOUS = frozenset(_TABLES["ambiguous"].split())
_CODE_END = re.compile("[가-힣]{1,8}")


def country_of_code(name: str, text: str, end: int) -> str:
    """Return the country whose code names a template up to ``end``; if it is an abbreviation too, only before a particle."""
    country = COUNTRIES.get(name, "")
    if name in _AMBIGUOUS and not ((word := _CODE_END.match(text, end)) and is_particle(word[0])):
        return ""
    return country


_PATTERNS: Mapping[str, tuple[str, ...]] = {
    name: tuple(one if "{" in one else protect(one) for one in ([given] if isinstance(given, str) else given))
    for table in _TABLES["shown"]
    for given in [table["pattern"]]
    for name in table["names"]
}
"""Name → patterns of the output; the first that has all its arguments is used."""
