"""The license of what is made of several sources, as the Hugging Face hub spells it.

Each license of Creative Commons asks something of those who pass a work on: to name its authors (BY), to keep its license (SA),
not to sell it (NC), not to change it (ND). A collection can have the license that asks for all that its sources ask for. The
text of any other license stays with the work, so that a collection can have it only where all sources do, or are free. What may
not be changed can be in none, since cleaning changes it. Where no license can be had, and where a source states none, it is
``other``. This is arithmetic over what recipes say, no legal advice.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

OTHER = "other"

_FREE = ("cc0-1.0", "unlicense", "pddl")
_KEPT = (
    *("mit", "isc", "zlib", "bsd", "bsd-2-clause", "bsd-3-clause", "bsd-3-clause-clear", "apache-2.0", "mpl-2.0", "afl-3.0"),
    *("gpl", "gpl-2.0", "gpl-3.0", "lgpl", "lgpl-2.1", "lgpl-3.0", "agpl-3.0", "gfdl", "artistic-2.0", "osl-3.0", "ofl-1.1"),
    *("odc-by", "odbl", "cdla-sharing-1.0", "cdla-permissive-1.0", "cdla-permissive-2.0", "etalab-2.0", "eupl-1.1"),
)
"""Licenses whose text stays with the work."""
_VERSIONS: Mapping[str, tuple[str, ...]] = {
    "cc-by": ("2.0", "2.5", "3.0", "4.0"),
    "cc-by-sa": ("3.0", "4.0"),
    "cc-by-nc": ("2.0", "3.0", "4.0"),
    "cc-by-nd": ("4.0",),
    "cc-by-nc-sa": ("2.0", "3.0", "4.0"),
    "cc-by-nc-nd": ("3.0", "4.0"),
}
"""Of Creative Commons, those that the hub knows."""
_KNOWN = {*_FREE, *_KEPT, *(f"{name}-{version}" for name, versions in _VERSIONS.items() for version in versions)}


def identifier(stated: str) -> str | None:
    """The hub's name of a license as a recipe states it (``CC BY-NC-SA 2.0 KR``), None where it is none that the hub knows."""
    words = re.sub(r"[\s_-]+", "-", stated.strip().lower())
    words = re.sub(r"^cc-?0(-1\.0)?(-universal)?$|^public-domain$", "cc0-1.0", words)
    words = re.sub(r"^(cc-by[a-z-]*-\d\.\d)(-[a-z]{2})?$", r"\1", words)  # A country's port is the same to the hub.
    words = re.sub(r"^([al]?gpl-\d\.\d|gfdl[\d.-]*)(-only|-or-later|\+)$", r"\1", words)
    words = re.sub(r"^(gfdl|odbl|odc-by|pddl)-1\.\d$", r"\1", words)  # Of these the hub names no version.
    return words if words in _KNOWN else None


def combined(stated: Mapping[str, str]) -> tuple[str, str]:
    """The license of a work of sources with these licenses, by name of the source; and why it is ``other``, or nothing."""
    known = {source: identifier(license) for source, license in stated.items()}
    if silent := [f'[extract.{source}] license = "{stated[source]}"' for source, license in known.items() if license is None]:
        return OTHER, f"none that the hub knows: {', '.join(silent)}"
    if unchanged := [f"{source} {stated[source]}" for source, license in known.items() if "nd" in _asks(license)]:
        return OTHER, f"changed texts may not be passed on, and cleaning changes texts: {', '.join(unchanged)}"
    found = sorted({license for license in known.values() if license}, key=lambda license: (len(_asks(license)), license))
    if not found:
        return OTHER, "no source is known"
    bound = [license for license in found if license not in _FREE]
    strongest = (bound or found)[-1]
    if all(license == strongest or _may_become(license, strongest) for license in bound):
        return strongest, ""
    return OTHER, f"these cannot be one: {', '.join(f'{source} {stated[source]}' for source in stated)}"


def _asks(license: str | None) -> frozenset[str]:
    """What a license of Creative Commons asks for; nothing of others."""
    return frozenset(license.split("-")[1:-1] if license and license.startswith("cc-") else ())


def _may_become(license: str, other: str) -> bool:
    """Whether a part under one license may be in a whole under another one of Creative Commons that asks as much or more."""
    asks, asked = _asks(license), _asks(other)
    return bool(asks) and asks <= asked and ("sa" not in asks or asks == asked)
