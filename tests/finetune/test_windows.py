"""Long contexts: every answer is in some window, and logits give spans of characters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from korealbert.finetune import tasks
from korealbert.finetune.encoders.alignment import Frame, Pieces
from korealbert.finetune.task import Encoded, Feature
from korealbert.finetune.task_types.questions import STRIDE, Answer, BestSpan, Question, Window, best_span, near_spans, windows

FRAME = Frame([2], [3], [3], (0, 1))


@pytest.mark.parametrize("blanks", [("", ""), ("", " "), (" ", ""), (" ", " \u200b ")])
def test_blanks_at_the_ends_of_a_gold_answer_are_no_part_of_the_target(
    tokenizer: Callable[..., Any], blanks: tuple[str, str]
) -> None:
    text = f"이 영화{blanks[0] or ' '}배우 연기{blanks[1] or ' '}장면 음악"
    begin = text.index("배우") - len(blanks[0])
    answer = Answer(text[begin : text.index("연기") + 2 + len(blanks[1])], begin)
    question = Question("q", "정말", (answer,), pair=text)
    (feature,) = tasks.load("korquad").encode([question], tokenizer(), max_length=32)
    covered = feature.input_ids[feature.target[0] : feature.target[1] + 1]
    assert tokenizer().convert_ids_to_tokens(covered) == ["배우", "연기"]


def test_a_gold_answer_of_blanks_is_an_error_of_the_gold_file(tokenizer: Callable[..., Any]) -> None:
    question = Question("q7", "정말", (Answer("  ", 4),), pair="이 영화  배우")
    with pytest.raises(ValueError, match=r"question q7, field 'answers': the gold answer '  ' has no character"):
        tasks.load("korquad").encode([question], tokenizer(), max_length=32)


def context(count: int) -> Pieces:
    """Pieces of two characters with a space between."""
    return Pieces(list(range(10, 10 + count)), [(3 * n, 3 * n + 2) for n in range(count)])


@given(st.integers(0, 700), st.integers(0, 80), st.integers(90, 300))
def test_windows_overlap_and_hold_every_piece(count: int, asked: int, max_length: int) -> None:
    made = list(windows(Pieces([5] * asked, [(0, 0)] * asked), context(count), FRAME, max_length))
    assert all(len(ids) == len(segments) <= max_length for ids, segments, _ in made)
    seen = [span for _, _, window in made for span in window.spans]
    assert set(seen) == set(context(count).spans)
    for ids, _, window in made:
        assert ids[window.first : window.first + len(window.spans)] == [10 + begin // 3 for begin, _ in window.spans]
    assert len(made) == 1 or len(made[0][2].spans) >= min(STRIDE, max_length - 3 - min(asked, 64))


def test_windows_point_at_a_whole_answer_or_else_at_cls() -> None:
    window = Window(4, context(6).spans[2:5])
    assert window.target((6, 8)) == (4, 4)
    assert window.target((6, 14)) == (4, 6)
    assert window.target((7, 11)) == (4, 5)
    assert window.target((3, 8)) == window.target((12, 16)) == window.target((30, 31)) == window.target(None) == (0, 0)
    assert window.characters(4, 6) == (6, 14)


@given(st.data())
def test_the_best_span_has_the_largest_sum_of_all_allowed_ones(data: st.DataObject) -> None:
    count = data.draw(st.integers(1, 12))
    logits = np.array(data.draw(st.lists(st.integers(-50, 50), min_size=2 * (count + 3), max_size=2 * (count + 3)))).reshape(
        -1, 2
    )
    window = Window(2, context(count).spans)
    limit = data.draw(st.integers(1, 5))
    found = best_span(logits.astype(np.float32), window, limit)
    allowed = [(a, b) for a in range(2, 2 + count) for b in range(a, min(a + limit, 2 + count))]
    assert found.score == max(logits[a, 0] + logits[b, 1] for a, b in allowed)
    assert found.null == logits[0].sum()
    assert found.span in {window.characters(a, b) for a, b in allowed}


def test_a_question_that_leaves_no_room_is_an_error() -> None:
    with pytest.raises(ValueError, match="max_length is 20, but a question takes 40 pieces of it; raise max_length"):
        next(windows(Pieces([5] * 40, [(0, 0)] * 40), context(3), FRAME, 20))


def feature(example: int, window: Window) -> Feature:
    return Feature([2], [0], (0, 0), example, window)


def test_the_best_window_answers_unless_no_answer_scores_higher() -> None:
    text = "가나 다라 마바"
    questions = [Question(str(n), "?", (Answer("다라", 3),), pair=text) for n in range(2)]
    window = Window(1, [(0, 2), (3, 5), (6, 8)])
    encoded = Encoded(questions, [feature(0, window), feature(0, window), feature(1, window)])
    decoded = [BestSpan(1.0, (0, 2), 0.0), BestSpan(3.0, (3, 5), 5.0), BestSpan(2.0, (6, 8), 4.0)]
    assert tasks.load("korquad").predictions(encoded, decoded) == ["다라", "마바"]
    assert tasks.load("klue_mrc").predictions(encoded, decoded) == ["다라", ""]


def test_the_oracle_cannot_cut_a_particle_off_a_piece() -> None:
    text = "한강은 서울을 지난다"
    task = tasks.load("korquad")
    questions = [Question("1", "?", (Answer("서울", 4),), pair=text), Question("2", "?", (Answer("한강", 0),), pair=text)]
    window = Window(1, [(0, 2), (2, 3), (4, 7), (8, 11)])
    encoded = Encoded(questions, [feature(0, window), feature(1, window)])
    oracle = task.oracle(encoded)
    assert oracle == ["서울을", "한강"]
    assert task.score(questions, oracle, "official").values == {"em": 50.0, "f1": pytest.approx((80 + 100) / 2)}
    assert near_spans(window, (40, 42), 30) == []
