"""Licenses of works made of several sources, in the Hugging Face hub's spelling.

A Creative Commons license has conditions for those who share a work: name its authors (BY), keep its license (SA), do not sell
it (NC), do not change it (ND). A collection gets the license of a source whose conditions include those of all others. The text
of any other license stays with the work, so a collection can only have it if all other sources have it too or are free. ND
sources cannot be in a collection, because cleaning changes them. If no license fits, or a source states none, the result is
``other``. This is arithmetic over what recipes say, not legal advice.
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
"""Licenses whose text must stay with the work."""
_VERSIONS: Mapping[str, tuple[str, ...]] = {
    "cc-by": ("2.0", "2.5", "3.0", "4.0"),
    "cc-by-sa": ("3.0", "4.0"),
    "cc-by-nc": ("2.0", "3.0", "4.0"),
    "cc-by-nd": ("4.0",),
    "cc-by-nc-sa": ("2.0", "3.0", "4.0"),
    "cc-by-nc-nd": ("3.0", "4.0"),
}
"""Versions of the Creative Commons licenses that the hub knows."""
_KNOWN = {*_FREE, *_KEPT, *(f"{name}-{version}" for name, versions in _VERSIONS.items() for version in versions)}


def identifier(stated: str) -> str | None:
    """Return the hub's name of a license that a recipe states (``CC BY-NC-SA 2.0 KR``), or None if the hub does not know it."""
    words = re.sub(r"[\s_-]+", "-", stated.strip().lower())
    words = re.sub(r"^cc-?0(-1\.0)?(-universal)?$|^public-domain$", "cc0-1.0", words)
    words = re.sub(r"^(cc-by[a-z-]*-\d\.\d)(-[a-z]{2})?$", r"\1", words)  # The hub does not distinguish ports to countries.
    words = re.sub(r"^([al]?gpl-\d\.\d|gfdl[\d.-]*)(-only|-or-later|\+)$", r"\1", words)
    words = re.sub(r"^(gfdl|odbl|odc-by|pddl)-1\.\d$", r"\1", words)  # The hub has no versions of these.
    return words if words in _KNOWN else None


def combined(stated: Mapping[str, str]) -> tuple[str, str]:
    """Return the license of a work from those that its sources state, and the reason if it is ``other``."""
    known = {source: identifier(license) for source, license in stated.items()}
    if unknown := [f'[extract.{source}] license = "{stated[source]}"' for source, license in known.items() if license is None]:
        return OTHER, f"the hub knows no such license: {', '.join(unknown)}"
    if unchangeable := [f"{source} {stated[source]}" for source, license in known.items() if "nd" in _conditions(license)]:
        return OTHER, f"changed texts may not be passed on, and cleaning changes texts: {', '.join(unchangeable)}"
    found = sorted({license for license in known.values() if license}, key=lambda license: (len(_conditions(license)), license))
    if not found:
        return OTHER, "no source is known"
    bound = [license for license in found if license not in _FREE]
    strictest = (bound or found)[-1]
    if all(license == strictest or _may_become(license, strictest) for license in bound):
        return strictest, ""
    return OTHER, f"these licenses cannot be combined: {', '.join(f'{source} {stated[source]}' for source in stated)}"


def _conditions(license: str | None) -> frozenset[str]:
    """The conditions of a Creative Commons license; none for other licenses."""
    return frozenset(license.split("-")[1:-1] if license and license.startswith("cc-") else ())


def _may_become(license: str, stricter: str) -> bool:
    """Whether works under one Creative Commons license may be part of a collection under another one."""
    own, all_ = _conditions(license), _conditions(stricter)
    return bool(own) and own <= all_ and ("sa" not in own or own == all_)
