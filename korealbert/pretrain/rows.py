"""The rows that a run trains on and is scored by, and whether they fit spec and model: checked before launch, without torch."""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from korealbert.examples.batches import Batch
from korealbert.model.config import AnyConfig
from korealbert.pretrain.spec import PretrainSpec


class BatchSource(Protocol):
    """What pretraining needs of the example rows; ``korealbert.examples.batches.ExampleBatches`` has it."""

    num_rows: int
    num_views: int
    sequence_length: int
    vocab_size: int

    def gather(self, view: int, rows: NDArray[np.int64]) -> Batch:
        """The noised sequences of these rows in one view."""
        ...


class Rows(NamedTuple):
    """Rows of one sequence length. There are no held-out scores where ``heldout`` has no rows."""

    train: BatchSource
    heldout: BatchSource


def check_rows(spec: PretrainSpec, config: AnyConfig, short: Rows, long: Rows | None) -> None:
    """Raise ValueError naming both sides where spec, model and rows do not fit together."""
    if (spec.long is None) != (long is None):
        raise ValueError(
            f"long = {spec.long!r}, but {'there are' if long else 'there are no'} long examples; give both or neither"
        )
    rows = [short, *([long] if long else [])]
    if long is not None and long.train.sequence_length <= short.train.sequence_length:
        raise ValueError(
            f"the long examples are {long.train.sequence_length} tokens long, the short ones {short.train.sequence_length}; "
            "pack the long ones with a larger sequence_length"
        )
    for part in rows:
        if part.train.vocab_size != config.vocab_size:
            raise ValueError(
                f"the examples were packed with {part.train.vocab_size:,} pieces, but the model has {config.vocab_size:,}; "
                "pack them with the model's vocabulary"
            )
    longest = rows[-1].train.sequence_length
    if longest > config.longest_sequence:
        raise ValueError(
            f"the examples are {longest} tokens long, but max_positions = {config.max_positions}; "
            "raise max_positions in [pretrain.model] or pack shorter examples"
        )
    if config.word_order_classes not in {0, longest}:
        raise ValueError(
            f"word_order_classes = {config.word_order_classes}, but the examples are {longest} tokens long; "
            "the word-order head needs a class per position"
        )
