"""Superscripts and subscripts as plain text: 10 to the 13th is 10^13, never 1013.

A superscript after a digit is written with ^ (10^13, SO4^2−), because vocabularies normalise Unicode's superscripts by NFKC to
plain digits, which would merge the two numbers. Elsewhere Unicode's are used (km², Ca²⁺, ¹³⁷Cs). Subscripts become digits (H2O,
x1), separated from digits before (1010_2) and after them (log10 100). Words stay as they are (1st). Note marks are removed:
[1], 주1), lists of numbers that are not locants (1,2 but not [3.3.1.1^3,7]), and numbers after the end of a sentence.
"""

from __future__ import annotations

import html
import re

RAISED, LOWERED, LEVEL = "\x0e", "\x0f", "\x10"
"""Marks for ``read_scripts``: the begin of a superscript, the begin of a subscript, and the end of either."""

_SUPERSCRIPTS = str.maketrans("+-−–0123456789", "⁺⁻⁻⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
_SIGN = "[-+−–±]"
_VARIABLE = r"(?:''[A-Za-zα-ω]''|[knpqxyzα-ω])"
"""Other letters count only in italics: 5e, 1a and 2h are not powers."""
_TERM = rf"(?:\d+(?:,\d{{3}})*(?:\.\d+)?{_VARIABLE}?|{_VARIABLE})"
_EXPONENT = re.compile(rf"{_SIGN}?{_TERM}(?: ?[-+−–/×·^] ?{_TERM})*{_SIGN}?|{_SIGN}")
_SYMBOL = re.compile(r"(?:(?<![^\W\d_])[^\W\d_]|\))\Z")
"""The end of a text that may have a variable as its exponent: a single letter, or a parenthesis."""
_TEN = re.compile(r"[×xX*·∙⋅] ?10 \Z")
"""The end of a text that a power of ten follows after a blank: 6.02×10 <sup>23</sup>."""
_INDEX = re.compile(r"\d[\w.,]{0,8}")
_LIST = re.compile(r"\d{1,2}(?:, ?\d{1,2})+")
_NOTE_MARK = re.compile(rf"(?:\[[^\[\]]{{1,20}}\],? ?)+|(?:주 ?)?\d{{1,2}}\)|{_LIST.pattern}")
_SENTENCE_NOTE = re.compile(r"\d{1,3}(?:[-–~]\d{1,3})?|[*†‡]{1,3}")
"""A note mark if it follows the end of a sentence and no letter follows it (<sup>14</sup>C)."""
_SENTENCE_END = re.compile(r"[가-힣][\"'”’)]{0,3}[.?!][\"'”’)]{0,3}\Z")
_LOCATED = re.compile(rf"\[\d+\.[\d.,^{RAISED}{LEVEL}]*\d\Z|[Α-Ω]\Z")
"""The end of a text that locants follow: [3.3.1.1^3,7], Δ^9,11."""
_HALVES = re.compile(rf"{RAISED}(\d+){LEVEL}(?:[/⁄]|&frasl;){LOWERED}(\d+){LEVEL}")
_FRACTION = re.compile(rf"((?:[A-Za-zα-ωΑ-Ω)\]]|(?<![\d'\0-\x04]))[\d'\0-\x04]*){_HALVES.pattern}")
"""A fraction (1/2), unless a letter is before it, which makes it a power (x^2/3)."""
CONTEXT_CHARS = 40
"""Characters before a superscript that are looked at."""
_SCRIPT = re.compile(f"([{RAISED}{LOWERED}])([^{RAISED}{LOWERED}{LEVEL}\n]{{0,40}}){LEVEL}")
_UNPAIRED = re.compile(f"[{RAISED}{LOWERED}{LEVEL}]")
_PARSER_MARKS = "\0\x01\x02\x03\x04"
_NOT_SHOWN = f"'{_PARSER_MARKS}{RAISED}{LOWERED}{LEVEL}"
"""Characters that may be between a number and its exponent: quotes of italics, marks of the parsers."""
_MAX_DEPTH = 3
"""Levels of nested superscripts that are read: 2^2^2."""
_TAGS = {"<sup": RAISED, "<sub": LOWERED, "</sup": LEVEL, "</sub": LEVEL}


def script_mark(tag: str) -> str:
    """Return the mark that ``read_scripts`` needs in the place of an HTML tag, or "" if the tag is not sup or sub."""
    return _TAGS.get(tag[:5].rstrip(" >").lower(), "")


def read_scripts(text: str) -> str:
    """Replace the marks, and what is between them on one line, by plain text."""
    if LEVEL not in text and RAISED not in text and LOWERED not in text:
        return text
    if _HALVES.search(text):
        text = _FRACTION.sub(_fraction, text)
    for _ in range(_MAX_DEPTH):
        if RAISED in text or LOWERED in text:
            text = _SCRIPT.sub(_plain, text)
    return _UNPAIRED.sub("", text) if LEVEL in text or RAISED in text or LOWERED in text else text


def _fraction(parts: re.Match[str]) -> str:
    """Write a half as 1/2, three and a half as 3 1/2."""
    before = parts[1].strip(_NOT_SHOWN)
    if before and not before[0].isdecimal():
        return parts[0]
    return f"{parts[1]}{' ' if before[-1:].isdecimal() else ''}{parts[2]}/{parts[3]}"


def _plain(script: re.Match[str]) -> str:
    text, (start, end) = script.string, script.span()
    before = text[max(0, start - CONTEXT_CHARS) : start]
    return script_text(script[2], before, text[end : end + 1], raised=script[1] == RAISED)


def script_text(content: str, before: str, after: str, *, raised: bool) -> str:
    """Return the plain form of a superscript or subscript between two texts, or ``content`` if it is not a number."""
    before = before.rstrip(_NOT_SHOWN)
    inner = html.unescape(content.translate(dict.fromkeys(map(ord, _PARSER_MARKS)))).strip()
    plain = inner.replace("'''", "").replace("''", "")
    shown = plain.replace(" ", "")
    if raised and _LIST.fullmatch(plain) and _LOCATED.search(before):
        return f"^{shown}"
    if raised and _NOTE_MARK.fullmatch(plain):
        return ""
    if raised and _SENTENCE_NOTE.fullmatch(plain) and not re.match("[A-Za-z]", after) and _SENTENCE_END.search(before):
        return ""
    if raised and (_EXPONENT.fullmatch(inner) or _EXPONENT.fullmatch(plain)):
        shown = _power(before, shown)
    elif not raised and _INDEX.fullmatch(plain):
        shown = f"_{shown}" if before[-1:].isdecimal() else shown
    else:
        return content
    return f"{shown} " if shown[-1:].isdigit() and after[:1].isdecimal() else shown


def _power(before: str, exponent: str) -> str:
    unicode = exponent.translate(_SUPERSCRIPTS)
    whole = not unicode.strip("⁺⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
    if before[-1:].isdecimal() or _TEN.search(before) or (not whole and _SYMBOL.search(before)):
        return f"^{exponent}"
    return unicode if whole else exponent
