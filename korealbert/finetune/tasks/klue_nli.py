"""KLUE-NLI: does one sentence follow from another? Accuracy on 3,000 dev pairs; the test set is not public.

Official files ``klue-nli-v1.1_{train,dev}.json`` (24,998 / 3,000), a list of objects. The training set is also around as a CSV
file of DACON (``index,premise,hypothesis,label``, in CP949: convert it), to whose 24,998 rows the 3,000 of dev are appended:
those are left out.
"""

from __future__ import annotations

import csv
import itertools
from collections.abc import Iterator

from korealbert.documents.benchmark_files import BenchmarkFile
from korealbert.finetune import klue
from korealbert.finetune.files import json_list
from korealbert.finetune.sequence import SequenceClassification
from korealbert.finetune.task import Example

CSV_HEADER = ["index", "premise", "hypothesis", "label"]

CSV_TRAIN_ROWS = 24_998


class KlueNli(SequenceClassification):
    """Natural language inference of KLUE."""

    title = "KLUE-NLI"
    official_test_examples = 3_000
    origin = klue.ORIGIN
    has_official_dev = False
    labels = ("entailment", "contradiction", "neutral")
    defaults = klue.defaults(epochs=5)

    def read(self, file: BenchmarkFile) -> list[Example]:
        """All pairs; of a CSV file the first 24,998."""
        first = next(file.lines(), None)
        if first is not None and first.text.split(",") == CSV_HEADER:
            return list(self._csv(file))
        return [
            Example(
                item.text("guid"),
                item.text("premise"),
                self.label(item.text("gold_label"), line=item.line, field="gold_label"),
                pair=item.text("hypothesis"),
            )
            for item in json_list(file, unique="guid")
        ]

    def _csv(self, file: BenchmarkFile) -> Iterator[Example]:
        lines = list(file.lines())
        rows = csv.reader((f"{line.text}\n" for line in lines), strict=True)
        next(rows)
        try:
            for number, row in enumerate(itertools.islice(rows, CSV_TRAIN_ROWS)):
                line = lines[rows.line_num - 1]
                if len(row) != len(CSV_HEADER):
                    raise line.error("label", f"{len(row)} fields instead of {len(CSV_HEADER)}", "restore the line")
                if row[0] != str(number):
                    raise line.error("index", f"found {row[0][:40]!r} for row {number}", "restore the line")
                yield Example(row[0], row[1], self.label(row[3], line=line), pair=row[2])
        except csv.Error as error:
            raise lines[rows.line_num - 1].error("record", f"no CSV ({error})", "restore the quotation marks") from error


TASK = KlueNli()
