"""The body of an HTTP answer: its content encodings undone under a size limit, its charset found."""

from __future__ import annotations

import zlib

_GZIP, _ZLIB, _RAW = 31, 15, -15


class BodyError(ValueError):
    """A body that cannot be decoded; ``reason`` is ``truncated``, ``corrupt``, ``too_large`` or ``unknown_encoding``."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason, self.detail = reason, detail


def decode_body(body: bytes, content_encoding: str, max_bytes: int) -> bytes:
    """Undo ``Content-Encoding`` (gzip and deflate, several in a row). Never holds more than ``max_bytes`` and a block.

    Raises BodyError; a body that ends before its compression does is an error, not a shorter page.
    """
    for name in reversed([part.strip().lower() for part in content_encoding.split(",")]):
        if name in ("", "identity"):
            continue
        if name in ("gzip", "x-gzip"):
            body = _inflated(body, _GZIP, max_bytes)
        elif name == "deflate":  # RFC 9110 means zlib; some servers send raw deflate
            body = _inflated(body, _ZLIB if _looks_like_zlib(body) else _RAW, max_bytes)
        else:
            raise BodyError("unknown_encoding", f"Content-Encoding: {name}")
    if len(body) > max_bytes:
        raise BodyError("too_large", f"more than {max_bytes:,} bytes")
    return body


def gunzip_if_gzip(body: bytes, max_bytes: int) -> bytes:
    """A body that is itself a gzip file (``sitemap.xml.gz``), unpacked; any other as it is. Raises BodyError."""
    return _inflated(body, _GZIP, max_bytes) if body.startswith(b"\x1f\x8b") else body


def _looks_like_zlib(body: bytes) -> bool:
    return len(body) >= 2 and body[0] & 0x0F == 8 and (body[0] << 8 | body[1]) % 31 == 0


def _inflated(body: bytes, window: int, max_bytes: int) -> bytes:
    parts: list[bytes] = []
    size = 0
    while True:
        unpacker = zlib.decompressobj(window)
        try:
            part = unpacker.decompress(body, max_bytes - size + 1)
        except zlib.error as error:
            raise BodyError("corrupt", str(error)) from None
        parts.append(part)
        size += len(part)
        if size > max_bytes:
            raise BodyError("too_large", f"more than {max_bytes:,} bytes after decompression")
        if not unpacker.eof:
            raise BodyError("truncated", "the compressed body ends too early")
        body = unpacker.unused_data.lstrip(b"\0")
        if (
            not body or window != _GZIP or not body.startswith(b"\x1f\x8b")
        ):  # what follows the last member is ignored, as by gzip
            return b"".join(parts)
