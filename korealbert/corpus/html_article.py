"""HTML → article: main text (trafilatura), and title, outlet, section, time and authors by what the page itself declares."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from korealbert.corpus.charset import decode_page
from korealbert.corpus.html_flight import flight_body, flight_date, flight_stream
from korealbert.corpus.html_meta import date_line, read_facts
from korealbert.corpus.records import one_line, tidy

MIN_TEXT_CHARS = 60
"""A shorter main text is a caption or a login notice: the text that the page carries elsewhere is looked for."""
_MARKER = re.compile(r"\$\$[A-Z_]{2,30}\$\$")
DATE_LINE_CHARS = 16_000
"""How far into a page's characters its date line is looked for."""


class UnreadablePage(ValueError):
    """A page that is no text or no HTML; ``reason`` names the kind, the message the remedy."""

    def __init__(self, reason: str, remedy: str) -> None:
        super().__init__(remedy)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Article:
    """One page's article; empty where the page says nothing."""

    title: str
    text: str
    """Paragraphs, separated by blank lines."""
    outlet: str
    section: str
    published: str
    """ISO 8601, as precise as the page is."""
    authors: tuple[str, ...]
    url: str
    declared: bool
    """Whether the page declares itself an article."""


def read_article(data: bytes, content_type: str = "") -> Article:
    """Extract the article of a page; ``content_type`` is its HTTP header. Raises UnreadablePage."""
    tree = _tree(data, content_type)
    facts = read_facts(tree)
    stream = flight_stream(tree)
    published = facts.published or flight_date(stream) or date_line(tree.xpath("string(//body)")[:DATE_LINE_CHARS])
    text = facts.body if facts.book else _main_text(tree)
    if len(text) < MIN_TEXT_CHARS:
        text = max((text, _flight_text(stream), facts.body), key=len)
    paragraphs = [line for part in tidy(_MARKER.sub("", text)).split("\n") if (line := part.strip())]
    if paragraphs and one_line(paragraphs[0]) == facts.title:
        del paragraphs[0]
    return Article(
        title=facts.title,
        text="\n\n".join(paragraphs),
        outlet=facts.outlet,
        section=facts.section,
        published=published,
        authors=facts.authors,
        url=facts.url,
        declared=facts.article or facts.book,
    )


def _tree(data: bytes, content_type: str) -> Any:
    from lxml import etree  # noqa: PLC0415
    from lxml import html as lxml_html  # noqa: PLC0415

    decoded = decode_page(data, content_type)
    if not decoded.readable:
        remedy = f"{decoded.broken:,} bytes are no {decoded.charset}: fetch the page again, or give the source's encoding"
        raise UnreadablePage("undecodable", remedy)
    text = decoded.text.replace("\0", "")
    try:  # as bytes, because lxml refuses characters under an XML declaration
        return lxml_html.document_fromstring(text.encode("utf-8", "replace"), parser=lxml_html.HTMLParser(encoding="utf-8"))
    except (etree.ParserError, etree.XMLSyntaxError, AssertionError) as error:
        raise UnreadablePage("unreadable_html", f"{error}: is it an HTML page?") from None


def _main_text(tree: Any) -> str:
    from trafilatura import bare_extraction  # noqa: PLC0415

    try:
        found: Any = bare_extraction(tree, include_comments=False, include_tables=False, with_metadata=False)
    except Exception as error:  # a third party's heuristics over arbitrary trees; one page must not end a run
        raise UnreadablePage("unreadable_html", f"trafilatura failed on it ({type(error).__name__}: {error})") from error
    return (found.text or "") if found else ""


def _flight_text(stream: str) -> str:
    """The main text of the body in the script data, as a page of its own."""
    body = flight_body(stream) if stream else ""
    if not body:
        return ""
    page = f"<html><body><article>{_MARKER.sub('', body)}</article></body></html>"
    return _main_text(_tree(page.encode("utf-8", "replace"), "charset=utf-8"))
