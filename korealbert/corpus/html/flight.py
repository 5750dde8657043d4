"""Text that a page carries only in its script data: Next.js streams its server components as ``self.__next_f.push`` calls.

Every main-text extractor tried found nothing on such a page. The stream consists of rows ``id:T<hex length>,<text>`` for
long texts (the body's HTML among them) and ``id:<JSON>`` for the rest.
"""

from __future__ import annotations

import json
import re
from typing import Any

from korealbert.corpus.readers.records import iso_date

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
