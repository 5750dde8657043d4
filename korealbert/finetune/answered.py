"""A system's answers to a benchmark as statistics take them: all draws at once where the metric allows, else one by one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from korealbert.finetune.metrics import Mode
from korealbert.finetune.resampling import Answered, Counts, Masks, Values
from korealbert.finetune.statistics import mcnemar
from korealbert.finetune.task import Example, Task


@dataclass(frozen=True)
class Whole:
    """Answers of whose score nothing is known: it is computed anew for every draw."""

    task: Task
    examples: Sequence[Example]
    predicted: Sequence[Any]
    mode: Mode

    def over(self, counts_NB: Counts) -> Values:
        """See ``Answered``."""
        numbers = np.arange(len(self.examples))
        samples = (np.repeat(numbers, counts_N.astype(np.int64)).tolist() for counts_N in counts_NB.T)
        return np.array([self.score([self.examples[n] for n in rows], [self.predicted[n] for n in rows]) for rows in samples])

    def parted(self, masks_NB: Masks) -> PartedAnswers:
        """See ``Answered``."""
        return PartedAnswers(self, masks_NB)

    def score(self, examples: Sequence[Example], predicted: Sequence[Any]) -> float:
        """The task's own metric."""
        return self.task.score(examples, predicted, self.mode).values[self.task.metric]


@dataclass(frozen=True)
class PartedAnswers:
    """Answers of which those marked True are another's."""

    whole: Whole
    masks_NB: Masks

    def completed(self, other: PartedAnswers) -> Values:
        """See ``Half``."""
        pairs = list(zip(self.whole.predicted, other.whole.predicted, strict=True))
        mixed = (
            [theirs if swap else ours for swap, (ours, theirs) in zip(mask, pairs, strict=True)] for mask in self.masks_NB.T
        )
        return np.array([self.whole.score(self.whole.examples, predicted) for predicted in mixed])


def answered(task: Task, examples: Sequence[Example], predicted: Sequence[Any], mode: Mode) -> Answered:
    """The answers as far as the task's own metric depends on them."""
    return task.answered(examples, predicted, mode) or Whole(task, examples, predicted, mode)


def mcnemar_of(examples: Sequence[Example], first: Sequence[Any], second: Sequence[Any]) -> float:
    """The p-value of McNemar's exact test between two lists of predicted classes."""
    return mcnemar(*([e.target == p for e, p in zip(examples, predicted, strict=True)] for predicted in (first, second)))
