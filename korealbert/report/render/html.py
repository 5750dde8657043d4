"""Blocks as one HTML file that needs nothing else: no network, no script, no font."""

from __future__ import annotations

from collections.abc import Sequence

from korealbert.report.render.blocks import Block, Cards, Figure, Figures, Fold, Section, Table, Text
from korealbert.report.render.markup import CHART, PAGE, PALETTE, Markup, join, tag


def page(title: str, lede: str, sections: Sequence[Section]) -> str:
    """The complete document."""
    links = [tag("a", section.title, href=f"#{section.anchor}") for section in sections]
    header = tag("header", tag("h1", title), tag("p", lede, class_="lede"), tag("nav", *links, aria_label="Sections"))
    main = tag("main", *(_section(section) for section in sections))
    return document(title, PALETTE + CHART + PAGE, header, main)


def document(title: str, css: str, *body: Markup) -> str:
    """An HTML file of its own. Nothing in it may load or run anything, whatever a document or a crawled title holds."""
    head = join(
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("meta", http_equiv="Content-Security-Policy", content="default-src 'none'; style-src 'unsafe-inline'"),
        tag("title", title),
        tag("style", Markup(css)),
    )
    return f"<!doctype html>\n{tag('html', tag('head', head), tag('body', *body), lang='en')}\n"


def _section(section: Section) -> Markup:
    return tag("section", tag("h2", section.title), *map(_block, section.blocks), id=section.anchor)


def _block(block: Block) -> Markup:
    match block:
        case Text(text, quiet):
            return tag("p", text, class_="quiet" if quiet else None)
        case Cards(cards):
            return tag("div", *(_card(c.title, c.value, c.detail) for c in cards), class_="cards")
        case Table():
            return _table(block)
        case Figures(figures):
            return tag("div", *map(_figure, figures), class_="figures")
        case Fold(summary, blocks):
            return tag("details", tag("summary", summary), *map(_block, blocks))


def _card(title: str, value: str, detail: str) -> Markup:
    parts = (tag("p", text, class_=kind) for text, kind in ((title, "title"), (value, "number"), (detail, "detail")))
    return tag("div", *parts, class_="card")


def _figure(figure: Figure) -> Markup:
    return tag("figure", tag("figcaption", figure.caption), figure.svg.inline())


def _breakable(text: str) -> Markup:
    """Text that may break after a slash: labels and names of repositories are long words otherwise."""
    first, *rest = text.split("/")
    return join(first, *(join("/", tag("wbr"), part) for part in rest))


def _table(table: Table) -> Markup:
    def cells(kind: str, row: Sequence[str]) -> Markup:
        scope = "col" if kind == "th" else None
        classes = ("n" if i in table.numeric else "prose" if i in table.prose else None for i in range(len(row)))
        return join(*(tag(kind, _breakable(text), class_=name, scope=scope) for text, name in zip(row, classes, strict=True)))

    rows = (tag("tr", cells("td", row), class_="marked" if i in table.marked else None) for i, row in enumerate(table.rows))
    inner = tag("table", tag("thead", tag("tr", cells("th", table.header))), tag("tbody", *rows), aria_label=table.title)
    # A table that is wider than the screen scrolls by itself; with tabindex the keyboard can scroll it too.
    return join(tag("p", table.title, class_="caption"), tag("div", inner, class_="scroll", tabindex=0))
