"""Ids that stand in several files, each of which counts from 0, are counted and said: other stages draw by id."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from korealbert.corpus.extract import repeated_ids
from korealbert.documents.schema import Document, document_id
from korealbert.documents.shards import DocumentShard
from tests.corpus.extracting import extract


def jsonl(path: Path, first: int, count: int) -> None:
    rows = [{"id": number, "text": f"{path.stem}의 {number}번째 글이다."} for number in range(first, first + count)]
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), "utf-8")


@pytest.mark.parametrize("same", [True, False])
def test_ids_that_begin_anew_in_each_file_are_said(same: bool, tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    jsonl(folder / "a.jsonl", 0, 12)
    jsonl(folder / "b.jsonl", 0 if same else 100, 8)
    found = extract(tmp_path / "store", folder, format="jsonl", fields={"text": "text", "id": "id"}, max_bad_share=0.05)
    assert found.stats["repeated_ids"] == 8 * same
    warnings = found.stats.get("warnings", ())
    assert any("8 documents have the 'id' of an earlier one" in one and 'fields.id = ""' in one for one in warnings) == same
    jsonl(folder / "c.jsonl", 200, 400)
    few = extract(tmp_path / "few", folder, format="jsonl", fields={"text": "text", "id": "id"}, max_bad_share=0.05)
    assert few.stats["repeated_ids"] == 8 * same and not few.stats.get("warnings"), "2 % of the documents"
    unnamed = extract(tmp_path / "other", folder, format="jsonl", fields={"text": "text", "id": ""})
    assert len({document.id for document in unnamed.documents}) == 420


def test_many_repetitions_are_estimated_in_little_memory(tmp_path: Path) -> None:
    for index in range(4):
        with DocumentShard(tmp_path, index) as shard:
            for number in range(2_000):
                shard.keep(Document(id=document_id("news", str(number % 1_500)), source="news", text="글"))
    shards = sorted(tmp_path.glob("documents-*.arrow"))
    assert repeated_ids(shards) == 8_000 - 1_500
    assert repeated_ids(shards, most=400) == pytest.approx(8_000 - 1_500, rel=0.25)
