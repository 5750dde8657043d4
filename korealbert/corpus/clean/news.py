"""Meta tags of newspaper articles: dates, bylines, copyright, promotion and captions, removed by rules that are data.

The rules live in a TOML file (``data_specs/rules/news.toml``), each with examples that the tests run. A rule is anchored to a
zone and takes a whole line, the start of a line, or its end after a sentence; nothing is ever substituted in the middle of the
text. Every removal is logged, and output and log together give back the input.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import Field

from korealbert.artifact import Spec
from korealbert.artifact.spec import read_toml
from korealbert.corpus.normalise import matching_view, with_gap

_HEAD_LINES = 3
"""Non-blank lines of the head zone, sub-headlines above the text not counted."""
_HEAD_LINES_AT_MOST = 8
"""Those counted: online editions put up to five sub-headlines above the byline, in 3.5 % of 1,200 real articles three or
more."""
_SUB_HEADLINE_CHARACTERS = 60
"""A line that is no longer and does not end as a sentence does may be a sub-headline."""
_GLUE_CHARACTERS = 300
"""How far from the end a tail may be glued to the body without a line break."""
_GLUED_AT_MOST = 8
"""Glued parts looked at in one pass, from the end."""
MAX_REMOVALS = 200
"""A text with as many is no article: cleaning ends there, and the document is dropped."""
_LONGEST_SUFFIX = 150
"""How far from the end of the last line something may begin that is neither a line nor glued to one by its sign."""
_TEXT_CHARACTERS = 30
"""A line that is no shorter and ends as a sentence does is running text."""
_HEADLINE_CHARACTERS = 80
"""A line that is no longer and does not end as a sentence does may be the headline of another article."""
_CLOSING_CHARACTERS = 8
"""The end of a sentence with all quotation marks and brackets after it."""
_LONG_LINE_CHARACTERS = 40
"""A line longer than this may end in a byline only in its last ``last_share`` (sanity limit of public cleaners)."""

_GLUE = re.compile(r"▶|(?:[\[<(※-] ?){0,2}(?:(?:Copyrights?|저작권자|GoodNews paper) ?ⓒ?|ⓒ)")
_BOUNDARY = re.compile(r"(?:[.?!…)\]>」』]|(?<=[.?!…다요까죠])[\"'”’])(?=\s*[^\s.?!…\"'”’」』)\]>]) *")
_SENTENCE_END = re.compile(r"[다요까죠][.?!]?[\"'”’)\]]*$")
_FULL_SENTENCE = re.compile(r"[다요까죠][.?!][\"'”’)\]]*$")
_LONG_SENTENCE = re.compile(r"(?:[^.?!\n]|\.(?=\d)){28,}[다요까죠]\.(?!\w)")

_Zone = Literal["head", "tail", "any"]


class Rule(Spec):
    """One pattern: it must match all of the text that it removes, in ``matching_view``; ``{MACRO}`` names are filled in."""

    id: str
    """Name that removals and statistics carry: family and variant (``T1-email``)."""
    zones: tuple[_Zone, ...]
    """head: the first 3 non-blank lines. tail: the last line, again and again. any: every line."""
    take: Literal["line", "prefix", "suffix"]
    """line: the whole line. prefix: the start of a line. suffix: a whole line, or what follows a sentence at its end.
    Prefixes are of the head."""
    pattern: str
    """A regular expression; line breaks in it, with the blanks after them, do not count."""
    needs: tuple[str, ...] = ()
    """Words of which the text must hold one, or the pattern is not asked at all; empty: none."""
    max_characters: int = Field(default=150, ge=1)
    """Longer matches are content."""
    max_spaces: int = Field(default=40, ge=0)
    """Matches with more spaces are content."""
    last_share: float = Field(default=1.0, gt=0, le=1)
    """A suffix of a long line must be within this last share of it."""
    next_to: str = ""
    """The line above or below must match this pattern wholly; for a tail rule, the line above."""
    sentences: bool = False
    """Whether it may delete a sentence of 30 characters or more; only rules whose own words give the meta text away may."""
    no_sentence: bool = False
    """A rule for any line: the line must not end as a full sentence does. Asked first, it spares the pattern the body."""
    text_below: bool = False
    """A rule for any line: running text must follow below, or the line may be the last paragraph and its end a byline."""
    headlines_below: int = Field(default=0, ge=0)
    """A rule for any line: as many lines below it go too, as long as each is a headline (short, no full sentence)."""
    alone: bool = False
    """A tail rule for whole lines: the line above must not match too, or both are entries of a list."""
    outlets: tuple[str, ...] = ()
    """Only for these outlets; empty means all."""
    note: str = ""
    """Why the rule is as it is."""
    positive: tuple[dict[str, str], ...] = ()
    """Examples that the rule changes: ``text``, ``clean`` (absent: empty), ``outlet``. For readers and tests."""
    negative: tuple[str, ...] = ()
    """Examples that the whole rule set leaves untouched."""


class _RuleFile(Spec):
    """The content of a rules file."""

    macros: dict[str, str] = Field(default_factory=dict)
    """Named parts of patterns; a macro may use the ones above it."""
    rule: tuple[Rule, ...]


@dataclass(frozen=True, slots=True)
class Removal:
    """One deleted span."""

    rule: str
    zone: _Zone
    start: int
    """Offset in the text as it was when the span was deleted, after the removals logged before."""
    text: str
    """The deleted text, including white space around it."""


@dataclass(frozen=True, slots=True)
class Cleaned:
    """A text without its meta tags, and the log of the removed ones."""

    text: str
    removals: tuple[Removal, ...] = ()

    def restored(self) -> str:
        """The input, rebuilt from text and log."""
        text = self.text
        for removal in reversed(self.removals):
            text = text[: removal.start] + removal.text + text[removal.start :]
        return text


@dataclass(frozen=True, slots=True)
class _Line:
    start: int
    end: int


class NewsRules:
    """A compiled rules file. Stateless in use: the same text and outlet always give the same result.

    Raises ValueError naming file, rule and field.
    """

    def __init__(self, path: Path) -> None:
        file = read_toml(path, _RuleFile, "a rules file")
        macros: dict[str, str] = {}
        for name, pattern in file.macros.items():
            macros[name] = f"(?:{_fill(pattern, macros, f'{path}, macro {name}')})"
        self.rules = file.rule
        self._patterns = {rule.id: _compile(rule.pattern, macros, path, rule.id) for rule in file.rule}
        self._next_to = {r.id: _compile(r.next_to, macros, path, r.id) for r in file.rule if r.next_to}
        if len(self._patterns) != len(file.rule):
            raise ValueError(f"{path}: two rules share an id; give each its own")

    def clean(self, text: str, outlet: str = "") -> Cleaned:
        """Apply all rules until none applies.

        ``text`` is normalised (see ``normalise``); ``outlet`` switches the rules of single outlets on. Idempotent.
        """
        view = matching_view(text)
        active = [rule for rule in self.rules if _asked(rule, view, outlet)]
        zoned: dict[_Zone, list[Rule]] = {z: [r for r in active if z in r.zones] for z in ("head", "tail", "any")}
        removals: list[Removal] = []
        while len(removals) < MAX_REMOVALS and (found := self._next(view, zoned)):
            rule, zone, start, end = found
            removals.append(Removal(rule.id, zone, start, text[start:end]))
            text = text[:start] + text[end:]
            view = view[:start] + view[end:]
        return Cleaned(text, tuple(removals))

    def _next(self, view: str, zoned: dict[_Zone, list[Rule]]) -> tuple[Rule, _Zone, int, int] | None:
        lines = [_Line(m.start(), m.end()) for m in re.finditer(r"\S(?:[^\n]*\S)?", view)]
        zones: tuple[tuple[_Zone, Iterator[tuple[Rule, int, int]]], ...] = (
            ("any", self._any(view, lines, zoned["any"])),
            ("head", self._head(view, _head_zone(view, lines), zoned["head"])),
            ("tail", self._tail(view, lines[-2:], zoned["tail"])),
        )
        for zone, candidates in zones:
            for rule, start, end in candidates:
                if rule.sentences or not _LONG_SENTENCE.search(view, start, end):
                    return rule, zone, *_with_whitespace(view, start, end)
        return None

    def _any(self, view: str, lines: list[_Line], rules: list[Rule]) -> Iterator[tuple[Rule, int, int]]:
        open_ended = [number for number, line in enumerate(lines) if not _ends_sentence(view, line)]
        last_text = _last_text(view, lines)
        for rule in rules:  # outermost: a caption is judged by the credit next to it before that credit goes
            for index in open_ended if rule.no_sentence else range(len(lines)):
                line = lines[index]
                if rule.text_below and index >= last_text:
                    break
                if self._takes(rule, view, line.start, line.end) and self._beside(rule, view, lines, index):
                    yield rule, line.start, _headlines_end(view, lines[index : index + 1 + rule.headlines_below])
                elif rule.take == "suffix":
                    for start in _sentence_ends(view, line, rule.max_characters):
                        if self._takes(rule, view, start, line.end):
                            yield rule, start, line.end

    def _beside(self, rule: Rule, view: str, lines: list[_Line], index: int) -> bool:
        if not rule.next_to:
            return True
        neighbours = lines[max(index - 1, 0) : index] + lines[index + 1 : index + 2]
        return any(self._next_to[rule.id].fullmatch(view, line.start, line.end) for line in neighbours)

    def _head(self, view: str, lines: list[_Line], rules: list[Rule]) -> Iterator[tuple[Rule, int, int]]:
        for line in lines:
            for rule in rules:
                if rule.take == "prefix":
                    match = self._patterns[rule.id].match(view, line.start, line.end)
                    if match and match.end() > match.start() and _within(rule, match.group()):
                        yield rule, match.start(), match.end()
                elif self._takes(rule, view, line.start, line.end):
                    yield rule, line.start, line.end

    def _tail(self, view: str, lines: list[_Line], rules: list[Rule]) -> Iterator[tuple[Rule, int, int]]:
        if not lines:
            return
        last = lines[-1]
        glued = [m.start() for m in _GLUE.finditer(view, max(last.start, len(view) - _GLUE_CHARACTERS), last.end)][
            -_GLUED_AT_MOST:
        ]
        sentence_ends = _sentence_ends(view, last, _LONGEST_SUFFIX)
        for rule in rules:
            if rule.alone and len(lines) > 1 and self._takes(rule, view, lines[-2].start, lines[-2].end):
                continue
            if not self._beside(rule, view, lines, len(lines) - 1):
                continue
            starts = [last.start]
            if rule.take == "suffix":
                share = rule.last_share if last.end - last.start > _LONG_LINE_CHARACTERS else 1.0
                earliest = last.end - share * (last.end - last.start)
                starts += [start for start in sentence_ends if start >= earliest]
            for start in (*starts, *reversed(glued)):
                if self._takes(rule, view, start, last.end):
                    yield rule, start, last.end

    def _takes(self, rule: Rule, view: str, start: int, end: int) -> bool:
        if end - start > rule.max_characters:
            return False
        match = self._patterns[rule.id].fullmatch(view, start, end)
        return match is not None and _within(rule, match.group())


def _head_zone(view: str, lines: list[_Line]) -> list[_Line]:
    counted = 0
    for number, line in enumerate(lines[:_HEAD_LINES_AT_MOST]):
        short = line.end - line.start <= _SUB_HEADLINE_CHARACTERS
        counted += not short or _SENTENCE_END.search(view, line.start, line.end) is not None
        if counted == _HEAD_LINES:
            return lines[: number + 1]
    return lines[:_HEAD_LINES_AT_MOST]


def _last_text(view: str, lines: list[_Line]) -> int:
    """The number of the last line of running text."""
    for number in range(len(lines) - 1, -1, -1):
        line = lines[number]
        if line.end - line.start >= _TEXT_CHARACTERS and _ends_sentence(view, line):
            return number
    return 0


def _ends_sentence(view: str, line: _Line) -> bool:
    return _FULL_SENTENCE.search(view, max(line.start, line.end - _CLOSING_CHARACTERS), line.end) is not None


def _headlines_end(view: str, lines: list[_Line]) -> int:
    """The end of the first line or of the headlines directly below it."""
    end = lines[0].end
    for line in lines[1:]:
        if line.end - line.start > _HEADLINE_CHARACTERS or _ends_sentence(view, line):
            break
        end = line.end
    return end


def _sentence_ends(view: str, line: _Line, reach: int) -> list[int]:
    """Positions after a sentence of the line, within ``reach`` characters of its end."""
    return [m.end() for m in _BOUNDARY.finditer(view, max(line.start, line.end - reach), line.end)]


def _asked(rule: Rule, view: str, outlet: str) -> bool:
    return (not rule.outlets or outlet in rule.outlets) and (not rule.needs or any(word in view for word in rule.needs))


def _within(rule: Rule, matched: str) -> bool:
    return len(matched) <= rule.max_characters and matched.strip().count(" ") <= rule.max_spaces


def _with_whitespace(text: str, start: int, end: int) -> tuple[int, int]:
    """Widen a span by the spaces around it and, where whole lines go, by the smaller of the gaps above and below them."""
    while start and text[start - 1] == " ":
        start -= 1
    while end < len(text) and text[end] == " ":
        end += 1
    if (start and text[start - 1] != "\n") or (end < len(text) and text[end] != "\n"):
        return start, end
    return with_gap(text, start, end)


def _fill(pattern: str, macros: dict[str, str], where: str) -> str:
    def named(match: re.Match[str]) -> str:
        if match.group(1) not in macros:
            raise ValueError(f"{where}: no macro {match.group(1)} is defined above it; known: {', '.join(macros) or 'none'}")
        return macros[match.group(1)]

    return re.sub(r"\{([A-Z][A-Z_]*)\}", named, re.sub(r"\n\s*", "", pattern))


def _compile(pattern: str, macros: dict[str, str], path: Path, rule_id: str) -> re.Pattern[str]:
    where = f"{path}, rule {rule_id}"
    try:
        return re.compile(_fill(pattern, macros, where))
    except re.error as error:
        raise ValueError(f"{where}: not a regular expression: {error}; in TOML write patterns in single quotes") from error
