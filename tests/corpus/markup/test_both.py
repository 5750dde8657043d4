"""Properties of both wiki markups: golden tables of constructs, golden documents, and what is true of any text."""

from __future__ import annotations

import json
import sys
import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import Literal, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from korealbert.corpus.markup.layout import WikiText, prepare
from korealbert.corpus.markup.namumark import extract_namumark
from korealbert.corpus.markup.wikitext import extract_wikitext
from korealbert.corpus.readers.spec import WikiOptions
from tests.corpus import extracting
from tests.corpus.markup.soup import NAMUMARK, NAMUMARK_PAIRS, PAIRS, WIKITEXT, calls, plain_text, soup
from tests.work import linear_work

Extractor = Callable[[str, WikiOptions], WikiText]
DEFAULT = WikiOptions()


class Markup(NamedTuple):
    extract: Extractor
    marks: tuple[str, ...]
    pairs: tuple[str, ...]
    wrappers: dict[str, bool]
    """Constructs around a word, and whether it is shown within them."""

    def text_of(self, source: str, **options: object) -> str:
        return self.extract(source, WikiOptions.model_validate(options)).text


WIKITEXT_WRAPPERS = {
    "[[{}]]": True,
    "[[대상|{}]]": True,
    "'''{}'''": True,
    "{{{{lang|en|{}}}}}": True,
    "<small>{}</small>": True,
    "[https://a.example {}]": True,
    "({})": True,
    "<ref>{}</ref>": False,
    "{{{{틀|{}}}}}": False,
    "[[파일:가.jpg|섬네일|{}]]": False,
    "<!-- {} -->": False,
    "<s>{}</s>": False,
}
NAMUMARK_WRAPPERS = {
    "[[{}]]": True,
    "[[대상|{}]]": True,
    "'''{}'''": True,
    "__{}__": True,
    "{{{{{{#red {}}}}}}}": True,
    "{{{{{{+2 {}}}}}}}": True,
    "({})": True,
    "[* {}]": False,
    "[[파일:가.jpg|{}]]": False,
    "[include(틀:가, 나={})]": False,
    "~~{}~~": False,
}
MARKUPS = [
    Markup(extract_wikitext, WIKITEXT, PAIRS, WIKITEXT_WRAPPERS),
    Markup(extract_namumark, NAMUMARK, NAMUMARK_PAIRS, NAMUMARK_WRAPPERS),
]
EACH = pytest.mark.parametrize("markup", MARKUPS, ids=["wikitext", "namumark"])
BOTH = pytest.mark.parametrize("extract", [extract_wikitext, extract_namumark])
GOLDEN = Path(__file__).parents[2] / "golden"


def golden(path: str) -> list[dict[str, str]]:
    return [json.loads(line) for line in (GOLDEN / path).read_text("utf-8").splitlines()]


@pytest.mark.parametrize(
    ("extract", "case"),
    [(extract_wikitext, case) for case in golden("wiki/constructs.jsonl")]
    + [(extract_namumark, case) for case in golden("namuwiki/constructs.jsonl")],
    ids=lambda value: value["name"] if isinstance(value, dict) else value.__name__,
)
def test_construct(extract: Extractor, case: dict[str, str]) -> None:
    assert extract(case["markup"], DEFAULT).text == case["expected"]


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("책 《{}》과 「 {} 」 그리고 글", "책 그리고 글"),
        ("나루(만 {}세)는 배우이다.", "나루는 배우이다."),
        ("나루({}세, 1980년생)는 배우이다.", "나루(1980년생)는 배우이다."),
        ("사과, {}. 배", "사과. 배"),
        ("사과·{}·배이다.", "사과·배이다."),
        ("사과 · {} · 배이다.", "사과 · 배이다."),
        ("사과, {} · {} · 배이다.", "사과 · 배이다."),
        ("사과 / {} / 배 ㆍ {} ㆍ 귤 → {} → 감", "사과 / 배 ㆍ 귤 → 감"),
        ("사과、{}、배", "사과、배"),
        ("{} · 사과 · {}", "사과"),
        ("과일: {} / 사과 ({} · 배), 귤(감 / {})", "과일: 사과 (배), 귤(감)"),
        ("점수({}/10)와 (8/{})", "점수(/10)와 (8/)"),
        ("가, {} 개, 나", "가, 개, 나"),
        ("강 - {} - 산 | {} | 들 – {}", "강 - 산 | 들"),
        ("{} - 바다 (나무 - {}). 길이: {} - 높이.", "바다 (나무). 길이: 높이."),
        ("1990년 - {}, 영하 {} -5도, {}-2", "1990년, 영하 -5도, -2"),
        ("(1990년 – {})", "(1990년 –)"),
        ("많다(약 {}), 넓다(총 {}명, 약 {} km), 약 {}", "많다, 넓다, 약"),
        ("노래 '{}' (\"{}\") 끝", "노래 끝"),
        ("'가' {} '나' \"다\"{} \"라\"", "'가' '나' \"다\" \"라\""),
        ("파일 형식, {}.hwp, 가", "파일 형식, .hwp, 가"),
        ('"가자" {} "오자"', '"가자" "오자"'),
        ("강（{}）과 산（높이）", "강과 산（높이）"),
        ("빈 괄호 《》와 []", "빈 괄호 《》와 []"),
    ],
)
@pytest.mark.parametrize(("extract", "removed"), [(extract_wikitext, "{{없는 틀}}"), (extract_namumark, "[age(1980-01-01)]")])
def test_nothing_stands_around_removed_markup_alone(extract: Extractor, removed: str, source: str, text: str) -> None:
    assert extract(source.replace("{}", removed), DEFAULT).text == text


@pytest.mark.parametrize(("dump", "folder"), [("mediawiki.xml", "wiki"), ("namuwiki.json", "namuwiki")])
def test_the_sample_dump(dump: str, folder: str, tmp_path: Path, sample_dir: Path) -> None:
    found = extracting.extract(tmp_path, sample_dir / dump, format=Path(dump).stem)
    kept = {document.title: document.text for document in found.documents}
    dropped = {document.title: drop.reason for document, drop in found.dropped}
    for case in golden(f"{folder}/expected.jsonl"):
        if "drop" in case:
            assert dropped.pop(case["title"]) == case["drop"], case["title"]
        else:
            assert kept.pop(case["title"]) == case["text"], case["title"]
    assert (kept, dropped, found.quarantined) == ({}, {}, [])


AMOUNTS = [
    ("강은 길다. 길이는 약 {}이다.", "강은 길다."),
    ("해발 {} m의 산이다. 높이 {}m, 너비 {} m의 벽이 있다.", "산이다. 벽이 있다."),
    ("인구는 {}이며, 면적은 {} km²이다. 강이 흐른다.", "강이 흐른다."),
    ("강은 시속 {} km로 흐르고, 북위 {}, 동경 {}에서 약 {} 떨어져 있다.", "강은 흐르고, 떨어져 있다."),
    ("그는 제{}대 시장이며, 총 {}명의 일꾼과 약 {} 동안 일했다.", "그는 시장이며, 일꾼과 일했다."),
    ("그것만 {}이다. 약 {} 3개이다. 영하 {} -5도이다.", "그것만 이다. 약 3개이다. 영하 -5도이다."),
]


@pytest.mark.parametrize(("source", "text"), AMOUNTS)
@pytest.mark.parametrize(("extract", "removed"), [(extract_wikitext, "{{없는 틀}}"), (extract_namumark, "[age(1980-01-01)]")])
def test_an_amount_goes_with_its_number(extract: Extractor, removed: str, source: str, text: str) -> None:
    """What says that a number follows, and its unit, are no sentence without it; a footnote stands next to its word."""
    assert extract(source.replace("{}", removed), DEFAULT).text == text
    assert (
        extract_wikitext("약<ref>가</ref>의 효능과 폭<ref>가</ref>이 넓은 강이다.", DEFAULT).text
        == "약의 효능과 폭이 넓은 강이다."
    )


@BOTH
@pytest.mark.parametrize("before", ["", " \n", "\ufeff"])
@pytest.mark.parametrize("form", ["NFC", "NFD"])
def test_a_redirect_in_any_form(extract: Extractor, form: Literal["NFC", "NFD"], before: str) -> None:
    assert extract(before + unicodedata.normalize(form, "#넘겨주기 [[나루]]"), DEFAULT).redirect


@BOTH
@pytest.mark.parametrize(
    ("address", "rest"),
    [
        ("https://ko.wikipedia.org/wiki/서울", " 이다."),
        ("https://ko.wikipedia.org/wiki/서울_(도시)", " 이다."),
        ("https://a.kr/wiki/분류:서울?가=나.다", ". 끝이다."),
        ("https://a.kr/?q=서울", " 이다."),
        ("https://a.kr", "에서 본다."),
        ("https://a.kr/", "에서 본다."),
    ],
)
def test_an_address_goes_whole_with_its_particle(extract: Extractor, address: str, rest: str) -> None:
    rest_shown = rest.removeprefix("에서").lstrip()
    assert extract(f"주소는 {address}{rest}", DEFAULT).text == f"주소는 {rest_shown}".replace(" .", ".")


@BOTH
def test_addresses_cost_linear_time(extract: Extractor) -> None:
    soups = ("https://a.kr/가" + "." * 100_000, "https://a.kr" + "/가" * 100_000, "https://" * 20_000, "http://a_(" * 20_000)
    with linear_work():
        for soup in soups:
            extract(soup, DEFAULT)


@BOTH
def test_blanks_before_removed_markup_cost_linear_time(extract: Extractor) -> None:
    with linear_work():
        text = extract("강" + " " * 200_000 + "가," + " " * 200_000 + "[[파일:강.jpg]]나루", DEFAULT).text
    assert text.startswith("강 가,") and text.endswith("나루")


ODD = "e=\u0301\u0338 α\u0653ا\u200b가\u1100\u1161\u3000\xa0\t\x7f\ud800\ufdd0\n é–"


@given(st.sampled_from(["", "River ", "River " * 100, "강 "]), st.text(ODD, max_size=12), st.text(max_size=4))
def test_preparing_does_the_same_in_any_script(begin: str, odd: str, any_text: str) -> None:
    text = prepare(f"{begin}{odd}{any_text}")
    assert unicodedata.is_normalized("NFC", text)
    assert text == prepare(f"{'가' * 500}\n{begin}{odd}{any_text}")[501:]
    assert not set(text) & set("\u200b\u3000\xa0\t\x7f\ud800\ufdd0\r")


def test_only_combining_diacritical_marks_compose_with_ascii() -> None:
    composed = (unicodedata.decomposition(chr(code)).split() for code in range(sys.maxunicode + 1))
    marks = {int(pair[1], 16) for pair in composed if len(pair) == 2 and len(pair[0]) == 4 and int(pair[0], 16) < 0x80}
    assert marks
    assert all(0x300 <= mark <= 0x36F for mark in marks)


@BOTH
@pytest.mark.parametrize("tag", ["<ſpan >", "<ſource >", "<maplin\u212a >", "{{{#!ſyntax a\n"])
def test_a_tag_in_other_letters_is_text(extract: Extractor, tag: str) -> None:
    assert extract(f"강은 {tag}흐른다.", DEFAULT).text.startswith("강은")


@EACH
@given(data=st.data())
def test_no_paired_mark_is_left_of_any_markup(markup: Markup, data: st.DataObject) -> None:
    text = markup.text_of(data.draw(soup(markup.marks)))
    assert not [pair for pair in markup.pairs if pair in text]
    assert text == text.strip()
    assert all(line == line.strip() and "  " not in line for line in text.split("\n"))
    assert "\n\n\n" not in text


@EACH
@settings(max_examples=50)
@given(data=st.data(), tables=st.booleans(), struck=st.booleans(), footnotes=st.booleans())
def test_no_option_raises(markup: Markup, data: st.DataObject, tables: bool, struck: bool, footnotes: bool) -> None:
    options = {"keep_tables": tables, "keep_strikethrough": struck, "keep_footnotes": footnotes, "headings": footnotes}
    markup.text_of(data.draw(soup(markup.marks)), **options)


@EACH
@given(text=plain_text())
def test_plain_text_stays_as_it_is(markup: Markup, text: str) -> None:
    assert markup.text_of(text) == text


@EACH
@settings(max_examples=100)
@given(text=st.text(max_size=80))
def test_any_text_at_all(markup: Markup, text: str) -> None:
    assert markup.text_of(text) == markup.text_of(text)


@EACH
@given(data=st.data())
def test_visible_words_stay_in_order_and_hidden_ones_go(markup: Markup, data: st.DataObject) -> None:
    wrappings = st.lists(st.sampled_from(sorted(markup.wrappers)), max_size=3, unique=True)
    words, visible = [], []
    for number, wrappers in enumerate(data.draw(st.lists(wrappings, max_size=12))):
        word = f"낱말{number:03}"
        if all(markup.wrappers[wrapper] for wrapper in wrappers):
            visible.append(word)
        for wrapper in wrappers:
            word = wrapper.format(word)
        words.append(word)
    text = markup.text_of("머리말과 함께 적어 둔 줄: " + " 그리고 또다시 ".join(words))
    assert [word.strip("().") for word in text.split() if "낱말" in word] == visible


@EACH
@settings(max_examples=30)
@given(data=st.data())
def test_work_is_linear_in_the_length_of_the_source(markup: Markup, data: st.DataObject) -> None:
    unit = data.draw(st.lists(st.sampled_from(markup.marks), min_size=1, max_size=4).map("".join))
    once, fourfold = (calls(markup.extract, unit * n, DEFAULT) for n in (150, 600))
    assert fourfold < 5 * once + 1000
