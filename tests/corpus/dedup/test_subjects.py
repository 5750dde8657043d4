"""Near-copies about different subjects stay, and other versions of one text are copies."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import pytest

from korealbert.corpus.dedup.signatures import Compared, shingles, squeeze
from korealbert.corpus.dedup.stage import DedupSpec
from korealbert.corpus.dedup.subjects import _identifiers, different_subjects
from korealbert.corpus.dedup.subjects import compared as compared_by_title
from tests.corpus.dedup.outcomes import outcome
from tests.corpus.documents_made import document, prose


def compared(text: str, title: str = "") -> Compared:
    return compared_by_title(title, text, shingles(squeeze(text)))


def test_numbers_distinguish_subjects_without_titles() -> None:
    report = "코스피는 {} 오른 {}, 코스닥은 {} 내린 {}에 마감했다. 외국인은 {}억 원을 샀다."
    monday, tuesday = report.format(12, 2345, 3, 871, 410), report.format(7, 2352, 9, 862, 150)
    assert different_subjects(compared(monday), compared(tuesday))
    assert not different_subjects(compared(monday), compared(monday.replace("871", "872")))
    rate = "환율은 {}원으로 마감했다. 전날보다 {}원 올랐다. 시장은 조용했다."
    assert different_subjects(compared(rate.format("1,201.5", "3.2")), compared(rate.format("1,188.1", "5.7")))
    assert not different_subjects(compared(rate.format("1,201.5", "3.2")), compared(rate.format("1201.5", "5.7")))
    assert not different_subjects(compared(rate.format("2019.10.1", "3")), compared(rate.format("2019. 10. 1", "4")))
    assert not different_subjects(compared(prose(1, 5)), compared(prose(1, 5)))
    assert not different_subjects(compared("강은 길다.", "강"), compared("강은 길다.", "산"))
    assert not different_subjects(compared("", "강"), compared("", ""))
    assert different_subjects(compared("서울은 크다. 서울이다.", "서울"), compared("부산은 크다. 부산이다.", "부산"))


_APPOINTED = (
    "이사회를 열고 대표를 선임했다. 신임 {0} 사장은 회사에서 오랫동안 근무하며 영업과 기획을 두루 거친 전문가로 꼽힌다. "
    "직원들과 소통을 중시하고 현장을 자주 찾는 것으로 알려져 있다. {0} 사장은 취임식에서 변화가 필요한 시기라고 강조했다."
)
_PRICES = (
    "{0} 지역 아파트값이 지난주보다 올랐다. 전세 물건이 부족해지면서 매매로 돌아서는 수요가 늘었기 때문이다. "
    "중개업소들은 호가가 오르고 있지만 거래는 많지 않다고 전했다. {0} 주민들은 새 도로가 열리면 값이 더 오를 것으로 기대했다."
)


@pytest.mark.parametrize(("text", "one", "other"), [(_APPOINTED, "김철민", "이정훈"), (_PRICES, "유성", "울산")])
def test_a_name_of_the_opening_that_returns_once_is_the_subject(text: str, one: str, other: str) -> None:
    assert different_subjects(compared(text.format(one)), compared(text.format(other)))
    reworded = text.format(one).replace("알려져 있다", "전해진다").replace("늘었기 때문이다", "늘어난 탓이다")
    assert not different_subjects(compared(text.format(one)), compared(reworded))
    rarer = text.format(one).partition(". ")[0] + f". 이어 {one} 쪽은 {one} 측 자료를 냈다."
    assert not different_subjects(compared(text.format(one)), compared(rarer)), "both have the name"


@pytest.mark.parametrize("title", ["", "화성 탐사선"])
@pytest.mark.parametrize(
    ("one", "other"), [("매리너 6호", "매리너 7호"), ("남자부", "여자부"), ("1부", "2부"), ("한빛 A팀", "한빛 B팀")]
)
def test_the_first_sentence_names_the_subject_of_texts_with_equal_titles(one: str, other: str, title: str) -> None:
    text = "{0}는 화성을 지난 탐사선이다.\n무게는 412kg이다.\n{0}는 사진을 보냈다.\n{0}의 소식은 이제 없다."
    assert different_subjects(compared(text.format(one), title), compared(text.format(other), title))
    assert not different_subjects(compared(f"나는 썼다.\n{text}", title), compared(f"우리는 썼다.\n{text}", title))


_LAUNCH = (
    "{}는 413kg 나가는 탐사선으로 화성 옆을 지나며 사진을 찍었다. 태양 전지판 네 개와 사진기 두 대를 실었다. "
    "대기의 밀도와 온도를 재어 지구로 보냈다. 자료는 아홉 달 뒤 모두 공개되었다. 뒤이은 탐사선의 설계에도 널리 쓰였다."
)
_RESULT = "이것은 {} 접영 200미터 경기의 결과이다. " + _LAUNCH.partition(". ")[2]
_OBITUARY = "평생 교단에 선 {}가 숙환으로 별세했다. 빈소는 시립병원 장례식장에 마련되었다. 가족은 조화를 정중히 사양했다."


@pytest.mark.parametrize("title", ["", "부고"])
@pytest.mark.parametrize(
    ("text", "one", "other"),
    [
        (_LAUNCH, "매리너 6호", "매리너 7호"),
        (_LAUNCH, "제３회 한빛", "제 4회 한빛"),
        (_LAUNCH, "2차전 승리", "3차전 승리"),
        (_LAUNCH, "한빛 A팀", "한빛 B팀"),
        (_RESULT, "남자", "여자"),
        (_RESULT, "남자부", "여자부"),
        (_LAUNCH, "양양의 탐사선", "화천의 탐사선"),
        (_LAUNCH, "베네라(라틴어: Venera)", "보이저(라틴어: Voyager)"),
        (_OBITUARY, "김민수 씨", "박준영 씨"),
        (_OBITUARY, "김민수(71)씨", "박준영(68)씨"),
    ],
)
def test_what_is_named_once_in_the_opening_tells_templates_apart(
    text: str, one: str, other: str, title: str, tmp_path: Path
) -> None:
    documents = [document(number, text.format(name), title=title) for number, name in enumerate((one, other))]
    assert not outcome(tmp_path, DedupSpec(threshold=0.6), news=documents)[1]


@pytest.mark.parametrize(
    ("text", "one", "other"),
    [
        (_LAUNCH, "매리너 6호", "매리너 6호(발사 2019. 3. 1.)"),
        (_LAUNCH, "탐사선 3대가 6호", "탐사선 4대가 6호"),
        (_LAUNCH, "10월 6일 발사된 탐사선", "11월 7일 발사된 탐사선"),
        (_LAUNCH, "100여 차례 고친 매리너", "200여 차례 고친 매리너"),
        (_LAUNCH, "매리너 6호", "매리너\n6호"),
        (_LAUNCH, "제6호", "6호"),
        (_LAUNCH, "이것", "그것"),
        (_LAUNCH, "매리너", "매리너 탐사선"),
        (_RESULT, "남자", "남성"),
        (_RESULT, "남자", "어제"),
        (_OBITUARY, "김민수 씨", "김민수(71)씨"),
        (_OBITUARY, "김모 씨", "김민수 씨"),
        (_OBITUARY, "오늘 가을날씨", "오늘 여름날씨"),
    ],
)
def test_reworded_openings_are_one_subject(text: str, one: str, other: str) -> None:
    """Neither are corrected figures, dates of crawling, wrapped lines, and later versions that name more."""
    assert not different_subjects(compared(text.format(one)), compared(text.format(other)))
    grown = f"속보를 새로 고칩니다. {text.format(one)} 그 뒤 최하늘 씨가 자료를 제2회 학회에 냈다."
    assert not different_subjects(compared(text.format(one)), compared(grown))


_PLACE = (
    "{name}은 우리나라에서 널리 알려진 이름이다.\n해마다 많은 사람이 이곳을 찾는다.\n"
    "봄에는 축제가 열리고 가을에는 대회가 열린다.\n{name}의 이야기는 책과 방송에 여러 번 나왔다.\n"
    "사람들은 오래전부터 이 이름을 아껴 왔다.\n"
)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("경상남도", "경상북도"),
        ("충청남도청", "충청북도청"),
        ("김철수", "김철호"),
        ("김하은", "김하나"),
        ("이명박", "이명희"),
        ("서울대학교", "서울시립대학교"),
        ("서울역", "서울숲"),
        ("제주시", "제주도"),
        ("국민은행", "국민연금"),
        ("강", "산"),
        ("Ⅰ권", "Ⅱ권"),
        ("①호", "②호"),
        ("１반", "２반"),
    ],
)
def test_names_that_begin_alike_are_different_subjects(one: str, other: str, tmp_path: Path) -> None:
    documents = [document(name, _PLACE.format(name=name), title=name) for name in (one, other)]
    _, lost = outcome(tmp_path, DedupSpec(threshold=0.6), news=documents)
    assert not lost


@pytest.mark.parametrize(
    ("one", "other", "different"),
    [
        *(("매리너 6호", "매리너 7호", True), ("제1회 시민 강좌", "제2회 시민 강좌", True), ("1부", "2부", True)),
        *(
            ("남자 접영", "여자 접영", True),
            ("2011년 대회", "2012년 대회", True),
            ("고속도로 3호선은", "고속도로 4호선은", True),
        ),
        *(("탐사선 소식", "탐사선의 사진", False), ("[1보] 탐사선", "[2보] 탐사선", False), ("탐사선 6호", "탐사선", False)),
        *(("매리너 6호", "매리너 6호 (종합)", False), ("매리너 6호 발사", "태양계를 간 매리너 7호", False)),
        *(("사진 3장 공개", "사진 4장 공개", False), ("탐사선 제6호", "탐사선 6호", False)),
        *(("F-35 도입", "F35 도입", False), ("K-9 자주포", "K9 자주포", False), ("G20 회의", "G-20 회의", False)),
        *(("U-20", "U20", False), ("1,000m 결승", "1000m 결승", False), ("1km 경주", "1킬로미터 경주", False)),
        *(("두 번째 만남", "2번째 만남", False), ("두 번째 만남", "세 번째 만남", True), ("열 번째", "10번째", False)),
        *(("3차전", "3차", False), ("3차전", "4차", True), ("제3회차 추첨", "제3회 추첨", False), ("K-9", "K-10", True)),
    ],
)
def test_titles_of_one_form_that_number_differently_are_different_subjects(one: str, other: str, different: bool) -> None:
    """The texts name neither; headlines of one text are reworded, and figures in them corrected."""
    text = _LAUNCH.format("이것")
    assert different_subjects(compared(text, one), compared(text, other)) is different


@pytest.mark.parametrize(
    ("name", "one", "other"),
    [
        ("경상남도", "경상남도는 어떤 곳인가", "경상남도의 이름"),
        ("서울", "서울이 알려지다", "서울은 알려졌다"),
        ("KBS", "KBS가 알려지다", "KBS는 알려졌다"),
        ("제주도", "제주도, 축제 확정했다", "제주도 축제 확정됐다"),
        ("부산", "무단횡단 사고", "무단 횡단 사고"),
        ("대회", "제Ⅱ부 ２차", "제II부 2차"),
        ("김철수", "김철수", "김철수 (배우)"),
    ],
)
def test_names_with_other_particles_are_one_subject(name: str, one: str, other: str) -> None:
    """Different forms of a verb do not make different subjects either."""
    text = _PLACE.format(name=name)
    left, right = (compared(text.replace("책과 방송에", title), title) for title in (one, other))
    assert not different_subjects(left, right)


def test_memory_does_not_grow_with_the_words_of_the_corpus() -> None:
    """The forms of words are cached, and a larger corpus has more words."""
    held = []
    tracemalloc.start()
    try:
        for first in (0xAC00, 0xB400, 0xBC00):
            words = (f"{chr(first + word // 200)}{chr(0xC500 + word % 200)}비늘" for word in range(40_000))
            compared(" ".join(words))
            held.append(tracemalloc.get_traced_memory()[0])
    finally:
        tracemalloc.stop()
    assert held[2] < 1.2 * held[1]


_EVENT = (
    "{}는 육상 종목으로, 선수들은 정해진 줄을 따라 달린다. 출발 신호보다 먼저 나간 선수는 실격한다. "
    "기록은 백분의 일 초까지 재며, 바람이 뒤에서 세게 불면 공인되지 않는다. 결승은 마지막 날 저녁에 열린다. 관중이 많다."
)
_CONTEST = "{}가 한빛에서 열렸다. " + _EVENT.partition(". ")[2]


@pytest.mark.parametrize("titled", [True, False])
@pytest.mark.parametrize(
    ("text", "one", "other"),
    [
        (_EVENT, "100미터", "200미터"),
        (_EVENT, "100 미터 달리기", "1,500 미터 달리기"),
        (_CONTEST, "남자 100m 결승", "남자 200m 결승"),
        (_CONTEST, "60kg급 경기", "72kg급 경기"),
        (_CONTEST, "2011년 대회", "2012년 대회"),
        (_EVENT, "2011년", "2012년"),
        (_EVENT, "1월", "2월"),
        (_EVENT, "A-10", "A-11"),
        (_CONTEST, "U-17 대회", "U-20 대회"),
        (_CONTEST, "K2 전차 대회", "K9 전차 대회"),
        (_CONTEST, "세 번째 대회", "네 번째 대회"),
        (_EVENT, "19세기", "20세기"),
        (_CONTEST, "국도 1호선 대회", "국도 3호선 대회"),
    ],
)
def test_distances_years_models_and_ordinals_tell_subjects_apart(
    text: str, one: str, other: str, titled: bool, tmp_path: Path
) -> None:
    documents = [document(number, text.format(name), title=name if titled else "") for number, name in enumerate((one, other))]
    for spec in (DedupSpec(threshold=0.6), DedupSpec(threshold=1.0, contained=0.6)):
        assert not outcome(tmp_path / str(spec.threshold), spec, news=documents)[1]


@pytest.mark.parametrize("titled", [True, False])
@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("100미터 높이의 탑", "105미터 높이의 탑"),
        ("2019년 5월 3일 대회", "2019년 5월 4일 대회"),
        ("2019년 기준 인구", "2020년 기준 인구"),
        ("1000년 된 나무", "1100년 된 나무"),
        ("사망자 3명", "사망자 5명"),
        ("무게 60kg의 바위", "무게 61kg의 바위"),
        ("35세 선수", "36세 선수"),
        ("30억 원의 사업", "32억 원의 사업"),
    ],
)
def test_amounts_and_dates_that_a_new_version_corrects_do_not(one: str, other: str, titled: bool, tmp_path: Path) -> None:
    """If nothing else differs, they do: it may be another day's report."""
    title = "한빛 대회" if titled else ""
    corrected = [document(number, _CONTEST.format(name), title=title) for number, name in enumerate((one, other))]
    assert not outcome(tmp_path / "alone", DedupSpec(threshold=0.6), news=corrected)[1]
    versions = [corrected[0], document(1, _CONTEST.format(other).replace("관중이 많다", "관중이 아주 많다"), title=title)]
    assert len(outcome(tmp_path / "version", DedupSpec(threshold=0.6), news=versions)[1]) == 1


@pytest.mark.parametrize("at_end", [True, False])
def test_what_a_page_counts_does_not_tell_copies_apart(at_end: bool) -> None:
    footers = [
        "등록일 2012-03-04 10:22 | 조회 1,234 | 추천 5 | 댓글 3",
        "등록일 2017-11-28 23:41 | 조회 88 | 추천 17 | 댓글 64",
    ]
    one, other = (compared(f"{prose(1, 8)}\n{footer}" if at_end else f"{footer}\n{prose(1, 8)}") for footer in footers)
    assert not different_subjects(one, other)
    rates = ("환율은 1,130원과 1,020원이었다.", "환율은 1,154원과 1,047원이었다.")
    assert different_subjects(*(compared(f"{rate}\n{footers[0]}") for rate in rates))


def test_a_row_of_digits_is_no_ordinal_and_is_tried_once() -> None:
    """Every digit of a long row would be tried as a beginning, each up to the end of the row."""
    assert [len(_identifiers(text)) for text in ("12번째 문", "첫 번째 문", f"{'1' * 200_000}번째 문", "1" * 200_000)] == [
        1,
        1,
        0,
        0,
    ]
