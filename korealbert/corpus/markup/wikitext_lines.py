"""The lines of a MediaWiki page: headings, lists, paragraphs, and tables as lines."""

from __future__ import annotations

import re
from collections import Counter

from korealbert.corpus.markup.layout import GONE, LETTER, Prose, collapse_blanks, finish
from korealbert.corpus.readers.spec import WikiOptions


def lay_out(text: str, options: WikiOptions, lost: Counter[str]) -> str:
    """Headings, lists and paragraphs."""
    prose = Prose(headings=options.headings, dropped_sections=options.dropped_sections, lost=lost)
    take = prose.line
    for source_line in text.split("\n"):
        line = source_line.strip()
        if not line:
            prose.paragraph_break()
            continue
        if GONE in line:
            line = line.replace(GONE, "").strip()
        if options.keep_footnotes:
            line = prose.hold_footnotes(line)
        if not line:
            continue
        mark = line[0]
        if mark in "=*#:;-|":
            if mark == "=" and line[-1] == "=":
                _heading(line, prose)
                continue
            line = _without_mark(line, lost)
        if mark.isalnum() or LETTER.search(line):
            take(line)
        else:
            lost["line"] += len(line)
    return finish(prose.text())


def _heading(line: str, prose: Prose) -> None:
    if title := line.strip("="):
        level = min(len(line) - len(line.lstrip("=")), len(line) - len(line.rstrip("=")))
        prose.heading(level, collapse_blanks(title).strip())


def _without_mark(line: str, lost: Counter[str]) -> str:
    """A line without what makes it a list item or a rule; nothing of a line that a table without an end left."""
    mark = line[0]
    if mark in "*#:;":
        return line.lstrip("*#:; ")
    if line.startswith("----"):
        return line.lstrip("-").lstrip()
    if mark == "|":
        lost["table"] += len(line)
        return ""
    return line


def linear_table(content: str) -> str:
    """A table's rows as lines, cells joined by a space; ``content`` is what lies between ``{|`` and ``|}``."""
    rows: list[list[str]] = [[]]
    for line in content.split("\n")[1:]:
        row = line.strip()
        if row.startswith("|-"):
            rows.append([])
        elif row.startswith(("|", "!")):
            body = row[2:] if row.startswith("|+") else row[1:]
            cells = re.split(r"\|\||!!" if row.startswith("!") else r"\|\|", body)
            rows[-1].extend(_cell(cell) for cell in cells)
        elif row and rows[-1]:
            rows[-1][-1] += f" {row}"
    return "\n".join(" ".join(filter(None, row)) for row in rows if row)


def _cell(cell: str) -> str:
    attributes, pipe, text = cell.partition("|")
    return (text if pipe and "=" in attributes else cell).strip()
