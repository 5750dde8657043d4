"""Tables as LaTeX with booktabs, for papers."""

from __future__ import annotations

import re
from collections.abc import Sequence

from korealbert.report.render.blocks import Table

SPECIAL = {
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
    "→": r"$\rightarrow$",
    "–": "--",
    "…": r"\ldots{}",
    "“": "``",
    "”": "''",
}

CONTROL = re.compile(r"[\x00-\x1f\x7f]+")

_PROSE_WIDTH = "0.35\\linewidth"


def escape(text: str) -> str:
    """Plain text as LaTeX that prints it, on one line."""
    return "".join(SPECIAL.get(character, character) for character in CONTROL.sub(" ", text))


def latex(table: Table, label: str) -> str:
    """A ``table`` environment for ``\\usepackage{booktabs}``; Korean text in it wants XeLaTeX or LuaLaTeX with ``kotex``."""
    kinds = (
        "r" if n in table.numeric else f"p{{{_PROSE_WIDTH}}}" if n in table.prose else "l" for n in range(len(table.header))
    )
    body = [
        _row([rf"\textbf{{{escape(cell)}}}" if number in table.marked and cell else escape(cell) for cell in row])
        for number, row in enumerate(table.rows)
    ]
    lines = [
        r"\begin{table}",
        r"\centering",
        rf"\caption{{{escape(table.title)}}}",
        rf"\label{{tab:{label}}}",
        rf"\begin{{tabular}}{{@{{}}{''.join(kinds)}@{{}}}}",
        r"\toprule",
        _row([escape(name) for name in table.header]),
        r"\midrule",
        *body,
        r"\bottomrule",
        r"\end{tabular}",
        r"\end{table}",
    ]
    return "\n".join(lines) + "\n"


def _row(cells: Sequence[str]) -> str:
    # A cell that begins with [ would be taken for the argument of the \\ before it.
    return rf"{' & '.join(f'{{}}{cell}' if cell.startswith('[') else cell for cell in cells)} \\"
