"""The model against its specification: counts, sharing, padding, initialisation, and parity with transformers."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError
from torch import nn
from torch.nn import functional as F

from korealbert.model.config import ModelConfig, ModelSpec, ModernSpec
from korealbert.model.encoder import TransformerEncoder
from korealbert.model.heads import PretrainingModel, initialise
from korealbert.model.parameters import count_parameters

BASE = {"num_layers": 12, "hidden_size": 768}
LARGE = {"num_layers": 24, "hidden_size": 1024}
XLARGE = {"num_layers": 24, "hidden_size": 2048}
XXLARGE = {"num_layers": 12, "hidden_size": 4096}
TINY = {
    "hidden_size": 32,
    "embedding_size": 16,
    "num_heads": 4,
    "num_layers": 4,
    "hidden_dropout": 0.0,
    "attention_dropout": 0.0,
}


def config(vocab_size: int = 50, **fields: object) -> ModelConfig:
    return ModelConfig(vocab_size=vocab_size, **{**TINY, **fields})


def tiny_model(**fields: object) -> PretrainingModel:
    model = PretrainingModel(config(**fields)).eval()
    initialise(model, 0.2, seed=3)
    return model


def counts(**fields: object) -> int:
    with torch.device("meta"):
        return count_parameters(TransformerEncoder(ModelConfig(**fields)))


@pytest.mark.parametrize(
    ("size", "vocab_size", "parameters"),
    [
        (BASE, 30_000, 11_683_584),
        (BASE, 32_000, 11_939_584),
        (LARGE, 30_000, 17_683_968),
        (LARGE, 32_000, 17_939_968),
        (XLARGE, 30_000, 58_724_864),
        (XLARGE, 32_000, 58_980_864),
        (XXLARGE, 30_000, 222_595_584),
        (XXLARGE, 32_000, 222_851_584),
    ],
)
def test_encoders_have_exactly_the_specified_number_of_parameters(size: dict, vocab_size: int, parameters: int) -> None:
    assert counts(vocab_size=vocab_size, **size) == parameters


@pytest.mark.parametrize(
    ("size", "with_mlm_and_sop", "with_wop"),
    [
        (BASE, 12_071_810, 12_170_242),
        (LARGE, 18_105_474, 18_236_674),
        (XLARGE, 59_279_490, 59_541_762),
        (XXLARGE, 223_416_450, 223_940_866),
    ],
)
def test_heads_add_exactly_the_specified_number_of_parameters(size: dict, with_mlm_and_sop: int, with_wop: int) -> None:
    with torch.device("meta"):
        without = PretrainingModel(ModelConfig(vocab_size=32_000, **size))
        model = PretrainingModel(ModelConfig(vocab_size=32_000, word_order_classes=128, **size))
    assert (count_parameters(without), count_parameters(model)) == (with_mlm_and_sop, with_wop)


@pytest.mark.parametrize(
    ("embedding_size", "share", "millions"),
    [
        (128, "all", 11.68),
        (128, "attention", 63.65),
        (128, "ffn", 37.69),
        (128, "none", 89.65),
        (768, "all", 31.11),
        (768, "attention", 83.08),
        (768, "ffn", 57.12),
        (768, "none", 109.08),
        (64, "all", 9.68),
        (256, "none", 93.65),
    ],
)
def test_sharing_gives_table_4_of_the_albert_paper(embedding_size: int, share: str, millions: float) -> None:
    parameters = counts(vocab_size=30_000, embedding_size=embedding_size, share=share, **BASE)
    assert round(parameters / 1e6, 2) == millions


@pytest.mark.parametrize(("groups", "millions"), [(2, 19.03), (3, 26.12), (4, 33.20), (6, 47.38), (12, 89.91)])
def test_each_group_adds_a_layer(groups: int, millions: float) -> None:
    assert round(counts(vocab_size=32_000, num_groups=groups, **BASE) / 1e6, 2) == millions


@settings(max_examples=30)
@given(st.integers(1, 6), st.data())
def test_layers_share_exactly_what_the_spec_says(layers: int, data: st.DataObject) -> None:
    share = data.draw(st.sampled_from(["all", "attention", "ffn", "none"]))
    groups = 1 if share == "none" else data.draw(st.integers(1, layers))
    with torch.device("meta"):
        encoder = TransformerEncoder(config(num_layers=layers, share=share, num_groups=groups))
    blocks = [encoder.layer(index) for index in range(layers)]
    group = [index * groups // layers for index in range(layers)]
    for a in range(layers):
        for b in range(layers):
            assert (blocks[a][0] is blocks[b][0]) == (a == b or (share in {"all", "attention"} and group[a] == group[b]))
            assert (blocks[a][1] is blocks[b][1]) == (a == b or (share in {"all", "ffn"} and group[a] == group[b]))


def a_batch(vocab_size: int = 50) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    ids = torch.randint(5, vocab_size, (3, 12), generator=generator)
    return {
        "ids_BL": ids,
        "token_types_BL": (torch.arange(12) >= 6).long().expand(3, -1),
        "lengths_B": torch.tensor([12, 9, 5]),
        "mlm_positions_BP": torch.tensor([[1, 4, 7], [2, 3, 8], [0, 0, 4]]),
        "wop_positions_BW": torch.tensor([[2, 3], [5, 6], [0, 0]]),
    }


def copy_layers(shared: PretrainingModel, unshared: PretrainingModel) -> None:
    """Give every layer of the second model a copy of the first one's shared blocks."""
    weights = {k: v for k, v in shared.state_dict().items() if ".attention." not in k and ".ffn." not in k}
    unshared.load_state_dict(weights, strict=False)
    for index in range(unshared.config.num_layers):
        for ours, theirs in zip(shared.encoder.layer(index), unshared.encoder.layer(index), strict=True):
            theirs.load_state_dict(ours.state_dict())


@pytest.mark.parametrize("fields", [{}, {"num_groups": 2}, {"share": "attention"}, {"share": "ffn", "num_groups": 2}])
def test_a_shared_layer_equals_its_copies_and_sums_their_gradients(fields: dict) -> None:
    shared, unshared = tiny_model(**fields), tiny_model(share="none")
    copy_layers(shared, unshared)
    outputs = [model(**a_batch()) for model in (shared, unshared)]
    torch.testing.assert_close(outputs[0], outputs[1])
    for output in outputs:
        output.mlm_BPV.square().sum().backward()
    for kind in ("attention", "ffn"):
        blocks: nn.ModuleList = getattr(shared.encoder, kind)
        for block in blocks:
            position = ("attention", "ffn").index(kind)
            users = [layer for layer in range(4) if shared.encoder.layer(layer)[position] is block]
            for name, parameter in block.named_parameters():
                copies = [unshared.encoder.layer(layer)[position].get_parameter(name).grad for layer in users]
                torch.testing.assert_close(parameter.grad, sum(copies), rtol=1e-4, atol=1e-5)


def test_one_group_per_layer_is_no_sharing_and_one_group_is_full_sharing() -> None:
    assert counts(vocab_size=50, **TINY, num_groups=4) == counts(vocab_size=50, **TINY, share="none")
    assert counts(vocab_size=50, **TINY, num_groups=1) == counts(vocab_size=50, **TINY, share="all")


def test_no_projection_where_embeddings_are_as_wide_as_the_encoder() -> None:
    assert not list(tiny_model(embedding_size=32).encoder.projection.parameters())
    assert len(list(tiny_model().encoder.projection.parameters())) == 2


def test_the_masked_token_head_is_tied_to_the_word_table() -> None:
    model, batch = tiny_model(), a_batch()
    assert sum("word" in name for name, _ in model.named_parameters()) == 1
    absent = next(piece for piece in range(50) if piece not in batch["ids_BL"])
    before = model(**batch).mlm_BPV
    with torch.no_grad():
        model.encoder.embeddings.word.weight[absent] *= 3.0
    after = model(**batch).mlm_BPV
    others = torch.arange(50) != absent
    torch.testing.assert_close(before[..., others], after[..., others])
    assert not torch.allclose(before[..., absent], after[..., absent])


@settings(max_examples=10)
@given(st.integers(1, 20), st.integers(0, 2**31))
def test_padding_changes_nothing(extra: int, seed: int) -> None:
    model, batch = tiny_model(word_order_classes=12), a_batch()
    padding = torch.randint(0, 50, (3, extra), generator=torch.Generator().manual_seed(seed))
    padded = {
        **batch,
        "ids_BL": torch.cat([batch["ids_BL"], padding], 1),
        "token_types_BL": F.pad(batch["token_types_BL"], (0, extra)),
    }
    torch.testing.assert_close(model(**batch), model(**padded), atol=1e-5, rtol=1e-5)


def test_rows_do_not_see_each_other() -> None:
    model, batch = tiny_model(), a_batch()
    reversed_batch = {name: tensor.flip(0) for name, tensor in batch.items()}
    torch.testing.assert_close(model(**batch).mlm_BPV, model(**reversed_batch).mlm_BPV.flip(0), atol=1e-5, rtol=1e-5)


def test_evaluation_is_deterministic_and_dropout_is_not_where_it_was_switched_off() -> None:
    model = tiny_model(hidden_dropout=0.5, attention_dropout=0.5)
    assert torch.equal(model(**a_batch()).mlm_BPV, model(**a_batch()).mlm_BPV)
    model.train()
    assert not torch.equal(model(**a_batch()).mlm_BPV, model(**a_batch()).mlm_BPV)
    off = PretrainingModel(config(hidden_dropout=0.5, ffn_dropout=False))
    assert [block.dropout.p for block in off.encoder.ffn] == [0.0]
    assert [block.dropout.p for block in off.encoder.attention] == [0.5]


def test_initial_loss_is_that_of_guessing() -> None:
    model = PretrainingModel(ModelConfig(vocab_size=32_000, hidden_size=64, num_layers=2, word_order_classes=128)).eval()
    initialise(model, 0.02, seed=1)
    batch = a_batch(vocab_size=32_000)
    logits = model(**batch)
    labels = torch.randint(5, 32_000, (9,), generator=torch.Generator().manual_seed(5))
    mlm = F.cross_entropy(logits.mlm_BPV.flatten(0, 1), labels).item()
    sop = F.cross_entropy(logits.sop_B2, torch.tensor([0, 1, 1])).item()
    assert logits.wop_BWC is not None
    wop = F.cross_entropy(logits.wop_BWC.flatten(0, 1), torch.arange(6)).item()
    assert mlm == pytest.approx(math.log(32_000), abs=0.1)
    assert sop == pytest.approx(math.log(2), abs=0.05)
    assert wop == pytest.approx(math.log(128), abs=0.2)


def test_initialisation_is_truncated_and_depends_on_the_seed_alone() -> None:
    models = [PretrainingModel(config(vocab_size=2_000, word_order_classes=16)) for _ in range(3)]
    for model, seed in zip(models, (7, 7, 8), strict=True):
        initialise(model, 0.02, seed)
    first, again, other = (model.state_dict() for model in models)
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not torch.equal(first["wop.weight"], other["wop.weight"])
    for name, parameter in models[0].named_parameters():
        if parameter.ndim == 2:
            assert parameter.abs().max() <= 0.04, name
        elif "norm.weight" in name:
            assert torch.equal(parameter, torch.ones_like(parameter)), name
        else:
            assert torch.equal(parameter, torch.zeros_like(parameter)), name
    # A normal distribution cut at two standard deviations keeps 0.88 of its own.
    assert first["encoder.embeddings.word.weight"].std().item() == pytest.approx(0.0176, rel=0.02)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"hidden_size": 100, "num_heads": 3}, r"num_heads = 3 does not divide hidden_size = 100"),
        ({"num_layers": 2, "num_groups": 3}, r"num_groups = 3 exceeds num_layers = 2"),
        ({"share": "none", "num_groups": 2}, r"num_groups = 2 has no meaning where share = 'none'"),
        ({"hiden_size": 64}, r"hiden_size"),
        ({"hidden_size": 768.5}, r"hidden_size"),
        ({"num_heads": -1}, r"num_heads"),
    ],
)
def test_contradictions_are_refused_by_name(fields: dict, message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        ModelSpec(**fields)


def test_omitted_sizes_follow_the_hidden_size() -> None:
    assert ModelSpec(hidden_size=256) == ModelSpec(hidden_size=256, num_heads=4, intermediate_size=1024)
    assert ModelSpec() == ModelSpec(num_heads=12, intermediate_size=3072)


@pytest.mark.parametrize("size", [256, 256.0, "256"])
def test_a_size_in_another_form_is_the_same_size(size: Any) -> None:
    assert ModelSpec(hidden_size=size) == ModelSpec(hidden_size=256, num_heads=4, intermediate_size=1024)
    modern = ModernSpec(architecture="modern", hidden_size=size)
    assert modern == ModernSpec(architecture="modern", hidden_size=256, num_heads=4, intermediate_size=384)
