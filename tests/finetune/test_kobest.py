"""KoBEST's official files have three dialects of TSV, several spellings of labels and several orders of columns."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from korealbert.documents.benchmark_files import BenchmarkFile, Line
from korealbert.finetune import tasks
from korealbert.finetune.records import Record
from korealbert.finetune.task import Example
from korealbert.finetune.task_types.sequence import Choice
from korealbert.finetune.tasks.kobest import Copa

WIC = "ID\tTarget\tSENTENCE1\tDictionary 1\tLink 1\tSENTENCE2\tDictionary 2\tLink2\tANSWER"


def read(task: str, path: Path, *rows: str, end: str = "\r\n") -> list[Example]:
    path.write_bytes((end.join(rows) + end).encode())
    return tasks.load(f"kobest_{task}").read(BenchmarkFile(path))


def test_quotation_marks_of_boolq_are_text_and_labels_have_any_case(tmp_path: Path) -> None:
    rows = ('1\t"나루"는 강이다.\t "나루"는 강인가? \tTRUE', "2\t나루는 강이다.\t산인가?\tFalse")
    found = read("boolq", tmp_path / "test.tsv", "ID\tText\tQuestion\tAnswer", *rows)
    assert found == [
        Example("1", '"나루"는 강이다.', 1, pair='"나루"는 강인가?'),
        Example("2", "나루는 강이다.", 0, pair="산인가?"),
    ]


def test_quotation_marks_around_fields_of_hellaswag_are_not(tmp_path: Path) -> None:
    row = '"수학에서 ""평균""이란 무엇일까."\t하나\t"둘, ""셋"""\t넷\t다섯\t3'
    header = "context\tchoice1\tchoice2\tchoice3\tchoice4\tlabel"
    (found,) = read("hellaswag", tmp_path / "test.tsv", header, row, end="\n")
    assert found == Choice("2", '수학에서 "평균"이란 무엇일까.', 3, options=("하나", '둘, "셋"', "넷", "다섯"))


def test_copa_asks_for_causes_and_effects(tmp_path: Path) -> None:
    header = "ID\tsentence\tquestion\t1\t2\tAnswer"
    cause, effect = read(
        "copa", tmp_path / "dev.tsv", header, "1\t젖었다.\t원인 \t비가 왔다.\t눈이 갰다.\t1", "2\t탔다.\t결과\t갔다.\t왔다.\t2"
    )
    task = tasks.load("kobest_copa")
    assert isinstance(task, Copa) and isinstance(cause, Choice) and isinstance(effect, Choice)
    assert (cause.target, effect.target) == (0, 1)
    assert task.posed(cause, cause.options[0]) == ("젖었다.", "왜냐하면 비가 왔다.")
    assert task.posed(effect, effect.options[1]) == ("탔다.", "그래서 왔다.")
    with pytest.raises(ValueError, match=r"dev.tsv, line 2, field 'question': found '이유'; a question is one of 원인, 결과"):
        read("copa", tmp_path / "dev.tsv", header, "1\t젖었다.\t이유\t비\t눈\t1")


def test_wic_compares_two_sentences_with_the_word_in_brackets(tmp_path: Path) -> None:
    (found,) = read("wic", tmp_path / "dev.tsv", WIC, "7\t배\t[배]를 탔다.\t1\thttps://a\t[배]를 먹었다.\t3\thttps://b\tFALSE")
    assert found == Example("7", "[배]를 탔다.", 0, pair="[배]를 먹었다.")


@pytest.mark.parametrize(
    ("header", "row"),
    [
        ("ID\tText\tLabel", "1\t좋지 않다\t0"),
        ("ID\tLabel\tText", "1\t0\t좋지 않다"),
        ("ID\tLabel_origin\tText_origin\tLabel\tText\tCategory_neg", "1\t1\t좋다\t0\t좋지 않다\t2"),
    ],
)
def test_sentineg_has_its_columns_in_three_orders(tmp_path: Path, header: str, row: str) -> None:
    assert read("sentineg", tmp_path / "test.tsv", header, row) == [Example("1", "좋지 않다", 0)]


@pytest.mark.parametrize(
    ("task", "written"),
    [
        ("boolq", [(True, "True", "TRUE", " true "), (False, "False", "FALSE", "false ")]),
        ("wic", [("True", True), ("False", False)]),
        ("sentineg", [(1, "1", "1 ", "positive"), (0, "0", "negative")]),
        ("copa", [("2", 2), ("1", 1)]),
    ],
)
def test_predictions_may_write_what_the_official_files_write(task: str, written: list[tuple[Any, ...]]) -> None:
    benchmark, example = tasks.load(f"kobest_{task}"), Example("1", "", 0)
    for position, forms in zip((1, 0), written, strict=True):
        for form in forms:
            assert benchmark.prediction(Record(Line("p", 1, ""), {"label": form}), example) == position
    with pytest.raises(ValueError, match="p, line 1, field 'label': found 'Yes'; a label is one of"):
        benchmark.prediction(Record(Line("p", 1, ""), {"label": "Yes"}), example)


def test_another_file_is_refused_by_its_header(tmp_path: Path) -> None:
    for name in ("boolq", "copa", "wic", "hellaswag", "sentineg"):
        with pytest.raises(
            ValueError, match=r"test.tsv, line 1, field 'header': found 'id.{2}document.{2}label'; the official file"
        ):
            read(name, tmp_path / "test.tsv", "id\tdocument\tlabel")
