"""MediaWiki wikitext → text: elements that vanish, then brackets, then marks within a line, then lines. Nothing raises."""

from __future__ import annotations

import re
from collections import Counter

from korealbert.corpus.markup.elements import remove_elements, strip_tags
from korealbert.corpus.markup.layout import (
    GONE,
    LETTER,
    Prose,
    WikiText,
    collapse_blanks,
    decode_entities,
    finish,
    prepare,
    remove_addresses,
)
from korealbert.corpus.markup.wikitext_brackets import Brackets
from korealbert.corpus.readers.spec import WikiOptions

_REDIRECT = re.compile(r"\s*#(?:redirect|넘겨주기)\s*:?\s*\[\[", re.IGNORECASE)
_EXTERNAL = re.compile(r"\[(?:https?:|ftp:|mailto:|irc:|//)[^\s\[\]]*+([^\[\]\n]*+)\]", re.IGNORECASE)
_MAGIC_WORD = re.compile(r"__[A-Z가-힣]{2,24}__")
_VARIANT = re.compile(r"-\{([^{}]*)\}-")
_QUOTES = re.compile("''+")


def extract_wikitext(source: str, options: WikiOptions) -> WikiText:
    """The text of one page's source; empty for a redirect."""
    lost: Counter[str] = Counter()
    if _REDIRECT.match(source):
        return WikiText("", lost, redirect=True)
    brackets = Brackets(remove_elements(prepare(source), options, lost), options, lost)
    text = _inline(brackets.run(), lost)
    return WikiText(_lay_out(text, options, lost), lost, disambiguation=brackets.disambiguation)


def read_leftover_marks(text: str, options: WikiOptions, lost: Counter[str]) -> str:
    """Read the links, templates and tags that another extractor left in a text; its lines stay as they are."""
    brackets = Brackets(remove_elements(prepare(text), options, lost), options, lost)
    return finish(_inline(brackets.run(), lost).replace(GONE, "").strip("\n"))


def _inline(text: str, lost: Counter[str]) -> str:
    """Tags, addresses, quotes and entities: marks that do not nest."""
    before = len(text)
    text = strip_tags(text)
    if "[" in text:
        text = _EXTERNAL.sub(lambda link: link[1].strip() or GONE, text)
    if "://" in text:
        text = remove_addresses(text)
    if "_" in text:
        text = _MAGIC_WORD.sub(GONE, text)
    if "{" in text:
        text = _VARIANT.sub(lambda variant: variant[1] or GONE, text)
    if "''" in text:
        text = _QUOTES.sub(_apostrophe if "''''" in text else "", text)
    if "{" in text or "}" in text:
        text = text.replace("{|", GONE).replace("|}", GONE)
    decoded = decode_entities(text)
    lost["inline"] += before - len(text)
    lost["entity"] += len(text) - len(decoded)
    return decoded


def _apostrophe(quotes: re.Match[str]) -> str:
    """Of four quotes one is text: two or three, or five for both, begin or end italics and bold."""
    return "'" if len(quotes[0]) == 4 else ""


def _lay_out(text: str, options: WikiOptions, lost: Counter[str]) -> str:
    """Headings, lists and paragraphs."""
    prose = Prose(headings=options.headings, dropped_sections=options.dropped_sections, lost=lost)
    take = prose.line
    for source_line in text.split("\n"):
        line = source_line.strip()
        if not line:
            prose.paragraph_break()
            continue
        if GONE in line:
            line = line.replace(GONE, "").strip()
        if options.keep_footnotes:
            line = prose.hold_footnotes(line)
        if not line:
            continue
        mark = line[0]
        if mark in "=*#:;-|":
            if mark == "=" and line[-1] == "=":
                _heading(line, prose)
                continue
            line = _without_mark(line, lost)
        if mark.isalnum() or LETTER.search(line):
            take(line)
        else:
            lost["line"] += len(line)
    return finish(prose.text())


def _heading(line: str, prose: Prose) -> None:
    if title := line.strip("="):
        level = min(len(line) - len(line.lstrip("=")), len(line) - len(line.rstrip("=")))
        prose.heading(level, collapse_blanks(title).strip())


def _without_mark(line: str, lost: Counter[str]) -> str:
    """A line without what makes it a list item or a rule; nothing of a line that a table without an end left."""
    mark = line[0]
    if mark in "*#:;":
        return line.lstrip("*#:; ")
    if line.startswith("----"):
        return line.lstrip("-").lstrip()
    if mark == "|":
        lost["table"] += len(line)
        return ""
    return line
