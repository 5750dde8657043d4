"""KLUE-DP: attachment scores over words, times 100. Micro is the share of right words, macro a mean F1 of classes.

The class of a word is the index of its head (UAS), or its relation (LAS). UAS macro so averages over word positions, and gives
position 40 the weight of position 2.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from korealbert.finetune.metrics import Mode
from korealbert.finetune.metrics.classification import Counts, accuracy, class_counts, macro_f1

WRONG_HEAD = -2
"""The relation predicted for a word whose head is wrong: no word's relation, so never right."""

RARE = -3
"""One class for all relations from number ``FIRST_RARE`` on."""

FIRST_RARE = 15
"""KLUE-DP counts its relations from ``VP_CMP`` on, together 1 % of all, as one class."""


def uas(gold_heads: Sequence[int], predicted_heads: Sequence[int]) -> dict[str, float]:
    """``uas_macro`` and ``uas_micro`` of the words of all sentences, in one row."""
    return {"uas_macro": macro_f1(gold_heads, predicted_heads), "uas_micro": accuracy(gold_heads, predicted_heads)}


def las(
    gold_heads: Sequence[int],
    gold_relations: Sequence[int],
    predicted_heads: Sequence[int],
    predicted_relations: Sequence[int],
    mode: Mode,
) -> dict[str, float]:
    """``las_macro`` and ``las_micro``; relations are positions in the official list.

    Official: ``WRONG_HEAD`` is averaged as a class of its own with F1 0, so that one wrong head costs las_macro about a
    seventeenth. Corrected: over relations only.
    """
    gold = [_class(relation) for relation in gold_relations]
    predicted = [
        _class(relation) if head == gold_head else WRONG_HEAD
        for relation, head, gold_head in zip(predicted_relations, predicted_heads, gold_heads, strict=True)
    ]
    classes = sorted({*gold, *predicted} - (set() if mode == "official" else {WRONG_HEAD}))
    macro = float(np.mean(class_counts(gold, predicted, classes).f1()) * 100)
    return {"las_macro": macro, "las_micro": accuracy(gold, predicted)}


_LAS_CLASSES = (WRONG_HEAD, RARE, *range(FIRST_RARE))
"""All classes of words that LAS knows; corrected, the first is none."""


def las_counts(
    gold_heads: Sequence[int],
    gold_relations: Sequence[int],
    predicted_heads: Sequence[int],
    predicted_relations: Sequence[int],
    mode: Mode,
) -> Counts:
    """Right, gold and predicted words of one sentence, [3 * classes], for each of the classes that ``las`` counts."""
    gold = [_class(relation) for relation in gold_relations]
    heads = zip(predicted_relations, predicted_heads, gold_heads, strict=True)
    predicted = [_class(relation) if head == gold_head else WRONG_HEAD for relation, head, gold_head in heads]
    return np.concatenate(class_counts(gold, predicted, _LAS_CLASSES if mode == "official" else _LAS_CLASSES[1:]))


def _class(relation: int) -> int:
    return relation if relation < FIRST_RARE else RARE
