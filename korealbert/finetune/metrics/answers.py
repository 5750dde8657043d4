"""Scores of predicted answers, from 0 to 1: exact match and overlap of characters or words, as in official scripts."""

from __future__ import annotations

import html
import re
import string
from collections import Counter
from collections.abc import Callable, Sequence
from difflib import SequenceMatcher
from html.entities import html5
from html.parser import HTMLParser

from korealbert.finetune.metrics import Mode

_PUNCTUATION = str.maketrans("", "", string.punctuation)

_KORQUAD_MARKS = str.maketrans(dict.fromkeys("'\"《》<>〈〉()‘’", " "))

_KLUE_NEVER = re.compile(r"['\"《》<>〈〉]\(\)‘’")
"""KLUE's pattern for quotes and brackets. Its character class closes too early: it only matches one before ``()‘’``."""

_ARTICLES = re.compile(r"\b(a|an|the)\b")

_Overlap = Callable[[str, str, Mode], float]


def normalise_korquad(text: str) -> str:
    """Replace quotes and brackets by spaces, lower-case, remove ASCII punctuation, collapse spaces."""
    return " ".join(text.translate(_KORQUAD_MARKS).lower().translate(_PUNCTUATION).split())


_UNSHOWN = frozenset({"rp", "rt", "script", "style", "template"})
"""Elements whose text Beautiful Soup's ``get_text`` omits since 4.11."""

_VOIDS = """area base basefont bgsound br col command embed frame hr image img input isindex keygen link menuitem meta nextid
param source spacer track wbr"""
_VOID = frozenset(_VOIDS.split())
"""Elements that Beautiful Soup closes at their start tag."""


class _Text(HTMLParser):
    """Collects the text of HTML, as Beautiful Soup does with ``html.parser``."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=False)
        self.parts: list[str] = []
        self._open: list[str] = []
        self._closed: list[str] = []
        """Void elements whose end tag may still follow."""

    def handle_starttag(self, tag: str, attrs: Sequence[tuple[str, str | None]]) -> None:
        (self._closed if tag in _VOID else self._open).append(tag)

    def handle_startendtag(self, tag: str, attrs: Sequence[tuple[str, str | None]]) -> None:
        """Ignore ``<br/>``, which opens nothing."""

    def handle_endtag(self, tag: str) -> None:
        if tag in self._closed:
            self._closed.remove(tag)
        elif tag in self._open:  # All elements in it end too.
            del self._open[len(self._open) - 1 - self._open[::-1].index(tag) :]

    def handle_data(self, data: str) -> None:
        if _UNSHOWN.isdisjoint(self._open):
            self.parts.append(data)

    def handle_entityref(self, name: str) -> None:
        self.handle_data(html5.get(f"{name};", f"&{name}"))

    def handle_charref(self, name: str) -> None:
        self.handle_data(html.unescape(f"&#{name};"))

    def unknown_decl(self, data: str) -> None:
        """Collect the text of ``<![CDATA[text]]>`` in any element."""
        if data.upper().startswith("CDATA["):
            self.parts.append(data[len("CDATA[") :])

    def parse_marked_section(self, i: int, report: bool = True) -> int:
        """Skip a section of unknown name as a comment, like browsers; Beautiful Soup gives up there."""
        try:
            return super().parse_marked_section(i, report)
        except AssertionError:
            return self.parse_bogus_comment(i)


def _text_of_html(text: str) -> str:
    """Return the text outside of tags, comments, scripts and styles. A tag or comment that is cut off counts as text."""
    if "<" not in text and "&" not in text:
        return text
    parser = _Text()
    parser.feed(text)
    parser.close()
    return "".join(parser.parts)


def normalise_korquad2(text: str) -> str:
    """Normalise the text of HTML as for KorQuAD 1, and remove all spaces."""
    return "".join(normalise_korquad(_text_of_html(text)).split())


def normalise_squad(text: str) -> str:
    """Lower-case, remove ASCII punctuation and English articles, collapse spaces."""
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split())


def normalise_klue(text: str, mode: Mode) -> str:
    """Lower-case, remove ASCII punctuation, collapse spaces; corrected: also remove quotes and brackets, as KLUE intends."""
    lowered = text.lower()
    blanked = _KLUE_NEVER.sub(" ", lowered) if mode == "official" else lowered.translate(_KORQUAD_MARKS)
    return " ".join(blanked.translate(_PUNCTUATION).split())


def _overlap_f1(predicted: Sequence[str], gold: Sequence[str], mode: Mode) -> float:
    """Return the F1 of two bags of characters or words. Two empty ones: 0 in the official scripts of 1.x, corrected 1."""
    if not predicted and not gold:
        return 0.0 if mode == "official" else 1.0
    same = sum((Counter(predicted) & Counter(gold)).values())
    if not same:
        return 0.0
    precision, recall = same / len(predicted), same / len(gold)
    return 2 * precision * recall / (precision + recall)


def korquad_f1(predicted: str, gold: str, mode: Mode) -> float:
    """Return the F1 of characters without spaces."""
    return _overlap_f1(normalise_korquad(predicted).replace(" ", ""), normalise_korquad(gold).replace(" ", ""), mode)


def korquad2_f1(predicted: str, gold: str, mode: Mode) -> float:
    """Return the F1 of characters without tags and spaces."""
    return _overlap_f1(normalise_korquad2(predicted), normalise_korquad2(gold), mode)


def squad_f1(predicted: str, gold: str, mode: Mode) -> float:
    """Return the F1 of words."""
    return _overlap_f1(normalise_squad(predicted).split(), normalise_squad(gold).split(), mode)


def rouge_w(predicted: str, gold: str, mode: Mode) -> float:
    """Return the F1 of the longest common substring of two normalised answers; two empty answers have 1.

    Official: in gold answers of 200 or more characters difflib ignores characters that make up over 1 % of them.
    """
    if not gold:
        return float(predicted == gold)
    if not predicted:
        return 0.0
    matcher = SequenceMatcher(None, predicted, gold, autojunk=mode == "official")
    longest = matcher.find_longest_match(0, len(predicted), 0, len(gold)).size
    if not longest:
        return 0.0
    precision, recall = longest / len(predicted), longest / len(gold)
    return 2 * (precision * recall) / (precision + recall)


def em_and_f1(
    predicted: str, accepted: Sequence[str], *, normalise: Callable[[str], str], f1: _Overlap, mode: Mode
) -> dict[str, float]:
    """Return ``em`` of the normalised answers, and the best ``f1`` over the accepted answers."""
    answer = normalise(predicted)
    return {
        "em": float(any(answer == normalise(gold) for gold in accepted)),
        "f1": max(f1(predicted, gold, mode) for gold in accepted),
    }
