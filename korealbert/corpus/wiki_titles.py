"""What the title of a wiki page says about it: whether it is an article, and whether the article is prose."""

from __future__ import annotations

from korealbert.corpus.wiki_names import NON_ARTICLE_PREFIXES
from korealbert.documents import Drop


def other_namespace(title: str) -> Drop | None:
    """``namespace`` for a page that is no article by the prefix of its title, whatever its namespace number says."""
    prefix, colon, _ = title.partition(":")
    name = prefix.strip().lower()
    return Drop("namespace", f"title begins with {name}:") if colon and name in NON_ARTICLE_PREFIXES else None


def no_prose(title: str) -> Drop | None:
    """``disambiguation`` or ``list_page`` for an article that only points to others."""
    if title.endswith("(동음이의)"):
        return Drop("disambiguation", "title")
    return Drop("list_page", "title") if title.endswith("의 목록") else None
