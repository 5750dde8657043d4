"""Fine-tuning scores of a store that are uploaded with a model."""

from __future__ import annotations

import itertools
import shutil
import socket
from pathlib import Path
from typing import Any

import pytest

from korealbert.artifact import Artifact
from korealbert.report import hub_upload
from tests.report.conftest import cell, made


def measures(export: Artifact) -> list[str]:
    """Return the scores on NSMC that are uploaded with an export."""
    with hub_upload.prepare_upload([export], "model") as prepared:
        return [measure for measure in prepared.measures if measure.startswith("NSMC")]


def test_means_are_over_the_cells_with_the_newest_settings(
    artifacts: dict[str, Artifact], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seconds = itertools.count()
    monkeypatch.setattr("korealbert.artifact.stage.utc_now", lambda: f"9999-01-01T{next(seconds):06}Z")
    monkeypatch.setattr(hub_upload, "card_with_scores", lambda *_: "---\nlanguage: ko\n---\n# model\n")
    shutil.copytree(artifacts["export"].path.parent, tmp_path, dirs_exist_ok=True)
    export = Artifact(artifacts["export"].name, tmp_path / artifacts["export"].name)
    tried: dict[str, Any] = {"examples_test": 100, "trained_epochs": 1}
    for seed in (1, 2, 3, 4):
        cell(tmp_path, export, "nsmc", "pretrained", seed, test={"accuracy": 60.0}, **tried)
    assert measures(export) == ["NSMC: accuracy, 100 of 50,000 examples, mean of 4 seeds: 60.00 ± 0.00 60.0"]
    for seed in (1, 2):
        cell(tmp_path, export, "nsmc", "pretrained", seed, test={"accuracy": 90.0}, trained_epochs=5)
    assert measures(export) == ["NSMC: accuracy, mean of 2 seeds: 90.00 ± 0.00 90.0"]


def test_scores_of_a_row_of_a_grid_are_uploaded_with_its_export(
    artifacts: dict[str, Artifact], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hub_upload, "card_with_scores", lambda *_: "---\nlanguage: ko\n---\n# model\n")
    shutil.copytree(artifacts["pretrain"].path.parent, tmp_path, dirs_exist_ok=True)
    pretrain = Artifact(artifacts["pretrain"].name, tmp_path / artifacts["pretrain"].name)
    export = made(tmp_path, "export/base/1", {}, {"pretrain": pretrain})
    for seed in (1, 2):
        cell(tmp_path, export, "nsmc", "pretrained", seed, root="base/1/")
    assert measures(export) == ["NSMC: accuracy, mean of 2 seeds: 84.45 ± 0.21 84.45"]


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        ("---\na: [\n---\n", r": no metadata that can be read \(while parsing .*\); correct the YAML"),
        ("---\n- a\n---\n", r": no metadata that can be read \(.* should be a dict\)"),
        ("---\nlicense: mit\nmodel-index: 5\n---\n", r": no metadata that can be read \(Invalid `model_index`"),
        ("---\nlicense: mit\ntags: 5\n---\n", r": no metadata that can be read \('int' object is not iterable\)"),
        ("", ", field 'license': missing; state the license in YAML"),
    ],
)
def test_a_card_whose_metadata_cannot_be_read_is_named(tmp_path: Path, metadata: str, message: str) -> None:
    for name in ("config.json", "model.safetensors", "tokenizer.json"):
        (tmp_path / name).touch()
    (tmp_path / "README.md").write_text(f"{metadata}# model\n", "utf-8")
    with pytest.raises(ValueError, match=f"README.md{message}"):
        hub_upload.prepare_directory(tmp_path)


def test_a_hub_that_does_not_answer_is_named_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its client raises an error of the library that it speaks HTTP with."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        nobody = f"http://127.0.0.1:{free.getsockname()[1]}"
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", nobody)
    monkeypatch.setenv("HF_TOKEN", "hf_of_a_test")
    with pytest.raises(ValueError, match=rf"^me/mine: the upload to {nobody} failed \(.*refused\); fix the problem and repeat"):
        hub_upload.upload(hub_upload.HubUpload("model", {}, "", "", ""), "me/mine", public=False)
