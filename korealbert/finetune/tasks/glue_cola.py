"""CoLA: is an English sentence acceptable? Matthews' correlation on 1,043 dev sentences, of which 69.13 % are.

Official files ``CoLA/{train,dev}.tsv`` (8,551 / 1,043) without a header: source, label, the author's mark, sentence.
"""

from __future__ import annotations

from korealbert.documents.benchmark_files import BenchmarkFile
from korealbert.finetune import glue
from korealbert.finetune.metrics.classification import accuracy, mcc
from korealbert.finetune.sequence import SequenceClassification
from korealbert.finetune.task import Example

MARKS = ("", "*", "?", "??", "*?", "?*")
"""Of the author of the source; empty at what is acceptable."""

COLUMNS = ("source", "label", "mark", "sentence")


class Cola(SequenceClassification):
    """Corpus of linguistic acceptability."""

    title = "CoLA"
    official_test_examples = 1_043
    origin = glue.ORIGIN
    has_official_dev = False
    labels = ("unacceptable", "acceptable")
    spellings = ("0", "1")
    metric = "mcc"
    measures = {"mcc": mcc, "accuracy": accuracy}  # noqa: RUF012 - read only
    defaults = glue.defaults(dropout=0.05)

    def read(self, file: BenchmarkFile) -> list[Example]:
        """All sentences; an id is the line number."""
        examples = []
        for line in file.lines():
            fields = line.text.split("\t")
            if len(fields) != len(COLUMNS):
                problem = f"{len(fields)} fields instead of {len(COLUMNS)}"
                raise line.error(COLUMNS[min(len(fields), 4) - 1], problem, "give train.tsv or dev.tsv as GLUE has it")
            if fields[2].strip() not in MARKS:
                problem = f"found {fields[2][:40]!r} where the author's mark stands"
                raise line.error("mark", problem, "the columns have moved; restore the line from the official file")
            examples.append(Example(str(line.number), fields[3], self.label(fields[1], line=line)))
        return examples


TASK = Cola()
