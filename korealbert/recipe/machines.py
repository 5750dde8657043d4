"""The machines that costs are estimated for: this one, and the profiles of ``data_specs/machines.toml``."""

from __future__ import annotations

import json
import os
import re
import time
import tomllib
from collections import Counter
from dataclasses import dataclass, replace
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Literal, Self

import numpy as np
from pydantic import BaseModel, ConfigDict

from korealbert.formatting import nearest
from korealbert.recipe.tables import RecipeError


class _Figures(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Rate(_Figures):
    """Costs of one kind of stage on the reference machine; ``korealbert.recipe.work`` defines the units."""

    fixed_seconds: float = 2.0
    core_seconds: float = 0.0
    """Seconds of one core for a unit of work."""
    core_seconds_by_format: dict[str, float] = {}
    units_per_document: float = 0.0
    """Work of a document however short, of stages that read documents."""
    units_per_job: float = 8.0
    """Cores are idle if there are fewer jobs."""
    cores_used: int | None = None
    """Limit; None for all cores."""
    kept: float = 1.0
    """Bytes of text that come out for one that goes in."""
    kept_by_format: dict[str, float] = {}
    disk_bytes: float = 0.0
    """Bytes on disk for a unit of output (a byte of text, a token, a parameter)."""
    memory_bytes: float = 3e8
    memory_bytes_per_core: float = 0.0
    memory_bytes_per_unit: float = 0.0


class _Chip(_Figures):
    """A core of a processor, or a GPU with its share of the machine."""

    title: str
    operations: float
    """Per second: the nominal peak of a GPU in bf16 without sparsity, or what training reaches on a reference core."""
    operations_fp32: float
    operations_tf32: float = 0.0
    """The peak of a GPU in TF32, which pretraining in fp32 uses; 0 for a core."""
    memory_gb: float = 0.0
    """Memory of the GPU; 0 if it is not one."""
    cores: int
    """Processor cores for each chip."""
    source: str


class _File(_Figures):
    probe_seconds: float
    """Result of the probe for text on the reference machine."""
    step_seconds: float
    """Time of a training step in addition to its operations."""
    utilisation: float
    """Share of a GPU's peak that training reaches."""
    utilised_from_width: int
    """Narrower models utilise a GPU less, in proportion to their width."""
    half_matrix_rate_width: float
    """Width of a model whose training in fp32 reaches half of a core's rate of matrix products. Relative to the time of the
    products, the rest of a step takes this / w for a model of width w: products grow with the square of the width, the rest of
    a layer's work with the width. In bf16 the products are faster, and the rest takes as long."""
    emulated_slowdown: float
    """Time of a 16-bit product relative to one in fp32 on a core without ``half_precision_flags``."""
    half_precision_speedups: dict[str, float]
    """How much faster a core multiplies in bf16 than in fp32, by flag of ``/proc/cpuinfo``."""
    half_precision_flags: frozenset[str]
    """Flags of ``/proc/cpuinfo``, any of which lets torch multiply in 16 bits as fast as in 32."""
    chips: dict[str, _Chip]
    rates: dict[str, Rate]


@cache
def figures() -> _File:
    """Read ``machines.toml``."""
    path = Path(__file__).parents[1] / "data_specs" / "machines.toml"
    return _File.model_validate(tomllib.loads(path.read_text("utf-8")))


HALF = frozenset({"bf16", "fp16"})
"""Precisions of 16 bits."""


@dataclass(frozen=True)
class Machine:
    """A machine that stages run on."""

    title: str
    chip: _Chip
    chips: int = 1
    cores: int = 1
    profile: bool = False
    """Whether it is a profile rather than this machine; builds here then tell nothing about it."""
    slowness: float = 1.0
    """Time of work other than training on a core, relative to the reference machine."""
    matrix_rate: float = 0.0
    """Operations per second of matrix products in fp32 on a core that trains; 0 for the rate of the chip."""
    emulated: bool = False
    """Whether its cores have no instructions for 16 bits."""
    faster_precision: Literal["bf16", "fp32"] | None = None
    """The precision with much faster matrix products, if any."""
    speedup: float = 1.0
    """How much faster these products are."""

    def training_seconds(self, operations: float, steps: float, *, width: int, precision: str, tf32: bool = False) -> float:
        """Estimate the time of so many operations in so many steps, for a model of this width.

        ``tf32``: GPUs multiply in TF32 if ``precision`` is fp32.
        """
        known = figures()
        half = precision in HALF
        single = self.chip.operations_tf32 if tf32 else 0.0
        rate = (self.chip.operations if half else single or self.chip.operations_fp32) * self.chips
        if self.chip.memory_gb:
            rate *= known.utilisation * min(1.0, max(1, width) / known.utilised_from_width)
        elif self.matrix_rate:
            products = 1 / self.speedup if precision == "bf16" and self.faster_precision == "bf16" else 1.0
            rate = self.matrix_rate * self.chips / (products + known.half_matrix_rate_width / max(1, width))
            if half and self.emulated:  # torch does not divide such products among cores
                rate = self.matrix_rate / known.emulated_slowdown
        return operations / rate + steps * known.step_seconds

    def limited(self, *, workers: int | None = None, threads: int | None = None) -> Self:
        """Return the machine as a run with so many workers and training threads uses it; None means one for each core."""
        training = self.chips if self.chip.memory_gb else min(self.chips, threads or self.chips)
        return replace(self, cores=min(self.cores, workers or self.cores), chips=training)


def machine_named(name: str) -> Machine:
    """Return a profile: ``h100``, or ``h100x8`` for eight of them. Raises RecipeError, which lists the known ones."""
    chips = figures().chips
    found = re.fullmatch(r"(.+?)(?:x([1-9]\d{0,4}))?", name)
    if found is None or found[1] not in chips:
        known = f"known are {', '.join(chips)}, and several as in h100x8"
        raise RecipeError(f"as: no machine {name!r}{nearest(name.partition('x')[0], chips)}; {known}")
    chip, number = chips[found[1]], int(found[2] or 1)
    return Machine(name, chip, number, chip.cores * number, profile=True)


def this_machine() -> Machine:
    """Return this machine. It trains on its first GPU, if the file has a profile of it."""
    cores = len(os.sched_getaffinity(0))
    for file in sorted(Path("/proc/driver/nvidia/gpus").glob("*/information")):
        content = file.read_text("utf-8", "replace")
        for name, chip in figures().chips.items():
            if chip.memory_gb and re.search(rf"\b{name}\b", content, re.IGNORECASE):
                by = chip.operations / chip.operations_tf32
                return Machine("this machine", chip, 1, cores, slowness=_text_slowness(), faster_precision="bf16", speedup=by)
    flags, core = _processor_flags(), figures().chips["core"]
    emulated = not figures().half_precision_flags & flags
    speedup = max((by for flag, by in figures().half_precision_speedups.items() if flag in flags), default=1.0)
    faster: Literal["bf16", "fp32"] | None = "fp32" if emulated else "bf16" if speedup > 1 else None
    return Machine(
        "this machine",
        core,
        cores,
        cores,
        slowness=_text_slowness(),
        matrix_rate=matrix_rate(),
        emulated=emulated,
        faster_precision=faster,
        speedup=figures().emulated_slowdown if emulated else speedup,
    )


@cache
def _text_slowness() -> float:
    """Measure a small calculation with text on a core of this machine, relative to the reference machine."""
    text = " ".join(map(str, range(1_000)))
    fastest = float("inf")
    for _ in range(200):
        start = time.perf_counter()
        sha256(json.dumps(Counter(text.split())).encode() * 4)
        fastest = min(fastest, time.perf_counter() - start)
    return fastest / figures().probe_seconds


@cache
def matrix_rate() -> float:
    """Measure operations per second of numpy's matrix products in fp32 on a core, in about 30 ms of processor time.

    The products are too small for a BLAS to divide them among threads, and processor time does not count other load. On a
    processor with AVX2, numpy's OpenBLAS and torch's MKL are equally fast (docs/results.md).
    """
    size, number = 64, 16  # These fit into the second-level cache, where other load changes the result by 1 %, not by 30 %.
    left = np.ones((number, size, size), np.float32)
    right, product = np.ones((size, size), np.float32), np.empty_like(left)
    fastest = float("inf")
    for _ in range(200):
        start = time.thread_time()
        np.matmul(left, right, out=product)
        fastest = min(fastest, time.thread_time() - start)
    return 2 * size**3 * number / fastest


def _processor_flags() -> frozenset[str]:
    """Return the kernel's names for the instructions of this processor, none if they are unknown."""
    try:
        content = Path("/proc/cpuinfo").read_text("utf-8", "replace")
    except OSError:
        return frozenset()
    found = re.search(r"(?m)^(?:flags|Features)\s*:(.*)$", content)
    return frozenset(found[1].split()) if found else frozenset()
