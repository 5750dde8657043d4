"""KLUE-STS: how alike are two sentences, from 0 to 5? Pearson's correlation and F1 on 519 dev pairs; test is not public.

Official files ``klue-sts-v1.1_{train,dev}.json`` (11,668 / 519). The target is ``labels.real-label``; the F1 asks both sides
whether they reach 3, which on dev is ``labels.binary-label`` (220 do, 299 do not).
"""

from __future__ import annotations

from collections.abc import Sequence

from korealbert.documents.benchmark_files import BenchmarkFile
from korealbert.finetune import klue
from korealbert.finetune.files import json_list
from korealbert.finetune.metrics.classification import binary_f1
from korealbert.finetune.metrics.correlation import pearson, spearman
from korealbert.finetune.sequence import SequenceRegression
from korealbert.finetune.task import Example

THRESHOLD = 3
"""From this score on two sentences count as paraphrases."""


def threshold_f1(gold: Sequence[float], predicted: Sequence[float]) -> float:
    """F1 of paraphrases, times 100."""
    return binary_f1([int(score >= THRESHOLD) for score in gold], [int(score >= THRESHOLD) for score in predicted])


class KlueSts(SequenceRegression):
    """Semantic textual similarity of KLUE."""

    title = "KLUE-STS"
    official_test_examples = 519
    origin = klue.ORIGIN
    has_official_dev = False
    metric = "pearson"
    measures = {"pearson": pearson, "f1": threshold_f1, "spearman": spearman}  # noqa: RUF012 - read only
    defaults = klue.defaults(epochs=4)

    def read(self, file: BenchmarkFile) -> list[Example]:
        """All pairs; an id is ``guid``."""
        return [
            Example(
                item.text("guid"),
                item.text("sentence1"),
                self.gold_score(str(item.record("labels").number("real-label")), line=item.line),
                pair=item.text("sentence2"),
            )
            for item in json_list(file, unique="guid")
        ]


TASK = KlueSts()
