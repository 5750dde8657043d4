"""Countries by their codes, particles after removed templates, and groups of NamuWiki that hold prose."""

from __future__ import annotations

import pytest

from korealbert.corpus.markup.namumark import extract_namumark
from korealbert.corpus.markup.wikitext import extract_wikitext
from korealbert.corpus.readers.spec import WikiOptions

OPTIONS = WikiOptions()


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("{{KOR}}이 2:1로 이겼다.", "대한민국이 2:1로 이겼다."),
        ("결승에서 {{KOR}}이 {{JPN|1999}}을 이겼다.", "결승에서 대한민국이 일본을 이겼다."),
        ("* {{FRA}} 파리에서 열린 대회", "프랑스 파리에서 열린 대회"),
        ("{{KOR}} won against Japan in the final of the tournament.", "won against Japan in the final of the tournament."),
        ("{{kor}} 강이다.", "강이다."),
        ("{{KOR}}\n강은 흐른다.", "강은 흐른다."),
        (
            "강은 흐른다. 산은 높다.\n== 참가국 ==\n* {{KOR}}\n* {{JPN|1999}}\n# {{MAC}}",
            "강은 흐른다. 산은 높다.\n\n참가국\n대한민국\n일본\n마카오",
        ),
        ("강은 흐른다.\n* {{그림}}\n* {{KOR}}{{출처}}", "강은 흐른다.\n대한민국"),
        ("그곳은 {{EST}} 표준시를 쓴다.", "그곳은 표준시를 쓴다."),
        ("그는 {{COM}} 도메인을 샀다.", "그는 도메인을 샀다."),
        ("그는 {{MAC}} 주소를 적었다.", "그는 주소를 적었다."),
        ("결승에서 {{EST}}와 {{MAC|1999}}가 만났다.", "결승에서 에스토니아와 마카오가 만났다."),
        ("{{EST}}는 이겼고 {{PER}}에서는 졌다.", "에스토니아는 이겼고 페루에서는 졌다."),
    ],
)
def test_a_country_is_named_by_its_code_in_korean_text(source: str, text: str) -> None:
    assert extract_wikitext(source, OPTIONS).text == text


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("그는 {{없는 틀}}이라는 책을 썼다.", "그는 책을 썼다."),
        ("그는 {{없는 틀}}처럼 산다.", "그는 산다."),
        ("그는 {{없는 틀}}마다 간다.", "그는 간다."),
        ("그는 {{없는 틀}}(으)로 갔다.", "그는 갔다."),
        ("이 강은 {{없는 틀}}들이 산다.", "이 강은 산다."),
        ("그는 {{없는 틀}}이 되었다. 강은 길다.", "강은 길다."),
        ("한국의 {{없는 틀}}이다. 강은 길다.", "강은 길다."),
        ("강은 길다. {{없는 틀}}이라고도 한다.", "강은 길다."),
        ("그는 왕이다. {{없는 틀}}이라고 불렀다.", "그는 왕이다."),
        ("그는 {{없는 틀}}을(를) 좋아한다.", "그는 좋아한다."),
        ("{{없는 틀}}은(는) 도시이다.", "도시이다."),
        ("'''{{없는 틀}}'''이(가) 있다. 강은 길다.", "있다. 강은 길다."),
        # The rest would say something else.
        ("1위는 미국, 2위는 {{없는 틀}}이며, 3위는 일본이다.", "1위는 미국, 2위는 이며, 3위는 일본이다."),
        ("그는 {{없는 틀}}이고 화가이다.", "그는 이고 화가이다."),
        ("그는 {{없는 틀}}보다 컸다.", "그는 보다 컸다."),
        ("그 {{없는 틀}}조차 없다.", "그 조차 없다."),
        # What stands there without a removed word stays.
        ("그는 {{국기}}보다폰 선수이다.", "그는 보다폰 선수이다."),
        ("그는 {{국기}} 보다 나은 삶을 산다.", "그는 보다 나은 삶을 산다."),
        ("그는{{출처}} 화가이며, 시인이다.", "그는 화가이며, 시인이다."),
    ],
)
def test_a_particle_goes_with_its_word(source: str, text: str) -> None:
    assert extract_wikitext(source, OPTIONS).text == text


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("{{{#!wiki style='color:red'\n글이다.}}}", "글이다."),
        ('{{{#!wiki class="a" style="b" 글이다.}}}', "글이다."),
        ("{{{#!wiki style=color:red 글이다.}}}", "글이다."),
        ('{{{#!wiki style="a"\n{{{#red {{{+1 안의}}} 글이다.}}}}}}', "안의 글이다."),
        ("{{{#blue 파란 {{{#!wiki dark-style='a' 빨간 글}}}과}}} 글이다.", "파란 빨간 글과 글이다."),
        ("{{{\n여러 줄의 [[글]]이다.\n둘째 줄이다.\n}}}", "여러 줄의 [[글]]이다.\n둘째 줄이다."),
        ("{{{\nprint('글이다.')\nfor line in lines: print(line)\n}}}", ""),
        ("{{{#!syntax python\n# 글이다.\n}}}", ""),
    ],
)
def test_prose_in_groups_stays(source: str, text: str) -> None:
    assert extract_namumark(source, OPTIONS).text == text
