"""The whole report: right numbers, no silent omissions, no paths of this machine, and reproducible bytes."""

from __future__ import annotations

import csv
import json
import re
import statistics
from collections import Counter
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from xml.etree import ElementTree

import polars as pl
import pyarrow as pa
import pytest
from pyarrow import ipc
from pydantic import ValidationError

from korealbert.artifact import Artifact, Runtime, Store, ancestors, build
from korealbert.documents.schema import Document, Drop, Quarantined, document_id
from korealbert.documents.shards import DocumentShard
from korealbert.finetune.retrieval.ranking import METRICS
from korealbert.recipe.registry import REPORT
from korealbert.report import artifacts as of_report
from korealbert.report import scores
from korealbert.report.render.blocks import Cards
from korealbert.report.scores import CSV_COLUMNS, part_tested
from korealbert.report.sections import learning, outcome
from korealbert.report.sections.lineage import MEASURED, core_hours
from korealbert.report.stage import ReportSpec
from tests.report.conftest import SCRIPT, cell, made, whole_run

Artifacts = dict[str, Artifact]


@pytest.fixture(scope="module")
def report(artifacts: Artifacts, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("report")
    REPORT.run(ReportSpec(), artifacts, out, Runtime())
    return out


def write(artifacts: Artifacts, out: Path, **spec: object) -> tuple[dict[str, object], str, str]:
    out.mkdir()
    stats = REPORT.run(ReportSpec.model_validate(spec), artifacts, out, Runtime()).facts()
    return stats, (out / "report.html").read_text("utf-8"), (out / "report.md").read_text("utf-8")


def csv_rows(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def rows_of(out: Path) -> list[dict[str, str]]:
    return csv_rows(out / "scores.csv")


def test_the_headline_of_a_run_without_benchmarks_has_a_number_and_an_interval(artifacts: Artifacts, tmp_path: Path) -> None:
    views = made(tmp_path, "views", {"views": 10, "heldout": {"mlm_targets": 4000}})
    run = of_report.Artifacts({"pretrain": artifacts["pretrain"], "views": views}, [])
    assert outcome.introduction(run, []) == (
        "The pretrained model fills 41.2 % of the masked pieces of held-out text correctly "
        "(4,000 pieces; 95 % interval 39.7 % to 42.8 %)."
    )
    shown = outcome.section(run, [], [])
    assert shown is not None and isinstance(shown.blocks[0], Cards)
    assert shown.blocks[0].cards[0].detail.startswith("4,000 pieces; 95 % interval 39.7 % to 42.8 %; perplexity ")


def test_a_learning_rate_is_named_by_what_was_logged(tmp_path: Path) -> None:
    """Its peak, here at step 150, may lie between two lines."""
    lines = [{"split": "train", "step": step, "learning_rate": rate} for step, rate in ((100, 0.002), (200, 0.00296))]
    training = made(tmp_path, "pretrain", {"steps": 1000, "tokens": 8000}, write=lambda out: _write_lines(out, lines))
    figures = learning.pretraining_figures(of_report.Artifacts({"pretrain": training}, []))
    assert [figure.caption for figure in figures] == ["Learning rate, 0.00296 the highest logged"]


def _write_lines(out: Path, lines: list[dict[str, Any]]) -> None:
    (out / "metrics.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))


def test_the_csv_holds_every_score_as_exactly_as_metrics_json(artifacts: Artifacts, report: Path) -> None:
    table = pl.read_csv(report / "scores.csv")
    assert tuple(table.columns) == CSV_COLUMNS
    ours = table.filter(pl.col("model") == "korealbert")
    assert ours.height == 6 * 2 * (1 + 2)
    for label, artifact in artifacts.items():
        if not label.startswith("finetune/"):
            continue
        metrics = json.loads((artifact.path / "metrics.json").read_text())
        rows = ours.filter(pl.col("source") == artifact.name)
        found = {(row["split"], row["metric"]): row["value"] for row in rows.iter_rows(named=True)}
        assert found == {(split, name): value for split in ("dev", "test") for name, value in metrics[split].items()}
        assert set(rows["seed"]) == {metrics["seed"]}
    published = table.filter(pl.col("init").fill_null("") == "")
    base = published.filter((pl.col("model") == "KoreALBERT-Base") & (pl.col("task") == "korsts"))
    assert base.select("metric", "value", "source").rows() == [("spearman", 81.2, "KoreALBERT Table III")]


def test_means_deviations_best_and_gain_are_shown(artifacts: Artifacts, report: Path) -> None:
    seeds = [84.3, 84.6, 87.0]
    html, text = (report / "report.html").read_text("utf-8"), (report / "report.md").read_text("utf-8")
    spread = f"{statistics.fmean(seeds):.2f} ± {statistics.stdev(seeds):.2f}"
    for document in (html, text):
        assert spread in document
        assert "best 87.00" in document
        assert "gain +6.50" in document
    assert "| **NSMC, accuracy** | **pretrained** | **85.30 ± 1.48** | **84.60** | **87.00** | **3** |" in text
    assert "monologg/KoELECTRA README" in text
    assert "Mixes Table I's" in text


def test_every_section_is_there_and_names_its_artifacts(artifacts: Artifacts, report: Path) -> None:
    html = (report / "report.html").read_text("utf-8")
    anchors = re.findall(r'<section id="([^"]+)">', html)
    assert anchors == [
        "outcome",
        "published",
        "learning",
        "corpus",
        "texts",
        "dropped",
        "removed",
        "vocabulary",
        "training-data",
        "costs",
        "lineage",
    ]
    assert re.findall(r'<a href="#([^"]+)"', html) == anchors
    assert {*re.findall(r'href="#([^"]+)"', html)} == {*anchors}, "the picture's boxes lead to sections that are there"
    for label, artifact in artifacts.items():
        assert artifact.name in html, label
        assert artifact.output_digest[:12] in html


def test_corpus_text_never_becomes_markup(report: Path) -> None:
    html = (report / "report.html").read_text("utf-8")
    assert "<script" not in html
    assert "&lt;script&gt;alert(&#x27;제목&#x27;)&lt;/script&gt;" in html.replace("/<wbr/>", "/")
    assert "<script" not in (report / "report.md").read_text("utf-8")
    for path in sorted((report / "figures").glob("*.svg")):
        root = ElementTree.fromstring(path.read_bytes())  # noqa: S314 - our own drawing
        assert not [element for element in root.iter() if element.tag.endswith("script")]
    categories = (report / "figures" / "categories.svg").read_text("utf-8")
    assert "정치" in categories
    assert "900k → 400k" in categories


def test_the_page_needs_no_network_and_no_script(report: Path) -> None:
    html = (report / "report.html").read_text("utf-8")
    assert not re.search(r"https?://|@import|url\(|<link|<img|<iframe| src=", html)
    assert "default-src &#x27;none&#x27;" in html
    assert "prefers-color-scheme:dark" in html
    assert 'name="viewport"' in html
    linked = re.findall(r"\((figures/[^)]+\.svg)\)", (report / "report.md").read_text("utf-8"))
    assert sorted(linked) == sorted(f"figures/{path.name}" for path in (report / "figures").iterdir())


def test_dropped_and_quarantined_documents_are_explained(report: Path) -> None:
    text = (report / "report.md").read_text("utf-8")
    assert "| extract/news | disambiguation | 2 | 5.3 % |" in text
    assert "| dedup | exact duplicate | 5 | 6.2 % | “가” · “나” |" in text
    assert "| extract/kowiki | invalid utf8 | 2 |" in text
    assert "dump.tar::AA/0, line 0" in text
    assert "secret/place" not in text
    assert "| nsmc-test | 12 | 2,345 |" in text


def test_a_reason_has_its_examples_whichever_shard_they_are_in(artifacts: Artifacts, tmp_path: Path) -> None:
    def shards(out: Path) -> dict[str, Any]:
        for index, (title, reason) in enumerate([("먼저", "exact_duplicate"), ("나중", "near_duplicate")]):
            with DocumentShard(out, index) as shard:
                shard.drop(Document(document_id("t", title), "t", "짧은 글", title=title), Drop(reason, "other"))
                if index:
                    shard.quarantine(Quarantined("/x/b.tar::b", "line 7", "text", "invalid_utf8", "고치세요"))
        counted = {"exact_duplicate": 1, "near_duplicate": 1}
        return {"documents_in": 3, "dropped": counted, "quarantined": 1, "quarantine_reasons": {"invalid_utf8": 1}}

    dedup = made(tmp_path / "store", "dedup", {"documents_out": 0}, write=shards)
    _, _, text = write({**artifacts, "dedup": dedup}, tmp_path / "out")
    assert "| dedup | exact duplicate | 1 | 33.3 % | “먼저” |" in text
    assert "| dedup | near duplicate | 1 | 33.3 % | “나중” |" in text
    assert "b.tar::b, line 7" in text


def test_noise_that_the_recipe_leaves_out_is_compared_with_nothing(artifacts: Artifacts, tmp_path: Path) -> None:
    facts = {"views": 2, "rows": 10, "mlm_rate": 0.15, "pieces": 100, "wop_rows": 0, "wop_portion": 0.0, "wop_rate": 0.0}
    facts |= {"wop_pieces": 0, "sop_rows": 0, "sop_swapped_share": 0.0}
    _, html, text = write({**artifacts, "views": made(tmp_path / "store", "views", facts)}, tmp_path / "out")
    assert "Rows with moved words (WOP)" in html
    assert "Pieces moved in those rows" not in html
    assert "Segments swapped" not in html
    assert "of 0 " not in text


def test_cleaning_is_shown_by_rule(report: Path) -> None:
    text = (report / "report.md").read_text("utf-8")
    assert "443 removals by 4 rules took out 8,642 characters of documents, kept or dropped" in text
    assert "| T7-empty | 240 | 240 | 0 |" in text
    assert "| space | 154 | 77 | 77 |" in text
    assert "Personal data masked, in spans" in text
    assert "| phone | 41 | 41 |" in text
    assert "| 분야 59 | 59 | 59 |" in text
    assert f"| 19 more | {sum(range(1, 20))} |" in text
    assert "Characters by source, after deduplication" in text
    assert "| dedup: exact duplicate | −5 | −3 | −2 |\n| after deduplication | 75 | 47 | 28 |" in text
    assert "Clusters of exact copies and near-duplicates, by size" in text and "| 6 to 10 | 1 | 5 |" in text


def test_titles_are_not_quoted_where_the_corpus_may_not_be_shown(artifacts: Artifacts, tmp_path: Path) -> None:
    _, html, _ = write(artifacts, tmp_path / "out", examples_per_reason=0)
    assert "넘겨주기" not in html
    assert "고치세요" not in html
    assert "redirect" in html


def test_a_script_in_the_title_stays_text(artifacts: Artifacts, tmp_path: Path) -> None:
    _, html, text = write({}, tmp_path / "out", title=SCRIPT)
    assert "<h1>&lt;script&gt;" in html
    assert "<script" not in html + text


@pytest.mark.parametrize("stages", [[], ["extract", "clean"], ["vocab", "pretrain"], ["finetune"], ["pretrain", "export"]])
def test_any_part_of_a_run_makes_a_report(artifacts: Artifacts, tmp_path: Path, stages: list[str]) -> None:
    part = {label: artifact for label, artifact in artifacts.items() if label.split("/")[0] in stages}
    stats, html, text = write(part, tmp_path / "out")
    assert "lineage" in stats["sections"]  # type: ignore[operator]
    assert set(stats["missing"]).isdisjoint(stages)  # type: ignore[call-overload]
    assert ("Not part of this run: " in html) == bool(stats["missing"]) == bool({"vocab", "pretrain", "finetune"} & {*stages})
    assert (tmp_path / "out" / "model-card.md").exists() == ("export" in stages)
    assert "NaN" not in html + text
    assert "None" not in html + text


def test_the_model_card_gets_the_scores(report: Path) -> None:
    card = (report / "model-card.md").read_text("utf-8")
    assert "## Fine-tuning" in card
    assert "85.30 ± 1.48" in card
    assert "layer" in card


def test_equal_inputs_give_equal_bytes_except_for_times_and_machines(
    artifacts: Artifacts, report: Path, tmp_path: Path
) -> None:
    (tmp_path / "again").mkdir()
    rebuilt = whole_run(tmp_path / "store")
    REPORT.run(ReportSpec(), dict(reversed(rebuilt.items())), tmp_path / "again", Runtime())
    files = sorted(path.relative_to(report) for path in report.rglob("*") if path.is_file())
    assert sum(len(name.parts) == 1 for name in files) == 4
    assert sum(name.parts[0] == "figures" for name in files) == 19
    manifest = artifacts["pretrain"].manifest
    for name in files:
        if not any(name.match(pattern) for pattern in MEASURED):
            assert (report / name).read_bytes() == (tmp_path / "again" / name).read_bytes()
            text = (report / name).read_text("utf-8")
            assert manifest["host"]["cpu"] not in text
            assert "987.6" not in text
        assert manifest["created"][:10] not in (report / name).read_text("utf-8")
        assert str(artifacts["pretrain"].path.parent) not in (report / name).read_text("utf-8")


def test_times_machines_throughput_and_costs_are_from_the_manifests(artifacts: Artifacts, report: Path) -> None:
    rows = {row["Stage"]: row for row in csv_rows(report / "tables" / "costs-time-and-cost-by-stage.csv")}
    built = ancestors(artifacts).values()
    labels = [str(artifact.manifest["label"]).split("/")[0] for artifact in built]
    assert {stage: int(row["Artifacts"]) for stage, row in rows.items()} == {**Counter(labels), "all": len(labels)}
    assert rows["all"]["Core-hours"] == core_hours([*built])
    noted: list[Any] = [SimpleNamespace(manifest=manifest) for manifest in ({"processor_seconds": 5400.0}, {})]
    assert [core_hours(noted[:1]), core_hours(noted), core_hours(noted[1:])] == ["1.5", "≥ 1.5", "–"]
    (training,) = csv_rows(report / "tables" / "costs-throughput-of-pretraining.csv")
    assert (training["Steps"], training["Tokens"], training["Tokens/s"]) == ("2,000", "16,000,000", "988")
    (machine,) = csv_rows(report / "tables" / "costs-machines.csv")
    host = artifacts["pretrain"].manifest["host"]
    assert machine["Cores"] == f"{host['cores']} × {host['cpu']}"
    assert "Core-hours" in (report / "report.html").read_text("utf-8")


def test_the_picture_has_every_artifact_in_a_box_below_its_inputs(artifacts: Artifacts, report: Path) -> None:
    picture = (report / "figures" / "lineage.svg").read_text("utf-8")
    heights = {
        label: float(y) for y, label in re.findall(r'y="([\d.]+)" class="value">(?:<title>[^<]+</title>)?([^<]+)<', picture)
    }
    order = ("extract/news", "clean/news", "dedup", "balance", "vocab", "examples", "views", "pretrain", "export")
    assert [heights[label] for label in order] == sorted(heights[label] for label in order)
    assert heights["finetune/nsmc/random"] > heights["export"], "three seeds are one stack"
    for label in order:
        assert artifacts[label].name in picture
    assert picture.count(">3 artifacts<") == 4
    assert 'href="../report.html#corpus"' in picture


def test_it_builds_as_a_stage_with_slashes_in_its_roles(tmp_path: Path) -> None:
    model = made(tmp_path, "export", {})
    inputs = {"finetune/nsmc/pretrained/1": cell(tmp_path, model, "nsmc", "pretrained", 1)}
    built = build(REPORT, ReportSpec(published=()), inputs, Runtime(store=tmp_path), label="report")
    assert built.artifact.stats["means"] == {"nsmc": {"pretrained": 84.3}}
    assert Store(tmp_path).damage(built.artifact) is None
    html = (built.artifact.path / "report.html").read_text("utf-8")
    assert "84.30" in html
    assert "published" not in re.findall(r'<section id="([^"]+)">', html)


@pytest.mark.parametrize(
    ("seeds", "headline", "warning"),
    [
        ((1,), "1 seed, which says nothing about other seeds", "One seed is too few: "),
        ((1, 2), "2 seeds, too few to know their spread", "Two seeds are too few to know their spread"),
        ((1, 2, 3), "(3 seeds", ""),
    ],
)
def test_few_seeds_get_a_warning(tmp_path: Path, seeds: tuple[int, ...], headline: str, warning: str) -> None:
    model = made(tmp_path, "export", {})
    cells = {f"finetune/nsmc/pretrained/{seed}": cell(tmp_path, model, "nsmc", "pretrained", seed) for seed in seeds}
    _, _, text = write(cells, tmp_path / "out")
    assert headline in text and warning in text
    assert ("too few" in text) == bool(warning)


def test_for_three_benchmarks_the_headline_says_where_pretraining_helps(tmp_path: Path) -> None:
    model = made(tmp_path, "export", {})
    benchmarks = []
    measured = (("nsmc", 1.0, 3.0, 0.01), ("korsts", -8.0, -2.0, 0.01), ("nsmc", -0.5, 2.5, 0.1), ("nsmc", 10.0, 70.0, 0.201))
    for task, low, high, p in measured:
        cells = {f"finetune/{task}/{init}/1": cell(tmp_path, model, task, init, 1) for init in ("pretrained", "random")}
        (one,) = scores.read(cells, {})
        pair = {"first": "random", "second": "pretrained", "difference": -(low + high) / 2, "interval": [-high, -low]}
        benchmarks.append(replace(one, summary={"comparisons": [{**pair, "p_value": p}]}))
    run = of_report.Artifacts({}, [])
    few = outcome.introduction(run, [benchmarks.pop()])
    assert "no clear difference from random weights" in few and "interval +10.00 to +70.00, p = 0.201)" in few
    introduction = outcome.introduction(run, benchmarks)
    better, worse, unclear = introduction.partition(" is ")[2].split("; ")
    assert re.fullmatch(r"better on NSMC \(accuracy [+−][\d.]+, \+1\.00 to \+3\.00\)", better)
    assert worse.startswith("worse on KorSTS (") and "−8.00 to −2.00)" in worse
    assert unclear.startswith("not clearly different on NSMC (") and unclear.endswith("−0.50 to +2.50).")
    assert outcome.introduction(run, benchmarks[:2]).count("random weights fine-tuned the same way") == 2


def test_scores_on_a_part_of_the_test_set_and_warnings_are_pointed_out(tmp_path: Path) -> None:
    model = made(tmp_path, "export", {})
    warning = "test: every prediction is 'positive'"
    one = cell(tmp_path, model, "nsmc", "random", 1, examples_test=2_000, warnings=[warning])
    _, _, text = write({"finetune/nsmc/random/1": one}, tmp_path / "out")
    assert "NSMC: tested on 2,000 of 50,000 examples of the official test set" in text
    assert f"| NSMC | {warning} | 1 |" in text
    assert "1 warning of fine-tuning" in text
    assert "**this run** | **2,000 of 50,000 examples** |" in text
    assert "NSMC: 77.80 accuracy" not in text
    assert "random, 1 seed; 2,000 of 50,000 examples" in text
    notes = [row["note"] for row in rows_of(tmp_path / "out") if row["init"]]
    assert notes == ["", "2,000 of 50,000 examples"]
    race = {"task": "race", "examples_test_official": 4_887}
    assert not part_tested(race | {"examples_test": 4_887}) and not part_tested(race | {"examples_test": 4_934}), "dev and test"
    assert part_tested(race | {"examples_test": 4_000}) == "4,000 of 4,887 examples"


def test_undefined_official_scores_are_marked_next_to_the_corrected_ones(tmp_path: Path) -> None:
    model = made(tmp_path, "export", {})
    why = "every prediction is the same"
    scores = {"spearman": 0.0, "pearson": 0.0}
    lost = {"test": scores, "test_corrected": scores, "undefined": dict.fromkeys(scores, why)}
    cells = {"finetune/korsts/pretrained/1": cell(tmp_path, model, "korsts", "pretrained", 1, **lost)}
    cells["finetune/korsts/pretrained/2"] = cell(tmp_path, model, "korsts", "pretrained", 2)
    cells["finetune/korsts/random/1"] = cell(tmp_path, model, "korsts", "random", 1, **lost)
    _, _, text = write(cells, tmp_path / "out")
    assert "KorSTS: Spearman undefined for 1 of 2 seeds on test." in text
    assert (
        f"KorSTS, Spearman: undefined by the official script, pretrained, seed 1: {why}; the corrected value is shown" in text
    )
    assert "| KorSTS, Spearman | random | undefined | 1 | 0.00 |" in text
    official = [row for row in rows_of(tmp_path / "out") if row["split"] == "test" and row["seed"] == "1"]
    assert {(row["value"], row["note"]) for row in official} == {("", f"undefined: {why}")}


def test_two_settings_of_one_task_are_not_mixed(tmp_path: Path) -> None:
    model = made(tmp_path, "export", {})
    cells = {"finetune/nsmc/pretrained/1": cell(tmp_path, model, "nsmc", "pretrained", 1)}
    cells["finetune/nsmc_short/pretrained/2"] = cell(tmp_path, model, "nsmc", "pretrained", 2)
    stats, _, text = write(cells, tmp_path / "out")
    assert set(stats["means"]) == {"nsmc", "nsmc_short"}  # type: ignore[call-overload]
    assert "NSMC (nsmc\\_short), accuracy" in text


def test_the_sizes_of_ngrams_are_drawn_where_there_are_any(tmp_path: Path) -> None:
    counts = {"views": 1, "ngrams_1": 6_500, "ngrams_2": 2_500, "ngrams_3": 1_000}
    views = made(tmp_path / "store", "views", counts, masking={"unit": "whole_word", "ngram_max": 3})
    alone = made(tmp_path / "store", "views", {"views": 1, "ngrams_1": 6_500}, masking={"unit": "whole_word", "ngram_max": 1})
    page, without = (write({"views": artifact}, tmp_path / name)[1] for name, artifact in (("a", views), ("b", alone)))
    assert "N-grams chosen for prediction, of 10,000: 1 word 65.0 %; 2 words 25.0 %; 3 words 10.0 %" in page
    assert "N-grams" not in without


def test_labels_with_digits_that_are_no_numbers_have_a_place(artifacts: Artifacts) -> None:
    """Circled and raised digits are digits to Unicode, but no number can be read from them."""
    run = dict.fromkeys(["clean/①", "clean/5²", "clean/10", "clean/9"], artifacts["clean/news"])
    assert list(of_report.Artifacts(run, []).by_label) == ["clean/5²", "clean/9", "clean/10", "clean/①"]


def test_an_unknown_published_table_is_refused_by_the_spec() -> None:
    with pytest.raises(ValidationError, match="no published table 'bert'"):
        ReportSpec(published=("bert",))


def test_retrieval_stands_in_one_table_with_bm25_and_in_the_csv(tmp_path: Path) -> None:
    def searched(label: str, per_query: list[float], relevant: int = 4, **facts: object) -> Artifact:
        def put(out: Path) -> None:
            columns = dict.fromkeys(METRICS, per_query)
            with ipc.new_file(str(out / "queries.arrow"), (found := pa.table(columns)).schema) as writer:
                writer.write(found)
            means = {name: sum(per_query) / 4 for name in METRICS}
            metrics = {"system": "vectors", "init": "pretrained", "split": "dev", "official": means, "corrected": means}
            sizes = {"documents": 1000, "queries": 4, "judgements": 9, "without_relevant": 4 - relevant}
            warnings = [] if relevant == 4 else ["1 queries have no relevant document"]
            (out / "metrics.json").write_text(json.dumps({**metrics, **sizes, "warnings": warnings, **facts}))

        return made(tmp_path / "store", label, {}, write=put)

    trained = {"title": "KLUE-NLI", "triples": 950, "held_out": 50, "left_out": 0, "accuracy": 90.0, "best_epoch": 1}
    artifacts = {
        "retrieval/toy/bm25-morphemes": searched("retrieval/toy/bm25-morphemes", [50, 60, 70, 40], 3),
        "retrieval/toy/klue/bm25-pieces": searched("retrieval/toy/klue/bm25-pieces", [40, 50, 60, 30], 3),
        "retrieval/toy/pretrained": searched("retrieval/toy/pretrained", [10, 20, 0, 0], 3),
        **{f"retrieval/toy/random/{n}": searched(f"retrieval/toy/random/{n}", [0, n, 0, 0], 3, init="random") for n in (4, 8)},
        "retrieval/toy/nli/pretrained/1": searched("retrieval/toy/nli/pretrained/1", [70, 80, 90, 60], 3),
        "bi_encoder/nli/pretrained/1": made(tmp_path / "store", "bi_encoder/nli/pretrained/1", trained),
    }
    _, page, text = write(artifacts, tmp_path / "out")
    assert "toy (dev): 1,000 documents, 4 queries, 9 judgements" in text
    assert "toy: 75.00 nDCG@10 by nli/pretrained; BM25, morphemes 55.00." in text
    rows = [re.split(r"\s*\|\s*", line.replace("*", ""))[1:-1] for line in text.splitlines() if "| " in line]
    header = next(row for row in rows if row[0] == "System")
    table = {row[0]: dict(zip(header, row, strict=True)) for row in rows if len(row) == len(header)}
    assert list(table)[2:] == ["nli/pretrained", "BM25, morphemes", "BM25, pieces of klue", "pretrained", "random"]
    assert table["nli/pretrained"]["Difference from the better BM25"] == "+20.00 (+20.00 to +20.00)"
    assert table["nli/pretrained"]["Trained on"] == "950 triples of KLUE-NLI"
    assert (table["random"]["nDCG@10"], table["random"]["Runs"]) == ("1.50 ± 0.71", "2")
    assert table["pretrained"]["Corrected"] == "7.50"
    assert "toy: 1 queries have no relevant document." in page
    found = [row for row in rows_of(tmp_path / "out") if row["split"] == "dev" and row["metric"] == "ndcg@10"]
    assert {(row["model"], row["init"], row["seed"], row["value"], row["note"]) for row in found} == {
        ("bm25-morphemes", "", "", "55.0", ""),
        ("klue/bm25-pieces", "", "", "45.0", ""),
        ("korealbert", "pretrained", "", "7.5", ""),
        ("korealbert", "random", "4", "1.0", ""),
        ("korealbert", "random", "8", "2.0", ""),
        ("nli/pretrained", "", "1", "75.0", "950 triples of KLUE-NLI"),
    }


def test_undefined_scores_of_dev_and_of_onnx_and_differences_from_them_are_absent(tmp_path: Path) -> None:
    model = made(tmp_path, "export", {})
    why = "every prediction is the same"
    constant, fine = {"spearman": 0.0, "pearson": 0.0}, {"spearman": 7.0, "pearson": 8.0}
    lost = {"dev": constant, "test": constant, "test_corrected": constant, "undefined": dict.fromkeys(constant, why)}
    lost |= {"warnings": [f"{split}: {why}: correlations are set to 0" for split in ("dev", "test")]}
    lost |= {"test_onnx_fp32": constant, "test_onnx_int8": fine, "epochs": [{"epoch": 1, **constant}]}
    defined = {"test": fine, "test_onnx_fp32": fine, "test_onnx_int8": constant}
    pair = {"first": "pretrained", "second": "random", "difference": -7.0, "interval": [-9.0, -5.0], "p_value": 0.001}
    systems = {name: {"scores": {"1": 0.0}, "interval": [1.25, 2.5]} for name in ("pretrained", "random")}

    def summary(out: Path) -> None:
        (out / "summary.json").write_text(json.dumps({"systems": systems, "comparisons": [pair]}))

    cells = {
        "finetune/korsts/pretrained/1": cell(tmp_path, model, "korsts", "pretrained", 1, **lost),
        "finetune/korsts/random/1": cell(tmp_path, model, "korsts", "random", 1, **defined),
        "summary/korsts": made(tmp_path, "summary/korsts", {}, write=summary),
    }
    stats, page, text = write(cells, tmp_path / "out")
    assert "| KorSTS, Spearman | pretrained | undefined | undefined | – | 7.00 |" in text
    assert "| KorSTS, Spearman | random | 7.00 | 7.00 | +0.00 | undefined |" in text
    assert f"KorSTS, Spearman, ONNX int8: undefined by the official script, random, seed 1: {why}." in text
    assert "| KorSTS, Spearman | pretrained minus random | undefined |" in text
    assert "−7.00" not in text and "1.25 to 2.50" in text and text.count("1.25 to 2.50") == 1, "random alone has an interval"
    assert "gain −" not in text and "gain +" not in text
    assert "; random 7.00" in text and "pretrained undefined at the end" in page
    assert stats["means"] == {"korsts": {"random": 7.0}}
    rows = {
        (r["init"], r["split"]): (r["value"], r["note"])
        for r in rows_of(tmp_path / "out")
        if r["metric"] == "pearson" and r["init"]
    }
    nothing = ("", f"undefined: {why}")
    undefined = {("pretrained", "dev"), ("pretrained", "test"), ("pretrained", "test_onnx_fp32"), ("random", "test_onnx_int8")}
    assert {place for place, found in rows.items() if found == nothing} == undefined
    assert rows["pretrained", "test_corrected"] == ("0.0", "") and rows["pretrained", "test_onnx_int8"] == ("8.0", "")
