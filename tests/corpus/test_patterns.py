"""Patterns mean the same in every Python that the project supports."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from korealbert.artifact import Runtime
from korealbert.corpus.clean.news import NewsRules
from korealbert.corpus.clean.stage import STAGE, CleanSpec
from korealbert.corpus.clean.titles import TitleRules
from korealbert.corpus.markup import mediawiki, namumark_blocks
from korealbert.corpus.patterns import is_ruinous

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
    ours = [pattern for pattern in (mediawiki._RESIDUE, namumark_blocks._STYLE) if is_ruinous(pattern.pattern)]
    assert not ours


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
