"""QNLI: does an English sentence answer a question? Accuracy on 5,463 dev pairs.

Official files ``QNLI/{train,dev}.tsv`` (104,743 / 5,463) of QNLI version 2. Version 1 split by pair and leaks: do not use it.
"""

from __future__ import annotations

from korealbert.finetune.glue import ENTAILMENT, GlueClassification


class Qnli(GlueClassification):
    """Question answering as natural language inference."""

    title = "QNLI"
    official_test_examples = 5_463
    labels = ENTAILMENT
    header = ("index", "question", "sentence", "label")
    sentences = ("question", "sentence")


TASK = Qnli()
