"""Characters that are text although they look like markup: escapes, ``<nowiki>``, entities.

Each is swapped for a noncharacter while markup is read (a noncharacter never occurs in prepared text), and swapped back last.
"""

from __future__ import annotations

import html
import re

_MARKUP = "[]{}|<>'=*#:;&-_~^,\\$!\""
_STAND_INS = "".join(chr(0xFDD0 + index) for index in range(len(_MARKUP)))
_PROTECTED = str.maketrans(_MARKUP, _STAND_INS)
_RESTORED = dict(zip(_STAND_INS, _MARKUP))
_LEAD_BYTES = _STAND_INS[0].encode()[:2]
_ANY_STAND_IN = re.compile("[\ufdd0-\ufdef]")
_ENTITY = re.compile(r"&#?[0-9A-Za-z]{1,32};")


def literal(text: str) -> str:
    """Text that no parser reads as markup."""
    return text.translate(_PROTECTED)


def restore(text: str) -> str:
    """The literal characters themselves again."""
    if text.isascii() or _LEAD_BYTES not in text.encode("utf-8", "surrogatepass"):  # a third of the time of a search for them
        return text
    return _ANY_STAND_IN.sub(lambda found: _RESTORED.get(found[0], ""), text)


def decode_entities(text: str) -> str:
    """HTML entities as literal characters, decoded once (``&amp;lt;`` is ``&lt;``)."""
    return _ENTITY.sub(_decoded, text) if "&" in text else text


def _decoded(entity: re.Match[str]) -> str:
    decoded = html.unescape(entity[0])
    if decoded == entity[0]:
        return decoded
    if decoded.isspace() and decoded != "\n":
        return " "
    return "" if "\0" in decoded or "\ufffd" in decoded else literal(decoded)
