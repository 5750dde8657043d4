"""Error analysis: distributions add up, published tables follow from their counts, and every task has labels to count."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from korealbert.documents.benchmark_files import BenchmarkFile
from korealbert.finetune import tasks
from korealbert.finetune.metrics.labels import binary_f1
from korealbert.finetune.scores.analysis import analysis, confusion, f1_of, predicted_by_gold
from korealbert.finetune.task import Example
from korealbert.finetune.task_types.tagged import Tagged
from korealbert.finetune.tasks.klue_re import RELATIONS, Relation

LABELS = st.lists(st.tuples(st.sampled_from("abcd"), st.sampled_from("abcde")), min_size=1, max_size=60)


@given(LABELS)
def test_rows_add_up_to_the_gold_counts_and_fall(pairs: list[tuple[str, str]]) -> None:
    gold, pred = zip(*pairs, strict=True)
    found = predicted_by_gold(gold, pred)
    assert {label: sum(row.values()) for label, row in found.items()} == {label: gold.count(label) for label in set(gold)}
    assert all(list(row.values()) == sorted(row.values(), reverse=True) for row in found.values())
    matrix = confusion(found)
    right = sum(row[n] for n, row in enumerate(matrix["counts"]))
    assert right == sum(a == b for a, b in pairs)


def test_lists_of_unlike_length_are_refused() -> None:
    with pytest.raises(ValueError, match="2 gold labels and 1 predicted"):
        predicted_by_gold(["a", "b"], ["a"])


@pytest.mark.parametrize(("hits", "false_alarms", "f1"), [(194, 48, 83.98), (197, 75, 80.08)])
def test_f1_of_klue_sts_follows_from_a_distribution(hits: int, false_alarms: int, f1: float) -> None:
    """220 of 519 dev pairs are paraphrases; F1 = 2 TP / (2 TP + FP + FN) reproduces the printed arithmetic."""
    gold = [1] * 220 + [0] * 299
    pred = [1] * hits + [0] * (220 - hits) + [1] * false_alarms + [0] * (299 - false_alarms)
    task = tasks.load("klue_sts")
    examples = [Example(str(n), "", 4.0 if label else 1.0, pair="") for n, label in enumerate(gold)]
    found = analysis(task, examples, [3.0 if label else 2.99 for label in pred], [0.0] * 519)["dist"]
    assert found == predicted_by_gold([str(label) for label in gold], [str(label) for label in pred])
    assert {label: sum(row.values()) for label, row in found.items()} == {"0": 299, "1": 220}
    assert f1_of(found, "1") == pytest.approx(binary_f1(gold, pred))
    assert round(f1_of(found, "1"), 2) == f1


def test_a_label_that_nobody_predicts_has_no_f1() -> None:
    assert f1_of(predicted_by_gold(["a"], ["b"]), "a") == f1_of(predicted_by_gold(["a"], ["b"]), "b") == f1_of({}, "a") == 0


def test_ner_counts_characters_without_spaces_and_merges_b_and_i() -> None:
    task = tasks.load("klue_ner")
    text = "김 철수는"
    spans = tuple((n, n + 1) for n in range(len(text)))
    gold = ("B-PS", "I-PS", "I-PS", "I-PS", "O")
    example = Tagged("1", text, gold, spans=spans)
    found = analysis(task, [example], [["B-PS", "O", "B-OG", "I-OG", "O"]], [0.5])
    assert found["dist"] == {"O": {"O": 1}, "PS": {"OG": 2, "PS": 1}}
    assert found["unit"] == "characters"


def test_relations_list_four_and_keep_all() -> None:
    task = tasks.load("klue_re")
    pred = [1, 1, 1, 2, 2, 3, 4, 5, 5, 5, 5]
    examples = [Example(str(n), f"문장 {n}", 1) for n in range(len(pred))]
    found = analysis(task, examples, [Relation(label, None) for label in pred], [float(n) for n in range(len(pred))])
    assert found["listed"] == 4
    assert list(found["dist"][RELATIONS[1]].values()) == [4, 3, 2, 1, 1]
    assert [row["id"] for row in found["hardest"]][:2] == ["10", "9"]
    assert found["hardest"][0]["pred"] == {"label": 5, "probs": None}


def test_a_cell_keeps_its_analysis(
    model: Any, runtime: Any, nsmc: dict[str, Any], fresh: Any, request: pytest.FixtureRequest
) -> None:
    from korealbert.finetune.spec import FinetuneSpec
    from korealbert.finetune.stage import run
    from tests.finetune.test_stage import QUICK, predictions

    out = fresh("out")
    run(FinetuneSpec(**{**nsmc, **QUICK}), {"model": model}, out, runtime)
    found = json.loads((out / "analysis.json").read_text("utf-8"))
    table = predictions(out)
    names = ("negative", "positive")
    assert found["dist"] == predicted_by_gold([names[g] for g in table["gold"]], [names[p] for p in table["pred"]])
    order = sorted(range(90), key=lambda n: -table["loss"][n])[:20]
    assert [row["id"] for row in found["hardest"]] == [table["id"][n] for n in order]
    metrics = json.loads((out / "metrics.json").read_text("utf-8"))
    wrong = [loss for loss, g, p in zip(table["loss"], table["gold"], table["pred"], strict=True) if g != p]
    assert all(loss > 0.69 for loss in wrong) and len(wrong) == round(90 * (1 - metrics["test"]["accuracy"] / 100))


@pytest.mark.real
def test_klue_ner_dev_has_the_counts_of_table_9(real_data: Path) -> None:
    file = BenchmarkFile(real_data / "benchmarks" / "klue_dev.tar.zst", "klue/klue-ner-v1.1/klue-ner-v1.1_dev.tsv")
    task = tasks.load("klue_ner")
    examples = task.read(file)
    found = analysis(task, examples, [example.target for example in examples], [0.0] * len(examples))["dist"]
    counts = {label: sum(row.values()) for label, row in found.items() if label != "O"}
    assert counts == {"PS": 13_694, "QT": 10_198, "OG": 9_309, "DT": 8_487, "LC": 6_502, "TI": 2_225}
