"""Rules about titles and sections of articles, which are data in ``data_specs/rules``.

``titles.toml``: kinds of articles that are dropped (notices, obituaries, picture pages, lottery numbers), with examples that
the tests run. ``categories.toml``: section names mapped to the few categories by which the corpus is balanced. Unknown
sections keep their names and are categories of their own.
"""

from __future__ import annotations

import re
import unicodedata
from pathlib import Path
from typing import Literal

from korealbert.artifact import Spec
from korealbert.artifact.spec import read_toml
from korealbert.corpus.normalise import matching_view
from korealbert.corpus.patterns import refuse_ruinous
from korealbert.documents.schema import Drop

END_CHARACTERS = 300
"""Length of the end of a text in which ``end`` rules search."""
_MIN_PROSE_SENTENCES = 5
"""A text with this many sentences in the plain style of news is prose. Captions have fewer; notices are polite (``…니다.``)."""
_PLAIN_SENTENCE = re.compile(r"[가-힣](?<!니)다[.!?](?![0-9A-Za-z가-힣])")
_SENTENCE = re.compile(r"[가-힣](?:다|요)[.!?](?![0-9A-Za-z가-힣])")


class TitleRule(Spec):
    """One kind of article that is not worth learning from."""

    id: str
    field: Literal["title", "end"] = "title"
    """Where the pattern is searched: in the title, or in the last characters of the text."""
    pattern: str
    """A regular expression for ``matching_view`` text, searched anywhere in the field."""
    without_prose: bool = False
    """Drop only texts that are not prose (see ``_MIN_PROSE_SENTENCES``): for labels that real articles have, too."""
    polite: bool = False
    """Whether polite sentences count as prose, too: those of notices do not, those of weather forecasts do."""
    positive: tuple[str, ...] = ()
    negative: tuple[str, ...] = ()


class _TitleFile(Spec):
    """The content of a titles file."""

    rule: tuple[TitleRule, ...]


class TitleRules:
    """A compiled titles file. Raises ValueError naming file, rule and field."""

    def __init__(self, path: Path) -> None:
        self._path, self.rules = path, read_toml(path, _TitleFile, "a rules file").rule
        self._compiled: list[tuple[TitleRule, re.Pattern[str]]] = []
        for rule in self.rules:
            try:
                self._compiled.append((rule, re.compile(rule.pattern)))
            except (re.error, OverflowError, RecursionError) as error:
                raise ValueError(f"{path}, rule {rule.id}: not a regular expression: {error}") from error

    def refuse_ruinous(self) -> None:
        """Raise ValueError naming file and rule of a pattern that a text could keep busy for ever."""
        for rule in self.rules:
            refuse_ruinous(rule.pattern, f"{self._path}, rule {rule.id}")

    def judge(self, title: str, text: str) -> Drop | None:
        """Return the drop ``title_rule`` with the id of the first rule that matches, or None."""
        fields = {"title": matching_view(title), "end": matching_view(text[-END_CHARACTERS:])}
        for rule, pattern in self._compiled:
            if pattern.search(fields[rule.field]):
                sentence = _SENTENCE if rule.polite else _PLAIN_SENTENCE
                if not rule.without_prose or len(sentence.findall(text)) < _MIN_PROSE_SENTENCES:
                    return Drop("title_rule", rule.id)
        return None


_NOISE = re.compile(r"[\s·・/&,._-]+")
_PARTS = re.compile("[>|/,·・&]")


class _CategoryFile(Spec):
    """The content of a categories file."""

    categories: dict[str, tuple[str, ...]]
    """Category → section names; blanks, middle dots and other separators in names are ignored."""


class CategoryMap:
    """A categories file. Looks a section up by its whole name, then by its parts from the last (``사회 > 법원·검찰``).

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
        """Return the category of a section, or None if neither its name nor any of its parts is known."""
        section = _compatible(section)
        names = (section, *filter(None, reversed(_PARTS.split(section))))
        return next((category for name in names if (category := self._category.get(_key(name))) is not None), None)


def _key(section: str) -> str:
    return _NOISE.sub("", _compatible(section)).casefold()


def _compatible(section: str) -> str:
    """Return a section in NFKC, which would make a letter of its own of the middle dot ㆍ."""
    return unicodedata.normalize("NFKC", matching_view(section))
