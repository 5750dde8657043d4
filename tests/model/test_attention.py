"""Attention by torch's variable-length kernel, which exists on GPUs only; here a stand-in replaces it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn import functional as F

from korealbert.model import encoder, modern
from korealbert.model.attention import VarlenAttention, use_varlen
from korealbert.model.config import ModelConfig, ModernConfig
from korealbert.model.heads import PretrainingModel, initialise

LENGTH = 40
PACKED = [[17, 3, 9, 11], [40, 0, 0, 0], [5, 4, 3, 0]]
"""Lengths of the sequences of each row: shorter and longer than a window, unused slots, a rest after the last sequence."""
PADDED = [40, 9, 1]


@pytest.fixture
def _stand_in(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make all encoders use the stand-in."""
    for module in (encoder, modern):
        monkeypatch.setattr(module, "use_varlen", lambda *_: True)
    monkeypatch.setattr("torch.nn.attention.varlen.varlen_attn", varlen_attn)


def varlen_attn(
    query: Tensor, key: Tensor, value: Tensor, starts: Tensor, starts_k: Tensor, longest: int, _: int, *, window_size: Any
) -> Tensor:
    """Do what torch's kernel does, with a mask over all tokens."""
    assert starts is starts_k and starts.dtype == torch.int32 and query.shape == key.shape == value.shape and query.ndim == 3
    place = torch.arange(len(query))
    sequence = torch.searchsorted(starts, place.int(), right=True)
    visible = sequence[:, None] == sequence
    if window_size != (-1, -1):
        left, right = window_size
        visible &= (place[:, None] - place <= left) & (place - place[:, None] <= right)
    heads = (x.transpose(0, 1) for x in (query, key, value))
    return F.scaled_dot_product_attention(*heads, attn_mask=visible).transpose(0, 1)


def shape(**changes: Any) -> ModernConfig:
    small = {"hidden_size": 32, "num_layers": 2, "num_heads": 2, "local_attention": 8, "vocab_size": 60}
    return ModernConfig(architecture="modern", **{**small, **changes})


def albert() -> ModelConfig:
    fields = {"hidden_dropout": 0.0, "attention_dropout": 0.0, "pooler": False, "max_positions": LENGTH}
    return ModelConfig(hidden_size=32, embedding_size=16, num_layers=2, num_heads=2, vocab_size=60, **fields)


def outputs_and_gradients(
    model: PretrainingModel, lengths: Tensor | None, call: Callable[..., Any] | None = None
) -> dict[str, Tensor]:
    """Return the logits of the real tokens and the gradients of all parameters."""
    ids = torch.randint(5, 60, (3, LENGTH), generator=torch.Generator().manual_seed(1))
    places = torch.arange(LENGTH).expand(3, -1)
    totals = torch.full((3,), LENGTH) if lengths is None else lengths.view(3, -1).sum(1)
    model.zero_grad()
    logits = (model if call is None else call)(ids, torch.zeros_like(ids), lengths, places, places[:, :0]).mlm_BPV[
        places < totals[:, None]
    ]
    logits.square().sum().backward()
    return {"logits": logits.detach(), **{name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}}


CASES = [
    pytest.param(shape(), torch.tensor(PACKED), id="packed"),
    pytest.param(shape(local_attention=128), torch.tensor(PACKED), id="packed, wide window"),
    pytest.param(shape(), torch.tensor(PADDED), id="padded"),
    pytest.param(shape(), None, id="full"),
    pytest.param(albert(), torch.tensor(PADDED), id="albert"),
]


@pytest.mark.parametrize(("config", "lengths"), CASES)
def test_logits_and_gradients_are_those_under_a_mask(
    config: Any, lengths: Tensor | None, request: pytest.FixtureRequest
) -> None:
    model = PretrainingModel(config)
    initialise(model, 0.2, seed=4)
    wanted = outputs_and_gradients(model, lengths)
    request.getfixturevalue("_stand_in")
    found = outputs_and_gradients(model, lengths)
    assert found.keys() == wanted.keys()
    for name, tensor in wanted.items():
        torch.testing.assert_close(found[name], tensor, rtol=1e-4, atol=2e-3 if name != "logits" else 1e-5, msg=name)


@pytest.mark.parametrize("config", [shape(), albert()])
def test_a_row_of_padding_alone_is_finite_in_bf16(config: Any) -> None:
    model = PretrainingModel(config)
    initialise(model, 0.2, seed=4)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = outputs_and_gradients(model, torch.tensor([40, 9, 0]))
    assert all(tensor.isfinite().all() for tensor in found.values())


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.usefixtures("_stand_in")
def test_it_compiles_into_one_graph() -> None:
    """``tests/pretrain/test_gpu_step.py`` compiles both encoders, also with symbolic sizes, but compares no gradients."""
    model = PretrainingModel(shape())
    initialise(model, 0.2, seed=4)
    compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
    lengths = torch.tensor(PACKED)
    wanted, found = outputs_and_gradients(model, lengths), outputs_and_gradients(model, lengths, compiled)
    for name, tensor in wanted.items():
        torch.testing.assert_close(found[name], tensor, rtol=1e-4, atol=2e-3 if name != "logits" else 1e-5, msg=name)


@pytest.mark.parametrize(("config", "lengths"), CASES)
def test_shapes_and_types_are_those_of_torchs_operator(
    config: Any, lengths: Tensor | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Run forward and backward without values: they use the operator and its gradient, and no tensor is length × length."""
    for module in (encoder, modern):
        monkeypatch.setattr(module, "use_varlen", lambda *_: True)
    model = PretrainingModel(config)
    seen: list[str] = []

    class Watch(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            out = func(*args, **(kwargs or {}))
            seen.append(str(func))
            if "varlen" in str(func):
                assert args[0].dtype == torch.bfloat16 and args[0].shape[1:] == (2, 16)
            assert not isinstance(out, Tensor) or tuple(out.shape[-2:]) != (LENGTH, LENGTH)
            return out

    with FakeTensorMode(allow_non_fake_inputs=True), Watch(), torch.autocast("cpu", dtype=torch.bfloat16):
        ids = torch.zeros(3, LENGTH, dtype=torch.long)
        places = torch.zeros(3, 6, dtype=torch.long)
        logits = model(ids, ids, lengths, places, places[:, :0]).mlm_BPV
        logits.float().sum().backward()
    assert logits.shape == (3, 6, 60)
    layers = config.num_layers
    assert (seen.count("torch_attn._varlen_attn.default"), seen.count("torch_attn._varlen_attn_backward.default")) == (
        layers,
        layers,
    )


def test_it_is_only_used_on_gpus() -> None:
    weight = torch.empty(4, 4, dtype=torch.bfloat16)
    assert not use_varlen(weight, 64, 0.0)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("half", [None, 4, 64])
def test_the_kernel_differs_from_a_mask_by_rounding(half: int | None) -> None:
    torch.manual_seed(0)
    lengths = torch.tensor(PACKED, device="cuda")
    inputs = [torch.randn(3, 2, LENGTH, 64, device="cuda", dtype=torch.bfloat16, requires_grad=True) for _ in range(3)]
    twins = [tensor.detach().float().requires_grad_() for tensor in inputs]
    assert use_varlen(inputs[0], 64, 0.0) and not use_varlen(inputs[0], 64, 0.1)
    assert not use_varlen(twins[0], 64, 0.0)
    found = VarlenAttention(lengths, LENGTH).attend(*inputs, 0.0, half=half)
    number = modern.sequence_numbers(lengths, LENGTH)
    place = torch.arange(LENGTH, device="cuda")
    visible = (number[:, None, :, None] == number[:, None, None]) & ((place[:, None] - place).abs() <= (half or LENGTH))
    wanted = F.scaled_dot_product_attention(*twins, attn_mask=visible)
    found.float().square().sum().backward()
    wanted.square().sum().backward()
    torch.testing.assert_close(found.float(), wanted, rtol=2e-2, atol=2e-2)
    for mine, theirs in zip(inputs, twins, strict=True):
        assert mine.grad is not None and theirs.grad is not None
        torch.testing.assert_close(mine.grad.float(), theirs.grad, rtol=5e-2, atol=8e-2)
