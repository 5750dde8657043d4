"""Scores on the held-out rows under their one fixed noise."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from korealbert.pretrain.batches import in_row_order, to_tensors
from korealbert.pretrain.dropout import dropout_seed
from korealbert.pretrain.fit import BatchSource
from korealbert.pretrain.metrics import Metrics, TaskTotals
from korealbert.pretrain.objective import Objective
from korealbert.pretrain.ranks import Ranks


def evaluate(
    objective: Objective,
    source: BatchSource,
    ranks: Ranks,
    *,
    tasks: Sequence[str],
    batch_size: int,
    autocast: torch.dtype | None,
) -> Metrics:
    """Loss, accuracy and (MLM) perplexity per task, each a mean over its targets of all held-out rows.

    What an objective draws itself is drawn anew and alike in every scoring: each batch has a seed of its own.
    """
    was_training = objective.model.training
    objective.model.eval()
    sums = torch.zeros(3, len(tasks), dtype=torch.float64)
    with torch.no_grad(), torch.autocast(ranks.device.type, dtype=autocast, enabled=autocast is not None):
        for number, batch in in_row_order(source, batch_size, rank=ranks.rank, world_size=ranks.world_size):
            torch.manual_seed(dropout_seed(0, HELDOUT, number))
            sums += torch.stack([part.double() for part in objective.forward(*to_tensors(batch, ranks.device))]).cpu()
    objective.model.train(was_training)
    metrics = TaskTotals.of(ranks.sum(sums.flatten().tolist())).metrics(tasks, [1.0] * len(tasks))
    del metrics["loss"]
    mlm_loss = metrics["mlm_loss"]
    metrics["mlm_perplexity"] = None if mlm_loss is None else math.exp(min(mlm_loss, 700.0))
    return metrics


HELDOUT = -1
"""Stands for the step in the seeds of held-out batches."""
