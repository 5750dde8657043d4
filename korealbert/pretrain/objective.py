"""Losses and accuracies of the three tasks as sums over targets, so that they can be added up before they are divided."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from korealbert.examples.batches import IGNORED
from korealbert.model.heads import Logits
from korealbert.pretrain.batches import TensorBatch


class TaskSums(NamedTuple):
    """Sums over the targets of a batch, one entry per task in the order of ``TASKS``."""

    losses: Tensor
    """Cross-entropy in nats, fp32 [3]; 0 for a task without targets."""
    correct: Tensor
    """Targets whose label has the highest logit, int64 [3]."""


def task_sums(logits: Logits, batch: TensorBatch) -> TaskSums:
    """Sum up cross-entropy and hits of every task."""
    no_loss = logits.mlm_BPV.new_zeros((), dtype=torch.float32)
    pairs = ((logits.mlm_BPV, batch.mlm_labels), (logits.sop_B2, batch.sop_labels), (logits.wop_BWC, batch.wop_labels))
    losses, correct = [], []
    for task_logits, labels in pairs:
        if task_logits is None:
            losses.append(no_loss)
            correct.append(labels.new_zeros(()))
            continue
        flat = task_logits.flatten(0, -2).float()
        losses.append(F.cross_entropy(flat, labels.flatten(), ignore_index=IGNORED, reduction="sum"))
        with torch.no_grad():
            correct.append((flat.argmax(-1) == labels.flatten()).sum())
    return TaskSums(torch.stack(losses), torch.stack(correct))
