"""What both wiki markups have in common."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from korealbert.corpus.layout import WikiText
from korealbert.corpus.namumark import extract_namumark
from korealbert.corpus.sources import WikiOptions
from korealbert.corpus.wikitext import extract_wikitext

Extractor = Callable[[str, WikiOptions], WikiText]
DEFAULT = WikiOptions()
BOTH = pytest.mark.parametrize("extract", [extract_wikitext, extract_namumark])


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
def test_an_address_goes_whole_and_its_particle_stays(extract: Extractor, address: str, rest: str) -> None:
    assert extract(f"주소는 {address}{rest}", DEFAULT).text == f"주소는 {rest.lstrip()}".replace(" .", ".")


@BOTH
def test_addresses_cost_linear_time(extract: Extractor) -> None:
    began = time.perf_counter()
    for soup_of in (
        "https://a.kr/가" + "." * 100_000,
        "https://a.kr" + "/가" * 100_000,
        "https://" * 20_000,
        "http://a_(" * 20_000,
    ):
        extract(soup_of, DEFAULT)
    assert time.perf_counter() - began < 10
