"""Cross-entropy in chunks and blocks has the loss, hits and gradients of all logits at once, in less memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.distributed._tools.mem_tracker import MemTracker
from torch.optim import SGD

from korealbert.model.config import ModernConfig
from korealbert.model.heads import MaskedTokenHead
from korealbert.pretrain import cross_entropy, initial, objective
from korealbert.pretrain.cross_entropy import chunks
from korealbert.pretrain.data import to_tensors
from korealbert.pretrain.objective import make_objective
from korealbert.pretrain.spec import PretrainSpec
from tests.pretrain.runs import CPU, no_dropout, spec
from tests.pretrain.synthetic import SyntheticBatches
from tests.pretrain.test_bag_of_words import MODERN, packed

PARTS = 3


def _in_parts(groups: int, rows: int, pieces: int, device: torch.device) -> int:
    return min(PARTS, groups)


def objective_of(run_spec: PretrainSpec) -> Any:
    return make_objective(run_spec.config_for(vocab_size=40, sequence_length=32), seed=1)


def sums_and_gradients(made: Any, tensors: Any, *, precision: torch.dtype | None) -> tuple[Any, dict[str, Tensor]]:
    made.zero_grad()
    with torch.autocast("cpu", dtype=precision, enabled=precision is not None):
        sums = made.forward(*tensors)
    (sums.losses * torch.tensor([0.2, 0.3, 0.5, 0.7][: len(sums.losses)])).sum().backward()
    return sums, {name: p.grad.clone() for name, p in made.named_parameters() if p.grad is not None}


CASES = [
    pytest.param({"model": no_dropout(max_positions=32), "bow_weight": 0.5}, False, id="albert"),
    pytest.param({"model": MODERN, "bow_weight": 0.5, "wop_weight": 0.0}, True, id="packed, table rows after the pieces"),
    pytest.param({"model": MODERN, "wop_weight": 0.0, "frozen": ("encoder.embeddings.*",)}, False, id="frozen table"),
]


@pytest.mark.parametrize(("fields", "pack"), CASES)
@pytest.mark.parametrize("precision", [None, torch.bfloat16])
def test_loss_hits_and_gradients_are_those_of_all_logits_at_once(
    fields: dict[str, Any], pack: bool, precision: torch.dtype | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_spec = spec(**fields)
    made = objective_of(run_spec)
    initial.freeze(made.model, run_spec.frozen)
    batch = SyntheticBatches(9).gather(0, np.arange(4))
    tensors = to_tensors(packed(batch) if pack else batch, CPU)
    monkeypatch.setattr(objective, "chunks", lambda *_: None)
    plain, gradients = sums_and_gradients(made, tensors, precision=precision)
    monkeypatch.setattr(objective, "chunks", _in_parts)
    sums, found = sums_and_gradients(made, tensors, precision=precision)
    bounds = {"rtol": 1e-5, "atol": 1e-6} if precision is None else {"rtol": 3e-2, "atol": 3e-2}
    torch.testing.assert_close(sums.losses, plain.losses, **bounds)
    assert torch.equal(sums.correct, plain.correct) and torch.equal(sums.targets, plain.targets)
    assert found.keys() == gradients.keys()
    for name, gradient in gradients.items():
        torch.testing.assert_close(found[name], gradient, **bounds, msg=name)
    with torch.no_grad():
        torch.testing.assert_close(made.eval()(*tensors).losses, plain.losses, rtol=1e-2, atol=1e-2)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_chunks_compile_into_one_graph_for_any_number_of_slots(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the head and its loss; tests of the whole objective compile it without chunks."""
    monkeypatch.setattr(objective, "chunks", lambda groups, rows, pieces, _: max(1, -(-groups * rows * pieces * 4 // 1000)))
    config = spec(model=no_dropout()).config_for(vocab_size=40, sequence_length=16)
    head, table_VE = MaskedTokenHead(config), torch.randn(40, config.embedding_size, requires_grad=True)

    def loss(hidden_BPH: Tensor, labels_BP: Tensor) -> Tensor:
        return objective._piece_cross_entropy(head, hidden_BPH, table_VE, labels_BP).losses

    compiled = torch.compile(loss, backend="aot_eager", fullgraph=True)
    for rows in (4, 6):
        labels_BP = torch.randint(0, 40, (rows, 3)).index_fill_(1, torch.tensor(2), -100)
        hidden_BPH = torch.randn(rows, 3, config.hidden_size, requires_grad=True)
        inputs = [hidden_BPH, table_VE, *head.parameters()]
        plain, found = (call(hidden_BPH, labels_BP) for call in (loss, compiled))
        torch.testing.assert_close(found, plain)
        gradients = [torch.autograd.grad(each, inputs) for each in (found, plain)]
        torch.testing.assert_close(*gradients, rtol=1e-4, atol=1e-6)


def test_gpus_use_chunks_of_one_gibibyte_and_cpus_only_in_bf16() -> None:
    many = {"groups": 29_492, "rows": 1, "pieces": 50_000}  # 96 rows of 1,024 tokens, 30 % of them masked.
    assert chunks(**many, device=torch.device("cuda")) == 8
    assert chunks(groups=2_560, rows=1, pieces=32_000, device=torch.device("cuda")) is None
    assert chunks(**many, device=CPU) is None
    for dtype, number in ((torch.bfloat16, 1), (torch.float16, None)):
        with torch.autocast("cpu", dtype=dtype):
            assert chunks(**many, device=CPU) == number


@pytest.mark.parametrize(("fields", "pack"), CASES)
def test_many_blocks_give_the_result_of_one_block(fields: dict[str, Any], pack: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    made = objective_of(spec(**fields))
    batch = SyntheticBatches(9).gather(0, np.arange(4))
    tensors = to_tensors(packed(batch) if pack else batch, CPU)
    results = []
    for size in (1, 1 << 21):
        monkeypatch.setattr(cross_entropy, "_BLOCK_BYTES", size)
        results.append(sums_and_gradients(made, tensors, precision=torch.bfloat16))
    (some, of_some), (one, of_one) = results
    torch.testing.assert_close(some.losses, one.losses, rtol=1e-6, atol=1e-5)
    assert torch.equal(some.correct, one.correct)
    torch.testing.assert_close(of_some, of_one, rtol=1e-5, atol=1e-6)


def test_a_cpu_computes_logits_for_targets_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    made = objective_of(spec(model=MODERN, bow_weight=0.5, wop_weight=0.0))
    tensors = to_tensors(packed(SyntheticBatches(9).gather(0, np.arange(4))), CPU)
    labels_BP = tensors.mlm_labels.clone()
    labels_BP[:, ::2] = -100
    labels_BP[0] = -100
    computed: list[int] = []
    chunked = objective.chunked
    monkeypatch.setattr(
        objective, "chunked", lambda head, hidden, *rest: computed.append(len(hidden)) or chunked(head, hidden, *rest)
    )
    for labels, none in ((labels_BP, False), (torch.full_like(labels_BP, -100), True)):
        sums, gradients = sums_and_gradients(made, tensors._replace(mlm_labels=labels), precision=torch.bfloat16)
        assert torch.isfinite(sums.losses).all()
        assert all(gradient.isfinite().all() for gradient in gradients.values())
        assert computed[-2] == (labels != -100).sum() == sums.targets[0]
        assert (computed[-1] == 0) == none
        assert computed[-1] <= computed[-2]


def test_the_first_of_equal_logits_is_the_prediction() -> None:
    logits_KRV = torch.tensor([[[0.0, 2.0, 2.0, 1.0]], [[3.0, 3.0, 3.0, 3.0]], [[0.0, 0.0, 0.0, 5.0]]])
    rows_K1 = torch.zeros(3, 1, dtype=torch.long)
    for labels, hits in (([1, 0, 3], 3), ([2, 1, 3], 1), ([0, 3, 0], 0), ([-100, 0, -100], 1)):
        labels_K1 = torch.tensor(labels)[:, None]
        assert cross_entropy._hits(logits_KRV, logits_KRV.amax(-1), rows_K1, labels_K1, labels_K1.clamp(min=0)) == hits


def _peak(number: int | None, *, in_blocks: bool = True) -> float:
    """Return the peak memory in GiB of head and loss for 29,472 masked tokens, as if a block had 25,000 of their logits."""
    config = ModernConfig(architecture="modern", vocab_size=50_000, word_rows=50_048)
    with FakeTensorMode():
        head, table = MaskedTokenHead(config), torch.nn.Parameter(torch.empty(50_048, 768))
        hidden, labels = (
            torch.empty(96, 307, 768, dtype=torch.bfloat16, requires_grad=True),
            torch.zeros(96, 307, dtype=torch.long),
        )
        tracker = MemTracker()
        tracker.track_external(head, table, hidden, labels, SGD([table]))
        with tracker, torch.autocast("cpu", dtype=torch.bfloat16), pytest.MonkeyPatch.context() as patch:
            patch.setattr(objective, "chunks", lambda *_: number)
            patch.setattr(objective, "_leaves_out_unused", lambda _: False)  # Labels have no values.
            patch.setattr(cross_entropy, "_BLOCK_BYTES", 1 << 29)  # 11 blocks instead of 2,900, each of which is traced.
            patch.setattr(cross_entropy, "_hits", lambda logits, _, rows, labels, __: (logits.argmax(-1) == labels).sum())
            if not in_blocks:  # As on a GPU.
                patch.setattr(cross_entropy, "_blocks", lambda logits: (logits,))
            objective._piece_cross_entropy(head, hidden, table, labels).losses.backward()
        peak: int = tracker.get_tracker_snapshot("peak")[CPU]["Total"]
    return peak / 2**30


def test_memory_falls_with_the_number_of_chunks_or_blocks() -> None:
    assert _peak(None) > 15
    assert _peak(6, in_blocks=False) < 5
    assert _peak(1) < 5
