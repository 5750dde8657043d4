"""Interface of a benchmark: reading its files, encoding examples, head, loss, decoding, and scores.

A benchmark is an instance of ``Task`` in the ``TASKS`` of a module in ``korealbert/finetune/tasks``; nothing else names it.

Shapes: B inputs (sentences), L pieces, H hidden size, W words, P = W + 1 possible heads (the root first), R relations.
"""

from __future__ import annotations

import copy
import itertools
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, Self

import pyarrow as pa

from korealbert.documents.benchmark_files import BenchmarkFile
from korealbert.finetune.files import Record
from korealbert.finetune.metrics import Mode
from korealbert.finetune.scores.resampling import Answered

if TYPE_CHECKING:
    import torch
    from torch import nn


Head = Literal["own", "mean", "electra", "bi-encoder", "answerability"]
"""The layer that turns vectors into a task's output.

``own``: what the task has by itself: a layer on the encoder's pooled vector (of a pair as one input: a cross-encoder) or on
each piece, or KLUE's parser. ``mean``: that layer on the mean vector of all pieces. ``electra``: before that layer another one
with GELU, and dropout before both, on the first piece's vector, as transformers' ElectraForSequenceClassification and
ElectraForMultipleChoice have it; recipes choose it for every ELECTRA. ``bi-encoder``: each sentence of a pair is encoded
alone, mean vectors u and v; similarity is their cosine, classes are of [u, v, |u − v|]. ``answerability``: spans of a
context, and a classifier on the pooled vector, trained with them, of whether there is an answer.
"""

POOLING_HEADS: tuple[Head, ...] = ("own", "mean", "electra")
"""Heads of tasks that use one vector of an input."""

PAIR_HEADS: tuple[Head, ...] = (*POOLING_HEADS, "bi-encoder")
"""Heads of tasks that compare two sentences."""


@dataclass(frozen=True, slots=True)
class Example:
    """One example of a benchmark; ``target`` is a class number, a score, or another value that the task learns."""

    id: str
    text: str
    target: Any
    pair: str | None = None
    """The second sentence, where the task compares two."""
    official_id: str = ""
    """Its number in the official file, where ``id`` is another; a prediction file may use either."""


@dataclass(frozen=True, slots=True)
class Feature:
    """One example as the encoder sees it: piece ids with special ids, and the segment (0 or 1) of each."""

    input_ids: Sequence[int]
    token_type_ids: Sequence[int]
    target: Any
    example: int = 0
    """Number of its example: a long one may be several features."""
    layout: Any = None
    """Positions of the example's characters or words among the pieces, as the task's head and ``predictions`` use them."""
    choices: tuple[Feature, ...] = ()
    """The inputs of a feature with several, one per choice; ``input_ids`` are then those of the longest."""


@dataclass(frozen=True)
class Encoded:
    """Examples and their features, in the same order."""

    examples: Sequence[Example]
    features: Sequence[Feature]


@dataclass(frozen=True)
class Scores:
    """Metrics by name, each times 100, and warnings about them."""

    values: Mapping[str, float]
    warnings: tuple[str, ...] = field(default=())
    undefined: Mapping[str, str] = field(default_factory=dict)
    """Metrics that the official script prints as ``nan``, and why; their ``values`` are ours."""


@dataclass(frozen=True)
class EncoderOutput:
    """Input of a head: the hidden vectors of all positions, and one pooled vector per input, as each of choices is one."""

    hidden_BLH: torch.Tensor
    pooled_BH: torch.Tensor
    features: Sequence[Feature]
    """The features of the batch, one per row, except for features with choices."""


class Words(NamedTuple):
    """The words of a sentence: positions of the first and last piece of each, their gold tags and heads."""

    first: list[int]
    last: list[int]
    pos: list[int]
    """Number of each word's last part of speech."""
    heads: list[int]
    """Gold head of each, counted from 1, 0 for the root; the relation is trained on it. 0 also where the head is cut off."""


class Parse(NamedTuple):
    """Scores of heads [B, W, P], minus infinity where there is no word, and of relations to one head of each word [B, W, R]."""

    arcs_BWP: torch.Tensor
    relations_BWR: torch.Tensor


class Spans(NamedTuple):
    """Logits of starts and ends of answers [B, L, 2], and of there being none [B]."""

    positions_BL2: torch.Tensor
    unanswerable_B: torch.Tensor


class SlotScores(NamedTuple):
    """Scores of the values of all slots side by side, [B, V]."""

    scores_BV: torch.Tensor
    slots: Sequence[Mapping[str, tuple[str, ...]]]
    """The slots with their values, in the order of V; the same for each input."""

    def by_slot(self) -> list[torch.Tensor]:
        """[B, C] for each slot with C values."""
        sizes = [len(values) for values in self.slots[0].values()]
        return [self.scores_BV[:, end - size : end] for size, end in zip(sizes, itertools.accumulate(sizes), strict=True)]


def name_of(names: Sequence[str], number: int | None) -> str | None:
    """The name with this number from 0; ``number 7``, which is no name, where there are fewer. None of None."""
    return number if number is None else names[number] if 0 <= number < len(names) else f"number {number}"


class Task(ABC):
    """A benchmark. Stateless: every method is a function of its arguments."""

    title: ClassVar[str]
    """The benchmark's own spelling of its name."""
    official_test_examples: ClassVar[int]
    """Size of the official test set: a score over fewer compares with no published one."""
    official_unit: ClassVar[str] = "examples"
    """The unit of ``official_test_examples``, in the plural."""
    metric: ClassVar[str]
    """Name of the score that is the task's own; higher is better."""
    dev_metric: ClassVar[str] = ""
    """Name of the score that selects on dev, where the benchmark's baselines select by another one than ``metric``."""
    origin: ClassVar[str]
    """Origin and licence of its official files."""
    has_official_dev: ClassVar[bool]
    """False: the published scores are those of dev, or there is none, and a share of train is held out as dev."""
    defaults: ClassVar[Mapping[str, int | float]]
    """Fields of the fine-tuning spec that the task sets unless a recipe does."""
    prediction_type: ClassVar[pa.DataType]
    """Arrow type of gold and predicted values."""
    evidence_type: ClassVar[pa.DataType | None] = None
    """Arrow type of the evidence for a prediction, which an ensemble averages; None: there are no ensembles of the task."""
    markers: ClassVar[tuple[str, ...]] = ()
    """Special pieces that the task puts into its texts; the tokenizer given to ``encode`` knows them."""
    target_type: ClassVar[pa.DataType | None] = None
    """Arrow type of a feature's target in the feature cache; None: what Arrow infers."""
    layout_type: ClassVar[pa.DataType | None] = None
    """Arrow type of what ``stored_layout`` gives; None: what Arrow infers."""
    matches_by_id: ClassVar[bool] = False
    """Records of a prediction file must carry the id of their example. Of other tasks they may."""
    id_fields: tuple[str, ...] = ("id",)
    """The fields of the official file that hold an example's id; `` + `` between those that do so together. Records of a
    prediction file may write it so, or ``id``."""
    scores_missing: ClassVar[bool] = False
    """The official script gives an example without a prediction, ``None``, a score of 0 and counts it."""

    counted: ClassVar[str] = "examples"
    """The unit that ``labelled`` gives labels for, in the plural."""
    listed: ClassVar[int | None] = None
    """Number of predictions per gold label that a table lists. None: all."""

    heads: ClassVar[tuple[Head, ...]] = ("own",)
    """The heads that there are for it."""

    chosen: Head = "own"
    """The head of this instance."""

    def headed(self, head: Head) -> Self:
        """The benchmark with this head. Raises ValueError naming those that it has."""
        if head not in self.heads:
            raise ValueError(f"{self.title} has no head {head!r}; it has {', '.join(self.heads)}")
        other = copy.copy(self)
        other.chosen = head
        return other

    @property
    def pools_mean(self) -> bool:
        """Whether the head's pooled vector is the mean over an input's pieces, special ones included."""
        return self.chosen in ("mean", "bi-encoder")

    @property
    def about_labels(self) -> str:
        """What the labels of ``labelled`` mean, as a sentence, where they do not say so themselves."""
        return ""

    @property
    def outputs(self) -> tuple[str, ...]:
        """Names of the head's logits in an ONNX file; none where the head reads more of an input than its pieces."""
        return ()

    @property
    def selects_by(self) -> str:
        """Name of the score that selects epochs and settings on dev."""
        return self.dev_metric or self.metric

    def official_size(self, examples: Sequence[Example]) -> int | None:
        """Examples of the official test set; None where their full number is not known, nor whether these are all."""
        return self.official_test_examples

    @abstractmethod
    def read(self, file: BenchmarkFile) -> list[Example]:
        """All examples of an official file, in order. Raises ValueError naming file, line, field and remedy."""

    def document(self, example: Example) -> str:
        """Group of an example: when dev is held out of train, examples of one group stay together."""
        return example.id

    @abstractmethod
    def prediction(self, record: Record, example: Example) -> Any:
        """The predicted value for ``example`` that a record of a prediction file holds.

        Raises ValueError naming file, line, field and remedy.
        """

    @abstractmethod
    def labelled(self, example: Example, predicted: Any) -> tuple[list[str], list[str]]:
        """Gold and predicted labels that error analysis counts, one of each for every counted unit of the example."""

    def census(self, examples: Sequence[Example]) -> dict[str, dict[str, int]]:
        """Counts of the gold values of examples, by name; empty except for entities."""
        return {}

    @abstractmethod
    def score(self, examples: Sequence[Example], predicted: Sequence[Any], mode: Mode) -> Scores:
        """All metrics of the benchmark; ``metric`` is among them."""

    def answered(self, examples: Sequence[Example], predicted: Sequence[Any], mode: Mode) -> Answered | None:
        """The answers as far as ``metric`` depends on them, where that is known.

        Intervals and tests come from thousands of scores: this makes them cheap.
        """
        return None

    @abstractmethod
    def encode(self, examples: Sequence[Example], tokenizer: Any, *, max_length: int) -> list[Feature]:
        """The examples as piece ids, each at most ``max_length`` long with special pieces, in order."""

    def stored_layout(self, layout: Any) -> Any:
        """A feature's layout as plain lists, mappings and numbers, which Arrow stores."""
        return layout

    def restored_layout(self, stored: Any) -> Any:
        """Inverse of ``stored_layout``."""
        return stored

    def kept(self, value: Any) -> Any:
        """A gold or predicted value as ``prediction_type`` stores it."""
        return value

    def restored(self, kept: Any) -> Any:
        """Inverse of ``kept``, for predicted values."""
        return kept

    @abstractmethod
    def fields(self, kept: Any) -> dict[str, Any]:
        """The fields of a record of a prediction file that holds this kept value, right or wrong."""

    @abstractmethod
    def head(self, *, hidden_size: int, dropout: float, train: Sequence[Feature]) -> nn.Module:
        """A fresh module ``EncoderOutput -> logits``; ``train`` may determine its initial bias."""

    @abstractmethod
    def loss(self, logits: Any, targets: Sequence[Any]) -> torch.Tensor:
        """Mean loss of a batch, a scalar. ``logits`` are the output of the head."""

    @abstractmethod
    def decode(self, logits: Any, features: Sequence[Feature]) -> list[Any]:
        """One output for each feature of a batch: a prediction, where every example is one feature."""

    def predictions(self, encoded: Encoded, decoded: Sequence[Any]) -> list[Any]:
        """One prediction per example from the outputs of ``decode`` for its features."""
        return list(decoded)

    def weigh(self, logits: Any, features: Sequence[Feature]) -> list[Any]:
        """The evidence in the outputs of a batch's features, one for each."""
        raise NotImplementedError(f"there are no ensembles of {self.title}")

    def evidence(self, encoded: Encoded, weighed: Sequence[Any]) -> list[Any]:
        """The evidence for each example's prediction, of ``evidence_type``, from the output of ``weigh`` for its features."""
        return list(weighed)

    def agreed(self, example: Example, evidence: Sequence[Any]) -> Any:
        """The prediction of several models together, whose evidence for an example this is."""
        raise NotImplementedError(f"there are no ensembles of {self.title}")

    def oracle(self, encoded: Encoded) -> list[Any] | None:
        """The best predictions that the pieces' boundaries and the length limit allow; None where they limit nothing."""
        return None
