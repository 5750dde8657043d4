from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from korealbert.corpus.clean.filters import FILTERS, Parts, hangul_share, judge
from korealbert.corpus.clean.limits import PRESETS, Limits
from korealbert.corpus.clean.repetition import duplicate_characters, ngram_bounds, top_ngram_characters
from korealbert.corpus.clean.stage import CleanSpec
from tests.corpus.documents_made import prose

GOOD = prose(1, 12)
PASS_ALL = Limits(
    min_characters=0,
    min_hangul_share=0,
    max_symbols_per_word=1_000,
    max_bullet_lines=1,
    max_ellipsis_lines=1,
    max_duplicate_lines=1,
    max_duplicate_line_characters=1,
    max_duplicate_paragraphs=1,
    max_duplicate_paragraph_characters=1,
    min_function_word_share=0,
    min_letter_words=0,
    max_short_repeats=1,
    max_short_runs=1,
    max_top_ngrams=(1, 1, 1),
    max_duplicate_ngrams=(1, 1, 1, 1, 1, 1),
)


def reason(text: str, **limits: object) -> str | None:
    drop = judge(text, Limits.model_validate(limits))
    return drop and drop.reason


def test_ordinary_prose_passes() -> None:
    assert judge(GOOD, Limits()) is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("짧은 글이다.", "too_short"),
        ("The library opened in a disused mill three years ago and lends ladders. " * 3, "not_korean"),
        ("1234567890 " * 20, "not_korean"),
        ("가나 #다라 #마바 사아 자차… " * 10, "symbols"),
        ("\n".join(f"- 항목 {number}은 우체국 앞의 나무" for number in range(12)), "bullet_lines"),
        (
            "\n".join(f"{number}번째 마을 우체국 앞 골목 끝에서 어느 날 저녁 바람이 불어와…" for number in range(20)),
            "ellipsis_lines",
        ),
        ("\n".join([*GOOD.split("\n")[:5], *["같은 줄이 또 나왔다."] * 5]), "duplicate_lines"),
        ("가을이 왔다 그리고 " * 40, "top_ngram"),
        (" ".join(f"{chr(0xAC00 + 31 * number)}강 나무" for number in range(60)), "no_sentences"),
        (" ".join(f"{number}원 {number * 7:,} {number * 11:,}" for number in range(1_000, 1_040)), "number_words"),
        (
            "\n".join(f"{name} {number} {number * 7}" for name in ("경기도", "충청북도") for number in range(20, 40)),
            "number_words",
        ),
        (" ".join(f"가방{number % 7} 지갑 모자 brand sale" for number in range(20)), "no_sentences"),
        (
            "\n\n".join([f"가을이\n{GOOD[:300]}", f"{GOOD[300:500]}\n왔다.", *["같은 문단이다.\n또 나왔다."] * 4]),
            "duplicate_paragraphs",
        ),
    ],
)
def test_what_each_filter_drops(text: str, expected: str) -> None:
    assert reason(text) == expected


@pytest.mark.parametrize("text", ["가" * 3000, "ㅋㅋㅎㅎ" * 99])
def test_a_few_characters_over_and_over_are_no_text(text: str) -> None:
    assert reason(text) == "repeated_characters"
    assert reason(f"{text} {GOOD}") != "repeated_characters"


_ADVERT = "첫충 30% 꽁머니 지급 온라인 카지노 상담 010-1234-5678 bet.example"


@pytest.mark.parametrize("genre", [name for name in PRESETS if name not in ("english", "verse")])
@pytest.mark.parametrize(
    "text",
    [
        " ".join([_ADVERT] * 3),
        "\n".join([_ADVERT] * 3),
        " ★ ".join([_ADVERT] * 4),
        f"한마디만 하고 갑니다. {' '.join([_ADVERT] * 3)}",
        "급전 필요하신 분 연락 주세요. " * 5,
        "대출, 급전, 무직자대출, 당일대출, 대출, 급전, 무직자대출, 당일대출, 대출, 급전, 무직자대출, 당일대출, 대출, 급전",
        "바카라사이트" * 12,
    ],
)
def test_short_spam_repeats_itself(text: str, genre: str) -> None:
    assert len(text.split()) < 50
    drop = judge(text, Limits.model_validate({"preset": genre, "min_characters": 0}))
    assert drop is not None
    assert drop.reason in ("short_repeats", "duplicate_lines", "duplicate_paragraphs")


_SONGS = (
    "자장자장 우리 아가 자장자장 잘도 잔다\n꼬꼬닭아 우지 마라 우리 아가 잠을 깰라\n멍멍개야 짖지 마라 우리 아가 잠을 깰라\n"
    "자장자장 우리 아가 자장자장 잘도 잔다",
    " ".join(["아제아제 바라아제 바라승아제 모지 사바하"] * 3),
)
_SAID_AGAIN = (
    "생일 축하합니다 생일 축하합니다 사랑하는 우리 엄마 생일 축하합니다",
    "대한민국 짝짝짝짝짝 대한민국 짝짝짝짝짝 오 필승 코리아 오 필승 코리아 오 필승 코리아 오 오레 오레",
    "주여, 우리를 불쌍히 여기소서. 그리스도여, 우리를 불쌍히 여기소서. 주여, 우리를 불쌍히 여기소서.",
    "내가 그린 기린 그림은 잘 그린 기린 그림이고 네가 그린 기린 그림은 잘 못 그린 기린 그림이다.",
    "하하하하 호호호호 히히히히 웃음소리가 담을 넘는다. 하하하하 호호호호 히히히히 아이들이 뛰논다.",
    "아아아아아아아아! 님은 갔습니다. 오오오오오오오! 사랑하는 나의 님은 갔습니다.",
    " ".join(f"{inning}회초 두산 {inning % 3}점 {inning}회말 LG {inning % 2}점" for inning in range(1, 8)),
    ", ".join(f"{year}년 인구 {year % 7},{year % 9}00명" for year in range(2010, 2020)),
    "서울 맑음 최저 3도 최고 12도 부산 맑음 최저 7도 최고 15도 대구 맑음 최저 4도 최고 14도 광주 맑음 최저 5도",
    "갤럭시 S21 갤럭시 S21 플러스 갤럭시 S21 울트라 갤럭시 S22 갤럭시 S22 플러스 갤럭시 S22 울트라 갤럭시 S23",
    "아이폰 12, 아이폰 12 미니, 아이폰 12 프로, 아이폰 12 프로 맥스, 아이폰 13, 아이폰 13 미니, 아이폰 13 프로",
    " ".join(f"제{number}사단은 대한민국 육군의 사단이다." for number in range(1, 8)),
    "김철수(1950년)는 대한민국의 정치인이다. 김철수(1960년)는 대한민국의 축구 선수이다. 김철수(1970년)는 배우이다.",
    " ".join(f"북구는 {city}광역시의 구이다." for city in ("부산", "대구", "광주", "울산")),
    ", ".join(f"서울특별시 종로구 {place}" for place in ("청운동", "효자동", "사직동", "삼청동", "가회동")),
    "양자역학(量子力學): 양자를 다루는 역학. 양자전기역학: 양자역학으로 전기를 다루는 역학. 양자색역학: 색의 역학.",
    "문: 언제 갔습니까? 답: 어제 갔습니다. 문: 누구와 갔습니까? 답: 친구와 갔습니다. 문: 어디로 갔습니까? 답: 부산이요.",
    "○의장 홍길동 이의 없으십니까? (「없습니다」 하는 의원 있음) 가결되었음을 선포합니다. " * 2,
    "변수 a를 1로 정한다. 변수 b를 2로 정한다. 변수 c를 a와 b의 합으로 정한다. 변수 c를 출력한다. 변수 a를 출력한다.",
    "택시의 기본요금은 formula_1원이고, formula_2미터마다 formula_3원이 늘며, formula_4초마다 formula_5원이 는다.",
    " ".join(f"{number}. 상담 전화 010-1234-{5678 + number} 성함은 {number}번" for number in range(4)),
)


@pytest.mark.parametrize("genre", [name for name in PRESETS if name != "english"])
@pytest.mark.parametrize("text", _SAID_AGAIN)
def test_people_repeat_words_and_forms(text: str, genre: str) -> None:
    assert judge(text, Limits.model_validate({"preset": genre, "min_characters": 0})) is None


@pytest.mark.parametrize("text", _SONGS)
def test_verse_repeats_itself(text: str) -> None:
    assert judge(text, Limits.model_validate({"preset": "verse", "min_characters": 0})) is None


@pytest.mark.parametrize("laughter", ["ㅋ" * 120, "가" * 120, "재밌다" + "ㅋ" * 110, "아" * 99 + " 짜증난다"])
def test_laughter_is_a_review_and_no_news(laughter: str) -> None:
    assert reason(laughter) == "short_repeats"
    assert judge(laughter, Limits.model_validate("reviews")) is None


@pytest.mark.parametrize(
    "review",
    [
        "재밌다 재밌다 재밌다 ㅋㅋㅋㅋㅋㅋ 또 봐야지 이번엔 친구랑",
        "최고 최고 최고! 배우들 연기가 정말 좋았고 음악도 좋았다",
        "정말 정말 정말 슬프다 ㅠㅠㅠㅠㅠㅠㅠㅠㅠㅠ 많이 울었네요 ㅠㅠㅠㅠㅠㅠ",
    ],
)
def test_people_repeat_words_in_reviews(review: str) -> None:
    assert judge(review, Limits.model_validate("reviews")) is None


def test_digits_alone_are_not_korean() -> None:
    assert [reason(text) for text in ("0" * 3000, "1234567890 " * 60, "12 34\n" * 300, "-" * 2000)] == ["not_korean"] * 4


def test_repeated_paragraphs_on_one_line_are_duplicate_ngrams() -> None:
    words = GOOD.replace("\n", " ")
    assert reason(f"{words} {words}", max_top_ngrams=(1, 1, 1)) == "duplicate_ngrams"


def test_limits_reach_exactly_their_value() -> None:
    hundred = GOOD.replace("\n", " ")[:100]
    assert reason(hundred) is None
    assert reason(hundred[:99]) == "too_short"
    assert reason(GOOD, max_characters=len(GOOD)) is None
    assert reason(GOOD, max_characters=len(GOOD) - 1) == "too_long"


def test_short_lines_are_off_unless_asked_for() -> None:
    menu = "\n".join(f"차림{chr(0xAC00 + 97 * number)}은 {number}" for number in range(24))
    assert reason(menu) is None
    assert reason(menu, max_short_lines=0.67) == "short_lines"


def test_filters_for_the_web_are_off_unless_asked_for() -> None:
    menu = "\n".join(f"{chr(0xAC00 + 97 * number)}{number}마을의 {number}번 우체국" for number in range(24))
    assert reason(menu) is None
    assert reason(menu, min_punctuated_lines=0.12) == "unpunctuated_lines"
    assert reason(f"{GOOD} {{") is None
    assert reason(f"{GOOD} {{", curly_brackets=False) == "curly_brackets"


def test_either_symbol_reaches_the_limit_by_itself() -> None:
    words = [f"낱말{number}은" for number in range(100)]
    both = " ".join([*words, *["#가"] * 9, *["나다…"] * 9, "끝이다."])
    assert reason(both, max_duplicate_ngrams=(1,) * 6, max_top_ngrams=(1,) * 3) is None
    assert reason(" ".join([*words, *["#가"] * 13]), max_duplicate_ngrams=(1,) * 6, max_top_ngrams=(1,) * 3) == "symbols"


def test_a_row_of_dots_is_one_ellipsis() -> None:
    review = Limits.model_validate("reviews")
    assert judge("말이 필요없다................................ 정말 좋은 영화였다", review) is None
    assert judge("이건... 진짜... 꼭... 보세요... 진짜... 최고... 입니다... 꼭", review) is not None


def test_symbols_are_compared_with_syllables_if_there_are_no_blanks() -> None:
    unbroken = prose(1, 30).replace(" ", "").replace("\n", "").split(".")
    assert reason("".join(f"{sentence}{'.' if number % 3 else '...'}" for number, sentence in enumerate(unbroken))) is None
    assert reason("...".join(["나다"] * 60)) == "symbols"


def test_shares_of_few_lines_are_not_judged() -> None:
    """A petition is one line; a film's page has three."""
    line = GOOD[:160].replace("\n", " ")
    assert reason(f"■ {line}") is None
    assert reason(f"{line}…\n{prose(2, 4)[:-1]}…".replace(".\n", " ")) is None
    assert reason("\n".join(f"{number}째 {line[:60]}…" for number in range(5))) == "ellipsis_lines"


def test_headings_and_numbers_are_no_hashtags() -> None:
    headed = "\n\n".join(f"## 장면{number}\n\n{prose(number, 2)}\n\n다음은 #{number}" for number in range(20))
    assert reason(headed) is None
    assert reason(" ".join(f"#우체국{number}에 갔다" for number in range(60))) == "symbols"


def test_menus_hold_few_words_of_sentences() -> None:
    menu = [
        *("로그인", "회원가입", "장바구니", "고객센터", "이용약관", "사이트맵", "공지사항", "이벤트", "주문조회", "이전글"),
        "신고",
    ]
    assert reason("\n".join(f"{item}{number}" for number in range(6) for item in menu)) == "no_sentences"
    assert reason("\n".join([*GOOD.split("\n"), *menu])) is None


def test_a_genre_has_limits_by_name() -> None:
    """A ruling repeats its summary, which newspapers do not."""
    ruling = f"{GOOD}\n\n{prose(9, 20)}\n\n{GOOD[: len(GOOD) // 2]}"
    assert reason(ruling) == "duplicate_ngrams"
    assert judge(ruling, Limits.model_validate("law")) is None
    law = Limits.model_validate({"preset": "law", "min_characters": 5_000})
    assert law == Limits.model_validate({**PRESETS["law"], "min_characters": 5_000})
    assert CleanSpec.model_validate({"limits": "law"}) == CleanSpec(limits=Limits.model_validate(PRESETS["law"]))
    for name in PRESETS:
        assert judge(GOOD, Limits.model_validate(name)) is None
    document = b'{"limits": {"preset": "reviews", "max_top_ngrams": [0.5, 0.5, 0.5]}}'
    assert CleanSpec.model_validate_json(document, strict=True).limits.max_top_ngrams == (0.5, 0.5, 0.5)
    with pytest.raises(ValidationError, match=r"no preset \['law'\]; there are"):
        Limits.model_validate({"preset": ["law"]})
    with pytest.raises(ValidationError, match="no preset 'laws'; there are news, novels, encyclopedia, books, petitions, law"):
        CleanSpec.model_validate({"limits": "laws"})


@pytest.mark.parametrize("genre", ["novels", "reviews"])
def test_a_poem_may_have_a_refrain(genre: str) -> None:
    """Lines of the poem `엄마야 누나야` (1922): the last is the first."""
    poem = "엄마야 누나야 강변 살자\n뜰에는 반짝이는 금모래 빛\n뒷문 밖에는 갈잎의 노래\n엄마야 누나야 강변 살자"
    assert judge(poem, Limits.model_validate({"preset": genre, "min_characters": 20})) is None
    assert reason(poem, min_characters=20) == "duplicate_lines"


_STANZAS = (
    ("동해 물과 백두산이 마르고 닳도록", "하느님이 보우하사 우리나라 만세"),
    ("남산 위에 저 소나무 철갑을 두른 듯", "바람 서리 불변함은 우리 기상일세"),
    ("가을 하늘 공활한데 높고 구름 없이", "밝은 달은 우리 가슴 일편단심일세"),
    ("이 기상과 이 맘으로 충성을 다하여", "괴로우나 즐거우나 나라 사랑하세"),
)
_REFRAIN = ("무궁화 삼천리 화려 강산", "대한 사람 대한으로 길이 보전하세")
_BEATITUDES = """
심령이 가난한 자는 복이 있나니 천국이 저희 것임이요
애통하는 자는 복이 있나니 저희가 위로를 받을 것임이요
온유한 자는 복이 있나니 저희가 땅을 기업으로 받을 것임이요
의에 주리고 목마른 자는 복이 있나니 저희가 배부를 것임이요
긍휼히 여기는 자는 복이 있나니 저희가 긍휼히 여김을 받을 것임이요
마음이 청결한 자는 복이 있나니 저희가 하나님을 볼 것임이요
화평케 하는 자는 복이 있나니 저희가 하나님의 아들이라 일컬음을 받을 것임이요
의를 위하여 핍박을 받은 자는 복이 있나니 천국이 저희 것임이라
"""


def test_half_of_a_song_may_be_its_refrain() -> None:
    """The national anthem, a call with an answer after each line, and the Beatitudes (개역한글, 1961)."""
    verse = Limits.model_validate("verse")
    anthem = "\n\n".join("\n".join([*stanza, *_REFRAIN]) for stanza in _STANZAS)
    calls = "\n".join(f"{line}\n쾌지나 칭칭 나네" for stanza in _STANZAS for line in stanza)
    for song, of_news in ((anthem, "duplicate_lines"), (calls, "duplicate_lines"), (_BEATITUDES, "top_ngram")):
        assert judge(song, verse) is None
        assert reason(song) == of_news


def test_junk_is_no_verse() -> None:
    verse, line = Limits.model_validate("verse"), "무궁화 삼천리 화려 강산에 꽃이 피네"
    lines = [line for stanza in _STANZAS for line in stanza]
    junk = {
        "\n".join([*lines, *[line] * 10]): "duplicate_lines",
        " ".join([*lines, *[line] * 12]): "duplicate_ngrams",
        "\n\n".join(["\n".join(lines)] * 3): "duplicate_lines",
        "대출 상담 지금 바로 " * 30: "top_ngram",
        " ".join(f"#{word}" for line in lines for word in line.split()): "symbols",
    }
    assert {text: drop and drop.reason for text in junk for drop in [judge(text, verse)]} == junk


def test_a_drop_tells_metric_value_and_limit() -> None:
    drop = judge("가을이 왔다.", Limits())
    assert drop is not None
    assert drop.rule == "7 characters < 100"


def test_hangul_share_counts_letters_only() -> None:
    assert hangul_share("가나ab 12!? ㅋ") == pytest.approx(3 / 5)
    assert hangul_share("漢字 한글") == pytest.approx(0.5)
    assert hangul_share("123 !!") == 0


@settings(max_examples=80)
@given(st.text(st.sampled_from("가나다 라\n.…#-a1"), max_size=300))
def test_extreme_limits_let_everything_pass_and_no_filter_fails(text: str) -> None:
    assert judge(text, PASS_ALL) is None
    for one in FILTERS:
        one(Parts(text), Limits())


def test_a_share_above_one_is_refused() -> None:
    with pytest.raises(ValidationError, match="max_bullet_lines"):
        Limits(max_bullet_lines=1.5)


@settings(max_examples=40)
@given(st.lists(st.sampled_from(["가", "나다", "라마바", "사", "아자"]), min_size=10, max_size=80))
def test_bounds_of_ngrams_are_never_below_what_they_cover(words: list[str]) -> None:
    numbers = {word: number for number, word in enumerate(dict.fromkeys(words))}
    ids = np.array([numbers[word] for word in words], dtype=np.uint64)
    lengths = np.array([len(word) for word in words], dtype=np.int64)
    most, seen_before = ngram_bounds(Parts(" ".join(words)).word_hashes, lengths)
    assert all(top_ngram_characters(ids, lengths, n) <= n * most for n in range(2, 5))
    assert all(duplicate_characters(ids, lengths, n) <= seen_before for n in range(5, 11))
    assert most == max(words.count(word) * len(word) for word in words)


@given(st.text(st.sampled_from("가나aé1.😀𐐀\ud800 \n\t\u3000")))
def test_words_are_those_between_white_space(text: str) -> None:
    parts = Parts(text)
    assert parts.word_count == len(text.split())
    assert parts.lengths.tolist() == [len(word) for word in text.split()]


_MATHEMATICS = "\n".join(
    f"{n} + {n + 1} = {2 * n + 1} 이므로 {n} 을 {n + 1} 에 더한 값은 {2 * n + 1} 이고, 이것은 2 x {n} + 1 과 같다."
    for n in range(12)
)


def test_mathematical_prose_is_no_table_of_numbers() -> None:
    words = _MATHEMATICS.split()
    assert sum(any(map(str.isalpha, word)) for word in words) / len(words) < 0.7
    off = {"max_top_ngrams": (1, 1, 1), "max_duplicate_ngrams": (1,) * 6}
    assert reason(_MATHEMATICS, **off) is None
    rows = "\n".join(" ".join(str(n * k) for k in range(2, 12)) for n in range(3, 40))
    assert reason(f"다음은 곱셈표이다.\n{rows}") == "number_words"


@pytest.mark.parametrize("text", ["#{} 것을 #{} 것이 #{} 것과", "{}…  {}… {}…"])
def test_three_symbols_are_no_spam_in_a_short_text(text: str) -> None:
    words = "도서관이 방앗간에서", "사다리도 우산도 악기까지", "열두 명쯤이"
    assert reason(text.format(*words) + " 나무가 자란다", min_characters=10) is None
    assert reason(f"{text.format(*words)} {text.format(*words)}", min_characters=10) == "symbols"


def test_the_dots_of_a_table_of_contents_are_no_ellipses() -> None:
    contents = [("봄", 7), ("여름", 31), ("가을", 58), ("겨울", 91), ("다시 봄", 120), ("끝", 144)]
    assert reason(" ".join(f"제{n}장 {name} … {page}" for n, (name, page) in enumerate(contents)), min_characters=10) is None
    assert (
        reason(" ".join(f"제{n}장 {name}이… {page}" for n, (name, page) in enumerate(contents)), min_characters=10) == "symbols"
    )
