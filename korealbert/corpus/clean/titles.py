"""Decisions on articles by their titles and sections, from rules that are data (``data_specs/rules``).

``titles.toml``: articles that are dropped whole for their kind (notices, obituaries, picture pages, lottery numbers),
with examples that the tests run. ``categories.toml``: section names mapped to the few categories that the corpus is balanced
by. A section that the map does not know keeps its name and is a bucket by itself; nothing is dropped for its section.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Literal

from korealbert.artifact import Spec
from korealbert.artifact.spec import read_toml
from korealbert.corpus.normalise import matching_view
from korealbert.documents.schema import Drop

END_CHARACTERS = 300
"""Characters at the end of the text in which ``end`` rules look."""


_PROSE_SENTENCES = 5
"""Sentences in the plain style of news that make a running text; captions have fewer, notices are polite (``…니다.``)."""
_PLAIN_SENTENCE = re.compile(r"[가-힣](?<!니)다[.!?](?![0-9A-Za-z가-힣])")
_SENTENCE = re.compile(r"[가-힣](?:다|요)[.!?](?![0-9A-Za-z가-힣])")


class TitleRule(Spec):
    """One kind of article that is no text to learn from."""

    id: str
    field: Literal["title", "end"] = "title"
    """Place where the pattern is searched: the title, or the last characters of the text."""
    pattern: str
    """A regular expression for ``matching_view`` text, found anywhere unless it says otherwise."""
    without_prose: bool = False
    """Only where the text is not running text either (see ``_PROSE_SENTENCES``): a label that articles carry, too."""
    polite: bool = False
    """Whether polite sentences make running text as well: notices are polite, but so are forecasts on the air."""
    positive: tuple[str, ...] = ()
    negative: tuple[str, ...] = ()


class _TitleFile(Spec):
    """The content of a titles file."""

    rule: tuple[TitleRule, ...]


class TitleRules:
    """A compiled titles file. Raises ValueError naming file, rule and field."""

    def __init__(self, path: Path) -> None:
        self.rules = read_toml(path, _TitleFile, "a rules file").rule
        self._compiled: list[tuple[TitleRule, re.Pattern[str]]] = []
        for rule in self.rules:
            try:
                self._compiled.append((rule, re.compile(rule.pattern)))
            except re.error as error:
                raise ValueError(f"{path}, rule {rule.id}: not a regular expression: {error}") from error

    def judge(self, title: str, text: str) -> Drop | None:
        """``title_rule`` with the id of the first rule that matches, or None."""
        fields = {"title": matching_view(title), "end": matching_view(text[-END_CHARACTERS:])}
        for rule, pattern in self._compiled:
            if pattern.search(fields[rule.field]):
                sentence = _SENTENCE if rule.polite else _PLAIN_SENTENCE
                if not rule.without_prose or len(sentence.findall(text)) < _PROSE_SENTENCES:
                    return Drop("title_rule", rule.id)
        return None


_NOISE = re.compile(r"[\s·ㆍ・/&,._-]+")
_PARTS = re.compile(r"\s*[>|/,·ㆍ&]\s*")


class _CategoryFile(Spec):
    """The content of a categories file."""

    categories: dict[str, tuple[str, ...]]
    """Category → section names; blanks, middle dots and other separators in names do not count."""


class CategoryMap:
    """Looks sections up by their whole name, then by their parts from the last (``사회 > 법원·검찰``), in a categories file.

    Raises ValueError naming file and field.
    """

    def __init__(self, path: Path) -> None:
        self._category: dict[str, str] = {}
        for category, sections in read_toml(path, _CategoryFile, "a rules file").categories.items():
            for section in (category, *sections):
                known = self._category.setdefault(_key(section), category)
                if known != category:
                    raise ValueError(f"{path}: section {section!r} is under {known} and {category}; keep one")

    def category(self, section: str) -> str | None:
        """The category of a section name, or None for a name that the map does not know."""
        whole = self._category.get(_key(section))
        if whole is not None:
            return whole
        for part in reversed(_PARTS.split(section)):
            if part and (found := self._category.get(_key(part))) is not None:
                return found
        return None


def _key(section: str) -> str:
    return _NOISE.sub("", section).lower()
