"""Computed operations against those that torch counts."""

from __future__ import annotations

import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from korealbert.model.config import ModelConfig
from korealbert.model.heads import PretrainingModel, ReplacedTokenModel
from korealbert.model.parameters import training_flops

SHAPE = {"vocab_size": 300, "hidden_size": 64, "num_layers": 3, "num_heads": 4, "max_positions": 40}


def test_operations_of_a_discriminator_are_those_of_both_models() -> None:
    fields = {"embedding_size": 32, "pooler": False, "generator_hidden_size": 16}
    config = ModelConfig(**SHAPE, **fields, hidden_dropout=0.0, attention_dropout=0.0)
    model = ReplacedTokenModel(config)
    ids, mlm = torch.zeros(2, 40, dtype=torch.long), torch.zeros(2, 6, dtype=torch.long)
    counter = FlopCounterMode(display=False)
    with counter, sdpa_kernel(SDPBackend.MATH):
        (model.guess(ids, ids, None, mlm).sum() + model.judge(ids, ids, None).sum()).backward()
    expected = training_flops(config, length=40, mlm_slots=6, wop_slots=0)
    assert counter.get_total_flops() == pytest.approx(2 * expected, rel=0.002)


@pytest.mark.parametrize(
    "fields",
    [
        {"embedding_size": 32, "word_order_classes": 40},
        {"embedding_size": 64, "share": "none"},
        {"embedding_size": 64, "pooler": False, "intermediate_size": 100},
    ],
)
def test_operations_are_those_that_torch_counts(fields: dict) -> None:
    config = ModelConfig(**SHAPE, **fields, hidden_dropout=0.0, attention_dropout=0.0)
    model = PretrainingModel(config)
    ids = torch.zeros(2, 40, dtype=torch.long)
    mlm, wop = torch.zeros(2, 6, dtype=torch.long), torch.zeros(2, 5, dtype=torch.long)
    counter = FlopCounterMode(display=False)
    with counter, sdpa_kernel(SDPBackend.MATH):
        logits = model(ids, ids, None, mlm, wop)
        sum(part.sum() for part in logits if part is not None).backward()
    expected = training_flops(config, length=40, mlm_slots=6, wop_slots=5 if config.word_order_classes else 0)
    assert counter.get_total_flops() == pytest.approx(2 * expected, rel=0.002)
