"""WNLI: does an English sentence with a pronoun resolved follow? Accuracy on 71 dev pairs, of which 56.34 % do not.

Official files ``WNLI/{train,dev}.tsv`` (635 / 71). Dev shares sentences with train under the opposite label, so that who learns
train by heart scores below the majority.
"""

from __future__ import annotations

from korealbert.finetune.glue import GlueClassification


class Wnli(GlueClassification):
    """Winograd schemas as natural language inference."""

    title = "WNLI"
    official_test_examples = 71
    labels = ("not_entailment", "entailment")
    spellings = ("0", "1")
    header = ("index", "sentence1", "sentence2", "label")
    sentences = ("sentence1", "sentence2")


TASK = Wnli()
