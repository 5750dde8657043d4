"""Inputs are opened and cut into the same records with any block size and compression."""

from __future__ import annotations

import contextlib
import gc
import io
import json
import random
import tracemalloc
import zipfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from korealbert.corpus.readers.framing import RawRecords, frame_delimited, frame_json
from korealbert.corpus.readers.json_values import ValueScanner
from korealbert.documents.containers import open_files
from korealbert.documents.schema import Quarantined
from korealbert.documents.streams import RawFile, ReadFault, ReadLimits
from tests.archives import compressed, tar, zipped

LIMITS = ReadLimits()


def contents(paths: list[Path], members: str = "*") -> dict[str, bytes]:
    found = {}
    for raw in open_files(paths, members, LIMITS):
        assert isinstance(raw, RawFile)
        data = b""
        while block := raw.read(1000):
            data += block
        found[raw.name] = data
    return found


HIDDEN = (".part.jsonl", "a/.a.jsonl", ".ipynb_checkpoints/b.jsonl", "a/.cache/c.jsonl", "._d.jsonl", "__MACOSX/._e.jsonl")


@pytest.mark.parametrize("form", ["directory", "tar", "zip"])
def test_hidden_files_are_read_only_if_a_pattern_names_them(form: str, tmp_path: Path) -> None:
    members = dict.fromkeys(("./a.jsonl", "a/../b.jsonl", "a/c.jsonl", *HIDDEN), b"{}")
    if form == "directory":
        here = tmp_path / "raw"
        for name, data in members.items():
            (here / name).parent.mkdir(parents=True, exist_ok=True)
            (here / name).write_bytes(data)
        (here / ".old.zip").write_bytes(zipped({"a/.cache/c.jsonl": b"{}"}))
    else:
        here = tmp_path / f"raw.{form}"
        here.write_bytes(tar(members) if form == "tar" else zipped(members))
    for pattern in ("*", "*.jsonl"):
        found = [name.rpartition("::")[2].removeprefix("./") for name in contents([here], pattern)]
        assert sorted(name.replace("a/../", "") for name in found) == ["a.jsonl", "a/c.jsonl", "b.jsonl"]
    named = [name.rpartition("::")[2] for name in contents([here], "a/.cache/c*")]
    assert set(named) == {"a/.cache/c.jsonl"}
    assert not any("._" in name for name in contents([here], "*.*"))


def test_directories_archives_and_compression_open_alike(tmp_path: Path) -> None:
    folder = tmp_path / "raw"
    (folder / "b").mkdir(parents=True)
    (folder / "b" / "2.txt.xz").write_bytes(compressed("xz", b"two"))
    (folder / "a.txt").write_bytes(b"one")
    (folder / "skip.md").write_bytes(b"no")
    members = {"AA/3.txt": b"three", "AA/skip.md": b"no", "4.txt.gz": compressed("gz", b"4")}
    (folder / "z.tar.zst").write_bytes(compressed("zst", tar(members)))
    assert contents([folder], "*.txt*") == {
        "a.txt": b"one",
        "b/2.txt.xz": b"two",
        "z.tar.zst::AA/3.txt": b"three",
        "z.tar.zst::4.txt.gz": b"4",
    }


@pytest.mark.parametrize("kind", ["gz", "bz2", "xz", "zst"])
@pytest.mark.parametrize("data", [b"", b"one\ntwo\n"])
def test_packed_files_whose_name_does_not_say_so_are_reported(kind: str, data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "dump.xml"
    path.write_bytes(compressed(kind, data))
    for raw in open_files([path], "*", LIMITS):
        assert isinstance(raw, RawFile)
        with pytest.raises(ReadFault, match=rf"byte 0: packed_file; .* name it …\.{kind}"):
            raw.read()


def test_archives_that_are_not_read_are_reported_and_text_is_none(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_bytes(b"7z\xbc\xaf\x27\x1c\0\4")
    (tmp_path / "b.html").write_bytes(b"PK\x03\x04\x14\0")
    for raw in open_files([tmp_path], "*", LIMITS):
        assert isinstance(raw, RawFile)
        with pytest.raises(ReadFault, match=r"unpack it first|name it ….zip"):
            raw.read()
    (tmp_path / "c.txt").write_bytes(b"BZh9 is how bzip2 begins")
    assert contents([tmp_path / "c.txt"]) == {"c.txt": b"BZh9 is how bzip2 begins"}


def zip_file(path: Path, members: dict[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> Path:
    path.write_bytes(zipped(members, method))
    return path


def test_zip_archives_are_read_like_tar(tmp_path: Path) -> None:
    folder = tmp_path / "raw"
    folder.mkdir()
    members = {"../가/1.txt": b"one", "가/skip.md": b"no", "2.txt.gz": compressed("gz", b"two")}
    zip_file(folder / "a.ZIP", members)
    assert contents([folder], "*.txt*") == {"a.ZIP::../가/1.txt": b"one", "a.ZIP::2.txt.gz": b"two"}
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["a.ZIP", "raw"], "nothing is unpacked"
    (nothing,) = open_files([folder / "a.ZIP"], "*.json", LIMITS)
    assert isinstance(nothing, Quarantined) and nothing.reason == "no_members"


def test_names_in_cp949_are_read(tmp_path: Path) -> None:
    path = zip_file(tmp_path / "a.zip", {"ABCD/1.txt": b"one"})
    path.write_bytes(path.read_bytes().replace(b"ABCD", "정치".encode("cp949")))
    assert contents([path]) == {"a.zip::정치/1.txt": b"one"}


@pytest.mark.parametrize("whole", [True, False])
def test_names_in_utf_8_are_read_where_the_archive_does_not_say_so(whole: bool, tmp_path: Path) -> None:
    path = zip_file(tmp_path / "a.zip", {"ABCDEF/1.txt": b"one"}, zipfile.ZIP_STORED)
    content = path.read_bytes().replace(b"ABCDEF", "정치".encode())
    path.write_bytes(content if whole else content[: content.index(b"PK\x01\x02")])
    (opened, *_) = open_files([path], "*", LIMITS)
    assert isinstance(opened, RawFile) and opened.name == "a.zip::정치/1.txt"


@pytest.mark.parametrize("inner", ["b.tar", "가/b.tar.gz", "b.TGZ", "b.zip"])
def test_an_archive_within_an_archive_is_reported_and_its_neighbours_are_read(tmp_path: Path, inner: str) -> None:
    content = tar({"x.txt": b"lost"})
    members = {"1.txt": b"one", inner: content if inner.endswith("tar") else compressed("gz", content), "2.txt": b"two"}
    zip_file(tmp_path / "a.zip", members)
    (tmp_path / "a.tar.gz").write_bytes(compressed("gz", tar(members)))
    for archive in ("a.zip", "a.tar.gz"):
        first, nested, last = (
            raw if isinstance(raw, Quarantined) else raw.read() for raw in open_files([tmp_path / archive], "*", LIMITS)
        )
        assert (first, last) == (b"one", b"two")
        assert isinstance(nested, Quarantined) and nested.file == f"{archive}::{inner}" and nested.reason == "packed_file"
        assert "an archive within an archive is not read" in nested.remedy


def test_bad_zip_archives_are_reported_and_good_members_read(tmp_path: Path) -> None:
    path = zip_file(tmp_path / "a.zip", {"1.txt": b"one " * 50, "2.txt": b"two"}, zipfile.ZIP_STORED)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    found, (fault,) = read_until_fault(path)
    assert found == {"a.zip::1.txt": b"one " * ((len(whole) // 2 - 35) // 4) + b"one "[: (len(whole) // 2 - 35) % 4]}
    assert (fault.file, fault.reason) == ("a.zip::1.txt", "truncated_file")
    path.write_bytes(b"no archive")
    (fault,) = open_files([path], "*", LIMITS)
    assert isinstance(fault, Quarantined) and fault.reason == "corrupt_archive"
    path.write_bytes(whole.replace(b"one ", b"uno ", 1))
    for raw in open_files([path], "*", LIMITS):
        assert isinstance(raw, RawFile)
        if raw.name.endswith("1.txt"):
            assert raw.read() == b"uno " + b"one " * 49
            with pytest.raises(ReadFault, match="corrupt_file; Bad CRC-32"):
                raw.read()
        else:
            assert raw.read() == b"two"
    path.write_bytes(whole.replace(b"PK\x03\x04", b"PK\x03\x09", 1))
    damaged, good = open_files([path], "*", LIMITS)
    assert isinstance(damaged, Quarantined) and damaged.reason == "corrupt_file" and isinstance(good, RawFile)


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_truncated_and_damaged_zips_keep_what_is_there_under_every_compression(tmp_path: Path, method: int) -> None:
    rng = random.Random(7)  # noqa: S311 (a test's own text)
    text = "".join(chr(rng.randrange(0xAC00, 0xD7A3)) + "\n" * (n % 9 == 0) for n in range(120_000)).encode()
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as archive, archive.open("1.txt", "w") as first:
        first.write(text)
    streamed = Unseekable()
    with zipfile.ZipFile(streamed, "w", method) as archive:  # writes sizes after the data
        archive.writestr("1.txt", text)
        archive.writestr("2.txt", b"two")
    whole, path = streamed.getvalue(), tmp_path / "a.zip"
    path.write_bytes(whole)
    assert contents([path]) == {"a.zip::1.txt": text, "a.zip::2.txt": b"two"}
    path.write_bytes(buffer.getvalue()[: int(0.97 * len(buffer.getvalue()))])
    found, _ = read_until_fault(path)
    assert text.startswith(found["a.zip::1.txt"])
    assert len(found["a.zip::1.txt"]) > 0.9 * len(text) - (900_000 if method == zipfile.ZIP_BZIP2 else 0)  # one block
    directory = whole.rindex(b"PK\x01\x02", 0, whole.rindex(b"PK\x01\x02"))
    path.write_bytes(whole[:directory])
    found, faults = read_until_fault(path)
    assert found == {"a.zip::1.txt": text, "a.zip::2.txt": b"two"} and faults[-1].reason == "truncated_file"
    path.write_bytes(whole[:30] + b"\xaa" + whole[31:])  # one byte of the name before the data
    assert sorted(contents([path]).values()) == [b"two", text] or method == zipfile.ZIP_STORED
    path.write_bytes(whole[: whole.index(b"2.txt") + 2])  # cut within the name
    found, _ = read_until_fault(path)
    assert found == {"a.zip::1.txt": text}


class Unseekable(io.BytesIO):
    """Makes ``zipfile`` write sizes after the data."""

    def seekable(self) -> bool:
        return False

    def seek(self, *_: int) -> int:
        raise io.UnsupportedOperation

    def tell(self) -> int:
        raise io.UnsupportedOperation


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_no_read_of_a_zip_unfolds_more_than_it_was_asked_for(tmp_path: Path, method: int) -> None:
    path = zip_file(tmp_path / "a.zip", {"1.txt": bytes(32 << 20)}, method)
    tracemalloc.start()
    for raw in open_files([path], "*", LIMITS):
        assert isinstance(raw, RawFile)
        with contextlib.suppress(ReadFault):  # bzip2 compresses it so well that it is a bomb
            while raw.read(1 << 16):
                pass
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 12 << 20, "the dictionary of LZMA takes 8 MiB"


def test_a_directory_that_points_elsewhere_is_reported_by_member(tmp_path: Path) -> None:
    path = zip_file(tmp_path / "a.zip", {"1.txt": b"one", "2.txt": b"two"})
    whole = bytearray(path.read_bytes())
    end = whole.rindex(b"PK\x05\x06")
    whole[end + 16 : end + 20] = (int.from_bytes(whole[end + 16 : end + 20], "little") + 7).to_bytes(4, "little")
    path.write_bytes(whole)
    outcomes = list(open_files([path], "*", LIMITS))
    assert outcomes and all(isinstance(one, RawFile) or one.file.startswith("a.zip") for one in outcomes)


def test_a_zip_bomb_is_stopped_in_one_member_and_in_all_together(tmp_path: Path) -> None:
    path = zip_file(tmp_path / "a.zip", {f"{number}.txt": bytes(1 << 20) for number in range(4)})
    one = ReadLimits(max_decompression_ratio=100, ratio_applies_above_bytes=1 << 19)
    raws = open_files([path], "*", one)
    raw = next(raws)
    assert isinstance(raw, RawFile)
    with pytest.raises(ReadFault, match="decompression_bomb"):
        while raw.read():
            pass
    together = ReadLimits(max_decompression_ratio=1, ratio_applies_above_bytes=(1 << 20) + 1)
    opened = []
    for raw in open_files([path], "*", together):
        assert isinstance(raw, RawFile)
        opened.append(raw.name)
        try:
            while raw.read():
                pass
        except ReadFault as fault:
            assert fault.reason == "decompression_bomb"
    assert opened == ["a.zip::0.txt", "a.zip::1.txt"], "and no further member"


def test_names_do_not_show_where_a_source_lay(tmp_path: Path) -> None:
    path = tmp_path / "somewhere" / "a.txt"
    path.parent.mkdir()
    path.write_bytes(b"x")
    assert list(contents([path])) == ["a.txt"]


def test_no_two_files_have_one_name(tmp_path: Path) -> None:
    for name in ("A/2/x.txt", "A/x.txt", "B/x.txt", "C/2/x.txt", "D/x.txt", "D/y.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    found = contents([tmp_path / folder for folder in "ABCD"])
    assert {name: data.decode() for name, data in found.items()} == {
        "2/x.txt": "A/2/x.txt",
        "x.txt": "A/x.txt",
        "3/x.txt": "B/x.txt",
        "2/2/x.txt": "C/2/x.txt",
        "4/x.txt": "D/x.txt",
        "y.txt": "D/y.txt",
    }
    assert [raw.name for raw in open_files([tmp_path / "D"], "*", LIMITS, left_out={"x.txt"}) if isinstance(raw, RawFile)] == [
        "y.txt"
    ]


def test_archives_hold_nothing_but_files_for_us(tmp_path: Path) -> None:
    import tarfile

    path = tmp_path / "a.tar"
    with tarfile.open(path, "w") as archive:
        link = tarfile.TarInfo("link")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/hostname"
        archive.addfile(link)
        outside = tarfile.TarInfo("../../outside.txt")
        outside.size = 3
        archive.addfile(outside, io.BytesIO(b"abc"))
    assert contents([path]) == {"a.tar::../../outside.txt": b"abc"}  # only a name, never a path to write to
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["a.tar"]


@pytest.mark.parametrize("kind", ["gz", "bz2", "xz", "zst"])
def test_what_comes_before_a_fault_is_returned_first(tmp_path: Path, kind: str) -> None:
    path = tmp_path / f"a.{kind}"
    packed = compressed(kind, bytes(range(256)) * 4000 + b"end")
    path.write_bytes(packed[:-9])
    files = open_files([path], "*", LIMITS)
    raw = next(files)
    assert isinstance(raw, RawFile)
    size = 0
    with pytest.raises(ReadFault) as raised:
        while block := raw.read():
            size += len(block)
    assert raised.value.position == f"byte {size}"
    assert raised.value.reason in ("truncated_file", "corrupt_file")


def read_until_fault(path: Path) -> tuple[dict[str, bytes], list[Quarantined]]:
    found: dict[str, bytes] = {}
    faults = []
    for raw in open_files([path], "*", LIMITS):
        if isinstance(raw, Quarantined):
            faults.append(raw)
            continue
        found[raw.name] = b""
        try:
            while block := raw.read():
                found[raw.name] += block
        except ReadFault as fault:
            faults.append(raw.quarantined(fault))
    return found, faults


@pytest.mark.parametrize("kind", ["gz", "bz2", "xz", "zst"])
def test_what_follows_a_compressed_stream_is_read_or_reported(tmp_path: Path, kind: str) -> None:
    path = tmp_path / f"a.{kind}"
    one, two = b"first\n" * 1000, b"second\n" * 1000
    path.write_bytes(compressed(kind, one) + compressed(kind, two))
    assert read_until_fault(path) == ({path.name: one + two}, [])
    path.write_bytes(compressed(kind, one) + b"garbage!")
    found, (fault,) = read_until_fault(path)
    assert (found[path.name], fault.position) == (one, f"byte {len(one)}")
    assert fault.reason in ("corrupt_file", "truncated_file")
    damaged = bytearray(compressed(kind, two))
    damaged[:4] = b"\1\1\1\1"
    path.write_bytes(compressed(kind, one) + damaged)
    found, (fault,) = read_until_fault(path)
    assert (found[path.name], fault.position) == (one, f"byte {len(one)}")


@pytest.mark.parametrize("kind", ["gz", "bz2", "xz", "zst"])
@pytest.mark.parametrize("whole", [True, False])
def test_nothing_of_a_file_that_was_read_stays_in_memory(kind: str, whole: bool, tmp_path: Path) -> None:
    def alive() -> list[RawFile]:
        gc.collect()
        return [each for each in gc.get_objects() if type(each) is RawFile and each.name.startswith("read once")]

    path = tmp_path / f"read once.txt.{kind}"
    path.write_bytes(compressed(kind, b"text " * 100_000))
    for raw in open_files([path], "*", ReadLimits()):
        assert isinstance(raw, RawFile) and alive()
        assert raw.read(500_000 if whole else 10)
    del raw
    assert not alive()


@pytest.mark.parametrize("suffix", ["tar", "tar.gz", "tar.zst"])
def test_an_archive_that_does_not_end_as_archives_do_is_reported(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"a.{suffix}"
    kind = suffix.removeprefix("tar").removeprefix(".")

    def faults_of(archive: bytes) -> tuple[int, list[str]]:
        path.write_bytes(compressed(kind, archive) if kind else archive)
        found, faults = read_until_fault(path)
        assert all(fault.position.startswith("byte ") for fault in faults)
        return len(found), [fault.reason for fault in faults]

    whole = tar({f"{n}.txt": b"x" * 600 for n in range(4)})  # each member has 3 blocks
    assert faults_of(whole) == (4, [])
    assert faults_of(whole[: 4 * 1536]) == (4, ["truncated_file"])
    assert faults_of(whole[: 2 * 1536]) == (2, ["truncated_file"])
    assert faults_of(whole[: 2 * 1536 + 100]) == (2, ["truncated_file"])
    assert faults_of(whole[:1536] + b"\7" * 512 + whole[1536 + 512 :]) == (1, ["corrupt_archive"])
    assert faults_of(whole[:1536] + b"\0" * 512 + whole[1536 + 512 :]) == (1, ["corrupt_archive"])


def batches(data: bytes, **options: object) -> list[RawRecords | Quarantined]:
    raw = RawFile("a", io.BytesIO(data), LIMITS)
    frame = frame_delimited if "delimiter" in options else frame_json
    return list(frame(raw, encoding="utf-8", max_record_bytes=1 << 20, **options))  # type: ignore[arg-type]


@settings(max_examples=30)
@given(st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\n"), max_size=30), max_size=30), st.integers(1, 64))
def test_batches_of_lines_join_to_the_file_and_know_their_place(lines: list[str], block: int) -> None:
    data = "".join(f"{line}\n" for line in lines).encode().removeprefix(b"\xef\xbb\xbf")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("korealbert.corpus.readers.framing.RAW_RECORDS_BYTES", 40)
        patch.setattr("korealbert.corpus.readers.framing.BYTES_PER_READ", block)
        found = [batch for batch in batches(data, delimiter=b"\n") if isinstance(batch, RawRecords)]
    if data.strip():
        assert b"".join(batch.data for batch in found).strip() == data.strip()
    for batch in found:
        assert data[batch.byte :].startswith(batch.data)
        assert batch.line == data[: batch.byte].count(b"\n") + 1


scalars = st.none() | st.booleans() | st.integers() | st.text(max_size=8)
nested = st.recursive(scalars, lambda v: st.lists(v, max_size=3) | st.dictionaries(st.text(max_size=4), v, max_size=3))
records = st.lists(st.dictionaries(st.text('ab"\\[]{},', max_size=4), nested, max_size=3), min_size=1, max_size=6)


@settings(max_examples=60)
@given(records, st.sampled_from([None, 1]), st.booleans(), st.booleans(), st.integers(1, 50))
def test_json_records_are_found_in_any_block_size(
    values: list[object], indent: int | None, array: bool, ascii_only: bool, block: int
) -> None:
    dumped = [json.dumps(value, indent=indent, ensure_ascii=ascii_only) for value in values]
    data = (f"[{' , '.join(dumped)}]" if array else "\n".join(dumped)).encode("utf-8", "surrogatepass")
    scanner = ValueScanner()
    found: list[object] = []
    for start in range(0, len(data), block):
        scanner.feed(data[start : start + block])
        taken, cuts = scanner.take()
        found += [json.loads(taken[a:b]) for a, b in cuts]
    assert scanner.finish() == ""
    taken, cuts = scanner.take()
    found += [json.loads(taken[a:b]) for a, b in cuts]
    assert found == json.loads(json.dumps(values))


@given(st.binary(max_size=200) | st.text('{}[]",:\\ ab', max_size=200).map(str.encode), st.integers(1, 30))
def test_scanning_never_raises_and_never_grows_beyond_the_input(data: bytes, block: int) -> None:
    scanner = ValueScanner()
    size = 0
    for start in range(0, len(data), block):
        scanner.feed(data[start : start + block])
        size += len(scanner.take()[0])
    scanner.finish()
    assert size + len(scanner.take()[0]) == len(data)


def scanned(data: bytes, block: int) -> list[tuple[bytes, tuple[tuple[int, int], ...]]]:
    scanner, found = ValueScanner(), []
    for start in range(0, len(data), block):
        scanner.feed(data[start : start + block])
        found.append(scanner.take())
    scanner.finish()
    return [*found, scanner.take()]


@settings(max_examples=120)
@given(st.text('{}[]",:\\ a', max_size=200).map(str.encode), st.integers(1, 60), st.integers(0, 3), st.integers(1, 40))
def test_stretches_passed_at_once_change_no_record(data: bytes, block: int, steps: int, stretch: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("korealbert.corpus.readers.json_values._STEPS_BEFORE_SKIPPING", steps)
        patch.setattr("korealbert.corpus.readers.json_values._SKIP_BYTES", stretch)
        at_once = scanned(data, block)
    assert at_once == scanned(data, block)


@pytest.mark.parametrize(
    "bomb", [b"[" * 300_000, b'{"a":' * 100_000, b"[{" + b"[]," * 100_000, b'["' + b'\\\\",[],"' * 100_000]
)
def test_a_million_brackets_take_some_thousand_steps(bomb: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    steps, step = [0], ValueScanner._step

    def counted(self: ValueScanner) -> bool:
        steps[0] += 1
        return step(self)

    monkeypatch.setattr(ValueScanner, "_step", counted)
    scanned(b"[" + bomb, 1 << 20)
    assert steps[0] < 5_000


def test_a_json_array_on_one_line_needs_no_memory_of_its_own() -> None:
    record = json.dumps({"text": "강" * 500}).encode()
    scanner = ValueScanner()
    scanner.feed(b"[")
    taken = 0
    for _ in range(1000):
        scanner.feed(record + b",")
        taken += len(scanner.take()[1])
        assert scanner.partial_bytes <= len(record)
    assert taken == 1000


@given(st.lists(st.integers(0, 40), min_size=1, max_size=20))
def test_lines_are_counted_in_any_order(offsets: list[int]) -> None:
    data = b"ab\n\nc\n" * 8
    records = RawRecords("a", "utf-8", 5, 0, data)
    assert [records.line_at(offset) for offset in offsets] == [5 + data[:offset].count(b"\n") for offset in offsets]
