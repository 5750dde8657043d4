"""Statistics of the fine-tuning stages: older manifests can be read, and are written again unchanged."""

from __future__ import annotations

import json
from typing import Any

import pytest

from korealbert.artifact import Statistics
from korealbert.finetune import features, search, stage
from korealbert.finetune.encoders import speed
from korealbert.finetune.encoders import stage as encoder_stage
from korealbert.finetune.scores import summary

_SPLIT = {"examples_dev": 30, "features_dev": 31, "mean_length_dev": 17.0, "at_max_length_dev": 2}
_SYSTEM = {"best": 90.0, "mean": 89.5, "sd": 0.5, "median": 89.5, "interval": [88.0, 91.0]}
_WRITTEN: list[tuple[type[Statistics], dict[str, Any]]] = [
    (encoder_stage.EncoderStats, {"model_type": "bert", "parameters": 110, "pieces": 8002, "longest_input": 512}),
    (features.FeaturesStats, {"task": "nsmc", **_SPLIT}),
    (stage.FinetuneStats, {"metric": "f1", "dev": {"f1": 90.0}, "test": {"f1": 89.0}, "best_epoch": 2, "warnings": ["few"]}),
    (stage.FinetuneStats, {"metric": "f1", "dev": {}, "best_epoch": 0, "warnings": []}),
    (search.ProposalStats, {"trial": 3, "epochs": 2, "learning_rate": 1e-05}),
    (search.SelectionStats, {"trials": 4, "diverged": 1, "trial": 1, "dev": 81.0, "settings": {"epochs": 2, "dropout": 0.0}}),
    (speed.SpeedStats, {"M-BERT": 1.0, "KoreALBERT base": 1.306}),
    (summary.SummaryStats, {"metric": "accuracy", "pretrained": _SYSTEM, "kobert/pretrained": _SYSTEM}),
]


@pytest.mark.parametrize(("kind", "written"), _WRITTEN)
def test_statistics_keep_keys_and_values(kind: type[Statistics], written: dict[str, Any]) -> None:
    kept = kind.of(written).facts()
    assert json.dumps(kept, sort_keys=True) == json.dumps(written, sort_keys=True)
