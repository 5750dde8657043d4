"""The vocabulary as other packages use it: special ids, encoding, which pieces begin words, and a ``tokenizer.json``.

``fast_tokenizer`` builds the same vocabulary for the ``tokenizers`` library, with the ids of SentencePiece. It is built piece
by piece, because the converters for ALBERT lower-case, remove accents and decompose Hangul, which turns most Korean words into
``<unk>``. One difference is intended: here ``[MASK]`` and the like in a text are special pieces (a fill-mask prompt needs
that), but ordinary characters in SentencePiece. With ``split_special_tokens``, which fine-tuning uses, they are ordinary
characters here too.

``KeptVocabulary`` wraps the tokenizer of a checkpoint, which stays unchanged. Its ids are renumbered so that the five special
pieces come first, as in our own vocabularies; rows, noise and training need not know the difference.
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
"""First id of an ordinary piece of text."""


@dataclass(frozen=True)
class WordTable:
    """Which pieces begin and end words, as bool [V] lookup tables; see ``Vocabulary.words``."""

    starts: npt.NDArray[np.bool_]
    """Whether the piece begins a word: it begins with ``▁`` or is only punctuation."""
    alone: npt.NDArray[np.bool_]
    """Whether the piece is only punctuation, and so a word of its own: the next piece begins another."""
    joins: npt.NDArray[np.bool_]
    """Whether the piece is a bare ``▁``, which belongs to the following word."""
    spaced: npt.NDArray[np.bool_]
    """Whether the piece follows a space, so that text may be cut before it."""
    ordinary: npt.NDArray[np.bool_] | None = None
    """Whether the row is a piece of text, neither special nor unused. None if no noise needs it."""

    @cached_property
    def _borders(self) -> npt.NDArray[np.int8]:
        """Return what ``mark`` needs per piece, in one table.

        1 if the piece begins a word; −2 if the next one always does, 2 if the next one does not.
        """
        return (self.starts + 2 * (self.joins.astype(np.int8) - self.alone)).astype(np.int8)

    def mark(self, ids: npt.NDArray[Any], forced: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
        """Return where words begin in ``ids`` [..., N]; ``forced`` marks pieces that always begin one (first of a segment)."""
        borders = self._borders.take(ids)
        marks = (borders & 1).astype(np.bool_)
        marks[..., 1:] = (borders[..., 1:] & 1) > (borders[..., :-1] >> 1)
        marks |= forced
        return marks


@dataclass(frozen=True)
class Vocabulary:
    """A SentencePiece model with this project's layout of special ids."""

    processor: Any
    """The ``SentencePieceProcessor``."""
    path: Path
    sha256: str
    """Digest of the model file, by which rows and views refer to their vocabulary."""
    boundary: int | None = None
    """Id of the morpheme boundary if text is cut into morphemes first; ``encode`` never returns it."""

    @classmethod
    def load(cls, path: Path) -> Vocabulary:
        """Load ``spiece.model`` or its directory, or a directory with the tokenizer of a checkpoint.

        Raises FileNotFoundError, and ValueError if the file is no SentencePiece model, has another layout of special ids, or
        needs a morpheme analyser that is missing or differs.
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
        """Return V, the number of pieces including special ones."""
        return int(self.processor.GetPieceSize())

    @property
    def marks_words(self) -> bool:
        """Whether pieces show where words begin."""
        return True

    def encode(self, texts: Sequence[str]) -> list[npt.NDArray[np.int32]]:
        """Return the ids of each text as SentencePiece gives them, without special pieces: ``[MASK]`` in a text is ordinary
        characters.

        Raises ValueError with the text and position of a lone surrogate, which is no character.
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
        """Return the written form of each id, with ``▁`` for the space before it."""
        return [self.processor.IdToPiece(int(i)) for i in np.asarray(ids)]

    def proper(self) -> npt.NDArray[np.bool_]:
        """Return which pieces are neither special nor a single byte: bool [V]."""
        ordinary = [i >= FIRST_ORDINARY_ID and not self.processor.IsByte(i) for i in range(self.size)]
        return np.array(ordinary, dtype=np.bool_)

    def words(self) -> WordTable:
        """Return the word tables of this vocabulary.

        Words are separated by spaces and punctuation. The official ALBERT code treats every piece with a character beyond a-z
        as the start of a word, so that whole-word masking silently has no effect on Hangul (google-research/albert#161).
        """
        pieces = self.pieces(np.arange(self.size))
        bare = [piece.removeprefix(SPACE) for piece in pieces]
        special = np.arange(self.size) < FIRST_ORDINARY_ID
        alone = np.array([bool(text) and all(map(_is_punctuation, text)) for text in bare]) & ~special
        joins = np.array([piece == SPACE for piece in pieces])
        spaced = np.array([piece.startswith(SPACE) for piece in pieces])
        return WordTable(starts=spaced | alone, alone=alone, joins=joins, spaced=spaced, ordinary=self._ordinary() & ~special)

    def _ordinary(self) -> npt.NDArray[np.bool_]:
        """Return which pieces can occur in text, perhaps including special ones: bool [V]."""
        return np.array([i != self.boundary for i in range(self.size)], dtype=np.bool_)


KEPT_FILE = "kept_tokenizer.json"
"""File in place of ``MODEL_FILE`` if the tokenizer is that of a checkpoint."""
KEPT_FOLDER = "tokenizer"
"""Next to it: the checkpoint's own tokenizer files, unchanged."""

_Notation = Literal["continuation", "bytes", "spaces", "none"]
"""How pieces show where words begin: other pieces have a prefix (WordPiece), or the first piece starts with a space, written
as a byte (byte-level BPE) or as ``▁`` (Unigram and BPE of SentencePiece); or not at all."""


@dataclass(frozen=True, kw_only=True)
class KeptVocabulary(Vocabulary):
    """The tokenizer of a checkpoint with our ids: ``SPECIAL`` first, then the other rows of its word table in order.

    Here ``processor`` is a ``tokenizers.Tokenizer``.
    """

    theirs: npt.NDArray[np.int64]
    """[V]: the checkpoint's id of each piece. V is the number of rows of its word table, which may exceed the tokenizer's
    number of pieces."""
    notation: _Notation
    prefix: str = ""
    """With ``continuation``: the prefix of pieces that begin no word, such as ``##``."""

    @classmethod
    def write(cls, file: Path, tokenizer: Tokenizer, *, special: Sequence[int], rows: int) -> None:
        """Write what ``read`` reads: a tokenizer, its ids of pad, unk, cls, sep and mask, and the number of rows of the word
        table."""
        described = {"special": list(special), "rows": rows, "tokenizer": json.loads(tokenizer.to_str())}
        atomic_write(file, json.dumps(described, ensure_ascii=False).encode())

    @classmethod
    def read(cls, file: Path) -> KeptVocabulary:
        """Read a file that ``write`` wrote. Raises ValueError if it is damaged."""
        content = file.read_bytes()
        try:
            described = json.loads(content)
            part = described["tokenizer"]
            tokenizer, model = Tokenizer.from_str(json.dumps(part)), part["model"]
            if model["type"] == "Unigram":
                # The library reads 14 % of scores with a different last bit, which decides between tied cuts (``0`` ``00``).
                scored = [(piece, score) for piece, score in model["vocab"]]
                tokenizer.model = Unigram(scored, unk_id=model["unk_id"], byte_fallback=model.get("byte_fallback", False))
            special, others = described["special"], np.delete(np.arange(described["rows"]), described["special"])
            notation = _notation_of(part)
            prefix = model["continuing_subword_prefix"] if notation == "continuation" else ""
        except Exception as error:  # The library raises plain Exception.
            problem = " ".join(str(error).split())
            raise ValueError(f"{file}: damaged ({problem}); run the recipe again, which rebuilds it") from error
        tokenizer.encode_special_tokens = True  # In a text they are ordinary characters.
        theirs = np.concatenate([np.array(special, dtype=np.int64), others])
        digest = sha256(content).hexdigest()
        return cls(tokenizer, file, digest, theirs=theirs, notation=notation, prefix=prefix)

    @cached_property
    def ours(self) -> npt.NDArray[np.int64]:
        """Return our id of each of the checkpoint's, the inverse of ``theirs``: [V]."""
        return np.argsort(self.theirs)

    @property
    def size(self) -> int:
        """Return V, the rows of the checkpoint's word table."""
        return len(self.theirs)

    @property
    def marks_words(self) -> bool:
        """Whether pieces show where words begin."""
        return self.notation != "none"

    def _ids(self, texts: list[str]) -> Any:
        """Return the tokenizer's ids. Special pieces among them (Unigram contains ``<s>``) become unknown text."""
        encoded = self.processor.encode_batch_fast(texts, add_special_tokens=False)
        found = (self.ours[np.array(text.ids, dtype=np.int64)] for text in encoded)
        return [np.where(ids < FIRST_ORDINARY_ID, SPECIAL.unk, ids).astype(np.int32) for ids in found]

    def pieces(self, ids: npt.ArrayLike) -> list[str]:
        """Return the written form of each id in SentencePiece's notation, with ``▁`` for the space before it."""
        return [self._spelt[i][0] for i in np.asarray(ids).reshape(-1).tolist()]

    def proper(self) -> npt.NDArray[np.bool_]:
        """Return which pieces are ordinary and consist of whole characters: bool [V]."""
        return np.array([i >= FIRST_ORDINARY_ID and whole for i, (_, whole) in enumerate(self._spelt)], dtype=np.bool_)

    def _ordinary(self) -> npt.NDArray[np.bool_]:
        known, added = set(self.processor.get_vocab().values()), self.processor.get_added_tokens_decoder()
        return np.array([i in known and not (i in added and added[i].special) for i in self.theirs.tolist()], dtype=np.bool_)

    @cached_property
    def _spelt(self) -> list[tuple[str, bool]]:
        """Return each piece in SentencePiece's notation, and whether it consists of whole characters."""
        return [self._spell(self.processor.id_to_token(int(i))) for i in self.theirs]

    def _spell(self, piece: str | None) -> tuple[str, bool]:
        if piece is None:  # A row of the word table without a piece.
            return "", False
        if self.notation == "continuation":
            return (piece.removeprefix(self.prefix) if piece.startswith(self.prefix) else SPACE + piece), True
        if self.notation == "bytes" and _BYTE_LETTERS.keys() >= set(piece):
            raw = bytes(_BYTE_LETTERS[letter] for letter in piece)
            text = raw.decode("utf-8", "backslashreplace")
            return (SPACE + text[1:] if text.startswith(" ") else text), text.encode() == raw
        return piece, not re.fullmatch("<0x[0-9A-F]{2}>", piece)


def _notation_of(tokenizer: dict[str, Any]) -> _Notation:
    """Return how the pieces of a ``tokenizer.json`` show where words begin."""
    if tokenizer["model"]["type"] == "WordPiece":
        return "continuation"
    steps = json.dumps([tokenizer[step] for step in ("normalizer", "pre_tokenizer")], ensure_ascii=False)
    return "bytes" if '"ByteLevel"' in steps else "spaces" if SPACE in steps else "none"


def _byte_letters() -> dict[str, int]:
    """Return the letters that byte-level BPE (GPT-2) writes for bytes: printable Latin-1 characters stand for themselves."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(0x100) if byte not in printable]
    return {chr(byte): byte for byte in printable} | {chr(0x100 + place): byte for place, byte in enumerate(others)}


_BYTE_LETTERS = _byte_letters()


def _is_punctuation(character: str) -> bool:
    """Whether a character is punctuation or a symbol (Unicode categories P and S), and so a word of its own, even in a
    number."""
    return unicodedata.category(character)[0] in "PS"


_BYTE_PIECE = ("<", "0", "x", "0123456789ABCDEF", "0123456789ABCDEF", ">")
"""Possible characters of a byte's piece, position by position."""


def fast_tokenizer(model: Any) -> Tokenizer:
    """Return the fast tokenizer of a parsed SentencePiece ``ModelProto`` of ours."""
    tokenizer = Tokenizer(_pieces(model))
    tokenizer.normalizer = normalizer()
    # No ▁ is added after [MASK], so that "[MASK]을" continues the masked word.
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
    """Return a regular expression that cuts text which looks like a special piece.

    The library's unigram model treats special pieces and byte pieces as ordinary words, although ``<0x41>`` in a text is six
    characters. The cut is made between two characters that are adjacent in no ordinary piece, one of them known, so it changes
    nothing else. (Two unknown ones would be one ``<unk>`` and become two.)
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
    """Whether no piece has a character of ``first`` before one of ``second``, and one of the two is always known."""
    return not met & set(product(first, second)) and (known.issuperset(first) or known.issuperset(second))


def _one_of(characters: str) -> str:
    """Return a regular expression of one of these letters and digits, or of the single character."""
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
    """Return every way to merge two pieces into a third, by the third one's rank: SentencePiece's BPE stores no such list."""
    merges: list[tuple[int, int, int, tuple[str, str]]] = []
    for rank, piece in enumerate(model.pieces):
        if piece.type != piece.NORMAL:
            continue
        for cut in range(1, len(piece.piece)):
            left, right = piece.piece[:cut], piece.piece[cut:]
            if left in ids and right in ids:
                merges.append((rank, ids[left], ids[right], (left, right)))
    return [pair for *_, pair in sorted(merges)]
