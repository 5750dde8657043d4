"""Formulas as text: each must say what TeX shows, or nothing."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from korealbert.corpus.markup.formulas import formula
from korealbert.corpus.markup.layout import restore
from korealbert.corpus.readers.spec import WikiOptions


def shown(source: str) -> str:
    return restore(formula(source, WikiOptions()))


@pytest.mark.parametrize(
    ("source", "text"),
    [
        *(
            (rf"\{command}{{1}}{{2}}", "1/2")
            for command in ("frac", "dfrac", "tfrac", "cfrac", "cfrac[l]", "sfrac", "nicefrac")
        ),
        (r"\frac12", "1/2"),
        (r"{a \over b}", "a/b"),
        (r"a+1 \over b+c", "(a+1)/(b+c)"),
        (r"\frac{1}{1+\frac{1}{x}}", "1/(1+1/x)"),
        (r"\frac{1}{2a}", "1/(2a)"),
        (r"\frac{dy}{dx}", "dy/dx"),
        (r"\frac{\partial f}{\partial x}", "∂f/∂x"),
        (r"\frac{x^2}{x_1}", "x^2/x_1"),
        (r"\frac{n!}{k!(n-k)!}", "n!/(k!(n-k)!)"),
        (r"\frac{-b\pm\sqrt{b^2-4ac}}{2a}", "(-b±√(b^2-4ac))/(2a)"),
        (r"\frac{\sin x}{x}", "(sin x)/x"),
        (r"\frac{\text{거리}}{\text{시간}}", "거리/시간"),
        (r"2\frac{1}{2}", "2 1/2"),
        (r"\frac{1}{2}3", "1/2 3"),
        (r"\frac{a}{b}\frac{c}{d}", "a/b c/d"),
        (r"a/\frac{b}{c}", "a/(b/c)"),
        (r"\frac{a}{b}^2", "(a/b)^2"),
        (r"{a \over b}^2", "(a/b)^2"),
        (r"\left(\frac{a}{b}\right)^2", "(a/b)^2"),
    ],
)
def test_fractions(source: str, text: str) -> None:
    assert shown(source) == text


@pytest.mark.parametrize(
    ("source", "text"),
    [
        (r"x_{n+1}", "x_(n+1)"),
        (r"x_{ij}^{10}", "x_ij^10"),
        (r"x^{2n}", "x^(2n)"),
        (r"x^{-1}", "x^-1"),
        (r"x^{y^z}", "x^(y^z)"),
        (r"e^\frac{1}{2}", "e^(1/2)"),
        (r"f^{(n)}", "f^(n)"),
        (r"x^{2}3", "x^2 3"),
        (r"x^23", "x^2 3"),
        (r"a_{n}b_{n}", "a_n b_n"),
        (r"\mathrm{H}_{2}\mathrm{O}", "H_2O"),
        (r"\sum_{i=1}^{n} a_i", "∑_(i=1)^n a_i"),
        (r"\underbrace{a+a}_{n}", "(a+a)_n"),
        (r"f''(x)", "f″(x)"),
        (r"\sqrt{2}", "√(2)"),
        (r"\sqrt[3]{x}", "∛(x)"),
        (r"\sqrt[5]{x+1}", "(x+1)^(1/5)"),
        (r"\sqrt[n]{a}", "a^(1/n)"),
    ],
)
def test_scripts_and_roots(source: str, text: str) -> None:
    assert shown(source) == text


@pytest.mark.parametrize(
    ("command", "text"),
    [
        *(("ne", "≠"), ("neq", "≠"), ("lt", "<"), ("gt", ">"), ("le", "≤"), ("ge", "≥"), ("land", "∧"), ("lor", "∨")),
        *(("iff", "⇔"), ("implies", "⇒"), ("to", "→"), ("gets", "←"), ("div", "÷"), ("cdot", "·"), ("mid", "|"), ("not=", "≠")),
        *(
            ("not\\in", "∉"),
            ("equiv", "≡"),
            ("therefore", "∴"),
            ("perp", "⊥"),
            ("parallel", "∥"),
            ("cong", "≅"),
            ("mapsto", "↦"),
        ),
    ],
)
def test_relations_stay_between_their_sides(command: str, text: str) -> None:
    assert shown(rf"a \{command} b").replace(" ", "") == f"a{text}b"


@pytest.mark.parametrize(
    ("source", "text"),
    [
        *((rf"\{command}{{n}}{{k}}", "C(n, k)") for command in ("binom", "dbinom", "tbinom")),
        (r"{n \choose k}p^k", "C(n, k) p^k"),
        (r"a \equiv b \pmod{n}", "a ≡b (mod n)"),
        (r"x\sin{x}", "x sin x"),
        (r"\operatorname{lcm}(a,b)", "lcm(a,b)"),
        (r"\operatorname*{argmax}_x", "argmax_x"),
        (r"\left. x \right|_{0}", "x |_0"),
        (r"\begin{cases} x & x>0 \\ -x & x<0\end{cases}", "{x x>0; -x x<0}"),
        (r"\begin{vmatrix}1&2\\3&4\end{vmatrix}", "|1 2; 3 4|"),
        (r"\overline{AB}", "AB"),
        (r"{\rm d}x", "dx"),
        (r"\displaystyle x", "x"),
        (r"100\%", "100%"),
        (r"100%", "100%"),
    ],
)
def test_other_commands(source: str, text: str) -> None:
    assert shown(source) == text


@pytest.mark.parametrize(
    "source",
    [
        *(r"\unheardof{1}{2}", r"a \unheardof b", r"\xrightarrow{f}", r"\overset{a}{b}", r"\cancel{x}", r"{a \atop b}"),
        *(r"\frac{1}", r"\frac{}{2}", r"\sqrt", r"\overline{A\cup B}", r"0.\overline{142857}", r"\begin{tikzcd}a\end{tikzcd}"),
        *(r"x \verb", r"\href{u}{x}", r"\href}\ref]\end{matrix}"),
    ],
)
def test_what_has_no_plain_form_leaves_no_text(source: str) -> None:
    assert shown(source) == ""


PARTS = st.sampled_from(
    [
        *(r"\frac", r"\sqrt", r"\over", r"\left", r"\right", r"\not", r"\begin{cases}", r"\end{cases}", r"\pmod"),
        *"{}[]^_&%1a $'\\",
    ]
)


@given(st.lists(PARTS, max_size=12).map("".join))
def test_damaged_formulas_are_read_too(source: str) -> None:
    assert len(shown(source)) <= len(source) + 2
