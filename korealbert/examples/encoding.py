"""Documents to pieces, with the ids that SentencePiece gives for each sentence alone.

No piece reaches over a space, so lines are encoded word by word (``examples.words``), and SentencePiece sees only those not
met before. Lines that normalisation would change at all, and all lines of a vocabulary of morphemes or with rules for spaces,
are encoded whole, by the vocabulary itself.
"""

from __future__ import annotations

import time
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from sentencepiece.sentencepiece_model_pb2 import ModelProto

from korealbert.examples.words import PADDING, WordEncoder, longest_line
from korealbert.vocab.normalisation import joining_characters
from korealbert.vocab.tokenizer import SPACE, Vocabulary

_Ints = npt.NDArray[np.int64]
_Bools = npt.NDArray[np.bool_]
Pieces = npt.NDArray[np.int32]
_UNSEEN, _INERT, _BLANK, _OTHER = range(4)
_NEWLINE = 0x0A


@dataclass(frozen=True)
class EncodedDocuments:
    """D documents as pieces, one after the other."""

    pieces: Pieces
    """[n]"""
    sentence_lengths: _Ints
    """[S]: pieces of each sentence, none 0; they sum to n."""
    documents: _Ints
    """[S]: the document (0..D-1) of each sentence, ascending."""


@dataclass(frozen=True)
class _Lines:
    """The S lines of a text, those of blanks only left out, and its W words: what blanks separate."""

    begins: _Ints
    """[S]: first character."""
    ends: _Ints
    """[S]: the newline behind it."""
    words: _Ints
    """[S]: number of words."""
    word_begins: _Ints
    """[W]"""
    word_ends: _Ints
    """[W]"""


class DocumentEncoder:
    """Encodes documents with one vocabulary; sentences are lines."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary
        self.spaced: _Bools = vocabulary.words().spaced
        """[V]: the piece follows a space."""
        self._kinds = np.full(0x110000, _UNSEEN, dtype=np.uint8)
        self._kinds[[_NEWLINE, ord(" ")]] = _BLANK
        model = ModelProto.FromString(vocabulary.processor.serialized_model_proto())
        self._joining = joining_characters(model.normalizer_spec.precompiled_charsmap)
        self._words = WordEncoder(vocabulary)
        stays = " " not in self._joining and vocabulary.processor.Normalize("x x") == f"{SPACE}x{SPACE}x"
        self._longest_line = longest_line(vocabulary) if stays and vocabulary.boundary is None else 0
        self.morphemes = {"seconds": 0.0, "megabytes": 0.0}
        """Text cut into morphemes and then pieces so far, and the processor time that took."""

    def encode(self, texts: Sequence[str]) -> EncodedDocuments:
        """Pieces of all documents. Lines without a piece (blank, or controls only) are no sentences."""
        text = "\n".join(texts) + "\n" * PADDING
        codes = np.frombuffer(text.encode("utf-16-le", "surrogatepass"), dtype="<u2")
        if len(codes) > len(text):
            codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype="<u4")
        kinds = self._kinds[codes]
        if (kinds == _UNSEEN).any():
            self._learn(np.unique(codes[kinds == _UNSEEN]))
            kinds = self._kinds[codes]
        lines, whole = _find_lines(codes, kinds)
        whole |= lines.ends - lines.begins > self._longest_line
        pieces, lengths = self._encode_lines(text, codes, lines, whole)
        sizes = np.array([len(t) + 1 for t in texts], dtype=np.int64)
        documents = np.searchsorted(np.cumsum(sizes) - sizes, lines.begins, side="right") - 1
        filled = lengths > 0
        return EncodedDocuments(pieces, lengths[filled], documents[filled])

    def _encode_lines(self, text: str, codes: npt.NDArray[Any], lines: _Lines, whole: _Bools) -> tuple[Pieces, _Ints]:
        """All pieces, and how many each line has; those ``whole`` [S] by the vocabulary, the others word by word."""
        by_word = ~np.repeat(whole, lines.words)
        pieces, counts = self._words.encode(codes, lines.word_begins[by_word], lines.word_ends[by_word])
        ends = np.append(0, np.cumsum(counts))[np.cumsum(np.where(whole, 0, lines.words))]
        lengths = np.diff(ends, prepend=0)
        numbers = np.flatnonzero(whole)
        if not len(numbers):
            return pieces, lengths
        borders = zip(lines.begins[numbers].tolist(), lines.ends[numbers].tolist(), strict=True)
        encoded = self._encode_whole([text[begin:end] for begin, end in borders])
        lengths[numbers] = [len(ids) for ids in encoded]
        between = np.split(pieces, ends[numbers])
        parts = [part for pair in zip(between, encoded, strict=False) for part in pair]
        return np.concatenate([*parts, between[-1]]), lengths

    def _encode_whole(self, lines: list[str]) -> list[Pieces]:
        begun = time.process_time()
        pieces = self._vocabulary.encode(lines)
        if self._vocabulary.boundary is not None:
            self.morphemes["seconds"] += time.process_time() - begun
            self.morphemes["megabytes"] += sum(len(line.encode()) for line in lines) / 1e6
        return pieces

    def _learn(self, codes: npt.NDArray[Any]) -> None:
        """Look at characters that were not met before: does normalisation leave them as they are, whatever their neighbours?"""
        for code in codes.tolist():
            character = chr(code)
            # Controls: U+0000 is what keys of words are filled up with, and SentencePiece takes no surrogates.
            odd = character in self._joining or unicodedata.category(character)[0] == "C"
            stays = not odd and self._vocabulary.processor.Normalize(f"x{character}x") == f"{SPACE}x{character}x"
            self._kinds[code] = _INERT if stays and character != SPACE else _OTHER


def _find_lines(codes: npt.NDArray[Any], kinds: npt.NDArray[np.uint8]) -> tuple[_Lines, _Bools]:
    """The lines that are not blank, and which of them hold a character that normalisation would change."""
    visible = kinds != _BLANK
    edges = np.flatnonzero(visible[1:] != visible[:-1]) + 1  # The padding makes the last one an end.
    words = np.append(0, edges) if visible[0] else edges
    ends = np.flatnonzero(codes == _NEWLINE)
    begins = np.append(0, ends[:-1] + 1)
    counts = np.diff(np.searchsorted(words[::2], ends), prepend=0)
    filled = counts > 0
    changed = np.diff(np.searchsorted(np.flatnonzero(kinds == _OTHER), ends), prepend=0) > 0
    return _Lines(begins[filled], ends[filled], counts[filled], words[::2], words[1::2]), changed[filled]
