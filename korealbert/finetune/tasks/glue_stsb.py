"""STS-B: how alike are two English sentences, from 0 to 5? Pearson's and Spearman's correlation on 1,500 dev pairs.

Official files ``STS-B/{train,dev}.tsv`` (5,749 / 1,500), the score last.
"""

from __future__ import annotations

from korealbert.documents.benchmark_files import BenchmarkFile
from korealbert.finetune import glue
from korealbert.finetune.files import NAME, NUMBER, YEAR, tsv_rows
from korealbert.finetune.metrics.correlation import pearson, spearman
from korealbert.finetune.sequence import SequenceRegression
from korealbert.finetune.task import Example

HEADER = (
    *("index", "genre", "filename", "year", "old_index", "source1", "source2"),
    *("sentence1", "sentence2", "score"),
)

FORMS = {"index": NUMBER, "genre": NAME, "filename": NAME, "year": YEAR, "old_index": NUMBER}


class StsB(SequenceRegression):
    """Semantic textual similarity benchmark."""

    title = "STS-B"
    official_test_examples = 1_500
    origin = glue.ORIGIN
    has_official_dev = False
    metric = "pearson"
    measures = {"pearson": pearson, "spearman": spearman}  # noqa: RUF012 - read only
    defaults = glue.defaults()

    def read(self, file: BenchmarkFile) -> list[Example]:
        """All pairs; an id is the line number."""
        return [
            Example(str(line.number), first, self.gold_score(score, line=line), pair=second)
            for line, (*_, first, second, score) in tsv_rows(file, HEADER, forms=FORMS, unique="index")
        ]


TASK = StsB()
