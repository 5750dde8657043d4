"""The report of an ablation: means, intervals and differences equal those of scipy, and swapped artifacts are refused."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from safetensors.numpy import save_file
from scipy import stats

from korealbert.artifact import Artifact, Runtime
from korealbert.model.config import ModelConfig
from korealbert.report.ablation.label_checks import check_labels
from korealbert.report.ablation.runs import Values
from korealbert.report.ablation.spec import AblationReportSpec, Row
from korealbert.report.ablation.stage import run
from korealbert.report.ablation.table import differences
from korealbert.report.artifacts import Artifacts
from korealbert.report.paper_columns import Column, Printed
from tests.report.conftest import content, made

SCORES = {"a": [[80.0, 81.0], [82.5, 82.0], [79.0, 80.5]], "b": [[83.0, 84.0], [83.5, 85.0], [82.0, 81.0]]}
"""By row, pretraining seed and fine-tuning seed."""


def two_rows(store: Path) -> dict[str, Artifact]:
    """Two rows with three pretraining runs of two fine-tuning runs each."""
    found = {}
    for row, runs in SCORES.items():
        for seed, scores in enumerate(runs, start=1):
            facts = {"parameters": 12_000_000, "steps": 60, "tokens": 100_000, "epochs": 2.5, "sequence_length": 128}
            accuracy = {"heldout": {"mlm_accuracy": 0.3 + seed / 100, "mlm_loss": 4.0 + seed, "sop_accuracy": None}}
            found[f"pretrain/{row}/{seed}"] = made(store, f"pretrain/{row}/{seed}", {**facts, **accuracy})
            heldout = {"rows": 9, "heldout": {"sop_accuracy": 0.5}}
            found[f"intrinsic/{row}/{seed}/n"] = made(store, f"intrinsic/{row}/{seed}/n", heldout)
            for number, score in enumerate(scores, start=1):
                label = f"finetune/{row}/{seed}/squad1/pretrained/{number}"
                metrics = {"metric": "f1", "test": {"f1": score, "em": score - 7}}
                found[label] = made(store, label, {}, write=content("metrics.json", metrics))
    return found


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Artifact]:
    return two_rows(tmp_path_factory.mktemp("store"))


@pytest.fixture
def artifacts(built: dict[str, Artifact]) -> dict[str, Artifact]:
    """A copy that a test may change."""
    return dict(built)


@pytest.fixture(scope="module")
def report(built: dict[str, Artifact], tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("report")
    run(SPEC, built, out, Runtime())
    return out


SPEC = AblationReportSpec(
    title="Data",
    rows=(Row(key="a", label="A", model="ALBERT-base no-additional-data"), Row(key="b", label="B")),
    columns=(
        Column(title="MLM", heldout="mlm"),
        Column(title="MLM loss", heldout="mlm", metric="loss"),
        Column(title="SOP", heldout="sop", noise="n"),
        Column(title="F1", benchmark="squad1", printed=("SQuAD1.1", "f1")),
        Column(title="EM", benchmark="squad1", metric="em", printed=("SQuAD1.1", "em")),
        Column(title="Both", average=(("F1", "EM"),)),
    ),
    baseline="A",
    printed=Printed(table="albert", source="ALBERT Table 7"),
)


def cells(path: Path, first: str) -> list[list[str]]:
    lines = [line.strip("| ").split(" | ") for line in path.read_text("utf-8").splitlines() if line.startswith(f"| {first}")]
    return [[cell.strip(" *") for cell in line] for line in lines]


def test_means_are_over_pretraining_runs_with_the_printed_numbers_below(report: Path) -> None:
    table = pl.read_csv(report / "table.csv")
    means = [np.mean(scores) for scores in SCORES["a"]]
    f1 = table.row(by_predicate=(pl.col("row") == "A") & (pl.col("column") == "F1"), named=True)
    low, high = stats.t.interval(0.95, 2, loc=np.mean(means), scale=stats.sem(means))
    assert (f1["mean"], f1["low"], f1["high"]) == pytest.approx((np.mean(means), low, high))
    assert (f1["values"], f1["pretraining_runs"], f1["finetuning_runs"], f1["printed"]) == (3, 3, 2, 89.3)
    both = table.row(by_predicate=(pl.col("row") == "A") & (pl.col("column") == "Both"), named=True)
    assert both["mean"] == pytest.approx(f1["mean"] - 3.5)
    differences = [np.mean(b) - np.mean(a) for a, b in zip(SCORES["a"], SCORES["b"], strict=True)]
    half = stats.t.ppf(0.975, 2) * stats.sem(differences)
    text = (report / "report.md").read_text("utf-8")
    assert f"+{np.mean(differences):.2f} ± {half:.2f}" in text
    assert "89.3" in text and "Known problems" in text
    assert "numbers of 24 layers" in text, "misprints of the paper"
    assert pl.read_csv(report / "runs.csv").height == 2 * (3 + 3 + 3 + 6 + 6 + 3)
    html = (report / "report.html").read_text("utf-8")
    assert "32.00 ± 2.48" in html and "50.00 ± 0.00" in html
    assert "6.000 ± 2.484" in html and "MLM loss: the mean of the held-out targets in nats, not × 100." in html


def test_models_that_no_row_stands_for_are_below_the_table(
    report: Path, artifacts: dict[str, Artifact], tmp_path: Path
) -> None:
    left = cells(report / "tables" / "table-other-models-of-albert-table-7-as-printed.md", "ALBERT-base with-additional")
    assert len(left) == 1 and "no-additional" not in str(left)
    table_10 = SPEC.model_copy(update={"printed": Printed(table="albert", source="ALBERT Table 10")})
    (tmp_path / "ten").mkdir()
    run(table_10, artifacts, tmp_path / "ten", Runtime())
    (csv,) = tmp_path.glob("ten/tables/table-other-models*.csv")
    (numbers,) = pl.read_csv(csv, infer_schema=False).filter(Model="XLNet")["Problems"].to_list()
    problem = f"Known problem {numbers.split(', ')[0]}: ALBERT Table 10; XLNet; SQuAD2.0-test: Printed with the same numbers"
    assert problem in (tmp_path / "ten" / "report.md").read_text("utf-8")
    table_9 = SPEC.model_copy(update={"printed": Printed(table="albert", source="ALBERT Table 9")})
    run(table_9, artifacts, tmp_path, Runtime())
    (csv,) = tmp_path.glob("tables/table-other-models*.csv")
    frame = pl.read_csv(csv, infer_schema=False)
    assert frame.filter(Model="ALBERT (ensemble)")["GLUE-test WNLI acc"].to_list() == ["91.8"]
    assert {"ALICE (ensemble)", "BERT-large"} <= {*frame["Model"]} and frame.height == 11


def test_a_single_pretraining_run_has_intervals_over_fine_tuning_alone_and_says_so(
    artifacts: dict[str, Artifact], tmp_path: Path
) -> None:
    run(SPEC, {label: a for label, a in artifacts.items() if label.split("/")[2] == "1"}, tmp_path, Runtime())
    text = (tmp_path / "report.md").read_text("utf-8")
    half = stats.t.ppf(0.975, 1) * stats.sem(SCORES["a"][0])
    assert f"80.50 ± {half:.2f}†" in text
    assert "it says nothing about other ones" in text


def test_an_ensemble_is_paired_with_no_seed(artifacts: dict[str, Artifact], tmp_path: Path) -> None:
    found = {label.replace("/1/", "/0/", 1): a for label, a in artifacts.items() if label.startswith("finetune")}
    scores = content("metrics.json", {"metric": "f1", "test": {"f1": 91.0, "em": 84.0}})
    found["ensemble/ab/squad1"] = made(tmp_path, "ensemble/ab/squad1", {}, write=scores)
    rows = (*SPEC.rows, Row(key="ab", label="Both", ensemble=("A", "B")))
    values = Values.read(rows, SPEC.columns, found, baseline="A")
    spec = SPEC.model_copy(update={"rows": rows})
    assert 0 in values.per_pretraining("a", "F1"), "the seed that an ensemble's score has, too"
    assert differences(spec, values, rows[1]) and not differences(spec, values, rows[2])
    assert not differences(spec.model_copy(update={"baseline": "Both"}), values, rows[0])


def test_the_report_names_what_is_in_its_tables(artifacts: dict[str, Artifact], tmp_path: Path) -> None:
    single = {label: a for label, a in artifacts.items() if label.split("/")[2] == "1" and label.split("/")[-1] == "1"}
    run(SPEC.model_copy(update={"description": "Rows", "printed": None}), single, tmp_path, Runtime())
    text = (tmp_path / "report.md").read_text("utf-8")
    assert "\nRows. 2 pretraining runs of " in text
    assert "†" not in text and "the paper's" not in text
    assert "| From |" not in text and "| **A" not in text, "all rows are ours"


def test_median_and_best_are_over_all_fine_tuning_runs(report: Path) -> None:
    with (report / "tables" / "table-median-and-best-of-ours-100.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    scores = [score for each in SCORES["b"] for score in each]
    assert [row["F1"] for row in rows][2:] == [f"{np.median(scores):.2f}", f"{max(scores):.2f}"]
    both = [np.median(scores) - 3.5, max(scores) - 3.5]
    assert [row["Both"] for row in rows][2:] == [f"{value:.2f}" for value in both], "of the medians, not the median of means"
    assert {path.suffix for path in (report / "tables").iterdir()} == {".csv", ".md", ".tex"}


def test_one_training_of_several_rows_is_counted_once(artifacts: dict[str, Artifact], tmp_path: Path) -> None:
    for seed in (1, 2, 3):
        artifacts[f"pretrain/b/{seed}"] = artifacts[f"pretrain/a/{seed}"]
    run(SPEC, artifacts, tmp_path, Runtime())
    text = (tmp_path / "report.md").read_text("utf-8")
    assert "\n3 pretraining runs of " in text
    trained = next(line for line in text.splitlines() if "Tokens trained on" in line)
    assert "300k" in trained and "in 3 trainings" in trained
    with (tmp_path / "tables" / "costs-throughput-of-pretraining.csv").open(encoding="utf-8", newline="") as file:
        assert [row["Training"] for row in csv.DictReader(file)] == [f"pretrain/a/{n}, pretrain/b/{n}" for n in (1, 2, 3)]


def test_the_median_stands_above_a_printed_median(artifacts: dict[str, Artifact], tmp_path: Path) -> None:
    assert SPEC.printed is not None
    of_medians = SPEC.printed.model_copy(update={"statistic": "median"})
    run(SPEC.model_copy(update={"printed": of_medians}), artifacts, tmp_path, Runtime())
    lines = (tmp_path / "report.md").read_text("utf-8").splitlines()
    place = next(number for number, line in enumerate(lines) if "| ours, median |" in line)
    scores = [score for each in SCORES["a"] for score in each]
    assert f"| {np.median(scores):.2f} |" in lines[place] and "| printed |" in lines[place + 1]
    assert sum("ours, median" in line for line in lines) == 2, "of both rows"


def test_a_note_on_several_columns_is_said_once(artifacts: dict[str, Artifact], tmp_path: Path) -> None:
    for label in [label for label in artifacts if label.startswith("finetune/")]:
        metrics = {"metric": "f1", "test": {"f1": 8.0, "em": 5.0}, "examples_test": 30, "examples_test_official": 519}
        artifacts[label] = made(tmp_path / "other", label, {}, write=content("metrics.json", metrics))
    run(SPEC, artifacts, tmp_path, Runtime())
    text = (tmp_path / "report.md").read_text("utf-8")
    assert "Ours of F1, EM: 30 of 519 examples; the printed ones are of the whole test set." in text
    assert text.count("30 of 519 examples") == 1


def test_a_cell_of_another_training_is_refused(tmp_path: Path) -> None:
    facts = {"parameters": 12, "steps": 60, "tokens": 100, "epochs": 2.5, "sequence_length": 128}
    found = {}
    one, other = (f"finetune/{row}/1/f/pretrained/1" for row in ("a", "b"))
    for row, label, score in (("a", one, 80.0), ("b", other, 83.0)):
        model = found[f"pretrain/{row}/1"] = made(tmp_path, f"pretrain/{row}/1", facts)
        metrics = {"metric": "f1", "test": {"f1": score}}
        found[label] = made(tmp_path, label, {}, {"model": model}, content("metrics.json", metrics))
    spec = SPEC.model_copy(update={"columns": (Column(title="F1", benchmark="f"),), "printed": None})
    found[one], found[other] = found[other], found[one]
    with pytest.raises(ValueError, match=r"finetune/a/1/f/pretrained/1 .*: built from pretrain/b/1, not from pretrain/a/1"):
        run(spec, found, tmp_path, Runtime())


def grid_of_two(store: Path, *, shared: bool) -> dict[str, Artifact]:
    """Two rows with two benchmarks and an ensemble of each; ``shared``: the rows are two steps of one training."""
    facts = {"parameters": 12, "steps": 60, "tokens": 100, "epochs": 2.5, "sequence_length": 128}
    found = {}

    def scored(label: str, task: str, inputs: dict[str, Artifact]) -> None:
        metrics = {"task": task, "metric": "f1", "test": {"f1": 80.0}}
        found[label] = made(store, label, {}, inputs, content("metrics.json", metrics))

    for row in ("a", "b"):
        model = found[f"pretrain/{row}/1"] = made(store, "pretrain/a/1" if shared else f"pretrain/{row}/1", facts)
        exported = found[f"export/{row}/1"] = made(store, f"export/{row}/1", {}, {"pretrain": model})
        for task in ("nsmc", "korsts"):
            scored(f"finetune/{row}/1/{task}/pretrained/1", task, {"model": exported})
    for key, rows in (("ab", "ab"), ("only-a", "a")):
        for task in ("nsmc", "korsts"):
            members = {f"{row}/1": found[f"finetune/{row}/1/{task}/pretrained/1"] for row in rows}
            scored(f"ensemble/{key}/{task}", task, members)
    return found


NSMC_A, NSMC_B, KORSTS_A = (
    f"finetune/{row}/1/{task}/pretrained/1" for row, task in (("a", "nsmc"), ("b", "nsmc"), ("a", "korsts"))
)


@pytest.fixture(scope="module")
def grids(tmp_path_factory: pytest.TempPathFactory) -> dict[bool, dict[str, Artifact]]:
    """Grids whose rows are trainings of their own (False) or share one (True)."""
    return {shared: grid_of_two(tmp_path_factory.mktemp("store"), shared=shared) for shared in (False, True)}


@pytest.mark.parametrize(
    ("one", "other", "shared", "message"),
    [
        (NSMC_A, KORSTS_A, False, "cells of .(nsmc|korsts). are of several tasks"),
        (NSMC_A, NSMC_B, True, "from export/b/1, not from export/a/1"),
        ("pretrain/a/1", "pretrain/b/1", False, "built from pretrain/b/1, not from pretrain/a/1"),
        ("ensemble/ab/nsmc", "ensemble/only-a/nsmc", False, "ensemble/ab/nsmc .*: not of the cells of A, B"),
        ("ensemble/ab/nsmc", "ensemble/ab/korsts", False, "cells of '(nsmc|korsts)' are of several tasks"),
    ],
)
def test_every_kind_of_swap_is_refused(
    one: str, other: str, shared: bool, message: str, grids: dict[bool, dict[str, Artifact]], tmp_path: Path
) -> None:
    found = dict(grids[shared])
    rows = (
        Row(key="a", label="A"),
        Row(key="b", label="B"),
        Row(key="ab", label="AB", ensemble=("A", "B")),
        Row(key="only-a", label="Only A", ensemble=("A",)),
    )
    columns = (Column(title="NSMC", benchmark="nsmc"), Column(title="KorSTS", benchmark="korsts"))
    spec = SPEC.model_copy(update={"rows": rows, "columns": columns, "printed": None})
    (tmp_path / "right").mkdir()
    run(spec, found, tmp_path / "right", Runtime())
    found[one], found[other] = found[other], found[one]
    with pytest.raises(ValueError, match=message):
        run(spec, found, tmp_path, Runtime())


def pretrained_and_tuned(
    store: Path, row: str, seed: int, views: dict[str, Any], wop_weight: float, **model: Any
) -> dict[str, Artifact]:
    """A row with manifests that say what it was built with."""
    facts = {"parameters": 12, "steps": 60, "tokens": 100, "epochs": 2.5, "sequence_length": 128}
    source = made(store, "extract", {}, source="news")
    noise = made(store, "views", {}, {"documents": source}, masking=views)
    trained = made(store, "pretrain", facts, {"views": noise}, model=model, wop_weight=wop_weight, seed=seed)
    exported = made(store, "export", {}, {"pretrain": trained})
    metrics = {"task": "nsmc", "metric": "f1", "test": {"f1": 80.0}}
    tuned = made(store, "finetune", {}, {"model": exported}, content("metrics.json", metrics))
    own = f"{row}/{seed}"
    return {f"pretrain/{own}": trained, f"export/{own}": exported, f"finetune/{own}/nsmc/pretrained/1": tuned}


SETTINGS_OF_ROWS = {
    "pretrain": (("pretrain.model.num_layers = 3", "pretrain.model.hidden_size = 0"), ("pretrain.model.num_layers = 6",)),
    "a share of 0": (("pretrain.wop_weight = 0.0",), ()),
    "views": (("views.masking.rate = 0.3",), ("views.masking.rate = 0.5",)),
    "extract": (("without extract.books",), ("without extract.news",)),
}


@pytest.fixture(scope="module")
def rows_of_two_seeds(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Artifact]:
    store, found = tmp_path_factory.mktemp("store"), dict[str, Artifact]()
    for seed in (1, 2):
        found |= pretrained_and_tuned(store, "a", seed, {"rate": 0.3}, wop_weight=0.0, num_layers=3, hidden_size=64)
        found |= pretrained_and_tuned(store, "b", seed, {"rate": 0.5}, wop_weight=1.0, num_layers=6, hidden_size=64)
    return found


@pytest.mark.parametrize("said", SETTINGS_OF_ROWS)
@pytest.mark.parametrize("change", ["exchanged", "the same"])
def test_rows_that_are_exchanged_whole_or_one_are_refused(
    said: str, change: str, rows_of_two_seeds: dict[str, Artifact], tmp_path: Path
) -> None:
    one, other = SETTINGS_OF_ROWS[said]
    found = dict(rows_of_two_seeds)
    rows = (Row(key="a", label="A", settings=one), Row(key="b", label="B", settings=() if said == "extract" else other))
    columns = (Column(title="NSMC", benchmark="nsmc"),)
    spec = SPEC.model_copy(update={"rows": rows, "columns": columns, "printed": None})
    (tmp_path / "right").mkdir()
    run(spec, found, tmp_path / "right", Runtime())
    for label in [label for label in found if "/a/2" in label]:
        twin = label.replace("/a/", "/b/")
        found[label], found[twin] = found[twin], found[twin] if change == "the same" else found[label]
    expected = {
        "pretrain": r"pretrain/a/2 \(pretrain-\w+\): its pretrain.model.num_layers is 6, not 3; its score belongs",
        "a share of 0": r"pretrain/a/2 \(pretrain-\w+\): its pretrain.wop_weight is 1.0, not 0.0",
        "views": r"pretrain/a/2 \(views-\w+\): its views.masking.rate is 0.5, not 0.3",
        "extract": "rows 'A' and 'B' have the same artifacts for seed 2, .*; give each label .* or remove one",
    }
    if said == "extract" and change == "exchanged":
        rows = (rows[0], Row(key="b", label="B", settings=other))
        expected["extract"] = "pretrain/b/1 .*: trained on news, but its row says 'without extract.news'"
    with pytest.raises(ValueError, match=expected[said]):
        run(spec.model_copy(update={"rows": rows}), found, tmp_path, Runtime())


def test_ancestors_that_rows_may_share_are_accepted(tmp_path: Path) -> None:
    """A vocabulary and an initial training may be from another corpus, and the graph itself sets some fields."""
    facts = {"parameters": 12, "steps": 60, "tokens": 100, "epochs": 2.5, "sequence_length": 128}
    news, books = (made(tmp_path, "extract", {}, source=source) for source in ("news", "books"))
    earlier = made(tmp_path, "pretrain", facts, {"examples": made(tmp_path, "examples", {}, {"documents": news})})
    own = {"vocab": made(tmp_path, "vocab", {}, {"documents": news}), "documents": books}
    rows = made(tmp_path, "examples", {}, own, heldout_rest="unused")
    found = {"pretrain/a/1": made(tmp_path, "pretrain", facts, {"examples": rows, "initial": earlier}, seed=2)}
    settings = ("without extract.news", 'extract.books.format = "csv"', 'examples.heldout_rest = "train"', "starts from B = b")
    row = Row(key="a", label="A", settings=settings)
    check_labels([row], {}, Artifacts(found, ()))
    for other in ("without extract.books", 'extract.news.format = "csv"'):
        with pytest.raises(ValueError, match=r"pretrain/a/1 .*: trained on books, but its row says"):
            check_labels([row.model_copy(update={"settings": (other,)})], {}, Artifacts(found, ()))


def test_an_export_of_another_step_is_refused(grids: dict[bool, dict[str, Artifact]], tmp_path: Path) -> None:
    rows = (Row(key="a", label="A", snapshot=20), Row(key="b", label="B"))
    found = {label: artifact for label, artifact in grids[True].items() if not label.startswith("ensemble")}
    spec = SPEC.model_copy(update={"rows": rows, "columns": (Column(title="NSMC", benchmark="nsmc"),), "printed": None})
    with pytest.raises(ValueError, match=r"export/a/1 .*: of the end of its training, not of step 20"):
        run(spec, found, tmp_path, Runtime())


def test_a_held_out_score_of_another_step_is_refused(artifacts: dict[str, Artifact], tmp_path: Path) -> None:
    rows = (SPEC.rows[0].model_copy(update={"snapshot": 30}), SPEC.rows[1])
    with pytest.raises(ValueError, match=r"intrinsic/a/1/n .*: of the end of its training, not of step 30"):
        run(SPEC.model_copy(update={"rows": rows}), artifacts, tmp_path, Runtime())


def test_a_held_out_score_of_another_noise_is_refused(artifacts: dict[str, Artifact], tmp_path: Path) -> None:
    store = artifacts["pretrain/a/1"].path.parent

    def scored(accuracy: float, **spec: object) -> Artifact:
        inputs = {"pretrain": artifacts["pretrain/a/1"], "views": made(store, "views", {}, **spec)}
        return made(store, "intrinsic", {"rows": 9, "heldout": {"sop_accuracy": accuracy}}, inputs)

    noises = {name: {"sentence_task": name, "masking": {"rate": 0.15}} for name in ("nsp", "sop")}
    columns = tuple(Column(title=name, heldout="sop", noise=name) for name in noises)
    spec = SPEC.model_copy(update={"noises": noises, "columns": columns, "rows": SPEC.rows[:1]})
    found = {"pretrain/a/1": artifacts["pretrain/a/1"], **{f"intrinsic/a/1/{n}": scored(0.5, **noises[n]) for n in noises}}
    (tmp_path / "right").mkdir()
    run(spec, found, tmp_path / "right", Runtime())
    other_rate = found | {"intrinsic/a/1/sop": scored(0.6, sentence_task="sop", masking={"rate": 0.3})}
    exchanged = found | {"intrinsic/a/1/sop": found["intrinsic/a/1/nsp"], "intrinsic/a/1/nsp": found["intrinsic/a/1/sop"]}
    for wrong, noise in ((other_rate, "sop"), (exchanged, "nsp")):
        with pytest.raises(ValueError, match=rf"intrinsic/a/1/{noise} .*: scored on views-\w+, not on noise '{noise}'"):
            run(spec, wrong, tmp_path, Runtime())


def test_a_row_of_a_snapshot_has_the_tokens_and_epochs_of_its_step(artifacts: dict[str, Artifact], tmp_path: Path) -> None:
    artifacts["pretrain/a/1"] = made(
        tmp_path,
        "pretrain/a/1",
        artifacts["pretrain/a/1"].stats,
        write=lambda out: (out / "metrics.jsonl").write_text('{"split": "train", "step": 30, "tokens": 49999}\n') and None,
        source="with curves",
    )
    for label in [label for label in artifacts if label.startswith("intrinsic/a/")]:
        del artifacts[label]
    rows = (SPEC.rows[0].model_copy(update={"snapshot": 30}), SPEC.rows[1])
    run(SPEC.model_copy(update={"rows": rows}), artifacts, tmp_path, Runtime())
    assert ["A", "12,000,000", "30 of 60", "49,999", "1.25", "0"] in cells(tmp_path / "report.md", "A")


def test_the_lede_has_the_shortest_and_the_longest_training(artifacts: dict[str, Artifact], tmp_path: Path) -> None:
    longer = {**artifacts["pretrain/b/1"].stats, "steps": 400, "tokens": 700_000}
    artifacts["pretrain/b/1"] = made(tmp_path, "pretrain/b/1", longer, source="longer")
    run(SPEC, artifacts, tmp_path, Runtime())
    text = (tmp_path / "report.md").read_text("utf-8")
    assert "6 pretraining runs of 12M parameters with heads, 60 to 400 steps and 100k to 700k tokens each" in text


def test_a_metric_that_a_benchmark_does_not_have_is_named(artifacts: dict[str, Artifact], tmp_path: Path) -> None:
    spec = SPEC.model_copy(update={"columns": (Column(title="F1", benchmark="squad1", metric="f2"),)})
    with pytest.raises(ValueError, match="column 'F1': squad1 has no metric 'f2'; it has f1, em"):
        run(spec, artifacts, tmp_path, Runtime())


def test_costs_of_training_are_shown_and_an_ensemble_has_none(artifacts: dict[str, Artifact], tmp_path: Path) -> None:
    for label, artifact in list(artifacts.items()):
        if label.startswith("pretrain/"):
            row, seed = label.split("/")[1:]
            speed = {"tokens_per_second": (300.0 if row == "a" else 100.0) + int(seed), "seconds": 7200.0}
            heldout = "".join(
                json.dumps({"split": "heldout", "step": step, "mlm_accuracy": (step + int(seed)) / 100}) + "\n"
                for step in (0, 30, 60)
            )

            def write(out: Path, lines: str = heldout) -> None:
                (out / "metrics.jsonl").write_text(lines)
                (out / "config.json").write_text(ModelConfig(vocab_size=5).model_dump_json())
                tensors = {"encoder.layers.0": (1200, 100), "mlm.dense": (9, 9), "wop.dense": (7, 7)}
                save_file({name: np.zeros(shape, np.float32) for name, shape in tensors.items()}, out / "model.safetensors")

            artifacts[label] = made(tmp_path, label, {**artifact.stats, **speed}, write=write, source=label + "x")
        if label.startswith("intrinsic/"):
            layers = content("layers.json", {"l2": [1.0, 2.0], "degrees": [10.0, 20.0]})
            artifacts[label] = made(tmp_path, label, artifact.stats, write=layers, source=label + "x")
    together = content("metrics.json", {"metric": "f1", "test": {"f1": 91.0, "em": 84.0}})
    artifacts["ensemble/ab/squad1"] = made(tmp_path, "ensemble/ab/squad1", {}, write=together)
    rows = (
        Row(key="a", label="A", model="BERT-base"),
        Row(key="b", label="B", model="BERT-large"),
        Row(key="ab", label="Both", ensemble=("A", "B")),
    )
    spec = AblationReportSpec(
        title="Sizes",
        rows=rows,
        columns=(
            Column(title="Parameters", training="parameters", printed=("config", "params"), source="ALBERT Table 1"),
            Column(title="Hours", training="hours"),
            Column(title="Speed", training="speedup", printed=("speed", "speedup")),
            *SPEC.columns[2:],
        ),
        baseline="B",
        printed=Printed(table="albert", source="ALBERT Table 2"),
        curves=True,
    )
    out = tmp_path / "out"
    out.mkdir()
    run(spec, artifacts, out, Runtime())
    ours = next(line for line in cells(out / "report.md", "") if line[:2] == ["A", "ours"])
    assert ours[2:6] == ["3 × 2", "120k", "2.00 ± 0.00", "2.96 ± 0.02"]
    assert "Parameters: of the encoder, without heads." in (out / "report.md").read_text("utf-8")
    table = pl.read_csv(out / "table.csv", infer_schema=False)
    found = {
        (row, column): (mean, text) for row, column, mean, text in table.select("row", "column", "mean", "printed").iter_rows()
    }
    sources = {row["column"]: row["source"] for row in table.iter_rows(named=True) if row["row"] == "A"}
    assert (sources["Parameters"], sources["Speed"]) == ("ALBERT Table 1", "ALBERT Table 2")
    with (out / "tables" / "table-median-and-best-of-ours-100.csv").open(encoding="utf-8", newline="") as file:
        assert next(iter(csv.DictReader(file))).keys().isdisjoint({"Parameters", "Hours", "Speed"})
    assert found["A", "Parameters"] == ("120000.0", "108M") and found["A", "Speed"][1] == "4.7x"
    assert float(found["B", "Speed"][0]) == pytest.approx(1.0)
    assert float(found["Both", "Both"][0]) == pytest.approx((91 + 84) / 2) and found["Both", "Parameters"][0] is None
    names = {path.stem for path in (out / "figures").iterdir()}
    assert {"curve-mlm", "layers-l2", "layers-degrees"} <= names and "column-1" not in names


def test_undefined_and_partial_scores_are_noted_and_have_no_difference(artifacts: dict[str, Artifact], tmp_path: Path) -> None:
    why = "every prediction is the same"
    for label in [label for label in artifacts if label.startswith("finetune/a/1/")]:
        metrics = {"metric": "f1", "test": {"f1": 0.0, "em": 5.0}, "undefined": {"f1": why}}
        metrics |= {"examples_test": 30, "examples_test_official": 519}
        artifacts[label] = made(tmp_path / "other", label, {}, write=content("metrics.json", metrics))
    stats = run(SPEC, artifacts, tmp_path, Runtime())
    lines = cells(tmp_path / "report.md", "")
    row = next(line for line in lines if line[:2] == ["A", "ours"])
    assert row[2] == "3 × 2" and row[6:9:2] == ["undefined for 2 of 6 runs", "undefined for 1 of 3 runs"]
    differences = next(line for line in lines if line[:2] == ["MLM", "SOP"])
    assert differences[2:] == ["EM"], "no other column has a difference"
    text = (tmp_path / "report.md").read_text("utf-8")
    part = "30 of 519 examples"
    assert f"Ours of F1 in A: {part}; undefined: {why}; the printed ones are of the whole test set." in text
    assert f"Ours of EM in A: {part}; the printed ones are of the whole test set." in text
    assert f"Ours of Both in A: undefined: F1: {why}." in text
    assert stats.means["A"]["F1"] == "undefined for 2 of 6 runs"
    table = pl.read_csv(tmp_path / "table.csv")
    f1 = table.row(by_predicate=(pl.col("row") == "A") & (pl.col("column") == "F1"), named=True)
    assert (f1["mean"], f1["low"], f1["note"]) == (None, None, f"{part}; undefined: {why}")
    runs = pl.read_csv(tmp_path / "runs.csv").filter((pl.col("row") == "A") & (pl.col("column") == "F1"))
    assert runs["value"].to_list() == [None, None, *SCORES["a"][1], *SCORES["a"][2]]
    assert runs["note"].to_list() == [f"{part}; undefined: {why}"] * 2 + [part] * 4
