"""``korealbert score``: predictions of any system against official files, and errors with remedies."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy.stats import ConstantInputWarning, binomtest, spearmanr
from seqeval.metrics import f1_score
from seqeval.scheme import IOB2
from typer.testing import CliRunner

from korealbert.finetune import tasks
from korealbert.finetune.metrics import Mode
from korealbert.finetune.scores.scoring import compare_files, score_file
from korealbert.flows.cli import app

NLI = "sentence1\tsentence2\tgold_label\n비가 온다\t날이 맑다\tcontradiction\n눈이 온다\t춥다\tneutral\n"
NSMC = "id\tdocument\tlabel\n7\t좋다\t1\n8\t별로\t0\n9\t\t0\n"
STS = "genre\tfilename\tyear\tid\tscore\tsentence1\tsentence2\n" + "".join(
    f"뉴스\t우리\t2024\t{n}\t{score}\t가\t나\n" for n, score in enumerate((1.0, 2.0, 4.5))
)
NER = "## 열쇠말\n## ner-1\t<김구:PS> 선생\n김\tB-PS\n구\tI-PS\n \tO\n선\tO\n생\tO\n\n"
EOJEOLS = "김구 선생은 서울에\tPER-B CVL-B LOC-B\n"
DP = (
    "## dp-1\t나는 집에 간다\n1\t나는\t나 는\tNP+JX\t3\tNP_SBJ\n"
    "2\t집에\t집 에\tNNG+JKB\t3\tNP_AJT\n3\t간다\t가 ㄴ다\tVV+EF\t0\tVP\n"
)
MRPC = "Quality\t#1 ID\t#2 ID\t#1 String\t#2 String\n"
QQP = "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate\n"
DACON = "index,premise,hypothesis,label\n"


def squad(*questions: dict[str, Any], version: str = "KorQuAD_v1.0_dev") -> str:
    paragraph = {"context": "한강은 서울을 지난다.", "qas": list(questions)}
    return json.dumps({"version": version, "data": [{"title": "강", "paragraphs": [paragraph]}]}, ensure_ascii=False)


def question(number: int, text: str, begin: Any) -> dict[str, Any]:
    return {"id": f"q{number}", "question": "무엇?", "answers": [{"text": text, "answer_start": begin}]}


def relation(label: str) -> dict[str, Any]:
    entities = [{"word": w, "start_idx": b, "end_idx": b + 1, "type": "PER"} for w, b in (("김구", 0), ("서울", 4))]
    names = dict(zip(("subject_entity", "object_entity"), entities, strict=True))
    return {"guid": f"re-{label}", "sentence": "김구는 서울에 갔다", "label": label, **names}


RE = json.dumps([relation("no_relation"), relation("per:place_of_residence"), relation("per:origin")], ensure_ascii=False)


@pytest.fixture
def files(tmp_path: Path) -> Callable[[str, list[dict[str, Any]]], tuple[str, str]]:
    """Writes an official file and a prediction file, and gives their paths."""

    def write(gold: str, predictions: list[dict[str, Any]]) -> tuple[str, str]:
        (tmp_path / "gold").write_text(gold, "utf-8")
        lines = (json.dumps(record, ensure_ascii=False) + "\n" for record in predictions)
        (tmp_path / "pred.jsonl").write_text("".join(lines), "utf-8")
        return str(tmp_path / "gold"), str(tmp_path / "pred.jsonl")

    return write


def probabilities(*largest: int) -> list[list[float]]:
    return [[0.71 if n == big else 0.01 for n in range(30)] for big in largest]


@pytest.mark.parametrize(
    ("task", "gold", "predictions", "expected"),
    [
        ("nsmc", NSMC, [{"label": "positive"}, {"label": "negative"}, {"label": "positive"}], {"accuracy": 200 / 3}),
        ("NSMC", NSMC, [{"label": "1"}, {"label": 0}, {"label": "0"}], {"accuracy": 100}),
        ("kornli", NLI, [{"label": "neutral"}, {"label": "neutral"}], {"accuracy": 50}),
        ("korsts", STS, [{"label": 0}, {"label": 7.5}, {"label": 8}], {"spearman": 100}),
        ("klue-ner", NER, [{"tags": ["B-PS", "I-PS", "I-PS", "O", "O"]}], {"entity_macro_f1": 100, "char_f1_no_O": 100}),
        ("naver_ner", EOJEOLS, [{"tags": ["PER_B", "-", "LOC-B"]}], {"accuracy": 200 / 3, "entity_micro_f1": 80}),
        ("klue_dp", DP, [{"heads": [3, 3, 0], "deprels": ["NP_SBJ", "NP", "VP"]}], {"uas_micro": 100, "las_micro": 200 / 3}),
        (
            "KorQuAD1.0",
            squad(question(1, "한강", 0), question(2, "서울", 4)),
            [{"id": "q2", "answer": "서울을"}, {"id": "q1", "answer": "한강"}],
            {"em": 50, "f1": 90},
        ),
        (
            "klue_re",
            RE,
            [
                {"label": label, "probs": row}
                for label, row in zip(("no_relation", "per:origin", "per:origin"), probabilities(0, 17, 17), strict=True)
            ],
            {"micro_f1": 50},
        ),
    ],
)
def test_each_kind_of_prediction_is_scored(
    files: Callable[..., tuple[str, str]], task: str, gold: str, predictions: list[dict[str, Any]], expected: dict[str, float]
) -> None:
    values = score_file(task, *files(gold, predictions), "official").values
    assert {name: values[name] for name in expected} == pytest.approx(expected)


def test_relations_without_probabilities_have_no_area_and_a_warning(files: Callable[..., tuple[str, str]]) -> None:
    predictions = [{"label": "no_relation"}] * 3
    scores = score_file("klue_re", *files(RE, predictions), "official")
    assert scores.values == {"micro_f1": 0.0}
    assert any("no probs" in warning for warning in scores.warnings)


@pytest.mark.parametrize(
    ("task", "gold", "predictions", "message"),
    [
        (
            "nsmc",
            NSMC,
            [{"label": "1"}] * 2,
            "pred.jsonl, line 2, field 'record': the file ends after 2 predictions for 3 examples",
        ),
        ("nsmc", NSMC, [{"label": "1"}] * 4, "the file ends after 4 predictions for 3 examples of NSMC; give one line per"),
        (
            "nsmc",
            NSMC,
            [{"label": "1"}, {"lable": "1"}, {"label": 1}],
            "line 2, field 'label': missing; the record has lable; add",
        ),
        (
            "nsmc",
            NSMC,
            [{"label": "1"}, {"label": "0"}, {"label": "2"}],
            r"line 3, field 'label': found '2'; a label is one of 0 \(",
        ),
        ("nsmc", NSMC, [{"label": "1"}, {"label": True}, {"label": 1}], "line 2, field 'label': found 'true'; a label is one"),
        ("korsts", STS, [{"label": 1}, {"label": 10**400}, {"label": 1}], "line 2, field 'label': found inf; give a finite"),
        ("squad2", squad(question(1, "한강", 0), version="v2.0"), [], "line 1, field 'id': .* 0 predictions .* without 'q1'"),
        (
            "klue_mrc",
            squad(question(1, "한강", 0), question(2, "서울", 4), version="1.1").replace('"id"', '"guid"'),
            [{"id": "q2", "answer": ""}],
            "line 1, field 'id': the file ends after 1 predictions for 2 questions, without 'q1'; give an answer",
        ),
        ("korsts", STS, [{"label": 1}, {"label": "4"}, {"label": 1}], "line 2, field 'label': found \"4\"; give a number"),
        ("klue_ner", NER, [{"tags": ["O"] * 4}], "4 tags for the 5 characters of example ner-1; give one .* spaces too"),
        ("klue_ner", NER, [{"tags": ["O"] * 4 + ["B-XX"]}], r"field 'tags\[4\]': found 'B-XX'; a tag is one of B-PS"),
        ("naver_ner", EOJEOLS, [{"tags": ["O", "O"]}], "2 tags for the 3 eojeols of example 1"),
        ("klue_dp", DP, [{"heads": [3, 3], "deprels": ["NP"] * 3}], "field 'heads': 2 values for the 3 words"),
        ("klue_dp", DP, [{"heads": [3, 4, 0], "deprels": ["NP"] * 3}], r"field 'heads\[1\]': found 4 in a sentence of 3 words"),
        ("klue_dp", DP, [{"heads": [3, 3, 0], "deprels": ["NP", "NP", "X_Y"]}], r"field 'deprels\[2\]': found 'X_Y'"),
        ("korquad", squad(question(1, "한강", 0)), [{"id": "q7", "answer": ""}], "field 'id': no example has the id 'q7'"),
        (
            "korquad",
            squad(question(1, "한강", 0), question(2, "서울", 4)),
            [{"id": "q1", "answer": ""}] * 2,
            "is in line 1 too",
        ),
        ("klue_re", RE, [{"label": "per:x"}] * 3, "line 1, field 'label': found 'per:x'"),
        ("klue_re", RE, [{"label": "per:origin", "probs": [0.5, 0.5]}] * 3, "field 'probs': 2 numbers; give 30"),
        ("klue_re", RE, [{"label": "per:origin", "probs": [2.0] * 30}] * 3, "give probabilities from 0 to 1"),
        ("klue_dp", DP, [{"heads": [3, -1, 0], "deprels": ["NP"] * 3}], r"field 'heads\[1\]': found -1 in a sentence of 3"),
        ("klue_dp", DP, [{"heads": [3, 3.0, 0], "deprels": ["NP"] * 3}], r"field 'heads\[1\]': found 3.0; give an integer"),
        ("klue_dp", DP, [{"heads": [3, 3, 0], "deprels": ["NP"] * 4}], "field 'deprels': 4 values for the 3 words"),
        ("klue_dp", DP, [{"heads": [3, 3, 0]}], "field 'deprels': missing; the record has heads; add"),
        ("klue_ner", NER, [{"tags": None}], "field 'tags': found null; give a list"),
        ("naver_ner", EOJEOLS, [{"tags": ["PER_B", "-", "LOC-X"]}], r"field 'tags\[2\]': found 'LOC-X'; a tag is one of"),
        ("naver_ner", EOJEOLS, [], "line 1, field 'record': the file ends after 0 predictions for 1 examples"),
        ("korquad", squad(question(1, "한강", 0)), [{"answer": ""}], "line 1, field 'id': missing; the record has answer"),
        ("korquad", squad(question(1, "한강", 0)), [{"id": "q1", "answer": None}], "field 'answer': found null; give a string"),
        (
            "korquad",
            squad(question(1, "한강", 0)),
            [{"id": "q1", "answer": ""}, {"id": "q2", "answer": ""}],
            "line 2, field 'id': no example has the id 'q2'; take the ids from the official file",
        ),
        ("klue_re", RE, [{"label": "per:origin", "probs": [0.1] * 31}] * 3, "field 'probs': 31 numbers; give 30"),
        ("klue_re", RE, [{"label": "per:origin", "probs": [None] * 30}] * 3, r"field 'probs\[0\]': found null; give a number"),
        ("klue_re", RE, [{"label": "per:origin", "probs": "x"}] * 3, "field 'probs': found \"x\"; give a list"),
    ],
)
def test_wrong_predictions_are_errors_that_name_file_line_field_and_remedy(
    files: Callable[..., tuple[str, str]], task: str, gold: str, predictions: list[dict[str, Any]], message: str
) -> None:
    gold_path, prediction_path = files(gold, predictions)
    with pytest.raises(ValueError, match=message) as caught:
        score_file(task, gold_path, prediction_path, "official")
    assert str(caught.value).startswith(prediction_path)


@pytest.mark.parametrize(
    ("task", "gold", "message"),
    [
        (
            "korquad",
            squad(question(1, "한강", "1")),
            r"line 1, field 'paragraphs\[0\].qas\[0\].answers\[0\].answer_start': found \"1\"",
        ),
        (
            "korquad",
            squad(question(1, "한강", 0), question(1, "서울", 4)),
            r"qas\[1\].id': 'q1' is in line 1 too; keep one",
        ),
        ("korquad", squad({"id": "q", "question": "?", "answers": []}), "answers': there is none; every question"),
        (
            "korquad",
            squad(question(1, "한강", 0), version="v2.0"),
            "field 'version': found 'v2.0'; KorQuAD1.0 comes from korquad",
        ),
        ("korquad", squad(question(1, "한강", 0))[:-20], "is the download complete"),
        (
            "korquad",
            squad(question(1, "한강", 0))[:-1],
            "line 1, .* is not just .*is the download complete, and one file alone",
        ),
        ("korquad", squad(question(1, "한강", 0))[:-1] + ', "data": []}', "field 'data' is given twice"),
        ("korquad", '{"a": [NaN], ' + squad(question(1, "한강", 0))[1:], "the file is not an object .*NaN is no JSON number"),
        ("klue_re", RE + "\n" + RE, "line 2, field 'record': the file is not just a list .*one file alone"),
        ("klue_re", RE[:-1] + ",]", "line 1, field 'record': no JSON"),
        ("korquad", "[]", "the file is not an object with a list 'data'"),
        (
            "klue_re",
            RE.replace('"end_idx": 1', '"end": 1'),
            "field 'subject_entity.end_idx': missing; the record has end, start_idx",
        ),
        ("klue_re", RE.replace("per:origin", "per:orgin"), "field 'label': found 'per:orgin'"),
        ("klue_ner", NER.replace("구\tI-PS", "구\tI-XX"), "line 4, field 'tag': found 'I-XX'"),
        ("klue_ner", NER.replace("구\tI-PS", "I-PS\t구"), "line 4, field 'char'"),
        ("naver_ner", EOJEOLS.replace(" CVL-B", ""), "line 1, field 'tags': 2 tags for 3 eojeols"),
        ("naver_ner", "1\t김구\tPER_B\n3\t선생\t-\n", "line 2, field 'number': found .* as eojeol 2"),
        ("klue_dp", DP.replace("\t3\tNP_AJT", "\t4\tNP_AJT"), "line 3, field 'HEAD': found 4 in a sentence of 3 words"),
        ("klue_dp", DP.replace("\t3\tNP_AJT", "\tNP_AJT\t3"), "line 3, field 'HEAD': found 'NP_AJT'"),
        ("klue_dp", DP.replace("나 는\tNP+JX", "NP+JX\t나 는"), "line 2, field 'POS': found '나 는'; parts of speech are"),
        ("klue_dp", DP.replace("2\t집에", "2\t "), "line 3, field 'WORD_FORM': there is none; restore the line"),
        ("klue_dp", DP.replace("\t0\tVP", "\t٠\tVP"), "line 4, field 'HEAD': found '٠'; a head is the number of a word"),
        ("klue_dp", DP.replace("2\t집에", "3\t집에"), "line 3, field 'INDEX': found '3' for word 2"),
        ("klue_dp", DP.replace("\tNP_SBJ", ""), "line 2, field 'HEAD': 5 fields instead of 6"),
        ("kornli", NLI.replace("contradiction", "contradict"), "line 2, field 'gold_label': found 'contradict'; a label is"),
        ("pd", "question1\tquestion2\tlabel\n", "field 'header'"),
        ("glue_cola", "gj04\t1\t\tA cat sat.\ngj04\tA cat sat.\n", "line 2, field 'label': 2 fields instead of 4"),
        ("glue_cola", "gj04\t1\tA cat sat.\t\n", "line 1, field 'mark': found 'A cat sat.' in place of the author's mark"),
        (
            "glue_mrpc",
            f"{MRPC}1\tOne cat.\tA cat.\t7\t8\n",
            "line 2, field '#1 ID': found 'One cat.' in place of a whole number",
        ),
        ("glue_qqp", f"{QQP}1\tHow?\tWhy?\t2\t3\t0\n", "line 2, field 'qid1': found 'How.' in place of a whole number"),
        ("klue_nli", f'{DACON}0,"가, 나,다,neutral\n', "line 2, field 'record': no CSV .*restore the quotation marks"),
        ("klue_nli", f"{DACON}0,가,나,neutral\n다,1,라,neutral\n", "line 3, field 'index': found '다' for row 1"),
        ("klue_nli", f"{DACON}0,가,나\n", "line 2, field 'hypothesis': 3 fields instead of 4"),
        ("glue_rte", "index\tsentence1\tsentence2\n", "field 'header'"),
        (
            "ynat",
            '[{"guid": "1",\n "title": "제목", "label": "정치"},\n {"guid": "2", "title": "제목", "label": "날씨"}]',
            "line 3.*'날씨'",
        ),
        ("klue_sts", '[{"guid": "1", "sentence1": "가", "sentence2": "나", "labels": {"real-label": 6}}]', "found '6.0'"),
    ],
)
def test_damaged_official_files_are_refused_by_file_line_and_field(
    files: Callable[..., tuple[str, str]], task: str, gold: str, message: str
) -> None:
    gold_path, prediction_path = files(gold, [])
    with pytest.raises(ValueError, match=message) as caught:
        score_file(task, gold_path, prediction_path, "official")
    assert str(caught.value).startswith(gold_path)


@pytest.mark.parametrize("task", [name for name in tasks.names() if name not in ("race",)])
def test_no_reader_takes_cp949_for_utf_8(tmp_path: Path, task: str) -> None:
    (tmp_path / "gold").write_bytes("한국어 글자\t둘\n".encode("cp949"))
    (tmp_path / "pred").write_text("")
    with pytest.raises(ValueError, match=r"gold, line 1, field 'column 1': byte 0xc7 is no UTF-8; .* iconv"):
        score_file(task, str(tmp_path / "gold"), str(tmp_path / "pred"), "official")


def test_the_command_prints_one_json_object_and_nothing_else(files: Callable[..., tuple[str, str]]) -> None:
    gold, predictions = files(
        squad(question(1, "《》", 0), version="").replace("한강은", "《》은"), [{"id": "q1", "answer": ""}]
    )
    for mode, f1 in (("official", 0.0), ("corrected", 100.0)):
        result = CliRunner().invoke(app, ["score", "korquad", gold, predictions, "--mode", mode])
        assert result.exit_code == 0, result.output
        size = {"examples": 1, "examples_official": 5774, "matched_by": "id"}
        assert json.loads(result.stdout) == {"em": 100.0, "f1": f1, **size}
        assert "every prediction is empty" in result.stderr


def test_two_prediction_files_are_compared_in_pairs(tmp_path: Path) -> None:
    rows = "".join(f"{n}\t말 {n}\t{n % 2}\n" for n in range(60))
    (tmp_path / "gold").write_text(f"id\tdocument\tlabel\n{rows}", "utf-8")
    for name, wrong in (("first", {1}), ("second", {2, 3, 4, 5, 6, 7, 8, 9, 10})):
        labels = (json.dumps({"label": (n + (n in wrong)) % 2}) for n in range(60))
        (tmp_path / name).write_text("\n".join(labels), "utf-8")
    gold, first, second = (str(tmp_path / name) for name in ("gold", "first", "second"))
    result = CliRunner().invoke(app, ["score", "nsmc", gold, first, "--against", second])
    assert result.exit_code == 0, result.output
    printed = json.loads(result.stdout)
    assert printed["accuracy"] == pytest.approx(100 * 59 / 60)
    found = printed["against"]
    assert (found["metric"], found["scores"]["accuracy"]) == ("accuracy", pytest.approx(85))
    assert found["difference"] == pytest.approx(100 * 8 / 60)
    assert found["interval"][0] < found["difference"] < found["interval"][1]
    # 1 against 9 discordant pairs: both tests ask for at most 1 heads or at least 9 of 10 coins.
    assert found["mcnemar"] == pytest.approx(binomtest(1, 10).pvalue)
    assert found["p_value"] == pytest.approx(binomtest(1, 10).pvalue, abs=0.02)
    same = json.loads(CliRunner().invoke(app, ["score", "nsmc", gold, first, "--against", first]).stdout)["against"]
    assert (same["difference"], same["p_value"], same["mcnemar"]) == (0, 1, 1)
    store = ["--store", str(tmp_path)]  # Where there is one, a path is no artifact's name either.
    refused = CliRunner().invoke(app, ["score", "nsmc", gold, first, "--against", str(tmp_path / "gone"), *store])
    assert refused.exit_code == 2 and "gone: no such file; give JSON Lines" in refused.stderr


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'{"label": "1", "label": "0"}\n', "line 1, field 'record': .* is no JSON .*field 'label' is given twice"),
        (b"[" * 100_000, "line 1, field 'record': .* is no JSON"),
        (b'{"label": NaN}\n', "line 1, field 'record': .*NaN is no JSON number"),
        (b'{"label": "1"}\n{"label": Infinity}\n', "line 2, field 'record': .*Infinity is no JSON number"),
        (b"[]\n", r"line 1, field 'record': found \[\]; give a JSON object"),
        (b'{"label": "1"}\n{"label": "1"}\n{"label": "1"}\n\n', "line 4, field 'record': the line is empty"),
        (b'{"label": "1"}\r\n\r\n', "line 2, field 'record': the line is empty"),
        (b'{"label": "1"}\r{"label": "1"}\n', "line 1, field 'record': .* is no JSON"),
        (b'{"label": "1"} {"label": "1"}\n', "line 1, field 'record': .* is no JSON .*Extra data"),
        (b'"1"\n', "line 1, field 'record': found \"1\"; give a JSON object"),
        (b'{"label": "1"}\n\n{"label": "1"}\n', "line 2, field 'record': the line is empty; give one JSON object per line"),
        ('{"label": "가"}\n'.encode("cp949"), "line 1, field 'column 1': byte 0xb0 is no UTF-8; .* iconv"),
        ('{"label": "1"}\n'.encode("utf-16"), "line 1, field 'column 1': byte 0xff is no UTF-8"),
    ],
)
def test_files_that_are_no_json_lines_are_refused_by_line(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "gold").write_text(NSMC, "utf-8")
    (tmp_path / "pred").write_bytes(content)
    with pytest.raises(ValueError, match=message) as caught:
        score_file("nsmc", str(tmp_path / "gold"), str(tmp_path / "pred"), "official")
    assert str(caught.value).startswith(str(tmp_path / "pred"))


def test_byte_order_mark_and_windows_line_ends_of_predictions_do_not_matter(tmp_path: Path) -> None:
    (tmp_path / "gold").write_text(NSMC, "utf-8")
    (tmp_path / "pred").write_bytes(b"\xef\xbb\xbf" + b'{"label": "1"}\r\n' * 3)
    assert score_file("nsmc", str(tmp_path / "gold"), str(tmp_path / "pred"), "official").values["accuracy"] == pytest.approx(
        100 / 3
    )


def test_a_question_without_an_answer_counts_0_as_in_korquads_script_and_is_an_error_where_scores_are_corrected(
    files: Callable[..., tuple[str, str]],
) -> None:
    gold = squad(question(1, "《》", 0), question(2, "서울", 6)).replace("한강은", "《》은")
    paths = files(gold, [{"id": "q2", "answer": "서울"}])
    scores = score_file("korquad", *paths, "official")
    assert scores.values == {"em": 50.0, "f1": 50.0}
    assert any("no prediction for 1 of 2 questions (q1), which score 0" in warning for warning in scores.warnings)
    with pytest.raises(ValueError, match=r"pred.jsonl, line 1, field 'id': .* without 'q1'"):
        score_file("korquad", *paths, "corrected")


GOOD: dict[str, tuple[str, list[dict[str, Any]]]] = {
    "nsmc": (NSMC, [{"label": "1"}, {"label": 0}, {"label": "negative"}]),
    "korsts": (STS, [{"label": 1}, {"label": 2.5}, {"label": 3}]),
    "klue_ner": (NER, [{"tags": ["B-PS", "I-PS", "O", "O", "O"]}]),
    "naver_ner": (EOJEOLS, [{"tags": ["PER_B", "-", "LOC-B"]}]),
    "klue_dp": (DP, [{"heads": [3, 3, 0], "deprels": ["NP", "NP", "VP"]}]),
    "klue_re": (RE, [{"label": "no_relation", "probs": probabilities(0)[0]}] * 3),
    "korquad": (squad(question(1, "한강", 0), question(2, "서울", 4)), [{"id": f"q{n}", "answer": ""} for n in (1, 2)]),
}
ODD: st.SearchStrategy[Any] = st.sampled_from(
    [
        *(None, True, -1, 0, 1.5, 1e308, -1e308, 5e-324, 10**400, float("nan"), "", "1", "B-PS", "\ud800", {}, {"a": 1}),
        *([], [1], ["O"], [None], [[]], [0, 0, 0], [4, 4, 4], [10**400] * 30, [1e308] * 30, [0.0] * 30, [float("inf")] * 30),
    ]
)


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data(), task=st.sampled_from(sorted(GOOD)), mode=st.sampled_from(["official", "corrected"]))
def test_any_prediction_file_gives_finite_scores_or_an_error_with_its_line(
    data: st.DataObject, task: str, mode: Mode, tmp_path: Path
) -> None:
    gold, records = GOOD[task]
    records = [dict(record) for record in records]
    for _ in range(data.draw(st.integers(1, 3))):
        record = data.draw(st.sampled_from(records))
        name = data.draw(st.sampled_from(sorted(record)))
        value = data.draw(ODD)
        if isinstance(record[name], list) and record[name] and data.draw(st.booleans()):
            value = [value, *record[name][1:]]
        record[name] = value
    (tmp_path / "gold").write_text(gold, "utf-8")
    content = bytearray("".join(f"{json.dumps(record)}\n" for record in records).encode())
    for _ in range(data.draw(st.integers(0, 2))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.sampled_from(b'"{}[],:\n\r\x00\xff 0'))
    (tmp_path / "pred").write_bytes(content)
    try:
        scores = score_file(task, str(tmp_path / "gold"), str(tmp_path / "pred"), mode)
    except ValueError as error:
        assert str(error).startswith(f"{tmp_path / 'pred'}, line ")
    else:
        known = {name: value for name, value in scores.values.items() if value is not None}
        assert all(-100.000001 <= value <= 100.000001 for value in known.values())
        assert scores.undefined.keys() == scores.corrected.keys() == scores.values.keys() - known.keys()
        assert mode == "official" or not scores.undefined


def test_what_the_official_script_prints_as_nan_is_undefined_with_its_reason_and_the_corrected_value(
    files: Callable[[str, list[dict[str, Any]]], tuple[str, str]],
) -> None:
    gold, predicted = files(STS, [{"label": 3.0}] * 3)
    printed = CliRunner().invoke(app, ["score", "korsts", gold, predicted])
    scored = json.loads(printed.stdout)
    assert scored["spearman"] is scored["pearson"] is None
    assert scored["undefined"] == dict.fromkeys(("spearman", "pearson"), "every prediction is the same")
    assert scored["corrected"] == {"spearman": 0.0, "pearson": 0.0}
    with pytest.warns(ConstantInputWarning):
        assert math.isnan(spearmanr([1.0, 2.0, 4.5], [3.0] * 3).statistic), "as the official script does"
    corrected = score_file("korsts", gold, predicted, "corrected")
    assert corrected.values == {"spearman": 0.0, "pearson": 0.0} and not corrected.undefined
    assert "undefined" not in json.loads(CliRunner().invoke(app, ["score", "nsmc", *files(NSMC, [{"label": 1}] * 3)]).stdout)
    gold, predicted = files(RE, [{"label": "no_relation", "probs": [1.0] + [0.0] * 29}] * 3)
    relations = score_file("klue_re", gold, predicted, "official")
    assert relations.values["auprc"] is None and relations.corrected["auprc"] > 0
    assert relations.undefined == {"auprc": "27 of 30 relations do not occur in gold"}
    gold, predicted = files(NER.replace("B-PS", "O").replace("I-PS", "O"), [{"tags": ["O"] * 5}])
    entities = score_file("klue_ner", gold, predicted, "official")
    assert entities.values["entity_macro_f1"] is None and entities.corrected == {"entity_macro_f1": 0.0}
    assert entities.undefined == {"entity_macro_f1": "neither gold nor predictions have an entity"}
    with pytest.warns(RuntimeWarning):
        assert math.isnan(f1_score([["O"] * 5], [["O"] * 5], average="macro", mode="strict", scheme=IOB2))


def test_the_error_for_a_missing_official_file_has_its_origin_and_license(tmp_path: Path) -> None:
    missing = [str(tmp_path / "gone.json"), str(tmp_path / "p")]
    result = CliRunner().invoke(app, ["score", "korquad", *missing, "--store", str(tmp_path)])
    assert result.exit_code == 2 and not result.stdout
    assert "gone.json: no such file; KorQuAD1.0 comes from korquad.github.io, CC BY-ND 2.0 KR" in result.stderr


def test_every_benchmark_is_found_by_name_and_title_in_any_spelling() -> None:
    for name in tasks.names():
        task = tasks.load(name)
        assert tasks.find(name) is tasks.find(task.title) is task
        assert task.origin and task.title
    assert tasks.find("SST-2") is tasks.find("sst2") is tasks.load("glue_sst2")
    assert tasks.find("KLUE-NER") is tasks.load("klue_ner")
    with pytest.raises(ValueError, match=r"no task 'klue_wos' .*; known are 3i4k"):
        tasks.find("klue_wos")


def test_a_difference_from_an_undefined_score_is_undefined_with_the_reason(tmp_path: Path) -> None:
    (tmp_path / "gold").write_text(STS, "utf-8")
    for name, labels in (("same", (2, 2, 2)), ("right", (1, 2, 4.5))):
        (tmp_path / name).write_text("".join(f"{json.dumps({'label': label})}\n" for label in labels), "utf-8")
    gold, same, right = (str(tmp_path / name) for name in ("gold", "same", "right"))
    reason = "every prediction is the same"
    for first, second in ((right, same), (same, right), (same, same)):
        result = CliRunner().invoke(app, ["score", "korsts", gold, first, "--against", second])
        assert result.exit_code == 0, result.output
        found = json.loads(result.stdout)["against"]
        assert found["difference"] is found["interval"] is found["p_value"] is None
        assert found["undefined"] == {same: reason}
        _, corrected = compare_files("korsts", gold, first, second, "corrected")
        assert isinstance(corrected["difference"], float) and "undefined" not in corrected


@pytest.mark.parametrize("name", tasks.names())
def test_the_command_tells_what_records_hold(name: str) -> None:
    printed = CliRunner().invoke(app, ["score", name, "--format"])
    assert printed.exit_code == 0 and printed.output.startswith(f"{tasks.load(name).title}: JSON Lines")
    assert any(field in printed.output for field in ("`label`", "`answer`", "`tags`", "`heads`", "`state`")), printed.output
