"""Text that a page of Arc XP carries only in its script data: ``Fusion.globalContent`` is the story as one JSON object."""

from __future__ import annotations

import json
import re
from typing import Any

from korealbert.corpus.readers.records import UNWANTED

_CONTENT = re.compile(r"\bFusion\.globalContent\s*=\s*")
_BREAK = re.compile(r"<br\s*/?>", re.IGNORECASE)


def arc_story(tree: Any) -> dict[str, Any]:
    """The story of a parsed page; empty if it has none."""
    for node in tree.iter("script"):
        found = _CONTENT.search(node.text) if "Fusion.globalContent" in (node.text or "") else None
        if found is not None:
            try:
                story, _ = json.JSONDecoder(strict=False).raw_decode(node.text, found.end())
            except (ValueError, RecursionError):
                continue
            if isinstance(story, dict):
                return story
    return {}


def arc_text(story: dict[str, Any]) -> str:
    """Paragraphs, headings and list items of a story, a line each; pictures, advertisements and raw HTML are no text."""
    return "\n".join(filter(None, (plain_text(value) for value in _contents(story.get("content_elements")))))


def _contents(elements: Any) -> list[str]:
    found: list[str] = []
    for element in elements if isinstance(elements, list) else []:
        if not isinstance(element, dict):
            continue
        if element.get("type") in ("text", "header") and isinstance(element.get("content"), str):
            found.append(element["content"])
        elif element.get("type") == "list":
            items = element.get("items")
            texts = [item.get("content") for item in (items if isinstance(items, list) else []) if isinstance(item, dict)]
            found += [text for text in texts if isinstance(text, str)]
        elif element.get("type") == "quote":
            found += _contents(element.get("content_elements"))
    return found


def plain_text(fragment: str) -> str:
    """The text of an HTML fragment without block elements; a line for each break."""
    from lxml import etree  # noqa: PLC0415
    from lxml import html as lxml_html  # noqa: PLC0415

    text = UNWANTED.sub("", _BREAK.sub("\n", fragment))
    if "<" not in text and "&" not in text:
        return text.strip()
    try:
        return str(lxml_html.fragment_fromstring(text, create_parent="div").text_content()).strip()
    except (etree.ParserError, etree.XMLSyntaxError, AssertionError):
        return ""
