"""Scores over parts of examples, times 100: named entities from tags, KLUE-DP's attachment scores, KLUE-DST's states.

The scorer of the Naver NLP challenge has two quirks, which affect one tag sequence in a hundred: an entity at the end of its
sentence is listed only at the first break in the next sentence, with that sentence's positions; and an ``I`` after ``-`` is not
listed if its type is that of the previous entity.

Micro attachment scores are the share of right words; macro scores are a mean F1 over classes, where the class of a word is the
index of its head (UAS) or its relation (LAS). UAS macro thus averages over word positions: position 40 weighs as much as 2.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np

from korealbert.finetune.metrics import Mode
from korealbert.finetune.metrics.labels import Counts, accuracy, check_lengths, class_counts, macro_f1

OUTSIDE = "O"

Tags = Sequence[str]
_Entity = tuple[str, int, int]
"""Type, first position, position after the last."""


def strict_entities(tags: Tags) -> list[_Entity]:
    """Return the entities of IOB2: ``B-X`` and the ``I-X`` right after it. An ``I`` that continues nothing is ignored."""
    return _entities(tags, begins=lambda tag: tag.startswith("B-"))


def lenient_entities(tags: Tags) -> list[_Entity]:
    """Return entities as conlleval and seqeval's default do: an ``I`` that continues nothing begins an entity."""
    return _entities(tags, begins=lambda tag: tag != OUTSIDE)


def _entities(tags: Tags, begins: Callable[[str], bool]) -> list[_Entity]:
    entities = []
    begin = None
    for position, tag in enumerate([*tags, OUTSIDE]):
        if begin is not None and tag != f"I-{tags[begin][2:]}":
            entities.append((tags[begin][2:], begin, position))
            begin = None
        if begin is None and begins(tag):
            begin = position
    return entities


def entity_macro_f1(gold: Sequence[Tags], predicted: Sequence[Tags]) -> float:
    """Return the mean F1 of strict entities over the types that are gold or predicted; 0 without any."""
    gold_found, predicted_found = _found(gold, strict_entities), _found(predicted, strict_entities)
    types = sorted({entity[1] for entity in gold_found | predicted_found})
    return float(np.mean([_f1(_of_type(gold_found, t), _of_type(predicted_found, t)) for t in types]) * 100) if types else 0.0


def undefined_macro_f1(gold: Sequence[Tags], predicted: Sequence[Tags]) -> dict[str, str]:
    """Return the reason if seqeval prints ``nan`` for ``entity_macro_f1``: it averages over no types."""
    found = any(strict_entities(tags) for tags in (*gold, *predicted))
    return {} if found else {"entity_macro_f1": "neither gold nor predictions have an entity"}


def entity_micro_f1(gold: Sequence[Tags], predicted: Sequence[Tags]) -> float:
    """Return the F1 over the lenient entities of all types; 0 without any."""
    return _f1(_found(gold, lenient_entities), _found(predicted, lenient_entities)) * 100


def char_f1(gold: Iterable[str], predicted: Iterable[str], labels: Sequence[str], mode: Mode) -> float:
    """Return the mean F1 of ``labels`` over characters.

    Official: a label that is neither gold nor predicted counts 100. Corrected: such labels are left out.
    """
    counts = class_counts(list(gold), list(predicted), labels)
    if mode == "official":
        return float(np.mean(counts.f1(zero_division=1.0)) * 100)
    occurs = counts.gold_C + counts.predicted_C > 0
    return float(np.mean(counts.f1()[occurs]) * 100) if occurs.any() else 0.0


def strict_counts(gold: Tags, predicted: Tags, types: Sequence[str]) -> Counts:
    """Count right, gold and predicted strict entities of one sentence for each type, [3 * types]."""
    gold_found, predicted_found = set(strict_entities(gold)), set(strict_entities(predicted))
    parts = (gold_found & predicted_found, gold_found, predicted_found)
    return np.array([sum(entity[0] == kind for entity in part) for part in parts for kind in types], dtype=np.float64)


def lenient_counts(gold: Tags, predicted: Tags) -> Counts:
    """Count right, gold and predicted lenient entities of one sentence, [3]."""
    gold_found, predicted_found = set(lenient_entities(gold)), set(lenient_entities(predicted))
    return np.array([len(gold_found & predicted_found), len(gold_found), len(predicted_found)], dtype=np.float64)


_Located = set[tuple[int, str, int, int]]
"""Sentence, type, first position, position after the last."""


def _found(sentences: Sequence[Tags], entities: Callable[[Tags], list[_Entity]]) -> _Located:
    return {(number, *entity) for number, tags in enumerate(sentences) for entity in entities(tags)}


def _of_type(found: _Located, wanted: str) -> _Located:
    return {entity for entity in found if entity[1] == wanted}


def _f1(gold: _Located, predicted: _Located) -> float:
    """Return the F1 from 0 to 1, computed from precision and recall: the order of operations decides the last digit."""
    right = len(gold & predicted)
    if not right:
        return 0.0
    precision, recall = right / len(predicted), right / len(gold)
    return 2 * precision * recall / (precision + recall)


_Listing = list[tuple[int, int, str]]
"""First and last position, counted from 1, and type of each entity of one sentence."""


def challenge_f1(gold: Sequence[Tags], predicted: Sequence[Tags], mode: Mode) -> float:
    """Return the micro F1 of entities as the challenge lists them (official), or as they are tagged (corrected)."""
    listings = quirky_listings if mode == "official" else plain_listings
    gold_listings, predicted_listings = listings(gold), listings(predicted)
    recalled, gold_total = _hits(gold_listings, predicted_listings)
    precise, predicted_total = _hits(predicted_listings, gold_listings)
    precision = precise / predicted_total if predicted_total else 0.0
    recall = recalled / gold_total if gold_total else 0.0
    return 100 * (2 * precision * recall) / (precision + recall) if precision + recall else 0.0


def plain_listings(sentences: Sequence[Tags]) -> list[_Listing]:
    """List every entity of every sentence."""
    return [[(begin + 1, end, kind) for kind, begin, end in lenient_entities(tags)] for tags in sentences]


def quirky_listings(sentences: Sequence[Tags]) -> list[_Listing]:
    """List the entities that the challenge's scorer lists, in its order."""
    begin, kind = -1, ""
    listings = []
    for tags in sentences:
        listing: _Listing = []
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


def _hits(listings: Sequence[_Listing], others: Sequence[_Listing]) -> tuple[int, int]:
    """Return the number of entities that the other listing of the same sentence also has, and the number of all entities."""
    pairs = zip(listings, others, strict=True)
    return sum(entity in other for listing, other in pairs for entity in listing), sum(map(len, listings))


WRONG_HEAD = -2
"""Class of the predicted relation of a word whose head is wrong; no gold relation has this number."""

RARE = -3
"""Class of all relations from number ``FIRST_RARE`` on."""

FIRST_RARE = 15
"""KLUE-DP merges its relations from ``VP_CMP`` on, which are 1 % of all, into one class."""


def uas(gold_heads: Sequence[int], predicted_heads: Sequence[int]) -> dict[str, float]:
    """Return ``uas_macro`` and ``uas_micro`` over the words of all sentences."""
    return {"uas_macro": macro_f1(gold_heads, predicted_heads), "uas_micro": accuracy(gold_heads, predicted_heads)}


def las(
    gold_heads: Sequence[int],
    gold_relations: Sequence[int],
    predicted_heads: Sequence[int],
    predicted_relations: Sequence[int],
    mode: Mode,
) -> dict[str, float]:
    """Return ``las_macro`` and ``las_micro``; relations are positions in the official list.

    Official: ``WRONG_HEAD`` is averaged as a class of its own with F1 0, so that a single wrong head lowers las_macro by about
    a seventeenth. Corrected: only over relations.
    """
    gold, predicted = _las_classes(gold_heads, gold_relations, predicted_heads, predicted_relations)
    classes = sorted({*gold, *predicted} - (set() if mode == "official" else {WRONG_HEAD}))
    macro = float(np.mean(class_counts(gold, predicted, classes).f1()) * 100)
    return {"las_macro": macro, "las_micro": accuracy(gold, predicted)}


_LAS_CLASSES = (WRONG_HEAD, RARE, *range(FIRST_RARE))
"""All classes of words in LAS; the corrected mode omits the first."""


def las_counts(
    gold_heads: Sequence[int],
    gold_relations: Sequence[int],
    predicted_heads: Sequence[int],
    predicted_relations: Sequence[int],
    mode: Mode,
) -> Counts:
    """Count right, gold and predicted words of one sentence for each class of ``las``, [3 * classes]."""
    gold, predicted = _las_classes(gold_heads, gold_relations, predicted_heads, predicted_relations)
    return np.concatenate(class_counts(gold, predicted, _LAS_CLASSES if mode == "official" else _LAS_CLASSES[1:]))


def _las_classes(
    gold_heads: Sequence[int],
    gold_relations: Sequence[int],
    predicted_heads: Sequence[int],
    predicted_relations: Sequence[int],
) -> tuple[list[int], list[int]]:
    """Return the gold and the predicted class of each word."""
    gold = [_class(relation) for relation in gold_relations]
    rows = zip(predicted_relations, predicted_heads, gold_heads, strict=True)
    return gold, [_class(relation) if head == gold_head else WRONG_HEAD for relation, head, gold_head in rows]


def _class(relation: int) -> int:
    return relation if relation < FIRST_RARE else RARE


State = Sequence[str]
"""A user's requests, each as ``domain-slot-value``."""


def joint_goal_accuracy(gold: Sequence[State], predicted: Sequence[State]) -> float:
    """Return the share of turns whose whole state is right. Raises ValueError if the two differ in length or are empty."""
    check_lengths(gold, predicted, "joint goal accuracy")
    return sum(set(wanted) == set(given) for wanted, given in zip(gold, predicted, strict=True)) / len(gold) * 100


def slot_micro_f1(gold: Sequence[State], predicted: Sequence[State], mode: Mode) -> float:
    """Return the F1 of the entries of states. Raises ValueError if the two differ in length or are empty.

    Official: despite its name the mean of the turns' F1, in which repeated entries count twice and two empty states have 1.
    Corrected: over the pooled distinct entries of all turns; 0 without any.
    """
    check_lengths(gold, predicted, "slot F1")
    pairs = list(zip(gold, predicted, strict=True))
    if mode == "official":
        return sum(_state_f1(wanted, given) for wanted, given in pairs) / len(pairs) * 100
    right = sum(len(set(wanted) & set(given)) for wanted, given in pairs)
    entries = sum(len(set(wanted)) + len(set(given)) for wanted, given in pairs)
    return 200 * right / entries if entries else 0.0


def _state_f1(gold: State, predicted: State) -> float:
    if not gold:
        return float(not predicted)
    found = sum(entry in predicted for entry in gold)
    wrong = sum(entry not in gold for entry in predicted)
    if not found:
        return 0.0
    # KLUE's order of operations, which decides the last digit.
    precision, recall = found / (found + wrong), found / len(gold)
    return 2 * precision * recall / (precision + recall)
