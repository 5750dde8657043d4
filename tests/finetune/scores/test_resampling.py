"""Scoring many resamples at once gives the same as scoring each of them separately."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import rankdata

from korealbert.finetune import tasks
from korealbert.finetune.scores.resampling import Draws, ranks
from korealbert.finetune.scores.statistics import UnreducedAnswers, answered, compare
from korealbert.finetune.task import Example, Task

LABELS = {"glue_cola": 2, "ynat": 7, "nsmc": 2, "kornli": 3, "gender_bias": 2}
CORRELATIONS = ("korsts", "klue_sts", "glue_stsb")


def examples_of(targets: list[Any]) -> list[Example]:
    return [Example(str(number), "", target) for number, target in enumerate(targets)]


def check(task: Task, targets: list[Any], first: list[Any], second: list[Any], random: np.random.Generator) -> None:
    examples, count = examples_of(targets), len(targets)
    ours, theirs = (answered(task, examples, predicted, "official") for predicted in (first, second))
    whole, other = (UnreducedAnswers(task, examples, predicted, "official") for predicted in (first, second))
    assert not isinstance(ours, UnreducedAnswers)
    rows = random.integers(count, size=(6, count))
    counts = np.array([np.bincount(row, minlength=count) for row in rows], dtype=np.float64).T
    masks = random.random((count, 6)) < 0.5
    # Two equal values in one sample correlate with nothing, and sums round: 1e-6 of 100 is far below what is printed.
    assert ours.over(counts) == pytest.approx(whole.over(counts), abs=1e-6)
    exchanged = [one.parted(masks).completed(two.parted(masks)) for one, two in ((ours, theirs), (whole, other))]
    assert exchanged[0] == pytest.approx(exchanged[1], abs=1e-6)


@settings(max_examples=30)
@given(st.data(), st.sampled_from(sorted(LABELS)), st.integers(0, 99))
def test_classes_are_scored_as_the_task_scores_them(data: st.DataObject, name: str, seed: int) -> None:
    labels = st.integers(0, LABELS[name] - 1)
    rows = data.draw(st.lists(st.tuples(labels, labels, labels), min_size=2, max_size=30))
    check(tasks.load(name), *map(list, zip(*rows, strict=True)), np.random.default_rng(seed))  # type: ignore[arg-type]


@settings(max_examples=50)
@given(st.data(), st.sampled_from(CORRELATIONS), st.integers(0, 99), st.sampled_from([1e-300, 1.0, 3e7, 1e300]))
def test_correlations_are_those_of_the_task_ties_and_constants_included(
    data: st.DataObject, name: str, seed: int, size: float
) -> None:
    scores = st.integers(0, 20).map(lambda n: n / 4)
    rows = data.draw(st.lists(st.tuples(scores, scores, scores), min_size=2, max_size=30))
    gold, first, second = map(list, zip(*rows, strict=True))
    check(tasks.load(name), gold, [size * s for s in first], [size * s for s in second], np.random.default_rng(seed))


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 3)), min_size=1, max_size=40))
def test_ranks_are_those_of_the_values_written_out(rows: list[tuple[int, int]]) -> None:
    values, counts = (np.array(column, dtype=np.float64) for column in zip(*rows, strict=True))
    written_out = np.repeat(values, counts.astype(int))
    ranked = ranks(values, counts[:, None])[:, 0]
    assert np.repeat(ranked, counts.astype(int)).tolist() == rankdata(written_out).tolist()


def test_draws_do_not_depend_on_how_many_fit_into_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    draws = Draws(50, 40, seed=7)
    counts, masks = np.hstack(list(draws.counts())), np.hstack(list(draws.masks()))
    assert counts.shape == masks.shape == (50, 40) and (counts.sum(axis=0) == 50).all()
    monkeypatch.setattr("korealbert.finetune.scores.resampling.BLOCK_ENTRIES", 120)
    assert len(list(draws.counts())) == 20
    assert (np.hstack(list(draws.counts())) == counts).all()
    assert (np.hstack(list(draws.masks())) == masks).all()


def test_comparing_many_systems_equals_comparing_each_pair() -> None:
    random = np.random.default_rng(2)
    gold = random.integers(7, size=80).tolist()
    task, examples, draws = tasks.load("ynat"), examples_of(gold), Draws(80, 60, seed=1)

    def system(right: float, seeds: int) -> list[Any]:
        kept = [random.random(80) < right for _ in range(seeds)]
        answers = [np.where(keep, gold, random.integers(7, size=80)).tolist() for keep in kept]
        return [answered(task, examples, predicted, "official") for predicted in answers]

    systems = [system(0.9, 1), system(0.5, 3), system(0.55, 2)]
    together = compare(systems, draws, confidence=0.9)
    alone = [compare([systems[a], systems[b]], draws, confidence=0.9)[0] for a, b in ((0, 1), (0, 2), (1, 2))]
    assert together == alone
    assert together[0].p_value < 0.05 < together[2].p_value
