"""HTML-like tags of MediaWiki: elements that vanish with their content, and tags that only lose their brackets."""

from __future__ import annotations

import re
from collections import Counter
from functools import lru_cache

from korealbert.corpus.markup.layout import FOOTNOTE_END, FOOTNOTE_START, GONE, decode_entities, literal
from korealbert.corpus.readers.spec import WikiOptions

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
"""Left unclosed, these take the rest of their line along; the others only lose their tag."""

_BREAK = f"{GONE}\n{GONE}"
_BREAKING = """
    br div center blockquote ul ol li dl dd dt h1 h2 h3 h4 h5 h6 table tbody thead tfoot tr caption poem section
"""
_INLINE = """
    span small big b i u em strong sup sub font tt code kbd samp var cite abbr acronym bdi bdo mark ins q time data dfn wbr nobr
    ruby rb noinclude onlyinclude templatestyles indicator nowiki translate tvar languages col colgroup img a
"""
_TAGS = {
    **dict.fromkeys(_CONSTRUCT, ""),
    **dict.fromkeys(_INLINE.split(), ""),
    **dict.fromkeys(_BREAKING.split(), _BREAK),
    **dict.fromkeys(("p", "hr"), "\n\n"),
    **dict.fromkeys(("td", "th"), " "),
}
_TAG = re.compile(rf"</?({'|'.join(sorted(_TAGS, key=len, reverse=True))})(?=[\s/>])[^<>]*>", re.IGNORECASE | re.ASCII)
_CLOSERS = {name: re.compile(rf"</{name}\s*>", re.IGNORECASE) for name in ("nowiki", *_CONSTRUCT)}
_PLAIN = {
    "comment": re.compile(r"<!--(?>(?:[^<-]++|-(?!->)|<(?!!--))*)-->"),
    "footnote": re.compile(r"<ref(?=[\s/>])[^<>\n]*+>(?:(?<=/>)|(?<=/ >)|[^<]*+</ref>)"),
}
"""Elements with nothing in them to be looked at, in the order in which they go."""
_SHIELD = re.compile("<(?:nowiki|pre|source|syntaxhighlight)", re.IGNORECASE)
"""Begins an element in which comments and footnotes mean nothing."""
_REF_TAG = re.compile(r"</ref\s*>|<ref(?=[\s>])[^<>]*+(?<!/)(?<!/ )>", re.IGNORECASE)


@lru_cache(maxsize=4)
def _elements(*, keep_strikethrough: bool, keep_tables: bool) -> re.Pattern[str]:
    """Where a comment, ``<nowiki>`` or an element begins that goes with its content."""
    kept = {"strikethrough": keep_strikethrough, "table": keep_tables}
    names = ["nowiki", *(name for name, construct in _CONSTRUCT.items() if not kept.get(construct))]
    alternatives = "|".join(sorted(names, key=len, reverse=True))
    return re.compile(rf"<(?:!--|({alternatives})(?=[\s/>]|$)(?:\s*+[^<>\n]*+>)?)", re.IGNORECASE | re.ASCII)


def remove_elements(text: str, options: WikiOptions, lost: Counter[str]) -> str:
    """Drop comments and elements with their content, protect ``<nowiki>``. Linear: a missing closer is looked for once."""
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
        if name == "nowiki":
            parts.append(literal(decode_entities(text[found.end() : inner_end])))
            continue
        construct = _CONSTRUCT.get(name, "comment")
        if construct == "footnote" and options.keep_footnotes and inner_end > found.end():
            note = text[found.end() : inner_end].replace("\n", " ")
            parts.append(f"{FOOTNOTE_START}{note}{FOOTNOTE_END}" if name == "ref" else "")
            continue
        instead = options.math_placeholder if construct == "math" else ""
        lost[construct] += position - found.start() - len(instead)
        parts.append(instead or GONE)
    parts.append(text[position:])
    return "".join(parts)


def _remove_plain(text: str, lost: Counter[str]) -> str:
    """Most elements are plain comments and footnotes, which go all at once."""
    for construct, plain in _PLAIN.items():
        others = plain.split(text)
        if len(others) > 1:
            lost[construct] += len(text) - sum(map(len, others))
            text = GONE.join(others)
    return text


def _extent(text: str, found: re.Match[str], name: str, never_closed: set[str]) -> tuple[int, int]:
    """Where the content of an element ends, and where the text goes on behind it."""
    opened = found.end()
    tag_whole = found[0].endswith(">")
    if found[0].endswith(("/>", "/ >")):
        return opened, opened
    if name == "ref" and tag_whole:
        following = _REF_TAG.search(text, opened)  # an opening tag first means that this one was never closed
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


def strip_tags(text: str) -> str:
    """Replace known tags by the break they make, or nothing; unknown ones such as ``<기생충>`` stay."""
    return _TAG.sub(lambda tag: _TAGS[tag[1].lower()], text) if "<" in text else text
