"""Official benchmark files, read whole into memory.

Evaluation reads its examples through this, decontamination the texts that the corpus must not hold. Anything odd is an error:
a score on half a test set, or a corpus cleaned of half of it, is worth nothing.
"""

from __future__ import annotations

import codecs
import csv
import errno
import io
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from korealbert.documents.containers import is_archive, open_files
from korealbert.documents.schema import Quarantined
from korealbert.documents.streams import RawFile, ReadFault, ReadLimits
from korealbert.documents.tables import csv_reader

MAX_BYTES = 2 << 30
"""Largest decompressed benchmark file that is read; the largest official one (MNLI train) has 76 MB."""

_SHOWN_MEMBERS = 20

_BYTE_ORDER_MARK = "\ufeff"

_BLANKS = " \t\r\f\v"

_MARKED = {
    codecs.BOM_UTF32_LE: "UTF-32",
    codecs.BOM_UTF32_BE: "UTF-32",
    codecs.BOM_UTF16_LE: "UTF-16",
    codecs.BOM_UTF16_BE: "UTF-16",
}
"""Byte order marks of encodings other than UTF-8, the longer first: one begins as another."""


@dataclass(frozen=True)
class Line:
    """One line of a benchmark file, without its line end, that knows where it is."""

    file: str
    number: int
    text: str

    @property
    def is_blank(self) -> bool:
        """Whether it has nothing but blanks of ASCII: others, as U+00A0 and U+3000, are text."""
        return not self.text.strip(_BLANKS)

    def error(self, field: str, problem: str, remedy: str) -> ValueError:
        """The error to raise for this line, naming file, line, field and remedy."""
        return ValueError(f"{self.file}, line {self.number}, field {field!r}: {problem}; {remedy}")


@dataclass(frozen=True)
class BenchmarkFile:
    """A benchmark file as a spec names it."""

    path: Path
    """Plain, ``.gz``, ``.bz2``, ``.xz`` or ``.zst``, or an archive: zip, or a tar plain or compressed so."""
    member: str = ""
    """Name of the file within the archive; empty where ``path`` is none."""

    def __str__(self) -> str:
        return f"{self.path}::{self.member}" if self.member else str(self.path)

    def error(self, line: int, field: str, problem: str, remedy: str) -> ValueError:
        """The error to raise for a place in this file, naming file, line, field and remedy."""
        return Line(str(self), line, "").error(field, problem, remedy)

    def lines(self, encoding: str = "utf-8") -> Iterator[Line]:
        """The lines in order, cut at line feeds only, because quotation marks of official files are text.

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
            if marked := next((name for mark, name in _MARKED.items() if content.startswith(mark)), ""):
                remedy = f"the file is in {marked}, as its byte order mark says: convert it: iconv -f {marked} -t UTF-8"
            raise self._error_behind(content[: error.start].decode("latin-1"), problem, remedy) from error
        before, nul, _ = text.partition("\0")
        if nul:
            remedy = "the file is damaged, or in UTF-16: fetch it again, or convert it: iconv -f UTF-16 -t UTF-8"
            raise self._error_behind(before, "holds a NUL byte, which no text does", remedy)
        return text.removeprefix(_BYTE_ORDER_MARK)

    def _error_behind(self, before: str, problem: str, remedy: str) -> ValueError:
        column = before[before.rfind("\n") + 1 :].count("\t") + 1
        return self.error(before.count("\n") + 1, f"column {column}", problem, remedy)

    def content(self) -> bytes:
        """All bytes of the file, decompressed, at most ``MAX_BYTES``.

        Raises ValueError naming the file when it is damaged, too large or unfolds beyond ``ReadLimits``, or when the archive
        lacks the member, and FileNotFoundError.
        """
        in_archive = is_archive(self.path.name)
        if in_archive != bool(self.member):
            remedy = "name its member in the spec" if in_archive else "leave the member empty"
            raise ValueError(f"{self}: {'an archive' if in_archive else 'not an archive'}; {remedy}")
        if not self.path.exists():
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(self.path))
        if self.path.is_dir():
            raise self._unreadable("it is a directory")
        names: list[str] = []
        for raw in open_files([self.path], "*", ReadLimits()):
            name = raw.file if isinstance(raw, Quarantined) else raw.name
            member = name.partition("::")[2].removeprefix("./")
            if isinstance(raw, Quarantined):
                if member in ("", self.member.removeprefix("./")):
                    raise self._unreadable(f"{raw.position}: {raw.reason}; {raw.remedy}")
            elif member == self.member.removeprefix("./"):
                return self._bounded(raw)
            names += [member] if len(names) < _SHOWN_MEMBERS else []
        raise ValueError(f"{self}: the archive has no such member; it holds {', '.join(names)}")

    def _bounded(self, raw: RawFile) -> bytes:
        blocks: list[bytes] = []
        try:
            while block := raw.read():
                blocks.append(block)
                if raw.bytes_read > MAX_BYTES:
                    raise ValueError(f"{self}: more than {MAX_BYTES:,} bytes when decompressed; is this the official file?")
        except ReadFault as fault:
            raise self._unreadable(str(fault)) from fault
        return b"".join(blocks)

    def _unreadable(self, why: str) -> ValueError:
        return ValueError(f"{self}: cannot be read ({why}); is the download complete?")


def csv_rows(file: BenchmarkFile, encoding: str = "utf-8") -> Iterator[tuple[Line, list[str]]]:
    """Rows of a CSV file (RFC 4180), each with the line on which it begins; empty lines are none.

    Raises ValueError naming file and line where quotation marks do not close.
    """
    rows, number = csv_reader(io.StringIO(file.text(encoding), newline=""), strict=True), 1
    try:
        for fields in rows:
            if fields:
                yield Line(str(file), number, ""), fields
            number = rows.line_num + 1
    except csv.Error as error:
        raise file.error(number, "row", str(error), "correct its quotation marks") from error


def conll_sentences(file: BenchmarkFile, encoding: str = "utf-8") -> Iterator[list[tuple[Line, list[str]]]]:
    """The lines of each sentence with their columns, parted by tabs, or by blanks in a line without a tab.

    Blank lines part sentences; lines that begin with ``##`` are left out, and in a file with tabs those without one that begin
    with ``#`` and a blank (comments of CoNLL-U). Blanks are those of ASCII. Raises ValueError naming file and line where a
    line has another number of columns than the first.
    """
    lines = [line for line in file.lines(encoding) if not line.text.startswith("##")]
    if any("\t" in line.text for line in lines):
        lines = [line for line in lines if "\t" in line.text or not line.text.startswith("# ")]
    width = 0
    for blank, group in groupby(lines, key=lambda line: line.is_blank):
        sentence = [] if blank else [(line, _columns(line.text)) for line in group]
        for line, columns in sentence:
            width = width or len(columns)
            if len(columns) != width:
                problem = f"the line has {len(columns)} columns, the first one {width}"
                remedy = "restore the official line, or put tabs between columns, and none elsewhere"
                raise line.error(f"column {min(len(columns), width)}", problem, remedy)
        if sentence:
            yield sentence


def _columns(text: str) -> list[str]:
    return text.split("\t") if "\t" in text else re.split(f"[{_BLANKS}]+", text.strip(_BLANKS))
