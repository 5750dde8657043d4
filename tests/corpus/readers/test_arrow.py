"""Arrow files: what ``save_to_disk`` writes, streams and files, damage, bombs and offsets that lead nowhere."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import ipc

from korealbert.corpus.extract import ExtractionError
from korealbert.corpus.readers.arrow import _decompressed_bytes
from tests.corpus.documents_made import prose
from tests.corpus.extracting import extract


def rows(first: int, count: int) -> list[dict[str, Any]]:
    return [{"text": prose(number, 2), "title": f"글 {number}", "label": number % 2} for number in range(first, first + count)]


def written(path: Path, table: pa.Table, *, stream: bool = True, codec: str | None = None, per_batch: int = 4) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    options = ipc.IpcWriteOptions(compression=codec)
    with (ipc.new_stream if stream else ipc.new_file)(str(path), table.schema, options=options) as writer:
        writer.write_table(table, max_chunksize=per_batch)
    return path


def saved(directory: Path, first: int, *, shards: int = 2) -> Path:
    """Write a dataset as ``Dataset.save_to_disk`` does."""
    names = [f"data-{number:05d}-of-{shards:05d}.arrow" for number in range(shards)]
    for number, name in enumerate(names):
        written(directory / name, pa.Table.from_pylist(rows(first + 5 * number, 5)))
    (directory / "state.json").write_text(json.dumps({"_data_files": [{"filename": name} for name in names], "_split": None}))
    (directory / "dataset_info.json").write_text(json.dumps({"features": {"text": {"dtype": "string", "_type": "Value"}}}))
    return directory


def texts(first: int, count: int) -> list[str]:
    return [row["text"] for row in rows(first, count)]


def test_a_saved_dataset_is_read_without_its_caches(tmp_path: Path) -> None:
    here = saved(tmp_path / "set", 0)
    written(here / "cache-0123456789abcdef.arrow", pa.Table.from_pylist(rows(0, 10)))
    for members in ("*", "*.arrow"):
        found = extract(tmp_path / "store", here, format="arrow", members=members)
        assert (found.texts, found.quarantined) == (texts(0, 10), [])
    assert found.documents[3].title == "글 3"


def test_the_splits_of_a_saved_dictionary_are_read(tmp_path: Path) -> None:
    saved(tmp_path / "set" / "test", 100, shards=1)
    saved(tmp_path / "set" / "train", 0)
    (tmp_path / "set" / "dataset_dict.json").write_text('{"splits": ["train", "test"]}')
    found = extract(tmp_path / "store", tmp_path / "set", format="arrow")
    assert (found.texts, found.quarantined) == ([*texts(100, 5), *texts(0, 10)], [])


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("codec", [None, "zstd", "lz4"])
@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.binary(), pa.dictionary(pa.int32(), pa.string())])
def test_streams_and_files_of_all_kinds_of_text(stream: bool, codec: str | None, kind: pa.DataType, tmp_path: Path) -> None:
    table = pa.table({"text": pa.array(texts(0, 9)).cast(kind), "n": range(9)})
    here = written(tmp_path / "a.arrow", table, stream=stream, codec=codec)
    found = extract(tmp_path / "store", here, format="arrow")
    assert (found.texts, found.quarantined) == (texts(0, 9), [])


def test_fields_within_others_and_lists_are_read(tmp_path: Path) -> None:
    table = pa.Table.from_pylist(
        [{"meta": {"title": f"글 {n}"}, "turns": [{"text": prose(n, 2)}, {"text": prose(n + 50, 2)}]} for n in range(3)]
    )
    here = written(tmp_path / "a.arrow", table)
    found = extract(tmp_path / "store", here, format="arrow", fields={"text": ["turns.text"], "title": "meta.title"})
    assert [document.title for document in found.documents] == ["글 0", "글 1", "글 2"]
    assert found.texts == [f"{prose(n, 2)}\n\n{prose(n + 50, 2)}" for n in range(3)]


def test_a_text_that_is_not_utf_8_costs_its_own_row(tmp_path: Path) -> None:
    bad = pa.array(["가나".encode(), "가나".encode("cp949"), "다라".encode()]).cast(pa.binary())
    broken = pa.Array.from_buffers(pa.string(), 3, bad.buffers())
    here = written(tmp_path / "a.arrow", pa.table({"text": broken}))
    found = extract(tmp_path / "store", here, format="arrow")
    assert found.texts == ["가나", "다라"] and found.reasons == ["invalid_utf8"]
    assert found.quarantined[0].position == "row 2"


def test_batches_before_damage_are_kept(tmp_path: Path) -> None:
    here = written(tmp_path / "a.arrow", pa.Table.from_pylist(rows(0, 12)))
    whole = here.read_bytes()
    here.write_bytes(whole[: len(whole) * 3 // 4])
    found = extract(tmp_path / "store", here, format="arrow")
    assert found.texts == texts(0, 8) and found.reasons == ["corrupt_file"]
    here.write_bytes(b"")
    assert extract(tmp_path / "store", here, format="arrow").reasons == ["empty_file"]


def test_offsets_beyond_the_text_are_refused(tmp_path: Path) -> None:
    here = written(tmp_path / "a.arrow", pa.table({"text": ["가나", "다라"]}))
    data = here.read_bytes()
    offsets = struct.pack("<3i", 0, 6, 12)
    assert data.count(offsets) == 1
    here.write_bytes(data.replace(offsets, struct.pack("<3i", 0, 6, 1 << 30)))
    found = extract(tmp_path / "store", here, format="arrow")
    assert not found.texts and found.reasons == ["corrupt_file"]


@pytest.mark.parametrize("stream", [True, False])
def test_a_bomb_is_refused_before_it_unfolds(stream: bool, tmp_path: Path) -> None:
    bomb = pa.table({"text": ["가나다라", "\0" * (64 << 20)]})
    here = written(tmp_path / "a.arrow", bomb, stream=stream, codec="zstd", per_batch=1)
    found = extract(tmp_path / "store", here, format="arrow")
    assert found.texts == ["가나다라"] and found.reasons == ["decompression_bomb"]


def test_the_size_of_a_batch_is_that_of_its_buffers(tmp_path: Path) -> None:
    table = pa.table({"text": pa.array(texts(0, 50)).dictionary_encode()})
    for codec in ("zstd", None):
        here = written(tmp_path / f"{codec}.arrow", table, codec=codec, per_batch=50)
        sizes = [
            _decompressed_bytes(message.metadata.to_pybytes(), message.body)
            for message in ipc.MessageReader.open_stream(pa.memory_map(str(here)))
            if message.body is not None
        ]
        wanted = sum(len(text.encode()) for text in set(texts(0, 50)))
        assert (max(sizes) >= wanted) if codec else (max(sizes) == 0)


@pytest.mark.parametrize(("columns", "reason"), [(["body"], "missing_field"), (["text", "text"], "ambiguous_field")])
def test_missing_and_repeated_columns_are_named(columns: list[str], reason: str, tmp_path: Path) -> None:
    table = pa.table([pa.array(["가나다"])] * len(columns), names=columns)
    with pytest.raises(ExtractionError, match=f"{reason}; .*{columns[0]}"):
        extract(tmp_path / "store", written(tmp_path / "a.arrow", table), format="arrow", max_bad_share=0.05)
