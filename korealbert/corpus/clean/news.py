"""Removal of meta text from newspaper articles: dates, bylines, copyright, promotion and captions.

The rules are in a TOML file (``data_specs/rules/news.toml``), each with examples that the tests run. A rule is anchored to a
zone and removes a whole line, the start of a line, or its end after a sentence. Every removal is logged, so that the log
restores the input from the output.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise, takewhile
from operator import attrgetter
from pathlib import Path
from typing import Literal, NamedTuple

from pydantic import Field

from korealbert.artifact import Spec
from korealbert.artifact.spec import read_toml
from korealbert.corpus.normalise import matching_view, with_line_breaks
from korealbert.corpus.patterns import refuse_ruinous

_HEAD_LINES = 3
"""Non-blank lines of the head zone, without sub-headlines."""
_MAX_HEAD_LINES = 8
"""With sub-headlines: online editions put up to five above the byline, and three or more in 3.5 % of 1,200 real articles."""
_MAX_SUB_HEADLINE = 60
"""Characters of a line that may be a sub-headline, if it does not end like a sentence."""
_MAX_GLUED_TAIL = 300
"""Characters from the end in which tails without a line break before them are looked for."""
_MAX_GLUED_PARTS = 8
"""Tails without a line break that are looked at in one pass, from the end."""
MAX_REMOVALS = 200
"""A text with this many removals is not an article: cleaning stops, and the document is dropped."""
_MAX_SUFFIX = 150
"""Characters from the end of the last line in which a suffix may begin after a sentence."""
_MIN_PROSE_LINE = 30
"""Characters of a line that is prose, if it ends like a sentence."""
_MAX_HEADLINE = 80
"""Characters of a line that may be the headline of another article, if it does not end like a sentence."""
_MAX_SENTENCE_END = 8
"""Characters of the end of a sentence with the quotation marks and brackets after it."""
_MAX_LIST = 8
"""Neighbouring lines that the rule takes too which ``not_beside`` looks past, and lines of a list that ``list_of`` looks at."""
_LONG_LINE = 40
"""Characters of a line above which ``last_share`` applies (a limit of public cleaners)."""

_GLUE = re.compile(r"▶|(?:[\[<(※-] ?){0,2}(?:(?:Copyrights?|저작권자|GoodNews paper) ?ⓒ?|ⓒ)")
_BOUNDARY = re.compile(r"(?:[.?!…)\]>」』]|(?<=[.?!…다요까죠])[\"'”’])(?=\s*[^\s.?!…\"'”’」』)\]>]) *")
_SENTENCE_END = re.compile(r"[다요까죠][.?!]?[\"'”’)\]]*$")
_ENDS = re.compile(r"[다요까죠][.?!](?!\w)")
_FULL_SENTENCE = re.compile(r"[다요까죠][.?!][\"'”’)\]]*$")
_LONG_SENTENCE = re.compile(r"(?:[^.?!\n]|\.(?=\d)){28}[다요까죠]\.(?!\w)")
"""The end of a sentence of 30 characters or more; ``{28,}`` would take quadratic time in a text without full stops."""

_Zone = Literal["head", "tail", "any"]


class Rule(Spec):
    """A pattern that must match all of the text that it removes, in ``matching_view``."""

    id: str
    """Name in logs and statistics: family and variant (``T1-email``)."""
    zones: tuple[_Zone, ...] = Field(min_length=1)
    """head: the first 3 non-blank lines. tail: the last line, repeatedly. any: every line."""
    take: Literal["line", "prefix", "suffix"]
    """line: a whole line. prefix: the start of a line, not in the tail. suffix: a whole line, or its end after a sentence."""
    pattern: str
    """A regular expression with names of macros in braces (``{MACRO}``); line breaks and the blanks after them are ignored."""
    contains: tuple[str, ...] = ()
    """Words of which every match has one; lines without any are skipped, which saves matching them. Empty: unknown."""
    needs: tuple[str, ...] = ()
    """Instead of ``contains``: the rule is skipped if the text has none of these words, wherever it has them."""
    max_characters: int = Field(default=150, ge=1)
    """Longer matches are content."""
    max_spaces: int = Field(default=40, ge=0)
    """Matches with more spaces are content."""
    last_share: float = Field(default=1.0, gt=0, le=1)
    """A suffix of a long line must be within this last share of it."""
    next_to: str = ""
    """The whole line above or below must match this pattern; for a tail rule, the line above."""
    not_beside: str = ""
    """Skip a whole line if the next one above or below that the rule does not take, too, matches this pattern."""
    list_of: str = ""
    """Skip a whole line of this form if one next to it has it, too, but does not end alike: both are entries of a list."""
    max_sentences: int | None = Field(default=None, ge=1)
    """Matches with more ends of sentences are content: a line that ends in a caption, with the body before it. None: any."""
    sentences: bool = False
    """Whether the rule may delete a sentence of 30 characters or more; only for rules with unmistakable words."""
    no_sentence: bool = False
    """For the zone any: skip lines that end like a full sentence, which saves matching the body."""
    text_below: bool = False
    """For the zone any: prose must follow below, because the end of the last paragraph may be a byline."""
    headlines_below: int = Field(default=0, ge=0)
    """For the zone any: remove up to this many headlines (short lines, no full sentences) directly below the line, too."""
    alone: bool = False
    """For whole lines of the tail: skip the line if the one above matches too, because both are entries of a list."""
    after: tuple[str, ...] = ()
    """For the zone any: only in texts in which one of these rules has removed something: one caption makes others likelier."""
    once: bool = False
    """Skip the rule if it matches two lines with others between them: dates above paragraphs are the days of a diary."""
    outlets: tuple[str, ...] = ()
    """Only for these outlets; empty means all."""
    note: str = ""
    """Why the rule is as it is."""
    positive: tuple[dict[str, str], ...] = ()
    """Examples that the rule changes: ``text``, ``clean`` (absent: empty), ``outlet``. For readers and tests."""
    negative: tuple[str, ...] = ()
    """Examples that the whole rule set leaves unchanged."""

    @property
    def looks_around(self) -> bool:
        """Whether other lines decide about a line."""
        return bool(self.next_to or self.not_beside or self.list_of)


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
    """Offset in the text at the time of deletion, after all earlier removals."""
    text: str
    """The deleted text, including white space around it."""


@dataclass(frozen=True, slots=True)
class Cleaned:
    """A text without meta text, and the log of removals."""

    text: str
    removals: tuple[Removal, ...] = ()

    def restored(self) -> str:
        """Return the input, rebuilt from text and log."""
        text = self.text
        for removal in reversed(self.removals):
            text = text[: removal.start] + removal.text + text[removal.start :]
        return text


class _Line(NamedTuple):
    start: int
    end: int


_START = attrgetter("start")


class _OpenParts:
    """Which part of a text each rule for any line must still look at.

    At first it is the whole text. Where a rule found nothing, a removal opens only the lines around it again, so that the time
    of a removal does not depend on the length of the text, except for the search of its lines.
    """

    def __init__(self, rules: list[Rule]) -> None:
        self._rules = rules
        self._margins: dict[str, tuple[int, int] | None] = dict.fromkeys((rule.id for rule in rules), (0, 0))
        """By rule: characters before and behind its open part, or None."""
        self._removal: tuple[str, int] | None = None
        self._last_prose = 0
        self.removers: set[str] = set()
        """Rules that have removed something."""

    def removed(self, rule: Rule, start: int) -> None:
        """Note a removal, for the next ``open_again``."""
        self._removal = rule.id, start
        self.removers.add(rule.id)

    def open_again(self, view: str, lines: list[_Line], last_prose: int) -> None:
        """Open the lines around the last removal, and the text for rules with ``text_below`` if prose moved further down."""
        if not lines:
            return
        prose_start = lines[last_prose].start
        if self._removal:
            remover, at = self._removal
            number = bisect_right(lines, at, key=_START)
            for rule in self._rules:
                reach = 1 + max(_MAX_LIST if rule.looks_around else 0, rule.headlines_below)
                before = lines[max(min(number, len(lines)) - reach, 0)].start
                behind = len(view) - lines[min(number + reach, len(lines)) - 1].end
                margins = self._margins[rule.id] or (before, behind)
                seen = before if rule.id == remover else margins[0]
                self._margins[rule.id] = min(before, seen), min(behind, margins[1])
                if rule.text_below and prose_start > self._last_prose:
                    self._margins[rule.id] = 0, 0
        self._removal, self._last_prose = None, prose_start

    def of(self, rule: Rule, view: str, lines: list[_Line]) -> range:
        """Return the numbers of the lines that are open for a rule."""
        if (margins := self._margins[rule.id]) is None:
            return range(0)
        first = bisect_right(lines, margins[0], key=_START) - 1
        return range(max(first, 0), bisect_right(lines, len(view) - margins[1], key=_START))

    def close(self, rule: Rule) -> None:
        """Note that a rule finds nothing in its part."""
        self._margins[rule.id] = None


class NewsRules:
    """A compiled rules file. Raises ValueError naming file, rule and field."""

    def __init__(self, path: Path) -> None:
        file = read_toml(path, _RuleFile, "a rules file")
        macros: dict[str, str] = {}
        for name, pattern in file.macros.items():
            macros[name] = f"(?:{_fill(pattern, macros, f'{path}, macro {name}')})"
        self.rules = file.rule
        self._patterns = {rule.id: _compile(rule.pattern, macros, path, rule.id) for rule in file.rule}
        self._next_to = {r.id: _compile(r.next_to, macros, path, r.id) for r in file.rule if r.next_to}
        self._not_beside = {r.id: _compile(r.not_beside, macros, path, r.id) for r in file.rule if r.not_beside}
        self._list_of = {r.id: _compile(r.list_of, macros, path, r.id) for r in file.rule if r.list_of}
        if len(self._patterns) != len(file.rule):
            raise ValueError(f"{path}: two rules share an id; give each its own")
        self._path = path

    def refuse_ruinous(self) -> None:
        """Raise ValueError naming file and rule of a pattern that a text could keep busy for ever."""
        for patterns in (self._patterns, self._next_to, self._not_beside, self._list_of):
            for rule, pattern in patterns.items():
                refuse_ruinous(pattern.pattern, f"{self._path}, rule {rule}")

    def clean(self, text: str, outlet: str = "") -> Cleaned:
        """Apply the rules of an outlet to a normalised text until none matches. Idempotent."""
        view = matching_view(text)
        active = [rule for rule in self.rules if _is_active(rule, view, outlet)]
        zoned: dict[_Zone, list[Rule]] = {z: [r for r in active if z in r.zones] for z in ("head", "tail", "any")}
        open_parts = _OpenParts(zoned["any"])
        removals: list[Removal] = []
        while len(removals) < MAX_REMOVALS and (found := self._next(view, zoned, open_parts)):
            rule, zone, start, end = found
            open_parts.removed(rule, start)
            removals.append(Removal(rule.id, zone, start, text[start:end]))
            text = text[:start] + text[end:]
            view = view[:start] + view[end:]
        return Cleaned(text, tuple(removals))

    def _next(self, view: str, zoned: dict[_Zone, list[Rule]], open_parts: _OpenParts) -> tuple[Rule, _Zone, int, int] | None:
        lines = [_Line(m.start(), m.end()) for m in re.finditer(r"\S(?:[^\n]*\S)?", view)]
        zones: tuple[tuple[_Zone, Iterator[tuple[Rule, int, int]]], ...] = (
            ("any", self._any(view, lines, zoned["any"], open_parts)),
            ("head", self._head(view, _head_zone(view, lines), zoned["head"])),
            ("tail", self._tail(view, lines[-1 - _MAX_LIST :], zoned["tail"])),
        )
        for zone, candidates in zones:
            for rule, start, end in candidates:
                content = not rule.sentences and _LONG_SENTENCE.search(view, start, end)
                if not content and not (rule.once and self._recurs(rule, view, lines)):
                    return rule, zone, *_with_whitespace(view, start, end)
        return None

    def _any(self, view: str, lines: list[_Line], rules: list[Rule], open_parts: _OpenParts) -> Iterator[tuple[Rule, int, int]]:
        last_prose = _last_prose_line(view, lines)
        open_parts.open_again(view, lines, last_prose)
        for rule in rules:  # the outer loop, so that a caption is removed before the credit that identifies it
            if rule.after and open_parts.removers.isdisjoint(rule.after):
                continue
            part = open_parts.of(rule, view, lines)
            for index in _lines_with(rule.contains, view, lines, part) if rule.contains else part:
                line = lines[index]
                too_long = rule.take == "line" and line.end - line.start > rule.max_characters
                if too_long or (rule.no_sentence and _ends_sentence(view, line)):
                    continue
                if rule.text_below and index >= last_prose:
                    break
                if rule.take == "prefix":
                    if match := self._prefix(rule, view, line):
                        yield rule, line.start, match.end()
                elif self._matches(rule, view, line.start, line.end) and self._fits_neighbours(rule, view, lines, index):
                    yield rule, line.start, _headlines_end(view, lines[index : index + 1 + rule.headlines_below])
                elif rule.take == "suffix":
                    for start in _sentence_ends(view, line, rule.max_characters):
                        if self._matches(rule, view, start, line.end):
                            yield rule, start, line.end
            open_parts.close(rule)

    def _fits_neighbours(self, rule: Rule, view: str, lines: list[_Line], index: int) -> bool:
        if not rule.looks_around:
            return True
        above, below = lines[max(index - _MAX_LIST, 0) : index][::-1], lines[index + 1 : index + 1 + _MAX_LIST]
        if wanted := self._next_to.get(rule.id):
            return any(wanted.fullmatch(view, line.start, line.end) for line in above[:1] + below[:1])
        if refused := self._not_beside.get(rule.id):
            for side in (above, below):
                other = next((line for line in side if not self._matches(rule, view, line.start, line.end)), None)
                if other and refused.fullmatch(view, other.start, other.end):
                    return False
        if entry := self._list_of.get(rule.id):
            return not _is_entry(entry, view, lines[index], above, below)
        return True

    def _head(self, view: str, lines: list[_Line], rules: list[Rule]) -> Iterator[tuple[Rule, int, int]]:
        for line in lines:
            for rule in rules:
                if rule.take == "prefix":
                    if match := self._prefix(rule, view, line):
                        yield rule, line.start, match.end()
                elif self._matches(rule, view, line.start, line.end):
                    yield rule, line.start, line.end

    def _tail(self, view: str, lines: list[_Line], rules: list[Rule]) -> Iterator[tuple[Rule, int, int]]:
        if not lines:
            return
        last = lines[-1]
        glued = [m.start() for m in _GLUE.finditer(view, max(last.start, len(view) - _MAX_GLUED_TAIL), last.end)]
        sentence_ends = _sentence_ends(view, last, _MAX_SUFFIX)
        for rule in rules:
            if rule.contains and not _lines_with(rule.contains, view, [last], range(1)):
                continue
            if rule.alone and len(lines) > 1 and self._matches(rule, view, lines[-2].start, lines[-2].end):
                continue
            fits = self._fits_neighbours(rule, view, lines, len(lines) - 1)
            if rule.next_to and not fits:
                continue
            starts = [last.start] if fits else []
            if rule.take == "suffix":
                share = rule.last_share if last.end - last.start > _LONG_LINE else 1.0
                earliest = last.end - share * (last.end - last.start)
                starts += [start for start in sentence_ends if start >= earliest]
            for start in (*starts, *reversed(glued[-_MAX_GLUED_PARTS:])):
                if self._matches(rule, view, start, last.end):
                    yield rule, start, last.end

    def _recurs(self, rule: Rule, view: str, lines: list[_Line]) -> bool:
        """Return whether the rule matches two lines that are not next to each other."""
        found = [number for number, line in enumerate(lines) if self._matches(rule, view, line.start, line.end)]
        return any(after - number > 1 for number, after in pairwise(found))

    def _prefix(self, rule: Rule, view: str, line: _Line) -> re.Match[str] | None:
        match = self._patterns[rule.id].match(view, line.start, line.end)
        return match if match and match.end() > line.start and _within_limits(rule, match.group()) else None

    def _matches(self, rule: Rule, view: str, start: int, end: int) -> bool:
        if end - start > rule.max_characters:
            return False
        match = self._patterns[rule.id].fullmatch(view, start, end)
        return match is not None and _within_limits(rule, match.group())


def _is_entry(form: re.Pattern[str], view: str, line: _Line, above: list[_Line], below: list[_Line]) -> bool:
    """Return whether a line and those next to it have a form, and not all end in the same word."""
    if not form.fullmatch(view, line.start, line.end):
        return False
    entries = [line]
    for side in (above, below):
        entries += takewhile(lambda other: form.fullmatch(view, other.start, other.end), side)
    return len({view[other.start : other.end].rpartition("/")[2].strip() for other in entries}) > 1


def _lines_with(words: tuple[str, ...], view: str, lines: list[_Line], part: range) -> list[int]:
    """Return which of the lines of a part have one of the words, in order."""
    found = set()
    end = lines[part[-1]].end if part else 0
    for word in words:
        at = view.find(word, lines[part[0]].start, end) if part else -1
        while at >= 0:
            found.add(number := bisect_right(lines, at, key=_START) - 1)
            at = view.find(word, max(at + 1, lines[number].end), end)
    return sorted(found)


def _head_zone(view: str, lines: list[_Line]) -> list[_Line]:
    counted = 0
    for number, line in enumerate(lines[:_MAX_HEAD_LINES]):
        short = line.end - line.start <= _MAX_SUB_HEADLINE
        counted += not short or _SENTENCE_END.search(view, line.start, line.end) is not None
        if counted == _HEAD_LINES:
            return lines[: number + 1]
    return lines[:_MAX_HEAD_LINES]


def _last_prose_line(view: str, lines: list[_Line]) -> int:
    for number in range(len(lines) - 1, -1, -1):
        line = lines[number]
        if line.end - line.start >= _MIN_PROSE_LINE and _ends_sentence(view, line):
            return number
    return 0


def _ends_sentence(view: str, line: _Line) -> bool:
    return _FULL_SENTENCE.search(view, max(line.start, line.end - _MAX_SENTENCE_END), line.end) is not None


def _headlines_end(view: str, lines: list[_Line]) -> int:
    """Return the end of the first line and of the headlines directly below it."""
    end = lines[0].end
    for line in lines[1:]:
        if line.end - line.start > _MAX_HEADLINE or _ends_sentence(view, line):
            break
        end = line.end
    return end


def _sentence_ends(view: str, line: _Line, reach: int) -> list[int]:
    """Return the positions after sentences in the last ``reach`` characters of a line."""
    return [m.end() for m in _BOUNDARY.finditer(view, max(line.start, line.end - reach), line.end)]


def _is_active(rule: Rule, view: str, outlet: str) -> bool:
    words = rule.contains or rule.needs
    return (not rule.outlets or outlet in rule.outlets) and (not words or any(word in view for word in words))


def _within_limits(rule: Rule, matched: str) -> bool:
    if rule.max_sentences and len(_ENDS.findall(matched)) > rule.max_sentences:
        return False
    return len(matched) <= rule.max_characters and matched.strip().count(" ") <= rule.max_spaces


def _with_whitespace(text: str, start: int, end: int) -> tuple[int, int]:
    """Widen a span by the spaces around it and, if it is whole lines, by the smaller of the gaps above and below it."""
    while start and text[start - 1] == " ":
        start -= 1
    while end < len(text) and text[end] == " ":
        end += 1
    if (start and text[start - 1] != "\n") or (end < len(text) and text[end] != "\n"):
        return start, end
    return with_line_breaks(text, start, end)


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
    except (re.error, OverflowError, RecursionError) as error:
        raise ValueError(f"{where}: not a regular expression: {error}; in TOML write patterns in single quotes") from error
