"""This rank's share of the rows, step by step."""

from __future__ import annotations

from functools import partial

import numpy as np

from korealbert.examples.batches import Batch
from korealbert.model.config import ModelConfig
from korealbert.model.flops import training_flops
from korealbert.pretrain.batches import TensorBatch, micro_batches, on_host
from korealbert.pretrain.fit import Rows
from korealbert.pretrain.ranks import Ranks
from korealbert.pretrain.read_ahead import ReadAhead
from korealbert.pretrain.spec import PretrainSpec

Loaded = list[tuple[Batch, TensorBatch]]
"""Micro-batches, each as arrays and ready to be copied to the device."""


class Loader:
    """This rank's micro-batches of each step; those of the next are read while the device computes."""

    def __init__(self, spec: PretrainSpec, short: Rows, long: Rows | None, ranks: Ranks) -> None:
        self._spec, self._ranks = spec, ranks
        self._short = ReadAhead(partial(self._load, short, spec.micro_batch_at(0)))
        self._long = ReadAhead(partial(self._load, long, spec.micro_batch_at(spec.steps))) if long else None

    def take(self, step: int, start: int) -> Loaded:
        """What this rank computes at a step (from 0), whose global batch begins at ``start`` of the order of its rows."""
        reader = self._long if self._long and self._spec.is_long(step) else self._short
        return reader.take(start, self._spec.batch_at(step))

    def _load(self, rows: Rows, micro_batch: int, start: int, count: int) -> Loaded:
        whose = {"rank": self._ranks.rank, "world_size": self._ranks.world_size}
        batches = micro_batches(rows.train, self._spec, start=start, count=count, size=micro_batch, **whose)
        return [(batch, on_host(batch, pinned=self._ranks.device.type == "cuda")) for batch in batches]


def operations(rows: Rows, config: ModelConfig) -> int:
    """Floating-point operations of one of these sequences, forward and backward."""
    example = rows.train.gather(0, np.zeros(1, dtype=np.int64))
    slots = {"mlm_slots": example.mlm_positions.shape[1], "wop_slots": example.wop_positions.shape[1]}
    return training_flops(config, length=rows.train.sequence_length, **slots)
