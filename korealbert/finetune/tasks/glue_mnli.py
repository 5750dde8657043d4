"""MNLI-m: does one English sentence follow from another? Accuracy on 9,815 dev pairs from the genres of train.

Official files ``MNLI/train.tsv`` (392,702; 12 columns) and ``MNLI/dev_matched.tsv`` (9,815; 16 columns, five annotators).
"""

from __future__ import annotations

from korealbert.documents.benchmark_files import BenchmarkFile
from korealbert.finetune import glue
from korealbert.finetune.files import NUMBER, tsv_rows
from korealbert.finetune.sequence import SequenceClassification
from korealbert.finetune.task import Example

COMMON = (
    *("index", "promptID", "pairID", "genre", "sentence1_binary_parse", "sentence2_binary_parse"),
    *("sentence1_parse", "sentence2_parse", "sentence1", "sentence2", "label1"),
)
TRAIN_HEADER = (*COMMON, "gold_label")
DEV_HEADER = (*COMMON, "label2", "label3", "label4", "label5", "gold_label")


class Mnli(SequenceClassification):
    """Multi-genre natural language inference, tested on the genres of train."""

    title = "MNLI-m"
    official_test_examples = 9_815
    origin = glue.ORIGIN
    has_official_dev = False
    labels = ("entailment", "contradiction", "neutral")
    defaults = glue.defaults(dropout=0.3)

    def read(self, file: BenchmarkFile) -> list[Example]:
        """All pairs of train or dev; an id is ``pairID``."""
        first = next(file.lines(), None)
        is_train = first is not None and first.text.count("\t") + 1 == len(TRAIN_HEADER)
        header = TRAIN_HEADER if is_train else DEV_HEADER
        return [
            Example(fields[2], fields[8], self.label(fields[-1], line=line, field="gold_label"), pair=fields[9])
            for line, fields in tsv_rows(file, header, forms={"index": NUMBER}, unique="index")
        ]


TASK = Mnli()
