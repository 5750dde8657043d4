"""Error analysis: which labels are predicted for each gold label, the confusion matrix, and the hardest examples.

As the Language Chameleon paper shows it (Tables 8-10): STS asks both sides whether they reach 3, NER counts characters without
spaces and merges ``B`` and ``I``, RE lists the four most frequent predictions of each relation.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from korealbert.finetune.task import Example, Task

_HARDEST = 20
"""So many examples with the largest loss are shown."""

_MAX_SHOWN_CHARACTERS = 500
"""Longer texts of examples are cut; the official file has them whole."""

Distribution = dict[str, dict[str, int]]


def dist(gold: Sequence[str], pred: Sequence[str]) -> Distribution:
    """For each gold label the predicted ones with their counts, most frequent first; gold labels in order of their names.

    Equal counts are in order of their names. The counts of a gold label add up to its total. Raises ValueError when the lists
    differ in length.
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
    """The same counts as a matrix: ``labels``, and ``counts`` with a row for each gold, a column for each predicted label."""
    labels = sorted({*distribution, *(label for row in distribution.values() for label in row)})
    rows = [[distribution.get(gold, {}).get(pred, 0) for pred in labels] for gold in labels]
    return {"labels": labels, "counts": rows}


def f1_of(distribution: Distribution, label: str) -> float:
    """F1 of one label, times 100; 0 where it is neither gold nor predicted."""
    right = distribution.get(label, {}).get(label, 0)
    gold = sum(distribution.get(label, {}).values())
    predicted = sum(row.get(label, 0) for row in distribution.values())
    return 200.0 * right / (gold + predicted) if gold + predicted else 0.0


def analysis(task: Task, examples: Sequence[Example], predicted: Sequence[Any], losses: Sequence[float]) -> Mapping[str, Any]:
    """The content of ``analysis.json``.

    ``unit`` (of the counts), ``dist``, ``listed`` (how many predictions of a gold label a table shows; None: all),
    ``confusion``, and ``hardest``: the examples with the largest loss, with ``id``, ``text``, ``pair``, ``gold``, ``pred`` and
    ``loss``.
    """
    labels = [task.labelled(example, value) for example, value in zip(examples, predicted, strict=True)]
    gold, pred = ([label for pair in labels for label in pair[side]] for side in (0, 1))
    distribution = dist(gold, pred)
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
                "gold": task.kept(examples[index].target),
                "pred": task.kept(predicted[index]),
                "loss": round(losses[index], 6),
            }
            for index in order
        ],
    }


def _shown(text: str | None) -> str | None:
    return text if text is None or len(text) <= _MAX_SHOWN_CHARACTERS else f"{text[:_MAX_SHOWN_CHARACTERS]}…"
