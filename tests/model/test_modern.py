"""The modern encoder against ``ModernBertForMaskedLM`` of transformers with the same weights; packed rows; attention."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import save_file
from torch.nn import functional as F
from transformers import AutoModel, ModernBertConfig, ModernBertForMaskedLM

from korealbert.huggingface import checkpoint
from korealbert.huggingface.families import SpecialIds
from korealbert.model import elementwise, modern
from korealbert.model.attention import attend
from korealbert.model.config import ModernConfig, ModernSpec, even_rows
from korealbert.model.heads import PretrainingModel, initialise
from korealbert.model.parameters import training_flops

SPECIAL = SpecialIds(pad=0, cls=2, sep=3)


def shape(**changes: Any) -> ModernConfig:
    small = {"hidden_size": 32, "num_layers": 5, "num_heads": 2, "local_attention": 8, "vocab_size": 60}
    return ModernConfig(architecture="modern", **{**small, **changes})


def ours_and_theirs(tmp_path: Path, config: ModernConfig) -> tuple[PretrainingModel, ModernBertForMaskedLM]:
    """Return a model of ours, and the same as loaded by transformers."""
    ours = PretrainingModel(config)
    initialise(ours, 0.2, seed=4)
    with torch.no_grad():
        for name, parameter in ours.named_parameters():
            if parameter.ndim == 1:
                parameter.add_(torch.linspace(-0.3, 0.3, len(parameter)) if "norm" in name else 0.1 * len(name))
    written = checkpoint.to_huggingface(config, {name: tensor.numpy() for name, tensor in ours.state_dict().items()})
    save_file(written, tmp_path / "model.safetensors", metadata={"format": "pt"})
    (tmp_path / "config.json").write_text(ModernBertConfig(**checkpoint.settings(config, SPECIAL)).to_json_string())
    theirs = ModernBertForMaskedLM.from_pretrained(tmp_path, attn_implementation="eager", dtype=torch.float32)
    return ours.eval(), theirs.eval()


def batch(length: int, *, padded: bool, rows: int = 3) -> tuple[torch.Tensor, torch.Tensor | None, torch.Tensor]:
    ids = torch.randint(5, 60, (rows, length), generator=torch.Generator().manual_seed(length))
    if not padded:
        return ids, None, torch.ones_like(ids)
    lengths = torch.linspace(max(1, length // 4), length, rows).long()
    attention = (torch.arange(length) < lengths[:, None]).long()
    return ids * attention, lengths, attention


@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("length", [1, 5, 6, 40])  # A window of 8 reaches 4 tokens to each side.
def test_logits_losses_and_gradients_are_those_of_transformers(tmp_path: Path, length: int, padded: bool) -> None:
    config = shape()
    ours, theirs = ours_and_theirs(tmp_path, config)
    ids, lengths, attention = batch(length, padded=padded)
    everywhere = torch.arange(length).expand(3, -1)
    logits = ours(ids, torch.zeros_like(ids), lengths, everywhere, everywhere[:, :0]).mlm_BPV
    labels = torch.where(attention.bool(), ids.roll(1, 0), -100)
    expected = theirs(input_ids=ids, attention_mask=attention, labels=labels)
    real = attention.bool()
    torch.testing.assert_close(logits[real], expected.logits[real], rtol=0, atol=1e-5)
    loss = F.cross_entropy(logits.flatten(0, 1), labels.flatten())
    torch.testing.assert_close(loss, expected.loss, rtol=1e-5, atol=1e-6)
    loss.backward()
    expected.loss.backward()
    found, wanted = dict(ours.named_parameters()), dict(theirs.named_parameters())
    for name, their_name in checkpoint.family_of(config).names(config):
        torch.testing.assert_close(found[name].grad, wanted[their_name].grad, rtol=1e-4, atol=1e-5, msg=name)


@pytest.mark.parametrize(("length", "kernel"), [(300, "eager"), (4096, "sdpa")])
def test_logits_of_padded_rows_in_both_directions(tmp_path: Path, length: int, kernel: str) -> None:
    """Ours as they read it, and theirs as we read it. At 8,192 the difference is 0 with "sdpa", 6e-6 with "eager" (3 GB)."""
    ours, theirs = ours_and_theirs(tmp_path, shape(hidden_size=64, num_layers=3, num_heads=1, local_attention=128))
    theirs.set_attn_implementation(kernel)
    theirs.save_pretrained(tmp_path / "theirs")
    read = checkpoint.read(tmp_path / "theirs")
    again = PretrainingModel(read.config).eval()
    again.load_state_dict({name: torch.from_numpy(array) for name, array in read.weights.items()}, strict=False)
    lengths = torch.tensor([length, length // 2 + 70])
    attention = (torch.arange(length) < lengths[:, None]).long()
    ids = attention * torch.randint(5, 60, (2, length), generator=torch.Generator().manual_seed(length))
    some = torch.stack([torch.linspace(0, size - 1, 50).long() for size in lengths])
    with torch.no_grad():
        expected = theirs(input_ids=ids, attention_mask=attention).logits[torch.arange(2)[:, None], some]
        for model in (ours, again):
            logits = model(ids, torch.zeros_like(ids), lengths, some, some[:, :0]).mlm_BPV
            torch.testing.assert_close(logits, expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    "changes", [{}, {"global_every": 1}, {"global_every": 9}, {"global_theta": 10_000.0}, {"local_attention": 2}]
)
def test_a_checkpoint_of_transformers_is_read_and_written_as_it_was(tmp_path: Path, changes: dict[str, Any]) -> None:
    config = shape(**changes)
    _, theirs = ours_and_theirs(tmp_path, config)
    theirs.save_pretrained(tmp_path / "again")
    read = checkpoint.read(tmp_path / "again")
    assert read.model_type == "modernbert"
    every = min(config.global_every, config.num_layers)
    assert read.config == config.model_copy(update={"initializer_range": read.config.initializer_range, "global_every": every})
    assert read.missing == read.unused == ()
    written = checkpoint.to_huggingface(read.config, read.weights)
    for name, array in written.items():
        np.testing.assert_array_equal(array, theirs.state_dict()[name].numpy())


def test_a_bare_encoder_is_read_without_heads(tmp_path: Path) -> None:
    _, _ = ours_and_theirs(tmp_path, shape())
    AutoModel.from_pretrained(tmp_path).save_pretrained(tmp_path / "bare")
    read = checkpoint.read(tmp_path / "bare")
    assert read.missing == ("mlm.dense.weight", "mlm.norm.weight", "mlm.bias")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"norm_bias": True}, r"norm_bias = True: only False"),
        ({"hidden_activation": "silu"}, r"hidden_activation = 'silu': only 'gelu'"),
        ({"layer_types": ["full_attention", "full_attention", "sliding_attention"], "num_hidden_layers": 3}, "fixed interval"),
        (
            {"rope_parameters": {"full_attention": {"rope_type": "yarn", "factor": 4}}},
            "rope_type of full_attention = 'yarn': only unscaled rotary positions can be read; take another model",
        ),
        ({"hidden_size": 33}, "num_attention_heads = 2 does not divide"),
        ({"rope_parameters": {"rope_type": "default", "rope_theta": 500.0}}, "expected an object with full_attention and"),
        ({"rope_scaling": {"rope_theta": None}}, "rope_theta of full_attention = None: expected a number"),
        ({"local_attention": 1}, r"local_attention = 1: expected a whole number, 2 or more"),
        ({"sliding_window": 0}, r"sliding_window = 0: expected a whole number, 1 or more"),
        (
            {"layer_types": None, "global_attn_every_n_layers": None},
            "global_attn_every_n_layers = None: expected a whole number, 1 or more",
        ),
        ({"layer_types": 5}, "layer_types = 5: expected a list"),
    ],
)
def test_a_config_without_a_counterpart_is_refused(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    ours_and_theirs(tmp_path, shape())
    settings = json.loads((tmp_path / "config.json").read_text()) | changes
    (tmp_path / "config.json").write_text(json.dumps(settings))
    with pytest.raises(ValueError, match=message):
        checkpoint.read(tmp_path)


def test_old_configs_name_interval_and_bases_apart(tmp_path: Path) -> None:
    settings = {"model_type": "modernbert", "global_attn_every_n_layers": 2, "global_rope_theta": 9e4, "local_rope_theta": 5e3}
    (tmp_path / "config.json").write_text(json.dumps(settings))
    config = checkpoint.read_config(tmp_path)
    assert isinstance(config, ModernConfig)
    assert (config.global_every, config.global_theta, config.local_theta) == (2, 9e4, 5e3)


OWN_THETA = {"rope_type": "default", "rope_theta": 500.0}


@pytest.mark.parametrize(
    "changes",
    [
        {"local_attention": 5},
        {"local_attention": 9, "sliding_window": 2},
        {"rope_parameters": None, "rope_scaling": OWN_THETA},
        {"rope_parameters": None, "rope_scaling": OWN_THETA, "global_rope_theta": 7.0, "local_rope_theta": 8.0},
        {"rope_scaling": OWN_THETA},
        {"rope_scaling": {"rope_type": "default"}},
        {"layer_types": None, "global_attn_every_n_layers": 2},
    ],
    ids=str,
)
def test_a_config_means_what_it_means_to_transformers(tmp_path: Path, changes: dict[str, Any]) -> None:
    ours_and_theirs(tmp_path, shape())
    settings = json.loads((tmp_path / "config.json").read_text()) | changes
    (tmp_path / "config.json").write_text(json.dumps(settings))
    read = checkpoint.read(tmp_path)
    ours = PretrainingModel(read.config).eval()
    ours.load_state_dict({name: torch.from_numpy(array) for name, array in read.weights.items()}, strict=False)
    theirs = ModernBertForMaskedLM.from_pretrained(tmp_path, attn_implementation="eager").eval()
    ids, _, attention = batch(40, padded=False)
    every = torch.arange(40).expand_as(ids)
    with torch.no_grad():
        logits = ours(ids, torch.zeros_like(ids), None, every, every[:, :0]).mlm_BPV
        torch.testing.assert_close(logits, theirs(input_ids=ids, attention_mask=attention).logits, rtol=0, atol=1e-4)


def test_the_defaults_are_modernbert_base() -> None:
    config = ModernConfig(architecture="modern", vocab_size=50_368)
    with torch.device("meta"):
        ours = sum(p.numel() for p in PretrainingModel(config).parameters())
        theirs = sum(p.numel() for p in ModernBertForMaskedLM(ModernBertConfig()).parameters())
    assert ours == theirs
    assert ModernSpec(architecture="modern", num_heads=12, intermediate_size=1152) == ModernSpec(architecture="modern")


def test_padding_changes_no_real_token_and_makes_no_nan() -> None:
    model = PretrainingModel(shape()).eval()
    ids, lengths, _ = batch(40, padded=True)
    assert lengths is not None
    hidden, _ = model.encoder(ids, torch.zeros_like(ids), lengths)
    assert torch.isfinite(hidden).all()
    for row, length in enumerate(lengths.tolist()):
        alone, _ = model.encoder(ids[row : row + 1, :length], torch.zeros(1, length, dtype=torch.long), None)
        torch.testing.assert_close(hidden[row, :length], alone[0], rtol=0, atol=5e-6)


@pytest.mark.parametrize("masked", [False, True])
def test_attention_by_products_differs_from_torchs_kernel_by_rounding(masked: bool) -> None:
    torch.manual_seed(3)
    inputs = [torch.randn(2, 3, 20, 16, dtype=torch.bfloat16, requires_grad=True) for _ in range(3)]
    twins = [tensor.detach().float().requires_grad_() for tensor in inputs]
    visible = (torch.arange(20) < torch.tensor([[20], [7]]))[:, None, None, :] if masked else None
    found = attend(*inputs, visible, 0.0)
    wanted = F.scaled_dot_product_attention(*twins, attn_mask=visible)
    found.float().square().sum().backward()
    wanted.square().sum().backward()
    torch.testing.assert_close(found.float(), wanted, rtol=2e-2, atol=2e-2)
    for mine, theirs in zip(inputs, twins, strict=True):
        torch.testing.assert_close(mine.grad.float(), theirs.grad, rtol=5e-2, atol=8e-2)


def test_attention_by_products_drops_weights_at_the_rate() -> None:
    query, key = torch.zeros(1, 1, 1, 8, dtype=torch.bfloat16), torch.zeros(1, 1, 1000, 8, dtype=torch.bfloat16)
    torch.manual_seed(0)
    kept = attend(query, key, torch.ones(1, 1, 1000, 1, dtype=torch.bfloat16), None, 0.25)
    assert kept.item() == pytest.approx(1.0, abs=0.1)
    assert attend(query, key, torch.ones(1, 1, 1000, 1, dtype=torch.bfloat16), None, 0.0).item() == pytest.approx(1.0, abs=0.01)


def test_initial_matrices_of_the_residual_stream_are_narrower() -> None:
    config = shape(hidden_size=256, num_layers=8, vocab_size=2000)
    model = PretrainingModel(config)
    initialise(model, config.initializer_range, seed=1)
    layer = model.encoder.layers[1]
    # A normal distribution cut at 2 σ has a standard deviation of 0.8796 σ.
    for matrix, sigma in (
        (layer.attention.qkv, 0.02),
        (layer.ffn.inner, 0.02),
        (layer.attention.output, 0.005),
        (model.mlm.dense, 0.005),
    ):
        assert matrix.weight.std().item() == pytest.approx(0.8796 * sigma, rel=0.05)
    initialise(model, 0.0, seed=1)
    assert layer.attention.qkv.weight.std().item() == pytest.approx(0.8796 / 16, rel=0.05)


def test_flops_count_what_local_layers_see() -> None:
    config = shape()
    products = 40 * (5 * (4 * 32**2 + 3 * 32 * 48) + 2 * 32 * (2 * 40 + 3 * 9)) + 6 * (32 * 32 + 32 * 60)
    assert training_flops(config, length=40, mlm_slots=6, wop_slots=0) == 6 * products


def packed_rows(lengths: list[list[int]], length: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return ids [B, L] and the lengths of sequences [B, S]."""
    ids = torch.randint(5, 60, (len(lengths), length), generator=torch.Generator().manual_seed(length))
    slots = max(map(len, lengths))
    counts = torch.tensor([row + [0] * (slots - len(row)) for row in lengths])
    return ids * (torch.arange(length) < counts.sum(1, keepdim=True)), counts


PACKED = [[17, 3, 9, 11], [40], [5, 4, 3]]


@pytest.mark.parametrize("window", [2, 8, 128])
def test_sequences_in_one_row_have_the_logits_losses_and_gradients_that_they_have_alone(window: int) -> None:
    config = shape(local_attention=window, orders_sentences=True)
    packed, alone = PretrainingModel(config), PretrainingModel(config)
    initialise(packed, 0.2, seed=4)
    alone.load_state_dict(packed.state_dict())
    ids, lengths = packed_rows(PACKED, 40)
    places = torch.arange(40).expand(3, -1)
    logits = packed(ids, ids[:, :0], lengths, places, places[:, :0])
    loss = torch.zeros(())
    for row, sizes in enumerate(PACKED):
        begin = 0
        for slot, size in enumerate(sizes):
            one = ids[row : row + 1, begin : begin + size]
            wanted = alone(one, one[:, :0], None, places[:1, :size], places[:1, :0])
            found = logits.mlm_BPV[row, begin : begin + size]
            torch.testing.assert_close(found, wanted.mlm_BPV[0], rtol=0, atol=1e-5)
            torch.testing.assert_close(logits.sop_B2[row, slot], wanted.sop_B2[0], rtol=0, atol=1e-5)
            loss = loss + wanted.mlm_BPV.square().sum()
            begin += size
        logits.mlm_BPV[row, :begin].square().sum().backward(retain_graph=True)
    loss.backward()
    theirs = dict(alone.named_parameters())
    for name, parameter in packed.named_parameters():
        if not name.startswith("sop."):
            torch.testing.assert_close(parameter.grad, theirs[name].grad, rtol=1e-4, atol=1e-3, msg=name)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("short", [39, 40])
def test_another_sequence_in_the_row_changes_no_bit_of_a_sequence(
    dtype: torch.dtype, short: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This holds under a mask, and for one sequence after the other."""
    monkeypatch.setattr(modern, "_MASKED_LENGTH", short)
    model = PretrainingModel(shape()).eval()
    initialise(model, 0.2, seed=4)
    ids, lengths = packed_rows(PACKED, 40)
    other = ids.clone()
    other[0, 20:29] = other[0, 20:29].flip(0)  # The third sequence of the first row.
    places = torch.arange(40).expand(3, -1)
    with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16, enabled=dtype == torch.bfloat16):
        before, after = (model(x, x[:, :0], lengths, places, places[:, :0]).mlm_BPV for x in (ids, other))
    assert torch.isfinite(before).all()
    assert not torch.equal(before[0, 20:29], after[0, 20:29])
    before[0, 20:29] = after[0, 20:29] = 0
    assert torch.equal(before, after)


def test_attention_under_a_mask_is_that_of_one_sequence_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """Short rows are masked, long ones not."""
    ids, lengths = packed_rows(PACKED, 40)
    query, key, value = torch.randn(3, 3, 2, 40, 16, generator=torch.Generator().manual_seed(1))
    model = PretrainingModel(shape()).eval()
    attended, encoded, longest = [], [], []
    for short in (39, 40):
        monkeypatch.setattr(modern, "_MASKED_LENGTH", short)
        sequences = modern._Sequences(lengths, 40)
        longest.append(sequences.longest)
        attended.append(sequences.attend(query, key, value, 0.0))
        encoded.append(model.encoder(ids, ids[:, :0], lengths)[0])
    assert longest == [max(map(max, PACKED)), 40]
    torch.testing.assert_close(*attended, rtol=0, atol=1e-6)
    torch.testing.assert_close(*encoded, rtol=0, atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("half", [4, 10, 13, 64])
def test_local_attention_under_a_mask_is_that_by_blocks(dtype: torch.dtype, half: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of up to four blocks are masked in bf16."""
    _, lengths = packed_rows(PACKED, 40)
    generator = torch.Generator().manual_seed(1)
    inputs = [torch.randn(3, 2, 40, 16, generator=generator).to(dtype).requires_grad_() for _ in range(3)]
    counted, found = [], []
    attend = modern.attend
    monkeypatch.setattr(modern, "attend", lambda query, *rest: counted.append(len(query)) or attend(query, *rest))
    for short in (39, 40):
        monkeypatch.setattr(modern, "_MASKED_LENGTH", short)
        mixed = modern._Sequences(lengths, 40).attend_nearby(*inputs, 0.0, half=half)
        found.append([mixed, *torch.autograd.grad(mixed.square().sum(), inputs)])
    blocks = -(-40 // half)
    assert counted == [3 * blocks, 3 if dtype == torch.bfloat16 and blocks <= 4 else 3 * blocks]
    for by_blocks, under_mask in zip(*found, strict=True):
        torch.testing.assert_close(by_blocks, under_mask, rtol=0, atol=1e-5 if dtype == torch.float32 else 0.05)


def test_rotation_as_it_is_compiled_for_gpus_gives_the_same_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(1)
    rotation = modern._Rotation.of(20, 8, 10_000.0, torch.device("cpu"))
    query_key = torch.randn(2, 3, 2, 20, 8, requires_grad=True)
    for one in (rotation, rotation.at(torch.randint(20, (3, 20)))):
        found = []
        for compiled in (False, True):
            monkeypatch.setattr(elementwise, "compiled_for_gpu", lambda _, compiled=compiled: compiled)
            turned = torch.stack(one.rotate(query_key))
            found.append((turned, *torch.autograd.grad(turned.sin().sum(), query_key)))
        assert all(map(torch.equal, *found))


def test_few_rows_at_once_are_rotated_to_the_same_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    query_key = torch.randn(2, 5, 3, 20, 8, generator=torch.Generator().manual_seed(1)).bfloat16()
    rotation = modern._Rotation.of(20, 8, 10_000.0, torch.device("cpu"))
    places = torch.arange(20).flip(0).expand(5, -1)
    turned = []
    for rows in (1, 2, 5):
        monkeypatch.setattr(modern, "_ROTATED_AT_ONCE", rows * query_key[:, :1].numel())
        turned += [*rotation.rotate(query_key), *rotation.at(places).rotate(query_key)]
    assert all(torch.equal(first, other) for first, other in zip(turned, turned[4:], strict=False))


def test_rows_after_the_pieces_are_neither_predicted_nor_exported(tmp_path: Path) -> None:
    config = shape(vocab_size=60, word_rows=even_rows(60))
    ours, theirs = ours_and_theirs(tmp_path, config)
    assert ours.encoder.embeddings.word.weight.shape == (64, 32)
    assert theirs.get_input_embeddings().weight.shape == (60, 32)
    ids, _, attention = batch(9, padded=False)
    everywhere = torch.arange(9).expand(3, -1)
    logits = ours(ids, torch.zeros_like(ids), None, everywhere, everywhere[:, :0]).mlm_BPV
    expected = theirs(input_ids=ids, attention_mask=attention).logits
    assert logits.shape == (3, 9, 60)
    torch.testing.assert_close(logits, expected, rtol=0, atol=1e-5)
    logits.logsumexp(-1).sum().backward()
    assert not ours.encoder.embeddings.word.weight.grad[60:].any()
    trained, weights = checkpoint.read_as_trained(tmp_path, config)
    assert (trained.table_rows, weights["embeddings.word.weight"].shape) == (60, (60, 32))


def test_even_numbers_of_rows() -> None:
    assert [even_rows(size) for size in (8_000, 50_000, 65, 64)] == [0, 50_048, 128, 0]
