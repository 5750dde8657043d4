"""GLUE: nine English tasks with one label for a sentence or a pair, from TSV files with literal quotes.

Scores are dev scores, because the labels of the test sets are not public; test files are refused by their header. Settings are
those of the Language Chameleon paper.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar

from korealbert.documents.benchmark_files import BenchmarkFile, Line
from korealbert.finetune.metrics.labels import accuracy, binary_f1, mcc, pearson, spearman
from korealbert.finetune.records import NAME, NUMBER, YEAR, check_width, tsv_rows
from korealbert.finetune.task import PAIR_HEADS, Example, Task
from korealbert.finetune.task_types.sequence import SequenceClassification, SequenceRegression, TableClassification

_ORIGIN = "gluebenchmark.com; each task has its own license"

_ENTAILMENT = ("entailment", "not_entailment")


def _glue_defaults(**other: float) -> Mapping[str, int | float]:
    """Return fields of the fine-tuning spec: those of the Language Chameleon paper, replaced and extended by ``other``."""
    return {"epochs": 5, "batch_size": 64, "learning_rate": 5e-5, "max_length": 128, **other}


class _GlueClassification(TableClassification):
    """Base class of tasks with a header line; the official id is a column of its own."""

    origin = _ORIGIN
    has_official_dev = False
    defaults = _glue_defaults()
    forms = dict.fromkeys(("index",), NUMBER)
    unique = "index"
    official_id: ClassVar[tuple[str, ...]] = ("index",)


_COLA_MARKS = ("", "*", "?", "??", "*?", "?*")
"""Judgements by the author of the source; empty for acceptable sentences."""

_COLA_COLUMNS = ("source", "label", "mark", "sentence")


class Cola(SequenceClassification):
    """CoLA: is an English sentence acceptable? Matthews' correlation on 1,043 dev sentences, of which 69.13 % are.

    Official files ``CoLA/{train,dev}.tsv`` (8,551 / 1,043) without a header: source, label, the author's mark, sentence.
    """

    title = "CoLA"
    official_test_examples = 1_043
    origin = _ORIGIN
    has_official_dev = False
    labels = ("unacceptable", "acceptable")
    spellings = ("0", "1")
    metric = "mcc"
    measures = {"mcc": mcc, "accuracy": accuracy}  # noqa: RUF012 - read only
    defaults = _glue_defaults(dropout=0.05)

    def read(self, file: BenchmarkFile) -> list[Example]:
        """Read all sentences; an id is the line number."""
        examples = []
        for line in file.lines():
            fields = line.text.split("\t")
            check_width(line, fields, _COLA_COLUMNS, "give train.tsv or dev.tsv as GLUE has it")
            if fields[2].strip() not in _COLA_MARKS:
                problem = f"found {fields[2][:40]!r} in place of the author's mark"
                raise line.error("mark", problem, "the columns have moved; restore the line from the official file")
            examples.append(Example(str(line.number), fields[3], self.label(fields[1], line=line)))
        return examples


class Sst2(_GlueClassification):
    """SST-2: is an English film review positive? Accuracy on 872 dev sentences.

    Official files ``SST-2/{train,dev}.tsv`` (67,349 / 872). Train consists of phrases. Sentences end in a space, which is kept.
    """

    title = "SST-2"
    official_test_examples = 872
    labels = ("negative", "positive")
    spellings = ("0", "1")
    header = ("sentence", "label")
    sentences = ("sentence",)


class Mrpc(_GlueClassification):
    """MRPC: do two English sentences mean the same? Accuracy and F1 on 408 dev pairs, of which 68.38 % do.

    Official files ``MRPC/{train,dev}.tsv`` (3,668 / 408): ``msr_paraphrase_train.txt``, split by GLUE's ``dev_ids.tsv``, with
    the same columns and a byte order mark.
    """

    title = "MRPC"
    id_fields = ("#1 ID + #2 ID",)
    heads = PAIR_HEADS
    official_test_examples = 408
    labels = ("different", "same")
    spellings = ("0", "1")
    measures = {"accuracy": accuracy, "f1": binary_f1}  # noqa: RUF012 - read only
    header = ("Quality", "#1 ID", "#2 ID", "#1 String", "#2 String")
    sentences = ("#1 String", "#2 String")
    label_column = "Quality"
    official_id = ("#1 ID", "#2 ID")
    forms = dict.fromkeys(official_id, NUMBER)


class Qqp(_GlueClassification):
    """QQP: do two English questions ask the same? Accuracy and F1 on 40,430 dev pairs.

    Official files ``QQP/{train,dev}.tsv`` (363,846 / 40,430). A few rows lack fields and are left out, as by GLUE's readers.
    """

    title = "QQP"
    heads = PAIR_HEADS
    official_test_examples = 40_430
    labels = ("different", "same")
    spellings = ("0", "1")
    measures = {"accuracy": accuracy, "f1": binary_f1}  # noqa: RUF012 - read only
    header = ("id", "qid1", "qid2", "question1", "question2", "is_duplicate")
    sentences = ("question1", "question2")
    label_column = "is_duplicate"
    forms = dict.fromkeys(("id", "qid1", "qid2"), NUMBER)
    official_id = ("id",)

    def rows(self, file: BenchmarkFile) -> Iterator[tuple[Line, list[str]]]:
        """Yield the rows that have all six fields."""
        return tsv_rows(file, self.header, leave_out=lambda line, fields: len(fields) < len(self.header), forms=self.forms)


_STSB_HEADER = (
    *("index", "genre", "filename", "year", "old_index", "source1", "source2"),
    *("sentence1", "sentence2", "score"),
)

_STSB_FORMS = {"index": NUMBER, "genre": NAME, "filename": NAME, "year": YEAR, "old_index": NUMBER}


class StsB(SequenceRegression):
    """STS-B: how similar are two English sentences, from 0 to 5? Pearson's and Spearman's correlation on 1,500 dev pairs.

    Official files ``STS-B/{train,dev}.tsv`` (5,749 / 1,500), the score last.
    """

    title = "STS-B"
    id_fields = ("index",)
    official_test_examples = 1_500
    origin = _ORIGIN
    has_official_dev = False
    metric = "pearson"
    measures = {"pearson": pearson, "spearman": spearman}  # noqa: RUF012 - read only
    defaults = _glue_defaults()

    def read(self, file: BenchmarkFile) -> list[Example]:
        """Read all pairs; an id is the line number."""
        return [
            Example(str(line.number), first, self.gold_score(score, line=line), second, official_id)
            for line, (official_id, *_, first, second, score) in tsv_rows(file, _STSB_HEADER, forms=_STSB_FORMS, unique="index")
        ]


_MNLI_COLUMNS = (
    *("index", "promptID", "pairID", "genre", "sentence1_binary_parse", "sentence2_binary_parse"),
    *("sentence1_parse", "sentence2_parse", "sentence1", "sentence2", "label1"),
)
_MNLI_TRAIN_HEADER = (*_MNLI_COLUMNS, "gold_label")
_MNLI_DEV_HEADER = (*_MNLI_COLUMNS, "label2", "label3", "label4", "label5", "gold_label")


class Mnli(SequenceClassification):
    """MNLI-m: does one English sentence follow from another? Accuracy on 9,815 dev pairs from the genres of train.

    Official files ``MNLI/train.tsv`` (392,702; 12 columns) and ``MNLI/dev_matched.tsv`` (9,815; 16 columns, five annotators).
    """

    title = "MNLI-m"
    id_fields = ("pairID", "index")
    heads = PAIR_HEADS
    official_test_examples = 9_815
    origin = _ORIGIN
    has_official_dev = False
    labels = ("entailment", "contradiction", "neutral")
    defaults = _glue_defaults(dropout=0.3)

    def read(self, file: BenchmarkFile) -> list[Example]:
        """Read all pairs of train or dev; an id is ``pairID``, or ``index``."""
        first = next(file.lines(), None)
        is_train = first is not None and first.text.count("\t") + 1 == len(_MNLI_TRAIN_HEADER)
        header = _MNLI_TRAIN_HEADER if is_train else _MNLI_DEV_HEADER
        return [
            Example(fields[2], fields[8], self.label(fields[-1], line=line, field="gold_label"), fields[9], fields[0])
            for line, fields in tsv_rows(file, header, forms={"index": NUMBER}, unique="index")
        ]


class MnliMismatched(Mnli):
    """MNLI-mm: does one English sentence follow from another? Accuracy on 9,832 dev pairs from genres that train lacks.

    Official files ``MNLI/train.tsv`` (392,702) and ``MNLI/dev_mismatched.tsv`` (9,832), as for MNLI-m.
    """

    title = "MNLI-mm"
    official_test_examples = 9_832


class Qnli(_GlueClassification):
    """QNLI: does an English sentence answer a question? Accuracy on 5,463 dev pairs.

    Official files ``QNLI/{train,dev}.tsv`` (104,743 / 5,463) of version 2; version 1 leaks, because it was split by pair.
    """

    title = "QNLI"
    id_fields = ("index",)
    heads = PAIR_HEADS
    official_test_examples = 5_463
    labels = _ENTAILMENT
    header = ("index", "question", "sentence", "label")
    sentences = ("question", "sentence")


class Rte(_GlueClassification):
    """RTE: does one English sentence follow from a text? Accuracy on 277 dev pairs.

    Official files ``RTE/{train,dev}.tsv`` (2,490 / 277).
    """

    title = "RTE"
    id_fields = ("index",)
    heads = PAIR_HEADS
    official_test_examples = 277
    labels = _ENTAILMENT
    header = ("index", "sentence1", "sentence2", "label")
    sentences = ("sentence1", "sentence2")


class Wnli(_GlueClassification):
    """WNLI: does an English sentence with a pronoun resolved follow? Accuracy on 71 dev pairs, of which 56.34 % do not.

    Official files ``WNLI/{train,dev}.tsv`` (635 / 71). Dev shares sentences with train, with the opposite label: a model that
    memorises train scores below the majority.
    """

    title = "WNLI"
    id_fields = ("index",)
    heads = PAIR_HEADS
    official_test_examples = 71
    labels = ("not_entailment", "entailment")
    spellings = ("0", "1")
    header = ("index", "sentence1", "sentence2", "label")
    sentences = ("sentence1", "sentence2")


TASKS: dict[str, Task] = {
    "glue_cola": Cola(),
    "glue_sst2": Sst2(),
    "glue_mrpc": Mrpc(),
    "glue_qqp": Qqp(),
    "glue_stsb": StsB(),
    "glue_mnli": Mnli(),
    "glue_mnli_mm": MnliMismatched(),
    "glue_qnli": Qnli(),
    "glue_rte": Rte(),
    "glue_wnli": Wnli(),
}
