"""Damaged shards are reported by name, wherever the damage is."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from korealbert.documents.shards import ShardError, TableWriter, read_rows

SCHEMA = pa.schema([("id", pa.string()), ("number", pa.int64())])


@pytest.fixture
def content(tmp_path: Path) -> bytes:
    with TableWriter(tmp_path / "whole.arrow", SCHEMA) as table:
        for number in range(50):
            table.append((f"가{number}", number))
    return (tmp_path / "whole.arrow").read_bytes()


@pytest.mark.parametrize("flipped", [0x01, 0x80])
def test_any_changed_byte_gives_rows_or_an_error_that_names_the_shard(content: bytes, flipped: int, tmp_path: Path) -> None:
    path, refused = tmp_path / "a.arrow", 0
    for place in range(len(content)):
        path.write_bytes(content[:place] + bytes([content[place] ^ flipped]) + content[place + 1 :])
        try:
            list(read_rows(path, SCHEMA))
        except ShardError as error:
            assert str(error).startswith(f"{path}: ") and str(error).endswith("; rebuild its stage")
            refused += 1
    assert refused > len(content) / 2


def test_a_file_cut_anywhere_or_missing_is_refused(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "a.arrow"
    for length in range(0, len(content), 7):
        path.write_bytes(content[:length])
        with pytest.raises(ShardError, match=r"a\.arrow: not a whole Arrow file"):
            list(read_rows(path, SCHEMA))
    path.unlink()
    with pytest.raises(ShardError, match=r"a\.arrow: not a whole Arrow file"):
        list(read_rows(path, SCHEMA))
