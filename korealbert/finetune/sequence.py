"""Tasks with one answer for a whole input: a class, or a score. One sentence or a pair, a dense layer on the pooled vector."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import pyarrow as pa
import torch
from torch import nn

from korealbert.finetune.encode import encode_sequences
from korealbert.finetune.metrics.classification import accuracy
from korealbert.finetune.metrics.correlation import pearson, spearman
from korealbert.finetune.task import EncoderOutput, Example, Feature, Scores, Task

INITIAL_STD = 0.02
"""Standard deviation of a fresh dense layer, as in BERT and ALBERT."""


class PooledHead(nn.Module):
    """Dropout and one dense layer on the pooled vector: [B, H] -> [B, outputs]."""

    def __init__(self, hidden_size: int, outputs: int, dropout: float, bias: float = 0.0) -> None:
        super().__init__()
        self.dropout = nn.Dropout(dropout)
        self.dense = nn.Linear(hidden_size, outputs)
        nn.init.normal_(self.dense.weight, std=INITIAL_STD)
        nn.init.constant_(self.dense.bias, bias)

    def forward(self, encoded: EncoderOutput) -> torch.Tensor:
        """Logits [B, outputs]."""
        logits: torch.Tensor = self.dense(self.dropout(encoded.pooled_BH))
        return logits


class SequenceTask(Task):
    """What classification and regression of whole inputs share."""

    def encode(self, examples: Sequence[Example], tokenizer: Any, *, max_length: int) -> list[Feature]:
        """``[CLS] a [SEP]`` or ``[CLS] a [SEP] b [SEP]``, the longer sentence truncated first."""
        return encode_sequences(examples, tokenizer, max_length=max_length)


class SequenceClassification(SequenceTask):
    """One of ``labels``; the target is the label's position. Cross-entropy; scored by accuracy."""

    labels: ClassVar[tuple[str, ...]]
    metric = "accuracy"
    prediction_type = pa.int64()

    def head(self, *, hidden_size: int, dropout: float, train: Sequence[Feature]) -> nn.Module:
        """One logit per label."""
        return PooledHead(hidden_size, len(self.labels), dropout)

    def loss(self, logits: torch.Tensor, targets: Sequence[Any]) -> torch.Tensor:
        """Cross-entropy over ``labels``."""
        return nn.functional.cross_entropy(logits.float(), torch.tensor(targets, device=logits.device))

    def decode(self, logits: torch.Tensor) -> list[Any]:
        """The most probable label's position; the first of equals."""
        return list(logits.argmax(dim=-1).tolist())

    def score(self, gold: Sequence[Any], predicted: Sequence[Any]) -> Scores:
        """``accuracy``, with a warning when only one label was ever predicted."""
        constant = len(set(predicted)) == 1 and len(set(gold)) > 1
        warnings = (f"every prediction is {self.labels[predicted[0]]!r}",) if constant else ()
        return Scores({"accuracy": accuracy(gold, predicted)}, warnings)


class SequenceRegression(SequenceTask):
    """A real score. Mean squared error on the official scale; scored by rank and linear correlation."""

    metric = "spearman"
    prediction_type = pa.float64()

    def head(self, *, hidden_size: int, dropout: float, train: Sequence[Feature]) -> nn.Module:
        """One output whose bias starts at the mean training score; correlations do not see it, the first epoch does."""
        return PooledHead(hidden_size, 1, dropout, bias=sum(float(f.target) for f in train) / len(train))

    def loss(self, logits: torch.Tensor, targets: Sequence[Any]) -> torch.Tensor:
        """Mean squared error."""
        wanted = torch.tensor(targets, dtype=torch.float32, device=logits.device)
        return nn.functional.mse_loss(logits.float().squeeze(-1), wanted)

    def decode(self, logits: torch.Tensor) -> list[Any]:
        """The raw output, not clipped to the scale: clipping would make ties."""
        return list(logits.float().squeeze(-1).tolist())

    def score(self, gold: Sequence[Any], predicted: Sequence[Any]) -> Scores:
        """``spearman`` and ``pearson``; both 0 with a warning when the predictions (or the gold scores) are constant."""
        constant = [name for name, values in (("prediction", predicted), ("gold score", gold)) if len(set(values)) <= 1]
        warnings = tuple(f"every {name} is the same: correlations are set to 0" for name in constant)
        return Scores({"spearman": spearman(gold, predicted), "pearson": pearson(gold, predicted)}, warnings)
