"""The report of a post-training: the papers' tables, our rows below theirs, and known errors in them."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from korealbert.artifact import Artifact, Runtime, build
from korealbert.finetune.scores.analysis import f1_of
from korealbert.report.cross_lingual import printed
from korealbert.report.cross_lingual.models import Results
from korealbert.report.cross_lingual.stage import STAGE, CrossLingualReportSpec
from korealbert.report.render.blocks import Fold, Table
from korealbert.report.scores import Benchmark, Cell
from korealbert.report.sections import benchmarks
from tests.report.conftest import made

TRAINED = {
    "steps": 3,
    "tokens": 900,
    "epochs": 0.5,
    "sequence_length": 128,
    "parameters": 40,
    "trainable_parameters": 30,
    "heldout": {"mlm_perplexity": 99.5, "mlm_accuracy": 0.2},
}


def test_the_counts_of_table_8_give_the_f1_that_table_1_does_not() -> None:
    rows = printed.distribution(8)
    assert f1_of(rows["XPT-4M"], "1") == pytest.approx(83.98, abs=0.005)
    assert f1_of(rows["XPT-400K"], "1") == pytest.approx(80.08, abs=0.005)
    assert all(sum(rows[model]["0"].values()) == 299 for model in rows)
    assert all(sum(rows[model]["1"].values()) == 220 for model in rows)
    notes = " ".join(printed.notes())
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


def curve(out: Path) -> None:
    lines = [{"split": "train", "step": s, "mlm_loss": 9 - s / 10} for s in (1, 2, 3)]
    lines += [{"split": "heldout", "step": s, "mlm_loss": 9 - s / 20} for s in (0, 3)]
    (out / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


def cell(
    store: Path, system: str, task: str, seed: int, value: float, dist: Any = None, name: str = "", **more: Any
) -> tuple[str, Artifact]:
    """A fine-tuning cell by its label."""
    label = f"finetune/{system}/{name or task}/pretrained/{seed}"
    metrics = {"task": task, "title": task.upper(), "init": "pretrained", "seed": seed, "metric": "accuracy", **more}

    def write(out: Path) -> None:
        (out / "metrics.json").write_text(json.dumps({**metrics, "dev": {"accuracy": 1.0}, "test": {"accuracy": value}}))
        (out / "analysis.json").write_text(json.dumps({"dist": dist or {}}))

    return label, made(store, label, {}, write=write)


def test_our_rows_stand_beneath_the_printed_ones(tmp_path: Path) -> None:
    store = tmp_path / "store"
    sizes = {f"parameters_{part}": 10 for part in ("copied", "fresh", "encoder", "translation")}
    inputs: dict[str, Artifact] = {}
    for variant, spec in (("itl", {}), ("random", {"encoder": "random"})):
        stats = {"layers": 4, "parameters": 40, "vocab_size": 90, "vocab_sha256": "", **sizes}
        inputs[f"transfer/{variant}"] = made(store, f"transfer/{variant}", stats, **spec)
        for phase in ("phase1", "phase2"):
            trained_model = made(store, f"{phase}/{variant}", TRAINED, write=curve)
            inputs[f"{phase}/{variant}"] = trained_model
            tested = {"rows": 5, "heldout": {"mlm_perplexity": 101.25, "mlm_accuracy": 0.19}}
            label = f"intrinsic/{variant}/{phase}"
            inputs[label] = made(store, label, tested, {"pretrain": trained_model})
            for seed in (1, 2):
                inputs |= [cell(store, f"{variant}/{phase}", "klue_nli", seed, 60 + seed)]
                inputs |= [cell(store, f"{variant}/{phase}", "nsmc", seed, 70 + seed)]
    for model, value in (("en/source", 60.0), ("ko/itl/phase1", 50.0), ("en/itl/phase1", 57.0), ("en/itl/phase1/2", 58.0)):
        inputs |= [cell(store, f"language_loss/{model}", "glue_rte", 1, value)]
    inputs["control/mlm"] = made(store, "control/mlm", TRAINED, write=curve)
    inputs |= [cell(store, "encoder/klue-bert", "klue_nli", 1, 79.5)]
    first = build(STAGE, CrossLingualReportSpec(), inputs, Runtime(store=store)).artifact
    text = (first.path / "report.md").read_text("utf-8")
    assert "| XPT-4M | printed | 86.53 | 84.23 | 90.30 |" in text
    assert "| **itl, Phase 2** | **ours** | **–** | **–** | **–** | **61.50 ± 0.71** |" in text
    assert "| **klue-bert** | **ours** | **–** | **–** | **–** | **79.50** |" in text
    assert "| itl, Phase 1 | 40 | 30 | 3 | 99.50 | 101.25 | 20.0 % | 19.0 % |" in text
    assert "itl: Vocab-En, Phase 1 | 95.0 %" in text
    assert "swapped" in text
    table_3 = text[text.index("Table 3") : text.index("KLUE-RE of the Korean")]
    assert "random, Phase 2" in table_3
    assert "random" not in text[text.index("Table 1: KLUE dev") : text.index("Table 2: models")]
    assert {"curve-itl-loss.svg", "curve-control-mlm-perplexity.svg", "language-loss-glue-rte.svg"} <= {
        path.name for path in first.files("figures/*")
    }
    assert "itl 57.00 at the end; the source 60.00" in text, "the curve ends where training does, not at the last snapshot"
    for file in first.files("tables/*.csv"):
        names = next(csv.reader(file.read_text("utf-8").splitlines()))
        assert len({*names}) == len(names), f"{file.name}: a name for each column"
    lines = (first.path / "scores.csv").read_text("utf-8").splitlines()
    assert lines[0] == "model,vocabulary,benchmark,task,seed,metric,value,source,note"
    assert len(lines) == 1 + len(Results(inputs).scores)
    assert any(line.startswith('klue-bert,"",klue_nli,klue_nli,1,accuracy,79.5,') for line in lines)
    again = build(STAGE, CrossLingualReportSpec(), inputs, Runtime(store=store), rerun=True).artifact
    assert again.output_digest == first.output_digest


def test_the_curve_of_a_task_and_its_source_are_of_one_benchmark(tmp_path: Path) -> None:
    """The first of two benchmarks of a task is drawn; one with another head is another task."""
    sizes = {f"parameters_{part}": 10 for part in ("copied", "fresh", "encoder", "translation")}
    stats = {"layers": 4, "parameters": 40, "vocab_size": 90, "vocab_sha256": "", **sizes}
    inputs = {"transfer/itl": made(tmp_path, "transfer/itl", stats), "phase1/itl": made(tmp_path, "phase1/itl", TRAINED)}
    for name, more, added in (("glue_rte", {}, 0.0), ("rte_long", {}, 30.0), ("rte_mean", {"head": "mean"}, 10.0)):
        for model, value in (("source", 60.0), ("itl/phase1", 57.0), ("itl/phase1/2", 58.0)):
            inputs |= [cell(tmp_path, f"language_loss/en/{model}", "glue_rte", 1, value + added, name=name, **more)]
    artifact = build(STAGE, CrossLingualReportSpec(), inputs, Runtime(store=tmp_path)).artifact
    text = (artifact.path / "report.md").read_text("utf-8")
    drawn = dict(re.findall(r"!\[(.*)\]\(figures/language-loss-(.*)\.svg\)", text))
    assert drawn == {
        "glue\\_rte accuracy: itl 57.00 at the end; the source 60.00": "glue-rte",
        "glue\\_rte/mean accuracy: itl 67.00 at the end; the source 70.00": "glue-rte-mean",
    }


def test_a_report_of_nothing_still_has_the_printed_tables(tmp_path: Path) -> None:
    artifact = build(STAGE, CrossLingualReportSpec(), {}, Runtime(store=tmp_path)).artifact
    assert "Table 10" in (artifact.path / "report.md").read_text("utf-8")


@pytest.mark.parametrize("head", ["mean", "bi-encoder"])
def test_the_papers_tables_have_scores_of_the_tasks_own_heads_alone(tmp_path: Path, head: str) -> None:
    cells = [
        cell(tmp_path, "itl/phase2", "klue_nli", 1, 70.0),
        cell(tmp_path, "itl/phase2", "klue_nli", 1, 90.0, name="klue_nli_other", head=head),
    ]
    results = Results(dict(cells))
    assert results.values("itl/phase2", "klue_nli", "accuracy") == [70.0]
    shown = head if head != "mean" else "mean pooling"
    assert dict(results.korean_benchmarks) == {"klue_nli": "accuracy", f"klue_nli_other, {shown}": "accuracy"}
    assert results.of_benchmark("itl/phase2", f"klue_nli_other, {shown}", "accuracy") == [90.0]


def test_predictions_of_all_seeds_stand_together_and_english_ones_apart(tmp_path: Path) -> None:
    row = {"no_relation": 5, "per:title": 4, "org:product": 3, "org:members": 2, "per:alias": 1}
    dist = {"no_relation": {"no_relation": 9}, "per:title": row}
    inputs = dict(cell(tmp_path, "itl/phase2", "klue_re", seed, 50.0, dist) for seed in (1, 2))
    inputs |= [cell(tmp_path, "language_loss/en/source", "klue_re", 1, 50.0, {"per:title": {"per:title": 1_000}})]
    inputs |= [cell(tmp_path, "itl/phase2", "klue_re", 1, 50.0, {"per:title": {"per:title": 500}}, name="klue_re_long")]
    artifact = build(STAGE, CrossLingualReportSpec(), inputs, Runtime(store=tmp_path)).artifact
    table = (artifact.path / "report.md").read_text("utf-8").split("Table 10: RE predictions")[1]
    ours = [line.replace("*", "").replace("\\", "") for line in table.splitlines() if "itl, Phase 2" in line]
    assert ours == [
        "| itl, Phase 2 | ours | per:title | 30 | no_relation: 10, per:title: 8, org:product: 6, org:members: 4 |",
        "| itl, Phase 2 | ours | no_relation | 18 | no_relation: 18 |",
    ]


def test_the_report_says_what_summaries_say(tmp_path: Path) -> None:
    systems = ("itl/phase2", "none/phase2", "language_loss/en/source", "language_loss/ko/itl/phase2")
    inputs: dict[str, Artifact] = {}
    for task, (first, second) in (("nsmc", systems[:2]), ("glue_rte", systems[2:])):
        inputs |= [cell(tmp_path, system, task, 1, 80.0) for system in (first, second)]
        names = [f"{system}/pretrained" for system in (first, second)]
        pair = {"first": names[0], "second": names[1], "difference": -1.5, "interval": [-3.0, 0.25], "p_value": 0.042}
        means = {name: {"scores": {"1": 80.0}, "interval": [78.5, 81.25]} for name in names}
        summary = {"systems": means, "comparisons": [pair], "confidence": 0.9}

        def write(out: Path, summary: dict[str, Any] = summary) -> None:
            (out / "summary.json").write_text(json.dumps(summary))

        inputs[f"summary/{task}"] = made(tmp_path, f"summary/{task}", {}, write=write)
    artifact = build(STAGE, CrossLingualReportSpec(), inputs, Runtime(store=tmp_path)).artifact
    text = (artifact.path / "report.md").read_text("utf-8")
    assert "| Benchmark | Model | Mean ± sd | 90 % interval |" in text
    assert "| NSMC, accuracy | none, Phase 2 | 80.00 | 78.50 to 81.25 |" in text
    difference = "−1.50 | −3.00 to +0.25 | 0.042 |"
    assert f"| NSMC, accuracy | itl, Phase 2 minus none, Phase 2 | {difference}" in text
    assert f"accuracy | source minus itl, Phase 2, Vocab-Ko | {difference}" in text[text.index("English after post-training") :]


def test_many_pairs_of_systems_are_folded_away() -> None:
    pair = {"first": "itl/phase1", "second": "itl/phase2", "difference": 1.0, "interval": [0.5, 1.5], "p_value": 0.2}
    for number, kind in ((benchmarks.MAX_OPEN, Table), (benchmarks.MAX_OPEN + 1, Fold)):
        metrics = {"task": "nsmc", "title": "NSMC", "metric": "accuracy", "metric_title": "accuracy"}
        cell = SimpleNamespace(metrics=metrics, system="itl/phase3")
        systems = {pair[key]: {"scores": {"1": 80.0, "2": 81.0}} for key in ("first", "second")}
        benchmark = Benchmark("nsmc", [cast("Cell", cell)], {"systems": systems, "comparisons": [pair] * number})
        assert isinstance(benchmarks.paired_differences([benchmark])[0], kind)


def test_a_part_of_the_examples_and_undefined_scores_are_told_in_tables_shares_and_csv(tmp_path: Path) -> None:
    why = "every prediction is the same"
    scored = {"metric": "pearson", "examples_test": 30, "examples_test_official": 519}
    inputs: dict[str, Artifact] = {}
    sizes = {f"parameters_{part}": 10 for part in ("copied", "fresh", "encoder", "translation")}
    stats = {"layers": 4, "parameters": 40, "vocab_size": 90, "vocab_sha256": "", **sizes}
    inputs["transfer/itl"] = made(tmp_path, "transfer/itl", stats)

    def sts(system: str, task: str, seed: int, value: float) -> None:
        label = f"finetune/{system}/{task}/pretrained/{seed}"
        metrics: dict[str, Any] = {"task": task, "title": task.upper(), "init": "pretrained", "seed": seed, **scored}
        metrics |= {"dev": {"pearson": 1.0}, "test": {"pearson": value}, "undefined": {} if value else {"pearson": why}}

        def write(out: Path) -> None:
            (out / "metrics.json").write_text(json.dumps(metrics))
            (out / "analysis.json").write_text(json.dumps({"dist": {}}))

        inputs[label] = made(tmp_path, label, {}, write=write)

    for seed, value in ((1, 0.0), (2, 80.0)):
        sts("itl/phase2", "klue_sts", seed, value)
        sts("itl/phase1", "klue_sts", seed, 0.0)
    for model, value in (("en/source", 60.0), ("ko/itl/phase1", 0.0), ("en/itl/phase1", 30.0)):
        sts(f"language_loss/{model}", "glue_stsb", 1, value)
    artifact = build(STAGE, CrossLingualReportSpec(), inputs, Runtime(store=tmp_path)).artifact
    text = (artifact.path / "report.md").read_text("utf-8")
    assert "| itl, Phase 1 | undefined |" in text and "| itl, Phase 2 | undefined for 1 of 2 seeds |" in text
    assert "| **itl, Phase 2** | **ours** | **–** | **undefined for 1 of 2 seeds** |" in text
    assert "KLUE\\_STS: tested on 30 of 519 examples of the official test set." in text
    assert f"KLUE\\_STS, Pearson: undefined by the official script, itl, Phase 2, seed 1: {why}." in text
    assert f"GLUE\\_STSB, Pearson: undefined by the official script, itl, Phase 1, Vocab-Ko, seed 1: {why}." in text
    shares = text[text.index("Shares of the source") :]
    assert "itl: Vocab-En, Phase 1 | 50.0 % |" in shares and "itl: Vocab-Ko" not in shares.split("###")[0]
    with (artifact.path / "scores.csv").open(encoding="utf-8", newline="") as file:
        rows = {(row["model"], row["seed"]): (row["value"], row["note"]) for row in csv.DictReader(file)}
    assert rows["ours itl/phase2", "1"] == ("", f"30 of 519 examples; undefined: {why}")
    assert rows["ours itl/phase2", "2"] == ("80.0", "30 of 519 examples")


def test_models_with_a_time_limit_share_a_drawing_over_time(tmp_path: Path) -> None:
    def names(*seconds: float | None) -> set[str]:
        store = tmp_path / f"store {seconds}"
        stats = (TRAINED | ({} if limit is None else {"seconds": limit}) for limit in seconds)
        inputs = {f"control/{n}": made(store, f"control/{n}", one, write=curve) for n, one in enumerate(stats)}
        report = build(STAGE, CrossLingualReportSpec(), inputs, Runtime(store=store)).artifact
        return {path.name for path in report.files("figures/*") if "same-time" in path.name}

    assert names(60.0, 60.5, None) == {"curve-same-time.svg"}
    assert names(60.0, None) == set(), "one alone has nothing beside it"
    assert names(*[60.0] * 7) == {"curve-same-time.svg", "curve-same-time-2.svg"}
