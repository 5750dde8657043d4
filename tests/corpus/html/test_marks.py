"""Headings in wrappers and between paragraphs, deleted text, handles of folded parts, and results of scripts."""

from __future__ import annotations

import pytest

from tests.corpus.html.test_boxes import COMMENT, FOUR, LINES, ONE, THREE, TWO, P, lines_of

HEADED = [("가 마을", ONE), ("나 마을", TWO), ("다 마을", THREE)]
WANTED = [line for pair in HEADED for line in pair]


@pytest.mark.parametrize(
    "form",
    [
        "<div class=t><h2>{}</h2></div><p>{}</p>",
        "<div class=t><div><h3>{}</h3></div></div><div class=b><p>{}</p></div>",
        "<header><h2>{}</h2></header><p>{}</p>",
        "<div class=t>\n <h2><span>{}</span></h2>\n</div>\n<p>{}</p>",
        "<div role=heading>{}</div><p>{}</p>",
    ],
)
@pytest.mark.parametrize("around", ["<div>{}</div>", "<div class=wrap><div>{}</div></div>", "{}"])
def test_headings_in_wrappers_of_their_own(form: str, around: str) -> None:
    assert lines_of(around.format("".join(form.format(*pair) for pair in HEADED))) == WANTED


def test_a_first_heading_is_the_title_and_later_ones_are_headings() -> None:
    body = "".join(f"<h1>{head}</h1><p>{line}</p>" for head, line in HEADED)
    assert lines_of(f"<div>{body}</div>") == WANTED[1:]


def test_a_wrapper_with_other_text_stays_one() -> None:
    menu = "<div class=m><h2>많이 본 뉴스</h2><a href=/a>정치</a></div>"
    assert lines_of(f"<div>{P}</div>{menu}") == LINES


STRUCK = ("del", "s", "strike")


@pytest.mark.parametrize("tag", STRUCK)
def test_struck_text_beside_its_correction_is_none(tag: str) -> None:
    for form in ("<{0}>연못 </{0}><ins>하천</ins>", "<{0}>연못</{0}> <ins>하천</ins>", "<ins>하천</ins><{0}>연못</{0}>"):
        body = f"<p>{ONE.replace('하천', form.format(tag))}</p><p>{TWO}</p><p>{THREE}</p>"
        assert lines_of(f"<article>{body}</article>") == [ONE, TWO, THREE]


@pytest.mark.parametrize("tag", STRUCK)
@pytest.mark.parametrize(
    "form", ["<{0}>하천</{0}>", "<{0}>하천</{0}><ins></ins>", "<{0}>하</{0}>천", "<{0}>하천", "<{0}>하천<ins></ins>"]
)
def test_other_struck_text_is_text(tag: str, form: str) -> None:
    body = f"<p>{ONE.replace('하천', form.format(tag))}</p><p>{TWO}</p><p>{THREE}</p>"
    assert lines_of(f"<article>{body}</article>") == [ONE, TWO, THREE]


@pytest.mark.parametrize(
    ("amendment", "shown"),
    [
        ("제3조 중 <del>“국민학교”</del>를 <ins>“초등학교”</ins>로 한다.", "제3조 중 “국민학교”를 “초등학교”로 한다."),
        ("이름은 <s>홍길동</s>이다.", "이름은 홍길동이다."),
        ("예를 들어 <del>지운 글</del>처럼 보인다.", "예를 들어 지운 글처럼 보인다."),
        ("가격은 <strike>3만원 2만원이다.", "가격은 3만원 2만원이다."),
        ("1. <del>연못</del><ins>하천</ins>을 고친다.", "1. 하천을 고친다."),
    ],
)
def test_sentences_around_struck_text_are_whole(amendment: str, shown: str) -> None:
    assert lines_of(f"<article><p>{ONE}</p><p>{amendment}</p><p>{TWO}</p></article>") == [ONE, shown, TWO]


@pytest.mark.parametrize("deleted", ["<del><p>{}</p></del>", "<p><del>{}</del></p>", "<del><p>{}</p></del><ins></ins>"])
def test_deleted_paragraphs_are_none(deleted: str) -> None:
    body = f"<p>{ONE}</p><p>{TWO}</p>{deleted.format(THREE)}<p>{FOUR}</p>"
    assert lines_of(f"<article>{body}</article>") == [ONE, TWO, FOUR]
    assert lines_of(f"<article>{body.replace('del>', 's>')}</article>") == LINES


@pytest.mark.parametrize("tag", STRUCK)
@pytest.mark.parametrize("before", [0, 1, 2])
def test_no_text_is_lost_behind_a_tag_that_is_not_closed(tag: str, before: int) -> None:
    lines = [f"<p>{line}</p>" for line in LINES]
    assert lines_of(f"<article>{''.join([*lines[:before], f'<{tag}>', *lines[before:]])}</article>") == LINES
    lines[before] = lines[before].replace("<p>", f"<p><{tag}>")
    assert lines_of(f"<article>{''.join(lines)}</article>") == LINES


def test_folded_parts_are_shown_without_their_handles() -> None:
    folded = f"<details><summary>더 보기</summary><p>{TWO}</p></details>"
    folded += f"<details><summary>왜 그런가?</summary><p>{THREE}</p></details>"
    assert lines_of(f"<article><p>{ONE}</p>{folded}<p>{FOUR}</p></article>") == [ONE, TWO, "왜 그런가?", THREE, FOUR]


def test_results_of_scripts_are_text_and_input_is_not() -> None:
    body = f"<p>{ONE.replace('세', '<output>세</output>')}</p><textarea>{COMMENT}</textarea><p>{TWO}</p><p>{THREE}</p>"
    assert lines_of(f"<article>{body}</article>") == [ONE, TWO, THREE]
