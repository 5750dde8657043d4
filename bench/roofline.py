"""Bytes and operations of one training step on a GPU, counted without a GPU, and their time by a roofline.

    python -m bench.roofline [--cases albert-128 bert-128 …]

Forward pass, backward pass and AdamW update of a step run on tensors with shapes but without values, with the types of CUDA's
autocast. Operations are fused into kernels roughly like torch.compile fuses them:

- Elementwise operations, reductions and normalisations over the last dimension, and gathers join the kernel of their input if
  both run over as many elements and their other inputs were computed before. A kernel reads each of its inputs once. A result
  is written if another kernel or a matrix product reads it.
- Values of the forward pass that the backward pass reads are saved, or recomputed if that moves fewer bytes.
- The gradients of a LayerNorm's weight and bias are summed in the kernel that computes that of its input.
- Other sums over all tokens (gradients of biases), matrix products and attention are kernels of their own.

The time without matrix products is that of all bytes that the other kernels, including attention, read and write at 3.35 TB/s
(data sheet of the H100 SXM). Caches keep nothing between kernels, and launches take no time. The bytes of matrix products and
the products within attention do not count.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal
from unittest.mock import patch

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import flop_registry

from bench.common import options
from korealbert.model import elementwise, encoder, modern
from korealbert.model.config import ModelSpec, ModernSpec
from korealbert.pretrain import objective as objectives
from korealbert.pretrain.cross_entropy import chunks
from korealbert.pretrain.optimizer import make_optimizer
from korealbert.pretrain.spec import PretrainSpec

BYTES_PER_SECOND = 3.35e12
TOKENS = 128 * 128
BASE: dict[str, Any] = {"attention_dropout": 0.0, "max_positions": 1024}
MODELS: dict[str, dict[str, Any]] = {
    "albert": BASE,
    "bert": {**BASE, "share": "none", "embedding_size": 768},
    "modern": {"architecture": "modern"},
}
CASES = {f"{model}-{length}": (model, length) for model in MODELS for length in (128, 1024)}
PIECES = {"albert": 32_000, "bert": 32_000, "modern": 50_000}
MASKED = {"albert": 0.15, "bert": 0.15, "modern": 0.3}

_Kind = Literal["fused", "column", "product", "attention", "update"]


@contextmanager
def as_on_a_gpu(varlen_attn: Callable[..., Tensor] | None = None) -> Iterator[None]:
    """Make the model do on this machine what it does on CUDA in bf16; ``varlen_attn`` replaces torch's kernel."""
    layer_norm = F.layer_norm

    def in_fp32(x: Tensor, shape: Any, *parameters: Any) -> Tensor:  # Like CUDA's autocast.
        return layer_norm(x.float(), shape, *parameters)

    def dropout(
        x: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
    ) -> Tensor:  # With a mask of bytes, like on CUDA.
        return torch.native_dropout(x, p, True)[0] if training and p else x

    with ExitStack() as patches:
        for module in (encoder, modern):
            patches.enter_context(patch.object(module, "use_varlen", lambda *_: True))
            patches.enter_context(patch.object(module, "residual", lambda x: x.to(torch.get_autocast_dtype("cpu"))))
        patches.enter_context(patch.object(elementwise, "compiled_for_gpu", lambda _: True))
        patches.enter_context(patch.object(elementwise, "_ours", lambda _: False))
        patches.enter_context(patch.object(modern, "_MASKED_LENGTH", torch.inf))
        patches.enter_context(patch.object(objectives, "chunks", lambda *sizes: chunks(*sizes[:3], torch.device("cuda"))))
        patches.enter_context(patch.object(objectives, "_leaves_out_unused", lambda _: False))
        patches.enter_context(patch.object(F, "layer_norm", in_fp32))
        patches.enter_context(patch.object(F, "dropout", dropout))
        if varlen_attn is not None:
            patches.enter_context(patch("torch.nn.attention.varlen.varlen_attn", varlen_attn))
        yield


@dataclass
class _Operation:
    name: str
    kind: _Kind
    phase: str
    inputs: dict[Any, tuple[int, int]]
    """Value and bytes by the part of it that is read."""
    outputs: dict[int, int]
    """Bytes by value."""
    elements: int
    number: int
    flops: int = 0


@dataclass(eq=False)
class _Kernel:
    kind: _Kind
    phase: str
    level: int
    elements: int
    operations: list[_Operation] = field(default_factory=list)


_PRODUCTS = {"mm", "addmm", "bmm", "baddbmm"}
_MAX_PARTS = 3
"""Query, key and value are slices of one tensor, and their gradients are joined; kernels are fused over such slices."""
_WITHOUT_BYTES = {
    "zeros_like",  # The moments of the first update.
    "empty",
    "empty_strided",
    "new_empty",
    "empty_like",
    "scalar_tensor",
    "lift_fresh",
}


class Recorder(TorchDispatchMode):
    """Records all operations on tensors while it is entered."""

    def __init__(self) -> None:
        super().__init__()
        self.operations: list[_Operation] = []
        self.phase = "forward"
        self._kept: list[Any] = []
        self._values: dict[int, int] = {}
        self._count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)]
        out = func(*args, **(kwargs or {}))
        name = func._schema.name.partition("::")[2]
        made = [leaf for leaf in tree_leaves(out) if isinstance(leaf, Tensor)]
        written = any(argument.alias_info is not None and argument.alias_info.is_write for argument in func._schema.arguments)
        returned = func._schema.returns
        is_view = bool(returned) and returned[0].alias_info is not None and not written
        if name == "_unsafe_view":
            self._values[self._storage(made[0])] = self.value(given[0])
        elif (made or written) and not is_view and name not in _WITHOUT_BYTES:
            self._record(func, name, args, kwargs or {}, given, made, written)
        return out

    def value(self, tensor: Tensor) -> int:
        """Return a number for the present content of a tensor's memory."""
        return self._values.setdefault(self._storage(tensor), self._new())

    def _record(
        self, func: Any, name: str, args: Any, kwargs: Any, given: list[Tensor], made: list[Tensor], written: bool
    ) -> None:
        if name == "native_layer_norm_backward":
            self._add(name, "fused", given, made)  # The compiler sums the gradients of its weight and bias in the same kernel.
            return
        kind: _Kind = "product" if name in _PRODUCTS else "attention" if "varlen" in name else "fused"
        if self.phase == "update":
            kind = "update"
        elif name == "sum" and len(args) > 1 and args[1] and 0 in args[1] and given[0].numel() > made[0].numel() > 1:
            kind = "column"
        if name == "embedding":
            given = [given[1], *made]  # It reads as many rows of the table as it returns.
        elif name == "embedding_dense_backward":
            kind = "column"
        changed = made
        if written:  # Lists of an optimiser return nothing.
            changed = [
                leaf
                for a, s in zip(args, func._schema.arguments, strict=False)
                if s.alias_info and s.alias_info.is_write
                for leaf in tree_leaves(a)
                if isinstance(leaf, Tensor)
            ]
        flops = 0
        if kind == "product":
            flops = flop_registry[func._overloadpacket](*args, **kwargs, out_val=made[0])
        self._add(name, kind, given, changed, flops)

    def _add(self, name: str, kind: _Kind, given: list[Tensor], made: list[Tensor], flops: int = 0) -> None:
        inputs = {(self.value(x), x.storage_offset(), x.numel(), x.dtype): (self.value(x), _bytes(x)) for x in given}
        outputs = {}
        for tensor in made:
            self._values[self._storage(tensor)] = number = self._new()
            outputs[number] = _bytes(tensor)
        elements = max((x.numel() for x in [*given, *made]), default=0)
        self.operations.append(_Operation(name, kind, self.phase, inputs, outputs, elements, len(self.operations), flops))

    def _storage(self, tensor: Tensor) -> int:
        storage = tensor.untyped_storage()
        self._kept.append(storage)  # No other storage may get its address.
        return int(storage._cdata)

    def _new(self) -> int:
        self._count += 1
        return self._count


def _bytes(tensor: Tensor) -> int:
    """Return the bytes of a tensor, counting expanded dimensions once."""
    size = tensor.element_size()
    for length, stride in zip(tensor.shape, tensor.stride(), strict=True):
        size *= length if stride else 1
    return size


def _fits(kernel: _Kernel, operation: _Operation) -> bool:
    few, many = sorted((kernel.elements, operation.elements))
    return kernel.kind == "fused" and kernel.phase == operation.phase and many <= _MAX_PARTS * few


def kernels_of(operations: list[_Operation]) -> list[_Kernel]:
    """Fuse operations into kernels, in an order in which they can run."""
    kernels: list[_Kernel] = []
    producer: dict[int, _Kernel] = {}
    for operation in operations:
        read = [producer[value] for value, _ in operation.inputs.values() if value in producer]
        joined = None
        if operation.kind == "fused" and read:
            latest = max(kernel.level for kernel in read)
            members = [kernel for kernel in {id(kernel): kernel for kernel in read}.values() if kernel.level == latest]
            if all(_fits(kernel, operation) for kernel in members):
                joined = members[0]
                for other in members[1:]:  # Kernels of the same level do not read each other.
                    joined.operations = sorted(joined.operations + other.operations, key=lambda one: one.number)
                    joined.elements = max(joined.elements, other.elements)
                    producer |= {value: joined for one in other.operations for value in one.outputs}
                    kernels.remove(other)
        if joined is None:
            level = 1 + max((kernel.level for kernel in read), default=0)
            joined = _Kernel(operation.kind, operation.phase, level, operation.elements)
            kernels.append(joined)
        joined.operations.append(operation)
        joined.elements = max(joined.elements, operation.elements)
        producer |= dict.fromkeys(operation.outputs, joined)
    return kernels


@dataclass
class Step:
    """Kernels, operations and bytes of one step."""

    kernels: int
    flops: int
    bytes_by_kind: dict[str, int]
    """Without matrix products."""
    bytes_by_operation: dict[str, int]
    """Keys are the names of a kernel's operations."""

    def with_more(self, longer: Step, times: int) -> Step:
        """Return this step plus ``times`` the difference to a longer one."""
        kinds, operations = (
            {key: mine.get(key, 0) + times * (theirs[key] - mine.get(key, 0)) for key in theirs}
            for mine, theirs in (
                (self.bytes_by_kind, longer.bytes_by_kind),
                (self.bytes_by_operation, longer.bytes_by_operation),
            )
        )
        kernels, flops = (
            mine + times * (theirs - mine) for mine, theirs in ((self.kernels, longer.kernels), (self.flops, longer.flops))
        )
        return Step(kernels, flops, kinds, operations)

    @property
    def milliseconds(self) -> float:
        """Time of everything but matrix products by the roofline."""
        return 1e3 * sum(self.bytes_by_kind.values()) / BYTES_PER_SECOND


def step_of(kernels: list[_Kernel], final: set[int]) -> Step:
    """Count the bytes of kernels. ``final`` are values that are written although no kernel reads them."""
    _read_before_widening(kernels)
    producer = {value: kernel for kernel in kernels for operation in kernel.operations for value in operation.outputs}
    sizes = {value: size for kernel in kernels for one in kernel.operations for value, size in one.outputs.items()}
    readers: dict[int, list[_Kernel]] = defaultdict(list)
    for kernel in kernels:
        for value in {value for one in kernel.operations for value, _ in one.inputs.values()}:
            if producer.get(value) is not kernel:
                readers[value].append(kernel)
    recomputed: dict[int, dict[Any, int]] = {}
    """Sources of values that the backward pass recomputes."""
    for value, kernel in producer.items():
        later = readers[value]
        if kernel.kind != "fused" or not later or value in final:
            continue
        if all(reader.kind == "fused" and reader.phase != kernel.phase for reader in later):
            sources = _sources(kernel, value)
            if sources and sum(sources.values()) * len(later) < sizes[value] * (1 + len(later)):
                recomputed[value] = sources
    by_kind: dict[str, int] = defaultdict(int)
    by_operation: dict[str, int] = defaultdict(int)
    for kernel in kernels:
        if kernel.kind == "product":
            continue
        reads: dict[Any, int] = {}
        for operation in kernel.operations:
            for key, (value, size) in operation.inputs.items():
                if producer.get(value) is not kernel or kernel.kind == "update":
                    reads |= recomputed.get(value, {key: size})
        written = sum(
            size
            for operation in kernel.operations
            for value, size in operation.outputs.items()
            if kernel.kind != "fused" or ((readers[value] or value in final) and value not in recomputed)
        )
        name = f"{kernel.phase}: {' '.join(dict.fromkeys(one.name for one in kernel.operations))}"
        by_kind[kernel.kind] += sum(reads.values()) + written
        by_operation[name] += sum(reads.values()) + written
    flops = sum(one.flops for kernel in kernels for one in kernel.operations)
    return Step(len(kernels), flops, dict(by_kind), dict(by_operation))


def _read_before_widening(kernels: list[_Kernel]) -> None:
    """Let kernels read the input of a cast to a wider type instead of its result, because each repeats the cast."""
    narrow: dict[int, tuple[Any, tuple[int, int]]] = {}
    for kernel in kernels:
        for operation in kernel.operations:
            if operation.name == "_to_copy" and len(operation.inputs) == len(operation.outputs) == 1:
                (made, wide), (key, (value, size)) = *operation.outputs.items(), *operation.inputs.items()
                if size < wide:
                    narrow[made] = narrow.get(value, (key, (value, size)))
    for kernel in kernels:
        for operation in kernel.operations:
            operation.inputs = dict(narrow.get(read[0], (key, read)) for key, read in operation.inputs.items())


def _sources(kernel: _Kernel, value: int) -> dict[Any, int]:
    """Return what a kernel reads to compute a value, or nothing if the value cannot be recomputed."""
    wanted, sources = {value}, {}
    made = {v for operation in kernel.operations for v in operation.outputs}
    for operation in reversed(kernel.operations):
        if wanted & operation.outputs.keys():
            if operation.name == "native_dropout":  # It is random.
                return {}
            for key, (source, size) in operation.inputs.items():
                if source in made:
                    wanted.add(source)
                else:
                    sources[key] = size
    return sources


def step_of_case(name: str) -> Step:
    """Count one step of a case with 16,384 tokens, from two depths: every three layers cost the same."""
    model, length = CASES[name]
    few, period, layers = layers_of(model)
    return recorded(model, length, few).with_more(recorded(model, length, few + period), (layers - few) // period)


def layers_of(model: str) -> tuple[int, int, int]:
    """Return few layers, after how many more the pattern of layers repeats, and all layers of a model."""
    layers = ModelSpec().num_layers if model != "modern" else ModernSpec(architecture="modern").num_layers
    return layers % _LAYER_PERIOD + _LAYER_PERIOD, _LAYER_PERIOD, layers


_LAYER_PERIOD = 3
"""Layers after which the pattern of global and local attention repeats."""


def recorded(model: str, length: int, layers: int) -> Step:
    """Count one step of a model with so many layers."""
    with FakeTensorMode(), as_on_a_gpu(), patch.object(objectives, "initialise"):
        spec, objective, batch = step_inputs(model, length, layers)
        optimizer = make_optimizer(objective.model, spec.optimizer)
        recorder = Recorder()
        with recorder:
            with torch.autocast("cpu", dtype=torch.bfloat16):
                sums = objective(*batch)
            recorder.phase = "backward"
            sums.losses.sum().backward()
            final = {recorder.value(p.grad) for p in objective.parameters() if p.grad is not None}
            recorder.phase = "update"
            nn.utils.clip_grad_norm_(objective.parameters(), 1.0, foreach=True)
            optimizer.step()
        return step_of(kernels_of(recorder.operations), final)


def step_inputs(model: str, length: int, layers: int) -> tuple[PretrainSpec, objectives.Objective, tuple[Tensor, ...]]:
    """Return a recipe's training, its objective, and a batch of ``TOKENS`` tokens, both on torch's default device."""
    spec = PretrainSpec(
        model={**MODELS[model], "num_layers": layers},
        steps=1,
        optimizer={"name": "adamw", "lr": 1e-4},
        schedule={"warmup_steps": 0},
        wop_weight=0,
        sop_weight=0,
    )
    config = spec.config_for(vocab_size=PIECES[model], sequence_length=length)
    rows, slots = TOKENS // length, round(MASKED[model] * length)
    ids, masked, nothing = (torch.zeros(rows, width, dtype=torch.long) for width in (length, slots, 0))
    lengths = torch.zeros((rows, 4) if model == "modern" else (rows,), dtype=torch.long)  # Rows of modern models hold several.
    batch = (ids, ids, lengths, masked, masked, lengths, nothing, nothing)
    return spec, objectives.make_objective(config, seed=1), batch


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--cases", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--kernels", action="store_true", help="show the kernels that move most bytes")
    arguments = parser.parse_args()
    print(f"{'case':<12}{'kernels':>8}{'TFLOP':>8}{'fused':>8}{'columns':>8}{'attention':>10}{'update':>8}{'all, ms':>9}")
    for name in arguments.cases:
        step = step_of_case(name)
        parts = [
            1e3 * step.bytes_by_kind.get(kind, 0) / BYTES_PER_SECOND for kind in ("fused", "column", "attention", "update")
        ]
        shown = "".join(f"{part:>{width}.2f}" for part, width in zip(parts, (8, 8, 10, 8), strict=True))
        print(f"{name:<12}{step.kernels:>8}{step.flops / 1e12:>8.2f}{shown}{step.milliseconds:>9.2f}", flush=True)
        if arguments.kernels:
            for what, size in sorted(step.bytes_by_operation.items(), key=lambda item: -item[1])[:12]:
                print(f"    {1e3 * size / BYTES_PER_SECOND:6.2f} ms  {what[:150]}")


if __name__ == "__main__":
    main()
