"""The pooled vector, and its gradients, are the same when the last layer computes only the first position."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from transformers import AutoConfig, AutoModel

from korealbert.finetune.encoders.encoder import FIRST_POSITION_FAMILIES, keep_first_position

SHAPE = {
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 32,
    "vocab_size": 40,
    "initializer_range": 0.3,
}


def encoder(model_type: str) -> Any:
    torch.manual_seed(0)
    return AutoModel.from_config(AutoConfig.for_model(model_type, **SHAPE)).eval()


def first(transformer: Any, **inputs: torch.Tensor) -> torch.Tensor:
    output = transformer(**inputs)
    pooled = getattr(output, "pooler_output", None)
    return output.last_hidden_state[:, 0] if pooled is None else pooled


@pytest.mark.parametrize("model_type", FIRST_POSITION_FAMILIES)
@pytest.mark.parametrize("padded", [True, False])
def test_the_pooled_vector_is_that_of_the_whole_layer(model_type: str, padded: bool) -> None:
    whole = encoder(model_type)
    short = copy.deepcopy(whole)
    assert keep_first_position(short)
    ids = torch.randint(5, 40, (3, 7), generator=torch.Generator().manual_seed(1))
    mask = torch.ones_like(ids)
    if padded:
        mask[1, 4:] = 0
        mask[2, 2:] = 0
    expected, found = (first(model, input_ids=ids, attention_mask=mask) for model in (whole, short))
    torch.testing.assert_close(found, expected)
    for vector in (expected, found):
        (vector * torch.arange(16)).sum().backward()
    gradients = [dict(model.named_parameters()) for model in (whole, short)]
    for name, parameter in gradients[0].items():
        other = gradients[1][name.replace("encoder.layer.1.", "encoder.layer.1.layer.")]
        if parameter.grad is not None and other.grad is not None:
            torch.testing.assert_close(other.grad, parameter.grad, rtol=1e-3, atol=1e-4)
    assert sum(p.grad is not None for p in gradients[1].values()) >= 30


def test_a_family_whose_last_layer_is_also_its_first_is_not_changed() -> None:
    shared = AutoModel.from_config(AutoConfig.for_model("albert", **SHAPE, embedding_size=8))
    assert not keep_first_position(shared)
