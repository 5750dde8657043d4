"""Section names of newspapers mapped to the few categories that the corpus is balanced by.

The map is data (``data_specs/rules/categories.toml``). A section that it does not know keeps its own name and with it a bucket
of its own; nothing is dropped for its section.
"""

from __future__ import annotations

import re
from pathlib import Path

from korealbert.artifact import Spec
from korealbert.corpus.clean.rule_files import read_rules

_NOISE = re.compile(r"[\s·ㆍ・/&,._-]+")
_PARTS = re.compile(r"\s*[>|/,·ㆍ&]\s*")


class CategoryFile(Spec):
    """The content of a categories file."""

    categories: dict[str, tuple[str, ...]]
    """Category → section names; blanks, middle dots and other separators in names do not count."""


class CategoryMap:
    """Looks sections up by their whole name, then by their parts from the last (``사회 > 법원·검찰``)."""

    def __init__(self, file: CategoryFile, origin: str = "category map") -> None:
        self._category: dict[str, str] = {}
        for category, sections in file.categories.items():
            for section in (category, *sections):
                known = self._category.setdefault(_key(section), category)
                if known != category:
                    raise ValueError(f"{origin}: section {section!r} is under {known} and {category}; keep one")

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


def load_category_map(path: Path) -> CategoryMap:
    """Read a categories file. Raises ValueError naming file and field."""
    return CategoryMap(read_rules(path, CategoryFile), str(path))
