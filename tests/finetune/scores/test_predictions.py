"""``predictions.arrow`` of a fine-tuning is scored: matched by id, and refused by row if it is wrong."""

from __future__ import annotations

import gzip
import json
import math
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import ipc

from korealbert.documents.benchmark_files import BenchmarkFile, Line
from korealbert.finetune import tasks
from korealbert.finetune.records import Record
from korealbert.finetune.scores.scoring import compare_files, score_file
from tests.archives import zipped
from tests.finetune.scores.test_scoring import DP, EOJEOLS, GOOD, NER, NSMC, RE, STS, question, squad


def stored(path: Path, predictions: dict[str, int]) -> str:
    """Write predictions like a fine-tuning."""
    table = pa.table({"id": list(predictions), "pred": pa.array(predictions.values(), tasks.load("nsmc").prediction_type)})
    with ipc.new_file(str(path), table.schema) as writer:
        writer.write_table(table)
    return str(path)


def test_predictions_of_a_fine_tuning_are_scored_and_compared_by_their_ids(tmp_path: Path) -> None:
    gold = tmp_path / "gold"
    gold.write_text(NSMC, "utf-8")
    right = stored(tmp_path / "right.arrow", {"9": 0, "8": 0, "7": 1})
    scored = score_file("nsmc", str(gold), right, "official")
    assert (scored.values["accuracy"], scored.matched_by) == (100.0, "id")
    assert score_file("nsmc", str(gold), stored(tmp_path / "half.arrow", {"7": 1, "8": 1, "9": 1}), "official").values == {
        "accuracy": pytest.approx(100 / 3)
    }
    (tmp_path / "theirs").write_text("\n".join('{"label": 1}' for _ in range(3)), "utf-8")
    found, against = compare_files("nsmc", str(gold), right, str(tmp_path / "theirs"), "official")
    assert found.values["accuracy"] - against["scores"]["accuracy"] == pytest.approx(against["difference"])


def test_predictions_of_a_fine_tuning_may_be_compressed_or_in_an_archive(tmp_path: Path) -> None:
    gold, folded = tmp_path / "gold", tmp_path / "predictions.arrow.gz"
    gold.write_text(NSMC, "utf-8")
    content = Path(stored(tmp_path / "predictions.arrow", {"9": 0, "8": 0, "7": 1})).read_bytes()
    folded.write_bytes(gzip.compress(content))
    (tmp_path / "cell.zip").write_bytes(zipped({"cell/predictions.arrow": content}))
    for name in (str(folded), f"{tmp_path}/cell.zip::cell/predictions.arrow"):
        scored = score_file("nsmc", str(gold), name, "official")
        assert (scored.values["accuracy"], scored.matched_by) == (100.0, "id")
    lines = tmp_path / "from.arrow.jsonl"
    lines.write_text('{"label": 1}\n{"label": 0}\n{"label": 0}\n', "utf-8")
    assert score_file("nsmc", str(gold), str(lines), "official").matched_by == "position"
    folded.write_bytes(gzip.compress(content)[:-20])
    with pytest.raises(ValueError, match=r"predictions\.arrow\.gz: cannot be read .*is the download complete"):
        score_file("nsmc", str(gold), str(folded), "official")


def test_predictions_of_other_examples_or_tasks_and_other_arrow_files_are_refused(tmp_path: Path) -> None:
    gold, sts = tmp_path / "gold", tmp_path / "sts"
    gold.write_text(NSMC, "utf-8")
    sts.write_text(STS, "utf-8")
    with pytest.raises(ValueError, match="of other examples than the gold file's: '9' is in only one of them"):
        score_file("nsmc", str(gold), stored(tmp_path / "few.arrow", {"7": 1, "8": 0}), "official")
    with pytest.raises(ValueError, match="of other examples than the gold file's: '10' is in only one of them"):
        score_file("nsmc", str(gold), stored(tmp_path / "more.arrow", {"7": 1, "8": 0, "9": 0, "10": 1}), "official")
    with pytest.raises(ValueError, match="these are not predictions of KorSTS"):
        score_file("korsts", str(sts), stored(tmp_path / "kind.arrow", {"0": 1, "1": 0, "2": 0}), "official")
    (tmp_path / "no.arrow").write_bytes(b"no arrow")
    with pytest.raises(ValueError, match="not predictions of korealbert"):
        score_file("nsmc", str(gold), str(tmp_path / "no.arrow"), "official")


def written(path: Path, task: str, ids: list[Any], kept: list[Any]) -> str:
    """Any table in the form of ``predictions.arrow``."""
    table = pa.table({"id": pa.array(ids, pa.string()), "pred": pa.array(kept, tasks.load(task).prediction_type)})
    with ipc.new_file(str(path), table.schema) as writer:
        writer.write_table(table)
    return str(path)


QUESTIONS = squad(question(1, "한강", 0), question(2, "서울", 4))
NEWS = " ".join(f"뉴스/우리/2024/{number}" for number in range(3))
RELATED = "re-no_relation re-per:place_of_residence re-per:origin"
STATE = json.dumps([{"guid": "w", "dialogue": [{"role": "user", "text": "말", "state": ["식당-종류-한식당"]}]}])
TREE = {"heads": [3, 3, 0], "relations": [0, 0, 0]}


@pytest.mark.parametrize(
    ("task", "gold", "ids", "kept", "message"),
    [
        ("nsmc", NSMC, "7 8 9 8", [1, 0, 0, 1], "row 4, field 'id': '8' is in row 2 too; keep one of the two"),
        ("nsmc", NSMC, "7 8 9", [1, None, 0], "row 2, field 'pred': found null; give a prediction of each example"),
        ("nsmc", NSMC, "7 8 9", [1, 0, 2], r"row 3, field 'label': found 'number 2'; a label is one of 0 \(negative\), 1"),
        ("nsmc", NSMC, "7 8 9", [-1, 0, 0], "row 1, field 'label': found 'number -1'; a label is one of"),
        ("korsts", STS, NEWS, [1.0, math.nan, 2.0], "row 2, field 'label': found nan; give a finite number"),
        ("korsts", STS, NEWS, [1.0, 0.5, math.inf], "row 3, field 'label': found inf; give a finite number"),
        ("klue_ner", NER, "ner-1", [["O"] * 4], "row 1, field 'tags': 4 tags for the 5 characters of example ner-1"),
        ("klue_ner", NER, "ner-1", [["O", "O", "O", "O", None]], r"row 1, field 'tags\[4\]': found null; give a string"),
        ("naver_ner", EOJEOLS, "1", [["O", "O", "B-XXX"]], r"row 1, field 'tags\[2\]': found 'B-XXX'; a tag is one of"),
        ("klue_dp", DP, "dp-1", [{**TREE, "heads": [3, 4, 0]}], r"row 1, field 'heads\[1\]': found 4 in a sentence of 3 words"),
        ("klue_dp", DP, "dp-1", [{**TREE, "relations": [0, 99, 0]}], r"row 1, field 'deprels\[1\]': found 'number 99'"),
        ("klue_dp", DP, "dp-1", [{**TREE, "relations": None}], "row 1, field 'deprels': found null; give a list"),
        ("korquad", QUESTIONS, "q1 q2", ["한강", None], "row 2, field 'pred': found null"),
        ("klue_dst", STATE, "w-0", [["식당"]], r"row 1, field 'state\[0\]': found '식당'; an entry is domain-slot-value"),
        ("klue_re", RE, RELATED, [{"label": 30, "probs": None}] * 3, "row 1, field 'label': found 'number 30'"),
        (
            "klue_re",
            RE,
            RELATED,
            [{"label": 0, "probs": [math.nan] * 30}] * 3,
            "row 1, field 'probs': holds a number that is not",
        ),
        ("klue_re", RE, RELATED, [{"label": 0, "probs": [0.5]}] * 3, "row 1, field 'probs': 1 numbers; give 30"),
    ],
)
def test_wrong_predictions_of_ours_are_errors_that_name_file_row_field_and_remedy(
    tmp_path: Path, task: str, gold: str, ids: str, kept: list[Any], message: str
) -> None:
    (tmp_path / "gold").write_text(gold, "utf-8")
    known = [example.id for example in tasks.load(task).read(BenchmarkFile(tmp_path / "gold"))]
    assert set(ids.split()) == set(known), known
    path = written(tmp_path / "predictions.arrow", task, ids.split(), kept)
    with pytest.raises(ValueError, match=message) as caught:
        score_file(task, str(tmp_path / "gold"), path, "official")
    assert str(caught.value).startswith(f"{path}, row ")


@pytest.mark.parametrize("task", sorted(GOOD))
def test_kept_predictions_are_those_of_the_records(task: str, tmp_path: Path) -> None:
    gold, records = GOOD[task]
    (tmp_path / "gold").write_text(gold, "utf-8")
    (tmp_path / "pred").write_text("".join(f"{json.dumps(record)}\n" for record in records), "utf-8")
    benchmark = tasks.load(task)
    examples = benchmark.read(BenchmarkFile(tmp_path / "gold"))
    found = [benchmark.prediction(Record(Line("", 1, ""), fields), e) for fields, e in zip(records, examples, strict=True)]
    path = written(tmp_path / "p.arrow", task, [e.id for e in examples], [benchmark.stored(value) for value in found])
    scores = [score_file(task, str(tmp_path / "gold"), each, "official") for each in (path, str(tmp_path / "pred"))]
    assert scores[0].values == scores[1].values


def table_of(path: Path, gold: list[int], pred: list[int], **metadata: str) -> str:
    kind = tasks.load("nsmc").prediction_type
    columns = {"id": ["7", "8", "9"], "gold": pa.array(gold, kind), "pred": pa.array(pred, kind)}
    table = pa.table(columns).replace_schema_metadata(metadata)
    with ipc.new_file(str(path), table.schema) as writer:
        writer.write_table(table)
    return str(path)


def test_predictions_made_beside_other_gold_values_or_of_another_task_are_refused(tmp_path: Path) -> None:
    """Two test sets may have the same ids, and two tasks the same type of labels."""
    (tmp_path / "gold").write_text(NSMC, "utf-8")
    gold, path = str(tmp_path / "gold"), tmp_path / "p.arrow"
    right = [example.target for example in tasks.load("nsmc").read(BenchmarkFile(tmp_path / "gold"))]
    for metadata in ({}, {"task": "nsmc"}):
        assert score_file("nsmc", gold, table_of(path, right, right, **metadata), "official").values["accuracy"] == 100
    other = [*right[:2], 1 - right[2]]
    with pytest.raises(ValueError, match=r"p\.arrow: the predictions are of other examples .* for '9' .* the gold value"):
        score_file("nsmc", gold, table_of(path, other, right), "official")
    with pytest.raises(ValueError, match="predictions of social_bias, not of nsmc; name the task that they are of"):
        score_file("nsmc", gold, table_of(path, right, right, task="social_bias"), "official")


def test_damaged_tables_are_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "gold").write_text(NSMC, "utf-8")
    whole = Path(stored(tmp_path / "whole.arrow", {"7": 1, "8": 0, "9": 0})).read_bytes()
    for size in (0, 8, len(whole) // 2, len(whole) - 4):
        (tmp_path / "cut.arrow").write_bytes(whole[:size])
        with pytest.raises(ValueError, match=r"cut\.arrow: not predictions of korealbert"):
            score_file("nsmc", str(tmp_path / "gold"), str(tmp_path / "cut.arrow"), "official")
