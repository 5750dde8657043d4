"""Near-copies that differ in one name or number are about different subjects; versions of one text differ in other ways too."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from korealbert.corpus.dedup.signatures import jaccard, shingles, squeeze
from korealbert.corpus.dedup.stage import DedupSpec
from korealbert.corpus.dedup.templates import same_template
from tests.corpus.dedup.outcomes import outcome
from tests.corpus.documents_made import document

_REST = (
    "관계 기관은 피해가 있는지 확인하고 있다. 주민들은 집 밖으로 나와 한동안 돌아가지 못했다. "
    "담당자는 안내에 따라 달라고 말했다. 자세한 내용은 누리집에서 볼 수 있으며 "
    "문의는 전화로 하면 된다. 비슷한 일은 지난해에도 두 차례 있었다."
)
_ENGLISH = (
    "{} is a village in the north of the county. It has a church, a school and a mill on the river. The population works in "
    "farming and forestry. The old road crosses the village from east to west."
)

TEMPLATES = [
    ("{}에서 규모 3의 지진이 났다. " + _REST, "경주", "포항"),
    ("{}에서 지진이 났다. " + _REST, "경북 경주", "경남 창원"),
    (_REST + " 다음은 {}번 버스의 시간표이다.", "101", "102"),
    (_REST + " 기준금리는 연 {}%로 정했다.", "1.25", "1.50"),
    (_REST + " 비는 {}일에 그친다.", "3", "4"),
    (_REST + " {} 아침에는 안개가 낀다.", "월요일", "화요일"),
    (_REST + " 다음은 {} 열차의 시간표이다.", "상행", "하행"),
    (_REST + " 환자는 {} 무릎을 다쳤다.", "왼쪽", "오른쪽"),
    (_REST + " 교황 베네딕토 {}세가 이곳을 찾았다.", "15", "16"),
    (_REST + " 이 일은 {} 원장이 맡는다.", "김영수", "박철민"),
    (_REST + " 사무소는 {}에 있다.", "상계동", "중계동"),
    (_REST + " 기온은 {}도까지 내려간다.", "-5", "5"),
    ("매리너 {}의 발사 소식이다. " + _REST, "육호", "칠호"),
    (_ENGLISH, "Ashford", "Bexley"),
    ("{}で地震があった。" + "住民は外に出てしばらく戻らなかった。被害を確認している。" * 2, "東京", "大阪"),
]


@pytest.mark.parametrize(("text", "one", "other"), TEMPLATES)
def test_one_name_or_number_in_its_place_tells_templates_apart(text: str, one: str, other: str, tmp_path: Path) -> None:
    left, right = text.format(one), text.format(other)
    assert jaccard(shingles(squeeze(left)), shingles(squeeze(right))) >= 0.8
    assert not outcome(tmp_path, DedupSpec(contained=0.8), news=[document(1, left), document(2, right)])[1]


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (_REST, _REST.replace("기관은", "기관는")),
        (_REST, _REST.replace("확인하고 있다", "확인한다")),
        (_REST, _REST.replace("한동안 ", "")),
        (_REST, _REST.replace("말했다", "밝혔다")),
        (_REST, _REST.replace("누리집", "누리짐")),
        (_REST, _REST.replace("누리집", "누리 집")),
        (_REST, _REST + " 그 뒤 소식은 없다."),
        (_REST, _REST.replace("주민들은", "주민들이")),
        (_REST, _REST.replace("비슷한", "똑같은")),
        (_REST, _REST.replace("한동안", "오래")),
        (_REST, _REST.replace("두 차례", "두차례")),
        (_REST + " 값은 1,000원이다.", _REST + " 값은 1000원이다."),
        (_REST + " 3·1절에", _REST + " 3.1절에 왔다."),
        ("(서울=연합뉴스) 김철수 기자 = " + _REST, "(부산=연합뉴스) 박영희 기자 = " + _REST),
        (_REST + "\n김철수 기자 kim@news.kr", _REST + "\n박영희 기자 park@daily.kr"),
        (_REST + " 조회 1234 추천 12", _REST + " 조회 77 추천 3"),
        (_REST + "\n2012-03-04 10:22", _REST + "\n2013.11.05. 23:41"),
        (_REST + "\n입력 2012년 3월 4일 오후 3:22", _REST + "\n입력 2012년 5월 14일 오전 9:02"),
        (_REST + "\n문의 02-123-4567", _REST + "\n문의 031) 777-8888"),
        (_REST + " 댓글(13) 조회(7,839)", _REST + " 댓글(1) 조회(4,796)"),
        (_REST + " - 3 -", _REST + " - 12 -"),
        (_REST + "\n- 3 -", _REST + "\n- 12 -"),
        (_REST + "\n3 / 12 페이지", _REST + "\n4 / 12 페이지"),
        ("[1보] " + _REST, "[종합2보] " + _REST),
        (_REST + "\n번호 12", _REST + "\n번호 345"),
        ("뉴스 > 사회\n" + _REST, "뉴스 > 지역\n" + _REST),
        (_REST + "\n3 comments", _REST + "\n41 comments"),
        (_REST + "\nCopyright 2012 All rights reserved.", _REST + "\nCopyright 2015 All rights reserved."),
        (_REST.replace("못했다.", "못했다.[12]"), _REST.replace("못했다.", "못했다.[15]")),
        (_REST * 4 + "세 명이 다쳤고 건물의 벽이 무너졌다.", _REST * 4 + "세 명이 다쳤고 주택의 벽이 무너졌다."),
        (_REST * 4 + "기온은 5.8도였다.", _REST * 4 + "기온은 5.9도였다."),
        (_ENGLISH.format("Ashford"), _ENGLISH.format("Ashford").replace("forestry", "forrestry")),
        (_ENGLISH.format("Ashford"), _ENGLISH.format("Ashford").replace("The old", "An old")),
        (_ENGLISH.format("Ashford"), _ENGLISH.format("Ashford").replace("crosses", "passes")),
        (_ENGLISH.format("Ashford"), _ENGLISH.format("Ashford").replace("county", "coutny")),
    ],
)
def test_versions_and_reprints_of_one_text_are_copies(left: str, right: str, tmp_path: Path) -> None:
    lost = outcome(tmp_path, DedupSpec(threshold=0.7), news=[document(1, left), document(2, right)])[1]
    assert len(lost) == 1


def test_a_name_that_is_exchanged_does_not_count_if_the_text_is_reworded() -> None:
    text = TEMPLATES[0][0].format("경주").lower()
    assert same_template(text, text.replace("경주", "포항"))
    assert not same_template(text, text.replace("경주", "포항").replace("확인하고 있다", "확인한다"))
    assert not same_template(text, text)


def test_other_spellings_of_a_number_and_a_particle_exchange_nothing() -> None:
    text = "참가비 1,000원은 첫날에 낸다. " + TEMPLATES[0][0].format("경주").lower()
    assert not same_template(text, text.replace("1,000원은", "1000원는"))


def test_texts_that_repeat_themselves_are_compared_in_time() -> None:
    """Each word is in the other text thousands of times, and none once."""
    words = ["가다", "나무", "다리", "라면"] * 20_000
    shuffled = random.Random(1).sample(words, len(words))  # noqa: S311
    assert not same_template(" ".join(words), " ".join(shuffled))
    assert not same_template("다" * 1_000_000, "다" * 999_999 + "라")
    assert same_template(" ".join(["3일", *words]), " ".join(["4일", *words]))
