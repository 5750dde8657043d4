"""The forward pass on CUDA tensors without values: torch must be a CUDA build, no GPU is needed. ``make test-fake-cuda``.

What ``as_on_a_gpu`` stands in for on any machine is what the model does by itself on such tensors. A backward pass is not
possible: torch's autograd asks the driver for a context first. Kernels of both passes are planned by torch's compiler.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple
from unittest.mock import patch

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from bench.roofline import CASES, Recorder, as_on_a_gpu, recorded, step_inputs
from korealbert.model import elementwise
from korealbert.pretrain import objective as objectives

pytestmark = pytest.mark.skipif(torch.version.cuda is None, reason="torch is no CUDA build")
LAYERS = 4


class Properties(NamedTuple):
    """Those of an H100 that the model asks for."""

    major: int = 9


H100 = Properties()


@contextmanager
def fake_cuda() -> Iterator[None]:
    """Let tensors without values be on CUDA, with autocast as there."""
    with ExitStack() as patches:
        patches.enter_context(FakeTensorMode())
        patches.enter_context(patch("torch.cuda.amp.common.amp_definitely_not_available", lambda: False))
        patches.enter_context(patch("torch.cuda.is_bf16_supported", lambda: True))
        patches.enter_context(patch("torch.cuda.get_device_properties", lambda _: H100))
        patches.enter_context(patch.object(elementwise, "compiled_for_gpu", lambda _: True))
        patches.enter_context(patch.object(objectives, "initialise"))
        yield


def operations(case: str, device: str) -> list[tuple[Any, ...]]:
    """Return each operation of a forward pass with the bytes that it reads and writes."""
    with torch.device(device):
        _, objective, batch = step_inputs(*CASES[case], layers=LAYERS)
    recorder = Recorder()
    with recorder, torch.autocast(device, dtype=torch.bfloat16):
        objective(*batch)
    return [
        (one.name, one.flops, sorted(size for _, size in one.inputs.values()), [*one.outputs.values()])
        for one in recorder.operations
    ]


@pytest.mark.parametrize("case", CASES)
def test_the_stand_in_of_a_gpu_does_the_operations_of_cuda(case: str) -> None:
    with fake_cuda():
        on_cuda = operations(case, "cuda")
    with FakeTensorMode(), as_on_a_gpu(), patch.object(objectives, "initialise"):
        assert operations(case, "cpu") == on_cuda


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("case", CASES)
def test_a_forward_pass_on_cuda_is_one_graph(case: str) -> None:
    graphs = []

    def compiled(graph: torch.fx.GraphModule, _: object) -> Callable[..., Any]:
        graphs.append(graph)
        return graph

    with fake_cuda():
        with torch.device("cuda"):
            _, objective, batch = step_inputs(*CASES[case], layers=LAYERS)
        with torch.autocast("cuda", dtype=torch.bfloat16):
            torch.compile(objective, backend=compiled, fullgraph=True)(*batch)
    assert len(graphs) == 1


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore:Your compiler for AOTAutograd")
@pytest.mark.parametrize(("model", "length", "layers"), [("albert", 128, 2), ("modern", 1024, 3)])
def test_the_compiler_plans_to_move_about_as_many_bytes_as_are_counted(model: str, length: int, layers: int) -> None:
    from bench.compiled_bytes import bytes_by_kind, kernels_of_step  # It imports what warns.

    counted = recorded(model, length, layers).bytes_by_kind
    planned = bytes_by_kind(kernels_of_step(model, length, layers))
    # The compiler takes a slice for its whole tensor (values of a modern encoder), and so do gathers (embeddings, labels).
    tolerance = 0.06 if model == "albert" else 0.2
    assert planned["attention"] == pytest.approx(counted["attention"], rel=tolerance)
    assert planned["fused"] == pytest.approx(counted["fused"] + counted["column"], rel=tolerance)
