"""Extracts the article of an HTML page: its main text, by trafilatura or from script data, and its stated title, date, …"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import cache
from itertools import islice
from typing import Any

from korealbert.corpus.html.boxes import INLINE, is_prose, show_boxes
from korealbert.corpus.html.encoding import decode_page
from korealbert.corpus.html.metadata import Article, byline, date_line, read_metadata
from korealbert.corpus.html.struck import show_struck
from korealbert.corpus.markup.formulas import of_mathml
from korealbert.corpus.readers.dates import iso_date
from korealbert.corpus.readers.records import UNWANTED, one_line, tidy
from korealbert.corpus.superscripts import CONTEXT_CHARS, LEVEL, LOWERED, RAISED, read_scripts, script_text

_MIN_TEXT_CHARS = 60
"""A shorter main text is a caption or a login notice, so the script data are searched for the article."""
_MIN_EXTRACTED_CHARS = 40
"""Smallest main text for trafilatura. Its default of 250 suits Latin letters; three Korean sentences are shorter, and then it
takes the text of the whole page, with captions, lists and advertisements."""
_MAX_ELEMENTS = 20_000
"""Larger pages are refused: trafilatura takes 7 s for 60,000 elements, more than linear time. News have 2,000 to 5,000."""
_MAX_ATTRIBUTES = 1_000
"""Elements with more attributes are refused: building them takes quadratic time, 20 s for 40,000. Real ones have dozens."""
_MIN_LENGTH_RATIO = 1.1
"""The text that a page declares is the whole of a teaser if it is so many times as long as the text that the page shows."""
_MAX_LISTED_SHARE = 0.4
"""Of a page without prose whose lines are links: the rest are the columns of a list of articles."""
_MARKER = re.compile(r"\$\$[A-Z_]{2,30}\$\$")
_BLOCK_TAG = re.compile(r"<(?:p|br|div)\b", re.IGNORECASE)
_CAPTION_PATHS = [
    f".//*[contains(concat(' ', normalize-space(@class), ' '), ' {name} ')]"
    for name in ("cap", "caption", "img_caption", "photo_caption", "img_desc", "photo_desc", "toast-popup", "tooltip", "blind")
]
"""Captions in elements other than ``figcaption``, and messages that only scripts show."""
_MAX_SCRIPT_ELEMENTS, _MAX_SCRIPT_CHARS = 5, 40
"""A superscript with more content was never closed."""
_IN_PARAGRAPH = INLINE - {"img"} | {"br"}
_PROSE = ("p", "li", "dd", "blockquote")
_MIN_PARAGRAPH_CHARS = 30
"""Characters of a block beside paragraphs that is one itself, if it ends like a sentence; captions seldom do."""
_MAX_MESSAGE_CHARS = 200
"""Characters of an element with the attribute ``hidden`` that is no article: React hides those that it streams at first."""
_SHADOW = frozenset(("shadowroot", "shadowrootmode"))
"""Attributes of templates that browsers show."""
_SENTENCE_AT_END = re.compile(r"[다요][.?!][\"'”’)]{0,3}\s*\Z")
"""The end of a paragraph in which a ``time`` is part of a sentence, and no date line."""
_MAX_TIMES = 100
_LABEL = re.compile(
    r"(?:내용 ?|전체 ?)?(?:더 ?보기|펼치기|펼쳐 ?보기|접기|자세히(?: ?보기)?|펼치기 ?[/·] ?접기)"
    r"|(?i:(?:show |read )?(?:more|details))"
)
"""What stands on the handle of a part of a page that is folded."""
_NOTE_NUMBER = re.compile(r"[\[(]?(?:\d{1,3}|[a-z]|[*†‡]{1,3})[\])]?")
_BACK_LINK = re.compile(r"[↩↑⏎^]\ufe0e?")
"""Links from a footnote back to the text."""
_STAND_INS = {"\u200c": "\U00010a9e", "\u200d": "\U00010a9f"}
"""Joiner → a letter of no living script, because trafilatura removes joiners, which are spelling in Persian and Hindi."""
_DATE_LINE_MAX_CHARS = 32_000
"""Length of the beginning of a page in which its date line is searched."""


class UnreadablePage(ValueError):
    """A page that cannot be read; ``reason`` is for the statistics, the message is the remedy."""

    def __init__(self, reason: str, remedy: str) -> None:
        super().__init__(remedy)
        self.reason = reason


def read_article(data: bytes, content_type: str = "", outlet: str = "") -> Article:
    """Extract the article of a page; ``content_type`` is its HTTP header, ``outlet`` the name of the site, if known.

    Raises UnreadablePage.
    """
    tree = _tree(data, content_type)
    article = read_metadata(tree, outlet)
    stream, story = _flight_stream(tree), _arc_story(tree)
    if not article.published:
        article.published = _flight_date(stream) or iso_date(str(story.get("display_date", "")))
    if not article.published:
        article.published = date_line(one_line(tree.xpath("string(//body)")[:_DATE_LINE_MAX_CHARS]))
    links = {one_line(link.text_content()) for link in tree.iter("a")}
    declared = _text_of(article.body) if _BLOCK_TAG.search(article.body) else _plain_text(article.body)
    for script in tree.iterfind(".//script[@type='application/ld+json']") if declared else ():
        if "articleBody" in (script.text or ""):  # trafilatura takes it with its tags if it finds no text in the page
            script.text = json.dumps({"articleBody": declared})
    text = declared if article.is_book else _longer_version(_main_text(tree), declared)
    if len(text) < _MIN_TEXT_CHARS:
        text = max((text, _text_of(_flight_body(stream)), _arc_text(story), declared), key=len)
    paragraphs = [line for part in tidy(_MARKER.sub("", text)).split("\n") if (line := part.strip())]
    if paragraphs and one_line(paragraphs[0]) == article.title:
        del paragraphs[0]
    if not paragraphs and (broken_off := tree.getroottree().parser.error_log.filter_from_fatals()):
        raise UnreadablePage("unreadable_html", f"no text up to where it cannot be read on: {broken_off[0].message.strip()}")
    linked = sum(len(line) for line in paragraphs if line in links)
    if links.issuperset(paragraphs) or (
        linked > _MAX_LISTED_SHARE * sum(map(len, paragraphs)) and not any(map(is_prose, paragraphs))
    ):
        paragraphs = []  # a front page or another list of articles
    article.text = "\n\n".join(paragraphs)
    article.authors = article.authors or byline(tree, paragraphs)
    return article


def _tree(data: bytes, content_type: str) -> Any:
    from lxml import etree  # noqa: PLC0415
    from lxml import html as lxml_html  # noqa: PLC0415

    decoded = decode_page(data, content_type)
    if not decoded.readable:
        remedy = f"{decoded.broken:,} bytes are no {decoded.charset}: fetch the page again, or give the source's encoding"
        raise UnreadablePage("undecodable", remedy)
    text = decoded.text.replace("\0", "").encode("utf-8", "replace")
    _refuse_attributes(text)
    try:  # as bytes, because lxml refuses str with an XML declaration
        tree = lxml_html.document_fromstring(text, parser=lxml_html.HTMLParser(encoding="utf-8", remove_comments=True))
    except (etree.ParserError, etree.XMLSyntaxError, AssertionError) as error:
        raise UnreadablePage("unreadable_html", f"{error}: is it an HTML page?") from None
    elements = sum(1 for _ in tree.iter())
    if elements > _MAX_ELEMENTS:
        raise UnreadablePage("too_many_elements", f"{elements:,} elements, more than {_MAX_ELEMENTS:,}: is it an article?")
    _show_inline(tree, decoded.text)
    _show_paragraphs(tree)
    _replace_scripts(tree)
    return tree


def _remove_hidden(tree: Any) -> None:
    """Remove menus, templates, and short elements that browsers do not show; long ones may be articles that scripts show.

    A menu with much text that is no link was not closed.
    """
    hidden = (node for node in tree.iterfind("body//*[@hidden]") if len("".join(node.itertext())) <= _MAX_MESSAGE_CHARS)
    templates = (node for node in tree.iter("template") if _SHADOW.isdisjoint(node.keys()))
    menus = (node for node in tree.iter("nav") if _characters_outside_links(node) <= _MAX_MESSAGE_CHARS)
    for element in [*hidden, *templates, *menus]:
        if element.getparent() is not None:  # an outer one may have been removed
            element.drop_tree()


def _characters_outside_links(element: Any) -> int:
    whole, *linked = (_squeezed("".join(node.itertext())) for node in (element, *element.iter("a")))
    return len(whole) - sum(map(len, linked))


def _show_inline(tree: Any, source: str) -> None:
    """Write what browsers show where trafilatura breaks the line or removes words, and remove the links of footnotes."""
    for quotation in list(tree.iter("q")):
        quotation.text = f"“{quotation.text or ''}"
        if len(quotation):
            quotation[-1].tail = f"{quotation[-1].tail or ''}”"
        else:
            quotation.text += "”"
        quotation.tag = "span"
    for output in tree.iter("output"):
        output.tag = "span"
    for summary in list(tree.iter("summary")):
        if _LABEL.fullmatch(one_line(summary.text_content())):
            summary.drop_tree()
    show_struck(tree, source)
    for formula in list(tree.iter("math")):
        _show_formula(formula)
    for when in list(islice(tree.iter("time"), _MAX_TIMES)):
        paragraph = next((node for node in when.iterancestors() if node.tag not in INLINE), None)
        if paragraph is not None and paragraph.tag in _PROSE and _SENTENCE_AT_END.search(paragraph.text_content()):
            when.drop_tag()
    for link in list(tree.iter("a")):
        if _is_paragraph(link):
            link.drop_tag()
            continue
        script = next(
            (node for node in (link.getparent(), *link.iterchildren()) if node is not None and node.tag == "sup"), None
        )
        text = "".join(islice(link.itertext(), _MAX_SCRIPT_ELEMENTS)).strip()
        marks_note = script is not None and link.get("href", "").startswith("#") and _NOTE_NUMBER.fullmatch(text)
        if marks_note or _BACK_LINK.fullmatch(text):
            link.drop_tree()


def _show_paragraphs(tree: Any) -> None:
    """Turn blocks of text beside paragraphs into paragraphs, because trafilatura takes only ``p`` where a page has any.

    Of a block with line breaks it would leave out the first line.
    """
    parents = {paragraph.getparent() for paragraph in tree.iter("p")}
    for block in list(tree.iter("div", "section", "center")):
        if block.tag == "center" and block.find(".//img") is None:
            block.tag = "div"  # trafilatura does not know it
        inline = all(node.tag in _IN_PARAGRAPH for node in islice(block.iter(), 1, None))
        outer = block  # of wrappers around nothing else
        while inline and (above := outer.getparent()) is not None and above.tag in ("div", "section") and _is_alone(outer):
            outer = above
        if not inline or not parents.intersection((block.getparent(), outer.getparent())):
            continue
        text = block.text_content().strip()
        if block.find(".//br") is not None or (len(text) >= _MIN_PARAGRAPH_CHARS and _SENTENCE_AT_END.search(text)):
            block.tag = "p"


def _is_alone(element: Any) -> bool:
    """Return whether nothing else is in the element's parent."""
    parent = element.getparent()
    return len(parent) == 1 and not (parent.text or "").strip() and not (element.tail or "").strip()


def _show_formula(formula: Any) -> None:
    """Replace MathML by its characters (a+b, x^2), because trafilatura keeps only formulas that have TeX beside them."""
    if any(note.get("encoding") == "application/x-tex" for note in formula.iter("annotation")):
        return
    for note in list(formula.iter("annotation", "annotation-xml")):  # The same formula in another language.
        note.drop_tree()
    for node in reversed(list(formula.iter("msup", "msub", "mfrac", "msqrt", "mroot"))):  # the inner ones first
        text = of_mathml(node.tag, [_squeezed("".join(child.itertext())) for child in node])
        for child in list(node):
            node.remove(child)
        node.text = text
    shown = _squeezed("".join(formula.itertext()))
    formula.clear(keep_tail=True)
    formula.tag, formula.text = "span", shown


def _is_paragraph(link: Any) -> bool:
    """Return whether a link is a paragraph beside others that are none; trafilatura removes it as one of a list of links."""
    paragraph = link.getparent()
    if paragraph is None or paragraph.tag != "p" or not _SENTENCE_AT_END.search(text := link.text_content()):
        return False
    beside = (node for node in (paragraph.getprevious(), paragraph.getnext()) if node is not None and node.tag == "p")
    few = len(list(islice(paragraph, _MAX_SCRIPT_ELEMENTS + 1))) <= _MAX_SCRIPT_ELEMENTS
    alone = few and paragraph.text_content().strip() == text.strip()
    return alone and any(not len(node) and _SENTENCE_AT_END.search(node.text or "") for node in beside)


def _replace_scripts(tree: Any) -> None:
    """Replace superscripts and subscripts by plain text, the inner ones first."""
    for script in reversed(list(tree.iter("sup", "sub"))):
        elements = list(islice(script.iter(), _MAX_SCRIPT_ELEMENTS + 1))
        content = "".join(script.itertext()) if len(elements) <= _MAX_SCRIPT_ELEMENTS else ""
        if not 0 < len(content) <= _MAX_SCRIPT_CHARS:
            continue
        before, lower = _text_before(script), script.getnext()
        if script.tag == "sup" and lower is not None and lower.tag == "sub" and (script.tail or "").strip() in ("/", "⁄"):
            marked = f"{before}{RAISED}{content.strip()}{LEVEL}/{LOWERED}{''.join(lower.itertext()).strip()}{LEVEL}"
            shown, script.tail = read_scripts(marked)[len(before) :].partition("/")[0], "/"
        else:
            shown = script_text(content, before, _text_after(script), raised=script.tag == "sup")
        if shown != content:
            for inner in list(script):
                script.remove(inner)
            script.text = shown


def _text_before(element: Any) -> str:
    """Return the last characters before an element in its paragraph."""
    text, node = "", element
    for _ in range(CONTEXT_CHARS):
        previous = node.getprevious()
        if previous is not None:
            text = (previous.tail or "") + text
        elif (parent := node.getparent()) is not None:
            text = (parent.text or "") + text
        node = node.getparent() if previous is None else previous
        if node is None or node.tag not in INLINE or len(text) >= CONTEXT_CHARS:
            break
        if previous is not None:
            text = "".join(node.itertext()) + text
    return text[-CONTEXT_CHARS:]


def _text_after(element: Any) -> str:
    """Return the text after an element in its paragraph, or else that of the next inline element."""
    while not element.tail and element.getnext() is None:
        parent = element.getparent()
        if parent is None or parent.tag not in INLINE:
            break
        element = parent
    following = element.getnext()
    return element.tail or ("".join(following.itertext()) if following is not None and following.tag in INLINE else "")


class _Attributes:
    """A target of lxml's parser, which calls it for each element instead of building a tree."""

    def start(self, _tag: str, attributes: Mapping[str, str]) -> None:
        if len(attributes) > _MAX_ATTRIBUTES:
            message = f"an element with {len(attributes):,} attributes, more than {_MAX_ATTRIBUTES:,}: is it an article?"
            raise UnreadablePage("too_many_attributes", message)

    def close(self) -> None:
        pass


def _refuse_attributes(text: bytes) -> None:
    """Raise UnreadablePage for HTML in UTF-8 with too many attributes on one element, in linear time."""
    from lxml import etree  # noqa: PLC0415

    if len(text) > 2 * _MAX_ATTRIBUTES:
        with suppress(etree.ParserError, etree.XMLSyntaxError, AssertionError):  # raised again when the tree is built
            etree.fromstring(text, etree.HTMLParser(target=_Attributes(), encoding="utf-8"))


def _main_text(tree: Any) -> str:
    from trafilatura import bare_extraction  # noqa: PLC0415

    _remove_hidden(tree)
    show_boxes(tree)
    text = "".join(tree.itertext())
    joiners = {joiner: letter for joiner, letter in _STAND_INS.items() if joiner in text and letter not in text}
    if joiners:
        _replace_letters(tree, {ord(joiner): letter for joiner, letter in joiners.items()})
    try:
        found: Any = bare_extraction(
            tree,
            include_comments=False,
            include_tables=False,
            with_metadata=False,
            prune_xpath=_CAPTION_PATHS,
            config=_trafilatura_settings(),
        )
    except Exception as error:  # heuristics of a third party on arbitrary trees; one page must not end a run
        raise UnreadablePage("unreadable_html", f"trafilatura failed on it ({type(error).__name__}: {error})") from error
    if not found or not found.text:
        return ""
    items = {_squeezed(shown) for item in found.body.iter("item") for shown in ("".join(item.itertext()), _first_line(item))}
    pairs = ((line, line.lstrip(" ")) for line in found.text.split("\n"))
    lines = (shown[2:] if shown.startswith("- ") and _squeezed(shown[2:]) in items else line for line, shown in pairs)
    return "\n".join(lines).translate({ord(letter): joiner for joiner, letter in joiners.items()})


def _replace_letters(tree: Any, letters: Mapping[int, str]) -> None:
    for element in tree.iter():
        if element.text:
            element.text = element.text.translate(letters)
        if element.tail:
            element.tail = element.tail.translate(letters)


def _squeezed(text: str) -> str:
    return "".join(text.split())


def _first_line(item: Any) -> str:
    """Return the text of a list's item up to a line break or a list within it."""
    parts = [item.text or ""]
    for child in item.iterchildren():
        if child.tag in ("lb", "list"):
            break
        parts += (*child.itertext(), child.tail or "")
    return one_line("".join(parts))


@cache
def _trafilatura_settings() -> Any:
    from trafilatura.settings import use_config  # noqa: PLC0415

    settings = use_config()
    settings["DEFAULT"]["MIN_EXTRACTED_SIZE"] = str(_MIN_EXTRACTED_CHARS)
    return settings


def _longer_version(shown: str, declared: str) -> str:
    """Return the text that a page declares if it contains the text that it shows, and is longer or has more paragraphs."""
    shown_chars, declared_chars = ("".join(text.split()) for text in (shown, declared))
    is_longer = len(declared_chars) > _MIN_LENGTH_RATIO * len(shown_chars) or declared.count("\n") > shown.count("\n")
    return declared if is_longer and shown_chars in declared_chars else shown


def _text_of(body: str) -> str:
    """Return the main text of an HTML body without a page around it."""
    if not body:
        return ""
    page = f"<html><body><article>{_MARKER.sub('', body)}</article></body></html>"
    return _main_text(_tree(page.encode("utf-8", "replace"), "charset=utf-8"))


# Some pages have their text only in script data. Arc XP assigns the story as a JSON object to ``Fusion.globalContent``. Next.js
# streams server components as ``self.__next_f.push`` calls: rows ``id:T<hex length>,<text>`` for long texts, such as the HTML
# of the body, and ``id:<JSON>`` for the rest ("flight").
_ARC_ASSIGNMENT = re.compile(r"\bFusion\.globalContent\s*=\s*")
_BR_TAG = re.compile(r"<br\s*/?>", re.IGNORECASE)
_FLIGHT_PUSH = "self.__next_f.push("
_FLIGHT_TEXT_ROW = re.compile(rb"(?:^|\n|(?<=[\x80-\xff>}\]\s.]))([0-9a-f]{1,8}):T([0-9a-f]{1,8}),")
_DATE_FIELD = re.compile(
    r'"(?:datePublished|published_?[aA]t|published_?(?:[tT]ime|[dD]ate|[dD]t)?|publish_?(?:[dD]ate|[dD]t)|first_?[pP]ublished\w*|deploy_?[dD]t'
    r'|service_?(?:[dD]ate|[dD]t)|input_?(?:[dD]ate|[dD]t)|reg_?(?:[dD]ate|[dD]t)|created_?(?:[aA]t|[dD]ate))":"([^"]{8,40})"'
)


def _arc_story(tree: Any) -> dict[str, Any]:
    """Return the Arc XP story of a page, or an empty dictionary."""
    for node in tree.iter("script"):
        found = _ARC_ASSIGNMENT.search(node.text) if "Fusion.globalContent" in (node.text or "") else None
        if found is not None:
            try:
                story, _ = json.JSONDecoder(strict=False).raw_decode(node.text, found.end())
            except (ValueError, RecursionError):
                continue
            if isinstance(story, dict):
                return story
    return {}


def _arc_text(story: dict[str, Any]) -> str:
    """Return one line for each paragraph, heading and list item of an Arc XP story."""
    contents = (content for content in _contents(story.get("content_elements")) if isinstance(content, str))
    return "\n".join(filter(None, map(_plain_text, contents)))


def _contents(elements: Any) -> Iterator[Any]:
    for element in elements if isinstance(elements, list) else []:
        kind = element.get("type") if isinstance(element, dict) else None
        if kind in ("text", "header"):
            yield element.get("content")
        elif kind == "list":
            items = element.get("items")
            yield from (item.get("content") for item in (items if isinstance(items, list) else []) if isinstance(item, dict))
        elif kind == "quote":
            yield from _contents(element.get("content_elements"))


def _plain_text(fragment: str) -> str:
    """Return the text of an HTML fragment without block elements. Raises UnreadablePage."""
    from lxml import etree  # noqa: PLC0415
    from lxml import html as lxml_html  # noqa: PLC0415

    text = UNWANTED.sub("", _BR_TAG.sub("\n", fragment))
    if "<" not in text and "&" not in text:
        return text.strip()
    _refuse_attributes(text.encode("utf-8", "replace"))
    try:
        tree: Any = lxml_html.fragment_fromstring(text, create_parent="div")
    except (etree.ParserError, etree.XMLSyntaxError, AssertionError):
        return ""
    _show_inline(tree, text)
    _replace_scripts(tree)
    return str(tree.text_content()).strip()


def _flight_stream(tree: Any) -> str:
    """Return the Next.js stream of a page, or an empty string."""
    parts: list[str] = []
    for node in tree.iter("script"):
        _, found, call = (node.text or "").partition(_FLIGHT_PUSH)
        if not found:
            continue
        try:
            pushed = json.loads(call.rstrip().removesuffix(";").rstrip().removesuffix(")"))
        except (ValueError, RecursionError):
            continue
        if isinstance(pushed, list) and len(pushed) == 2 and pushed[0] == 1 and isinstance(pushed[1], str):
            parts.append(pushed[1])
    return "".join(parts)


def _flight_body(stream: str) -> str:
    """Return the longest text row that is HTML, which is the body of the article, or an empty string."""
    data = stream.encode("utf-8", "replace")
    best = ""
    position = 0
    while (found := _FLIGHT_TEXT_ROW.search(data, position)) is not None:
        start, length = found.end(), int(found[2], 16)
        text = data[start : start + length].decode("utf-8", "replace")
        if len(text) > len(best) and _BLOCK_TAG.search(text):
            best = text
        position = min(start + length, len(data)) if length else start
    return best


def _flight_date(stream: str) -> str:
    """Return the first date in a field of the stream whose name is that of a publication date."""
    return next((day for value in _DATE_FIELD.findall(stream) if (day := iso_date(value))), "")
