"""Korean tasks with one label for a sentence or a pair, beside KLUE's: NSMC, paraphrase detection, and Kakao Brain's KorNLU."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from korealbert.documents.benchmark_files import BenchmarkFile
from korealbert.finetune.files import NAME, NUMBER, YEAR, Identifiers, tsv_rows
from korealbert.finetune.metrics import Mode
from korealbert.finetune.metrics.labels import accuracy
from korealbert.finetune.sequence import SequenceClassification, SequenceRegression
from korealbert.finetune.task import PAIR_HEADS, Example, Scores, Task

_NSMC_HEADER = ("id", "document", "label")


class Nsmc(SequenceClassification):
    """NSMC: is a short film review positive? Accuracy on 50,000 test reviews.

    Official files ``ratings_train.txt`` (150,000) and ``ratings_test.txt`` (50,000): ``id<TAB>document<TAB>label``, at most 140
    characters a review. There is no dev set. Three test reviews are empty (nsmc issue 2); they stay, so that the score is over
    all.
    """

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
            for line, (review_id, document, label) in tsv_rows(file, _NSMC_HEADER, forms={"id": NUMBER}, unique="id")
        ]


_PAIR_HEADER = ("question1", "question2", "is_duplicate")


class ParaphraseDetection(SequenceClassification):
    """Paraphrase detection: do two questions ask the same? Accuracy on 758 test pairs.

    Files ``train.txt`` (6,136), ``validation.txt`` (682) and ``test.txt`` (758) of songys/Question_pair. The column is called
    ``is_duplicate``, but 0 means *the same*: 946 pairs are literally identical, and all but two carry 0. Some test questions
    occur in train (2 pairs, 41 questions of 1,401): kept. The older ``kor_pair_*.csv`` is another split and is refused by its
    header.
    """

    title = "PD"
    heads = PAIR_HEADS
    official_test_examples = 758
    origin = "github.com/songys/Question_pair, MIT"
    has_official_dev = True
    labels = ("same", "different")
    spellings = ("0", "1")
    # KoreALBERT, section IV: batch 64 or 128, 3-5 epochs, 2e-5 to 5e-5. The small set gets the long end of that grid.
    defaults = {"epochs": 5, "batch_size": 64, "learning_rate": 5e-5, "max_length": 128}  # noqa: RUF012 - read only

    def read(self, file: BenchmarkFile) -> list[Example]:
        """All pairs; an id is the line number."""
        return [
            Example(str(line.number), first, self.label(label, line=line, field="is_duplicate"), pair=second)
            for line, (first, second, label) in tsv_rows(file, _PAIR_HEADER)
        ]

    def score(self, examples: Sequence[Example], predicted: Sequence[Any], mode: Mode) -> Scores:
        """``accuracy``, and ``accuracy_not_identical`` over the pairs of two different strings."""
        scores = super().score(examples, predicted, mode)
        rows = [(e.target, label) for e, label in zip(examples, predicted, strict=True) if e.text != e.pair]
        if not rows:
            return scores
        gold, labels = zip(*rows, strict=True)
        return Scores({**scores.values, "accuracy_not_identical": accuracy(gold, labels)}, scores.warnings)


_NLI_HEADER = ("sentence1", "sentence2", "gold_label")

_BROKEN_LINE = 24_426
"""Of ``multinli.train.ko.tsv``."""


class KorNli(SequenceClassification):
    """KorNLI: does one sentence follow from another? Accuracy on 5,010 test pairs.

    Official files ``multinli.train.ko.tsv`` and ``snli_1.0_train.ko.tsv`` (942,854 together; concatenate them, one header may
    stay in the middle), ``xnli.dev.ko.tsv`` (2,490) and ``xnli.test.ko.tsv`` (5,010). Sentences carry literal quotes, and
    machine translation left some of a hundred repeated syllables: kept. Line 24,426 of MultiNLI has a tab too many
    (kor-nlu-datasets issue 5), and it is unknown which: that row is left out.
    """

    title = "KorNLI"
    heads = PAIR_HEADS
    official_test_examples = 5_010
    origin = "github.com/kakaobrain/kor-nlu-datasets, CC BY-SA 4.0"
    has_official_dev = True
    labels = ("entailment", "contradiction", "neutral")
    # KoreALBERT, section IV: batch 64 or 128, 3-5 epochs, 2e-5 to 5e-5. The large set gets the short end of that grid.
    defaults = {"epochs": 3, "batch_size": 128, "learning_rate": 5e-5, "max_length": 128}  # noqa: RUF012 - read only

    def read(self, file: BenchmarkFile) -> list[Example]:
        """All pairs but the broken one; an id is the line number."""
        rows = tsv_rows(file, _NLI_HEADER, leave_out=lambda line, fields: line.number == _BROKEN_LINE and len(fields) == 4)
        return [
            Example(str(line.number), premise, self.label(label, line=line, field="gold_label"), pair=hypothesis)
            for line, (premise, hypothesis, label) in rows
            if (premise, hypothesis, label) != _NLI_HEADER
        ]


_STS_HEADER = ("genre", "filename", "year", "id", "score", "sentence1", "sentence2")

_STS_FORMS = {"genre": NAME, "filename": NAME, "year": YEAR, "id": NUMBER}
"""A score is found among other columns too: ids begin at 0000."""


class KorSts(SequenceRegression):
    """KorSTS: how similar are two sentences, from 0 to 5? Spearman's correlation on 1,379 test pairs.

    Official files ``sts-{train,dev,test}.tsv`` (5,749 / 1,500 / 1,379). Sentences carry literal quotes (315 begin with one), 49
    train pairs occur twice, and 3 pairs are in train and dev, 3 in dev and test: kept as they are, for scores to compare.
    """

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
            for line, (*origin, score, first, second) in tsv_rows(file, _STS_HEADER, forms=_STS_FORMS)
        ]


TASKS: dict[str, Task] = {
    "nsmc": Nsmc(),
    "pd": ParaphraseDetection(),
    "kornli": KorNli(),
    "korsts": KorSts(),
}
