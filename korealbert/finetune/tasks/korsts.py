"""KorSTS: how alike are two sentences, from 0 to 5? Spearman's correlation on 1,379 test pairs.

Official files ``sts-{train,dev,test}.tsv`` (5,749 / 1,500 / 1,379). Sentences carry literal quotes (315 begin with one), 49
train pairs occur twice, and 3 pairs are in train and dev, 3 in dev and test: kept as they are, for scores to compare.
"""

from __future__ import annotations

from korealbert.documents.benchmark_files import BenchmarkFile
from korealbert.finetune.files import NAME, NUMBER, YEAR, Identifiers, tsv_rows
from korealbert.finetune.sequence import SequenceRegression
from korealbert.finetune.task import Example

HEADER = ("genre", "filename", "year", "id", "score", "sentence1", "sentence2")

FORMS = {"genre": NAME, "filename": NAME, "year": YEAR, "id": NUMBER}
"""A score is found among other columns too: ids begin at 0000."""


class KorSts(SequenceRegression):
    """Korean semantic textual similarity of KorNLU."""

    title = "KorSTS"
    official_test_examples = 1_379
    origin = "github.com/kakaobrain/kor-nlu-datasets, CC BY-SA 4.0"
    has_official_dev = True
    # KoreALBERT, section IV: batch 64 or 128, 3-5 epochs, 2e-5 to 5e-5. The small set gets the long end of that grid.
    defaults = {"epochs": 5, "batch_size": 64, "learning_rate": 5e-5, "max_length": 128}  # noqa: RUF012 - read only

    def read(self, file: BenchmarkFile) -> list[Example]:
        """All pairs; an id is ``genre/filename/year/id``, which is unique within a file."""
        seen = Identifiers()
        return [
            Example(seen.once("/".join(origin), line=line, field="id"), first, self.gold_score(score, line=line), pair=second)
            for line, (*origin, score, first, second) in tsv_rows(file, HEADER, forms=FORMS)
        ]


TASK = KorSts()
