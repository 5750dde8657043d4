from __future__ import annotations

import re
from html import escape
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from korealbert.artifact import Runtime, build
from korealbert.corpus.extract import STAGE, ExtractSpec
from korealbert.corpus.markup.expansion import TemplatePages, template_body
from korealbert.corpus.readers.spec import WikiOptions
from tests.corpus.documents_made import bytes_of
from tests.corpus.extracting import extract
from tests.work import linear_work

PAGES = {
    "나라자료 대한민국": "{{ {{{1<noinclude>|나라</noinclude>}}} | 별칭 = 대한민국 | 국기 별칭 = Flag of South Korea.svg }}",
    "깃발": "{{나라자료 {{{1}}}|깃발/핵심|변수={{{2|}}}}}<noinclude>설명</noinclude>",
    "깃발/핵심": "[[파일:{{{국기 별칭}}}|22px]]&nbsp;[[{{{별칭}}}]]<!-- 끝 -->",
    "KOR": "<includeonly>{{깃발|대한민국}}</includeonly><noinclude>[[분류:나라 틀]]</noinclude>",
    "대한민국기": "#넘겨주기 [[틀:KOR]]",
    "거리": "{{{1}}}{{#if:{{{2|}}}|~{{{2}}}}} {{#switch:{{{단위|}}}|마일|mi=마일|#default=킬로미터}}",
    "제곱": "{{sup|2}}",
    "견주기": "{{#ifeq:{{{1}}}|{{lc:ABC}}|같다|다르다}}",
    "둘": "{{#if:{{{이름|}}}|'''{{{이름}}}''' {{!}} {{PAGENAME}}|이름 없음}}",
    "출처 요청": "<sup>[[[위키백과:출처|출처 필요]]]</sup>",
    "상자": "{| class=wikitable\n| 상자\n|}",
    "알림": "<div>이 문서는 짧다.</div>",
    "루아": "{{#invoke:모듈|함수|{{{1}}}}}",
    "가": "{{나}}",
    "나": "{{가}}",
    "폭 0": "가나다라",
    **{f"폭 {number}": f"{{{{폭 {number - 1}}}}}" * 8 for number in range(1, 20)},
    "깊이": "{{#if:{{{1|}}}|" * 60 + "끝" + "}}" * 60,
}


def dump(path: Path, article: str) -> Path:
    pages = [("문서", 0, article), *((f"틀:{name}", 10, text) for name, text in PAGES.items())]
    xml = [
        f"<page><title>{escape(title)}</title><ns>{ns}</ns><id>{number}</id><revision><id>1</id>"
        f"<text>{escape(text)}</text></revision></page>"
        for number, (title, ns, text) in enumerate(pages, 1)
    ]
    path.write_text("<mediawiki>\n" + "\n".join(xml) + "\n</mediawiki>\n", "utf-8")
    return path


def text_of(tmp_path: Path, article: str, **options: Any) -> str:
    wiki = {"expand_templates": True, **options}
    [text] = extract(tmp_path / "store", dump(tmp_path / "dump.xml", article), format="mediawiki", wiki=wiki).texts
    return text


@pytest.mark.parametrize(
    ("markup", "expected"),
    [
        ("선수는 {{깃발|대한민국}} 출신이다.", "선수는 대한민국 출신이다."),
        ("선수는 {{KOR}} 출신이다.", "선수는 대한민국 출신이다."),
        ("선수는 {{대한민국기}} 출신이다.", "선수는 대한민국 출신이다."),
        ("이웃은 {{JPN}} 사람이다.", "이웃은 일본 사람이다."),
        ("길은 {{거리|3|5}} 이어진다.", "길은 3~5 킬로미터 이어진다."),
        ("넓이는 3 km{{제곱}}이다.", "넓이는 3 km²이다."),
        ("길은 {{거리|10{{sup|6}}|5}} 이어진다.", "길은 10^6~5 킬로미터 이어진다."),
        ("길은 {{거리|3|단위=mi}} 이어진다.", "길은 3 마일 이어진다."),
        ("두 글은 {{견주기|abc}}.", "두 글은 같다."),
        ("이것은 {{둘|이름=강}}이다.", "이것은 강 | 문서이다."),
        ("이것은 {{둘}}이다.", "이것은 이름 없음이다."),
        ("* {{KOR}}", "대한민국"),
        ("강은 흐른다.{{출처 요청}} 들도 있다.", "강은 흐른다. 들도 있다."),
        ("강은 {{없는 틀|말}} 흐른다.", "강은 흐른다."),
        ("강은 {{루아|말}} 흐른다.", "강은 흐른다."),
        ("강은 {{가}} 흐른다.", "강은 흐른다."),
        ("강은 {{폭 19}} 흐른다.", "강은 흐른다."),
        ("강은 {{폭 1}} 흐른다.", f"강은 {'가나다라' * 8} 흐른다."),
        ("강은 {{상자}} 흐른다.", "강은 흐른다."),
        ("{{알림}}\n강은 흐른다.", "강은 흐른다."),
        ("{{KOR}}\n강은 흐른다.", "강은 흐른다."),
        ("강은 <nowiki>{{KOR}}</nowiki> 흐른다.", "강은 {{KOR}} 흐른다."),
        ("강은 흐른다.<ref>{{KOR}} 자료</ref>", "강은 흐른다."),
        ("{{정보상자|나라={{KOR}}\n|강=흐른다}}강은 흐른다.", "강은 흐른다."),
        ("강은 {{KOR 흐른다.", "강은"),
    ],
)
def test_calls_within_lines_show_what_the_dump_says(markup: str, expected: str, tmp_path: Path) -> None:
    assert text_of(tmp_path, markup) == expected


def test_templates_are_not_expanded_by_default(tmp_path: Path) -> None:
    """Except countries, which need no page."""
    markup = "선수는 {{KOR}} 출신이고 {{거리|3}} 달린다."
    assert text_of(tmp_path, markup, expand_templates=False) == "선수는 대한민국 출신이고 달린다."
    assert "expand_templates" not in WikiOptions().as_before()


def test_inline_templates_of_the_recipe_have_priority(tmp_path: Path) -> None:
    assert text_of(tmp_path, "길은 {{거리|3|5}} 이어진다.", inline_templates={"거리": 2}) == "길은 5 이어진다."


def test_every_number_of_workers_and_shards_writes_the_same(tmp_path: Path) -> None:
    path = dump(tmp_path / "dump.xml", "선수는 {{KOR}} 출신이다." * 40)
    outputs = []
    for workers in (1, 2):
        table = {"source": "wiki", "format": "mediawiki", "paths": [str(path)], "wiki": {"expand_templates": True}}
        spec = ExtractSpec.model_validate({**table, "shard_bytes": 1024})
        runtime = Runtime(store=tmp_path / f"store-{workers}", workers=workers)
        outputs.append(bytes_of(build(STAGE, spec, {}, runtime).artifact.path))
    assert outputs[0] == outputs[1]
    assert any("documents" in name for name in outputs[0])


def test_other_formats_have_no_templates() -> None:
    with pytest.raises(ValidationError, match="needs the templates of a dump, format mediawiki, not namuwiki"):
        ExtractSpec.model_validate({"source": "x", "format": "namuwiki", "wiki": {"expand_templates": True}})


MARKS = st.lists(
    st.sampled_from(["{", "{{", "{{{", "}", "}}", "}}}", "|", "[[", "]]", "가", "나", "=", "#if:", "\n", "1", " "])
)


@settings(max_examples=100)
@given(MARKS.map("".join), MARKS.map("".join), MARKS.map("".join))
def test_unbalanced_markup_raises_nothing(page: str, first: str, second: str) -> None:
    bodies = {"가": template_body(first) or "", "나": template_body(second) or ""}
    expanded = TemplatePages(bodies).expand(f"말 {page} 말", "문서", WikiOptions())
    assert expanded.startswith("말 ") and expanded.endswith(" 말")


def test_work_is_linear_in_a_page() -> None:
    pages = TemplatePages({"가": "{{{1}}} 흐른다"})
    for unit in ("{{가|강}} ", "{{", "}}", "{{가|", "<!-- ", "<ref>", "{|\n", "[[가|", "{{{1|", "\n{{가|강}}"):
        with linear_work():
            pages.expand("말 " + unit * 100_000, "문서", WikiOptions())
    with linear_work():
        pages.expand("말 " + "{{가|" * 50_000 + "강" + "}}" * 50_000, "문서", WikiOptions())
        pages.expand("말 " + ("{{가|" * 900 + "강" + "}}" * 900 + "\n말 ") * 100, "문서", WikiOptions())


@pytest.mark.parametrize("unit", ["<!-- ", "<noinclude>", "<noinclude/>", "<onlyinclude>", "<noinclude> <!-- <onlyinclude>"])
def test_work_is_linear_in_a_template(unit: str) -> None:
    with linear_work():
        template_body(unit * 100_000)


@given(
    st.lists(
        st.sampled_from(
            ["<!--", "-->", "<noinclude>", "</NOINCLUDE >", "<noinclude/>", "<onlyinclude>", "</onlyinclude>", "가"]
        )
    )
)
def test_hidden_text_is_what_a_simple_pattern_finds(marks: list[str]) -> None:
    source = "".join(marks)
    shown = re.sub(r"(?is)<!--.*?-->|<noinclude\b[^<>]*>.*?</noinclude\s*>|<noinclude\s*/>", "", source)
    only = re.findall(r"(?is)<onlyinclude\b[^<>]*>(.*?)</onlyinclude\s*>", shown)
    assert template_body(source) == ("".join(only) if only else shown)


def test_the_calls_of_a_page_are_bounded_together() -> None:
    """Two thousand calls of two thousand steps each took six seconds a page."""
    pages = TemplatePages({"가": "{{#if:1|{{{1|}}}|b}}" * 900 + "흐른다", "나": "강"})
    expanded = pages.expand("말 {{나}}\n" + "말 {{가|}}\n" * 500 + "말 {{나}}", "문서", WikiOptions())
    assert expanded.startswith("말 강\n말 흐른다\n") and expanded.endswith("말 {{가|}}\n말 {{나}}")
