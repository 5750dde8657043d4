"""RTE: does one English sentence follow from a text? Accuracy on 277 dev pairs.

Official files ``RTE/{train,dev}.tsv`` (2,490 / 277).
"""

from __future__ import annotations

from korealbert.finetune.glue import ENTAILMENT, GlueClassification


class Rte(GlueClassification):
    """Recognising textual entailment, challenges 1, 2, 3 and 5."""

    title = "RTE"
    official_test_examples = 277
    labels = ENTAILMENT
    header = ("index", "sentence1", "sentence2", "label")
    sentences = ("sentence1", "sentence2")


TASK = Rte()
