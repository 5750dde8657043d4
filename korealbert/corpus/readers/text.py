"""Reads plain text and Markdown, with optional YAML front matter: one document for each file, paragraph or line."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import unescape
from string import punctuation

from korealbert.corpus.normalise import composed
from korealbert.corpus.readers.framing import BLANK_LINE, LINE_END, RawRecords
from korealbert.corpus.readers.json import line_extents
from korealbert.corpus.readers.records import Outcome, Tally, bad_record, document_of, native_id, read_each
from korealbert.corpus.readers.spec import ExtractSpec
from korealbert.corpus.superscripts import read_scripts, script_mark

SUBTITLE_ENDINGS, MARKDOWN_ENDINGS, PLAIN_ENDINGS = (".srt", ".vtt", ".smi", ".sami"), (".md", ".markdown"), (".txt", ".text")
"""Endings of names that texts usually have. Reading goes by the content and by ``markdown``, whatever the name."""
_FRONT_MATTER = re.compile(r"---[ \t]*\r?\n(.*?)^(?:---|\.\.\.)[ \t]*(?:\r?\n|\Z)", re.DOTALL | re.MULTILINE)
_FRONT_KEY = r"[^ \t:#][^:\n]*"
_FRONT_ENTRY = re.compile(rf"{_FRONT_KEY}:(?:[ \t\r]|$)")
_FRONT_NESTED = re.compile(r"-?(?:[ \t\r]|$)|#")
"""A line that belongs to the entry above it, says nothing, or is blank."""
_FRONT_SCALAR = re.compile(rf"^({_FRONT_KEY}):[ \t]+(?![>|][-+\d]*\s*$)(.*)$", re.MULTILINE)
"""An entry whose value is on its line, not below it as after ``>`` and ``|``."""
_MARKDOWN_CODE = re.compile(r"^[ \t]*(([`~])\2{2,}+)(?!(?<=`)[^\n]*`).*?(?:^[ \t]*\1\2*+[ \t]*$|\Z)", re.DOTALL | re.MULTILINE)
"""A fence of backticks has no other backticks in its line, in which it would be code within a sentence."""
_MARKDOWN_LITERAL = re.compile(rf"\\([{re.escape(punctuation)}])|(?<![0-9A-Za-z`])(`+)([^`\n]+)\2(?!`)")
"""An escaped mark, or code within a line. A backtick after a digit or Latin letter is a prime: 체인기어(5`)."""
_STAND_INS = "".join(map(chr, range(0xFDD0, 0xFDF0)))
"""Noncharacters, as many as ``punctuation`` has marks."""
_PROTECTED, _RESTORED = str.maketrans(punctuation, _STAND_INS), str.maketrans(_STAND_INS, punctuation)
_MARKDOWN_LINK = re.compile(r"(!?)\[([^\[\]\n]*)\]\((?:[^()\s]|\([^()\s]*\))*(?:[ \t]+\"[^\"\n]*\")?\)")
_MARKDOWN_RULE = "|".join(rf"(?:{mark}[ \t]*){{3,}}" for mark in (r"\*", "-", "_"))
_MARKDOWN_LINE = re.compile(
    rf"^[ \t]*(?:(?:{_MARKDOWN_RULE}|=+[ \t]*)$|(?:(?:#{{1,6}}[ \t]|>|[-*+][ \t])[ \t]*+)+)", re.MULTILINE
)
_MARKDOWN_TABLE_RULE = re.compile(r"^[ \t]*(?:\|[ \t]*)?:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)+(?:\|[ \t]*)?$\n?", re.MULTILINE)
_MARKDOWN_TABLE_ROW = re.compile(r"^[ \t]*\|(.*)\|[ \t]*$", re.MULTILINE)
_HTML_BREAK = re.compile(r"<br[ \t]*/?>|</(?:p|div|li|tr|h[1-6])>", re.IGNORECASE)
_HTML_TAG = re.compile(
    r"</?(?:a|b|blockquote|br|center|code|dd|del|details|div|dl|dt|em|font|h[1-6]|hr|i|img|li|ol|p|pre|s|small|span|strong|sub"
    r"|summary|sup|table|tbody|td|th|thead|tr|u|ul)(?:[ \t][^<>\n]*)?/?>",
    re.IGNORECASE,
)
_MARKDOWN_EMPHASIS = re.compile(
    r"(?:(?<![\w*])|(?<=\w)(?!\*{1,3}[-.,~)\]:;]))\*{1,3}(?=[^\s*])(?=[^*\n]*\w)([^*\n]+?)(?<=\S)\*{1,3}"
)
"""Stars around words. Those of a masked number (제***-****-****4호) are text."""

_CLOCK = r"(?:\d{1,3}:)?\d{2}:\d{2}[.,]\d{3}"
_TIMES = re.compile(rf"^[ \t]*{_CLOCK}[ \t]*-->[ \t]*{_CLOCK}", re.MULTILINE)
_CUE = re.compile(
    rf"((?>(?:^[ \t]*\r?\n)*))(?:(?:^\ufeff?[ \t]*\d{{1,6}}[ \t]*\r?\n)?{_TIMES.pattern}[^\n]*(?:\n|\Z)|(?<=\n)(?P<none>))",
    re.MULTILINE,
)
"""Number and times above a line of subtitles (SubRip, WebVTT), and the blank lines before them. Matches blank lines before
others too (group ``none``): a search from each of them would take quadratic time."""
_CUE_MARK = re.compile(
    r"</?(?:[ibucv]|font|lang|ruby|rt)(?:[ .][^<>\n]*)?>|<(?:\d+:)?\d\d:\d\d\.\d{3}>|\{\\[^{}\n]*\}", re.IGNORECASE
)
"""A mark of a font, voice or language, or a time within a line."""
_WEBVTT_HEAD = re.compile(r"\A\ufeff?WEBVTT[^\n]*\n(?:[\w-]+[:=][^\n]*\n)*")
_WEBVTT_BLOCK = re.compile(
    r"(?:(?<=\n\n)|(?<=\n\r\n))(?:NOTE(?:[ \t][^\n]*)?|STYLE[ \t]*|REGION[ \t]*)\r?\n(?>(?:[^\S\n]*+\S[^\n]*+(?:\n|\Z))*)"
)
"""A comment, or the look of the lines, between blank lines."""
_MAX_SAMI_HEAD = 1 << 14
_SAMI = re.compile(r"<sync\s+start\s*=", re.IGNORECASE)
_SAMI_HEAD = re.compile(r"\A.*?(?=<sync\s+start\s*=)", re.IGNORECASE | re.DOTALL)
_SAMI_CUE = re.compile(r"<sync\b[^<>]*>?|<p\b(?:\s+(?:class|id)\s*=\s*[\w\"']+)*\s*>?", re.IGNORECASE)
"""The time of a line of SAMI, and the mark of its language; files often lack the ``>`` of either."""
_SAMI_TAG = re.compile(r"</?[a-z][^<>]*>", re.IGNORECASE)


def parse_text_file(spec: ExtractSpec, records: RawRecords, tally: Tally) -> Iterator[Outcome]:
    """Yield one document for the file; the entries of its front matter are fields."""
    names = spec.field_map

    def read(text: str, start: int, end: int) -> Outcome:
        front, body = _split_front_matter(text)
        others = (names.title, names.outlet, names.category, names.url, names.published)
        record = {name: front[name] for name in others if name in front}
        record |= {names.text[0]: _text(spec, body), names.id: front.get(names.id, records.file)}
        return document_of(spec, record, records, (start, end), tally)

    return read_each(records, [(0, len(records.data))], tally, read)


def parse_text_blocks(spec: ExtractSpec, records: RawRecords, tally: Tally) -> Iterator[Outcome]:
    """Yield a document for each line, or for each block between blank lines, after the front matter."""
    start = 0
    if records.byte <= 3 and records.data.startswith(b"---"):
        front = _front_matter(records.data.decode("latin-1"))
        start = front.end() if front else 0
    names = spec.field_map

    def read(text: str, start: int, end: int) -> Outcome:
        record = {names.text[0]: _text(spec, text), names.id: native_id(records, start)}
        return document_of(spec, record, records, (start, end), tally)

    return read_each(records, _blocks(records, start, LINE_END if spec.document == "line" else BLANK_LINE), tally, read)


def _blocks(records: RawRecords, start: int, border: re.Pattern[bytes]) -> Iterator[tuple[int, int]]:
    data = records.data
    while start < len(data):
        found = border.search(data, start)
        end = found.start() if found else len(data)
        if data[start:end].strip():
            yield start, end
        start = found.end() if found else len(data)


def parse_titled_text(spec: ExtractSpec, records: RawRecords, tally: Tally) -> Iterator[Outcome]:
    """Yield the article of a news file ``title<TAB>body``."""

    def read(text: str, start: int, end: int) -> Outcome:
        title, tab, body = text.partition("\t")
        if not tab or "\n" in title.strip():
            first = next(line_extents(records), (start, end))
            remedy = "expected title<TAB>body: put a tab between them"
            return bad_record(records, *first, "missing_field", remedy, field="title")
        names = spec.field_map
        return document_of(
            spec, {names.title: title, names.text[0]: body, names.id: records.file}, records, (start, end), tally
        )

    return read_each(records, [(0, len(records.data))], tally, read)


def _front_matter(text: str) -> re.Match[str] | None:
    """Return the YAML front matter of a text: a mapping. Other text between two rules belongs to the body."""
    found = _FRONT_MATTER.match(text)
    lines = [line for line in found[1].split("\n") if not _FRONT_NESTED.match(line)] if found else []
    return found if lines and all(map(_FRONT_ENTRY.match, lines)) else None


def _split_front_matter(text: str) -> tuple[dict[str, str], str]:
    """Return the scalar entries of YAML front matter, and the text after it; nested entries are ignored."""
    found = _front_matter(text)
    if not found:
        return {}, text
    entries = {composed(key.strip(" '\"")): _scalar(value.strip()) for key, value in _FRONT_SCALAR.findall(found.group(1))}
    return entries, text[found.end() :]


def _scalar(value: str) -> str:
    for quote in "'\"":
        if len(value) >= 2 and value[0] == value[-1] == quote:
            return value[1:-1].replace(quote * 2, quote) if quote == "'" else value[1:-1].replace('\\"', '"')
    return value


def is_subtitles(source: str) -> bool:
    """Return whether a text, or the beginning of one, has times of subtitles that are not read."""
    return _is_sami(source) or _has_cues(source)


def _is_sami(source: str) -> bool:
    return _SAMI.search(source, 0, _MAX_SAMI_HEAD) is not None


def _has_cues(source: str) -> bool:
    return "-->" in source and _TIMES.search(source) is not None


def _text(spec: ExtractSpec, source: str) -> str:
    """Return a source without the times of subtitles and, if it is Markdown, without marks."""
    if _is_sami(source):
        lines = _SAMI_CUE.sub("\n", _SAMI_HEAD.sub("", source, count=1))
        source = unescape(_SAMI_TAG.sub("", _without_comments(_HTML_BREAK.sub("\n", lines))))
    elif _has_cues(source):
        if head := _WEBVTT_HEAD.match(source):
            source = _WEBVTT_BLOCK.sub("", f"\n{source[head.end() :]}")
        source = _CUE_MARK.sub("", _CUE.sub(lambda cue: "" if cue["none"] is None else cue[0], source))
    return _strip_markdown(source) if spec.markdown else source


def _without_comments(text: str) -> str:
    """Remove ``<!-- … -->``; one that is not closed is text."""
    parts, position = list[str](), 0
    while (start := text.find("<!--", position)) >= 0 and (end := text.find("-->", start + len("<!--"))) >= 0:
        parts.append(text[position:start])
        position = end + len("-->")
    return "".join((*parts, text[position:]))


def _strip_markdown(text: str) -> str:
    """Remove code, comments, images, HTML tags, and the marks of headings, quotes, lists, emphasis, links and escapes.

    Code within a line stays, and so do the numbers of numbered lists. Rows of tables become lines of cells with a blank
    between them.
    """
    text = _MARKDOWN_CODE.sub("", text.replace("\r\n", "\n"))
    text, literals = _MARKDOWN_LITERAL.subn(_protected, text)
    text = _without_comments(text)
    for _ in range(2):  # twice, for images in links
        text = _MARKDOWN_LINK.sub(lambda link: "" if link[1] else link[2], text)
    text = _MARKDOWN_TABLE_ROW.sub(_cells, _MARKDOWN_TABLE_RULE.sub("", text))
    text = _HTML_TAG.sub(lambda tag: script_mark(tag[0]), _HTML_BREAK.sub("\n", text))
    text = _MARKDOWN_LINE.sub("", read_scripts(text))
    text = _MARKDOWN_EMPHASIS.sub(r"\1", text)
    return text.translate(_RESTORED) if literals else text


def _protected(literal: re.Match[str]) -> str:
    """Return an escaped mark, or code, as text in which nothing is a mark."""
    return (literal[1] or literal[3]).translate(_PROTECTED)


def _cells(row: re.Match[str]) -> str:
    return " ".join(cell.strip() for cell in row[1].split("|"))
