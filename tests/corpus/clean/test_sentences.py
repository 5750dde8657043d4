from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from korealbert.corpus.clean.sentences import SentenceSample, agreement, compare, count_sentences, split_line, split_text
from tests.work import linear_work


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
        ("구 시행령 부칙(2001. 12. 31.) 제24조를 본다. 끝.", ["구 시행령 부칙(2001. 12. 31.) 제24조를 본다.", "끝."]),
        ("그는 미국 회사(Pfizer Inc.) 직원이다. 전쟁(?) 때였다.", ["그는 미국 회사(Pfizer Inc.) 직원이다.", "전쟁(?) 때였다."]),
        ("비가 왔다. (눈도 왔다.) 추웠다(정말이다.) 그랬다.", ["비가 왔다.", "(눈도 왔다.)", "추웠다(정말이다.)", "그랬다."]),
        ("가볍다. (핵자는 중(重)입자다.) 이후 그랬다.", ["가볍다.", "(핵자는 중(重)입자다.)", "이후 그랬다."]),
        ("그는 1997. 8. 29.(우선일 1995. 3. 3.) 출원하였다.", ["그는 1997. 8. 29.(우선일 1995. 3. 3.) 출원하였다."]),
        ("【이 유】1. 기초 사실 “2. 인용한다.” 본다.", ["【이 유】1. 기초 사실 “2. 인용한다.”", "본다."]),
        ("상호는 가나 FOOD CO. LTD이다. 끝.", ["상호는 가나 FOOD CO. LTD이다.", "끝."]),
        ("누리집 www.example.com에서 본다. 끝.", ["누리집 www.example.com에서 본다.", "끝."]),
        ("", []),
        ("...", ["..."]),
    ],
)
def test_boundaries(text: str, sentences: list[str]) -> None:
    assert split_line(text) == sentences


def test_single_quotation_marks_and_whole_lines() -> None:
    assert split_line("그는 '비가 온다. 그치지 않는다.'라고 적었다. 밤이 왔다.") == [
        "그는 '비가 온다. 그치지 않는다.'라고 적었다.",
        "밤이 왔다.",
    ]
    assert split_line("'90년대에는 달랐다. 그러나 '80년대와는 같았다.") == ["'90년대에는 달랐다.", "그러나 '80년대와는 같았다."]
    assert split_line("It isn't so. 그것은 Kim's 것이다. 끝.") == ["It isn't so.", "그것은 Kim's 것이다.", "끝."]
    assert split_line("[사회자: 비가 온다. 그는 “해가 났다. 덥다.”라고 했다. 춥다.]") == [
        "[사회자: 비가 온다.",
        "그는 “해가 났다. 덥다.”라고 했다.",
        "춥다.]",
    ]


def test_a_very_long_quotation_is_split() -> None:
    inside = "바람이 불었다. " * 40
    assert len(split_line(f"그는 “{inside.strip()}”라고 했다.")) == 40


def test_a_quotation_mark_that_never_closes_costs_nothing() -> None:
    assert split_line('"바람이 분다. 강물이 흐른다. 끝이다.') == ['"바람이 분다.', "강물이 흐른다.", "끝이다."]


KOREAN = st.text(st.sampled_from("가나다요까. !?…\"'“”()12aB\nㅋ"), max_size=60)


@settings(max_examples=150)
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
    for unit in ('"가나다. ', "“가", "바람이 분다. ", "1. ", "(((", "ㅋㅋ ", "ㅋ", "ㅋ.", "~!"):
        with linear_work():
            split_line(unit * 40_000)


def test_kiwi_splits_text_without_punctuation() -> None:
    text = "바람이 불었어요 강물이 흘렀어요\n\n그래서 우리는 걸었습니다"
    split = split_text(text, "kiwi")
    assert "".join(split.split()) == "".join(text.split())
    assert split.split("\n\n")[0].split("\n") == ["바람이 불었어요", "강물이 흘렀어요"]


def test_agreement_counts_boundaries_of_both_splitters() -> None:
    found = compare(["가을이 왔다. 바람이 분다.\n셋째 줄은 하나다.", "밥을 먹었습니다 그리고 잠을 잤습니다 참 좋았어요"])
    assert found["documents"] == 2
    assert found["both"] == 1
    assert found["rules_only"] == 0
    assert found["kiwi_only"] >= 1  # Kiwi needs no full stops
    assert found["f1"] == round(2 / (2 + found["kiwi_only"]), 4)
    assert compare([])["f1"] == 1.0


def test_the_sample_depends_on_neither_shards_nor_order(tmp_path: Path) -> None:
    documents = [(str(number), f"{number}번째 날이다. 비가 왔다. 눈은 {'없었다. 끝.' * (number % 3)}") for number in range(40)]
    found = []
    for name, order, per_shard in (("a", 1, 40), ("b", -1, 7)):
        for index, start in enumerate(range(0, 40, per_shard)):
            sample = SentenceSample(tmp_path / name, index, 5)
            (tmp_path / name).mkdir(exist_ok=True)
            for document in documents[::order][start : start + per_shard]:
                sample.add(*document)
            sample.write()
        found.append(agreement(5, 0, tmp_path / name))
    assert found[0] == found[1]
    assert found[0]["documents"] == 5
