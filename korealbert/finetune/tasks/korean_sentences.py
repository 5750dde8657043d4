"""Korean tasks with one label for a sentence or a pair, other than KLUE's and KoBEST's.

NSMC, paraphrase detection, Kakao Brain's KorNLU, PAWS-X, hate speech and bias of news comments, and intents of utterances.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from korealbert.documents.benchmark_files import BenchmarkFile
from korealbert.finetune.metrics import Mode
from korealbert.finetune.metrics.labels import accuracy, binary_f1, macro_f1
from korealbert.finetune.records import NAME, NUMBER, YEAR, Identifiers, check_width, parts, tsv_rows
from korealbert.finetune.task import PAIR_HEADS, Example, Scores, Task
from korealbert.finetune.task_types.sequence import (
    SequenceClassification,
    SequenceRegression,
    TableClassification,
    with_accuracy,
)

_OF_LARGE_SETS = {"epochs": 3, "batch_size": 128, "learning_rate": 5e-5, "max_length": 128}
_OF_SMALL_SETS = {"epochs": 5, "batch_size": 64, "learning_rate": 5e-5, "max_length": 128}
"""Settings of both ends of the grid of KoreALBERT, section IV: batch 64 or 128, 3-5 epochs, 2e-5 to 5e-5."""


class Nsmc(TableClassification):
    """NSMC: is a short film review positive? Accuracy on 50,000 test reviews.

    Official files ``ratings_train.txt`` (150,000) and ``ratings_test.txt`` (50,000): ``id<TAB>document<TAB>label``, at most 140
    characters a review. There is no dev set. Three test reviews are empty (nsmc issue 2); they are kept, since the score is
    over all reviews.
    """

    title = "NSMC"
    official_test_examples = 50_000
    origin = "github.com/e9t/nsmc, CC0 1.0"
    has_official_dev = False
    labels = ("negative", "positive")
    spellings = ("0", "1")
    defaults = _OF_LARGE_SETS
    header = ("id", "document", "label")
    sentences = ("document",)
    forms = dict.fromkeys(("id",), NUMBER)
    unique = id_column = "id"


class ParaphraseDetection(TableClassification):
    """Paraphrase detection: do two questions ask the same? Accuracy on 758 test pairs.

    Files ``train.txt`` (6,136), ``validation.txt`` (682) and ``test.txt`` (758) of songys/Question_pair, which KoELECTRA's
    ``question-pair/{train,dev,test}.tsv`` repeat byte for byte. Despite the column's name, ``is_duplicate``, 0 means *the
    same*: 946 pairs are literally identical, and all but two of them have 0. Some test questions occur in train (2 pairs, 41
    questions of 1,401) and are kept. The older ``kor_pair_*.csv`` is another split and is refused by its header.
    """

    title = "PD"
    heads = PAIR_HEADS
    official_test_examples = 758
    others = ("accuracy_not_identical",)
    origin = "github.com/songys/Question_pair, MIT"
    has_official_dev = True
    labels = ("same", "different")
    spellings = ("0", "1")
    defaults = _OF_SMALL_SETS
    header = ("question1", "question2", "is_duplicate")
    sentences = ("question1", "question2")
    label_column = "is_duplicate"

    def score(self, examples: Sequence[Example], predicted: Sequence[Any], mode: Mode) -> Scores:
        """Compute ``accuracy``, and ``accuracy_not_identical`` over the pairs of two different strings."""
        scores = super().score(examples, predicted, mode)
        rows = [(e.target, label) for e, label in zip(examples, predicted, strict=True) if e.text != e.pair]
        return with_accuracy(scores, "accuracy_not_identical", rows)


_NLI_HEADER = ("sentence1", "sentence2", "gold_label")

_BROKEN_LINE = 24_426
"""Line of ``multinli.train.ko.tsv``."""


class KorNli(SequenceClassification):
    """KorNLI: does one sentence follow from another? Accuracy on 5,010 test pairs.

    Official files ``multinli.train.ko.tsv`` and ``snli_1.0_train.ko.tsv`` (942,854 together; give their directory, or a file
    with both), ``xnli.dev.ko.tsv`` (2,490) and ``xnli.test.ko.tsv`` (5,010). Quotes are literal. Machine translation made some
    sentences of a hundred repeated syllables, which are kept. Line 24,426 of MultiNLI has one tab too many (kor-nlu-datasets
    issue 5) and is left out, since it is unknown which one.
    """

    title = "KorNLI"
    heads = PAIR_HEADS
    official_test_examples = 5_010
    origin = "github.com/kakaobrain/kor-nlu-datasets, CC BY-SA 4.0"
    directories = frozenset({"train"})
    has_official_dev = True
    labels = ("entailment", "contradiction", "neutral")
    defaults = _OF_LARGE_SETS

    def read(self, file: BenchmarkFile) -> list[Example]:
        """Read all pairs but the broken one. An id is the line number, in a directory ``FILE:LINE``."""
        found, files = parts(file, "*train.ko.tsv"), dict[str, BenchmarkFile]()
        for part in found:
            if files.setdefault(part.path.name, part) is not part:
                raise ValueError(f"{part}: {files[part.path.name]} has the same name; keep one of the two")
        return [example for part in found for example in self._pairs(part, named=part is not file)]

    def _pairs(self, file: BenchmarkFile, *, named: bool) -> list[Example]:
        rows = tsv_rows(file, _NLI_HEADER, leave_out=lambda line, fields: line.number == _BROKEN_LINE and len(fields) == 4)
        prefix = f"{file.path.name}:" if named else ""
        return [
            Example(f"{prefix}{line.number}", premise, self.label(label, line=line, field="gold_label"), pair=hypothesis)
            for line, (premise, hypothesis, label) in rows
            if (premise, hypothesis, label) != _NLI_HEADER
        ]


_STS_HEADER = ("genre", "filename", "year", "id", "score", "sentence1", "sentence2")

_STS_FORMS = {"genre": NAME, "filename": NAME, "year": YEAR, "id": NUMBER}
"""``score`` has no form, because any number would match it: ids begin at 0000."""


class KorSts(SequenceRegression):
    """KorSTS: how similar are two sentences, from 0 to 5? Spearman's correlation on 1,379 test pairs.

    Official files ``sts-{train,dev,test}.tsv`` (5,749 / 1,500 / 1,379). Quotes are literal (315 sentences begin with one). 49
    train pairs occur twice, 3 pairs are in train and dev, and 3 in dev and test; all are kept, so that scores are comparable.
    """

    title = "KorSTS"
    id_fields = ("genre + filename + year + id",)
    official_test_examples = 1_379
    origin = "github.com/kakaobrain/kor-nlu-datasets, CC BY-SA 4.0"
    has_official_dev = True
    defaults = _OF_SMALL_SETS

    def read(self, file: BenchmarkFile) -> list[Example]:
        """Read all pairs; an id is ``genre/filename/year/id``, which is unique within a file."""
        seen = Identifiers()
        return [
            Example(seen.once("/".join(origin), line=line, field="id"), first, self.gold_score(score, line=line), pair=second)
            for line, (*origin, score, first, second) in tsv_rows(file, _STS_HEADER, forms=_STS_FORMS)
        ]


def _koelectra_defaults(epochs: int, learning_rate: float = 5e-5) -> Mapping[str, int | float]:
    """Return fields of the fine-tuning spec as in KoELECTRA's finetune/config for base models: no warm-up and no decay."""
    common = {"batch_size": 32, "max_length": 128, "warmup_ratio": 0.0, "weight_decay": 0.0}
    return {"epochs": epochs, "learning_rate": learning_rate, **common}


_UNTRANSLATED = "NS"
"""Placeholder in dev and test for an untranslated sentence (google-research-datasets/paws, issue 15)."""


class PawsX(TableClassification):
    """PAWS-X, Korean part: do two sentences of almost the same words mean the same? Accuracy on 2,000 test pairs.

    Files ``translated_train.tsv`` (49,401, machine-translated), ``dev_2k.tsv`` and ``test_2k.tsv`` (2,000 each) of
    ``x-final/ko``. In 35 pairs of dev and 28 of test a sentence is ``NS``, untranslated, and the label is 0. The authors count
    1,965 and 1,972 pairs without them, but KoELECTRA's scores are over all, so they are kept. Quotes are literal. Train pairs
    with an empty sentence, which KoELECTRA leaves out, are kept too.
    """

    title = "PAWS-X ko"
    heads = PAIR_HEADS
    official_test_examples = 2_000
    others = ("accuracy_translated",)
    origin = "github.com/google-research-datasets/paws (pawsx), free for any purpose"
    has_official_dev = True
    labels = ("different", "same")
    spellings = ("0", "1")
    defaults = _koelectra_defaults(15, 3e-5)
    header = ("id", "sentence1", "sentence2", "label")
    sentences = ("sentence1", "sentence2")
    forms = dict.fromkeys(("id",), NUMBER)
    unique = id_column = "id"

    def score(self, examples: Sequence[Example], predicted: Sequence[Any], mode: Mode) -> Scores:
        """Compute ``accuracy``, and ``accuracy_translated`` over the pairs without ``NS``."""
        scores = super().score(examples, predicted, mode)
        pairs = zip(examples, predicted, strict=True)
        rows = [(e.target, label) for e, label in pairs if _UNTRANSLATED not in (e.text, e.pair)]
        return with_accuracy(scores, "accuracy_translated", rows)


class _NewsComments(TableClassification):
    """Comments on entertainment news with three labels each (Moon et al. 2020, BEEP!). Scores on 471 dev comments.

    Official files ``labeled/{train,dev}.tsv`` (7,896 / 471); only Kaggle has the labels of the 974 test comments. Quotes are
    literal.
    """

    official_test_examples = 471
    origin = "github.com/kocohub/korean-hate-speech, CC BY-SA 4.0"
    has_official_dev = False
    header = ("comments", "contain_gender_bias", "bias", "hate")
    sentences = ("comments",)
    metric = "macro_f1"
    measures = {"macro_f1": macro_f1, "accuracy": accuracy}  # noqa: RUF012 - read only
    defaults = _koelectra_defaults(10)


class HateSpeech(_NewsComments):
    """Is a comment hateful, offensive or neither? Macro F1. KoELECTRA selects on the 471 comments on which it is scored."""

    title = "Korean hate speech"
    label_column = "hate"
    labels = ("none", "offensive", "hate")


class SocialBias(_NewsComments):
    """Is a comment biased by gender, otherwise, or not? Macro F1."""

    title = "Korean social bias"
    label_column = "bias"
    labels = ("none", "others", "gender")


class GenderBias(_NewsComments):
    """Is a comment biased by gender? F1 of those that are."""

    title = "Korean gender bias"
    label_column = "contain_gender_bias"
    labels = ("False", "True")
    metric = "f1"
    measures = {"f1": binary_f1, "accuracy": accuracy}  # noqa: RUF012 - read only


_INTENT_COLUMNS = ("label", "text")


class Intents(SequenceClassification):
    """3i4K: what does an utterance intend? Seven classes; accuracy on 6,121 test utterances.

    Official files ``data/train_val_test/fci_{train_val,test}.txt`` (55,134 / 6,121), without a header: ``label<TAB>text``; the
    last line has no line end. 612 test utterances are also in train, and 214 texts have several labels; all are kept.
    """

    title = "3i4K"
    official_test_examples = 6_121
    origin = "github.com/warnikchow/3i4k, CC BY-SA 4.0"
    has_official_dev = False
    labels = (
        "fragment",
        "statement",
        "question",
        "command",
        "rhetorical question",
        "rhetorical command",
        "intonation-dependent",
    )
    spellings = tuple("0123456")
    measures = {"accuracy": accuracy, "macro_f1": macro_f1}  # noqa: RUF012 - read only
    # The paper has no settings for encoders; these are NSMC's.
    defaults = Nsmc.defaults

    def read(self, file: BenchmarkFile) -> list[Example]:
        """Read all utterances; an id is the line number."""
        examples = []
        for line in file.lines():
            fields = line.text.split("\t")
            check_width(line, fields, _INTENT_COLUMNS, "give fci_train_val.txt or fci_test.txt; a line is label<TAB>text")
            examples.append(Example(str(line.number), fields[1], self.label(fields[0], line=line)))
        return examples


TASKS: dict[str, Task] = {
    "nsmc": Nsmc(),
    "pd": ParaphraseDetection(),
    "kornli": KorNli(),
    "korsts": KorSts(),
    "paws_ko": PawsX(),
    "hate_speech": HateSpeech(),
    "social_bias": SocialBias(),
    "gender_bias": GenderBias(),
    "3i4k": Intents(),
}
