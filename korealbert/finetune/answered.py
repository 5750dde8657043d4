"""A system's answers to a benchmark as statistics take them: by sums where the metric allows, else scored anew each time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from korealbert.finetune.metrics import Mode
from korealbert.finetune.statistics import Answered, Mask, Rows, mcnemar
from korealbert.finetune.task import Example, Task


@dataclass(frozen=True)
class Whole:
    """Answers whose score is no function of sums: it is computed anew for every draw."""

    task: Task
    examples: Sequence[Example]
    predicted: Sequence[Any]
    mode: Mode

    def over(self, rows: Rows) -> float:
        """See ``Answered``."""
        return self._score([self.examples[row] for row in rows], [self.predicted[row] for row in rows])

    def exchanged(self, other: Any, mask: Mask) -> float:
        """See ``Answered``."""
        chosen = zip(mask, self.predicted, other.predicted, strict=True)
        return self._score(self.examples, [theirs if swap else ours for swap, ours, theirs in chosen])

    def _score(self, examples: Sequence[Example], predicted: Sequence[Any]) -> float:
        return self.task.score(examples, predicted, self.mode).values[self.task.metric]


def answered(task: Task, examples: Sequence[Example], predicted: Sequence[Any], mode: Mode) -> Any:
    """The answers as far as the task's own metric depends on them."""
    answers: Answered = task.additive(examples, predicted, mode) or Whole(task, examples, predicted, mode)
    return answers


def mcnemar_of(examples: Sequence[Example], first: Sequence[Any], second: Sequence[Any]) -> float:
    """The p-value of McNemar's exact test between two lists of predicted classes."""
    return mcnemar(*([e.target == p for e, p in zip(examples, predicted, strict=True)] for predicted in (first, second)))
