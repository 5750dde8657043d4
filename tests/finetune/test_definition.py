"""Benchmarks that a TOML file defines: reading, scoring, mistakes, and recipes with them."""

from __future__ import annotations

import csv
import json
import re
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import f1_score, matthews_corrcoef
from typer.testing import CliRunner

from korealbert.artifact import Artifact, InputPath, Store, canonical
from korealbert.artifact.files import sha256_of_file
from korealbert.corpus.dedup.evaluation_files import EvaluationFile, read_texts
from korealbert.documents.benchmark_files import BenchmarkFile, Line
from korealbert.finetune import tasks
from korealbert.finetune.records import Record
from korealbert.finetune.scores.scoring import record_format, score_file
from korealbert.finetune.spec import FinetuneSpec
from korealbert.finetune.stage import run
from korealbert.finetune.task import PAIR_HEADS, Example
from korealbert.finetune.task_types.sequence import Choice, SequenceClassification
from korealbert.flows.cli import app
from korealbert.pretrain.runtime import TrainingRuntime
from korealbert.recipe import RecipeError, prepare
from korealbert.recipe.dag import evaluation_graph
from korealbert.recipe.reading import load_evaluation
from korealbert.recipe.tables import confined
from tests.building import build_all
from tests.finetune.conftest import write_nsmc
from tests.finetune.toml_benchmarks import HEAD, REVIEWS, Bench, kind


def test_classes_of_a_table_are_read_by_the_names_of_its_columns(bench: Bench) -> None:
    found = bench.read(REVIEWS, 'stars\treview\tnumber\n1\t"좋다\ta\n0\t\tb\n')
    assert found == [Example("a", '"좋다', 1), Example("b", "", 0)]
    assert bench.task(REVIEWS).metric == "macro_f1"


def test_positions_are_columns_of_a_table_without_a_header(bench: Bench) -> None:
    toml = kind("pairs", "csv", "text = 1\npair = 2\nlabel = 0", 'labels = ["no", "yes"]')
    found = bench.read(toml, 'no,"가, 나",다\nyes,"여러\n줄",라\n')
    assert found == [Example("1", "가, 나", 0, pair="다"), Example("2", "여러\n줄", 1, pair="라")]
    assert bench.task(toml).heads == PAIR_HEADS


def test_fields_of_json_may_lie_in_objects_and_hold_numbers(bench: Bench) -> None:
    rows = [{"id": n, "a": "가", "b": "나", "labels": {"real.label": 1, "real": n / 2}} for n in range(3)]
    toml = kind(
        "regression", "json", 'id = "id"\ntext = "a"\npair = "b"\nlabel = "labels.real"', 'key = "data"\nscale = [0, 1]'
    )
    found = bench.read(toml, json.dumps({"data": rows}, ensure_ascii=False))
    assert found == [Example(str(n), "가", n / 2, pair="나") for n in range(3)]
    yes = kind("classification", "jsonl", 'text = "t"\nlabel = "l"', 'labels = ["false", "true"]')
    assert [e.target for e in bench.read(yes, '{"t": "", "l": true}\n{"t": "", "l": "false"}\n')] == [1, 0]


def test_options_are_columns_or_one_list(bench: Bench) -> None:
    labels = 'labels = ["1", "2"]'
    columns = kind("choice", "tsv", 'text = "t"\npair = "q"\noptions = ["x", "y"]\nlabel = "l"', labels)
    listed = kind("choice", "jsonl", 'text = "t"\npair = "q"\noptions = ["o"]\nlabel = "l"', labels)
    (first,) = bench.read(columns, "t\tq\tx\ty\tl\n비\t결과\t젖다\t마르다\t2\n")
    (second,) = bench.read(listed, '{"t": "비", "q": "결과", "o": ["젖다", "마르다"], "l": 2}\n')
    assert isinstance(first, Choice) and isinstance(second, Choice) and first.options == second.options == ("젖다", "마르다")
    assert bench.task(columns).posed(first, "젖다") == ("비", "결과 젖다")  # type: ignore[attr-defined]
    with pytest.raises(ValueError, match=r"line 1, field 'o': 3 options for the 2 labels"):
        bench.read(listed, '{"t": "비", "q": "결과", "o": ["젖다", "마르다", "곧"], "l": 2}\n')


ENTITIES = 'labels = ["PER", "LOC"]'


@pytest.mark.parametrize(
    ("form", "columns", "content"),
    [
        ("conll", "", "## first\n김구 B-PER\n씨 I-PER\n\n서울\tLOC_B\n"),
        ("conll", "text = 1\ntags = 2", "1\t김구\tPER-B\n2\t씨\tPER-I\n\n1\t서울\tB-LOC"),
        ("tsv", "text = 0\ntags = 1", "김구 씨\tB-PER I-PER\n서울\tLOC-B\n"),
        ("jsonl", 'text = "w"\ntags = "t"', '{"w": ["김구", "씨"], "t": ["B-PER", "I-PER"]}\n{"w": "서울", "t": "B-LOC"}\n'),
    ],
)
def test_tags_of_words_are_read_in_any_form(bench: Bench, form: str, columns: str, content: str) -> None:
    found = bench.read(kind("tagging", form, columns, ENTITIES), content)
    assert [(e.text, e.target) for e in found] == [("김구 씨", ("B-PER", "I-PER")), ("서울", ("B-LOC",))]
    assert [e.units for e in found] == [["김구", "씨"], ["서울"]]  # type: ignore[attr-defined]


def test_characters_have_tags_too_and_tags_are_counted(bench: Bench) -> None:
    toml = kind("tagging", "jsonl", 'text = "w"\ntags = "t"', f'{ENTITIES}\nunit = "characters"')
    (found,) = bench.read(toml, '{"w": "김구 씨", "t": ["B-PER", "I-PER", "O", "-"]}\n')
    assert found.target == ("B-PER", "I-PER", "O", "O")
    with pytest.raises(ValueError, match="line 1, field 't': 2 tags for 3 characters"):
        bench.read(toml, '{"w": "서울시", "t": ["O", "O"]}\n')
    with pytest.raises(ValueError, match=r"field 'tags\[0\]': found 'B-ORG'; a tag is one of B-PER, I-PER, B-LOC, I-LOC, O"):
        bench.read(toml, '{"w": "서", "t": ["B-ORG"]}\n')


SPANS = 'text = "c"\npair = "q"\nanswer = "a"'


def test_answers_are_found_in_their_context(bench: Bench) -> None:
    toml = kind("spans", "tsv", SPANS)
    (found,) = bench.read(toml, "c\tq\ta\n서울은 수도이다\t수도는?\t서울\n")
    assert (found.target[0].text, found.target[0].begin, found.pair) == ("서울", 0, "서울은 수도이다")
    with pytest.raises(ValueError, match="field 'a': '서울' is in the context 2 times; say where it begins"):
        bench.read(toml, "c\tq\ta\n서울은 서울이다\t수도는?\t서울\n")
    with pytest.raises(ValueError, match="field 'a': there is none; give the answer, or say answerable = false"):
        bench.read(toml, "c\tq\ta\n서울\t수도는?\t\n")
    placed = kind("spans", "tsv", f'{SPANS}\nanswer_start = "s"', "answerable = false")
    rows = bench.read(placed, "c\tq\ta\ts\n서울은 서울이다\t?\t서울\t4\n서울\t?\t\t\n")
    assert [[(a.text, a.begin) for a in e.target] for e in rows] == [[("서울", 4)], []]
    for begin, found in ((99, ""), (1, "울은")):
        message = (
            rf"line 2, field 's': the context of 8 characters has '{found}' at {begin}, not '서울'; count it in characters"
        )
        with pytest.raises(ValueError, match=message):
            bench.read(placed, f"c\tq\ta\ts\n서울은 서울이다\t?\t서울\t{begin}\n")
    asked = [{"id": "1", "question": "?", "answers": [{"text": "서울", "answer_start": 3}]}]
    content = json.dumps({"data": [{"paragraphs": [{"context": "서울은", "qas": asked}]}]})
    with pytest.raises(ValueError, match=r"qas\[0\]\.answers\[0\]\.answer_start': the context of 3 characters has '' at 3"):
        bench.read(kind("spans", "squad", ""), content)


def test_squads_form_is_read_and_scored_as_shipped_tasks_do(bench: Bench) -> None:
    asked = [
        {"id": n, "question": "?", "answers": [{"text": t, "answer_start": 0}]} for n, t in (("1", "《서울》"), ("2", "《"))
    ]
    content = json.dumps({"data": [{"paragraphs": [{"context": "《서울》은", "qas": asked}]}]}, ensure_ascii=False)
    file = BenchmarkFile(bench.write(content, "test.json"))
    ours, shipped = bench.task(f'{HEAD}kind = "spans"\nformat = "squad"\n'), tasks.load("korquad")
    assert ours.read(file) == shipped.read(file)
    scores = [task.score(task.read(file), ["서울", ""], "official").values for task in (ours, shipped)]
    assert scores[0] == scores[1] and scores[0]["em"] == 100


def test_all_metrics_of_a_kind_are_scored_and_the_named_one_is_its_own(bench: Bench) -> None:
    gold, given = [0, 1, 1, 0, 1], [0, 1, 0, 1, 1]
    task = bench.task(REVIEWS)
    values = task.score([Example(str(n), "", g) for n, g in enumerate(gold)], given, "official").values
    assert list(values) == ["macro_f1", "accuracy", "mcc", "f1"]
    assert values["macro_f1"] == pytest.approx(100 * f1_score(gold, given, average="macro"))
    assert values["mcc"] == pytest.approx(100 * matthews_corrcoef(gold, given))
    assert values["f1"] == pytest.approx(100 * f1_score(gold, given))


@pytest.mark.parametrize("metric", ["entity_micro_f1", "entity_macro_f1", "accuracy"])
def test_cheap_scores_of_tags_are_the_scores(bench: Bench, metric: str) -> None:
    toml = kind("tagging", "conll", "", f'{ENTITIES}\nmetric = "{metric}"')
    found = bench.read(toml, "김구 B-PER\n씨 I-PER\n\n서울 B-LOC\n에 O\n\n부산 B-LOC\n")
    task, predicted = bench.task(toml), [["B-PER", "O"], ["B-LOC", "O"], ["B-PER"]]
    answered = task.answered(found, predicted, "official")
    assert answered is not None
    score = task.score(found, predicted, "official").values[metric]
    assert answered.over(np.ones((3, 1)))[0] == pytest.approx(score)


def test_files_of_other_systems_are_scored_by_the_toml_file(bench: Bench) -> None:
    toml = bench.write(f"{REVIEWS}[files]\ntest = 'test.tsv'\n")
    gold = bench.write("number\treview\tstars\na\t좋다\t1\nb\t싫다\t0\n", "test.tsv")
    predictions = bench.write('{"id": "b", "label": "bad"}\n{"id": "a", "label": 1}\n', "given.jsonl")
    scored = score_file(str(toml), str(gold), str(predictions), "official")
    assert scored.values["macro_f1"] == 100 and scored.matched_by == "id" and not scored.warnings
    assert scored.examples_official is None
    described = record_format(str(toml))
    assert (
        described.startswith("Mine: JSON Lines, an object for each of the official test examples.")
        and "0 (bad), 1 (good)" in described
    )
    assert "[[dedup.decontaminate]]" in described


@pytest.mark.parametrize(
    ("toml", "content", "name", "texts"),
    [
        (REVIEWS, "number\treview\tstars\na\t좋다\t1\n", "t.tsv", ["좋다"]),
        (kind("pairs", "csv", "text=0\npair=1\nlabel=2", 'labels=["0","1"]'), '"가,",나,1\n', "t.csv", ["가,", "나"]),
        (kind("tagging", "conll", "", ENTITIES), "김구 B-PER\n씨 I-PER\n".replace(" ", "\t"), "t.conll", ["김구 씨"]),
        (
            kind("choice", "json", 'text="d.t"\noptions=["o"]\nlabel="l"', 'labels=["1","2"]\nkey="data"'),
            '{"data": [{"d": {"t": "비"}, "o": ["젖다", "마르다"], "l": 1}]}',
            "t.json",
            ["비", "젖다", "마르다"],
        ),
    ],
)
def test_its_test_texts_are_kept_out_of_a_corpus(bench: Bench, toml: str, content: str, name: str, texts: list[str]) -> None:
    bench.write(content, name)
    table = tasks.table_of(bench.write(f"{toml}[files]\ntest = '{name}'\n"))
    assert table.definition and bench.task(toml).read(BenchmarkFile(bench.directory / name))
    (entry,) = tomllib.loads(table.decontamination)["dedup"]["decontaminate"]
    assert list(read_texts(EvaluationFile(**entry))) == texts


def test_a_test_file_by_url_is_kept_out_of_a_corpus_by_url(bench: Bench) -> None:
    place = {"url": "https://a.example/가.tsv", "sha256": "0" * 64, "name": "t.tsv"}
    given = ", ".join(f'{name} = "{value}"' for name, value in place.items())
    table = tasks.table_of(bench.write(f"{REVIEWS}[files]\ntest = {{ {given} }}\n"))
    (entry,) = tomllib.loads(table.decontamination)["dedup"]["decontaminate"]
    assert entry["path"] == place and EvaluationFile(**entry).path == table.files.test


def test_sentences_without_any_unit_are_an_error_of_the_file(bench: Bench) -> None:
    toml = kind("tagging", "jsonl", 'text = "s"\ntags = "t"', 'labels = ["PER"]\nunit = "characters"')
    with pytest.raises(ValueError, match=r"test\.txt, line 1, field 't': no sentence has any characters; give sentences with"):
        bench.read(toml, '{"s": "", "t": ""}\n')
    empty, full = bench.read(toml, '{"s": "", "t": ""}\n{"s": "나", "t": "O"}\n')
    assert (empty.target, full.target) == ((), ("O",))


def test_squad_numbers_its_questions_and_leaves_out_answers_of_impossible_ones(bench: Bench) -> None:
    toml = kind("spans", "squad", "", "answerable = false")
    answers = [{"text": "가", "answer_start": 0}]
    asked = [
        {"id": 1, "answers": answers},
        {"id": 2, "is_impossible": True},
        {"id": "3", "is_impossible": True, "answers": None},
    ]

    def gold(*questions: dict[str, object]) -> str:
        named = [{"question": "?", **each} for each in questions]
        return json.dumps({"data": [{"paragraphs": [{"context": "가 나", "qas": named}]}]})

    found = bench.read(toml, gold(*asked))
    assert [(one.id, [answer.text for answer in one.target]) for one in found] == [("1", ["가"]), ("2", []), ("3", [])]
    for wrong in ({}, {"is_impossible": False}, {"is_impossible": "true"}):
        with pytest.raises(ValueError, match=r"field 'paragraphs\[0\]\.qas\[0\]\.answers': missing"):
            bench.read(toml, gold({"id": 1, **wrong}))
    with pytest.raises(ValueError, match="'1' is in line 1 too"):
        bench.read(toml, gold({"id": 1, "answers": answers}, {"id": "1", "answers": answers}))
    with pytest.raises(ValueError, match="every question of Mine has an answer"):
        bench.read(kind("spans", "squad", ""), gold({"id": 1, "is_impossible": True}))


def test_labels_are_read_as_spellings_first_then_as_names(bench: Bench) -> None:
    toml = kind(
        "choice", "jsonl", 'text = "t"\noptions = ["a", "b"]\nlabel = "label"', 'labels = ["0", "two"]\nspellings = ["0", "1"]'
    )
    gold = "".join(json.dumps({"t": "말", "a": "가", "b": "나", "label": label}) + "\n" for label in (1, 1, 0))
    for written in ((1, 1, 0), ("1", "1", "0"), ("two", 1, "0")):
        given = "".join(json.dumps({"label": label}) + "\n" for label in written)
        files = [str(bench.write(text, name)) for text, name in ((gold, "gold.jsonl"), (given, "given.jsonl"))]
        assert score_file(str(bench.write(toml)), *files, "official").values["accuracy"] == 100


def test_a_spelling_wins_over_the_name_of_another_label_in_every_task() -> None:
    class Own(SequenceClassification):
        labels, spellings = ("1", "2"), ("0", "1")

        def read(self, file: BenchmarkFile) -> list[Example]:
            return []

    record = Record(Line("p", 1, ""), {"label": 1})
    assert Own().prediction(record, Example("", "", 0)) == 1


@pytest.mark.parametrize(
    ("spellings", "gold"),
    [(["false", "true"], [False, True]), (["0.0", "1.0"], [0.0, 1.0]), (["0", "1"], [0, 1]), (["0", "1"], ["0", "1"])],
)
def test_predictions_may_repeat_what_gold_writes(bench: Bench, spellings: list[str], gold: list[Any]) -> None:
    columns = 'id = "id"\ntext = "t"\nlabel = "label"'
    toml = kind("classification", "jsonl", columns, f'labels = ["bad", "good"]\nspellings = {json.dumps(spellings)}')
    written = "".join(json.dumps({"id": n + 0.5, "t": "말", "label": label}) + "\n" for n, label in enumerate(gold))
    files = [str(bench.write(written, name)) for name in ("gold.jsonl", "given.jsonl")]
    assert score_file(str(bench.write(toml)), *files, "official").values["accuracy"] == 100


def test_errors_tell_types_apart_whose_names_hold_hyphens(bench: Bench) -> None:
    task = tasks.find(str(bench.write(kind("tagging", "conll", "", 'labels = ["date-start", "time-start"]'))))
    examples = task.read(BenchmarkFile(bench.write("어제\tB-date-start\n말\tO\n", "gold")))
    assert task.labelled(examples[0], ["B-time-start", "O"]) == (["date-start", "O"], ["time-start", "O"])


def test_tags_without_any_entity_have_no_macro_f1_in_the_official_mode(bench: Bench) -> None:
    toml = str(bench.write(kind("tagging", "conll", "", 'labels = ["PER"]\nmetric = "entity_macro_f1"')))
    gold, given = bench.write("가\tO\n나\tO\n", "gold"), bench.write('{"tags": ["O", "O"]}\n', "given")
    scored = score_file(toml, str(gold), str(given), "official")
    assert scored.values["entity_macro_f1"] is None and scored.corrected == {"entity_macro_f1": 0.0}
    assert scored.undefined == {"entity_macro_f1": "neither gold nor predictions have an entity"}
    assert score_file(toml, str(gold), str(given), "corrected").values["entity_macro_f1"] == 0


def test_a_file_that_is_not_there_is_named_with_the_nearest(bench: Bench) -> None:
    bench.write(REVIEWS)
    with pytest.raises(ValueError, match=r"mime\.toml: no such file \(did you mean 'mine\.toml'\?\)"):
        tasks.find(str(bench.directory / "mime.toml"))


def test_a_missing_column_is_reported_with_the_existing_ones(bench: Bench) -> None:
    with pytest.raises(ValueError, match=r"test\.txt, line 1, field 'review': there is no such column.*did you mean 'reviews'"):
        bench.read(REVIEWS, "number\treviews\tstars\n")
    with pytest.raises(ValueError, match=r"line 2, field 'stars': found '7'; a label is one of 0 \(bad\), 1 \(good\)"):
        bench.read(REVIEWS, "number\treview\tstars\na\t좋다\t7\n")
    with pytest.raises(ValueError, match=r"line 3, field 'number': 'a' is in line 2 too"):
        bench.read(REVIEWS, "number\treview\tstars\na\t좋다\t1\na\t싫다\t0\n")


def files(directory: Path, toml: str = REVIEWS) -> None:
    directory.mkdir(exist_ok=True)
    for split in ("train", "test"):
        (directory / f"{split}.tsv").write_text("number\treview\tstars\na\t좋다\t1\nb\t싫다\t0\n", "utf-8")
    (directory / "mine.toml").write_text(f"{toml}[files]\ntrain = 'train.tsv'\ntest = 'test.tsv'\n", "utf-8")


def spec(directory: Path, toml: str = REVIEWS, **more: Any) -> FinetuneSpec:
    files(directory, toml)
    return FinetuneSpec.model_validate({"task": "mine.toml", **more}, context={"root": directory})


def test_the_content_is_part_of_the_identity_and_the_place_is_not(tmp_path: Path) -> None:
    def identity(made: FinetuneSpec) -> Any:
        return canonical(made, sha256_of_file)

    first = identity(spec(tmp_path / "a"))
    assert identity(spec(tmp_path / "b")) == first
    assert identity(spec(tmp_path / "c", REVIEWS.replace("macro_f1", "accuracy"))) != first
    scored = f"{REVIEWS}[[published]]\nmodel = 'm'\nvalue = 90.5\nsource = 's'\n"
    assert identity(spec(tmp_path / "d", scored)) == first  # A score that others print changes no training.
    again = FinetuneSpec.model_validate_json(spec(tmp_path / "a").model_dump_json(), strict=True)
    assert identity(again) == first and again.benchmark.metric == "macro_f1"
    assert tasks.load(json.loads(again.model_dump_json())["task"]).title == "Mine"


def test_settings_and_files_come_from_the_toml_unless_a_recipe_has_its_own(tmp_path: Path) -> None:
    toml = f"{REVIEWS}[defaults]\nepochs = 7\nbatch_size = 8\n"
    made = spec(tmp_path, toml, epochs=2)
    assert (made.epochs, made.batch_size) == (2, 8)
    assert made.train.path == tmp_path / "train.tsv"  # type: ignore[union-attr]
    assert spec(tmp_path, toml, test_share=0.1).test is None
    other = spec(tmp_path, toml, test=str(tmp_path / "train.tsv"))
    assert other.test is not None and other.test.path.name == "train.tsv"  # type: ignore[union-attr]


def test_the_command_prints_a_schema_of_the_file() -> None:
    printed = json.loads(CliRunner().invoke(app, ["schema", "benchmark"]).output)
    assert set(printed["required"]) == {"name", "title", "kind", "origin", "format"}
    assert "classification" in json.dumps(printed["properties"]["kind"])


WORDS = ["이 영화 최고의 감동", "어제 지루한 음악", "배우 연기 추천", "정말 실망", "친구와 봤는데 최악의 장면", "훌륭한 영화"]

RUNS = {
    "regression": (kind("regression", "jsonl", 'text="t"\npair="q"\nlabel="n"'), lambda n: {"q": WORDS[n - 1], "n": n % 5}),
    "tagging": (
        kind("tagging", "jsonl", 'text="t"\ntags="g"', ENTITIES),
        lambda n: {"g": " ".join(["B-PER"] * len(WORDS[n].split()))},
    ),
    "characters": (
        kind("tagging", "jsonl", 'text="t"\ntags="g"', f'{ENTITIES}\nunit="characters"\nmetric="entity_macro_f1"'),
        lambda n: {"g": ["B-LOC"] + ["I-LOC"] * (len(WORDS[n]) - 1)},
    ),
    "spans": (kind("spans", "jsonl", 'text="t"\npair="q"\nanswer="a"'), lambda n: {"q": "영화", "a": WORDS[n].split()[-1]}),
    "choice": (
        kind("choice", "jsonl", 'text="t"\noptions=["o"]\nlabel="l"', 'labels=["0","1"]'),
        lambda n: {"o": [WORDS[n - 1], "영화"], "l": n % 2},
    ),
}
"""By name: the TOML file, and the fields of a record beside its text."""


@pytest.mark.parametrize("name", RUNS)
def test_every_kind_is_trained_and_scored(
    bench: Bench, model_dir: Path, runtime: TrainingRuntime, fresh: Callable[[str], Path], name: str
) -> None:
    toml, fields = RUNS[name]
    lines = [json.dumps({"t": WORDS[n], **fields(n)}, ensure_ascii=False) for n in range(len(WORDS))]
    file = bench.write("\n".join(lines) + "\n", "all.jsonl")
    made = FinetuneSpec(task=str(bench.write(toml)), train=file, dev=file, test=file, epochs=1, max_length=32)  # type: ignore[arg-type]
    out = fresh("out")
    stats = run(made, {"model": Artifact("export-0000", model_dir)}, out, runtime)
    metrics = json.loads((out / "metrics.json").read_text())
    assert metrics["task"] == "mine" and metrics["examples_test"] == len(WORDS) and stats.metric in stats.test
    again = score_file(str(bench.directory / "mine.toml"), str(file), str(out / "predictions.arrow"), "official")
    assert again.values == metrics["test"]


EVALUATION = """
[encoder.tiny]
path = "{model}"
[finetune.reviews]
task = "bench/mine.toml"
seeds = [1]
epochs = 1
max_length = 16
resamples = 20
[report]
published = []
"""


def statuses(recipe: Path, store: Store) -> dict[str, str]:
    return {stage.label: stage.status for stage in prepare(recipe, store).planned}


def test_a_recipe_names_it_by_its_file_and_its_report_has_its_published_scores(
    tmp_path: Path, model_dir: Path, runtime: TrainingRuntime
) -> None:
    printed = "[[published]]\nmodel = 'Theirs'\nvalue = '12.30'\nsource = 'Their table 1'\n"
    files(tmp_path / "bench", REVIEWS + printed)
    for split, seed in (("train", 1), ("test", 2)):
        write_nsmc(tmp_path / "bench" / f"{split}.tsv", 40, seed)
    toml = (tmp_path / "bench" / "mine.toml").read_text().replace('"number"', '"id"').replace('"review"', '"document"')
    (tmp_path / "bench" / "mine.toml").write_text(toml.replace('"stars"', '"label"'))
    recipe = tmp_path / "evaluation.toml"
    own = "[[report.published_scores]]\ntask = 'mine'\nmetric = 'macro_f1'\nmodel = 'Another'\nvalue = '45.60'\n"
    recipe.write_text(EVALUATION.format(model=model_dir) + f"{own}source = 'A page'\n")
    store = Store(tmp_path / "store")
    runtime = runtime.model_copy(update={"store": store.root, "workers": 1})
    report = build_all(evaluation_graph(load_evaluation(recipe)), runtime)["report"].path
    ours = (report / "tables" / "published-mine-reviews-macro-f1.csv").read_text("utf-8")
    theirs = (report / "tables" / "published-mine-reviews-macro-f1-published.csv").read_text("utf-8")
    assert "Theirs,12.30," in theirs and "Their table 1" in theirs and "Another,45.60," in theirs and "tiny/pretrained," in ours
    assert "Mine (reviews)" in (report / "report.md").read_text("utf-8")

    moved = tmp_path / "elsewhere"
    moved.mkdir()
    (tmp_path / "bench").rename(moved / "bench")
    recipe.rename(moved / "evaluation.toml")
    assert set(statuses(moved / "evaluation.toml", store).values()) == {"cached"}
    file = moved / "bench" / "mine.toml"
    file.write_text(file.read_text().replace("12.30", "12.40"))
    changed = statuses(moved / "evaluation.toml", store)
    assert changed.pop("report") != "cached" and set(changed.values()) == {"cached"}
    file.write_text(file.read_text().replace("macro_f1", "accuracy"))
    planned = {stage.label: stage for stage in prepare(moved / "evaluation.toml", store).planned}
    assert planned["encoder/tiny"].status == "cached"
    assert any("task.metric" in reason for reason in planned["finetune/tiny/reviews/pretrained/1"].reasons)


def test_a_recipe_tells_what_is_wrong_with_the_file(tmp_path: Path, model_dir: Path) -> None:
    files(tmp_path / "bench", REVIEWS.replace('"tsv"', '"tsw"'))
    recipe = tmp_path / "evaluation.toml"
    recipe.write_text(EVALUATION.format(model=model_dir))
    described = rf"evaluation\.toml, \[finetune\.reviews\]: {tmp_path}/bench/mine\.toml, field 'format': .*did you mean 'tsv'"
    with pytest.raises(RecipeError, match=described):
        load_evaluation(recipe)
    (tmp_path / "bench" / "mine.toml").write_text(REVIEWS)
    with pytest.raises(RecipeError, match="field 'train' is missing"):
        load_evaluation(recipe)
    files(tmp_path / "bench")
    files(tmp_path / "other", REVIEWS.replace('"Mine"', '"Other"'))
    recipe.write_text(EVALUATION.format(model=model_dir) + '[finetune.other]\ntask = "other/mine.toml"\n')
    with pytest.raises(RecipeError, match=r"\[finetune.other\].*\[finetune.reviews\] has another benchmark of the name 'mine'"):
        load_evaluation(recipe)
    with confined(tmp_path / "bench"), pytest.raises(RecipeError, match="leads out of the data root"):
        load_evaluation(recipe)


def test_the_example_of_the_documentation_is_read(bench: Bench) -> None:
    text = (Path(__file__).parents[2] / "docs" / "adding-a-benchmark.md").read_text("utf-8")
    blocks = re.findall(r"```toml\n(.*?)```", text, re.DOTALL)
    table = tasks.table_of(bench.write(blocks[0]))
    assert (table.definition.metrics[0], table.files.dev) == ("macro_f1", InputPath(bench.directory / "dev.tsv"))
    entry = tomllib.loads(table.decontamination)["dedup"]["decontaminate"][0]
    printed = tomllib.loads(blocks[2])["dedup"]["decontaminate"][0]
    assert {**entry, "path": ""} == {**printed, "path": ""}


@pytest.mark.parametrize("key", ["데이터", "rows (all)", "data[0]", "a|b", "(", "x"])
@pytest.mark.parametrize("escaped", [True, False])
def test_the_list_of_a_json_file_may_be_in_any_key(bench: Bench, key: str, escaped: bool) -> None:
    toml = kind("classification", "json", 'text = "t"\nlabel = "l"', f"labels = ['0', '1']\nkey = {json.dumps(key)}")
    content = {"version": {key: []}, "before": [1, "]"], key: [{"t": "가", "l": 0}, {"t": "나", "l": 1}], "after": {key: 1}}
    found = bench.read(toml, json.dumps(content, ensure_ascii=escaped, indent=1), "t.json")
    assert [(example.text, example.target) for example in found] == [("가", 0), ("나", 1)]


def test_a_field_of_csv_may_be_of_any_length(bench: Bench) -> None:
    csv.field_size_limit(131_072)
    toml = kind("classification", "csv", "text = 0\nlabel = 1", 'labels = ["0", "1"]')
    (example,) = bench.read(toml, f"{'가' * 140_000},1\n", "t.csv")
    assert len(example.text) == 140_000


@pytest.mark.parametrize("written", ["true", "True"])
def test_truth_values_of_json_are_labels_however_they_are_written(bench: Bench, written: str) -> None:
    toml = kind("classification", "jsonl", 'text = "t"\nlabel = "l"', 'labels = ["False", "True"]')
    (example,) = bench.read(toml, '{"t": "가", "l": true}\n', "t.jsonl")
    assert example.target == 1
    for task in (bench.task(toml), tasks.load("gender_bias")):
        label = json.loads("true") if written == "true" else written
        assert task.prediction(Record(Line("", 1, ""), {"label": label}), example) == 1
