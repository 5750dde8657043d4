"""The KLUE files of the sample: their generator writes them, the readers read them, and they fill Chameleon's tables."""

from __future__ import annotations

import importlib.util
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from korealbert.artifact import Artifact, Runtime, build
from korealbert.documents.benchmark_files import BenchmarkFile
from korealbert.finetune import tasks
from korealbert.finetune.scores.analysis import predicted_by_gold
from korealbert.finetune.task import Example
from korealbert.finetune.tasks.klue_re import RELATIONS, Relation
from korealbert.recipe.reading import load_cross_lingual
from korealbert.report.cross_lingual import printed
from korealbert.report.cross_lingual.stage import STAGE, CrossLingualReportSpec
from tests.report.conftest import made

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "data_specs" / "sample" / "klue"
RECIPE = ROOT / "data_specs" / "recipes" / "xpt-sample.toml"
EXAMPLES = {
    "ynat": (56, 28),
    "klue_sts": (96, 24),
    "klue_nli": (48, 24),
    "klue_ner": (48, 24),
    "klue_re": (135, 45),
    "klue_dp": (48, 24),
    "klue_mrc": (48, 24),
}


def parts(task: str) -> tuple[list[Example], list[Example]]:
    """The examples of the files that the recipe trains and tests on."""
    spec = load_cross_lingual(RECIPE).finetune[task].first
    train, dev = (tasks.load(task).read(BenchmarkFile(Path(str(file)))) for file in (spec.train, spec.test))
    return train, dev


def test_the_files_are_what_the_generator_writes() -> None:
    spec = importlib.util.spec_from_file_location("generate_klue", FOLDER / "generate.py")
    assert spec is not None and spec.loader is not None
    generator = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(generator)
    files = generator.files()
    assert sorted(files) == sorted(path.name for path in FOLDER.iterdir() if path.suffix in (".json", ".tsv"))
    for name, content in files.items():
        assert (FOLDER / name).read_text("utf-8") == content, name


@pytest.mark.parametrize("task", EXAMPLES)
def test_every_format_is_read_and_no_text_is_in_both_parts(task: str) -> None:
    train, dev = parts(task)
    assert (len(train), len(dev)) == EXAMPLES[task]
    assert not {(e.text, e.pair) for e in train} & {(e.text, e.pair) for e in dev}


def test_labels_are_balanced_and_all_there() -> None:
    counts = {task: Counter(example.target for example in parts(task)[1]) for task in ("ynat", "klue_nli", "klue_re")}
    assert counts["ynat"] == dict.fromkeys(range(7), 4)
    assert counts["klue_nli"] == dict.fromkeys(range(3), 8)
    frequent = ("no_relation", "per:title", "org:top_members/employees", "per:employee_of", "org:product")
    assert counts["klue_re"] == {number: 4 if name in frequent else 1 for number, name in enumerate(RELATIONS)}
    for file in FOLDER.glob("sts_*.json"):
        labels = [pair["labels"] for pair in json.loads(file.read_text("utf-8"))]
        assert sum(label["binary-label"] for label in labels) * 2 == len(labels)
        assert all((label["real-label"] >= 3) == label["binary-label"] for label in labels)


def test_questions_are_of_three_types_and_those_without_an_answer_name_a_plausible_one() -> None:
    for file in FOLDER.glob("mrc_*.json"):
        articles = json.loads(file.read_text("utf-8"))["data"]
        asked = [
            (part["context"], question) for article in articles for part in article["paragraphs"] for question in part["qas"]
        ]
        assert {question["question_type"] for _, question in asked} == {1, 2, 3}
        for context, question in asked:
            [answer] = question["plausible_answers" if question["is_impossible"] else "answers"]
            assert context[answer["answer_start"] :].startswith(answer["text"]), question


def test_trees_are_head_final_and_have_one_root() -> None:
    for example in [sentence for part in parts("klue_dp") for sentence in part]:
        heads = example.target.heads
        assert heads.count(0) == 1 and heads[-1] == 0, example.text
        assert all(head > number for number, head in enumerate(heads[:-1], start=1)), example.text


def gold_distribution(task: str) -> Any:
    """Gold labels of the dev file by themselves, as a model that is always right predicts them."""
    gold: list[str] = []
    for example in parts(task)[1]:
        right = Relation(example.target, None) if task == "klue_re" else example.target
        gold += tasks.load(task).labelled(example, right)[0]
    return predicted_by_gold(gold, gold)


def test_tables_1_to_3_and_8_to_10_have_a_row_of_every_model(tmp_path: Path) -> None:
    """Each column of ours has a value of its own, so that one in the wrong place shows."""
    recipe = load_cross_lingual(RECIPE)
    sizes = {f"parameters_{part}": 10 for part in ("copied", "fresh", "encoder", "translation")}
    stats = {"layers": 4, "parameters": 40, "vocab_size": 90, "vocab_sha256": "", **sizes}
    inputs: dict[str, Artifact] = {
        f"transfer/{name}": made(tmp_path, f"transfer/{name}", stats, encoder=spec.encoder)
        for name, spec in recipe.variants.items()
    }
    values = {column.ours: 10.0 + number for number, column in enumerate(printed.KLUE)}
    measured = {task for task, _ in values}
    assert measured == set(EXAMPLES) == {name for name in recipe.finetune if name != "nsmc"}
    for task in measured:
        found = {metric: value for (of, metric), value in values.items() if of == task}
        metrics = {"task": task, "title": task, "init": "pretrained", "seed": 1, "metric": next(iter(found))}
        labels = gold_distribution(task) if task in ("klue_sts", "klue_ner", "klue_re") else {}
        for model in recipe.finetune[task].grid.models or recipe.models:

            def write(
                out: Path, metrics: dict[str, Any] = metrics, found: dict[str, float] = found, labels: Any = labels
            ) -> None:
                (out / "metrics.json").write_text(json.dumps({**metrics, "dev": found, "test": found}))
                (out / "analysis.json").write_text(json.dumps({"dist": labels}))

            label = f"finetune/{model}/{task}/pretrained/1"
            inputs[label] = made(tmp_path, label, {}, write=write)
    artifact = build(STAGE, CrossLingualReportSpec(), inputs, Runtime(store=tmp_path)).artifact
    text = (artifact.path / "report.md").read_text("utf-8").replace("*", "").replace("\\", "")
    row = " | ".join(f"{10 + number:.2f}" for number in range(len(printed.KLUE)))
    parted = text.split("Table ")
    tables = {number: next(part for part in parted if part.startswith(f"{number}: ")) for number in (1, 2, 3, 8, 9, 10)}
    models = {1: ("itl, Phase 1", "none, Phase 2"), 2: ("mlm, from scratch", "electra, from scratch"), 3: ("random, Phase 2",)}
    for number, names in models.items():
        assert all(f"| {name} | ours | {row} |" in tables[number] for name in names), number
    assert "| random, Phase 2 | ours | 1 | 12 | 1: 12 |" in tables[8]
    for kind in ("PS", "LC", "OG", "DT", "TI", "QT", "O"):
        assert f"| itl, Phase 2 | ours | {kind} |" in tables[9], kind
    for relation in ("per:title", "org:top_members/employees", "per:employee_of", "org:product", "no_relation"):
        assert f"| mlm, from scratch | ours | {relation} | 4 | {relation}: 4 |" in tables[10], relation
