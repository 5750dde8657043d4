"""The license of what is made of several sources, as the Hugging Face hub spells it.

Each license asks something of those who pass a work on: to name its authors (BY), to keep its license (SA), not to sell it
(NC), not to change it (ND). A collection can have the license that asks for all that its sources ask for; where none can, and
where a source states none, it is ``other``. This is arithmetic over what recipes say, no legal advice.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

OTHER = "other"

_FREE = ("cc0-1.0", "unlicense", "pddl")
_ATTRIBUTION = ("mit", "bsd-2-clause", "bsd-3-clause", "apache-2.0", "odc-by")
_VERSIONS: Mapping[str, tuple[str, ...]] = {
    "cc-by": ("2.0", "2.5", "3.0", "4.0"),
    "cc-by-sa": ("3.0", "4.0"),
    "cc-by-nc": ("2.0", "3.0", "4.0"),
    "cc-by-nd": ("4.0",),
    "cc-by-nc-sa": ("2.0", "3.0", "4.0"),
    "cc-by-nc-nd": ("3.0", "4.0"),
}
"""Of Creative Commons, those that the hub knows."""
_KNOWN = {*_FREE, *_ATTRIBUTION, *(f"{name}-{version}" for name, versions in _VERSIONS.items() for version in versions)}


def identifier(stated: str) -> str | None:
    """The hub's name of a license as a recipe states it (``CC BY-NC-SA 2.0 KR``), None where it is none that the hub knows."""
    words = re.sub(r"[\s_-]+", "-", stated.strip().lower())
    words = re.sub(r"^cc-?0(-1\.0)?(-universal)?$|^public-domain$", "cc0-1.0", words)
    words = re.sub(r"^(cc-by[a-z-]*-\d\.\d)(-[a-z]{2})?$", r"\1", words)  # A country's port is the same to the hub.
    return words if words in _KNOWN else None


def combined(stated: Mapping[str, str]) -> tuple[str, str]:
    """The license of a work of sources with these licenses, by name of the source; and why it is ``other``, or nothing."""
    known = {source: identifier(license) for source, license in stated.items()}
    if silent := [f'[extract.{source}] license = "{stated[source]}"' for source, license in known.items() if license is None]:
        return OTHER, f"none that the hub knows: {', '.join(silent)}"
    found = sorted({license for license in known.values() if license}, key=lambda license: (len(_asks(license)), license))
    if not found:
        return OTHER, "no source is known"
    *weaker, strongest = found
    if all(_may_become(license, strongest) for license in weaker):
        return strongest, ""
    return OTHER, f"these cannot be one: {', '.join(f'{source} {stated[source]}' for source in stated)}"


def _asks(license: str) -> frozenset[str]:
    if license in _FREE:
        return frozenset()
    return frozenset({"by"} if license in _ATTRIBUTION else license.split("-")[1:-1])


def _may_become(license: str, other: str) -> bool:
    """Whether a part under one license may be in a whole under another, which asks as much or more."""
    asks, asked = _asks(license), _asks(other)
    if "nd" in asked and asks:
        return False
    return asks <= asked and "nd" not in asks and ("sa" not in asks or asks == asked)
