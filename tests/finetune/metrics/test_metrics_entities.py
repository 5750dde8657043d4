"""Entities are scored like seqeval, characters like scikit-learn, and the challenge's scorer with its quirks."""

from __future__ import annotations

import warnings

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from seqeval.metrics import f1_score as seqeval_f1
from seqeval.scheme import IOB2
from sklearn.metrics import f1_score as sklearn_f1

from korealbert.finetune import tasks
from korealbert.finetune.metrics.units import (
    challenge_f1,
    char_f1,
    entity_macro_f1,
    entity_micro_f1,
    lenient_entities,
    plain_listings,
    quirky_listings,
    strict_entities,
)
from korealbert.finetune.task import Example
from korealbert.finetune.task_types.tagged import Tagged

TAGS = ("B-PS", "I-PS", "B-LC", "I-LC", "O")
Sentences = list[tuple[list[str], list[str]]]
sentence = st.lists(st.tuples(st.sampled_from(TAGS), st.sampled_from(TAGS)), min_size=1, max_size=12)
sentences = st.lists(sentence.map(lambda rows: tuple(map(list, zip(*rows, strict=True)))), min_size=1, max_size=6)


def split(sentences: Sentences) -> tuple[list[list[str]], list[list[str]]]:
    gold, predicted = zip(*sentences, strict=True)
    return list(gold), list(predicted)


@settings(max_examples=30)
@given(sentences)
def test_entity_scores_are_those_of_seqeval(sentences: Sentences) -> None:
    gold, predicted = split(sentences)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        strict = seqeval_f1(gold, predicted, average="macro", mode="strict", scheme=IOB2) * 100.0
        lenient = seqeval_f1(gold, predicted) * 100.0
    if any(strict_entities(tags) for tags in (*gold, *predicted)):
        assert entity_macro_f1(gold, predicted) == strict
    assert entity_micro_f1(gold, predicted) == lenient


@given(sentences)
def test_the_challenge_without_its_quirks_is_the_lenient_micro_f1(sentences: Sentences) -> None:
    gold, predicted = split(sentences)
    assert challenge_f1(gold, predicted, "corrected") == pytest.approx(entity_micro_f1(gold, predicted), abs=1e-9)


@given(sentences)
def test_an_entity_closed_within_its_sentence_is_listed_with_and_without_quirks(sentences: Sentences) -> None:
    closed = [[*(tag.replace("I-", "B-") for tag in tags), "O"] for tags in split(sentences)[0]]
    assert quirky_listings(closed) == plain_listings(closed)


def test_the_quirks_of_the_challenge() -> None:
    at_the_end = [["O", "B-PER"], ["O", "B-LOC", "O"]]
    assert quirky_listings(at_the_end) == [[], [(2, 0, "PER"), (2, 2, "LOC")]]
    assert plain_listings(at_the_end) == [[(2, 2, "PER")], [(2, 2, "LOC")]]
    orphan = [["B-PER", "O", "I-PER", "O"]]
    assert quirky_listings(orphan) == [[(1, 1, "PER")]]
    assert plain_listings(orphan) == [[(1, 1, "PER"), (3, 3, "PER")]]
    assert challenge_f1([["B-PER", "I-PER"]], [["B-PER", "I-PER"]], "official") == 0
    assert challenge_f1([["B-PER", "I-PER"]], [["B-PER", "I-PER"]], "corrected") == 100


def test_only_strict_entities_need_a_beginning() -> None:
    tags = ["I-PS", "O", "B-PS", "I-LC", "I-LC", "B-LC", "I-LC"]
    assert strict_entities(tags) == [("PS", 2, 3), ("LC", 5, 7)]
    assert lenient_entities(tags) == [("PS", 0, 1), ("PS", 2, 3), ("LC", 3, 5), ("LC", 5, 7)]


@settings(max_examples=30)
@given(sentence)
def test_character_scores_are_those_of_scikit_learn(rows: list[tuple[str, str]]) -> None:
    gold, predicted = map(list, zip(*rows, strict=True))
    for labels in (TAGS, TAGS[:-1]):
        official = sklearn_f1(gold, predicted, labels=labels, average="macro", zero_division=1.0) * 100.0
        assert char_f1(gold, predicted, labels, "official") == official
        present = [label for label in labels if label in {*gold, *predicted}]
        if present:
            corrected = sklearn_f1(gold, predicted, labels=present, average="macro", zero_division=0.0) * 100.0
            assert char_f1(gold, predicted, labels, "corrected") == corrected


def klue(text: str, tags: list[str]) -> Example:
    return Tagged("1", text, tuple(tags), spans=tuple((n, n + 1) for n in range(len(text))))


def test_klue_ner_leaves_spaces_out_and_officially_counts_a_position_around_each_sentence() -> None:
    task = tasks.load("klue_ner")
    examples = [klue("이 순신", ["B-PS", "I-PS", "I-PS", "I-PS"]), klue("서울로", ["B-LC", "I-LC", "O"])]
    predicted = [["B-PS", "O", "I-PS", "I-PS"], ["B-LC", "O", "O"]]
    for mode in ("official", "corrected"):
        assert task.score(examples, predicted, mode).values["entity_macro_f1"] == 50
    gold = ["B-PS", "I-PS", "I-PS", "B-LC", "I-LC", "O"]
    given_ = ["B-PS", "I-PS", "I-PS", "B-LC", "O", "O"]
    corrected = task.score(examples, predicted, "corrected").values
    assert corrected["char_f1_all13"] == sklearn_f1(gold, given_, average="macro") * 100.0
    official = task.score(examples, predicted, "official").values
    expected = sklearn_f1([*gold, *"OOOO"], [*given_, *"OOOO"], labels=task.tags, average="macro", zero_division=1.0)
    assert official["char_f1_all13"] == expected * 100.0


def test_only_the_official_script_loses_an_entity_that_begins_on_a_space() -> None:
    task = tasks.load("klue_ner")
    examples = [klue("약 24살", ["O", "B-QT", "I-QT", "I-QT", "I-QT"])]
    for predicted in (list(examples[0].target), ["O", "O", "B-QT", "I-QT", "I-QT"]):
        assert task.score(examples, [predicted], "corrected").values["entity_macro_f1"] == 100
        assert task.score(examples, [predicted], "official").values["entity_macro_f1"] == 0


def test_a_model_without_entities_keeps_what_the_official_code_gives_it_for_outside() -> None:
    task = tasks.load("klue_ner")
    examples = [klue("가" * 13, list(task.tags))]
    scores = task.score(examples, [["O"] * 13], "official")
    assert scores.values["char_f1_no_O"] == scores.values["entity_macro_f1"] == 0
    assert scores.values["char_f1_all13"] == pytest.approx(100 / 13 * 2 * 3 / (3 + 15))
    assert scores.warnings == ("no entity is predicted",)
