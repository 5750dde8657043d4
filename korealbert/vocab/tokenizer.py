"""The vocabulary as the other packages use it: special ids, encoding, which pieces begin words, and a ``tokenizer.json``.

``fast_tokenizer`` gives the same vocabulary to the ``tokenizers`` library, with the ids of SentencePiece. It is built piece by
piece, because the converters for ALBERT lower-case, take accents off and decompose Hangul: with them most Korean words end as
``<unk>``. There is one deliberate difference: ``[MASK]`` and the like, written out in a text, are the special pieces here (a
fill-mask prompt needs that), and ordinary characters in SentencePiece. With ``split_special_tokens`` they are ordinary
characters here too: fine-tuning reads texts that way.

``KeptVocabulary`` is the tokenizer of a checkpoint instead, which stays as it is. Its ids are renumbered: the five special
pieces come first, as in a vocabulary of ours, so that rows, noise and training need not know which of both they have.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from itertools import pairwise, product
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
from sentencepiece import SentencePieceProcessor
from sentencepiece.sentencepiece_model_pb2 import TrainerSpec
from tokenizers import AddedToken, Regex, Tokenizer, decoders, pre_tokenizers, processors
from tokenizers.models import BPE, Unigram

from korealbert.artifact.files import atomic_write
from korealbert.vocab.morphemes import BOUNDARY, MORPHEMES_FILE, needs_morphemes, split_morphemes
from korealbert.vocab.normalisation import normalizer

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
"""Ids from here on are ordinary pieces of text."""


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
    ordinary: npt.NDArray[np.bool_] | None = None
    """The row is a piece of text: neither special nor without a piece. None where no noise asks for it."""

    @cached_property
    def _borders(self) -> npt.NDArray[np.int8]:
        """What ``mark`` needs to know about each piece, in one table: 1 where it begins a word; −2 where the next one
        does in any case, 2 where the next one does not."""
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
        """Load ``spiece.model`` or the directory that holds it; or a directory with the tokenizer of a checkpoint.

        Raises FileNotFoundError, and ValueError when the file is no SentencePiece model, has another layout of special ids, or
        when text is to be cut into morphemes and that cannot be done as it was.
        """
        if (path / KEPT_FILE).is_file():
            return KeptVocabulary.read(path / KEPT_FILE)
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
                f"which contradicts the {MORPHEMES_FILE} next to it; copy both from one vocab artifact"
            )
        return cls(processor, path, sha256(content).hexdigest(), boundary)

    @property
    def size(self) -> int:
        """Number of pieces V, the special ones included."""
        return int(self.processor.GetPieceSize())

    @property
    def marks_words(self) -> bool:
        """Whether pieces show where words begin."""
        return True

    def encode(self, texts: Sequence[str]) -> list[npt.NDArray[np.int32]]:
        """Ids of each text, those of SentencePiece, without special pieces: a literal ``[MASK]`` is the characters it is.

        Raises ValueError naming the text and the place of a lone surrogate, which is no character.
        """
        if self.boundary is not None:
            texts = [split_morphemes(text) for text in texts]
        try:
            encoded: list[npt.NDArray[np.int32]] = self._ids(list(texts))
        except (RuntimeError, TypeError) as error:
            for number, text in enumerate(texts):
                if found := _SURROGATE.search(text):
                    raise ValueError(
                        f"text {number} holds half a character at {found.start()}: the lone surrogate U+{ord(found[0]):04X}; "
                        "decode its source again, with errors='replace' if need be"
                    ) from error
            raise
        return encoded if self.boundary is None else [ids[ids != self.boundary] for ids in encoded]

    def _ids(self, texts: list[str]) -> Any:
        return self.processor.Encode(texts, return_type="numpy", num_threads=1)

    def pieces(self, ids: npt.ArrayLike) -> list[str]:
        """The written form of each id, ``▁`` for the space before it."""
        return [self.processor.IdToPiece(int(i)) for i in np.asarray(ids)]

    def proper(self) -> npt.NDArray[np.bool_]:
        """Ordinary pieces, as a bool [V] lookup table: neither special nor a single byte."""
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
        return WordTable(starts=spaced | alone, alone=alone, joins=joins, spaced=spaced, ordinary=self._ordinary() & ~special)

    def _ordinary(self) -> npt.NDArray[np.bool_]:
        """Pieces that text leads to, and maybe special ones, as a bool [V] lookup table."""
        return np.array([i != self.boundary for i in range(self.size)], dtype=np.bool_)


KEPT_FILE = "kept_tokenizer.json"
"""What a directory has in place of ``MODEL_FILE`` where the tokenizer is that of a checkpoint."""
KEPT_FOLDER = "tokenizer"
"""Beside it: the checkpoint's own files of the tokenizer, as they were."""

_Notation = Literal["continuation", "bytes", "spaces", "none"]
"""How pieces show where words begin: those that do not begin one have a prefix (WordPiece), those that do begin with a space,
written as a byte (byte-level BPE) or as ``▁`` (Unigram and BPE of SentencePiece); or not at all."""


@dataclass(frozen=True, kw_only=True)
class KeptVocabulary(Vocabulary):
    """The tokenizer of a checkpoint under ids of ours: ``SPECIAL`` first, then the other rows of its word table in order.

    Here ``processor`` is a ``tokenizers.Tokenizer``.
    """

    theirs: npt.NDArray[np.int64]
    """[V]: the checkpoint's id of each piece. V is the number of rows of its word table, which may exceed the tokenizer's
    pieces."""
    notation: _Notation
    prefix: str = ""
    """With ``continuation``: what pieces begin with that begin no word, such as ``##``."""

    @classmethod
    def write(cls, file: Path, tokenizer: Tokenizer, *, special: Sequence[int], rows: int) -> None:
        """Write what ``read`` reads: a tokenizer, its ids of pad, unk, cls, sep and mask, and the rows of the word table."""
        described = {"special": list(special), "rows": rows, "tokenizer": json.loads(tokenizer.to_str())}
        atomic_write(file, json.dumps(described, ensure_ascii=False).encode())

    @classmethod
    def read(cls, file: Path) -> KeptVocabulary:
        """Read a file that ``write`` wrote. Raises ValueError where it is damaged."""
        content = file.read_bytes()
        try:
            described = json.loads(content)
            part = described["tokenizer"]
            tokenizer, model = Tokenizer.from_str(json.dumps(part)), part["model"]
            if model["type"] == "Unigram":
                # The library reads 14 % of scores with another last bit, which decides between cuts that tie (``0`` ``00``).
                scored = [(piece, score) for piece, score in model["vocab"]]
                tokenizer.model = Unigram(scored, unk_id=model["unk_id"], byte_fallback=model.get("byte_fallback", False))
            special, others = described["special"], np.delete(np.arange(described["rows"]), described["special"])
            notation = _notation_of(part)
            prefix = model["continuing_subword_prefix"] if notation == "continuation" else ""
        except Exception as error:  # The library raises Exception itself.
            problem = " ".join(str(error).split())
            raise ValueError(f"{file}: damaged ({problem}); run the recipe again, which rebuilds it") from error
        tokenizer.encode_special_tokens = True  # Written out in a text they are the characters they are.
        theirs = np.concatenate([np.array(special, dtype=np.int64), others])
        digest = sha256(content).hexdigest()
        return cls(tokenizer, file, digest, theirs=theirs, notation=notation, prefix=prefix)

    @cached_property
    def ours(self) -> npt.NDArray[np.int64]:
        """[V]: our id of each of the checkpoint's, the inverse of ``theirs``."""
        return np.argsort(self.theirs)

    @property
    def size(self) -> int:
        """V: rows of the checkpoint's word table."""
        return len(self.theirs)

    @property
    def marks_words(self) -> bool:
        """Whether pieces show where words begin."""
        return self.notation != "none"

    def _ids(self, texts: list[str]) -> Any:
        """Ids by the tokenizer. A special piece among them (Unigram has ``<s>`` among its pieces) is unknown text here."""
        encoded = self.processor.encode_batch_fast(texts, add_special_tokens=False)
        found = (self.ours[np.array(text.ids, dtype=np.int64)] for text in encoded)
        return [np.where(ids < FIRST_ORDINARY_ID, SPECIAL.unk, ids).astype(np.int32) for ids in found]

    def pieces(self, ids: npt.ArrayLike) -> list[str]:
        """The written form of each id in the notation of SentencePiece, ``▁`` for the space before it."""
        return [self._spelled[i][0] for i in np.asarray(ids).reshape(-1).tolist()]

    def proper(self) -> npt.NDArray[np.bool_]:
        """Ordinary pieces of whole characters, as a bool [V] lookup table."""
        return np.array([i >= FIRST_ORDINARY_ID and whole for i, (_, whole) in enumerate(self._spelled)], dtype=np.bool_)

    def _ordinary(self) -> npt.NDArray[np.bool_]:
        known, added = set(self.processor.get_vocab().values()), self.processor.get_added_tokens_decoder()
        return np.array([i in known and not (i in added and added[i].special) for i in self.theirs.tolist()], dtype=np.bool_)

    @cached_property
    def _spelled(self) -> list[tuple[str, bool]]:
        """Each piece in the notation of SentencePiece, and whether it is whole characters."""
        return [self._spell(self.processor.id_to_token(int(i))) for i in self.theirs]

    def _spell(self, piece: str | None) -> tuple[str, bool]:
        if piece is None:  # A row of the word table that no text leads to.
            return "", False
        if self.notation == "continuation":
            return (piece.removeprefix(self.prefix) if piece.startswith(self.prefix) else SPACE + piece), True
        if self.notation == "bytes" and _BYTE_LETTERS.keys() >= set(piece):
            raw = bytes(_BYTE_LETTERS[letter] for letter in piece)
            text = raw.decode("utf-8", "backslashreplace")
            return (SPACE + text[1:] if text.startswith(" ") else text), text.encode() == raw
        return piece, not re.fullmatch("<0x[0-9A-F]{2}>", piece)


def _notation_of(tokenizer: dict[str, Any]) -> _Notation:
    """How the pieces of a ``tokenizer.json`` show where words begin."""
    if tokenizer["model"]["type"] == "WordPiece":
        return "continuation"
    steps = json.dumps([tokenizer[step] for step in ("normalizer", "pre_tokenizer")], ensure_ascii=False)
    return "bytes" if '"ByteLevel"' in steps else "spaces" if SPACE in steps else "none"


def _byte_letters() -> dict[str, int]:
    """The letters with which byte-level BPE writes bytes: printable ones of Latin-1 as themselves (GPT-2)."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(0x100) if byte not in printable]
    return {chr(byte): byte for byte in printable} | {chr(0x100 + place): byte for place, byte in enumerate(others)}


_BYTE_LETTERS = _byte_letters()


def _is_punctuation(character: str) -> bool:
    """Punctuation and symbols (Unicode categories P and S): each is a word of its own, inside a number too."""
    return unicodedata.category(character)[0] in "PS"


_BYTE_PIECE = ("<", "0", "x", "0123456789ABCDEF", "0123456789ABCDEF", ">")
"""Which characters the piece of a byte is written with, place by place."""


def fast_tokenizer(model: Any) -> Tokenizer:
    """The fast tokenizer of a parsed SentencePiece ``ModelProto`` of ours."""
    tokenizer = Tokenizer(_pieces(model))
    tokenizer.normalizer = normalizer()
    # After [MASK] no ▁ is added, so that "[MASK]을" continues the masked word.
    steps: list[pre_tokenizers.PreTokenizer] = [pre_tokenizers.Metaspace(prepend_scheme="first", split=True)]
    if any(piece.piece == BOUNDARY for piece in model.pieces):
        steps.append(pre_tokenizers.Split(BOUNDARY, "removed"))
    steps.append(pre_tokenizers.Split(Regex(_within_special_pieces(model)), "merged_with_next"))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(steps)
    tokenizer.decoder = decoders.Sequence(
        [decoders.Metaspace(prepend_scheme="first"), *([decoders.ByteFallback(), decoders.Fuse()] if _bytes(model) else [])]
    )
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS]:0 $A:0 [SEP]:0",
        pair="[CLS]:0 $A:0 [SEP]:0 $B:1 [SEP]:1",
        special_tokens=[("[CLS]", SPECIAL.cls), ("[SEP]", SPECIAL.sep)],
    )
    tokenizer.add_special_tokens(
        [AddedToken(piece, normalized=False, special=True, lstrip=piece == "[MASK]") for piece in SPECIAL_PIECES]
    )
    return tokenizer


def _within_special_pieces(model: Any) -> str:
    """Regular expression of what follows a place within each special piece, to cut there what is written like one.

    For the library's unigram model they are words like any other, and so are the pieces of bytes: ``<0x41>`` in a text is six
    characters. Where two characters meet that do so in no ordinary piece, one of them known, the cut changes nothing else. (Two
    unknown ones would be one ``<unk>`` and come out as two.)
    """
    ordinary = [piece.piece for piece in model.pieces[FIRST_ORDINARY_ID:] if piece.type != piece.BYTE]
    known = set(ordinary)
    met = {pair for piece in ordinary for pair in pairwise(piece)}
    rests = []
    for written in (*(tuple(piece) for piece in SPECIAL_PIECES), *([_BYTE_PIECE] if _bytes(model) else [])):
        places = range(1, len(written))
        free = (place for place in places if _never_meet(written[place - 1], written[place], known, met))
        place = next(free, len(written) - 1)
        before, rest = "".join(map(_one_of, written[:place])), "".join(map(_one_of, written[place:]))
        rests.append(f"(?<={before}){rest}")
    return "|".join(rests)


def _never_meet(first: str, second: str, known: set[str], met: set[tuple[str, str]]) -> bool:
    """Whether no character of ``first`` stands before one of ``second`` in a piece, and one of the two is always known."""
    return not met & set(product(first, second)) and (known.issuperset(first) or known.issuperset(second))


def _one_of(characters: str) -> str:
    """Regular expression of one of some letters and digits, or of the one character."""
    return re.escape(characters) if len(characters) == 1 else f"[{characters}]"


def _bytes(model: Any) -> bool:
    return bool(model.trainer_spec.byte_fallback)


def _pieces(model: Any) -> Unigram | BPE:
    scored = [(piece.piece, piece.score) for piece in model.pieces]
    if model.trainer_spec.model_type == TrainerSpec.UNIGRAM:
        return Unigram(scored, unk_id=SPECIAL.unk, byte_fallback=_bytes(model))
    ids = {piece: number for number, (piece, _) in enumerate(scored)}
    return BPE(ids, _merges(model, ids), unk_token=SPECIAL_PIECES[SPECIAL.unk], fuse_unk=True, byte_fallback=_bytes(model))


def _merges(model: Any, ids: dict[str, int]) -> list[tuple[str, str]]:
    """Every way to merge two pieces into a third, the third one's rank first: what SentencePiece's BPE does without a list."""
    merges: list[tuple[int, int, int, tuple[str, str]]] = []
    for rank, piece in enumerate(model.pieces):
        if piece.type != piece.NORMAL:
            continue
        for cut in range(1, len(piece.piece)):
            left, right = piece.piece[:cut], piece.piece[cut:]
            if left in ids and right in ids:
                merges.append((rank, ids[left], ids[right], (left, right)))
    return [pair for *_, pair in sorted(merges)]
