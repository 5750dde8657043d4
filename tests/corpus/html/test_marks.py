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


@pytest.mark.parametrize("tag", ["del", "s", "strike"])
def test_deleted_text_is_none(tag: str) -> None:
    first = ONE.replace("하천", f"<{tag}>연못 </{tag}><ins>하천</ins>")
    body = f"<p>{first}</p><p>{TWO}</p><del><p>{THREE}</p></del><ins><p>{FOUR}</p></ins>"
    assert lines_of(f"<article>{body}</article>") == [ONE, TWO, FOUR]
    assert lines_of(f"<article><{tag}>{P}</article>") == LINES  # not closed


def test_folded_parts_are_shown_without_their_handles() -> None:
    folded = f"<details><summary>더 보기</summary><p>{TWO}</p></details>"
    folded += f"<details><summary>왜 그런가?</summary><p>{THREE}</p></details>"
    assert lines_of(f"<article><p>{ONE}</p>{folded}<p>{FOUR}</p></article>") == [ONE, TWO, "왜 그런가?", THREE, FOUR]


def test_results_of_scripts_are_text_and_input_is_not() -> None:
    body = f"<p>{ONE.replace('세', '<output>세</output>')}</p><textarea>{COMMENT}</textarea><p>{TWO}</p><p>{THREE}</p>"
    assert lines_of(f"<article>{body}</article>") == [ONE, TWO, THREE]
