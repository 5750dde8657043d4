"""Bodies are unpacked whole, under a limit, in linear time, or not at all."""

from __future__ import annotations

import gzip
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from korealbert.corpus.html.http_body import BodyError, decode_body, gunzip_if_gzip
from tests.work import linear_work

LIMIT = 1 << 20


def raw_deflate(data: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-15)
    return packer.compress(data) + packer.flush()


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
    [  # gzip stamps the time unless told, and the names of tests must not change between processes
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


def test_two_hundred_thousand_empty_members_take_no_minutes() -> None:
    with linear_work():
        assert decode_body(gzip.compress(b"") * 200_000, "gzip", LIMIT) == b""
