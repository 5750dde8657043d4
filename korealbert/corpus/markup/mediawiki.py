"""Documents of Wikipedia files: XML dumps of MediaWiki, and the output of WikiExtractor.

Dumps are cut at ``</page>``, which cannot occur in a page because dumps escape ``<``, and expat parses each page separately, so
that a malformed page loses only itself. Declarations (DOCTYPE, entities) are refused: dumps have none, only attacks do.
"""

from __future__ import annotations

import html
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from xml.parsers import expat

from korealbert.corpus.markup.expansion import TemplatePages, template_body
from korealbert.corpus.markup.holes import fitting
from korealbert.corpus.markup.layout import (
    LETTER,
    REMOVED,
    WIKIPEDIA_NAMESPACES,
    WikiText,
    drop_namespace,
    drop_pointer,
    finish,
)
from korealbert.corpus.markup.stray_particles import without_particles_after_marks, without_stray_particles
from korealbert.corpus.markup.templates import template_key
from korealbert.corpus.markup.wikitext import extract_wikitext, read_leftover_marks
from korealbert.corpus.readers.framing import RawRecords
from korealbert.corpus.readers.records import (
    UNREAD_SOURCE_CHARS,
    Dropped,
    Outcome,
    Tally,
    bad_record,
    decode_record,
    one_line,
    tidy,
    too_long_record,
)
from korealbert.corpus.readers.spec import ExtractSpec
from korealbert.documents.schema import Document, Drop, Quarantined, document_id

PAGE_END = b"</page>"
PAGE = re.compile(PAGE_END)
"""Occurs once in each page."""
BASE = re.compile(rb"<base>([^<]*)</base>")
"""Captures the wiki's address from the header of a dump."""

_PAGE_START = re.compile(rb"<page(?=[\s>])")
_TEMPLATE_SPACE = re.compile(rb"<ns>10</ns>")
_DECLARATION = re.compile(rb"<!(?:DOCTYPE|ENTITY)", re.IGNORECASE)
_TEXT_FIELDS = {"title": "title", "ns": "namespace", "id": "id", "text": "text", "timestamp": "timestamp"}


@dataclass(slots=True)
class Page:
    """One page of a dump, with its last revision."""

    title: str = ""
    namespace: str = ""
    id: str = ""
    redirect: bool = False
    text: str = ""
    timestamp: str = ""


def parse_pages(
    spec: ExtractSpec, records: RawRecords, tally: Tally, templates: TemplatePages | None = None
) -> Iterator[Outcome]:
    """Read one document per page; calls of ``templates`` within lines are expanded."""
    data, position = records.data, 0
    if b"<!" in data and (declaration := _DECLARATION.search(data)):
        remedy = "a dump declares no document type and no entities: get it from its publisher"
        yield bad_record(records, declaration.start(), declaration.end(), "xml_declaration_refused", remedy)
    while start := _PAGE_START.search(data, position):
        yield from _outside_pages(records, position, start.start())
        end = data.find(PAGE_END, start.end())
        if end < 0:
            tally.records += 1
            remedy = "the page is not closed; those before are kept: fetch the dump again"
            yield bad_record(records, start.start(), len(data), "truncated_xml", remedy)
            return
        position = end + len(PAGE_END)
        tally.records += 1
        page = _read_page(records, start.start(), position)
        yield page if isinstance(page, Quarantined) else _document(spec, records, page, tally, templates)
    if records.last:
        yield from _end_of_dump(records, position)
    else:
        yield from _outside_pages(records, position, len(data))


def _outside_pages(records: RawRecords, start: int, end: int) -> Iterator[Quarantined]:
    """Yield what lies between two pages. Before the first page of a batch only an element does, such as a page with a damaged
    tag: the head of the dump is not one, nor is the rest of a page behind damage."""
    text = records.data[start:end].lstrip()
    is_head = records.byte <= len(b"\xef\xbb\xbf")
    if text and (start or (not is_head and re.match(rb"<[a-z]", text))):
        remedy = "there is text between two pages: fetch the dump again"
        yield bad_record(records, end - len(text), end, "malformed_xml", remedy)


def _end_of_dump(records: RawRecords, position: int) -> Iterator[Quarantined]:
    rest = records.data[position:].strip()
    if records.byte <= len(b"\xef\xbb\xbf") and not position:
        if isinstance(unread := decode_record(records, 0, len(records.data)), Quarantined):
            yield unread
            return
        extracted = records.data.lstrip().startswith(b"<doc ")
        other = 'it is WikiExtractor\'s output: set format = "wikiextractor"' if extracted else "give it another format"
        remedy = f"the file holds no <page>: {other}, or remove it from the source"
        yield bad_record(records, 0, len(records.data), "no_pages", remedy)
    elif not rest.startswith(b"</mediawiki>"):
        start = len(records.data) - len(records.data[position:].lstrip())
        remedy = "expected </mediawiki> behind the last page: fetch the dump again, its pages were read"
        yield bad_record(records, start, len(records.data), "truncated_xml", remedy)


def _read_page(records: RawRecords, start: int, end: int) -> Page | Quarantined:
    source = too_long_record(records, start, end) or decode_record(records, start, end)
    if isinstance(source, Quarantined):
        return source
    page, path, text = Page(), list[str](), list[str]()
    parser = expat.ParserCreate("utf-8")
    parser.buffer_text = True

    def start_element(name: str, attributes: dict[str, str]) -> None:
        path.append(name)
        text.clear()
        if name == "redirect":
            page.redirect = True

    def end_element(name: str) -> None:
        path.pop()
        field = _TEXT_FIELDS.get(name)
        if field and path and path[-1] in ("page", "revision") and not (name == "id" and path[-1] == "revision"):
            setattr(page, field, "".join(text))
        text.clear()

    parser.StartElementHandler, parser.EndElementHandler, parser.CharacterDataHandler = start_element, end_element, text.append
    try:
        utf8 = records.data[start:end] if records.encoding == "utf-8" else source.encode("utf-8", "surrogatepass")
        parser.Parse(utf8, True)
    except expat.ExpatError as error:
        line = records.line_at(start) + error.lineno - 1
        message = expat.errors.messages[error.code] if error.code in expat.errors.messages else str(error)
        position = f"line {line}, column {error.offset + 1}"
        return bad_record(records, start, end, "malformed_xml", f"{message}: correct the page", position=position)
    if not page.title:
        remedy = "the page has no <title>: is this a MediaWiki export?"
        return bad_record(records, start, end, "missing_field", remedy, field="title")
    return page


def read_templates(records: RawRecords) -> Iterator[tuple[str, str]]:
    """Yield key and body of each template page; unreadable ones are reported when they are parsed as pages."""
    position = 0
    while (start := _PAGE_START.search(records.data, position)) and (end := records.data.find(PAGE_END, start.end())) >= 0:
        position = end + len(PAGE_END)
        if _TEMPLATE_SPACE.search(records.data, start.end(), position):
            page = _read_page(records, start.start(), position)
            if isinstance(page, Page) and (body := template_body(page.text)) is not None:
                yield template_key(page.title.partition(":")[2] or page.title), body


def _document(spec: ExtractSpec, records: RawRecords, page: Page, tally: Tally, templates: TemplatePages | None) -> Outcome:
    title = one_line(page.title)
    tally.namespaces[page.namespace or "0"] += 1

    def document(text: str) -> Document:
        return Document(
            id=document_id(spec.source, page.id or title),
            source=spec.source,
            text=text,
            title=title,
            outlet=spec.outlet,
            category=spec.category,
            url=_address(records.context, page.id),
            published=page.timestamp,
        )

    if drop := _drop_unread(page, title):
        tally.left_out(page.text)
        return Dropped(document(page.text[:UNREAD_SOURCE_CHARS]), drop)
    source = templates.expand(page.text, title, spec.wiki) if templates else page.text
    extracted = extract_wikitext(source, spec.wiki)
    extracted.lost["template"] += len(page.text) - len(source)
    if drop := _drop_extracted(extracted, title):
        tally.left_out(page.text)
        return Dropped(document(extracted.text or page.text[:UNREAD_SOURCE_CHARS]), drop)
    tally.extracted(page.text, extracted.text, extracted.lost)
    return document(extracted.text)


def _drop_unread(page: Page, title: str) -> Drop | None:
    """Return why a page is dropped without parsing its source, or None."""
    if page.namespace not in ("0", ""):
        return Drop("namespace", f"ns = {page.namespace}")
    return drop_namespace(title, WIKIPEDIA_NAMESPACES) or (Drop("redirect", "<redirect>") if page.redirect else None)


def _drop_extracted(extracted: WikiText, title: str) -> Drop | None:
    """Return why an extracted page is dropped, or None."""
    if extracted.redirect:
        return Drop("redirect", "#redirect")
    if extracted.disambiguation:
        return Drop("disambiguation", "template")
    return drop_pointer(title) or (None if extracted.text else Drop("empty"))


def _address(base: str, page_id: str) -> str:
    """Return the permanent address of a page: ``…/wiki?curid=5``."""
    wiki, slash, _ = base.partition("/wiki/")
    return f"{wiki}/wiki?curid={page_id}" if slash and page_id else ""


# WikiExtractor's output (``<doc id url title>…</doc>``) is repaired. The tool deletes templates but not the punctuation around
# them, so that articles begin with ``(, 1924년 …)``; it leaves unclosed links and templates, cells and arguments of others, and
# ``formula_3`` in the place of a formula; and it repeats the title as the first line. Section titles are bare lines or end in a
# full stop (``생애.``). They are kept, except those of dropped sections, and those at the end, whose lists were removed.

DOC_END = b"</doc>"
DOC = re.compile(rb"</?doc\b")
"""Occurs in each document, even if its end is missing."""

_DOC_START = re.compile(rb"(?:^|(?<=</doc>))[ \t]*+<doc\s(?:(?>[^\n]*>)[ \t\r]*+$|(?P<none>[^\n]*+))", re.MULTILINE)
"""Matches the rest of a line that does not end as a start does (group ``none``): no other start on it does."""
_ATTRIBUTE = re.compile(r"\b(\w++)=\"(?:(.*?)\"(?=\s++\w++=\"|\s*+>?\s*+$)|.*+)")
"""A value ends before another attribute or the end of the line, because titles have unescaped quotes and ``>``. Matches a
value without an end, too, behind which no other has one."""


def parse_docs(spec: ExtractSpec, records: RawRecords, tally: Tally) -> Iterator[Outcome]:
    """Read one document per ``<doc>``."""
    data, position, end = records.data, 0, 0
    while start := _next_doc(data, position, len(data)):
        if data[position : start.start()].strip():
            remedy = "expected <doc …>: run WikiExtractor again"
            yield bad_record(records, position, start.start(), "text_outside_doc", remedy)
        if 0 <= end < start.end():
            end = data.find(DOC_END, start.end())
        tally.records += 1
        stop = end if end >= 0 else len(data)
        if data.find(b"<doc", start.end(), stop) >= 0 and (following := _next_doc(data, start.end(), stop)):
            position = following.start()
            remedy = "another <doc …> begins before </doc>: run WikiExtractor again"
            yield bad_record(records, start.start(), position, "unclosed_doc", remedy)
            continue
        if end < 0:
            remedy = "the <doc> is not closed: the output was cut off, run WikiExtractor again"
            yield bad_record(records, start.start(), len(data), "truncated_doc", remedy)
            return
        position = end + len(DOC_END)
        if bad := too_long_record(records, start.start(), position):
            yield bad
            continue
        yield _read_doc(spec, records, start, end, tally)
    if data[position:].strip():
        unread = decode_record(records, position, len(data))
        remedy = "expected <doc …>: is this WikiExtractor's output?"
        outside = bad_record(records, position, len(data), "text_outside_doc", remedy)
        yield unread if isinstance(unread, Quarantined) else outside


def _next_doc(data: bytes, position: int, end: int) -> re.Match[bytes] | None:
    """Return the next start of a document."""
    return next((found for found in _DOC_START.finditer(data, position, end) if found["none"] is None), None)


def _read_doc(spec: ExtractSpec, records: RawRecords, start: re.Match[bytes], end: int, tally: Tally) -> Outcome:
    record = decode_record(records, start.start(), end)
    if isinstance(record, Quarantined):
        return record
    start_tag, _, body = record.partition("\n")
    attributes = {name: html.unescape(value) for name, value in _ATTRIBUTE.findall(start_tag) if value}
    title = one_line(attributes.get("title", ""))
    if not title:
        remedy = "<doc> has no title attribute: is this WikiExtractor's output?"
        return bad_record(records, start.start(), end, "missing_field", remedy, field="title")
    source, lost = html.unescape(body), Counter[str]()
    text = _repair(source, spec, title, lost)
    native = attributes.get("id") or title
    document = Document(
        document_id(spec.source, native), spec.source, text, title, spec.outlet, spec.category, attributes.get("url", "")
    )
    drop = drop_namespace(title, WIKIPEDIA_NAMESPACES) or drop_pointer(title) or (None if text else Drop("empty"))
    if drop:
        tally.left_out(source)
        return Dropped(document, drop)
    tally.extracted(source, text, lost)
    return document


_PLACEHOLDER = re.compile(r"(?:formula|codice)_\d+")
_RESIDUE = re.compile(
    r"(?m)^(?:[|!] *(?:[\w-]+ ?=[^\n]*|[^\n|]*\| *)"  # a cell's attributes, a template's argument
    r"|[^\n|]*(?:\| *+[\w가-힣][\w가-힣 ]{0,19}=[^\n|]*){2,}"  # the arguments of a citation
    r"|</?(?:page|ns|id|revision|parentid|timestamp|contributor|username|ip|minor|comment|origin|model|format|sha1)\b[^\n]*)$\n?"
)
_HEADING = re.compile(
    r"[^.,!?]{1,12}(?<![다요까죠a-z])(?<![하두놓]자)(?<![ 아어여해펴려]보자)(?<![하여아어]라)(?<!시오)(?<! 함)(?<![있없않]음)\."
)
"""A section title as WikiExtractor writes it, with a full stop. Sentences of this length end as excluded here (… 함수라고
하자.), abbreviations in a small letter (Inc.), titles as nouns do: 저자, 후보자, 오페라, 전함, 죽음. 4 of 31 such lines in 하자
are titles (절차의 하자.), which stay."""
_LIST_MARK = re.compile(r"(?m)^\*+ +")
_DOUBLE_STOP = re.compile(r"\.(?<=다\.\.)(?!\.)|(?:\.(?<=다\.))?,(?=\.(?:\s|\Z))")
_TITLE = '(?:《(?:"")?》|〈〉|「」|『』|‘’|“”)'
_EMPTIED = re.compile(f"{_TITLE}|（）")
_WORK = (
    "영화|드라마|극장판|속편|후속작|합본|확장팩|앨범|음반|싱글|곡|노래|리메이크|오페라|뮤지컬|연극|만화|소설|책|잡지|저서|작품|게임|프로그램"
    "|애니메이션|다큐멘터리|시리즈|토크쇼|게임판"
)
_TITLED = re.compile(
    rf"({_WORK})(?:인? |인){_TITLE}(에서(?:는|도|의)?|에(?:는|도)?|의|[을를이가은는과와도]|으?로)(?=[ ,.\n]|\Z)"
    rf"|({_WORK}) ?{_TITLE}(?:(?= [가-힣]{{2}})|, ?(?=[《〈「『]))"
)
"""A title that was deleted, behind what it is the title of, to which its particle goes: 영화 《》에서 → 영화에서."""
_UNTITLED = re.compile(
    rf"(?<=[,(]) ?{_TITLE},|^{_TITLE}[은는] |(?<=[가-힣》])（）(?=[은는이가을를와과의에로 ,.])", re.MULTILINE
)
"""Such a title among others, or as the topic of an article; empty parentheses."""
_EMPTY_QUOTES = re.compile(r"(?<=[가-힣》])\(\"\"\)")


def _repair(body: str, spec: ExtractSpec, title: str, lost: Counter[str]) -> str:
    text = tidy(body)
    first, _, rest = text.partition("\n")
    if one_line(first) == title:
        lost["title"] += len(first)
        text = rest.lstrip("\n")
    if any(mark in text for mark in ("[[", "{{", "{|", "<", "://", "''", "__")):
        text = read_leftover_marks(text, spec.wiki, lost)
    if "_" in text:
        unknown = spec.wiki.math_placeholder.replace("{formula}", "")
        marked = _PLACEHOLDER.sub(lambda found: (unknown if found[0][0] == "f" else "") or REMOVED, text)
        lost["math"] += len(text) - len(marked) + marked.count(REMOVED)
        text = without_particles_after_marks(marked, lost).replace(REMOVED, "")
    before = len(text)
    text = _without_deleted_words(text)
    if "|" in text or "<" in text or "!" in text:
        text = _RESIDUE.sub("", text)
    if "*" in text:
        text = _LIST_MARK.sub("", text)
    text = finish(text)
    if ".." in text or ",." in text:
        text = _DOUBLE_STOP.sub("", text)
    text = without_stray_particles(text, title)
    lost["repair"] += before - len(text)
    lines = [line for line in text.split("\n") if not line or line[0].isalnum() or LETTER.search(line)]
    headings = {f"{name}." for name in spec.wiki.dropped_sections}
    return tidy("\n".join(line for line in _without_last_headings(lines) if line not in headings))


def _without_deleted_words(text: str) -> str:
    """Remove the brackets and quotes of deleted words where the sentence is sound without them."""
    text = text.replace("(\n)", "")
    if '"' in text and '("")' in text:
        text = _EMPTY_QUOTES.sub("", text)
    if any(map(text.__contains__, "》〉」』’”）")) and _EMPTIED.search(text):  # a character is found ten times as fast
        text = _UNTITLED.sub("", _TITLED.sub(_untitled, text))
    return text


def _untitled(found: re.Match[str]) -> str:
    work, particle, other = found.groups()
    return f"{work}{fitting(work[-1], particle)}" if work else f"{other}{' ' * found[0].endswith((',', ', '))}"


def _without_last_headings(lines: list[str]) -> list[str]:
    """Remove the titles of empty sections at the end."""
    end = len(lines)
    while end > 1 and (not lines[end - 1] or _HEADING.fullmatch(lines[end - 1])):
        end -= 1
    return lines[:end]
