"""Namumark: options, counts of removed characters, and properties of any input."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given

from bench.mutations import SUBJECTS, fault, mutations
from korealbert.corpus.markup.namumark import extract_namumark
from korealbert.corpus.readers.spec import WikiOptions
from tests.corpus.markup.soup import NAMUMARK_PAIRS, mutated
from tests.work import linear_work

SAMPLE = Path(__file__).parents[3] / "data_specs" / "sample" / "namuwiki.json"
SAMPLES = [record["text"] for record in json.loads(SAMPLE.read_text("utf-8"))]
DEFAULT = WikiOptions()


def text_of(markup: str, **options: object) -> str:
    return extract_namumark(markup, WikiOptions.model_validate(options)).text


@pytest.mark.parametrize(
    ("options", "markup", "expected"),
    [
        (
            {"keep_tables": True},
            "앞의 글.\n||<-2><#fff> 가로 칸 || [[대상|둘째]] ||\n|| {{{#red 붉은}}} 칸 ||<|2> 넷째[br]다섯째 ||\n뒤의 글.",
            "앞의 글.\n\n가로 칸 둘째\n붉은 칸 넷째 다섯째\n\n뒤의 글.",
        ),
        ({"keep_strikethrough": True}, "강은 길다. ~~강은 짧다.~~ --강은 좁다.--", "강은 길다. 강은 짧다. 강은 좁다."),
        (
            {"keep_footnotes": True},
            "강은 길다.[* 재어 보았다.] 깊다.[*길이]\n강은 넓다.\n\n끝이다.",
            "강은 길다. 깊다.\n강은 넓다.\n재어 보았다.\n\n끝이다.",
        ),
        (
            {"keep_footnotes": True},
            "강은 길다.[* 재어 보았다.[* 자로[*가 긴 자로] 쟀다.] 두 번.] 깊다.[* [둘]과[* 셋]]\n\n끝이다.",
            "강은 길다. 깊다.\n재어 보았다. 두 번.\n자로 쟀다.\n긴 자로\n[둘]과\n셋\n\n끝이다.",
        ),
        ({"keep_footnotes": True}, "강은 길다.[* 하나[* 둘[* 셋[* 넷[* 다섯]]]]]", "강은 길다.\n하나\n둘\n셋\n넷\n다섯"),
        ({"keep_footnotes": True}, "강은 길다.[* 재어[br]보았다.] 깊다.", "강은 길다. 깊다.\n재어 보았다."),
        ({"keep_footnotes": True}, "[[한강[* 길이|너비]에서 [[강|물[* 속[* 하|나]]]]로", "한강에서 물로\n길이|너비\n속\n하|나"),
        ({"headings": False}, "강은 길다.\n== 이름 ==\n산은 높다.", "강은 길다.\n\n산은 높다."),
        ({"math_placeholder": "[수식]"}, "넓이는 [math(a^2)]와 $b$이다.", "넓이는 [수식]와 [수식]이다."),
        (
            {"dropped_sections": ["이름"]},
            "강은 길다.\n== 이름 ==\n산은 높다.\n== 각주 ==\n들은 넓다.",
            "강은 길다.\n\n각주\n들은 넓다.",
        ),
    ],
)
def test_options(options: dict[str, object], markup: str, expected: str) -> None:
    assert text_of(markup, **options) == expected


@pytest.mark.parametrize(
    ("markup", "expected"),
    [
        ("강은 길다. ([[https://a.kr|출처]])", "강은 길다."),
        ("강은 길다.[[https://a.kr|관련 기사]] [[https://b.kr|영상 2]]\n깊다.", "강은 길다.\n깊다."),
        ("강(출처: [[https://a.kr|기사]], [[https://b.kr|링크]])은 길다.", "강은 길다."),
        ("길다. [[https://a.kr|기사]]는 짧다. [[https://a.kr|기사]] 하나", "길다. 기사는 짧다. 기사 하나"),
        (
            "그가 쓴 [[https://a.kr|기사]]\n[[https://a.kr|영상]] [[강|자료]] 속의 강이 길게 흐른다.",
            "그가 쓴 기사\n영상 자료 속의 강이 길게 흐른다.",
        ),
        ("강은 길다. [[https://a.kr|영상]] [[https://b.kr|기사]] 그리고", "강은 길다. 영상 기사 그리고"),
        ("강은 길다. [[https://a.kr|영상]] [[https://b.kr|기사]]\n깊다.", "강은 길다.\n깊다."),
        ("강은 길다.[[https://a.kr|#]], [[https://b.kr|#]], [[https://c.kr|#]]\n깊다.", "강은 길다.\n깊다."),
        ("강은 길다. [[https://a.kr|#]], [[https://b.kr|#]] 깊다.", "강은 길다. 깊다."),
        (
            "강은 길다. 출처: [[https://a.kr|#]]\n원문보기: [[https://a.kr|#]]\n * 참조 : [[https://a.kr|[1]]]\n깊다.",
            "강은 길다.\n깊다.",
        ),
        ("서울[* 수도.], [age(1990-01-01)] 부산", "서울, 부산"),
        ("출처: 강의 역사 [[https://a.kr|#]]\n과일: [[https://a.kr|#]]\n * 사과", "출처: 강의 역사\n과일:\n사과"),
    ],
)
def test_a_link_that_says_no_more_than_that_it_is_a_source_goes(markup: str, expected: str) -> None:
    assert text_of(markup) == expected


@pytest.mark.parametrize(
    ("condition", "shown"),
    [
        *(("이름 == null", True), ("이름 != null", False), ("!이름", True), ("이름", False), ('이름 == "강"', False)),
        *(("이름 != '강'", True), ("(이름 == null) && 판 == 1", False), ("이름 != null || 판 == null", True)),
        *(
            ("null != 이름", False),
            ("null == 이름", True),
            ('"강" == 이름', False),
            ("이름 == 판", True),
            ("이름 != 판", False),
        ),
        *(("이름 == true", False), ("true != 이름", True), ("1 == 1", True), ("null == null", True)),
        *(
            ("이름.length > 3", True),
            ("true", True),
            ("", True),
            ("false", False),
            ("null", False),
            ("이름 == null && false", False),
        ),
    ],
)
def test_a_condition_shows_what_readers_of_the_article_see(condition: str, shown: bool) -> None:
    """Arguments have no value there."""
    markup = f"강은 길다.\n{{{{{{#!if {condition}\n[[산]]은 {{{{{{#red 높다}}}}}}.\n들은 넓다.\n}}}}}}\n물은 맑다."
    assert text_of(markup).split() == ["강은", "길다.", *(["산은", "높다.", "들은", "넓다."] if shown else []), "물은", "맑다."]
    assert extract_namumark(markup, DEFAULT).lost["condition"] > 0


def test_a_group_that_is_not_closed_loses_its_head_alone() -> None:
    for head, construct in (("#!if false", "condition"), ("#!syntax python", "code")):
        found = extract_namumark(f"강은 길다.\n{{{{{{{head}\n산은 높다.\n\n물은 맑다.", DEFAULT)
        assert found.text.split() == ["강은", "길다.", "산은", "높다.", "물은", "맑다."]
        assert found.lost[construct] == len(head) - len(head.split()[0])
    assert "산은 높다." in text_of("강은 길다.\n{{{#!html 산은 높다.\n물은 맑다.")


def test_what_is_lost_is_counted_once() -> None:
    lost = extract_namumark("강은 길다.[* 재면 [[파일:가.jpg]] 길다.] {{{#!syntax a\nb\n}}}\n## 주석\n|| 칸 ||\n", DEFAULT).lost
    assert lost["file"] == len("[[파일:가.jpg]]")
    assert lost["footnote"] == len("[* 재면  길다.]")
    assert lost["code"] == len("{{{#!syntax a\nb\n}}}")
    assert lost["comment"] == len("\n## 주석")


EVERYTHING = WikiOptions(keep_tables=True, keep_footnotes=True, keep_strikethrough=True)


def unaccounted(source: str, options: WikiOptions) -> int:
    """Count the characters that are neither in the text nor counted as lost: marks, link targets, blanks."""
    found = extract_namumark(source, options)
    assert all(count >= 0 for count in found.lost.values()), found.lost
    return len(source) - len(found.text) - sum(found.lost.values())


@pytest.mark.parametrize("options", [DEFAULT, EVERYTHING], ids=["default", "everything"])
def test_what_is_kept_and_lost_adds_up_to_the_source(options: WikiOptions) -> None:
    articles = [source for source in SAMPLES if len(source) > 300]
    for source in articles:
        assert -1 <= unaccounted(source, options) <= 0.3 * len(source), source[:80]
    assert len(articles) > 10


@pytest.mark.parametrize(
    ("construct", "markup"),
    [
        ("category", "[[분류:강]]"),
        ("code", "{{{#!syntax python\na = 1\n}}}"),
        ("comment", "\n## 숨은 줄"),
        ("file", "[[파일:강.jpg|width=3]]"),
        ("footnote", "[* 재어 보았다.]"),
        ("html", "{{{#!html <span style='color:red'></span>}}}"),
        ("link", "[[https://a.example/b]]"),
        ("macro", "[include(틀:강, 가=나)]"),
        ("math", "[math(a^2)]"),
        ("strikethrough", "~~짧다.~~"),
        ("table", "\n|| 가 || 나 ||"),
        ("url", "https://a.example/b"),
    ],
)
def test_each_construct_has_its_count(construct: str, markup: str) -> None:
    source = f"강은 길고도 길다. {markup}\n산은 높다."
    found = extract_namumark(source, WikiOptions(math_placeholder=""))
    assert found.text.split() == ["강은", "길고도", "길다.", "산은", "높다."]
    assert {name for name, count in found.lost.items() if count} == {construct}
    assert 0.5 * len(markup) < found.lost[construct] <= len(markup)


def test_a_footnote_or_link_that_never_closes_costs_its_line() -> None:
    markup = "강은 길다.[* 닫히지 않은 각주\n산은 높다.\n\n== 이름 ==\n[[파일:가.jpg|닫히지 않은 그림\n\n이름이 있다.]"
    assert text_of(markup) == "강은 길다.\n산은 높다.\n\n이름\n이름이 있다.]"


def test_double_bars_are_text_in_lines_that_are_no_rows() -> None:
    assert text_of("if (a || b)는 논리합이다.\n|| 가 || 나 ||\n * a||b이다.") == "if (a || b)는 논리합이다.\n\na||b이다."
    assert text_of("|| 가\n\n나 || 다 ||\n글이다.") == "나 다\n글이다."


def test_prices_are_no_formulas() -> None:
    assert text_of("값은 $5이고 다음 해에는 $7이 되었다.") == "값은 $5이고 다음 해에는 $7이 되었다."


@given(mutated(SAMPLES))
def test_damaged_documents_leave_no_marks_either(markup: str) -> None:
    text = text_of(markup.replace("{{{", "{{{#red "))  # without the prefix a group shows its marks
    assert not [pair for pair in NAMUMARK_PAIRS if pair in text]


@pytest.mark.parametrize(
    "opening", ["[[", "{{{#red ", "{{{", "[[가|", "[* ", "\n||", "[include(", "(", '{{{#!wiki style="a" ', "[*[["]
)
@pytest.mark.parametrize("closed", [False, True])
def test_ten_thousand_nested_constructs(opening: str, closed: bool) -> None:
    closers = {"[[": "]]", "{{{": "}}}", "[* ": "]", "\n||": "||\n", "[include(": ")]", "(": ")", "[*[[": "]]]"}
    closer = closers.get(opening, "}}}" if opening.startswith("{") else "]]") if closed else ""
    with linear_work():
        text_of(opening * 10_000 + "강이 흐른다." + closer * 10_000)


ADVERSARIAL = (
    *("{{{", "[[", "||", "\n||", "'''", "[*", ">", "\n>", "~~", "--", "[", "]]", "}}}", "[[[", "[[가|", "{{{#!wiki ", "[math("),
    *("<math>", "\\", "(", "\n|가|", "\n|| {{{", "$가", "&", "attachment:", "\n== 가", " ", "가"),
)


@pytest.mark.parametrize("options", [DEFAULT, EVERYTHING], ids=["default", "everything"])
@pytest.mark.parametrize("unit", ADVERSARIAL)
def test_twenty_thousand_of_one_mark_take_no_time(unit: str, options: WikiOptions) -> None:
    with linear_work():
        extract_namumark(unit * 20_000, options)


def test_damaged_documents_are_all_accounted_for() -> None:
    subject = SUBJECTS["namuwiki"]
    for source in mutations(SAMPLES, subject.marks, count=300, seed=7):
        assert fault(subject, source) == "", source


def test_a_table_may_begin_with_its_caption() -> None:
    assert text_of("앞의 글이다.\n|캡션이다|가 || 나 ||\n|| 다 || 라 ||\n뒤의 글이다.") == "앞의 글이다.\n\n뒤의 글이다."
    assert text_of("|캡션이다|가 || 나 ||", keep_tables=True) == "캡션이다 가 나"
    assert text_of("|가나|는 절댓값이다.\n뒤의 글이다.").startswith("|가나|는 절댓값이다.")


@pytest.mark.parametrize("mark", ["", "* ", " * ", "*"])
def test_pointers_to_other_documents_go(mark: str) -> None:
    assert text_of(f"{mark}상위 문서: [[나무]]\n뒤의 글이다.") == "뒤의 글이다."


@pytest.mark.parametrize(
    ("markup", "expected"),
    [
        (
            "== 등장인물 ==\n'''[[김철수]]'''\n주인공이다.\n'''[[박영희]]'''\n그의 친구다.",
            "등장인물\n김철수\n주인공이다.\n박영희\n그의 친구다.",
        ),
        ("== 도구 ==\n * [[파이참|PyCharm]]\n [[제트]] 사에서 만들었다.", "도구\nPyCharm\n제트 사에서 만들었다."),
        (" * [[https://a.kr/pycharm|PyCharm]]\n 큰 도구이다.", "PyCharm\n큰 도구이다."),
        ("[[강]]\n * 길다.\n * 깊다.", "강\n길다.\n깊다."),
        ("== 출연 ==\n * [[이병헌]]\n * [[김태리]]\n\n== 감독 ==\n[[봉준호]]", "출연\n이병헌\n김태리\n\n감독\n봉준호"),
        ("== 출연 ==\n[[이병헌]], [[김태리]]\n[[유연석]]", "출연\n이병헌, 김태리\n유연석"),
        ("회원은 다음과 같다.\n\n * [[김철수]]\n * [[박영희]]", "회원은 다음과 같다.\n\n김철수\n박영희"),
        (
            "[[가람]]에서 살았다. [[https://a.kr|가람에서 사는 사람이 쓴 긴 글 (2014년)]]",
            "가람에서 살았다. 가람에서 사는 사람이 쓴 긴 글 (2014년)",
        ),
        (
            "강은 길다.\n * [[https://a.kr|가람에서 사는 사람이 아주 길게 쓴 글]]\n"
            " * [[https://b.kr|또 다른 사람이 길게 쓴 글]]: 좋은 글이다.",
            "강은 길다.\n또 다른 사람이 길게 쓴 글: 좋은 글이다.",
        ),
    ],
)
def test_a_link_alone_in_its_line_may_be_a_heading_or_a_name(markup: str, expected: str) -> None:
    assert text_of(markup) == expected


@pytest.mark.parametrize(
    ("markup", "expected"),
    [
        ("[[한국 리그]] [[가람 곰들]] 소속 [[투수]].\n\n그는 크다.", "한국 리그 가람 곰들 소속 투수.\n\n그는 크다."),
        ("[[대한민국]]의 [[배우]].\n\n== 삶 ==\n길다.", "대한민국의 배우.\n\n삶\n길다."),
        (
            "== 멤버 ==\n팀원은 셋이다.\n\n[[홍길동]], [[김철수]], [[이영희]]",
            "멤버\n팀원은 셋이다.\n\n홍길동, 김철수, 이영희",
        ),
        (
            "== 논란 ==\n * [[https://a.kr|홍길동이 표절했다고 인정했다.]]\n * [[https://b.kr|김철수도 사과했다.]]",
            "논란\n홍길동이 표절했다고 인정했다.\n김철수도 사과했다.",
        ),
        ('그는 [[https://a.kr|"나는 간다"라고 말했다.]]', '그는 "나는 간다"라고 말했다.'),
        ("[[자바|Java]]다. [[아주 긴 이름의 언어]]", "Java다. 아주 긴 이름의 언어"),
        ("상세 내용: 그는 서울에서 태어나 부산에서 자랐다.", "상세 내용: 그는 서울에서 태어나 부산에서 자랐다."),
        ("* 관련 내용: 그는 [[서울]]에서 태어나 자람", "관련 내용: 그는 서울에서 태어나 자람"),
    ],
)
def test_sentences_definitions_and_names_of_links_stay(markup: str, expected: str) -> None:
    assert text_of(markup) == expected


@pytest.mark.parametrize(
    "links",
    [
        "자세한 내용: [[강]] 문서를 참고하면 된다.\n",
        "* 관련 항목: [[강]], [[산]] 등\n",
        "[[가람에 사는 사람의 기나긴 역사]] 참고.\n\n",
        "[[https://a.kr|가람은 왜 느릴까?]]\n\n",
        "[[https://a.kr|공식 홈페이지]].\n\n",
        " * [[강]]\n * [[산]]\n\n",  # before all text
        "[[강 1화|← 이전 화]] | [[강 3화|다음 화 →]]\n",
        "[[강 1화|← 이전 화]]\n",
        "[[대문]] / [[역사]] / [[인물]]\n",
        "[[가]] > [[나]] > [[다]]\n",
        "[[서울|메인으로 돌아가기]]\n",
        "[[분류:서울]]\n[[나무위키/틀|틀 문서로]]\n",
        "== 확장 ==\n[[https://a.kr|홈페이지]]\n[[https://b.kr|여기서 해 보는 곳]]\n\n",
        "== 확장 ==\n[[https://a.kr|공식 홈페이지]]\n",
        "== 역사 ==\n[[가람시/역사]]\n\n",
        "== 역사 ==\n[[/역사]]\n\n",
        "== 둘러보기 ==\n * [[강]]\n * [[산]]\n=== 그 밖에 ===\n * [[들]]\n== 글 ==\n",
        "== 관련 사이트 ==\n * [[강]]\n\n== 글 ==\n",
    ],
)
def test_links_that_lead_elsewhere_go(links: str) -> None:
    text = text_of(f"{links}글이 이어진다.")
    assert text.removeprefix("확장\n").removeprefix("역사\n").removeprefix("글\n") == "글이 이어진다."
