"""Tasks with one answer for a whole input: a class, or a score. One sentence or a pair, a dense layer on the pooled vector."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pyarrow as pa

from korealbert.documents.benchmark_files import BenchmarkFile, Line
from korealbert.finetune.files import Record, otherwise_composed
from korealbert.finetune.metrics import Mode
from korealbert.finetune.metrics.labels import ClassCounts, accuracy, pearson, spearman
from korealbert.finetune.scores.resampling import Additive, Answered, Correlated, Values
from korealbert.finetune.task import PAIR_HEADS, POOLING_HEADS, Example, Feature, Scores, Task, name_of

if TYPE_CHECKING:
    import torch
    from torch import nn

_COUNTED: Mapping[str, Callable[[ClassCounts], Values]] = {
    "macro_f1": ClassCounts.macro_f1,
    "mcc": ClassCounts.mcc,
    "f1": lambda counts: counts.f1()[..., 1],
}
"""Metrics that are functions of how often each class is right, gold and predicted."""

_Measures = Mapping[str, Callable[[Sequence[Any], Sequence[Any]], float]]
"""Metrics by name, as functions of gold and predicted values."""


def encode_sequences(examples: Sequence[Example], tokenizer: Any, *, max_length: int) -> list[Feature]:
    """Whole inputs, ``[CLS] a [SEP]`` or ``[CLS] a [SEP] b [SEP]`` with segment ids 0 and 1, the longer part cut first.

    Raises ValueError when the tokenizer adds no ``[CLS]``: the pooled vector would be that of an arbitrary piece.
    """
    if not examples:
        return []
    texts = [example.text for example in examples]
    pairs = [example.pair or "" for example in examples] if examples[0].pair is not None else None
    # Segment ids are asked for: a tokenizer whose model_input_names forgets them would hide which sentence is which.
    encoded = tokenizer(
        texts,
        pairs,
        truncation="longest_first",
        max_length=max_length,
        return_token_type_ids=True,
        return_attention_mask=False,
    )
    if encoded["input_ids"][0][:1] != [tokenizer.cls_token_id]:
        where = f"{tokenizer.name_or_path}/tokenizer.json"
        raise ValueError(f"{where}: puts no {tokenizer.cls_token} before a sentence; give it a post-processor")
    rows = zip(encoded["input_ids"], encoded["token_type_ids"], examples, strict=True)
    return [Feature(ids, segment_ids, example.target, index) for index, (ids, segment_ids, example) in enumerate(rows)]


def _encode_apart(
    sentences: Sequence[tuple[str, ...]], examples: Sequence[Example], tokenizer: Any, *, max_length: int
) -> list[Feature]:
    """The sentences of each example as inputs of one feature, each cut by itself."""
    sides = ([Example("", text, None) for text in side] for side in zip(*sentences, strict=True))
    encoded = [encode_sequences(side, tokenizer, max_length=max_length) for side in sides]
    return [_of_inputs(inputs, examples[index], index) for index, inputs in enumerate(zip(*encoded, strict=True))]


def _of_inputs(inputs: tuple[Feature, ...], example: Example, index: int) -> Feature:
    """The feature of an example that is several inputs; its own pieces are those of the longest."""
    longest = max(inputs, key=lambda part: len(part.input_ids))
    return Feature(longest.input_ids, longest.token_type_ids, example.target, index, choices=inputs)


class _SequenceTask(Task):
    """Base of classification and regression of whole inputs."""

    heads = POOLING_HEADS

    @property
    def outputs(self) -> tuple[str, ...]:
        """None of a bi-encoder, whose input is two sentences apart."""
        return () if self.chosen == "bi-encoder" else ("logits",)

    def encode(self, examples: Sequence[Example], tokenizer: Any, *, max_length: int) -> list[Feature]:
        """``[CLS] a [SEP]`` or ``[CLS] a [SEP] b [SEP]``, the longer sentence truncated first; ``a`` and ``b`` apart for a
        bi-encoder."""
        if self.chosen == "bi-encoder":
            sentences = [(example.text, example.pair or "") for example in examples]
            return _encode_apart(sentences, examples, tokenizer, max_length=max_length)
        return encode_sequences(examples, tokenizer, max_length=max_length)


def _place(written: str, names: Sequence[str]) -> int | None:
    """The place of a label; ``true`` and ``false``, as JSON writes truth values, are also the label ``True`` or ``FALSE``."""
    places = [place for place, name in enumerate(names) if name == written]
    if not places and written in ("true", "false"):
        places = [place for place, name in enumerate(names) if name.lower() == written]
    return places[0] if len(places) == 1 else None


class SequenceClassification(_SequenceTask):
    """One of ``labels``; the target is the label's position. Cross-entropy; official scores and corrected ones are the same."""

    labels: ClassVar[tuple[str, ...]]
    spellings: ClassVar[tuple[str, ...]] = ()
    """How the official files write ``labels``, in the same order, where they write something else."""
    metric = "accuracy"
    measures: ClassVar[_Measures] = {"accuracy": accuracy}
    prediction_type = pa.int64()
    target_type = pa.int64()
    evidence_type = pa.list_(pa.float64())

    def position(self, written: str) -> int | None:
        """The position of a label as the official files write it; None where it is none."""
        return _place(written, self.spellings or self.labels)

    @property
    def meanings(self) -> str:
        """The labels as the official files write them, for people."""
        pairs = zip(self.spellings or self.labels, self.labels, strict=True)
        return ", ".join(f"{written} ({name})" if written != name else name for written, name in pairs)

    def label(self, written: str, *, line: Line, field: str = "label") -> int:
        """``position``. Raises ValueError naming the known labels."""
        position = self.position(written)
        if position is None:
            hint = otherwise_composed(written, [*(self.spellings or self.labels), *self.labels])
            raise line.error(field, f"found {written!r}{hint}", f"a label is one of {self.meanings}")
        return position

    def prediction(self, record: Record, example: Example) -> int:
        """``label`` as the official files write it, a string, or a number or truth value of JSON; or its name."""
        written = record.written("label")
        named = _place(written, self.labels) if self.position(written) is None else None
        return self.label(written, line=record.line) if named is None else named

    def fields(self, kept: int) -> dict[str, Any]:
        """The label's name."""
        return {"label": name_of(self.labels, kept)}

    def labelled(self, example: Example, predicted: Any) -> tuple[list[str], list[str]]:
        """The names of both labels."""
        return [self.labels[example.target]], [self.labels[predicted]]

    def answered(self, examples: Sequence[Example], predicted: Sequence[Any], mode: Mode) -> Answered | None:
        """Accuracy as a mean; macro F1, F1 of class 1 and Matthews' correlation from counts of each class."""
        gold_N, given_N = np.array([example.target for example in examples]), np.array(predicted)
        right_N1 = (gold_N == given_N)[:, None].astype(np.float64)
        if self.metric == "accuracy":
            return Additive(right_N1, lambda sums_BK: 100 * sums_BK[:, 0] / len(right_N1))
        if self.metric not in _COUNTED:
            return None
        gold_NC, given_NC = (np.eye(len(self.labels))[side_N] for side_N in (gold_N, given_N))
        counted = _COUNTED[self.metric]
        quantities_NK = np.hstack([gold_NC * right_N1, gold_NC, given_NC])
        return Additive(quantities_NK, lambda sums_BK: 100 * counted(ClassCounts.joined(sums_BK)))

    def head(self, *, hidden_size: int, dropout: float, train: Sequence[Feature]) -> nn.Module:
        """One logit per label."""
        from korealbert.finetune.task_types.heads import PairHead, PooledHead  # noqa: PLC0415 (planning does without)

        if self.chosen == "bi-encoder":
            return PairHead(hidden_size, len(self.labels), dropout)
        return PooledHead(hidden_size, len(self.labels), dropout, hidden=self.chosen == "electra")

    def loss(self, logits: torch.Tensor, targets: Sequence[Any]) -> torch.Tensor:
        """Cross-entropy over ``labels``."""
        import torch  # noqa: PLC0415 (planning does without)

        wanted = torch.tensor(targets, device=logits.device)
        return torch.nn.functional.cross_entropy(logits.float(), wanted)

    def decode(self, logits: torch.Tensor, features: Sequence[Feature]) -> list[Any]:
        """The most probable label's position; the first of equals."""
        return list(logits.argmax(dim=-1).tolist())

    def weigh(self, logits: torch.Tensor, features: Sequence[Feature]) -> list[Any]:
        """The probability of each label."""
        return list(logits.double().softmax(dim=-1).tolist())

    def agreed(self, example: Example, evidence: Sequence[Any]) -> Any:
        """The label with the largest mean probability; the first of equals."""
        return int(np.mean(evidence, axis=0).argmax())

    def score(self, examples: Sequence[Example], predicted: Sequence[Any], mode: Mode) -> Scores:
        """``measures``, with a warning when only one label was ever predicted."""
        gold = [example.target for example in examples]
        constant = len(set(predicted)) == 1 and len(set(gold)) > 1
        warnings = (f"every prediction is {self.labels[predicted[0]]!r}",) if constant else ()
        return Scores({name: measure(gold, predicted) for name, measure in self.measures.items()}, warnings)


@dataclass(frozen=True, slots=True)
class Choice(Example):
    """An example whose answer is one of some texts."""

    options: tuple[str, ...] = ()


class MultipleChoice(SequenceClassification):
    """Which of some options is right: an input and one logit for each. ``labels`` name their places."""

    @property
    def outputs(self) -> tuple[str, ...]:
        """None: an example is several inputs."""
        return ()

    def encode(self, examples: Sequence[Example], tokenizer: Any, *, max_length: int) -> list[Feature]:
        """As many inputs per example as it has options, each as ``posed``."""
        features = []
        for index, example in enumerate(examples):
            assert isinstance(example, Choice)
            posed = (self.posed(example, option) for option in example.options)
            inputs = [Example(example.id, text, 0, pair=pair) for text, pair in posed]
            features.append(_of_inputs(tuple(encode_sequences(inputs, tokenizer, max_length=max_length)), example, index))
        return features

    def posed(self, example: Choice, option: str) -> tuple[str, str]:
        """The two texts of the input for an option: by default the example's, and the option."""
        return example.text, option

    def head(self, *, hidden_size: int, dropout: float, train: Sequence[Feature]) -> nn.Module:
        """One logit per input."""
        from korealbert.finetune.task_types.heads import ChoiceHead  # noqa: PLC0415 (planning does without)

        return ChoiceHead(hidden_size, 1, dropout, hidden=self.chosen == "electra")


@dataclass(frozen=True, slots=True)
class Triple(Example):
    """A premise (``text``), a hypothesis that it entails (``pair``), and one that it contradicts."""

    contrary: str = ""

    @property
    def sentences(self) -> tuple[str, str, str]:
        """All three."""
        return self.text, self.pair or "", self.contrary


class EntailmentTriples(SequenceClassification):
    """Which hypothesis of a batch follows from a premise? Class 0 is always its own, whatever the batch."""

    heads = ("own", "bi-encoder")
    labels = ("its own",)
    has_official_dev = False
    defaults: ClassVar[Mapping[str, int | float]] = {}

    def __init__(self, entailment: SequenceClassification, scale: float = 20.0) -> None:
        self.entailment, self.scale = entailment, scale
        self.chosen = "bi-encoder"

    def read(self, file: BenchmarkFile) -> list[Example]:
        """One triple of each premise that has both kinds of hypotheses: the first of each."""
        found: dict[str, dict[str, str]] = {}
        for example in self.entailment.read(file):
            label = self.entailment.labels[example.target]
            found.setdefault(example.text, {}).setdefault(label, example.pair or "")
        both = [(text, of) for text, of in found.items() if {"entailment", "contradiction"} <= of.keys()]
        return [
            Triple(str(number), text, 0, of["entailment"], contrary=of["contradiction"])
            for number, (text, of) in enumerate(both)
        ]

    def encode(self, examples: Sequence[Example], tokenizer: Any, *, max_length: int) -> list[Feature]:
        """Three inputs per triple."""
        return _encode_apart([_triple(example).sentences for example in examples], examples, tokenizer, max_length=max_length)

    def head(self, *, hidden_size: int, dropout: float, train: Sequence[Feature]) -> nn.Module:
        """Cosines with every hypothesis of the batch."""
        from korealbert.finetune.task_types.heads import ContrastHead  # noqa: PLC0415 (planning does without)

        return ContrastHead(self.scale)


def _triple(example: Example) -> Triple:
    assert isinstance(example, Triple)
    return example


_CORRELATIONS = ("pearson", "spearman")

_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
"""Not all that ``float`` takes: ``1_0`` is a damaged 1.0 rather than 10."""


class SequenceRegression(_SequenceTask):
    """A real score of a pair. Mean squared error on the official scale; official scores and corrected ones are the same."""

    heads = PAIR_HEADS
    scale: ClassVar[tuple[float, float]] = (0.0, 5.0)
    """Lowest and highest gold score."""
    threshold: ClassVar[float] = 3.0
    """From this score on two sentences count as paraphrases in error analysis."""
    metric = "spearman"
    measures: ClassVar[_Measures] = {"spearman": spearman, "pearson": pearson}
    prediction_type = pa.float64()
    target_type = pa.float64()
    evidence_type = pa.float64()

    def gold_score(self, text: str, *, line: Line, field: str = "score") -> float:
        """The score that an official file writes. Raises ValueError where it is no number on the scale."""
        low, high = self.scale
        score = float(text) if _NUMBER.fullmatch(text.strip()) else math.nan
        if not low <= score <= high:
            raise line.error(field, f"found {text!r}", f"a score is a number from {low:g} to {high:g}")
        return score

    def prediction(self, record: Record, example: Example) -> float:
        """The number in ``label``; it may lie beyond the scale."""
        return record.number("label")

    def fields(self, kept: float) -> dict[str, Any]:
        """The number."""
        return {"label": kept}

    @property
    def about_labels(self) -> str:
        """The threshold."""
        return f"1 is a score of {self.threshold:g} or more, 0 one below."

    def labelled(self, example: Example, predicted: Any) -> tuple[list[str], list[str]]:
        """``1`` from the threshold on, ``0`` below, as KLUE-STS's binary label."""
        return [str(int(example.target >= self.threshold))], [str(int(predicted >= self.threshold))]

    def answered(self, examples: Sequence[Example], predicted: Sequence[Any], mode: Mode) -> Answered | None:
        """Either correlation."""
        if self.metric not in _CORRELATIONS:
            return None
        gold_N, given_N = (np.array(side, dtype=np.float64) for side in ([e.target for e in examples], predicted))
        return Correlated(gold_N, given_N, by_rank=self.metric == "spearman")

    def head(self, *, hidden_size: int, dropout: float, train: Sequence[Feature]) -> nn.Module:
        """One output whose bias starts at the mean training score; correlations do not see it, the first epoch does.

        A bi-encoder's is the cosine, stretched so that 0 and 1 are the ends of the scale.
        """
        from korealbert.finetune.task_types.heads import CosineHead, PooledHead  # noqa: PLC0415 (planning does without)

        if self.chosen == "bi-encoder":
            return CosineHead(*self.scale)
        mean = sum(float(f.target) for f in train) / len(train)
        return PooledHead(hidden_size, 1, dropout, mean, hidden=self.chosen == "electra")

    def loss(self, logits: torch.Tensor, targets: Sequence[Any]) -> torch.Tensor:
        """Mean squared error."""
        import torch  # noqa: PLC0415 (planning does without)

        wanted = torch.tensor(targets, dtype=torch.float32, device=logits.device)
        return torch.nn.functional.mse_loss(logits.float().squeeze(-1), wanted)

    def decode(self, logits: torch.Tensor, features: Sequence[Feature]) -> list[Any]:
        """The raw output, not clipped to the scale: clipping would make ties."""
        return list(logits.float().squeeze(-1).tolist())

    def weigh(self, logits: torch.Tensor, features: Sequence[Feature]) -> list[Any]:
        """The predictions themselves."""
        return self.decode(logits, features)

    def agreed(self, example: Example, evidence: Sequence[Any]) -> Any:
        """The mean of the predictions."""
        return float(np.mean(evidence))

    def score(self, examples: Sequence[Example], predicted: Sequence[Any], mode: Mode) -> Scores:
        """``measures``; correlations are 0 with a warning when the predictions (or the gold scores) are constant."""
        gold = [example.target for example in examples]
        constant = [name for name, values in (("prediction", predicted), ("gold score", gold)) if len(set(values)) <= 1]
        reasons = [f"every {name} is the same" for name in constant] if len(gold) > 1 else ["there is only one example"]
        warnings = tuple(f"{reason}: correlations are set to 0" for reason in reasons)
        why = {name: reasons[0] for name in self.measures if name in _CORRELATIONS} if reasons else {}
        values = {name: measure(gold, predicted) for name, measure in self.measures.items()}
        return Scores(values, warnings, why if mode == "official" else {})
