"""Objectives: the module that DeepSpeed wraps and torch compiles, tensors of a micro-batch in, sums over its targets out.

Losses and hits are sums, so that they can be added over micro-batches and ranks before they are divided by the targets.

Shapes: T tasks of the objective, in the order of ``PretrainSpec.tasks``. The other letters are explained in
``korealbert.model`` and in ``korealbert.examples.batches.Batch``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from hashlib import blake2b
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

from korealbert.examples.batches import IGNORED, Batch
from korealbert.model.config import AnyConfig, ModelConfig
from korealbert.model.heads import MaskedTokenHead, PretrainingModel, ReplacedTokenModel, initialise, restore, sample
from korealbert.model.modern import sequence_numbers
from korealbert.pretrain.cross_entropy import PieceTargets, chunked, chunks
from korealbert.pretrain.data import TensorBatch, in_row_order, to_tensors
from korealbert.pretrain.engine import Ranks
from korealbert.pretrain.metrics import Metrics, TaskTotals
from korealbert.pretrain.rows import BatchSource


class _TaskSums(NamedTuple):
    """Sums over the targets of a micro-batch: [T] for all tasks of an objective, scalars for a single one."""

    losses: Tensor
    """Cross-entropy in nats, fp32; 0 for a task without targets."""
    correct: Tensor
    """Targets that were predicted, int64."""
    targets: Tensor
    """Targets, int64."""


def make_objective(config: AnyConfig, *, seed: int) -> Objective:
    """Return a model with random weights, which ``seed`` decides, and its losses."""
    objective = _objective(config)
    initialise(objective.model, config.initializer_range, seed)
    return objective


def parameter_names(config: AnyConfig) -> list[str]:
    """Return the names of all parameters of a model without allocating it."""
    with torch.device("meta"):
        return [name for name, _ in _objective(config).model.named_parameters()]


def _objective(config: AnyConfig) -> Objective:
    if isinstance(config, ModelConfig) and config.generator_hidden_size:
        return ReplacedTokenObjective(ReplacedTokenModel(config))
    return MaskedTokenObjective(PretrainingModel(config))


class MaskedTokenObjective(nn.Module):
    """Masked tokens, sentence order, word order and, if the model has a head for it, the bag of masked tokens."""

    def __init__(self, model: PretrainingModel) -> None:
        super().__init__()
        self.model = model

    def forward(self, *tensors: Tensor) -> _TaskSums:
        """Return the sums [T] of a micro-batch, given as the fields of a ``TensorBatch``."""
        batch, model = TensorBatch(*tensors), self.model
        inputs = (batch.input_ids, batch.token_type_ids, batch.lengths, batch.mlm_positions, batch.wop_positions)
        read, table_VE = model.read(*inputs), model.encoder.embeddings.word.weight
        mlm = _piece_cross_entropy(model.mlm, read.mlm_BPH, table_VE, batch.mlm_labels)
        sop = _cross_entropy(None if model.sop is None else model.sop(read.first_BH), batch.sop_labels)
        wop = _cross_entropy(None if model.wop is None else model.wop(read.wop_BWH), batch.wop_labels)
        if model.bow is None:
            return _stacked([mlm, sop, wop])
        lengths_BS = batch.lengths if batch.lengths.ndim == 2 else batch.lengths[:, None]
        number_BL = sequence_numbers(lengths_BS, batch.input_ids.shape[1])
        means_BSH = _means_of_unmasked(read.hidden_BLH, number_BL, lengths_BS.shape[1], batch)
        number_BP = number_BL.gather(1, batch.mlm_positions)
        bow = _bag_cross_entropy(model.bow, means_BSH, table_VE, number_BP, batch.mlm_labels)
        return _stacked([mlm, sop, wop, bow])

    def count_targets(self, batch: Batch) -> NDArray[np.int64]:
        """Return the numbers of targets [T] by which losses are divided; 0 for a task without a head."""
        labels = {"mlm": batch.mlm_labels, "sop": batch.sop_labels, "wop": batch.wop_labels}
        heads = self.model.heads
        counts = [np.count_nonzero(of_task != IGNORED) if task in heads else 0 for task, of_task in labels.items()]
        if "bow" in heads:
            counts.append(counts[0])
        return np.array(counts, dtype=np.int64)


class ReplacedTokenObjective(nn.Module):
    """ELECTRA: the masked tokens of a generator, then for each token of the text with its guesses whether it was replaced.

    A guess that equals the original is no replacement. The third task is part of the second and only reported: the accuracy on
    replaced tokens, which is 0 for a discriminator that calls every token original.
    """

    def __init__(self, model: ReplacedTokenModel) -> None:
        super().__init__()
        self.model = model

    def forward(self, *tensors: Tensor) -> _TaskSums:
        """Return the sums [T] of a micro-batch; guesses are drawn with torch's global random generator."""
        batch = TensorBatch(*tensors)
        types_BL, lengths_B = batch.token_type_ids, batch.lengths
        positions_BP, labels_BP = batch.mlm_positions, batch.mlm_labels
        guesses_BPV = self.model.guess(batch.input_ids, types_BL, lengths_B, positions_BP)
        original_BL = restore(batch.input_ids, positions_BP, labels_BP)
        drawn_BP = torch.where(labels_BP == IGNORED, labels_BP, sample(guesses_BPV))
        shown_BL = restore(original_BL, positions_BP, drawn_BP)
        replaced_BL = shown_BL != original_BL
        verdicts_BL = self.model.judge(shown_BL, types_BL, lengths_B).float()
        real_BL = torch.arange(shown_BL.shape[1], device=shown_BL.device) < lengths_B[:, None]
        losses_BL = F.binary_cross_entropy_with_logits(verdicts_BL, replaced_BL.float(), reduction="none") * real_BL
        hits_BL = ((verdicts_BL > 0) == replaced_BL) & real_BL
        rtd = _TaskSums(losses_BL.sum(), hits_BL.sum(), real_BL.sum())
        found = _TaskSums((losses_BL.detach() * replaced_BL).sum(), (hits_BL & replaced_BL).sum(), replaced_BL.sum())
        return _stacked([_cross_entropy(guesses_BPV, labels_BP), rtd, found])

    def count_targets(self, batch: Batch) -> NDArray[np.int64]:
        """Return the numbers of targets [T] by which losses are divided; special tokens count, padding does not."""
        return np.array([np.count_nonzero(batch.mlm_labels != IGNORED), batch.lengths.sum(), 0], dtype=np.int64)


Objective = MaskedTokenObjective | ReplacedTokenObjective


def _stacked(tasks: list[_TaskSums]) -> _TaskSums:
    return _TaskSums(*(torch.stack(column) for column in zip(*tasks, strict=True)))


def _cross_entropy(logits: Tensor | None, labels: Tensor) -> _TaskSums:
    """Return the sums for logits [..., C] and labels [...]; zeros without logits."""
    if logits is None:
        nothing = labels.new_zeros(())
        return _TaskSums(nothing.float(), nothing, nothing)
    flat, targets = logits.flatten(0, -2).float(), labels.flatten()
    loss = F.cross_entropy(flat, targets, ignore_index=IGNORED, reduction="sum")
    with torch.no_grad():
        return _TaskSums(loss, (flat.argmax(-1) == targets).sum(), (targets != IGNORED).sum())


def _piece_cross_entropy(head: MaskedTokenHead, hidden_BPH: Tensor, table_VE: Tensor, labels_BP: Tensor) -> _TaskSums:
    """Return the sums over the pieces at masked slots."""
    if (number := chunks(labels_BP.numel(), 1, head.pieces, labels_BP.device)) is None:
        return _cross_entropy(head(hidden_BPH, table_VE), labels_BP)
    hidden_KH, labels_K1 = hidden_BPH.flatten(0, 1), labels_BP.reshape(-1, 1)
    real_K = labels_K1.squeeze(1) != IGNORED
    if _leaves_out_unused(labels_BP.device):
        hidden_KH, labels_K1 = hidden_KH[real_K], labels_K1[real_K]
    targets = PieceTargets(torch.zeros_like(labels_K1), labels_K1)
    return _TaskSums(*chunked(head, hidden_KH[:, None], table_VE, targets, number), real_K.sum())


def _leaves_out_unused(device: torch.device) -> bool:
    """Return whether logits are computed for targets alone: on CPUs; on GPUs we would have to wait for their number."""
    return device.type == "cpu" and not torch.compiler.is_compiling()


def _means_of_unmasked(hidden_BLH: Tensor, number_BL: Tensor, sequences: int, batch: TensorBatch) -> Tensor:
    """Return the mean hidden state of each sequence's pieces, special ones included, masked ones not, [B, S, H]."""
    to_predict_BL = torch.zeros_like(number_BL).scatter_add(1, batch.mlm_positions, (batch.mlm_labels != IGNORED).long()) > 0
    number_S1 = torch.arange(sequences, device=number_BL.device)[:, None]
    taken_BSL = ((number_BL[:, None] == number_S1) & ~to_predict_BL[:, None]).to(hidden_BLH.dtype)
    return (taken_BSL @ hidden_BLH) / taken_BSL.sum(2, keepdim=True).clamp(min=1)


def _bag_cross_entropy(
    head: MaskedTokenHead, means_BSH: Tensor, table_VE: Tensor, number_BP: Tensor, labels_BP: Tensor
) -> _TaskSums:
    """Return the sums over masked pieces, each predicted from the mean of its sequence."""
    rows, sequences, _ = means_BSH.shape
    real_BP = labels_BP != IGNORED
    place_BP = number_BP.clamp(max=sequences - 1)  # An unused slot may point into the padding.
    if (number := chunks(rows, sequences, head.pieces, means_BSH.device)) is not None:
        if _leaves_out_unused(means_BSH.device):
            means_BSH, place_BP, labels_BP = _with_targets(means_BSH, place_BP, labels_BP)
        return _TaskSums(*chunked(head, means_BSH, table_VE, PieceTargets(place_BP, labels_BP), number), real_BP.sum())
    row_B1 = torch.arange(rows, device=means_BSH.device)[:, None]
    logits_BSV = head(means_BSH, table_VE).float()
    logs_BP = logits_BSV.log_softmax(-1)[row_B1, place_BP, labels_BP.clamp(min=0)]
    with torch.no_grad():
        hits_BP = logits_BSV.argmax(-1)[row_B1, place_BP] == labels_BP
    return _TaskSums(-logs_BP.where(real_BP, 0.0).sum(), hits_BP.sum(), real_BP.sum())


def _with_targets(means_BSH: Tensor, place_BP: Tensor, labels_BP: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return means, places and labels of the N sequences with targets, each as a row of its own: [N, 1, H] and twice [N, P]."""
    number_S1 = torch.arange(means_BSH.shape[1])[:, None]
    labels_BSP = labels_BP[:, None].where(place_BP[:, None] == number_S1, IGNORED)
    has_BS = (labels_BSP != IGNORED).any(2)
    labels_NP = labels_BSP[has_BS]
    return means_BSH[has_BS][:, None], torch.zeros_like(labels_NP), labels_NP


def dropout_seed(seed: int, step: int, micro_batch: int) -> int:
    """Return the seed of torch's generator for a micro-batch, which is the same whichever rank computes it."""
    digest = blake2b(f"dropout/{seed}/{step}/{micro_batch}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 1


_HELDOUT = -1
"""Takes the place of the step in the seeds of held-out batches."""


def evaluate(
    objective: Objective,
    source: BatchSource,
    ranks: Ranks,
    *,
    tasks: Sequence[str],
    batch_size: int,
    autocast: torch.dtype | None,
) -> Metrics:
    """Return loss and accuracy of each task, and the perplexity of masked tokens, as means over all held-out rows.

    Each batch has its own seed, so a generator draws the same guesses at every scoring.
    """
    was_training = objective.model.training
    objective.model.eval()
    sums_3T = torch.zeros(3, len(tasks), dtype=torch.float64)
    with torch.no_grad(), torch.autocast(ranks.device.type, dtype=autocast, enabled=autocast is not None):
        for number, batch in in_row_order(source, batch_size, rank=ranks.rank, world_size=ranks.world_size):
            torch.manual_seed(dropout_seed(0, _HELDOUT, number))
            sums = objective.forward(*to_tensors(batch, ranks.device))
            sums_3T += torch.stack([part.double() for part in sums]).cpu()
    objective.model.train(was_training)
    metrics = TaskTotals.of(ranks.sum(sums_3T.flatten().tolist())).metrics(tasks, [1.0] * len(tasks))
    del metrics["loss"]
    mlm_loss = metrics["mlm_loss"]
    metrics["mlm_perplexity"] = None if mlm_loss is None else math.exp(min(mlm_loss, 700.0))
    return metrics
