"""KorNLI: does one sentence follow from another? Accuracy on 5,010 test pairs.

Official files ``multinli.train.ko.tsv`` and ``snli_1.0_train.ko.tsv`` (942,854 together; concatenate them, one header may stay
in the middle), ``xnli.dev.ko.tsv`` (2,490) and ``xnli.test.ko.tsv`` (5,010). Sentences carry literal quotes, and machine
translation left some of a hundred repeated syllables: kept. Line 24,426 of MultiNLI has a tab too many (kor-nlu-datasets
issue 5), and nothing tells which: that row is left out.
"""

from __future__ import annotations

from korealbert.documents.benchmark_files import BenchmarkFile
from korealbert.finetune.files import tsv_rows
from korealbert.finetune.sequence import SequenceClassification
from korealbert.finetune.task import Example

HEADER = ("sentence1", "sentence2", "gold_label")

BROKEN_LINE = 24_426
"""Of ``multinli.train.ko.tsv``."""


class KorNli(SequenceClassification):
    """Korean natural language inference of KorNLU."""

    title = "KorNLI"
    official_test_examples = 5_010
    origin = "github.com/kakaobrain/kor-nlu-datasets, CC BY-SA 4.0"
    has_official_dev = True
    labels = ("entailment", "contradiction", "neutral")
    # KoreALBERT, section IV: batch 64 or 128, 3-5 epochs, 2e-5 to 5e-5. The large set gets the short end of that grid.
    defaults = {"epochs": 3, "batch_size": 128, "learning_rate": 5e-5, "max_length": 128}  # noqa: RUF012 - read only

    def read(self, file: BenchmarkFile) -> list[Example]:
        """All pairs but the broken one; an id is the line number."""
        rows = tsv_rows(file, HEADER, leave_out=lambda line, fields: line.number == BROKEN_LINE and len(fields) == 4)
        return [
            Example(str(line.number), premise, self.label(label, line=line, field="gold_label"), pair=hypothesis)
            for line, (premise, hypothesis, label) in rows
            if (premise, hypothesis, label) != HEADER
        ]


TASK = KorNli()
