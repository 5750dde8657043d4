"""A search tries the right settings, repeats its proposals, selects on dev and never sees test."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from korealbert.artifact import Artifact, Runtime
from korealbert.finetune import stage, tasks
from korealbert.finetune.search import ProposalSpec, Range, SearchSpec, SelectionSpec, propose, select, trial_cell
from korealbert.finetune.spec import FinetuneSpec
from tests.finetune.test_stage import QUICK

RATES = Range(low=1e-5, high=1e-3, log=True)
OPTUNA: dict[str, Any] = {"method": "optuna", "trials": 12, "learning_rate": RATES, "batch_size": (16, 32)}


def scored(directory: Path, settings: dict[str, Any], dev: float | None) -> Artifact:
    """The part of a finished cell that a search reads."""
    directory.mkdir(parents=True)
    metrics = {
        "settings": settings,
        "metric": "accuracy",
        "selected_by": "accuracy",
        "dev": {} if dev is None else {"accuracy": dev},
    }
    (directory / "metrics.json").write_text(json.dumps(metrics))
    return Artifact(directory.name, directory)


def proposed(search: SearchSpec, number: int, inputs: dict[str, Artifact], out: Path) -> dict[str, Any]:
    out.mkdir()
    propose(ProposalSpec(search=search, number=number), inputs, out, Runtime())
    settings: dict[str, Any] = json.loads((out / "settings.json").read_text("utf-8"))
    return settings


def test_a_grid_is_every_combination_and_the_last_field_changes_fastest() -> None:
    search = SearchSpec(learning_rate=(2e-5, 5e-5), batch_size=(64, 128), epochs=(3,))
    assert search.size == 4
    assert search.grid() == [
        {"epochs": 3, "batch_size": size, "learning_rate": rate} for size in (64, 128) for rate in (2e-5, 5e-5)
    ]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({}, "nothing to search"),
        ({"learning_rate": RATES}, "a grid takes a list"),
        ({"learning_rate": (1e-5, 1e-5)}, "1e-05 named twice"),
        ({"learning_rate": ()}, "at least 1 item"),
        ({"epochs": tuple(range(1, 102)), "batch_size": tuple(range(1, 11))}, "a grid of 1,010 settings; give at most 1,000"),
        ({"method": "optuna", "learning_rate": RATES}, "trials is missing"),
        ({"learning_rate": (1e-5,), "trials": 3}, "belong to method"),
        ({"learning_rate": (1e-5,), "seeds": (1, 1)}, "1 named twice"),
        ({"method": "optuna", "trials": 2, "epochs": Range(low=1.5, high=3)}, "must be whole"),
        ({"max_length": (64, 128)}, "Extra inputs"),
        ({"method": "random", "learning_rate": (1e-5,)}, "'grid' or 'optuna'"),
    ],
)
def test_what_cannot_be_searched_is_refused(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        SearchSpec(**fields)


@pytest.mark.parametrize(("low", "high", "log"), [(1, 1, False), (2, 1, False), (0, 1, True)])
def test_a_range_has_two_ends(low: float, high: float, log: bool) -> None:
    with pytest.raises(ValidationError, match=r"must be less than|above 0"):
        Range(low=low, high=high, log=log)


def test_values_are_held_to_the_ranges_of_a_cell(nsmc: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="learning_rate = 2: Input should be less than or equal to 1"):
        SearchSpec(learning_rate=(1e-5, 2)).check(FinetuneSpec(**nsmc))


def test_proposals_repeat_themselves_and_follow_the_scores(tmp_path: Path) -> None:
    search = SearchSpec(**OPTUNA)
    for name in ("once", "again"):
        inputs: dict[str, Artifact] = {}
        tried = []
        for number in range(search.size):
            settings = proposed(search, number, inputs, tmp_path / f"{name}-{number}")
            tried.append(settings)
            dev = 90 - 1e4 * abs(settings["learning_rate"] - 3e-4) - (settings["batch_size"] == 32)
            inputs[f"{number}/1"] = scored(tmp_path / name / str(number), settings, dev)
        if name == "once":
            first = tried
    assert tried == first
    assert all(1e-5 <= settings["learning_rate"] <= 1e-3 and settings["batch_size"] in (16, 32) for settings in tried)
    other = proposed(SearchSpec(**{**OPTUNA, "sampler_seed": 1}), 0, {}, tmp_path / "other")
    assert other != first[0]


def test_a_finite_space_is_tried_out_before_anything_is_tried_twice(tmp_path: Path) -> None:
    search = SearchSpec(method="optuna", trials=7, learning_rate=(1e-5, 2e-5, 3e-5), batch_size=(16, 32))
    inputs: dict[str, Artifact] = {}
    tried = []
    for number in range(7):
        tried.append(json.dumps(proposed(search, number, inputs, tmp_path / f"p{number}")))
        dev = None if number == 2 else float(number)
        inputs[f"{number}/1"] = scored(tmp_path / "cells" / str(number), json.loads(tried[-1]), dev)
    assert len(set(tried[:6])) == 6
    assert tried[6] in tried[:6]


def test_proposals_of_one_round_differ_and_see_only_earlier_rounds(tmp_path: Path) -> None:
    search = SearchSpec(**{**OPTUNA, "at_once": 4})
    assert [list(search.seen_before(n)) for n in (0, 3, 4, 9)] == [[], [], [0, 1, 2, 3], list(range(8))]
    assert len({json.dumps(proposed(search, n, {}, tmp_path / str(n))) for n in range(4)}) == 4


def test_the_best_mean_is_chosen_and_the_first_of_equals(tmp_path: Path) -> None:
    search = SearchSpec(learning_rate=(1e-5, 2e-5, 3e-5, 4e-5), seeds=(1, 2))
    scores = {0: (90, 70), 1: (82, 80), 2: (81, 81), 3: (99, None)}
    inputs = {
        f"{number}/{seed}": scored(tmp_path / f"{number}-{seed}", settings, dev)
        for number, settings in enumerate(search.grid())
        for seed, dev in zip((1, 2), scores[number], strict=True)
    }
    stats = select(SelectionSpec(search=search), inputs, tmp_path, Runtime())
    assert stats.facts() == {"trials": 4, "diverged": 1, "trial": 1, "dev": 81.0, "settings": {"learning_rate": 2e-5}}
    assert json.loads((tmp_path / "settings.json").read_text("utf-8")) == {"learning_rate": 2e-5}
    rows = json.loads((tmp_path / "trials.json").read_text("utf-8"))
    assert [row["dev"] for row in rows] == [80, 81, 81, None]
    constant = inputs["2/1"].path / "metrics.json"
    correlated = json.loads(constant.read_text())
    correlated |= {"selected_by": "spearman", "dev": {"spearman": 0.0}}
    correlated["warnings"] = ["dev: every prediction is the same: correlations are set to 0"]
    constant.write_text(json.dumps(correlated))
    assert select(SelectionSpec(search=search), inputs, tmp_path, Runtime()).diverged == 2
    alone = {"2/1": inputs["2/1"]}
    with pytest.raises(
        ValueError, match=r"all 1 settings .* diverged or have no defined score \(every prediction is the same\)"
    ):
        select(SelectionSpec(search=search), alone, tmp_path, Runtime())
    lost = {role: artifact for role, artifact in inputs.items() if role.startswith("3/")}
    with pytest.raises(ValueError, match="all 1 settings of the search diverged"):
        select(SelectionSpec(search=search), lost, tmp_path, Runtime())


def test_a_cell_of_a_search_never_opens_test_and_the_chosen_settings_reach_the_last_one(
    model: Artifact, runtime: Runtime, nsmc: dict[str, Any], fresh: Callable[[str], Path], tmp_path: Path
) -> None:
    cell = FinetuneSpec(**{**nsmc, **QUICK, "epochs": 1}, max_train_examples=40)
    tried = trial_cell(cell, 7, {"learning_rate": 1e-4})
    assert (tried.test, tried.seed, tried.learning_rate, tried.max_train_examples) == (None, 7, 1e-4, 40)
    out = fresh("trial")
    stats = stage.run(tried, {"model": model}, out, runtime)
    assert "test" not in stats.facts()
    assert {path.name for path in out.iterdir() if path.is_file()} == {"metrics.json", "dev_predictions.arrow", "curve.jsonl"}
    chosen = fresh("chosen")
    (chosen / "settings.json").write_text('{"batch_size": 8, "epochs": 2}')
    last = fresh("last")
    stage.run(cell, {"model": model, "settings": Artifact("selection-0", chosen)}, last, runtime)
    metrics = json.loads((last / "metrics.json").read_text("utf-8"))
    assert (metrics["settings"]["batch_size"], metrics["settings"]["epochs"], len(metrics["epochs"])) == (8, 2, 2)


def test_a_setting_that_diverges_ends_its_cell_and_not_the_search(
    model: Artifact, runtime: Runtime, nsmc: dict[str, Any], fresh: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    from korealbert.finetune import tasks

    monkeypatch.setattr(type(tasks.load("nsmc")), "loss", lambda self, logits, targets: logits.sum() * float("nan"))
    cell = FinetuneSpec(**{**nsmc, **QUICK})
    stats = stage.run(trial_cell(cell, 1), {"model": model}, fresh("out"), runtime)
    assert stats.dev == {} and "the loss at step 1 is nan" in stats.warnings[0]
    with pytest.raises(ValueError, match="the loss at step 1 is nan"):
        stage.run(cell, {"model": model}, fresh("last"), runtime)


def test_patience_ends_training_and_keeps_the_best(
    model: Artifact, runtime: Runtime, nsmc: dict[str, Any], fresh: Callable[[str], Path]
) -> None:
    spec = FinetuneSpec(**{**nsmc, **QUICK, "epochs": 30, "patience": 2})
    out = fresh("out")
    stage.run(spec, {"model": model}, out, runtime)
    metrics = json.loads((out / "metrics.json").read_text("utf-8"))
    epochs = [epoch["accuracy"] for epoch in metrics["epochs"]]
    assert len(epochs) == metrics["best_epoch"] + 2 < 30
    assert metrics["dev"]["accuracy"] == max(epochs)


def test_small_batches_add_up_to_one_step(
    model: Artifact, runtime: Runtime, nsmc: dict[str, Any], fresh: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch

    monkeypatch.setattr(torch.nn.functional, "dropout", lambda values, p=0.5, training=True, inplace=False: values)
    losses = []
    for name, size in (("whole", None), ("parts", 5)):
        out = fresh(name)
        spec = FinetuneSpec(**{**nsmc, **QUICK, "epochs": 1, "micro_batch_size": size, "dropout": 0.0}, max_train_examples=70)
        stage.run(spec, {"model": model}, out, runtime)
        losses.append([json.loads(line)["loss"] for line in (out / "curve.jsonl").read_text().splitlines()])
    assert losses[0] == pytest.approx(losses[1], rel=1e-3)


@pytest.mark.parametrize("name", ["klue_ner", "klue_dp", "nsmc"])
def test_the_losses_of_parts_add_up_to_that_of_the_batch(name: str) -> None:
    import torch

    from korealbert.finetune.task_types.heads import Parse

    task, chance = tasks.load(name), torch.Generator().manual_seed(1)
    lengths = 1, 7, 3

    def scores(width: int, classes: int) -> torch.Tensor:
        return torch.randn(len(lengths), width, classes, generator=chance)

    targets: list[Any]
    logits: Any
    if name == "nsmc":
        logits, targets = scores(1, 2)[:, 0], [0, 1, 1]
    elif name == "klue_ner":
        logits, targets = scores(7, 13), [[-100, *([2] * (n - 1))] for n in lengths]
    else:
        logits, targets = Parse(scores(7, 8), scores(7, 38)), [([0] * n, [3] * n) for n in lengths]

    def part(row: int) -> Any:
        return Parse(*(values[row : row + 1] for values in logits)) if name == "klue_dp" else logits[row : row + 1]

    whole = task.terms(targets)
    parts = [task.loss(part(row), [one]) * task.terms([one]) / whole for row, one in enumerate(targets)]
    assert torch.stack(parts).sum().item() == pytest.approx(task.loss(logits, targets).item())


def test_bf16_learns_too(model: Artifact, runtime: Runtime, nsmc: dict[str, Any], fresh: Callable[[str], Path]) -> None:
    spec = FinetuneSpec(**{**nsmc, **QUICK, "epochs": 4, "precision": "bf16"})
    assert stage.run(spec, {"model": model}, fresh("out"), runtime).test["accuracy"] > 85
