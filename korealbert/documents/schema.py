"""Defines documents, the reasons why they are dropped, and quarantined input."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b
from typing import Literal, get_args

Category = Literal["정치", "사회", "경제", "문화", "IT", "오피니언", "스포츠"]
CATEGORIES: tuple[str, ...] = get_args(Category)
"""The categories of KoreALBERT's news corpus (Lee et al. 2021, section 3.1)."""


@dataclass(frozen=True, slots=True)
class Document:
    """One text with its provenance."""

    id: str
    """16 hex digits, see ``document_id``."""
    source: str
    """Name of the source in the recipe: news, kowiki, …"""
    text: str
    """Paragraphs separated by a blank line; after sentence splitting one sentence a line."""
    title: str = ""
    outlet: str = ""
    """Newspaper or publisher, where known."""
    category: str = ""
    """Section or category as the source names it; after cleaning one of the balanced categories or the source's own name."""
    url: str = ""
    published: str = ""
    """ISO 8601 date or date-time, as precise as the source; empty if unknown."""
    authors: str = ""
    """Names of the people who wrote it, separated by ``, ``; empty if unknown."""


@dataclass(frozen=True, slots=True)
class Drop:
    """The reason why a document is not kept."""

    reason: str
    """Snake-case name that the statistics count by: too_short, redirect, exact_duplicate, …"""
    rule: str = ""
    """Details: the rule id, the metric with its value and limit, or the id of the copy that stays."""


@dataclass(frozen=True, slots=True)
class Quarantined:
    """Input that could not be read as a document."""

    file: str
    """File name, with the member's name for archives (``dump.tar.zst::AA/wiki_00``)."""
    position: str
    """``line 12``, ``byte 4096``, ``record 7``, …"""
    field: str
    """Name of the bad field, or empty for the whole record."""
    reason: str
    """Snake-case name that the statistics count by: invalid_utf8, malformed_json, …"""
    remedy: str
    """What the owner of the source can do about it."""
    excerpt: str = ""
    """At most 200 characters of the offending input."""

    def __str__(self) -> str:
        where = f"{self.file}, {self.position}" + (f", field {self.field!r}" if self.field else "")
        return f"{where}: {self.reason}; {self.remedy}"


def document_id(source: str, native_id: str) -> str:
    """Return a 64-bit hash of source and native id as 16 hex digits."""
    return blake2b(f"{source}\0{native_id}".encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
