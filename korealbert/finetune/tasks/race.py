"""RACE: which of four answers to a question about an English text is right? Accuracy on 4,887 dev questions.

Official directory ``RACE`` with ``{train,dev,test}/{middle,high}/N.txt``, 87,866 / 4,887 / 4,934 questions; each file is a JSON
object with ``article``, ``questions``, ``options``, ``answers`` (A to D) and ``id``. Give a directory, whose files are read in
the order of their paths, or one file with an object per line. ALBERT's tables 2 to 8 have dev scores, its table 10 test scores.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from korealbert.documents.benchmark_files import BenchmarkFile
from korealbert.finetune.metrics import Mode
from korealbert.finetune.records import Identifiers, Record, json_lines, parts
from korealbert.finetune.task import Example, Scores, Task
from korealbert.finetune.task_types.sequence import Choice, MultipleChoice, with_accuracy

_LEVELS = ("middle", "high")


class Race(MultipleChoice):
    """Reading comprehension of English examinations in China; ``text`` is the article, ``pair`` the question."""

    title = "RACE"
    official_test_examples = 4_887
    others = tuple(f"accuracy_{level}" for level in _LEVELS)
    origin = "cs.cmu.edu/~glai1/data/race, for research only"
    directories = frozenset({"train", "dev", "test"})
    has_official_dev = True
    labels = ("A", "B", "C", "D")
    # ALBERT, appendix: 12,000 steps of batch 32 (4.4 epochs), 2e-5, length 512.
    defaults = {"epochs": 4, "batch_size": 32, "learning_rate": 2e-5, "max_length": 512}  # noqa: RUF012 - read only

    def read(self, file: BenchmarkFile) -> list[Example]:
        """Read all questions; an id is the text's id and the question's number from 0."""
        seen = Identifiers()
        texts = [text for part in parts(file, "*.txt") for text in json_lines(part)]
        for text in texts:
            seen.once(text.text("id"), line=text.line, field="id")
        return [example for text in texts for example in self._questions(text)]

    def posed(self, example: Choice, option: str) -> tuple[str, str]:
        """Return ``[CLS] article [SEP] question option [SEP]``; an option fills the question's blank if there is one."""
        asked = example.pair or ""
        return example.text, asked.replace("_", option) if "_" in asked else f"{asked} {option}"

    def _questions(self, text: Record) -> Iterator[Example]:
        article, text_id = text.text("article"), text.text("id").removesuffix(".txt")
        questions, answers = text.texts("questions"), text.texts("answers")
        options = text.fields.get("options")
        if not isinstance(options, list) or not len(questions) == len(answers) == len(options):
            raise text.error("options", "not as many as questions and answers", "give the official file")
        for number, (question, answer, four) in enumerate(zip(questions, answers, options, strict=True)):
            if not isinstance(four, list) or len(four) != len(self.labels) or not all(isinstance(o, str) for o in four):
                raise text.error(f"options[{number}]", "not four strings", "give the official file")
            target = self.label(answer, line=text.line, field=f"answers[{number}]")
            yield Choice(f"{text_id}-{number}", article, target, pair=question, options=tuple(four))

    def score(self, examples: Sequence[Example], predicted: Sequence[Any], mode: Mode) -> Scores:
        """Compute ``accuracy``, and that of each level, which is the beginning of an id."""
        scores = super().score(examples, predicted, mode)
        for level in _LEVELS:
            rows = [(e.target, p) for e, p in zip(examples, predicted, strict=True) if e.id.startswith(level)]
            scores = with_accuracy(scores, f"accuracy_{level}", rows)
        return scores


TASKS: dict[str, Task] = {"race": Race()}
