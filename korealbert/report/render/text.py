"""Render a report as Markdown, and its tables as CSV, Markdown and LaTeX (booktabs)."""

from __future__ import annotations

import csv
import html
import io
import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from korealbert.report.render.blocks import Block, Cards, Figures, Fold, Section, Table, Text, unfolded

_MARKDOWN_SPECIAL = re.compile(r"([\\`*_\[\]|#~])")


def markdown(title: str, introduction: str, sections: Sequence[Section]) -> str:
    """Return the complete document, with links to the drawings in ``figures/``."""
    parts = [f"# {plain(title)}", plain(introduction)]
    for section in sections:
        parts.append(f"## {plain(section.title)}")
        parts += [_block(block) for block in section.blocks]
    return "\n\n".join(parts) + "\n"


def plain(text: str) -> str:
    """Return text on one line with Markdown and HTML escaped."""
    escaped = _MARKDOWN_SPECIAL.sub(r"\\\1", " ".join(text.split()))
    return escaped.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def shortened(text: str, characters: int) -> str:
    """Return the beginning of a text on one line, with an ellipsis if it is cut."""
    line = " ".join(text[: 4 * characters].split())
    return line if len(line) <= characters else f"{line[: characters - 1].rstrip()}…"


def unescaped(text: str) -> str:
    """Reverse ``plain``."""
    return re.sub(r"\\(.)", r"\1", html.unescape(text))


def _block(block: Block) -> str:
    match block:
        case Text(text, _):
            return plain(text)
        case Cards(cards):
            return "\n".join(f"- {plain(card.title)}: **{plain(card.value)}** ({plain(card.detail)})" for card in cards)
        case Table():
            return _markdown_table(block)
        case Figures(figures):
            return "\n".join(f"![{plain(figure.caption)}](figures/{figure.name}.svg)" for figure in figures)
        case Fold(summary, blocks):
            return "\n\n".join([f"### {plain(summary)}", *(_block(inner) for inner in blocks)])


def _markdown_table(table: Table) -> str:
    """Return the title and the table; marked rows are bold."""
    rule = ["---:" if index in table.numeric else "---" for index in range(len(table.header))]
    rows = [[plain(cell) for cell in row] for row in table.rows]
    for index in table.marked:
        rows[index] = [f"**{cell}**" if cell else "" for cell in rows[index]]
    lines = [[plain(cell) for cell in table.header], rule, *rows]
    return f"{plain(table.title)}\n\n" + "\n".join(f"| {' | '.join(line)} |" for line in lines)


LATEX_SPECIAL = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    "\N{NO-BREAK SPACE}": "~",
    "\N{MINUS SIGN}": "$-$",
    "±": r"$\pm$",
    "×": r"$\times$",
    "≥": r"$\geq$",
    "→": r"$\rightarrow$",
    "–": "--",
    "…": r"\ldots{}",
    "“": "``",
    "”": "''",
}

_CONTROL = re.compile(r"[\x00-\x1f\x7f]+")
_LIGATURES = re.compile(r"(?<=-)(?=-)|(?<=`)(?=`)|(?<=')(?=')|(?<=[!?])(?=`)|(?<=,)(?=,)")
"""Places between two characters that LaTeX would print as one."""

_PROSE_WIDTH = "0.35\\linewidth"

_PAGE_CHARACTERS = 90
"""This many characters of a table fit beside each other on a page; LaTeX scales down wider tables."""


def latex_text(text: str) -> str:
    """Return text on one line with LaTeX escaped."""
    parts = _LIGATURES.split(_CONTROL.sub(" ", text))
    return "{}".join("".join(LATEX_SPECIAL.get(character, character) for character in part) for part in parts)


def latex(table: Table, label: str) -> str:
    """Return a ``table`` environment for ``\\usepackage{booktabs}``, and ``graphicx``, which scales tables to the page's width.

    Korean text needs XeLaTeX or LuaLaTeX with ``kotex``.
    """
    kinds = (
        "r" if n in table.numeric else f"p{{{_PROSE_WIDTH}}}" if n in table.prose else "l" for n in range(len(table.header))
    )
    body = [
        _row([rf"\textbf{{{latex_text(cell)}}}" if number in table.marked and cell else latex_text(cell) for cell in row])
        for number, row in enumerate(table.rows)
    ]
    characters = sum(2 + max(map(len, column)) for column in zip(table.header, *table.rows, strict=True))
    scaled = characters > _PAGE_CHARACTERS and not table.prose
    lines = [
        r"\begin{table}",
        r"\centering",
        rf"\caption{{{latex_text(table.title)}}}",
        rf"\label{{tab:{label}}}",
        *([r"\resizebox{\textwidth}{!}{%"] if scaled else []),
        rf"\begin{{tabular}}{{@{{}}{''.join(kinds)}@{{}}}}",
        r"\toprule",
        _row([latex_text(name) for name in table.header]),
        r"\midrule",
        *body,
        r"\bottomrule",
        r"\end{tabular}" + ("}" if scaled else ""),
        r"\end{table}",
    ]
    return "\n".join(lines) + "\n"


def _row(cells: Sequence[str]) -> str:
    # LaTeX would read a cell that begins with [ or * as an argument of the \\ before it.
    return rf"{' & '.join(f'{{}}{cell}' if cell.startswith(('[', '*')) else cell for cell in cells)} \\"


_MAX_NAME = 60


def table_files(sections: Sequence[Section]) -> Iterator[tuple[str, bytes]]:
    """Yield file names and contents in the order of the tables; equal titles in a section are numbered."""
    taken: set[str] = set()
    for section in sections:
        for table in (block for block in unfolded(section.blocks) if isinstance(block, Table)):
            name = _numbered(f"{section.anchor}-{_slug(table.title) or 'table'}", taken)
            yield f"{name}.csv", _csv(table).encode()
            yield f"{name}.md", f"{_markdown_table(table)}\n".encode()
            yield f"{name}.tex", latex(table, name).encode()


def with_file_names(sections: Sequence[Section]) -> list[Section]:
    """Return the sections with drawings whose names are those of files; equal names are numbered."""
    taken: set[str] = set()

    def named(block: Block) -> Block:
        match block:
            case Figures(figures):
                return Figures([replace(figure, name=_numbered(_slug(figure.name), taken)) for figure in figures])
            case Fold(summary, blocks):
                return Fold(summary, [named(inner) for inner in blocks])
        return block

    return [replace(section, blocks=[named(block) for block in section.blocks]) for section in sections]


def _slug(title: str) -> str:
    words = re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")
    return words[:_MAX_NAME].strip("-")


def _numbered(name: str, taken: set[str]) -> str:
    """Return a name, with the first free number if it is taken, and add it to those taken."""
    numbers = itertools.count(2)
    free = name
    while free in taken:
        free = f"{name}-{next(numbers)}"
    taken.add(free)
    return free


def _csv(table: Table) -> str:
    """Return the table with formatted numbers; exact scores are in ``scores.csv``."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([table.header, *table.rows])
    return text.getvalue()
