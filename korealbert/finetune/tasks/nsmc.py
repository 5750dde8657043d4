"""NSMC: is a short film review positive? Accuracy on 50,000 test reviews.

Official files ``ratings_train.txt`` (150,000) and ``ratings_test.txt`` (50,000): ``id<TAB>document<TAB>label``, at most 140
characters a review. There is no dev set. Three test reviews are empty (nsmc issue 2); they stay, so that the score is over all.
"""

from __future__ import annotations

from korealbert.documents.benchmark_files import BenchmarkFile
from korealbert.finetune.files import NUMBER, tsv_rows
from korealbert.finetune.sequence import SequenceClassification
from korealbert.finetune.task import Example, Task

_HEADER = ("id", "document", "label")


class Nsmc(SequenceClassification):
    """Naver sentiment movie corpus."""

    title = "NSMC"
    official_test_examples = 50_000
    origin = "github.com/e9t/nsmc, CC0 1.0"
    has_official_dev = False
    labels = ("negative", "positive")
    spellings = ("0", "1")
    # KoreALBERT, section IV: batch 64 or 128, 3-5 epochs, 2e-5 to 5e-5. The large set gets the short end of that grid.
    defaults = {"epochs": 3, "batch_size": 128, "learning_rate": 5e-5, "max_length": 128}  # noqa: RUF012 - read only

    def read(self, file: BenchmarkFile) -> list[Example]:
        """All reviews, the empty ones too."""
        return [
            Example(review_id, document, self.label(label, line=line))
            for line, (review_id, document, label) in tsv_rows(file, _HEADER, forms={"id": NUMBER}, unique="id")
        ]


TASKS: dict[str, Task] = {"nsmc": Nsmc()}
