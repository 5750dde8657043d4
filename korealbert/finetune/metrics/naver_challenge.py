"""F1 of the Naver NLP challenge's named entities, times 100: the challenge's own scorer, and what it means.

Its quirks, of which one tag sequence in a hundred shows some: an entity that reaches the end of its sentence is not listed,
but with the next sentence's first break, at that sentence's positions; and an ``I`` after ``-`` is not listed when its type is
that of the entity before.
"""

from __future__ import annotations

from collections.abc import Sequence

from korealbert.finetune.metrics import Mode
from korealbert.finetune.metrics.entities import OUTSIDE, Tags, lenient_entities

Listing = list[tuple[int, int, str]]
"""First and last position, counted from 1, and type of each entity of one sentence."""


def challenge_f1(gold: Sequence[Tags], predicted: Sequence[Tags], mode: Mode) -> float:
    """Micro F1 of entities as the challenge lists them (official), or as they are tagged (corrected). Tags are ``B-PER``."""
    listings = quirky_listings if mode == "official" else plain_listings
    gold_listings, predicted_listings = listings(gold), listings(predicted)
    recalled, gold_total = _hits(gold_listings, predicted_listings)
    precise, predicted_total = _hits(predicted_listings, gold_listings)
    precision = precise / predicted_total if predicted_total else 0.0
    recall = recalled / gold_total if gold_total else 0.0
    return 100 * (2 * precision * recall) / (precision + recall) if precision + recall else 0.0


def plain_listings(sentences: Sequence[Tags]) -> list[Listing]:
    """Every entity of every sentence."""
    return [[(begin + 1, end, kind) for kind, begin, end in lenient_entities(tags)] for tags in sentences]


def quirky_listings(sentences: Sequence[Tags]) -> list[Listing]:
    """The entities that the challenge's scorer lists, in its order."""
    begin, kind = -1, ""
    listings = []
    for tags in sentences:
        listing: Listing = []
        for position, tag in enumerate(tags, start=1):
            if tag == OUTSIDE:
                if begin > -1:
                    listing.append((begin, position - 1, kind))
                begin = -1
                continue
            prefix, new_kind = tag.split("-", 1)
            if prefix == "B" or new_kind != kind:
                if begin > -1:
                    listing.append((begin, position - 1, kind))
                begin = position
            kind = new_kind
        listings.append(listing)
    return listings


def _hits(listings: Sequence[Listing], others: Sequence[Listing]) -> tuple[int, int]:
    """How many entities stand in the other listing of the same sentence too, and how many there are."""
    pairs = zip(listings, others, strict=True)
    return sum(entity in other for listing, other in pairs for entity in listing), sum(map(len, listings))
