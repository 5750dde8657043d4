"""JSON-LD of a page: its objects, references between them, and the path to the page."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from html import unescape
from typing import Any

from korealbert.corpus.readers.records import one_line

_HOME = frozenset(("홈", "home", "main", "메인", "처음", "뉴스", "news", "전체", "전체기사"))
MAX_SECTION_CHARS = 20
"""A longer step of a breadcrumb is the title of the article."""
_TRAILING_COMMA = re.compile(r",(?=\s*[}\]])")


def linked_objects(tree: Any) -> Iterator[dict[str, Any]]:
    """Every object of a parsed page's JSON-LD, those of a graph and of ``mainEntity`` too; what is no JSON is passed over."""
    for node in tree.iter("script"):
        if "ld+json" in (node.get("type") or "").lower():
            yield from _objects(_lenient(node.text or ""))


def _lenient(text: str) -> Any:
    text = (
        text.strip()
        .removeprefix("<!--")
        .removesuffix("-->")
        .removeprefix("//<![CDATA[")
        .removesuffix("//]]>")
        .strip(" ;\n\r\t")
    )
    for attempt in (text, _TRAILING_COMMA.sub("", text)):
        try:
            return json.loads(attempt, strict=False)
        except (ValueError, RecursionError):
            continue
    return None


def _objects(value: Any, depth: int = 0) -> Iterator[dict[str, Any]]:
    if depth > 4:
        return
    if isinstance(value, list):
        for item in value:
            yield from _objects(item, depth + 1)
    elif isinstance(value, dict):
        yield value
        for name in ("@graph", "mainEntity"):
            yield from _objects(value.get(name), depth + 1)


def is_a(item: dict[str, Any], kinds: tuple[str, ...]) -> bool:
    """Whether an object has one of some types, in lower case."""
    declared = item.get("@type")
    return any(
        isinstance(kind, str) and kind.lower() in kinds for kind in (declared if isinstance(declared, list) else [declared])
    )


def referred(value: Any, nodes: dict[str, dict[str, Any]]) -> Any:
    """A value of JSON-LD, or a list of them, with references to other nodes of the page (``{"@id": …}``) replaced by these."""
    found = [
        nodes.get(item["@id"], item)
        if isinstance(item, dict) and set(item) <= {"@id", "@type"} and isinstance(item.get("@id"), str)
        else item
        for item in (value if isinstance(value, list) else [value])
    ]
    return found if isinstance(value, list) else found[0]


def breadcrumb_section(linked: list[dict[str, Any]], nodes: dict[str, dict[str, Any]], others: set[str]) -> str:
    """The first step of the page's path that is neither its home page nor the article."""
    for path in linked:
        steps = path.get("itemListElement") if is_a(path, ("breadcrumblist",)) else None
        for step in steps if isinstance(steps, list) else []:
            item = step.get("item") if isinstance(step, dict) else None
            name = (string_of(step.get("name")) or name_of(referred(item, nodes))) if isinstance(step, dict) else ""
            if name and len(name) <= MAX_SECTION_CHARS and name not in others and name.lower() not in _HOME:
                return name
    return ""


def string_of(value: Any, *, lines: bool = False) -> str:
    """A value, or the first text of a list, without entities; empty if it is no text. One line, unless ``lines``."""
    if isinstance(value, list):
        value = next((item for item in value if isinstance(item, str)), "")
    text = unescape(unescape(value)) if isinstance(value, str) else ""  # doubly escaped titles are common
    return text.strip() if lines else one_line(text)


def name_of(value: Any) -> str:
    """The ``name`` of an object, or of the first of a list."""
    if isinstance(value, list):
        value = value[0] if value else None
    return string_of(value.get("name")) if isinstance(value, dict) else ""
