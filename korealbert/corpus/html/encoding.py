"""The charset of a page: the declarations of header and page, checked against its bytes.

A wrong declaration is common in Korean pages of the 2000s (a server's default header over an EUC-KR page, or a page in UTF-8
that still declares EUC-KR), so the bytes decide where they can. UTF-8 recognises itself: Korean text in EUC-KR is almost never
valid UTF-8, except for a handful of syllables.
"""

from __future__ import annotations

import codecs
import re
import zlib
from dataclasses import dataclass

_HEAD_BYTES = 4096
"""How far into a page a declaration is looked for. HTML says 1024; pages with long comments before it exist."""

_KOREAN = (
    *("euc-kr", "euckr", "ks_c_5601-1987", "ksc5601", "ks_c_5601", "ksc_5601", "ksx1001"),
    *("windows-949", "ms949", "uhc", "cp949"),
)
_DECLARED = re.compile(rb"""<meta[^>]{0,400}?charset\s*=\s*["']?\s*([A-Za-z0-9_:.-]+)""", re.IGNORECASE)
_XML = re.compile(rb"""^\s*<\?xml[^>]{0,200}?encoding\s*=\s*["']([A-Za-z0-9_:.-]+)""")
_HEADER = re.compile(r"""charset\s*=\s*["']?\s*([A-Za-z0-9_:.-]+)""", re.IGNORECASE)
_HANGUL = re.compile("[가-힣]")
_HTML = ("text/html", "application/xhtml+xml")
_GENERAL = ("", "text/plain", "application/octet-stream")
"""Content types of servers that do not know the type of a file."""
_TAG = re.compile(rb"<(?:!doctype\s+html|/?[a-z])", re.IGNORECASE)
_OTHER_XML = re.compile(rb"\s*(?:<\?xml[^>]*>\s*)?<(?:mediawiki|rss|feed|urlset|sitemapindex)[\s>]")
_NOT_OF_PAGES = ("utf-16", "utf-32", "utf-7", "idna", "punycode", "undefined", "unicode-escape", "raw-unicode-escape")
"""Codecs of Python that no page is in: those under which its declaration would not be ASCII, and those that are not charsets,
which raise, take quadratic time, or give lone surrogates."""
_BOMS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))
_MAX_BROKEN_SHARE = 0.01
"""Undecodable characters per character up to which a text counts as read."""


def is_html(data: bytes, content_type: str | None = None) -> bool:
    """Whether a body is an HTML page: by its header, or by its bytes where that says nothing or something general.

    Without a header (None: a file that a recipe calls HTML) any tag is enough, if it is that of no dump, feed or sitemap;
    two-byte encodings count as HTML until they are decoded.
    """
    if content_type is None:
        head = data.removeprefix(codecs.BOM_UTF8)
        return data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) or bool(
            _TAG.search(head) and not _OTHER_XML.match(head)
        )
    kind = content_type.partition(";")[0].strip().lower()
    return kind in _HTML or (kind in _GENERAL and b"<html" in data[:2048].lower())


@dataclass(frozen=True, slots=True)
class _Decoded:
    """The characters of a page."""

    text: str
    charset: str
    """The codec that was used."""
    broken: int = 0
    """Characters that could not be decoded and became U+FFFD."""

    @property
    def readable(self) -> bool:
        """Whether no more is broken than a damaged byte here and there."""
        return self.broken <= _MAX_BROKEN_SHARE * max(1, len(self.text))


def decode_page(data: bytes, content_type: str = "") -> _Decoded:
    """Decode HTML or XML; ``content_type`` is the header's value. Never raises: see ``Decoded.broken``."""
    for bom, name in _BOMS:
        if data.startswith(bom):
            return _decoded(data[len(bom) :], name)
    declared = _declarations(data, content_type)
    candidates = list(dict.fromkeys([*declared, "utf-8", "cp949"]))
    whole = {name: text for name in candidates if name not in _ANY_BYTES and (text := _strict(data, name)) is not None}
    if "utf-8" in whole and not _rather_korean(whole, declared):
        return _Decoded(whole["utf-8"], "utf-8")
    for name in candidates:
        if name in whole:
            return _Decoded(whole[name], name)
    best = min((_decoded(data, name) for name in candidates if name not in _ANY_BYTES), key=lambda decoded: decoded.broken)
    single = next((name for name in declared if name in _ANY_BYTES), None)
    return _decoded(data, single) if single and not best.readable else best


_ANY_BYTES = frozenset({"iso8859-1", "cp1252", "iso8859-15", "cp1250", "cp1251", "koi8-r", "iso8859-2"})
"""Charsets in which any bytes are a text, so that decoding proves nothing."""


def _rather_korean(whole: dict[str, str], declared: list[str]) -> bool:
    """Two or three syllables of EUC-KR may be valid UTF-8 by chance; then the declaration decides."""
    if "utf-8" in declared or "cp949" not in declared or "cp949" not in whole:
        return False
    return bool(_HANGUL.search(whole["cp949"])) and not _HANGUL.search(whole["utf-8"])


def _declarations(data: bytes, content_type: str) -> list[str]:
    found = [match[1] for match in [_HEADER.search(content_type)] if match]
    head = data[:_HEAD_BYTES]
    found += [match[1].decode("ascii") for match in (_XML.search(head), _DECLARED.search(head)) if match]
    return list(dict.fromkeys(codec for label in found if (codec := _codec(label))))


def _codec(label: str) -> str | None:
    if label.lower() in _KOREAN:
        return "cp949"  # what browsers read under these names, too
    try:
        info = codecs.lookup(label)
    except LookupError:
        return None
    if not info._is_text_encoding or info.name.startswith(_NOT_OF_PAGES):
        return None
    return "utf-8" if info.name in ("utf-8", "utf-8-sig") else info.name


def _strict(data: bytes, name: str) -> str | None:
    try:
        return data.decode(name)
    except (UnicodeError, ValueError):
        return None


def _decoded(data: bytes, name: str) -> _Decoded:
    text = data.decode(name, "replace")
    return _Decoded(text, name, text.count("�"))


_MAX_ENCODINGS = 3
"""Compressions of one body in a row; more are an attack, because each may unpack to the limit."""
_BLOCK_BYTES = 16 << 10
"""Compressed bytes handed to zlib at once: the rest after a gzip member is copied for each of them."""

_GZIP, _ZLIB, _RAW = 31, 15, -15


class BodyError(ValueError):
    """A body that cannot be decoded; ``reason`` is ``truncated``, ``corrupt``, ``too_large`` or ``unknown_encoding``."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason, self.detail = reason, detail


def decode_body(body: bytes, encodings: str, max_bytes: int) -> bytes:
    """Undo a ``Content-Encoding`` or ``Transfer-Encoding`` (gzip, deflate, chunked, several in a row). Never holds more than
    ``max_bytes`` and a block.

    Raises BodyError; a body that ends before its compression or chunk does is an error, not a shorter page.
    """
    names = [name for part in encodings.split(",") if (name := part.strip().lower()) not in ("", "identity")]
    if len(names) > _MAX_ENCODINGS:
        raise BodyError("unknown_encoding", f"{len(names)} compressions in a row")
    for name in reversed(names):
        if name in ("gzip", "x-gzip"):
            body = _inflated(body, _GZIP, max_bytes)
        elif name == "deflate":  # RFC 9110 means zlib; some servers send raw deflate
            body = _inflated(body, _ZLIB if _looks_like_zlib(body) else _RAW, max_bytes)
        elif name == "chunked":
            body = _dechunked(body)
        else:
            raise BodyError("unknown_encoding", f"Content-Encoding: {name}")
    if len(body) > max_bytes:
        raise BodyError("too_large", f"more than {max_bytes:,} bytes")
    return body


def gunzip_if_gzip(body: bytes, max_bytes: int) -> bytes:
    """A body that is itself a gzip file (``sitemap.xml.gz``), unpacked; any other as it is. Raises BodyError."""
    return _inflated(body, _GZIP, max_bytes) if body.startswith(b"\x1f\x8b") else body


_CHUNK = re.compile(rb"([0-9A-Fa-f]{1,16})[ \t]*(?:;[^\r\n]*)?\r?\n")
"""Size of a chunk, with extensions (RFC 9112, section 7.1)."""
_DECHUNKED = re.compile(rb"(?:\xef\xbb\xbf)?\s*<|\xff\xfe|\xfe\xff|\x1f\x8b|x[\x01\x5e\x9c\xda]")
"""Beginnings of pages and of compressed bodies. Many crawlers keep the header ``chunked`` though they joined the chunks."""


def _dechunked(body: bytes) -> bytes:
    """The joined chunks; a body that has none any more, as it is. The last, empty chunk may be missing."""
    if _DECHUNKED.match(body):
        return body
    parts: list[bytes] = []
    position = 0
    while position < len(body):
        found = _CHUNK.match(body, position)
        if found is None:
            raise BodyError("corrupt", f"no chunk begins at byte {position:,} of the body")
        size = int(found[1], 16)
        if not size:
            break
        end = found.end() + size
        if end > len(body):
            raise BodyError("truncated", "the body ends within a chunk")
        parts.append(body[found.end() : end])
        position = end + 2 if body.startswith(b"\r\n", end) else end
    return b"".join(parts)


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
