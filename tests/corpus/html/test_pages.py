"""The metadata and main text of HTML pages."""

from __future__ import annotations

import contextlib
import gzip
import json
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lxml import html

from bench.mutations import SUBJECTS, fault, mutations
from korealbert.corpus.html.article import UnreadablePage, read_article
from korealbert.corpus.html.metadata import Article, clean_author, date_line
from tests.corpus.extracting import extract
from tests.work import linear_work

BODY = [
    "시는 내년부터 도심 하천 세 곳에 산책로를 새로 놓는다고 3일 밝혔다.",
    "공사는 이듬해 봄까지 이어지며, 사업비는 모두 48억 원이 든다.",
    "주민들은 “오래 기다린 일”이라며 반겼지만, 일부는 공사 기간의 소음을 걱정했다.",
]


def page(head: str = "", body: str = "", charset: str = "utf-8") -> bytes:
    text = body or "".join(f"<p>{paragraph}</p>" for paragraph in BODY)
    menu = "<nav><ul><li><a href='/'>홈</a></li><li><a href='/p'>정치</a></li></ul></nav>"
    foot = "<footer><p>등록번호 서울 가00001 | 무단 전재 금지</p></footer>"
    whole = f"<html><head><meta charset='{charset}'>{head}</head><body>{menu}<article>{text}</article>{foot}</body></html>"
    return whole.encode(charset)


def read(head: str = "", body: str = "") -> Article:
    return read_article(page(head, body))


def linked(**fields: object) -> str:
    return f'<script type="application/ld+json">{json.dumps({"@type": "NewsArticle", **fields}, ensure_ascii=False)}</script>'


def test_paragraphs_without_the_frame_of_the_page() -> None:
    assert read("<title>하천 산책로</title>").text.split("\n\n") == BODY


def test_superscripts_keep_their_numbers() -> None:
    markup = "별은 10<sup>13</sup>개, 넓이는 5 km<sup>2</sup>, 2<sup>2<sup>3</sup></sup>, SO<b>4</b><sup>2-</sup>이다."
    markup += "<sup><a>[1]</a></sup> 끝이다."
    body = [*BODY, markup, "열린 <sup>채로 남는다."]
    expected = [*BODY, "별은 10^13개, 넓이는 5 km², 2^2^3, SO4^2-이다. 끝이다.", "열린 채로 남는다."]
    assert read(body="".join(f"<p>{paragraph}</p>" for paragraph in body)).text.split("\n\n") == expected


@pytest.mark.parametrize(
    ("markup", "text"),
    [
        (
            "<b><i>10</i></b><sup>6</sup>명과 10<b><sup>7</sup></b>명, <span>10</span><i><sup>8</sup></i>명이다.",
            "10^6명과 10^7명, 10^8명이다.",
        ),
        (
            "3<sup>1</sup>/<sub>2</sub>컵, <b>3</b><sup>1</sup>&frasl;<sub>2</sub>컵, <sup>1</sup>/<sub>2</sub>컵이다.",
            "3 1/2컵, 3 1/2컵, 1/2컵이다.",
        ),
        (
            "[4.2.0.0<sup>2,5</sup>.0<sup>3,8</sup>]옥테인을 쓴다.<sup>1</sup> 13<sup>1,2</sup>명이다.",
            "[4.2.0.0^2,5.0^3,8]옥테인을 쓴다. 13명이다.",
        ),
        (
            "<tt>10</tt><sup>6</sup>명, 3<wbr><sup>1</sup>/<sub>2</sub>컵, <kbd>3</kbd><sup>1</sup>/<sub>2</sub>컵이다.",
            "10^6명, 3 1/2컵, 3 1/2컵이다.",
        ),
        ("공사가 끝났다.<sup>2024</sup>", "공사가 끝났다.²⁰²⁴"),
    ],
)
def test_superscripts_by_what_is_before_them_in_the_paragraph(markup: str, text: str) -> None:
    assert read(body="".join(f"<p>{paragraph}</p>" for paragraph in [*BODY, markup])).text.split("\n\n") == [*BODY, text]
    declared = linked(articleBody="".join(f"<p>{paragraph}</p>" for paragraph in [*BODY, markup]))
    assert read(declared, "<p>가입</p>").text.split("\n\n") == [*BODY, text]


@pytest.mark.parametrize(
    ("markup", "lines"),
    [
        ("<p>그는 <q>물이 <b>맑다</b></q>라고 말했다.</p>", ["그는 “물이 맑다”라고 말했다."]),
        ('<p>넓이는 <math><mi>a</mi><annotation encoding="StarMath 5.0">{a}</annotation></math>이다.</p>', ["넓이는 a이다."]),
        ("<p>그는 <time>1990년 3월</time> 서울에서 자랐다.</p>", ["그는 1990년 3월 서울에서 자랐다."]),
        (
            "<p>각주가<sup id='r'><a href='#n'>2</a></sup> 있다.</p><p>각주다. <a href='#r'>↩</a></p>",
            ["각주가 있다.", "각주다."],
        ),
        ("<p>가족 👨&zwj;👩&#8205;👧, می\u200cخواهم이다.</p>", ["가족 👨\u200d👩\u200d👧, می\u200cخواهم이다."]),
        ("<p>수는 6.02×10 <sup>23</sup>이다.</p>", ["수는 6.02×10 ^23이다."]),
        ("<ul><li>가<ul><li>나</li></ul></li><li>다<br>라</li></ul>", ["가", "나", "다", "라"]),
    ],
)
def test_what_is_within_a_line_or_a_list_is_shown_whole(markup: str, lines: list[str]) -> None:
    before, *after = (f"<p>{paragraph}</p>" for paragraph in BODY)
    assert read(body=f"{before}{markup}{''.join(after)}").text.split("\n\n") == [BODY[0], *lines, *BODY[1:]]


_SENTENCES = [f"{number}째 문단은 여기에서 길게 이어지는 문장이다." for number in "첫둘셋넷"]


def test_what_browsers_do_not_show_is_left_out() -> None:
    hidden = "<p hidden>숨은 글이다.</p><template><p>틀의 글이다.</p></template><nav><p>차림표의 글이다.</p></nav>"
    streamed = f"<div hidden id='S:0'>{''.join(f'<p>{sentence * 3}</p>' for sentence in _SENTENCES)}</div>"
    shadow = "<template shadowrootmode='open'><p>그늘의 글은 여기에서 길게 이어지는 문장이다.</p></template>"
    shown = read(body="<article>" + "".join(f"<p>{sentence}</p>" for sentence in _SENTENCES) + hidden + shadow + "</article>")
    assert shown.text.split("\n\n") == [*_SENTENCES, "그늘의 글은 여기에서 길게 이어지는 문장이다."]
    assert read(body=streamed).text.split("\n\n") == [sentence * 3 for sentence in _SENTENCES]


def test_what_is_hidden_may_state_the_date_and_an_unclosed_menu_holds_the_article() -> None:
    hidden = "<div hidden><meta itemprop='datePublished' content='2024-03-04'></div><h1 hidden>머리</h1>"
    page = read(
        body=f"{hidden}<nav><a href='/'>차림표</a><article>{''.join(f'<p>{line * 3}</p>' for line in _SENTENCES)}</article>"
    )
    assert (page.published[:10], page.text.split("\n\n")) == ("2024-03-04", [line * 3 for line in _SENTENCES])


def test_a_paragraph_that_is_a_link_is_text_beside_others() -> None:
    paragraphs = [f"<p><a href='/{sentence[0]}'>{sentence}</a></p>" for sentence in _SENTENCES]
    mixed = [paragraphs[0], f"<p>{_SENTENCES[1]}</p>", *paragraphs[2:]]
    assert read(body=f"<article>{''.join(mixed)}</article>").text.split("\n\n")[:3] == _SENTENCES[:3]
    assert read(body=f"<article>{''.join(paragraphs)}</article>").text == ""


def test_items_of_paragraphs_lose_the_mark_of_the_list() -> None:
    items = "".join(f"<li><span>10:{number}0</span><p>{sentence}</p></li>" for number, sentence in enumerate(_SENTENCES))
    lines = read(body=f"<article><ul>{items}</ul></article>").text.split("\n\n")
    assert lines == [f"10:{number}0 {sentence}" for number, sentence in enumerate(_SENTENCES)]


def test_lines_that_are_parted_by_breaks() -> None:
    assert read(body="<div id='content'>" + "<br><br>".join(BODY) + "</div>").text.split("\n\n") == BODY


def test_linked_data_goes_before_tags_and_tags_before_the_title() -> None:
    site = '<meta property="og:site_name" content="시험일보">'
    tags = f'<meta property="og:title" content="제목 둘 | 시험일보">{site}<title>제목 셋</title>'
    assert read(linked(headline="제목 &quot;하나&quot;") + tags).title == '제목 "하나"'
    assert read(tags).title == "제목 둘"
    assert read("<title>제목 셋</title>").title == "제목 셋"
    assert read(body="<h1>제목 넷</h1><p>" + BODY[0] + "</p>").title == "제목 넷"


@pytest.mark.parametrize(
    ("title", "expected"),
    [
        ("산책로 | 시험일보", "산책로"),
        ("산책로 - 시험일보", "산책로"),
        ("산책로-사회ㅣ시험일보", "산책로"),
        ("산책로 | 사회 | 시험일보", "산책로"),
        ("1부-2부: 산책로 이야기", "1부-2부: 산책로 이야기"),
        ("시험일보", "시험일보"),
        ("산책로 &amp;#039;착공&amp;#039;", "산책로 '착공'"),
    ],
)
def test_the_name_of_the_site_is_no_part_of_the_title(title: str, expected: str) -> None:
    assert (
        read(f'<meta property="og:title" content="{title}"><meta property="og:site_name" content="시험일보">').title == expected
    )


@pytest.mark.parametrize(
    ("head", "published"),
    [
        (linked(datePublished="2015-03-02T09:10:11+09:00"), "2015-03-02T09:10:11+09:00"),
        ('<meta property="article:published_time" content="2015-03-02T09:10:11.000+0900">', "2015-03-02T09:10:11+0900"),
        ('<meta name="pubdate" content="20150302">', "2015-03-02"),
        ('<meta itemprop="datePublished" content="2015.03.02 09:10">', "2015-03-02T09:10"),
        ('<meta property="article:published_time" content="어제"><meta name="date" content="2015-03-02">', "2015-03-02"),
        (linked(datePublished=None), ""),
    ],
)
def test_time_of_publication(head: str, published: str) -> None:
    assert read(head).published == published


@pytest.mark.parametrize(
    ("line", "published"),
    [
        ("입력 : 2007.11.05 03:21 | 수정 : 2007.11.06 10:00", "2007-11-05T03:21"),
        ("기사입력 2010-01-15 오후 2:05", "2010-01-15T14:05"),
        ("입력 2019.03.05 오전 12:30", "2019-03-05T00:30"),
        ("입력 2019.03.05 pm 12:30", "2019-03-05T12:30"),
        ("등록 2012년 12월 31일(월) 12:00 오전", "2012-12-31T12:00"),
        ("승인 2009.02.30 10:00", ""),
        ("2019년 1월 3일 시행", ""),
    ],
)
def test_the_date_line_of_older_pages(line: str, published: str) -> None:
    assert date_line(line) == published
    assert read(body=f"<div>{line}</div>" + "".join(f"<p>{paragraph}</p>" for paragraph in BODY)).published == published


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("김하늘 기자", "김하늘"),
        ("부산=김하늘 기자 sky@example.org", "김하늘"),
        ("By 김하늘", "김하늘"),
        ("김하늘 선임기자 외 2명", "김하늘"),
        ("뉴욕 김하늘 특파원", "김하늘"),
        ("Jane Doe", "Jane Doe"),
        ("https://social.example/daily", ""),
        ("@daily", ""),
    ],
)
def test_names_of_authors(name: str, expected: str) -> None:
    assert clean_author(name) == expected


def test_authors() -> None:
    people = [{"@type": "Person", "name": "김하늘"}, {"@type": "Person", "name": "이바다 기자"}]
    assert read(linked(author=people, publisher={"name": "시험일보"})).authors == ("김하늘", "이바다")
    site = '<meta property="og:site_name" content="시험일보"><meta name="author" content="시험일보">'
    assert read(site + '<meta name="author" content="김하늘·이바다 기자">').authors == ("김하늘", "이바다")


def test_section_outlet_and_address() -> None:
    tags = '<meta property="article:section" content="사회"><link rel="canonical" href="http://a.example/1">'
    article = read(tags + linked(articleSection="사회일반", publisher={"name": "시험일보"}))
    assert (article.section, article.outlet, article.url, article.declared) == ("사회", "시험일보", "http://a.example/1", True)


def test_damaged_linked_data_is_passed_over() -> None:
    head = '<script type="application/ld+json">{"@type": "NewsArticle", "headline": "쉼표",}</script>'
    assert read(head).title == "쉼표"
    assert read('<script type="application/ld+json">{{{</script><title>남은 제목</title>').title == "남은 제목"


def test_a_book_is_its_blurb() -> None:
    blurb = "첫 소설집. 바다를 떠난 사람들의 하루를 담담하게 그린 여덟 편을 실었다."
    head = (
        f'<script type="application/ld+json">{json.dumps({"@type": "Book", "name": "먼 항구", "description": blurb})}</script>'
    )
    book = read(head, "<p>배송 안내와 반품 규정입니다. 자세한 내용은 고객센터에 문의해 주시기 바랍니다.</p>")
    assert (book.title, book.text) == ("먼 항구", blurb)


def test_text_that_only_the_script_data_holds() -> None:
    html = "".join(f'<p class="e">{paragraph}</p>' for paragraph in BODY)
    size = f"{len(html.encode()):x}"
    stream = [f"1:HL[]\n24:T{size},", html, '5:["$","$L1",null,{"deployDt":"2016.02.03 18:40","contentHtml":"$24"}]\n']
    pushes = "".join(f"<script>self.__next_f.push({json.dumps([1, part])})</script>" for part in stream)
    shell = f"<html><head><title>제목</title></head><body><div id='root'></div>{pushes}</body></html>"
    article = read_article(shell.encode())
    assert article.text.split("\n\n") == BODY
    assert article.published == "2016-02-03T18:40"


def test_unreadable_pages_say_why() -> None:
    for data, reason in [
        (bytes(range(128, 256)) * 20, "undecodable"),
        (b"", "unreadable_html"),
        (b"<!-- -->", "unreadable_html"),
    ]:
        with pytest.raises(UnreadablePage) as caught:
            read_article(data)
        assert caught.value.reason == reason


GOLDEN = Path(__file__).parents[2] / "golden" / "html"
EXPECTED = json.loads((GOLDEN / "expected.json").read_text("utf-8"))


@pytest.mark.parametrize("name", EXPECTED["pages"])
def test_pages_marked_up_as_newspapers_do(name: str) -> None:
    wanted = EXPECTED["pages"][name]
    article = read_article((GOLDEN / f"{name}.html").read_bytes(), outlet=wanted["outlet"])
    assert {field: getattr(article, field) for field in wanted} == {**wanted, "authors": tuple(wanted["authors"])}
    lines = article.text.split("\n\n")
    assert [line for line in lines if line in EXPECTED["paragraphs"]] == EXPECTED["paragraphs"]
    assert sum(map(len, EXPECTED["paragraphs"])) >= 0.92 * sum(map(len, lines))


CONSTRUCTS = sorted((GOLDEN / "constructs").glob("*.json"))


@pytest.mark.parametrize("path", CONSTRUCTS, ids=lambda path: path.stem)
def test_construct(path: Path) -> None:
    wanted = json.loads(path.read_text("utf-8"))
    article = read_article(path.with_suffix(".html").read_bytes())
    fields = {name: wanted[name] for name in ("title", "outlet", "section", "published", "url")}
    assert {name: getattr(article, name) for name in fields} == fields, wanted["about"]
    assert list(article.authors) == wanted["authors"], wanted["about"]
    assert [part for part in article.text.split("\n\n") if part] == wanted["paragraphs"], wanted["about"]


def test_every_golden_page_says_what_is_expected_of_it() -> None:
    pages = {path.stem for path in (GOLDEN / "constructs").glob("*.html")}
    assert pages == {path.stem for path in CONSTRUCTS}
    assert len(pages) + len(EXPECTED["pages"]) >= 30


def test_a_teaser_gives_way_to_the_text_that_the_page_declares() -> None:
    teaser = "<p>" + BODY[0] + " " + BODY[1] + "</p><p>로그인하세요.</p>"
    assert read(linked(headline="제목", articleBody="\n".join(BODY)), f"<p>{BODY[0]} {BODY[1]}</p>").text.split("\n\n") == BODY
    html = "".join(f"<p>{paragraph}</p>" for paragraph in BODY)
    assert read(linked(headline="제목", articleBody=html), teaser.partition("<p>로그")[0]).text.split("\n\n") == BODY
    flat = read(linked(headline="제목", articleBody=" ".join(BODY)))
    assert flat.text.split("\n\n") == BODY  # the paragraphs that the page shows are better than none


@pytest.mark.parametrize(
    ("line", "names"),
    [
        ("김하늘 기자 sky@example.org", ("김하늘",)),
        ("[부산=김하늘 기자]", ("김하늘",)),
        ("김하늘·이바다 선임기자", ("김하늘", "이바다")),
        ("뉴욕=김하늘 특파원 sky@example.org", ("김하늘",)),
        ("사진 기자", ()),
        ("이 소식을 처음 알린 김하늘 기자는 현장에 있었다.", ()),
    ],
)
def test_a_byline_of_the_text(line: str, names: tuple[str, ...]) -> None:
    assert read(body="".join(f"<p>{paragraph}</p>" for paragraph in [*BODY, line])).authors == names


WHOLE = page(linked(headline="제목", author=[{"name": "김하늘"}], datePublished="2015-03-02") + "<title>제목</title>")


@settings(max_examples=30)
@given(st.data())
def test_damaged_pages_never_raise_anything_else(data: st.DataObject) -> None:
    damaged = bytearray(WHOLE)
    for _ in range(data.draw(st.integers(1, 8))):
        at = data.draw(st.integers(0, len(damaged) - 1))
        cut = data.draw(st.integers(0, 60))
        damaged[at : at + cut] = data.draw(st.sampled_from([b"", b"<", b">", b"\0", b"</", b'"', b"{", b"<p>" * 40, b"\xff"]))
        damaged = damaged or bytearray(b"x")
    with contextlib.suppress(UnreadablePage):
        assert isinstance(read_article(bytes(damaged)), Article)


def test_damaged_pages_are_all_accounted_for() -> None:
    subject = SUBJECTS["html"]
    pages = [path.read_bytes().decode("utf-8", "replace") for path in sorted(GOLDEN.rglob("*.html"))]
    for source in mutations(pages, subject.marks, count=150, seed=7):
        assert fault(subject, source) == "", source


@pytest.mark.parametrize("part", ["<p>{0}</p>", "<ul><li>{0}"])
def test_work_grows_with_the_page_not_with_its_square(part: str) -> None:
    def seconds(copies: int) -> float:
        data, begun = page(body=part.format(BODY[0]) * copies), time.thread_time()
        read_article(data)
        return time.thread_time() - begun

    read_article(page())  # imports
    assert min(seconds(1600) for _ in range(2)) < 10 * min(seconds(400) for _ in range(2)) + 0.2


@pytest.mark.parametrize(
    "part", ["self.__next_f.push([", "self.__next_f.push([1])" + " " * 50, "Fusion.globalContent=[", "[{", ",  "]
)
def test_scripts_are_read_in_linear_time(part: str) -> None:
    head = f"<script>{part * 4000}x</script><script type='application/ld+json'>{part * 4000}</script>"
    with linear_work():
        assert read(head + f"<script>self.__next_f.push([1]){' ' * 200_000}x</script>").text.split("\n\n") == BODY


ATTRIBUTES = " ".join(f"a{number}=x" for number in range(1_100))


@pytest.mark.parametrize(
    ("head", "body"),
    [
        ("", f"<div {ATTRIBUTES}>{BODY[0]}</div>"),
        ("", f"<p title='<b>' alt=\"'>\" {ATTRIBUTES}>{BODY[0]}"),
        (f"<script>a<b c='</script><div {ATTRIBUTES} d='>'>", ""),
        (linked(headline="제목", articleBody=f"<b {ATTRIBUTES}>{BODY[0]}</b>"), "<p>짧다.</p>"),
        (linked(headline="제목", articleBody=f"<p {ATTRIBUTES}>{BODY[0]}</p>"), "<p>짧다.</p>"),
    ],
)
def test_attributes_are_counted_before_a_tree_is_built(head: str, body: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """lxml would take quadratic time."""
    build = html.document_fromstring
    sizes: list[int] = []

    def counted(*given: Any, **options: Any) -> Any:
        tree = build(*given, **options)
        sizes.append(max(len(node.attrib) for node in tree.iter()))
        return tree

    monkeypatch.setattr(html, "document_fromstring", counted)
    with pytest.raises(UnreadablePage, match=r"1,10\d attributes") as caught:
        read(head, body)
    assert caught.value.reason == "too_many_attributes"
    assert max(sizes, default=0) <= 1_000


def test_scripts_and_comments_have_no_attributes() -> None:
    text = f"if (a <b {ATTRIBUTES}) c()"
    assert read(f"<script>{text}</script><!-- <b {ATTRIBUTES} -->").text.split("\n\n") == BODY


def test_a_page_that_breaks_off_before_its_text_is_not_called_empty() -> None:
    with pytest.raises(UnreadablePage, match="Excessive depth"):
        read_article(f"<html><body>{'<div>' * 3_000}{BODY[0]}</body></html>".encode())
    assert read(body="".join(f"<p>{paragraph}</p>" for paragraph in BODY) + "<div>" * 3_000).text.split("\n\n") == BODY


@pytest.mark.parametrize("depth", [10, 300, 450, 900, 100_000])
def test_script_data_may_be_nested_to_any_depth(depth: int) -> None:
    lists = "[" * depth + "]" * depth
    quotes = '{"content_elements":[' * depth + '{"type":"text","content":"강"}' + '],"type":"quote"}' * depth
    head = f'<script type="application/ld+json">{{"@type":"NewsArticle","author":{lists},"publisher":{lists}}}</script>'
    head += f'<script type="application/ld+json">{lists}</script><script>Fusion.globalContent={quotes};</script>'
    head += f"<script>self.__next_f.push([1,{lists}])</script>"
    assert read(head).text.split("\n\n") == BODY
    assert read(head, "<p>짧다.</p>").authors == ()


NAMES = ("@graph", "@id", "@type", "author", "name", "publisher", "headline", "articleBody", "datePublished", "articleSection")
STORY = ("content_elements", "type", "content", "items", "display_date", "mainEntity", "itemListElement", "item", "description")
VALUES = st.recursive(
    st.none()
    | st.integers(-5, 5)
    | st.sampled_from(
        ["NewsArticle", "Book", "BreadcrumbList", "list", "text", "quote", "#a", "<b>강</b>", "<p>물", "\ud800<i>", "&#0;"]
    ),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES + STORY), inner, max_size=5),
    max_leaves=12,
)


@settings(max_examples=40)
@given(VALUES, VALUES, VALUES)
def test_whatever_the_script_data_holds_is_read_or_passed_over(linked_data: object, story: object, row: object) -> None:
    typed = {"@type": "NewsArticle", **linked_data} if isinstance(linked_data, dict) else linked_data
    scripts = f"<script type='application/ld+json'>{json.dumps(typed)}</script>"
    scripts += f"<script>Fusion.globalContent={json.dumps({'content_elements': [story], 'display_date': row})};</script>"
    scripts += f"<script>self.__next_f.push({json.dumps([1, row])})</script>"
    for body in ("<p>짧다.</p>", ""):
        article = read(scripts, body)
        for value in (article.title, article.text, article.outlet, article.section, article.url, *article.authors):
            value.encode("utf-8")


def test_files_of_pages_become_documents(tmp_path: Path) -> None:
    folder = tmp_path / "pages" / "사회"
    folder.mkdir(parents=True)
    (folder / "1.html").write_bytes(page("<title>하나</title>", charset="euc-kr"))
    (folder / "2.html").write_bytes(f"<html><head>{linked(headline='둘')}</head><body></body></html>".encode())
    (folder / "3.html").write_bytes(b"<html><body></body></html>")
    (folder / "4.html").write_bytes(bytes(range(128, 256)) * 20)
    found = extract(
        tmp_path / "store", tmp_path / "pages", format="html", category_by_folder={"사회": "사회"}, outlet="시험일보"
    )
    assert [(document.title, document.category, document.outlet) for document in found.documents] == [
        ("하나", "사회", "시험일보")
    ]
    assert found.documents[0].text.split("\n\n") == BODY
    assert found.reasons == ["no_main_text", "undecodable"]
    assert [drop.reason for _, drop in found.dropped] == ["empty"]


@pytest.mark.real
def test_four_real_pages(real_data: Path, tmp_path: Path) -> None:
    archive = real_data / "corpus" / "news_html.tar.zst"
    subprocess.run(["tar", "--zstd", "-xf", str(archive), "-C", str(tmp_path)], check=True)
    expected = {path.stem: json.loads(path.read_text("utf-8")) for path in tmp_path.rglob("*.json")}
    pages = {
        "MBN_2025_06_03": ("MBN", "V1", "politics"),
        "HankookIlbo_2025_05_15": ("HankookIlbo", "V1", "정치"),
        "HankookIlbo_2026_01_29": ("HankookIlbo", "V2", "정치"),
        "HankookIlbo_2026_07_12": ("HankookIlbo", "V3", "정치"),
    }
    found = extract(tmp_path / "store", archive, format="html", members="*.html.gz")
    by_title = {document.title: document for document in found.documents}
    for name, (outlet, version, section) in pages.items():
        wanted = expected[outlet][version]
        title = " ".join(wanted["title"].split())
        document = by_title[title]
        article = read_article(gzip.decompress(next(tmp_path.rglob(f"{name}.html.gz")).read_bytes()))
        assert (article.title, article.section, document.category) == (title, section, section)
        assert document.published.replace("T", " ")[:16] == wanted["publishing_date"][:16]
        assert set(article.authors) >= {clean_author(author) for author in wanted["authors"]}
        assert document.authors == ", ".join(article.authors)
        lines = {" ".join(line.split()) for line in document.text.split("\n\n")}
        paragraphs = [" ".join(text.split()) for part in wanted["body"]["sections"] for text in part["paragraphs"]]
        assert not [text for text in paragraphs if text not in lines]


def test_text_behind_a_comment_stays() -> None:
    sentence = "나루시는 오늘 물 대책을 발표하고 시민의 의견을 널리 듣겠다고 밝혔다. "
    paragraph = f"<p>{sentence * 3}물은 H<sub>2</sub><!-- 광고 -->O 이다.<!-- --> {sentence}</p>"
    page = f"<html><body><article><h1>물</h1>{paragraph}<p>{sentence * 3}<!-- 끝 -->모두 남는다.</p></article></body></html>"
    text = read_article(page.encode(), "text/html; charset=utf-8").text
    assert text.split("\n\n")[-2:] == [f"{sentence * 3}물은 H2O 이다. {sentence}".strip(), f"{sentence * 3}모두 남는다."]
