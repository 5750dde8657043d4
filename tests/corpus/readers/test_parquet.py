"""Rows of Parquet and CSV become documents, or are quarantined with their number."""

from __future__ import annotations

import gzip
import itertools
import json
import mmap
import re
import uuid
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from korealbert.corpus.extract import ExtractionError
from korealbert.corpus.readers.parquet import _pages
from tests.corpus.extracting import Extracted, extract

PARAGRAPH = " ".join(["둘째 문단이다."] * 30)
ROWS = [{"no": n, "글": f"{n}번째 글이다.\n\n{PARAGRAPH}", "제목": f"제목 {n}", "tags": ["a"]} for n in range(2_600)]
FIELDS = {"text": "글", "title": "제목", "id": "no", "outlet": "", "category": "", "url": "", "published": ""}
TEXT_ALONE = {**FIELDS, "title": "", "id": ""}


def extracted(tmp_path: Path, *paths: Path, **spec: Any) -> Extracted:
    return extract(tmp_path / "store", list(paths), **{"format": "parquet", "fields": FIELDS, "max_bad_share": 0.05, **spec})


def test_each_row_is_a_document_also_of_several_row_groups_and_packed(tmp_path: Path) -> None:
    pq.write_table(pa.Table.from_pylist(ROWS), tmp_path / "a.parquet", row_group_size=700, compression="zstd")
    found = extracted(tmp_path, tmp_path / "a.parquet", shard_bytes=50_000)
    assert found.texts == [row["글"] for row in ROWS] and not found.quarantined
    assert [d.title for d in found.documents] == [row["제목"] for row in ROWS]
    assert found.stats["records_in"] == len(ROWS) and len(found.artifact.files("documents-*.arrow")) > 1
    (tmp_path / "b.parquet.gz").write_bytes(gzip.compress((tmp_path / "a.parquet").read_bytes()))
    packed = extracted(tmp_path, tmp_path / "b.parquet.gz")
    assert packed.texts == found.texts


def test_a_bad_row_is_quarantined_by_its_number(tmp_path: Path) -> None:
    rows = [
        {**row, "글": None} if n == 6 else {**row, "글": "가" * 40_000} if n == 9 else row for n, row in enumerate(ROWS[:100])
    ]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "a.parquet")
    found = extracted(tmp_path, tmp_path / "a.parquet", limits={"max_record_bytes": 50_000})
    assert len(found.documents) == 98
    assert [(entry.position, entry.reason) for entry in found.quarantined] == [
        ("row 7", "missing_field"),
        ("row 10", "record_too_long"),
    ]
    assert {entry.field for entry in found.quarantined} == {"글", ""}


@pytest.mark.parametrize(
    ("damage", "reason", "hint"),
    [
        (lambda data: data[: len(data) // 2], "corrupt_file", "fetch it again"),
        (lambda data: b'{"text": "parquet?"}\n' * 50, "other_format", 'these bytes are json: set format = "json"'),
        (lambda data: b"parquet?" * 50, "corrupt_file", "the file begins with b'parquet?'"),
    ],
)
def test_a_file_that_is_none_or_half_of_one_is_named(tmp_path: Path, damage: Any, reason: str, hint: str) -> None:
    pq.write_table(pa.Table.from_pylist(ROWS), tmp_path / "good.parquet")
    (tmp_path / "bad.parquet").write_bytes(damage((tmp_path / "good.parquet").read_bytes()))
    found = extracted(tmp_path, tmp_path / "good.parquet", tmp_path / "bad.parquet", max_bad_share=0.5)
    assert len(found.documents) == len(ROWS)
    assert [(entry.file, entry.reason) for entry in found.quarantined] == [("bad.parquet", reason)]
    assert hint in found.quarantined[0].remedy
    with pytest.raises(ExtractionError, match=r"bad\.parquet"):
        extracted(tmp_path, tmp_path / "bad.parquet")


def test_a_misspelt_column_is_told_with_those_that_there_are(tmp_path: Path) -> None:
    pq.write_table(pa.Table.from_pylist(ROWS), tmp_path / "a.parquet")
    with pytest.raises(ExtractionError, match=r"has the fields no, 글, 제목, tags: set fields\.text"):
        extracted(tmp_path, tmp_path / "a.parquet", fields={**FIELDS, "text": "body"})


NESTED = [
    {
        "no": n,
        "meta": {"글": f"{n}번째 글이다.", "제목": f"제목 {n}", "at": {"day": "2024-01-02"}},
        "문단": [f"{n}째 가.", None, "나."],
        "turns": [{"who": "가", "text": "안녕?"}, {"who": "나", "text": f"{n}번 안녕."}],
    }
    for n in range(30)
]


def nested_files(tmp_path: Path, rows: list[dict[str, Any]]) -> None:
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "a.parquet")
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")


@pytest.mark.parametrize("format", ["parquet", "jsonl"])
def test_fields_within_others_are_read_by_their_path(format: str, tmp_path: Path) -> None:
    nested_files(tmp_path, NESTED)
    fields = {**TEXT_ALONE, "title": "meta.제목", "published": "meta.at.day", "id": "no"}

    def read(text: Any) -> Extracted:
        return extracted(tmp_path, tmp_path / f"a.{format}", format=format, fields={**fields, "text": text})

    found = read("meta.글")
    assert found.texts == [row["meta"]["글"] for row in NESTED]
    assert {(d.title, d.published) for d in found.documents} == {(f"제목 {n}", "2024-01-02") for n in range(30)}
    assert read("문단").texts == [f"{n}째 가.\n\n나." for n in range(30)]
    assert read("turns.text").texts == [f"안녕?\n\n{n}번 안녕." for n in range(30)]
    assert read(["meta.글", "문단"]).texts[1] == "1번째 글이다.\n\n1째 가.\n\n나."


@pytest.mark.parametrize("format", ["parquet", "jsonl"])
def test_a_text_field_that_holds_fields_names_them(format: str, tmp_path: Path) -> None:
    nested_files(tmp_path, NESTED)
    for text, message in (("meta", r"meta\.글, meta\.제목"), ("meta.body", r"has the fields no, meta\.글, meta\.제목")):
        with pytest.raises(ExtractionError, match=message):
            extracted(tmp_path, tmp_path / f"a.{format}", format=format, fields={**TEXT_ALONE, "text": text})


def test_a_column_whose_own_name_has_a_dot_is_that_column(tmp_path: Path) -> None:
    nested_files(tmp_path, [{"doc.글": f"{n}째 글이다."} for n in range(3)])
    for format in ("parquet", "jsonl"):
        fields = {**TEXT_ALONE, "text": "doc.글"}
        assert len(extracted(tmp_path, tmp_path / f"a.{format}", format=format, fields=fields).documents) == 3


def test_a_list_of_endless_equal_texts_is_a_bomb(tmp_path: Path) -> None:
    values = pa.array(["가" * 20_000]).dictionary_encode()
    texts = pa.DictionaryArray.from_arrays(pa.array([0] * 20_000, pa.int32()), values.dictionary)
    column = pa.ListArray.from_arrays(pa.array([0, 20_000], pa.int32()), texts)
    pq.write_table(pa.table({"글": column}), tmp_path / "a.parquet")
    with pytest.raises(ExtractionError, match=r"record_too_long|decompression_bomb"):
        extracted(tmp_path, tmp_path / "a.parquet", fields=TEXT_ALONE)


def test_files_without_rows_are_told_where_there_are_no_others(tmp_path: Path) -> None:
    """A part of a dataset may be a whole file without rows."""
    pq.write_table(pa.table({"글": pa.array([], pa.string())}), tmp_path / "a.parquet")
    pq.write_table(pa.Table.from_pylist(ROWS[:3]), tmp_path / "b.parquet")
    with pytest.raises(ExtractionError, match="source test: its files are whole, but have no rows"):
        extracted(tmp_path, tmp_path / "a.parquet", fields=TEXT_ALONE)
    found = extracted(tmp_path, tmp_path / "a.parquet", tmp_path / "b.parquet", fields=TEXT_ALONE)
    assert len(found.documents) == 3 and not found.quarantined


def test_a_little_file_of_endless_text_is_a_bomb(tmp_path: Path) -> None:
    """One long text of a dictionary, 200,000 times."""
    text = pa.DictionaryArray.from_arrays(pa.array([0] * 200_000, pa.int32()), ["가나다라 " * 2_000])
    pq.write_table(pa.table({"글": text, "제목": text, "no": pa.array(range(200_000))}), tmp_path / "a.parquet")
    pq.write_table(pa.Table.from_pylist(ROWS), tmp_path / "good.parquet")
    limits = {"ratio_applies_above_bytes": 1 << 22, "max_decompression_ratio": 2}
    found = extracted(tmp_path, tmp_path / "good.parquet", tmp_path / "a.parquet", limits=limits, max_bad_share=1.0)
    assert len(found.documents) < 4_000
    assert found.reasons == ["decompression_bomb"]


TYPES = [pa.large_string(), pa.binary(), pa.large_binary(), pa.dictionary(pa.int32(), pa.string())]


@pytest.mark.parametrize("kind", [*TYPES, pa.string_view(), pa.binary_view()])
def test_text_of_every_type_is_read(tmp_path: Path, kind: pa.DataType) -> None:
    texts = pa.array([row["글"] for row in ROWS[:50]]).cast(pa.binary() if pa.types.is_large_binary(kind) else kind).cast(kind)
    pq.write_table(pa.table({"글": texts}), tmp_path / "a.parquet")
    found = extracted(tmp_path, tmp_path / "a.parquet", fields=TEXT_ALONE)
    assert found.texts == [row["글"] for row in ROWS[:50]] and not found.quarantined


@pytest.mark.parametrize("encoding", ["DELTA_BYTE_ARRAY", "DELTA_LENGTH_BYTE_ARRAY"])
@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.binary(), pa.string_view()])
def test_text_in_delta_encodings_is_read(tmp_path: Path, encoding: str, version: str, kind: pa.DataType) -> None:
    texts = [row["글"] if n % 7 else None for n, row in enumerate(ROWS[:2_500])]
    table = pa.table({"글": pa.array(texts).cast(kind), "제목": [row["제목"] for row in ROWS[:2_500]]})
    pq.write_table(
        table,
        tmp_path / "a.parquet",
        use_dictionary=["제목"],
        column_encoding={"글": encoding},
        data_page_version=version,
        data_page_size=20_000,
        row_group_size=2_000,
    )
    fields = {**FIELDS, "id": ""}
    found = extracted(tmp_path, tmp_path / "a.parquet", fields=fields, max_bad_share=0.2)
    assert found.texts == [text for text in texts if text]
    assert [document.title for document in found.documents] == [ROWS[n]["제목"] for n, text in enumerate(texts) if text]
    assert {entry.reason for entry in found.quarantined} == {"missing_field"} and found.stats["documents_in"] == 2_500


def test_texts_that_begin_alike_are_not_unfolded_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """500 bytes of a delta encoding are 130 MB of texts, which the headers of pages do not state."""
    pq.write_table(
        pa.table({"글": ["a" * 520_000] * 250}),
        tmp_path / "a.parquet",
        use_dictionary=False,
        column_encoding={"글": "DELTA_BYTE_ARRAY"},
        compression="zstd",
    )
    pq.write_table(pa.Table.from_pylist(ROWS[:100]), tmp_path / "good.parquet")
    sizes: list[int] = []
    read = pq.ParquetFile.iter_batches

    def counted(*given: Any, **options: Any) -> Any:
        for batch in read(*given, **options):
            sizes.append(batch.nbytes)
            yield batch

    monkeypatch.setattr(pq.ParquetFile, "iter_batches", counted)
    paths = tmp_path / "good.parquet", tmp_path / "a.parquet"
    found = extracted(tmp_path, *paths, fields=TEXT_ALONE, max_bad_share=0.25)
    assert found.reasons == ["decompression_bomb"]
    assert len(found.documents) < 200 and max(sizes) < 80 << 20 and sum(sizes) < 100 << 20


def test_bytes_that_are_no_utf8_go_to_quarantine_by_their_row(tmp_path: Path) -> None:
    texts = [f"{n}번째 글이다.".encode() for n in range(40)]
    texts[7] = "일곱".encode("cp949")
    pq.write_table(pa.table({"글": pa.array(texts, pa.binary())}), tmp_path / "a.parquet")
    found = extracted(tmp_path, tmp_path / "a.parquet", fields=TEXT_ALONE)
    assert len(found.documents) == 39 and [(entry.position, entry.reason) for entry in found.quarantined] == [
        ("row 8", "invalid_utf8")
    ]


def test_pages_are_not_unfolded_before_they_are_counted(tmp_path: Path) -> None:
    """Arrow holds all pages of a batch in memory: 16 KB of equal texts took 3 GB."""
    schema = pa.schema([("글", pa.string())])
    with pq.ParquetWriter(tmp_path / "a.parquet", schema, compression="zstd", use_dictionary=False) as writer:
        writer.write_table(pa.table({"글": [row["글"] for row in ROWS[:3]]}, schema))
        writer.write_table(pa.table({"글": ["a" * (1 << 20)] * 24}, schema))
    found = extracted(tmp_path, tmp_path / "a.parquet", max_bad_share=0.5, fields=TEXT_ALONE)
    assert len(found.documents) == 3
    assert [(entry.position, entry.reason) for entry in found.quarantined] == [("row group 2", "decompression_bomb")]


@pytest.mark.parametrize("options", [{}, {"data_page_version": "2.0"}, {"use_dictionary": False, "compression": "zstd"}])
def test_the_sizes_of_pages_are_those_of_the_footer(tmp_path: Path, options: dict[str, Any]) -> None:
    table = pa.table(
        {"글": [row["글"] for row in ROWS], "no": [float(row["no"]) for row in ROWS], "b": [True, None] * (len(ROWS) // 2)}
    )
    pq.write_table(
        table, tmp_path / "a.parquet", data_page_size=10_000, row_group_size=2_000, write_statistics=False, **options
    )
    metadata = pq.read_metadata(tmp_path / "a.parquet")
    with (tmp_path / "a.parquet").open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        for group, column in itertools.product(range(2), range(3)):
            chunk = metadata.row_group(group).column(column)
            begin = min(filter(None, (chunk.dictionary_page_offset, chunk.data_page_offset)))
            pages = list(_pages(data, begin, begin + chunk.total_compressed_size))
            assert sum(packed for _, packed in pages) == chunk.total_compressed_size
            assert 0 < chunk.total_uncompressed_size - sum(size for size, _ in pages) < 200 * len(pages)


def test_lists_are_read_only_as_texts(tmp_path: Path) -> None:
    """Every row may have the same large list in a few kilobytes."""
    columns = {"글": ["가나다"] * 40, "제목": [["가"] * 20_000] * 40, "no": [[0] * 20_000] * 39 + [[]]}
    pq.write_table(pa.table(columns), tmp_path / "a.parquet", compression="zstd")
    with pytest.raises(ExtractionError, match=r"no record has the field 'no'"):
        extracted(tmp_path, tmp_path / "a.parquet", fields={**FIELDS, "title": ""})
    found = extracted(tmp_path, tmp_path / "a.parquet", fields={**FIELDS, "id": ""})
    assert len(found.documents) == 40 and found.stats["unread_fields"] == {"title": 40}
    with pytest.raises(ExtractionError, match=r"column 'no' is int64, not text: set fields\.text of the spec"):
        extracted(tmp_path, tmp_path / "a.parquet", fields={**TEXT_ALONE, "text": "no"})


def test_parquet_read_as_something_else_is_named(tmp_path: Path) -> None:
    pq.write_table(pa.Table.from_pylist(ROWS), tmp_path / "a.jsonl")
    for kind in ("jsonl", "json", "csv", "text"):
        with pytest.raises(ExtractionError, match=r'these bytes are Parquet: set format = "parquet"'):
            extracted(tmp_path, tmp_path / "a.jsonl", format=kind)


@pytest.mark.parametrize(("mark", "hint"), [(";", 'delimiter = ";"'), ("\t", r'delimiter = "\t"')])
def test_another_delimiter_is_told(mark: str, hint: str, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(f"제목{mark}글\n하나{mark}{PARAGRAPH}\n", "utf-8")
    with pytest.raises(ExtractionError, match=re.escape(hint)):
        extracted(tmp_path, tmp_path / "a.csv", format="csv")


def test_csv_is_read_as_books_are(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text('no,제목,글\n1,하나,"첫째, 글"\n2,둘,"두 줄\n글"\n', "utf-8")
    found = extracted(tmp_path, tmp_path / "a.csv", format="csv")
    assert [(d.title, d.text) for d in found.documents] == [("하나", "첫째, 글"), ("둘", "두 줄\n글")]


@pytest.mark.parametrize(
    ("kind", "value", "published"),
    [
        (pa.timestamp("ns"), 86_400_000_000_001, "1970-01-02T00:00:00"),
        (pa.timestamp("us"), 86_400_000_000, "1970-01-02T00:00:00"),
        (pa.timestamp("us"), 10**18, ""),
        (pa.date32(), 10**7, ""),
        (pa.time64("ns"), 1, ""),
        (pa.duration("ns"), 1, ""),
        (pa.timestamp("s", "Asia/Seoul"), 0, "1970-01-01T09:00:00+09:00"),
    ],
)
def test_times_that_python_has_none_for_are_read_as_arrow_writes_them(
    kind: pa.DataType, value: int, published: str, tmp_path: Path
) -> None:
    times = pa.array([value, None], pa.int32() if kind.bit_width == 32 else pa.int64()).cast(kind)
    pq.write_table(pa.table({"text": ["첫째 글이다.", "둘째 글이다."], "published": times}), tmp_path / "a.parquet")
    found = extracted(tmp_path, tmp_path / "a.parquet", fields={})
    assert [(one.text, one.published) for one in found.documents] == [("첫째 글이다.", published), ("둘째 글이다.", "")]
    assert found.stats["unread_dates"] == (0 if published else 1) and not found.quarantined


def test_a_time_of_an_unknown_zone_is_quarantined_by_row_and_column(tmp_path: Path) -> None:
    table = pa.table({"text": ["글이다."] * 30, "published": pa.array([1, *[None] * 29], pa.timestamp("s", "Foo/Bar"))})
    pq.write_table(table, tmp_path / "a.parquet")
    found = extracted(tmp_path, tmp_path / "a.parquet", fields={})
    assert len(found.documents) == 29
    assert [(one.position, one.field, one.reason) for one in found.quarantined] == [("row 1", "published", "wrong_type")]
    assert "Foo/Bar" in found.quarantined[0].remedy


def test_two_columns_of_one_name_are_refused_where_they_are_read(tmp_path: Path) -> None:
    def written(name: str, columns: list[str]) -> Path:
        path = tmp_path / name
        pq.write_table(pa.Table.from_arrays([pa.array(["글이다."] * 3)] * len(columns), names=columns), path)
        return path

    for twice in ("text", "title"):
        with pytest.raises(ExtractionError, match=rf"{twice}\.parquet.*two columns are named '{twice}'"):
            extracted(tmp_path, written(f"{twice}.parquet", ["text", "title", twice]), fields={})
    assert len(extracted(tmp_path, written("other.parquet", ["text", "x", "x"]), fields={}).documents) == 3


def test_arrow_files_are_named(tmp_path: Path) -> None:
    """Streams, as ``save_to_disk`` writes them, and files with Arrow's magic."""
    table = pa.table({"text": ["글이다."] * 3})
    with pa.OSFile(str(tmp_path / "a.arrow"), "wb") as sink, pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    with pa.OSFile(str(tmp_path / "b.arrow"), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    folder = tmp_path / "saved"
    folder.mkdir()
    (folder / "data-00000-of-00001.arrow").write_bytes((tmp_path / "a.arrow").read_bytes())
    for name in ("dataset_info.json", "state.json"):
        (folder / name).write_text("{}")
    for name in ("a.arrow", "b.arrow", "saved"):
        for format in ("parquet", "jsonl"):
            with pytest.raises(
                ExtractionError, match=r'The first of them:\s*[^\n]*these bytes are Arrow: set format = "arrow"'
            ):
                extracted(tmp_path, tmp_path / name, format=format, fields={}, max_bad_share=0)


def test_nan_is_a_missing_value(tmp_path: Path) -> None:
    nan = float("nan")
    table = pa.table({"text": ["첫째 글이다.", "둘째 글이다."], "title": [nan, nan], "id": [nan, nan]})
    pq.write_table(table, tmp_path / "a.parquet")
    (tmp_path / "b.jsonl").write_text('{"text": "셋째 글이다.", "title": NaN, "id": NaN}\n{"text": NaN}\n')
    for path, format, count in ((tmp_path / "a.parquet", "parquet", 2), (tmp_path / "b.jsonl", "jsonl", 1)):
        found = extracted(tmp_path, path, format=format, fields={})
        assert [one.title for one in found.documents] == [""] * count and len({one.id for one in found.documents}) == count
        assert found.reasons == ["missing_field"] * (2 - count)


def test_of_a_directory_files_with_the_formats_endings_are_taken(tmp_path: Path) -> None:
    """As in a dataset of the hub. All files are read if none has such a suffix, or if ``members`` matches them."""
    folder = tmp_path / "dataset"
    (folder / "data").mkdir(parents=True)
    for name in ("README.md", ".gitattributes", "dataset_infos.json"):
        (folder / name).write_text("---\nlanguage: ko\n---\n")
    pq.write_table(pa.table({"text": ["첫째 글이다."]}), folder / "data" / "train.parquet")
    found = extracted(tmp_path, folder, fields={})
    assert found.texts == ["첫째 글이다."] and not found.quarantined
    assert found.stats["files_left_aside"] == {".json": 1, ".md": 1} and found.stats["files"] == 1
    assert found.stats["twins"] == 1  # .gitattributes
    (folder / "2019").mkdir()
    (folder / "2019" / "README.md").write_text("---\nlanguage: ko\n---\n")
    found = extracted(tmp_path, folder, fields={})
    assert found.texts == ["첫째 글이다."] and not found.quarantined
    assert found.stats["files_left_aside"] == {".json": 1, ".md": 2}
    (folder / "data" / "lines.jsonl.gz").write_bytes(gzip.compress('{"text": "둘째 글이다."}\n'.encode()))
    found = extracted(tmp_path, folder, format="jsonl", fields={})
    assert found.texts == ["둘째 글이다."] and not found.quarantined
    with pytest.raises(ExtractionError, match=r"plain text: set format .* or leave the file out by `members`"):
        extracted(tmp_path, folder, fields={}, members="*e*", max_bad_share=0, bad_share_applies_from=1)
    other = tmp_path / "other"
    other.mkdir()
    (other / "part-0").write_text('{"text": "셋째 글이다."}\n')
    found = extracted(tmp_path, other, format="jsonl", fields={})
    assert found.texts == ["셋째 글이다."] and "files_left_aside" not in found.stats


METADATA = {
    "text": "글이다.",
    "title": ["첫째", "둘째"],
    "category": ["정치", "사회"],
    "outlet": {"name": "신문"},
    "url": b"https://a.example/1",
    "published": Decimal("20240115"),
    "id": uuid.UUID(int=0xFF << 120).bytes,
}


def test_metadata_of_other_types_is_read_or_said_to_be_unread(tmp_path: Path) -> None:
    schema = pa.schema(
        [
            ("text", pa.string()),
            ("title", pa.list_(pa.string())),
            ("category", pa.list_(pa.string())),
            ("outlet", pa.struct([("name", pa.string())])),
            ("url", pa.binary()),
            ("published", pa.decimal128(10)),
            ("id", pa.binary(16)),
        ]
    )
    table = pa.Table.from_pylist([METADATA] * 3, schema)
    pq.write_table(table, tmp_path / "a.parquet")
    with pa.OSFile(str(tmp_path / "a.arrow"), "wb") as sink, pa.ipc.new_file(sink, schema) as writer:
        writer.write_table(table)
    row = {**METADATA, "url": "https://a.example/1", "published": 20240115, "id": "ff" + "0" * 30}
    (tmp_path / "a.jsonl").write_text((json.dumps(row, ensure_ascii=False) + "\n") * 3, "utf-8")
    for format in ("parquet", "arrow", "jsonl"):
        found = extracted(tmp_path, tmp_path / f"a.{format}", format=format, fields={})
        for one in found.documents:
            assert (one.title, one.category, one.url, one.published) == (
                "첫째, 둘째",
                "정치, 사회",
                "https://a.example/1",
                "2024-01-15",
            )
            assert one.outlet == ""
        assert len({one.id for one in found.documents}) == 1
        assert found.stats["unread_fields"] == {"outlet": 3} and not found.stats["missing_fields"]
        repeated, unread = found.stats["warnings"]
        assert "2 documents have the 'id' of an earlier one" in repeated
        assert "'outlet' of 3 records is an object" in unread and "outlet.name" in unread


def test_lists_of_addresses_and_of_long_texts_are_no_metadata(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [
        {"text": "글이다.", "url": ["https://a.example/1"], "category": [], "title": [None], "published": "언젠가"},
        {
            "text": "글이다.",
            "url": ["https://a.example/1", "https://a.example/2"],
            "category": ["가" * 200] * 2,
            "title": [{"a": 1}],
        },
    ]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), "utf-8")
    found = extracted(tmp_path, tmp_path / "a.jsonl", format="jsonl", fields={})
    assert [one.url for one in found.documents] == ["https://a.example/1", ""]
    assert found.stats["unread_fields"] == {"category": 1, "title": 1, "url": 1}
    assert {role: found.stats["missing_fields"][role] for role in ("category", "title")} == {"category": 1, "title": 1}
    assert "'published' of 1 records is no date" in found.stats["warnings"][-1]
