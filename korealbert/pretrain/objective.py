"""Objectives: the losses and hits of every task on a batch, as sums over targets that are added up before the division.

An objective is the module that DeepSpeed wraps and torch compiles: tensors of a micro-batch in, sums out. Its model has
random or given initial weights, and some of its tensors may be frozen.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from hashlib import blake2b, sha256
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.nn import functional as F

from korealbert.examples.batches import IGNORED, Batch
from korealbert.model.config import AnyConfig, ModelConfig
from korealbert.model.heads import MaskedTokenHead, PretrainingModel, ReplacedTokenModel, initialise, restore, sample
from korealbert.model.modern import sequence_numbers
from korealbert.pretrain.cooccurrence import VECTORS
from korealbert.pretrain.cross_entropy import PieceTargets, chunked, chunks
from korealbert.pretrain.data import TensorBatch, in_row_order, to_tensors
from korealbert.pretrain.engine import Ranks
from korealbert.pretrain.metrics import Metrics, TaskTotals
from korealbert.pretrain.rows import BatchSource


def dropout_seed(seed: int, step: int, micro_batch: int) -> int:
    """Seed of torch's generator for one micro-batch of the global batch: the same whichever rank computes it."""
    digest = blake2b(f"dropout/{seed}/{step}/{micro_batch}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 1


class _TaskSums(NamedTuple):
    """Sums over the targets of a batch, one entry per task in the order of ``PretrainSpec.tasks``."""

    losses: Tensor
    """Cross-entropy in nats, fp32 [T]; 0 for a task without targets."""
    correct: Tensor
    """Targets that were predicted, int64 [T]."""
    targets: Tensor
    """Targets, int64 [T]."""


class Objective(Protocol):
    """A model with the losses that it is trained on."""

    @property
    def model(self) -> nn.Module:
        """The model."""
        ...

    def forward(self, *tensors: Tensor) -> _TaskSums:
        """The sums of a micro-batch, given as the fields of a ``TensorBatch``."""
        ...

    def count_targets(self, batch: Batch) -> NDArray[np.int64]:
        """Targets [T] by which the losses are divided, known before the model has seen them; 0 for a task that has no loss."""
        ...


class _OrderObjective(nn.Module):
    """Masked tokens, sentence order and word order; where the model has the head, the bag of masked tokens too."""

    def __init__(self, model: PretrainingModel) -> None:
        super().__init__()
        self.model = model

    def forward(self, *tensors: Tensor) -> _TaskSums:
        """As ``Objective``."""
        batch, model = TensorBatch(*tensors), self.model
        inputs = (batch.input_ids, batch.token_type_ids, batch.lengths, batch.mlm_positions, batch.wop_positions)
        read, table_VE = model.read(*inputs), model.encoder.embeddings.word.weight
        sums = [_piece_cross_entropy(model.mlm, read.mlm_BPH, table_VE, batch.mlm_labels)]
        for head, hidden, labels in ((model.sop, read.first_BH, batch.sop_labels), (model.wop, read.wop_BWH, batch.wop_labels)):
            sums.append(_cross_entropy(None if head is None else head(hidden), labels))
        if model.bow is not None:
            lengths_BS = batch.lengths if batch.lengths.ndim == 2 else batch.lengths[:, None]
            number_BL = sequence_numbers(lengths_BS, batch.input_ids.shape[1])
            means_BSH = _means_of_unmasked(read.hidden_BLH, number_BL, lengths_BS.shape[1], batch)
            number_BP = number_BL.gather(1, batch.mlm_positions)
            sums.append(_bag_cross_entropy(model.bow, means_BSH, table_VE, number_BP, batch.mlm_labels))
        return _joined(sums)

    def count_targets(self, batch: Batch) -> NDArray[np.int64]:
        """As ``Objective``; none of a task that the model has no head for."""
        labels = {"mlm": batch.mlm_labels, "sop": batch.sop_labels, "wop": batch.wop_labels}
        heads = self.model.heads
        counts = [np.count_nonzero(of_task != IGNORED) if task in heads else 0 for task, of_task in labels.items()]
        if "bow" in heads:
            counts.append(counts[0])
        return np.array(counts, dtype=np.int64)


def _means_of_unmasked(hidden_BLH: Tensor, number_BL: Tensor, sequences: int, batch: TensorBatch) -> Tensor:
    """The mean of the vectors of each sequence's pieces, special ones included and those to predict left out, [B, S, H]."""
    to_predict_BL = torch.zeros_like(number_BL).scatter_add(1, batch.mlm_positions, (batch.mlm_labels != IGNORED).long()) > 0
    number_S1 = torch.arange(sequences, device=number_BL.device)[:, None]
    taken_BSL = ((number_BL[:, None] == number_S1) & ~to_predict_BL[:, None]).to(hidden_BLH.dtype)
    return (taken_BSL @ hidden_BLH) / taken_BSL.sum(2, keepdim=True).clamp(min=1)


def _bag_cross_entropy(
    head: MaskedTokenHead, means_BSH: Tensor, table_VE: Tensor, number_BP: Tensor, labels_BP: Tensor
) -> _TaskSums:
    """Of every slot's piece, in the bag of the sequence that it belongs to."""
    rows, sequences, _ = means_BSH.shape
    real_BP = labels_BP != IGNORED
    place_BP = number_BP.clamp(max=sequences - 1)  # An unused slot may lie in the padding.
    if (number := chunks(rows, sequences, head.pieces, means_BSH.device)) is not None:
        return _TaskSums(*chunked(head, means_BSH, table_VE, PieceTargets(place_BP, labels_BP), number), real_BP.sum())
    row_B1 = torch.arange(rows, device=means_BSH.device)[:, None]
    flat_BSV = head(means_BSH, table_VE).float()
    logs_BP = flat_BSV.log_softmax(-1)[row_B1, place_BP, labels_BP.clamp(min=0)]
    with torch.no_grad():
        hits_BP = flat_BSV.argmax(-1)[row_B1, place_BP] == labels_BP
    return _TaskSums(-logs_BP.where(real_BP, 0.0).sum(), hits_BP.sum(), real_BP.sum())


class _ReplacedTokenObjective(nn.Module):
    """A generator's masked tokens; then, for every real token of the text with its guesses in it, whether it was replaced.

    A guess that hits the original is no replacement. The third task is a part of the second, reported for its hits alone: the
    replaced tokens, of which a discriminator that says "original" to all finds none.
    """

    def __init__(self, model: ReplacedTokenModel) -> None:
        super().__init__()
        self.model = model

    def forward(self, *tensors: Tensor) -> _TaskSums:
        """As ``Objective``; guesses are sampled with torch's random generator."""
        batch = TensorBatch(*tensors)
        types, lengths, positions, labels = batch.token_type_ids, batch.lengths, batch.mlm_positions, batch.mlm_labels
        guesses = self.model.guess(batch.input_ids, types, lengths, positions)
        original = restore(batch.input_ids, positions, labels)
        shown = restore(original, positions, torch.where(labels == IGNORED, labels, sample(guesses)))
        replaced = shown != original
        verdicts = self.model.judge(shown, types, lengths).float()
        real = torch.arange(shown.shape[1], device=shown.device) < lengths[:, None]
        losses = F.binary_cross_entropy_with_logits(verdicts, replaced.float(), reduction="none") * real
        hits = ((verdicts > 0) == replaced) & real
        detection = _TaskSums(losses.sum(), hits.sum(), real.sum())
        found = _TaskSums((losses.detach() * replaced).sum(), (hits & replaced).sum(), replaced.sum())
        return _joined([_cross_entropy(guesses, labels), detection, found])

    def count_targets(self, batch: Batch) -> NDArray[np.int64]:
        """As ``Objective``: specials count, padding does not."""
        return np.array([np.count_nonzero(batch.mlm_labels != IGNORED), batch.lengths.sum(), 0], dtype=np.int64)


def make_objective(config: AnyConfig, *, seed: int) -> _OrderObjective | _ReplacedTokenObjective:
    """A fresh model, initialised as ``seed`` decides, with the losses that belong to it."""
    objective = _objective(config)
    initialise(objective.model, config.initializer_range, seed)
    return objective


def parameter_names(config: AnyConfig) -> list[str]:
    """Names of all parameters of such a model, which takes up no memory for that."""
    with torch.device("meta"):
        return [name for name, _ in _objective(config).model.named_parameters()]


def _objective(config: AnyConfig) -> _OrderObjective | _ReplacedTokenObjective:
    if isinstance(config, ModelConfig) and config.generator_hidden_size:
        return _ReplacedTokenObjective(ReplacedTokenModel(config))
    return _OrderObjective(PretrainingModel(config))


def _cross_entropy(logits: Tensor | None, labels: Tensor) -> _TaskSums:
    if logits is None:
        nothing = labels.new_zeros(())
        return _TaskSums(nothing.float(), nothing, nothing)
    flat, targets = logits.flatten(0, -2).float(), labels.flatten()
    loss = F.cross_entropy(flat, targets, ignore_index=IGNORED, reduction="sum")
    with torch.no_grad():
        return _TaskSums(loss, (flat.argmax(-1) == targets).sum(), (targets != IGNORED).sum())


def _piece_cross_entropy(head: MaskedTokenHead, hidden_BPH: Tensor, table_VE: Tensor, labels_BP: Tensor) -> _TaskSums:
    """Of the pieces at the masked slots."""
    if (number := chunks(labels_BP.numel(), 1, head.pieces, labels_BP.device)) is None:
        return _cross_entropy(head(hidden_BPH, table_VE), labels_BP)
    labels_K1 = labels_BP.reshape(-1, 1)
    targets = PieceTargets(torch.zeros_like(labels_K1), labels_K1)
    return _TaskSums(*chunked(head, hidden_BPH.flatten(0, 1)[:, None], table_VE, targets, number), (labels_K1 != IGNORED).sum())


def _joined(tasks: list[_TaskSums]) -> _TaskSums:
    return _TaskSums(*(torch.stack(column) for column in zip(*tasks, strict=True)))


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

    Every scoring draws the same samples, because each batch has a seed of its own.
    """
    was_training = objective.model.training
    objective.model.eval()
    sums = torch.zeros(3, len(tasks), dtype=torch.float64)
    with torch.no_grad(), torch.autocast(ranks.device.type, dtype=autocast, enabled=autocast is not None):
        for number, batch in in_row_order(source, batch_size, rank=ranks.rank, world_size=ranks.world_size):
            torch.manual_seed(dropout_seed(0, _HELDOUT, number))
            sums += torch.stack([part.double() for part in objective.forward(*to_tensors(batch, ranks.device))]).cpu()
    objective.model.train(was_training)
    metrics = TaskTotals.of(ranks.sum(sums.flatten().tolist())).metrics(tasks, [1.0] * len(tasks))
    del metrics["loss"]
    mlm_loss = metrics["mlm_loss"]
    metrics["mlm_perplexity"] = None if mlm_loss is None else math.exp(min(mlm_loss, 700.0))
    return metrics


_HELDOUT = -1
"""Stands for the step in the seeds of held-out batches."""


_FRESH_HEADS = ("wop.", "bow.")
"""Heads that begin afresh where the initial weights lack them: that of word order has the size of this run's sequences."""


def load_initial(model: nn.Module, directory: Path) -> None:
    """Put the tensors of ``directory/model.safetensors`` into the model.

    Raises ValueError naming the file when it is damaged, or tensors are missing, left over or of another shape.
    """
    path = directory / "model.safetensors"
    try:
        given = load_file(path)
    except (FileNotFoundError, SafetensorError) as error:
        raise ValueError(f"{path}: no initial weights that can be read ({error}); build their stage again") from None
    own = model.state_dict()
    given = {name: tensor for name, tensor in given.items() if name in own or not name.startswith(_FRESH_HEADS)}
    for name in sorted(own.keys() ^ given.keys()):
        if name in own and name.startswith(_FRESH_HEADS):
            continue
        raise ValueError(f"{path}: tensor {name!r} is {'missing' if name in own else 'not one of the model'}")
    for name, tensor in given.items():
        if tensor.shape != own[name].shape:
            raise ValueError(f"{path}: {name} has shape {list(tensor.shape)}, the model {list(own[name].shape)}")
    model.load_state_dict(given, strict=False)


def begin_with(model: PretrainingModel | ReplacedTokenModel, directory: Path) -> None:
    """Put vectors of `cooccurrence` into the word embeddings, in the standard deviation that these were drawn with.

    Pieces without a vector, special ones and dimensions beyond those of the vectors stay as they were drawn. Raises ValueError
    naming the file when it is damaged or of another vocabulary.
    """
    path = directory / VECTORS
    table_VE = model.encoder.embeddings.word.weight
    try:
        vectors_VE = load_file(path)["vectors"]
    except (FileNotFoundError, SafetensorError, KeyError) as error:
        raise ValueError(f"{path}: no vectors that can be read ({error}); build their stage again") from None
    pieces, width = vectors_VE.shape
    if pieces > table_VE.shape[0] or width > table_VE.shape[1]:
        raise ValueError(f"{path}: vectors of shape {[pieces, width]} for a word table of {list(table_VE.shape)}")
    seen_V = vectors_VE.any(dim=1)
    with torch.no_grad():
        table_VE[:pieces, :width][seen_V] = vectors_VE[seen_V] * table_VE.std()


DROPOUTS = ("hidden_dropout", "embedding_dropout", "attention_dropout", "mlp_dropout")
"""Fields of a model's configuration."""


def dropouts_of(model: nn.Module) -> list[tuple[nn.Module, str, Any]]:
    """Where a model keeps its dropouts: module, attribute, value."""
    layers = [(part, "p", part.p) for part in model.modules() if isinstance(part, nn.Dropout)]
    attention = [part for part in model.modules() if hasattr(part, "attention_dropout")]
    return [*layers, *((part, "attention_dropout", part.attention_dropout) for part in attention)]


def freeze(model: nn.Module, patterns: Sequence[str]) -> dict[str, Tensor]:
    """Take the parameters that any of the patterns matches out of training; returns them by name.

    Raises ValueError as ``frozen_names`` does.
    """
    parameters = dict(model.named_parameters())
    frozen: dict[str, Tensor] = {name: parameters[name] for name in frozen_names(list(parameters), patterns)}
    for parameter in frozen.values():
        parameter.requires_grad_(False)
    return frozen


def frozen_names(names: Sequence[str], patterns: Sequence[str]) -> list[str]:
    """Those of a model's parameters that any of the patterns matches.

    Raises ValueError for a pattern that matches none, and where nothing is left to train.
    """
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in names):
            raise ValueError(f"frozen: no tensor of the model matches {pattern!r}; its tensors: {', '.join(names)}")
    frozen = [name for name in names if any(fnmatchcase(name, pattern) for pattern in patterns)]
    if len(frozen) == len(names):
        raise ValueError(f"frozen = {list(patterns)} leaves nothing to train; freeze less")
    return frozen


def digest_of(tensors: Mapping[str, Tensor]) -> str:
    """sha256 over names, shapes and bytes of some tensors, in order of their names."""
    digest = sha256()
    for name, tensor in sorted(tensors.items()):
        digest.update(f"{name}{list(tensor.shape)}".encode())
        digest.update(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()
