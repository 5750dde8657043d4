from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from korealbert.corpus.clean import news
from korealbert.corpus.clean.news import NewsRules, Rule
from korealbert.corpus.normalise import normalise
from tests.corpus.documents_made import GOLDEN, RULES, json_lines
from tests.work import linear_work

NEWS = NewsRules(RULES / "news.toml")
BODY = "첫 문장은 여기에 있다.\n둘째 문장도 여기에 있다.\n셋째 문장까지 여기에 있다.\n"
"""Put above the examples of tail rules, so that these are not in the head zone."""


def body_of(rule: Rule) -> str:
    return BODY if rule.zones == ("tail",) else ""


POSITIVE = [pytest.param(rule, example, id=f"{rule.id}-{i}") for rule in NEWS.rules for i, example in enumerate(rule.positive)]
NEGATIVE = [pytest.param(rule, example, id=f"{rule.id}-{i}") for rule in NEWS.rules for i, example in enumerate(rule.negative)]
GOLDEN_RULES = json_lines(GOLDEN / "rules.jsonl")


@pytest.mark.parametrize(("rule", "example"), POSITIVE)
def test_positive_examples_of_the_rules_file(rule: Rule, example: dict[str, str]) -> None:
    cleaned = NEWS.clean(normalise(body_of(rule) + example["text"]).text, example.get("outlet", ""))
    assert cleaned.text == normalise(body_of(rule) + example.get("clean", "")).text
    assert rule.id in {removal.rule for removal in cleaned.removals}


@pytest.mark.parametrize(("rule", "example"), NEGATIVE)
def test_negative_examples_of_the_rules_file(rule: Rule, example: str) -> None:
    text = normalise(body_of(rule) + example).text
    assert NEWS.clean(text).text == text


def test_every_rule_has_examples() -> None:
    assert [rule.id for rule in NEWS.rules if not rule.positive or not rule.negative] == []


@pytest.mark.parametrize("case", GOLDEN_RULES, ids=lambda case: f"{case['rule']}-{case['kind']}")
def test_golden_constructs(case: dict[str, Any]) -> None:
    text = normalise(case["text"]).text
    cleaned = NEWS.clean(text, case["outlet"])
    assert cleaned.text == case["expected"]
    assert cleaned.restored() == text
    assert NEWS.clean(cleaned.text, case["outlet"]).removals == ()


LINES = st.lists(
    st.one_of(
        st.sampled_from([example["text"] for rule in NEWS.rules for example in rule.positive]),
        st.sampled_from([example for rule in NEWS.rules for example in rule.negative]),
        st.sampled_from(["가을이 왔다.", "", "그는 “바람이 분다”라고 말했다.", "물가 전망", "홍길동", "[", "▶", "ⓒ", "hong@"]),
        st.text(st.sampled_from("가나다 홍길동기자=[]()ⓒ▶.@a\n사진"), max_size=25),
    ),
    max_size=9,
).map(lambda lines: normalise("\n".join(lines)).text)


@settings(max_examples=150)
@given(LINES)
def test_log_and_output_give_back_the_input_and_a_second_run_changes_nothing(text: str) -> None:
    cleaned = NEWS.clean(text)
    assert cleaned.restored() == text
    assert NEWS.clean(cleaned.text).removals == ()
    assert normalise(cleaned.text).text == cleaned.text


def is_subsequence(short: str, long: str) -> bool:
    rest = iter(long)
    return all(character in rest for character in short)


@settings(max_examples=80)
@given(LINES)
def test_nothing_is_added_and_no_full_sentence_goes_without_a_rule_that_may(text: str) -> None:
    cleaned = NEWS.clean(text)
    assert is_subsequence(cleaned.text, text)
    may = {rule.id for rule in NEWS.rules if rule.sentences}
    for removal in cleaned.removals:
        lines = removal.text.split("\n")
        sentences = [piece for line in lines for piece in line.split(".")[:-1] if len(piece) >= 30 and piece[-1] in "다요"]
        assert not sentences or removal.rule in may


@pytest.mark.parametrize("zone", ["middle", "tail"])
def test_meta_text_counts_only_in_its_zone(zone: str) -> None:
    tag = "홍길동 기자"
    lines = [f"{number}번째 문장은 여기에 있다." for number in range(8)]
    text = "\n".join([*lines[:6], tag, *lines[6:]] if zone == "middle" else [*lines, tag])
    assert (NEWS.clean(text).text == text) is (zone == "middle")


def test_blanks_behind_a_line_are_no_part_of_it() -> None:
    text = "가을이 왔다.\n\n프놈펜=홍길동 기자 "
    assert NEWS.clean(text).text == "가을이 왔다."
    assert NEWS.clean(text).restored() == text


def test_bylines_below_many_sub_headlines_are_in_the_head() -> None:
    heads = "마을에 온 봄\n우체국이 다시 문 열어\n주민 모두 모였다\n오는 사람 세 배로"
    assert NEWS.clean(f"{heads}\n\n[한빛신문 홍길동 기자] 가을이 왔다.").text == f"{heads}\n\n가을이 왔다."


def test_an_outlet_rule_is_for_that_outlet_alone(tmp_path: Path) -> None:
    path = tmp_path / "news.toml"
    path.write_text("[[rule]]\nid='X'\nzones=['tail']\ntake='line'\npattern='끝말'\noutlets=['가나신문']", "utf-8")
    rules = NewsRules(path)
    assert rules.clean("가을이 왔다.\n끝말", "가나신문").text == "가을이 왔다."
    assert rules.clean("가을이 왔다.\n끝말", "다라신문").text == "가을이 왔다.\n끝말"


def test_a_rule_is_tried_only_on_lines_with_its_words(tmp_path: Path) -> None:
    path = tmp_path / "news.toml"
    path.write_text("[[rule]]\nid='X'\nzones=['any']\ntake='line'\npattern='[^\\n]말'\ncontains=['끝', '첫']", "utf-8")
    assert NewsRules(path).clean("첫말\n가을이 왔다.\n밤말\n끝말\n그렇게 말했다.").text == "가을이 왔다.\n밤말\n그렇게 말했다."


@pytest.fixture(scope="module")
def without_words(tmp_path_factory: pytest.TempPathFactory) -> NewsRules:
    """The rules, tried on all lines."""
    path = tmp_path_factory.mktemp("rules") / "news.toml"
    path.write_text(re.sub("(?m)^contains = .*$", "", (RULES / "news.toml").read_text("utf-8")), "utf-8")
    return NewsRules(path)


@pytest.mark.parametrize(("rule", "example"), POSITIVE)
def test_examples_are_the_same_if_rules_are_tried_on_all_lines(
    rule: Rule, example: dict[str, str], without_words: NewsRules
) -> None:
    text, outlet = normalise(body_of(rule) + example["text"]).text, example.get("outlet", "")
    assert without_words.clean(text, outlet) == NEWS.clean(text, outlet)


@settings(max_examples=100)
@given(LINES)
def test_texts_are_the_same_if_rules_are_tried_on_all_lines(without_words: NewsRules, text: str) -> None:
    assert without_words.clean(text) == NEWS.clean(text)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[[rule]]\nid='X'\nzones=['head']\ntake='line'\npattern='{NOBODY}'", "rule X: no macro NOBODY"),
        ("[[rule]]\nid='X'\nzones=['head']\ntake='line'\npattern='(가'", "rule X: not a regular expression"),
        ("[[rule]]\nid='X'\nzones=['foot']\ntake='line'\npattern='가'", "rule.0.zones.0"),
        ("[[rule]\n", "not a rules file"),
        ("rule = " + "[" * 5_000, "not a rules file"),
        ("[[rule]]\nid='X'\nzones=['head']\ntake='line'\npattern='가{99999999999}'", "rule X: not a regular expression"),
        ("[[rule]]\nid='X'\nzones=[]\ntake='line'\npattern='가'", "rule.0.zones"),
    ],
)
def test_an_invalid_rules_file_is_named_with_its_rule(content: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "news.toml"
    path.write_text(content, "utf-8")
    with pytest.raises(ValueError, match=message) as caught:
        NewsRules(path)
    assert str(path) in str(caught.value)


def test_a_rules_file_may_begin_with_a_byte_order_mark(tmp_path: Path) -> None:
    path = tmp_path / "news.toml"
    path.write_text("\ufeff[[rule]]\nid='X'\nzones=['head']\ntake='line'\npattern='가'", "utf-8")
    assert NewsRules(path).clean("가\n나").text == "나"


@pytest.mark.parametrize(
    "unit",
    ["전문 기자 ", "ⓒ", "▶가 ", "김철수·이영희·", "가 ", "[", "서울=부산=", "입력 2019.12.31 ", "사진=사진 제공 ", "- ", "-"],
)
def test_repetitive_input_takes_no_longer(unit: str) -> None:
    with linear_work():
        for text in (
            unit * 2_000,
            "첫째다.\n둘째다.\n셋째다.\n넷째다. " + unit * 20,
            BODY + unit * 80 + "가",
            (unit * 13 + "\n") * 10,
        ):
            NEWS.clean(normalise(text).text)


@settings(max_examples=100)
@given(LINES, LINES)
def test_looking_only_at_what_a_removal_changed_finds_the_same(text: str, more: str) -> None:
    text = normalise(f"{text}\n{BODY * 4}{more}").text
    found = NEWS.clean(text)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(news._OpenParts, "of", lambda self, rule, view, lines: range(len(lines)))
        assert NEWS.clean(text) == found


def test_headlines_go_once_the_caption_below_them_is_gone() -> None:
    """The heading is far above the caption, which as a full sentence kept the headlines."""
    headlines = "".join(f"나루에 온 봄 {number}\n" for number in range(12))
    caption = "홍길동 시장이 5일 나루시 강변에서 열린 새 나루 잔치에 와서 사람들에게 손을 흔들며 인사하고 있다. /연합뉴스\n"
    prose = "가을이 온 들에는 두루미가 떼를 지어 내려앉아 사람을 불러 모은다."
    assert NEWS.clean(f"{BODY}관련 기사\n{headlines}{caption}{prose}").text == f"{BODY}{prose}"


@pytest.mark.parametrize(
    "line", ["홍길동 기자", "홍길동 기자 hong@press.example", "가을이 왔다. 사진=나루 DB", "[홍길동 기자] 가을이 왔다."]
)
def test_removals_do_not_take_longer_in_a_longer_text(line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    matched = NewsRules._matches
    calls = 0

    def counted(*arguments: Any) -> bool:
        nonlocal calls
        calls += 1
        return matched(*arguments)

    monkeypatch.setattr(NewsRules, "_matches", counted)
    body = "배가 떠났고 새도 떠났으며 사람도 떠난 날이었다.\n"
    NEWS.clean(f"{line}\n" * 50 + body * 50)
    short, calls = calls, 0
    NEWS.clean(f"{line}\n" * 50 + body * 1_000)
    assert calls < 4 * short + 50 * 1_000


@pytest.mark.real
def test_residue_on_real_articles(real_data: Path, tmp_path: Path) -> None:
    """Of 1,200 articles, fewer than 0.5 % may keep a byline, address or notice in head or tail (specification, section 1.3)."""
    import re
    import subprocess

    archive = real_data / "corpus" / "news_categories.tar.zst"
    subprocess.run(["tar", "--zstd", "-xf", str(archive), "-C", str(tmp_path)], check=True)
    tail = re.compile(
        r"[가-힣]{2,4} ?기자\s*(?:[\w.+-]+@[\w.-]*)?\s*[\])>]?$|[\w.+-]+@[\w-]+\.[\w.-]+\s*[\])>]?$"
        r"|무단 ?전재|재배포 ?금지|ⓒ|저작권자|^[▶☞▷★◎]",
        re.MULTILINE,
    )
    head = re.compile(r"^[\[(<【][^\])>】\n]{0,40}(?:기자|특파원|뉴시스|연합뉴스|뉴스1|앵커)[\])>】]", re.MULTILINE)
    articles = [path.read_text("utf-8").partition("\t") for path in sorted(tmp_path.rglob("*NewsData.txt"))]
    residue = 0
    for title, _, body in articles[::4]:
        cleaned = NEWS.clean(normalise(body or title).text)
        assert cleaned.restored() == normalise(body or title).text
        end = "\n".join(cleaned.text.split("\n")[-3:])
        residue += bool(tail.search(end) or head.search(cleaned.text))
    assert len(articles) == 1_200
    assert residue <= 0.005 * len(articles[::4]) + 1


def test_a_caption_behind_body_in_one_line_does_not_take_the_body() -> None:
    below = "가을이 온 들에는 두루미가 떼를 지어 내려앉아 사람을 불러 모은다."
    long = "한빛시는 지난달부터 낡은 나루터를 새로 짓고 있다. 사업비는 40억원이 든다."
    assert long in NEWS.clean(f"{below}\n{long} 시민들이 배를 띄우고 있다. (사진=뉴시스)\n{below}").text
    for credit in ("/연합뉴스", "AP 연합뉴스", "한빛시 제공", "2018.7.25/뉴스1"):
        line = f"{long} 주민들은 물길이 막힐까 걱정이 크다. 시장이 그들을 만났다. 나루터 전경. {credit}"
        assert long in NEWS.clean(f"{below}\n{line}\n{below}").text
