"""From row numbers to tensors: the share of each global batch that one rank computes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from korealbert.examples.batches import Batch
from korealbert.pretrain.fit import BatchSource
from korealbert.pretrain.order import rows_at
from korealbert.pretrain.spec import PretrainSpec


class TensorBatch(NamedTuple):
    """One micro-batch on its device, all int64; shapes as in ``Batch``."""

    input_ids: Tensor
    token_type_ids: Tensor
    lengths: Tensor
    mlm_positions: Tensor
    mlm_labels: Tensor
    sop_labels: Tensor
    wop_positions: Tensor
    wop_labels: Tensor


def to_tensors(batch: Batch, device: torch.device) -> TensorBatch:
    """Copy a batch to a device; ``on_host`` and ``to_device`` in one."""
    return to_device(on_host(batch, pinned=device.type == "cuda"), device)


def on_host(batch: Batch, *, pinned: bool) -> TensorBatch:
    """A batch as tensors of this machine's memory, pinned for copies that a GPU makes while it computes."""
    tensors = (torch.from_numpy(np.ascontiguousarray(getattr(batch, name))) for name in TensorBatch._fields)
    return TensorBatch(*(tensor.pin_memory() if pinned else tensor for tensor in tensors))


def to_device(batch: TensorBatch, device: torch.device) -> TensorBatch:
    """The same batch on a device; from pinned memory the copy runs beside what the GPU is computing."""
    return TensorBatch(*(tensor.to(device, non_blocking=tensor.is_pinned()) for tensor in batch))


def micro_batches(
    source: BatchSource, spec: PretrainSpec, *, start: int, count: int, rank: int, world_size: int, size: int | None = None
) -> list[Batch]:
    """What one rank computes of the ``count`` sequences from position ``start`` of the order, one Batch per accumulation step.

    Accumulation step m of rank r takes micro-batch m · world_size + r, so every number of ranks sees the same global batches.
    ``size`` counts the sequences of a micro-batch; by default those of the spec.
    """
    size = size or spec.micro_batch_size
    return [
        gather_at(source, start + (m * world_size + rank) * size, size, spec.seed)
        for m in range(spec.accumulation(world_size, count, size))
    ]


def gather_at(source: BatchSource, start: int, count: int, seed: int) -> Batch:
    """``count`` sequences of the training order from position ``start``; they may span epochs and so views."""
    views, rows = rows_at(start, count, num_rows=source.num_rows, num_views=source.num_views, seed=seed)
    present = np.unique(views)
    if present.size == 1:
        return source.gather(int(present[0]), rows)
    parts = [source.gather(int(view), rows[views == view]) for view in present]
    back = np.argsort(np.concatenate([np.flatnonzero(views == view) for view in present]))
    return Batch(**{f.name: np.concatenate([getattr(part, f.name) for part in parts])[back] for f in fields(Batch)})


def in_row_order(source: BatchSource, size: int, *, rank: int, world_size: int) -> Iterator[tuple[int, Batch]]:
    """All rows of view 0 in batches of ``size``, each with its number; rank r of n takes every n-th batch."""
    for number in range(rank, -(-source.num_rows // size), world_size):
        start = number * size
        yield number, source.gather(0, np.arange(start, min(start + size, source.num_rows), dtype=np.int64))
