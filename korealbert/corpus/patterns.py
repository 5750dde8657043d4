"""Refuses regular expressions of users that a text could keep busy for ever.

Python's matcher tries all ways to match. Their number doubles with each character if a part that is repeated can match the same
text in two ways, as in ``(a+)+`` or ``(a|ab?)*``. The test is that of Weber and Seidl (On the degree of ambiguity of finite
automata, 1991): the automaton of a repeated part has two paths from a state back to it by the same text. Where nothing follows
that could fail, as at the end of an atomic group, the matcher takes the first way and tries no other.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from functools import lru_cache, reduce
from re import _constants as codes  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any, NamedTuple

_MAX_COPIES = 10
"""A part that is repeated fewer times is copied, another counts as repeated for ever."""
_REPEATED_GROUP = re.compile(r"\)(?:[*+]|\{\d*,\}|\{\d*,?\d{2,}\})")
_MAX_STATES = 400
"""A part of a pattern with more states than this is taken to be sound."""
_SAMPLES = "aZé0_ -.\n\t가日"
"""Characters that stand for the categories (letters, digits, blanks) in comparisons of classes."""
_CATEGORIES = {
    codes.CATEGORY_DIGIT: re.compile(r"\d"),
    codes.CATEGORY_NOT_DIGIT: re.compile(r"\D"),
    codes.CATEGORY_SPACE: re.compile(r"\s"),
    codes.CATEGORY_NOT_SPACE: re.compile(r"\S"),
    codes.CATEGORY_WORD: re.compile(r"\w"),
    codes.CATEGORY_NOT_WORD: re.compile(r"\W"),
}
_REPEATS = (codes.MAX_REPEAT, codes.MIN_REPEAT, codes.POSSESSIVE_REPEAT)
_ATOMIC = (codes.ATOMIC_GROUP, codes.POSSESSIVE_REPEAT, codes.ASSERT, codes.ASSERT_NOT)
"""What is matched in one way only."""


def refuse_ruinous(pattern: str, name: str) -> None:
    """Raise ValueError, with the ``name`` of the pattern, if a text could keep it busy for ever."""
    if is_ruinous(pattern):
        raise ValueError(
            f"{name}: a text could keep it busy for ever, because a part that is repeated matches the same text in several"
            " ways, as (a+)+ does: write a+, or forbid other ways by (?>…), as in (?:(?>a+))+"
        )


@lru_cache(maxsize=1024)
def is_ruinous(pattern: str, flags: int = 0) -> bool:
    """Return whether the time of a pattern may double with each character of a text."""
    if not _REPEATED_GROUP.search(pattern):
        return False
    parsed = parser.parse(pattern, flags)
    return _has_ruinous_part(parsed, parsed.state.flags | _flags_within(parsed), at_end=False)


def _flags_within(parsed: Any) -> int:
    """Return the flags of all groups, as of ``(?s:…)``."""
    flags = 0
    for code, argument in parsed:
        flags |= argument[1] if code is codes.SUBPATTERN else 0
        flags |= reduce(int.__or__, map(_flags_within, _parts(code, argument)), 0)
    return flags


def _has_ruinous_part(parsed: Any, flags: int, *, at_end: bool) -> bool:
    """Return whether any outermost repeated part is ambiguous; what is within atomic groups is looked at on its own.

    ``at_end``: nothing that could fail follows the pattern.
    """
    for left, (code, argument) in zip(reversed(range(len(parsed))), parsed):
        nothing_follows = (at_end and left == 0) or code in _ATOMIC
        parts = _parts(code, argument)
        if code in _REPEATS and code not in _ATOMIC and not (nothing_follows and argument[0] <= 1):
            nothing_follows = False
            if argument[1] >= _MAX_COPIES:
                if len(argument[2]) == 1 and not _parts(*argument[2][0]):
                    continue
                if _Automaton([(code, argument)], flags).is_ambiguous():
                    return True
                parts, nothing_follows = _atomic_parts(argument[2]), True
        if any(_has_ruinous_part(part, flags, at_end=nothing_follows) for part in parts):
            return True
    return False


def _parts(code: Any, argument: Any) -> list[Any]:
    """Return the patterns within one node."""
    if code is codes.BRANCH:
        return list(argument[1])
    if code is codes.GROUPREF_EXISTS:
        return [part for part in argument[1:] if part]
    if code in (*_REPEATS, codes.SUBPATTERN, codes.ASSERT, codes.ASSERT_NOT):
        return [argument[-1]]
    return [argument] if code is codes.ATOMIC_GROUP else []


def _atomic_parts(parsed: Any) -> list[Any]:
    """Return the patterns within atomic groups and look-arounds, which the automaton of the whole does not hold."""
    found = []
    for code, argument in parsed:
        inner = _parts(code, argument)
        if code in _ATOMIC:
            found += inner
        else:
            found += [part for one in inner for part in _atomic_parts(one)]
    return found


class _Part(NamedTuple):
    """The states of a part of a pattern by which a match begins and ends, each with the number of ways."""

    empty: int
    """In how many ways it matches nothing."""
    first: Counter[int] = Counter()  # noqa: RUF012 (never changed)
    last: Counter[int] = Counter()  # noqa: RUF012


class _Automaton:
    """The position automaton of a pattern: a state for each character class, and how often a state follows another."""

    def __init__(self, parsed: Any, flags: int) -> None:
        self._flags = flags
        self._classes: list[Any] = []
        self._follow: defaultdict[int, Counter[int]] = defaultdict(Counter)
        self._add(parsed)

    def is_ambiguous(self) -> bool:
        """Return whether two paths lead from a state back to it by the same text."""
        if len(self._classes) > _MAX_STATES:
            return False
        samples = _SAMPLES + "".join(sorted({each for one in self._classes for each in _borders(one)}))
        forms = [{each, each.lower(), each.upper()} if self._flags & re.IGNORECASE else {each} for each in samples]
        accepts = [sum(1 << n for n, each in enumerate(forms) if self._accepts(one, each)) for one in self._classes]
        count = len(self._classes)
        forward: dict[tuple[int, int], set[tuple[int, int]]] = {}
        waiting = [(state, state) for state in range(count)]
        while waiting:
            pair = waiting.pop()
            if pair in forward:
                continue
            one, other = pair
            forward[pair] = {
                (min(a, b), max(a, b)) for a in self._follow[one] for b in self._follow[other] if accepts[a] & accepts[b]
            }
            waiting += forward[pair]
        backward = defaultdict(set)
        for pair, followers in forward.items():
            for follower in followers:
                backward[follower].add(pair)
        doubled = [(one, other) for one, ways in self._follow.items() for other, number in ways.items() if number > 1]
        seen: set[int] = set()
        for state in range(count):
            if state in seen:
                continue
            reached = _reached(forward, (state, state)) & _reached(backward, (state, state))
            if any(one != other for one, other in reached):
                return True
            loop = {one for one, _ in reached}
            if any(one in loop and other in loop for one, other in doubled):
                return True
            seen |= loop
        return False

    def _add(self, parsed: Any) -> _Part:
        """Add the states of a pattern."""
        whole = _Part(1)
        for code, argument in parsed:
            whole = self._then(whole, self._add_node(code, argument))
        return whole

    def _then(self, one: _Part, other: _Part) -> _Part:
        self._join(one.last, other.first)
        return _Part(
            one.empty * other.empty, one.first + _times(other.first, one.empty), other.last + _times(one.last, other.empty)
        )

    def _join(self, last: Counter[int], first: Counter[int]) -> None:
        for state, ways in last.items():
            for follower, more in first.items():
                self._follow[state][follower] = min(2, self._follow[state][follower] + ways * more)

    def _add_node(self, code: Any, argument: Any) -> _Part:
        if code in (codes.AT, codes.ASSERT, codes.ASSERT_NOT):
            return _Part(1)
        if code is codes.SUBPATTERN:
            return self._add(argument[-1])
        if code in (codes.BRANCH, codes.GROUPREF_EXISTS):
            parts = [self._add(part) for part in _parts(code, argument)]
            if code is codes.GROUPREF_EXISTS and len(parts) == 1:
                parts.append(_Part(1))
            return reduce(
                lambda one, other: _Part(one.empty + other.empty, one.first + other.first, one.last + other.last), parts
            )
        if code in (codes.MAX_REPEAT, codes.MIN_REPEAT):
            return self._add_repeat(*argument)
        state = Counter([len(self._classes)])
        self._classes.append((code, argument))
        return _Part(int(code is codes.POSSESSIVE_REPEAT and argument[0] == 0), state, state)

    def _add_repeat(self, least: int, most: int, body: Any) -> _Part:
        if most >= _MAX_COPIES or len(self._classes) > _MAX_STATES:
            part = self._add(body)
            self._join(part.last, part.first)
            return part._replace(empty=1) if least == 0 else part
        whole = _Part(1)
        for number in reversed(range(most)):  # a{2,4} is a a(?:a(?:a)?)?
            whole = self._then(self._add(body), whole)
            whole = whole._replace(empty=whole.empty + 1) if number >= least else whole
        return whole

    def _accepts(self, node: Any, forms: set[str]) -> bool:  # noqa: PLR0911 (one for each kind of node)
        """Return whether a class has a character, given in all its cases; for a larger part, whether any class in it has."""
        code, argument = node
        if code is codes.LITERAL:
            return chr(argument) in forms
        if code is codes.NOT_LITERAL:
            return chr(argument) not in forms
        if code is codes.RANGE:
            return any(argument[0] <= ord(each) <= argument[1] for each in forms)
        if code is codes.CATEGORY:
            return any(map(_CATEGORIES[argument].match, forms))
        if code is codes.IN:
            negated = argument[0][0] is codes.NEGATE
            return any(self._accepts(item, forms) for item in argument[negated:]) != negated
        if code is codes.ANY:
            return "\n" not in forms or bool(self._flags & re.DOTALL)
        if code is codes.GROUPREF:
            return True
        return any(self._accepts(each, forms) for part in _parts(code, argument) for each in part)


def _times(states: Counter[int], ways: int) -> Counter[int]:
    return Counter({state: min(2, count * ways) for state, count in states.items()} if ways else {})


def _reached(graph: Any, start: tuple[int, int]) -> set[tuple[int, int]]:
    """Return the pairs that can be reached by one step or more."""
    found: set[tuple[int, int]] = set()
    waiting = list(graph.get(start, ()))
    while waiting:
        pair = waiting.pop()
        if pair not in found:
            found.add(pair)
            waiting += graph.get(pair, ())
    return found


def _borders(node: Any) -> str:
    """Return the characters at which a class begins or ends, and those beside them."""
    code, argument = node
    if code in (codes.LITERAL, codes.NOT_LITERAL):
        points = [argument]
    elif code is codes.RANGE:
        points = list(argument)
    elif code is codes.IN:
        return "".join(map(_borders, argument))
    else:
        return "".join(_borders(each) for part in _parts(code, argument) for each in part)
    return "".join(chr(min(max(point + step, 0), 0x10FFFF)) for point in points for step in (-1, 0, 1))
