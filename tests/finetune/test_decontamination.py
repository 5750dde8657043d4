"""Decontamination removes the texts that the reader of a benchmark's TOML file reads, in every format."""

from __future__ import annotations

import csv
import io
import json
import tomllib
import unicodedata
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from korealbert.corpus.dedup.decontaminate import EvaluationTexts, index_evaluation_texts
from korealbert.corpus.dedup.evaluation_files import EvaluationFile, read_texts
from korealbert.documents.benchmark_files import BenchmarkFile
from korealbert.finetune import tasks
from korealbert.finetune.definition import _FORMATS, _TABULAR, KINDS
from tests.finetune.toml_benchmarks import Bench, kind

WORDS = ["김구", "는", "서울", "사람"]
LETTERS = list(unicodedata.normalize("NFD", "한국"))
"""Characters that are a syllable only where nothing is between them."""
TEXTS: dict[str, Any] = {"t": '그는 "말, 하나"를 했다', "p": "둘째, 글", "l": "1"}
PAIRED = 'text = "t"\npair = "p"\nlabel = "l"'
TWO = 'labels = ["1", "2"]'
PERSONS = 'labels = ["PER"]'
TAGGED: dict[str, Any] = {"t": " ".join(WORDS), "y": "B-PER O O O"}

ROWS: dict[str, list[tuple[str, str, dict[str, Any]]]] = {
    "classification": [('text = "t"\nlabel = "l"', TWO, TEXTS)],
    "pairs": [(PAIRED, TWO, TEXTS)],
    "regression": [(PAIRED, "", TEXTS)],
    "choice": [('text = "t"\npair = "p"\noptions = ["a", "b"]\nlabel = "l"', TWO, {**TEXTS, "a": "첫째다", "b": "둘째다"})],
    "spans": [('text = "t"\npair = "p"\nanswer = "a"', "", {**TEXTS, "a": "하나"})],
    "tagging": [('text = "t"\ntags = "y"', PERSONS, TAGGED)],
}
"""Columns, further fields and a row of each kind."""

LISTS: dict[str, list[tuple[str, str, dict[str, Any]]]] = {
    "choice": [('text = "d.t"\noptions = ["o"]\nlabel = "l"', TWO, {"d": TEXTS, "o": ["첫째다", "둘째다"], "l": 1})],
    "tagging": [
        ('text = "t"\ntags = "y"', PERSONS, {"t": WORDS, "y": ["O"] * 4}),
        ('text = "t"\ntags = "y"', f'{PERSONS}\nunit = "characters"', {"t": LETTERS, "y": ["O"] * len(LETTERS)}),
    ],
}
"""What JSON alone can say."""

SQUAD = {"data": [{"paragraphs": [{"context": "가 나", "qas": [{"id": 1, "question": "무엇?", "answers": [{"text": "가"}]}]}]}]}
CONLL = [
    ("", PERSONS, "김구\tB-PER\n는\tO\n\n나\tO\n"),
    ("", PERSONS, "## 1\n김구 B-PER\n는  O\n \n나 O\n"),
    ("text = 1\ntags = 2", PERSONS, "1 김구 B-PER\n2\t는\tO\n"),
    ("", f'{PERSONS}\nunit = "characters"', "".join(f"{letter} O\n" for letter in LETTERS)),
]


def table(form: str, row: dict[str, Any]) -> str | bytes:
    if form == "parquet":
        content = io.BytesIO()
        pq.write_table(pa.Table.from_pylist([row]), content)
        return content.getvalue()
    if form == "json":
        return json.dumps({"rows": [row]}, ensure_ascii=False)
    if form == "jsonl":
        return json.dumps(row, ensure_ascii=False) + "\n"
    if form == "tsv":
        return "\t".join(row) + "\n" + "\t".join(row.values()) + "\n"
    text = io.StringIO()
    csv.writer(text).writerows([row, row.values()])
    return text.getvalue()


def cases() -> list[tuple[str, str | bytes]]:
    """TOML file and official file of every format of every kind."""
    found: list[tuple[str, str | bytes]] = []
    for name in KINDS:
        for form in _FORMATS.get(name, _TABULAR):
            if form == "conll":
                found += [(kind(name, form, columns, more), content) for columns, more, content in CONLL]
            elif form == "squad":
                found.append((kind(name, form, ""), json.dumps(SQUAD)))
            else:
                more = LISTS.get(name, []) if form in ("json", "jsonl", "parquet") else []
                key = 'key = "rows"\n' if form == "json" else ""
                found += [(kind(name, form, given, key + own), table(form, row)) for given, own, row in [*ROWS[name], *more]]
    return found


@pytest.mark.parametrize(("toml", "content"), cases())
def test_the_texts_that_are_read_are_kept_out_of_a_corpus(bench: Bench, toml: str, content: str | bytes) -> None:
    (bench.directory / "official").write_bytes(content if isinstance(content, bytes) else content.encode())
    path = bench.write(f"{toml}[files]\ntest = 'official'\n")
    read = set[str]()
    for example in tasks.find(str(path)).read(BenchmarkFile(bench.directory / "official")):
        read |= {example.text, *([example.pair] if example.pair else []), *getattr(example, "options", ())}
    (entry,) = tomllib.loads(tasks.table_of(path).decontamination)["dedup"]["decontaminate"]
    assert read and set(read_texts(EvaluationFile(**entry))) == read


@pytest.mark.parametrize("between", ["\t", " "])
def test_a_sentence_of_tokens_is_removed_with_any_separator_of_columns(bench: Bench, between: str) -> None:
    sentence = "조선 시대의 학자 이황은 안동에서 태어나 도산 서원을 세우고 많은 제자를 길러 냈다"
    bench.write("".join(f"{word}{between}O\n" for word in sentence.split()), "official")
    path = bench.write(kind("tagging", "conll", "", PERSONS) + "[files]\ntest = 'official'\n")
    (entry,) = tomllib.loads(tasks.table_of(path).decontamination)["dedup"]["decontaminate"]
    index: Path = bench.directory / "index"
    index_evaluation_texts([EvaluationFile(**entry)], 20, index)
    assert EvaluationTexts(index).decontaminate(f"{sentence}\n\n다른 문단이다.").text == "다른 문단이다."
