"""The report of a post-training: printed tables as printed, ours beneath, and what is known to be wrong with them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from korealbert.artifact import Artifact, Inputs, Runtime, Spec, Stage, build
from korealbert.finetune.distribution import distribution, f1_of
from korealbert.report.cross_lingual import misprints, printed
from korealbert.report.cross_lingual.models import Results
from korealbert.report.cross_lingual.spec import CrossLingualReportSpec
from korealbert.report.cross_lingual.stage import STAGE

LABELS = st.sampled_from(["가", "나", "다"])


@given(pairs=st.lists(st.tuples(LABELS, LABELS), max_size=60))
def test_rows_of_a_distribution_sum_to_the_gold_counts(pairs: list[tuple[str, str]]) -> None:
    gold, predicted = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    rows = distribution(gold, predicted)
    assert {label: sum(counts.values()) for label, counts in rows.items()} == {label: gold.count(label) for label in set(gold)}
    for counts in rows.values():
        assert list(counts.values()) == sorted(counts.values(), reverse=True)
    for label in ("가", "나", "다"):
        right = sum(g == p == label for g, p in pairs)
        both = gold.count(label) + predicted.count(label)
        assert f1_of(rows, label) == pytest.approx(200 * right / both if both else 0.0)


def test_predictions_of_another_number_are_refused() -> None:
    with pytest.raises(ValueError, match="2 predictions for 1 gold labels"):
        distribution(["가"], ["가", "나"])


def test_the_counts_of_table_8_give_the_f1_that_table_1_does_not() -> None:
    rows = printed.distribution(8)
    assert f1_of(rows["XPT-4M"], "1") == pytest.approx(83.98, abs=0.005)
    assert f1_of(rows["XPT-400K"], "1") == pytest.approx(80.08, abs=0.005)
    assert all(sum(rows[model]["0"].values()) == 299 for model in rows)
    assert all(sum(rows[model]["1"].values()) == 220 for model in rows)
    notes = " ".join(misprints.notes())
    assert "83.98" in notes
    assert "80.08" in notes
    assert "number 5 of 7" in notes


def test_table_9_counts_characters() -> None:
    counts = {"PS": 13_694, "QT": 10_198, "OG": 9_309, "DT": 8_487, "LC": 6_502, "TI": 2_225}
    for model, rows in printed.distribution(9).items():
        assert {label: sum(row.values()) for label, row in rows.items()} == counts, model


def test_tables_are_read_by_their_whole_number() -> None:
    assert list(printed.rows(1, printed.KLUE)) == [
        *("mBERT", "XLM-R", "KoELECTRA", "KLUE-BERT", "KLUE-RoBERTa", "XPT-400K", "XPT-4M")
    ]
    for number, columns, models in ((1, printed.KLUE, 7), (2, printed.KLUE, 2), (3, printed.KLUE, 1), (4, printed.GLUE, 9)):
        rows = printed.rows(number, columns)
        assert len(rows) == models
        assert all(value for values in rows.values() for value in values), "every cell of the layout is printed"
    assert printed.rows(1, printed.KLUE)["XPT-4M"][1:3] == ["84.23", "90.30"], "as printed, though swapped"


class AnySpec(Spec):
    itl: bool = True
    encoder: str = "source"
    itl_init: str = "random"


def made(
    store: Path,
    label: str,
    stats: dict[str, Any],
    write: Callable[[Path], Any] = lambda out: None,
    inputs: Inputs | None = None,
    **spec: Any,
) -> Artifact:
    """An artifact with these statistics, built as any other."""

    def run(_: AnySpec, __: Inputs, out: Path, ___: Runtime) -> dict[str, Any]:
        write(out)
        return stats

    stage = Stage(label.replace("/", "_"), 1, AnySpec, run)
    return build(stage, AnySpec(**spec), inputs or {}, Runtime(store=store), label=label).artifact


def curve(out: Path) -> None:
    lines = [{"split": "train", "step": s, "mlm_loss": 9 - s / 10} for s in (1, 2, 3)]
    lines += [{"split": "heldout", "step": s, "mlm_loss": 9 - s / 20} for s in (0, 3)]
    (out / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


def scores(task: str, metric: str, value: float) -> Callable[[Path], Any]:
    def write(out: Path) -> None:
        content = {"task": task, "metric": metric, "test": {metric: value}}
        (out / "metrics.json").write_text(json.dumps(content))

    return write


def test_our_rows_stand_beneath_the_printed_ones(tmp_path: Path) -> None:
    store = tmp_path / "store"
    sizes = {f"parameters_{part}": 10 for part in ("copied", "fresh", "encoder", "translation")}
    trained = {
        "steps": 3,
        "parameters": 40,
        "trainable_parameters": 30,
        "heldout": {"mlm_perplexity": 99.5, "mlm_accuracy": 0.2},
    }
    inputs: dict[str, Artifact] = {}
    for variant, spec in (("itl", {}), ("random", {"encoder": "random"})):
        stats = {"layers": 4, "parameters": 40, **sizes}
        inputs[f"transfer/{variant}"] = made(store, f"transfer/{variant}", stats, **spec)
        for phase in ("phase1", "phase2"):
            model = made(store, f"{phase}/{variant}", trained, curve)
            inputs[f"{phase}/{variant}"] = model
            tested = {"rows": 5, "heldout": {"mlm_perplexity": 101.25, "mlm_accuracy": 0.19}}
            label = f"intrinsic/{variant}/{phase}"
            inputs[label] = made(store, label, tested, inputs={"pretrain": model})
            for seed in (1, 2):
                for task, metric, value in (("klue_nli", "accuracy", 60 + seed), ("nsmc", "accuracy", 70 + seed)):
                    label = f"finetune/{variant}/{phase}/{task}/{seed}"
                    inputs[label] = made(store, label, {}, scores(task, metric, value))
    for cell, value in (("en/source", 60.0), ("ko/itl/phase1", 50.0), ("en/itl/phase1", 57.0), ("en/itl/phase1/2", 58.0)):
        label = f"language_loss/{cell}/glue_rte/1"
        inputs[label] = made(store, label, {}, scores("glue_rte", "accuracy", value))
    inputs["control/mlm"] = made(store, "control/mlm", trained, curve)
    first = build(STAGE, CrossLingualReportSpec(), inputs, Runtime(store=store)).artifact
    text = (first.path / "report.md").read_text("utf-8")
    assert "| XPT-4M | 86.53 | 84.23 | 90.30 |" in text
    assert "| **itl, Phase 2** | **–** | **–** | **–** | **61.50 ± 0.71** |" in text
    assert "| itl, Phase 1 | 40 | 30 | 3 | 99.50 | 101.25 | 20.0 % | 19.0 % |" in text
    assert "itl: Vocab-En, Phase 1 | 95.0 %" in text
    assert "swapped" in text
    table_3 = text[text.index("Table 3") : text.index("KLUE-RE of the Korean")]
    assert "random, Phase 2" in table_3
    assert "random" not in text[text.index("Table 1: KLUE dev") : text.index("Table 2: models")]
    assert {"curve-itl-loss.svg", "curve-control-mlm-perplexity.svg", "language-loss-glue_rte.svg"} <= {
        path.name for path in first.files("figures/*")
    }
    csv = (first.path / "scores.csv").read_text("utf-8").splitlines()
    assert csv[0] == "model,vocabulary,benchmark,task,seed,metric,value,source"
    assert len(csv) == 1 + len(Results(inputs).scores)
    again = build(STAGE, CrossLingualReportSpec(), inputs, Runtime(store=store), rerun=True).artifact
    assert again.output_digest == first.output_digest


def test_a_report_of_nothing_still_has_the_printed_tables(tmp_path: Path) -> None:
    artifact = build(STAGE, CrossLingualReportSpec(), {}, Runtime(store=tmp_path)).artifact
    assert "Table 10" in (artifact.path / "report.md").read_text("utf-8")
