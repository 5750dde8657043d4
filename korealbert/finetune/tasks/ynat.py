"""KLUE YNAT: which of 7 topics has a headline? Macro F1 on 9,107 dev headlines; the test set is not public.

Official files ``ynat-v1.1_{train,dev}.json`` (45,678 / 9,107): a list of objects with ``guid``, ``title`` and ``label``.
"""

from __future__ import annotations

from korealbert.documents.benchmark_files import BenchmarkFile
from korealbert.finetune import klue
from korealbert.finetune.files import json_list
from korealbert.finetune.metrics.classification import accuracy, macro_f1
from korealbert.finetune.sequence import SequenceClassification
from korealbert.finetune.task import Example


class Ynat(SequenceClassification):
    """Topic classification of KLUE."""

    title = "YNAT"
    official_test_examples = 9_107
    origin = klue.ORIGIN
    has_official_dev = False
    labels = ("정치", "경제", "사회", "생활문화", "세계", "IT과학", "스포츠")
    metric = "macro_f1"
    measures = {"macro_f1": macro_f1, "accuracy": accuracy}  # noqa: RUF012 - read only
    defaults = klue.defaults(epochs=4)

    def read(self, file: BenchmarkFile) -> list[Example]:
        """All headlines."""
        return [
            Example(item.text("guid"), item.text("title"), self.label(item.text("label"), line=item.line))
            for item in json_list(file, unique="guid")
        ]


TASK = Ynat()
