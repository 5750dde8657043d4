"""QQP: do two English questions ask the same? Accuracy and F1 on 40,430 dev pairs.

Official files ``QQP/{train,dev}.tsv`` (363,846 / 40,430). A few rows lack fields; GLUE's own readers leave them out.
"""

from __future__ import annotations

from korealbert.documents.benchmark_files import BenchmarkFile
from korealbert.finetune.files import NUMBER, tsv_rows
from korealbert.finetune.glue import GlueClassification
from korealbert.finetune.metrics.classification import accuracy, binary_f1
from korealbert.finetune.task import Example


class Qqp(GlueClassification):
    """Quora question pairs."""

    title = "QQP"
    official_test_examples = 40_430
    labels = ("different", "same")
    spellings = ("0", "1")
    measures = {"accuracy": accuracy, "f1": binary_f1}  # noqa: RUF012 - read only
    header = ("id", "qid1", "qid2", "question1", "question2", "is_duplicate")
    sentences = ("question1", "question2")
    label_column = "is_duplicate"
    forms = dict.fromkeys(("id", "qid1", "qid2"), NUMBER)

    def read(self, file: BenchmarkFile) -> list[Example]:
        """All pairs that have all six fields; an id is the line number."""
        rows = tsv_rows(file, self.header, leave_out=lambda line, fields: len(fields) < len(self.header), forms=self.forms)
        return [
            Example(str(line.number), first, self.label(label, line=line, field=self.label_column), pair=second)
            for line, (_, _, _, first, second, label) in rows
        ]


TASK = Qqp()
