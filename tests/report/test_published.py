"""Published scores load whole, with their sources, and are compared only with what they measure."""

from __future__ import annotations

import polars as pl
import pytest

from korealbert.report import published


def test_every_published_score_has_a_source() -> None:
    assert published.tables() == ["albert", "klue_readme", "koelectra_readme", "korealbert", "xpt"]
    frames = {name: published.load(name) for name in published.tables()}
    assert sum(frame.height for frame in frames.values()) == 1_100
    for frame in frames.values():
        assert frame.columns == [*published.COLUMNS, "number"]
        assert frame["source"].str.strip_chars().str.len_chars().min() > 0  # type: ignore[operator]
        assert frame["number"].null_count() < frame.height / 2


def test_numbers_are_as_printed_and_sizes_are_no_scores() -> None:
    frame = published.load("korealbert")
    base = frame.filter((pl.col("model") == "KoreALBERT-Base") & (pl.col("task") == "NSMC"))
    assert base.select("value", "number", "source").rows() == [("89.6", 89.6, "KoreALBERT Table III")]
    assert frame.filter(pl.col("value") == "12M")["number"].to_list() == [None]


def test_only_the_same_task_and_metric_are_comparable() -> None:
    frame = pl.concat([published.load("korealbert"), published.load("klue_readme")])
    nsmc = published.comparable(frame, task="nsmc", metric="accuracy")
    assert set(nsmc["task"]) == {"NSMC"}
    assert set(nsmc["metric"]) == {"acc"}
    assert published.comparable(frame, task="korsts", metric="pearson").height == 0
    assert published.comparable(frame, task="sts", metric="spearman").height == 0


def test_misprints_are_told_with_their_table() -> None:
    assert any("mixes Table I's" in note for note in published.notes("korealbert"))
    assert any("not comparable" in note for note in published.notes("klue_readme"))
    assert published.notes("koelectra_readme") == []


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"model,task,value\na,b,1\n", "t.csv, header: found model,task,value; the columns are model,task,metric,value,source"),
        (b"model,task,metric,value,source\na,b,c,1,d\na,b,c,1,\n", "t.csv, line 3, field 'source': empty"),
        (b"model,task,metric,value,source\n ,b,c,1,d\n", "t.csv, line 2, field 'model': empty"),
    ],
)
def test_bad_tables_are_named(content: bytes, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        published.parse(content, "t.csv")


def test_an_unknown_table_is_answered_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match="no published table 'bert'; known are albert, klue_readme"):
        published.load("bert")
