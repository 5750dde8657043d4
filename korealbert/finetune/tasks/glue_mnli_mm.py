"""MNLI-mm: does one English sentence follow from another? Accuracy on 9,832 dev pairs from genres that train lacks.

Official files ``MNLI/train.tsv`` (392,702) and ``MNLI/dev_mismatched.tsv`` (9,832), as for MNLI-m.
"""

from __future__ import annotations

from korealbert.finetune.tasks.glue_mnli import Mnli


class MnliMismatched(Mnli):
    """Multi-genre natural language inference, tested on genres that train lacks."""

    title = "MNLI-mm"
    official_test_examples = 9_832


TASK = MnliMismatched()
