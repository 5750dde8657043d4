"""Leaderboards, error analysis, Table IV and files of tables show the right numbers."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import ValidationError

from korealbert.artifact import Artifact, Runtime
from korealbert.documents.shards import TableWriter
from korealbert.finetune import tasks
from korealbert.finetune.task import Example
from korealbert.recipe.registry import REPORT
from korealbert.report import scores
from korealbert.report.artifacts import Artifacts
from korealbert.report.render import charts
from korealbert.report.render import text as markdown
from korealbert.report.render.blocks import Figure, Figures, Fold, Section, Table, Text
from korealbert.report.render.text import table_files
from korealbert.report.render.writer import write_report
from korealbert.report.sections import benchmarks, learning
from korealbert.report.sections.printed_table import PrintedTable, section
from korealbert.report.stage import ReportSpec
from tests.report.conftest import cell, made

SCORES = {"entity_micro_f1": 80.0, "challenge_f1": 79.0, "accuracy": 95.0, "accuracy_entities": 78.0}
GOLD = [["B-PER", "O", "B-NUM", "I-NUM"], ["O", "B-NUM"], ["B-ORG", "I-ORG"]]


def ner_cell(store: Path, model: Artifact, system: str, seed: int, **changes: Any) -> tuple[str, Artifact]:
    root, _, init = system.rpartition("/")
    label = "/".join(part for part in ("finetune", root, "naver_ner", init, str(seed)) if part)
    test = {name: value + seed - (9 if init == "random" else 0) for name, value in SCORES.items()}
    metrics = {
        **{"task": "naver_ner", "title": "NaverNER", "init": init, "seed": seed, "metric": "entity_micro_f1"},
        **{"dev": test, "test": test, "epochs": [], "best_epoch": 1, "warnings": [], "parameters": 5},
        "test_corrected": {name: value + 1 for name, value in test.items()},
        "test_oracle": dict.fromkeys(test, 99.5),
        **{"examples_train": 9, "examples_dev": 3, "examples_test": 9_000, "examples_test_official": 9_000},
        **changes,
    }
    distribution = {"NUM": {"NUM": 90, "DAT": 9, "O": 1}, "O": {"O": 500}, "PER": {"ORG": 3, "PER": 1}}
    counts = [[0, 0, 0, 0], [9, 90, 1, 0], [0, 0, 500, 0], [0, 0, 0, 1]]
    hard = {
        "id": "7",
        "text": "김구 선생은 <b>24</b>일",
        "pair": None,
        "gold": ["B-PER", "O"],
        "pred": ["O", "O"],
        "loss": 4.25,
    }
    analysis = {
        **{"unit": "eojeols", "dist": distribution, "listed": None, "hardest": [hard, {**hard, "id": "8"}]},
        "confusion": {"labels": ["DAT", "NUM", "O", "PER"], "counts": counts},
    }

    def write(out: Path) -> None:
        (out / "metrics.json").write_text(json.dumps(metrics))
        (out / "analysis.json").write_text(json.dumps(analysis))
        kind = tasks.load("naver_ner").prediction_type
        with TableWriter(out / "predictions.arrow", schema_of(kind)) as table:
            for number, tags in enumerate(GOLD):
                table.append((str(number), tags, tags))

    return label, made(store, label, {}, {"model": model}, write, seed=seed, task="naver_ner")


def schema_of(kind: Any) -> Any:
    return pa.schema([("id", pa.string()), ("gold", kind), ("pred", kind)])


@pytest.fixture(scope="module")
def run_of(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Artifact]:
    """Three systems with some seeds each, their summary and the features."""
    store = tmp_path_factory.mktemp("store")
    model = made(store, "export", {})
    run_of = dict(
        ner_cell(store, model, system, seed)
        for system in ("pretrained", "random", "klue-bert/pretrained")
        for seed in (1, 2, 3)
    )
    pair = {"first": "pretrained", "second": "random", "difference": 9.0, "interval": [7.5, 10.25], "p_value": 0.0001}
    systems: dict[str, Any] = {
        "pretrained": {"interval": [80.5, 83.25]},
        "random": {"interval": None},
        "klue-bert/pretrained": {},
    }
    systems = {name: {**found, "scores": {"1": 80.0, "2": 81.0}} for name, found in systems.items()}
    summary = {"systems": systems, "comparisons": [pair], "confidence": 0.9}

    def write(path: Path) -> None:
        (path / "summary.json").write_text(json.dumps(summary))

    run_of["summary/naver_ner"] = made(store, "summary/naver_ner", {}, {}, write)
    counted = tasks.load("naver_ner").gold_counts([Example(str(n), "", tags) for n, tags in enumerate(GOLD)])
    sizes = {"task": "naver_ner", "examples_train": 5, "examples_dev": 1, "examples_test": 3}
    run_of["features/naver_ner"] = made(store, "features/naver_ner", {**sizes, **counted})
    return run_of


@pytest.fixture(scope="module")
def report(run_of: dict[str, Artifact], tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("report")
    REPORT.run(ReportSpec(), run_of, out, Runtime())
    return out


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_a_leaderboard_has_ours_first_and_the_published_folded_below(report: Path) -> None:
    board = rows(report / "tables" / "published-naverner-entity-micro-f1.csv")
    ours = board
    assert [row["Model"] for row in ours] == ["pretrained", "klue-bert/pretrained", "random"]
    assert ours[0] == {
        **{"Model": "pretrained", "Score": "82.00 ± 1.00", "90 % interval": "80.50 to 83.25", "Median": "82.00"},
        **{"Best": "83.00", "Seeds": "3", "Corrected": "83.00", "Oracle": "99.50", "Source": "this run"},
    }
    assert ours[2]["90 % interval"] == ""
    theirs = rows(report / "tables" / "published-naverner-entity-micro-f1-published.csv")
    assert {row["Source"] for row in theirs} == {"monologg/KoELECTRA README"}
    for part in (ours, theirs):
        scores = [float(row["Score"].split(" ")[0]) for row in part]
        assert scores == sorted(scores, reverse=True)
    html = (report / "report.html").read_text("utf-8")
    board_html, published_html = (html.index(f'aria-label="NaverNER, entity_micro_f1{end}"') for end in ("", ", published"))
    assert board_html < html.index("<details>", board_html) < published_html < html.index("</details>", board_html)
    text = (report / "report.md").read_text("utf-8")
    assert "Not comparable with ours: The paper prints “acc”" in text


def test_differences_between_systems_have_an_interval_and_p(report: Path) -> None:
    (row,) = rows(report / "tables" / "outcome-differences-between-systems-test.csv")
    assert "Two seeds are too few" in (report / "report.md").read_text("utf-8")
    assert row == {
        **{"Benchmark": "NaverNER, entity_micro_f1", "Systems": "pretrained minus random", "Difference": "+9.00"},
        **{"Interval": "+7.50 to +10.25", "p": "<0.001"},
    }


@pytest.mark.parametrize(
    ("pairs", "parts"),
    [
        ({(3, 3)}, ["(Student's t)"]),
        ({(1, 1)}, ["between single seeds cover other test examples"]),
        ({(1, 3)}, ["(Student's t)", "A single seed is assumed to vary"]),
        ({(2, 5), (1, 1)}, ["(Student's t)", "between single seeds", "Of unequal numbers of seeds", "Two seeds are too few"]),
    ],
)
def test_what_an_interval_is_over_depends_on_the_numbers_of_seeds(pairs: set[tuple[int, int]], parts: list[str]) -> None:
    sentences = benchmarks.about_seeds(pairs).split(". ")
    assert len(sentences) == len(parts)
    assert all(part in sentence for part, sentence in zip(parts, sentences, strict=True))


def test_corrected_and_oracle_scores_of_every_cell_stand_in_the_csv(report: Path) -> None:
    found = rows(report / "scores.csv")
    own = [row for row in found if row["split"] == "test_corrected" and row["model"] == "korealbert" and row["seed"] == "2"]
    assert {row["metric"]: float(row["value"]) for row in own if row["init"] == "pretrained"} == {
        name: value + 3 for name, value in SCORES.items()
    }
    assert any(row["model"] == "klue-bert/pretrained" and row["split"] == "test_oracle" for row in found)


def test_errors_are_those_of_the_cell_that_was_best_on_dev(report: Path) -> None:
    table = rows(report / "tables" / "errors-naverner-predictions-by-gold-label-pretrained-seed-3.csv")
    assert table[0] == {
        **{"Gold": "NUM", "Eojeols": "100", "Correct": "90.0 %"},
        "Predicted labels, most frequent first": "NUM 90, DAT 9, O 1",
    }
    html = (report / "report.html").read_text("utf-8").replace("/<wbr/>", "/")
    assert "&lt;b&gt;24&lt;/b&gt;" in html and "<b>" not in html
    drawn = (report / "figures" / "confusion-naver-ner.svg").read_text("utf-8")
    assert "NUM → DAT: 9 (9.0 %)" in drawn


ENCODERS = [f"e{number}/pretrained" for number in range(7)]


@pytest.mark.parametrize(("systems", "lines"), [(ENCODERS, [6, 1]), (["random", "e1/pretrained"], [2])])
def test_every_encoder_has_a_line_of_its_own_and_errors_name_the_best(
    systems: list[str], lines: list[int], tmp_path: Path
) -> None:
    model = made(tmp_path, "export", {})
    run_of = {}
    for number, system in enumerate(systems):
        epochs = [{"epoch": epoch, "entity_micro_f1": 60.0 + number} for epoch in (1, 2)]
        test = {metric: value + number for metric, value in SCORES.items()}
        label, artifact = ner_cell(tmp_path, model, system, 1, test=test, epochs=epochs)
        run_of[label] = artifact
    measured = scores.read(run_of, {})
    curves = learning.section(Artifacts(run_of, ()), measured)
    assert curves is not None and isinstance(curves.blocks[1], Figures)
    drawn = curves.blocks[1].figures
    assert [figure.name for figure in drawn] == ["finetune-naver_ner"] * len(lines)
    assert [len({*re.findall(r'class="(line-\d)" d=', figure.svg.standalone(""))}) for figure in drawn] == lines
    for number, system in enumerate(systems):
        assert f"{system} {60 + number}.00 at the end" in drawn[number // 6].svg.label
    errors = benchmarks.errors(measured, 1)
    assert errors is not None
    best = "random" if "random" in systems else systems[-1]
    assert f"predictions by gold label, {best}, seed 1" in markdown.markdown("", "", [errors])


def test_labels_that_are_numbers_are_named_or_explained() -> None:
    assert benchmarks._label_name(tasks.load("nsmc"), 1) == "positive"
    assert benchmarks._label_name(tasks.load("korsts"), 2.5) == 2.5
    assert tasks.load("korsts").about_labels == "1 is a score of 3 or more, 0 one below."


def test_entity_types_are_counted_over_all_splits_beside_table_iv(report: Path) -> None:
    (path,) = (report / "tables").glob("*entity-types-in-the-data*.csv")
    table = {row["Type"]: row for row in rows(path)}
    assert len(table) == 14
    assert table["NUM"] == {
        **{"Type": "NUM", "Entities": "2", "Tags": "3", "Share of tags": "50.0 %"},
        **{"Printed": "64,876", "Share printed": "19.4 %"},
    }
    assert table["MAT"]["Tags"] == "0"
    assert "Counted over all 9 sentences: 5 train, 1 dev, 3 test." in (report / "report.md").read_text("utf-8")


def test_limits_on_the_sentences_of_table_iv_are_named(tmp_path: Path) -> None:
    counted = {"task": "naver_ner", "examples_train": 5, "tags": {"NUM": 3}, "entities": {"NUM": 2}}
    limited = made(tmp_path, "features/naver_ner", counted, max_train_examples=5)
    _, text = benchmarks.entity_types(Artifacts({"features/naver_ner": limited}, ()))
    assert isinstance(text, Text) and text.text.startswith("Counted over 5 sentences, as max_train_examples = 5: 5 train.")


def test_an_entity_begins_with_b_or_with_an_i_that_continues_none_of_its_type() -> None:
    sentences = [["I-PER", "I-PER", "B-PER", "I-ORG"], ["O", "B-NUM", "O", "I-NUM"]]
    examples = [Example(str(n), "", tags) for n, tags in enumerate(sentences)]
    assert tasks.load("naver_ner").gold_counts(examples) == {
        "tags": {"PER": 3, "ORG": 1, "NUM": 2},
        "entities": {"PER": 2, "ORG": 1, "NUM": 2},
    }
    assert tasks.load("nsmc").gold_counts([Example("1", "", 0)]) == {}


TABLE_3 = {
    "printed": {"table": "korealbert", "source": "KoreALBERT Table III"},
    "rows": [
        {"model": "KoBERT", "encoder": "klue-bert", "shape": "KoBERT"},
        {"model": "ETRI-BERT"},
        {"model": "KoreALBERT-Base", "encoder": "pretrained"},
    ],
    "columns": [
        {"title": "Parameters", "training": "parameters", "printed": ["params", "count"]},
        {"title": "Speed", "training": "speedup", "printed": ["speed", "speedup"]},
        {"title": "NER", "benchmark": "naver_ner", "metric": "accuracy_entities", "printed": ["NER", "acc"]},
        {"title": "F1", "benchmark": "naver_ner"},
        {"title": "Avg", "average": [["NER"], ["F1"]], "printed": ["avg6", "avg"]},
    ],
}


def test_a_printed_table_has_ours_above_the_printed_and_the_printed_alone(run_of: dict[str, Artifact], tmp_path: Path) -> None:
    shapes = json.dumps({"rows": {"KoBERT": {"speedup": 1.234}}})
    more = {
        "speed": made(tmp_path, "speed", {}, write=lambda out: (out / "speed.json").write_text(shapes) and None),
        "encoder/klue-bert": made(
            tmp_path, "encoder/klue-bert", {"model_type": "bert", "parameters": 110_617_344, "pieces": 9, "longest_input": 9}
        ),
    }
    artifacts = Artifacts({**run_of, **more}, ())
    found = section(PrintedTable.model_validate(TABLE_3), artifacts, scores.read(artifacts.of("finetune"), {}))
    table = found.blocks[0]
    assert isinstance(table, Table)
    assert [row[:2] for row in table.rows] == [
        *(["KoBERT", "klue-bert"], ["", "printed"], ["ETRI-BERT", "printed"], ["KoreALBERT-Base", "ours"], ["", "printed"]),
    ]
    ours, printed, alone, own, _ = (row[2:] for row in table.rows)
    assert ours[:2] == ["111M", "1.23×"] and printed == ["92M", "1.2x", "82.1", "–", "85.2"]
    assert alone == ["110M", "–", "82.5", "–", "86.6"]
    shape = {**TABLE_3, "rows": [{"model": "KoBERT", "shape": "KoBERT"}]}
    without = section(PrintedTable.model_validate(shape), artifacts, []).blocks[0]
    assert isinstance(without, Table)
    assert [row[:4] for row in without.rows] == [["KoBERT", "its shape", "–", "1.23×"], ["", "printed", "92M", "1.2x"]]
    assert own[0] == "–" and all(text != "–" for text in (ours[2], own[2], own[4]))
    means = [float(text.split(" ")[0]) for text in own[2:]]
    assert means[2] == pytest.approx((means[0] + means[1]) / 2, abs=0.01)


def test_a_column_of_random_weights_shows_their_scores_and_an_average_reads_each_columns_weights(
    run_of: dict[str, Artifact],
) -> None:
    columns = [
        {"title": "F1", "benchmark": "naver_ner"},
        {"title": "Random", "benchmark": "naver_ner", "init": "random"},
        {"title": "Both", "average": [["F1", "Random"]]},
    ]
    spec = {**TABLE_3, "columns": columns, "printed": {**TABLE_3["printed"], "statistic": "median"}}  # type: ignore[dict-item]
    artifacts = Artifacts(run_of, ())
    table = section(PrintedTable.model_validate(spec), artifacts, scores.read(artifacts.of("finetune"), {})).blocks[0]
    assert isinstance(table, Table)
    found = {(row[0], row[1]): row[2:] for row in table.rows}
    assert found["KoreALBERT-Base", "ours"] == ["82.00 ± 1.00", "73.00 ± 1.00", "77.50"]
    assert found["KoBERT", "klue-bert"] == ["82.00 ± 1.00", "–", "–"], "it was not measured from random weights"
    assert [row[2:] for row in table.rows if row[1] == "median"] == [["82.00", "–", "–"], ["82.00", "73.00", "77.50"]]


def test_a_printed_table_reads_other_tables_and_has_medians_and_names_other_metrics(run_of: dict[str, Artifact]) -> None:
    artifacts = Artifacts(run_of, ())
    benchmarks = scores.read(artifacts.of("finetune"), {})
    printed = {**TABLE_3["printed"], "statistic": "median"}
    found = section(PrintedTable.model_validate({**TABLE_3, "printed": printed}), artifacts, benchmarks)
    table, _, note = found.blocks
    assert isinstance(table, Table) and isinstance(note, Text)
    middle = next(row for row in table.rows if row[1] == "median")
    (naver,) = (benchmark for benchmark in benchmarks if benchmark.name == "naver_ner")
    assert middle[5] == f"{np.median(naver.values('klue-bert/pretrained')):.2f}"
    assert note.text == (
        "NER: ours is accuracy_entities of NaverNER, the printed number is called 'acc' of 'NER'; the difference is in Avg too."
    )
    albert = {
        "printed": {"table": "albert", "source": "ALBERT Table 2"},
        "rows": [{"model": "BERT-large"}],
        "columns": [{"title": "Size", "training": "parameters", "printed": ["config", "params"], "source": "ALBERT Table 1"}],
    }
    (row,) = section(PrintedTable.model_validate(albert), artifacts, benchmarks).blocks[0].rows  # type: ignore[union-attr]
    assert row[2] == "334M"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"rows": [{"model": "GPT"}]}, "'GPT' matches 0 models of KoreALBERT Table III"),
        ({"columns": [{"title": "a", "heldout": "mlm"}]}, "a report of encoders has no such numbers"),
        ({"columns": [{"title": "a", "benchmark": "nsmc", "printed": ["NSMC", "f1"]}]}, "is not in the published table"),
        ({"columns": [{"title": "a", "average": [["b"]]}]}, "averages 'b'"),
    ],
)
def test_an_impossible_printed_table_is_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        PrintedTable.model_validate({**TABLE_3, **change})


def test_every_table_has_its_three_files(report: Path) -> None:
    names = {path.stem for path in (report / "tables").iterdir()}
    for name in names:
        assert {path.suffix for path in (report / "tables").glob(f"{name}.*")} == {".csv", ".md", ".tex"}
    markdown = (report / "report.md").read_text("utf-8")
    for path in (report / "tables").glob("*.md"):
        assert path.read_text("utf-8").strip() in markdown


def test_tables_of_one_title_and_tables_without_letters_get_names_of_their_own() -> None:
    table = Table("점수", ["가"], [["1"]])
    made_files = dict(table_files([Section("a", "A", [table, Fold("more", [table, Table("Two, 2!", ["x"], [])])])]))
    assert sorted({name.rpartition(".")[0] for name in made_files}) == ["a-table", "a-table-2", "a-two-2"]


@pytest.mark.parametrize(
    ("names", "files"),
    [
        (["scores-" + "감성 분석" * 20, "scores-감성 분석", "scores-my set"], ["scores", "scores-2", "scores-my-set"]),
        (["finetune-nsmc", "finetune-nsmc", "finetune-nsmc-2"], ["finetune-nsmc", "finetune-nsmc-2", "finetune-nsmc-2-2"]),
        (["language-loss-glue_rte/mean", "a/../b"], ["language-loss-glue-rte-mean", "a-b"]),
        (["x" * 300], ["x" * 60]),
    ],
)
def test_every_drawing_has_a_file_of_its_own_that_the_markdown_shows(
    tmp_path: Path, names: list[str], files: list[str]
) -> None:
    first, *others = (Figure(name, name, charts.bars([], label=name)) for name in names)
    sections = [Section("a", "A", [Figures([first]), Fold("more", [Figures(others)])])]
    assert write_report(tmp_path, "t", "", sections, {}, Runtime()) == len(names)
    assert {path.stem for path in (tmp_path / "figures").iterdir()} == {*files}
    assert re.findall(r"\]\(figures/(.*)\.svg\)", (tmp_path / "report.md").read_text("utf-8")) == files


def test_latex_prints_what_the_table_says() -> None:
    table = Table("50 % of A_b", ["Model", "{x}"], [["a & b", "1 ± 2"], ["[SEP]", "−3"]], frozenset({1}), marked=frozenset({0}))
    assert markdown.latex(table, "t").splitlines()[2:] == [
        r"\caption{50 \% of A\_b}",
        r"\label{tab:t}",
        r"\begin{tabular}{@{}lr@{}}",
        r"\toprule",
        r"Model & \{x\} \\",
        r"\midrule",
        r"\textbf{a \& b} & \textbf{1 $\pm$ 2} \\",
        r"{}[SEP] & $-$3 \\",
        r"\bottomrule",
        r"\end{tabular}",
        r"\end{table}",
    ]


def test_latex_scales_tables_that_are_wider_than_a_page() -> None:
    header = [f"Metric {number}" for number in range(10)]
    lines = markdown.latex(Table("t", header, [["1"] * 10]), "t").splitlines()
    assert (lines[4], lines[-2]) == (r"\resizebox{\textwidth}{!}{%", r"\end{tabular}}")
    assert not any("resizebox" in line for line in markdown.latex(Table("t", header[:5], [["1"] * 5]), "t").splitlines())


def test_latex_joins_no_characters_and_eats_none() -> None:
    table = Table("t", ["", "Set"], [["a", "--steps 3 – 4"], ["* b", "``''"]])
    assert markdown.latex(table, "t").splitlines()[8:10] == [r"a & -{}-steps 3 -- 4 \\", r"{}* b & `{}`'{}' \\"]


@given(st.text())
@example("--")
def test_no_text_escapes_from_latex(text: str) -> None:
    escaped = markdown.latex_text(text)
    plain = escaped
    for written in sorted((*markdown.LATEX_SPECIAL.values(), "{}"), key=len, reverse=True):
        plain = plain.replace(written, "")
    assert not set(plain) & set("\\{}&%$#_~^<>|\n\r\t")


@pytest.mark.real
def test_table_iv_is_ten_times_the_test_part(real_data: Path) -> None:
    from korealbert.documents.benchmark_files import BenchmarkFile

    examples = tasks.load("naver_ner").read(BenchmarkFile(real_data / "benchmarks/naver_ner.tar.zst", "naver_ner/test.tsv"))
    counts = tasks.load("naver_ner").gold_counts(examples)["tags"]
    total = sum(counts.values())
    printed = benchmarks.printed_counts()
    assert set(counts) == set(printed)
    for kind, number in printed.items():
        assert counts[kind] / total == pytest.approx(number / sum(printed.values()), abs=0.005)


def test_a_bi_encoder_never_stands_beside_cross_encoders_and_every_table_names_the_head(tmp_path: Path) -> None:
    model = made(tmp_path, "export", {})
    heads = {"nsmc": "mean", "korsts": "bi-encoder"}
    run_of = {
        f"finetune/{task}/{init}/{seed}": cell(tmp_path, model, task, init, seed, head=head)
        for task, head in heads.items()
        for init in ("pretrained", "random")
        for seed in (1, 2)
    }
    before = {"contrast": {"title": "KorNLI"}, "head": "bi-encoder"}
    run_of["finetune/korsts_triples/pretrained/1"] = cell(tmp_path, model, "korsts", "pretrained", 4, **before)
    run_of["finetune/korsts_cross/pretrained/1"] = cell(tmp_path, model, "korsts", "pretrained", 3)
    out = tmp_path / "report"
    out.mkdir()
    REPORT.run(ReportSpec(), run_of, out, Runtime())
    board = rows(out / "tables" / "published-korsts-bi-encoder-spearman.csv")
    assert {row["Source"] for row in board} == {"this run"}
    assert rows(out / "tables" / "published-korsts-korsts-cross-spearman-published.csv")
    assert not list((out / "tables").glob("published-korsts-bi-encoder-*-published.csv"))
    mixed = rows(out / "tables" / "published-nsmc-mean-pooling-accuracy.csv")
    assert {row["Note"] for row in mixed if row["Source"] == "this run"} == {"mean pooling"}
    beside = rows(out / "tables" / "published-nsmc-mean-pooling-accuracy-published.csv")
    assert beside, "one input and one vector, as the published models"
    scores = rows(out / "scores.csv")
    published = {row["task"] for row in scores if row["init"] == ""}
    assert published == {"nsmc", "korsts"}
    assert {(row["task"], row["note"]) for row in scores if row["init"]} == {
        *(("nsmc/mean", "mean pooling"), ("korsts/bi-encoder", "bi-encoder"), ("korsts", "")),
        ("korsts/bi-encoder", "bi-encoder after KorNLI triples"),
    }
    assert {row["benchmark"] for row in scores if row["init"] == "" and row["task"] == "korsts"} == {"korsts_cross"}
    text = (out / "report.md").read_text("utf-8")
    trained_before = "KorSTS (korsts\\_triples), bi-encoder after KorNLI triples"
    assert f"its scores are not compared with them: KorSTS, bi-encoder; {trained_before}." in text
    tables = list((out / "tables").glob("*.csv"))
    named = {row["Benchmark"] for path in tables for row in rows(path) if "Benchmark" in row}
    assert named == {
        *("NSMC, mean pooling, accuracy", "KorSTS, bi-encoder, Spearman", "KorSTS, bi-encoder, Pearson"),
        *(f"KorSTS (korsts_triples), bi-encoder after KorNLI triples{metric}" for metric in ("", ", Spearman", ", Pearson")),
        *("KorSTS (korsts_cross), Spearman", "KorSTS (korsts_cross), Pearson"),
        *("NSMC, mean pooling", "KorSTS, bi-encoder", "KorSTS (korsts_cross)"),
    }
    (settings,) = (rows(path) for path in tables if "Head" in path.read_text("utf-8").split("\n")[0].split(","))
    assert {row["Benchmark"]: row["Head"] for row in settings} == {
        **{"NSMC, mean pooling": "mean pooling", "KorSTS, bi-encoder": "bi-encoder", "KorSTS (korsts_cross)": "own"},
        "KorSTS (korsts_triples), bi-encoder after KorNLI triples": "bi-encoder after KorNLI triples",
    }
