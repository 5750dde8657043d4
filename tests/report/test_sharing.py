"""Fine-tuning scores of a store that are uploaded with a model."""

from __future__ import annotations

import itertools
import shutil
from pathlib import Path
from typing import Any

import pytest

from korealbert.artifact import Artifact
from korealbert.report import sharing
from tests.report.conftest import cell


def measures(export: Artifact) -> list[str]:
    """Return the scores on NSMC that are uploaded with an export."""
    with sharing.parcel([export], "model") as parcel:
        return [measure for measure in parcel.measures if measure.startswith("NSMC")]


def test_means_are_over_the_cells_with_the_newest_settings(
    artifacts: dict[str, Artifact], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seconds = itertools.count()
    monkeypatch.setattr("korealbert.artifact.stage.utc_now", lambda: f"9999-01-01T{next(seconds):06}Z")
    monkeypatch.setattr(sharing, "card_with_scores", lambda *_: "---\nlanguage: ko\n---\n# model\n")
    shutil.copytree(artifacts["export"].path.parent, tmp_path, dirs_exist_ok=True)
    export = Artifact(artifacts["export"].name, tmp_path / artifacts["export"].name)
    tried: dict[str, Any] = {"examples_test": 100, "trained_epochs": 1}
    for seed in (1, 2, 3, 4):
        cell(tmp_path, export, "nsmc", "pretrained", seed, test={"accuracy": 60.0}, **tried)
    assert measures(export) == ["NSMC: accuracy, 100 of 50,000 examples, mean of 4 seeds: 60.00 ± 0.00 60.0"]
    for seed in (1, 2):
        cell(tmp_path, export, "nsmc", "pretrained", seed, test={"accuracy": 90.0}, trained_epochs=5)
    assert measures(export) == ["NSMC: accuracy, mean of 2 seeds: 90.00 ± 0.00 90.0"]
