"""Reads tar archives member by member from a stream, in bounded memory, up to the last byte of a truncated archive.

``tarfile`` reads extended headers of any size into memory, keeps every global header, expands sparse files, and loses data
already read when an archive is truncated. Here it only decodes the header blocks.
"""

from __future__ import annotations

import re
import tarfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass

_BLOCK = tarfile.BLOCKSIZE
_MAX_HEADER_BYTES = 1 << 20
"""Longest extended header (PAX or GNU long name) that is read. Paths have at most 4,096 bytes; the rest are attributes."""
_MAX_PAX_RECORDS = 256
"""Records of one PAX header, one for each attribute of a file. Writers use a few dozen at most."""
_MAX_EXTENDED_HEADERS = 16
"""Consecutive extended headers before a member's header. Writers use at most three."""

_READ_BYTES = 1 << 18
_WITHOUT_DATA = frozenset(
    {tarfile.LNKTYPE, tarfile.SYMTYPE, tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.DIRTYPE, tarfile.FIFOTYPE}
)
_EXTENDED = frozenset(
    {tarfile.XHDTYPE, tarfile.SOLARIS_XHDTYPE, tarfile.XGLTYPE, tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK}
)
_SPARSE_CONTINUES, _SPARSE_CONTINUES_LATER = 482, 504
"""Position of the byte that says whether another block follows, in an old GNU sparse header and in its continuations."""
_PAX_RECORD = re.compile(rb"(\d{1,9}) ([^=\n]+)=")


class TarFault(Exception):
    """The rest of an archive cannot be read; ``reason`` is ``truncated``, ``corrupt`` or ``header_too_long``."""

    def __init__(self, reason: str, byte: int, detail: str) -> None:
        super().__init__(f"byte {byte}: {detail}")
        self.reason, self.byte, self.detail = reason, byte, detail


@dataclass(frozen=True, slots=True)
class TarMember:
    """What a header says about a member."""

    name: str
    size: int
    """Bytes of data in the archive."""
    is_file: bool
    """Whether it is a regular file, possibly sparse, and no link, device or directory."""
    is_sparse: bool


class TarReader:
    """Iterates over members; ``read`` returns data of the current one. Unread data is skipped."""

    def __init__(self, source: Callable[[int], bytes]) -> None:
        """``source(size)`` returns ``size`` bytes, fewer only at the end of the archive."""
        self.position = 0
        """Bytes read from the archive."""
        self.left = 0
        """Unread bytes of the current member's data."""
        self._source, self._padding = source, 0

    def read(self, size: int) -> bytes:
        """Return at most ``size`` bytes of the current member, none at its end. Raises TarFault if the archive ends earlier."""
        if self.left == 0:
            return b""
        data = self._source(min(size, self.left))
        self.position += len(data)
        self.left -= len(data)
        if not data:
            raise TarFault("truncated", self.position, f"the archive ends, and {self.left:,} bytes of the member are missing")
        return data

    def __iter__(self) -> Iterator[TarMember]:
        """Yield all members. Raises TarFault if the archive is damaged or has no end-of-archive block."""
        return iter(self.next, None)

    def next(self) -> TarMember | None:
        """Return the next member, or None at the end of the archive, after which only zeros may follow."""
        self._skip_rest()
        name: str | None = None
        pax: dict[bytes, bytes] = {}
        for _ in range(_MAX_EXTENDED_HEADERS):
            at = self.position
            block = self._block()
            if not any(block):
                self._check_end()
                return None
            header = _header(block, at)
            if header.type not in _EXTENDED:
                return self._member(header, block, name, pax, at)
            content = self._extended(header, at)
            if header.type == tarfile.GNUTYPE_LONGNAME:
                name = content.partition(b"\0")[0].decode("utf-8", "surrogateescape")
            elif header.type in (tarfile.XHDTYPE, tarfile.SOLARIS_XHDTYPE):
                pax |= _pax_records(content, at)
        raise TarFault("corrupt", at, f"more than {_MAX_EXTENDED_HEADERS} extended headers in a row")

    def _member(self, header: tarfile.TarInfo, block: bytes, name: str | None, pax: dict[bytes, bytes], at: int) -> TarMember:
        path = pax.get(b"GNU.sparse.name") or pax.get(b"path")
        name = path.decode("utf-8", "surrogateescape").rstrip("/") if path else name or header.name
        sparse = header.type == tarfile.GNUTYPE_SPARSE or any(key.startswith(b"GNU.sparse.") for key in pax)
        size = header.size
        if b"size" in pax:
            if not pax[b"size"].isdigit() or len(pax[b"size"]) > 20:
                raise TarFault("corrupt", at, "a PAX header whose size is no number")
            size = int(pax[b"size"])
        if header.type == tarfile.GNUTYPE_SPARSE:
            continues = block[_SPARSE_CONTINUES]
            while continues:
                continues = self._block()[_SPARSE_CONTINUES_LATER]
        self.left = 0 if header.type in _WITHOUT_DATA else size
        self._padding = -self.left % _BLOCK
        is_file = header.isreg() or header.type not in tarfile.SUPPORTED_TYPES
        return TarMember(name, self.left, is_file and header.type not in _WITHOUT_DATA, sparse)

    def _extended(self, header: tarfile.TarInfo, at: int) -> bytes:
        if header.size > _MAX_HEADER_BYTES:
            detail = f"a header of {header.size:,} bytes; those of archives have at most {_MAX_HEADER_BYTES:,}"
            raise TarFault("header_too_long", at, detail)
        parts = []
        self.left, self._padding = header.size, -header.size % _BLOCK
        while part := self.read(_READ_BYTES):
            parts.append(part)
        self._skip_rest()
        return b"".join(parts)

    def _skip_rest(self) -> None:
        self.left, self._padding = self.left + self._padding, 0
        while self.read(_READ_BYTES):
            pass

    def _block(self) -> bytes:
        block = self._source(_BLOCK)
        self.position += len(block)
        if len(block) < _BLOCK:
            raise TarFault("truncated", self.position, "the archive ends without its end-of-archive block")
        return block

    def _check_end(self) -> None:
        while block := self._source(_READ_BYTES):
            if any(block):
                raise TarFault("corrupt", self.position, "there is data after the end of the archive")
            self.position += len(block)


def _header(block: bytes, at: int) -> tarfile.TarInfo:
    try:
        header = tarfile.TarInfo.frombuf(block, "utf-8", "surrogateescape")
    except (tarfile.HeaderError, ValueError) as error:
        raise TarFault("corrupt", at, f"damaged header of a member ({error})") from error
    if header.size < 0:
        raise TarFault("corrupt", at, "a header with a negative size")
    return header


def _pax_records(content: bytes, at: int) -> dict[bytes, bytes]:
    found: dict[bytes, bytes] = {}
    position = records = 0
    while position < len(content) and content[position] != 0:
        record = _PAX_RECORD.match(content, position)
        end = position + int(record[1]) if record else 0
        if record is None or not record.end() < end <= len(content) or content[end - 1 : end] != b"\n":
            raise TarFault("corrupt", at, "a PAX header whose records have other lengths than they say")
        found[record[2]] = content[record.end() : end - 1]
        position = end
        records += 1
        if records > _MAX_PAX_RECORDS:
            raise TarFault("header_too_long", at, f"a PAX header of more than {_MAX_PAX_RECORDS} records")
    return found
