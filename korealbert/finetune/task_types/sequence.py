"""Tasks with one class or score for a whole input (a sentence or a pair), predicted from its pooled vector."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pyarrow as pa

from korealbert.documents.benchmark_files import BenchmarkFile, Line
from korealbert.finetune.metrics import Mode
from korealbert.finetune.metrics.labels import ClassCounts, accuracy, pearson, spearman
from korealbert.finetune.records import Form, Record, normalisation_hint, tsv_rows
from korealbert.finetune.scores.resampling import Additive, Answered, Correlated, Values
from korealbert.finetune.task import PAIR_HEADS, POOLING_HEADS, Example, Feature, Scores, Task, name_of, narrowed

if TYPE_CHECKING:
    import torch
    from torch import nn

_COUNTED: Mapping[str, Callable[[ClassCounts], Values]] = {
    "macro_f1": ClassCounts.macro_f1,
    "mcc": ClassCounts.mcc,
    "f1": lambda counts: counts.f1()[..., 1],
}
"""Metrics that are functions of class counts."""

_Measures = Mapping[str, Callable[[Sequence[Any], Sequence[Any]], float]]
"""Metrics by name, as functions of gold and predicted values."""


def encode_sequences(examples: Sequence[Example], tokenizer: Any, *, max_length: int) -> list[Feature]:
    """Encode ``[CLS] a [SEP]`` or ``[CLS] a [SEP] b [SEP]`` with segment ids 0 and 1; the longer sentence is cut first.

    Raises ValueError if the tokenizer adds no ``[CLS]``: the pooled vector would be an arbitrary piece's.
    """
    if not examples:
        return []
    texts = [example.text for example in examples]
    pairs = [example.pair or "" for example in examples] if examples[0].pair is not None else None
    # Request segment ids explicitly: model_input_names of some tokenizers omits them, and the sentences would look the same.
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


def _encode_separately(
    sentences: Sequence[tuple[str, ...]], examples: Sequence[Example], tokenizer: Any, *, max_length: int
) -> list[Feature]:
    """Encode each sentence of an example as an input of its own; the inputs are the choices of one feature."""
    sides = ([Example("", text, None) for text in side] for side in zip(*sentences, strict=True))
    encoded = [encode_sequences(side, tokenizer, max_length=max_length) for side in sides]
    return [_of_inputs(inputs, examples[index], index) for index, inputs in enumerate(zip(*encoded, strict=True))]


def _of_inputs(inputs: tuple[Feature, ...], example: Example, index: int) -> Feature:
    """Make the feature of an example that has several inputs; its own pieces are the longest input's."""
    longest = max(inputs, key=lambda part: len(part.input_ids))
    return Feature(longest.input_ids, longest.token_type_ids, example.target, index, choices=inputs)


class _SequenceTask(Task):
    """Base class of classification and regression of whole inputs."""

    measures: ClassVar[_Measures]
    """The functions of the scores by name."""
    heads = POOLING_HEADS

    @property
    def metrics(self) -> tuple[str, ...]:
        """See ``Task``."""
        return tuple(dict.fromkeys((self.metric, *self.measures, *self.others)))

    @property
    def outputs(self) -> tuple[str, ...]:
        """Empty for a bi-encoder, which needs two inputs."""
        return () if self.chosen == "bi-encoder" else ("logits",)

    def encode(self, examples: Sequence[Example], tokenizer: Any, *, max_length: int) -> list[Feature]:
        """Encode each example as ``encode_sequences`` does; for a bi-encoder each of its sentences."""
        if self.chosen == "bi-encoder":
            sentences = [(example.text, example.pair or "") for example in examples]
            return _encode_separately(sentences, examples, tokenizer, max_length=max_length)
        return encode_sequences(examples, tokenizer, max_length=max_length)


def _position(written: str, names: Sequence[str]) -> int | None:
    """Return the position of a label; JSON's ``true`` and ``false`` also match labels like ``True`` or ``FALSE``."""
    positions = [position for position, name in enumerate(names) if name == written]
    if not positions and written in ("true", "false"):
        positions = [position for position, name in enumerate(names) if name.lower() == written]
    return positions[0] if len(positions) == 1 else None


class SequenceClassification(_SequenceTask):
    """Predict one of ``labels``; the target is the label's position. Official and corrected scores are the same."""

    labels: ClassVar[tuple[str, ...]]
    spellings: ClassVar[tuple[str, ...]] = ()
    """How the official files write ``labels``, in the same order, if they do not use the names."""
    metric = "accuracy"
    measures: ClassVar[_Measures] = {"accuracy": accuracy}
    prediction_type = pa.int64()
    target_type = pa.int64()
    evidence_type = pa.list_(pa.float64())

    def position(self, written: str) -> int | None:
        """Return the position of a label as the official files write it, or None if it is unknown."""
        return _position(written, self.spellings or self.labels)

    @property
    def meanings(self) -> str:
        """A list of the labels as the official files write them, with their names."""
        pairs = zip(self.spellings or self.labels, self.labels, strict=True)
        return ", ".join(f"{written} ({name})" if written != name else name for written, name in pairs)

    def label(self, written: str, *, line: Line, field: str = "label") -> int:
        """Return ``position``. Raises ValueError naming the known labels if it is None."""
        position = self.position(written)
        if position is None:
            hint = normalisation_hint(written, [*(self.spellings or self.labels), *self.labels])
            raise line.error(field, f"found {written!r}{hint}", f"a label is one of {self.meanings}")
        return position

    def prediction(self, record: Record, example: Example) -> int:
        """`label`: the label as the official files write it (a string, number or boolean), or its name."""
        written = record.written("label")
        named = _position(written, self.labels) if self.position(written) is None else None
        return self.label(written, line=record.line) if named is None else named

    def fields(self, stored: int) -> dict[str, Any]:
        """Return the label's name."""
        return {"label": name_of(self.labels, stored)}

    def labelled(self, example: Example, predicted: Any) -> tuple[list[str], list[str]]:
        """Return the names of both labels."""
        return [self.labels[example.target]], [self.labels[predicted]]

    def answered(self, examples: Sequence[Example], predicted: Sequence[Any], mode: Mode) -> Answered | None:
        """Compute accuracy as a mean; macro F1, F1 of class 1 and Matthews' correlation from class counts."""
        gold_N, given_N = np.array([example.target for example in examples]), np.array(predicted)
        if self.metric == "accuracy":
            return Additive.mean(gold_N == given_N)
        if self.metric not in _COUNTED:
            return None
        gold_NC, given_NC = (np.eye(len(self.labels))[side_N] for side_N in (gold_N, given_N))
        return Additive.of_counts(np.hstack([gold_NC * given_NC, gold_NC, given_NC]), _COUNTED[self.metric])

    def head(self, *, hidden_size: int, dropout: float, train: Sequence[Feature]) -> nn.Module:
        """Build a head with one logit per label."""
        from korealbert.finetune.task_types.heads import PairHead, PooledHead  # noqa: PLC0415 (planning does without)

        if self.chosen == "bi-encoder":
            return PairHead(hidden_size, len(self.labels), dropout)
        return PooledHead(hidden_size, len(self.labels), dropout, hidden=self.chosen == "electra")

    def loss(self, logits: torch.Tensor, targets: Sequence[Any]) -> torch.Tensor:
        """Return the cross-entropy over ``labels``."""
        import torch  # noqa: PLC0415 (planning does without)

        wanted = torch.tensor(targets, device=logits.device)
        return torch.nn.functional.cross_entropy(logits.float(), wanted)

    def decode(self, logits: torch.Tensor, features: Sequence[Feature]) -> list[Any]:
        """Return the position of the most probable label; the first of equals."""
        return list(logits.argmax(dim=-1).tolist())

    def feature_evidence(self, logits: torch.Tensor, features: Sequence[Feature]) -> list[Any]:
        """Return the probability of each label."""
        return list(logits.double().softmax(dim=-1).tolist())

    def joint_prediction(self, example: Example, evidence: Sequence[Any]) -> Any:
        """Return the label with the largest mean probability; the first of equals."""
        return int(np.mean(evidence, axis=0).argmax())

    def score(self, examples: Sequence[Example], predicted: Sequence[Any], mode: Mode) -> Scores:
        """Compute ``measures``, with a warning if only one label was ever predicted."""
        gold = [example.target for example in examples]
        constant = len(set(predicted)) == 1 and len(set(gold)) > 1
        warnings = (f"every prediction is {self.labels[predicted[0]]!r}",) if constant else ()
        return Scores({name: measure(gold, predicted) for name, measure in self.measures.items()}, warnings)


def with_accuracy(scores: Scores, name: str, rows: Sequence[tuple[Any, Any]]) -> Scores:
    """Return the scores with the accuracy of some rows, each a gold and a predicted label; unchanged without any."""
    return replace(scores, values={**scores.values, name: accuracy(*zip(*rows, strict=True))}) if rows else scores


class TableClassification(SequenceClassification):
    """Classification of the rows of a tab-separated file with a header line. An id is the line number."""

    header: ClassVar[tuple[str, ...]]
    sentences: ClassVar[tuple[str, ...]]
    """Columns of the one or two sentences."""
    label_column: ClassVar[str] = "label"
    id_column: ClassVar[str] = ""
    """Column of the ids, if they are not the line numbers."""
    official_id: ClassVar[tuple[str, ...]] = ()
    """Columns that form the official id together, if the header has them."""
    forms: ClassVar[Mapping[str, Form]] = {}
    """Expected form of columns; columns that the header lacks are ignored."""
    unique: ClassVar[str] = ""
    """A column without repeated values, if the header has it."""

    def rows(self, file: BenchmarkFile) -> Iterator[tuple[Line, list[str]]]:
        """Yield all rows."""
        return tsv_rows(file, self.header, forms=self.forms, unique=self.unique)

    def read(self, file: BenchmarkFile) -> list[Example]:
        """Read all examples."""
        found = []
        for line, fields in self.rows(file):
            row = dict(zip(self.header, fields, strict=True))
            first, *second = (row[name] for name in self.sentences)
            target = self.label(row[self.label_column], line=line, field=self.label_column)
            official_id = "/".join(row[name] for name in self.official_id if name in row)
            found.append(
                Example(row.get(self.id_column, str(line.number)), first, target, second[0] if second else None, official_id)
            )
        return found


@dataclass(frozen=True, slots=True)
class Choice(Example):
    """An example whose answer is one of several options."""

    options: tuple[str, ...] = ()


class MultipleChoice(SequenceClassification):
    """Predict which option is right: each option is an input with one logit. ``labels`` name the options' positions."""

    @property
    def outputs(self) -> tuple[str, ...]:
        """Empty, since an example has several inputs."""
        return ()

    def encode(self, examples: Sequence[Example], tokenizer: Any, *, max_length: int) -> list[Feature]:
        """Encode an input for each option of an example, as ``posed`` returns it."""
        features = []
        for index, example in enumerate(examples):
            choice = narrowed(example, Choice)
            posed = (self.posed(choice, option) for option in choice.options)
            inputs = [Example(example.id, text, 0, pair=pair) for text, pair in posed]
            features.append(_of_inputs(tuple(encode_sequences(inputs, tokenizer, max_length=max_length)), example, index))
        return features

    def posed(self, example: Choice, option: str) -> tuple[str, str]:
        """Return the two texts of the input for an option: by default the example's text, and the option."""
        return example.text, option

    def head(self, *, hidden_size: int, dropout: float, train: Sequence[Feature]) -> nn.Module:
        """Build a head with one logit per input."""
        from korealbert.finetune.task_types.heads import ChoiceHead  # noqa: PLC0415 (planning does without)

        return ChoiceHead(hidden_size, 1, dropout, hidden=self.chosen == "electra")


@dataclass(frozen=True, slots=True)
class Triple(Example):
    """A premise (``text``), a hypothesis that it entails (``pair``), and one that it contradicts (``contrary``)."""

    contrary: str = ""

    @property
    def sentences(self) -> tuple[str, str, str]:
        """Premise, entailed hypothesis, contradicted hypothesis."""
        return self.text, self.pair or "", self.contrary


class EntailmentTriples(SequenceClassification):
    """Predict which hypothesis of a batch follows from a premise. Class 0 is always the premise's own hypothesis."""

    heads = ("own", "bi-encoder")
    labels = ("its own",)
    has_official_dev = False
    defaults: ClassVar[Mapping[str, int | float]] = {}

    def __init__(self, entailment: SequenceClassification, scale: float = 20.0) -> None:
        self.entailment, self.scale = entailment, scale
        self.chosen = "bi-encoder"

    def read(self, file: BenchmarkFile) -> list[Example]:
        """Read one triple for each premise that has both kinds of hypotheses: the first of each kind."""
        hypotheses: dict[str, dict[str, str]] = {}
        for example in self.entailment.read(file):
            label = self.entailment.labels[example.target]
            hypotheses.setdefault(example.text, {}).setdefault(label, example.pair or "")
        complete = [(text, by) for text, by in hypotheses.items() if {"entailment", "contradiction"} <= by.keys()]
        return [
            Triple(str(number), text, 0, by["entailment"], contrary=by["contradiction"])
            for number, (text, by) in enumerate(complete)
        ]

    def encode(self, examples: Sequence[Example], tokenizer: Any, *, max_length: int) -> list[Feature]:
        """Encode three inputs per triple."""
        sentences = [narrowed(example, Triple).sentences for example in examples]
        return _encode_separately(sentences, examples, tokenizer, max_length=max_length)

    def head(self, *, hidden_size: int, dropout: float, train: Sequence[Feature]) -> nn.Module:
        """Build a head of cosines with every hypothesis of the batch."""
        from korealbert.finetune.task_types.heads import ContrastHead  # noqa: PLC0415 (planning does without)

        return ContrastHead(self.scale)


_CORRELATIONS = ("pearson", "spearman")

_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
"""Stricter than ``float``: ``1_0`` is a damaged 1.0 rather than 10."""


class SequenceRegression(_SequenceTask):
    """Predict the real score of a pair. Official and corrected scores are the same."""

    heads = PAIR_HEADS
    scale: ClassVar[tuple[float, float]] = (0.0, 5.0)
    """Lowest and highest gold score."""
    threshold: ClassVar[float] = 3.0
    """Pairs with at least this score count as paraphrases in error analysis."""
    metric = "spearman"
    measures: ClassVar[_Measures] = {"spearman": spearman, "pearson": pearson}
    prediction_type = pa.float64()
    target_type = pa.float64()
    evidence_type = pa.float64()

    def gold_score(self, text: str, *, line: Line, field: str = "score") -> float:
        """Convert the score of an official file. Raises ValueError if it is not a number on the scale."""
        low, high = self.scale
        score = float(text) if _NUMBER.fullmatch(text.strip()) else math.nan
        if not low <= score <= high:
            raise line.error(field, f"found {text!r}", f"a score is a number from {low:g} to {high:g}")
        return score

    def prediction(self, record: Record, example: Example) -> float:
        """`label`: the score, a number that may be outside of the scale."""
        return record.number("label")

    def fields(self, stored: float) -> dict[str, Any]:
        """Return the number."""
        return {"label": stored}

    @property
    def about_labels(self) -> str:
        """An explanation of the threshold."""
        return f"1 is a score of {self.threshold:g} or more, 0 one below."

    def labelled(self, example: Example, predicted: Any) -> tuple[list[str], list[str]]:
        """Return ``1`` for scores of at least the threshold, else ``0``, like KLUE-STS's binary label."""
        return [str(int(example.target >= self.threshold))], [str(int(predicted >= self.threshold))]

    def answered(self, examples: Sequence[Example], predicted: Sequence[Any], mode: Mode) -> Answered | None:
        """Compute either correlation from gold and predicted scores."""
        if self.metric not in _CORRELATIONS:
            return None
        gold_N, given_N = (np.array(side, dtype=np.float64) for side in ([e.target for e in examples], predicted))
        return Correlated(gold_N, given_N, by_rank=self.metric == "spearman")

    def head(self, *, hidden_size: int, dropout: float, train: Sequence[Feature]) -> nn.Module:
        """Build a head with one output, whose bias starts at the mean training score for faster convergence.

        A bi-encoder's output is the cosine, scaled so that 0 and 1 are the ends of the scale.
        """
        from korealbert.finetune.task_types.heads import CosineHead, PooledHead  # noqa: PLC0415 (planning does without)

        if self.chosen == "bi-encoder":
            return CosineHead(*self.scale)
        mean = sum(float(f.target) for f in train) / len(train)
        return PooledHead(hidden_size, 1, dropout, mean, hidden=self.chosen == "electra")

    def loss(self, logits: torch.Tensor, targets: Sequence[Any]) -> torch.Tensor:
        """Return the mean squared error on the official scale."""
        import torch  # noqa: PLC0415 (planning does without)

        wanted = torch.tensor(targets, dtype=torch.float32, device=logits.device)
        return torch.nn.functional.mse_loss(logits.float().squeeze(-1), wanted)

    def decode(self, logits: torch.Tensor, features: Sequence[Feature]) -> list[Any]:
        """Return the raw outputs, not clipped to the scale, because clipping would make ties."""
        return list(logits.float().squeeze(-1).tolist())

    def feature_evidence(self, logits: torch.Tensor, features: Sequence[Feature]) -> list[Any]:
        """Return the predictions themselves."""
        return self.decode(logits, features)

    def joint_prediction(self, example: Example, evidence: Sequence[Any]) -> Any:
        """Return the mean of the predictions."""
        return float(np.mean(evidence))

    def score(self, examples: Sequence[Example], predicted: Sequence[Any], mode: Mode) -> Scores:
        """Compute ``measures``; correlations are 0, with a warning, if predictions or gold scores are constant."""
        gold = [example.target for example in examples]
        constant = [name for name, values in (("prediction", predicted), ("gold score", gold)) if len(set(values)) <= 1]
        reasons = [f"every {name} is the same" for name in constant] if len(gold) > 1 else ["there is only one example"]
        warnings = tuple(f"{reason}: correlations are set to 0" for reason in reasons)
        why = {name: reasons[0] for name in self.measures if name in _CORRELATIONS} if reasons else {}
        values = {name: measure(gold, predicted) for name, measure in self.measures.items()}
        return Scores(values, warnings, why if mode == "official" else {})
