"""Chameleon's tables in their layout: which columns they have, by what names the published file and our tasks know them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from korealbert.report import published

TABLE = "xpt"


@dataclass(frozen=True)
class Column:
    """One column of a printed table."""

    title: str
    printed: tuple[str, str]
    """Task and metric of the published file."""
    ours: tuple[str, str]
    """Task and metric of ours; the paper's scores are of dev sets, and so are ours where a recipe tests on dev."""


KLUE = (
    Column("YNAT F1", ("YNAT", "macro_f1"), ("ynat", "macro_f1")),
    Column("STS R^P", ("KLUE-STS", "pearson"), ("klue_sts", "pearson")),
    Column("STS F1", ("KLUE-STS", "f1"), ("klue_sts", "f1")),
    Column("NLI Acc", ("KLUE-NLI", "acc"), ("klue_nli", "accuracy")),
    Column("NER F1^E", ("KLUE-NER", "entity_f1"), ("klue_ner", "entity_macro_f1")),
    Column("NER F1^C", ("KLUE-NER", "char_f1"), ("klue_ner", "char_f1_no_O")),
    Column("RE F1^mic", ("KLUE-RE", "micro_f1"), ("klue_re", "micro_f1")),
    Column("RE AUC", ("KLUE-RE", "auprc"), ("klue_re", "auprc")),
    Column("DP UAS^mac", ("KLUE-DP", "uas_macro"), ("klue_dp", "uas_macro")),
    Column("DP UAS^mic", ("KLUE-DP", "uas_micro"), ("klue_dp", "uas_micro")),
    Column("DP LAS^mac", ("KLUE-DP", "las_macro"), ("klue_dp", "las_macro")),
    Column("DP LAS^mic", ("KLUE-DP", "las_micro"), ("klue_dp", "las_micro")),
    Column("MRC EM", ("KLUE-MRC", "em"), ("klue_mrc", "em")),
    Column("MRC ROUGE", ("KLUE-MRC", "rouge_w"), ("klue_mrc", "rouge_w")),
)
"""Tables 1, 2 and 3."""

GLUE = (
    Column("CoLA MCC", ("GLUE-dev CoLA", "mcc"), ("glue_cola", "mcc")),
    Column("CoLA Acc", ("GLUE-dev CoLA", "acc"), ("glue_cola", "accuracy")),
    Column("SST-2 Acc", ("GLUE-dev SST-2", "acc"), ("glue_sst2", "accuracy")),
    Column("MRPC Acc", ("GLUE-dev MRPC", "acc"), ("glue_mrpc", "accuracy")),
    Column("MRPC F1", ("GLUE-dev MRPC", "f1"), ("glue_mrpc", "f1")),
    Column("STS-B R^P", ("GLUE-dev STS-B", "pearson"), ("glue_stsb", "pearson")),
    Column("STS-B R^S", ("GLUE-dev STS-B", "spearman"), ("glue_stsb", "spearman")),
    Column("QQP Acc", ("GLUE-dev QQP", "acc"), ("glue_qqp", "accuracy")),
    Column("QQP F1", ("GLUE-dev QQP", "f1"), ("glue_qqp", "f1")),
    Column("MNLI-m Acc", ("GLUE-dev MNLI-m", "acc"), ("glue_mnli", "accuracy")),
    Column("MNLI-mm Acc", ("GLUE-dev MNLI-mm", "acc"), ("glue_mnli_mm", "accuracy")),
    Column("QNLI Acc", ("GLUE-dev QNLI", "acc"), ("glue_qnli", "accuracy")),
    Column("RTE Acc", ("GLUE-dev RTE", "acc"), ("glue_rte", "accuracy")),
    Column("WNLI Acc", ("GLUE-dev WNLI", "acc"), ("glue_wnli", "accuracy")),
)
"""Table 4."""


def rows(table: int, columns: Sequence[Column]) -> dict[str, list[str]]:
    """The printed values of a table by model, in the order of ``columns``; an empty cell where it has none."""
    frame = _table(table)
    values = {(m, t, k): v for m, t, k, v in frame.select("model", "task", "metric", "value").iter_rows()}
    models = list(dict.fromkeys(frame["model"].to_list()))
    return {model: [values.get((model, *column.printed), "") for column in columns] for model in models}


def value(table: int, model: str, task: str, metric: str) -> float:
    """One printed number. Raises ValueError where the published file has it not, or more than once."""
    wanted = (pl.col("model") == model) & (pl.col("task") == task) & (pl.col("metric") == metric)
    frame = _table(table).filter(wanted)
    if frame.height != 1:
        raise ValueError(f"published/{TABLE}.csv has {frame.height} values of {model}, {task}, {metric} in table {table}")
    return float(frame["number"][0])


def distribution(table: int) -> dict[str, dict[str, dict[str, int]]]:
    """Predictions by model and gold label of table 8, 9 or 10, as printed."""
    frame = _table(table)
    found: dict[str, dict[str, dict[str, int]]] = {}
    named = frame.with_columns(pl.col("metric").str.extract_groups(r"^n\[gold=(?<gold>.+),pred=(?<pred>.+)\]$")).unnest(
        "metric"
    )
    for model, gold, pred, number in named.select("model", "gold", "pred", "number").drop_nulls().iter_rows():
        found.setdefault(model, {}).setdefault(gold, {})[pred] = int(number)
    return found


def klue_re() -> list[tuple[str, str]]:
    """Model and printed micro F1 of the Korean XPT paper's KLUE-RE table."""
    frame = published.load(TABLE).filter(pl.col("source").str.starts_with("XPT-KLUE-RE"))
    return list(frame.select("model", "value").iter_rows())


def _table(number: int) -> pl.DataFrame:
    return published.load(TABLE).filter(pl.col("source").str.contains(rf"^LanguageChameleon Table {number}\b"))
