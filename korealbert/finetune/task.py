"""The interface of a benchmark: read its files, encode examples, build a head, compute the loss, decode, and score.

A benchmark is an instance of ``Task`` in the ``TASKS`` of a module in ``korealbert/finetune/tasks``; no other registration
is needed.

Shapes: B inputs (sentences), L pieces, H hidden size, W words, P = W + 1 possible heads (the root first), R relations.
"""

from __future__ import annotations

import copy
import itertools
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, Self, TypeVar

import pyarrow as pa

from korealbert.documents.benchmark_files import BenchmarkFile
from korealbert.finetune.metrics import Mode
from korealbert.finetune.records import Record
from korealbert.finetune.scores.resampling import Answered

if TYPE_CHECKING:
    import torch
    from torch import nn


_Kind = TypeVar("_Kind", bound="Example")

Head = Literal["own", "mean", "electra", "bi-encoder", "answerability"]
"""The layers between the encoder's vectors and a task's output.

- ``own``: the task's default: a dense layer on the pooled vector (a pair is one input: a cross-encoder) or on each piece, or
  KLUE's parser.
- ``mean``: the same layer on the mean vector of all pieces.
- ``electra``: dropout, dense layer, GELU, dropout and the task's layer on the first piece's vector, as transformers'
  ElectraForSequenceClassification and ElectraForMultipleChoice; recipes choose it for every ELECTRA.
- ``bi-encoder``: each sentence of a pair is encoded separately, to mean vectors u and v. Similarity is their cosine; classes
  are computed from [u, v, |u − v|].
- ``answerability``: spans of a context, and a jointly trained classifier on the pooled vector that says whether there is an
  answer.
"""

POOLING_HEADS: tuple[Head, ...] = ("own", "mean", "electra")
"""Heads of tasks that use one vector per input."""

PAIR_HEADS: tuple[Head, ...] = (*POOLING_HEADS, "bi-encoder")
"""Heads of tasks that compare two sentences."""


@dataclass(frozen=True, slots=True)
class Example:
    """One example of a benchmark. ``target`` is what the task learns to predict: a class number, a score, a tuple of tags …"""

    id: str
    text: str
    target: Any
    pair: str | None = None
    """The second sentence, if the task compares two."""
    official_id: str = ""
    """The id in the official file, if it differs from ``id``; a prediction file may use either."""


@dataclass(frozen=True, slots=True)
class Feature:
    """An encoder input: piece ids with special pieces, and the segment (0 or 1) of each."""

    input_ids: Sequence[int]
    token_type_ids: Sequence[int]
    target: Any
    example: int = 0
    """Position of its example; a long example may have several features."""
    layout: Any = None
    """Which characters or words of the example each piece covers, as the task's head and ``predictions`` need it."""
    choices: tuple[Feature, ...] = ()
    """The inputs of a multiple-choice example, one per choice; ``input_ids`` are then the longest one's."""


@dataclass(frozen=True)
class Encoded:
    """Examples and their features, in the same order."""

    examples: Sequence[Example]
    features: Sequence[Feature]


@dataclass(frozen=True)
class Scores:
    """Metrics by name, times 100, and warnings about them."""

    values: Mapping[str, float]
    warnings: tuple[str, ...] = field(default=())
    undefined: Mapping[str, str] = field(default_factory=dict)
    """The reason for each metric that the official script prints as ``nan``; ``values`` then has our own value."""


@dataclass(frozen=True)
class EncoderOutput:
    """Input of a head: the hidden vectors of all positions, and one pooled vector per input."""

    hidden_BLH: torch.Tensor
    pooled_BH: torch.Tensor
    features: Sequence[Feature]
    """The features of the batch. Each is one row, or as many rows as it has choices."""


class Words(NamedTuple):
    """The words of a sentence: positions of each word's first and last piece, its part of speech and its gold head."""

    first: list[int]
    last: list[int]
    pos: list[int]
    """Number of the part of speech of each word's last morpheme."""
    heads: list[int]
    """Gold head of each word, counted from 1; 0 for the root, or if the head was cut off. Relations are trained on it."""


class Parse(NamedTuple):
    """Scores of heads [B, W, P], minus infinity for padding, and of relations to one head of each word [B, W, R]."""

    arcs_BWP: torch.Tensor
    relations_BWR: torch.Tensor


class Spans(NamedTuple):
    """Logits of starts and ends of answers [B, L, 2], and of "no answer" [B]."""

    positions_BL2: torch.Tensor
    unanswerable_B: torch.Tensor


class SlotScores(NamedTuple):
    """Scores of the values of all slots, concatenated: [B, V]."""

    scores_BV: torch.Tensor
    slots: Sequence[Mapping[str, tuple[str, ...]]]
    """The values of each slot, in the order of V; one equal entry per input."""

    def by_slot(self) -> list[torch.Tensor]:
        """Split the scores into [B, C] for each slot with C values."""
        sizes = [len(values) for values in self.slots[0].values()]
        return [self.scores_BV[:, end - size : end] for size, end in zip(sizes, itertools.accumulate(sizes), strict=True)]


def name_of(names: Sequence[str], number: int | None) -> str | None:
    """Return the name at a position, or ``number 7`` if there are fewer names; None for None."""
    if number is None:
        return None
    return names[number] if 0 <= number < len(names) else f"number {number}"


def narrowed(example: Example, kind: type[_Kind]) -> _Kind:
    """Return the example, which must be of this kind."""
    assert isinstance(example, kind)
    return example


class Task(ABC):
    """A benchmark. Its methods depend only on their arguments and on ``chosen``."""

    title: ClassVar[str]
    """The benchmark's own spelling of its name."""
    official_test_examples: ClassVar[int]
    """Size of the official test set. Scores over fewer examples are not comparable with published ones."""
    official_unit: ClassVar[str] = "examples"
    """The unit of ``official_test_examples``, in the plural."""
    metric: ClassVar[str]
    """Name of the main score; higher is better."""
    others: ClassVar[tuple[str, ...]] = ()
    """Names of the other scores, of which a test without the examples for it may lack some."""
    dev_metric: ClassVar[str] = ""
    """Name of the score that selects on dev, if the benchmark's baselines do not select by ``metric``."""
    origin: ClassVar[str]
    """Origin and license of its official files."""
    directories: ClassVar[frozenset[str]] = frozenset()
    """Splits that may be named by a directory with their files: train, dev, test."""
    has_official_dev: ClassVar[bool]
    """False if there is no dev set, or published scores are dev scores: a share of train is then held out as dev."""
    defaults: ClassVar[Mapping[str, int | float]]
    """Fields of the fine-tuning spec that the task sets unless a recipe does."""
    prediction_type: ClassVar[pa.DataType]
    """Arrow type of gold and predicted values."""
    evidence_type: ClassVar[pa.DataType | None] = None
    """Arrow type of the evidence for a prediction, which an ensemble averages; None if the task has no ensembles."""
    markers: ClassVar[tuple[str, ...]] = ()
    """Special pieces that the task inserts into its texts; the tokenizer given to ``encode`` knows them."""
    target_type: ClassVar[pa.DataType | None] = None
    """Arrow type of a feature's target in the feature cache; None: Arrow infers it."""
    layout_type: ClassVar[pa.DataType | None] = None
    """Arrow type of the result of ``stored_layout``; None: Arrow infers it."""
    matches_by_id: ClassVar[bool] = False
    """Whether records of a prediction file must have the id of their example; for other tasks it is optional."""
    id_fields: tuple[str, ...] = ("id",)
    """The fields of the official file that hold an example's id; fields that form it together are joined by `` + ``. Records
    of a prediction file may use these fields, or ``id``."""
    scores_missing: ClassVar[bool] = False
    """Whether the official script counts an example without a prediction (``None``) with a score of 0."""

    counted: ClassVar[str] = "examples"
    """The unit of the labels that ``labelled`` returns, in the plural."""
    listed: ClassVar[int | None] = None
    """Number of predictions per gold label that a table lists. None: all."""

    heads: ClassVar[tuple[Head, ...]] = ("own",)
    """The heads that the task offers."""

    chosen: Head = "own"
    """The head of this instance."""

    def headed(self, head: Head) -> Self:
        """Return the benchmark with another head. Raises ValueError if it has no such head."""
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
        """A sentence that explains the labels of ``labelled``; empty if they explain themselves."""
        return ""

    @property
    def outputs(self) -> tuple[str, ...]:
        """Names of the head's logits in an ONNX file; empty if the head needs more than one sequence of pieces."""
        return ()

    @property
    def metrics(self) -> tuple[str, ...]:
        """Names of all scores, the main one first."""
        return (self.metric, *self.others)

    @property
    def selects_by(self) -> str:
        """Name of the score that selects epochs and settings on dev."""
        return self.dev_metric or self.metric

    def official_size(self, examples: Sequence[Example]) -> int | None:
        """Number of examples in the official test set; None if that is unknown."""
        return self.official_test_examples

    @abstractmethod
    def read(self, file: BenchmarkFile) -> list[Example]:
        """Read all examples of an official file, in order. Raises ValueError naming file, line, field and remedy."""

    def document(self, example: Example) -> str:
        """Return the group of an example. Examples of one group stay together when dev is held out of train."""
        return example.id

    @abstractmethod
    def prediction(self, record: Record, example: Example) -> Any:
        """Read the predicted value for ``example`` from a record of a prediction file.

        Raises ValueError naming file, line, field and remedy.
        """

    @abstractmethod
    def labelled(self, example: Example, predicted: Any) -> tuple[list[str], list[str]]:
        """Return gold and predicted labels for error analysis, one of each for every counted unit of the example."""

    def gold_counts(self, examples: Sequence[Example]) -> dict[str, dict[str, int]]:
        """Return counts of gold values by name; only tasks with entities have any."""
        return {}

    @abstractmethod
    def score(self, examples: Sequence[Example], predicted: Sequence[Any], mode: Mode) -> Scores:
        """Compute all metrics of the benchmark; ``metric`` is among them."""

    def answered(self, examples: Sequence[Example], predicted: Sequence[Any], mode: Mode) -> Answered | None:
        """Reduce the answers to what ``metric`` depends on, so that thousands of resamples are cheap to score.

        None if there is no such reduction.
        """
        return None

    @abstractmethod
    def encode(self, examples: Sequence[Example], tokenizer: Any, *, max_length: int) -> list[Feature]:
        """Encode examples as piece ids, in order; each input has at most ``max_length`` pieces with special ones."""

    def stored_layout(self, layout: Any) -> Any:
        """Convert a feature's layout to lists, mappings and numbers, which Arrow can store."""
        return layout

    def restored_layout(self, stored: Any) -> Any:
        """Inverse of ``stored_layout``."""
        return stored

    def stored(self, value: Any) -> Any:
        """Convert a gold or predicted value to what ``prediction_type`` stores."""
        return value

    def restored(self, stored: Any) -> Any:
        """Inverse of ``stored``, for predicted values."""
        return stored

    @abstractmethod
    def fields(self, stored: Any) -> dict[str, Any]:
        """Return the fields of a prediction file's record for this stored value, even if it is invalid."""

    @abstractmethod
    def head(self, *, hidden_size: int, dropout: float, train: Sequence[Feature]) -> nn.Module:
        """Build a fresh module ``EncoderOutput -> logits``; ``train`` may determine its outputs or its initial bias."""

    @abstractmethod
    def loss(self, logits: Any, targets: Sequence[Any]) -> torch.Tensor:
        """Return the mean loss of a batch. ``logits`` are the output of the head."""

    def terms(self, targets: Sequence[Any]) -> int:
        """Return the number of terms of which ``loss`` is the mean."""
        return len(targets)

    @abstractmethod
    def decode(self, logits: Any, features: Sequence[Feature]) -> list[Any]:
        """Return one output per feature of a batch: its prediction, if every example is one feature."""

    def predictions(self, encoded: Encoded, decoded: Sequence[Any]) -> list[Any]:
        """Combine the outputs of ``decode`` for all features into one prediction per example."""
        return list(decoded)

    def feature_evidence(self, logits: Any, features: Sequence[Feature]) -> list[Any]:
        """Return the evidence in the logits of each feature of a batch."""
        raise NotImplementedError(f"there are no ensembles of {self.title}")

    def example_evidence(self, encoded: Encoded, by_feature: Sequence[Any]) -> list[Any]:
        """Combine the outputs of ``feature_evidence`` for all features into one evidence per example, of ``evidence_type``."""
        return list(by_feature)

    def joint_prediction(self, example: Example, evidence: Sequence[Any]) -> Any:
        """Return the joint prediction of several models from their evidence for an example."""
        raise NotImplementedError(f"there are no ensembles of {self.title}")

    def oracle(self, encoded: Encoded) -> list[Any] | None:
        """Return the best predictions that piece boundaries and the length limit allow; None if they limit nothing."""
        return None
