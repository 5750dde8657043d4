"""TensorBoard's event file has the numbers of metrics.jsonl, once per step, however often a run was stopped."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path

import pytest

from korealbert.artifact import Artifact
from korealbert.pretrain.engine import Ranks
from korealbert.pretrain.metrics import EVENT_FILE, export_curves
from korealbert.pretrain.trainer import Stopped
from tests.pretrain.runs import lines, spec, trainer


def scalars(path: Path) -> dict[str, list[tuple[int, float]]]:
    from tensorboard.backend.event_processing.event_file_loader import EventFileLoader

    seen: dict[str, list[tuple[int, float]]] = {}
    for event in EventFileLoader(str(path)).Load():
        for value in event.summary.value:
            seen.setdefault(value.tag, []).append((event.step, value.tensor.float_val[0]))
    return seen


@pytest.mark.filterwarnings("ignore::DeprecationWarning:tensorboard")
def test_events_are_the_lines_of_the_metrics_also_after_a_resumption(alone: Ranks, tmp_path: Path) -> None:
    run_spec = spec(tensorboard=True)
    trainer(run_spec, tmp_path / "straight", alone).run()
    with pytest.raises(Stopped):
        trainer(run_spec, tmp_path / "stopped", alone, stop_after=3).run()
    trainer(run_spec, tmp_path / "stopped", alone).run()
    assert (tmp_path / "straight" / EVENT_FILE).read_bytes() == (tmp_path / "stopped" / EVENT_FILE).read_bytes()
    seen = scalars(tmp_path / "stopped" / EVENT_FILE)
    assert [step for step, _ in seen["train/loss"]] == [1, 2, 3, 4, 5, 6]
    assert [value for _, value in seen["train/loss"]] == pytest.approx([line["loss"] for line in lines(tmp_path / "straight")])
    assert [step for step, _ in seen["heldout/mlm_perplexity"]] == [0, 3, 6]


def test_events_of_a_finished_training_can_be_exported(alone: Ranks, tmp_path: Path) -> None:
    trainer(spec(tensorboard=True), tmp_path / "with", alone).run()
    trainer(spec(), tmp_path / "without", alone).run()
    written = export_curves(Artifact("without", tmp_path / "without"), "tensorboard", tmp_path / "out")
    assert written == len((tmp_path / "without" / "metrics.jsonl").read_text().splitlines())
    assert (tmp_path / "out" / "without" / EVENT_FILE).read_bytes() == (tmp_path / "with" / EVENT_FILE).read_bytes()
    with pytest.raises(ValueError, match="it has no metrics"):
        export_curves(Artifact("none", tmp_path), "tensorboard", tmp_path / "out")


def test_curves_of_several_trainings_are_exported_side_by_side(tmp_path: Path) -> None:
    runs = {"pretrain-a": 1.5, "pretrain-b": 2.5}
    for name, loss in runs.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "metrics.jsonl").write_text(json.dumps({"split": "train", "step": 1, "loss": loss}) + "\n")
        export_curves(Artifact(name, tmp_path / name), "tensorboard", tmp_path / "out")
    assert {name: scalars(tmp_path / "out" / name / EVENT_FILE)["train/loss"] for name in runs} == {
        name: [(1, loss)] for name, loss in runs.items()
    }
    (tmp_path / "pretrain-a" / "manifest.json").write_text('{"output_digest": "", "recipe": {}}')
    with pytest.raises(ValueError, match="is the directory of an artifact"):
        export_curves(Artifact("pretrain-a", tmp_path / "pretrain-a"), "tensorboard", tmp_path)


@pytest.mark.skipif(find_spec("wandb") is not None, reason="it is installed here")
def test_a_tracker_that_is_not_installed_is_named(tmp_path: Path) -> None:
    (tmp_path / "metrics.jsonl").touch()
    with pytest.raises(ValueError, match="pip install wandb"):
        export_curves(Artifact("any", tmp_path), "wandb", tmp_path / "out")


def test_there_is_no_event_file_by_default(alone: Ranks, tmp_path: Path) -> None:
    trainer(spec(), tmp_path, alone).run()
    assert not (tmp_path / EVENT_FILE).exists()
    assert json.loads((tmp_path / "metrics.jsonl").read_text().splitlines()[0])["split"] == "heldout"
