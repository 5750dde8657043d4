"""What is known to be wrong with Chameleon's printed numbers; each figure is computed from the published file."""

from __future__ import annotations

from korealbert.finetune.analysis import f1_of
from korealbert.formatting import fixed
from korealbert.report import published
from korealbert.report.cross_lingual import printed
from korealbert.report.render.blocks import Block, Section, Text

COLA_DEV, COLA_ACCEPTABLE = 1_043, 721
WNLI_DEV, WNLI_MAJORITY = 71, 40
_YNAT_CLASSES = 7


def section() -> Section:
    """Every note as a sentence of its own."""
    sentences = [*notes(), *published.notes(printed.TABLE)]
    blocks: list[Block] = [Text(sentence) for sentence in sentences]
    return Section("misprints", "Known problems of the printed numbers", blocks)


def notes() -> list[str]:
    """Contradictions within the paper, in full sentences."""
    sts = {model: f1_of(rows, "1") for model, rows in printed.distribution(8).items()}
    pearson, f1 = (printed.value(1, "XPT-4M", "KLUE-STS", metric) for metric in ("pearson", "f1"))
    small_f1 = printed.value(1, "XPT-400K", "KLUE-STS", "f1")
    entity = {model: float(row[4]) for model, row in printed.rows(1, printed.KLUE).items() if row[4]}
    rank = 1 + sum(value > entity["XPT-4M"] for value in entity.values())
    collapsed = printed.value(2, "KoELECTRA-400K", "YNAT", "macro_f1")
    share = collapsed * _YNAT_CLASSES / (200 - collapsed * _YNAT_CLASSES)
    mcc = [printed.value(4, f"XPT Vocab-En Phase1 {itl} ITL", "GLUE-dev CoLA", "mcc") for itl in ("w/o", "w/")]
    rte = [printed.value(4, f"XPT Vocab-En Phase1 {itl} ITL", "GLUE-dev RTE", "acc") for itl in ("w/o", "w/")]
    return [
        f"Table 1, STS of XPT-4M: printed are a Pearson correlation of {fixed(pearson)} and an F1 of {fixed(f1)}, but the "
        f"counts of Table 8 give an F1 of {fixed(sts['XPT-4M'])}. The two columns are almost certainly swapped; the best F1 on "
        "STS that the table marks is then no model's of theirs.",
        f"Table 1, STS of XPT-400K: an F1 of {fixed(small_f1)} is printed, Table 8 gives {fixed(sts['XPT-400K'])}, and the "
        "Pearson correlation fits neither: perhaps another run.",
        f"The text calls XPT best or second-best on all tasks but NLI and MRC; by entity F1 on NER "
        f"({fixed(entity['XPT-4M'])}) it is number {rank} of {len(entity)}.",
        "Table 1 calls its metrics entity-micro and character-micro F1; Table 7 and KLUE-baseline use macro averages. Table 2 "
        "prints a character F1 of 0.00 for models that predict O only, so the paper's leaves O out, which KLUE-baseline does "
        "not; ours stands here without O too.",
        "Table 9 counts characters, not entities: 13,694 of persons are 4,418 entities.",
        f"Table 2, YNAT of KoELECTRA-400K: a macro F1 of {fixed(collapsed)} is that of a model which gives one class, of "
        f"{100 * share:.1f} % of the examples, to all. Both KoELECTRA runs have collapsed, and the larger "
        "corpus scores worse.",
        f"Table 4: an accuracy of {fixed(100 * COLA_ACCEPTABLE / COLA_DEV)} on CoLA is {COLA_ACCEPTABLE} of {COLA_DEV:,}, the "
        f"majority class; {fixed(100 * WNLI_MAJORITY / WNLI_DEV)} on WNLI is {WNLI_MAJORITY} of {WNLI_DEV}, its "
        "majority class.",
        "Table 4, Vocab-En after phase 1 without ITL: only positions, embedding LayerNorm and head have moved since the "
        "source, so that it scores like RoBERTa is by construction, not a finding.",
        "The text sees no significant difference between models with and without ITL; with Vocab-En after phase 1 they are "
        f"{fixed(mcc[0])} and {fixed(mcc[1])} on CoLA, {fixed(rte[0])} and {fixed(rte[1])} on RTE.",
        "The paper prints 112 M parameters for KoELECTRA as 3112M and 32 K pieces for KLUE's vocabulary as 32M; the 550 M "
        "parameters of its XLM-R are those of the large model, whose vocabulary has 250 K pieces, not 95 K.",
        "The paper says 100 K steps in all, and leaves open how they are divided between the phases; it may mean each. Its "
        "130 M parameters fit neither 123.85 M without ITL nor 138.03 M with them.",
    ]
