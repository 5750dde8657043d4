"""Moved tokens: uniform derangements, labels that are a function of the input, and the options."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from korealbert.examples.masking import MaskingSpec
from korealbert.examples.noise import NoiseSettings, draw
from korealbert.examples.word_order import Items, WordOrderSpec, _derange
from korealbert.philox import RowDraws
from korealbert.vocab.tokenizer import SPECIAL
from tests.examples.made import (
    SEQUENCE_LENGTH,
    chunks_of,
    made_rows,
    made_words,
    noise_settings,
    noised,
    random_rows,
    read,
    sentence_numbers,
)

WORDS = made_words()
QUIET = MaskingSpec(max_predictions=1)
"""One predicted piece a row: runs as long as sentences."""


def moving(*, seed: int = 7, **wishes: object) -> NoiseSettings:
    word_order = WordOrderSpec(**{"portion": 1.0, **wishes})  # type: ignore[arg-type]
    return noise_settings(masking=QUIET, word_order=word_order, seed=seed)


def realised_rate(**wishes: object) -> float:
    """Share of pieces moved in full rows of 124 pieces in about five sentences, under 15 % whole-word masking."""
    noise = noise_settings(word_order=WordOrderSpec(portion=1.0, **wishes), sequence_length=128)  # type: ignore[arg-type]
    counts = draw(random_rows(600, width=125), WORDS, noise, 0).counts()
    return counts["wop_targets"] / counts["wop_pieces"]


@pytest.mark.parametrize("size", [3, 4, 5])
def test_permutations_are_uniform_among_those_without_a_fixed_point(size: int) -> None:
    rows = 4_000
    items = Items(
        group=np.repeat(np.arange(rows), size),
        rows=np.repeat(np.arange(rows), size),
        begin=np.tile(np.arange(size), rows),
        size=np.ones(rows * size, dtype=np.int64),
    )
    order = _derange(items, RowDraws(1, 0, np.arange(rows, dtype=np.uint64))).reshape(rows, size) % size
    found, counts = np.unique(order, axis=0, return_counts=True)
    assert not (found == np.arange(size)).any()
    subfactorial = round(math.factorial(size) / math.e)
    assert len(found) == subfactorial
    assert stats.chisquare(counts).pvalue > 1e-4


def test_moved_places_are_a_uniform_set() -> None:
    # One sentence a segment and one mask: places away from the edges are chosen alike. σ of a count is 3.4 % of it.
    rows = made_rows([[list(range(9, 39)), list(range(39, 69))]] * 6_000)
    moved = draw(rows, WORDS, moving(), 0).moved
    counts = np.bincount(moved.places, minlength=60)[[*range(5, 25), *range(35, 55)]]
    assert np.abs(counts / counts.mean() - 1).max() < 0.14


@settings(max_examples=150)
@given(st.lists(chunks_of(), min_size=1, max_size=4), st.booleans(), st.integers(0, 10**6))
def test_equal_pieces_of_a_run_come_from_ascending_places(chunks: list[list[list[int]]], top_up: bool, seed: int) -> None:
    batch = noised(draw(made_rows(chunks), WORDS, moving(top_up=top_up, rate=0.3, seed=seed), 0))
    for row, chunk in enumerate(chunks):
        reading = read(batch, row)
        sentences = sentence_numbers(reading, chunk)
        run = np.cumsum([a != b for a, b in itertools.pairwise([-2, *sentences])])
        run += np.cumsum([token == SPECIAL.mask for token in reading.tokens])
        origins: dict[tuple[int, int], list[int]] = {}
        for position, origin in reading.moves.items():
            origins.setdefault((int(run[position]), reading.tokens[position]), []).append(origin)
        assert all(places == sorted(places) for places in origins.values())


def test_equal_tokens_that_change_places_have_not_moved() -> None:
    batch = noised(draw(made_rows([[[9] * 20, [9] * 20]]), WORDS, moving(), 0))
    assert read(batch, 0).moves == {}


def test_alternating_tokens_get_the_remaining_places_in_order() -> None:
    batch = noised(draw(made_rows([[[9, 10] * 12, [9, 10] * 12]] * 40), WORDS, moving(rate=0.4), 0))
    seen = 0
    for row in range(40):
        reading = read(batch, row)
        for token, kind in itertools.product((9, 10), (0, 1)):
            origins = [o for p, o in reading.moves.items() if reading.tokens[p] == token and reading.types[p] == kind]
            masked = [p for p in reading.masks if reading.types[p] == kind]
            if not masked:
                seen += len(origins) > 1
                assert origins == sorted(origins)
    assert seen


def test_realised_rates_are_those_of_the_analysis() -> None:
    # pretraining objectives, 5.2: 0.117 without, 0.145 with partners, for whole words masked and five sentences a row.
    plain, topped = realised_rate(), realised_rate(top_up=True)
    assert plain == pytest.approx(0.117, abs=0.008)
    assert topped == pytest.approx(0.141, abs=0.006)
    assert realised_rate(within="segment") > plain


def test_a_dynamic_rate_moves_half_as_much() -> None:
    fixed = draw(random_rows(600), WORDS, moving(within="segment"), 0).counts()
    dynamic = draw(random_rows(600), WORDS, moving(within="segment", amount="dynamic"), 0).counts()
    assert 0.35 < dynamic["wop_targets"] / fixed["wop_targets"] < 0.6


def test_words_move_whole_within_their_window() -> None:
    # Sentences of words of two pieces each: ids 9, 10 / 12, 13 / … with a word start at every multiple of three.
    sentence = [piece for word in range(4, 19) for piece in (3 * word, 3 * word + 1)]
    rows = made_rows([[sentence, sentence]] * 200)
    batch = noised(draw(rows, WORDS, moving(unit="word", window_words=3, rate=0.3), 0))
    moved = 0
    for row in range(200):
        reading = read(batch, row)
        segment_begin = {0: 1, 1: 32}
        for position, origin in reading.moves.items():
            begin = segment_begin[reading.types[position]]
            assert (position - begin) % 2 == (origin - begin) % 2, "both pieces of a word keep their order"
            partner = position + 1 if (position - begin) % 2 == 0 else position - 1
            assert reading.moves[partner] - origin == partner - position
            assert abs(position - origin) <= 2 * 2, "no further than the window of three words"
        moved += len(reading.moves)
    assert moved / (200 * 60) == pytest.approx(0.3, abs=0.06)


def test_a_word_with_a_predicted_piece_is_a_barrier_for_words() -> None:
    noise = noise_settings(masking=MaskingSpec(unit="token"), word_order=WordOrderSpec(portion=1.0, unit="word", rate=0.3))
    rows = random_rows(200)
    drawn = draw(rows, WORDS, noise, 0)
    batch = noised(drawn)
    starts = WORDS.mark(drawn.layout.ids, drawn.layout.sentence_first)
    word = np.cumsum(starts, axis=1)
    for row in range(200):
        reading = read(batch, row)
        first = int(drawn.layout.first[row])
        places = {p: p - 1 - (p > first) for p in [*reading.masks, *reading.moves, *reading.moves.values()]}
        touched = {word[row, places[p]] for p in reading.masks}
        for position, origin in reading.moves.items():
            low, high = sorted((places[position], places[origin]))
            assert not touched & set(word[row, low : high + 1].tolist())


def test_word_order_slots_hold_the_whole_budget() -> None:
    assert WordOrderSpec().slots(128) == 18
    assert WordOrderSpec(portion=0.0).slots(128) == 1
    assert WordOrderSpec().slots(512) == 76
    assert WordOrderSpec(rate=0.07).budget(np.array([100]), 0.07)[0] == 7
    counts = draw(random_rows(400), WORDS, moving(within="segment", top_up=True), 0).view.wop_count
    assert counts.max() == WordOrderSpec().slots(SEQUENCE_LENGTH) == 9
