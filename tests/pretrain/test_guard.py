"""The collapse guard: what it judges as a collapse, and how the training loop reacts."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from korealbert.pretrain.data import Loaded
from korealbert.pretrain.engine import Ranks
from korealbert.pretrain.guard import Guard, GuardSpec, GuardState, Recent
from korealbert.pretrain.trainer import Collapsed, Stopped, Trainer
from tests.pretrain.runs import TINY_MODEL, lines, no_dropout, same_bytes, spec, trainer
from tests.pretrain.synthetic import SyntheticBatches


@settings(max_examples=50)
@given(st.lists(st.floats(-1e3, 1e3), min_size=1, max_size=40))
def test_recent_values_are_those_of_a_plain_mean_and_variance_while_they_are_few(values: list[float]) -> None:
    recent = Recent()
    for value in values:
        recent.add(value, horizon=100)
    assert recent.mean == pytest.approx(np.mean(values), abs=1e-6)
    assert recent.variance == pytest.approx(np.var(values), rel=1e-6, abs=1e-6)


def calm(guard: Guard, steps: int) -> None:
    rng = np.random.default_rng(0)
    for _ in range(steps):
        assert guard.after_step(5.0 + rng.normal(0, 0.1), math.exp(rng.normal(0, 0.1))) is None


@pytest.mark.parametrize(
    ("loss", "norm", "message"),
    [(9.0, 1.0, "masked-token loss 9 is"), (5.0, 50.0, "log of the gradient norm 3.9"), (None, 50.0, "log of the")],
)
def test_several_bad_steps_in_a_row_are_a_collapse_and_fewer_are_not(loss: float | None, norm: float, message: str) -> None:
    guard = Guard(GuardSpec(horizon=50, patience=3), GuardState())
    calm(guard, 60)
    for _ in range(5):
        assert guard.after_step(loss, norm) is None
        assert guard.after_step(loss, norm) is None
        assert guard.after_step(5.0, 1.0) is None
    assert guard.after_step(loss, norm) is None
    assert guard.after_step(loss, norm) is None
    fault = guard.after_step(loss, norm)
    assert fault is not None
    assert message in fault
    assert "for 3 steps in a row" in fault


@pytest.mark.parametrize(("max_z", "bad"), [(8.0, True), (1e6, False)])
def test_a_step_is_bad_beyond_the_deviation_that_the_recipe_allows(max_z: float, bad: bool) -> None:
    guard = Guard(GuardSpec(horizon=50, patience=1, max_z=max_z), GuardState())
    calm(guard, 60)
    assert (guard.after_step(9.0, 1.0) is not None) == bad


def test_nothing_but_nan_is_judged_before_there_is_a_past() -> None:
    guard = Guard(GuardSpec(horizon=50, patience=1), GuardState())
    calm(guard, 40)
    assert guard.after_step(90.0, 1.0) is None
    assert "not finite" in (guard.after_step(math.nan, 1.0) or "")
    assert "not finite" in (guard.after_step(5.0, math.inf) or "")
    assert "not finite" in (guard.after_step(None, math.nan) or "")


def test_a_model_that_leaves_its_plateau_is_no_collapse() -> None:
    """The loss falls by two nats, and the norm trebles within a few hundred steps."""
    guard = Guard(GuardSpec(), GuardState())
    rng = np.random.default_rng(1)
    for step in range(2_000):
        share = min(max(step - 800, 0) / 300, 1.0)
        assert guard.after_step(6.5 - 2 * share + rng.normal(0, 0.2), (1 + 2 * share) * math.exp(rng.normal(0, 0.15))) is None


def test_sentence_order_that_was_learnt_and_is_guessed_again_is_a_collapse() -> None:
    guard = Guard(GuardSpec(), GuardState())
    assert [guard.after_scoring(accuracy, 200) for accuracy in (0.5, 0.51, 0.6, 0.505, 0.7, 0.66, None)] == [None] * 7
    assert guard.after_scoring(0.51, 200) == "held-out accuracy of sentence order fell from 0.700 to 0.510, which is guessing"


def test_few_rows_that_were_guessed_well_are_no_learning() -> None:
    guard = Guard(GuardSpec(), GuardState())
    assert [guard.after_scoring(accuracy, 41) for accuracy in (0.659, 0.488, 0.8, 0.512)] == [None] * 4
    assert guard.after_scoring(0.83, 41) is None
    assert guard.after_scoring(0.488, 41) == "held-out accuracy of sentence order fell from 0.830 to 0.488, which is guessing"


def test_sentence_order_that_long_sequences_undo_is_no_collapse(alone: Ranks, tmp_path: Path) -> None:
    long = {"from_step": 2, "global_batch_size": 4, "micro_batch_size": 2}
    run = trainer(spec(steps=3, long=long, model={**TINY_MODEL, "max_positions": 32}), tmp_path, alone)
    judge = Guard.after_scoring
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Guard, "after_scoring", lambda guard, _, rows: judge(guard, 0.5 if run.state.step > 2 else 0.99, 200))
        assert run.run()["rollbacks"] == 0
    assert run.state.guard.best_order == 0.5


def test_skipped_steps_are_a_collapse_once_no_loss_scale_can_mend_them() -> None:
    guard = Guard(GuardSpec(patience=3), GuardState())
    assert [guard.after_overflow(5.0) for _ in range(20)] == [None] * 20
    assert guard.after_step(5.0, 1.0) is None
    assert [guard.after_overflow(math.nan) for _ in range(2)] == [None, None]
    assert guard.after_overflow(math.nan) == "fp16 overflow skipped 3 steps in a row, the last with loss nan"
    guard = Guard(GuardSpec(patience=3), GuardState())
    assert next(step for step in range(1, 60) if guard.after_overflow(5.0)) == 40


def test_an_fp16_run_whose_loss_is_nan_ends_in_an_error_instead_of_skipping_all_steps(alone: Ranks, tmp_path: Path) -> None:
    run = poisoned_run(alone, tmp_path, spoilt=range(24, 1000), precision="fp16", steps=12, max_rollbacks=1)
    with pytest.raises(Collapsed, match=r"collapsed at step 5 \(fp16 overflow skipped 5 steps in a row, .* after 1 returns"):
        run.run()


def poisoned_run(
    alone: Ranks,
    out_dir: Path,
    *,
    stop_after: int | None = None,
    spoilt: range = range(24, 32),
    checkpoint_every: int = 2,
    precision: str = "fp32",
    steps: int = 8,
    heldout_every: int = 3,
    stop_after_seconds: float | None = None,
    **guard: object,
) -> Trainer:
    """Steps of eight sequences, some of which make the loss NaN."""
    every = {"checkpoint_every": checkpoint_every, "heldout_every": heldout_every, "precision": precision}
    budget = {"stop_after_seconds": stop_after_seconds}
    wishes = {"guard": guard, "model": no_dropout(), "steps": steps, **every, **budget}
    run = trainer(spec(**wishes), out_dir, alone, stop_after=stop_after)

    def spoil(module: nn.Module, inputs: tuple[Tensor, ...], logits: Tensor) -> Tensor:
        return logits * math.nan if module.training and run.state.position in spoilt else logits

    run.model.mlm.register_forward_hook(spoil)
    return run


def test_a_collapse_returns_to_the_checkpoint_skips_its_data_and_lowers_the_rate(
    alone: Ranks, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    run = poisoned_run(alone, tmp_path)
    stats = run.run()
    assert (stats["rollbacks"], stats["sequences"]) == (1, 64)
    assert run.state.position == 64 + 16  # Two steps were lost: the one after the checkpoint, and the spoilt one.
    (event,) = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines() if '"guard"' in line]
    assert (event["step"], event["at_step"], event["skipped_sequences"], event["rate_factor"]) == (2, 4, 16, 0.5)
    assert "not finite" in event["fault"]
    assert "collapse at step 4" in caplog.text
    assert [line["step"] for line in lines(tmp_path)] == list(range(1, 9))
    straight = spec(steps=8).schedule.learning_rate(5, peak=0.02, steps=8)
    assert lines(tmp_path)[5]["learning_rate"] == pytest.approx(straight / 2, rel=1e-4)


def test_a_run_that_is_stopped_around_its_collapse_ends_in_the_same_bytes(alone: Ranks, tmp_path: Path) -> None:
    poisoned_run(alone, tmp_path / "straight").run()
    for stop_after in (2, 3, 5):
        with pytest.raises(Stopped):
            poisoned_run(alone, tmp_path / "stopped", stop_after=stop_after).run()
    poisoned_run(alone, tmp_path / "stopped").run()
    assert same_bytes(tmp_path / "straight", tmp_path / "stopped")


def test_a_collapse_before_the_first_checkpoint_returns_to_the_beginning_without_moments(alone: Ranks, tmp_path: Path) -> None:
    early = {"spoilt": range(8, 16), "checkpoint_every": 4}
    assert poisoned_run(alone, tmp_path / "straight", **early).run()["rollbacks"] == 1  # type: ignore[arg-type]
    killed = poisoned_run(alone, tmp_path / "killed", **early)  # type: ignore[arg-type]
    return_to_the_start = killed._roll_back

    def die(fault: str) -> None:
        return_to_the_start(fault)
        raise KeyboardInterrupt

    killed._roll_back = die  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        killed.run()
    poisoned_run(alone, tmp_path / "killed", **early).run()  # type: ignore[arg-type]
    assert same_bytes(tmp_path / "straight", tmp_path / "killed")


def test_a_checkpoint_that_was_due_amid_bad_steps_is_not_returned_to(alone: Ranks, tmp_path: Path) -> None:
    run = poisoned_run(alone, tmp_path, spoilt=range(0), steps=40, horizon=8, patience=3)
    judge = Guard.after_step

    def bad_from_21(guard: Guard, loss: float | None, norm: float) -> str | None:
        bad = run.state.step > 20 and not guard.state.rollbacks
        return judge(guard, 99.0 if bad else loss, norm)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Guard, "after_step", bad_from_21)
        run.run()
    (event,) = lines(tmp_path, "guard")
    assert (event["at_step"], event["step"]) == (23, 20)


def test_a_collapse_that_scores_show_returns_to_what_scored_well(alone: Ranks, tmp_path: Path) -> None:
    run = poisoned_run(alone, tmp_path, spoilt=range(0), steps=24, heldout_every=6)
    judge = Guard.after_scoring

    def guesses_from_8(guard: Guard, accuracy: float | None, rows: int) -> str | None:
        collapsed = run.state.step >= 8 and not guard.state.rollbacks
        return judge(guard, 0.5 if collapsed else 0.99, 200)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Guard, "after_scoring", guesses_from_8)
        run.run()
    (event,) = lines(tmp_path, "guard")
    assert (event["at_step"], event["step"]) == (12, 6), "the checkpoints of steps 8 and 10 are of the collapsed model"


def test_each_of_several_collapses_that_scores_show_finds_its_checkpoint(alone: Ranks, tmp_path: Path) -> None:
    run = poisoned_run(alone, tmp_path, spoilt=range(0), steps=18)
    judge, scored = Guard.after_scoring, list[int]()

    def guesses_at_12_and_9(guard: Guard, accuracy: float | None, rows: int) -> str | None:
        scored.append(run.state.step)
        collapsed = (run.state.step, guard.state.rollbacks) in [(12, 0), (9, 1)]
        return judge(guard, 0.5 if collapsed else 0.99, 200)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Guard, "after_scoring", guesses_at_12_and_9)
        assert run.run()["rollbacks"] == 2
    assert scored == [0, 3, 6, 9, 12, 9, 9, 12, 15, 18], "checkpoints are due at even steps, scores at each third"
    assert [(event["at_step"], event["step"]) for event in lines(tmp_path, "guard")][-1] == (9, 8)


def test_a_budget_that_ends_amid_a_return_to_the_start_leaves_no_untrained_model(alone: Ranks, tmp_path: Path) -> None:
    run = poisoned_run(alone, tmp_path, spoilt=range(8, 16), checkpoint_every=4, stop_after_seconds=1.0)
    run.clock = iter(range(0, 10_000, 10)).__next__
    with pytest.raises(Collapsed, match=r"the 1 seconds were over .* raise stop_after_seconds"):
        run.run()
    assert not (tmp_path / "model.safetensors").exists()


def rising_run(
    alone: Ranks, out_dir: Path, noised: Sequence[tuple[float, float]], *, spoilt: range = range(0), **fields: object
) -> tuple[Trainer, Callable[..., str | None]]:
    """Forty steps of eight sequences in views of 160 rows, where the loss of the second view is eight nats higher."""
    guard = {"horizon": 8, "patience": 3, "max_rollbacks": 1}
    rare = {"checkpoint_every": 7, "heldout_every": 99}
    wishes = {"guard": guard, "model": no_dropout(num_layers=1), "steps": 40, **rare, **fields}
    run = trainer(spec(**wishes), out_dir, alone, train=SyntheticBatches(160, noised=noised))
    judge = Guard.after_step

    def after_step(guard: Guard, loss: float | None, norm: float) -> str | None:
        in_second = run.state.position > 160
        value = math.nan if run.state.position - 8 in spoilt else 9.0 if in_second else 1.0
        return judge(guard, value, 1.0)

    return run, after_step


@pytest.mark.parametrize(
    ("noised", "batch"),
    [([(0.08, 0.0), (0.4, 0.0)], 8), ([(0.15, 0.01), (0.15, 0.1)], 12)],  # A batch of 12 spans the end of the first view.
)
def test_a_view_of_more_noise_is_no_collapse(
    alone: Ranks, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, noised: list, batch: int
) -> None:
    run, judge = rising_run(alone, tmp_path, noised, global_batch_size=batch, steps=320 // batch)
    monkeypatch.setattr(Guard, "after_step", judge)
    assert run.run()["rollbacks"] == 0


def test_a_jump_of_the_loss_in_a_view_of_the_same_noise_is_one(
    alone: Ranks, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, judge = rising_run(alone, tmp_path, [(0.151, 0.04), (0.149, 0.041)])
    monkeypatch.setattr(Guard, "after_step", judge)
    with pytest.raises(Collapsed, match="masked-token loss 9 is"):
        run.run()


def test_a_return_across_the_beginning_of_a_noisier_view_is_made_once(
    alone: Ranks, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The skipped data ends in the second view, so that no step after the return begins it."""
    run, judge = rising_run(alone, tmp_path, [(0.08, 0.0), (0.4, 0.0)], spoilt=range(160, 168), checkpoint_every=10)
    monkeypatch.setattr(Guard, "after_step", judge)
    assert run.run()["rollbacks"] == 1
    (event,) = lines(tmp_path, "guard")
    assert (event["step"], event["at_step"]) == (20, 21)


def test_a_guard_without_returns_makes_the_first_collapse_an_error(alone: Ranks, tmp_path: Path) -> None:
    with pytest.raises(Collapsed, match=r"collapsed at step 4 .* after 0 returns to a checkpoint; lower optimizer.lr"):
        poisoned_run(alone, tmp_path, max_rollbacks=0).run()


def test_batches_grow_and_leave_no_row_out(alone: Ranks, tmp_path: Path) -> None:
    phases = [{"until_step": 2, "global_batch_size": 4}, {"until_step": 4, "global_batch_size": 8}]
    run = trainer(spec(batch_warmup=phases, global_batch_size=12, model=no_dropout()), tmp_path, alone)
    taken: list[tuple[int, int]] = []
    take = run.loader.take

    def recorded(step: int, start: int) -> Loaded:
        loaded = take(step, start)
        taken.append((start, sum(len(batch.lengths) for batch, _ in loaded)))
        return loaded

    run.loader.take = recorded  # type: ignore[method-assign]
    run.run()
    assert taken == [(0, 4), (4, 4), (8, 8), (16, 8), (24, 12), (36, 12)]
    assert run.state.sequences == run.state.position == 48
    whole = trainer(
        spec(batch_warmup=phases, global_batch_size=12, micro_batch_size=2, model=no_dropout()), tmp_path / "cut", alone
    )
    whole.run()
    for a, b in zip(lines(tmp_path), lines(tmp_path / "cut"), strict=True):
        assert a["loss"] == pytest.approx(b["loss"], rel=1e-4)


@pytest.mark.parametrize(("until_step", "stop_after"), [(2, 1), (3, 4)])
def test_a_run_whose_batches_grow_makes_every_update_and_resumes_to_the_same_bytes(
    alone: Ranks, tmp_path: Path, until_step: int, stop_after: int
) -> None:
    """Whatever number of micro-batches came before the growth or the resumption."""
    grows = spec(batch_warmup=[{"until_step": until_step, "global_batch_size": 4}], global_batch_size=12)
    straight = trainer(grows, tmp_path / "straight", alone)
    straight.run()
    assert straight.state.updates == 6
    with pytest.raises(Stopped):
        trainer(grows, tmp_path / "stopped", alone, stop_after=stop_after).run()
    trainer(grows, tmp_path / "stopped", alone).run()
    assert same_bytes(tmp_path / "straight", tmp_path / "stopped")


@pytest.mark.parametrize(
    ("phases", "message"),
    [
        (
            [{"until_step": 2, "global_batch_size": 6}],
            r"micro_batch_size = 4 does not divide batch_warmup\.0\.global_batch_size = 6",
        ),
        ([{"until_step": 6, "global_batch_size": 4}], r"batch_warmup ends at steps \[6\]: .* before steps = 6"),
        (
            [{"until_step": 3, "global_batch_size": 4}, {"until_step": 2, "global_batch_size": 8}],
            r"batch_warmup ends at steps \[3, 2\]: they must grow",
        ),
    ],
)
def test_contradictory_batch_sizes_are_refused(phases: list, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        spec(batch_warmup=phases)
