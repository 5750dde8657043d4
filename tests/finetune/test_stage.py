"""The stage as a whole: it learns, repeats itself, selects on dev, and refuses what cannot work."""

from __future__ import annotations

import itertools
import json
import math
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import torch
from pydantic import ValidationError
from transformers import AutoTokenizer

from korealbert.artifact import Artifact, Inputs, Progress, Runtime, Spec, Stage, Statistics, Store, build
from korealbert.finetune import tasks
from korealbert.finetune.features import random_subset, read_examples
from korealbert.finetune.loop import linear_schedule
from korealbert.finetune.spec import FinetuneSpec, Init
from korealbert.finetune.stage import STAGE, run
from korealbert.pretrain.runtime import TrainingRuntime

QUICK = {"epochs": 2, "batch_size": 32, "learning_rate": 5e-3, "warmup_ratio": 0.1}


def predictions(directory: Path) -> dict[str, list[Any]]:
    with pa.ipc.open_file(directory / "predictions.arrow") as reader:
        columns: dict[str, list[Any]] = reader.read_all().to_pydict()
    return columns


def test_separable_reviews_are_learnt(
    model: Artifact, runtime: TrainingRuntime, nsmc: dict[str, Any], fresh: Callable[[str], Path]
) -> None:
    reports: list[Progress] = []
    out = fresh("out")
    spec = FinetuneSpec(**{**nsmc, **QUICK, "epochs": 4})
    stats = run(spec, {"model": model}, out, runtime.reporting_to(reports.append))
    metrics = json.loads((out / "metrics.json").read_text())
    assert metrics["dev"]["accuracy"] > 90
    assert metrics["test"]["accuracy"] > 90
    assert [metrics[key] for key in ("task", "init", "seed", "metric")] == ["nsmc", "pretrained", 1, "accuracy"]
    assert [metrics[f"examples_{part}"] for part in ("train", "dev", "test")] == [570, 30, 90]
    assert stats.facts() == {name: metrics[name] for name in ("metric", "dev", "test", "best_epoch", "warnings")}
    assert [epoch["epoch"] for epoch in metrics["epochs"]] == [1, 2, 3, 4]
    dev = [epoch["accuracy"] for epoch in metrics["epochs"]]
    assert metrics["best_epoch"] == 1 + dev.index(max(dev))
    assert metrics["dev"]["accuracy"] == max(dev)

    table = predictions(out)
    assert table["id"] == [str(number) for number in range(90)]
    right = sum(gold == pred for gold, pred in zip(table["gold"], table["pred"], strict=True))
    assert 100 * right / 90 == pytest.approx(metrics["test"]["accuracy"])

    curve = [json.loads(line) for line in (out / "curve.jsonl").read_text().splitlines()]
    assert curve[-1]["step"] == 4 * 18
    assert curve[-1]["loss"] < curve[0]["loss"]
    assert curve[0]["lr"] < curve[6]["lr"] > curve[-1]["lr"] > 0
    assert reports[-1].done == reports[-1].total == 72


def test_similarity_is_learnt(
    model: Artifact, runtime: TrainingRuntime, korsts: dict[str, Any], fresh: Callable[[str], Path]
) -> None:
    spec = FinetuneSpec(**{**korsts, **QUICK, "epochs": 4, "batch_size": 16})
    stats = run(spec, {"model": model}, fresh("out"), runtime)
    assert stats.metric == "spearman"
    assert stats.test["spearman"] > 70
    assert set(stats.test) == {"spearman", "pearson"}


@pytest.mark.parametrize("init", ["pretrained", "random"])
def test_the_same_cell_gives_the_same_bytes_and_leaves_torch_as_it_was(
    model: Artifact, runtime: TrainingRuntime, korsts: dict[str, Any], fresh: Callable[[str], Path], init: Init
) -> None:
    spec = FinetuneSpec(**{**korsts, **QUICK, "epochs": 1}, init=init, max_test_examples=20)
    torch.manual_seed(1)
    before = torch.get_num_threads(), torch.random.get_rng_state()
    first, second, other = fresh("first"), fresh("second"), fresh("other")
    run(spec, {"model": model}, first, runtime)
    assert (torch.get_num_threads(), torch.are_deterministic_algorithms_enabled()) == (before[0], False)
    assert torch.equal(torch.random.get_rng_state(), before[1])
    torch.manual_seed(2)
    run(spec, {"model": model}, second, runtime)
    run(spec.model_copy(update={"seed": 2}), {"model": model}, other, runtime)
    for name in ("metrics.json", "predictions.arrow", "curve.jsonl"):
        assert (first / name).read_bytes() == (second / name).read_bytes()
        assert (first / name).read_bytes() != (other / name).read_bytes()


def test_cells_are_artifacts_of_their_own_and_other_seeds_see_the_same_examples(
    model_dir: Path, tmp_path: Path, nsmc: dict[str, Any]
) -> None:
    runtime = TrainingRuntime(store=tmp_path, threads=1, device="cpu")

    def copy(_: Spec, __: Inputs, out_dir: Path, ___: Runtime) -> Statistics:
        shutil.copytree(model_dir, out_dir, dirs_exist_ok=True)
        return Statistics()

    model = build(Stage("export", version=1, spec=Spec, run=copy), Spec(), {}, runtime).artifact
    spec = FinetuneSpec(**{**nsmc, **QUICK, "epochs": 1}, max_train_examples=64, max_dev_examples=20, max_test_examples=30)
    first = build(STAGE, spec, {"model": model}, runtime, label="finetune/nsmc/pretrained/1")
    second = build(STAGE, spec.model_copy(update={"seed": 2}), {"model": model}, runtime)
    assert first.artifact.name != second.artifact.name
    assert build(STAGE, spec, {"model": model}, runtime).cached
    metrics = json.loads((first.artifact.path / "metrics.json").read_text())
    assert (metrics["examples_train"], metrics["examples_dev"]) == (64, 20)
    ids = [predictions(built.artifact.path)["id"] for built in (first, second)]
    assert ids[0] == ids[1]
    assert len(ids[0]) == 30
    assert Store(tmp_path).damage(first.artifact) is None


def test_the_held_out_part_of_nsmc_is_five_percent_and_never_trained_on(nsmc: dict[str, Any]) -> None:
    task = tasks.load("nsmc")
    whole = read_examples(task, FinetuneSpec(**nsmc))
    part = read_examples(task, FinetuneSpec(**nsmc, max_train_examples=50, seed=9))
    other = read_examples(task, FinetuneSpec(**nsmc, split_seed=9))
    assert len(whole["dev"]) == 30
    assert not {e.id for e in whole["dev"]} & {e.id for e in whole["train"]}
    assert part["dev"] == whole["dev"] != other["dev"]
    assert {e.id for e in part["train"]} < {e.id for e in whole["train"]}


def test_random_parts_are_ascending_and_without_repeats() -> None:
    part = random_subset(1000, 30, 4)
    assert part == sorted(set(part)) == random_subset(1000, 30, 4)
    assert len(part) == 30
    assert part != random_subset(1000, 30, 5)


def test_the_learning_rate_rises_then_falls_and_is_never_zero_in_a_step() -> None:
    factors = [linear_schedule(100, 0.1)(step) for step in range(100)]
    assert factors[9] < factors[10] == 1
    assert all(a < b for a, b in itertools.pairwise(factors[:11]))
    assert all(a > b > 0 for a, b in itertools.pairwise(factors[10:]))
    assert linear_schedule(3, 0.0)(0) == 1


def test_tasks_set_defaults_that_a_recipe_can_override(nsmc: dict[str, Any], korsts: dict[str, Any]) -> None:
    assert (FinetuneSpec(**nsmc).batch_size, FinetuneSpec(**nsmc).epochs) == (128, 3)
    assert (FinetuneSpec(**korsts).batch_size, FinetuneSpec(**korsts).epochs) == (64, 5)
    assert FinetuneSpec(**nsmc, epochs=4).epochs == 4


def test_contradictions_are_found_before_anything_runs(nsmc: dict[str, Any], korsts: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match=r"known are 3i4k, .*, nsmc, paws_ko, pd"):
        FinetuneSpec(**{**nsmc, "task": "wic"})
    without_dev = {key: value for key, value in korsts.items() if key != "dev"}
    with pytest.raises(ValidationError, match="korsts has an official dev set: name its file as dev"):
        FinetuneSpec(**without_dev)
    with pytest.raises(ValidationError, match="epoch_count"):
        FinetuneSpec(**{**nsmc, "epoch_count": 3})


def test_inputs_longer_than_the_position_table_are_refused(
    model: Artifact, runtime: TrainingRuntime, nsmc: dict[str, Any], fresh: Callable[[str], Path]
) -> None:
    with pytest.raises(ValueError, match=r"max_length is 65, but .*config.json has positions for 64 pieces; lower it"):
        run(FinetuneSpec(**{**nsmc, "max_length": 65}), {"model": model}, fresh("out"), runtime)


def test_positions_that_pretraining_never_saw_are_worth_a_warning(
    model_dir: Path, runtime: TrainingRuntime, korsts: dict[str, Any], fresh: Callable[[str], Path]
) -> None:
    directory = fresh("short")
    shutil.copytree(model_dir, directory, dirs_exist_ok=True)
    tokenizer = AutoTokenizer.from_pretrained(directory)
    tokenizer.model_max_length = 12
    tokenizer.save_pretrained(directory)
    spec = FinetuneSpec(**{**korsts, **QUICK, "epochs": 1}, max_train_examples=40)
    stats = run(spec, {"model": Artifact("export-1", directory)}, fresh("out"), runtime)
    assert stats.warnings == ["max_length is 16, pretraining saw 12 pieces at most"]


def test_a_diverged_loss_is_an_error(
    model: Artifact,
    runtime: TrainingRuntime,
    korsts: dict[str, Any],
    fresh: Callable[[str], Path],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    task = type(tasks.load("korsts"))
    monkeypatch.setattr(task, "loss", lambda self, logits, targets: logits.sum() * float("nan"))
    with pytest.raises(ValueError, match="the loss at step 1 is nan; lower learning_rate"):
        run(FinetuneSpec(**{**korsts, **QUICK}), {"model": model}, fresh("out"), runtime)


@pytest.mark.parametrize("benchmark", ["korsts", "nsmc"])
def test_weights_that_are_nan_after_the_last_step_are_an_error_and_no_score(
    model: Artifact,
    runtime: TrainingRuntime,
    fresh: Callable[[str], Path],
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
    benchmark: str,
) -> None:
    written = request.getfixturevalue(benchmark)
    scaled = torch.optim.AdamW.step

    def step(self: torch.optim.AdamW, closure: Any = None) -> Any:
        scaled(self, closure)
        with torch.no_grad():
            for group in self.param_groups:
                for weight in group["params"]:
                    weight.fill_(math.nan)

    monkeypatch.setattr(torch.optim.AdamW, "step", step)
    spec = FinetuneSpec(**{**written, **QUICK, "epochs": 1, "batch_size": 64}, max_train_examples=40)
    with pytest.raises(ValueError, match="the model's outputs are nan; lower learning_rate"):
        run(spec, {"model": model}, fresh("out"), runtime)
