"""HTML → article: main text (trafilatura), and title, outlet, section, time and authors by what the page itself declares."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import Any

from korealbert.corpus.html.encoding import decode_page
from korealbert.corpus.html.metadata import byline, date_line, read_facts
from korealbert.corpus.html.script_data import arc_story, arc_text, flight_body, flight_date, flight_stream, plain_text
from korealbert.corpus.readers.records import iso_date, one_line, tidy

_MIN_TEXT_CHARS = 60
"""A shorter main text is a caption or a login notice: the text that the page carries elsewhere is looked for."""
_SHORTEST_ARTICLE_CHARS = 40
"""What trafilatura takes for a main text that it has found. Its default of 250 is made for Latin letters: three Korean
sentences stay below, and what it does instead flattens the page, captions, lists and advertisements included."""
_MAX_ELEMENTS = 20_000
"""Larger pages are refused: news have two to five thousand, and trafilatura takes 7 s for 60,000, more than linear time."""
_MORE_TEXT = 1.1
"""How much longer the text that a page declares must be than the one that it shows, to be taken for the whole of a teaser."""
_MARKER = re.compile(r"\$\$[A-Z_]{2,30}\$\$")
_BLOCK = re.compile(r"<(?:p|br|div)\b", re.IGNORECASE)
_NO_TEXT = [
    f".//*[contains(concat(' ', normalize-space(@class), ' '), ' {name} ')]"
    for name in ("cap", "caption", "img_caption", "photo_caption", "img_desc", "photo_desc", "toast-popup", "tooltip", "blind")
]
"""Captions in elements that are no ``figcaption``, and messages that only scripts show."""
_DATE_LINE_CHARS = 32_000
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


def read_article(data: bytes, content_type: str = "", outlet: str = "") -> Article:
    """Extract the article of a page; ``content_type`` is its HTTP header, ``outlet`` the site's name where it is known.

    Raises UnreadablePage.
    """
    tree = _tree(data, content_type)
    facts = read_facts(tree, outlet)
    stream, story = flight_stream(tree), arc_story(tree)
    dates = (facts.published, flight_date(stream), iso_date(str(story.get("display_date", ""))))
    published = next(filter(None, dates), "") or date_line(one_line(tree.xpath("string(//body)")[:_DATE_LINE_CHARS]))
    links = {one_line(link.text_content()) for link in tree.iter("a")}
    declared = _text_of(facts.body) if _BLOCK.search(facts.body) else plain_text(facts.body)
    text = declared if facts.book else _fuller(_main_text(tree), declared)
    if len(text) < _MIN_TEXT_CHARS:
        text = max((text, _text_of(flight_body(stream)), arc_text(story), declared), key=len)
    paragraphs = [line for part in tidy(_MARKER.sub("", text)).split("\n") if (line := part.strip())]
    if paragraphs and one_line(paragraphs[0]) == facts.title:
        del paragraphs[0]
    if links.issuperset(paragraphs):
        paragraphs = []  # a list of articles, such as a front page
    return Article(
        title=facts.title,
        text="\n\n".join(paragraphs),
        outlet=facts.outlet,
        section=facts.section,
        published=published,
        authors=facts.authors or byline(tree, paragraphs),
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
        tree = lxml_html.document_fromstring(text.encode("utf-8", "replace"), parser=lxml_html.HTMLParser(encoding="utf-8"))
    except (etree.ParserError, etree.XMLSyntaxError, AssertionError) as error:
        raise UnreadablePage("unreadable_html", f"{error}: is it an HTML page?") from None
    elements = sum(1 for _ in tree.iter())
    if elements > _MAX_ELEMENTS:
        raise UnreadablePage("too_many_elements", f"{elements:,} elements, more than {_MAX_ELEMENTS:,}: is it an article?")
    return tree


def _main_text(tree: Any) -> str:
    from trafilatura import bare_extraction  # noqa: PLC0415

    try:
        found: Any = bare_extraction(
            tree,
            include_comments=False,
            include_tables=False,
            with_metadata=False,
            prune_xpath=_NO_TEXT,
            config=_trafilatura_settings(),
        )
    except Exception as error:  # a third party's heuristics over arbitrary trees; one page must not end a run
        raise UnreadablePage("unreadable_html", f"trafilatura failed on it ({type(error).__name__}: {error})") from error
    if not found or not found.text:
        return ""
    items = {one_line("".join(item.itertext())) for item in found.body.iter("item")}
    return "\n".join(
        line[2:] if line.startswith("- ") and one_line(line[2:]) in items else line for line in found.text.split("\n")
    )


@cache
def _trafilatura_settings() -> Any:
    from trafilatura.settings import use_config  # noqa: PLC0415

    settings = use_config()
    settings["DEFAULT"]["MIN_EXTRACTED_SIZE"] = str(_SHORTEST_ARTICLE_CHARS)
    return settings


def _fuller(shown: str, declared: str) -> str:
    """The text that a page shows, or the one that it declares where that is the same, but whole or with its paragraphs."""
    short, long = ("".join(text.split()) for text in (shown, declared))
    if short not in long:
        return shown
    return declared if len(long) > _MORE_TEXT * len(short) or declared.count("\n") > shown.count("\n") else shown


def _text_of(body: str) -> str:
    """The main text of a body in HTML, as of a page of its own."""
    if not body:
        return ""
    page = f"<html><body><article>{_MARKER.sub('', body)}</article></body></html>"
    return _main_text(_tree(page.encode("utf-8", "replace"), "charset=utf-8"))
