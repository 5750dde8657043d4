"""Paraphrase detection: do two questions ask the same? Accuracy on 758 test pairs.

Files ``train.txt`` (6,136), ``validation.txt`` (682) and ``test.txt`` (758) of songys/Question_pair. The column is called
``is_duplicate``, but 0 means *the same*: 946 pairs are literally identical, and all but two carry 0. Some test questions stand
in train (2 pairs, 41 questions of 1,401): kept. The older ``kor_pair_*.csv`` is another split and is refused by its header.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from korealbert.documents.benchmark_files import BenchmarkFile
from korealbert.finetune.files import tsv_rows
from korealbert.finetune.metrics import Mode
from korealbert.finetune.metrics.classification import accuracy
from korealbert.finetune.sequence import SequenceClassification
from korealbert.finetune.task import Example, Scores, Task

_HEADER = ("question1", "question2", "is_duplicate")


class ParaphraseDetection(SequenceClassification):
    """Korean question pairs."""

    title = "PD"
    official_test_examples = 758
    origin = "github.com/songys/Question_pair, MIT"
    has_official_dev = True
    labels = ("same", "different")
    spellings = ("0", "1")
    # KoreALBERT, section IV: batch 64 or 128, 3-5 epochs, 2e-5 to 5e-5. The small set gets the long end of that grid.
    defaults = {"epochs": 5, "batch_size": 64, "learning_rate": 5e-5, "max_length": 128}  # noqa: RUF012 - read only

    def read(self, file: BenchmarkFile) -> list[Example]:
        """All pairs; an id is the line number."""
        return [
            Example(str(line.number), first, self.label(label, line=line, field="is_duplicate"), pair=second)
            for line, (first, second, label) in tsv_rows(file, _HEADER)
        ]

    def score(self, examples: Sequence[Example], predicted: Sequence[Any], mode: Mode) -> Scores:
        """``accuracy``, and ``accuracy_not_identical`` over the pairs of two different strings."""
        scores = super().score(examples, predicted, mode)
        rows = [(e.target, label) for e, label in zip(examples, predicted, strict=True) if e.text != e.pair]
        if not rows:
            return scores
        gold, labels = zip(*rows, strict=True)
        return Scores({**scores.values, "accuracy_not_identical": accuracy(gold, labels)}, scores.warnings)


TASKS: dict[str, Task] = {"pd": ParaphraseDetection()}
