"""Decodes pages: content and transfer encodings, and the charset.

Korean pages of the 2000s often declare a wrong charset (a server's default header on a page in EUC-KR, or EUC-KR in a page that
is now UTF-8), so the bytes decide if they can: Korean text in EUC-KR is almost never valid UTF-8, except for single syllables.
"""

from __future__ import annotations

import codecs
import re
import zlib
from dataclasses import dataclass

_HEAD_BYTES = 4096
"""Length of the beginning of a page in which its declaration is searched: more than the 1024 of HTML, for long comments."""

_CP949_LABELS = (
    *("euc-kr", "euckr", "ks_c_5601-1987", "ksc5601", "ks_c_5601", "ksc_5601", "ksx1001"),
    *("windows-949", "ms949", "uhc", "cp949"),
)
_DECLARED = re.compile(rb"""<meta[^>]{0,400}?charset\s*=\s*["']?\s*([A-Za-z0-9_:.-]+)""", re.IGNORECASE)
_XML = re.compile(rb"""^\s*<\?xml[^>]{0,200}?encoding\s*=\s*["']([A-Za-z0-9_:.-]+)""")
_HEADER = re.compile(r"""charset\s*=\s*["']?\s*([A-Za-z0-9_:.-]+)""", re.IGNORECASE)
_HANGUL = re.compile("[가-힣]")
_HTML_TYPES = ("text/html", "application/xhtml+xml")
_UNSPECIFIC_TYPES = ("", "text/plain", "application/octet-stream")
"""Content types by which servers send files of unknown type."""
_TAG = re.compile(rb"<(?:!doctype\s+html|/?[a-z])", re.IGNORECASE)
_NOT_HTML = re.compile(rb"\s*(?:<\?xml[^>]*>\s*)?<(?:mediawiki|doc|rss|feed|urlset|sitemapindex)[\s>]")
_REFUSED_CODECS = ("utf-16", "utf-32", "utf-7", "idna", "punycode", "undefined", "unicode-escape", "raw-unicode-escape")
"""Python codecs in which the declaration would not be ASCII, or which are not charsets and raise, take quadratic time, or
return lone surrogates."""
_BOMS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))
_MAX_BROKEN_SHARE = 0.01
"""Largest share of undecodable characters in a readable text."""


def is_html(data: bytes, content_type: str | None = None) -> bool:
    """Return whether a body is an HTML page, by its content type, or if that is unspecific by its bytes.

    If the content type is None, as for files of a source in HTML, any tag is enough, except those of dumps, feeds and sitemaps.
    """
    if content_type is None:
        if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            data = data.decode("utf-16", "replace").encode("utf-8", "replace")
        head = data.removeprefix(codecs.BOM_UTF8)
        return bool(_TAG.search(head) and not _NOT_HTML.match(head))
    kind = content_type.partition(";")[0].strip().lower()
    return kind in _HTML_TYPES or (kind in _UNSPECIFIC_TYPES and b"<html" in data[:2048].lower())


@dataclass(frozen=True, slots=True)
class _Decoded:
    """The characters of a page."""

    text: str
    charset: str
    """The codec that was used."""
    broken: int = 0
    """Number of characters that could not be decoded and became U+FFFD."""

    @property
    def readable(self) -> bool:
        """Whether only single bytes are damaged."""
        return self.broken <= _MAX_BROKEN_SHARE * max(1, len(self.text))


def decode_page(data: bytes, content_type: str = "") -> _Decoded:
    """Decode HTML or XML; ``content_type`` is the value of the header. Never raises; see ``broken``."""
    for bom, name in _BOMS:
        if data.startswith(bom):
            return _decode_leniently(data[len(bom) :], name)
    declared = _declarations(data, content_type)
    candidates = list(dict.fromkeys([*declared, "utf-8", "cp949"]))
    valid = {
        name: text
        for name in candidates
        if name not in _SINGLE_BYTE_CHARSETS and (text := _decode_strictly(data, name)) is not None
    }
    if "utf-8" in valid and not _is_cp949_by_declaration(valid, declared):
        return _Decoded(valid["utf-8"], "utf-8")
    for name in candidates:
        if name in valid:
            return _Decoded(valid[name], name)
    best = min(
        (_decode_leniently(data, name) for name in candidates if name not in _SINGLE_BYTE_CHARSETS),
        key=lambda decoded: decoded.broken,
    )
    single = next((name for name in declared if name in _SINGLE_BYTE_CHARSETS), None)
    return _decode_leniently(data, single) if single and not best.readable else best


_SINGLE_BYTE_CHARSETS = frozenset({"iso8859-1", "cp1252", "iso8859-15", "cp1250", "cp1251", "koi8-r", "iso8859-2"})
"""Charsets in which all bytes are valid, so that decoding proves nothing."""


def _is_cp949_by_declaration(valid: dict[str, str], declared: list[str]) -> bool:
    """Return whether a page declares CP949 and contains Hangul only in that; a few syllables may also be valid UTF-8."""
    if "utf-8" in declared or "cp949" not in declared or "cp949" not in valid:
        return False
    return bool(_HANGUL.search(valid["cp949"])) and not _HANGUL.search(valid["utf-8"])


def _declarations(data: bytes, content_type: str) -> list[str]:
    found = [match[1] for match in [_HEADER.search(content_type)] if match]
    head = data[:_HEAD_BYTES]
    found += [match[1].decode("ascii") for match in (_XML.search(head), _DECLARED.search(head)) if match]
    return list(dict.fromkeys(codec for label in found if (codec := _codec(label))))


def _codec(label: str) -> str | None:
    if label.lower() in _CP949_LABELS:
        return "cp949"  # as in browsers
    try:
        info = codecs.lookup(label)
    except LookupError:
        return None
    if not info._is_text_encoding or info.name.startswith(_REFUSED_CODECS):
        return None
    return "utf-8" if info.name in ("utf-8", "utf-8-sig") else info.name


def _decode_strictly(data: bytes, name: str) -> str | None:
    try:
        return data.decode(name)
    except (UnicodeError, ValueError):
        return None


def _decode_leniently(data: bytes, name: str) -> _Decoded:
    text = data.decode(name, "replace")
    return _Decoded(text, name, text.count("�"))


_MAX_ENCODINGS = 3
"""Largest number of encodings of one body; each may decompress to the limit."""
_BLOCK_BYTES = 16 << 10
"""Compressed bytes passed to zlib at once: what follows a gzip member is copied for each of them."""

_GZIP, _ZLIB, _RAW = 31, 15, -15


class BodyError(ValueError):
    """A body that cannot be decoded; ``reason`` is ``truncated``, ``corrupt``, ``too_large`` or ``unknown_encoding``."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason, self.detail = reason, detail


def decode_body(body: bytes, encodings: str, max_bytes: int) -> bytes:
    """Undo a ``Content-Encoding`` or ``Transfer-Encoding`` (gzip, deflate, chunked, or several of them).

    Raises BodyError, also for a body that ends within its compressed stream or chunk.
    """
    names = [name for part in encodings.split(",") if (name := part.strip().lower()) not in ("", "identity")]
    if len(names) > _MAX_ENCODINGS:
        raise BodyError("unknown_encoding", f"{len(names)} compressions in a row")
    for name in reversed(names):
        if name in ("gzip", "x-gzip"):
            body = _decompress(body, _GZIP, max_bytes)
        elif name == "deflate":  # zlib in RFC 9110, but some servers send raw deflate
            body = _decompress(body, _ZLIB if _looks_like_zlib(body) else _RAW, max_bytes)
        elif name == "chunked":
            body = _join_chunks(body)
        else:
            raise BodyError("unknown_encoding", f"Content-Encoding: {name}")
    if len(body) > max_bytes:
        raise BodyError("too_large", f"more than {max_bytes:,} bytes")
    return body


def gunzip_if_gzip(body: bytes, max_bytes: int) -> bytes:
    """Decompress a body if it is a gzip file (``sitemap.xml.gz``). Raises BodyError."""
    return _decompress(body, _GZIP, max_bytes) if body.startswith(b"\x1f\x8b") else body


_CHUNK = re.compile(rb"([0-9A-Fa-f]{1,16})[ \t]*(?:;[^\r\n]*)?\r?\n")
"""Size of a chunk, with extensions (RFC 9112, section 7.1)."""
_DECHUNKED = re.compile(rb"(?:\xef\xbb\xbf)?\s*<|\xff\xfe|\xfe\xff|\x1f\x8b|x[\x01\x5e\x9c\xda]")
"""Matches the beginning of a page or compressed body: many crawlers join the chunks, but keep the header ``chunked``."""


def _join_chunks(body: bytes) -> bytes:
    """Join the chunks, of which the last, empty one may be missing; return a body without chunks as it is."""
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


def _decompress(body: bytes, window: int, max_bytes: int) -> bytes:
    """Decompress all members of a gzip file, or one zlib or raw stream; what follows is ignored, as gzip does."""
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
