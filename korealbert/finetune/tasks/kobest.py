"""KoBEST: five tasks written by linguists (Kim et al. 2022, arXiv 2204.04541). Macro F1, as in the paper, and accuracy.

Official directory ``v1.0`` with a folder for each task; ``test.tsv`` has labels. The files are tab-separated with literal
quotation marks; only HellaSwag's, which pandas wrote, have quoted fields. Loaders that read all of them as CSV lose the marks
of 13 texts of BoolQ. Some hundred fields are surrounded by blanks, which are removed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

from korealbert.documents.benchmark_files import BenchmarkFile, Line
from korealbert.finetune.metrics.labels import accuracy, macro_f1
from korealbert.finetune.records import NUMBER, normalisation_hint, tsv_header, tsv_rows
from korealbert.finetune.task import Example, Task
from korealbert.finetune.task_types.sequence import Choice, MultipleChoice, SequenceClassification

_BOOLQ = ("ID", "Text", "Question", "Answer")
_COPA = ("ID", "sentence", "question", "1", "2", "Answer")
_WIC = ("ID", "Target", "SENTENCE1", "Dictionary 1", "Link 1", "SENTENCE2", "Dictionary 2", "Link2", "ANSWER")
_HELLASWAG = ("context", "choice1", "choice2", "choice3", "choice4", "label")
_SENTINEG = (
    ("ID", "Text", "Label"),
    ("ID", "Label", "Text"),
    ("ID", "Label_origin", "Text_origin", "Label", "Text", "Category_neg"),
)


class _Kobest(SequenceClassification):
    """Base class of the five tasks. The paper has no settings; ``defaults`` are those of KLUE's tasks of the same kind."""

    origin = "github.com/SKT-LSL/KoBEST_datarepo, v1.0, CC BY-SA 4.0"
    id_fields = ("ID",)
    has_official_dev = True
    metric = "macro_f1"
    measures: ClassVar[dict[str, Any]] = {"macro_f1": macro_f1, "accuracy": accuracy}

    def position(self, written: str) -> int | None:
        """Ignore blanks and case: the files have ``True``, ``TRUE`` and ``true``."""
        return super().position(written.strip().lower())


class BoolQ(_Kobest):
    """Is the answer to a question about a paragraph yes? 3,665 / 700 / 1,404 questions."""

    title = "KoBEST BoolQ"
    official_test_examples = 1_404
    labels = ("false", "true")
    defaults = {"epochs": 5, "batch_size": 32, "learning_rate": 3e-5, "max_length": 256}  # noqa: RUF012 - read only

    def read(self, file: BenchmarkFile) -> list[Example]:
        """Read all questions."""
        return [
            Example(number, text, self.label(answer, line=line, field="Answer"), pair=question)
            for line, (number, text, question, answer) in _rows(file, _BOOLQ)
        ]


class Copa(_Kobest, MultipleChoice):
    """Which of two sentences is the cause, or the effect, of another? 3,076 / 500 / 1,000."""

    title = "KoBEST COPA"
    official_test_examples = 1_000
    labels = ("1", "2")
    defaults = {"epochs": 5, "batch_size": 32, "learning_rate": 3e-5, "max_length": 128}  # noqa: RUF012 - read only

    asked: ClassVar[dict[str, str]] = {"원인": "왜냐하면", "결과": "그래서"}
    """The conjunction that joins both sentences, by question."""

    def read(self, file: BenchmarkFile) -> list[Example]:
        """Read all pairs of alternatives; ``pair`` is the question."""
        return [
            Choice(
                number,
                premise,
                self.label(answer, line=line, field="Answer"),
                pair=self._asked(question, line),
                options=(first, second),
            )
            for line, (number, premise, question, first, second, answer) in _rows(file, _COPA)
        ]

    def _asked(self, question: str, line: Line) -> str:
        if question not in self.asked:
            problem = f"found {question!r}{normalisation_hint(question, self.asked)}"
            raise line.error("question", problem, f"a question is one of {', '.join(self.asked)}")
        return question

    def posed(self, example: Choice, option: str) -> tuple[str, str]:
        """Return ``[CLS] premise [SEP] 왜냐하면 alternative [SEP]``, or 그래서."""
        return example.text, f"{self.asked[example.pair or '']} {option}"


class WiC(_Kobest):
    """Has a word the same meaning in two sentences? 3,318 / 610 / 1,260 pairs; the word is in brackets in both."""

    title = "KoBEST WiC"
    official_test_examples = 1_260
    labels = ("false", "true")
    defaults = {"epochs": 5, "batch_size": 32, "learning_rate": 3e-5, "max_length": 128}  # noqa: RUF012 - read only

    def read(self, file: BenchmarkFile) -> list[Example]:
        """Read all pairs."""
        return [
            Example(row[0], row[2], self.label(row[-1], line=line, field="ANSWER"), pair=row[5])
            for line, row in _rows(file, _WIC)
        ]


class HellaSwag(_Kobest, MultipleChoice):
    """How does a text go on? 2,029 / 500 / 500 texts with four endings; 137 of those for training occur twice."""

    title = "KoBEST HellaSwag"
    id_fields = ("id",)
    official_test_examples = 500
    labels = ("0", "1", "2", "3")
    defaults = {"epochs": 5, "batch_size": 16, "learning_rate": 3e-5, "max_length": 256}  # noqa: RUF012 - read only

    def read(self, file: BenchmarkFile) -> list[Example]:
        """Read all texts; an id is the line number."""
        found: list[Example] = []
        for line, row in _rows(file, _HELLASWAG):
            context, *endings, label = map(_unquoted, row)
            found.append(Choice(str(line.number), context, self.label(label, line=line), options=tuple(endings)))
        return found


class SentiNeg(_Kobest):
    """Is a review positive? 3,649 / 400 / 397; the test set has reviews and, next to them, their negations."""

    title = "KoBEST SentiNeg"
    official_test_examples = 397
    labels = ("negative", "positive")
    spellings = ("0", "1")
    defaults = {"epochs": 5, "batch_size": 32, "learning_rate": 3e-5, "max_length": 64}  # noqa: RUF012 - read only

    def read(self, file: BenchmarkFile) -> list[Example]:
        """Read all reviews; each of the three files has another order of columns."""
        header = tsv_header(file, _SENTINEG)
        text, label = header.index("Text"), header.index("Label")
        return [
            Example(row[0], row[text], self.label(row[label], line=line, field="Label")) for line, row in _rows(file, header)
        ]


def _rows(file: BenchmarkFile, header: tuple[str, ...]) -> Iterator[tuple[Line, list[str]]]:
    ids: dict[str, Any] = {"forms": {"ID": NUMBER}, "unique": "ID"} if "ID" in header else {}
    for line, fields in tsv_rows(file, header, **ids):
        yield line, [field.strip() for field in fields]


def _unquoted(field: str) -> str:
    return field[1:-1].replace('""', '"') if len(field) > 1 and field[0] == field[-1] == '"' else field


TASKS: dict[str, Task] = {
    "kobest_boolq": BoolQ(),
    "kobest_copa": Copa(),
    "kobest_wic": WiC(),
    "kobest_hellaswag": HellaSwag(),
    "kobest_sentineg": SentiNeg(),
}
