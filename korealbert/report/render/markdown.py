"""Blocks as Markdown, for terminals, diffs and model hubs."""

from __future__ import annotations

import re
from collections.abc import Sequence

from korealbert.report.render.blocks import Block, Cards, Figures, Fold, Section, Table, Text

_SPECIAL = re.compile(r"([\\`*_\[\]|#~])")


def markdown(title: str, lede: str, sections: Sequence[Section]) -> str:
    """The complete document; drawings are linked under ``figures/``."""
    parts = [f"# {plain(title)}", plain(lede)]
    for section in sections:
        parts.append(f"## {plain(section.title)}")
        parts += [_block(block) for block in section.blocks]
    return "\n\n".join(parts) + "\n"


def plain(text: str) -> str:
    """Text that stays what it is: no markup, no HTML, one line."""
    escaped = _SPECIAL.sub(r"\\\1", " ".join(text.split()))
    return escaped.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _block(block: Block) -> str:
    match block:
        case Text(text, _):
            return plain(text)
        case Cards(cards):
            return "\n".join(f"- {plain(card.title)}: **{plain(card.value)}** ({plain(card.detail)})" for card in cards)
        case Table():
            return table(block)
        case Figures(figures):
            return "\n".join(f"![{plain(figure.caption)}](figures/{figure.name}.svg)" for figure in figures)
        case Fold(summary, blocks):
            return "\n\n".join([f"### {plain(summary)}", *(_block(inner) for inner in blocks)])


def table(table: Table) -> str:
    """A title and a table; marked rows are bold."""
    rule = ["---:" if index in table.numeric else "---" for index in range(len(table.header))]
    rows = [[plain(cell) for cell in row] for row in table.rows]
    for index in table.marked:
        rows[index] = [f"**{cell}**" if cell else "" for cell in rows[index]]
    lines = [[plain(cell) for cell in table.header], rule, *rows]
    return f"{plain(table.title)}\n\n" + "\n".join(f"| {' | '.join(line)} |" for line in lines)
