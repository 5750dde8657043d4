"""A fine-tuned model: an encoder with the head of a task, its predictions, and its export as one ONNX file.

The encoder may compute in bf16. Weights, heads and losses are always fp32.

ONNX: inputs are int64 ``input_ids``, ``attention_mask`` and ``token_type_ids`` [B, L], outputs the logits in ``Task.outputs``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from korealbert.finetune.encoders.encoder import Encoder, PaddedBatch, mean_vectors, pad
from korealbert.finetune.features import lengths_of
from korealbert.finetune.spec import FinetuneSpec, Precision
from korealbert.finetune.task import Encoded, EncoderOutput, Feature, Scores, Spans, Task
from korealbert.finetune.task_types.heads import PooledHead, WhitenedHead
from korealbert.huggingface.onnx import FILES, Form, Session, write_module

Indices = npt.NDArray[np.int64]

EVALUATION_BATCH_SIZE = 128
"""Not a setting, because the batch size can change the last bit of a score."""


class Diverged(ValueError):
    """The loss or the weights are no longer finite."""


class Answers(NamedTuple):
    """One prediction per example and, if requested, the loss of each example: the mean over its features."""

    predicted: list[Any]
    losses: list[float]


@dataclass(frozen=True)
class FinetunedModel:
    """An encoder with the head of a task, on a device."""

    task: Task
    encoder: Encoder
    head: nn.Module
    pad_id: int
    device: torch.device
    precision: Precision = "fp32"

    @classmethod
    def of(
        cls, spec: FinetuneSpec, encoder: Encoder, train: Sequence[Feature], *, pad_id: int, device: torch.device
    ) -> FinetunedModel:
        """Put a fresh head on an encoder, whose last layer computes only the first position if the head reads no other."""
        task = spec.benchmark
        head = task.head(hidden_size=encoder.hidden_size, dropout=spec.dropout, train=train)
        if spec.whiten:
            head = WhitenedHead(head, encoder.hidden_size)
        if isinstance(head, PooledHead) and not task.pools_mean:
            encoder.keep_first_position()
        return cls(task, encoder.to(device), head.to(device), pad_id, device, spec.precision)

    def logits(self, features: Sequence[Feature]) -> tuple[Any, list[Any]]:
        """Return logits and targets of a batch."""
        batch = pad(features, pad_id=self.pad_id, device=self.device)
        return self.logits_of(batch), batch.targets

    def logits_of(self, batch: PaddedBatch) -> Any:
        """Return the logits of a padded batch."""
        return self.head(self.encoded(batch))

    def encoded(self, batch: PaddedBatch) -> EncoderOutput:
        """Return the head's input for a padded batch, in fp32."""
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.precision == "bf16"):
            encoded = self.encoder(batch)
        hidden_BLH = encoded.hidden_BLH.float()
        pooled_BH = mean_vectors(hidden_BLH, batch.attention_mask_BL) if self.task.pools_mean else encoded.pooled_BH.float()
        return EncoderOutput(hidden_BLH, pooled_BH, encoded.features)

    def whiten(self, features: Sequence[Feature]) -> None:
        """Fit the whitening map before the head to the vectors of these features, without dropout."""
        assert isinstance(self.head, WhitenedHead)
        self.modules.eval()
        with torch.inference_mode():
            batches = evaluation_batches(lengths_of(features), batch_size=EVALUATION_BATCH_SIZE)
            padded = (pad([features[row] for row in rows], pad_id=self.pad_id, device=self.device) for rows in batches)
            vectors_NH = torch.cat([self.encoded(batch).pooled_BH for batch in padded])
        self.head.whiten(vectors_NH)

    @property
    def modules(self) -> nn.ModuleDict:
        """Encoder and head as one module."""
        return nn.ModuleDict({"encoder": self.encoder, "head": self.head})

    @torch.inference_mode()
    def answer(self, encoded: Encoded, *, with_losses: bool = False) -> Answers:
        """Predict each example, without dropout."""
        features = encoded.features
        decoded: list[Any] = [None] * len(features)
        losses = np.zeros(len(features))
        for rows, batch, logits, targets in self._evaluated(features):
            for row, found in zip(rows, self.task.decode(logits, batch), strict=True):
                decoded[row] = found
            if with_losses:
                single = [self.task.loss(_row(logits, n), [target]) for n, target in enumerate(targets)]
                losses[rows] = torch.stack(single).double().cpu().numpy()
        predicted = self.task.predictions(encoded, decoded)
        return Answers(predicted, _by_example(features, losses, len(encoded.examples)) if with_losses else [])

    @torch.inference_mode()
    def evidence(self, encoded: Encoded) -> list[Any]:
        """Return the evidence for the prediction of each example, without dropout."""
        by_feature: list[Any] = [None] * len(encoded.features)
        for rows, batch, logits, _ in self._evaluated(encoded.features):
            for row, found in zip(rows, self.task.feature_evidence(logits, batch), strict=True):
                by_feature[row] = found
        return self.task.example_evidence(encoded, by_feature)

    def _evaluated(self, features: Sequence[Feature]) -> Iterator[tuple[Indices, list[Feature], Any, list[Any]]]:
        """Yield batches as positions in ``features``, features, logits and targets.

        Raises Diverged if a logit is nan, since argmax would silently take the first class.
        """
        self.modules.eval()
        for rows in evaluation_batches(lengths_of(features), batch_size=EVALUATION_BATCH_SIZE):
            batch = [features[row] for row in rows]
            logits, targets = self.logits(batch)
            parts = logits if isinstance(logits, tuple) else (logits,)
            if any(bool(part.isnan().any()) for part in parts if isinstance(part, torch.Tensor)):
                raise Diverged("the model's outputs are nan; lower learning_rate or look for damaged weights")
            yield rows, batch, logits, targets

    def evaluate(self, encoded: Encoded) -> Scores:
        """Return the task's scores as its official script computes them."""
        return self.task.score(encoded.examples, self.answer(encoded).predicted, "official")


def _row(logits: Any, row: int) -> Any:
    """Return the logits of one input, as a batch of one."""
    if isinstance(logits, torch.Tensor):
        return logits[row : row + 1]
    return type(logits)(*(part[row : row + 1] for part in logits))


def _by_example(features: Sequence[Feature], losses: npt.NDArray[np.float64], examples: int) -> list[float]:
    """Return the mean loss over each example's features. Every example has at least one."""
    owners = np.array([feature.example for feature in features])
    means: list[float] = (np.bincount(owners, losses, examples) / np.bincount(owners, minlength=examples)).tolist()
    return means


def evaluation_batches(lengths: Sequence[int] | Indices, *, batch_size: int) -> list[Indices]:
    """Return the examples' positions in batches, longest first, so that a lack of memory shows in the first batch."""
    order = np.argsort(-np.asarray(lengths), kind="stable")
    return [order[start : start + batch_size] for start in range(0, len(order), batch_size)]


_INPUTS = ("input_ids", "attention_mask", "token_type_ids")


def write_model(model: FinetunedModel, directory: Path, forms: Sequence[Form]) -> None:
    """Write a fine-tuned model to ``FILES`` in each of the forms. The model is moved to the CPU and stays there."""
    model.modules.cpu().eval()
    if hasattr(model.encoder.transformer, "set_attn_implementation"):
        model.encoder.transformer.set_attn_implementation("eager")
    here = replace(model, device=torch.device("cpu"), precision="fp32")
    write_module(_Logits(here), _INPUTS, model.task.outputs, directory, forms)


class _Logits(nn.Module):
    """A module from padded pieces to logits, which can be traced."""

    def __init__(self, model: FinetunedModel) -> None:
        super().__init__()
        self.parts = model.modules
        self.model = model

    def forward(self, *inputs: torch.Tensor) -> Any:
        """Return a tensor, or a tuple of tensors."""
        ids_BL, mask_BL, types_BL = inputs
        return self.model.logits_of(PaddedBatch(ids_BL, mask_BL, types_BL, ()))


@dataclass(frozen=True)
class OnnxModel(FinetunedModel):
    """A fine-tuned model whose logits come from an ONNX file."""

    session: Session | None = None

    @classmethod
    def within(cls, directory: Path, form: Form, model: FinetunedModel, *, threads: int) -> OnnxModel:
        """Open a file that ``write_model`` wrote for ``model``."""
        session = Session(directory / FILES[form], threads=threads)
        return cls(model.task, model.encoder, model.head, model.pad_id, torch.device("cpu"), session=session)

    def logits(self, features: Sequence[Feature]) -> tuple[Any, list[Any]]:
        """See ``FinetunedModel``."""
        assert self.session is not None
        batch = pad(features, pad_id=self.pad_id, device=self.device)
        tensors = (batch.input_ids_BL, batch.attention_mask_BL, batch.token_type_ids_BL)
        found = self.session.run({name: tensor.numpy() for name, tensor in zip(_INPUTS, tensors, strict=True)})
        logits = [torch.from_numpy(array) for array in found]
        return logits[0] if len(logits) == 1 else Spans(*logits), batch.targets
