"""Parts of a report. HTML, Markdown and table files are all made from them, so they cannot disagree."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from korealbert.formatting import MISSING
from korealbert.report.render.markup import Svg


@dataclass(frozen=True)
class Text:
    """A paragraph; ``quiet`` in smaller type: a caveat, the origin of numbers."""

    text: str
    quiet: bool = False


@dataclass(frozen=True)
class Card:
    """One headline number, in large type."""

    title: str
    value: str
    detail: str


@dataclass(frozen=True)
class Cards:
    """Headline numbers side by side."""

    cards: Sequence[Card]


@dataclass(frozen=True)
class Table:
    """Rows of text; ``numeric`` columns are aligned right, ``prose`` columns hold text of any length and language,
    ``marked`` rows are highlighted."""

    title: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    numeric: frozenset[int] = frozenset()
    marked: frozenset[int] = frozenset()
    prose: frozenset[int] = frozenset()


@dataclass(frozen=True)
class Figure:
    """A drawing with its file name; ``caption`` describes it. Numbers in the drawing are text. A wide one has a whole
    row and keeps its size."""

    name: str
    caption: str
    svg: Svg
    wide: bool = False


@dataclass(frozen=True)
class Figures:
    """Small drawings side by side."""

    figures: Sequence[Figure]


@dataclass(frozen=True)
class Fold:
    """Blocks that are hidden until the reader opens them."""

    summary: str
    blocks: Sequence[Block]


Block: TypeAlias = Text | Cards | Table | Figures | Fold


@dataclass(frozen=True)
class Section:
    """A chapter with an anchor."""

    anchor: str
    title: str
    blocks: Sequence[Block]


def unfolded(blocks: Sequence[Block]) -> Iterator[Block]:
    """The blocks in order, those within a fold in its place."""
    for block in blocks:
        yield from unfolded(block.blocks) if isinstance(block, Fold) else [block]


def without_empty_columns(blocks: Sequence[Block]) -> list[Block]:
    """The blocks with tables that have something in every column but the first, which names the rows."""
    return [
        _narrowed(block)
        if isinstance(block, Table)
        else Fold(block.summary, without_empty_columns(block.blocks))
        if isinstance(block, Fold)
        else block
        for block in blocks
    ]


def _narrowed(table: Table) -> Table:
    filled = [
        number
        for number in range(len(table.header))
        if number == 0 or not table.rows or any(row[number] not in ("", MISSING) for row in table.rows)
    ]
    if len(filled) == len(table.header):
        return table
    numeric, prose = (
        frozenset(place for place, number in enumerate(filled) if number in kind) for kind in (table.numeric, table.prose)
    )
    rows = [[row[number] for number in filled] for row in table.rows]
    return replace(table, header=[table.header[number] for number in filled], rows=rows, numeric=numeric, prose=prose)
