"""Parts of a report. HTML, Markdown and table files are all rendered from them, so they cannot disagree."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from korealbert.formatting import MISSING
from korealbert.report.render.markup import Svg


@dataclass(frozen=True)
class Text:
    """A paragraph; ``quiet`` ones are in smaller type: caveats, the origin of numbers."""

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
    """A drawing with its caption; ``name`` becomes that of its file. A wide one has a row of its own and keeps its size."""

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
    """Yield the blocks in order, with the blocks of a fold in its place."""
    for block in blocks:
        yield from unfolded(block.blocks) if isinstance(block, Fold) else [block]


def without_empty_columns(block: Block) -> Block:
    """Return a block whose tables have no empty columns; the first column, which names the rows, always stays."""
    if isinstance(block, Fold):
        return Fold(block.summary, [without_empty_columns(inner) for inner in block.blocks])
    if not isinstance(block, Table) or not block.rows:
        return block
    kept = [n for n in range(len(block.header)) if n == 0 or any(row[n] not in ("", MISSING) for row in block.rows)]
    return replace(
        block,
        header=[block.header[n] for n in kept],
        rows=[[row[n] for n in kept] for row in block.rows],
        numeric=frozenset(new for new, old in enumerate(kept) if old in block.numeric),
        prose=frozenset(new for new, old in enumerate(kept) if old in block.prose),
    )
