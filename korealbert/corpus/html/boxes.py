"""Shows the prose of elements that trafilatura deletes: cells of layout tables, forms, fieldsets, boxes, notes without scripts.

Such elements are renamed to ``div`` and ``p`` if they hold prose: lines that end like a sentence, or are long and have many
words, outside links. Old newspapers and boards put whole articles into a table, ASP.NET whole pages into a form. What stays as
it is, and so is left out: tables of figures and captions, menus, lists of links, widgets, and comments. Headings and lists
beside paragraphs are renamed, too, on pages whose article trafilatura does not know by its tag, class or id.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from korealbert.corpus.readers.records import one_line

_MIN_LINE_CHARS, _MIN_LONG_LINE_CHARS, _MIN_LONG_LINE_BLANKS = 25, 50, 7
"""Characters of a line of prose that ends like a sentence, and of one that does not, as in chats. jusText's shortest good line
is 70 Latin letters, which say as much as 30 syllables."""
_MAX_LINKED_SHARE = 0.3
_MIN_PROSE_SHARE = 0.3
"""Of the characters of a table outside links. Tables of figures with a remark below have less than a fifth."""
_MIN_CELL_SHARE = 0.5
_MAX_CAPTION_CHARS = 300
"""A table with pictures and at most as many lines, each in a cell of its own, has captions if they are no longer."""
_MIN_ARTICLE_SHARE = 2 / 3
_MIN_PARAGRAPH_CHARS = 60
"""Characters of a line of prose that is no caption and no notice, so that no article is without it."""
_MAX_WRAPPERS = 2
"""Levels between a table of a paragraph or two and the paragraphs beside it."""
_MIN_WIDGET_CHARS = 300
"""Prose of a form into which one writes (comments, log-in) that is no notice of rules."""
_MAX_NOTICE_CHARS = 80
"""Prose of another form that may be the hint of a search box."""
_MAX_PAGE_NOTICE_CHARS = 60
"""Prose of a page whose article only browsers without scripts show."""

INLINE = {
    *("a", "abbr", "acronym", "b", "bdi", "bdo", "big", "cite", "code", "data", "del", "dfn", "em", "font", "i", "img"),
    *("ins", "kbd", "label", "mark", "nobr", "q", "s", "samp", "small", "span", "strike", "strong", "sub", "sup", "time"),
    *("tt", "u", "var", "wbr"),
}
"""Elements within a paragraph."""
_SILENT = {
    *("script", "style", "textarea", "select", "option", "button", "template", "svg", "iframe", "object", "head", "caption"),
    *("nav", "footer", "legend", "figcaption", "audio", "video", "dialog", "map", "title"),
}
"""Elements whose text is no part of an article."""
_HEADINGS = ("h1", "h2", "h3", "h4", "h5", "h6")
_LISTS = ("ul", "ol", "dl")
_PARAGRAPHS = ("p", "blockquote", "li", "dd", "div", "h2", "h3", "h4")
_IN_LINE = INLINE | {"br"}
_BOXES = {"table", "form", "fieldset", "aside", "menu", "figure", "noscript"}
_WRAPPERS = ("div", "header", "hgroup", "section")
_CONTAINERS = {"div", "section", "article", "main", "body"}
_SENTENCE = re.compile(r"[^\W\d_](?:[.?!…]+|[。！？])[\"'”’)\]」』]*\Z")
_SPOKEN = re.compile(r"[가-힣](?:[다요까죠음함임네지]|[ㅋㅎㅠㅜ]+)(?=[\s.,?!~ㅋㅎㅠㅜ]|\Z)")
_IMPRINT = re.compile(
    r"ⓒ|©|\([cC]\)|Copyright|All [Rr]ights|무단 ?(?:전재|복제|배포)|재배포 ?금지|(?:등록 ?번호|발행인) ?[:：|]|대표 ?전화"
    r"|사업자 ?등록"
)
_SCRIPTS = re.compile(r"자바 ?스크립트|(?i:javascript)|브라우저|(?i:browser)")
_COMMENTS = re.compile(
    r"(?:\A|[\s_-])(?:comment|cmt|repl(?:y|ies)|disqus|livere|bo_vc|fdb)s?(?:\Z|[\s_-]|list|area|box|wrap|form|write|view|layer|[A-Z0-9])"
)
_ADVERTISEMENT = re.compile(r"(?:\A|[\s_-])(?:ads?|ad[vs]ert\w*|banner|google)(?:\Z|[\s_-])", re.IGNORECASE)
_DATA = re.compile(r"(?:\A|[\s_-])(?:infobox|navbox|toc|metadata)")
_MAIN = re.compile(r"article|content|post|entry|story", re.IGNORECASE)


@dataclass(slots=True)
class _Text:
    """What is to be read in an element, without boxes in it that are not shown."""

    chars: int = 0
    """Characters outside links."""
    prose: int = 0
    """Characters of lines that are prose."""
    paragraphs: int = 0
    """Characters of lines that are prose and long."""
    lines: int = 0
    """Lines that are prose."""
    pictures: int = 0

    def add(self, other: _Text) -> None:
        self.chars += other.chars
        self.prose += other.prose
        self.paragraphs += other.paragraphs
        self.lines += other.lines
        self.pictures += other.pictures


@dataclass(slots=True)
class _Page:
    texts: dict[Any, _Text]
    """What is directly in an element; when its outer one is judged, also what is in its shown children."""
    parents: set[Any]
    """Blocks with paragraphs."""
    laid_out: bool
    """Whether tables lay out the page."""
    tables: set[Any] = field(default_factory=set)
    """Tables that were renamed, and their cells."""
    cells: list[Any] = field(default_factory=list)
    """Boxes and cells that were renamed, the inner ones first."""


def show_boxes(tree: Any) -> None:
    """Rename the boxes of a page that hold prose, and remove its comments. Linear in the page."""
    elements = [element for element in tree.iter() if isinstance(element.tag, str)]
    _remove_comments(elements)
    texts = _texts(tree)
    page = _Page(texts, _prose_parents(elements, texts), _is_laid_out(elements, texts))
    notes = []
    for element in reversed(elements):  # the inner ones first
        text = texts.setdefault(element, _Text())
        if element.tag == "noscript":
            notes.append(element)
        elif element.tag in _SILENT:
            pass
        elif (parent := element.getparent()) is not None and (element.tag not in _BOXES or _is_shown(element, page)):
            texts.setdefault(parent, _Text()).add(text)
    for note in notes:
        alone = texts[tree].prose <= _MAX_PAGE_NOTICE_CHARS < texts[note].prose
        if alone and not _SCRIPTS.search("".join(note.itertext())):
            note.tag = "div"
    _frame(elements, page)
    for element in elements:
        if element.tag in _CONTAINERS and (element in page.cells or any(texts[one].prose for one in element.iterchildren("p"))):
            _wrap_lines(element)
        elif element.tag == "label" and not element.get("for") and element.find(".//input") is None:
            element.tag = "span" if is_prose(one_line(element.text_content())) else "label"
    if not _has_container(tree, page):
        _show_headings_and_lists(tree, page)


def is_prose(line: str) -> bool:
    """Return whether a line is a sentence, or long and spoken, and no imprint."""
    if len(line) < _MIN_LINE_CHARS or sum(map(str.isalpha, line)) * 2 < len(line) or _IMPRINT.search(line):
        return False
    long = len(line) >= _MIN_LONG_LINE_CHARS and line.count(" ") >= _MIN_LONG_LINE_BLANKS
    return _SENTENCE.search(line) is not None or (long and _SPOKEN.search(line) is not None)


def _texts(tree: Any) -> dict[Any, _Text]:
    """Return the text that stands directly in each block, and the pictures."""
    found: dict[Any, _Text] = {}
    for block, parts, linked in _lines(tree):
        line = " ".join("".join(parts).split())
        one = _Text(max(0, len(line) - linked))
        if linked <= _MAX_LINKED_SHARE * len(line) and is_prose(line):
            one.prose, one.lines = len(line), 1
            one.paragraphs = len(line) if len(line) >= _MIN_PARAGRAPH_CHARS else 0
        found.setdefault(block, _Text()).add(one)
    for picture in tree.iter("img"):
        found.setdefault(picture, _Text()).pictures = 1
    return found


def _lines(tree: Any) -> Iterator[tuple[Any, list[str], int]]:
    """Yield the lines of a page: the block in which each stands directly, its parts, and how many characters are in links."""
    from lxml import etree  # noqa: PLC0415

    blocks, parts, linked, links = [tree], list[str](), 0, 0
    walk = etree.iterwalk(tree, events=("start", "end"))
    for event, element in walk:
        starts, inline, silent = event == "start", element.tag in INLINE, element.tag in _SILENT
        if not inline and parts:
            yield blocks[-1], parts, linked
            parts, linked = [], 0
        if starts and silent:
            walk.skip_subtree()
        links += (element.tag == "a") * (1 if starts else -1)
        if not inline and starts:
            blocks.append(element)
        elif not inline:
            blocks.pop()
        text = (None if silent else element.text) if starts else element.tail
        if text and (text.strip() or parts):
            parts.append(text)
            linked += len("".join(text.split())) if links else 0
    if parts:
        yield blocks[-1], parts, linked


def _remove_comments(elements: list[Any]) -> None:
    """Remove lists of comments and their forms, unless most of the page is in them."""
    boxes = [one for one in elements if any(_COMMENTS.search(one.get(name, "")) for name in ("id", "class"))]
    if not boxes:
        return
    whole = len("".join(elements[0].itertext()))
    for box in boxes:
        outside = box.getparent() is not None and box.tag not in ("html", "body") and box.getroottree().getroot() is elements[0]
        if outside and len("".join(box.itertext())) * 2 < whole:
            box.drop_tree()


def _prose_parents(elements: list[Any], texts: dict[Any, _Text]) -> set[Any]:
    """Return the blocks that have prose in them or in one of their paragraphs."""
    blocks = [element for element in elements if element in texts and texts[element].prose]
    return {*blocks, *(block.getparent() for block in blocks if block.tag in _PARAGRAPHS)}


def _is_laid_out(elements: list[Any], texts: dict[Any, _Text]) -> bool:
    """Return whether tables hold half of a page's prose or more."""
    inside = set[Any]()
    tabled = whole = 0
    for element in elements:
        if element.tag == "table" or element.getparent() in inside:
            inside.add(element)
        if element in texts:
            whole += texts[element].prose
            tabled += texts[element].prose if element in inside else 0
    return tabled * 2 >= whole


def _is_shown(box: Any, page: _Page) -> bool:
    """Rename a box, whose inner ones have been judged, if it holds prose; return whether it does."""
    text = page.texts[box]
    if box.tag == "table":
        return _show_table(box, page)
    if box.tag == "aside":
        found = text.prose * 2 > text.chars and _is_between_paragraphs(box, page)
    elif box.tag in ("form", "fieldset"):
        written = any(one.tag == "textarea" or one.get("type") == "password" for one in box.iter("textarea", "input"))
        found = text.prose > (_MIN_WIDGET_CHARS if written else _MAX_NOTICE_CHARS) or _is_between_paragraphs(box, page)
    elif box.tag == "figure":
        found = text.prose > 0 and not text.pictures and any(page.texts[one].prose for one in box.iter("blockquote", "div"))
    else:
        found = text.prose > 0
    if found:
        for caption in box.iterchildren("figcaption"):
            caption.tag = "figure"
        box.tag = "ul" if box.tag == "menu" and box.find("li") is not None else "div"
        page.cells.append(box)
    return found


def _is_between_paragraphs(box: Any, page: _Page) -> bool:
    """Return whether prose is in the box, and directly before and after it in the same parent."""
    beside = (box.getprevious(), box.getnext())
    return page.texts[box].prose > 0 and all(one is not None and page.texts.get(one, _Text()).prose > 0 for one in beside)


def _show_table(table: Any, page: _Page) -> bool:
    texts, text = page.texts, page.texts[table]
    wanted = page.laid_out or any(one in page.parents for one in islice(table.iterancestors(), _MAX_WRAPPERS))
    if not wanted or not text.prose or text.prose < _MIN_PROSE_SHARE * text.chars or _DATA.search(table.get("class", "")):
        return False
    parts = (table, *table.iterchildren("tbody", "thead", "tfoot", "form", "div"))  # a form may be around rows
    rows = [row for part in parts for row in part.iterchildren("tr")]
    filled = [[cell for cell in row.iterchildren("td", "th") if texts[cell].chars] for row in rows]
    prose = [[texts[cell].prose >= _MIN_CELL_SHARE * texts[cell].chars for cell in cells] for cells in filled]
    numbers = [number for number, cells in enumerate(prose) if any(cells)]
    shown = [
        cell for cells, kept in zip(filled, prose, strict=True) for cell, is_kept in zip(cells, kept, strict=True) if is_kept
    ]
    captions = len(shown) <= text.pictures and all(texts[one].lines == 1 and not texts[one].pictures for one in shown)
    if not shown or (captions and text.chars <= _MAX_CAPTION_CHARS * text.pictures):
        return False
    for number, (row, contents) in enumerate(zip(rows, filled, strict=True)):
        # a short line between paragraphs that are rows
        within = (
            numbers[0] < number < numbers[-1] and len(contents) == 1 and not any(True for _ in contents[0].iter("a", "img"))
        )
        kept = [cell for cell, is_kept in zip(contents, prose[number], strict=True) if is_kept or within]
        for cell in kept:
            _show_cell(cell)
        page.cells.extend(kept)
        page.tables.update(kept)
        if kept:
            row.tag = "div"
    table.tag = "div"
    page.tables.add(table)
    for element in (table, *(row for row in rows if row.tag == "div")):
        element.attrib.clear()
    return True


def _frame(elements: list[Any], page: _Page) -> None:
    """Call the innermost block with most of the prose an article, if there is none; then trafilatura keeps headings, too.

    If paragraphs are in several blocks, only a table around all is one; other blocks have menus, too.
    """
    if not page.cells or any(element.tag in ("article", "main") for element in elements):
        return
    whole = page.texts[elements[0]]
    blocks = [
        one
        for one in reversed(elements)
        if one.tag in ("div", "section") and page.texts[one].prose > _MIN_ARTICLE_SHARE * whole.prose
    ]
    frame = next((one for one in blocks if page.texts[one].paragraphs == whole.paragraphs), None)
    if frame is None or _is_inline(frame):
        return
    if frame in page.tables or (frame is blocks[0] and frame in page.parents):
        frame.tag = "article"


def _has_container(tree: Any, page: _Page) -> bool:
    """Return whether trafilatura knows the element of the article by its name; then it keeps headings and lists."""
    from trafilatura.xpaths import BODY_XPATH  # noqa: PLC0415

    return any(page.texts[one].prose for expression in BODY_XPATH for one in expression(tree))


def _show_headings_and_lists(tree: Any, page: _Page) -> None:
    """Rename headings and lists beside paragraphs to paragraphs: without an article, trafilatura takes nothing else."""
    _unwrap_headings(tree)
    paragraphs = {one for one in tree.iter("p") if one in page.parents or one not in page.texts}  # _wrap_lines makes new ones
    around = paragraphs | {one.getparent() for one in paragraphs}
    for parent in list(tree.iter(*_CONTAINERS)):
        children = list(parent)
        prose = [number for number, one in enumerate(children) if one in around and one.tag not in _LISTS]
        shown = set(prose)
        for number in range(len(children) - 1, -1, -1) if prose else ():
            child, within = children[number], number < prose[-1]
            text, followed = page.texts.get(child, _Text()), number + 1 in shown
            if child.tag in _HEADINGS:
                is_title = child.tag == "h1" and number < prose[0]
                found = followed and not is_title and _is_inline(child) and _drop_anchors(child)
            elif child.tag in _LISTS:
                found = parent in around and _is_list_of_text(child, text)
                found = found and (text.prose > 0 or (number > prose[0] and (within or _has_sentence(child))))
            elif child.tag == "p" and text.chars:
                found = within or _SENTENCE.search(one_line(child.text_content())) is not None
            else:
                found = followed and not text.chars and (text.pictures > 0 or not len(child))
            if not found:
                continue
            shown.add(number)
            if child.tag in _HEADINGS:
                child.tag = "p"
            elif child.tag in _LISTS:
                _show_list(child)


def _unwrap_headings(tree: Any) -> None:
    """Remove what is around a heading alone: ``<div class="title"><h2>``; a block may also be called a heading."""
    for block in list(tree.iter("div", "span")):
        if block.get("role") == "heading" and _is_inline(block):
            block.tag = "h3"
    for heading in list(tree.iter(*_HEADINGS)):
        while (around := heading.getparent()) is not None and around.tag in _WRAPPERS and len(around) == 1:
            if any(map(str.strip, (around.text or "", heading.tail or ""))) or around.getparent() is None:
                break
            heading.tail = None
            around.drop_tag()


def _drop_anchors(heading: Any) -> bool:
    """Remove links to the page itself; return whether there were no others."""
    links = list(heading.iter("a"))
    if any(not link.get("href", "#").startswith("#") for link in links):
        return False
    for link in links:
        if any(map(str.isalnum, "".join(link.itertext()))):
            link.drop_tag()
        else:  # a sign such as # or ¶
            link.drop_tree()
    return True


def _is_list_of_text(element: Any, text: _Text) -> bool:
    whole = len(one_line(element.text_content()))
    return next(element.iter("img", "input", "button"), None) is None and text.chars >= (1 - _MAX_LINKED_SHARE) * whole


def _show_list(element: Any) -> None:
    for one in list(element.iter(*_LISTS, "li", "dt", "dd")):
        if one.tag not in _LISTS and _is_inline(one):
            one.tag = "p"
        else:
            _wrap_lines(one, is_shown=bool)
            one.tag = "div"


def _has_sentence(element: Any) -> bool:
    return any(_SENTENCE.search(one_line(item.text_content())) for item in element.iterchildren())


def _show_cell(cell: Any) -> None:
    if not any(_MAIN.search(cell.get(name, "")) for name in ("id", "class")):
        cell.attrib.clear()
    cell.tag = "p" if _is_inline(cell) else "div"
    for block in list(cell.iter("div")) if cell.tag == "div" else ():
        advertises = any(_ADVERTISEMENT.search(block.get(name, "")) for name in ("id", "class"))
        if block is not cell and _is_inline(block) and block.find(".//a") is None and not advertises:
            block.tag = "p"


def _is_inline(element: Any) -> bool:
    return all(node.tag in _IN_LINE for node in element.iterdescendants())


def _wrap_lines(container: Any, is_shown: Callable[[str], bool] = is_prose) -> None:
    """Put prose that stands beside blocks into paragraphs, because trafilatura leaves out text beside paragraphs."""
    children = list(container)
    starts = [-1, *(number for number, child in enumerate(children) if child.tag not in _IN_LINE)]
    if len(starts) == 1:
        return
    for start, end in zip(starts, [*starts[1:], len(children)], strict=True):
        before, nodes = (children[start] if start >= 0 else None), children[start + 1 : end]
        text = (container.text if before is None else before.tail) or ""
        if not any(map(is_shown, _unlinked_lines(text, nodes))):
            continue
        paragraph = container.makeelement("p")
        paragraph.text = text
        paragraph.extend(nodes)
        if before is None:
            container.text = None
            container.insert(0, paragraph)
        else:
            before.tail = None
            before.addnext(paragraph)


def _unlinked_lines(text: str, nodes: list[Any]) -> list[str]:
    """Return the lines of a text and of the elements after it, without links and blocks in them."""
    parts, rest = [text], [(node, True) for node in reversed(nodes)]
    while rest:
        node, begins = rest.pop()
        if not begins:
            parts.append(node.tail or "")
            continue
        rest.append((node, False))
        if node.tag == "br":
            parts.append("\0")
        elif node.tag in INLINE and node.tag != "a":
            parts.append(node.text or "")
            rest += ((child, True) for child in reversed(node))
    return [" ".join(line.split()) for line in "".join(parts).split("\0")]
