"""Wikitext: options, counts of removed characters, and properties of any input."""

from __future__ import annotations

import html
import re
from pathlib import Path

import pytest
from hypothesis import given

from korealbert.corpus.markup.wikitext import extract_wikitext
from korealbert.corpus.readers.spec import WikiOptions
from tests.corpus.extracting import extract
from tests.corpus.markup.soup import PAIRS, mutated
from tests.work import linear_work

SAMPLE = Path(__file__).parents[3] / "data_specs" / "sample" / "mediawiki.xml"
SAMPLES = [html.unescape(text) for text in re.findall(r"<text[^>]*>([^<]+)</text>", SAMPLE.read_text("utf-8"))]
DEFAULT = WikiOptions()


def text_of(markup: str, **options: object) -> str:
    return extract_wikitext(markup, WikiOptions.model_validate(options)).text


def test_documents_carry_address_and_revision_time(tmp_path: Path, sample_dir: Path) -> None:
    first = extract(tmp_path, sample_dir / "mediawiki.xml", format="mediawiki").documents[0]
    assert (first.title, first.url, first.published) == (
        "한글",
        "https://ko.wiki.example/wiki?curid=1001",
        "2019-01-01T00:00:00Z",
    )


@pytest.mark.parametrize(
    ("options", "markup", "expected"),
    [
        (
            {"keep_tables": True},
            "앞.\n{| class=x\n|+ 제목\n! 가 !! 나\n|-\n| style=a | 하나 || [[둘]]\n| 셋\n|}\n뒤.",
            "앞.\n제목 가 나\n하나 둘 셋\n\n뒤.",
        ),
        ({"keep_strikethrough": True}, "길다. <s>짧다.</s> <del>좁다.</del>", "길다. 짧다. 좁다."),
        (
            {"keep_footnotes": True},
            "길다.<ref>재었다.</ref> 깊다.<ref>{{책}}</ref>\n넓다.\n\n끝.",
            "길다. 깊다.\n넓다.\n재었다.\n\n끝.",
        ),
        (
            {"keep_tables": True},
            "{|\n| 하나<br>둘 || 셋<div>넷</div>\n다섯<br />여섯\n|-\n| 끝\n|}",
            "하나 둘 셋 넷 다섯 여섯\n끝",
        ),
        ({"keep_footnotes": True}, "길다.<ref>재어<br>보<p>았다.</ref> 깊다.", "길다. 깊다.\n재어 보 았다."),
        ({"keep_footnotes": True}, "{{인용문|길다.<ref>가|나</ref>|저자}}", "길다.\n가|나"),
        ({"keep_footnotes": True}, "[[강<ref>[[가|나]]|{{lang|en|a}}</ref>]]은 길다.", "강은 길다.\n나|a"),
        ({}, "수열 ''a''<sub>''n''</sub>과 ''b''{{아래첨자|''m''}}의 극한", "수열 an과 bm의 극한"),
        ({}, "<span>''가''</span><span>''나''</span>와 ''다''<nowiki/>''라''", "가나와 다라"),
        ({}, "L''''Amour'''와 '''''둘 다'''''", "L'Amour와 둘 다"),
        ({"headings": False}, "길다.\n== 이름 ==\n짧다.", "길다.\n\n짧다."),
        ({"math_placeholder": "[수식]"}, "넓이는 <math>a^2</math>이다.", "넓이는 [수식]이다."),
        ({"dropped_sections": ["이름"]}, "길다.\n== 이름 ==\n짧다.\n== 각주 ==\n깊다.", "길다.\n\n각주\n깊다."),
        ({}, "길다.\n== 참고문헌 ==\n책.\n== 외부링크 ==\n글.", "길다."),
        ({}, "다{{music|sharp}}단조와 {{윗주|漢字|한자}}, {{sharp}}이다.", "다♯단조와 漢字, ♯이다."),
        ({}, "<syntaxhighlight lang=c inline>a = [[b]]</syntaxhighlight>이다. <source>c</source>끝.", "a = [[b]]이다. 끝."),
        ({}, "* {{fb|KOR}} 3 - 0 {{fb-rt|JPN}}\n{{ruw|FRA}}가 이겼다.", "대한민국 3 - 0 일본\n프랑스가 이겼다."),
        ({}, "강<phonos ipa='a' />은 <phonos>길다</phonos>.", "강은 길다."),
        ({}, "강은 길다. {{가}}. {{나}}. 산은 높다. {{가}}.", "강은 길다. 산은 높다."),
        ({"inline_templates": {"별표": 2}}, "값은 {{별표|1|2}}이다.", "값은 2이다."),
        ({"inline_templates": {"별": "{1}[ ({수})]"}}, "값은 {{별|가|수=3}}, {{별|나}}이다.", "값은 가 (3), 나이다."),
    ],
)
def test_options(options: dict[str, object], markup: str, expected: str) -> None:
    assert text_of(markup, **options) == expected


def test_what_is_lost_is_counted_once() -> None:
    markup = "강[[파일:가.jpg|섬네일|{{속}}]]{{틀|{{속|[[파일:나]]}}}}은<ref>책</ref> {{lang|en|long}}.\n{|\n| {{속}}\n|}\n"
    lost = extract_wikitext(markup, DEFAULT).lost
    assert lost["file"] == len("[[파일:가.jpg|섬네일|]]") + len("[[파일:나]]")
    assert lost["template"] == 2 * len("{{속}}") + len("{{틀|{{속|}}}}") + len("{{lang|en|}}")
    assert lost["table"] == len("\n{|\n| \n|}") - 1
    assert lost["footnote"] == len("<ref>책</ref>")


@given(mutated([text for text in SAMPLES if "<nowiki>" not in text]))  # which shows marks
def test_damaged_documents_leave_no_marks_either(markup: str) -> None:
    text = text_of(markup)
    assert not [pair for pair in PAIRS if pair in text]


@pytest.mark.parametrize(
    "opening", ["[[", "{{", "{{{", "[[가|", "{{lang|en|", "\n{|\n|", "<ref>", "<s>", "(", "[https://", "{{틀|[["]
)
@pytest.mark.parametrize("closed", [False, True])
def test_ten_thousand_nested_constructs(opening: str, closed: bool) -> None:
    closers = {"[[": "]]", "{{": "}}", "{{{": "}}}", "\n{|\n|": "\n|}", "<ref>": "</ref>", "<s>": "</s>", "(": ")"}
    closer = closers.get(opening, {"[": "]]", "{": "}}"}.get(opening[0], "")) if closed else ""
    with linear_work():
        text_of(opening * 10_000 + "강이 흐른다." + closer * 10_000)


def test_units_keep_their_exponents() -> None:
    assert text_of("넓이는 605 {{단위|km|2}}이다.") == "넓이는 605 km²이다."


@pytest.mark.parametrize(
    ("construct", "markup"),
    [
        ("template", "{{출처|날짜=2019-01-01}}"),
        ("template", "{{상자|{{속|둘}}|셋}}"),
        ("table", "\n{|\n| 하나 || 둘\n|}"),
        ("footnote", "<ref>책, 3쪽</ref>"),
        ("footnote", '<ref name="책" />'),
        ("footnote", "<ref>{{책|제목=<b>강</b>}}</ref>"),
        ("comment", "<!-- [[숨은 글]] -->"),
        ("file", "[[파일:강.jpg|섬네일|오른쪽|[[강]]]]"),
        ("category", "[[분류:강]]"),
        ("interwiki", "[[en:River]]"),
        ("math", "<math>a^2</math>"),
        ("code", "<pre>a = b</pre>"),
        ("media", "<gallery>\n파일:강.jpg\n</gallery>"),
        ("strikethrough", "<s>지운 글</s>"),
        ("link", "[[강 (지형)|"),
        ("inline", "'''"),
    ],
)
def test_each_construct_is_counted_whole(construct: str, markup: str) -> None:
    shown, closer = ("", "") if construct not in ("link", "inline") else ("글", {"link": "]]", "inline": "'''"}[construct])
    source = f"강은 길다. {markup}{shown}{closer} 산은 높다.\n"
    lost = extract_wikitext(source, WikiOptions(math_placeholder="")).lost
    around = {"[[강]]": len("[[]]")}.get("[[강]]" if "[[강]]" in markup else "", 0)  # the link within counts as a link
    assert abs(lost[construct] - (len(markup + closer) - around)) <= 1  # a table leaves its line feed


@given(mutated(SAMPLES))
def test_no_construct_is_counted_twice(markup: str) -> None:
    extracted = extract_wikitext(markup, DEFAULT)
    assert sum(extracted.lost.values()) + len(extracted.text) <= len(markup)
