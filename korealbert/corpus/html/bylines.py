"""Who wrote an article: names cleaned of titles and addresses, and the byline of pages whose tags name nobody."""

from __future__ import annotations

import re
from collections.abc import Iterable
from html import unescape
from typing import Any

from korealbert.corpus.readers.records import one_line

MAX_AUTHOR_CHARS = 30
MAX_BYLINE_CHARS = 80
"""A longer line is a sentence that mentions a reporter."""

MAX_TAG_CHARS = 400
"""How far into a tag names are looked for."""

_JOBS = r"(?:기자|특파원|논설위원|편집위원|칼럼니스트|객원기자|PD|앵커|에디터)"
_ROLE = re.compile(rf"(?:\s*[가-힣A-Za-z]*{_JOBS}(?:\s*외\s*\d+\s*명)?|\s*외\s*\d+\s*명)$")
_ADDRESS = re.compile(r"\S+@\S+|https?://\S+|@\w+")
_BEFORE = re.compile(r"^(?:By|글|기자)\s+|[=()\[\]<>]", re.IGNORECASE)
_NAMES = re.compile(r"\s*(?:[,;·ㆍ・/|]|\band\b|&)\s*")
_BYLINE = re.compile(
    rf"[\[(<]?(?:[가-힣]{{2,4}}\s?=\s?)?(?P<names>[가-힣]{{2,4}}(?:\s?[·ㆍ・,]\s?[가-힣]{{2,4}})*)\s?[가-힣]{{0,3}}{_JOBS}[\])>]?"
    r"\s*[(\[<]?(?:\S+@\S+)?[)\]>]?\s*[=.]?"
)
_KINDS = "본지 시민 사진 수습 선임 인턴 객원 전문 온라인 취재 편집 디지털 정치부 사회부 경제부 문화부 국제부 체육부 산업부"
_NO_NAMES = frozenset(_KINDS.split(" "))
_OF_BYLINES = "|".join(
    f"//*[contains(@class, '{name}') or contains(@id, '{name}')]" for name in ("byline", "reporter", "writer", "journalist")
)


def clean_author(name: str) -> str:
    """A person's name without title, address and count of colleagues; empty for what is no name."""
    name = one_line(_BEFORE.sub(" ", _ADDRESS.sub("", name)))
    while (shorter := _ROLE.sub("", name)) != name:
        name = shorter.strip()
    words = name.split()
    if len(words) > 1 and all(re.fullmatch("[가-힣]+", word) for word in words):
        name = words[-1]  # the place of a report stands before the name
    return name if 1 < len(name) <= MAX_AUTHOR_CHARS else ""


def people(values: Iterable[str], outlets: set[str]) -> tuple[str, ...]:
    """The names in tags that name authors, each once; a newspaper that names itself is no author."""
    lines = (one_line(unescape(value[:MAX_TAG_CHARS])) for value in values)
    names = [clean_author(part) for line in lines for part in _NAMES.split(_ADDRESS.sub("", line))]
    return tuple(dict.fromkeys(name for name in names if name and name not in outlets))


def byline(tree: Any, paragraphs: list[str]) -> tuple[str, ...]:
    """The names in the page's elements for bylines, else in a first or last line of the article that is only a byline."""
    marked = (one_line(node.text_content()) for node in tree.xpath(_OF_BYLINES))
    for line in (*marked, *paragraphs[:2], *reversed(paragraphs[-3:])):
        found = _BYLINE.fullmatch(line) if len(line) <= MAX_BYLINE_CHARS else None
        if found and not _NO_NAMES & set(names := re.split(r"\s?[·ㆍ・,]\s?", found["names"])):
            return tuple(dict.fromkeys(names))
    return ()
