"""SQuAD 2.0: which span answers a question, if any? EM and F1 on 11,873 dev questions, half of them unanswerable.

Official files ``{train,dev}-v2.0.json`` (130,319 / 11,873); the test set is hidden, so dev is the test, and a part of train
serves as dev. Two empty answers agree in the official script already, so that both modes are one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from korealbert.finetune.metrics import Mode
from korealbert.finetune.metrics.answers import em_and_f1, normalise_squad, squad_f1
from korealbert.finetune.questions import Question, QuestionAnswering
from korealbert.finetune.task import Example, Scores


class Squad2(QuestionAnswering):
    """Stanford question answering, version 2.0."""

    title = "SQuAD2.0"
    official_test_examples = 11_873
    origin = "rajpurkar.github.io/SQuAD-explorer, CC BY-SA 4.0"
    version = "v2.0"
    # ALBERT, appendix: 8,144 steps of batch 48 (3 epochs), 3e-5, length 512.
    defaults = {"epochs": 3, "batch_size": 48, "learning_rate": 3e-5, "max_length": 512}  # noqa: RUF012 - read only
    answerable = False

    def measures(self, question: Question, predicted: str, mode: Mode) -> Mapping[str, float]:
        """Exact match of normalised answers, and F1 of their words; without an accepted answer only an empty one is right."""
        accepted = [text for text in question.accepted if normalise_squad(text)] or [""]
        return em_and_f1(predicted, accepted, normalise=normalise_squad, f1=squad_f1, mode="corrected")

    def score(self, examples: Sequence[Example], predicted: Sequence[Any], mode: Mode) -> Scores:
        """``em`` and ``f1`` over all questions, and over those with and without an answer."""
        scores = super().score(examples, predicted, mode)
        values = dict(scores.values)
        for name, answerable in (("has_answer", True), ("no_answer", False)):
            part = [(e, p) for e, p in zip(examples, predicted, strict=True) if bool(e.target) is answerable]
            if part:
                part_examples, part_predicted = zip(*part, strict=True)
                part_scores = super().score(part_examples, part_predicted, mode).values
                values |= {f"{name}_{metric}": value for metric, value in part_scores.items()}
        return Scores(values, scores.warnings)


TASK = Squad2()
