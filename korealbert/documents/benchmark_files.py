"""Names and reads official benchmark files, for evaluation and decontamination.

Any damage is an error: a score on half a test set, or a corpus decontaminated against half of it, is worth nothing.
"""

from __future__ import annotations

import codecs
import csv
import errno
import io
import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Annotated, Any, NoReturn

import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import Discriminator, Field, Tag, field_validator

from korealbert.artifact import InputPath, Inputs, Spec
from korealbert.artifact.files import json_fault, unambiguous
from korealbert.artifact.spec import PRIVATE_HOSTS
from korealbert.documents.containers import MemberFilter, composed_name, is_archive, is_hidden, member_of, open_files
from korealbert.documents.csv import csv_reader
from korealbert.documents.schema import Quarantined
from korealbert.documents.streams import RawFile, ReadFault, ReadLimits

_ROWS_PER_BATCH = 1_000

MAX_BYTES = 2 << 30
"""Largest decompressed benchmark file; the largest official one (MNLI train) has 76 MB."""

_MAX_SHOWN_MEMBERS = 20

_BOM = "\ufeff"

_BLANKS = " \t\r\f\v"

_OTHER_BOMS = {
    codecs.BOM_UTF32_LE: "UTF-32",
    codecs.BOM_UTF32_BE: "UTF-32",
    codecs.BOM_UTF16_LE: "UTF-16",
    codecs.BOM_UTF16_BE: "UTF-16",
}
"""Encodings other than UTF-8 by byte order mark; that of UTF-32 begins like that of UTF-16, and so comes first."""


_COLUMNAR = {b"PAR1": "Parquet", b"ARROW1": "Arrow"}
"""Formats that are no text, by the first bytes of their files."""


class RemoteFile(Spec):
    """A benchmark file that is downloaded once and must have a checksum."""

    url: str = Field(pattern=r"^https?://.+$")
    """The file's address."""
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")
    """Checksum of the file as downloaded, in lower-case hex digits."""
    name: str = Field(default="", pattern=r"^[^/\x00]*$")
    """File name, whose extension says how the file is read. Default: the last part of the URL."""
    private_hosts: Annotated[tuple[str, ...], PRIVATE_HOSTS] = ()
    """Hosts that may have a private address; all others must have public ones."""

    @field_validator("url", mode="before")
    @classmethod
    def _is_remote(cls, value: object) -> object:
        if isinstance(value, str) and value.lower().startswith("file:"):
            raise ValueError("file:// is a file of this machine: write its path in place of the table")
        return value

    @field_validator("private_hosts", mode="before")
    @classmethod
    def _list_is_a_tuple(cls, value: Any) -> Any:
        # FeaturesSpec reads the table before pydantic does, which then no longer accepts a JSON list as a tuple.
        return tuple(value) if isinstance(value, list) else value


LOCAL, REMOTE = "local file", "remote file"
"""Names of the two kinds of ``DataFile`` in pydantic's error locations."""


def _kind_of_file(value: Any) -> str:
    return REMOTE if isinstance(value, Mapping | RemoteFile) else LOCAL


DataFile = Annotated[Annotated[InputPath, Tag(LOCAL)] | Annotated[RemoteFile, Tag(REMOTE)], Discriminator(_kind_of_file)]
"""A path, or a table of URL and checksum."""


def local_path(place: DataFile, inputs: Inputs, role: str) -> Path:
    """Return the path that a spec names, or the downloaded file in input ``role``. Raises ValueError if that is missing."""
    if isinstance(place, InputPath):
        return place.path
    if role not in inputs:
        raise ValueError(f"{place.url}: not fetched; give the artifact of its fetch stage as input {role!r}")
    (path,) = inputs[role].files("files/*")
    return path


@dataclass(frozen=True)
class Line:
    """One line of a benchmark file, without its line end, and its position; in Parquet a row, without a text."""

    file: str
    number: int
    text: str
    unit: str = "line"

    @property
    def position(self) -> str:
        """Unit and number, as messages name them."""
        return f"{self.unit} {self.number}"

    @property
    def is_blank(self) -> bool:
        """Whether the line has only ASCII blanks; other blanks, such as U+00A0 and U+3000, are text."""
        return not self.text.strip(_BLANKS)

    def error(self, field: str, problem: str, remedy: str) -> ValueError:
        """Return the error to raise for this line."""
        return ValueError(f"{self.file}, {self.position}, field {field!r}: {problem}; {remedy}")


class _AllMembers(MemberFilter):
    """Selects hidden members too, because benchmarks name theirs exactly."""

    def takes(self, name: str) -> bool:
        return True


@dataclass(frozen=True)
class BenchmarkFile:
    """A benchmark file as a spec names it."""

    path: Path
    """A plain file, ``.gz``, ``.bz2``, ``.xz`` or ``.zst``, or a zip or tar archive."""
    member: str = ""
    """Name of the file within the archive; empty if ``path`` is not an archive."""

    def __str__(self) -> str:
        return f"{self.path}::{self.member}" if self.member else str(self.path)

    def error(self, line: int, field: str, problem: str, remedy: str) -> ValueError:
        """Return the error to raise for a line of this file."""
        return Line(str(self), line, "").error(field, problem, remedy)

    def lines(self, encoding: str = "utf-8") -> Iterator[Line]:
        """Yield the lines, which end in a line feed with or without carriage return, also within quotation marks; in a file
        without line feeds, in a carriage return.

        Raises ValueError as ``text`` does.
        """
        name, text = str(self), self.text(encoding)
        lines = text.split("\n" if "\n" in text else "\r")
        if not lines[-1]:
            lines.pop()
        for number, line in enumerate(lines, start=1):
            yield Line(name, number, line.removesuffix("\r"))

    def text(self, encoding: str = "utf-8") -> str:
        """Return the whole file as text, without a byte order mark.

        Raises ValueError naming file, line and column of NUL and of bytes that cannot be decoded, and as ``content`` does.
        """
        content = self.content()
        if content.startswith(tuple(_COLUMNAR)):
            name = next(name for magic, name in _COLUMNAR.items() if content.startswith(magic))
            have = 'set format = "parquet" or' if name == "Parquet" else "set another format, or"
            raise ValueError(f"{self}: these bytes are {name}, no text: {have} write the file as JSON Lines")
        try:
            text = content.decode(encoding)
        except UnicodeDecodeError as error:
            problem = f"byte 0x{content[error.start]:02x} is no {encoding.upper()}"
            remedy = "fetch the official file again, or convert this one, from CP949 for instance: iconv -f CP949 -t UTF-8"
            if other := next((name for mark, name in _OTHER_BOMS.items() if content.startswith(mark)), ""):
                remedy = f"the file is in {other}, as its byte order mark says: convert it: iconv -f {other} -t UTF-8"
            raise self._error_after(content[: error.start].decode("latin-1"), problem, remedy) from error
        before, nul, _ = text.partition("\0")
        if nul:
            remedy = "the file is damaged, or in UTF-16: fetch it again, or convert it: iconv -f UTF-16 -t UTF-8"
            raise self._error_after(before, "holds a NUL byte, which no text does", remedy)
        return text.removeprefix(_BOM)

    def _error_after(self, before: str, problem: str, remedy: str) -> ValueError:
        column = before[before.rfind("\n") + 1 :].count("\t") + 1
        return self.error(before.count("\n") + 1, f"column {column}", problem, remedy)

    def content(self) -> bytes:
        """Return all bytes of the file, decompressed.

        Raises FileNotFoundError, and ValueError if the file is damaged, larger than ``MAX_BYTES``, compressed beyond
        ``ReadLimits``, or if the archive lacks the member or holds it twice.
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
        found: bytes | None = None
        wanted = composed_name(self.member.removeprefix("./"))
        for raw in open_files([self.path], _AllMembers(), ReadLimits()):
            name = raw.file if isinstance(raw, Quarantined) else raw.name
            member = member_of(self.path, name).removeprefix("./")
            is_wanted = not in_archive or composed_name(member) == wanted
            if isinstance(raw, Quarantined):
                if not member or is_wanted:
                    raise self._unreadable(f"{raw.position}: {raw.reason}; {raw.remedy}")
            elif is_wanted:
                if found is not None:
                    raise ValueError(f"{self}: the archive holds this member twice; pack it again with the right one alone")
                found = self._bounded(raw)
            names += [member] if len(names) < _MAX_SHOWN_MEMBERS and not is_hidden(member) else []
        if found is None:
            raise ValueError(f"{self}: the archive has no such member; it holds {', '.join(names)}")
        return found

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


def _not_json(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON number")


JSON = json.JSONDecoder(parse_constant=_not_json, object_pairs_hook=unambiguous)
"""Decodes benchmark files, and refuses what is ambiguous or no JSON: names given twice, NaN."""
_JSON_SPACE = re.compile(r"[ \t\n\r]*")


def json_elements(
    file: BenchmarkFile, *, key: str | None = None, encoding: str = "utf-8", remedy: str = "give the official file"
) -> Iterator[tuple[Line, Any]]:
    """Yield the elements of a file that is a JSON list, or of the list in field ``key`` of a file that is an object.

    Each has the line on which it begins. Raises ValueError naming file and line if the JSON is wrong, and the ``remedy`` if it
    is something else.
    """
    lines = list(file.lines(encoding))
    text = "\n".join(line.text for line in lines)
    wanted = "a list" if key is None else f"an object with a list {key!r}"
    try:
        opening = _opening(text, key)
    except (ValueError, RecursionError) as error:
        problem = f"the file is not {wanted} ({json_fault(error)})"
        raise file.error(1, "record", problem, "is the download complete?") from error
    if opening is None:
        raise file.error(1, "record", f"the file is not {wanted}", remedy)
    position = _skip_space(text, opening)
    number, counted, more = 1, 0, text[position : position + 1] != "]"
    while more:
        number, counted = number + text.count("\n", counted, position), position
        line = lines[number - 1]
        try:
            value, position = JSON.raw_decode(text, position)
        except (ValueError, RecursionError) as error:
            raise line.error("record", f"no JSON ({json_fault(error)})", "is the download complete?") from error
        yield line, value
        position = _skip_space(text, position)
        more = text[position : position + 1] == ","
        if more:
            position = _skip_space(text, position + 1)
        elif text[position : position + 1] != "]":
            raise line.error("record", "neither a comma nor ] after it", "is the download complete?")
    # Parse the text around the list too: the second of two concatenated files or equal keys would be lost silently.
    try:
        JSON.decode(text[:opening] + text[position:])
    except (ValueError, RecursionError) as error:
        problem = f"the file is not just {wanted} ({json_fault(error)})"
        raise lines[-1].error("record", problem, "is the download complete, and one file alone?") from error


def _opening(text: str, key: str | None) -> int | None:
    """Return the position after the bracket that opens the outermost list, or the list in a key of the outermost object."""
    position, before, name = _skip_space(text, 0), "{", None
    while name != key:
        if not text.startswith(before, position):
            return None
        name, position = JSON.raw_decode(text, _skip_space(text, position + 1))
        position = _skip_space(text, position)
        if not text.startswith(":", position):
            return None
        position = _skip_space(text, position + 1)
        if name != key:
            position, before = _skip_space(text, JSON.raw_decode(text, position)[1]), ","
    return position + 1 if text.startswith("[", position) else None


def _skip_space(text: str, position: int) -> int:
    found = _JSON_SPACE.match(text, position)
    return found.end() if found else position


def parquet_rows(file: BenchmarkFile, *, name_classes: bool = False) -> Iterator[dict[str, Any]]:
    """Yield the rows of a Parquet file. Raises ValueError if it is damaged, no Parquet, or too large.

    ``name_classes``: numbers of classes in lists become the names that the package datasets writes into the file.
    """
    try:
        table = pq.ParquetFile(pa.BufferReader(file.content()))
        if sum(table.metadata.row_group(number).total_byte_size for number in range(table.num_row_groups)) > MAX_BYTES:
            raise ValueError(f"{file}: more than {MAX_BYTES:,} bytes when decompressed; is this the official file?")
        classes = _classes_in_lists(table.schema_arrow) if name_classes else {}
        for batch in table.iter_batches(_ROWS_PER_BATCH):
            for row in batch.to_pylist():
                named = {
                    column: [names[each] if isinstance(each, int) and 0 <= each < len(names) else each for each in row[column]]
                    for column, names in classes.items()
                    if isinstance(row.get(column), list)
                }
                yield row | named
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise  # the file is missing, for example
        raise ValueError(f"{file}: no whole Parquet file ({error}); correct format, or fetch it again") from error


def _classes_in_lists(schema: pa.Schema) -> dict[str, list[str]]:
    """Return the names of the classes of each column with lists of them, as the package datasets describes its features."""
    try:
        features = json.loads((schema.metadata or {}).get(b"huggingface", b"{}"))["info"]["features"]
        inner = {
            name: one[0] if isinstance(one, list) else one.get("feature")
            for name, one in features.items()
            if name in schema.names
        }
        return {name: list(map(str, one["names"])) for name, one in inner.items() if one and one.get("_type") == "ClassLabel"}
    except (ValueError, LookupError, TypeError, AttributeError):
        return {}


def csv_rows(file: BenchmarkFile, encoding: str = "utf-8") -> Iterator[tuple[Line, list[str]]]:
    """Yield the rows of a CSV file (RFC 4180) with the line on which each begins, without empty lines.

    Raises ValueError naming file and line if quotation marks do not close.
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
    """Yield the lines of each sentence with their columns, which are separated by tabs, or by ASCII blanks in a line without
    tabs.

    Blank lines separate sentences. Lines that begin with ``##`` are comments, and in files with tabs also lines without a tab
    that begin with ``#`` and a blank (CoNLL-U). Raises ValueError naming a line whose number of columns is not that of the
    first.
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
