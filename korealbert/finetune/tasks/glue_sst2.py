"""SST-2: is an English film review positive? Accuracy on 872 dev sentences.

Official files ``SST-2/{train,dev}.tsv`` (67,349 / 872). Train is made of phrases, and sentences end in a space: kept.
"""

from __future__ import annotations

from korealbert.finetune.glue import GlueClassification


class Sst2(GlueClassification):
    """Stanford sentiment treebank, two classes."""

    title = "SST-2"
    official_test_examples = 872
    labels = ("negative", "positive")
    spellings = ("0", "1")
    header = ("sentence", "label")
    sentences = ("sentence",)


TASK = Sst2()
