"""Every table of a report as files of its own: CSV, Markdown and LaTeX under one name."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Sequence

from korealbert.report.render.blocks import Block, Fold, Section, Table
from korealbert.report.render.latex import latex
from korealbert.report.render.markdown import table as markdown_table

_MAX_NAME = 60


def table_files(sections: Sequence[Section]) -> Iterator[tuple[str, bytes]]:
    """Names and contents, in the order of the tables; equal titles of one chapter are numbered."""
    taken: set[str] = set()
    for section in sections:
        for table in _tables(section.blocks):
            name = first = f"{section.anchor}-{_slug(table.title)}"
            number = 1
            while name in taken:
                number += 1
                name = f"{first}-{number}"
            taken.add(name)
            yield f"{name}.csv", _csv(table).encode()
            yield f"{name}.md", f"{markdown_table(table)}\n".encode()
            yield f"{name}.tex", latex(table, name).encode()


def _tables(blocks: Sequence[Block]) -> Iterator[Table]:
    for block in blocks:
        if isinstance(block, Table):
            yield block
        elif isinstance(block, Fold):
            yield from _tables(block.blocks)


def _slug(title: str) -> str:
    words = re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")
    return words[:_MAX_NAME].strip("-") or "table"


def _csv(table: Table) -> str:
    """As shown: figures with their thousands separators and signs; ``scores.csv`` has the exact ones."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([table.header, *table.rows])
    return text.getvalue()
