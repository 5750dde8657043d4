"""The report of a real run: each number in its tables comes from a stage, or follows from such numbers by a formula."""

from __future__ import annotations

import json
import shutil
import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from korealbert import recipe as recipes
from korealbert.artifact import Artifact, build
from korealbert.flows.cli import app
from korealbert.pretrain.runtime import TrainingRuntime
from korealbert.recipe.registry import REPORT
from korealbert.report.stage import ReportSpec
from tests.flows.conftest import TINY
from tests.report.conftest import whole_run

SEEDS = (1, 2, 3)
Rows = list[list[str]]


def test_a_cell_is_scored_again_by_its_name(straight: dict[str, Artifact]) -> None:
    cell = straight["finetune/nsmc/random/1"]
    gold = TINY.parents[2] / "data_specs" / "sample" / "nsmc_test.txt"

    def call(*arguments: object, code: int = 0) -> str:
        done = CliRunner().invoke(app, ["score", "nsmc", str(gold), *map(str, arguments), "--store", str(cell.path.parent)])
        assert done.exit_code == code, done.output
        return done.stderr if code else done.stdout

    of_the_cell = json.loads((cell.path / "metrics.json").read_text("utf-8"))["test"]
    scored = json.loads(call("finetune/nsmc/random/1"))
    assert {name: scored[name] for name in of_the_cell} == pytest.approx(of_the_cell)
    assert scored == json.loads(call(cell.path / "predictions.arrow"))
    assert "against" in json.loads(call("finetune/nsmc/random/1", "--against", "finetune/nsmc/pretrained/1"))
    assert "it holds no predictions; name a cell" in call("vocab", code=2)
    assert "did you mean 'finetune/nsmc/random/1'?" in call("finetune/nsmc/randm/1", code=2)


@pytest.fixture(scope="module")
def artifacts(straight: dict[str, Artifact], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Artifact]:
    """Return the uninterrupted run without its report, with more seeds of every fine-tuning cell, by label."""
    store = tmp_path_factory.mktemp("report") / "store"
    shutil.copytree(straight["report"].path.parent, store)
    found = {label: Artifact(a.name, store / a.name) for label, a in straight.items() if label != "report"}
    runtime = TrainingRuntime(store=store, workers=1, threads=1)
    for label, node in recipes.graph(recipes.load(TINY)).items():
        if label.startswith("finetune/"):
            for seed in SEEDS[1:]:
                spec = node.spec.model_copy(update={"seed": seed})
                more = label.removesuffix("1") + str(seed)
                found[more] = build(node.stage, spec, {"model": found["export"]}, runtime, label=more).artifact
    return found


@pytest.fixture(scope="module")
def tables(artifacts: dict[str, Artifact], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Rows]:
    """Return the tables of report.md by title, without header, rule and emphasis."""
    out = tmp_path_factory.mktemp("out")
    REPORT.run(ReportSpec(), artifacts, out, TrainingRuntime())
    found: dict[str, Rows] = {}
    title = ""
    for line in (out / "report.md").read_text("utf-8").splitlines():
        if line.startswith("| "):
            found.setdefault(title, []).append([c.strip("*").replace("\\", "") for c in line[2:-2].split(" | ")])
        elif line:
            title = line
    return {title: rows[2:] for title, rows in found.items()}


def of(artifacts: dict[str, Artifact], *stages: str) -> Iterator[tuple[str, dict[str, Any]]]:
    for label, artifact in artifacts.items():
        if label.split("/")[0] in stages:
            yield label, artifact.stats


def counts(rows: Rows) -> dict[tuple[str, str], int]:
    """Return the third column by the first two."""
    return {(row[0], row[1]): int(row[2].replace(",", "")) for row in rows}


def two(value: float) -> str:
    return f"{value:,.2f}".replace("-", "−")


def test_the_data_tables_are_the_statistics_of_their_stages(artifacts: dict[str, Artifact], tables: dict[str, Rows]) -> None:
    data = dict(of(artifacts, "extract", "clean", "dedup", "balance", "examples"))
    rows = tables["Every document is accounted for"]
    assert {row[0] for row in rows} == set(data)
    for label, taken, dropped, quarantined, kept, share, characters in rows:
        stats = data[label]
        numbers = (stats["documents_in"], sum(stats["dropped"].values()), stats.get("quarantined", 0), stats["documents_out"])
        assert (taken, dropped, quarantined, kept) == tuple(f"{number:,}" for number in numbers)
        assert share == f"{100 * stats['documents_out'] / stats['documents_in']:.1f} %"
        assert characters == (f"{stats['characters_out']:,}" if "characters_out" in stats else "–")
    assert counts(tables["Dropped documents; they are kept beside each stage's output"]) == {
        (label, reason.replace("_", " ")): number
        for label, stats in data.items()
        for reason, number in stats["dropped"].items()
    }
    assert counts(tables["Markup whose text extraction leaves out"]) == {
        (label, construct.replace("_", " ")): characters
        for label, stats in of(artifacts, "extract")
        for construct, characters in stats["lost_characters"].items()
    }
    removed = artifacts["clean/news"].stats["removed"]
    assert {row[0]: int(row[1]) for row in tables["Removals by rule and source"]} == removed
    names = ("before_documents", "after_documents", "before_characters", "after_characters")
    assert {row[0]: row[1:] for row in tables["Categories"]} == {
        category or "none": [f"{sizes[name]:,}" for name in names]
        for category, sizes in artifacts["balance"].stats["categories"].items()
    }


def test_the_facts_of_vocabulary_rows_noise_and_held_out_scores_are_the_manifests(
    artifacts: dict[str, Artifact], tables: dict[str, Rows]
) -> None:
    vocab, rows, views = (artifacts[label].stats for label in ("vocab", "examples", "views"))
    assert tables["Vocabulary"] == [
        ["Pieces", f"{vocab['pieces']:,}"],
        ["Characters per piece", two(vocab["characters_per_piece"])],
        ["Pieces per word", two(vocab["pieces_per_word"])],
        ["Unknown pieces", f"{100 * vocab['unknown_share']:.4f} %"],
        ["Pieces that are single bytes", f"{100 * vocab['byte_share']:.4f} %"],
        ["Visible characters that have a piece", f"{100 * vocab['character_coverage']:.3f} %"],
        ["Hangul syllables that have a piece, of 11,172", f"{vocab['hangul_syllables_covered']:,}"],
        [
            "Hangul syllables that have a piece, of those in the text",
            f"{vocab['hangul_syllables_in_text_covered']:,} of {vocab['hangul_syllables_in_text']:,}",
        ],
        ["Pieces that begin a word", f"{100 * vocab['word_start_share']:.1f} %"],
        ["Sentences it was trained on", f"{vocab['sampled_sentences']:,}"],
        ["Characters it was trained on", f"{vocab['sampled_characters']:,}"],
    ]
    assert tables["Rows"] == [
        ["Rows for training", f"{rows['rows_train']:,}"],
        ["Rows held out", f"{rows['rows_heldout']:,}"],
        ["Pieces", f"{rows['pieces']:,}"],
        ["Sentences", f"{rows['sentences']:,}"],
        ["Share of positions filled", f"{100 * rows['fill']:.1f} %"],
    ]
    assert tables["Noise, as measured on all views"] == [
        ["Views, one per epoch", f"{views['views']:,}"],
        ["Rows with noise", f"{views['rows']:,}"],
        ["Pieces to predict (MLM)", f"{100 * views['mlm_targets'] / views['pieces']:.2f} % of {views['pieces']:,} pieces"],
        ["of these masked", f"{100 * views['masked'] / views['mlm_targets']:.1f} %"],
        ["of these replaced by a random piece", f"{100 * views['random'] / views['mlm_targets']:.1f} %"],
        ["of these left as they are", f"{100 * views['kept'] / views['mlm_targets']:.1f} %"],
        ["Segments swapped (SOP)", f"{100 * views['sop_swapped'] / views['sop_rows']:.1f} % of {views['sop_rows']:,} rows"],
        ["Rows with moved words (WOP)", f"{views['wop_rows']:,}"],
        [
            "Pieces moved in those rows (WOP)",
            f"{100 * views['wop_targets'] / views['wop_pieces']:.2f} % of {views['wop_pieces']:,} pieces",
        ],
    ]
    heldout = artifacts["pretrain"].stats["heldout"]
    assert [row[1:] for row in tables["Held-out scores at the end of pretraining"]] == [
        [
            f"{100 * heldout[f'{task}_accuracy']:.2f} %",
            f"{views['heldout'][number]:,}",
            f"{heldout[f'{task}_loss']:.3f}",
            f"{heldout['mlm_perplexity']:,.2f}" if task == "mlm" else "–",
        ]
        for task, number in (("mlm", "mlm_targets"), ("sop", "sop_rows"), ("wop", "wop_targets"))
    ]


def test_means_and_deviations_over_seeds_are_those_of_the_cells(
    artifacts: dict[str, Artifact], tables: dict[str, Rows]
) -> None:
    title = next(title for title in tables if title.startswith("Test scores over seeds, times 100: official ones"))
    shown = {(row[0], row[1]): row[2:6] for row in tables[title]}
    titles = {"NSMC, accuracy": "nsmc", "KorSTS, Spearman": "korsts", "KorSTS, Pearson": "korsts"}
    assert set(shown) == {(title, init) for title in titles for init in ("pretrained", "random")}
    for (title, init), figures in shown.items():
        cells = [artifacts[f"finetune/{titles[title]}/{init}/{seed}"] for seed in SEEDS]
        tests = [json.loads((cell.path / "metrics.json").read_text("utf-8"))["test"] for cell in cells]
        values = [test[title.split(", ")[1].lower()] for test in tests]
        mean, deviation = sum(values) / 3, statistics.stdev(values)
        expected = [f"{two(mean)} ± {two(deviation)}", two(statistics.median(values)), two(max(values)), "3"]
        assert figures == expected, (title, init)
    settings = {row[0]: row[1:4] for row in tables["Examples and settings, the same for every seed"]}
    for title, task in (("NSMC", "nsmc"), ("KorSTS", "korsts")):
        metrics = json.loads((artifacts[f"finetune/{task}/random/2"].path / "metrics.json").read_text("utf-8"))
        assert settings[title] == [str(metrics[f"examples_{part}"]) for part in ("train", "dev", "test")]


def test_lineage_lists_each_file_as_its_manifest_does(artifacts: dict[str, Artifact], tables: dict[str, Rows]) -> None:
    listed = {(row[0], row[1]): row[2:] for row in tables["Files"]}
    for label, artifact in artifacts.items():
        for name, entry in sorted(artifact.manifest["files"].items())[:12]:
            assert listed[label, name] == [entry["sha256"][:12], f"{entry['size']:,}"]


def test_the_made_up_run_of_the_report_tests_has_only_statistics_that_stages_write(
    artifacts: dict[str, Artifact], tmp_path: Path
) -> None:
    real: dict[str, set[str]] = {}
    for label, artifact in artifacts.items():
        real.setdefault(label.split("/")[0], set()).update(artifact.stats)
    for label, artifact in whole_run(tmp_path).items():
        assert set(artifact.stats) <= real[label.split("/")[0]], label
