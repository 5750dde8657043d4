"""Superscripts and subscripts as plain text: 10 to the 13th is 10^13, never 1013.

A superscript behind a digit is written as formulas are (10^13, SO4^2−): Unicode's own, which vocabularies normalise by NFKC to
plain digits, would make one number of two. Elsewhere it is Unicode's (km², Ca²⁺, ¹³⁷Cs). Subscripts stay digits (H2O, x1),
apart from digits before (1010_2) and behind them (log10 100). Words stay as they are (1st). Note marks go: [1], 주1), lists of
numbers that are no locants (1,2 but not [3.3.1.1^3,7]), and numbers behind the end of a sentence.
"""

from __future__ import annotations

import html
import re

RAISED, LOWERED, LEVEL = "\x0e", "\x0f", "\x10"
"""Begin a superscript and a subscript, and end either, in a text that ``read_scripts`` reads."""

_SUPERSCRIPTS = str.maketrans("+-−–0123456789", "⁺⁻⁻⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
_SIGN = "[-+−–±]"
_VARIABLE = r"(?:''[A-Za-zα-ω]''|[knpqxyzα-ω])"
"""Other letters only in italics: 5e, 1a and 2h are no powers."""
_TERM = rf"(?:\d+(?:,\d{{3}})*(?:\.\d+)?{_VARIABLE}?|{_VARIABLE})"
_EXPONENT = re.compile(rf"{_SIGN}?{_TERM}(?: ?[-+−–/×·^] ?{_TERM})*{_SIGN}?|{_SIGN}")
_SYMBOL = re.compile(r"(?:(?<![^\W\d_])[^\W\d_]|\))\Z")
"""Ends a text that a variable may be the exponent of: one letter, or a parenthesis."""
_INDEX = re.compile(r"\d[\w.,]{0,8}")
_LIST = re.compile(r"\d{1,2}(?:, ?\d{1,2})+")
_NOTE_MARK = re.compile(rf"(?:\[[^\[\]]{{1,20}}\],? ?)+|(?:주 ?)?\d{{1,2}}\)|{_LIST.pattern}")
_SENTENCE_NOTE = re.compile(r"\d{1,3}(?:[-–~]\d{1,3})?|[*†‡]{1,3}")
"""A note mark only behind the end of a sentence; not before a letter (<sup>14</sup>C)."""
_SENTENCE_END = re.compile(r"[가-힣][\"'”’)]{0,3}[.?!][\"'”’)]{0,3}\Z")
_LOCATED = re.compile(rf"\[\d+\.[\d.,^{RAISED}{LEVEL}]*\d\Z|[Α-Ω]\Z")
"""Ends a text that locants follow: [3.3.1.1^3,7], Δ^9,11."""
_FRACTION = re.compile(rf"([A-Za-zα-ωΑ-Ω)\]]?[\d'\0-\x04]*){RAISED}(\d+){LEVEL}(?:[/⁄]|&frasl;){LOWERED}(\d+){LEVEL}")
"""Behind a letter it is a power: x^2/3."""
CONTEXT_CHARS = 40
"""Characters before a superscript that may decide what it is."""
_SCRIPT = re.compile(f"([{RAISED}{LOWERED}])([^{RAISED}{LOWERED}{LEVEL}\n]{{0,40}}){LEVEL}")
_UNPAIRED = re.compile(f"[{RAISED}{LOWERED}{LEVEL}]")
_PARSER_MARKS = "\0\x01\x02\x03\x04"
_NOT_SHOWN = f"'{_PARSER_MARKS}{RAISED}{LOWERED}{LEVEL}"
"""What may be between a number and its exponent: quotation marks of italics, marks of the parsers."""
_DEPTH = 3
"""Superscripts within superscripts that are read: 2^2^2."""


_TAGS = {"<sup": RAISED, "<sub": LOWERED, "</sup": LEVEL, "</sub": LEVEL}


def script_mark(tag: str) -> str:
    """What a tag of HTML becomes before ``read_scripts`` reads the text: a mark if it is one of sup or sub, else nothing."""
    return _TAGS.get(tag[:5].rstrip(" >").lower(), "")


def read_scripts(text: str) -> str:
    """``text`` with what is between ``RAISED`` or ``LOWERED`` and ``LEVEL`` on one line in its plain form, without these."""
    if LEVEL not in text and RAISED not in text and LOWERED not in text:
        return text
    text = _FRACTION.sub(_fraction, text)
    for _ in range(_DEPTH):
        text, found = _SCRIPT.subn(_plain, text)
        if not found:
            break
    return _UNPAIRED.sub("", text)


def _fraction(parts: re.Match[str]) -> str:
    """A half is 1/2, three and a half 3 1/2."""
    before = parts[1].strip(_NOT_SHOWN)
    if before and not before[0].isdecimal():
        return parts[0]
    return f"{parts[1]}{' ' if before[-1:].isdecimal() else ''}{parts[2]}/{parts[3]}"


def _plain(script: re.Match[str]) -> str:
    text, (start, end) = script.string, script.span()
    before = text[max(0, start - CONTEXT_CHARS) : start]
    return script_text(script[2], before, text[end : end + 1], raised=script[1] == RAISED)


def script_text(content: str, before: str, behind: str, *, raised: bool) -> str:
    """The plain form of one superscript or subscript between two texts; ``content`` itself where it is no number."""
    before = before.rstrip(_NOT_SHOWN)
    inner = html.unescape(content.translate(dict.fromkeys(map(ord, _PARSER_MARKS)))).strip()
    plain = inner.replace("'''", "").replace("''", "")
    shown = plain.replace(" ", "")
    if raised and _LIST.fullmatch(plain) and _LOCATED.search(before):
        return f"^{shown}"
    if raised and _NOTE_MARK.fullmatch(plain):
        return ""
    if raised and _SENTENCE_NOTE.fullmatch(plain) and not re.match("[A-Za-z]", behind) and _SENTENCE_END.search(before):
        return ""
    if raised and (_EXPONENT.fullmatch(inner) or _EXPONENT.fullmatch(plain)):
        shown = _power(before, shown)
    elif not raised and _INDEX.fullmatch(plain):
        shown = f"_{shown}" if before[-1:].isdecimal() else shown
    else:
        return content
    return f"{shown} " if shown[-1:].isdigit() and behind[:1].isdecimal() else shown


def _power(before: str, exponent: str) -> str:
    unicode = exponent.translate(_SUPERSCRIPTS)
    whole = not unicode.strip("⁺⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
    if before[-1:].isdecimal() or (not whole and _SYMBOL.search(before)):
        return f"^{exponent}"
    return unicode if whole else exponent
