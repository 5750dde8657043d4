"""The charset of a page is decided by its bytes, header and meta tags."""

from __future__ import annotations

import gzip
import zlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from korealbert.corpus.html.encoding import BodyError, decode_body, decode_page, gunzip_if_gzip, is_html
from tests.work import linear_work

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


LIMIT = 1 << 20


def raw_deflate(data: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-15)
    return packer.compress(data) + packer.flush()


@settings(max_examples=40)
@given(st.binary(max_size=60_000), st.binary(max_size=2_000))
def test_what_was_packed_comes_out(first: bytes, second: bytes) -> None:
    assert decode_body(first, "", LIMIT) == decode_body(first, "identity", LIMIT) == first
    assert decode_body(gzip.compress(first) + gzip.compress(second), "x-gzip", LIMIT) == first + second
    assert decode_body(gzip.compress(first) + bytes(9), "GZIP", LIMIT) == first
    assert decode_body(zlib.compress(first), "deflate", LIMIT) == first
    assert decode_body(raw_deflate(first) if first else zlib.compress(b""), "deflate", LIMIT) == first
    assert decode_body(gzip.compress(zlib.compress(first)), "deflate, gzip", LIMIT) == first
    assert gunzip_if_gzip(gzip.compress(first), LIMIT) == first


def test_a_body_that_is_not_packed_is_left_as_it_is() -> None:
    assert gunzip_if_gzip(b"<urlset/>", 100) == b"<urlset/>"


@pytest.mark.parametrize(
    ("body", "encoding", "reason"),
    [  # mtime=0, because the names of tests must be the same in all processes
        (gzip.compress(bytes(LIMIT + 1), mtime=0), "gzip", "too_large"),
        (zlib.compress(bytes(LIMIT + 1)), "deflate", "too_large"),
        (gzip.compress(gzip.compress(bytes(64 << 20), 1, mtime=0), 1, mtime=0), "gzip, gzip", "too_large"),
        (gzip.compress(b"a" * (LIMIT // 2), mtime=0) * 3, "gzip", "too_large"),
        (bytes(LIMIT + 1), "", "too_large"),
        (gzip.compress(b"text" * 100, mtime=0)[:-9], "gzip", "truncated"),
        (b"", "gzip", "truncated"),
        (gzip.compress(b"text" * 100, mtime=0)[:14] + bytes(30), "gzip", "corrupt"),
        (b"text", "br", "unknown_encoding"),
        (b"text", "gzip, " * 4, "unknown_encoding"),
    ],
)
def test_what_is_refused(body: bytes, encoding: str, reason: str) -> None:
    with pytest.raises(BodyError) as caught:
        decode_body(body, encoding, LIMIT)
    assert caught.value.reason == reason


def test_a_body_at_the_limit_is_whole() -> None:
    assert decode_body(gzip.compress(bytes(LIMIT)), "gzip", LIMIT) == bytes(LIMIT)


def test_many_empty_members_take_linear_time() -> None:
    with linear_work():
        assert decode_body(gzip.compress(b"") * 60_000, "gzip", LIMIT) == b""
