"""Attachment scores equal scikit-learn's on KLUE's classes; one wrong head costs the official macro a seventeenth."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import f1_score

from korealbert.finetune.metrics.units import FIRST_RARE, RARE, WRONG_HEAD, las, uas

Words = list[tuple[int, int, int, int]]
words = st.lists(
    st.tuples(st.integers(0, 6), st.integers(0, 6), st.integers(10, 37), st.integers(10, 37)), min_size=1, max_size=50
)


def four(words: Words) -> tuple[list[int], ...]:
    return tuple(map(list, zip(*words, strict=True)))


@settings(max_examples=30)
@given(words)
def test_scores_are_those_of_scikit_learn_on_the_collapsed_classes(words: Words) -> None:
    gold_heads, heads, gold_relations, relations = four(words)
    found = uas(gold_heads, heads)
    assert found["uas_macro"] == f1_score(gold_heads, heads, average="macro", zero_division=0.0) * 100.0
    assert found["uas_micro"] == pytest.approx(f1_score(gold_heads, heads, average="micro") * 100.0, abs=1e-12)
    gold = [RARE if relation >= FIRST_RARE else relation for relation in gold_relations]
    given_ = [RARE if relation >= FIRST_RARE else relation for relation in relations]
    given_ = [r if head == gold_head else WRONG_HEAD for r, head, gold_head in zip(given_, heads, gold_heads, strict=True)]
    official = las(gold_heads, gold_relations, heads, relations, "official")
    assert official["las_macro"] == f1_score(gold, given_, average="macro", zero_division=0.0) * 100.0
    assert official["las_micro"] == pytest.approx(f1_score(gold, given_, average="micro") * 100.0, abs=1e-12)
    corrected = las(gold_heads, gold_relations, heads, relations, "corrected")
    classes = sorted({*gold, *given_} - {WRONG_HEAD})
    assert corrected["las_macro"] == f1_score(gold, given_, labels=classes, average="macro", zero_division=0.0) * 100.0
    assert corrected["las_micro"] == official["las_micro"]


@given(words)
def test_right_heads_leave_nothing_to_correct_and_perfect_trees_score_100(words: Words) -> None:
    heads, _, gold_relations, relations = four(words)
    both = [las(heads, gold_relations, heads, relations, mode) for mode in ("official", "corrected")]
    assert both[0] == both[1]
    perfect = {**uas(heads, heads), **las(heads, gold_relations, heads, gold_relations, "official")}
    assert set(perfect.values()) == {100.0}


def test_one_wrong_head_among_22_400_words_costs_the_official_macro_six_points() -> None:
    relations = np.arange(22_400) % (FIRST_RARE + 1)
    heads = np.arange(22_400) % 12 + 1
    wrong = heads.copy()
    wrong[0] += 1
    official = las(heads.tolist(), relations.tolist(), wrong.tolist(), relations.tolist(), "official")
    assert round(official["las_macro"], 2) == 94.12
    corrected = las(heads.tolist(), relations.tolist(), wrong.tolist(), relations.tolist(), "corrected")
    assert 99.99 < corrected["las_macro"] < 100
    assert official["las_micro"] == corrected["las_micro"] == pytest.approx(100 * 22_399 / 22_400)
