"""Files of which nothing can be read count as files, too: one record each would hide that half of a corpus is missing."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from flows.step import _counted
from korealbert.corpus.extract import ExtractionError
from tests.archives import compressed, tar
from tests.corpus.extracting import PAGE, dump, extract

ROWS = [{"text": f"{n}번째 글이다."} for n in range(200)]

WIKI = "".join(f'<doc id="{n}" url="" title="글 {n}">\n글 {n}\n\n{n}번째 글이다.\n</doc>\n' for n in range(10)).encode()


def jsonl(count: int = 200, encoding: str = "utf-8") -> bytes:
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in ROWS[:count]).encode(encoding)


def directory(folder: Path, files: Mapping[str, bytes]) -> Path:
    folder.mkdir(parents=True)
    for name, data in files.items():
        (folder / name).write_bytes(data)
    return folder


def parquet(folder: Path, column: str = "text") -> bytes:
    pq.write_table(pa.table({column: [row["text"] for row in ROWS]}), folder / "one.pq")
    return (folder / "one.pq").read_bytes()


@pytest.mark.parametrize("kind", ["cut", "another column", "UTF-16"])
def test_lost_files_fail_the_stage_although_they_are_few_records(tmp_path: Path, kind: str) -> None:
    good, bad, ending, remedy = {
        "cut": (parquet(tmp_path), parquet(tmp_path)[:-9], "parquet", "fetch it again"),
        "another column": (parquet(tmp_path), parquet(tmp_path, "Text"), "parquet", "has the fields Text"),
        "UTF-16": (jsonl(), jsonl(encoding="utf-16"), "jsonl", 'set encoding = "utf-16"'),
    }[kind]
    files = {f"{n:02}.{ending}": bad if n % 3 == 2 else good for n in range(20)}
    folder = directory(tmp_path / "in", files)
    with pytest.raises(ExtractionError, match=r"6 of 20 files \(30\.0%\), nothing can be read") as raised:
        extract(tmp_path / "store", folder, format=ending, max_bad_share=0.05)
    message = str(raised.value)
    assert message.count(remedy) == 5 and f"02.{ending}" in message and "max_bad_share = 5.0%" in message
    assert "exclude" in message  # the remedy for files that are meant to stay behind
    tolerated = extract(tmp_path / "store", folder, format=ending, max_bad_share=0.3)
    assert len(tolerated.documents) == 2_800 and tolerated.stats["files_unread"] == 6
    assert "; 6 of 20 files UNREAD" in _counted(tolerated.stats)


def test_one_lost_file_of_three_counts_unless_the_source_is_small(tmp_path: Path) -> None:
    for number, records in enumerate((200, 5)):
        files = {f"{n}.jsonl": jsonl(records, "utf-16" if n == 1 else "utf-8") for n in range(3)}
        folder = directory(tmp_path / f"in{number}", files)
        if records == 200:
            with pytest.raises(ExtractionError, match=r"1 of 3 files"):
                extract(tmp_path / "store", folder, format="jsonl", max_bad_share=0.05)
        else:
            assert extract(tmp_path / "store", folder, format="jsonl", max_bad_share=0.05).stats["files_unread"] == 1


def test_empty_files_and_those_of_other_formats_are_not_lost(tmp_path: Path) -> None:
    """Nothing is in the former; an archive's README, like that of a directory, is not meant to be read."""
    files = {f"{n}.jsonl": b"" if n % 2 else jsonl() for n in range(8)}
    assert extract(tmp_path / "store", directory(tmp_path / "in", files), format="jsonl", max_bad_share=0.05).documents
    archive = tmp_path / "a.tar"
    archive.write_bytes(tar({"README.md": b"# Data\n\nKorean text in lines.\n", "a.jsonl": jsonl(), "b.jsonl": jsonl()}))
    found = extract(tmp_path / "store", archive, format="jsonl", max_bad_share=0.05)
    assert len(found.documents) == 400 and found.reasons == ["other_format"] and found.stats["files_unread"] == 0
    archive.write_bytes(tar({"README": b"x", "a.jsonl": jsonl(), "b.jsonl": jsonl(encoding="utf-16")}))
    with pytest.raises(ExtractionError, match=r"1 of 2 files(.|\n)*a\.tar::b\.jsonl"):
        extract(tmp_path / "store", archive, format="jsonl", max_bad_share=0.05)


@pytest.mark.parametrize("ending", ["txt", "xml"])
def test_what_lies_beside_a_dump_is_lost_only_if_its_like_was_read(ending: str, tmp_path: Path) -> None:
    dump = directory(tmp_path / "in", {"AA": WIKI, "AB": WIKI, f"md5sums.{ending}": b"d41d8cd9  AA"})
    found = extract(tmp_path / "store", dump, format="wikiextractor", max_bad_share=0.05, bad_share_applies_from=1)
    assert len(found.documents) == 20 and found.stats["files_unread"] == 0
    (dump / "AC").write_bytes(b"d41d8cd9  AA")
    with pytest.raises(ExtractionError, match=r"1 of 3 files"):
        extract(tmp_path / "store", dump, format="wikiextractor", max_bad_share=0.1, bad_share_applies_from=1)


def test_files_about_the_data_are_no_loss_and_broken_archives_are(tmp_path: Path) -> None:
    parts = {"part-00000": WIKI, "part-00001": WIKI, "LICENSE": b"CC BY-SA", "README": b"Articles"}
    found = extract(tmp_path / "store", directory(tmp_path / "a", parts), format="wikiextractor", max_bad_share=0.1)
    assert len(found.documents) == 20 and found.stats["files_unread"] == 0
    files = {"a.jsonl": jsonl(), "b.jsonl": jsonl(), "c.zip": b"PK\x03\x04 cut"}
    with pytest.raises(ExtractionError, match=r"1 of 3 files(.|\n)*c\.zip"):
        extract(tmp_path / "store", directory(tmp_path / "b", files), format="jsonl", max_bad_share=0.05)


def test_a_truncated_archive_is_read_as_far_as_its_members_are(tmp_path: Path) -> None:
    archive = tmp_path / "a.tar"
    whole = tar({"a.jsonl": jsonl(), "b.jsonl": jsonl()})
    archive.write_bytes(whole[: whole.index(b"b.jsonl") + 100])  # within the header of the second member
    found = extract(tmp_path / "store", archive, format="jsonl", max_bad_share=0.05)
    assert len(found.documents) == 200 and found.stats["files_unread"] == 0 and found.stats["quarantined"] == 1


def cut(data: bytes, ending: str) -> bytes:
    """Return a compressed file without its second half, or a Parquet file with a damaged row group."""
    if ending == "parquet":
        return data[: len(data) // 3] + b"\xff" * 200 + data[len(data) // 3 + 200 :]
    return compressed(ending, data)[: len(compressed(ending, data)) * 2 // 3]


@pytest.mark.parametrize("ending", ["gz", "zst", "parquet"])
def test_a_file_that_is_read_in_part_counts_as_half(ending: str, tmp_path: Path) -> None:
    if ending == "parquet":
        texts = [f"{n}번째 글이다. {'가나다라마바사' * (n % 50)} {n * n}" for n in range(2_000)]
        pq.write_table(
            pa.table({"text": texts}), tmp_path / "one", row_group_size=100, use_dictionary=False, compression="none"
        )
        good = (tmp_path / "one").read_bytes()
        bad, suffix = cut(good, ending), "parquet"
    else:
        plain = b"".join(json.dumps({"text": f"{n}번째 글이다. {n * n * n}"}).encode() + b"\n" for n in range(5_000))
        good, bad, suffix = compressed(ending, plain), cut(plain, ending), f"jsonl.{ending}"
    folder = directory(tmp_path / "in", {f"{n:02}.{suffix}": bad if n % 3 == 2 else good for n in range(20)})
    kind = suffix.partition(".")[0]
    with pytest.raises(ExtractionError, match=r"6 of 20 files can be read only in part.* half \(15\.0%\)(.|\n)*02\."):
        extract(tmp_path / "store", folder, format=kind, max_bad_share=0.149)
    found = extract(tmp_path / "store", folder, format=kind, max_bad_share=0.15)
    assert (found.stats["files_unread"], found.stats["files_cut"]) == (0, 6)
    assert "; 6 of 20 files READ IN PART" in _counted(found.stats)


def test_a_damaged_member_among_others_is_no_lost_file(tmp_path: Path) -> None:
    """What follows it is read, as in WARC files, whose records are members of their own."""
    members = [compressed("gz", jsonl(50)) for _ in range(20)]
    members[7] = members[7][:60] + b"\xff" * 20 + members[7][80:]
    folder = directory(tmp_path / "in", {"a.jsonl.gz": b"".join(members)})
    assert extract(tmp_path / "store", folder, format="jsonl", max_bad_share=0.05).stats["files_cut"] == 0


@pytest.mark.parametrize("kind", ["jsonl", "text", "mediawiki", "csv", "json"])
def test_a_file_of_nul_bytes_or_other_rubbish_is_lost(kind: str, tmp_path: Path) -> None:
    rubbish = bytes(4_000), hashlib.shake_128(b"").digest(4_000), b"\0" * 3_000 + b"\n" * 100
    good = {
        "text": "\n\n".join(row["text"] for row in ROWS).encode(),
        "csv": "\n".join(["text", *(row["text"] for row in ROWS)]).encode(),
        "mediawiki": dump(*(PAGE.format(title=n, id=n, text=row["text"]) for n, row in enumerate(ROWS))),
        "json": json.dumps(ROWS).encode(),
    }.get(kind, jsonl())
    ending = {"mediawiki": "xml", "text": "txt"}.get(kind, kind)
    files = {f"{n:02}.{ending}": good if n > 2 else rubbish[n] for n in range(20)}
    with pytest.raises(ExtractionError, match=r"3 of 20 files \(15\.0%\), nothing can be read"):
        extract(tmp_path / "store", directory(tmp_path / "in", files), format=kind, document="record", max_bad_share=0.1)


def test_a_file_that_ends_in_nul_bytes_is_read_in_part(tmp_path: Path) -> None:
    """As after a loss of power."""
    files = {"a.jsonl": jsonl() * 120 + bytes(3 << 20), "b.jsonl": jsonl() + b'{"text": "\0"}\n'}
    found = extract(tmp_path / "store", directory(tmp_path / "in", files), format="jsonl", max_bad_share=0.25)
    assert (found.stats["files_unread"], found.stats["files_cut"]) == (0, 1) and len(found.documents) == 24_200


def test_a_file_that_is_one_record_counts_once(tmp_path: Path) -> None:
    files = {f"{n:02}.txt": b"%PDF-1.4" if n == 7 else f"{n}번째 글이다.".encode() for n in range(25)}
    folder = directory(tmp_path / "in", files)
    assert extract(tmp_path / "store", folder, format="text", max_bad_share=0.05).stats["files_unread"] == 1
    with pytest.raises(ExtractionError, match=r"1 of 25 records \(4\.0%\)"):
        extract(tmp_path / "store", folder, format="text", max_bad_share=0.03)


WHOLE = {
    "mediawiki": dump(*(PAGE.format(id=n, title=f"글 {n}", text=f"{n}번째 글이다.") for n in range(30))),
    "wikiextractor": WIKI * 3,
    "json": json.dumps(ROWS, ensure_ascii=False).encode(),
    "namuwiki": json.dumps(
        [{"title": f"글 {n}", "namespace": "0", "text": f"{n}번째 글이다."} for n in range(30)], ensure_ascii=False
    ).encode(),
    "jsonl": jsonl(),
}


@pytest.mark.parametrize("kind", WHOLE)
@pytest.mark.parametrize("place", ["in a text", "in a character", "after a record"])
def test_a_file_that_ends_within_a_record_is_read_in_part(kind: str, place: str, tmp_path: Path) -> None:
    whole = WHOLE[kind]
    last = whole.rindex("글이다".encode())
    ends = {"wikiextractor": b"</doc>", "mediawiki": b"</page>"}.get(kind, b"}")
    end = whole.rindex(ends) + len(ends)
    at = {"in a text": last + 3, "in a character": last + 4, "after a record": end}[place]
    (path := tmp_path / "a").write_bytes(whole[:at])
    shows = place != "after a record" or kind not in ("wikiextractor", "jsonl")  # nothing encloses their records
    found = extract(tmp_path / "store", path, format=kind, max_bad_share=0.5)
    assert found.stats["files_cut"] == shows
    count = len(found.documents)
    path.write_bytes(whole)
    found = extract(tmp_path / "store", path, format=kind, max_bad_share=0.5)
    assert found.stats["files_cut"] == 0 and not found.quarantined
    assert len(found.documents) == count + (place != "after a record")
    if kind in ("json", "jsonl"):
        path.write_bytes(whole[:at])
        found = extract(tmp_path / "store", path, format=kind, document="file", max_bad_share=0.5)
        assert found.stats["files_cut"] == shows and len(found.documents) == 1
        assert len(found.quarantined) == shows
    if shows:
        path.write_bytes(whole[:at])
        with pytest.raises(ExtractionError, match=r"1 of 1 files can be read only in part.*\(50\.0%\)(.|\n)*a, (line|byte)"):
            extract(tmp_path / "store", path, format=kind, max_bad_share=0.49)


@pytest.mark.parametrize("damage", [("}]", "]"), ('다."', "다."), ("}, {", ", {"), ("}]", "}")])
def test_an_array_that_lacks_a_quote_or_brace_is_read_to_its_end(damage: tuple[str, str], tmp_path: Path) -> None:
    whole = WHOLE["json"].decode()
    at = whole.rindex(damage[0])
    (path := tmp_path / "a.json").write_text(whole[:at] + whole[at:].replace(*damage), "utf-8")
    found = extract(tmp_path / "store", path, format="json", max_bad_share=0.5)
    assert found.stats["files_cut"] == (damage == ("}]", "}"))
    assert len(found.documents) >= len(ROWS) - 2


@pytest.mark.parametrize("line", ["```", "끝", '{"text": "한 번"}}', '{text: "가", "b": 1}'])
def test_a_last_line_that_is_no_json_is_no_cut(line: str, tmp_path: Path) -> None:
    (path := tmp_path / "a.jsonl").write_bytes(jsonl() + line.encode())
    found = extract(tmp_path / "store", path, format="jsonl")
    assert found.reasons == ["malformed_json"] and found.stats["files_cut"] == 0


def test_a_text_that_ends_within_a_character_is_read_in_part(tmp_path: Path) -> None:
    lines = "".join(f"{n}번째 글이다.\n" for n in range(40)).encode()
    table = b"id,text\n" + b"".join(b"%d,%s" % (n, line) for n, line in enumerate(lines.splitlines(keepends=True)))
    for data, options in ((lines, {"format": "text", "document": "line"}), (table, {"format": "csv"})):
        for at, cut in ((-4, 1), (-2, 0), (len(data), 0)):  # within 다, before the full stop, nowhere
            (path := tmp_path / "a.txt").write_bytes(data[:at])
            assert extract(tmp_path / "store", path, **options, max_bad_share=0.5).stats["files_cut"] == cut
