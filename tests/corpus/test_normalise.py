from __future__ import annotations

import re
import unicodedata
from typing import Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from korealbert.corpus.normalise import LONGEST_WORD, composed, matching_view, normalise
from tests.work import linear_work

MESSY = st.text(
    st.sampled_from("가각나a&;#x3B80quotampl \n\t\r\u00a0\u200b\u0301\u1100\u1161\u037e\x00\x85\u200c\u200dم😀\ufe0f［＝＠ⓒ©"),
    max_size=40,
)


@pytest.mark.parametrize(
    ("raw", "clean"),
    [
        ("R&amp;D &lsquo;두레&rsquo;", "R&D ‘두레’"),
        ("&amp;quot;빌려요&amp;quot;", '"빌려요"'),
        ("12 &lt; 31, 값은 &#50; &#x33;", "12 < 31, 값은 2 3"),
        ("AT&T R&D &dog; &copy 하나", "AT&T R&D &dog; &copy 하나"),
        ("가\u00a0나\u3000다\t라", "가 나 다 라"),
        ("가\u200b나\ufeff다\u00ad", "가나다"),
        ("가\x00나\x07", "가나"),
        ("가\u200c나\u200d 😀\u200d 다", "가나 😀 다"),
        ("می\u200cخواهم क्\u200dष क्&zwnj;ष ന്\u200d 도", "می\u200cخواهم क्\u200dष क्\u200cष ന്\u200d 도"),
        ("👨\u200d👩\u200d👧 👩🏽\u200d💻 🏳️\u200d🌈", "👨\u200d👩\u200d👧 👩🏽\u200d💻 🏳️\u200d🌈"),
        ("첫째\r\n둘째\r\r\r\r셋째 \u2028 넷째", "첫째\n둘째\n\n셋째\n넷째"),
        ("  앞 뒤  \n \n \n 끝  ", "앞 뒤\n\n끝"),
        (unicodedata.normalize("NFD", "한국어"), "한국어"),
        ("［서울＝뉴시스］", "［서울＝뉴시스］"),
    ],
)
def test_normal_form(raw: str, clean: str) -> None:
    assert normalise(raw).text == clean


def test_text_about_markup_may_keep_its_entities() -> None:
    assert normalise("&lt;br&gt; 태그\u00a0하나", entities=False).text == "&lt;br&gt; 태그 하나"


def test_what_was_removed_is_counted() -> None:
    counts = normalise("가\x00\x01나\u200b &amp;amp; \u00a0다\r\n").counts
    assert counts == {"control": 2, "entity": 2, "line_break": 1, "space": 1, "zero_width": 1}


@settings(max_examples=150)
@given(MESSY | st.text(max_size=30))
def test_normalising_twice_changes_nothing(text: str) -> None:
    once = normalise(text)
    again = normalise(once.text)
    assert again.text == once.text
    assert again.counts == {}
    assert unicodedata.is_normalized("NFC", once.text)


@settings(max_examples=100)
@given(MESSY)
def test_the_matching_view_keeps_every_offset(text: str) -> None:
    assert len(matching_view(text)) == len(text)


def test_the_matching_view_has_one_spelling() -> None:
    assert matching_view("기자 [email protected]") == "기자 mail@protected.kr"
    assert matching_view("【서울＝뉴시스】© Ⓒ ⓒ ㆍ〈저작권자〉＠") == "[서울=뉴시스]ⓒ ⓒ ⓒ ·<저작권자>@"


def test_entities_within_entities_without_end_take_linear_time() -> None:
    assert normalise("가 &" + "amp;" * 20 + "lt; 나").text == "가 < 나"
    with linear_work():
        for level in ("amp;", "#38;", "#x26;"):
            found = normalise("가 &" + level * 8_000 + " 나").text
            assert "&" not in found
            assert normalise(found).text == found


@pytest.mark.parametrize("form", ["NFC", "NFKC"])
def test_no_letter_of_a_long_word_brings_more_marks_than_thirty_to_be_sorted(
    form: Literal["NFC", "NFKC"], monkeypatch: pytest.MonkeyPatch
) -> None:
    """CPython's sorting is quadratic in the marks of one letter, so the squares of their numbers count the steps."""
    steps = 0
    real = unicodedata.normalize

    def counted(to: str, text: str) -> str:
        nonlocal steps
        steps += sum(len(run) ** 2 for run in re.findall("[\u0300-\u036f]+", text))
        return real(to, text)

    monkeypatch.setattr(unicodedata, "normalize", counted)
    costs = []
    for letters in (20_000, 40_000, 80_000):
        steps = 0
        text = "가e" + "\u0301\u0316" * letters
        assert composed(text, form) == real(form, "가e" + "\u0301\u0316" * 15)
        costs.append(steps / len(text))
        steps = 0
        spread = ("가" + "\u0301\u0316" * 300 + " \n") * (letters // 600)
        assert composed(spread, form) == real(form, spread)
        costs.append(steps / len(spread))
    assert max(costs) < LONGEST_WORD


@given(st.text(st.sampled_from("가e\u0301\u0316\u1100\u1161\u11a8 \n"), max_size=60), st.integers(1, 60))
def test_composing_is_idempotent_and_equals_the_normal_form_of_ordinary_text(text: str, times: int) -> None:
    assert composed(text) == unicodedata.normalize("NFC", text)
    long = composed(text * times * 20)
    assert composed(long) == long
    assert unicodedata.is_normalized("NFC", long)


def test_tags_that_show_nothing_are_removed() -> None:
    assert normalise("깃발 🏴\U000e0067\U000e0062\U000e007f과 강\U000e0068\U000e0069이다").text == "깃발 🏴과 강이다"
