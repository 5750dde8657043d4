"""Error analysis: the predicted labels of each gold label, the confusion matrix, and the hardest examples.

It follows Tables 8-10 of the Language Chameleon paper: STS distinguishes scores of at least 3, NER counts characters without
spaces and merges ``B`` and ``I``, RE lists the four most frequent predictions of each relation.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from korealbert.finetune.task import Example, Task

_HARDEST = 20
"""Number of shown examples with the largest loss."""

_MAX_SHOWN_CHARACTERS = 500
"""Longer texts of examples are cut."""

Distribution = dict[str, dict[str, int]]


def predicted_by_gold(gold: Sequence[str], pred: Sequence[str]) -> Distribution:
    """Count the predicted labels of each gold label, most frequent first, equal counts by name; gold labels are sorted.

    Raises ValueError if the lists differ in length.
    """
    if len(gold) != len(pred):
        raise ValueError(f"{len(gold):,} gold labels and {len(pred):,} predicted ones; give one prediction for each")
    counted: dict[str, Counter[str]] = {}
    for wanted, given in zip(gold, pred, strict=True):
        counted.setdefault(wanted, Counter())[given] += 1
    return {
        label: dict(sorted(counts.items(), key=lambda item: (-item[1], item[0]))) for label, counts in sorted(counted.items())
    }


def confusion(distribution: Distribution) -> dict[str, Any]:
    """Return the counts as a matrix: ``labels``, and ``counts`` with a row per gold and a column per predicted label."""
    labels = sorted({*distribution, *(label for row in distribution.values() for label in row)})
    rows = [[distribution.get(gold, {}).get(pred, 0) for pred in labels] for gold in labels]
    return {"labels": labels, "counts": rows}


def f1_of(distribution: Distribution, label: str) -> float:
    """Return the F1 of one label, times 100; 0 if it is neither gold nor predicted."""
    right = distribution.get(label, {}).get(label, 0)
    gold = sum(distribution.get(label, {}).values())
    predicted = sum(row.get(label, 0) for row in distribution.values())
    return 200.0 * right / (gold + predicted) if gold + predicted else 0.0


def analysis(task: Task, examples: Sequence[Example], predicted: Sequence[Any], losses: Sequence[float]) -> Mapping[str, Any]:
    """Return the content of ``analysis.json``.

    Its fields are ``unit`` (of the counts), ``dist``, ``listed`` (how many predictions per gold label a table shows; None:
    all), ``confusion``, and ``hardest`` (the examples with the largest loss).
    """
    labels = [task.labelled(example, value) for example, value in zip(examples, predicted, strict=True)]
    gold, pred = ([label for pair in labels for label in pair[side]] for side in (0, 1))
    distribution = predicted_by_gold(gold, pred)
    order = sorted(range(len(examples)), key=lambda index: (-losses[index], index))[:_HARDEST]
    return {
        "unit": task.counted,
        "dist": distribution,
        "listed": task.listed,
        "confusion": confusion(distribution),
        "hardest": [
            {
                "id": examples[index].id,
                "text": _shown(examples[index].text),
                "pair": _shown(examples[index].pair),
                "gold": task.stored(examples[index].target),
                "pred": task.stored(predicted[index]),
                "loss": round(losses[index], 6),
            }
            for index in order
        ],
    }


def _shown(text: str | None) -> str | None:
    return text if text is None or len(text) <= _MAX_SHOWN_CHARACTERS else f"{text[:_MAX_SHOWN_CHARACTERS]}…"
