"""What both wiki markups have in common."""

from __future__ import annotations

import sys
import time
import unicodedata
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from korealbert.corpus.layout import WikiText, prepare
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
