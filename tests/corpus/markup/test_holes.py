"""Sentences in which removed markup was a word."""

from __future__ import annotations

import pytest

from korealbert.corpus.markup.namumark import extract_namumark
from korealbert.corpus.markup.wikitext import extract_wikitext
from korealbert.corpus.readers.spec import WikiOptions
from tests.work import linear_work

OPTIONS = WikiOptions()
REST = "강은 길고 물은 맑다."


@pytest.mark.parametrize(
    ("sentence", "mended"),
    [
        ("나루시에는 주민 {}명이 산다.", "나루시에는 주민이 산다."),
        ("학교에는 학생 {}명과 교사 {}명이 있다.", "학교에는 학생과 교사가 있다."),
        ("다리 {}개가 놓였다.", "다리가 놓였다."),
        ("주민은 {}명으로, 해마다 는다.", "주민은 해마다 는다."),
        ("그는 {}에서 태어나 {}에서 죽었다.", "그는 태어나 죽었다."),
        ("그는 {}의 아들로 태어났다.", "그는 아들로 태어났다."),
        ("나루강은 {}와 너울강이 만나는 곳이다.", "나루강은 너울강이 만나는 곳이다."),
        ("그는 1990년 {}월에 태어났다.", "그는 1990년에 태어났다."),
        ("그는 {}라고 불린다.", ""),
        ("이 강은 {}이라고도 부른다.", ""),
        ("영어로는 {}라 한다.", ""),
        ("{}이 속한 강은 길다.", "속한 강은 길다."),
        ("이 마을은 {}이 설립한 곳이다.", "이 마을은 설립한 곳이다."),
        ("나루천은 길이가 {}이다.", ""),
        ("‘나루’는 {}를 뜻한다.", ""),
        ("이 마을에는 {}명이 산다.", ""),
    ],
)
def test_what_stood_by_a_removed_word_goes_too(sentence: str, mended: str) -> None:
    assert extract_wikitext(f"{REST} {sentence.format('{{가}}', '{{나}}')}", OPTIONS).text == f"{REST} {mended}".strip()
    ages = sentence.format("[age(1990-01-01)]", "[age(1991-01-01)]")
    assert extract_namumark(f"{REST} {ages}", OPTIONS).text == f"{REST} {mended}".strip()


@pytest.mark.parametrize(
    ("sentence", "shown"),
    [
        ("나루시{{출처}}는 도시이다.", "나루시는 도시이다."),
        ("물이 맑다{{언제}}고 한다.", "물이 맑다고 한다."),
        ("그는 {{국기}} 나루의 선수이다.", "그는 나루의 선수이다."),
        ("그는 {{국기}}이라크의 선수이다.", "그는 이라크의 선수이다."),
        ("그는 {{메달}}은 메달을 땄다.", "그는 은 메달을 땄다."),
        ("함수 {{식}}에 대하여 말한다.", "함수 에 대하여 말한다."),
        ("그는 {{누가}} 말했다.", "그는 말했다."),
        ("{{국기}}이 작은 강은 길다.", "이 작은 강은 길다."),
        ("그는 {{국기}} 이 만든 다리를 건넜다.", "그는 이 만든 다리를 건넜다."),
        ("{{출처}}이 유명한 강은 길다.", "이 유명한 강은 길다."),
        ("2010년 그는 {{가}}라고 불렸고, 2012년 나루로 떠났다.", "2010년 그는 라고 불렸고, 2012년 나루로 떠났다."),
        ("그는 이 강을 에서 라고 적었다.", "그는 이 강을 에서 라고 적었다."),
    ],
)
def test_other_sentences_stay(sentence: str, shown: str) -> None:
    assert extract_wikitext(f"{REST} {sentence}", OPTIONS).text == f"{REST} {shown}"


@pytest.mark.parametrize("unit", ["가 {{나}}", "{{나}}명이 ", "가 {{나}} ", "강은 {{나}}라고 불 ", "{{나}}년 "])
def test_holes_are_mended_in_linear_time(unit: str) -> None:
    with linear_work():
        extract_wikitext(unit * 20_000, OPTIONS)
