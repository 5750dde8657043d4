"""Logits and gradients against transformers' ALBERT with copied weights."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F
from transformers import AlbertConfig as TheirConfig
from transformers import AlbertForPreTraining

from korealbert.huggingface.checkpoint import settings, to_huggingface
from korealbert.huggingface.export import SPECIAL_IDS
from korealbert.huggingface.families import exported_groups
from korealbert.model.config import ModelConfig
from korealbert.model.heads import PretrainingModel, initialise

TINY = {
    "vocab_size": 60,
    "hidden_size": 32,
    "embedding_size": 16,
    "num_heads": 4,
    "num_layers": 4,
    "max_positions": 24,
    "word_order_classes": 20,
    "hidden_dropout": 0.0,
    "attention_dropout": 0.0,
}


def twins(**fields: object) -> tuple[PretrainingModel, AlbertForPreTraining]:
    """Our model and theirs with the same weights."""
    config = ModelConfig(**{**TINY, **fields})
    ours = PretrainingModel(config)
    initialise(ours, 0.2, seed=5)
    theirs = AlbertForPreTraining(
        TheirConfig(**settings(config, SPECIAL_IDS))
    ).eval()  # Its sentence head has a dropout of its own.
    state = {
        k: torch.tensor(v) for k, v in to_huggingface(config, {k: v.numpy() for k, v in ours.state_dict().items()}).items()
    }
    loaded = theirs.load_state_dict(state, strict=False)
    assert set(loaded.missing_keys) == {"predictions.decoder.weight", "predictions.decoder.bias"}  # Both tied.
    assert not loaded.unexpected_keys
    return ours, theirs


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"num_groups": 2},
        {"num_groups": 3},
        {"embedding_size": 32},
        {"share": "none"},
        {"share": "attention"},
        {"share": "ffn", "num_groups": 2},
    ],
)
def test_logits_and_gradients_match_transformers(fields: dict) -> None:
    ours, theirs = twins(**fields)
    generator = torch.Generator().manual_seed(2)
    ids = torch.randint(5, 60, (3, 20), generator=generator)
    types = (torch.arange(20) >= 9).long().expand(3, -1)
    lengths = torch.tensor([20, 13, 5])
    positions = torch.tensor([[1, 4, 7, 19], [2, 3, 8, 12], [1, 2, 3, 4]])
    mask = (torch.arange(20) < lengths[:, None]).long()

    logits = ours(ids, types, lengths, positions, positions)
    reference = theirs(input_ids=ids, token_type_ids=types, attention_mask=mask)
    their_mlm = reference.prediction_logits.gather(1, positions[..., None].expand(-1, -1, 60))
    torch.testing.assert_close(logits.mlm_BPV, their_mlm, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(logits.sop_B2, reference.sop_logits, atol=1e-5, rtol=1e-5)

    labels, order = torch.randint(5, 60, (12,), generator=generator), torch.tensor([0, 1, 1])
    for mlm, sop in ((logits.mlm_BPV, logits.sop_B2), (their_mlm, reference.sop_logits)):
        (F.cross_entropy(mlm.flatten(0, 1), labels) + F.cross_entropy(sop, order)).backward()
    config = ours.config
    if exported_groups(config) != config.num_groups or config.embedding_size == config.hidden_size:
        return  # Copies get their own gradients; test_model.py shows that ours are the sums.
    gradients = {name: p.grad.numpy() for name, p in ours.named_parameters() if not name.startswith("wop")}
    expected = dict(theirs.named_parameters())
    for name, gradient in to_huggingface(config, gradients).items():
        torch.testing.assert_close(torch.tensor(gradient), expected[name].grad, atol=1e-5, rtol=1e-4, msg=name)


def test_layer_groups_are_written_out_where_their_assignment_differs() -> None:
    shape = {"hidden_size": 8, "num_heads": 1, "embedding_size": 8, "vocab_size": 9}
    assert exported_groups(ModelConfig(num_layers=18, num_groups=14, **shape)) == 18
    assert exported_groups(ModelConfig(num_layers=18, num_groups=6, **shape)) == 6
