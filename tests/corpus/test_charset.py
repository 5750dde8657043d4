"""The charset of a page: bytes against header against meta; and bodies that are not what their headers say."""

from __future__ import annotations

import gzip
import zlib

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from korealbert.corpus.charset import decode_page
from korealbert.corpus.http_body import BodyError, decode_body, gunzip_if_gzip

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


@settings(deadline=None)
@given(st.binary(max_size=300), st.sampled_from(DECLARATIONS))
def test_any_bytes_are_decoded(data: bytes, header: str) -> None:
    assert decode_page(data, header).broken >= 0


@settings(deadline=None)
@given(st.binary(max_size=400), st.lists(st.sampled_from(["gzip", "deflate", "raw", "identity"]), max_size=3))
@example(b"", ["gzip"])
def test_encodings_are_undone(body: bytes, encodings: list[str]) -> None:
    data = body
    for name in encodings:
        data = {"gzip": gzip.compress, "deflate": zlib.compress, "raw": _raw, "identity": bytes}[name](data)
    declared = ", ".join("deflate" if name == "raw" else name for name in encodings)
    if "raw" not in encodings:  # raw deflate may look like zlib by chance
        assert decode_body(data, declared, 10_000) == body


def test_raw_deflate() -> None:
    assert decode_body(_raw(SENTENCE.encode()), "deflate", 10_000) == SENTENCE.encode()


def _raw(data: bytes) -> bytes:
    packer = zlib.compressobj(6, zlib.DEFLATED, -15)
    return packer.compress(data) + packer.flush()


@pytest.mark.parametrize(
    ("data", "encoding", "reason"),
    [
        (gzip.compress(SENTENCE.encode())[:-9], "gzip", "truncated"),
        (b"", "gzip", "truncated"),
        (b"plain text", "gzip", "corrupt"),
        (gzip.compress(bytes(1 << 20)), "gzip", "too_large"),
        (gzip.compress(gzip.compress(bytes(64 << 20))), "gzip, gzip", "too_large"),
        (bytes(2000), "", "too_large"),
        (b"x", "br", "unknown_encoding"),
    ],
)
def test_bodies_that_cannot_be_decoded(data: bytes, encoding: str, reason: str) -> None:
    with pytest.raises(BodyError) as caught:
        decode_body(data, encoding, 1000)
    assert caught.value.reason == reason


def test_a_gzip_file_as_body() -> None:
    assert gunzip_if_gzip(gzip.compress(b"<urlset/>"), 100) == b"<urlset/>"
    assert gunzip_if_gzip(b"<urlset/>", 100) == b"<urlset/>"
