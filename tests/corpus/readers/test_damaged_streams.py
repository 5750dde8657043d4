"""A damaged part of a file that was joined from several compressed ones costs nothing but its own records."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest

from tests.archives import compressed
from tests.corpus.extracting import PAGE, dump, extract

KINDS = ["gz", "bz2", "xz"]


def words(start: int) -> str:
    """Return text that hardly compresses, so that each part of a file has several blocks."""
    return " ".join(f"{number * 2654435761 % 2**32:08x}" for number in range(start, start + 40))


def parts(form: str) -> list[bytes]:
    """Return three parts of 300 records in a format."""

    def rows(part: int) -> list[str]:
        return [f"{part}-{number} {words(part * 100_000 + number * 50)}" for number in range(300)]

    made = []
    for part in range(3):
        if form in ("jsonl", "json"):
            made.append("".join(json.dumps({"text": row}) + "\n" for row in rows(part)))
        elif form == "array":
            made.append(json.dumps([{"text": row} for row in rows(part)], indent=1))
        elif form == "csv":
            out = io.StringIO()
            csv.writer(out).writerows([["id", "text"], *([f"{part}:{n}", f"{row},\nend"] for n, row in enumerate(rows(part)))])
            made.append(out.getvalue())
        else:
            made.append("".join(row + "\n\n" for row in rows(part)))
    return [text.encode() for text in made]


FORMATS = {
    "jsonl": {"format": "jsonl"},
    "json": {"format": "json"},
    "array": {"format": "json"},
    "csv": {"format": "csv"},
    "line": {"format": "text", "document": "line"},
    "record": {"format": "text", "document": "record"},
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("form", FORMATS)
def test_reading_goes_on_behind_a_damaged_part(form: str, kind: str, tmp_path: Path) -> None:
    first, second, third = parts(form)
    packed = [compressed(kind, part) for part in (first, second, third)]
    damaged = packed[1][: len(packed[1]) // 2]
    path = tmp_path / f"a.txt.{kind}"
    path.write_bytes(packed[0] + damaged + packed[2])
    found = extract(tmp_path / "store", path, members="*.txt.*", **FORMATS[form])
    labels = [text.partition(" ")[0] for text in found.texts]
    assert [label for label in labels if label[0] in "02"] == [f"{part}-{n}" for part in (0, 2) for n in range(300)]
    fault = next(bad for bad in found.quarantined if bad.reason == "corrupt_file")
    assert fault.file == path.name
    assert int(fault.position.removeprefix("byte ")) >= len(first)
    assert "next compressed stream" in fault.remedy


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("form", ["jsonl", "csv"])
def test_a_part_that_was_cut_ends_the_file_only_if_it_is_the_last(form: str, kind: str, tmp_path: Path) -> None:
    first, second, third = parts(form)
    packed = [compressed(kind, part) for part in (first, second, third)]
    path = tmp_path / f"a.txt.{kind}"
    path.write_bytes(packed[0] + packed[1] + packed[2][: len(packed[2]) // 2])
    found = extract(tmp_path / "store", path, members="*", **FORMATS[form])
    assert [text[:2] for text in found.texts].count("1-") == 300
    assert found.reasons == ["truncated_file"] and "next compressed stream" not in found.quarantined[0].remedy


def test_positions_behind_the_damage_are_those_of_what_could_be_read(tmp_path: Path) -> None:
    first, second = b'{"text": "a"}\n' * 3, b'{"text": "b"}\n{"text": broken}\n'
    damaged = compressed("gz", b'{"text": "c"}\n{"tex')[:-4]
    (tmp_path / "a.jsonl.gz").write_bytes(compressed("gz", first) + damaged + compressed("gz", second))
    found = extract(tmp_path / "store", tmp_path / "a.jsonl.gz", format="jsonl")
    assert found.texts == ["a", "a", "a", "b"]
    assert [(bad.reason, bad.position) for bad in found.quarantined] == [
        ("corrupt_file", f"byte {len(first)}"),
        ("malformed_json", f"line 5, byte {len(first) + 14 + 9}"),
    ]


def test_a_damaged_stream_of_a_multistream_dump_costs_only_its_pages(tmp_path: Path) -> None:
    pages = [dump(*(PAGE.format(title=f"제목 {n}", id=n, text=f"본문 {n}이다.") for n in range(30)))]
    head, _, rest = pages[0].partition(b"  <page>")
    every = [b"  <page>" + page for page in rest.removesuffix(b"</mediawiki>\n").split(b"  <page>")]
    streams = [compressed("bz2", b"".join(every[n : n + 10])) for n in (0, 10, 20)]
    damaged = streams[1][:40] + bytes(10) + streams[1][50:]
    path = tmp_path / "dump.xml.bz2"
    path.write_bytes(compressed("bz2", head) + streams[0] + damaged + streams[2] + compressed("bz2", b"</mediawiki>\n"))
    found = extract(tmp_path / "store", path, format="mediawiki")
    assert [page.title for page in found.documents] == [f"제목 {n}" for n in (*range(10), *range(20, 30))]
    assert found.reasons == ["corrupt_file"]


def test_the_header_of_a_joined_table_is_no_record(tmp_path: Path) -> None:
    one, two = "id,text\n1,하나\n", "\ufeffid,text\r\n2,둘\r\n"
    (tmp_path / "a.csv").write_text(one + two, "utf-8")
    assert extract(tmp_path / "store", tmp_path / "a.csv", format="csv").texts == ["하나", "둘"]
    (tmp_path / "b.csv").write_text("text\n하나\ntext\n", "utf-8")
    found = extract(tmp_path / "store", tmp_path / "b.csv", format="csv")
    assert found.texts == ["하나", "text"], "with one column it may be a text"
    (tmp_path / "c.csv").write_text("x,x\n1,하나\n", "utf-8")
    assert extract(tmp_path / "store", tmp_path / "c.csv", format="csv", columns=["id", "text"]).texts == ["x", "하나"]
