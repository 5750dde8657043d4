"""Words to pieces, most of them without SentencePiece: a word's pieces do not depend on its neighbours.

No piece reaches over a space, and scores add up exactly (``vocab.stage.SCORE_STEP``), so that the pieces of a line are those of
its words, ties included. Words follow Zipf's law: of Korean Wikipedia's, 67 % are remembered from earlier batches, another 7 %
stand in the same batch twice. No loop runs over them: a word of up to eight characters is its own key, two 64-bit integers read
from the text where it stands, and the memory is a table with one place for all keys of a hash. What it holds decides how long
encoding takes, never what comes out.
"""

from __future__ import annotations

import sys
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
from sentencepiece import SentencePieceProcessor
from sentencepiece.sentencepiece_model_pb2 import ModelProto, TrainerSpec

from korealbert.examples.segments import ranges, windows
from korealbert.vocab.stage import SCORE_STEP
from korealbert.vocab.tokenizer import SPACE, Vocabulary

KEY_CHARACTERS = 8
"""UTF-16 code units in a key; 98 % of the words of Korean Wikipedia have no more, with 94 % of its characters."""
PLACES_BITS = 18
"""Binary logarithm of the words that can be remembered: 13 MB. With twice as many, 72 % are instead of 67 %."""
_PIECES_REMEMBERED = 8
"""Words of more pieces are not remembered."""
BLOCK_CHARACTERS = 4_096
"""Words are given to SentencePiece in blocks of about so many characters, the quickest size."""
PADDING = KEY_CHARACTERS
"""Blank characters that must follow the last word of a text, so that keys can be read there."""

UNKNOWN_PENALTY = 10.0
"""By how much SentencePiece scores an unknown character below the lowest piece (``kUnkPenalty``)."""
_EXACT_STEPS = 1 << 24
"""A float32 holds every integer up to this."""

_Ints = npt.NDArray[np.int64]
_Bools = npt.NDArray[np.bool_]
Pieces = npt.NDArray[np.int32]

_HALF = KEY_CHARACTERS // 2
_KEPT = np.array([(1 << 16 * units) - 1 for units in range(_HALF + 1)], dtype=np.uint64)
"""The bits of the first so many code units."""
_FACTORS = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xC2B2AE3D27D4EB4F)
"""Odd numbers whose products with the halves of a key spread over all places (those of xxHash and Fibonacci hashing)."""


class WordEncoder:
    """Encodes words that normalisation leaves as they are, with a vocabulary that keeps words apart."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._spaced = vocabulary.words().spaced
        self._processor = _without_rules(vocabulary)
        places = 1 << PLACES_BITS
        self._keys = np.zeros((2, places), dtype=np.uint64)  # No word has the key 0.
        self._counts = np.zeros(places, dtype=np.uint8)
        self._asked = np.zeros(places, dtype=np.bool_)
        """The word was met since another one last wanted its place."""
        self._claims = np.zeros(places, dtype=np.int64)
        self._pieces = np.zeros(places * _PIECES_REMEMBERED, dtype=np.int32)
        """Of remembered words, then of those of the last call that were not."""

    def encode(self, codes: npt.NDArray[Any], begins: _Ints, ends: _Ints) -> tuple[Pieces, _Ints]:
        """The pieces of words one after the other, and how many each has [W].

        ``codes`` are the code points of a text as uint16 or uint32, ``PADDING`` blank ones at its end; the words are those from
        ``begins`` [W] to ``ends`` [W], each with a space or a newline behind it.
        """
        keys, short = _keys(codes, begins, ends)
        places = _places(keys)
        known = short & (self._keys[0].take(places) == keys[0]) & (self._keys[1].take(places) == keys[1])
        firsts, counts = places * _PIECES_REMEMBERED, self._counts.take(places).astype(np.int64)
        self._asked[places[known]] = True
        missing = np.flatnonzero(~known)
        if len(missing):
            same, spelt = self._same_words(keys, short, places, missing)
            pieces, begins_of, counts_of = self._spell(codes, begins[spelt], ends[spelt])
            firsts[missing] = self._put_behind(pieces) + begins_of[same]
            counts[missing] = counts_of[same]
            self._remember(keys, places, spelt[short[spelt] & (self._claims[places[spelt]] == spelt)], firsts, counts)
        return self._pieces.take(ranges(firsts, counts)), counts

    def _same_words(self, keys: Any, short: _Bools, places: _Ints, missing: _Ints) -> tuple[_Ints, _Ints]:
        """Words to spell, and which of them each of the missing ones is."""
        wanted = places[missing]
        self._claims[wanted] = missing
        first = self._claims[wanted]
        equal = short.take(missing) & short.take(first)
        for half in keys:
            equal &= half.take(missing) == half.take(first)
        first = np.where(equal, first, missing)
        itself = first == missing
        number = np.empty(len(short), dtype=np.int64)
        number[missing[itself]] = np.arange(np.count_nonzero(itself))
        return number[first], missing[itself]

    def _spell(self, codes: npt.NDArray[Any], begins: _Ints, ends: _Ints) -> tuple[Pieces, _Ints, _Ints]:
        """Pieces of words by SentencePiece; where those of each begin, and how many they are."""
        sizes = ends - begins + 1  # With the blank behind it.
        chosen = codes[ranges(begins, sizes)]
        chosen[np.cumsum(sizes) - 1] = ord(" ")
        text = chosen.tobytes().decode("utf-16-le" if chosen.itemsize == 2 else "utf-32-le")
        after = np.cumsum(sizes)
        full = np.flatnonzero(np.diff(after // BLOCK_CHARACTERS))
        blocks = [text[begin:end] for begin, end in pairwise([0, *after[full].tolist(), len(text)])]
        pieces = np.concatenate(self._processor.Encode(blocks, return_type="numpy", num_threads=1))
        first = np.flatnonzero(self._spaced[pieces])
        assert len(first) == len(begins), "a word whose first piece does not show its space"
        return pieces, first, np.diff(first, append=len(pieces))

    def _put_behind(self, pieces: Pieces) -> int:
        """Keep pieces for this call. Returns where they begin."""
        begin = len(self._counts) * _PIECES_REMEMBERED
        self._pieces.resize(max(len(self._pieces), begin + len(pieces) + _PIECES_REMEMBERED), refcheck=False)
        self._pieces[begin : begin + len(pieces)] = pieces
        return begin

    def _remember(self, keys: Any, places: _Ints, words: _Ints, firsts: _Ints, counts: _Ints) -> None:
        """Remember words of different places, each in its own unless the one there was met since it was last wanted."""
        wanted = places[words]
        kept = self._asked.take(wanted)
        self._asked[wanted] = False
        words = words[~kept & (counts.take(words) <= _PIECES_REMEMBERED)]
        wanted = places.take(words)
        for remembered, half in zip(self._keys, keys, strict=True):
            remembered[wanted] = half.take(words)
        self._counts[wanted] = counts.take(words)
        table = self._pieces[: len(self._counts) * _PIECES_REMEMBERED].reshape(-1, _PIECES_REMEMBERED)
        table[wanted] = windows(self._pieces, _PIECES_REMEMBERED)[firsts.take(words)]


def longest_line(vocabulary: Vocabulary) -> int:
    """Characters of a line up to which its pieces are surely those of its words; 0 where that cannot be said of any.

    Without a space before the first word, or with pieces that reach over one, words have no pieces of their own. SentencePiece
    adds the scores of a unigram model up over the whole line in single precision: as long as sums are exact, whichever of two
    equal cuts comes first wins in a line as it does in the word; beyond that, rounding decides.
    """
    model = ModelProto.FromString(vocabulary.processor.serialized_model_proto())
    how, trained = model.normalizer_spec, model.trainer_spec
    spaces = [piece.piece.rfind(SPACE) for piece in model.pieces]
    kinds = {piece.type for piece in model.pieces}
    if (
        not (how.add_dummy_prefix and how.remove_extra_whitespaces and how.escape_whitespaces)
        or trained.treat_whitespace_as_suffix
        or max(spaces) > 0
        or not any(piece.piece == SPACE and piece.type == piece.NORMAL for piece in model.pieces)
        or not kinds <= {ModelProto.SentencePiece.Type.Value(kind) for kind in ("NORMAL", "UNKNOWN", "CONTROL", "BYTE")}
    ):
        return 0
    if trained.model_type == TrainerSpec.BPE:  # Compares scores, and adds none up.
        return sys.maxsize
    scores = np.array([piece.score for piece in model.pieces if piece.type == piece.NORMAL])
    steps = np.append(scores, scores.min() - UNKNOWN_PENALTY) / SCORE_STEP
    if trained.model_type != TrainerSpec.UNIGRAM or (steps % 1).any():
        return 0
    # Less the space in front, and the other words of the block in which the only word of such a line may stand.
    return max(0, int(_EXACT_STEPS / np.abs(steps).max()) - 2 - BLOCK_CHARACTERS)


def _without_rules(vocabulary: Vocabulary) -> Any:
    """The same SentencePiece model without its table of normalisation."""
    model = ModelProto.FromString(vocabulary.processor.serialized_model_proto())
    model.normalizer_spec.name = "identity"
    model.normalizer_spec.precompiled_charsmap = b""
    processor = SentencePieceProcessor()
    processor.LoadFromSerializedProto(model.SerializeToString())
    return processor


def _keys(codes: npt.NDArray[Any], begins: _Ints, ends: _Ints) -> tuple[npt.NDArray[np.uint64], _Bools]:
    """Each word's code units as two integers [2, W], those of short words alike only where the words are; which are short."""
    units = codes.astype("<u2", copy=False)
    stretches = np.ndarray(len(units) - KEY_CHARACTERS + 1, f"V{2 * KEY_CHARACTERS}", units.data, strides=(2,))
    halves = stretches[begins].view("<u8").reshape(-1, 2)
    sizes = ends - begins
    keys = np.empty((2, len(begins)), dtype=np.uint64)
    np.bitwise_and(halves[:, 0], _KEPT.take(sizes, mode="clip"), out=keys[0])
    np.bitwise_and(halves[:, 1], _KEPT.take(sizes - _HALF, mode="clip"), out=keys[1])
    short = sizes <= KEY_CHARACTERS
    if codes.itemsize > units.itemsize:
        wide = np.flatnonzero(codes > 0xFFFF)
        short &= np.searchsorted(wide, begins) == np.searchsorted(wide, ends)
    return keys, short


def _places(keys: npt.NDArray[np.uint64]) -> _Ints:
    mixed = (keys[0] * _FACTORS[0]) ^ (keys[1] * _FACTORS[1])
    places: _Ints = (mixed >> np.uint64(64 - PLACES_BITS)).astype(np.int64)
    return places
