"""KorQuAD 1.0: which span of a Korean Wikipedia paragraph answers a question? EM and F1 on 5,774 dev questions.

Official files ``KorQuAD_v1.0_{train,dev}.json`` (60,407 / 5,774); the test set is hidden, so dev is the test, and a part of
train serves as dev. All offsets are exact. 61 % of the dev answers are followed directly by a particle.
"""

from __future__ import annotations

from collections.abc import Mapping

from korealbert.finetune.metrics import Mode
from korealbert.finetune.metrics.answers import em_and_f1, korquad_f1, normalise_korquad
from korealbert.finetune.questions import Question, QuestionAnswering


class KorQuad(QuestionAnswering):
    """Korean question answering."""

    title = "KorQuAD1.0"
    official_test_examples = 5_774
    origin = "korquad.github.io, CC BY-ND 2.0 KR"
    version = "KorQuAD_v1.0"
    scores_missing = True
    # KoreALBERT, section IV: batch 64 or 128, 3-5 epochs, 2e-5 to 5e-5, length up to 512. Where 64 inputs of 512 pieces do not
    # fit, micro_batch_size parts the step.
    defaults = {"epochs": 3, "batch_size": 64, "learning_rate": 5e-5, "max_length": 512}  # noqa: RUF012 - read only

    def measures(self, question: Question, predicted: str, mode: Mode) -> Mapping[str, float]:
        """Exact match of normalised answers, and F1 of their characters."""
        return em_and_f1(predicted, question.accepted, normalise=normalise_korquad, f1=korquad_f1, mode=mode)


TASK = KorQuad()
