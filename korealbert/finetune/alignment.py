"""Pieces and the characters they stand for: one way for SentencePiece, WordPiece and byte-level BPE.

Offsets come from the tokenizer, are trimmed of spaces, and made to tile the text: where several pieces share a character (the
bytes of one, or the two letters that NFKC makes of ``㎏``) the first of them has it, and the others stand for nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

Span = tuple[int, int]
"""Characters [begin, end) of a text; empty where a piece stands for none."""

BARE = ("▁", "Ġ", "##", "")
"""Written forms of pieces that are no character of a text, whatever their offsets say."""

PROBE = "가 a"


@dataclass(frozen=True)
class Pieces:
    """The pieces of one text without special ones."""

    ids: list[int]
    spans: list[Span]


@dataclass(frozen=True)
class Frame:
    """Ids of the special pieces that a tokenizer puts before, between and after texts, and the segments of the texts."""

    before: list[int]
    between: list[int]
    after: list[int]
    segments: tuple[int, int]

    @property
    def size(self) -> int:
        """How many special pieces there are."""
        return len(self.before) + len(self.between) + len(self.after)

    def around(self, first: Sequence[int], second: Sequence[int] = ()) -> tuple[list[int], list[int]]:
        """Ids and segments of an input; for a single text ``second`` is left out."""
        ids = [*self.before, *first, *self.between, *second, *self.after]
        in_first = len(self.before) + len(first) + len(self.between)
        return ids, [self.segments[0]] * in_first + [self.segments[1]] * (len(ids) - in_first)


def frame(tokenizer: Any, *, pair: bool) -> Frame:
    """The frame of a tokenizer's single texts or pairs. Raises ValueError when it puts no ``[CLS]`` first."""
    encoded = _fast(tokenizer)(PROBE, PROBE if pair else None, return_token_type_ids=True)
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
    """The pieces of each text. Raises ValueError when the tokenizer knows no offsets."""
    if not texts:
        return []
    encoded = _fast(tokenizer)(
        list(texts), add_special_tokens=False, return_offsets_mapping=True, return_attention_mask=False, verbose=False
    )
    rows = zip(texts, encoded["input_ids"], encoded["offset_mapping"], strict=True)
    return [Pieces(ids, _tiled(text, tokenizer.convert_ids_to_tokens(ids), offsets)) for text, ids, offsets in rows]


def with_every_unit(found: Pieces, units: Sequence[Span], unknown_id: int) -> Pieces:
    """The pieces, with an unknown one for each unit of the text that none of them begins in."""
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
    """For each piece the numbers of the units of which it is the first piece. Both ascend."""
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
        raise ValueError(f"{tokenizer.name_or_path}: its tokenizer knows no offsets; save it with a tokenizer.json")
    return tokenizer


def _tiled(text: str, written: Sequence[str], offsets: Sequence[Span]) -> list[Span]:
    spans: list[Span] = []
    reached = 0
    for token, (given_begin, given_end) in zip(written, offsets, strict=True):
        begin = max(given_begin, reached)
        stretch = text[begin : max(begin, given_end)]
        visible = "" if token in BARE else stretch.strip()
        if visible:
            begin += len(stretch) - len(stretch.lstrip())
            reached = begin + len(visible)
        spans.append((begin, begin + len(visible)))
    return spans
