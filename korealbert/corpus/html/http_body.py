"""The body of an HTTP answer: its content encodings undone under a size limit, its charset found."""

from __future__ import annotations

import zlib

_MAX_ENCODINGS = 3
"""Compressions of one body in a row; more are an attack, because each may unpack to the limit."""
_BLOCK_BYTES = 16 << 10
"""Compressed bytes handed to zlib at once: what a gzip member leaves over is copied for each of them."""

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
    names = [name for part in content_encoding.split(",") if (name := part.strip().lower()) not in ("", "identity")]
    if len(names) > _MAX_ENCODINGS:
        raise BodyError("unknown_encoding", f"{len(names)} compressions in a row")
    for name in reversed(names):
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
    """All members of a gzip file, or one zlib or raw stream; what follows is ignored, as by gzip."""
    parts: list[bytes] = []
    room = max_bytes + 1
    position = 0
    while True:
        unpacker = zlib.decompressobj(window)
        while not unpacker.eof:
            block = unpacker.unconsumed_tail or body[position : position + _BLOCK_BYTES]
            if not block:
                raise BodyError("truncated", "the compressed body ends too early")
            position += 0 if unpacker.unconsumed_tail else len(block)
            try:
                part = unpacker.decompress(block, room)
            except zlib.error as error:
                raise BodyError("corrupt", str(error)) from None
            parts.append(part)
            room -= len(part)
            if not room:
                raise BodyError("too_large", f"more than {max_bytes:,} bytes after decompression")
        position -= len(unpacker.unused_data)
        while body.startswith(b"\0", position):
            position += 1
        if window != _GZIP or not body.startswith(b"\x1f\x8b", position):
            return b"".join(parts)
