"""Optimisers against references, and the tensors that are excluded from weight decay and adaptation."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from korealbert.model.config import ModelConfig, ModernConfig
from korealbert.model.heads import PretrainingModel
from korealbert.pretrain import optimizer
from korealbert.pretrain.optimizer import Clipping, Lamb, make_optimizer, orthogonal
from korealbert.pretrain.optimizer_spec import MuonSpec, OptimizerSpec

STEPS = 50


def reference_step(w, g, m, v, t, *, lr, wd, adapt, bias_correction, bound, weight_bound, gradient_averaging):
    """One update in float64, straight from the formula."""
    m, v = 0.9 * m + (0.1 if gradient_averaging else 1.0) * g, 0.999 * v + 0.001 * g * g
    m_hat, v_hat = (m / (1 - 0.9**t), v / (1 - 0.999**t)) if bias_correction else (m, v)
    u = m_hat / (np.sqrt(v_hat) + 1e-6) + wd * w
    w_norm, u_norm = np.linalg.norm(w), np.linalg.norm(u)
    r = (min(w_norm, weight_bound) if weight_bound else w_norm) / u_norm if adapt and w_norm > 0 and u_norm > 0 else 1.0
    return w - lr * (min(r, bound) if bound and adapt else r) * u, m, v


@settings(max_examples=15)
@given(
    seed=st.integers(0, 2**31),
    adapt=st.booleans(),
    bias_correction=st.booleans(),
    bound=st.sampled_from([0.0, 0.5, 10.0]),
    weight_bound=st.sampled_from([0.0, 2.0]),
    gradient_averaging=st.booleans(),
    wd=st.sampled_from([0.0, 0.01]),
    clip=st.sampled_from([0.0, 1.0]),
    dtype=st.sampled_from([torch.float64, torch.float32]),
)
def test_lamb_follows_its_formula_for_50_steps(
    seed: int,
    adapt: bool,
    bias_correction: bool,
    bound: float,
    weight_bound: float,
    gradient_averaging: bool,
    wd: float,
    clip: float,
    dtype: torch.dtype,
) -> None:
    """All variants, with a schedule, and with and without clipping."""
    rng = np.random.default_rng(seed)
    weights = [rng.normal(size=(4, 3)), np.zeros((2, 2)), rng.normal(size=5) * 10]
    tensors = [torch.tensor(w, dtype=dtype, requires_grad=True) for w in weights]
    flags = {"adapt": adapt, "bias_correction": bias_correction, "gradient_averaging": gradient_averaging}
    optimizer = Lamb(tensors, lr=0.01, weight_decay=wd, max_trust_ratio=bound, max_weight_norm=weight_bound, **flags)
    Clipping(optimizer, clip)
    moments = [(np.zeros_like(w), np.zeros_like(w)) for w in weights]
    for t in range(1, STEPS + 1):
        gradients = [rng.normal(size=w.shape) for w in weights]
        lr = 0.01 * t / STEPS
        optimizer.param_groups[0]["lr"] = lr
        for tensor, g in zip(tensors, gradients, strict=True):
            tensor.grad = torch.tensor(g, dtype=dtype)
        norm = np.sqrt(sum((g**2).sum() for g in gradients))
        scale = min(1.0, clip / (norm + 1e-6)) if clip else 1.0  # torch's clipping adds 1e-6 to the norm
        for index, g in enumerate(gradients):
            weights[index], *moments[index] = reference_step(
                weights[index], g * scale, *moments[index], t, lr=lr, wd=wd, bound=bound, weight_bound=weight_bound, **flags
            )
        optimizer.step()
    tolerance = {"rtol": 1e-9, "atol": 1e-11} if dtype == torch.float64 else {"rtol": 1e-4, "atol": 1e-5}
    for tensor, weight in zip(tensors, weights, strict=True):
        np.testing.assert_allclose(tensor.detach().numpy(), weight, **tolerance)


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
def test_an_adapted_update_is_as_long_as_the_tensor_times_the_learning_rate(scale: float) -> None:
    tensor = torch.randn(8, 8, generator=torch.Generator().manual_seed(0)).mul_(scale).requires_grad_()
    before = tensor.detach().clone()
    tensor.grad = torch.randn(8, 8, generator=torch.Generator().manual_seed(1))
    Lamb([tensor], lr=0.01, eps=1e-12, weight_decay=0.0).step()
    torch.testing.assert_close((tensor.detach() - before).norm(), 0.01 * before.norm(), rtol=1e-4, atol=0)


def test_tensors_without_gradient_are_left_alone() -> None:
    frozen, used = torch.ones(3, 3, requires_grad=True), torch.ones(3, 3, requires_grad=True)
    used.grad = torch.ones(3, 3)
    optimizer = Lamb([frozen, used], lr=0.1)
    optimizer.step()
    assert torch.equal(frozen.detach(), torch.ones(3, 3))
    assert frozen not in optimizer.state
    assert not torch.equal(used.detach(), torch.ones(3, 3))


def test_a_tensor_that_never_had_a_gradient_does_not_decay() -> None:
    """Weight decay, scaled to the norm of the tensor, would shrink it by 1 % at each step."""
    unused, used = torch.ones(3, 3, requires_grad=True), torch.ones(3, 3, requires_grad=True)
    optimizer = Lamb([unused, used], lr=0.01, weight_decay=0.01)
    for _ in range(3):
        unused.grad, used.grad = torch.zeros(3, 3), torch.ones(3, 3)
        optimizer.step()
    assert torch.equal(unused.detach(), torch.ones(3, 3))
    assert used.detach().max() < 0.98
    assert len(set(optimizer.ratio_quantiles().values())) == 1, "the tensor that stays has no ratio"
    used.grad = torch.zeros(3, 3)
    optimizer = Lamb([unused], lr=0.01, weight_decay=0.01)
    optimizer.step()
    assert optimizer.ratio_quantiles() == {}


@pytest.mark.parametrize("scaled", [False, True])
def test_adamw_follows_torch_and_is_fused_unless_fp16_scales_the_loss(scaled: bool) -> None:
    torch.manual_seed(0)
    model = torch.nn.Linear(7, 5)
    reference = copy.deepcopy(model)
    ours = make_optimizer(model, OptimizerSpec(name="adamw", lr=1e-2, weight_decay=0.1), scaled=scaled)
    settings_of = [{"params": [reference.weight], "weight_decay": 0.1}, {"params": [reference.bias], "weight_decay": 0.0}]
    theirs = torch.optim.AdamW(settings_of, lr=1e-2, eps=1e-6, foreach=False)
    assert ours.param_groups[0]["fused"] is not scaled
    for _ in range(5):
        for a, b in zip(model.parameters(), reference.parameters(), strict=True):
            a.grad = torch.randn(a.shape)
            b.grad = a.grad.clone()
        ours.step()
        theirs.step()
    for a, b in zip(model.parameters(), reference.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("modern", [False, True])
def test_muon_takes_the_matrices_of_the_layers_and_adamw_the_rest(modern: bool) -> None:
    sizes = {"vocab_size": 20, "hidden_size": 16, "num_heads": 2, "num_layers": 2, "word_order_classes": 8}
    config = ModernConfig(architecture="modern", **sizes) if modern else ModelConfig(**sizes, share="none")
    torch.manual_seed(0)
    model = PretrainingModel(config)
    reference = copy.deepcopy(model)
    settings = {"lr": 1e-2, "adamw_lr_factor": 0.5, "weight_decay": 0.1, "arithmetic": "bf16"}
    ours = make_optimizer(model, MuonSpec(name="muon", **settings))
    matrices, decayed, others = (group["params"] for group in ours.param_groups)
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    blocks = ("encoder.layers.",) if modern else ("encoder.attention.", "encoder.ffn.", "encoder.projection.")
    assert {names[id(p)] for p in matrices} == {n for n, p in model.named_parameters() if n.startswith(blocks) and p.ndim == 2}
    assert len(matrices) + len(decayed) + len(others) == len(names)
    theirs = dict(reference.named_parameters())
    twins = [[theirs[names[id(p)]] for p in group] for group in (matrices, decayed, others)]
    muon = torch.optim.Muon(twins[0], lr=1e-2, weight_decay=0.1, adjust_lr_fn="match_rms_adamw")
    rest = [{"params": twins[1], "weight_decay": 0.1}, {"params": twins[2], "weight_decay": 0.0}]
    adamw = torch.optim.AdamW(rest, lr=5e-3, betas=(0.9, 0.98), eps=1e-6)
    for _ in range(3):
        for name, parameter in model.named_parameters():
            parameter.grad = torch.randn(parameter.shape)
            theirs[name].grad = parameter.grad.clone()
        ours.step()
        muon.step()
        adamw.step()
    for name, parameter in model.named_parameters():
        torch.testing.assert_close(parameter, theirs[name], rtol=1e-5, atol=1e-7, msg=name)
    assert set(ours.state) == set(model.parameters())


def test_matrices_of_one_shape_are_updated_together_as_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a GPU."""
    shapes = [(6, 4), (4, 8), (6, 4), (6, 4)]
    drawn = torch.Generator().manual_seed(1)
    given = [[torch.randn(shape, generator=drawn) for shape in shapes] for _ in range(4)]

    def updated(groups: list[list[int]]) -> list[torch.Tensor]:
        weights = [torch.nn.Parameter(tensor.clone()) for tensor in given[0]]
        muon = optimizer._Muon(weights, lr=0.1, weight_decay=0.1, momentum=0.9, dtype=torch.float32)
        monkeypatch.setattr(optimizer, "_batches", lambda matrices: [[matrices[n] for n in group] for group in groups])
        for gradients in given[1:]:
            for weight, gradient in zip(weights, gradients, strict=True):
                weight.grad = gradient.clone()
            muon.step()
        return [weight.detach() for weight in weights]

    torch.testing.assert_close(updated([[0, 2, 3], [1]]), updated([[0], [1], [2], [3]]), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("shape", [(6, 6), (16, 5), (5, 16)])
def test_updates_of_muon_are_nearly_orthogonal(shape: tuple[int, int]) -> None:
    torch.manual_seed(0)
    matrix = torch.randn(shape) @ torch.diag(torch.logspace(0, 1, shape[1]))
    left, scales, right = torch.linalg.svd(matrix, full_matrices=False)
    exact = orthogonal(matrix, torch.float32)
    assert torch.linalg.svdvals(exact).tolist() == pytest.approx([0.95] * len(scales), abs=0.27)
    turned = left.T @ exact @ right.T
    assert torch.allclose(turned, torch.diag(turned.diagonal()), atol=1e-4)  # The singular vectors are those of the matrix.
    assert torch.allclose(orthogonal(matrix, torch.bfloat16).float(), exact, atol=0.05)
    assert matrix.dtype == torch.float32


@pytest.mark.parametrize("name", ["lamb", "adamw"])
def test_exactly_biases_and_layer_norms_neither_decay_nor_adapt(name: str) -> None:
    model = PretrainingModel(ModelConfig(vocab_size=20, hidden_size=16, num_heads=2, num_layers=2, word_order_classes=8))
    optimizer = make_optimizer(model, OptimizerSpec(name=name, lr=1e-3))
    names = {id(parameter): parameter_name for parameter_name, parameter in model.named_parameters()}
    excluded = {
        names[id(parameter)]
        for group in optimizer.param_groups
        for parameter in group["params"]
        if group["weight_decay"] == 0 and not group.get("adapt", False)
    }
    assert excluded == {n for n in names.values() if n.endswith(".bias") or n.endswith("norm.weight")}
    assert sum(len(group["params"]) for group in optimizer.param_groups) == len(names)


def test_gradients_are_clipped_before_the_update_and_their_norm_is_known() -> None:
    weight = torch.zeros(2, 2, requires_grad=True)
    optimizer = torch.optim.SGD([weight], lr=1.0)
    clipping = Clipping(optimizer, 1.0)
    weight.grad = torch.full((2, 2), 5.0)
    optimizer.step()
    assert clipping.norm.item() == pytest.approx(10.0)
    assert weight.detach().norm().item() == pytest.approx(1.0, rel=1e-5)
    assert clipping.updates == 1
