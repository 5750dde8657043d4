"""SQuAD 1.1: which span of an English Wikipedia paragraph answers a question? EM and F1 on 10,570 dev questions.

Official files ``{train,dev}-v1.1.json`` (87,599 / 10,570); the test set is hidden, so dev is the test, and a part of train
serves as dev.
"""

from __future__ import annotations

from collections.abc import Mapping

from korealbert.finetune.metrics import Mode
from korealbert.finetune.metrics.answers import em_and_f1, normalise_squad, squad_f1
from korealbert.finetune.questions import Question, QuestionAnswering


class Squad1(QuestionAnswering):
    """Stanford question answering, version 1.1."""

    title = "SQuAD1.1"
    official_test_examples = 10_570
    origin = "rajpurkar.github.io/SQuAD-explorer, CC BY-SA 4.0"
    version = "1.1"
    scores_missing = True
    # ALBERT, appendix: 3,649 steps of batch 48 (2 epochs), 5e-5, length 384.
    defaults = {"epochs": 2, "batch_size": 48, "learning_rate": 5e-5, "max_length": 384}  # noqa: RUF012 - read only

    def measures(self, question: Question, predicted: str, mode: Mode) -> Mapping[str, float]:
        """Exact match of normalised answers, and F1 of their words."""
        return em_and_f1(predicted, question.accepted, normalise=normalise_squad, f1=squad_f1, mode=mode)


TASK = Squad1()
