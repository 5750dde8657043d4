"""Cutting documents into chunks: nothing is lost, nothing is too long, pairs wherever there are two sentences."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from korealbert.examples.segments import Chunks, ChunkTargets, cut_document

N_MAX, MIN = 24, 3


def cut(lengths: list[int], target: int = N_MAX, *, carry: bool = True, spaced: np.ndarray | None = None) -> Chunks:
    everywhere = np.ones(sum(lengths) + 1, dtype=np.bool_)
    marks = everywhere if spaced is None else spaced
    return cut_document(lengths, marks.tobytes(), lambda chunk: target, max_pieces=N_MAX, min_pieces=MIN, carry=carry)


def targets_of(ids: np.ndarray, scope: str) -> ChunkTargets:
    expected = np.full(len(ids), 12)
    return ChunkTargets(ids, expected, seed=1, min_pieces=8, max_pieces=125, short_probability=0.1, scope=scope)


@settings(max_examples=300)
@given(st.lists(st.integers(1, 60), max_size=12), st.integers(MIN, N_MAX), st.booleans(), st.integers(1, 60))
def test_chunks_and_dropped_pieces_are_all_pieces(lengths: list[int], target: int, carry: bool, word: int) -> None:
    spaced = np.arange(sum(lengths) + 1) % word == 0
    result = cut(lengths, target, carry=carry, spaced=spaced)
    kept = sum(chunk.length for chunk in result.chunks)
    assert kept + result.too_short + result.truncated == sum(lengths)
    assert result.truncated == 0 or not carry
    assert result.too_short < MIN, "only the end of a document is too short"
    end = 0
    for chunk in result.chunks:
        assert MIN <= chunk.length <= N_MAX
        assert sum(chunk.sentence_lengths) == chunk.length
        assert chunk.begin >= end, "chunks follow one another without overlap"
        end = chunk.begin + chunk.length
    assert end <= sum(lengths)


def test_sentences_are_added_until_the_target_is_reached() -> None:
    assert [chunk.sentence_lengths for chunk in cut([5, 5, 5, 5, 5, 5], target=8).chunks] == [(5, 5), (5, 5), (5, 5)]


def test_a_chunk_that_has_reached_its_target_with_one_sentence_takes_another() -> None:
    assert [chunk.sentence_lengths for chunk in cut([12, 3, 4], target=8).chunks] == [(12, 3), (4,)]


def test_the_rest_of_a_sentence_opens_the_next_chunk() -> None:
    assert [(c.begin, c.sentence_lengths) for c in cut([20, 10, 9]).chunks] == [(0, (20, 4)), (24, (6, 9))]


def test_the_rest_of_a_sentence_is_dropped_and_counted_on_request() -> None:
    result = cut([20, 10, 9], carry=False)
    assert [(c.begin, c.sentence_lengths) for c in result.chunks] == [(0, (20, 4)), (30, (9,))]
    assert result.truncated == 6


def test_sentences_are_cut_at_spaces_where_there_are_any() -> None:
    spaced = np.zeros(60, dtype=np.bool_)
    spaced[[0, 20, 22, 50]] = True
    assert [c.sentence_lengths for c in cut([20, 30], spaced=spaced).chunks] == [(20, 2), (24,), (4,)]


def test_a_sentence_longer_than_a_row_fills_rows_of_its_own() -> None:
    assert [c.sentence_lengths for c in cut([60]).chunks] == [(24,), (24,), (12,)]


def test_a_short_end_is_dropped_and_counted() -> None:
    result = cut([24, 2])
    assert len(result.chunks) == 1
    assert result.too_short == 2


def test_no_piece_is_dropped_within_a_document() -> None:
    spaced = np.zeros(68, dtype=np.bool_)
    assert [c.sentence_lengths for c in cut([2, 60, 5], spaced=spaced).chunks] == [(2, 22), (24,), (14, 5)]
    spaced[2] = True  # A chunk that ended here would be too short.
    assert [c.sentence_lengths for c in cut([30], spaced=spaced).chunks] == [(24,), (6,)]


def test_a_tenth_of_chunks_aims_at_a_shorter_length() -> None:
    ids = np.arange(300, dtype=np.uint64)
    targets = targets_of(ids, "chunk")
    drawn = np.array([targets.of(i)(chunk) for i in range(300) for chunk in range(30)])
    short = drawn[drawn < 125]
    # One short target in 118 is 125 itself.
    assert len(short) / len(drawn) == pytest.approx(0.1, abs=3 * (0.09 / len(drawn)) ** 0.5 + 0.001)
    assert short.min() == 8
    assert short.mean() == pytest.approx(66, abs=4)


def test_scope_document_gives_all_chunks_of_a_document_one_target() -> None:
    ids = np.arange(400, dtype=np.uint64)
    targets = targets_of(ids, "document")
    drawn = np.array([[targets.of(i)(chunk) for chunk in range(40)] for i in range(400)])
    assert (drawn == drawn[:, :1]).all()
    assert 0.05 < (drawn[:, 0] < 125).mean() < 0.15


def test_targets_do_not_depend_on_the_other_documents() -> None:
    ids = np.arange(10, dtype=np.uint64)
    wishes = {"seed": 1, "min_pieces": 8, "max_pieces": 125, "short_probability": 0.5, "scope": "chunk"}
    few = np.full(10, 2)
    many, one = ChunkTargets(ids, few * 9, **wishes), ChunkTargets(ids[4:5], few[:1], **wishes)  # type: ignore[arg-type]
    assert [many.of(4)(chunk) for chunk in (0, 70, 3)] == [one.of(0)(chunk) for chunk in (0, 70, 3)]
