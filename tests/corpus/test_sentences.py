from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from korealbert.corpus.sentences import count_sentences, split_line, split_text


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("바람이 분다. 강물이 흐른다!", ["바람이 분다.", "강물이 흐른다!"]),
        ("그는 “갔다. 왔다.”라고 말했다. 끝이다.", ["그는 “갔다. 왔다.”라고 말했다.", "끝이다."]),
        ('"갔다." 라고 그가 말했다. "그래?" 그녀가 물었다.', ['"갔다." 라고 그가 말했다.', '"그래?"', "그녀가 물었다."]),
        ("2019. 12. 31. 서울에서 3.5% 올랐다. 12. 31. 끝났다.", ["2019. 12. 31. 서울에서 3.5% 올랐다.", "12. 31. 끝났다."]),
        ("문을 연 것은 2019년이다. 12월이 왔다.", ["문을 연 것은 2019년이다.", "12월이 왔다."]),
        ("U.S. 기업과 Mr. Kim이 A vs. B를 본다. 그렇다.", ["U.S. 기업과 Mr. Kim이 A vs. B를 본다.", "그렇다."]),
        ("1. 첫째다. 2. 둘째다.", ["1. 첫째다.", "2. 둘째다."]),
        ("가. 첫째다. 나. 둘째다.", ["가. 첫째다.", "나. 둘째다."]),
        ("값이 올랐다.이익은 줄었다.", ["값이 올랐다.", "이익은 줄었다."]),
        ("그런데… 모르겠다… 그래서 갔다.", ["그런데… 모르겠다…", "그래서 갔다."]),
        ("글쎄요... 아마 그럴 거예요.", ["글쎄요...", "아마 그럴 거예요."]),
        ("재밌다ㅋㅋ 또 봐야지!! 진짜?", ["재밌다ㅋㅋ", "또 봐야지!!", "진짜?"]),
        ("좋아요ㅠㅠ 최고예요~~ 굿", ["좋아요ㅠㅠ", "최고예요~~", "굿"]),
        ("이게 뭐야!진짜 별로네", ["이게 뭐야!", "진짜 별로네"]),
        ("Yahoo!는 회사다. ㅋㅋㅋ", ["Yahoo!는 회사다.", "ㅋㅋㅋ"]),
        ("끝났다.” 그는 말했다.", ["끝났다.”", "그는 말했다."]),
        ("그는 웃었다(옆에서. 모두.). 끝.", ["그는 웃었다(옆에서. 모두.).", "끝."]),
        ("누리집 www.example.com에서 본다. 끝.", ["누리집 www.example.com에서 본다.", "끝."]),
        ("", []),
        ("...", ["..."]),
    ],
)
def test_boundaries(text: str, sentences: list[str]) -> None:
    assert split_line(text) == sentences


def test_a_very_long_quotation_is_split() -> None:
    inside = "바람이 불었다. " * 40
    assert len(split_line(f"그는 “{inside.strip()}”라고 했다.")) == 40


def test_a_quotation_mark_that_never_closes_costs_nothing() -> None:
    assert split_line('"바람이 분다. 강물이 흐른다. 끝이다.') == ['"바람이 분다.', "강물이 흐른다.", "끝이다."]


KOREAN = st.text(st.sampled_from("가나다요까. !?…\"'“”()12aB\nㅋ"), max_size=60)


@settings(max_examples=150, deadline=None)
@given(KOREAN)
def test_splitting_loses_nothing(text: str) -> None:
    split = split_text(text, "rules")
    assert "".join(split.split()) == "".join(text.split())
    assert not any(line != line.strip() for line in split.split("\n"))
    assert count_sentences(split) == len([line for line in split.split("\n") if line])


def test_paragraphs_and_given_line_breaks_stay_boundaries() -> None:
    assert split_text("하나다. 둘이다.\n셋이다\n\n넷이다.", "rules") == "하나다.\n둘이다.\n셋이다\n\n넷이다."
    assert split_text("하나다. 둘이다.", "none") == "하나다. 둘이다."


def test_splitting_takes_linear_time() -> None:
    def seconds(text: str) -> float:
        start = time.process_time()
        split_line(text)
        return time.process_time() - start

    for unit in ('"가나다. ', "“가", "바람이 분다. ", "1. ", "(((", "ㅋㅋ "):
        seconds(unit * 500)
        assert seconds(unit * 40_000) < 3


def test_kiwi_splits_text_without_punctuation() -> None:
    text = "바람이 불었어요 강물이 흘렀어요\n\n그래서 우리는 걸었습니다"
    split = split_text(text, "kiwi")
    assert "".join(split.split()) == "".join(text.split())
    assert split.split("\n\n")[0].split("\n") == ["바람이 불었어요", "강물이 흘렀어요"]
