"""Official files with a lost, repeated or moved line are refused, since a score over them is meaningless."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from korealbert.documents.benchmark_files import BenchmarkFile
from korealbert.finetune import tasks
from korealbert.finetune.task import Example

STS_HEADER = "genre\tfilename\tyear\tid\tscore\tsentence1\tsentence2"
STS_ROWS = [
    ["main-captions", "MSRvid", "2012test", "0003", "3.800", "아이가 강가에서 논다.", "강가에 아이가 있다."],
    ["main-news", "headlines", "2014", "0004", "1.2", "눈", "비"],
    ["main-forums", "track5.en-en", "2017", "2015", "5", "2015", "오늘은 장이 선다."],
]
NER = (
    "## 문장 구분자 : \\n\\n\n## 컬럼명 : CHAR\tNE_TAG\n"
    "## ner-1\t<이순신:PS>은 <한산도:LC>\n이\tB-PS\n순\tI-PS\n신\tI-PS\n은\tO\n \tO\n한\tB-LC\n산\tI-LC\n도\tI-LC\n\n"
    "## ner-2\t값은 <3원:QT>\n값\tO\n은\tO\n \tO\n3\tB-QT\n원\tI-QT\n\n"
)
DP = (
    "## 칼럼명 : INDEX\tWORD_FORM\tLEMMA\tPOS\tHEAD\tDEPREL\n"
    "## dp-1\t새가 높이 난다\n1\t새가\t새 가\tNNG+JKS\t3\tNP_SBJ\n2\t높이\t높이\tMAG\t3\tAP\n3\t난다\t날 ㄴ다\tVV+EF\t0\tVP\n\n"
    "## dp-2\t꽃이 핀다\n1\t꽃이\t꽃 이\tNNG+JKS\t2\tNP_SBJ\n2\t핀다\t피 ㄴ다\tVV+EF\t0\tVP\n\n"
)
RELATION = {
    "guid": "re-1",
    "sentence": "장영실은 동래에서 태어났다",
    "subject_entity": {"word": "장영실", "start_idx": 0, "end_idx": 2, "type": "PER"},
    "object_entity": {"word": "동래", "start_idx": 5, "end_idx": 6, "type": "LOC"},
    "label": "per:place_of_birth",
}
QUESTION = {"guid": "mrc-1", "question": "누구?", "answers": [{"text": "장영실", "answer_start": 0}], "question_type": 1}
RACE = {"article": "A.", "questions": ["Why?"], "options": [["a", "b", "c", "d"]], "answers": ["A"], "id": "high1.txt"}
TWICE: dict[str, str] = {
    "nsmc": "id\tdocument\tlabel\n1\t좋다\t1\n2\t별로\t0\n1\t좋다\t1\n",
    "korsts": "\n".join([STS_HEADER, *("\t".join(STS_ROWS[n]) for n in (0, 1, 0))]),
    "glue_rte": "index\tsentence1\tsentence2\tlabel\n0\ta\tb\tentailment\n1\tc\td\tentailment\n0\te\tf\tentailment\n",
    "klue_ner": NER.replace("ner-2", "ner-1"),
    "klue_dp": DP.replace("dp-2", "dp-1"),
    "klue_re": json.dumps([RELATION, RELATION]),
    "klue_nli": json.dumps([{"guid": "n", "premise": "가", "hypothesis": "나", "gold_label": "neutral"}] * 2),
    "klue_sts": json.dumps([{"guid": "s", "sentence1": "가", "sentence2": "나", "labels": {"real-label": 1}}] * 2),
    "ynat": json.dumps([{"guid": "y", "title": "장이 섰다", "label": "경제"}] * 2),
    "klue_mrc": json.dumps({"data": [{"paragraphs": [{"context": "장영실", "qas": [QUESTION, QUESTION]}]}]}),
    "kobest_boolq": "ID\tText\tQuestion\tAnswer\n1\t말\t말?\tTrue\n2\t글\t글?\tFalse\n1\t말\t말?\tTrue\n",
    "race": f"{json.dumps(RACE)}\n" * 2,
}


def read(task: str, path: Path, content: str) -> list[Example]:
    path.write_text(content, "utf-8")
    return tasks.load(task).read(BenchmarkFile(path))


@pytest.mark.parametrize("task", TWICE)
def test_repeated_ids_are_refused(tmp_path: Path, task: str) -> None:
    with pytest.raises(ValueError, match=r"gold, line \d+, field '.*(id|index|ID)': '.*' is in line \d+ too; keep one of"):
        read(task, tmp_path / "gold", TWICE[task])


def test_a_text_in_two_files_of_a_directory_is_refused_by_both(tmp_path: Path) -> None:
    for name in ("1.txt", "2.txt"):
        (tmp_path / name).write_text(json.dumps(RACE))
    with pytest.raises(ValueError, match=r"2.txt, line 1, field 'id': 'high1.txt' is in .*1.txt, line 1 too"):
        tasks.load("race").read(BenchmarkFile(tmp_path))


@pytest.mark.parametrize("row", range(len(STS_ROWS)))
@pytest.mark.parametrize("turns", range(1, 7))
def test_a_korsts_row_turned_any_way_is_refused(tmp_path: Path, row: int, turns: int) -> None:
    rows = [list(fields) for fields in STS_ROWS]
    assert len(read("korsts", tmp_path / "gold", "\n".join([STS_HEADER, *map("\t".join, rows)]))) == 3
    rows[row] = rows[row][-turns:] + rows[row][:-turns]
    with pytest.raises(ValueError, match=rf"gold, line {row + 2}, field '\w+': found .*restore the line|a score is a number"):
        read("korsts", tmp_path / "gold", "\n".join([STS_HEADER, *map("\t".join, rows)]))


@pytest.mark.parametrize(
    ("field", "begin", "end", "message"),
    [
        (
            "subject_entity",
            0,
            3,
            r"field 'subject_entity.start_idx': the sentence has '장영실은' at 0 to 3, not '장영실'; count",
        ),
        ("object_entity", 4, 5, r"field 'object_entity.start_idx': the sentence has ' 동' at 4 to 5, not '동래'"),
        ("object_entity", 5, 99, r"field 'object_entity.start_idx': characters 5 to 99 of a sentence of 14; count from 0"),
        ("object_entity", 6, 5, "field .*: characters 6 to 5 of a sentence"),
        ("object_entity", -9, -8, "field .*: characters -9 to -8 of a sentence"),
    ],
)
def test_offsets_spell_the_word_of_an_entity(tmp_path: Path, field: str, begin: int, end: int, message: str) -> None:
    assert len(read("klue_re", tmp_path / "gold", json.dumps([RELATION]))) == 1
    entity: dict[str, Any] = dict(RELATION[field], start_idx=begin, end_idx=end)  # type: ignore[call-overload]
    with pytest.raises(ValueError, match=f"gold, line 1, {message}"):
        read("klue_re", tmp_path / "gold", json.dumps([{**RELATION, field: entity}]))


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data(), task=st.sampled_from(["klue_ner", "klue_dp"]))
def test_a_sentence_that_lost_lines_is_refused(data: st.DataObject, task: str, tmp_path: Path) -> None:
    text = {"klue_ner": NER, "klue_dp": DP}[task]
    lines = text.split("\n")
    begin = data.draw(st.sampled_from([n for n, line in enumerate(lines) if line and line[0] not in "# "]))
    end = data.draw(st.integers(begin + 1, lines.index("", begin)))
    with pytest.raises(ValueError, match=r"gold, line \d+, field '(char|INDEX|HEAD|guid)'"):
        read(task, tmp_path / "gold", "\n".join(lines[:begin] + lines[end:]))


@pytest.mark.parametrize(("task", "text"), [("klue_ner", NER), ("klue_dp", DP)])
def test_titles_and_sentences_belong_together(tmp_path: Path, task: str, text: str) -> None:
    examples = read(task, tmp_path / "gold", text)
    assert len(examples) == 2
    title = next(line for line in text.split("\n") if line.startswith(("## ner-2", "## dp-2")))
    with pytest.raises(ValueError, match=r"field 'guid': a sentence without a line ## guid<TAB>text before it"):
        read(task, tmp_path / "gold", text.replace(f"{title}\n", ""))
    with pytest.raises(ValueError, match=r"field 'guid': there is no sentence behind this line; restore"):
        read(task, tmp_path / "gold", text[: text.index(title) + len(title)])
    without = "\n".join(line for line in text.split("\n") if not line.startswith("##"))
    assert [example.id for example in read(task, tmp_path / "gold", without)] == ["0", "1"]
    assert [e.target for e in read(task, tmp_path / "gold", without.rstrip("\n"))] == [e.target for e in examples]
    assert len(read(task, tmp_path / "gold", text.replace("\n", "\r\n"))) == 2


@pytest.mark.parametrize(
    "title", ["이순신은 한산도", "<이순신:PS은 <한산도:LC>", "<이순신>은 PS:한산도", "이순신은한산도", "다른 글"]
)
def test_malformed_markup_of_a_title_is_no_lost_character(tmp_path: Path, title: str) -> None:
    damaged = NER.replace("<이순신:PS>은 <한산도:LC>", title)
    assert [example.text for example in read("klue_ner", tmp_path / "gold", damaged)] == ["이순신은 한산도", "값은 3원"]
