"""The bag-of-words loss predicts the masked pieces of a sequence from the mean of its other pieces' vectors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from safetensors.torch import load_file

from korealbert.examples.batches import IGNORED, Batch
from korealbert.model.parameters import count_parameters, expected_parameters
from korealbert.pretrain.data import to_tensors
from korealbert.pretrain.engine import Ranks
from korealbert.pretrain.objective import make_objective
from korealbert.pretrain.spec import PretrainSpec
from tests.pretrain.runs import CPU, lines, no_dropout, same_bytes, spec, trainer
from tests.pretrain.synthetic import SyntheticBatches

MODERN = {"architecture": "modern", "hidden_size": 16, "num_layers": 2, "num_heads": 2, "max_positions": 32}


def bow_spec(**fields: Any) -> PretrainSpec:
    return spec(**{"bow_weight": 0.5, "sop_weight": 0.0, "wop_weight": 0.0, "model": no_dropout()} | fields)


def rows() -> Batch:
    return SyntheticBatches(9).gather(0, np.arange(4))


def packed(batch: Batch) -> Batch:
    """Pack two rows of a batch into one."""
    width = 2 * batch.input_ids.shape[1]
    ids = np.zeros((2, width), dtype=np.int64)
    slots = 2 * batch.mlm_positions.shape[1]
    positions, labels = np.zeros((2, slots), dtype=np.int64), np.full((2, slots), IGNORED)
    lengths = batch.lengths.reshape(2, 2)
    for row in range(len(batch.lengths)):
        begin = int(lengths[row // 2, 0]) if row % 2 else 0
        ids[row // 2, begin : begin + batch.lengths[row]] = batch.input_ids[row, : batch.lengths[row]]
        own = slice(row % 2 * slots // 2, (row % 2 + 1) * slots // 2)
        labels[row // 2, own] = batch.mlm_labels[row]
        positions[row // 2, own] = np.where(batch.mlm_labels[row] == IGNORED, 0, batch.mlm_positions[row] + begin)
    nothing, unlabelled = np.zeros((2, 0), dtype=np.int64), np.full((2, 2), IGNORED)
    return Batch(ids, nothing, lengths, positions, labels, unlabelled, nothing, nothing)


@pytest.mark.parametrize("model", [None, MODERN])
def test_the_loss_is_that_of_the_definition(model: dict[str, Any] | None) -> None:
    """Computed again piece by piece in float64."""
    settings = bow_spec(**({"model": model} if model else {}))
    objective = make_objective(settings.config_for(vocab_size=40, sequence_length=16), seed=3).eval()
    batch = rows()
    tensors = to_tensors(batch, CPU)
    with torch.no_grad():
        sums = objective(*tensors)
        hidden_BLH, _ = objective.model.encoder(tensors.input_ids, tensors.token_type_ids, tensors.lengths)
        head, table = objective.model.bow.double(), objective.model.encoder.embeddings.word.weight.double()
        loss, hits, targets = 0.0, 0, 0
        for row, length in enumerate(batch.lengths):
            pieces = {int(p): int(x) for p, x in zip(batch.mlm_positions[row], batch.mlm_labels[row], strict=True) if x >= 0}
            others = [place for place in range(length) if place not in pieces]
            logs = head(hidden_BLH[row, others].double().mean(0), table).log_softmax(-1)
            loss -= sum(float(logs[piece]) for piece in pieces.values())
            hits += sum(int(logs.argmax()) == piece for piece in pieces.values())
            targets += len(pieces)
    assert float(sums.losses[3]) == pytest.approx(loss, rel=1e-5)
    assert (int(sums.correct[3]), int(sums.targets[3])) == (hits, targets)
    assert objective.count_targets(batch)[3] == targets


def test_packed_rows_have_the_loss_of_the_rows_in_them() -> None:
    objective = make_objective(bow_spec(model=MODERN).config_for(vocab_size=40, sequence_length=32), seed=3).eval()
    batch = rows()
    with torch.no_grad():
        apart, together = (objective(*to_tensors(one, CPU)) for one in (batch, packed(batch)))
    for task in (0, 3):
        assert float(together.losses[task]) == pytest.approx(float(apart.losses[task]), rel=1e-5)
        assert (together.correct[task], together.targets[task]) == (apart.correct[task], apart.targets[task])


class _Topics(SyntheticBatches):
    """Every row repeats one piece, so that the mean of the others tells what is masked."""

    def gather(self, view: int, numbers: NDArray[np.int64]) -> Batch:
        batch = super().gather(view, numbers)
        text = (batch.input_ids >= 5) & (np.arange(self.sequence_length) < batch.lengths[:, None])
        piece_B1 = (5 + numbers % 16)[:, None]
        batch.input_ids[:] = np.where(text, piece_B1, batch.input_ids)
        batch.mlm_labels[:] = np.where(batch.mlm_labels == IGNORED, IGNORED, piece_B1)
        return batch


def test_a_run_learns_what_a_mean_says_of_masked_pieces(alone: Ranks, tmp_path: Path) -> None:
    rare = {"heldout_every": 100, "checkpoint_every": 100}
    settings = bow_spec(steps=100, bow_weight=1.0, optimizer={"name": "adamw", "lr": 0.03}, **rare)
    trainer(settings, tmp_path, alone, train=_Topics(32)).run()
    trained = lines(tmp_path)
    first, last = trained[0], np.mean([line["bow_accuracy"] for line in trained[-10:]])
    assert first["bow_accuracy"] < 0.5 and last > 0.7
    assert first["loss"] == pytest.approx(first["mlm_loss"] + first["bow_loss"], rel=1e-5)


def test_a_run_goes_on_in_the_same_bytes(alone: Ranks, tmp_path: Path) -> None:
    settings = bow_spec(model=spec().model)
    trainer(settings, tmp_path / "whole", alone).run()
    with pytest.raises(Exception, match="stopped after step 3"):
        trainer(settings, tmp_path / "stopped", alone, stop_after=3).run()
    trainer(settings, tmp_path / "stopped", alone).run()
    assert same_bytes(tmp_path / "whole", tmp_path / "stopped")


def test_the_head_begins_afresh_on_weights_that_lack_it(alone: Ranks, tmp_path: Path) -> None:
    trainer(bow_spec(bow_weight=0.0), tmp_path / "first", alone).run()
    trainer(bow_spec(), tmp_path / "second", alone, initial=tmp_path / "first").run()
    trainer(bow_spec(bow_weight=0.0), tmp_path / "third", alone, initial=tmp_path / "second").run()
    names = {which: set(load_file(tmp_path / which / "model.safetensors")) for which in ("first", "second", "third")}
    assert names["third"] == names["first"]
    assert {name.partition(".")[0] for name in names["second"] - names["first"]} == {"bow"}


def test_parameters_are_counted() -> None:
    counts = [bow_spec(model=MODERN, bow_weight=weight) for weight in (0.0, 0.5)]
    configs = [settings.config_for(vocab_size=40, sequence_length=16) for settings in counts]
    with_head, without = (count_parameters(make_objective(config, seed=1).model) for config in reversed(configs))
    head = 16 * 16 + 16 + configs[1].table_rows
    assert with_head - without == head
    assert expected_parameters(configs[1]) - expected_parameters(configs[0]) == 16 * 16 + 40


def test_detection_has_no_bag_of_words() -> None:
    with pytest.raises(ValueError, match="belongs to objective = 'mlm'; remove it"):
        bow_spec(objective="rtd", model=no_dropout(pooler=False))
