"""Documents to pieces, many sentences in one call, with the ids that SentencePiece gives for each sentence alone.

SentencePiece takes 1.4 times as long when it is called sentence by sentence, and a fifth of the rest goes into normalising
characters that stay as they are. No piece reaches over a space, so the pieces of several lines together are those of the lines
one after the other; counting words tells where each line's pieces begin. Lines that normalisation would change at all, and all
lines of a vocabulary of morphemes, are encoded alone, by the vocabulary itself.
"""

from __future__ import annotations

import time
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
from sentencepiece import SentencePieceProcessor
from sentencepiece.sentencepiece_model_pb2 import ModelProto

from korealbert.vocab.tokenizer import SPACE, Vocabulary

BLOCK_CHARACTERS = 4_096
"""Characters encoded together, unless a line is longer: the quickest size, and few enough that scores add up exactly
(``vocab.stage.SCORE_STEP``)."""

JAMO = ((0x1100, 0x11FF), (0xA960, 0xA97F), (0xD7B0, 0xD7FF))
"""Code points that compose to Hangul syllables."""

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Pieces = npt.NDArray[np.int32]
_UNSEEN, _INERT, _BLANK, _OTHER = range(4)
_NEWLINE = 0x0A


@dataclass(frozen=True)
class EncodedDocuments:
    """D documents as pieces, one after the other."""

    pieces: Pieces
    """[n]"""
    sentence_lengths: Ints
    """[S]: pieces of each sentence, none 0; they sum to n."""
    documents: Ints
    """[S]: the document (0..D-1) of each sentence, ascending."""


@dataclass(frozen=True)
class _Lines:
    """The lines of a text, those of blanks only left out."""

    begin: Ints
    """[S]: first character."""
    words_before: Ints
    """[S + 1]: words in front of the line; at the end all words."""


class DocumentEncoder:
    """Encodes documents with one vocabulary; sentences are lines."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary
        self.spaced: Bools = vocabulary.words().spaced
        """[V]: the piece follows a space."""
        self._kinds = np.full(0x110000, _UNSEEN, dtype=np.uint8)
        self._kinds[[_NEWLINE, ord(" ")]] = _BLANK
        self._without_rules = _without_rules(vocabulary)
        self.morphemes = {"seconds": 0.0, "megabytes": 0.0}
        """Text cut into morphemes and then pieces so far, and the processor time that took."""

    def encode(self, texts: Sequence[str]) -> EncodedDocuments:
        """Pieces of all documents. Lines without a piece (blank, or controls only) are no sentences."""
        text = "\n".join(texts)
        codes = np.frombuffer(text.encode("utf-16-le", "surrogatepass"), dtype="<u2")
        if len(codes) > len(text):
            codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype="<u4")
        kinds = self._kinds[codes]
        if (kinds == _UNSEEN).any():
            self._learn(np.unique(codes[kinds == _UNSEEN]))
            kinds = self._kinds[codes]
        lines, alone = _find_lines(codes, kinds)
        alone |= self._vocabulary.boundary is not None
        pieces, begins, miscounted = self._encode_lines(text, lines, alone)
        if miscounted.any():
            pieces, begins, _ = self._encode_lines(text, lines, alone | miscounted)
        lengths = np.diff(begins, append=len(pieces))
        sizes = np.array([len(t) + 1 for t in texts], dtype=np.int64)
        documents = np.searchsorted(np.cumsum(sizes) - sizes, lines.begin, side="right") - 1
        filled = lengths > 0
        return EncodedDocuments(pieces, lengths[filled], documents[filled])

    def _encode_lines(self, text: str, lines: _Lines, alone: Bools) -> tuple[Pieces, Ints, Bools]:
        """All pieces, where each line's begin, and which lines are in blocks whose words do not show in their pieces."""
        if not len(lines.begin):
            return np.empty(0, dtype=np.int32), lines.begin, alone
        opens = (np.diff(lines.begin // BLOCK_CHARACTERS, prepend=-1) != 0) | alone
        opens[1:] |= alone[:-1]
        first = np.flatnonzero(opens)
        encoded = self._encode_blocks(text, [*lines.begin[first].tolist(), len(text)], alone[first])
        pieces = np.concatenate(encoded)
        block_begin = np.cumsum([0, *map(len, encoded)])
        words = np.append(np.flatnonzero(self.spaced[pieces]), len(pieces))
        seen = np.searchsorted(words[:-1], block_begin)
        expected = np.diff(lines.words_before[np.append(first, len(alone))])
        block = np.cumsum(opens) - 1
        miscounted = ((expected != np.diff(seen)) & ~alone[first])[block]
        ranks = seen[block] + lines.words_before[:-1] - lines.words_before[first][block]
        begins = np.where(alone, block_begin[block], words[np.minimum(ranks, len(words) - 1)])
        return pieces, begins, miscounted

    def _encode_blocks(self, text: str, borders: list[int], alone: Bools) -> list[Pieces]:
        """The pieces of each stretch of the text between two borders."""
        blocks = [text[begin:end] for begin, end in pairwise(borders)]
        plain = [block.replace("\n", " ") for block, by_itself in zip(blocks, alone, strict=True) if not by_itself]
        by_rules = iter(self._encode_by_rules([block for block, by_itself in zip(blocks, alone, strict=True) if by_itself]))
        as_it_is = iter(self._without_rules.Encode(plain, return_type="numpy", num_threads=1))
        return [next(by_rules if by_itself else as_it_is) for by_itself in alone]

    def _encode_by_rules(self, blocks: list[str]) -> list[Pieces]:
        begun = time.process_time()
        pieces = self._vocabulary.encode(blocks)
        if self._vocabulary.boundary is not None:
            self.morphemes["seconds"] += time.process_time() - begun
            self.morphemes["megabytes"] += sum(len(block.encode()) for block in blocks) / 1e6
        return pieces

    def _learn(self, codes: npt.NDArray[Any]) -> None:
        """Look at characters that were not met before: does normalisation leave them as they are, whatever their neighbours?"""
        for code in codes.tolist():
            character = chr(code)
            # Only marks and conjoining jamo compose with what is in front of them.
            composes = unicodedata.category(character)[0] in "MC" or any(first <= code <= last for first, last in JAMO)
            stays = not composes and self._vocabulary.processor.Normalize(f"x{character}x") == f"{SPACE}x{character}x"
            self._kinds[code] = _INERT if stays and character != SPACE else _OTHER


def _without_rules(vocabulary: Vocabulary) -> Any:
    """The same SentencePiece model without its table of normalisation."""
    model = ModelProto.FromString(vocabulary.processor.serialized_model_proto())
    model.normalizer_spec.name = "identity"
    model.normalizer_spec.precompiled_charsmap = b""
    processor = SentencePieceProcessor()
    processor.LoadFromSerializedProto(model.SerializeToString())
    return processor


def _find_lines(codes: npt.NDArray[Any], kinds: npt.NDArray[np.uint8]) -> tuple[_Lines, Bools]:
    """The lines that are not blank, and which of them hold a character that normalisation would change."""
    visible = kinds != _BLANK
    word_begins = visible.copy()
    word_begins[1:] &= ~visible[:-1]
    words = np.flatnonzero(word_begins)
    begin = np.concatenate([[0], np.flatnonzero(codes == _NEWLINE) + 1])
    borders = np.append(begin, len(codes))
    before = np.searchsorted(words, borders)
    filled = np.diff(before) > 0
    changed = np.diff(np.searchsorted(np.flatnonzero(kinds == _OTHER), borders)) > 0
    return _Lines(begin[filled], np.append(before[:-1][filled], len(words))), changed[filled]
