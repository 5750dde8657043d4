"""The vocabulary as the other packages use it: special ids, encoding, and which pieces begin words."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from sentencepiece import SentencePieceProcessor

from korealbert.vocab.morphemes import BOUNDARY, MORPHEMES_FILE, needs_morphemes, split_morphemes

MODEL_FILE = "spiece.model"
SPACE = "▁"
"""What SentencePiece writes for the space before a piece."""


_SURROGATE = re.compile("[\ud800-\udfff]")


class _SpecialIds(NamedTuple):
    """Ids of the special pieces, the same in every vocabulary."""

    pad: int = 0
    unk: int = 1
    cls: int = 2
    sep: int = 3
    mask: int = 4


SPECIAL = _SpecialIds()
SPECIAL_PIECES = ("<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]")
FIRST_ORDINARY_ID = len(SPECIAL_PIECES)
"""Every id from here on stands for text."""


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

    @cached_property
    def _borders(self) -> npt.NDArray[np.int8]:
        """What ``mark`` needs to know of each piece, in one table: 1 where it begins a word; −2 where the next one does in any
        case, 2 where the next one does not."""
        return (self.starts + 2 * (self.joins.astype(np.int8) - self.alone)).astype(np.int8)

    def mark(self, ids: npt.NDArray[Any], forced: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
        """Where words begin in ``ids`` [..., N]; ``forced`` marks pieces that begin one in any case (first of a segment)."""
        borders = self._borders.take(ids)
        marks = (borders & 1).astype(np.bool_)
        marks[..., 1:] = (borders[..., 1:] & 1) > (borders[..., :-1] >> 1)
        marks |= forced
        return marks


@dataclass(frozen=True)
class Vocabulary:
    """A SentencePiece model with the special layout of this project."""

    processor: Any
    """The ``SentencePieceProcessor``."""
    path: Path
    sha256: str
    """Digest of the model file: what rows and views name as their vocabulary."""
    boundary: int | None = None
    """Id of the boundary of morphemes where text is cut into them first; no text has it among its ids."""

    @classmethod
    def load(cls, path: Path) -> Vocabulary:
        """Load ``spiece.model`` or the directory that holds it.

        Raises FileNotFoundError, and ValueError when the file is no SentencePiece model, has another layout of special ids, or
        when text is to be cut into morphemes and that cannot be done as it was.
        """
        path = path / MODEL_FILE if path.is_dir() else path
        try:
            content = path.read_bytes()
        except FileNotFoundError as error:
            raise FileNotFoundError(
                f"{path}: not there; pass the directory of a vocab artifact, or copy it from one"
            ) from error
        processor = SentencePieceProcessor()
        try:
            processor.LoadFromSerializedProto(content)
        except (RuntimeError, ValueError) as error:
            raise ValueError(f"{path}: not a SentencePiece model ({error}); copy it again from the vocab artifact") from error
        found = tuple(processor.IdToPiece(i) for i in range(min(FIRST_ORDINARY_ID, processor.GetPieceSize())))
        if found != SPECIAL_PIECES:
            raise ValueError(f"{path}: ids 0..4 are {found}, expected {SPECIAL_PIECES}; build it with the vocab stage")
        number = processor.PieceToId(BOUNDARY)
        boundary = number if processor.IdToPiece(number) == BOUNDARY else None
        if (boundary is not None) != needs_morphemes(path.parent):
            raise ValueError(
                f"{path}: text for this vocabulary is {'' if boundary is not None else 'not '}cut into morphemes, "
                f"which {MORPHEMES_FILE} beside it contradicts; copy both from one vocab artifact"
            )
        return cls(processor, path, sha256(content).hexdigest(), boundary)

    @property
    def size(self) -> int:
        """Number of pieces V, the special ones included."""
        return int(self.processor.GetPieceSize())

    def encode(self, texts: Sequence[str]) -> list[npt.NDArray[np.int32]]:
        """Ids of each text, those of SentencePiece, without special pieces: a literal ``[MASK]`` is the characters it is.

        Raises ValueError naming the text and the place of a lone surrogate, which is no character.
        """
        if self.boundary is not None:
            texts = [split_morphemes(text) for text in texts]
        encoded: list[npt.NDArray[np.int32]] = self._encode(list(texts))
        return encoded if self.boundary is None else [ids[ids != self.boundary] for ids in encoded]

    def _encode(self, texts: list[str]) -> Any:
        try:
            return self.processor.Encode(texts, return_type="numpy", num_threads=1)
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

    def proper(self) -> npt.NDArray[np.bool_]:
        """Which pieces stand for text of their own, as a bool [V] lookup table: neither special nor a single byte."""
        ordinary = [i >= FIRST_ORDINARY_ID and not self.processor.IsByte(i) for i in range(self.size)]
        return np.array(ordinary, dtype=np.bool_)

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
