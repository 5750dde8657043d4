"""Invariants of every noised row, whatever the rows and the noise."""

from __future__ import annotations

import itertools
from dataclasses import fields

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError
from scipy import stats

from korealbert.examples.batches import IGNORED, ExampleBatches
from korealbert.examples.masking import MaskingSpec
from korealbert.examples.noise import NoiseSettings, draw
from korealbert.examples.schema import Rows, View
from korealbert.examples.table import RowTable
from korealbert.examples.word_order import WordOrderSpec
from korealbert.vocab.tokenizer import FIRST_ORDINARY_ID, SPECIAL, Vocabulary
from tests.examples.made import (
    MASKINGS,
    NOISES,
    SEQUENCE_LENGTH,
    Reading,
    chunks_of,
    made_rows,
    made_words,
    noise_settings,
    noised,
    random_rows,
    read,
    sentence_numbers,
    words_in,
)

WORDS = made_words()
CHUNKS = st.lists(chunks_of(), min_size=1, max_size=5)


def flat(chunk: list[list[int]]) -> list[int]:
    return [i for sentence in chunk for i in sentence]


def check_segments(reading: Reading, chunk: list[list[int]], task: str) -> None:
    """Invariants 1 and 2."""
    pieces = flat(chunk)
    segments = reading.segments
    assert len(reading.tokens) == len(pieces) + 2 + (len(segments) == 2) <= SEQUENCE_LENGTH
    assert reading.types == sorted(reading.types)
    assert reading.restored.count(SPECIAL.cls) == 1
    assert reading.restored.count(SPECIAL.sep) == len(segments)
    assert (len(segments) == 1) == (len(chunk) == 1), "one segment if and only if there is one sentence"
    assert (reading.label == IGNORED) == (len(segments) == 1 or task == "none")
    in_order = list(reversed(segments)) if reading.label == 1 else segments
    assert flat(in_order) == pieces, "taking the swap back gives the text"
    borders = list(itertools.accumulate(map(len, chunk)))
    assert len(in_order[0]) in borders, "segments part between sentences"


def check_masks(reading: Reading, pieces: int, noise: NoiseSettings) -> None:
    """Invariant 3, except frequencies."""
    budget = max(1, round(noise.masking.rate * pieces))
    assert 1 <= len(reading.masks) <= min(budget, noise.masking.slots(SEQUENCE_LENGTH))
    for position, label in reading.masks.items():
        assert FIRST_ORDINARY_ID <= label < noise.vocab_size
        seen = reading.tokens[position]
        assert seen == SPECIAL.mask or seen >= FIRST_ORDINARY_ID
    assert all(reading.tokens[position] != SPECIAL.mask or position in reading.masks for position in range(len(reading.tokens)))


def check_moves(reading: Reading, chunk: list[list[int]], noise: NoiseSettings) -> None:
    """Invariant 5."""
    order, pieces = noise.word_order, len(flat(chunk))
    moves, tokens, clean = reading.moves, reading.tokens, reading.restored
    assert len(moves) <= int(order.rate * pieces + 1e-6)
    assert len(moves) != 1
    assert set(moves.values()) == set(moves), "the same places, in another order"
    assert not set(moves) & set(reading.masks), "predicted tokens never move"
    sentence = sentence_numbers(reading, chunk)
    for position, origin in moves.items():
        assert position != origin
        assert clean[origin] == tokens[position] != clean[position]
        low, high = sorted((position, origin))
        crossed = range(low, high + 1)
        assert all(tokens[p] not in (SPECIAL.mask, SPECIAL.cls, SPECIAL.sep) for p in crossed)
        assert reading.types[low] == reading.types[high]
        if order.within == "sentence":
            assert sentence[low] == sentence[high]
        if order.barrier == "all_mlm":
            assert not set(crossed) & set(reading.masks)


@settings(max_examples=250)
@given(CHUNKS, NOISES, st.integers(0, 50))
def test_every_row_keeps_all_invariants(chunks: list[list[list[int]]], noise: NoiseSettings, view: int) -> None:
    batch = noised(draw(made_rows(chunks), WORDS, noise, view))
    for row, chunk in enumerate(chunks):
        reading = read(batch, row)
        check_segments(reading, chunk, noise.sentence_task)
        check_masks(reading, len(flat(chunk)), noise)
        check_moves(reading, chunk, noise)


@settings(max_examples=100)
@given(CHUNKS, MASKINGS, st.integers(0, 2**63 - 1))
def test_whole_words_are_predicted_whole(chunks: list[list[list[int]]], masking: MaskingSpec, seed: int) -> None:
    noise = noise_settings(masking=masking.model_copy(update={"unit": "whole_word"}), seed=seed)
    batch = noised(draw(made_rows(chunks), WORDS, noise, 0))
    for row, chunk in enumerate(chunks):
        reading = read(batch, row)
        check_segments(reading, chunk, "sop")
        sentences = sentence_numbers(reading, chunk)
        begin = 1
        whole, cut = [], []
        for segment in reading.segments:
            firsts = {i for i in range(1, len(segment)) if sentences[begin + i] != sentences[begin + i - 1]}
            for word in words_in(segment, WORDS, firsts):
                chosen = sum(begin + i in reading.masks for i in word)
                (whole if chosen in (0, len(word)) else cut).append((chosen, len(word)))
            begin += len(segment) + 1
        if cut:
            # Only if no word fits the budget, in which case the beginning of one is predicted.
            budget = min(max(1, round(noise.masking.rate * len(flat(chunk)))), noise.masking.slots(SEQUENCE_LENGTH))
            assert [chosen for chosen, _ in cut] == [budget]
            assert all(chosen == 0 for chosen, _ in whole)
            assert all(length > budget for _, length in [*whole, *cut])


@settings(max_examples=50)
@given(CHUNKS, NOISES, st.integers(0, 9))
def test_noise_does_not_depend_on_the_company_of_a_row(chunks: list[list[list[int]]], noise: NoiseSettings, view: int) -> None:
    rows = made_rows(chunks)
    together = draw(rows, WORDS, noise, view).view
    for start in range(len(rows)):
        alone = draw(rows.slice(start, start + 1), WORDS, noise, view).view
        for name, column in columns(alone).items():
            assert np.array_equal(column[0], columns(together)[name][start]), name


def columns(view: View) -> dict[str, np.ndarray]:
    return {f.name: getattr(view, f.name) for f in fields(View) if getattr(view, f.name) is not None}


def test_rows_without_word_order_noise_are_those_of_a_view_without_any() -> None:
    rows = random_rows(300)
    some = draw(rows, WORDS, noise_settings(), 3)
    off = draw(rows, WORDS, noise_settings(word_order=WordOrderSpec(portion=0.0)), 3)
    with_moves, without = noised(some), noised(off)
    quiet = ~some.moved.with_noise
    assert 0 < quiet.sum() < len(rows)
    assert np.array_equal(with_moves.input_ids[quiet], without.input_ids[quiet])
    assert np.array_equal(with_moves.mlm_labels, without.mlm_labels)
    assert np.array_equal(with_moves.sop_labels, without.sop_labels)
    assert (with_moves.wop_labels[quiet] == IGNORED).all()
    assert off.view.wop_pos.shape[1] == 1


def test_views_differ_and_repeat() -> None:
    rows = random_rows(50)
    first, again, second = (draw(rows, WORDS, noise_settings(), view).view for view in (0, 0, 1))
    assert all(np.array_equal(a, b) for a, b in zip(columns(first).values(), columns(again).values(), strict=True))
    same = [np.array_equal(first.mlm_pos[row], second.mlm_pos[row]) for row in range(len(rows))]
    assert sum(same) < 3


def test_swaps_and_moves_are_as_frequent_as_asked() -> None:
    rows = random_rows(1_000)
    counts = [draw(rows, WORDS, noise_settings(), view).counts() for view in range(4)]
    total = {key: sum(count[key] for count in counts) for key in counts[0]}
    assert total["sop_rows"] == total["rows"] == 4_000
    assert total["sop_swapped"] / 4_000 == pytest.approx(0.5, abs=3 * (0.25 / 4_000) ** 0.5)
    assert total["wop_rows"] / 4_000 == pytest.approx(0.3, abs=3 * (0.21 / 4_000) ** 0.5)


def test_predicted_pieces_are_masked_replaced_and_kept_80_10_10() -> None:
    rows = random_rows(2_000)
    drawn = draw(rows, WORDS, noise_settings(), 0)
    counts = drawn.counts()
    targets = counts["mlm_targets"]
    # A random piece is the piece itself once in 92 times, and then counts as kept.
    chance = 0.1 / (97 - FIRST_ORDINARY_ID)
    for name, share in (("masked", 0.8), ("random", 0.1 - chance), ("kept", 0.1 + chance)):
        assert counts[name] / targets == pytest.approx(share, abs=3 * (share * (1 - share) / targets) ** 0.5), name
    replaced = drawn.masked.replacement[drawn.masked.replacement != SPECIAL.mask]
    assert replaced.min() == FIRST_ORDINARY_ID
    assert replaced.max() == 96
    assert targets / counts["pieces"] == pytest.approx(round(0.15 * 61) / 61, abs=0.004)


def test_ngrams_stay_within_a_segment() -> None:
    # Two segments of five words, two words to predict: pairs of neighbours come about as one n-gram, but not across [SEP].
    rows = made_rows([[[9, 10, 11, 12, 13], [14, 15, 16, 17, 18]]] * 8_000)
    noise = noise_settings(masking=MaskingSpec(unit="token", ngram_max=2, rate=0.2))
    drawn = draw(rows, WORDS, noise, 0)
    pairs = drawn.masked.places.reshape(-1, 2)
    neighbours = np.bincount(pairs[pairs[:, 1] == pairs[:, 0] + 1][:, 0], minlength=9)
    across, within = neighbours[4], np.delete(neighbours, 4)
    assert across < 0.6 * within.min()


def test_ngrams_never_overlap_and_fill_the_budget_to_the_piece() -> None:
    drawn = draw(random_rows(200), WORDS, noise_settings(masking=MaskingSpec(unit="token", ngram_max=3, rate=0.4)), 0)
    assert (drawn.view.mlm_count == round(0.4 * 61)).all()


def test_an_ngram_beyond_the_budget_is_shortened_not_skipped() -> None:
    def first_visited(ngram_max: int) -> np.ndarray:
        masking = MaskingSpec(unit="token", ngram_max=ngram_max, max_predictions=1)
        return draw(random_rows(100), WORDS, noise_settings(masking=masking), 0).masked.places

    assert np.array_equal(first_visited(3), first_visited(1))


@pytest.mark.parametrize("unit", ["whole_word", "token"])
def test_ngrams_of_n_words_are_drawn_as_one_over_n(unit: str) -> None:
    # One word is one piece here, and the rows are long, so that few n-grams touch or are cut to the budget.
    words = made_words(period=1)
    width = 4_000
    rows = random_rows(60, width=width)
    masking = MaskingSpec(unit=unit, ngram_max=3, rate=0.02)  # type: ignore[arg-type]
    noise = noise_settings(masking=masking, sequence_length=width + 3)
    masked = draw(rows, words, noise, 0).masked
    key = masked.rows * (width + 9) + masked.places
    lengths = np.diff(np.flatnonzero(np.diff(key, prepend=-9, append=1 << 40) != 1))
    counts = np.bincount(lengths, minlength=4)[1:4]
    shares = counts / counts.sum()
    assert shares == pytest.approx([6 / 11, 3 / 11, 2 / 11], abs=0.035)
    chosen = masked.ngrams[1:] / masked.ngrams.sum()
    assert chosen == pytest.approx([6 / 11, 3 / 11, 2 / 11], abs=0.02), "as the statistics count them"
    if unit == "token":
        assert masked.ngrams @ np.arange(4) == len(masked.rows)


def test_the_sentence_task_none_labels_nothing_but_keeps_the_pair() -> None:
    rows = random_rows(20)
    batch = noised(draw(rows, WORDS, noise_settings(task="none"), 0))
    assert (batch.sop_labels == IGNORED).all()
    assert all(len(read(batch, row).segments) == 2 for row in range(20))


def test_words_are_visited_in_every_order_alike() -> None:
    # Four words of one piece in one sentence; two are predicted, so that each of the six pairs is as frequent.
    rows = made_rows([[[9, 12, 15, 18]]] * 6_000)
    drawn = draw(rows, made_words(period=1), noise_settings(masking=MaskingSpec(rate=0.5)), 0)
    pairs = drawn.masked.places.reshape(-1, 2) @ np.array([4, 1])
    counts = np.unique(pairs, return_counts=True)[1]
    assert len(counts) == 6
    assert stats.chisquare(counts).pvalue > 1e-4


def test_a_word_that_no_budget_fits_is_cut_and_counted() -> None:
    counts = draw(made_rows([[[9, 10, 10, 10]]] * 5), WORDS, noise_settings(), 0).counts()
    assert (counts["mlm_targets"], counts["cut_words"], counts["ngrams_1"]) == (5, 5, 0)


def test_a_row_of_one_piece_is_predicted() -> None:
    reading = read(noised(draw(made_rows([[[9]]]), WORDS, noise_settings(), 0)), 0)
    assert reading.restored == [SPECIAL.cls, 9, SPECIAL.sep]
    assert reading.masks == {1: 9}


def test_a_higher_share_gets_the_slots_that_it_needs() -> None:
    assert MaskingSpec().slots(128) == 19
    assert MaskingSpec().slots(512) == 76
    assert MaskingSpec(rate=0.4).slots(128) == 50
    assert MaskingSpec(max_predictions=20).slots(512) == 20
    with pytest.raises(ValidationError, match="less than or equal to 2048"):  # half of the longest row
        MaskingSpec(max_predictions=20_000)
    rows = random_rows(30)
    most = draw(rows, WORDS, noise_settings(masking=MaskingSpec(max_predictions=2_048)), 0).counts()
    assert most["mlm_targets"] == 30 * round(0.15 * 61)
    counts = draw(rows, WORDS, noise_settings(masking=MaskingSpec(rate=0.4)), 0).counts()
    assert counts["mlm_targets"] / counts["pieces"] == pytest.approx(0.4, abs=0.02)


def test_korean_text_keeps_all_invariants(batches: ExampleBatches, vocabulary: Vocabulary) -> None:
    table = batches._rows
    for view in range(batches.num_views):
        batch = batches.gather(view, np.arange(batches.num_rows))
        for row in range(0, batches.num_rows, 3):
            chunk = chunk_of(table, row)
            reading = read(batch, row)
            noise = noise_settings(vocab_size=vocabulary.size)
            check_segments(reading, chunk, "sop")
            check_masks(reading, len(flat(chunk)), noise)
            check_moves(reading, chunk, noise)


def chunk_of(table: RowTable, row: int) -> list[list[int]]:
    rows: Rows = table.take(np.array([row]))
    pieces = iter(rows.ids[0, : rows.length[0]].tolist())
    return [list(itertools.islice(pieces, int(length))) for length in rows.sentence_lengths]


def test_korean_words_are_masked_whole(batches: ExampleBatches, vocabulary: Vocabulary) -> None:
    words = vocabulary.words()
    batch = batches.gather(0, np.arange(batches.num_rows))
    cut = total = 0
    for row in range(batches.num_rows):
        reading = read(batch, row)
        position = 1
        for segment in reading.segments:
            for word in words_in(segment, words, set()):
                chosen = sum(position + i in reading.masks for i in word)
                total += chosen > 0
                cut += 0 < chosen < len(word)
            position += len(segment) + 1
    assert total > 500
    assert cut / total < 0.01, "only a short row may have a word that no budget fits"
