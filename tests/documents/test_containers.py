"""Truncated containers are read up to their end; decompression bombs are stopped early."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import stat
import subprocess
import sys
import tarfile
import unicodedata
import zipfile
import zlib
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from korealbert.corpus.extract import ExtractSpec, raw_parts
from korealbert.corpus.readers.framing import RawRecords
from korealbert.documents.containers import open_files
from korealbert.documents.schema import Quarantined
from korealbert.documents.streams import (
    ANY_RATIO_BYTES,
    FREE_RECORDS,
    MAX_EMPTY_RECORDS,
    ReadFault,
    ReadLimits,
)
from tests.archives import compressed, tar, zipped
from tests.corpus.extracting import PAGE, extract

KINDS = ["gz", "bz2", "xz", "zst"]
LIMITS = ReadLimits()


def lines(count: int) -> bytes:
    """Records that hardly compress."""
    noise = (zlib.crc32(str(number).encode()) for number in range(count * 40))
    return b"".join(
        json.dumps({"text": " ".join(f"{next(noise):08x}" for _ in range(40))}).encode() + b"\n" for _ in range(count)
    )


DATA = lines(2000)


def whole_records(data: bytes) -> int:
    return data.count(b"\n")


def read(path: Path) -> tuple[dict[str, int], list[Quarantined]]:
    """Return the size of each stream, and all faults."""
    sizes, faults = {}, []
    for raw in open_files([path], "*", LIMITS):
        if isinstance(raw, Quarantined):
            faults.append(raw)
            continue
        sizes[raw.name] = 0
        try:
            while block := raw.read():
                sizes[raw.name] += len(block)
        except ReadFault as fault:
            faults.append(raw.quarantined(fault))
    return sizes, faults


@pytest.mark.parametrize("kind", ["", *KINDS])
def test_a_truncated_archive_gives_the_records_of_the_same_truncated_file(tmp_path: Path, kind: str) -> None:
    """Also of a member that is nearly as large as a read."""
    data = DATA[:250_000]
    suffix = f".{kind}" if kind else ""
    for name, content in (("a.jsonl", data), ("a.tar", tar({"a.jsonl": data}))):
        packed = bz2.compress(content, 1) if kind == "bz2" else compressed(kind, content) if kind else content
        (tmp_path / f"{name}{suffix}").write_bytes(packed[: len(packed) * 9 // 10])
    alone, packed_up = (
        extract(tmp_path / "store", tmp_path / f"{name}{suffix}", format="jsonl") for name in ("a.jsonl", "a.tar")
    )
    assert len(packed_up.documents) >= len(alone.documents) - 3 and len(packed_up.documents) > 200
    (fault,) = packed_up.quarantined[-1:]
    assert (fault.file, fault.reason) == (f"a.tar{suffix}::a.jsonl", "truncated_file")
    size = int(fault.position.removeprefix("byte "))
    assert whole_records(data[:size]) == len(packed_up.documents), "the position is where the data end"
    assert "what comes before is kept, up to its last whole record; fetch the file again" in fault.remedy


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
@pytest.mark.parametrize("streamed", [False, True])
def test_a_truncated_zip_archive_is_read_from_its_beginning(tmp_path: Path, method: int, streamed: bool) -> None:
    class Unseekable(io.BytesIO):
        def seek(self, *position: int) -> int:
            raise io.UnsupportedOperation

        def tell(self) -> int:
            raise io.UnsupportedOperation

    if streamed and method == zipfile.ZIP_STORED:
        pytest.skip("a stored member of unknown size has no end that could be found")
    buffer = Unseekable() if streamed else io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as archive:
        for name in ("정치/1.jsonl", "2.jsonl", "3.jsonl"):
            archive.writestr(name, DATA[:200_000])
    path = tmp_path / "a.zip"
    path.write_bytes(buffer.getvalue()[: len(buffer.getvalue()) * 5 // 6])
    found = extract(tmp_path / "store", path, format="jsonl")
    each = whole_records(DATA[:200_000])
    assert 2.4 * each < len(found.documents) < 2.6 * each
    assert (found.quarantined[-1].file, found.quarantined[-1].reason) == ("a.zip::3.jsonl", "truncated_file")
    path.write_bytes(buffer.getvalue()[:-40])
    sizes, (fault,) = read(path)
    assert list(sizes.values()) == [200_000] * 3
    assert (fault.file, fault.reason) == ("a.zip", "truncated_file") and "ends without its directory" in fault.remedy


def test_a_member_with_other_bytes_than_a_truncated_zip_archive_announces(tmp_path: Path) -> None:
    path, buffer = tmp_path / "a.zip", io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("1.txt", b"abcdef")
    path.write_bytes(buffer.getvalue().replace(b"abc", b"abd", 1)[:-30])
    assert [fault.reason for fault in read(path)[1]] == ["corrupt_file"]


def test_a_truncated_warc_gives_its_whole_records(tmp_path: Path) -> None:
    head = "WARC/1.0\r\nWARC-Type: resource\r\nContent-Length: {}\r\n\r\n"
    records = b"".join(
        gzip.compress(head.format(len(part)).encode() + part + b"\r\n\r\n") for part in DATA.splitlines(True)[:300]
    )
    (tmp_path / "a.warc.gz").write_bytes(records[:-100])
    sizes, (fault,) = read(tmp_path / "a.warc.gz")
    assert fault.position == f"byte {sizes['a.warc.gz']}" and "up to its last whole record" in fault.remedy


def reasons_in_limited_memory(files: dict[str, Path]) -> dict[str, list[str]]:
    """Return the reasons of the quarantine by format, read with 600 MB of address space beyond that of the libraries."""
    code = """
import json, resource, sys
from pathlib import Path
from korealbert.corpus.extract import ExtractSpec, raw_parts, parse
from korealbert.corpus.readers.records import Tally
from korealbert.documents.schema import Quarantined
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (600 << 20),) * 2)
found = {}
for kind, path in json.loads(sys.argv[1]).items():
    spec = ExtractSpec.model_validate({"source": "a", "format": kind, "paths": [path]})
    outcomes = (outcome for part in raw_parts(spec) for outcome in parse(spec, part, Tally()))
    found[kind] = [outcome.reason for outcome in outcomes if isinstance(outcome, Quarantined)]
print(json.dumps(found))
"""
    command = [sys.executable, "-c", code, json.dumps({kind: str(path) for kind, path in files.items()})]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    return dict(json.loads(done.stdout))


def zeros_of(kind: str, head: bytes, fill: bytes, megabytes: int) -> bytes:
    """Compress ``head`` and megabytes of one byte."""
    if kind == "gz":
        packer = zlib.compressobj(9, zlib.DEFLATED, 31)
        return packer.compress(head) + b"".join(packer.compress(fill * (1 << 20)) for _ in range(megabytes)) + packer.flush()
    return compressed(kind, head + fill * (megabytes << 20))


@pytest.mark.parametrize("kind", ["zst", "gz"])
@pytest.mark.parametrize("type_", [tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK])
def test_a_huge_header_of_an_archive_is_refused_unread(tmp_path: Path, kind: str, type_: bytes) -> None:
    header = tarfile.TarInfo("././@PaxHeader")
    header.type, header.size = type_, 3 << 30
    path = tmp_path / f"a.tar.{kind}"
    path.write_bytes(zeros_of(kind, tar({"1.jsonl": b'{"text": "a"}\n'})[:1024] + header.tobuf(), b"a", 4))
    sizes, (fault,) = read(path)
    assert list(sizes) == [f"a.tar.{kind}::1.jsonl"]
    assert (fault.file, fault.reason, fault.position) == (path.name, "header_too_long", "byte 1024")
    assert "a header of 3,221,225,472 bytes" in fault.remedy and "fetch the archive again" in fault.remedy


def test_headers_without_end_are_refused(tmp_path: Path) -> None:
    header = tarfile.TarInfo("././@PaxHeader")
    header.type = tarfile.XGLTYPE
    (tmp_path / "a.tar").write_bytes(header.tobuf() * 2000)
    assert [fault.reason for fault in read(tmp_path / "a.tar")[1]] == ["corrupt_archive"]


def test_a_sparse_file_is_no_source_of_zeros(tmp_path: Path) -> None:
    sparse = tarfile.TarInfo("a")
    sparse.type = tarfile.GNUTYPE_SPARSE
    rest = tar({"b": b"text"})
    (tmp_path / "a.tar").write_bytes(sparse.tobuf() + rest)
    sizes, (fault,) = read(tmp_path / "a.tar")
    assert (sizes, fault.reason) == ({"a.tar::b": 4}, "sparse_file")


@pytest.mark.parametrize("container", ["tar", "tar.zst", "zip", ""])
@pytest.mark.parametrize("inner", ["bz2", "zst"])
def test_members_unfold_within_one_limit_for_all_of_them(tmp_path: Path, container: str, inner: str) -> None:
    """Also if each is within the limit of one stream, as in a file of 25 KB that became 54 GB."""
    bomb = compressed(inner, bytes(5 << 20))
    members = {f"{number}.txt.{inner}": bomb for number in range(40)}
    content = zipped(members) if container == "zip" else tar(members) if container else bomb * 40
    path = tmp_path / (f"a.{container}" if container else f"a.txt.{inner}")
    path.write_bytes(compressed("zst", content) if container == "tar.zst" else content)
    if container == "tar":  # its blocks are not compressed: a ratio of 2,000
        path.write_bytes(content)
        limits = ReadLimits(max_decompression_ratio=100)
    else:
        limits = LIMITS
    unfolded, reasons = 0, []
    for raw in open_files([path], "*", limits):
        assert not isinstance(raw, Quarantined)
        try:
            while block := raw.read():
                unfolded += len(block)
        except ReadFault as fault:
            reasons.append(fault.reason)
            assert "compressed bytes unfold to more than" in fault.remedy and "limits.max_decompression_ratio" in fault.remedy
    assert reasons == ["decompression_bomb"]
    assert unfolded < 4 * ANY_RATIO_BYTES, "of 200 MB"


def test_too_many_empty_members_and_streams(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("korealbert.documents.containers.MAX_EMPTY_MEMBERS", 1_000)
    monkeypatch.setattr("korealbert.documents.streams.MAX_EMPTY_STREAMS", 100)
    header = tarfile.TarInfo("a").tobuf()
    (tmp_path / "a.tar").write_bytes(header * 1_010)
    assert [fault.reason for fault in read(tmp_path / "a.tar")[1]] == ["too_many_empty_members"]
    directory = tarfile.TarInfo("d")
    directory.type = tarfile.DIRTYPE
    (tmp_path / "d.tar").write_bytes(directory.tobuf() * 1_010)
    assert [fault.reason for fault in read(tmp_path / "d.tar")[1]] == ["too_many_empty_members"]
    for kind in ("gz", "bz2", "xz"):
        path = tmp_path / f"a.{kind}"
        path.write_bytes(compressed(kind, b"text") + compressed(kind, b"") * 110)
        sizes, (fault,) = read(path)
        assert (sizes, fault.reason) == ({path.name: 4}, "decompression_bomb")


def test_links_in_a_zip_are_no_files(tmp_path: Path) -> None:
    link = zipfile.ZipInfo("link.txt")
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("a.txt", "ab")
        archive.writestr(link, "a.txt")
    assert read(tmp_path / "a.zip") == ({"a.zip::a.txt": 2}, [])


def test_a_directory_beside_each_file_is_no_flood(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("korealbert.documents.containers.MAX_EMPTY_MEMBERS", 20)
    directory, file = tarfile.TarInfo("d"), tarfile.TarInfo("d/a")
    directory.type, file.size = tarfile.DIRTYPE, 1
    member = directory.tobuf() * 3 + file.tobuf() + b"a".ljust(512, b"\0")
    (tmp_path / "a.tar").write_bytes(member * 30 + bytes(1024))
    sizes, faults = read(tmp_path / "a.tar")
    assert not faults and sum(sizes.values()) == 1


@pytest.mark.parametrize("names", [1, 1000])
def test_a_header_of_many_attributes_is_not_read_to_its_end(tmp_path: Path, names: int) -> None:
    for records, reasons in ((200, []), (300, ["header_too_long"])):
        content = b"".join(b"9 a%03d=x\n" % (n % names) for n in range(records))
        header = tarfile.TarInfo("h")
        header.type, header.size = tarfile.XHDTYPE, len(content)
        file = tarfile.TarInfo("a")
        file.size = 1
        data = header.tobuf() + content + bytes(-len(content) % 512) + file.tobuf() + b"a".ljust(512, b"\0") + bytes(1024)
        (tmp_path / "a.tar").write_bytes(data)
        assert [fault.reason for fault in read(tmp_path / "a.tar")[1]] == reasons


def test_blank_lines_without_end_are_stopped(tmp_path: Path) -> None:
    files = {}
    for kind, packed in (
        *((kind, "zst") for kind in ("jsonl", "json", "books", "text", "warc")),
        ("mediawiki", "gz"),
        ("news_text", "bz2"),
    ):
        files[kind] = tmp_path / f"{kind}.txt.{packed}"
        files[kind].write_bytes(zeros_of(packed, b"", b"\n", 6))
    for kind, reasons in reasons_in_limited_memory(files).items():
        assert reasons[-1] in ("blank_bytes", "empty_records") and len(reasons) <= 2, kind


@pytest.mark.parametrize(("kind", "record"), [("jsonl", b"{}\n\n"), ("json", b"{},"), ("books", b"1\n\n"), ("text", b"\n\na")])
def test_millions_of_records_with_nothing_in_them_are_stopped(tmp_path: Path, kind: str, record: bytes) -> None:
    path = tmp_path / "a.gz"
    head = b"[" if kind == "json" else b""
    path.write_bytes(gzip.compress(head + record * (2 << 20), 1))
    of_records = {"document": "record"} if kind == "text" else {}
    spec = ExtractSpec.model_validate({"source": "a", "format": kind, "paths": [str(path)], **of_records})
    parts = list(raw_parts(spec))
    assert isinstance(parts[-1], Quarantined) and parts[-1].reason == "empty_records"
    read = sum(len(part.data) for part in parts if isinstance(part, RawRecords))
    assert read <= int(parts[-1].position.removeprefix("byte ")) + (1 << 20) < 4 << 20, "of 6 MB and more"


@pytest.mark.parametrize("kind", ["tar.gz", "zip", "warc.gz", "parquet"])
def test_empty_records_are_counted_over_all_that_a_file_holds(tmp_path: Path, kind: str) -> None:
    path, count = tmp_path / f"a.{kind}", MAX_EMPTY_RECORDS * 3
    options: dict[str, Any] = {}
    member = b"0\n" * (count // 12)
    if kind == "tar.gz":
        with tarfile.open(path, "w:gz") as archive:
            for number in range(12):
                info = tarfile.TarInfo(f"{number}.jsonl")
                info.size = len(member)
                archive.addfile(info, io.BytesIO(member))
    elif kind == "zip":
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as zipped:
            for number in range(12):
                zipped.writestr(f"{number}.jsonl", member)
    elif kind == "warc.gz":
        record = b"WARC/1.0\r\nWARC-Type: response\r\nContent-Length: 0\r\n\r\n\r\n\r\n"
        path.write_bytes(gzip.compress(record * count))
    else:
        texts = pa.array([""]).dictionary_encode().take(pa.array(np.zeros(count, dtype=np.int64)))
        pq.write_table(pa.table({"text": texts}), path)
        options = {"fields": {"text": "text"}}
    spec = {"source": "a", "format": {"warc.gz": "warc", "parquet": "parquet"}.get(kind, "jsonl"), "paths": [str(path)]}
    parts = list(raw_parts(ExtractSpec.model_validate({**spec, **options})))
    faults = [part for part in parts if isinstance(part, Quarantined)]
    assert [fault.reason for fault in faults] == ["empty_records"] and parts[-1] is faults[0]
    assert faults[0].file.startswith(path.name) and faults[0].position and "or leave it out" in faults[0].remedy
    records = sum(len(part.extents) or part.data.count(b"\n") for part in parts if isinstance(part, RawRecords))
    assert records < 2 * MAX_EMPTY_RECORDS, f"of {count:,}"


TEXTS = [f"{number}번째 글은 {number * 7919 % 1009}쪽에 있다." for number in range(50)]


@pytest.mark.parametrize(
    ("kind", "head", "record", "tail", "kept"),
    [
        ("jsonl", b"", b'{"text":""}\n', b"", 50),
        ("jsonl", b"", b'{"text":"\xea\xb0\x80","more":"0123456789012345678901234567890123456789"}\n', b"", 50),
        ("json", b"[", b'{"text":"a"},', b"{}]", 50),
        ("json whole", b"[", b'{"text":""},', b"{}]", 0),
        ("csv", b"text\n", b'" "\n', b"", 50),
        ("text", b"", b"a\n \n\n", b"", 50),
        ("mediawiki", b"<mediawiki>", b"<page></page>", b"</mediawiki>", 50),
        ("wikiextractor", b"", b'<doc title="a">\n</doc>\n', b"", 50),
        ("wikiextractor", b"", b'<doc title="a">\n', b"", 50),
        ("wet", b"", b"WARC/1.0\r\nWARC-Type: conversion\r\nContent-Length: 0\r\n\r\n\r\n\r\n", b"", 50),
    ],
)
def test_records_of_which_many_come_of_one_compressed_byte_are_stopped(
    tmp_path: Path, kind: str, head: bytes, record: bytes, tail: bytes, kept: int
) -> None:
    """What comes before them in the file is kept."""
    packed = "zst" if kind in ("jsonl", "text", "wet") else "gz"
    path = tmp_path / f"a.{packed}"
    honest = b"".join(one_of(kind, text) for text in TEXTS)
    path.write_bytes(compressed(packed, head + honest + record * (6 * FREE_RECORDS) + tail))
    options: dict[str, Any] = {"format": kind.removesuffix(" whole"), "source": "a", "paths": [str(path)]}
    options |= {"document": "file"} if kind.endswith("whole") else {"document": "record"} if kind == "text" else {}
    options |= {"fields": {"text": "text"}} if kind == "csv" else {}
    *parts, fault = raw_parts(ExtractSpec.model_validate(options))
    assert isinstance(fault, Quarantined) and fault.reason == "empty_records" and "or leave it out" in fault.remedy
    read = b"".join(part.data for part in parts if isinstance(part, RawRecords))
    assert len(read) <= len(head + honest) + len(record) * (1.2 * FREE_RECORDS + path.stat().st_size)
    assert [text for text in TEXTS if text.encode() in read] == TEXTS[:kept]


def one_of(kind: str, text: str) -> bytes:
    """Return a record with this text."""
    body = text.encode()
    if kind == "mediawiki":
        return PAGE.format(title=text, id=text.partition("번")[0], text=text).encode()
    if kind == "wikiextractor":
        return b'<doc id="1" title="a">\n%b\n</doc>\n' % body
    if kind == "wet":
        return b"WARC/1.0\r\nWARC-Type: conversion\r\nContent-Length: %d\r\n\r\n%b\r\n\r\n" % (len(body), body)
    line = json.dumps({"text": text}, ensure_ascii=False).encode()
    return {"csv": body + b"\n", "text": body + b"\n\n", "jsonl": line + b"\n"}.get(kind, line + b",")


@pytest.mark.parametrize("packed", ["jsonl.bz2", "tar.zst"])
def test_many_short_and_empty_records_of_an_honest_file_are_no_bomb(tmp_path: Path, packed: str) -> None:
    """Nine of ten have a title and a number, but no text, as in a dump of redirects and deleted pages."""
    lines = [json.dumps({"id": n, "title": f"제{n * 7919 % 100003}호", "text": "" if n % 10 else "글"}) for n in range(40_000)]
    data = "".join(line + "\n" for line in lines).encode()
    path = tmp_path / f"a.{packed}"
    kind = packed.rpartition(".")[2]
    path.write_bytes(compressed(kind, tar({"a.jsonl": data}) if packed.startswith("tar") else data))
    parts = list(raw_parts(ExtractSpec.model_validate({"source": "a", "format": "jsonl", "paths": [str(path)]})))
    read = b"".join(part.data for part in parts if isinstance(part, RawRecords))
    assert read.decode().splitlines() == lines
    assert not any(isinstance(part, Quarantined) for part in parts)


def test_a_large_window_is_refused(tmp_path: Path) -> None:
    import lzma

    path = tmp_path / "a.xz"
    path.write_bytes(lzma.compress(b"text", filters=[{"id": lzma.FILTER_LZMA2, "dict_size": 1 << 28}]))
    _, (fault,) = read(path)
    assert fault.reason == "decompression_bomb" and "xz -9" in fault.remedy


@pytest.mark.parametrize("written", ["NFC", "NFD"])
@pytest.mark.parametrize("packed", [False, True])
def test_names_match_however_their_syllables_are_written(tmp_path: Path, packed: bool, written: Literal["NFC", "NFD"]) -> None:
    names = ("정치/글.txt", "정치/초안.txt", "경제/글.txt", "사회/글.txt")
    stored, other = ("NFC", "NFD") if written == "NFD" else ("NFD", "NFC")
    files = {unicodedata.normalize(stored, name): f"{name}이다.".encode() for name in names}
    if packed:
        path = tmp_path / "raw.tar"
        path.write_bytes(tar(files))
    else:
        path = tmp_path / "raw"
        for name, content in files.items():
            (path / name).parent.mkdir(parents=True, exist_ok=True)
            (path / name).write_bytes(content)
    members, *exclude = (unicodedata.normalize(other, pattern) for pattern in ("[가-힣]*/*", "*/초안*", "사회/*"))
    folders = {unicodedata.normalize(other, "정치"): "정치면"}
    found = extract(tmp_path / "store", path, format="text", members=members, exclude=exclude, category_by_folder=folders)
    assert sorted((document.text, document.category) for document in found.documents) == [
        ("경제/글.txt이다.", "경제"),
        ("정치/글.txt이다.", "정치면"),
    ]
