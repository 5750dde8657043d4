"""Bytes that a training step moves on an H100 outside of matrix products, as torch's compiler plans its kernels. Needs no GPU.

    .venv-cuda/bin/python -m bench.compiled_bytes [--cases albert-128 …] [--kernels]

torch must be a CUDA build (`make .venv-cuda/installed`). Forward and backward graph are those of `bench.roofline`, traced on
tensors without values. Then these are declared to be on an H100, and the compiler fuses operations into kernels, but is stopped
before it compiles them. Each kernel reads its inputs and writes its results once. The optimiser's update is left out.
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from types import SimpleNamespace
from typing import Any, NamedTuple
from unittest.mock import patch

import torch
from torch import Tensor, fx
from torch._dynamo.backends.common import aot_autograd
from torch._dynamo.device_interface import CudaInterface
from torch._guards import TracingContext, tracing
from torch._inductor import compile_fx, config, graph
from torch._inductor.decomposition import select_decomp_table
from torch._inductor.virtualized import V
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.fx.passes.fake_tensor_prop import FakeTensorProp
from torch.nn import functional as F

from bench.common import options
from bench.roofline import BYTES_PER_SECOND, CASES, as_on_a_gpu, layers_of, step_inputs
from korealbert.pretrain import objective as objectives

H100 = SimpleNamespace(
    name="NVIDIA H100 80GB HBM3",
    major=9,
    minor=0,
    total_memory=80 << 30,
    multi_processor_count=132,
    warp_size=32,
    max_threads_per_multi_processor=2048,
    max_threads_per_block=1024,
    regs_per_multiprocessor=65_536,
    shared_memory_per_block=48 << 10,
    shared_memory_per_block_optin=227 << 10,
    shared_memory_per_multiprocessor=228 << 10,
    L2_cache_size=50 << 20,
    gcnArchName="",
    is_integrated=0,
)

Graph = tuple[fx.GraphModule, Sequence[Tensor]]


class Kernel(NamedTuple):
    """A kernel that the compiler has planned."""

    kind: str
    """``product``, ``attention`` or ``fused``."""
    operations: str
    bytes: int


def traced(model: str, length: int, layers: int) -> dict[str, Graph]:
    """Return the graphs of forward and backward pass, cut from each other by the compiler."""
    graphs: dict[str, Graph] = {}

    def keep(name: str) -> Callable[[fx.GraphModule, Sequence[Tensor]], Callable[..., Any]]:
        def compiler(traced_graph: fx.GraphModule, inputs: Sequence[Tensor]) -> Callable[..., Any]:
            graphs[name] = traced_graph, list(inputs)
            return traced_graph.forward

        return compiler

    def cut(joint: fx.GraphModule, inputs: Sequence[object], **given: Any) -> tuple[fx.GraphModule, fx.GraphModule]:
        with V.set_fake_mode(TracingContext.get().fake_mode):
            return compile_fx.partition_fn(joint, inputs, **given)

    def in_fp32(x: Tensor, shape: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5) -> Tensor:
        return torch.layer_norm(x.float(), shape, weight, bias, eps, False)

    backend = aot_autograd(
        fw_compiler=keep("forward"), bw_compiler=keep("backward"), partition_fn=cut, decompositions=select_decomp_table()
    )
    torch._dynamo.reset()
    with ExitStack() as patches:
        for one in (
            FakeTensorMode(),
            as_on_a_gpu(),
            patch.object(objectives, "initialise"),
            patch.object(F, "layer_norm", in_fp32),
        ):
            patches.enter_context(one)
        _, objective, batch = step_inputs(model, length, layers)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            sums = torch.compile(objective, backend=backend, fullgraph=True, dynamic=False)(*batch)
        sums.losses.sum().backward()
    return graphs


@contextmanager
def an_h100() -> Iterator[None]:
    """Let the compiler find an H100."""
    answers = {
        "is_available": True,
        "current_device": 0,
        "device_count": 1,
        "get_device_capability": (9, 0),
        "get_device_properties": H100,
        "_get_device_properties": H100,
        "_lazy_init": None,
        "is_bf16_supported": True,
        "_exchange_device": 0,
        "_maybe_exchange_device": 0,
        "set_device": None,
        "synchronize": None,
    }
    of_interface = {"is_available": True, "get_device_properties": H100, "get_compute_capability": 90}
    with ExitStack() as patches:
        for name, answer in answers.items():
            patches.enter_context(patch(f"torch.cuda.{name}", lambda *_, _answer=answer, **__: _answer, create=True))
        for name, answer in of_interface.items():
            found = staticmethod(lambda *_, _answer=answer: _answer)
            patches.enter_context(patch.object(CudaInterface, name, found))
        patches.enter_context(patch.object(CudaInterface.Worker, "get_device_properties", staticmethod(lambda *_: H100)))
        patches.enter_context(patch("torch._dynamo.utils.preserve_rng_state", nullcontext))
        patches.enter_context(patch("torch._inductor.utils.is_big_gpu", lambda *_: True))
        patches.enter_context(patch("torch._inductor.scheduler.has_triton", lambda *_: True))
        patches.enter_context(patch.object(compile_fx, "get_cuda_device_context", lambda _: nullcontext()))
        patches.enter_context(config.patch(force_disable_caches=True, compile_threads=1))
        yield


class _Planned(Exception):
    """The compiler has planned its kernels."""


def kernels_of(one: Graph, *, backward: bool) -> list[Kernel]:
    """Return the kernels of a graph on an H100."""
    kernels: list[Kernel] = []

    def stop(self: graph.GraphLowering) -> None:
        self.init_wrapper_code()
        self._update_scheduler()
        kernels.extend(map(_kernel, self.scheduler.nodes))
        raise _Planned

    mode = FakeTensorMode(allow_non_fake_inputs=True, shape_env=ShapeEnv())
    with an_h100(), patch.object(graph.GraphLowering, "compile_to_module", stop):
        moved, inputs = _on_cuda(one, mode)
        with tracing(TracingContext(mode)), V.set_fake_mode(mode):
            try:
                compile_fx.compile_fx_inner(moved, inputs, is_backward=backward, static_input_idxs=[])
            except Exception:  # The compiler wraps it.
                if not kernels:
                    raise
    return kernels


def _on_cuda(one: Graph, mode: FakeTensorMode) -> tuple[fx.GraphModule, list[Any]]:
    moved, cuda = copy.deepcopy(one[0]), torch.device("cuda", 0)
    for node in moved.graph.nodes:
        node.args = tuple(cuda if isinstance(value, torch.device) else value for value in node.args)
        node.kwargs = {name: cuda if isinstance(value, torch.device) else value for name, value in node.kwargs.items()}
    moved.recompile()
    values = [node.meta["val"] for node in moved.graph.nodes if node.op == "placeholder"]
    with mode:
        inputs = [
            torch.empty_strided(x.shape, x.stride(), dtype=x.dtype, device=cuda) if isinstance(x, Tensor) else x for x in values
        ]
    FakeTensorProp(moved, mode).propagate_dont_convert_inputs(*inputs)
    return moved, inputs


def _kernel(node: Any) -> Kernel:
    called = str(getattr(node.node, "python_kernel_name", None) or "")
    kind = "product" if "mm" in called else "attention" if "varlen" in called else "fused"
    names = [origin.name for part in node.get_nodes() for origin in getattr(part.node, "origins", ())]
    return Kernel(kind, " ".join(dict.fromkeys([called, *names])).strip(), node.get_read_write_buffers_sizes())


def kernels_of_step(model: str, length: int, layers: int) -> list[Kernel]:
    """Return the kernels of forward and backward pass of so many layers, without matrix products."""
    graphs = traced(model, length, layers)
    kernels = [kernel for name, one in graphs.items() for kernel in kernels_of(one, backward=name == "backward")]
    return [kernel for kernel in kernels if kernel.kind != "product"]


def bytes_by_kind(kernels: Sequence[Kernel]) -> Counter[str]:
    """Return the bytes of all kernels of a kind."""
    sums: Counter[str] = Counter()
    for kernel in kernels:
        sums[kernel.kind] += kernel.bytes
    return sums


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--cases", nargs="+", choices=CASES, default=["albert-128"])
    parser.add_argument("--kernels", action="store_true", help="show the kernels of the first layers that move most bytes")
    arguments = parser.parse_args()
    print(f"{'case':<14}{'fused':>8}{'attention':>10}{'both, ms':>10}")
    for name in arguments.cases:
        model, length = CASES[name]
        few, period, layers = layers_of(model)
        kernels = kernels_of_step(model, length, few)
        shorter, longer = bytes_by_kind(kernels), bytes_by_kind(kernels_of_step(model, length, few + period))
        sums = {kind: shorter[kind] + (layers - few) / period * (longer[kind] - shorter[kind]) for kind in longer}
        fused, attention = (1e3 * sums[kind] / BYTES_PER_SECOND for kind in ("fused", "attention"))
        print(f"{name:<14}{fused:>8.2f}{attention:>10.2f}{fused + attention:>10.2f}", flush=True)
        for kernel in sorted(kernels, key=lambda one: -one.bytes)[: 40 if arguments.kernels else 0]:
            print(f"    {1e3 * kernel.bytes / BYTES_PER_SECOND:7.4f} ms  {kernel.operations[:150]}")


if __name__ == "__main__":
    main()
