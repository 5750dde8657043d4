"""The vocabulary as the other packages use it: special ids, encoding, offsets, and which pieces begin words."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from sentencepiece import SentencePieceProcessor

MODEL_FILE = "spiece.model"
SPACE = "▁"
"""What SentencePiece writes for the space before a piece."""


_SURROGATE = re.compile("[\ud800-\udfff]")


class SpecialIds(NamedTuple):
    """Ids of the special pieces, the same in every vocabulary."""

    pad: int = 0
    unk: int = 1
    cls: int = 2
    sep: int = 3
    mask: int = 4


SPECIAL = SpecialIds()
SPECIAL_PIECES = ("<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]")
FIRST_ORDINARY_ID = len(SPECIAL_PIECES)
"""Every id from here on stands for text."""


class Piece(NamedTuple):
    """One piece with the characters [begin, end) of the original text that it stands for."""

    id: int
    begin: int
    end: int


@dataclass(frozen=True)
class WordTable:
    """Which pieces begin and end words, as bool [V] lookup tables; see ``Vocabulary.words``."""

    starts: npt.NDArray[np.bool_]
    """The piece begins a word: it begins with ``▁`` or is punctuation only."""
    alone: npt.NDArray[np.bool_]
    """The piece is punctuation only, a word of its own: what follows begins another."""
    joins: npt.NDArray[np.bool_]
    """The piece is a bare ``▁``: it belongs to the word that follows."""
    spaced: npt.NDArray[np.bool_]
    """The piece follows a space: text may be cut before it."""

    def mark(self, ids: npt.NDArray[Any], forced: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
        """Where words begin in ``ids`` [..., N]; ``forced`` marks pieces that begin one in any case (first of a segment)."""
        before = np.roll(ids, 1, axis=-1)
        marks: npt.NDArray[np.bool_] = (self.starts[ids] & ~self.joins[before]) | self.alone[before] | forced
        return marks


@dataclass(frozen=True)
class Vocabulary:
    """A SentencePiece model with the special layout of this project."""

    processor: Any
    """The ``SentencePieceProcessor``."""
    path: Path
    sha256: str
    """Digest of the model file: what rows and views name as their vocabulary."""

    @classmethod
    def load(cls, path: Path) -> Vocabulary:
        """Load ``spiece.model`` or the directory that holds it.

        Raises FileNotFoundError, and ValueError when the file is no SentencePiece model or has another layout of special ids.
        """
        path = path / MODEL_FILE if path.is_dir() else path
        content = path.read_bytes()
        processor = SentencePieceProcessor()
        try:
            processor.LoadFromSerializedProto(content)
        except (RuntimeError, ValueError) as error:
            raise ValueError(f"{path}: not a SentencePiece model ({error})") from error
        found = tuple(processor.IdToPiece(i) for i in range(min(FIRST_ORDINARY_ID, processor.GetPieceSize())))
        if found != SPECIAL_PIECES:
            raise ValueError(f"{path}: ids 0..4 are {found}, expected {SPECIAL_PIECES}; build it with the vocab stage")
        return cls(processor, path, sha256(content).hexdigest())

    @property
    def size(self) -> int:
        """Number of pieces V, the special ones included."""
        return int(self.processor.GetPieceSize())

    def encode(self, texts: Sequence[str]) -> list[npt.NDArray[np.int32]]:
        """Ids of each text, those of SentencePiece, without special pieces: a literal ``[MASK]`` is the characters it is.

        Raises ValueError naming the text and the place of a lone surrogate, which is no character.
        """
        encoded: list[npt.NDArray[np.int32]] = self._encode(list(texts), return_type="numpy", num_threads=1)
        return encoded

    def encode_with_offsets(self, text: str) -> list[Piece]:
        """Pieces of one text with their characters in it, although normalisation changes lengths; errors as of ``encode``.

        The pieces tile the text from its first to its last visible character: each begins where the one before ends (of the two
        that ``㎏`` becomes one is empty), and a space belongs to the piece after it.
        """
        (encoded,) = self._encode([text], return_type="offset_mapping")
        return [Piece(i, begin, end) for i, (begin, end) in zip(encoded["ids"], encoded["offsets"], strict=True)]

    def _encode(self, texts: list[str], **options: Any) -> Any:
        try:
            return self.processor.Encode(texts, **options)
        except (RuntimeError, TypeError) as error:
            for number, text in enumerate(texts):
                if found := _SURROGATE.search(text):
                    raise ValueError(
                        f"text {number} holds half a character at {found.start()}: the lone surrogate U+{ord(found[0]):04X}; "
                        "decode its source again, with errors='replace' if need be"
                    ) from error
            raise

    def pieces(self, ids: npt.ArrayLike) -> list[str]:
        """The written form of each id, ``▁`` for the space before it."""
        return [self.processor.IdToPiece(int(i)) for i in np.asarray(ids)]

    def words(self) -> WordTable:
        """The word tables of this vocabulary.

        Words are what spaces and punctuation separate. The official ALBERT code takes every piece with a character beyond a-z
        for a word's start, so that for Hangul whole-word masking is silently off (google-research/albert#161).
        """
        pieces = self.pieces(np.arange(self.size))
        bare = [piece.removeprefix(SPACE) for piece in pieces]
        special = np.arange(self.size) < FIRST_ORDINARY_ID
        alone = np.array([bool(text) and all(map(_is_punctuation, text)) for text in bare]) & ~special
        joins = np.array([piece == SPACE for piece in pieces])
        spaced = np.array([piece.startswith(SPACE) for piece in pieces])
        return WordTable(starts=spaced | alone, alone=alone, joins=joins, spaced=spaced)


def _is_punctuation(character: str) -> bool:
    """Punctuation and symbols (Unicode categories P and S): each is a word of its own, inside a number too."""
    return unicodedata.category(character)[0] in "PS"
