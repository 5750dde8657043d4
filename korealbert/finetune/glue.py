"""What the tasks of GLUE share: TSV files with literal quotes, and the settings of the Language Chameleon paper.

Scores are those of dev: the answers of the test sets are not public. Test files have no label and are refused by their header.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from korealbert.documents.benchmark_files import BenchmarkFile
from korealbert.finetune.files import NUMBER, Form, tsv_rows
from korealbert.finetune.sequence import SequenceClassification
from korealbert.finetune.task import Example

ORIGIN = "gluebenchmark.com; each task has its own licence"

ENTAILMENT = ("entailment", "not_entailment")


def defaults(**other: float) -> Mapping[str, int | float]:
    """Fields of the fine-tuning spec: 5 epochs, batch 64, 5e-5 (Language Chameleon), of which ``other`` replaces some."""
    return {"epochs": 5, "batch_size": 64, "learning_rate": 5e-5, "max_length": 128, **other}


class GlueClassification(SequenceClassification):
    """A GLUE task whose columns have names: a sentence or two, and a label."""

    origin = ORIGIN
    has_official_dev = False
    defaults = defaults()
    header: ClassVar[tuple[str, ...]]
    sentences: ClassVar[tuple[str, ...]]
    """Columns of the sentence, or of the two."""
    label_column: ClassVar[str] = "label"
    forms: ClassVar[Mapping[str, Form]] = {"index": NUMBER}
    """What columns look like, as far as the header has them."""

    def read(self, file: BenchmarkFile) -> list[Example]:
        """All examples; an id is the line number."""
        return [
            self.example(str(line.number), row, self.label(row[self.label_column], line=line, field=self.label_column))
            for line, fields in tsv_rows(file, self.header, forms=self.forms, unique="index")
            for row in [dict(zip(self.header, fields, strict=True))]
        ]

    def example(self, example_id: str, row: Mapping[str, str], target: int) -> Example:
        """The example of a row."""
        first, *second = (row[name] for name in self.sentences)
        return Example(example_id, first, target, pair=second[0] if second else None)
