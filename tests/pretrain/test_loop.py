"""The loop's arithmetic: global means, the curve of a plain reference loop, and a model that learns all three tasks."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch.nn import functional as F
from transformers import AlbertConfig as TheirConfig
from transformers import AlbertForPreTraining

from korealbert.examples.batches import Batch
from korealbert.huggingface.checkpoint import settings, to_huggingface
from korealbert.huggingface.export import SPECIAL_IDS
from korealbert.pretrain.data import micro_batches, to_tensors
from korealbert.pretrain.engine import Ranks
from korealbert.pretrain.objective import dropout_seed, make_objective
from korealbert.pretrain.optimizer import Clipping, make_optimizer
from tests.pretrain.runs import CPU, lines, no_dropout, spec, trainer, weights
from tests.pretrain.synthetic import SyntheticBatches


def test_accumulation_changes_no_loss(alone: Ranks, tmp_path: Path) -> None:
    """Only some rows have targets of the order tasks, so that means per micro-batch differ from those of the global batch."""
    weights = {"sop_weight": 0.5, "wop_weight": 2.0}
    curves = []
    for micro_batch_size in (8, 1):
        out_dir = tmp_path / str(micro_batch_size)
        trainer(spec(micro_batch_size=micro_batch_size, model=no_dropout(), **weights), out_dir, alone, sop_every=2).run()
        curves.append(lines(out_dir))
    for whole, part in zip(*curves, strict=True):
        for name in ("loss", "mlm_loss", "sop_loss", "wop_loss", "gradient_norm"):
            assert part[name] == pytest.approx(whole[name], rel=1e-4), name


def test_losses_start_at_those_of_guessing_and_the_total_is_their_sum(alone: Ranks, tmp_path: Path) -> None:
    trainer(spec(sop_weight=0.5, wop_weight=2.0, global_batch_size=24, model=no_dropout()), tmp_path, alone).run()
    first = lines(tmp_path)[0]
    assert first["mlm_loss"] == pytest.approx(math.log(40), rel=0.05)
    assert first["sop_loss"] == pytest.approx(math.log(2), rel=0.05)
    assert first["wop_loss"] == pytest.approx(math.log(16), rel=0.05)
    assert first["loss"] == pytest.approx(first["mlm_loss"] + 0.5 * first["sop_loss"] + 2 * first["wop_loss"], rel=1e-5)


def test_a_log_line_averages_over_the_targets_since_the_one_before(alone: Ranks, tmp_path: Path) -> None:
    every, third = tmp_path / "every", tmp_path / "third"
    trainer(spec(), every, alone, wop_every=1).run()
    trainer(spec(log_every=3), third, alone, wop_every=1).run()
    assert [line["step"] for line in lines(third)] == [3, 6]
    assert lines(third)[0]["wop_loss"] == pytest.approx(sum(line["wop_loss"] for line in lines(every)[:3]) / 3, rel=1e-5)
    assert lines(third)[-1]["tokens"] == lines(every)[-1]["tokens"]


def test_batches_without_targets_of_a_task_give_no_nan(alone: Ranks, tmp_path: Path) -> None:
    data = SyntheticBatches(24, wop_every=10**6, sop_every=10**6)
    data.gather = lambda view, rows, gather=data.gather: gather(view, rows + 1)  # type: ignore[method-assign,misc]
    trainer(spec(), tmp_path, alone, train=data).run()
    assert all(line["sop_loss"] is None and line["wop_loss"] is None for line in lines(tmp_path))
    assert all(line["loss"] == line["mlm_loss"] for line in lines(tmp_path))
    assert all(torch.isfinite(tensor).all() for tensor in weights(tmp_path).values())


def test_a_model_without_a_pooler_learns_no_sentence_order(alone: Ranks, tmp_path: Path) -> None:
    roberta = no_dropout(embedding_size=16, share="none", activation="gelu", pooler=False, position_offset=1, max_positions=17)
    trainer(spec(model=roberta, sop_weight=0), tmp_path, alone).run()
    assert all(line["sop_loss"] is None and line["mlm_loss"] > 0 for line in lines(tmp_path))
    assert lines(tmp_path, "heldout")[-1]["sop_accuracy"] is None
    assert "sop.weight" not in weights(tmp_path)


def test_views_without_word_order_slots_can_be_trained_on(alone: Ranks, tmp_path: Path) -> None:
    data = SyntheticBatches(24)
    full = data.gather

    def gather(view: int, rows: NDArray[np.int64]) -> Batch:
        batch = full(view, rows)
        return replace(batch, wop_positions=batch.wop_positions[:, :0], wop_labels=batch.wop_labels[:, :0])

    data.gather = gather  # type: ignore[method-assign]
    trainer(spec(), tmp_path, alone, train=data).run()
    assert all(line["wop_loss"] is None and math.isfinite(line["loss"]) for line in lines(tmp_path))


def test_without_word_order_loss_there_is_no_word_order_head(alone: Ranks, tmp_path: Path) -> None:
    trainer(spec(wop_weight=0), tmp_path, alone).run()
    assert not [name for name in weights(tmp_path) if name.startswith("wop")]
    assert all(line["wop_loss"] is None for line in (*lines(tmp_path), *lines(tmp_path, "heldout")))


def test_order_losses_can_join_later(alone: Ranks, tmp_path: Path) -> None:
    """Until then only masked tokens are trained, and the heads of the order tasks keep their weights."""
    late, never = tmp_path / "late", tmp_path / "never"
    trainer(spec(order_from_step=4, model=no_dropout()), late, alone).run()
    trainer(spec(sop_weight=0, wop_weight=0, model=no_dropout()), never, alone).run()
    curves = [[line["mlm_loss"] for line in lines(out_dir)] for out_dir in (late, never)]
    assert curves[0][:5] == pytest.approx(curves[1][:5], rel=1e-5)
    assert curves[0][5] != pytest.approx(curves[1][5], rel=1e-5)
    untouched = trainer(spec(model=no_dropout()), tmp_path / "fresh", alone).model.state_dict()
    assert torch.equal(weights(never)["sop.weight"], untouched["sop.weight"])


def test_learning_rate_and_steps_follow_the_schedule(alone: Ranks, tmp_path: Path) -> None:
    run_spec = spec(schedule={"warmup_steps": 2})
    stats = trainer(run_spec, tmp_path, alone).run()
    rates = [run_spec.schedule.learning_rate(t, peak=0.02, steps=6) for t in range(6)]
    assert [line["learning_rate"] for line in lines(tmp_path)] == pytest.approx(rates, rel=1e-5)
    assert (stats["steps"], stats["skipped_steps"], stats["sequences"], stats["epochs"]) == (6, 0, 48, 2.0)
    assert [line["step"] for line in lines(tmp_path, "heldout")] == [0, 3, 6]
    assert stats["heldout"]["mlm_perplexity"] == pytest.approx(math.exp(stats["heldout"]["mlm_loss"]))


def test_dropout_differs_by_step_and_micro_batch_and_can_be_repeated() -> None:
    seeds = {dropout_seed(1, step, micro) for step in range(50) for micro in range(20)}
    assert len(seeds) == 1000
    assert dropout_seed(1, 7, 3) == dropout_seed(1, 7, 3) != dropout_seed(2, 7, 3)


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_low_precision_keeps_fp32_weights_near_the_fp32_run(alone: Ranks, tmp_path: Path, precision: str) -> None:
    for name in ("fp32", precision):
        trainer(spec(precision=name, model=no_dropout()), tmp_path / name, alone).run()
    low, full = weights(tmp_path / precision), weights(tmp_path / "fp32")
    assert all(tensor.dtype == torch.float32 for tensor in low.values())
    if precision == "bf16":
        assert lines(tmp_path / precision)[-1]["loss"] == pytest.approx(lines(tmp_path / "fp32")[-1]["loss"], rel=0.05)
    assert any(not torch.equal(low[name], full[name]) for name in low)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("fields", [{}, {"objective": "rtd"}])
def test_a_whole_pass_compiles_into_one_graph_with_the_same_gradients(fields: dict) -> None:
    """What ``compile`` needs of the objective, without a C++ compiler."""
    run_spec = spec(model=no_dropout(pooler=not fields), **fields)
    objective = make_objective(run_spec.config_for(vocab_size=40, sequence_length=16), seed=1)
    tensors = to_tensors(SyntheticBatches(8, wop_every=10**6 if fields else 3).gather(0, np.arange(4)), CPU)
    found = []
    for call in (objective.forward, torch.compile(objective, backend="eager", fullgraph=True)):
        torch.manual_seed(3)
        objective.zero_grad()
        sums = call(*tensors)
        sums.losses.sum().backward()
        found.append((sums, [parameter.grad.clone() for parameter in objective.parameters() if parameter.grad is not None]))
    (plain, gradients), (compiled, compiled_gradients) = found
    torch.testing.assert_close(compiled.losses, plain.losses)
    assert torch.equal(compiled.targets[:2], plain.targets[:2])
    torch.testing.assert_close(compiled_gradients, gradients)


def test_divergence_is_an_error_and_not_a_checkpoint(alone: Ranks, tmp_path: Path) -> None:
    optimizer = {"name": "adamw", "lr": 1e30, "max_grad_norm": 0}
    with pytest.raises(
        FloatingPointError,
        match=r"collapsed at step \d \(loss \S+, gradient norm nan: not finite\), after 3 returns .* lower optimizer.lr",
    ):
        trainer(spec(optimizer=optimizer, checkpoint_every=1, model={**no_dropout(), "num_layers": 4}), tmp_path, alone).run()


@pytest.mark.parametrize("optimizer", [{"name": "lamb", "lr": 0.01}, {"name": "adamw", "lr": 2e-3}])
def test_our_curve_is_that_of_a_plain_loop_around_transformers(alone: Ranks, tmp_path: Path, optimizer: dict) -> None:
    """Our engine with accumulated batches against whole batches, the same optimiser and their ALBERT."""
    run_spec = spec(
        steps=30, wop_weight=0, model=no_dropout(num_groups=2), optimizer=optimizer, heldout_every=99, checkpoint_every=99
    )
    ours = trainer(run_spec, tmp_path, alone)
    initial = {name: tensor.numpy().copy() for name, tensor in ours.model.state_dict().items()}
    theirs = AlbertForPreTraining(TheirConfig(**settings(ours.config, SPECIAL_IDS))).eval()
    theirs.load_state_dict({k: torch.tensor(v) for k, v in to_huggingface(ours.config, initial).items()}, strict=False)
    ours.run()

    reference = make_optimizer(theirs, run_spec.optimizer)
    Clipping(reference, run_spec.optimizer.max_grad_norm)
    whole = run_spec.model_copy(update={"micro_batch_size": run_spec.global_batch_size})
    source = SyntheticBatches(24)
    for line in lines(tmp_path):
        step = line["step"] - 1
        (batch,) = micro_batches(
            source, whole, start=step * whole.global_batch_size, count=whole.global_batch_size, rank=0, world_size=1
        )
        output = theirs(
            input_ids=torch.from_numpy(batch.input_ids),
            token_type_ids=torch.from_numpy(batch.token_type_ids),
            attention_mask=(torch.arange(16) < torch.from_numpy(batch.lengths)[:, None]).long(),
        )
        used = torch.from_numpy(batch.mlm_labels) != -100
        predicted = output.prediction_logits.gather(1, torch.from_numpy(batch.mlm_positions)[..., None].expand(-1, -1, 40))
        mlm = F.cross_entropy(predicted[used], torch.from_numpy(batch.mlm_labels)[used])
        sop = F.cross_entropy(output.sop_logits, torch.from_numpy(batch.sop_labels))
        assert (line["mlm_loss"], line["sop_loss"]) == pytest.approx((mlm.item(), sop.item()), abs=1e-4)
        for group in reference.param_groups:
            group["lr"] = run_spec.schedule.learning_rate(step, peak=run_spec.optimizer.lr, steps=30)
        reference.zero_grad()
        (mlm + sop).backward()
        reference.step()
    assert mlm.item() < 3.6  # It did learn: guessing costs ln 40 = 3.69.


def test_a_tiny_model_memorises_all_three_tasks(alone: Ranks, tmp_path: Path) -> None:
    model = no_dropout(hidden_size=64, embedding_size=32, num_heads=4)
    run_spec = spec(
        steps=120,
        global_batch_size=16,
        micro_batch_size=16,
        model=model,
        optimizer={"name": "adamw", "lr": 6e-3},
        schedule={"warmup_steps": 10},
        log_every=40,
        heldout_every=500,
        checkpoint_every=500,
    )
    trainer(run_spec, tmp_path, alone, train=SyntheticBatches(16, num_views=1, wop_every=2)).run()
    last = lines(tmp_path)[-1]
    assert min(last["mlm_accuracy"], last["sop_accuracy"], last["wop_accuracy"]) > 0.9
