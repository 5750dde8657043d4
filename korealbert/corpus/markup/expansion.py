"""Expansion of templates that articles use within a line, by the template pages of the dump (namespace 10).

Supports parameters, defaults, nested templates, ``#if``, ``#ifeq``, ``#switch``, and upper and lower case as MediaWiki does.
A call that needs anything else (Lua modules, dates, expressions), calls itself, exceeds limits of depth, steps and characters,
or shows more than a line of text, is left to ``templates``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from korealbert.corpus.markup.layout import LETTER, REDIRECT
from korealbert.corpus.markup.templates import country_of_code, inline_text, is_inline, template_key
from korealbert.corpus.readers.spec import WikiOptions
from korealbert.corpus.superscripts import LEVEL, LOWERED, RAISED

_MAX_BODY = 20_000
"""Characters of a template's page, or of a call; longer ones are layouts."""
_MAX_CALLS = 2_000
"""Calls that are expanded in one page."""
_MAX_DEPTH, _MAX_STEPS, _MAX_CHARACTERS = 24, 2_000, 50_000
"""Limits of one call: nested templates, evaluated nodes, output characters."""
_MAX_PAGE_STEPS, _MAX_PAGE_CHARACTERS = 50 * _MAX_STEPS, 50 * _MAX_CHARACTERS
"""Limits of all calls of one page; the calls after that are not expanded."""
_MAX_SHOWN = 300
"""Characters of an expansion; longer ones are not part of a line."""

_ELEMENTS = ("nowiki", "math", "pre", "ref", "source", "syntaxhighlight", "gallery", "timeline")
_INCLUSION = ("noinclude", "onlyinclude")
_OUTER = re.compile(
    rf"<!--|<({'|'.join(_ELEMENTS)})\b[^<>]*(?<!/)>|\{{\{{|\}}\}}|^[ \t:*#;]*\{{\||^[ \t]*\|\}}(?!\}})",
    re.MULTILINE | re.IGNORECASE,
)
_CLOSERS = {name: re.compile(rf"</{name}\s*>", re.IGNORECASE) for name in (*_ELEMENTS, *_INCLUSION)} | {
    "!--": re.compile("-->")
}
_TOKEN = re.compile(r"\{\{+|\}\}+|\[\[|\]\]|\|")
_HIDDEN = re.compile(r"<!--|<(noinclude)\b[^<>]*>", re.IGNORECASE)
_ONLY = re.compile(r"<(onlyinclude)\b[^<>]*>", re.IGNORECASE)
_EMPTY = re.compile(r"<noinclude\s*/>", re.IGNORECASE)
_INCLUDED = re.compile(r"</?includeonly\b[^<>]*>", re.IGNORECASE)
_REDIRECT = re.compile(rf"{REDIRECT}\s*:?\s*\[\[([^\[\]|]+)", re.IGNORECASE)
_LAYOUT = re.compile(
    r"^\s*\{\||<(?:table|div|ref|references|gallery|center|ul|ol|dl|h[1-6])\b|display:\s*none", re.IGNORECASE | re.MULTILINE
)
_CATEGORY = re.compile(r"\[\[\s*(?:분류|category)\s*:[^\[\]]*\]\]", re.IGNORECASE)
_MARKER = re.compile(r"(?:<small>)?<sup\b[^<>]*>(?![-+−]?\d+</sup>).*</sup>(?:</small>)?", re.DOTALL | re.IGNORECASE)
"""A note mark ([출처 필요], [1], :12), but not an exponent."""
_PROSE = re.compile(r"[^\s*#:;|]")


class _Refused(Exception):
    """A call cannot be expanded, or not within its limits."""


@dataclass(frozen=True, slots=True)
class _Node:
    """``{{name|…}}`` or ``{{{name|…}}}``."""

    parameter: bool
    parts: tuple[tuple[str | _Node, ...], ...]


_Pieces = tuple["str | _Node", ...]


@dataclass(slots=True)
class _Frame:
    """Braces that are still open."""

    braces: int
    parts: list[list[str | _Node]] = field(default_factory=lambda: [[]])
    links: int = 0


def template_body(source: str) -> str | None:
    """Return the text that a template's page inserts, or ``#redirect [[name]]``; None for a layout."""
    if redirect := _REDIRECT.match(source):
        return f"#redirect [[{redirect[1].strip()}]]"
    text = "".join(_split_elements(_HIDDEN, source)[0])
    if only := _split_elements(_ONLY, text)[1]:
        text = "".join(only)
    text = _INCLUDED.sub("", text)
    return None if len(text) > _MAX_BODY or _LAYOUT.search(text) else text


def _split_elements(opener: re.Pattern[str], text: str) -> tuple[list[str], list[str]]:
    """Return the texts outside and inside of elements, which end at the next closer. An element without a closer is text.

    A pattern of opener, anything and closer would take quadratic time to look for missing closers.
    """
    outside, inside = list[str](), list[str]()
    position = kept = 0
    never_closed: set[str] = set()
    while found := opener.search(text, position):
        position = found.end()
        name = (found[1] or "!--").lower()
        closer = None if name in never_closed else _CLOSERS[name].search(text, position)
        if closer is None:
            never_closed.add(name)
            if not _EMPTY.fullmatch(found[0]):
                continue
        else:
            inside.append(text[position : closer.start()])
            position = closer.end()
        outside.append(text[kept : found.start()])
        kept = position
    return [*outside, text[kept:]], inside


@lru_cache(maxsize=4096)
def _parsed(text: str) -> _Pieces:
    """Parse wikitext to text and nodes. Closing braces close the nearest open ones, three before two; open braces are text."""
    stack = [_Frame(0)]
    position = 0
    for token in _TOKEN.finditer(text):
        frame, mark = stack[-1], token[0]
        frame.parts[-1].append(text[position : token.start()])
        position = token.end()
        if mark[0] == "{":
            stack.append(_Frame(len(mark)))
        elif mark == "|" and len(stack) > 1 and not frame.links:
            frame.parts.append([])
        elif mark[0] == "}" and len(stack) > 1:
            _close(stack, len(mark))
        else:
            frame.links += (mark == "[[") - (mark == "]]" and frame.links > 0)
            frame.parts[-1].append(mark)
    stack[-1].parts[-1].append(text[position:])
    while len(stack) > 1:  # an open frame is text of the one around it
        frame = stack.pop()
        pieces = stack[-1].parts[-1]
        pieces.append("{" * frame.braces)
        for number, part in enumerate(frame.parts):
            pieces += ["|", *part] if number else part
    return tuple(stack[0].parts[0])


def _close(stack: list[_Frame], closing: int) -> None:
    while closing >= 2 and len(stack) > 1:
        frame = stack[-1]
        used = 3 if closing >= 3 and frame.braces >= 3 else 2
        closing -= used
        frame.braces -= used
        node = _Node(used == 3, tuple(map(tuple, frame.parts)))
        if frame.braces >= 2:
            frame.parts, frame.links = [[node]], 0
        else:
            stack.pop()
            stack[-1].parts[-1] += ["{" * frame.braces, node]
    if closing:
        stack[-1].parts[-1].append("}" * closing)


class TemplatePages:
    """The templates of a dump, by key."""

    def __init__(self, bodies: Mapping[str, str]) -> None:
        self._bodies = bodies

    def body(self, key: str) -> str | None:
        """Return the body of a template, following up to three redirects; None if the dump has none."""
        for _ in range(4):
            body = self._bodies.get(key)
            redirect = _REDIRECT.match(body) if body else None
            if redirect is None:
                return body
            key = template_key(redirect[1])
        return None

    def expand(self, source: str, title: str, options: WikiOptions) -> str:
        """Return an article's source with the output of calls within lines in their place, as wikitext."""
        parts: list[str] = []
        position = calls = steps = characters = 0
        for start, end in _calls(source, tables=options.keep_tables):
            if calls >= _MAX_CALLS or steps > _MAX_PAGE_STEPS or characters > _MAX_PAGE_CHARACTERS:
                break
            key = template_key(source[start + 2 : min(end - 2, start + 256)].partition("|")[0])
            if end - start > _MAX_BODY or is_inline(key, options.inline_templates) or not _within_line(source, start, end):
                continue
            calls += 1
            call = _Call(self, title, options)
            shown = self._shown(source, start, end, call)
            steps, characters = steps + call.steps, characters + call.characters
            if shown is not None:
                parts += [source[position:start], shown]
                position = end
        return "".join([*parts, source[position:]])

    def _shown(self, page: str, start: int, end: int, call: _Call) -> str | None:
        source = page[start:end]
        country = country_of_code(source[2:-2].partition("|")[0].strip(), page, end) or None
        try:
            text = call.text(_parsed(source), _Scope({}, ()))
        except (_Refused, RecursionError):
            return country
        text = _CATEGORY.sub("", text).strip()
        whole = "\n" not in text and len(text) <= _MAX_SHOWN and text[:1] not in "*#:;=" and LETTER.search(text) is not None
        return text if whole and not _LAYOUT.search(text) and not _MARKER.fullmatch(text) else country


def _calls(source: str, *, tables: bool) -> Iterator[tuple[int, int]]:
    """Yield the spans of the outermost templates that are not in ``_ELEMENTS``, comments, or tables that are not kept."""
    opened = table = start = position = 0
    never_closed: set[str] = set()
    while found := _OUTER.search(source, position):
        position = found.end()
        mark = found[0].lstrip(" \t:*#;")
        if mark[0] == "<":
            name = (found[1] or "!--").lower()
            closer = None if name in never_closed else _CLOSERS[name].search(source, position)
            if closer:
                position = closer.end()
            else:
                never_closed.add(name)
        elif mark in ("{|", "|}"):
            if not opened and not tables:
                table = max(0, table + (1 if mark == "{|" else -1))
        elif mark == "{{" and not table:
            start = start if opened else found.start()
            opened += 1
        elif mark == "}}" and opened:
            opened -= 1
            if not opened:
                yield start, found.end()


def _within_line(source: str, start: int, end: int) -> bool:
    """Return whether a call has text beside it on its line; alone on a line it is a box, a notice, or a list of links."""
    before = source[source.rfind("\n", 0, start) + 1 : start]
    line_end = source.find("\n", end)
    after = _PROSE.search(source, end, line_end if line_end >= 0 else len(source))
    return bool(_PROSE.search(before) or after) or before.strip() in ("*", "#", "**", "##")


class _Scope(NamedTuple):
    """Where wikitext is evaluated."""

    arguments: Mapping[str, str]
    """Of the innermost template."""
    templates: tuple[str, ...]
    """Keys of the templates that are being expanded, the outermost first."""


@dataclass(slots=True)
class _Call:
    """One call in an article, and the work it has taken."""

    pages: TemplatePages
    title: str
    options: WikiOptions
    steps: int = 0
    characters: int = 0

    def text(self, pieces: _Pieces, scope: _Scope) -> str:
        """Return the text of parsed wikitext."""
        shown = []
        for piece in pieces:
            text = piece if isinstance(piece, str) else self._node(piece, scope)
            self.characters += len(text)
            if self.characters > _MAX_CHARACTERS:
                raise _Refused
            shown.append(text)
        return "".join(shown)

    def _node(self, node: _Node, scope: _Scope) -> str:
        self.steps += 1
        if self.steps > _MAX_STEPS:
            raise _Refused
        name = self.text(node.parts[0], scope).strip()
        if node.parameter:
            return scope.arguments[name] if name in scope.arguments else self._part(node, 1, scope)
        name = re.sub(r"^(?:safesubst|subst)\s*:\s*", "", name, flags=re.IGNORECASE)
        if name in ("!", "="):
            return "|" if name == "!" else "="
        if name in _PAGE_NAMES:
            return self.title
        function, colon, first = name.partition(":")
        if colon and (function.startswith("#") or function.lower() in _CASES):
            return self._function(function.lower(), first.strip(), node, scope)
        return self._template(name, node, scope)

    def _part(self, node: _Node, number: int, scope: _Scope) -> str:
        return self.text(node.parts[number], scope) if number < len(node.parts) else ""

    def _function(self, name: str, first: str, node: _Node, scope: _Scope) -> str:
        if name in _CASES:
            return _CASES[name](first)
        if name == "#if":
            return self._part(node, 1 if first else 2, scope).strip()
        if name == "#ifeq":
            return self._part(node, 2 if first == self._part(node, 1, scope).strip() else 3, scope).strip()
        if name == "#switch":
            return self._switch(first, node, scope)
        raise _Refused

    def _switch(self, wanted: str, node: _Node, scope: _Scope) -> str:
        found, default = False, ""
        for number in range(1, len(node.parts)):
            case, equals, value = self._part(node, number, scope).partition("=")
            found |= case.strip() == wanted
            if equals and found:
                return value.strip()
            if equals and case.strip() == "#default":
                default = value.strip()
            elif not equals and number == len(node.parts) - 1:
                default = case.strip()
        return default

    def _template(self, name: str, node: _Node, scope: _Scope) -> str:
        key = template_key(name)
        if key in scope.templates or len(scope.templates) >= _MAX_DEPTH:
            raise _Refused
        arguments = [self.text(part, scope) for part in node.parts[1:]]
        if is_inline(key, self.options.inline_templates):
            return inline_text(key, arguments, self.options.inline_templates).translate(_SCRIPT_TAGS)
        body = self.pages.body(key)
        if body is None:
            raise _Refused
        named: dict[str, str] = {}
        unnamed = 0
        for part, argument in zip(node.parts[1:], arguments):
            if any(isinstance(piece, str) and "=" in piece for piece in part):
                field_name, _, value = argument.partition("=")
                named[field_name.strip()] = value.strip()
            else:
                unnamed += 1
                named[str(unnamed)] = argument
        return self.text(_parsed(body), _Scope(named, (*scope.templates, key)))


_SCRIPT_TAGS = str.maketrans({RAISED: "<sup>", LOWERED: "<sub>", LEVEL: "</sup>"})
"""The output is read as wikitext, which must not have these marks; either closing tag ends either script."""
_PAGE_NAMES = ("PAGENAME", "FULLPAGENAME", "SUBPAGENAME", "BASEPAGENAME")
_CASES: Mapping[str, Callable[[str], str]] = {
    "lc": str.lower,
    "uc": str.upper,
    "lcfirst": lambda text: text[:1].lower() + text[1:],
    "ucfirst": lambda text: text[:1].upper() + text[1:],
    "formatnum": str,
}


@lru_cache(maxsize=1)
def load_template_pages(path: Path) -> TemplatePages:
    """Read the templates that extraction wrote, once per process."""
    return TemplatePages(json.loads(path.read_bytes()))
