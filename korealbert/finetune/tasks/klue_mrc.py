"""KLUE-MRC: which span of a Korean text answers a question, if any? EM and ROUGE-W on 5,841 dev questions.

Official files ``klue-mrc-v1.1_{train,dev}.json`` (17,554 / 5,841), as SQuAD 2.0 with ``guid`` and ``question_type``; the test
set is not public. Version 1.1 mended the offsets of answers; ``plausible_answers`` are not read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from korealbert.finetune import klue
from korealbert.finetune.metrics import Mode
from korealbert.finetune.metrics.answers import normalise_klue, rouge_w
from korealbert.finetune.questions import Question, QuestionAnswering, mean_in_groups
from korealbert.finetune.task import Example, Scores


class KlueMrc(QuestionAnswering):
    """Machine reading comprehension of KLUE."""

    title = "KLUE-MRC"
    official_test_examples = 5_841
    origin = klue.ORIGIN
    has_official_dev = False
    metric = "rouge_w"
    id_field = "guid"
    defaults = klue.defaults(epochs=5, batch_size=16, learning_rate=3e-5, max_length=510, warmup_ratio=0.0)
    answerable = False

    def measures(self, question: Question, predicted: str, mode: Mode) -> Mapping[str, float]:
        """Exact match, and F1 of the longest common run; without an accepted answer only an empty one is right."""
        accepted = [normalise_klue(text, mode) for text in question.accepted] or [""]
        given = normalise_klue(predicted, mode)
        return {"em": float(given in accepted), "rouge_w": max(rouge_w(given, text, mode) for text in accepted)}

    def score(self, examples: Sequence[Example], predicted: Sequence[Any], mode: Mode) -> Scores:
        """``em`` and ``rouge_w`` over all questions, and each by the type of the question."""
        rows = self.rows(examples, predicted, mode)
        kinds = [getattr(example, "kind", 1) for example in examples]
        values = {name: mean_in_groups([row[name] for row in rows], kinds) for name in ("em", "rouge_w")}
        for kind in sorted(set(kinds)):
            for name in ("em", "rouge_w"):
                part = [row[name] for row, k in zip(rows, kinds, strict=True) if k == kind]
                values[f"{name}_type{kind}"] = mean_in_groups(part, [0] * len(part))
        warnings = () if any(predicted) else ("every prediction is empty",)
        return Scores(values, warnings)


TASK = KlueMrc()
