r"""Formulas of TeX as plain text: ``\frac{a}{b+1}`` is a/(b+1), ``\alpha`` is α.

A formula with a command that has no plain form here or in pylatexenc has no text, because without it the rest could say
something else.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from pylatexenc.latex2text import (
    EnvironmentTextSpec,
    LatexNodes2Text,
    MacroTextSpec,
    SpecialsTextSpec,
    fmt_math_text_style,
    get_default_latex_context_db,
)
from pylatexenc.latexwalker import LatexCharsNode, LatexGroupNode, LatexMacroNode
from pylatexenc.latexwalker import get_default_latex_context_db as get_default_syntax
from pylatexenc.macrospec import std_macro

from korealbert.corpus.markup.layout import protect
from korealbert.corpus.readers.spec import WikiOptions

_LONGEST, _DEEPEST = 1_000, 20
"""Characters and nested braces above which a formula has no text."""
_GROWTH = 2
"""Characters by which a text may be longer than its source: the marks around the source are at least as many."""
_PERCENT = re.compile(r"(?<!\\)%")

_PAIR = re.compile(r"([\[\]{}|'])(?=\1)")
"""Pairs of characters that would look like markup."""

_SYMBOLS = {
    **{"ne": "≠", "lt": "<", "gt": ">", "land": "∧", "lor": "∨", "neg": "¬", "iff": "⇔", "implies": "⇒"},
    **{"impliedby": "⇐", "gets": "←", "owns": "∋", "degree": "°", "colon": ":", "lbrack": "[", "rbrack": "]"},
    **{"bmod": " mod ", "mod": " mod ", "pmod": " (mod %s)", "tag": " (%s)", "thinspace": " ", "enspace": " "},
    **{"medspace": " ", "thickspace": " ", ">": " ", "/": "", "|": "‖", "cr": "\n", "newline": "\n", "dotsi": "⋯"},
    **{"infin": "∞", "arccot": "arccot", "cot": "cot", "sec": "sec", "csc": "csc", "coth": "coth", "det": "det"},
    **{"dim": "dim", "deg": "deg", "gcd": "gcd", "arg": "arg", "ker": "ker", "hom": "hom", "Pr": "Pr", "lg": "lg"},
    **{"sgn": "sgn", "N": "ℕ", "R": "ℝ", "Z": "ℤ", "Q": "ℚ", "C": "ℂ", "reals": "ℝ", "Re": "Re", "Im": "Im"},
    **{"cdotp": "·", "And": "&", "isin": "∈", "empty": "∅", "restriction": "↾", "triangle": "△", "Box": "□"},
    **{"oiint": "∯", "bot": "⊥", "models": "⊨", "coloneqq": "≔", "leadsto": "⇝", "imath": "ı", "jmath": "ȷ"},
    **{"ggg": "⋙", "lll": "⋘", "thicksim": "∼", "vDash": "⊨", "iiiint": "⨌", "hdots": "…", "nsim": "≁", "ncong": "≇"},
    **{"eqsim": "≂", "bigodot": "⨀", "bigsqcup": "⨆", "Diamond": "◇", "heartsuit": "♥", "spadesuit": "♠"},
    **{"clubsuit": "♣", "varGamma": "Γ", "varDelta": "Δ"},
}
"""Command → its text, of those that pylatexenc does not know."""
_SPECIALS = {"''": "″", "--": "--", "---": "---", "``": "``"}
"""Not quotation marks and dashes: f″(x)."""
_WITHOUT_TEXT = (
    *("displaystyle", "textstyle", "scriptstyle", "scriptscriptstyle", "limits", "nolimits", "nonumber", "notag", "mathstrut"),
    *("rm", "bf", "it", "sf", "tt", "cal", "mathop", "mathord", "mathbin", "mathrel", "mathopen", "mathclose", "mathinner"),
    *("boldsymbol", "bm", "pmb", "mbox", "hbox", "textnormal", "boxed", "smash", "substack", "hline", "relax", "strut", "tiny"),
    *("small", "large", "Large", "LARGE", "huge", "Huge", "normalsize", "scriptsize", "negthinspace", "allowbreak", "textsf"),
    *("texttt", "mathnormal", "bold"),
)
"""Commands of style and layout, whose argument, if any, is shown like a group."""
_HIDDEN = ("phantom", "hphantom", "vphantom", "label", "color", "mspace", "hskip", "require")
"""Commands whose argument is not shown."""
_DELIMITERS = (
    "left",
    "right",
    "middle",
    *(size + side for size in ("big", "Big", "bigg", "Bigg") for side in ("", "l", "r", "m")),
)
_FRACTIONS = ("frac", "dfrac", "tfrac", "cfrac", "sfrac", "nicefrac", "textfrac")
_BINOMIALS = ("binom", "dbinom", "tbinom")
_INFIX = ("over", "choose", "atop", "above", "brace", "brack")
_MATRICES = ("array", "matrix", "smallmatrix", "pmatrix", "bmatrix", "Bmatrix", "vmatrix", "Vmatrix", "cases", "rcases")
_BRACKETS = {"vmatrix": ("|", "|"), "Vmatrix": ("‖", "‖"), **dict.fromkeys(("cases", "rcases", "Bmatrix"), ("{", "}"))}
_ROWS = ("aligned", "split", "gathered", "alignedat", "alignat", "alignat*", "math")
_DECORATIONS = ("overline", "underline", "widehat", "widetilde", "overrightarrow", "overleftarrow")
_ROOTS = {"": "√", "2": "√", "3": "∛", "4": "∜"}
"""Not ³√, which NFKC would make 3√."""

_LETTER = "(?:[^\\W\\d_]|[∂∇∞∅])[\u0300-\u036f]*"
_NUMBER = r"\d+(?:[.,]\d+)*"
_SCRIPT = r"[_^](?:[+\-−]?\d+|[^\W\d_]|\([^()]*\))"
_ENCLOSED = r"[√∛∜]?\([^()]*\)|\|[^|]*\||\[[^\[\]]*\]|[⌊⌈][^⌊⌋⌈⌉]*[⌋⌉]"
_SUPERSCRIPT = re.compile(rf"[+\-−]?(?:{_NUMBER}|{_LETTER})'*|\S|'+|{_ENCLOSED}")
_SUBSCRIPT = re.compile(rf"[+\-−]?(?:\d|{_LETTER})+'*|\S|{_ENCLOSED}")
_NUMERATOR = re.compile(rf"[+\-−]?(?:\d|[.,](?=\d)|{_LETTER}|[!']|{_SCRIPT}|{_ENCLOSED})++")
_DENOMINATOR = re.compile(rf"{_NUMBER}|(?:{_LETTER})+'*|{_LETTER}'*(?:{_SCRIPT})*|{_ENCLOSED}")
"""Texts that need no brackets: 1/(2a), but dy/dx."""
_LONE = re.compile(rf"\S|{_NUMBER}|(?:{_LETTER})+|{_ENCLOSED}")
_NEXT_TOKEN = re.compile(r"([_^] ?)(\d)(?=\d)")
"""A script of one digit before another: in TeX, ``x^23`` is the square of x times three."""


class _NoText(ValueError):
    """A formula that has no plain form."""


def _grouped(text: str, plain: re.Pattern[str]) -> str:
    text = text.strip()
    return text if plain.fullmatch(text) else f"({text})"


def _is_a(node: Any, commands: Sequence[str]) -> bool:
    return isinstance(node, LatexMacroNode) and node.macroname in commands


def _is_fraction(node: Any) -> bool:
    if isinstance(node, LatexGroupNode):
        nodes = node.nodelist
        return any(_is_a(inner, _INFIX) for inner in nodes) or (len(nodes) == 1 and _is_fraction(nodes[0]))
    return _is_a(node, (*_FRACTIONS, *_BINOMIALS))


class _Converter(LatexNodes2Text):  # type: ignore[misc]
    """Adds brackets and blanks where plain text needs them and TeX does not."""

    def nodelist_to_text(self, nodelist: Sequence[Any]) -> str:
        for position, node in enumerate(nodelist):
            if _is_a(node, _INFIX):
                return self._infix(node.macroname, nodelist[:position], nodelist[position + 1 :])
        text, last = "", ""
        previous: Any = None
        for node in nodelist:
            shown = self.node_to_text(node)
            if isinstance(node, LatexCharsNode):
                shown = _NEXT_TOKEN.sub(r"\1\2 ", shown)
            if shown.strip():
                text = self._joined(text, last, previous, shown, node)
                last = shown
            else:
                text += shown
            previous = node
        return text

    def _joined(self, text: str, last: str, previous: Any, shown: str, node: Any) -> str:
        before = text.rstrip()
        if before.endswith(("^", "_")):
            script = _grouped(shown, _SUPERSCRIPT if before[-1] == "^" else _SUBSCRIPT)
            return before + (shown if isinstance(node, LatexCharsNode) else script)
        fraction = _is_fraction(previous)
        if shown.lstrip().startswith(("^", "_")) and (fraction or _is_a(previous, ("underbrace", "overbrace"))):
            return text.removesuffix(last) + _grouped(last, _LONE) + shown
        if _is_fraction(node) and before.endswith("/"):
            return f"{text}({shown})"
        end, begin = text[-1:], shown[:1]
        same = (end.isdecimal() and begin.isdecimal()) or (end.isalpha() and begin.isalpha())
        scripted = isinstance(previous, LatexGroupNode) and text[: -len(last)].rstrip().endswith(("^", "_"))
        word = any(_is_a(one, (said,)) for one, said in ((previous, last), (node, shown)))
        factors = (end.isalnum() or end in ")]'!") and (begin.isalnum() or begin in "([√∛∜")
        apart = (
            (factors and (fraction or _is_fraction(node)))
            or (scripted and same)
            or (word and end.isalnum() and begin.isalnum())
        )
        return f"{text} {shown}" if apart else text + shown

    def macro_node_to_text(self, node: Any) -> str:
        syntax = _SYNTAX.get_macro_spec(node.macroname)
        if node.nodeargd is None and syntax and "{" in getattr(syntax.args_parser, "argspec", ""):
            raise _NoText(f"an argument of {node.macroname} is missing")
        return str(super().macro_node_to_text(node))

    def _infix(self, command: str, before: Sequence[Any], after: Sequence[Any]) -> str:
        if any(_is_a(node, (*_INFIX, "\\", "cr")) or getattr(node, "specials_chars", "") == "&" for node in (*before, *after)):
            raise _NoText(command)
        return _quotient(command, self.nodelist_to_text(before), self.nodelist_to_text(after))


def _quotient(command: str, upper: str, lower: str) -> str:
    if not upper.strip() or not lower.strip():
        raise _NoText(command)
    if command == "over" or command in _FRACTIONS:
        return f"{_grouped(upper, _NUMERATOR)}/{_grouped(lower, _DENOMINATOR)}"
    if command == "choose" or command in _BINOMIALS:
        return f"C({upper.strip()}, {lower.strip()})"
    raise _NoText(command)


def _arguments(node: Any, converter: LatexNodes2Text) -> list[str]:
    return [converter.node_arg_to_text(node, place) for place in range(len(node.nodeargd.argnlist))]


def _two(node: Any, l2tobj: Any) -> str:
    upper, lower = _arguments(node, l2tobj)[-2:]
    return _quotient(node.macroname, upper, lower)


def _root(node: Any, l2tobj: Any) -> str:
    index, radicand = (part.strip() for part in _arguments(node, l2tobj))
    return _root_of(radicand, index)


def _root_of(radicand: str, index: str) -> str:
    if index in _ROOTS:
        return f"{_ROOTS[index]}({radicand})"
    return f"{_grouped(radicand, _LONE)}^(1/{_grouped(index, _DENOMINATOR)})"


def _delimiter(node: Any, l2tobj: Any) -> str:
    return _arguments(node, l2tobj)[0].removesuffix(".")


def _negated(node: Any, l2tobj: Any) -> str:
    return unicodedata.normalize("NFC", f"{_arguments(node, l2tobj)[0].strip()}\u0338")


def _decorated(node: Any, l2tobj: Any) -> str:
    """Show what a line is over: names (AB) stay as they are; over sums or digits a line is more than style."""
    text = _arguments(node, l2tobj)[0].strip()
    if len(text) == 1:
        return unicodedata.normalize("NFC", text + ("\u0332" if node.macroname == "underline" else "\u0304"))
    if node.macroname != "underline" and not text.isalpha():
        raise _NoText(node.macroname)
    return text


def _unknown(node: Any) -> str:
    raise _NoText(repr(node))


def _matrix(node: Any, l2tobj: Any) -> str:
    rows: list[list[list[Any]]] = [[[]]]
    for inner in node.nodelist:
        if getattr(inner, "specials_chars", "") == "&":
            rows[-1].append([])
        elif _is_a(inner, ("\\", "cr")):
            rows.append([[]])
        else:
            rows[-1][-1].append(inner)
    cells = ([l2tobj.nodelist_to_text(cell).strip() for cell in row] for row in rows)
    shown = "; ".join(line for row in cells if (line := " ".join(row).strip()))
    opening, closing = _BRACKETS.get(node.environmentname, ("[ ", " ]"))
    return f"{opening}{shown}{closing}"


def _converter() -> tuple[_Converter, Any]:
    syntax = get_default_syntax()
    arguments = {
        **dict.fromkeys((*_FRACTIONS, *_BINOMIALS), "{{"),
        **dict.fromkeys((*_DELIMITERS, *_HIDDEN, *_DECORATIONS, "not", "pmod", "tag", "Bbb"), "{"),
        **{name: "" for name in _SYMBOLS if name not in ("pmod", "tag")},
        **dict.fromkeys(_WITHOUT_TEXT, ""),
        "cfrac": "[{{",
        "operatorname": "*{",
    }
    macros = [std_macro(name, spec) for name, spec in arguments.items()]
    syntax.add_context_category("formulas", macros=macros, prepend=True)
    texts: dict[str, Any] = {
        **_SYMBOLS,
        **dict.fromkeys((*_WITHOUT_TEXT, *_HIDDEN), ""),
        **dict.fromkeys((*_FRACTIONS, *_BINOMIALS), _two),
        **dict.fromkeys(_DELIMITERS, _delimiter),
        **dict.fromkeys(_DECORATIONS, _decorated),
        "not": _negated,
        "sqrt": _root,
        "Bbb": lambda node, l2tobj: fmt_math_text_style(_arguments(node, l2tobj)[0], "doublestruck"),
        "operatorname": lambda node, l2tobj: _arguments(node, l2tobj)[1],
    }
    context = get_default_latex_context_db()
    context.add_context_category(
        "formulas",
        macros=[MacroTextSpec(name, simplify_repl=text) for name, text in texts.items()],
        environments=[
            *(EnvironmentTextSpec(name, simplify_repl=_matrix) for name in _MATRICES),
            *(EnvironmentTextSpec(name, discard=False) for name in _ROWS),
        ],
        specials=[SpecialsTextSpec(mark, simplify_repl=text) for mark, text in _SPECIALS.items()],
        prepend=True,
    )
    context.set_unknown_macro_spec(MacroTextSpec("", simplify_repl=_unknown))
    context.set_unknown_environment_spec(EnvironmentTextSpec("", simplify_repl=_unknown))
    converter = _Converter(latex_context=context, math_mode="text", keep_comments=True, strict_latex_spaces=False)
    return converter, syntax


_CONVERTER, _SYNTAX = _converter()


def formula(source: str, options: WikiOptions) -> str:
    """Return the text of a formula as protected text on one line; may be empty."""
    placeholder = options.math_placeholder
    if "{formula}" not in placeholder:
        return protect(placeholder)
    text = _text(source)
    return protect(placeholder.replace("{formula}", text))


def of_mathml(name: str, parts: Sequence[str]) -> str:
    """Return the text of an element of MathML (``mfrac``) from those of its children."""
    if name == "msqrt":
        return f"√({''.join(parts)})"
    if len(parts) != 2 or not all(parts):
        return "".join(parts)
    first, second = parts
    if name == "mfrac":
        return _quotient("frac", first, second)
    if name == "mroot":
        return _root_of(first, second)
    base = first if _DENOMINATOR.fullmatch(first) else _grouped(first, _LONE)
    return f"{base}^{_grouped(second, _SUPERSCRIPT)}" if name == "msup" else f"{base}_{_grouped(second, _SUBSCRIPT)}"


@lru_cache(maxsize=4096)
def _text(source: str) -> str:
    if len(source) > _LONGEST or _depth(source) > _DEEPEST:
        return ""
    try:
        shown = _CONVERTER.latex_to_text(_PERCENT.sub(r"\\%", source), latex_context=_SYNTAX)
    except Exception:  # _NoText, or a fault of pylatexenc, as with \href, or \verb at the end.
        return ""
    text = " ".join(shown.split())
    text = _PAIR.sub(r"\1 ", text)
    return text if len(text) <= len(source) + _GROWTH else ""


def _depth(source: str) -> int:
    depth = deepest = 0
    for character in source:
        depth += (character in "{[(") - (character in ")]}")
        deepest = max(deepest, depth)
    return deepest
