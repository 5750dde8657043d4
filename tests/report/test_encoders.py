"""Reports of a run with its own model and other encoders."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from korealbert.artifact import Artifact, Runtime
from korealbert.recipe.registry import REPORT
from korealbert.report.stage import ReportSpec
from tests.report.conftest import cell, made


def beside(artifacts: dict[str, Artifact], store: Path, encoder: str) -> dict[str, Artifact]:
    """Return a training, its export, and cells of NSMC: the export's with 84.30, an encoder's with 50.00."""
    run = {label: artifacts[label] for label in ("pretrain", "export", "finetune/nsmc/pretrained/1")}
    other = made(store, f"encoder/{encoder}", {})
    theirs: dict[str, Any] = {"test": {"accuracy": 50.0}}
    return run | {
        f"encoder/{encoder}": other,
        f"finetune/{encoder}/nsmc/pretrained/1": cell(store, other, "nsmc", "pretrained", 1, **theirs),
    }


@pytest.mark.parametrize("encoder", ["klue-bert", "nsmc"])
def test_the_card_of_a_model_has_its_own_scores_alone(artifacts: dict[str, Artifact], tmp_path: Path, encoder: str) -> None:
    """An encoder may have the name of a benchmark."""
    out = tmp_path / "out"
    out.mkdir()
    REPORT.run(ReportSpec(), beside(artifacts, tmp_path, encoder), out, Runtime())
    assert f"| {encoder}/pretrained |" in (out / "report.md").read_text("utf-8")
    (row,) = (line for line in (out / "model-card.md").read_text("utf-8").splitlines() if line.startswith("| nsmc |"))
    assert "84.30" in row and "50.00" not in row
