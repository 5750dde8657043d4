"""Replaced-token detection: its losses computed by hand, its samples, and that it learns."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional as F

from korealbert.examples.batches import IGNORED
from korealbert.model.config import ModelConfig
from korealbert.model.heads import restore, sample
from korealbert.pretrain.data import to_tensors
from korealbert.pretrain.engine import Ranks
from korealbert.pretrain.objective import make_objective
from korealbert.pretrain.spec import PretrainSpec
from korealbert.pretrain.trainer import Stopped
from tests.pretrain.runs import CPU, lines, no_dropout, same_bytes, spec, trainer, weights
from tests.pretrain.synthetic import SyntheticBatches

ELECTRA = {"pooler": False, "activation": "gelu", "share": "none"}


def rtd_spec(**fields: Any) -> PretrainSpec:
    """A discriminator of width 16 beside a generator of width 8."""
    return spec(**{"objective": "rtd", "model": no_dropout(**ELECTRA), **fields})


def rtd_rows(count: int = 24, **options: Any) -> SyntheticBatches:
    """Rows without moved tokens."""
    return SyntheticBatches(count, wop_every=10**9, **options)


@pytest.mark.parametrize(
    ("hidden", "heads", "wanted", "size", "generator_heads"),
    [(768, 0, 0, 256, 4), (256, 0, 0, 64, 1), (1024, 0, 256, 256, 4), (256, 4, 256, 256, 4)],
)
def test_generators_are_those_of_electra_and_koelectra(
    hidden: int, heads: int, wanted: int, size: int, generator_heads: int
) -> None:
    model = {"hidden_size": hidden, "num_heads": heads, **ELECTRA}
    run = PretrainSpec(steps=10, objective="rtd", model=model, rtd={"generator_hidden_size": wanted})
    generator = run.config_for(vocab_size=100, sequence_length=128).generator()
    assert (generator.hidden_size, generator.num_heads, generator.intermediate_size) == (size, generator_heads, 4 * size)
    assert (generator.num_layers, generator.embedding_size) == (12, 128)


def test_embeddings_are_shared_and_unused_heads_do_not_exist(alone: Ranks, tmp_path: Path) -> None:
    trainer(rtd_spec(), tmp_path, alone, train=rtd_rows()).run()
    names = set(weights(tmp_path))
    assert not [name for name in names if name.startswith(("mlm", "sop", "wop", "generator.embeddings", "encoder.pooler"))]
    assert {"rtd.dense.weight", "rtd.output.weight", "generator.mlm.bias", "encoder.embeddings.word.weight"} <= names


def test_losses_are_those_of_the_paper_computed_by_hand() -> None:
    config = ModelConfig(**no_dropout(**ELECTRA), vocab_size=40, generator_hidden_size=8)
    objective = make_objective(config, seed=3)
    batch = rtd_rows().gather(0, np.arange(6))
    tensors = to_tensors(batch, CPU)
    torch.manual_seed(11)
    found = objective.forward(*tensors)

    model: Any = objective.model
    torch.manual_seed(11)
    logits = model.guess(tensors.input_ids, tensors.token_type_ids, tensors.lengths, tensors.mlm_positions)
    drawn = sample(logits)
    used = batch.mlm_labels != IGNORED
    generator_loss = F.cross_entropy(
        logits[torch.from_numpy(used)], tensors.mlm_labels[torch.from_numpy(used)], reduction="sum"
    )
    shown, labels = batch.input_ids.copy(), np.zeros(batch.input_ids.shape)
    for row, slot in zip(*used.nonzero(), strict=True):
        place = batch.mlm_positions[row, slot]
        shown[row, place] = drawn[row, slot]
        labels[row, place] = drawn[row, slot] != batch.mlm_labels[row, slot]
    verdicts = model.judge(torch.from_numpy(shown), tensors.token_type_ids, tensors.lengths).double().detach().numpy()
    loss = hits = count = 0.0
    for row, length in enumerate(batch.lengths):
        for place in range(length):
            right = 1 / (1 + math.exp(-verdicts[row, place] * (1 if labels[row, place] else -1)))
            loss, hits, count = loss - math.log(right), hits + (right > 0.5), count + 1
    assert found.losses[:2].tolist() == pytest.approx([generator_loss.item(), loss], rel=1e-5)
    assert found.correct[1].item() == hits
    assert found.targets.tolist() == [used.sum(), count, labels.sum()]
    assert objective.count_targets(batch).tolist() == [used.sum(), count, 0]


def test_no_gradient_of_detection_reaches_the_generator() -> None:
    config = ModelConfig(**no_dropout(**ELECTRA), vocab_size=40, generator_hidden_size=8)
    objective = make_objective(config, seed=3)
    objective.forward(*to_tensors(rtd_rows().gather(0, np.arange(6)), CPU)).losses[1].backward()
    gradients = [parameter.grad for parameter in objective.model.generator.parameters()]
    assert all(gradient is None or not gradient.any() for gradient in gradients)
    assert all(parameter.grad is not None for parameter in objective.model.encoder.parameters())


@settings(max_examples=30)
@given(seed=st.integers(0, 1000))
def test_restoring_labels_gives_the_clean_text_and_touches_nothing_else(seed: int) -> None:
    source = rtd_rows(8, seed=seed)
    batch = source.gather(seed % 2, np.arange(8))
    tensors = to_tensors(batch, CPU)
    restored = restore(tensors.input_ids, tensors.mlm_positions, tensors.mlm_labels).numpy()
    expected = batch.input_ids.copy()
    used = batch.mlm_labels != IGNORED
    expected[used.nonzero()[0], batch.mlm_positions[used]] = batch.mlm_labels[used]
    assert np.array_equal(restored, expected)


def test_guesses_are_drawn_from_the_softmax() -> None:
    torch.manual_seed(5)
    logits = torch.tensor([0.0, 1.0, 2.0, -1.0])
    drawn = sample(logits.expand(1, 40_000, 4))
    share = torch.bincount(drawn.flatten(), minlength=4) / 40_000
    assert torch.allclose(share, logits.softmax(-1), atol=0.01)


def test_losses_start_at_those_of_guessing_and_the_total_weighs_detection_by_50(alone: Ranks, tmp_path: Path) -> None:
    trainer(rtd_spec(global_batch_size=24), tmp_path, alone, train=rtd_rows()).run()
    first = lines(tmp_path)[0]
    assert first["mlm_loss"] == pytest.approx(math.log(40), rel=0.05)
    assert first["rtd_loss"] == pytest.approx(math.log(2), rel=0.05)
    assert first["loss"] == pytest.approx(first["mlm_loss"] + 50 * first["rtd_loss"], rel=1e-5)
    assert {"sop_loss", "wop_loss"}.isdisjoint(first)
    heldout = lines(tmp_path, "heldout")[-1]
    assert {"rtd_accuracy", "replaced_accuracy", "mlm_perplexity"} <= set(heldout)


def test_stopped_and_resumed_equals_straight_with_the_same_guesses(alone: Ranks, tmp_path: Path) -> None:
    run = rtd_spec(model={**no_dropout(**ELECTRA), "hidden_dropout": 0.1})
    trainer(run, tmp_path / "straight", alone, train=rtd_rows()).run()
    with pytest.raises(Stopped):
        trainer(run, tmp_path / "stopped", alone, train=rtd_rows(), stop_after=3).run()
    trainer(run, tmp_path / "stopped", alone, train=rtd_rows()).run()
    assert same_bytes(tmp_path / "straight", tmp_path / "stopped")


def test_a_discriminator_learns_to_find_what_a_poor_generator_put_in() -> None:
    """The generator is not trained: it would soon know these few rows, and replace nothing any more."""
    config = ModelConfig(
        **no_dropout(**{**ELECTRA, "hidden_size": 32, "embedding_size": 32}), vocab_size=40, generator_hidden_size=16
    )
    objective = make_objective(config, seed=3)
    optimizer = torch.optim.AdamW([*objective.model.encoder.parameters(), *objective.model.rtd.parameters()], lr=1e-2)
    source, found = rtd_rows(2, num_views=8), []
    batches = [to_tensors(source.gather(view, np.arange(8) % 2), CPU) for view in range(8)]
    for step in range(100):
        torch.manual_seed(step)
        sums = objective.forward(*batches[step % 8])
        optimizer.zero_grad()
        (sums.losses[1] / sums.targets[1]).backward()
        optimizer.step()
        found.append((sums.correct / sums.targets).tolist())
    assert np.mean([accuracy for _, _, accuracy in found[-10:]]) > 0.4  # 0 for one that says "original" to all
    assert np.mean([accuracy for _, accuracy, _ in found[-10:]]) > 0.92  # 0.88 for that one


def test_both_losses_fall_in_the_loop(alone: Ranks, tmp_path: Path) -> None:
    run = rtd_spec(steps=40, optimizer={"name": "adamw", "lr": 5e-3}, log_every=20, heldout_every=500, checkpoint_every=500)
    trainer(run, tmp_path, alone, train=rtd_rows(4, num_views=8)).run()
    first, last = lines(tmp_path)
    assert last["mlm_loss"] < first["mlm_loss"] - 0.2
    assert last["rtd_loss"] < first["rtd_loss"] - 0.05
