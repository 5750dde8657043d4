"""The contrastive loss: neighbouring rows come in one micro-batch, and each is to be found among all of them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from korealbert.artifact import Artifact
from korealbert.examples.batches import Batch, ExampleBatches
from korealbert.pretrain.data import micro_batches, rows_at, to_tensors
from korealbert.pretrain.engine import Ranks
from korealbert.pretrain.job import open_batches
from korealbert.pretrain.objective import make_objective
from korealbert.pretrain.spec import PretrainSpec
from tests.pretrain.runs import CPU, lines, no_dropout, same_bytes, spec, trainer
from tests.pretrain.synthetic import SyntheticBatches

SCALE = 20.0


def contrast_spec(**fields: Any) -> PretrainSpec:
    return spec(**{"contrast_weight": 0.5, "sop_weight": 0.0, "wop_weight": 0.0, "model": no_dropout()} | fields)


@given(st.integers(2, 300), st.integers(1, 3), st.integers(0, 2**32 - 1))
def test_every_epoch_visits_each_pair_of_neighbours_once(num_rows: int, num_views: int, seed: int) -> None:
    visited = num_rows - num_rows % 2
    views, rows = rows_at(0, 2 * visited, num_rows=num_rows, num_views=num_views, seed=seed, together=2)
    assert np.array_equal(views, np.repeat([0, 1 % num_views], visited))
    assert np.array_equal(rows[1::2], rows[::2] + 1) and not (rows[::2] % 2).any()
    for epoch in np.split(rows, 2):
        assert np.array_equal(np.sort(epoch), np.arange(visited))


@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_every_rank_gets_whole_pairs(ranks: int) -> None:
    settings = contrast_spec(global_batch_size=24, micro_batch_size=4)
    source = SyntheticBatches(50, rows_each=2)
    parts = [
        batch
        for rank in range(ranks)
        for batch in micro_batches(source, settings, start=24, count=24, rank=rank, world_size=ranks)
    ]
    assert sum(len(batch.documents) for batch in parts) == 24
    assert all(np.array_equal(batch.documents[::2], batch.documents[1::2]) for batch in parts)


@pytest.mark.parametrize("documents", [[0, 0, 1, 1], [0, 0, 0, 0, 1, 1], [0, 1, 2, 2], [3, 3, 3], [0, 1, 2, 3]])
def test_the_loss_is_that_of_the_definition(documents: list[int]) -> None:
    """Computed once more row by row in float64: softmax over the neighbour and all rows of other documents."""
    settings = contrast_spec()
    config = settings.config_for(vocab_size=40, sequence_length=16)
    objective = make_objective(config, seed=3, contrast_scale=SCALE).eval()
    batch = replace(SyntheticBatches(9).gather(0, np.arange(len(documents))), documents=np.array(documents))
    tensors = to_tensors(batch, CPU)
    with torch.no_grad():
        sums = objective(*tensors)
        hidden_BLH, _ = objective.model.encoder(tensors.input_ids, tensors.token_type_ids, tensors.lengths)
    means = [row[:length].double().mean(0).numpy() for row, length in zip(hidden_BLH, batch.lengths, strict=True)]
    loss, hits, targets = 0.0, 0, 0
    for row, own in enumerate(documents):
        other = row ^ 1
        if other >= len(documents) or documents[other] != own:
            continue
        rivals = [other, *(n for n, document in enumerate(documents) if document != own)]
        cosines = [SCALE * means[row] @ means[n] / np.linalg.norm(means[row]) / np.linalg.norm(means[n]) for n in rivals]
        loss += float(np.log(np.exp(cosines).sum()) - cosines[0])
        hits += int(np.argmax(cosines) == 0)
        targets += 1
    assert float(sums.losses[3]) == pytest.approx(loss, abs=1e-4)
    assert (int(sums.correct[3]), int(sums.targets[3])) == (hits, targets)
    assert objective.count_targets(batch)[3] == targets


def test_a_batch_without_neighbours_leaves_finite_gradients() -> None:
    objective = make_objective(contrast_spec().config_for(vocab_size=40, sequence_length=16), seed=3, contrast_scale=SCALE)
    batch = replace(SyntheticBatches(9).gather(0, np.arange(3)), documents=np.array([7, 8, 7]))
    objective(*to_tensors(batch, CPU)).losses.sum().backward()
    gradients = [parameter.grad for parameter in objective.parameters() if parameter.grad is not None]
    assert gradients and all(torch.isfinite(gradient).all() for gradient in gradients)


class _Pairs(SyntheticBatches):
    """Eight documents of two rows, each row one piece over and over: neighbours have none in common."""

    def gather(self, view: int, rows: NDArray[np.int64]) -> Batch:
        batch = super().gather(view, rows)
        text = (batch.input_ids >= 5) & (np.arange(self.sequence_length) < batch.lengths[:, None])
        piece = 5 + rows // 2 + 8 * (rows % 2)
        return replace(batch, input_ids=np.where(text, piece[:, None], batch.input_ids))


def test_a_run_learns_which_rows_are_neighbours(alone: Ranks, tmp_path: Path) -> None:
    batch = {"global_batch_size": 16, "micro_batch_size": 16}
    settings = contrast_spec(steps=80, contrast_weight=1.0, optimizer={"name": "adamw", "lr": 0.01}, **batch)
    trainer(settings, tmp_path, alone, train=_Pairs(16, rows_each=2, wop_every=10**6)).run()
    first, last = lines(tmp_path)[0], lines(tmp_path)[-1]
    assert first["contrast_accuracy"] < 0.5 and last["contrast_accuracy"] == 1.0
    assert first["loss"] == pytest.approx(first["mlm_loss"] + first["contrast_loss"], rel=1e-5)


def test_a_run_goes_on_in_the_same_bytes(alone: Ranks, tmp_path: Path) -> None:
    settings, rows = contrast_spec(model=spec().model), {"rows_each": 2}
    trainer(settings, tmp_path / "whole", alone, **rows).run()
    with pytest.raises(Exception, match="stopped after step 3"):
        trainer(settings, tmp_path / "stopped", alone, stop_after=3, **rows).run()
    trainer(settings, tmp_path / "stopped", alone, **rows).run()
    assert same_bytes(tmp_path / "whole", tmp_path / "stopped")


def test_real_rows_name_their_documents(ancestry: dict[str, Artifact]) -> None:
    paths = ancestry["examples"].path, ancestry["views"].path
    named = open_batches(contrast_spec(), *paths, "train")
    alike = ExampleBatches(*paths, "train")
    rows = np.arange(12)
    batch, without = named.gather(0, rows), alike.gather(0, rows)
    assert batch.documents.shape == (12,) and without.documents.shape == (12, 0)
    assert 1 < len(set(batch.documents.tolist())) < 12  # Documents of several rows.
    assert np.array_equal(batch.input_ids, without.input_ids)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"objective": "rtd", "model": no_dropout(pooler=False)}, "belongs to objective = 'mlm'"),
        ({"packing": "best_fit"}, "set packing = 'none'"),
        ({"global_batch_size": 9, "micro_batch_size": 3}, "even number of at least 4 rows"),
        ({"global_batch_size": 8, "micro_batch_size": 2}, "even number of at least 4 rows"),
        ({"contrast_weight": 0.0, "contrast_scale": 10.0}, "contrast_weight = 0; remove it"),
    ],
)
def test_contradictions_are_found_at_once(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        contrast_spec(**fields)


def test_ranks_that_would_part_neighbours_are_refused() -> None:
    assert contrast_spec(global_batch_size=12, micro_batch_size=6).micro_batches(2, 12) == (6, 1)
    assert contrast_spec(global_batch_size=20, micro_batch_size=10).micro_batches(2, 20) == (10, 1)
    with pytest.raises(ValueError, match="no whole pairs of neighbours"):
        contrast_spec(global_batch_size=12, micro_batch_size=4).micro_batches(4, 12)
