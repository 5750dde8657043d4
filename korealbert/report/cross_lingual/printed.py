"""Chameleon's tables: columns with their names in the published file and our tasks; known misprints."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from korealbert.finetune.scores.analysis import Distribution, f1_of
from korealbert.formatting import fixed
from korealbert.report import published
from korealbert.report.render.blocks import Section, Text

_TABLE = "xpt"


@dataclass(frozen=True)
class Column:
    """One column of a printed table."""

    title: str
    printed: tuple[str, str]
    """Task and metric in the published file."""
    ours: tuple[str, str]
    """Our task and metric. The paper's scores are on dev sets, and so are ours if the recipe tests on dev."""


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
    """Return the printed values of a table by model, in the order of ``columns``; "" for missing ones."""
    frame = _table(table)
    values = {(m, t, k): v for m, t, k, v in frame.select("model", "task", "metric", "value").iter_rows()}
    models = list(dict.fromkeys(frame["model"].to_list()))
    return {model: [values.get((model, *column.printed), "") for column in columns] for model in models}


def value(table: int, model: str, task: str, metric: str) -> float:
    """Return a printed number. Raises ValueError unless the published file has it exactly once."""
    wanted = (pl.col("model") == model) & (pl.col("task") == task) & (pl.col("metric") == metric)
    frame = _table(table).filter(wanted)
    if frame.height != 1:
        raise ValueError(f"published/{_TABLE}.csv has {frame.height} values of {model}, {task}, {metric} in table {table}")
    return float(frame["number"][0])


def distribution(table: int) -> dict[str, Distribution]:
    """Return the printed predictions of table 8, 9 or 10 by model and gold label."""
    labels = pl.col("metric").str.extract_groups(r"^n\[gold=(?<gold>.+),pred=(?<pred>.+)\]$")
    frame = _table(table).with_columns(labels).unnest("metric").select("model", "gold", "pred", "number")
    found: dict[str, Distribution] = {}
    for model, gold, pred, number in frame.drop_nulls().iter_rows():
        found.setdefault(model, {}).setdefault(gold, {})[pred] = int(number)
    return found


def klue_re() -> list[tuple[str, str]]:
    """Return models and printed micro F1 of the Korean XPT paper's KLUE-RE table."""
    frame = published.load(_TABLE).filter(pl.col("source").str.starts_with("XPT-KLUE-RE"))
    return list(frame.select("model", "value").iter_rows())


def _table(number: int) -> pl.DataFrame:
    return published.load(_TABLE).filter(pl.col("source").str.contains(rf"^LanguageChameleon Table {number}\b"))


COLA_DEV, COLA_ACCEPTABLE = 1_043, 721
WNLI_DEV, WNLI_MAJORITY = 71, 40
_YNAT_CLASSES = 7


def section() -> Section:
    """Show notes on the printed numbers, one per paragraph."""
    blocks = [Text(note) for note in (*notes(), *published.notes(_TABLE))]
    return Section("misprints", "Known problems of the printed numbers", blocks)


def notes() -> list[str]:
    """Return sentences on contradictions in the paper."""
    sts = {model: f1_of(rows, "1") for model, rows in distribution(8).items()}
    pearson, f1 = (value(1, "XPT-4M", "KLUE-STS", metric) for metric in ("pearson", "f1"))
    small_f1 = value(1, "XPT-400K", "KLUE-STS", "f1")
    entity = {model: float(row[4]) for model, row in rows(1, KLUE).items() if row[4]}
    rank = 1 + sum(value > entity["XPT-4M"] for value in entity.values())
    collapsed = value(2, "KoELECTRA-400K", "YNAT", "macro_f1")
    share = collapsed * _YNAT_CLASSES / (200 - collapsed * _YNAT_CLASSES)
    mcc = [value(4, f"XPT Vocab-En Phase1 {itl} ITL", "GLUE-dev CoLA", "mcc") for itl in ("w/o", "w/")]
    rte = [value(4, f"XPT Vocab-En Phase1 {itl} ITL", "GLUE-dev RTE", "acc") for itl in ("w/o", "w/")]
    return [
        f"Table 1, STS of XPT-4M: printed are a Pearson correlation of {fixed(pearson)} and an F1 of {fixed(f1)}, but the "
        f"counts of Table 8 give an F1 of {fixed(sts['XPT-4M'])}. The two columns are almost certainly swapped; the F1 on STS "
        "that the table marks as the best then belongs to none of their models.",
        f"Table 1, STS of XPT-400K: an F1 of {fixed(small_f1)} is printed, Table 8 gives {fixed(sts['XPT-400K'])}, and the "
        "Pearson correlation fits neither, so it may be from another run.",
        f"The text calls XPT best or second-best on all tasks but NLI and MRC; by entity F1 on NER "
        f"({fixed(entity['XPT-4M'])}) it is number {rank} of {len(entity)}.",
        "Table 1 calls its metrics entity-micro and character-micro F1; Table 7 and KLUE-baseline use macro averages. Table 2 "
        "prints a character F1 of 0.00 for models that predict only O, so the paper leaves O out, which KLUE-baseline does "
        "not; our character F1 is without O here too.",
        "Table 9 counts characters, not entities: 13,694 characters of persons are 4,418 entities.",
        f"Table 2, YNAT of KoELECTRA-400K: a macro F1 of {fixed(collapsed)} is that of a model which predicts one class, with "
        f"{100 * share:.1f} % of the examples, for all of them. Both KoELECTRA runs have collapsed, and the larger corpus "
        "scores worse.",
        f"Table 4: an accuracy of {fixed(100 * COLA_ACCEPTABLE / COLA_DEV)} on CoLA is {COLA_ACCEPTABLE} of {COLA_DEV:,}, the "
        f"majority class; {fixed(100 * WNLI_MAJORITY / WNLI_DEV)} on WNLI is {WNLI_MAJORITY} of {WNLI_DEV}, its "
        "majority class.",
        "Table 4, Vocab-En after phase 1 without ITL: only positions, embedding LayerNorm and head differ from the source, so "
        "scores like RoBERTa's follow by construction and are not a finding.",
        "The text sees no significant difference between models without and with ITL; with Vocab-En after phase 1 they score "
        f"{fixed(mcc[0])} and {fixed(mcc[1])} on CoLA, {fixed(rte[0])} and {fixed(rte[1])} on RTE.",
        "The paper prints 112 M parameters for KoELECTRA as 3112M and 32 K pieces for KLUE's vocabulary as 32M; the 550 M "
        "parameters of its XLM-R are those of the large model, whose vocabulary has 250 K pieces, not 95 K.",
        "The paper says 100 K steps in all and does not say how they are divided between the phases; it may mean each. Its "
        "130 M parameters fit neither 123.85 M without ITL nor 138.03 M with ITL.",
    ]
