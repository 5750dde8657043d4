"""What a benchmark is: how its files read, how an example enters the encoder, which head and loss learn it, what scores it.

A benchmark is one file in ``korealbert/finetune/tasks`` whose ``TASK`` is an instance of ``Task``; nothing else names it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import pyarrow as pa
import torch
from torch import nn

from korealbert.benchmark_files import BenchmarkFile


@dataclass(frozen=True, slots=True)
class Example:
    """One example of a benchmark; ``target`` is a class number, a score, or what else the task learns."""

    id: str
    text: str
    target: Any
    pair: str | None = None
    """The second sentence, where the task compares two."""


@dataclass(frozen=True, slots=True)
class Feature:
    """One example as the encoder sees it: piece ids with special ids, and the segment (0 or 1) of each."""

    input_ids: Sequence[int]
    token_type_ids: Sequence[int]
    target: Any


@dataclass(frozen=True)
class Scores:
    """Metrics by name, each times 100, and what a reader must know to read them right."""

    values: Mapping[str, float]
    warnings: tuple[str, ...] = field(default=())


@dataclass(frozen=True)
class EncoderOutput:
    """What a head sees: every position, and the one vector of the whole input."""

    hidden_BLH: torch.Tensor
    pooled_BH: torch.Tensor


class Task(ABC):
    """A benchmark. Stateless: every method is a function of its arguments."""

    title: ClassVar[str]
    """The benchmark's own spelling of its name."""
    official_test_examples: ClassVar[int]
    """Size of the official test set: a score over fewer compares with no published one."""
    metric: ClassVar[str]
    """Name of the score that selects the epoch on dev and is the task's own; higher is better."""
    has_official_dev: ClassVar[bool]
    """False: a share of train is held out as dev."""
    defaults: ClassVar[Mapping[str, int | float]]
    """Fields of the fine-tuning spec that the task sets unless a recipe does."""
    prediction_type: ClassVar[pa.DataType]
    """Arrow type of gold and predicted values."""

    @abstractmethod
    def read(self, file: BenchmarkFile) -> list[Example]:
        """All examples of an official file, in order. Raises ValueError naming file, line, field and remedy."""

    @abstractmethod
    def encode(self, examples: Sequence[Example], tokenizer: Any, *, max_length: int) -> list[Feature]:
        """The examples as piece ids, each at most ``max_length`` long with special pieces."""

    @abstractmethod
    def head(self, *, hidden_size: int, dropout: float, train: Sequence[Feature]) -> nn.Module:
        """A fresh module ``EncoderOutput -> logits``; ``train`` tells what a good initial bias is."""

    @abstractmethod
    def loss(self, logits: torch.Tensor, targets: Sequence[Any]) -> torch.Tensor:
        """Mean loss of a batch, a scalar."""

    @abstractmethod
    def decode(self, logits: torch.Tensor) -> list[Any]:
        """One prediction for each example of a batch."""

    @abstractmethod
    def score(self, gold: Sequence[Any], predicted: Sequence[Any]) -> Scores:
        """All metrics of the task; ``metric`` is among them."""
