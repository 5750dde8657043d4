"""Questions whose answer is a span of a context: SQuAD's JSON, which KorQuAD and KLUE-MRC use too, and what scores answers."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from korealbert.finetune.json_records import Record, json_list
from korealbert.finetune.metrics import Mode
from korealbert.finetune.reading import BenchmarkFile, Line
from korealbert.finetune.task import Benchmark, Example, Scores

END_BYTES = 500
"""``version`` stands so near to the beginning or the end of a file."""

VERSIONS = ("KorQuAD_v1", "KorQuAD_v2", "KorQuAD_2", "1.1", "v2.0")
"""How ``version`` begins in data sets of this form."""

VERSION = re.compile(rb'"version"\s*:\s*"([^"]*)"')


@dataclass(frozen=True, slots=True)
class Answer:
    """An accepted answer: ``text`` is the context's text from character ``begin`` on, -1 where the file does not say."""

    text: str
    begin: int


@dataclass(frozen=True, slots=True)
class Question(Example):
    """``text`` is the question, ``pair`` the context, ``target`` the tuple of accepted answers, empty when there is none."""

    kind: int = 1
    """KLUE-MRC's type of question: 1 paraphrase, 2 several sentences, 3 unanswerable."""

    @property
    def accepted(self) -> list[str]:
        """Texts of the accepted answers."""
        return [answer.text for answer in self.target]


class QuestionAnswering(Benchmark):
    """Spans of a context. A prediction is the answer's text; an empty one says that there is none."""

    metric = "f1"
    matches_by_id = True
    has_official_dev = False
    id_field: ClassVar[str] = "id"
    answerable: ClassVar[bool] = True
    """Every question has an answer."""
    version: ClassVar[str] = ""
    """How ``version`` of the official files begins, where that tells them from others'."""

    def read(self, file: BenchmarkFile) -> list[Example]:
        """All questions, in the order of the file."""
        self.check_version(file)
        examples: list[Example] = []
        seen: set[str] = set()
        for article in json_list(file, key="data"):
            for paragraph in article.records("paragraphs"):
                context = paragraph.text("context")
                for question in paragraph.records("qas"):
                    example = self.question(question, context)
                    if example.id in seen:
                        raise question.error(self.id_field, f"{example.id!r} stands there twice", "give the official file")
                    seen.add(example.id)
                    examples.append(example)
        return examples

    def check_version(self, file: BenchmarkFile) -> None:
        """Raise ValueError where the file says that it is another data set. A part that a user cut off may say anything."""
        content = file.content()
        found = VERSION.search(content[:END_BYTES]) or VERSION.search(content[-END_BYTES:])
        written = found[1].decode(errors="replace") if found else ""
        if self.version and written.startswith(VERSIONS) and not written.startswith(self.version):
            problem = f"found {written!r}"
            raise Line(str(file), 1, "").error("version", problem, f"{self.title} comes from {self.origin}")

    def question(self, record: Record, context: str) -> Question:
        """One question with its accepted answers."""
        answers = tuple(self._answer(answer) for answer in record.records("answers"))
        if self.answerable and not answers:
            raise record.error("answers", "there is none", f"every question of {self.title} has an answer")
        kind = record.integer("question_type") if "question_type" in record else 1
        return Question(record.text(self.id_field), record.text("question"), answers, pair=context, kind=kind)

    def _answer(self, record: Record) -> Answer:
        return Answer(record.text("text"), record.integer("answer_start") if "answer_start" in record else -1)

    def prediction(self, record: Record, example: Example) -> str:
        """The text in ``answer``."""
        return record.text("answer")

    @abstractmethod
    def measures(self, question: Question, predicted: str, mode: Mode) -> Mapping[str, float]:
        """Scores of one answer by name, from 0 to 1."""

    def score(self, examples: Sequence[Example], predicted: Sequence[Any], mode: Mode) -> Scores:
        """The mean of ``measures`` over all questions, times 100."""
        rows = self.rows(examples, predicted, mode)
        total = len(rows)
        empty = sum(not text for text in predicted)
        warnings = ("every prediction is empty",) if empty == total else ()
        return Scores({name: 100.0 * sum(row[name] for row in rows) / total for name in rows[0]}, warnings)

    def rows(self, examples: Sequence[Example], predicted: Sequence[Any], mode: Mode) -> list[Mapping[str, float]]:
        """``measures`` of each question. Raises ValueError when there are none, or another number of predictions."""
        if len(examples) != len(predicted) or not examples:
            raise ValueError(f"scores of {len(predicted):,} answers to {len(examples):,} questions are undefined")
        return [self.measures(_question(e), p, mode) for e, p in zip(examples, predicted, strict=True)]


def mean_in_groups(values: Sequence[float], groups: Sequence[int]) -> float:
    """Mean of values times 100, added up group by group as KLUE-MRC's script does, which decides the last digit."""
    order = np.argsort(np.asarray(groups), kind="stable")
    return float(np.mean(np.asarray(values, dtype=np.float64)[order]) * 100.0)


def _question(example: Example) -> Question:
    assert isinstance(example, Question)
    return example
