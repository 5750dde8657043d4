"""Normalisation of text before it is cut into pieces: one table, which two libraries follow exactly.

Unicode's NFKC reorders and recomposes over any distance, which SentencePiece's table of short sequences cannot express. The
table contains what such a table can express. The ``tokenizers`` library applies full NFKC, so a barrier character is inserted
wherever its NFKC would go further than the table:

- each character becomes its own NFKC form; ``SEPARATORS`` become spaces;
- conjoining jamo compose (Hangul as macOS writes file names), and a letter with one accent or voicing mark composes;
- nothing else does: a second mark stays separate, and so do compatibility jamo, so ``ㅋㅋㅜㅜ`` does not become ``ㅋ쿠ㅜ``.

A SentencePiece model contains the compiled table (``precompiled_charsmap``): the size of an automaton in bytes, the automaton,
and the replacements. The automaton is a Darts-clone double array: a unit of 32 bits for each node, whose child by a byte is at
the exclusive or of the node's own place, its offset and the byte. Sequences are in UTF-8.
"""

from __future__ import annotations

import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from tokenizers import Regex, normalizers

SEPARATORS = frozenset(
    chr(code)
    for first, last in (
        *((0x01, 0x1F), (0x7F, 0x9F)),  # controls; a table of zero-terminated strings cannot name U+0000
        *((0x1680, 0x1680), (0x200B, 0x200B), (0x200E, 0x200F), (0x2028, 0x202E), (0x2581, 0x2581), (0xFEFF, 0xFEFF)),
    )
    for code in range(first, last + 1)
)
"""Characters read as a space in addition to those that NFKC turns into one: controls, zero-width and direction marks, and
``▁`` itself."""

_BARRIER = "\x01"
"""Inserted between characters that must not compose. It is one of ``SEPARATORS``, so no text contains it at that point."""
_LEADING, _VOWELS, _TRAILING = range(0x1100, 0x1113), range(0x1161, 0x1176), range(0x11A8, 0x11C3)
_SYLLABLES = range(0xAC00, 0xD7A4)


class _Compositions(NamedTuple):
    """What NFKC joins beyond single characters, except Hangul."""

    seconds: dict[str, set[str]]
    """For each mark, the letters with which it makes one character."""
    joining: set[str]
    """Every character that NFKC may join to the one before it, or move before it; including Hangul."""


@cache
def rules() -> dict[str, str]:
    """Return the table: the replacement of each sequence. Text is replaced once, from left to right, longest sequence first."""
    characters = _characters()
    nfkc = dict(zip(characters, _each(normalizers.NFKC(), characters), strict=True))
    table = {character: form for character, form in nfkc.items() if form != character}
    table |= dict.fromkeys(SEPARATORS, " ")
    syllables = {chr(code): normalizers.NFD().normalize_str(chr(code)) for code in _SYLLABLES}
    composed = {jamo: syllable for syllable, jamo in syllables.items()}
    table |= composed
    table |= {composed[jamo[:2]] + jamo[2]: syllable for syllable, jamo in syllables.items() if len(jamo) == 3}
    for mark, letters in _compositions().seconds.items():
        pairs = [letter + mark for letter in letters]
        table |= dict(zip(pairs, _each(normalizers.NFKC(), pairs), strict=True))
    return table


def rules_tsv() -> str:
    """Return the table as ``SentencePieceTrainer`` reads it: code points in hexadecimal, a tab between the two sides."""
    return "".join(f"{_hexadecimal(source)}\t{_hexadecimal(target)}\n" for source, target in sorted(rules().items()))


def normalizer() -> normalizers.Normalizer:
    """Return the same for the ``tokenizers`` library, with runs of spaces merged and trailing ones removed, as SentencePiece
    does."""
    # One leading space may stay and becomes the ▁ of the first word. Stripping it would shift the offsets on which Metaspace's
    # "first" depends.
    return normalizers.Sequence(
        [
            normalizers.Replace(Regex(_class(SEPARATORS)), " "),
            normalizers.Replace(Regex(_barred()), _BARRIER),
            normalizers.NFKC(),
            normalizers.Replace(_BARRIER, ""),
            normalizers.Replace(Regex(" {2,}"), " "),
            normalizers.Replace(Regex(" $"), ""),
        ]
    )


def clusters(text: str, begin: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield the characters [begin, end) of a text in groups: each with those after it that may compose with it."""
    first = begin
    for place in range(begin + 1, end):
        if not joins(text[place]):
            yield first, place
            first = place
    if first < end:
        yield first, end


def joins(character: str) -> bool:
    """Whether a character may compose with the one before it: jamo of vowels and finals, marks."""
    return "\u1160" <= character <= "\u11ff" or unicodedata.category(character)[0] == "M"


@cache
def _barred() -> str:
    """Return a regular expression of the places before a joining character where the table joins nothing."""
    seconds, joining = _compositions()
    leading, vowels, trailing, syllables = (_class(map(chr, codes)) for codes in (_LEADING, _VOWELS, _TRAILING, _SYLLABLES))
    alone = joining.difference(seconds, map(chr, _VOWELS), map(chr, _TRAILING))
    places = [
        f"(?={_class(alone)})",
        f"(?={vowels})(?<!{leading})",
        f"(?={trailing})(?<!{syllables})(?<!{leading}{vowels})",
        *(f"(?={_class(mark)})(?<!{_class(letters)})" for mark, letters in sorted(seconds.items())),
    ]
    # Not at the very beginning, where the library miscounts insertions (index out of bounds in its next normalizer).
    return rf"(?!\A)(?={_class(joining)})(?:{'|'.join(places)})"


@cache
def _compositions() -> _Compositions:
    """Derive compositions from the library's own NFC and NFKD, so that both sides use the same version of Unicode."""
    characters = _characters()
    decomposed = {c: form for c, form in zip(characters, _each(normalizers.NFD(), characters), strict=True) if form != c}
    composites = [c for c, form in zip(decomposed, _each(normalizers.NFC(), decomposed), strict=True) if form == c]
    lasts = {decomposed[c][-1] for c in composites}
    # U+0345 has the highest combining class: every other mark moves before it.
    moved = _each(normalizers.NFKD(), ["\u0345" + c for c in characters])
    joining = {c for c, form in zip(characters, moved, strict=True) if form[0] != "\u0345" or form[1:2] in lasts}
    joining.add("\u0345")
    heads = [c for c in composites if ord(c) not in _SYLLABLES]
    letters = _each(normalizers.NFC(), [decomposed[c][:-1] for c in heads])
    seconds: dict[str, set[str]] = defaultdict(set)
    for composite, letter in zip(heads, letters, strict=True):
        if len(letter) == 1 and letter not in joining:
            seconds[decomposed[composite][-1]].add(letter)
    return _Compositions(dict(seconds), joining)


def _characters() -> list[str]:
    """Return all characters that can have forms: no U+0000, barrier, surrogates, unified ideographs or empty planes."""
    blocks = ((0x2, 0x3400), (0xA000, 0xD800), (0xE000, 0x20000), (0x2F800, 0x2FA20), (0xE0000, 0xE1000))
    return [chr(code) for first, end in blocks for code in range(first, end)]


def _each(form: normalizers.Normalizer, texts: Iterable[str]) -> list[str]:
    """Normalise each text separately, in one call."""
    return form.normalize_str(_BARRIER.join(texts)).split(_BARRIER)


def _class(characters: Iterable[str]) -> str:
    """Return a regular expression that matches one of these characters, by ranges of code points."""
    ranges: list[list[int]] = []
    for code in sorted(map(ord, characters)):
        if ranges and code == ranges[-1][1] + 1:
            ranges[-1][1] = code
        else:
            ranges.append([code, code])
    return "[" + "".join(rf"\x{{{first:X}}}-\x{{{last:X}}}" for first, last in ranges) + "]"


def _hexadecimal(text: str) -> str:
    return " ".join(f"{ord(character):04X}" for character in text)


_Ints = npt.NDArray[np.int64]
_BYTES = np.arange(1, 0x100)
_CONTINUING = np.arange(0x80, 0xC0)


def joining_characters(charsmap: bytes) -> set[str]:
    """Return the characters that follow another one in some sequence of the table; all others are read alone."""
    if not charsmap:
        return set()
    units = np.frombuffer(charsmap, "<u4", int.from_bytes(charsmap[:4], "little") // 4, offset=4).astype(np.int64)
    joining: set[str] = set()
    seen = np.zeros(len(units), dtype=np.bool_)
    _, nodes = _read_character(units, np.zeros(1, dtype=np.int64))
    while (nodes := np.unique(nodes[~seen[nodes]])).size:
        seen[nodes] = True
        codes, nodes = _read_character(units, nodes)
        joining.update(map(chr, np.unique(codes).tolist()))
    return joining


def _read_character(units: _Ints, nodes: _Ints) -> tuple[_Ints, _Ints]:
    """Return the code points that may follow at these nodes, and the node after each."""
    _, heads, nodes = _children(units, nodes, _BYTES)
    more = (heads >= 0xC0).astype(np.int64) + (heads >= 0xE0) + (heads >= 0xF0)
    codes = np.where(more > 0, heads & (0x3F >> more), heads)
    finished = []
    for byte in range(4):
        whole = more == byte
        finished.append((codes[whole], nodes[whole]))
        codes, nodes, more = codes[~whole], nodes[~whole], more[~whole]
        parents, tails, nodes = _children(units, nodes, _CONTINUING)
        codes, more = codes[parents] << 6 | tails & 0x3F, more[parents]
    return np.concatenate([codes for codes, _ in finished]), np.concatenate([nodes for _, nodes in finished])


def _children(units: _Ints, nodes: _Ints, labels: _Ints) -> tuple[_Ints, _Ints, _Ints]:
    """Return all children of some nodes by these bytes: index of the parent, byte, and child."""
    unit = units[nodes]
    offsets = (unit >> 10) << ((unit & 0x200) >> 6)
    children = (nodes ^ offsets)[:, None] ^ labels
    # A unit with the highest bit set is a replacement, not a node.
    parents, chosen = np.nonzero((units[children] & 0x800000FF) == labels)
    return parents, labels[chosen], children[parents, chosen]
