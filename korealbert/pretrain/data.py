"""The micro-batches of one rank: training order, gathering, tensors, reading ahead.

The training order (which row of which view is at which position) is a pure function of seed and position, so a checkpoint
stores only a position. A Feistel network permutes the rows of an epoch; 66 million rows take no more memory than ten.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import fields
from functools import partial
from hashlib import blake2b
from math import isqrt
from typing import Generic, NamedTuple, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from korealbert.examples.batches import IGNORED, Batch
from korealbert.model.config import AnyConfig
from korealbert.model.parameters import training_flops
from korealbert.philox import mix64
from korealbert.pretrain.engine import Ranks
from korealbert.pretrain.rows import BatchSource, Rows
from korealbert.pretrain.spec import PretrainSpec

_Int64s = NDArray[np.int64]


class TensorBatch(NamedTuple):
    """A micro-batch as int64 tensors; shapes as in ``Batch``."""

    input_ids: Tensor
    token_type_ids: Tensor
    lengths: Tensor
    mlm_positions: Tensor
    mlm_labels: Tensor
    sop_labels: Tensor
    wop_positions: Tensor
    wop_labels: Tensor


Loaded = list[tuple[Batch, TensorBatch]]
"""Micro-batches, each as arrays and as tensors that are ready to be copied to the device."""


class Loader:
    """Reads this rank's micro-batches of each step, those of the next step while the device computes."""

    def __init__(self, spec: PretrainSpec, short: Rows, long: Rows | None, ranks: Ranks) -> None:
        self._spec, self._ranks = spec, ranks
        self._short = ReadAhead(partial(self._load, short, spec.micro_batch_at(0)))
        self._long = ReadAhead(partial(self._load, long, spec.micro_batch_at(spec.steps))) if long else None

    def take(self, step: int, start: int) -> Loaded:
        """Return this rank's micro-batches of a step (from 0) whose global batch starts at a position of its training order."""
        reader = self._long if self._long and self._spec.is_long(step) else self._short
        return reader.take(start, self._spec.batch_at(step))

    def _load(self, rows: Rows, micro_batch: int, start: int, count: int) -> Loaded:
        ranks = {"rank": self._ranks.rank, "world_size": self._ranks.world_size}
        batches = micro_batches(rows.train, self._spec, start=start, count=count, size=micro_batch, **ranks)
        return [(batch, on_host(batch, pinned=self._ranks.device.type == "cuda")) for batch in batches]


T = TypeVar("T")


class ReadAhead(Generic[T]):
    """Calls ``load(start, count)``, and already for the next stretch of equal size. All calls are made in one thread, so that
    ``load`` need not be thread-safe; the thread ends with this object."""

    def __init__(self, load: Callable[[int, int], T]) -> None:
        self._load = load
        self._reader = ThreadPoolExecutor(1, thread_name_prefix="read-ahead")
        self._guess: tuple[int, int] | None = None
        self._coming: Future[T] | None = None

    def take(self, start: int, count: int) -> T:
        """Return ``load(start, count)``, or raise its error."""
        if self._coming is None or self._guess != (start, count):
            self._coming = self._reader.submit(self._load, start, count)
        loaded = self._coming.result()
        self._guess = (start + count, count)
        self._coming = self._reader.submit(self._load, *self._guess)
        return loaded


def micro_batches(
    source: BatchSource, spec: PretrainSpec, *, start: int, count: int, rank: int, world_size: int, size: int | None = None
) -> list[Batch]:
    """Return one rank's share of the ``count`` sequences from position ``start``, one Batch for each accumulation step.

    Step m of rank r takes micro-batch m · world_size + r, so that any number of ranks computes the same global batches.
    ``size`` bounds the sequences of a micro-batch; the default is that of the spec.
    """
    size, number = spec.micro_batches(world_size, count, size)
    return [gather_at(source, start + (m * world_size + rank) * size, size, spec.seed) for m in range(number)]


def gather_at(source: BatchSource, start: int, count: int, seed: int) -> Batch:
    """Return ``count`` sequences of the training order from position ``start``; they may span epochs and thus views."""
    views, rows = rows_at(start, count, num_rows=source.num_rows, num_views=source.num_views, seed=seed)
    present = np.unique(views)
    if present.size == 1:
        return source.gather(int(present[0]), rows)
    parts = [source.gather(int(view), rows[views == view]) for view in present]
    order = np.argsort(np.concatenate([np.flatnonzero(views == view) for view in present]))
    return Batch(**{f.name: _concatenated([getattr(part, f.name) for part in parts], f.name)[order] for f in fields(Batch)})


def _concatenated(parts: list[_Int64s], name: str) -> _Int64s:
    """Concatenate one field of several batches; packed rows may have different numbers of slots, which are padded."""
    if parts[0].ndim == 1:
        return np.concatenate(parts)
    width, unused = max(part.shape[1] for part in parts), IGNORED if name.endswith("labels") else 0
    padded = [np.pad(part, ((0, 0), (0, width - part.shape[1])), constant_values=unused) for part in parts]
    return np.concatenate(padded)


def rows_at(start: int, count: int, *, num_rows: int, num_views: int, seed: int) -> tuple[_Int64s, _Int64s]:
    """Return views and rows of ``count`` sequences from position ``start`` of the training order.

    Each epoch visits every row once; epoch e reads view e mod ``num_views``, so that noise repeats as late as possible.
    """
    positions = np.arange(start, start + count, dtype=np.int64)
    epochs, offsets = np.divmod(positions, num_rows)
    rows = np.empty_like(positions)
    for epoch in np.unique(epochs):
        here = epochs == epoch
        rows[here] = permute(offsets[here], num_rows, seed=seed, epoch=int(epoch))
    return epochs % num_views, rows


_ROUNDS = 6
"""Four rounds make a Feistel network of good round functions a pseudo-random permutation (Luby and Rackoff); two to spare."""


def permute(positions: _Int64s, size: int, *, seed: int, epoch: int) -> _Int64s:
    """Map distinct positions in [0, size) to distinct rows in [0, size), differently for each seed and epoch."""
    if positions.size and (positions.min() < 0 or positions.max() >= size):
        raise ValueError(f"positions must lie in [0, {size})")
    # The network permutes the cells of a nearly square table that has at most one line more than ``size`` cells need.
    lines = isqrt(max(0, size - 1)) + 1
    width = -(-size // lines)
    keys = np.frombuffer(blake2b(f"order/{seed}/{epoch}".encode(), digest_size=8 * _ROUNDS).digest(), "<u8")
    rows = _encipher(positions.astype(np.uint64), np.uint64(lines), np.uint64(width), keys)
    # Cycle walking: where the result lies outside [0, size), the cipher is applied again, which is rarely needed.
    while (outside := np.flatnonzero(rows >= size)).size:
        rows[outside] = _encipher(rows[outside], np.uint64(lines), np.uint64(width), keys)
    return rows.astype(np.int64)


def _encipher(values: NDArray[np.uint64], lines: np.uint64, width: np.uint64, keys: NDArray[np.uint64]) -> NDArray[np.uint64]:
    line, column = values // width, values % width
    for line_key, column_key in keys.reshape(-1, 2):
        line = (line + mix64(column ^ line_key) % lines) % lines
        column = (column + mix64(line ^ column_key) % width) % width
    return line * width + column


def in_row_order(source: BatchSource, size: int, *, rank: int, world_size: int) -> Iterator[tuple[int, Batch]]:
    """Yield all rows of view 0 in numbered batches of ``size``; rank r of n takes every n-th batch, from number r on."""
    for number in range(rank, -(-source.num_rows // size), world_size):
        start = number * size
        yield number, source.gather(0, np.arange(start, min(start + size, source.num_rows), dtype=np.int64))


def noised_at(source: BatchSource, position: int) -> tuple[float, float]:
    """Return the shares of pieces that are predicted and moved at a position of the training order."""
    return source.noised(position // source.num_rows % source.num_views)


def flops_per_sequence(rows: Rows, config: AnyConfig) -> int:
    """Return the floating-point operations of one training sequence, forward and backward."""
    example = rows.train.gather(0, np.zeros(1, dtype=np.int64))
    slots = {"mlm_slots": example.mlm_positions.shape[1], "wop_slots": example.wop_positions.shape[1]}
    return training_flops(config, length=rows.train.sequence_length, seen=getattr(rows.train, "attended", None), **slots)


def on_host(batch: Batch, *, pinned: bool) -> TensorBatch:
    """Return a batch as tensors in main memory, pinned if a GPU is to copy them while it computes."""
    tensors = (torch.from_numpy(np.ascontiguousarray(getattr(batch, name))) for name in TensorBatch._fields)
    return TensorBatch(*(tensor.pin_memory() if pinned else tensor for tensor in tensors))


def to_device(batch: TensorBatch, device: torch.device) -> TensorBatch:
    """Copy a batch to a device; from pinned memory without waiting for the copy."""
    return TensorBatch(*(tensor.to(device, non_blocking=tensor.is_pinned()) for tensor in batch))


def to_tensors(batch: Batch, device: torch.device) -> TensorBatch:
    """Return a batch as tensors on a device."""
    return to_device(on_host(batch, pinned=device.type == "cuda"), device)


class DeviceCopier:
    """Copies batches to a device; to a GPU on a stream of its own, while it still computes the batch before."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._stream = torch.cuda.Stream(device) if device.type == "cuda" else None  # type: ignore[no-untyped-call]

    def copy(self, batch: TensorBatch) -> TensorBatch:
        """Return the batch on the device, whose computations from now on wait for the copy."""
        if self._stream is None:
            return to_device(batch, self._device)
        computing = torch.cuda.current_stream(self._device)
        with torch.cuda.stream(self._stream):
            copied = to_device(batch, self._device)
        computing.wait_stream(self._stream)
        for tensor in copied:  # The copying stream owns their memory, and must not reuse it while the other one still reads it.
            tensor.record_stream(computing)
        return copied
