"""Arbitrary markup for property tests, and a measure of work that does not use the clock."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

WIKITEXT = (
    *("[[", "]]", "{{", "}}", "{{{", "}}}", "|", "[[파일:가|", "[[분류:", "[[:", "{{lang|en|", "{{nowrap|", "{{틀|", "||"),
    *("\n{|", "\n|-", "\n|}", "\n|+", "\n! ", "<ref>", "</ref>", '<ref name="a"/>', "<ref", "<!--", "-->", "<math>", "</math>"),
    *("<s>", "</s>", "<br>", "<p>", "<gallery>", "</gallery>", "'''", "''", "[https://a.example ", "https://a.example/b", "]"),
    *("\n== 절 ==\n", "\n== 각주 ==\n", "\n* ", "\n#:", "\n----\n", "__목차__", "-{", "}-", "(", ")", ", ", "; ", "( "),
    *("\n", "\n\n", " ", "=", "글", "강이 흐른다.", "韓國", "river"),
)
NAMUMARK = (
    *("[[", "]]", "[[파일:가|", "[[분류:", "[[https://a.example ", "|", "{{{#red ", "{{{+1 ", "}}}", "{{{#!html "),
    *("{{{#!syntax a\n", '{{{#!wiki style="a"\n', "{{{#!folding 제목\n", "[* ", "[*가 ", "[", "]", "||", "\n||", "||\n"),
    *("\n|가||", "<-2>", "[include(", ")]", "[br]", "[math(", "[목차]", "[ruby(강,ruby=江)]", "~~", "--", "__", "^^", ",,"),
    *("'''", "''", "<math>"),
    *("</math>", "$", "\n== 절 ==\n", "\n==# 접힌 절 #==\n", "\n * ", "\n 1. ", "\n> ", "\n## 주석\n", "\n----\n"),
    *("(", ")", "https://a.example/b", ", ", "\n", "\n\n", " ", "글", "강이 흐른다.", "\n상위 문서: "),
)
PAIRS = ("[[", "]]", "{{", "}}", "{{{", "'''", "||", "<ref")
NAMUMARK_PAIRS = tuple(pair for pair in PAIRS if pair != "||")  # which is text within a line


def soup(marks: tuple[str, ...]) -> st.SearchStrategy[str]:
    """Marks in any order, balanced or not."""
    return st.lists(st.sampled_from(marks), max_size=60).map("".join)


def mutated(texts: list[str]) -> st.SearchStrategy[str]:
    """One of the texts with up to four spans deleted, doubled or moved."""
    place = st.floats(0, 1)
    edits = st.lists(st.tuples(st.sampled_from(["delete", "double", "move"]), place, st.integers(1, 40), place), max_size=4)

    def edit(pair: tuple[str, list[tuple[str, float, int, float]]]) -> str:
        text, changes = pair
        for kind, start, length, target in changes:
            at, to = int(start * len(text)), int(target * len(text))
            span, rest = text[at : at + length], text[:at] + text[at + length :]
            text = {"delete": rest, "double": text[:to] + span + text[to:], "move": rest[:to] + span + rest[to:]}[kind]
        return text

    return st.tuples(st.sampled_from(texts), edits).map(edit)


def plain_text() -> st.SearchStrategy[str]:
    """Prose without markup; lines have at least two Hangul syllables."""
    word = st.text("가나다라마바사아자차카타파하강산들봄", min_size=2, max_size=6)
    sentence = (
        st.lists(word, min_size=1, max_size=6)
        .map(" ".join)
        .flatmap(lambda s: st.sampled_from([f"{s}.", f'"{s}?"', f"{s}, 3-4"]))
    )
    paragraph = st.lists(sentence, min_size=1, max_size=3).map("\n".join)
    return st.lists(paragraph, min_size=1, max_size=3).map("\n\n".join)


def calls(function: Callable[..., Any], *arguments: Any) -> int:
    """Count the functions of Python and C that a call runs, which are the same on any machine."""
    count = 0

    def count_call(frame: Any, event: str, argument: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    previous, collects = sys.getprofile(), gc.isenabled()
    gc.disable()
    sys.setprofile(count_call)
    try:
        function(*arguments)
    finally:
        sys.setprofile(previous)
        if collects:
            gc.enable()
    return count
