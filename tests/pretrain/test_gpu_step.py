"""What can be tested of a training step on a GPU without one: one graph, few compilations, a stream for copies."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any
from unittest.mock import MagicMock, call

import numpy as np
import pytest
import torch
from torch._dynamo.testing import CompileCounter

from bench.roofline import as_on_a_gpu
from korealbert.examples.batches import Batch
from korealbert.pretrain import data, engine
from korealbert.pretrain.cross_entropy import chunks
from korealbert.pretrain.data import DeviceCopier, TensorBatch, to_tensors
from korealbert.pretrain.engine import compile_mode
from korealbert.pretrain.objective import make_objective
from tests.model.test_attention import varlen_attn
from tests.pretrain.runs import CPU, no_dropout, spec
from tests.pretrain.synthetic import SyntheticBatches
from tests.pretrain.test_bag_of_words import packed

MODERN = {
    "architecture": "modern",
    "hidden_size": 16,
    "num_layers": 2,
    "num_heads": 2,
    "local_attention": 8,
    "max_positions": 64,
    "global_theta": 10_000.0,
}


def wider(batch: Batch, slots: int) -> Batch:
    """A packed batch with more unused slots for sequences and pieces."""
    fields = {name: getattr(batch, name) for name in TensorBatch._fields}
    for name, unused in (("lengths", 0), ("sop_labels", -100), ("mlm_positions", 0), ("mlm_labels", -100)):
        fields[name] = np.pad(fields[name], ((0, 0), (0, slots)), constant_values=unused)
    return Batch(**fields)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("fields", [{"model": no_dropout(max_positions=32)}, {"model": MODERN, "bow_weight": 0.5}])
def test_a_step_is_one_graph_and_compiled_few_times(fields: dict[str, Any]) -> None:
    """Under bf16, with variable-length attention; then on longer rows, with another base of the rotary frequencies."""
    run_spec = spec(wop_weight=0.0, **fields)
    objective = make_objective(run_spec.config_for(vocab_size=40, sequence_length=32), seed=1)
    is_modern = fields["model"] is MODERN
    compiled, counts = CompileCounter(), []
    with as_on_a_gpu(varlen_attn):
        run = torch.compile(objective, backend=compiled, fullgraph=True)
        for length in (16, 32):
            if is_modern:
                objective.model.encoder.global_theta = {16: 10_000.0, 32: 160_000.0}[length]
            rows = SyntheticBatches(9, length=length).gather(0, np.arange(4))
            for slots in (0, 1, 2):
                batch = to_tensors(wider(packed(rows), slots) if is_modern else rows, CPU)
                sums = []
                for one in (objective.forward, run):
                    with torch.autocast("cpu", dtype=torch.bfloat16):
                        sums.append(one(*batch).losses)
                    sums[-1].sum().backward()
                torch.testing.assert_close(*sums, rtol=2e-2, atol=2e-2)
            counts.append(compiled.frame_count)
    assert counts[0] <= 2 and counts[1] <= 4


@pytest.mark.parametrize(
    ("asked", "device", "missing", "mode"),
    [
        ("no", "cpu", "", None),
        ("no", "cuda", "", "default"),
        ("no", "cuda", "tools", None),
        ("no", "cuda", "age", None),
        ("no", "cuda", "leave", None),
        ("kernels", "cpu", "", "default"),
        ("graphs", "cuda", "", "reduce-overhead"),
    ],
)
def test_gpus_compile_if_the_recipe_leaves_it_open(
    asked: str, device: str, missing: str, mode: str | None, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(engine, "find_spec", lambda name: None if missing == "tools" else object())
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (6, 1) if missing == "age" else (9, 0))
    monkeypatch.setenv("TORCH_COMPILE_DISABLE", "1" if missing == "leave" else "0")
    monkeypatch.setattr(engine.shutil, "which", lambda name: name)
    assert compile_mode(spec(compile=asked, micro_batch_size=8), torch.device(device)) == mode
    assert ("Triton" in caplog.text) == (missing == "tools")


def test_logits_are_cut_into_few_different_numbers_of_chunks() -> None:
    """For 128 rows of 1,024 tokens with 50,000 pieces, 15 to 30 % of them masked."""
    gpu = torch.device("cuda")
    numbers = {chunks(128 * masked, 1, 50_000, gpu) for masked in range(153, 308)}
    assert numbers == {4, 8} and chunks(8, 1, 50_000, gpu) is None
    assert all(128 * masked * 50_000 * 4 <= (chunks(128 * masked, 1, 50_000, gpu) or 1) << 30 for masked in range(1, 308))


def test_a_gpu_copies_on_its_own_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    """The computation waits for the copy, and the copy's memory is not reused before the computation ends."""
    log, computing = MagicMock(), MagicMock()
    tensors = TensorBatch(*(getattr(log, name) for name in TensorBatch._fields))
    monkeypatch.setattr(torch.cuda, "Stream", lambda device: log.own)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: computing)
    monkeypatch.setattr(torch.cuda, "stream", lambda stream: (log.on(stream), nullcontext())[1])
    monkeypatch.setattr(data, "to_device", lambda batch, device: (log.copy(), batch)[1])
    computing.wait_stream = log.wait
    assert DeviceCopier(torch.device("cuda")).copy(tensors) is tensors
    assert log.mock_calls[:3] == [call.on(log.own), call.copy(), call.wait(log.own)]
    assert [one.record_stream.call_args for one in tensors] == [call(computing)] * len(tensors)


def test_a_cpu_reads_the_batch_without_a_copy() -> None:
    batch = to_tensors(SyntheticBatches(9).gather(0, np.arange(4)), CPU)
    assert all(mine is theirs for mine, theirs in zip(DeviceCopier(CPU).copy(batch), batch, strict=True))
