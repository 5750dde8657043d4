"""Prose in elements that trafilatura deletes, and what in them is no part of the article."""

from __future__ import annotations

import pytest

from korealbert.corpus.html.article import read_article
from tests.work import linear_work

LINES = [
    "나루시는 내년부터 도심 하천 세 곳에 산책로를 새로 놓는다고 3일 밝혔다.",
    "공사는 이듬해 봄까지 이어지며, 사업비는 모두 48억 원이 든다.",
    "주민들은 “오래 기다린 일”이라며 반겼지만, 일부는 공사 기간의 소음을 걱정했다.",
    "시는 소음을 줄이려고 낮에만 일하고, 주말에는 장비를 모두 세우기로 약속했다.",
]
ONE, TWO, THREE, FOUR = LINES
P = "".join(f"<p>{line}</p>" for line in LINES)
BR = "<br><br>".join(LINES)
NAV = "<a href=/a>정치</a> <a href=/b>경제</a> <a href=/c>사회</a>"
LIST = (
    "<ul>"
    + "".join(f"<li><a href=/{n}>많이 본 뉴스의 제목이 여기에 길게 {n}번째로 놓인다</a></li>" for n in range(8))
    + "</ul>"
)
FRAME = "<table><tr><td><img src=a></td></tr><tr><td>나루천 전경</td></tr></table>"
DATED = f"<table><tr><td><b>산책로</b></td></tr><tr><td>입력 2004.03.11 09:12</td></tr><tr><td>{BR}</td></tr></table>"
IMPRINT = "<table><tr><td>무단 전재 금지 (c) 나루일보. 대표전화 02-000-0000</td></tr></table>"
COMMENT = "산책로가 생기면 아침마다 강아지와 걷고 싶은데 언제쯤 걸을 수 있을까요?"


def lines_of(body: str) -> list[str]:
    page = f"<html><head><title>산책로</title></head><body>{body}</body></html>"
    return [line for line in read_article(page.encode()).text.split("\n\n") if line]


def rows(*cells: str) -> str:
    return "".join(f"<tr><td>{cell}</td></tr>" for cell in cells)


@pytest.mark.parametrize(
    "body",
    [
        f"<table>{rows(NAV)}<tr><td>{LIST}</td><td>{DATED}</td></tr></table>",
        f"<table><tr><td>{NAV}</td><td>{P}</td></tr></table>{IMPRINT}",
        f"<div>{NAV}</div><table>{rows(*LINES)}</table>",
        f"<center><table>{rows(f'<font size=2><span>{BR}</span></font>')}</table></center>",
        f"<table>{rows('<div>' + ''.join(f'<div><span>{line}</span></div>' for line in LINES) + '</div>')}</table>",
        f"<table><form>{rows(BR)}</form></table>",
        "<table><tr><td>" * 12 + BR + "</td></tr></table>" * 12,
        f"<table><tr><td>{ONE}<br><br>{TWO}</td><td>{THREE}<br><br>{FOUR}</td></tr></table>",
        f"<table><tr><td>{ONE}<br>{FRAME}{TWO}<br><div class=ad>광고</div>{THREE}<p>{FOUR}</p></td></tr></table>",
        f"<table>{rows(f'<dl><dt>{ONE}</dt><dd>{TWO}</dd></dl><p>{THREE}</p><p>{FOUR}</p>')}</table>",
        f"<article><p>{ONE}</p><table border=1>{rows(f'{TWO}<br>{THREE}')}</table><p>{FOUR}</p></article>",
        f"<article><p>{ONE}</p><figure><table>{rows(TWO)}</table></figure><figure><blockquote><p>{THREE}</p></blockquote></figure>"
        f"<p>{FOUR}</p></article>",
    ],
)
def test_prose_in_layout_tables(body: str) -> None:
    assert lines_of(body) == LINES


def test_short_lines_and_headings_between_paragraphs_stay() -> None:
    assert lines_of(f"<table>{rows(NAV, ONE, '“그렇습니다.”', TWO, '<b>물가</b>', THREE)}</table>") == [
        *(ONE, "“그렇습니다.”", TWO, "물가", THREE)
    ]
    assert lines_of(f"<table>{rows(f'<h3>봄</h3><p>{ONE}</p><p>{TWO}</p><h4>소음</h4><p>{THREE}</p>')}</table>") == [
        *("봄", ONE, TWO, "소음", THREE)
    ]


def test_posts_of_boards_without_their_fields_and_stops() -> None:
    fields = "<tr><th>제목</th><td>산책로</td></tr><tr><th>작성자</th><td>홍길동</td><th>조회수</th><td>1,204</td></tr>"
    caption = "<caption>제목, 작성자, 등록일, 조회, 내용으로 이루어진 보도자료 보기 표입니다.</caption>"
    assert lines_of(f"<div>{NAV}</div><table>{caption}{fields}<tr><td colspan=4>{BR}</td></tr></table>") == LINES
    spoken = "어제 나루천에 다녀왔는데 물이 정말 맑고 새도 많아서 하루 종일 걷기 좋았음"
    spoken_too = "다음에는 아이들도 데리고 가서 도시락을 먹을 생각인데 어디가 좋을지 아는 분 있으면 알려 주세요ㅎㅎ"
    assert lines_of(f"<table>{rows(NAV, f'{spoken}<br>{spoken_too}')}</table>") == [spoken, spoken_too]
    english = ["The city will build a new path along the river, the mayor said.", "Work begins in spring and costs a lot."]
    assert lines_of(f"<table>{rows(NAV, '<br><br>'.join(english))}</table>") == english


@pytest.mark.parametrize(
    "body",
    [
        f"<form id=aspnetForm><input type=hidden><div>{NAV}</div><div>{P}</div><div>{LIST}</div></form>",
        f"<form id=aspnetForm><table>{rows(NAV)}<tr><td>{LIST}</td><td>{BR}</td></tr></table></form>",
        f"<div>{LIST * 3}</div><form name=view><div>{P}</div></form>",
        f"<div>{NAV}</div><fieldset><legend>글 보기</legend>{P}</fieldset>",
        f"<article><p>{ONE}</p><fieldset><legend>한눈에</legend><p>{TWO}</p></fieldset><p>{THREE}</p><p>{FOUR}</p></article>",
        f"<article><p>{ONE}</p><aside class=box><p>{TWO}</p></aside><p>{THREE}</p><p>{FOUR}</p></article>",
        f"<article><p>{ONE}</p><menu><li>{TWO}</li><li>{THREE}</li></menu><p>{FOUR}</p></article>",
        f"<form><div><label>{ONE}</label><p>{TWO}</p><p>{THREE}</p><p>{FOUR}</p></div></form>",
        f"<div id=app></div><noscript><div>{P}</div></noscript>",
    ],
)
def test_prose_in_forms_and_boxes(body: str) -> None:
    assert lines_of(body) == LINES


@pytest.mark.parametrize(
    "other",
    [
        f"<aside><h3>많이 본 기사</h3>{LIST}<p>나루일보가 아침마다 물길 소식을 보내 드립니다. 지금 구독하세요.</p></aside>",
        f"<menu><li>{NAV}</li></menu>",
        "<noscript><p>이 누리집을 보려면 자바스크립트를 켜야 합니다. 브라우저 설정을 바꿔 주세요.</p></noscript>",
        f"<noscript>{P}</noscript>",
        f"<form><p>댓글은 로그인한 뒤에 쓸 수 있으며, 욕설은 지워질 수 있습니다.</p><textarea>{COMMENT}</textarea></form>",
        "<form><p>찾으시는 낱말을 넣고 단추를 눌러 주시면 기사를 찾아 드립니다.</p><input></form>",
        "<form><fieldset><p>이 페이지에서 제공하는 정보에 만족하십니까?</p><input type=radio></fieldset></form>",
        f"<table id=reply><tr><td>홍길동</td><td>{COMMENT}</td></tr></table>",
        f"<div class=cmt_list><p>{COMMENT}</p></div>",
        "<table><tr><td>나루일보는 나루시에 있으며, 이 누리집의 글을 쓰려면 미리 허락을 받아야 합니다.</td></tr></table>",
        f"<table><tr><td>{NAV}</td></tr></table>",
    ],
)
def test_menus_widgets_comments_and_notices_are_left_out(other: str) -> None:
    assert lines_of(f"<article>{P}</article>{other}") == LINES
    assert lines_of(f"<div>{P}</div>{other}") == LINES


@pytest.mark.parametrize(
    "box",
    [
        f"<table>{rows('<img src=a>', '▲ 5일 나루시 직원들이 산책로 터를 살펴보고 있다. /한빛신문')}</table>",
        "<table><tr><td><img src=a></td><td><img src=b></td></tr><tr><td>나루시 직원들이 산책로 터를 꼼꼼히 살펴보고 있다.</td>"
        "<td>산책로가 놓일 나루천에 봄을 맞은 오리들이 떼를 지어 놀고 있다.</td></tr></table>",
        f"<table><tr><th>연도</th><th>사업비</th></tr>{'<tr><td>2024</td><td>48억 원</td></tr>' * 20}"
        "<tr><td colspan=2>2020년 뒤의 값은 나루시가 셈한 것이라 실제와 다를 수 있다.</td></tr></table>",
        "<table class=infobox><tr><td>나루시의 위치와 나루시를 지나는 하천이 표시된 지도이다.</td></tr></table>",
        "<figure><div data-src=a></div><p>5일 나루시 직원들이 산책로 터를 꼼꼼히 살펴보고 있는 모습이다.</p></figure>",
        "<aside><h4>관련 기사</h4><ul><li><a href=/1>배 목수의 하루를 따라가 보았다고 기자가 말했다.</a></li></ul></aside>",
        "<aside class=newsletter><p>나루일보 뉴스레터를 받아 보시려면 이메일을 적고 단추를 눌러 주세요.</p></aside>",
    ],
)
def test_captions_figures_and_links_between_paragraphs_are_left_out(box: str) -> None:
    assert lines_of(f"<article><p>{ONE}</p>{box}<p>{TWO}</p><p>{THREE}</p><p>{FOUR}</p></article>") == LINES
    assert lines_of(f"<table>{rows(f'<p>{ONE}</p>{box}<p>{TWO}</p><p>{THREE}</p><p>{FOUR}</p>')}</table>") == LINES


def test_a_table_of_posts_is_no_article() -> None:
    posts = "".join(f"<tr><td>{n}</td><td><a href=/{n}>산책로를 묻습니다 {n}</a></td><td>홍길동</td></tr>" for n in range(9))
    assert lines_of(f"<table>{posts}</table>") == []


def test_comments_that_are_most_of_a_page_stay() -> None:
    assert lines_of(f"<div class=reply>{P}</div>") == LINES


LEAD = "나루시는 내년부터 도심 하천 세 곳에 산책로를 새로 놓는다고 3일 밝혔으며, 공사는 이듬해 봄까지 한다고 덧붙였다."
LONG = f"{THREE.removesuffix('.')} 한편 시의회에서는 사업비를 줄이라는 말도 나왔다고 전했다."
LONG_TOO = f"{FOUR.removesuffix('.')} 먼지가 날리는 것을 막으려고 둘레에 가림막을 두르기로 했다."
LONG_PARAGRAPH, LONG_PARAGRAPH_TOO = f"<p>{LONG}</p>", f"<p>{LONG_TOO}</p>"


@pytest.mark.parametrize(
    "body",
    [
        f"<table>{rows(LEAD, f'<table>{rows(LONG, LONG_TOO)}</table>')}</table>",
        f"<table>{rows(f'<p>{LEAD}</p>', f'<table>{rows(LONG_PARAGRAPH, LONG_PARAGRAPH_TOO)}</table>')}</table>",
        f"<p>{LEAD}</p><table>{rows(LONG, LONG_TOO)}</table>",
        f"<p>{LEAD}</p><form><div><p>{LONG}</p><p>{LONG_TOO}</p></div></form>",
        f"<section><div><span>{LEAD}</span></div></section><p>{LONG}</p><p>{LONG_TOO}</p>",
        f"<article><div><div>{LEAD}</div></div><p>{LONG}</p><p>{LONG_TOO}</p></article>",
    ],
)
def test_a_paragraph_outside_the_box_with_most_of_the_prose(body: str) -> None:
    assert lines_of(body) == [LEAD, LONG, LONG_TOO]


def test_a_paragraph_after_nested_tables() -> None:
    inner = f"<table>{rows(f'<table>{rows(LONG, LONG_TOO)}</table>')}</table>"
    assert lines_of(f"<table>{rows(inner, LEAD)}</table>") == [LONG, LONG_TOO, LEAD]


STEPS = ["먼저 밀가루 두 숟갈을 찬물에 풀어 덩어리가 없도록 젓습니다.", "약한 불로 끓입니다.", "체에 거릅니다."]
RECIPE = f"<p>{LEAD}</p><h2>풀 쑤는 법</h2><ol>{''.join(f'<li>{step}</li>' for step in STEPS)}</ol><p>{LONG}</p>"
MENU = "<h1>나루시</h1><ul><li><a href=/a>정치</a></li><li><a href=/b>경제</a></li></ul>"
SIDE = "<h3>많이 본 기사</h3><ul><li><a href=/1>산책로의 봄을 걷다</a></li><li>광고 문의</li></ul>"


@pytest.mark.parametrize("attributes", ["", "class=view", "class=detail", "class=board_view", "id=article"])
def test_headings_and_lists_of_any_container(attributes: str) -> None:
    wanted = [LEAD, "풀 쑤는 법", *STEPS, LONG]
    assert lines_of(f"<div {attributes}>{RECIPE}</div>") == wanted
    assert lines_of(f"<div>{MENU}</div><div {attributes}>{RECIPE}</div><div>{SIDE}</div>") == wanted
    assert lines_of(f"{MENU}{RECIPE}{SIDE}") == wanted


def test_questions_and_other_headings() -> None:
    assert lines_of(f"<h2>언제 놓나요?</h2><p>{LEAD}</p><h2>왜요?</h2><p>{LONG}</p><h2>밤에도요?</h2><p>아니요.</p>") == [
        *("언제 놓나요?", LEAD, "왜요?", LONG, "밤에도요?", "아니요.")
    ]
    pictured = f"<p>{LEAD}</p><h2><a href=#x>봄</a></h2><figure><img src=a></figure><p>{LONG}</p>"
    assert lines_of(pictured) == [LEAD, "봄", LONG]
    assert lines_of(f"<p>{LEAD}</p><h2>봄<a href=#x>#</a></h2><p>{LONG}</p>") == [LEAD, "봄", LONG]
    cell = f"{LEAD}<h3>봄</h3>{LONG}"
    assert lines_of(f"<p>{LONG_TOO}</p><table>{rows(cell)}</table>") == [LONG_TOO, LEAD, "봄", LONG]


def test_menus_of_a_form_around_all_paragraphs_are_left_out() -> None:
    menu = f"<div>{MENU.replace('<a href=/b>경제</a>', '전체 보기')}</div><div>{SIDE}</div>"
    body = f"<form>{menu}<div><p>{LEAD}</p><p>{LONG}</p></div><div><p>{LONG_TOO}</p></div></form>"
    assert lines_of(body) == [LEAD, LONG, LONG_TOO]


def test_lists_in_lists_and_with_a_link() -> None:
    nested = f"<p>{LEAD}</p><ul><li>봄<ul><li>꽃</li></ul></li><li><a href=/x>나루</a>는 강가의 고을</li></ul><p>{LONG}</p>"
    assert lines_of(nested) == [LEAD, "봄", "꽃", "나루는 강가의 고을", LONG]


def test_a_processing_instruction_between_paragraphs() -> None:
    assert lines_of(f"<p>{LEAD}</p><?php echo 1 ?><h2>봄</h2><p>{LONG}</p>") == [LEAD, "봄", LONG]


def test_fields_and_buttons_beside_paragraphs_are_left_out() -> None:
    fields, buttons = "<ul><li>작성자 홍길동</li><li>조회 120</li></ul>", "<ul><li>공유</li><li>인쇄</li></ul>"
    assert lines_of(f"<h3>산책로</h3>{fields}<p>{LEAD}</p><p>{LONG}</p>{buttons}{SIDE}") == [LEAD, LONG]


@pytest.mark.parametrize(
    "unit",
    [
        f"<table>{rows(ONE)}</table>",
        f"<form><p>{ONE}</p>",
        "<div class=cmt_list>가",
        f"<b>{ONE}<br>",
        "<table><tr><td>",
        "<span><div>",
        f"<div><p>{LEAD}</p><ul><li>가",
        f"<h2>가</h2><p>{LEAD}</p><ul><li>가<li>나</ul>",
        "<div><div><span>가</span></div></div>",
    ],
)
def test_boxes_are_judged_in_linear_time(unit: str) -> None:
    with linear_work():
        lines_of(P + unit * 1500)
