"""Documents to pieces, many sentences in one call, with the ids that SentencePiece gives for each sentence alone.

SentencePiece takes a third longer when it is called sentence by sentence. No piece reaches over a space, so the pieces of
several lines together are those of the lines one after the other, and counting words tells where each line's pieces begin.
A line with a character that might miscount (one that normalisation deletes, or makes several words of) is encoded alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from korealbert.vocab.tokenizer import SPACE, Vocabulary

BLOCK_CHARACTERS = 8_192
"""Characters encoded together, unless a line is longer. Scores of so many pieces add up exactly (``vocab.stage.SCORE_STEP``)."""

Ints = npt.NDArray[np.int64]
_UNSEEN, _VISIBLE, _SPACE, _ODD = range(4)
_NEWLINE = 0x0A


@dataclass(frozen=True)
class EncodedDocuments:
    """D documents as pieces, one after the other."""

    pieces: npt.NDArray[np.int32]
    """[n]"""
    sentence_lengths: Ints
    """[S]: pieces of each sentence, none 0; they sum to n."""
    documents: Ints
    """[S]: the document (0..D-1) of each sentence, ascending."""


@dataclass(frozen=True)
class _Lines:
    """The lines of a text, blank ones left out."""

    begin: Ints
    """First character."""
    words_before: Ints
    """Words in front of the line."""


class DocumentEncoder:
    """Encodes documents with one vocabulary; sentences are lines."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary
        self._spaced = vocabulary.words().spaced
        self._kinds = np.full(0x110000, _UNSEEN, dtype=np.uint8)
        self._learn(np.array([_NEWLINE]))

    def encode(self, texts: Sequence[str]) -> EncodedDocuments:
        """Pieces of all documents. Lines without a piece (blank, or controls only) are no sentences."""
        text = "\n".join(texts)
        codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype="<u4")
        kinds = self._kinds[codes]
        if (kinds == _UNSEEN).any():
            self._learn(np.unique(codes[kinds == _UNSEEN]))
            kinds = self._kinds[codes]
        lines, alone = _find_lines(codes, kinds)
        if self._kinds[_NEWLINE] != _SPACE:
            alone[:] = True
        while True:
            pieces, begins, miscounted = self._encode_lines(text, lines, alone)
            if not miscounted.any():
                break
            alone |= miscounted
        lengths = np.diff(begins, append=len(pieces))
        sizes = np.array([len(t) + 1 for t in texts], dtype=np.int64)
        documents = np.searchsorted(np.cumsum(sizes) - sizes, lines.begin, side="right") - 1
        filled = lengths > 0
        return EncodedDocuments(pieces, lengths[filled], documents[filled])

    def _encode_lines(
        self, text: str, lines: _Lines, alone: npt.NDArray[np.bool_]
    ) -> tuple[npt.NDArray[np.int32], Ints, npt.NDArray[np.bool_]]:
        """All pieces, where each line's begin, and which lines are in blocks whose words could not be told apart."""
        count = len(lines.begin)
        if not count:
            return np.empty(0, dtype=np.int32), np.empty(0, dtype=np.int64), alone
        opens = np.diff(lines.begin // BLOCK_CHARACTERS, prepend=-1) != 0
        opens |= alone
        opens[1:] |= alone[:-1]
        first_line = np.flatnonzero(opens)
        borders = [*lines.begin[first_line].tolist(), len(text)]
        encoded = self._vocabulary.encode([text[a:b] for a, b in zip(borders, borders[1:], strict=False)])
        pieces = np.concatenate(encoded)
        block_begin = np.concatenate([[0], np.cumsum([len(block) for block in encoded])])
        words = np.flatnonzero(self._spaced[pieces])
        seen = np.searchsorted(words, block_begin)
        block = np.cumsum(opens) - 1
        ranks = seen[block] + lines.words_before[:-1] - lines.words_before[first_line][block]
        expected = np.diff(lines.words_before[np.append(first_line, count)])
        miscounted = (expected != np.diff(seen)) & ~alone[first_line]
        if miscounted.any():
            return pieces, ranks, miscounted[block]
        begins = np.where(alone, block_begin[block], words[np.minimum(ranks, len(words) - 1)] if len(words) else 0)
        return pieces, begins, np.zeros(count, dtype=np.bool_)

    def _learn(self, codes: npt.NDArray[Any]) -> None:
        """What normalisation makes of characters that were not met before."""
        for code in codes.tolist():
            character = chr(code)
            if "\ud800" <= character <= "\udfff":
                self._kinds[code] = _ODD
                continue
            normal = self._vocabulary.processor.Normalize(f"x{character}x")
            if normal == f"{SPACE}x{SPACE}x":
                self._kinds[code] = _SPACE
            else:
                self._kinds[code] = _VISIBLE if normal.count(SPACE) == 1 and normal != f"{SPACE}xx" else _ODD


def _find_lines(codes: npt.NDArray[Any], kinds: npt.NDArray[np.uint8]) -> tuple[_Lines, npt.NDArray[np.bool_]]:
    """The lines that are not blank, and which of them hold an odd character."""
    visible = kinds != _SPACE
    word_begins = visible.copy()
    word_begins[1:] &= ~visible[:-1]
    words = np.flatnonzero(word_begins)
    begin = np.concatenate([[0], np.flatnonzero(codes == _NEWLINE) + 1])
    before = np.searchsorted(words, np.append(begin, len(codes)))
    filled = np.diff(before) > 0
    odd = np.flatnonzero(kinds == _ODD)
    holds_odd = np.diff(np.searchsorted(odd, np.append(begin, len(codes)))) > 0
    return _Lines(begin[filled], np.append(before[:-1][filled], len(words))), holds_odd[filled]
