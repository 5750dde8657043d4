"""Machines that stages run on, as far as their price depends on it: this one, and those of ``data_specs/machines.toml``."""

from __future__ import annotations

import json
import os
import re
import time
import tomllib
from collections import Counter
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Literal

import numpy as np
from pydantic import BaseModel, ConfigDict

from korealbert.formatting import nearest
from korealbert.recipe.tables import RecipeError


class _Figures(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Rate(_Figures):
    """Costs of stages of one kind on the reference machine; ``korealbert.recipe.work`` defines their units."""

    fixed_seconds: float = 2.0
    core_seconds: float = 0.0
    """Seconds of one core for each unit of work."""
    core_seconds_by_format: dict[str, float] = {}
    """The same of single formats."""
    units_per_job: float = 8.0
    """More cores than jobs have nothing to do."""
    cores_used: int | None = None
    """At most; None: all that there are."""
    kept: float = 1.0
    """Bytes of text that come out for one that goes in."""
    kept_by_format: dict[str, float] = {}
    disk_bytes: float = 0.0
    """On disk, for each unit of what comes out (a byte of text, a token, a parameter)."""
    memory_bytes: float = 3e8
    memory_bytes_per_core: float = 0.0
    memory_bytes_per_unit: float = 0.0


class _Chip(_Figures):
    """A device: a core of a processor, or a GPU with its share of the machine around it."""

    title: str
    operations: float
    """A second: the nominal peak of a GPU in bf16 without sparsity; what training reaches on a reference core."""
    operations_fp32: float
    """The same in fp32."""
    memory_gb: float = 0.0
    """Memory of the GPU itself; 0: it is not a GPU."""
    cores: int
    """Of the processor, for each."""
    source: str


class _File(_Figures):
    probe_seconds: float
    """Result of ``slowness`` on the reference machine."""
    step_seconds: float
    """Of a training step, in addition to its operations."""
    utilisation: float
    """Share of its peak that training reaches on a GPU."""
    utilised_from_width: int
    """Narrower models reach less, in proportion to their width."""
    half_matrix_rate_width: float
    """Width of a model whose training reaches half of a core's rate of matrix products; a model of width w reaches the share
    w / (w + this), because the rest of a layer's work grows with its width, the products with the square."""
    emulated_slowdown: float
    """A product in 16 bits takes so many times as long as one in fp32 on a core without ``half_precision_flags``."""
    half_precision_units: frozenset[str]
    """As ``/proc/cpuinfo`` names instructions that multiply in 16 bits faster than in 32."""
    half_precision_flags: frozenset[str]
    """As ``/proc/cpuinfo`` names instructions on which torch's products in 16 bits are no slower than in 32; one is enough."""
    chips: dict[str, _Chip]
    rates: dict[str, Rate]


@cache
def figures() -> _File:
    """All that the file says."""
    path = Path(__file__).parents[1] / "data_specs" / "machines.toml"
    return _File.model_validate(tomllib.loads(path.read_text("utf-8")))


HALF = frozenset({"bf16", "fp16", "bfloat16", "float16"})
"""Precisions of 16 bits, as pretraining and fine-tuning write them."""


@dataclass(frozen=True)
class Machine:
    """The machine of the stages."""

    title: str
    chip: _Chip
    chips: int = 1
    cores: int = 1
    """Of the processor."""
    profile: bool = False
    """Whether it is a profile of the file, to which builds on this machine do not apply."""
    slowness: float = 1.0
    """Time of other work than training on a core, relative to the reference machine."""
    matrix_rate: float = 0.0
    """Operations a second of matrix products in fp32 on a core that trains; 0: training is as fast as the chip says."""
    emulated: bool = False
    """Whether such a core has no instructions for 16 bits."""
    faster_precision: Literal["bf16", "fp32"] | None = None
    """That of the faster matrix products, where they differ much."""

    def training_seconds(self, operations: float, steps: float, *, width: int, precision: str) -> float:
        """Time of so many operations in so many steps, by a model of this width."""
        known = figures()
        half = precision in HALF
        rate = (self.chip.operations if half else self.chip.operations_fp32) * self.chips
        if self.chip.memory_gb:
            rate *= known.utilisation * min(1.0, max(1, width) / known.utilised_from_width)
        elif self.matrix_rate:
            rate = self.matrix_rate * self.chips * max(1, width) / (max(1, width) + known.half_matrix_rate_width)
            if half and self.emulated:  # torch does not divide such products among cores
                rate = self.matrix_rate / known.emulated_slowdown
        return operations / rate + steps * known.step_seconds


def machine_named(name: str) -> Machine:
    """A machine of the profiles: ``h100``, or ``h100x8`` for eight of them. Raises RecipeError naming those that there are."""
    chips = figures().chips
    found = re.fullmatch(r"(.+?)(?:x([1-9]\d{0,4}))?", name)
    if found is None or found[1] not in chips:
        known = f"known are {', '.join(chips)}, and several as in h100x8"
        raise RecipeError(f"as: no machine {name!r}{nearest(name.partition('x')[0], chips)}; {known}")
    chip, number = chips[found[1]], int(found[2] or 1)
    return Machine(name, chip, number, chip.cores * number, profile=True)


def this_machine() -> Machine:
    """The machine of this process; its first GPU trains where it has one that the file knows."""
    cores = len(os.sched_getaffinity(0))
    for file in sorted(Path("/proc/driver/nvidia/gpus").glob("*/information")):
        content = file.read_text("utf-8", "replace")
        for name, chip in figures().chips.items():
            if chip.memory_gb and re.search(rf"\b{name}\b", content, re.IGNORECASE):
                return Machine("this machine", chip, 1, cores, slowness=text_slowness(), faster_precision="bf16")
    flags, core = _processor_flags(), figures().chips["core"]
    emulated = not figures().half_precision_flags & flags
    faster: Literal["bf16", "fp32"] | None = "fp32" if emulated else "bf16" if figures().half_precision_units & flags else None
    return Machine(
        "this machine",
        core,
        cores,
        cores,
        slowness=text_slowness(),
        matrix_rate=matrix_rate(),
        emulated=emulated,
        faster_precision=faster,
    )


@cache
def text_slowness() -> float:
    """Time of a small calculation with text on a core of this machine, relative to a core of the reference machine."""
    text = " ".join(map(str, range(1_000)))
    fastest = float("inf")
    for _ in range(200):
        start = time.perf_counter()
        sha256(json.dumps(Counter(text.split())).encode() * 4)
        fastest = min(fastest, time.perf_counter() - start)
    return fastest / figures().probe_seconds


@cache
def matrix_rate() -> float:
    """Operations a second of matrix products in fp32 on a core of this machine, by numpy: about 30 ms of processor time.

    The products are so small that no BLAS divides them among threads; the processor time of this thread does not count other
    load. On a processor with AVX2 numpy's OpenBLAS and torch's MKL are equally fast (docs/results.md).
    """
    size, number = 64, 16  # the second-level cache holds them: other load then moves the result by 1 %, beyond it by 30 %
    left = np.ones((number, size, size), np.float32)
    right, product = np.ones((size, size), np.float32), np.empty_like(left)
    fastest = float("inf")
    for _ in range(200):
        start = time.thread_time()
        np.matmul(left, right, out=product)
        fastest = min(fastest, time.thread_time() - start)
    return 2 * size**3 * number / fastest


def _processor_flags() -> frozenset[str]:
    """As the kernel names the instructions of this processor; none where it does not say."""
    try:
        content = Path("/proc/cpuinfo").read_text("utf-8", "replace")
    except OSError:
        return frozenset()
    found = re.search(r"(?m)^(?:flags|Features)\s*:(.*)$", content)
    return frozenset(found[1].split()) if found else frozenset()
