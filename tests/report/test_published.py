"""Published scores are complete, have sources, and are only compared with scores of the same measure."""

from __future__ import annotations

import tomllib
from importlib.resources import files

import polars as pl
import pytest

from korealbert.finetune import tasks
from korealbert.finetune.task_types.sequence import SequenceClassification, SequenceRegression
from korealbert.report import published
from korealbert.report.sections.benchmarks import as_printed


def test_every_published_score_has_a_source() -> None:
    assert published.tables() == ["albert", "ax_encoder", "klue_readme", "koelectra_readme", "korealbert", "xpt"]
    frames = {name: published.load(name) for name in published.tables()}
    assert sum(frame.height for frame in frames.values()) == 1_364
    for frame in frames.values():
        assert frame.columns == [*published.COLUMNS, "number", "note", "noted"]
        for column in published.COLUMNS:
            assert frame[column].str.strip_chars().str.len_chars().min() > 0, column  # type: ignore[operator]
            assert frame[column].null_count() == 0, column
        assert frame["number"].null_count() < frame.height / 2


def test_numbers_are_as_printed_and_sizes_are_no_scores() -> None:
    frame = published.load("korealbert")
    base = frame.filter((pl.col("model") == "KoreALBERT-Base") & (pl.col("task") == "NSMC"))
    assert base.select("value", "number", "source").rows() == [("89.6", 89.6, "KoreALBERT Table III")]
    assert frame.filter(pl.col("value") == "12M")["number"].to_list() == [None]


def test_only_the_same_task_metric_and_definition_are_comparable() -> None:
    every = published.tables()
    nsmc = published.comparable("nsmc", "accuracy", every)
    assert set(nsmc["task"]) == {"NSMC"} and set(nsmc["metric"]) == {"acc"}
    assert nsmc["number"].to_list() == sorted(nsmc["number"], reverse=True)
    assert set(published.comparable("nsmc", "accuracy", ["korealbert"])["source"].str.head(10)) == {"KoreALBERT"}
    # KLUE's script averages over O too, the Language Chameleon paper does not; both print char_f1.
    for metric, source in (("char_f1_all13", "KLUE README"), ("char_f1_no_O", "LanguageChameleon")):
        assert all(name.startswith(source) for name in published.comparable("klue_ner", metric, every)["source"])
    assert set(published.comparable("ynat", "macro_f1", every)["task"]) == {"KLUE-TC", "YNAT"}
    assert published.comparable("korsts", "pearson", every).height == 0
    assert published.comparable("naver_ner", "accuracy_entities", every).height == 0
    assert "acc" not in published.comparable("naver_ner", "entity_micro_f1", every)["metric"].to_list()
    assert published.comparable("nsmc", "accuracy", []).height == 0


def test_kobest_stands_beside_the_model_card_of_ax_encoder() -> None:
    tables = ["ax_encoder"]
    printed = {
        task: published.comparable(f"kobest_{task}", "macro_f1", tables) for task in ("boolq", "copa", "sentineg", "wic")
    }
    best = [float(frame["number"][0]) for frame in printed.values()]
    assert best == [84.5, 78.7, 96.0, 80.8] and {frame["model"][0] for frame in printed.values()} == {"skt/A.X-Encoder-base"}
    average = published.load("ax_encoder").filter(
        pl.col("note").str.contains(f"The mean of its four scores is {sum(best) / 4:.2f}.")
    )
    assert average.select("value", "metric").rows() == [("85.50", "avg")]
    assert not published.comparable("kobest_hellaswag", "macro_f1", tables).height


def test_koelectra_question_pairs_are_the_pairs_of_pd() -> None:
    """Its files are songys/Question_pair's byte for byte; of 688 pairs, the older split, no printed score is a share."""
    printed = published.comparable("pd", "accuracy", ["koelectra_readme"])["number"].to_list()
    assert len(printed) == 10
    shares = {pairs: {round(100 * right / pairs, 2) for right in range(pairs + 1)} for pairs in (758, 688)}
    assert shares[758] >= set(printed) and not shares[688] & set(printed)


def test_every_match_names_a_task_a_metric_and_a_column_that_exist() -> None:
    directory = files("korealbert.report") / "published"
    matches = tomllib.loads((directory / "matches.toml").read_text("utf-8"))
    taken: set[tuple[str, ...]] = set()
    for task, metrics in matches.items():
        assert task in tasks.names()
        for metric, columns in metrics.items():
            assert metric in SCORED[task], (task, metric)
            for table, printed_task, printed_metric in columns:
                frame = published.load(table)
                assert frame.filter((pl.col("task") == printed_task) & (pl.col("metric") == printed_metric)).height
                assert (table, printed_task, printed_metric) not in taken
                taken.add((table, printed_task, printed_metric))
    for column in tomllib.loads((directory / "misprints.toml").read_text("utf-8"))["not_comparable"]:
        assert column["task"] in tasks.names()
        assert (column["table"], *column["published"]) not in taken


SCORED = {
    **{
        name: set(task.measures)
        for name in tasks.names()
        if isinstance(task := tasks.load(name), SequenceClassification | SequenceRegression)
    },
    "naver_ner": {"entity_micro_f1", "challenge_f1", "accuracy", "accuracy_entities"},
    "klue_ner": {"entity_macro_f1", "char_f1_all13", "char_f1_no_O"},
    "klue_re": {"micro_f1", "auprc", "average_precision"},
    "klue_dp": {"uas_macro", "uas_micro", "las_macro", "las_micro"},
    "klue_mrc": {"em", "rouge_w"},
    "klue_dst": {"jga", "slot_micro_f1"},
    "race": {"accuracy", "accuracy_middle", "accuracy_high"},
    **{name: {"em", "f1"} for name in ("korquad", "korquad2", "squad1", "squad2")},
}
"""Metrics by task."""


def test_a_misprint_stands_at_its_rows() -> None:
    sts = published.comparable("klue_sts", "pearson", ["xpt"])
    notes = dict(zip(sts["model"], sts["note"], strict=True))
    assert "probably swapped" in notes["XPT-4M"] and "Matches neither" in notes["XPT-400K"]
    assert "swapped" not in notes["mBERT"]
    nsmc = published.comparable("nsmc", "accuracy", ["korealbert"])
    assert {m for m, note in zip(nsmc["model"], nsmc["note"], strict=True) if note} == {"KoreALBERT-base-125K[MLM+SOP+WOP]"}
    mnli = published.load("albert").filter(pl.col("note").str.contains("for the same model"), task="MNLI", metric="acc")
    assert {f"ALBERT Table {number}" for number in (2, 3, 4, 5, 7)} == {*mnli["source"]}
    for row in tomllib.loads((files("korealbert.report") / "published" / "misprints.toml").read_text("utf-8"))["row"]:
        frame = published.load(row["table"])
        assert frame.filter(pl.col("note").str.contains(row["note"], literal=True)).height, row


def test_the_largest_albert_has_other_numbers_in_table_2_than_in_tables_6_and_13() -> None:
    albert = published.load("albert").filter(pl.col("task") != "config", pl.col("metric") != "speedup")

    def printed(number: int, model: str) -> dict[tuple[str, str], str]:
        rows = albert.filter(pl.col("source") == f"ALBERT Table {number}", pl.col("model") == model)
        return {(task, metric): value for task, metric, value in rows.select("task", "metric", "value").iter_rows()}

    in_table_2 = printed(2, "ALBERT-xxlarge")
    assert in_table_2 == printed(13, "ALBERT-xxlarge layers=24")
    assert printed(6, "ALBERT-xxlarge-125k-32h") == printed(13, "ALBERT-xxlarge layers=12") != in_table_2
    noted = albert.filter(pl.col("note").str.contains("24 layers"))
    assert set(noted["source"]) == {"ALBERT Table 2"} and noted.height == len(in_table_2) - 1, "all but the average"


def test_misprints_name_their_table() -> None:
    assert any("Mixes Table I's" in note for note in published.notes("korealbert"))
    assert published.notes("klue_readme")[0] == "Known problem 1: All rows: Split not stated."
    assert any("ALBERT Table 2; ALBERT-xxlarge; " in note and "24 layers" in note for note in published.notes("albert"))
    assert published.notes("koelectra_readme") == []


def test_an_unknown_table_is_answered_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match="no published table 'bert'; known are albert, ax_encoder, klue_readme"):
        published.load("bert")


def test_a_table_as_printed_has_the_numbers_of_notes_and_in_its_title_what_is_said_of_all_rows() -> None:
    notes = ["Mixes rows.", "Not defined.", "On dev.", "Split not stated."]
    rows = [("a", "NER", "acc", "1", [1, 2, 3, 4]), ("a", "NSMC", "acc", "2", [1, 3, 4]), ("b", "NER", "acc", "3", [3, 4])]
    table = as_printed("Table II (split not stated)", rows, notes)
    assert table.title == "Table II (split not stated) (On dev)"
    assert [row[-1] for row in table.rows] == ["1, 2", ""]
    known, klue = published.known_problems("klue_readme"), published.load("klue_readme")
    assert {" ".join(known[number - 1][1] for number in row["noted"]) for row in klue.iter_rows(named=True)} == set(
        klue["note"]
    )
