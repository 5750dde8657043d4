"""Articles that are dropped whole for what they are: personnel notices, obituaries, picture pages, lottery numbers.

The rules are data (``data_specs/rules/titles.toml``), with examples that the tests run.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Literal

from korealbert.artifact import Spec
from korealbert.corpus.normalise import matching_view
from korealbert.corpus.rule_files import read_rules
from korealbert.documents import Drop

END_CHARACTERS = 300
"""Characters at the end of the text in which ``end`` rules look."""


class TitleRule(Spec):
    """One kind of article that is no text to learn from."""

    id: str
    field: Literal["title", "end"] = "title"
    """Where the pattern is searched: the title, or the last characters of the text."""
    pattern: str
    """A regular expression for ``matching_view`` text, found anywhere unless it says otherwise."""
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
            if pattern.search(fields[rule.field]):
                return Drop("title_rule", rule.id)
        return None


def load_title_rules(path: Path) -> TitleRules:
    """Read and compile a titles file. Raises ValueError naming file, rule and field."""
    return TitleRules(read_rules(path, TitleFile), str(path))
