"""Official benchmark files, line by line: plain, ``.gz`` or ``.zst``, alone or inside a tar archive.

The official TSV files carry literal quotes, so nothing here is a CSV reader: a line is what stands between two line feeds.
"""

from __future__ import annotations

import tarfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

MAX_BYTES = 2 << 30
"""Largest decompressed benchmark file that is read; the largest official one (MNLI train) has 76 MB."""

BLOCK_BYTES = 1 << 20

BYTE_ORDER_MARK = "\ufeff"


@dataclass(frozen=True)
class Line:
    """One line of a benchmark file, without its line end, that knows where it stands."""

    file: str
    number: int
    text: str

    def error(self, field: str, problem: str, remedy: str) -> ValueError:
        """The error to raise for this line, naming file, line, field and remedy."""
        return ValueError(f"{self.file}, line {self.number}, field {field!r}: {problem}; {remedy}")


@dataclass(frozen=True)
class BenchmarkFile:
    """A benchmark file as a spec names it. ``member`` is the name inside a tar archive, empty for a plain file."""

    path: Path
    member: str = ""

    def __str__(self) -> str:
        return f"{self.path}::{self.member}" if self.member else str(self.path)

    def lines(self) -> Iterator[Line]:
        """The lines in order, decoded as UTF-8; a byte order mark and CRLF line ends are taken off.

        Raises ValueError naming file and line where the bytes are no UTF-8, and when the archive lacks the member.
        """
        raw_lines = self.content().split(b"\n")
        if raw_lines and not raw_lines[-1]:
            raw_lines.pop()
        for number, raw in enumerate(raw_lines, start=1):
            text = self._decoded(raw, number).removesuffix("\r")
            yield Line(str(self), number, text.removeprefix(BYTE_ORDER_MARK) if number == 1 else text)

    def _decoded(self, raw: bytes, number: int) -> str:
        try:
            return raw.decode("utf-8")
        except UnicodeDecodeError as error:
            column = raw[: error.start].count(b"\t") + 1
            problem = f"byte 0x{raw[error.start]:02x} is no UTF-8"
            remedy = "if the file is CP949, convert it: iconv -f CP949 -t UTF-8"
            raise Line(str(self), number, "").error(f"column {column}", problem, remedy) from error

    def content(self) -> bytes:
        """All bytes of the file, decompressed, at most ``MAX_BYTES``."""
        is_tar = ".tar" in self.path.suffixes or self.path.suffix == ".tgz"
        if is_tar != bool(self.member):
            remedy = "name its member in the spec" if is_tar else "leave the member empty"
            raise ValueError(f"{self}: {'an archive' if is_tar else 'not a tar archive'}; {remedy}")
        try:
            with self._open() as stream:
                content = _member(stream, self) if is_tar else _bounded(stream)
        except (OSError, tarfile.TarError) as error:
            if isinstance(error, FileNotFoundError):
                raise
            raise ValueError(f"{self}: cannot be read ({error}); is the download complete?") from error
        if len(content) > MAX_BYTES:
            raise ValueError(f"{self}: more than {MAX_BYTES:,} bytes when decompressed; is this the official file?")
        return content

    def _open(self) -> Any:
        compression = {".gz": "gzip", ".tgz": "gzip", ".zst": "zstd", ".bz2": "bz2"}.get(self.path.suffix)
        return pa.input_stream(str(self.path), compression=compression)


def _bounded(stream: Any) -> bytes:
    """All of a stream, or a little more than ``MAX_BYTES`` of it. Read in blocks: pyarrow allocates what it is asked for."""
    blocks: list[bytes] = []
    size = 0
    while size <= MAX_BYTES and (block := stream.read(BLOCK_BYTES)):
        blocks.append(block)
        size += len(block)
    return b"".join(blocks)


def _member(stream: Any, file: BenchmarkFile) -> bytes:
    seen = []
    with tarfile.open(fileobj=stream, mode="r|") as archive:
        for entry in archive:
            content = archive.extractfile(entry) if entry.isreg() else None
            if content is not None and entry.name.removeprefix("./") == file.member.removeprefix("./"):
                return _bounded(content)
            seen.append(entry.name)
    raise ValueError(f"{file}: the archive has no such member; it holds {', '.join(seen[:20])}")


def tsv_rows(
    file: BenchmarkFile, header: tuple[str, ...], *, leave_out: Callable[[Line, list[str]], bool] | None = None
) -> Iterator[tuple[Line, list[str]]]:
    """Rows of a tab-separated file whose first line must be ``header``; each row has exactly as many fields.

    Quotes are ordinary characters and no field is ever read as missing: ``null`` and ``NA`` are words people write.
    ``leave_out(line, fields)`` picks rows that a benchmark is known to be broken at; they are skipped.
    """
    lines = file.lines()
    first = next(lines, Line(str(file), 1, ""))
    if tuple(first.text.split("\t")) != header:
        expected = "<TAB>".join(header)
        raise first.error("header", f"found {first.text[:80]!r}", f"the official file begins with {expected}")
    for line in lines:
        fields = line.text.split("\t")
        if leave_out is not None and leave_out(line, fields):
            continue
        if len(fields) != len(header):
            problem = f"{len(fields)} fields instead of {len(header)}"
            raise line.error(header[min(len(fields), len(header)) - 1], problem, "restore the line from the official file")
        yield line, fields
