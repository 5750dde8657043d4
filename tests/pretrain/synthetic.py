"""Random example rows with the interface of real ones."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from korealbert.examples.batches import Batch

MASK = 4


class SyntheticBatches:
    """Random rows with targets for all three tasks; each view has its own noise.

    Only every n-th row (``wop_every``, ``sop_every``) has targets of that task. The views return ``noised`` in turn.
    """

    def __init__(
        self,
        num_rows: int,
        *,
        num_views: int = 2,
        length: int = 16,
        vocab_size: int = 40,
        slots: int = 3,
        seed: int = 0,
        wop_every: int = 3,
        sop_every: int = 1,
        noised: Sequence[tuple[float, float]] = ((0.15, 0.0),),
    ) -> None:
        self.num_rows, self.num_views, self.sequence_length, self.vocab_size = num_rows, num_views, length, vocab_size
        self._slots, self._seed, self._wop_every, self._sop_every = slots, seed, wop_every, sop_every
        self._noised = noised
        self.gathered: list[tuple[int, list[int]]] = []

    def gather(self, view: int, rows: NDArray[np.int64]) -> Batch:
        self.gathered.append((view, rows.tolist()))
        parts = [self._row(view, int(row)) for row in rows]
        return Batch(**{name: np.stack([part[name] for part in parts]) for name in parts[0]})

    def noised(self, view: int) -> tuple[float, float]:
        return self._noised[view % len(self._noised)]

    def _row(self, view: int, row: int) -> dict[str, NDArray[np.int64]]:
        text = np.random.default_rng([self._seed, row])
        noise = np.random.default_rng([self._seed, row, view])
        length = int(text.integers(self.sequence_length - 4, self.sequence_length + 1))
        ids = np.zeros(self.sequence_length, np.int64)
        ids[:length] = text.integers(5, self.vocab_size, length)
        split = length // 2
        ids[[0, split, length - 1]] = (2, 3, 3)
        inner = np.setdiff1d(np.arange(1, length - 1), [split])
        masked = np.sort(noise.choice(inner, self._slots, replace=False))
        count = int(noise.integers(1, self._slots + 1))
        positions, labels = np.zeros(self._slots, np.int64), np.full(self._slots, -100)
        positions[:count], labels[:count] = masked[:count], ids[masked[:count]]
        swapped = int(noise.integers(0, 2))
        ids[masked[:count]] = MASK
        if swapped:  # Reverse the first segment, so that there is something to learn.
            ids[1:split] = ids[1:split][::-1].copy()
        wop_positions, wop_labels = np.zeros(2, np.int64), np.full(2, -100)
        if row % self._wop_every == 0:
            pair = [inner[-1], inner[-2]]
            wop_positions[:], wop_labels[:] = pair, pair[::-1]
            ids[pair] = ids[pair[::-1]]
        return {
            "input_ids": ids,
            "token_type_ids": ((np.arange(self.sequence_length) > split) & (np.arange(self.sequence_length) < length)).astype(
                np.int64
            ),
            "lengths": np.int64(length),
            "mlm_positions": positions,
            "mlm_labels": labels.astype(np.int64),
            "sop_labels": np.int64(swapped if row % self._sop_every == 0 else -100),
            "wop_positions": wop_positions,
            "wop_labels": wop_labels.astype(np.int64),
        }
