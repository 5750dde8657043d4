"""Official benchmark files, to be read whole.

Evaluation reads its examples through this, decontamination the texts that the corpus must not hold. Anything odd is an error:
a score on half a test set, or a corpus cleaned of half of it, is worth nothing.
"""

from __future__ import annotations

import tarfile
from collections.abc import Iterator
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
    """One line of a benchmark file, without its line end, that knows where it is."""

    file: str
    number: int
    text: str

    def error(self, field: str, problem: str, remedy: str) -> ValueError:
        """The error to raise for this line, naming file, line, field and remedy."""
        return _error(self.file, self.number, field, problem, remedy)


@dataclass(frozen=True)
class BenchmarkFile:
    """A benchmark file as a spec names it."""

    path: Path
    """Plain, ``.gz``, ``.bz2`` or ``.zst``, or a tar archive, itself plain or compressed so."""
    member: str = ""
    """Name of the file within the archive; empty where ``path`` is none."""

    def __str__(self) -> str:
        return f"{self.path}::{self.member}" if self.member else str(self.path)

    def error(self, line: int, field: str, problem: str, remedy: str) -> ValueError:
        """The error to raise for a place in this file, naming file, line, field and remedy."""
        return _error(str(self), line, field, problem, remedy)

    def lines(self, encoding: str = "utf-8") -> Iterator[Line]:
        """The lines in order: what is between two line feeds, since quotation marks of official files are text.

        A carriage return before the line feed is taken off. Raises ValueError as ``text`` does.
        """
        name, lines = str(self), self.text(encoding).split("\n")
        if not lines[-1]:
            lines.pop()
        for number, line in enumerate(lines, start=1):
            yield Line(name, number, line.removesuffix("\r"))

    def text(self, encoding: str = "utf-8") -> str:
        """The whole file decoded, without a byte order mark.

        Raises ValueError naming file, line and column where bytes are not in the encoding or NUL, and as ``content`` does.
        """
        content = self.content()
        try:
            text = content.decode(encoding)
        except UnicodeDecodeError as error:
            problem = f"byte 0x{content[error.start]:02x} is no {encoding.upper()}"
            remedy = "fetch the official file again, or convert this one, from CP949 for instance: iconv -f CP949 -t UTF-8"
            raise self._error_behind(content[: error.start].decode("latin-1"), problem, remedy) from error
        before, nul, _ = text.partition("\0")
        if nul:
            remedy = "the file is damaged, or in UTF-16: fetch it again, or convert it: iconv -f UTF-16 -t UTF-8"
            raise self._error_behind(before, "holds a NUL byte, which no text does", remedy)
        return text.removeprefix(BYTE_ORDER_MARK)

    def _error_behind(self, before: str, problem: str, remedy: str) -> ValueError:
        column = before[before.rfind("\n") + 1 :].count("\t") + 1
        return self.error(before.count("\n") + 1, f"column {column}", problem, remedy)

    def content(self) -> bytes:
        """All bytes of the file, decompressed, at most ``MAX_BYTES``.

        Raises ValueError naming the file when it is damaged or too large, or when the archive lacks the member.
        """
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


def _error(file: str, line: int, field: str, problem: str, remedy: str) -> ValueError:
    return ValueError(f"{file}, line {line}, field {field!r}: {problem}; {remedy}")


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
