"""MRPC: do two English sentences mean the same? Accuracy and F1 on 408 dev pairs, of which 68.38 % do.

Official files ``MRPC/{train,dev}.tsv`` (3,668 / 408): GLUE's parts of ``msr_paraphrase_train.txt``, by ``dev_ids.tsv``, with
the same columns, and a byte order mark.
"""

from __future__ import annotations

from korealbert.finetune.files import NUMBER
from korealbert.finetune.glue import GlueClassification
from korealbert.finetune.metrics.classification import accuracy, binary_f1


class Mrpc(GlueClassification):
    """Microsoft research paraphrase corpus."""

    title = "MRPC"
    official_test_examples = 408
    labels = ("different", "same")
    spellings = ("0", "1")
    measures = {"accuracy": accuracy, "f1": binary_f1}  # noqa: RUF012 - read only
    header = ("Quality", "#1 ID", "#2 ID", "#1 String", "#2 String")
    sentences = ("#1 String", "#2 String")
    label_column = "Quality"
    forms = {"#1 ID": NUMBER, "#2 ID": NUMBER}  # noqa: RUF012 - read only


TASK = Mrpc()
