"""Scores on the held-out rows under their one fixed noise."""

from __future__ import annotations

import math

import torch

from korealbert.model.heads import PretrainingModel
from korealbert.pretrain.batches import BatchSource, count_targets, in_row_order, to_tensors
from korealbert.pretrain.metrics import Metrics, TaskTotals
from korealbert.pretrain.objective import task_sums
from korealbert.pretrain.ranks import Ranks


def evaluate(
    model: PretrainingModel, source: BatchSource, ranks: Ranks, *, batch_size: int, autocast: torch.dtype | None
) -> Metrics:
    """Loss, accuracy and (MLM) perplexity per task, each a mean over its targets of all held-out rows."""
    was_training = model.training
    model.eval()
    sums = torch.zeros(2, 3, dtype=torch.float64)
    targets = torch.zeros(3, dtype=torch.float64)
    with torch.no_grad(), torch.autocast(ranks.device.type, dtype=autocast, enabled=autocast is not None):
        for batch in in_row_order(source, batch_size, rank=ranks.rank, world_size=ranks.world_size):
            tensors = to_tensors(batch, ranks.device)
            losses, correct = task_sums(model(*tensors.inputs), tensors)
            sums += torch.stack([losses.double(), correct.double()]).cpu()
            targets += torch.from_numpy(count_targets(batch, model.heads))
    model.train(was_training)
    summed = ranks.sum([*sums[0].tolist(), *sums[1].tolist(), *targets.tolist()])
    totals = TaskTotals(losses=summed[:3], correct=summed[3:6], targets=summed[6:])
    metrics = totals.metrics([1.0, 1.0, 1.0])
    del metrics["loss"]
    mlm_loss = metrics["mlm_loss"]
    metrics["mlm_perplexity"] = None if mlm_loss is None else math.exp(min(mlm_loss, 700.0))
    return metrics
