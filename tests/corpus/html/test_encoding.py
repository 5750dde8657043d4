"""The charset of a page: bytes against header against meta."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from korealbert.corpus.html.encoding import decode_page, is_html

SENTENCE = "정부는 올해 안에 새 제도를 시행하기로 했다고 밝혔다."
DECLARATIONS = [
    "",
    "text/html",
    "text/html; charset=utf-8",
    "text/html; charset=EUC-KR",
    "text/html; charset=iso-8859-1",
    "charset=none",
]


@pytest.mark.parametrize("header", DECLARATIONS)
@pytest.mark.parametrize("meta", ["", "utf-8", "euc-kr", "ks_c_5601-1987", "x-nonsense"])
@pytest.mark.parametrize("charset", ["utf-8", "cp949", "utf-16"])
def test_korean_is_read_right_whatever_is_declared(charset: str, meta: str, header: str) -> None:
    page = f'<html><head><meta charset="{meta}"></head><body>{SENTENCE}</body></html>'
    decoded = decode_page(page.encode(charset), header)
    assert decoded.text == page
    assert decoded.broken == 0


def test_the_declaration_tells_where_the_bytes_cannot() -> None:
    data = "책 찾".encode("cp949")
    assert data.decode("utf-8", "strict")  # valid by chance
    assert decode_page(data, "text/html; charset=euc-kr").text == "책 찾"
    assert decode_page(data).charset == "utf-8"


def test_a_damaged_byte_does_not_cost_the_page() -> None:
    page = (SENTENCE * 10).encode()
    decoded = decode_page(page[:100] + b"\xff" + page[100:], "text/html; charset=euc-kr")
    assert decoded.charset == "utf-8" and decoded.readable
    assert decoded.text.count(SENTENCE) >= 8
    assert not decode_page(bytes(range(128, 256)) * 4).readable


def test_western_pages() -> None:
    assert decode_page("déjà vu à Orléans".encode("latin-1"), "text/html; charset=iso-8859-1").text == "déjà vu à Orléans"
    assert decode_page(b'<meta http-equiv="Content-Type" content="text/html; charset=windows-1252">caf\xe9').text.endswith(
        "café"
    )


@given(st.binary(max_size=300), st.sampled_from(DECLARATIONS))
def test_any_bytes_are_decoded(data: bytes, header: str) -> None:
    assert decode_page(data, header).broken >= 0


@pytest.mark.parametrize(
    "codec", ["idna", "punycode", "undefined", "unicode-escape", "raw_unicode_escape", "utf-7", "rot13", "hex"]
)
def test_codecs_that_are_not_charsets_are_not_used(codec: str) -> None:
    page = f"<p>{SENTENCE} \\ud800 a-b</p>"
    for charset in ("utf-8", "cp949"):
        for damage in (b"", b"\xff" * 40):
            decoded = decode_page(page.encode(charset) + damage, f"text/html; charset={codec}")
            assert decoded.charset in ("utf-8", "cp949")
            assert page[:5] in decoded.text
            decoded.text.encode("utf-8")


@pytest.mark.parametrize(
    ("data", "content_type", "html"),
    [
        (b"<p>", "text/html; charset=euc-kr", True),
        (b"", "Application/XHTML+XML", True),
        (b"<html>", "image/png", False),
        (b"warning: x\n<HTML lang=ko>", "text/plain", True),
        (b"<p>a fragment", "", False),
        (b"<p>a fragment", None, True),
        (b"\xef\xbb\xbf<!DOCTYPE html>", None, True),
        (b"<?xml version='1.0'?><rss><p>", None, False),
        (b"1 < 2", None, False),
        ("<p>".encode("utf-16"), None, True),
    ],
)
def test_what_is_html(data: bytes, content_type: str | None, html: bool) -> None:
    assert is_html(data, content_type) is html
