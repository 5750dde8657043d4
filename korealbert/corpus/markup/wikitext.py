"""Extraction of text from MediaWiki wikitext: elements, then brackets, then marks within lines, then lines. Never raises."""

from __future__ import annotations

import re
from collections import Counter
from functools import lru_cache

from korealbert.corpus.markup.formulas import formula
from korealbert.corpus.markup.layout import (
    FOOTNOTE_END,
    FOOTNOTE_START,
    LETTER,
    LINE_BREAK,
    REDIRECT,
    REMOVED,
    Prose,
    WikiText,
    collapse_blanks,
    decode_entities,
    finish,
    prepare,
    protect,
    remove_addresses,
)
from korealbert.corpus.markup.stray_particles import without_particles_after_marks
from korealbert.corpus.markup.wikitext_brackets import LINE_TAGS, PARAGRAPH_TAGS, Brackets, on_one_line
from korealbert.corpus.readers.spec import WikiOptions
from korealbert.corpus.superscripts import read_scripts, script_mark

_REDIRECT = re.compile(rf"{REDIRECT}\s*:?\s*\[\[", re.IGNORECASE)
_EXTERNAL = re.compile(r"\[(?:https?:|ftp:|mailto:|irc:|//)[^\s\[\]]*+([^\[\]\n]*+)\]", re.IGNORECASE)
_MAGIC_WORD = re.compile(r"__[A-Z가-힣]{2,24}__")
_VARIANT = re.compile(r"-\{(?:([^{}|;:]*)\|)?([^{}]*)\}-")
_VARIANT_OF = re.compile(r"([a-z]{2,3}(?:-[a-z]+)?)\s*:([^;]*)")
_VARIANTS = ("ko", "zh-hant", "zh-tw", "zh-hk", "zh", "zh-hans", "zh-cn")
"""Language variants by preference; Korean uses traditional Chinese characters."""
_FORMULA_LINE = re.compile(
    r"(</math>[ \t]*)\n[ \t:*]*(?=(?:[은는가을를의와과에도만라]|으?로|에서|(?:이?라)(?:고|는)|이[다고며라])[ .,])"
)
"""Before a line that begins with the particle of a formula above it; not before 이, which is more often the pronoun."""
_FOUR_QUOTES = re.compile(r"(?<!')''''(?!')")
"""A quote of the text and the mark of bold, unless tags between them made one run of two marks."""
_QUOTES = re.compile("''+")


def extract_wikitext(source: str, options: WikiOptions) -> WikiText:
    """Return the text of one page's source; empty for a redirect."""
    lost: Counter[str] = Counter()
    if _REDIRECT.match(source):
        return WikiText("", lost, redirect=True)
    if "</math>" in source:
        source = _FORMULA_LINE.sub(r"\1", source)
    text, disambiguation = _read_markup(source, options, lost)
    return WikiText(_lay_out(text, options, lost), lost, disambiguation=disambiguation)


def read_leftover_marks(text: str, options: WikiOptions, lost: Counter[str]) -> str:
    """Read the links, templates and tags that another extractor left in a text; its lines stay as they are."""
    text, _ = _read_markup(text, options, lost)
    return finish(text.replace(REMOVED, "").replace(LINE_BREAK, "").strip("\n"))


def _read_markup(source: str, options: WikiOptions, lost: Counter[str]) -> tuple[str, bool]:
    """Return the lines of a source, and whether it has a template of disambiguation pages."""
    text = _FOUR_QUOTES.sub(protect("'") + "'''", _remove_elements(prepare(source), options, lost))
    brackets = Brackets(text, options, lost)
    text = _read_inline(brackets.run(), lost)
    return without_particles_after_marks(text, lost), brackets.disambiguation


def _read_inline(text: str, lost: Counter[str]) -> str:
    """Read the marks that do not nest: tags, addresses, quotes and entities."""
    before = len(text)
    if "<" in text:  # unknown tags such as <기생충> are kept
        text = _TAG.sub(lambda tag: script_mark(tag[0]) or _TAGS[tag[1].lower()], text)
    if "[" in text:
        text = _EXTERNAL.sub(lambda link: link[1].strip() or REMOVED, text)
    if "://" in text:
        text = remove_addresses(text)
    if "_" in text:
        text = _MAGIC_WORD.sub(REMOVED, text)
    if "{" in text:
        text = _VARIANT.sub(_variant, text)
    text = read_scripts(text)
    if "''" in text:
        text = _QUOTES.sub("", text)
    if "{" in text or "}" in text:
        text = text.replace("{|", REMOVED).replace("|}", REMOVED)
    decoded = decode_entities(text)
    lost["inline"] += before - len(text)
    lost["entity"] += len(text) - len(decoded)
    return decoded


def _variant(marked: re.Match[str]) -> str:
    """Return the shown variant of ``-{zh-hans:计;zh-hant:計}-``; nothing after the flags H, T, - and D."""
    if (marked[1] or "").strip() in ("H", "T", "-", "D"):
        return REMOVED
    variants = {code: variant.strip() for code, variant in _VARIANT_OF.findall(marked[2])}
    shown = next((variants[code] for code in _VARIANTS if code in variants), "") or next(iter(variants.values()), marked[2])
    return shown.strip() or REMOVED


def _lay_out(text: str, options: WikiOptions, lost: Counter[str]) -> str:
    """Lay out headings, lists and paragraphs."""
    prose = Prose(options, lost)
    take = prose.line
    for source_line in text.split("\n"):
        line = source_line.strip()
        if not line:
            prose.paragraph_break()
            continue
        if REMOVED in line:
            line = line.replace(REMOVED, "").strip()
        if LINE_BREAK in line:
            line = line.replace(LINE_BREAK, "").strip()
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
    """Return a line without the mark of a list item or rule; "" for a line of a table that never ends."""
    mark = line[0]
    if mark in "*#:;":
        return line.lstrip("*#:; ")
    if line.startswith("----"):
        return line.lstrip("-").lstrip()
    if mark == "|":
        lost["table"] += len(line)
        return ""
    return line


_CONSTRUCT = {
    **dict.fromkeys(("ref", "references"), "footnote"),
    **dict.fromkeys(("math", "chem", "ce"), "math"),
    **dict.fromkeys(("pre", "syntaxhighlight", "source"), "code"),
    **dict.fromkeys(("s", "del", "strike"), "strikethrough"),
    **dict.fromkeys(("rt", "rp", "rtc"), "ruby"),
    **dict.fromkeys(("gallery", "imagemap", "timeline", "score", "hiero", "graph", "mapframe", "maplink"), "media"),
    **dict.fromkeys(("table",), "table"),
    **dict.fromkeys(("templatedata", "inputbox", "categorytree", "includeonly", "style", "script"), "template"),
}
_TO_LINE_END = ("ref", "math", "chem", "ce")
"""Elements that remove the rest of their line if they are not closed; the others only lose their tag."""

_BREAK = f"{REMOVED}\n{LINE_BREAK}"
_NOTE_MARK = re.compile(r"\[\[|\]\]|\{\{|\}\}|\|")
_INLINE = """
    span small big b i u em strong sup sub font tt code kbd samp var cite abbr acronym bdi bdo mark ins q time data dfn wbr nobr
    ruby rb noinclude onlyinclude templatestyles indicator nowiki translate tvar languages col colgroup img a phonos
"""
_TAGS = {
    **dict.fromkeys(_CONSTRUCT, ""),
    **dict.fromkeys(_INLINE.split(), ""),
    **dict.fromkeys(LINE_TAGS, _BREAK),
    **dict.fromkeys(PARAGRAPH_TAGS, "\n\n"),
    **dict.fromkeys(("td", "th"), " "),
}
_TAG = re.compile(rf"</?({'|'.join(sorted(_TAGS, key=len, reverse=True))})(?=[\s/>])[^<>]*>", re.IGNORECASE | re.ASCII)
_CLOSERS = {name: re.compile(rf"</{name}\s*>", re.IGNORECASE) for name in ("nowiki", *_CONSTRUCT)}
_PLAIN = {
    "comment": re.compile(r"<!--(?>(?:[^<-]++|-(?!->)|<(?!!--))*)-->"),
    "footnote": re.compile(r"<ref(?=[\s/>])[^<>\n]*+>(?:(?<=/>)|(?<=/ >)|[^<]*+</ref>)"),
}
"""Comments and footnotes without nested elements, in the order of removal."""
_CODE_ELEMENTS, _IS_INLINE = ("syntaxhighlight", "source"), re.compile(r"\sinline(?=[\s=>])", re.IGNORECASE)
"""Code within a sentence stays, as that of ``<code>`` does."""
_SHIELD = re.compile("<(?:nowiki|pre|source|syntaxhighlight)", re.IGNORECASE)
"""The beginning of an element in which comments and footnotes are text."""
_REF_TAG = re.compile(r"</ref\s*>|<ref(?=[\s>])[^<>]*+(?<!/)(?<!/ )>", re.IGNORECASE)


@lru_cache(maxsize=4)
def _elements(*, keep_strikethrough: bool, keep_tables: bool) -> re.Pattern[str]:
    """Return a pattern of the beginnings of comments, ``<nowiki>`` and elements that are removed with their content."""
    kept = {"strikethrough": keep_strikethrough, "table": keep_tables}
    names = ["nowiki", *(name for name, construct in _CONSTRUCT.items() if not kept.get(construct))]
    alternatives = "|".join(sorted(names, key=len, reverse=True))
    return re.compile(rf"<(?:!--|({alternatives})(?=[\s/>]|$)(?:\s*+[^<>\n]*+>)?)", re.IGNORECASE | re.ASCII)


def _remove_elements(text: str, options: WikiOptions, lost: Counter[str]) -> str:
    """Remove comments and elements with their content; protect ``<nowiki>``. Linear, because missing closers are remembered."""
    if "<" not in text:
        return text
    if not (options.keep_footnotes or _SHIELD.search(text)):
        text = _remove_plain(text, lost)
    pattern = _elements(keep_strikethrough=options.keep_strikethrough, keep_tables=options.keep_tables)
    parts: list[str] = []
    never_closed: set[str] = set()
    position = 0
    while found := pattern.search(text, position):
        parts.append(text[position : found.start()])
        name = (found[1] or "!--").lower()
        inner_end, position = _extent(text, found, name, never_closed)
        if name == "nowiki" or (name in _CODE_ELEMENTS and _IS_INLINE.search(found[0])):
            parts.append(protect(decode_entities(text[found.end() : inner_end])) or REMOVED)
            continue
        construct = _CONSTRUCT.get(name, "comment")
        if construct == "footnote" and options.keep_footnotes and inner_end > found.end():
            note = _with_protected_pipes(on_one_line(text[found.end() : inner_end]))
            parts.append(f"{FOOTNOTE_START}{note}{FOOTNOTE_END}" if name == "ref" else "")
            continue
        replacement = formula(text[found.end() : inner_end], options) if construct == "math" else ""
        lost[construct] += position - found.start() - len(replacement)
        parts.append(replacement or REMOVED)
    parts.append(text[position:])
    return "".join(parts)


def _with_protected_pipes(note: str) -> str:
    """Protect the pipes of a footnote outside of its links and templates from the link or template around it."""
    depth = 0

    def read(mark: re.Match[str]) -> str:
        nonlocal depth
        if mark[0] == "|":
            return mark[0] if depth else protect(mark[0])
        depth = max(0, depth + (1 if mark[0] in ("[[", "{{") else -1))
        return mark[0]

    return _NOTE_MARK.sub(read, note)


def _remove_plain(text: str, lost: Counter[str]) -> str:
    """Remove plain comments and footnotes, which are most elements, at once."""
    for construct, plain in _PLAIN.items():
        others = plain.split(text)
        if len(others) > 1:
            lost[construct] += len(text) - sum(map(len, others))
            text = REMOVED.join(others)
    return text


def _extent(text: str, found: re.Match[str], name: str, never_closed: set[str]) -> tuple[int, int]:
    """Return the end of an element's content, and the position after the element."""
    opened = found.end()
    tag_whole = found[0].endswith(">")
    if found[0].endswith(("/>", "/ >")):
        return opened, opened
    if name == "ref" and tag_whole:
        following = _REF_TAG.search(text, opened)  # if this is an opening tag, the element is never closed
        if following and following[0].startswith("</"):
            return following.start(), following.end()
    elif name not in never_closed and (tag_whole or name == "!--"):
        if name == "!--":
            end = text.find("-->", opened)
            if end >= 0:
                return end, end + 3
        elif closer := _CLOSERS[name].search(text, opened):
            return closer.start(), closer.end()
        never_closed.add(name)
    if name in _TO_LINE_END or not tag_whole:
        end = text.find("\n", opened)
        end = len(text) if end < 0 else end
        return opened, end
    return opened, opened
