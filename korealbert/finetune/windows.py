"""Long contexts as overlapping inputs ``[CLS] question [SEP] window [SEP]``, and spans of characters from their logits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from korealbert.finetune.alignment import Frame, Pieces, Span

MAX_QUESTION_PIECES = 64

STRIDE = 128
"""Pieces from the beginning of one window to that of the next, as in BERT and KLUE-baseline."""

BEST = 20
"""So many starts and ends are combined."""


@dataclass(frozen=True)
class Window:
    """``spans`` are the characters of the context that the input's pieces from position ``first`` on stand for."""

    first: int
    spans: Sequence[Span]

    def target(self, answer: Span | None) -> tuple[int, int]:
        """Positions of the first and last piece of an answer; (0, 0), that is ``[CLS]``, where it is not all in the window."""
        if answer is None or not self.spans or self.spans[0][0] > answer[0] or self.spans[-1][1] < answer[1]:
            return 0, 0
        inside = self.within(answer)
        if not inside or self.spans[inside[0]][0] > answer[0] or self.spans[inside[-1]][1] < answer[1]:
            return 0, 0
        return self.first + inside[0], self.first + inside[-1]

    def within(self, answer: Span) -> list[int]:
        """Numbers of the window's pieces that share a character with an answer."""
        return [n for n, (begin, end) in enumerate(self.spans) if max(begin, answer[0]) < min(end, answer[1])]

    def characters(self, start: int, end: int) -> Span:
        """The characters of the context from the piece at position ``start`` through that at ``end``."""
        return self.spans[start - self.first][0], self.spans[end - self.first][1]


class Found(NamedTuple):
    """What a window says: its best span with its score, and the score of there being no answer."""

    score: float
    span: Span
    null: float


def windows(
    question: Pieces, context: Pieces, special: Frame, max_length: int
) -> Iterator[tuple[list[int], list[int], Window]]:
    """Ids, segments and layout of each window. Raises ValueError when the question leaves no room for a context."""
    asked = question.ids[:MAX_QUESTION_PIECES]
    room = max_length - special.size - len(asked)
    if room < 1:
        raise ValueError(f"max_length is {max_length}, but a question takes {len(asked)} pieces of it; give more")
    first = len(special.before) + len(asked) + len(special.between)
    for begin in range(0, len(context.ids) or 1, min(STRIDE, room)):
        ids, segments = special.around(asked, context.ids[begin : begin + room])
        yield ids, segments, Window(first, context.spans[begin : begin + room])
        if begin + room >= len(context.ids):
            return


def best_span(logits_L2: npt.NDArray[Any], window: Window, max_pieces: int) -> Found:
    """The span of at most ``max_pieces`` pieces with the largest sum of its start's and its end's logit."""
    null = float(logits_L2[0].sum())
    visible = [window.first + n for n, (begin, end) in enumerate(window.spans) if begin < end]
    if not visible:
        return Found(-np.inf, (0, 0), null)
    positions_C = np.array(visible)
    starts = positions_C[np.argsort(-logits_L2[positions_C, 0], kind="stable")[:BEST]]
    ends = positions_C[np.argsort(-logits_L2[positions_C, 1], kind="stable")[:BEST]]
    allowed_SE = (ends[None, :] >= starts[:, None]) & (ends[None, :] < starts[:, None] + max_pieces)
    if not allowed_SE.any():
        starts, ends, allowed_SE = starts[:1], starts[:1], np.ones((1, 1), dtype=bool)
    scores_SE = np.where(allowed_SE, logits_L2[starts, 0][:, None] + logits_L2[ends, 1][None, :], -np.inf)
    start, end = np.unravel_index(int(scores_SE.argmax()), scores_SE.shape)
    return Found(float(scores_SE[start, end]), window.characters(int(starts[start]), int(ends[end])), null)


def near_spans(window: Window, answer: Span, max_pieces: int) -> list[Span]:
    """The spans of whole pieces that cover what the window has of an answer, and those one piece shorter at either end."""
    inside = window.within(answer)
    if not inside:
        return []
    ranges = [(a, b) for a in inside[:2] for b in inside[-2:] if a <= b < a + max_pieces]
    ranges += [(inside[0], inside[min(len(inside), max_pieces) - 1])] if not ranges else []
    return [(window.spans[a][0], window.spans[b][1]) for a, b in ranges]
