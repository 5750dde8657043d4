"""Export a fine-tuned model, encoder and head, as one ONNX file, and predict with onnxruntime.

Inputs are int64 ``input_ids``, ``attention_mask`` and ``token_type_ids`` [B, L]; outputs are the logits in ``Task.outputs``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from korealbert.finetune.encoders.encoder import PaddedBatch, pad
from korealbert.finetune.loop import FinetunedModel
from korealbert.finetune.task import Feature, Spans
from korealbert.huggingface.onnx import FILES, Form, Session, write_module

_INPUTS = ("input_ids", "attention_mask", "token_type_ids")


def write_model(model: FinetunedModel, directory: Path, forms: Sequence[Form]) -> None:
    """Write a fine-tuned model to ``FILES`` in each of the forms. The model is moved to the CPU and stays there."""
    model.modules.cpu().eval()
    if hasattr(model.encoder.transformer, "set_attn_implementation"):
        model.encoder.transformer.set_attn_implementation("eager")
    here = replace(model, device=torch.device("cpu"), precision="float32")
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
