"""Text that a page carries only in its script data, where main-text extractors find nothing.

Arc XP assigns the story as one JSON object to ``Fusion.globalContent``. Next.js streams its server components as
``self.__next_f.push`` calls: rows ``id:T<hex length>,<text>`` for long texts (the body's HTML among them) and ``id:<JSON>``
for the rest.
"""

from __future__ import annotations

import json
import re
from typing import Any

from korealbert.corpus.readers.records import UNWANTED, iso_date

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


_PUSH = "self.__next_f.push("
_TEXT_ROW = re.compile(rb"(?:^|\n|(?<=[\x80-\xff>}\]\s.]))([0-9a-f]{1,8}):T([0-9a-f]{1,8}),")
_BLOCK = re.compile(r"<(?:p|br|div)\b", re.IGNORECASE)
_DATE_FIELD = re.compile(
    r'"(?:datePublished|published_?[aA]t|published_?(?:[tT]ime|[dD]ate|[dD]t)?|publish_?(?:[dD]ate|[dD]t)|first_?[pP]ublished\w*|deploy_?[dD]t'
    r'|service_?(?:[dD]ate|[dD]t)|input_?(?:[dD]ate|[dD]t)|reg_?(?:[dD]ate|[dD]t)|created_?(?:[aA]t|[dD]ate))":"([^"]{8,40})"'
)


def flight_stream(tree: Any) -> str:
    """The joined stream of a parsed page; empty if it has none."""
    parts: list[str] = []
    for node in tree.iter("script"):
        _, found, call = (node.text or "").partition(_PUSH)
        if not found:
            continue
        try:
            pushed = json.loads(call.rstrip().removesuffix(";").rstrip().removesuffix(")"))
        except (ValueError, RecursionError):
            continue
        if isinstance(pushed, list) and len(pushed) == 2 and pushed[0] == 1 and isinstance(pushed[1], str):
            parts.append(pushed[1])
    return "".join(parts)


def flight_body(stream: str) -> str:
    """The longest text row that is HTML: the body of the article; empty if there is none."""
    data = stream.encode("utf-8", "replace")
    best = ""
    position = 0
    while (found := _TEXT_ROW.search(data, position)) is not None:
        start, length = found.end(), int(found[2], 16)
        text = data[start : start + length].decode("utf-8", "replace")
        if len(text) > len(best) and _BLOCK.search(text):
            best = text
        position = min(start + length, len(data)) if length else start
    return best


def flight_date(stream: str) -> str:
    """The first field of the stream's objects that is named and formed like a date of publication."""
    return next((day for value in _DATE_FIELD.findall(stream) if (day := iso_date(value))), "")
