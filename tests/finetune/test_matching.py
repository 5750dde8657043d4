"""Predictions are matched with examples by id if records have one, else by position, for every benchmark."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from unicodedata import normalize

import pytest
from typer.testing import CliRunner

from korealbert.documents.benchmark_files import BenchmarkFile
from korealbert.finetune import tasks
from korealbert.finetune.scores.scoring import record_format, score_file
from korealbert.finetune.task import Example
from korealbert.finetune.tasks.klue_dp import RELATIONS as DEPENDENCIES
from korealbert.finetune.tasks.klue_re import RELATIONS
from korealbert.flows.cli import app

ORDER = (2, 0, 3, 1)
"""Of the shuffled predictions."""


def rows(header: str, *lines: str) -> str:
    return "\n".join([*([header] if header else []), *lines]) + "\n"


def squad(name: str, version: str) -> str:
    qas = [
        {name: f"q{n}", "question": "?", "answers": [{"text": word, "answer_start": 3 * n}], "question_type": 1}
        for n, word in enumerate(("하나", "두울", "세엣", "네엣"))
    ]
    return json.dumps({"version": version, "data": [{"paragraphs": [{"context": "하나 두울 세엣 네엣", "qas": qas}]}]})


def relation(number: int, label: str) -> dict[str, Any]:
    entities = [{"word": w, "start_idx": b, "end_idx": b + 1, "type": "PER"} for w, b in (("김구", 0), ("서울", 4))]
    names = dict(zip(("subject_entity", "object_entity"), entities, strict=True))
    return {"guid": f"re-{number}", "sentence": "김구는 서울에 갔다", "label": label, **names}


def race(number: int, answer: str) -> str:
    text = {"article": "A.", "questions": ["Why?"], "options": [["a", "b", "c", "d"]], "answers": [answer]}
    return json.dumps({**text, "id": f"high{number}.txt"})


def tagged(number: int, tags: str) -> str:
    return f"## ner-{number}\t가나\n" + "".join(f"{c}\t{tag}\n" for c, tag in zip("가나", tags.split(), strict=True)) + "\n"


STS = "index genre filename year old_index source1 source2 sentence1 sentence2 score".replace(" ", "\t")
MNLI = (
    "index promptID pairID genre sentence1_binary_parse sentence2_binary_parse sentence1_parse sentence2_parse "
    "sentence1 sentence2 label1 label2 label3 label4 label5 gold_label"
).replace(" ", "\t")
NLI = ("entailment", "neutral", "contradiction", "neutral")
YES_NO = ("entailment", "not_entailment", "not_entailment", "entailment")
VERB = "3\t난다\t난다\tVV\t0\tVP\n"
GOLD: dict[str, str] = {
    "nsmc": rows("id\tdocument\tlabel", *(f"{90 + n}\t말\t{n // 2}" for n in range(4))),
    "pd": rows("question1\tquestion2\tis_duplicate", *(f"가\t나\t{n // 2}" for n in range(4))),
    "kornli": rows("sentence1\tsentence2\tgold_label", *(f"가\t나\t{label}" for label in NLI)),
    "korsts": rows(
        "genre\tfilename\tyear\tid\tscore\tsentence1\tsentence2", *(f"뉴스\t우리\t2024\t{n}\t{n}.0\t가\t나" for n in range(4))
    ),
    "ynat": json.dumps(
        [{"guid": f"y{n}", "title": "말", "label": label} for n, label in enumerate(("정치", "경제", "사회", "세계"))]
    ),
    "klue_nli": json.dumps(
        [{"guid": f"n{n}", "premise": "가", "hypothesis": "나", "gold_label": label} for n, label in enumerate(NLI)]
    ),
    "klue_sts": json.dumps(
        [{"guid": f"s{n}", "sentence1": "가", "sentence2": "나", "labels": {"real-label": n}} for n in range(4)]
    ),
    "klue_ner": "".join(tagged(n, tags) for n, tags in enumerate(("B-PS I-PS", "O O", "B-LC O", "O B-OG"))),
    "klue_re": json.dumps(
        [relation(n, label) for n, label in enumerate(("no_relation", "per:origin", "per:title", "per:children"))]
    ),
    "klue_dp": "".join(
        rows("", f"## dp-{n}\t새가 높이 난다", f"1\t새가\t새\tNNG\t{head}\tNP_SBJ", f"2\t높이\t높이\tMAG\t3\t{label}", VERB)
        for n, (head, label) in enumerate(((2, "AP"), (3, "AP"), (2, "NP"), (3, "NP")))
    ),
    "naver_ner": rows("", "김구 선생\tPER-B CVL-B", "말 글\tO O", "서울 말\tLOC-B O", "말 서울\tO LOC-B"),
    "race": rows("", *(race(n, answer) for n, answer in enumerate("ABCD"))),
    "korquad": squad("id", "KorQuAD_v1.0_dev"),
    "klue_mrc": squad("guid", "1.1"),
    "squad1": squad("id", "1.1"),
    "squad2": squad("id", "v2.0"),
    "glue_cola": rows("", *(f"gj04\t{n // 2}\t\tA cat." for n in range(4))),
    "glue_sst2": rows("sentence\tlabel", *(f"fine \t{n // 2}" for n in range(4))),
    "glue_mrpc": rows("Quality\t#1 ID\t#2 ID\t#1 String\t#2 String", *(f"{n // 2}\t{7 + n}\t8\ta\tb" for n in range(4))),
    "glue_qqp": rows(
        "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate", *(f"{n + 1}\t2\t3\ta\tb\t{n // 2}" for n in range(4))
    ),
    "glue_stsb": rows(STS, *(f"{n}\tmain\tfile\t2012test\t4\tx\ty\ta\tb\t{n}.0" for n in range(4))),
    "glue_mnli": rows(MNLI, *(f"{n}\t1\t{n}e\tgov\t_\t_\t_\t_\ta\tb\tx\tx\tx\tx\tx\t{label}" for n, label in enumerate(NLI))),
    "glue_qnli": rows("index\tquestion\tsentence\tlabel", *(f"{n}\ta\tb\t{label}" for n, label in enumerate(YES_NO))),
    "glue_rte": rows("index\tsentence1\tsentence2\tlabel", *(f"{n}\ta\tb\t{label}" for n, label in enumerate(YES_NO))),
    "glue_wnli": rows("index\tsentence1\tsentence2\tlabel", *(f"{n}\ta\tb\t{n // 2}" for n in range(4))),
}
GOLD |= {
    "kobest_boolq": rows("ID\tText\tQuestion\tAnswer", *(f"{n}\t말\t말?\t{('True', 'FALSE')[n // 2]}" for n in range(4))),
    "kobest_copa": rows("ID\tsentence\tquestion\t1\t2\tAnswer", *(f"{n}\t말\t원인\t가\t나\t{1 + n // 2}" for n in range(4))),
    "kobest_wic": rows(
        "ID\tTarget\tSENTENCE1\tDictionary 1\tLink 1\tSENTENCE2\tDictionary 2\tLink2\tANSWER",
        *(f"{n}\t말\t[말] 가\t1\tx\t[말] 나\t2\ty\t{('True', 'False')[n // 2]}" for n in range(4)),
    ),
    "kobest_hellaswag": rows(
        "context\tchoice1\tchoice2\tchoice3\tchoice4\tlabel", *(f"말\t가\t나\t다\t라\t{n}" for n in range(4))
    ),
    "kobest_sentineg": rows("ID\tText\tLabel", *(f"{n}\t말\t{n // 2}" for n in range(4))),
}
GOLD |= {
    "paws_ko": rows("id\tsentence1\tsentence2\tlabel", *(f"{n}\t가 나\t나 가\t{n // 2}" for n in range(4))),
    "3i4k": rows("", *(f"{n // 2}\t말" for n in range(4))),
}
STATES = (["식당-종류-한식당"], [], ["식당-지역-서울 중앙", "식당-예약 시간-18:00"], ["택시-도착지-역"])
GOLD["klue_dst"] = json.dumps(
    [{"guid": f"wos-{n}", "dialogue": [{"role": "user", "text": "말", "state": s}]} for n, s in enumerate(STATES)]
)
COMMENTS = ("False\tnone\tnone", "False\tothers\toffensive", "True\tgender\thate", "True\tgender\toffensive")
COMMENTS_GOLD = rows("comments\tcontain_gender_bias\tbias\thate", *(f"말\t{labels}" for labels in COMMENTS))
GOLD |= dict.fromkeys(("hate_speech", "social_bias", "gender_bias"), COMMENTS_GOLD)
GOLD |= {"glue_mnli_mm": GOLD["glue_mnli"], "klue_dp_no_pos": GOLD["klue_dp"]}
PAGE = {"context": "<p>하나</p> <b>두울</b> 세엣 네엣", "title": "수"}
GOLD["korquad2"] = json.dumps(
    {
        "version": "KorQuAD_v2.0_dev",
        "data": [
            {
                **PAGE,
                "qas": [
                    {"id": f"q{n}", "question": "?", "answer": {"text": word, "answer_start": begin}}
                    for n, (word, begin) in enumerate({"<p>하나</p>": 0, "두울": 13, "세엣": 20, "네엣": 23}.items())
                ],
            }
        ],
    }
)
QUESTIONS = ("korquad", "korquad2", "klue_mrc", "squad1", "squad2")


def right(task: str, examples: Sequence[Example]) -> list[dict[str, Any]]:
    """The records that repeat gold."""
    benchmark = tasks.load(task)
    if task in QUESTIONS:
        return [{"answer": example.target[0].text} for example in examples]
    if task in ("klue_ner", "naver_ner"):
        return [{"tags": list(example.target)} for example in examples]
    if task.startswith("klue_dp"):
        trees = [example.target for example in examples]
        return [{"heads": list(t.heads), "deprels": [DEPENDENCIES[number] for number in t.relations]} for t in trees]
    if task == "klue_dst":
        return [{"state": list(example.target)} for example in examples]
    if task == "klue_re":
        return [{"label": RELATIONS[example.target]} for example in examples]
    labels = getattr(benchmark, "labels", None)
    return [{"label": labels[example.target] if labels else example.target} for example in examples]


class Files:
    """An official file of four examples, its examples, and predictions that repeat gold."""

    def __init__(self, task: str, directory: Path) -> None:
        self.task, self.directory, self.gold = task, directory, directory / "gold.jsonl"
        self.gold.write_text(GOLD[task], "utf-8")
        self.examples = tasks.load(task).read(BenchmarkFile(self.gold))
        self.records = right(task, self.examples)
        assert len(self.examples) == len(ORDER)

    def named(self, ids: Sequence[Any] | None = None) -> list[dict[str, Any]]:
        names = [example.id for example in self.examples] if ids is None else ids
        return [{"id": name, **record} for name, record in zip(names, self.records, strict=True)]

    def write(self, records: Sequence[dict[str, Any]]) -> tuple[str, str]:
        path = self.directory / "pred.jsonl"
        path.write_text("".join(f"{json.dumps(record, ensure_ascii=False)}\n" for record in records), "utf-8")
        return str(self.gold), str(path)


@pytest.fixture(params=tasks.names())
def files(request: pytest.FixtureRequest, tmp_path: Path) -> Files:
    return Files(request.param, tmp_path)


def score(files: Files, records: Sequence[dict[str, Any]]) -> Any:
    return score_file(files.task, *files.write(records), "corrected")


def test_shuffled_predictions_with_ids_score_as_in_order(files: Files) -> None:
    named = files.named()
    in_order, shuffled = score(files, named), score(files, [named[n] for n in ORDER])
    assert shuffled == in_order and shuffled.matched_by == "id"
    assert shuffled.values[tasks.load(files.task).metric] == pytest.approx(100)


def test_predictions_without_ids_are_matched_by_position_with_a_warning(files: Files) -> None:
    if files.task in QUESTIONS:
        with pytest.raises(ValueError, match="line 1, field 'id': missing"):
            score(files, files.records)
        return
    metric = tasks.load(files.task).metric
    found = score(files, files.records)
    assert found.matched_by == "position" and found.values[metric] == pytest.approx(100)
    assert any("pred.jsonl: records carry no ids; they are matched" in warning for warning in found.warnings)
    assert score(files, [files.records[n] for n in ORDER]).values[metric] < 99


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda records: [*records[:2], {**records[2], "id": "no such"}, records[3]],
            "line 3, field 'id': no example has the id",
        ),
        (lambda records: [*records[:3], records[1]], "line 4, field 'id': .* is in line 2 too"),
        (lambda records: records[:3], "line 3, field 'id': the file ends after 3 predictions for 4 .*, without"),
        (lambda records: [*records, {**records[0], "id": "more"}], "line 5, field 'id': no example has the id 'more'"),
        (lambda records: [*records[:3], {**records[3], "id": None}], "line 4, field 'id': found null"),
        (lambda records: [*records[:3], {n: v for n, v in records[3].items() if n != "id"}], "line 4, field 'id': missing"),
    ],
)
def test_unknown_repeated_and_missing_ids_are_errors(files: Files, change: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        score(files, change(files.named()))
    assert str(caught.value).startswith(str(files.directory / "pred.jsonl"))


@pytest.mark.parametrize("task", ["glue_qnli", "glue_rte", "glue_wnli", "glue_stsb", "glue_qqp", "nsmc"])
def test_the_official_files_own_numbers_are_ids_too(task: str, tmp_path: Path) -> None:
    files = Files(task, tmp_path)
    first = {"nsmc": 90, "glue_qqp": 1}.get(task, 0)
    named = files.named(range(first, first + 4))
    assert score(files, [named[n] for n in ORDER]).values[tasks.load(task).metric] == pytest.approx(100)


NAMES = [(name, field) for name in tasks.names() for field in tasks.load(name).id_fields if field != "id"]


@pytest.mark.parametrize(("task", "field"), NAMES)
def test_ids_may_have_the_official_files_own_name(task: str, field: str, tmp_path: Path) -> None:
    files = Files(task, tmp_path)
    ids = [example.id if field == "pairID" else example.official_id or example.id for example in files.examples]
    named = [{field: name, **record} for name, record in zip(ids, files.records, strict=True)]
    found = score(files, [named[n] for n in ORDER])
    assert found.matched_by == field and found.values[tasks.load(task).metric] == pytest.approx(100)
    assert not any("carry no ids" in warning for warning in found.warnings)
    with pytest.raises(ValueError, match=f"line 2, field '{field.split(' + ', maxsplit=1)[0]}': missing"):
        score(files, [named[0], files.records[1], *named[2:]])


def by_names(task: str, directory: Path, **names: Sequence[Any]) -> tuple[Files, list[dict[str, Any]]]:
    """The files of a task, and predictions that name their examples by further fields."""
    files = Files(task, directory)
    rows = [dict(zip(names, values, strict=True)) for values in zip(*names.values(), strict=True)]
    return files, [{**row, **record} for row, record in zip(rows, files.records, strict=True)]


@pytest.mark.parametrize(
    ("task", "names", "matched"),
    [
        ("glue_mrpc", {"#1 ID": (7, 8, 9, 10), "#2 ID": (8,) * 4}, "#1 ID + #2 ID"),
        (
            "korsts",
            {"genre": ["뉴스"] * 4, "filename": ["우리"] * 4, "year": [2024] * 4, "id": range(4)},
            "genre + filename + year + id",
        ),
        ("nsmc", {"ID": range(90, 94)}, "ID"),
        ("nsmc", {"guid": range(90, 94)}, "guid"),
        ("nsmc", {"평": range(90, 94)}, "평"),
        ("glue_rte", {"idx": range(4)}, "idx"),
        ("glue_sst2", {"idx": range(4)}, "idx"),
        ("glue_sst2", {"index": range(2, 6)}, "index"),
        ("glue_cola", {"row": range(1, 5)}, "row"),
        ("kobest_hellaswag", {"idx": range(4), "length": (3, 3, 3, 4)}, "idx"),
        ("klue_nli", {"index": range(4)}, "index"),
        ("korquad", {"qid": ("q0", "q1", "q2", "q3")}, "qid"),
    ],
)
def test_ids_under_other_names_are_used_and_named(
    task: str, names: dict[str, Sequence[Any]], matched: str, tmp_path: Path
) -> None:
    files, named = by_names(task, tmp_path, **names)
    found = score(files, [named[n] for n in ORDER])
    assert (found.values[tasks.load(task).metric], found.matched_by) == (pytest.approx(100), matched)
    assert not any("carry no ids" in warning for warning in found.warnings)
    ids = [example.id for example in files.examples], [example.official_id for example in files.examples]
    own = [str(name) for name in names.get(matched, ())]
    assert any("number of the example" in warning for warning in found.warnings) == (bool(own) and own not in ids)


def test_the_index_of_dacons_csv_is_an_id(tmp_path: Path) -> None:
    gold, given = tmp_path / "train.csv", tmp_path / "given.jsonl"
    gold.write_text(
        "index,premise,hypothesis,label\n" + "".join(f"{n},가,나,{label}\n" for n, label in enumerate(NLI)), "utf-8"
    )
    given.write_text("".join(json.dumps({"index": n, "label": NLI[n]}) + "\n" for n in ORDER))
    found = score_file("klue_nli", str(gold), str(given), "official")
    assert (found.values["accuracy"], found.matched_by) == (100, "index")
    assert not any("carry no ids" in warning for warning in found.warnings)


def test_a_wrong_id_among_ids_of_an_unknown_name_is_an_error_and_other_numbers_are_none(tmp_path: Path) -> None:
    files, named = by_names("nsmc", tmp_path, ID=(90, 91, 92, 99))
    with pytest.raises(ValueError, match="line 4, field 'ID': no example has the id '99'"):
        score(files, named)
    files, named = by_names("nsmc", tmp_path, idx=(7, 7, 3, 1), user_id=("a", "b", "c", "d"), gold=(0, 1, 2, 3), valid=range(4))
    found = score(files, named)
    (described,) = (warning for warning in found.warnings if "by position" in warning)
    assert described.endswith(
        "the values of 'idx', 'user_id' are not ids of the gold file; records are matched with the examples by position"
    )
    assert (found.matched_by, found.values["accuracy"]) == ("position", 100)


def test_a_running_number_beside_ids_is_no_second_id(tmp_path: Path) -> None:
    files = Files("klue_nli", tmp_path)
    named = [{"guid": f"n{n}", "index": place, **files.records[n]} for place, n in enumerate(ORDER)]
    found = score(files, named)
    assert (found.values["accuracy"], found.matched_by) == (100, "guid")
    files, named = by_names("glue_rte", tmp_path, idx=range(4), row_id=(1, 0, 2, 3))
    with pytest.raises(ValueError, match="line 1, field 'row_id': '1' is not the example that 'idx' names, '0'"):
        score(files, named)


def test_ids_decide_before_a_running_number_and_repeated_values_are_no_ids(tmp_path: Path) -> None:
    files, named = by_names("nsmc", tmp_path, reviewid=range(90, 94))
    shuffled = [{"index": place, **named[n]} for place, n in enumerate(ORDER)]
    found = score(files, shuffled)
    assert (found.values["accuracy"], found.matched_by) == (100, "reviewid")
    files, named = by_names("kobest_copa", tmp_path, label_id=(1, 2, 2, 2), fold_no=(1, 1, 2, 2))
    found = score(files, named)
    assert (found.values["accuracy"], found.matched_by) == (100, "position")
    files, named = by_names("kobest_copa", tmp_path, rank=(4, 1, 3, 2))
    found = score(files, named)
    assert (found.values["accuracy"], found.matched_by) == (100, "position"), "a rank is no id where ids are running numbers"


def test_ids_in_another_unicode_normalisation_are_reported_as_such(tmp_path: Path) -> None:
    files = Files("ynat", tmp_path)
    files.gold.write_text(GOLD["ynat"].replace('"y0"', '"가0"'), "utf-8")
    with pytest.raises(
        ValueError, match=r"line 1, field 'id': no example has the id .*, which is known only in another Unicode norm"
    ):
        score(files, [{**files.named()[0], "id": normalize("NFD", "가0")}, *files.named()[1:]])


def test_two_names_of_an_id_agree(tmp_path: Path) -> None:
    files = Files("glue_mnli", tmp_path)
    named = [{**record, "pairID": f"{n}e", "index": n} for n, record in enumerate(files.records)]
    assert {"index", "pairID"} <= set(tasks.load("glue_mnli").id_fields)
    for records in (named, [{"id": f"{n}e", **record} for n, record in enumerate(named)]):
        found = score(files, [records[n] for n in ORDER])
        assert found.values["accuracy"] == 100 and found.matched_by == ("id" if "id" in records[0] else "pairID")
    for wrong in (1, 9):
        message = f"line 3, field 'index': '{wrong}' is not the example that 'pairID' names, '2e'; correct one"
        with pytest.raises(ValueError, match=message):
            score(files, [*named[:2], {**named[2], "index": wrong}, named[3]])
    assert score(files, [*named[:2], {**named[2], "index": None}, named[3]]).values["accuracy"] == 100


def test_records_of_dialogues_may_have_guid_beside_id(tmp_path: Path) -> None:
    files = Files("klue_dst", tmp_path)
    named = [{**record, "guid": record["id"].rpartition("-")[0]} for record in files.named()]
    assert score(files, [named[n] for n in ORDER]).values["jga"] == 100
    for wrong in ([{**named[0], "guid": "wos-1"}, *named[1:]], [{**each, "guid": "wos-1"} for each in named]):
        with pytest.raises(ValueError, match="line 1, field 'guid': 'wos-1' is not the example that 'id' names, 'wos-0-0'"):
            score(files, wrong)
    described = record_format("klue_dst")
    assert "an object for each example of the 1,000 official test dialogues" in described and "`id` or `guid`" in described
    assert "a turn of the user, and its id `GUID-N`: the N-th turn of the user in a dialogue, from 0" in described


@pytest.mark.parametrize("column", ["review_id", "meta.id"])
def test_ids_may_have_the_name_that_a_toml_file_gives_their_column(column: str, tmp_path: Path) -> None:
    def row(number: int, **more: Any) -> dict[str, Any]:
        name = {"meta": {"id": f"r{number}"}} if "." in column else {column: f"r{number}"}
        return {**name, **more, "label": "ab"[number % 2]}

    toml, gold, given = (tmp_path / name for name in ("mine.toml", "gold.jsonl", "given.jsonl"))
    head = 'name="mine"\ntitle="Mine"\norigin="o"\nkind="classification"\nformat="jsonl"\nlabels=["a","b"]\n'
    toml.write_text(f'{head}[columns]\nid="{column}"\ntext="text"\nlabel="label"\n')
    gold.write_text("".join(json.dumps(row(number, text="글")) + "\n" for number in range(4)))
    given.write_text("".join(json.dumps(row(number)) + "\n" for number in (2, 1, 0, 3)[::-1]))
    found = score_file(str(toml), str(gold), str(given), "official")
    assert (found.values["accuracy"], found.matched_by) == (100, column)


def test_a_part_of_the_official_examples_is_called_one(tmp_path: Path) -> None:
    files = Files("nsmc", tmp_path)
    result = CliRunner().invoke(app, ["score", "nsmc", *files.write(files.records), "--against", files.write(files.records)[1]])
    assert result.exit_code == 0, result.output
    printed = json.loads(result.stdout)
    assert (printed["examples"], printed["examples_official"], printed["matched_by"]) == (4, 50_000, "position")
    assert printed["against"]["matched_by"] == "position"
    assert result.stderr.count("4 of 50,000 examples of NSMC's official test set") == 1
    assert "matched with the examples by position" in result.stderr


def test_the_whole_official_set_has_no_such_warning(tmp_path: Path) -> None:
    files = Files("pd", tmp_path)
    files.gold.write_text(rows("question1\tquestion2\tis_duplicate", *(f"가\t나\t{n % 2}" for n in range(758))), "utf-8")
    found = score(files, [{"id": n + 2, "label": n % 2} for n in range(758)])
    assert found.warnings == () and (found.examples, found.examples_official) == (758, 758)
