"""Encodes documents as pieces, with the ids that SentencePiece gives for each sentence alone.

No piece crosses a space, so lines are encoded word by word (``WordEncoder``), and SentencePiece only sees new words. Lines that
normalisation would change, and all lines if the vocabulary uses morphemes or has rules for spaces, are encoded whole by the
vocabulary itself. The tokenizer of a checkpoint encodes all lines whole (``LineEncoder``).
"""

from __future__ import annotations

import sys
import time
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
from sentencepiece import SentencePieceProcessor
from sentencepiece.sentencepiece_model_pb2 import ModelProto, TrainerSpec

from korealbert.examples.segments import ranges, windows
from korealbert.vocab.normalisation import joining_characters
from korealbert.vocab.stage import SCORE_STEP
from korealbert.vocab.tokenizer import SPACE, Vocabulary

KEY_CHARACTERS = 8
"""UTF-16 code units in a key. 98 % of the words of Korean Wikipedia, with 94 % of its characters, have no more."""
PLACES_BITS = 18
"""log2 of the number of words that can be remembered: 13 MB. Doubling it raises the hit rate from 67 % to 72 %."""
_PIECES_REMEMBERED = 8
"""Words with more pieces are not remembered."""
BLOCK_CHARACTERS = 4_096
"""Words are passed to SentencePiece in blocks of about this many characters, the fastest size."""
PADDING = KEY_CHARACTERS
"""Blank characters required after the last word of a text, so that its key can be read."""

UNKNOWN_PENALTY = 10.0
"""SentencePiece scores an unknown character this far below the lowest piece (``kUnkPenalty``)."""
_EXACT_STEPS = 1 << 24
"""A float32 represents every integer up to this."""

_Ints = npt.NDArray[np.int64]
_Bools = npt.NDArray[np.bool_]
Pieces = npt.NDArray[np.int32]

_HALF = KEY_CHARACTERS // 2
_KEPT = np.array([(1 << 16 * units) - 1 for units in range(_HALF + 1)], dtype=np.uint64)
"""Masks of the first n code units."""
_FACTORS = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xC2B2AE3D27D4EB4F)
"""Odd numbers that spread the halves of a key over the whole table (those of xxHash and Fibonacci hashing)."""
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
    """The S non-blank lines of a text, and its W words, which blanks separate."""

    begins: _Ints
    """[S]: first character."""
    ends: _Ints
    """[S]: the newline after the line."""
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
        """[V]: whether the piece follows a space."""
        self._kinds = np.full(0x110000, _UNSEEN, dtype=np.uint8)
        self._kinds[[_NEWLINE, ord(" ")]] = _BLANK
        model = ModelProto.FromString(vocabulary.processor.serialized_model_proto())
        self._joining = joining_characters(model.normalizer_spec.precompiled_charsmap)
        self._words = WordEncoder(vocabulary)
        stays = " " not in self._joining and vocabulary.processor.Normalize("x x") == f"{SPACE}x{SPACE}x"
        self._longest_line = longest_line(vocabulary) if stays and vocabulary.boundary is None else 0
        self.morphemes = {"seconds": 0.0, "megabytes": 0.0}
        """Text cut into morphemes and then pieces so far, and the processor time it took."""

    def encode(self, texts: Sequence[str]) -> EncodedDocuments:
        """Encode all documents. Lines without a piece (blank, or only controls) are no sentences."""
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
        """Return all pieces and the number per line; lines in ``whole`` [S] are encoded by the vocabulary, others by words."""
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
        """Classify new characters: does normalisation leave them unchanged, whatever their neighbours?"""
        for code in codes.tolist():
            character = chr(code)
            # Category C: keys of words are padded with U+0000, and SentencePiece accepts no surrogates.
            odd = character in self._joining or unicodedata.category(character)[0] == "C"
            stays = not odd and self._vocabulary.processor.Normalize(f"x{character}x") == f"{SPACE}x{character}x"
            self._kinds[code] = _INERT if stays and character != SPACE else _OTHER


class LineEncoder:
    """Encodes documents line by line with the tokenizer of a checkpoint; sentences are lines.

    Every line of a document but the first is preceded by a space, as in running text. The ids of a document are then those of
    its lines joined by spaces, unless the tokenizer has pieces that cross a space.
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary
        self.spaced: _Bools = vocabulary.words().spaced
        """[V]: whether the piece follows a space."""
        self.morphemes = {"seconds": 0.0, "megabytes": 0.0}
        """As in ``DocumentEncoder``; such text is not cut into morphemes."""

    def encode(self, texts: Sequence[str]) -> EncodedDocuments:
        """Encode all documents. Lines without a piece are no sentences."""
        lines: list[str] = []
        documents: list[int] = []
        for number, text in enumerate(texts):
            own = [line for each in text.split("\n") if (line := each.strip())]
            lines += [" " * (place > 0) + line for place, line in enumerate(own)]
            documents += [number] * len(own)
        encoded = self._vocabulary.encode(lines)
        lengths = np.array([len(ids) for ids in encoded], dtype=np.int64)
        pieces = np.concatenate([*encoded, np.empty(0, dtype=np.int32)])
        return EncodedDocuments(pieces, lengths[lengths > 0], np.array(documents, dtype=np.int64)[lengths > 0])


def _find_lines(codes: npt.NDArray[Any], kinds: npt.NDArray[np.uint8]) -> tuple[_Lines, _Bools]:
    """Return the non-blank lines, and which of them contain a character that normalisation would change."""
    visible = kinds != _BLANK
    edges = np.flatnonzero(visible[1:] != visible[:-1]) + 1  # Because of the padding, the last one ends a word.
    words = np.append(0, edges) if visible[0] else edges
    ends = np.flatnonzero(codes == _NEWLINE)
    begins = np.append(0, ends[:-1] + 1)
    counts = np.diff(np.searchsorted(words[::2], ends), prepend=0)
    filled = counts > 0
    changed = np.diff(np.searchsorted(np.flatnonzero(kinds == _OTHER), ends), prepend=0) > 0
    return _Lines(begins[filled], ends[filled], counts[filled], words[::2], words[1::2]), changed[filled]


class WordEncoder:
    """Encodes words that normalisation leaves unchanged, with a vocabulary that keeps words apart.

    No piece crosses a space, and scores add up exactly (``vocab.stage.SCORE_STEP``), so the pieces of a line are those of its
    words, ties included. Words follow Zipf's law: 67 % of Korean Wikipedia's are remembered from earlier batches, another 7 %
    occur twice in a batch.

    There is no loop over words. A word of up to eight characters is its own key, two 64-bit integers read from the text in
    place; the memory is a table with one entry per hash. Its content affects only the speed, never the result.
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._spaced = vocabulary.words().spaced
        self._processor = _without_rules(vocabulary)
        places = 1 << PLACES_BITS
        self._keys = np.zeros((2, places), dtype=np.uint64)  # No word has the key 0.
        self._counts = np.zeros(places, dtype=np.uint8)
        self._asked = np.zeros(places, dtype=np.bool_)
        """Whether the word was used since another one last wanted its entry."""
        self._claims = np.zeros(places, dtype=np.int64)
        self._pieces = np.zeros(places * _PIECES_REMEMBERED, dtype=np.int32)
        """Pieces of remembered words, then those of other words of the last call."""

    def encode(self, codes: npt.NDArray[Any], begins: _Ints, ends: _Ints) -> tuple[Pieces, _Ints]:
        """Return the pieces of words one after the other, and the number of each word's pieces [W].

        ``codes`` are the code points of a text as uint16 or uint32, followed by ``PADDING`` blanks. Words go from ``begins``
        [W] to ``ends`` [W], each followed by a space or newline.
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
            firsts[missing] = self._append_pieces(pieces) + begins_of[same]
            counts[missing] = counts_of[same]
            self._remember(keys, places, spelt[short[spelt] & (self._claims[places[spelt]] == spelt)], firsts, counts)
        return self._pieces.take(ranges(firsts, counts)), counts

    def _same_words(self, keys: Any, short: _Bools, places: _Ints, missing: _Ints) -> tuple[_Ints, _Ints]:
        """Return distinct words to encode, and for each missing word its index among them."""
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
        """Encode words with SentencePiece; returns their pieces, and where each word's pieces start and how many it has."""
        sizes = ends - begins + 1  # including the blank after it
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

    def _append_pieces(self, pieces: Pieces) -> int:
        """Keep pieces for this call after the remembered ones. Returns where they start."""
        begin = len(self._counts) * _PIECES_REMEMBERED
        self._pieces.resize(max(len(self._pieces), begin + len(pieces) + _PIECES_REMEMBERED), refcheck=False)
        self._pieces[begin : begin + len(pieces)] = pieces
        return begin

    def _remember(self, keys: Any, places: _Ints, words: _Ints, firsts: _Ints, counts: _Ints) -> None:
        """Remember words with distinct entries, unless the entry's word was used since it was last wanted."""
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
    """Return the length in characters up to which the pieces of a line are certain to be those of its words; 0 if none is.

    Words have no pieces of their own if there is no space before the first word, or if pieces cross a space. SentencePiece sums
    the scores of a unigram model over the whole line in single precision. While the sums are exact, a tie between two cuts of a
    word is decided in the line as in the word alone; beyond that, rounding decides.
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
    if trained.model_type == TrainerSpec.BPE:  # It compares scores but never adds them.
        return sys.maxsize
    scores = np.array([piece.score for piece in model.pieces if piece.type == piece.NORMAL])
    steps = np.append(scores, scores.min() - UNKNOWN_PENALTY) / SCORE_STEP
    if trained.model_type != TrainerSpec.UNIGRAM or (steps % 1).any():
        return 0
    # Minus the leading space and the other words of a block: a line of one word may share its block with them.
    return max(0, int(_EXACT_STEPS / np.abs(steps).max()) - 2 - BLOCK_CHARACTERS)


def _without_rules(vocabulary: Vocabulary) -> Any:
    """Return the same SentencePiece model without its normalisation table."""
    model = ModelProto.FromString(vocabulary.processor.serialized_model_proto())
    model.normalizer_spec.name = "identity"
    model.normalizer_spec.precompiled_charsmap = b""
    processor = SentencePieceProcessor()
    processor.LoadFromSerializedProto(model.SerializeToString())
    return processor


def _keys(codes: npt.NDArray[Any], begins: _Ints, ends: _Ints) -> tuple[npt.NDArray[np.uint64], _Bools]:
    """Return each word's code units as two integers [2, W], and which words are short enough to be identified by them."""
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
