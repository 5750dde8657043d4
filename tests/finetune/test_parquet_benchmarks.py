"""Benchmark files in Parquet, as the Hugging Face hub has them."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from korealbert.corpus.dedup.evaluation_files import EvaluationFile, read_texts
from korealbert.documents.benchmark_files import BenchmarkFile
from korealbert.finetune.task import Example
from tests.finetune.toml_benchmarks import Bench, kind

REVIEWS = kind("classification", "parquet", 'id = "no"\ntext = "review.text"\nlabel = "label"', 'labels = ["bad", "good"]')
REVIEWS = REVIEWS.replace("[columns]", 'spellings = ["0", "1"]\n[columns]')
ROWS = [{"no": n, "review": {"text": f"{n}번째 평이다."}, "label": n % 2} for n in range(3)]


def read(bench: Bench, toml: str, rows: list[dict[str, Any]], features: dict[str, Any] | None = None) -> list[Any]:
    table, path = pa.Table.from_pylist(rows), bench.directory / "test.parquet"
    if features is not None:
        table = table.replace_schema_metadata({"huggingface": json.dumps({"info": {"features": features}})})
    pq.write_table(table, path)
    return bench.task(toml).read(BenchmarkFile(path))


def test_classes_are_numbers_and_texts_may_lie_in_structures(bench: Bench) -> None:
    assert read(bench, REVIEWS, ROWS) == [Example(str(n), f"{n}번째 평이다.", n % 2) for n in range(3)]


@pytest.mark.parametrize("written", [lambda names: {"feature": names, "_type": "Sequence"}, lambda names: [names]])
def test_tags_and_options_are_lists(bench: Bench, written: Any) -> None:
    toml = kind("tagging", "parquet", 'text = "tokens"\ntags = "ner"', 'labels = ["PER"]')
    rows = [{"tokens": ["철수가", "왔다"], "ner": [1, 0]}]
    (found,) = read(bench, toml, rows, {"ner": written({"names": ["O", "B-PER", "I-PER"], "_type": "ClassLabel"})})
    assert (found.text, found.target) == ("철수가 왔다", ("B-PER", "O"))
    with pytest.raises(ValueError, match=r"test\.parquet, row 1, field 'ner\[0\]': found 1; give a string"):
        read(bench, toml, rows)
    choice = kind("choice", "parquet", 'text = "q"\noptions = ["o"]\nlabel = "answer"', 'labels = ["0", "1"]')
    (chosen,) = read(bench, choice, [{"q": "무엇인가?", "o": ["강", "산"], "answer": 1}])
    assert chosen.target == 1


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([*ROWS, {"no": 9, "review": {"text": None}, "label": 1}], r"row 4, field 'review\.text': found null; give a string"),
        ([*ROWS, {"no": 2, "review": {"text": "가"}, "label": 1}], r"row 4, field 'no': '2' is in row 3 too"),
        ([{"no": 1, "review": {"text": b"\xff"}, "label": 1}], r"row 1, field 'review\.text': found \"b'"),
        ([{"no": 1, "text": "가", "label": 1}], r"row 1, field 'review': missing; the record has label, no, text"),
        ([*ROWS, {"no": 9, "review": {"text": "가"}, "label": 2}], r"row 4, field 'label'"),
    ],
)
def test_errors_name_file_row_and_field(bench: Bench, rows: list[dict[str, Any]], message: str) -> None:
    with pytest.raises(ValueError, match=r"test\.parquet, " + message):
        read(bench, REVIEWS, rows)


def test_other_files_are_no_parquet(bench: Bench) -> None:
    with pytest.raises(ValueError, match=r"test\.txt: no whole Parquet file"):
        bench.read(REVIEWS, json.dumps(ROWS))
    with pytest.raises(ValueError, match=r"test\.parquet: these bytes are Parquet, no text: set format = \"parquet\""):
        read(bench, REVIEWS.replace('"parquet"', '"jsonl"'), ROWS)


def test_texts_are_removed_from_a_corpus_by_the_same_table(bench: Bench) -> None:
    read(bench, REVIEWS, ROWS)
    file = EvaluationFile.model_validate(
        {"name": "mine", "path": str(bench.directory / "test.parquet"), "format": "parquet", "columns": ["review.text"]}
    )
    assert list(read_texts(file)) == [row["review"]["text"] for row in ROWS]
