"""Draws that are made a turn at a time by R rows at once, as long as a row needs them."""

from __future__ import annotations

import numpy as np

from korealbert.examples.segments import Ints
from korealbert.philox import RowDraws, Stream, Words, below

_LANES = 4
"""Words that a counter gives: turns that one computation of randomness lasts."""


class Turns:
    """One random word for each row and turn. Turns count from 0; rows may leave off, but not come back."""

    def __init__(self, draws: RowDraws, stream: Stream) -> None:
        self._draws, self._stream = draws, stream
        self._words = np.empty((_LANES, len(draws.ids)), dtype=np.uint64)

    def words(self, rows: Ints, turn: int) -> Words:
        """Of some rows in this turn."""
        if turn % _LANES == 0:
            self._words[:, rows] = self._draws.block(self._stream, rows, block=turn // _LANES)
        words: Words = self._words[turn % _LANES, rows]
        return words


class Deck:
    """The numbers 0, 1, … cut into a stretch for each row, and drawn from without replacement: a shuffle that stops when a row
    has enough (Fisher and Yates)."""

    def __init__(self, begins: Ints, counts: Ints, turns: Turns) -> None:
        """``begins`` and ``counts`` [R] are the first number and the size of each stretch."""
        self.numbers = np.arange(int(counts.sum()))
        """Of each stretch what has been drawn, in the order of the draws, then the rest."""
        self._begins, self._counts, self._turns = begins, counts, turns

    def draw(self, rows: Ints, turn: int) -> Ints:
        """The next number of some rows; ``turn`` lies below their counts."""
        here = self._begins[rows] + turn
        there = here + below(self._turns.words(rows, turn), self._counts[rows] - turn)
        drawn: Ints = self.numbers[there]
        self.numbers[there] = self.numbers[here]
        self.numbers[here] = drawn
        return drawn
