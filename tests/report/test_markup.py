"""Any text stays text in HTML, SVG and Markdown."""

from __future__ import annotations

from html.parser import HTMLParser
from typing import get_args
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jinja2 import UndefinedError
from markupsafe import Markup

from korealbert.report.render import charts
from korealbert.report.render.blocks import Block, Card, Cards, Figure, Figures, Fold, Section, Table, Text
from korealbert.report.render.markup import escape, fitted, number, tag, text_width
from korealbert.report.render.text import markdown, plain
from korealbert.report.render.writer import document, page

NASTY = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "</style></title>",
    "a & b",
    "]]>",
    "제목\x00\x0b\ud800\uffff",
]


class Elements(HTMLParser):
    """Collects the names of all elements and all text."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.append(tag)
        assert not any(name.startswith("on") or name == "src" for name, _ in attrs)

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.mark.parametrize("text", NASTY)
def test_no_text_becomes_an_element_anywhere_on_a_page(text: str) -> None:
    blocks: list[Block] = [
        Text(text),
        Cards([Card(text, text, text)]),
        Table(text, [text], [[text]], prose=frozenset({0})),
        Fold(text, [Text(text)]),
    ]
    html = page(text, text, [Section("a", text, blocks)])
    found = Elements()
    found.feed(html)
    assert not {"script", "img"} & set(found.names)
    assert found.names.count("title") == found.names.count("style") == 1
    assert (
        found.text.count(escape(text) and text.translate({0: "\ufffd", 11: "\ufffd", 0xD800: "\ufffd", 0xFFFF: "\ufffd"})) >= 8
    )


def test_every_kind_of_block_is_on_the_page() -> None:
    drawing = Figure("name", "six", charts.bars([charts.Bar("seven", 1, "1")], label="eight"))
    blocks: list[Block] = [
        Text("one"),
        Text("quiet one", quiet=True),
        Cards([Card("two", "three", "four")]),
        Table("five", ["a/b", "n"], [["c", "1"], ["d", "2"]], numeric=frozenset({1}), marked=frozenset({1})),
        Figures([drawing]),
        Fold("nine", [Fold("ten", [Text("eleven")])]),
    ]
    html = page("title", "introduction", [Section("first", "First", blocks)])
    assert {type(block) for block in blocks} == set(get_args(Block))
    for words in ("one", "two", "three", "four", "five", "six", "seven", "nine", "ten", "eleven"):
        assert f">{words}</" in html
    assert '<a href="#first">First</a>' in html
    assert '<p class="quiet">quiet one</p>' in html
    assert '<th scope="col">a/<wbr/>b</th><th class="n" scope="col">n</th>' in html
    assert '<tr class="marked"><td>d</td><td class="n">2</td></tr>' in html


def test_a_template_prints_nothing_that_is_not_there() -> None:
    with pytest.raises(UndefinedError, match="introduction"):
        document("report.html", css="", title="", sections=[])


@settings(max_examples=30)
@given(st.text(max_size=60))
def test_any_label_gives_wellformed_svg_that_shows_it(label: str) -> None:
    drawings = [
        charts.bars([charts.Bar(label, 3, label), charts.Bar("b", 0, "0", before=2)], label=label),
        charts.histogram([(label, 3), ("9-16", 0)], label=label, unit=label),
        charts.strips([charts.Strip(label, [(1.0, label), (2.0, label)], label)], label=label, x_unit=label),
        charts.lines([charts.Line(label, [(0, 1), (5, 2)])], label=label, x_unit=label),
    ]
    for svg in drawings:
        root = ElementTree.fromstring(svg.standalone().encode("utf-8"))  # noqa: S314 - our own drawing
        assert root.tag == "{http://www.w3.org/2000/svg}svg"
        elements = {element.tag.split("}")[1] for element in root.iter()}
        assert elements <= {"svg", "style", "rect", "text", "title", "line", "path", "circle"}


@pytest.mark.parametrize("text", NASTY[:4])
def test_markdown_keeps_text_plain_and_tables_whole(text: str) -> None:
    table = Table("t", ["a", "b"], [[text + "|\n|", "*x* `y` [z](w)"]], numeric=frozenset({1}))
    document = markdown("t", "l", [Section("s", "s", [table])])
    row = document.splitlines()[-1]
    assert "<" not in document
    assert row.replace("\\|", "").count("|") == 3
    assert "\\*x\\* \\`y\\` \\[z\\](w)" in row
    assert plain("a\n\nb") == "a b"


def test_elements_escape_text_and_attributes_but_not_markup() -> None:
    assert tag("p", "<", Markup("<br/>"), class_='a"b', title=None) == '<p class="a&quot;b">&lt;<br/></p>'
    assert tag("line", stroke_width=1.5, x1=2.0) == '<line stroke-width="1.5" x1="2"/>'
    assert [number(value) for value in (0.001, -0.001, 12.345, 10.0, 100)] == ["0", "0", "12.35", "10", "100"]


def test_long_labels_are_cut_to_the_width_they_have() -> None:
    assert fitted("짧다", 100) == "짧다"
    cut = fitted("아주 긴 이름을 가진 분류 " * 5, 120)
    assert cut.endswith("…")
    assert text_width(cut) <= 120
    assert text_width("한글") > text_width("ab")
