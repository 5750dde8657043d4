"""Align pieces with the characters they cover, for SentencePiece, WordPiece and byte-level BPE.

The tokenizer's offsets are trimmed of spaces and corrected so that every visible character belongs to exactly one piece. If
several pieces share a character (its bytes, or the two letters into which NFKC splits ``㎏``), the first has it and the others
are empty.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from korealbert.vocab.normalisation import SEPARATORS, clusters

Span = tuple[int, int]
"""Characters [begin, end) of a text; empty if a piece covers none."""

_MARKS = ("▁", "Ġ", "##", "")
"""Pieces that are no character of a text, whatever their offsets say."""

_BYTE = re.compile(r"<0x([0-9A-F]{2})>")
"""A piece that is a byte of a character without a piece."""

_PROBE = "가 a"


@dataclass(frozen=True)
class Pieces:
    """The pieces of one text without special ones."""

    ids: list[int]
    spans: list[Span]


@dataclass(frozen=True)
class Frame:
    """Special pieces that a tokenizer puts before, between and after texts, and the segments of the texts."""

    before: list[int]
    between: list[int]
    after: list[int]
    segments: tuple[int, int]

    @property
    def size(self) -> int:
        """The number of special pieces."""
        return len(self.before) + len(self.between) + len(self.after)

    def around(self, first: Sequence[int], second: Sequence[int] = ()) -> tuple[list[int], list[int]]:
        """Return ids and segments of an input; a single text has no ``second``."""
        ids = [*self.before, *first, *self.between, *second, *self.after]
        in_first = len(self.before) + len(first) + len(self.between)
        return ids, [self.segments[0]] * in_first + [self.segments[1]] * (len(ids) - in_first)


def frame(tokenizer: Any, *, pair: bool) -> Frame:
    """Return the frame of a tokenizer's single texts or pairs. Raises ValueError if it does not begin with ``[CLS]``."""
    encoded = _fast(tokenizer)(_PROBE, _PROBE if pair else None, return_token_type_ids=True)
    ids, segments, owners = encoded["input_ids"], encoded["token_type_ids"], encoded.sequence_ids(0)
    if ids[0] != tokenizer.cls_token_id:
        where = f"{tokenizer.name_or_path}/tokenizer.json"
        raise ValueError(f"{where}: puts no {tokenizer.cls_token} before a sentence; give it a post-processor")
    first = owners.index(0)
    if not pair:
        last = len(owners) - owners[::-1].index(0)
        return Frame(ids[:first], [], ids[last:], (segments[first], segments[first]))
    end_of_first, second = len(owners) - owners[::-1].index(0), owners.index(1)
    last = len(owners) - owners[::-1].index(1)
    return Frame(ids[:first], ids[end_of_first:second], ids[last:], (segments[first], segments[second]))


def pieces(texts: Sequence[str], tokenizer: Any) -> list[Pieces]:
    """Return the pieces of each text. Raises ValueError if the tokenizer has no offsets."""
    if not texts:
        return []
    encoded = _fast(tokenizer)(
        list(texts), add_special_tokens=False, return_offsets_mapping=True, return_attention_mask=False, verbose=False
    )
    rows = zip(texts, encoded["input_ids"], encoded["offset_mapping"], strict=True)
    normalizer = tokenizer.backend_tokenizer.normalizer
    normalise: Callable[[str], str] = normalizer.normalize_str if normalizer else str
    return [Pieces(ids, _tiled(text, tokenizer.convert_ids_to_tokens(ids), offsets, normalise)) for text, ids, offsets in rows]


def with_every_unit(found: Pieces, units: Sequence[Span], unknown_id: int) -> Pieces:
    """Return the pieces, with an unknown piece for each unit of the text in which no piece begins."""
    begins = [begin for begin, end in found.spans if begin < end]
    missing = [unit for unit in units if not any(unit[0] <= begin < unit[1] for begin in begins)]
    if not missing:
        return found
    rows = sorted(
        [(span, 1, row, piece) for row, (piece, span) in enumerate(zip(found.ids, found.spans, strict=True))]
        + [(unit, 0, 0, unknown_id) for unit in missing]
    )
    return Pieces([piece for *_, piece in rows], [span for span, *_ in rows])


def owned_units(spans: Sequence[Span], units: Sequence[Span]) -> list[list[int]]:
    """Return for each piece the numbers of the units whose first piece it is. Spans and units must be ascending."""
    owned: list[list[int]] = []
    unit = 0
    for begin, end in spans:
        while unit < len(units) and units[unit][1] <= begin:
            unit += 1
        first = unit
        while begin < end and unit < len(units) and units[unit][0] < end:
            unit += 1
        owned.append(list(range(first, unit)))
    return owned


def _fast(tokenizer: Any) -> Any:
    if not tokenizer.is_fast:
        raise ValueError(f"{tokenizer.name_or_path}: its tokenizer has no offsets; save it with a tokenizer.json")
    return tokenizer


def _tiled(text: str, written: Sequence[str], offsets: Sequence[Span], normalise: Callable[[str], str]) -> list[Span]:
    """Return the spans of pieces; pieces with equal offsets are handled as a group, from left to right."""
    spans: list[Span] = []
    reached = 0
    groups = [list(group) for _, group in groupby(range(len(written)), key=offsets.__getitem__)]
    begins = [*(offsets[group[0]][0] for group in groups), len(text)]
    for group, following in zip(groups, begins[1:], strict=True):
        begin, end = _grown(text, reached, offsets[group[0]], following)
        names = [written[number] for number in group]
        found = _of_bytes(names, text, begin, end, normalise) if all(map(_BYTE.fullmatch, names)) else None
        if found is None:
            # The first piece that is not a mark has all characters of the group.
            owner = next((n for n, name in enumerate(names) if name not in _MARKS), len(names))
            found = [(begin, begin)] * owner + [(begin, end), *[(end, end)] * (len(names) - owner - 1)][: len(names) - owner]
        spans += found
        reached = max(reached, spans[-1][1])
    return spans


def _grown(text: str, reached: int, given: Span, following: int) -> Span:
    """Trim spaces from offsets, and extend them to adjacent visible characters that belong to no other piece.

    Decomposed letters (Hangul in file names of macOS) are thereby covered up to their last character.
    """
    begin = max(given[0], reached)
    end = max(begin, given[1])
    while end < following and _visible(text[end]):
        end += 1
    while begin > reached and _visible(text[begin - 1]):
        begin -= 1
    while begin < end and not _visible(text[begin]):
        begin += 1
    while begin < end and not _visible(text[end - 1]):
        end -= 1
    return begin, end


def _visible(character: str) -> bool:
    return not character.isspace() and character not in SEPARATORS


def _of_bytes(names: Sequence[str], text: str, begin: int, end: int, normalise: Callable[[str], str]) -> list[Span] | None:
    """Return the spans of a run of bytes: the first byte of a character has it. None if they are not the text's bytes.

    A run may begin or end within a normalised character (``㎏`` may be a piece ``k`` and a byte of g).
    """
    content = bytes(int(name[3:5], 16) for name in names)
    shown = b""
    spans: list[Span] = []
    for first, last in clusters(text, begin, end):
        added = normalise(text[first:last]).replace(" ", "").encode()
        spans += [(first, last), *[(last, last)] * (len(added) - 1)][: len(added)]
        shown += added
    before = next(start for start in range(len(content) + 1) if shown.startswith(content[start:]))
    held = len(content) - before
    whole = all(first == last for first, last in spans[held:])
    return [(begin, begin)] * before + spans[:held] if held and whole else None
