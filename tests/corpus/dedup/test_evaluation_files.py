"""Evaluation texts are read in their own formats, and invalid sets are named."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pydantic import ValidationError

from korealbert.artifact import InputPath
from korealbert.corpus.dedup.evaluation_files import EvaluationFile, read_texts
from tests.archives import compressed, tar

DIALOGUES = [
    {"guid": "wos-0", "dialogue": [{"role": "user", "text": "식당을 찾아요"}, {"role": "sys", "text": "네"}]},
    {"guid": "wos-1", "dialogue": [{"role": "user", "text": "서울이요"}]},
]
WOS: dict[str, object] = {"format": "json", "unit": "texts"}
PAIRS: dict[str, object] = {"format": "jsonl", "columns": ["t", "p"]}


@pytest.mark.parametrize(
    ("suffix", "content", "fields", "texts"),
    [
        (".tsv", 'a\tb\n"가\t나"다\n', {"format": "tsv", "columns": ["b"]}, ['나"다']),
        (".csv", 'q,a\r\n"가, ""나""",다\r\n', {"format": "csv", "columns": ["q", "a"]}, ['가, "나"', "다"]),
        (".json", '[{"t": "가", "n": 1}]', {"format": "json", "columns": ["t", "n"]}, ["가", "1"]),
        (
            ".json",
            '{"data":[{"paragraphs":[{"context":"가","qas":[{"question":"나"}]}]}]}',
            {"format": "korquad"},
            ["가", "나"],
        ),
        (".tsv", "## 머리\t<가>\n가\tB\n나\tO\n\n다\tO\n", {"format": "conll", "columns": [0]}, ["가 나", "다"]),
        (".txt", "가\n나", {"format": "lines"}, ["가", "나"]),
        (".json", json.dumps(DIALOGUES), {**WOS, "columns": ["dialogue.text"]}, ["식당을 찾아요", "네", "서울이요"]),
        (
            ".json",
            '{"data": [{"context": "가", "qas": [{"question": "나"}, {"question": "다"}]}, {"context": "라", "qas": null}]}',
            {"format": "json", "key": "data", "columns": ["context", "qas.question"]},
            ["가", "나", "다", "라"],
        ),
        (".jsonl", '{"o": [["가", "나"], ["다"]]}', {"format": "jsonl", "columns": ["o"], "unit": "texts"}, ["가", "나", "다"]),
        (".jsonl", '{"o": [["가", "나"], ["다"]]}', {"format": "jsonl", "columns": ["o"]}, ["가 나", "다"]),
        (
            ".jsonl",
            '{"t": "가", "p": null}\n{"t": "나", "p": ["다", null, 3]}\n',
            {**PAIRS, "unit": "texts"},
            ["가", "나", "다", "3"],
        ),
        (".jsonl", '{"t": "가", "p": ["나", null, "다"]}', PAIRS, ["가", "나 다"]),
        (".tsv", "가\t나\n", {"format": "tsv", "columns": [1], "header": False}, ["나"]),
        (".tsv", "a\ta\n가\t나\n", {"format": "tsv", "columns": [1], "header": True}, ["나"]),
        (".txt", "가\r나\r", {"format": "lines"}, ["가", "나"]),
        (".tsv", "a\tb\r가\t나\r", {"format": "tsv", "columns": ["b"]}, ["나"]),
        (".jsonl", '{"t": "가", "p": "나"}\r{"t": "다", "p": "라"}\r', PAIRS, ["가", "나", "다", "라"]),
        (".tsv", "가\tB\r\r나\tB\r", {"format": "conll", "columns": [0]}, ["가", "나"]),
    ],
)
def test_evaluation_sets_are_read_in_their_own_format(
    suffix: str, content: str, fields: dict[str, object], texts: list[str], tmp_path: Path
) -> None:
    path = tmp_path / f"set{suffix}"
    path.write_text(content, "utf-8-sig", newline="")
    assert list(read_texts(EvaluationFile.model_validate({"name": "set", "path": path, **fields}))) == texts
    packed = tmp_path / f"set{suffix}.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    assert list(read_texts(EvaluationFile.model_validate({"name": "set", "path": packed, **fields}))) == texts


@pytest.mark.parametrize(
    ("content", "fields", "message"),
    [
        ("a\tb\n가\t나\n", {"format": "tsv", "columns": ["c"]}, r"no column 'c'; the first row is \['a', 'b'\]"),
        ("a\tb\n가\n", {"format": "tsv", "columns": ["b"]}, "line 2, field 'column 1': the row has 1 fields"),
        (
            "a,b\n1,하나, 둘\n",
            {"format": "csv", "columns": ["b"]},
            "line 2, field 'column 2': the row has 3 fields, the first row 2",
        ),
        ("b\tb\n가\t나\n", {"format": "tsv", "columns": ["b"]}, "names 'b' more than once: .*; write its position"),
        ('[{"a": 1}]', {"format": "json", "columns": ["b"]}, r"record 1: no field 'b' in \['a'\]"),
        (
            "{",
            {"format": "json", "columns": ["b"]},
            "the file is not a list; name the field that holds its records as key, or correct format",
        ),
        ("[{", {"format": "json", "columns": ["b"]}, "line 1, field 'record': no JSON .*column 3"),
        ("[]", {"format": "korquad"}, "line 1, field 'record': the file is not an object with a list 'data'"),
        ('{"data":\n[{"paragraphs": 3}]}', {"format": "korquad"}, "line 2, field 'data': not KorQuAD's shape"),
        (
            f'[{{"b": "가"}},\n{{"b": "나", "n": {"1" * 5_000}}}]',
            {"format": "json", "columns": ["b"]},
            r"line 2, field 'record': no JSON \(a number with more than 4,300 digits\)",
        ),
        (
            f'{{"b": "가"}}\n{{"b": "나", "n": {"1" * 5_000}}}',
            {"format": "jsonl", "columns": ["b"]},
            r"line 2, field 'record': no JSON \(a number with more than 4,300 digits\)",
        ),
        (
            '[{"b": "가"},\n{"b": "나", "b": "다"}]',
            {"format": "json", "columns": ["b"]},
            r"line 2, field 'record': no JSON \(the field 'b' is given twice\)",
        ),
        ('{"b": "나", "b": "다"}', {"format": "jsonl", "columns": ["b"]}, "line 1, .*the field 'b' is given twice"),
        (
            '{"data": [{"b": "가"}], "data": []}',
            {"format": "json", "key": "data", "columns": ["b"]},
            "the file is not just .*the field 'data' is given twice",
        ),
        ('{"b": "가"}\n{"b"}', {"format": "jsonl", "columns": ["b"]}, "line 2, field 'record': no JSON .*column 5"),
        ('{"b": "가"}\n\n{"a": "나"}', {"format": "jsonl", "columns": ["b"]}, r"line 3: no field 'b' in \['a'\]"),
        ("a\n가\n나\0다\n", {"format": "tsv", "columns": ["a"]}, "line 3, field 'column 1': holds a NUL byte"),
        ("", {"format": "lines"}, "no text of benchmark set in it; fetch the official file again"),
        ("id\ttext\n", {"format": "tsv", "columns": ["text"]}, "no text of benchmark set in it"),
        ("id\ttext\n1\t \n", {"format": "tsv", "columns": ["text"]}, "no text of benchmark set in it"),
        ("[]", {"format": "json", "columns": ["b"]}, "no text of benchmark set in it"),
        ('{"data": []}', {"format": "korquad"}, "no text of benchmark set in it"),
        ("가\tO\n나 O\n", {"format": "conll", "columns": [0]}, r'set.txt, line 2, field .column 0.: .*; write unit = "words"'),
        ("가\tO\n나\n", {"format": "conll", "columns": [0, 1]}, "set.txt, line 2, field 'column 1': the line has 1 columns"),
        ('t\n"가\n나\n', {"format": "csv", "columns": ["t"]}, "line 2, field 'row': .*; correct its quotation marks"),
        ("[" * 100_000, {"format": "json", "columns": ["t"]}, r"line 1, field 'record': no JSON \(nested too deeply\)"),
        (
            '{"data":[{"paragraphs":[{"context":null,"qas":[]}]}]}',
            {"format": "korquad"},
            "not KorQuAD's shape .*None is no text",
        ),
        (
            json.dumps(DIALOGUES),
            {**WOS, "columns": ["dialogue"]},
            r"record 1: field 'dialogue' holds \[.*; .* as dialogue\.text",
        ),
        (
            json.dumps(DIALOGUES),
            {**WOS, "columns": ["dialogue.text", "dialogue.state"]},
            r"no field 'dialogue\.state' in \['role'",
        ),
        (
            json.dumps(DIALOGUES),
            {**WOS, "columns": ["dialogue.text.a"]},
            r"no field 'dialogue\.text\.a' in str; correct columns",
        ),
        ('{"t": {"a": "가"}}', {"format": "jsonl", "columns": ["t"]}, r"line 1: field 't' holds \{.*; .* as t\.a"),
        ('{"t": [["가"], "나"]}', {"format": "jsonl", "columns": ["t"]}, "line 1: field 't' holds .*; correct columns"),
        (
            '{"t": true}',
            {"format": "jsonl", "columns": ["t"]},
            "line 1: field 't' holds true, neither text nor a list of texts",
        ),
        ('{"t": null}', {"format": "jsonl", "columns": ["t"]}, "no text of benchmark set in it"),
        ("[null]", {"format": "json", "columns": ["t"]}, "record 1: no field 't' in NoneType"),
    ],
)
def test_an_invalid_set_is_named_in_the_error(content: str, fields: dict[str, object], message: str, tmp_path: Path) -> None:
    path = tmp_path / "set.txt"
    path.write_text(content, "utf-8")
    with pytest.raises(ValueError, match=message) as caught:
        list(read_texts(EvaluationFile.model_validate({"name": "set", "path": path, **fields})))
    assert str(path) in str(caught.value)


def test_a_table_needs_columns() -> None:
    with pytest.raises(ValidationError, match="benchmark x: format tsv needs columns"):
        EvaluationFile.model_validate({"name": "x", "path": "x.tsv", "format": "tsv"})
    for form, unit in (("tsv", "words"), ("conll", "texts")):
        with pytest.raises(ValidationError, match=r"benchmark x: .*(remove it|write words or characters)"):
            EvaluationFile.model_validate({"name": "x", "path": "x", "format": form, "columns": [0], "unit": unit})


def test_a_table_without_unit_keeps_its_identity() -> None:
    table = EvaluationFile.model_validate({"name": "x", "path": "x.tsv", "format": "conll", "columns": [0]})
    assert "unit" not in table.as_before()


def test_a_set_may_be_a_member_of_an_archive(tmp_path: Path) -> None:
    archive = tmp_path / "sets.tar.zst"
    sentences = 'sentence1\tsentence2\n"비가 온다\t눈이 "온다\n'
    archive.write_bytes(compressed("zst", tar({"sets/README": b"read me", "sets/test.tsv": sentences.encode()})))
    table = {"name": "set", "path": archive, "format": "tsv", "columns": ["sentence1", "sentence2"]}
    assert list(read_texts(EvaluationFile.model_validate({**table, "member": "sets/test.tsv"}))) == ['"비가 온다', '눈이 "온다']
    with pytest.raises(ValueError, match="an archive; name its member in the spec"):
        list(read_texts(EvaluationFile.model_validate(table)))


@pytest.mark.parametrize(
    ("encoding", "message"),
    [
        ("utf-9", "unknown encoding: utf-9; utf-8 and cp949 are usual"),
        ("rot13", "'rot13' is not a text encoding; utf-8 and cp949 are usual"),
        ("undefined", "undefined encoding; utf-8 and cp949 are usual"),
        ("base64", "'base64' is not a text encoding; utf-8 and cp949 are usual"),
    ],
)
def test_an_unknown_encoding_is_refused(encoding: str, message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        EvaluationFile.model_validate({"name": "x", "path": "x.txt", "format": "lines", "encoding": encoding})


@pytest.mark.parametrize(
    ("form", "column", "message"),
    [
        ("korquad", "contexts", "korquad has no column 'contexts'; name context or question"),
        ("tsv", -1, "columns"),
    ],
)
def test_columns_that_do_not_exist_are_refused(form: str, column: str | int, message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        EvaluationFile.model_validate({"name": "x", "path": "x", "format": form, "header": False, "columns": [column]})


@pytest.mark.parametrize("form", ["tsv", "csv"])
def test_positions_need_to_know_of_a_header(form: str) -> None:
    with pytest.raises(ValidationError, match="benchmark x: columns are positions; set header = false if the first row"):
        EvaluationFile.model_validate({"name": "x", "path": "x.tsv", "format": form, "columns": [0]})


@pytest.mark.real
def test_the_real_korsts_is_read_out_of_its_archive_with_its_quotation_marks(real_data: Path) -> None:
    path = InputPath(real_data / "benchmarks" / "kornlu.tar.zst")
    columns = ("sentence1", "sentence2")
    texts = list(read_texts(EvaluationFile(name="sts", path=path, member="kornlu/sts-test.tsv", format="tsv", columns=columns)))
    assert len(texts) == 2 * 1379
    assert all(texts)
    assert any(text.startswith('"') for text in texts)


@pytest.mark.real
def test_real_sets_are_read(real_data: Path, tmp_path: Path) -> None:
    path = InputPath(real_data / "benchmarks" / "nsmc_test.txt.zst")
    texts = list(read_texts(EvaluationFile(name="nsmc", path=path, format="tsv", columns=("document",))))
    assert len(texts) == 50_000
    assert sum(not text for text in texts) == 3


def test_parquet_of_the_hub_is_read(tmp_path: Path) -> None:
    rows = [{"text": "가나", "qas": {"question": "왜?", "answers": ["다", "라"]}, "n": 1}, {"text": None, "qas": None, "n": 2}]
    path = tmp_path / "test.parquet"
    pq.write_table(pa.Table.from_pylist(rows), path)

    def texts(**fields: object) -> list[str]:
        given = {"name": "set", "path": str(path), "format": "parquet", **fields}
        return list(read_texts(EvaluationFile.model_validate(given)))

    pq.write_table(pa.table({"text": ["가", "나"], "n": [1.5, float("nan")]}), tmp_path / "numbers.parquet")
    assert texts(path=str(tmp_path / "numbers.parquet"), columns=["text", "n"]) == ["가", "1.5", "나"]
    assert texts(columns=["text", "qas.question"]) == ["가나", "왜?"]
    assert texts(columns=["qas.answers"], unit="texts") == ["다", "라"]
    with pytest.raises(ValueError, match=r"test\.parquet, row 1: no field 'body' in \['n', 'qas', 'text'\]"):
        texts(columns=["body"])
    with pytest.raises(ValidationError, match="format parquet needs columns"):
        texts()
    for other in ("jsonl", "csv", "lines"):
        with pytest.raises(ValueError, match=r'test\.parquet: these bytes are Parquet, no text: set format = "parquet"'):
            texts(columns=["text"], format=other)
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(ValueError, match=r"test\.parquet: no whole Parquet file .*; correct format, or fetch it again"):
        texts(columns=["text"])
    path.unlink()
    with pytest.raises(FileNotFoundError):
        texts(columns=["text"])
