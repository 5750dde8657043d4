"""Patterns mean the same in every Python that the project supports."""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from korealbert.artifact import Runtime
from korealbert.corpus import patterns
from korealbert.corpus.clean.news import NewsRules
from korealbert.corpus.clean.stage import STAGE, CleanSpec
from korealbert.corpus.clean.titles import TitleRules
from korealbert.corpus.patterns import is_ruinous

ROOT = Path(__file__).parents[2]
CALLED = re.compile(r"\bre\.(?:compile|sub|subn|match|search|fullmatch|findall|finditer|split)\(")
POSSESSIVE_GROUP = re.compile(r"\(\?.*(?<!\\)\)([*+?]|\{[0-9,]+\})\+", re.DOTALL)
MAYBE_POSSESSIVE = re.compile(r"\)(?:[*+?]|\{[^\n]*\})\+")
"""Finds them in source code; most files have none, so that they need not be parsed."""


def test_no_group_is_repeated_possessively() -> None:
    """Before Python 3.11.5 such a group may match less than it should (python/cpython#106052); ``(?>(…)*)`` does not."""
    for path in Path(__file__).parents[2].joinpath("korealbert").rglob("*.py"):
        source = path.read_text("utf-8")
        if not MAYBE_POSSESSIVE.search(source):
            continue
        texts = [node.value for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Constant)]
        patterns = [str(text) for text in texts if isinstance(text, str | bytes)]
        assert not [pattern for pattern in patterns if POSSESSIVE_GROUP.search(pattern)], path


RUINOUS = {
    r"(a+)+$": "a",
    r"(a*)*b": "a",
    r"(?:a|ab?)*c": "a",
    r"(?:a?b?)*c": "ab",
    r"((?:a*)?b)*c": "b",
    r"(\w+\s?)+\.": "글 ",
    r"(?:\s*광고\s*)+$": "광고 ",
    r"(?:[가-힣]{2,4})+x": "가나",
    r"(?:\d+,?){2,30}원": "1",
    r"x(?=(a+)+b)": "a",
    r"(?:(?>(a+)+b))c": "a",
    r"(?:(a+)+b)*+c": "a",
    r"(?>(?:a|a){30,})c": "a",
    r"(?s)(?:.|\n)*x": "\n",
    r"(?:(?s:.)|\n)*x": "\n",
    r"(?i)(?:a가|A가)+c": "a가",
}
"""Patterns, and a text that repeated keeps them busy."""
SOUND = [
    r"(a+b)+$",
    r"(?:[가-힣]+ )+기자",
    r"(?:(?!끝).)*끝",
    r".*가.*나.*",
    r"(?:a++)+b",
    r"(?:(?>a+)|b)+c",
    r"(?:\d{3},?)+원",
    r"(a+){1,3}b",
    r"(?:\([^()]*\)|[^()])*x",
    r'"(?:[^"\\]|\\.)*"',
    r"(?P<y>\d{4})/(?P=y)",
    r"(가)?(?(1)나|다)",
    r"(?i)(?:A|a)+b",
    r"(?i)(?:a|[^a])+x",
    r"(?:.|\n)*x",
    r"(?:a가|A가)+c",
    r"(?>(?:a+|b)*)c",
    r"(?>(a+)+)b",
    r"(?=(a+)+)b",
]


@pytest.mark.parametrize("pattern", RUINOUS)
def test_a_pattern_that_a_text_keeps_busy_for_ever_is_found(pattern: str) -> None:
    assert is_ruinous(pattern)


@pytest.mark.parametrize("pattern", SOUND)
def test_a_sound_pattern_is_none_of_those(pattern: str) -> None:
    assert not is_ruinous(pattern)


def test_no_shipped_rule_is_ruinous() -> None:
    rules = Path(__file__).parents[2] / "data_specs" / "rules"
    NewsRules(rules / "news.toml").refuse_ruinous()
    TitleRules(rules / "titles.toml").refuse_ruinous()


def _sources() -> Iterator[tuple[str, str]]:
    """Yield the name and the source code of each module."""
    for folder in (ROOT / "korealbert", ROOT / "flows"):
        for path in sorted(folder.rglob("*.py")):
            name = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
            yield name if name.startswith("korealbert") else f"korealbert.{name}", path.read_text("utf-8")


def _compiled(value: Any, names: str) -> Iterator[tuple[str, str, int]]:
    """Yield name, pattern and flags of the patterns in a variable, a collection or a class."""
    if isinstance(value, re.Pattern):
        yield names, value.pattern if isinstance(value.pattern, str) else value.pattern.decode("latin-1"), value.flags
    elif isinstance(value, list | tuple | set | frozenset):
        for each in value:
            yield from _compiled(each, names)
    elif type(value) is dict:
        for key, each in value.items():
            yield from _compiled(each, f"{names}[{key!r}]")
    elif isinstance(value, type) and f"{value.__module__}." == names.removesuffix(value.__name__):
        for name, each in vars(value).items():
            yield from _compiled(each, f"{names}.{name}")


@pytest.mark.torch
def test_no_pattern_of_a_module_is_ruinous(
    monkeypatch: pytest.MonkeyPatch, record_property: Callable[[str, object], None]
) -> None:
    monkeypatch.setattr(patterns, "_MAX_STATES", 10_000)  # None is taken to be sound without being looked at.
    found, without_extra = list[tuple[str, str, int]](), list[str]()
    for name, source in _sources():
        if "re.compile(" not in source:
            continue
        try:
            module = importlib.import_module(name)
        except ModuleNotFoundError as error:
            assert not str(error.name).startswith("korealbert"), error
            without_extra.append(name)
            continue
        found += [each for variable, value in vars(module).items() for each in _compiled(value, f"{name}.{variable}")]
    record_property("modules_without_their_extra", len(without_extra))
    assert len(without_extra) < 10, without_extra
    assert len(found) > 400
    assert "korealbert.corpus.dedup.decontaminate._FIGURES" in {name for name, _, _ in found}
    assert not {name: pattern for name, pattern, flags in found if is_ruinous.__wrapped__(pattern, flags)}


def test_no_pattern_within_a_function_is_ruinous() -> None:
    found = list[tuple[str, str]]()
    for name, source in _sources():
        for node in ast.walk(ast.parse(source)) if CALLED.search(source) else ():
            if isinstance(node, ast.Call) and node.args and CALLED.match(f"{ast.unparse(node.func)}("):
                found.append((name, _written(node.args[0])))
    assert len(found) > 400
    assert not [(name, pattern) for name, pattern in found if _is_whole(pattern) and is_ruinous(pattern)]


def _written(node: ast.expr) -> str:
    """Return the text of a literal; 가 stands for what is filled in."""
    if isinstance(node, ast.JoinedStr):
        return "".join(map(_written, node.values))
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else "가"


def _is_whole(pattern: str) -> bool:
    """Return whether it is a pattern, although something may have been filled in."""
    try:
        re.compile(pattern)
    except re.error:
        return False
    return True


def test_a_ruinous_rule_is_refused_by_file_and_name(tmp_path: Path) -> None:
    path = tmp_path / "titles.toml"
    path.write_text("[[rule]]\nid = \"mine\"\npattern = '(a+)+$'\n", "utf-8")
    with pytest.raises(ValueError, match=r"titles\.toml, rule mine: a text could keep it busy for ever"):
        STAGE.check(CleanSpec(news_rules=None, title_rules=path), Runtime())
    news = tmp_path / "news.toml"
    news.write_text(
        '[[rule]]\nid = "mine"\nzones = ["tail"]\ntake = "line"\nnote = "x"\npattern = \'(?:글\\s?)*(?:글\\s?)+끝\'\n'
        "next_to = '(a|a?b)*(a+)+c'\n",
        "utf-8",
    )
    with pytest.raises(ValueError, match=r"news\.toml, rule mine: a text could"):
        STAGE.check(CleanSpec(news_rules=news, title_rules=None), Runtime())
