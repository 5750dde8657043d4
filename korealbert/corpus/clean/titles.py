"""Articles that are dropped whole for what they are: personnel notices, obituaries, picture pages, lottery numbers.

The rules are data (``data_specs/rules/titles.toml``), with examples that the tests run.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Literal

from korealbert.artifact import Spec
from korealbert.corpus.clean.normalise import matching_view
from korealbert.corpus.clean.rule_files import read_rules
from korealbert.documents.schema import Drop

END_CHARACTERS = 300
"""Characters at the end of the text in which ``end`` rules look."""


PROSE_SENTENCES = 5
"""Sentences in the plain style of news that make a running text; captions have fewer, notices are polite (``…니다.``)."""
_PLAIN_SENTENCE = re.compile(r"[가-힣](?<!니)다[.!?](?![0-9A-Za-z가-힣])")


class TitleRule(Spec):
    """One kind of article that is no text to learn from."""

    id: str
    field: Literal["title", "end"] = "title"
    """Where the pattern is searched: the title, or the last characters of the text."""
    pattern: str
    """A regular expression for ``matching_view`` text, found anywhere unless it says otherwise."""
    without_prose: bool = False
    """Only where the text is not running text either (see ``PROSE_SENTENCES``): a label that articles carry, too."""
    positive: tuple[str, ...] = ()
    negative: tuple[str, ...] = ()


class TitleFile(Spec):
    """The content of a titles file."""

    rule: tuple[TitleRule, ...]


class TitleRules:
    """A compiled titles file."""

    def __init__(self, file: TitleFile, origin: str = "title rules") -> None:
        self.rules = file.rule
        self._compiled: list[tuple[TitleRule, re.Pattern[str]]] = []
        for rule in file.rule:
            try:
                self._compiled.append((rule, re.compile(rule.pattern)))
            except re.error as error:
                raise ValueError(f"{origin}, rule {rule.id}: not a regular expression: {error}") from error

    def judge(self, title: str, text: str) -> Drop | None:
        """``title_rule`` with the id of the first rule that matches, or None."""
        fields = {"title": matching_view(title), "end": matching_view(text[-END_CHARACTERS:])}
        for rule, pattern in self._compiled:
            if pattern.search(fields[rule.field]) and not (rule.without_prose and _is_prose(text)):
                return Drop("title_rule", rule.id)
        return None


def _is_prose(text: str) -> bool:
    return len(_PLAIN_SENTENCE.findall(text)) >= PROSE_SENTENCES


def load_title_rules(path: Path) -> TitleRules:
    """Read and compile a titles file. Raises ValueError naming file, rule and field."""
    return TitleRules(read_rules(path, TitleFile), str(path))
