"""How and where training runs: processes, threads, device, machines. As with every runtime, artifacts do not depend on it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

from pydantic import Field, model_validator

from korealbert.artifact import Runtime, Spec

if TYPE_CHECKING:
    import torch

Device = Literal["auto", "cpu", "cuda"]
"""Where training runs; auto means CUDA if available."""


def pick_device(wanted: Device, *, local_rank: int = 0) -> torch.device:
    """Return the device of a process; the processes of one machine are distributed over its GPUs.

    Raises ValueError if CUDA is wanted and torch finds none.
    """
    import torch  # noqa: PLC0415 (recipes are checked without it, unless they ask for CUDA)

    if wanted == "cpu" or (wanted == "auto" and not torch.cuda.is_available()):
        return torch.device("cpu")
    if not torch.cuda.is_available():
        raise ValueError("runtime.device = 'cuda', but torch finds no CUDA device here; use 'cpu' or 'auto'")
    return torch.device("cuda", local_rank % torch.cuda.device_count())


def gpus(wanted: Device) -> int:
    """Return how many GPUs of this machine training may use; 0 if it is to run on the CPU."""
    if wanted == "cpu" or not any(Path("/dev").glob("nvidia[0-9]*")):
        return 0
    import torch  # noqa: PLC0415 (only needed if there is a GPU)

    return torch.cuda.device_count()


class TrainingRuntime(Runtime):
    """A runtime with settings of training; threads, processes and device may change the last bits of a training."""

    processes: int = Field(default=1, ge=1)
    """Training processes (ranks) on this machine."""
    threads: int = Field(default=os.cpu_count() or 1, ge=1)
    """CPU threads of all training processes of a machine together."""
    device: Device = "auto"
    """The device of all training processes."""
    cells: int | None = Field(default=None, ge=1)
    """Fine-tuning cells (one task, model and seed) that run at once, each in its own process; they share ``threads`` and the
    GPUs of the machine. None: one for each GPU, or one without GPUs; with ``memory_gib`` as many as fit, at most one for each
    thread."""
    memory_gib: float | None = Field(default=None, gt=0)
    """Main memory in GiB for all cells together. The need of a cell is measured when the first of its kind runs, alone."""
    gpu: int = Field(default=0, ge=0)
    """Number of the GPU that a cell uses, modulo the GPUs of the machine; set for each cell that runs beside others."""
    hostfile: Path | None = None
    """Train on several machines, started from this one over ssh: DeepSpeed's hostfile with a line ``NAME slots=N`` for each,
    this machine first. Its slots replace ``processes``. All machines need the store under the same path."""
    remote_shell: str = Field(default="ssh", min_length=1)
    """Command that is called with a machine's name and a command line, for the machines of a hostfile."""
    nodes: int = Field(default=1, ge=1)
    """Number of machines on which the same command was started (srun, torchrun, by hand), each with ``processes`` ranks."""
    node: int = Field(default=0, ge=0)
    """Number of this machine; 0 builds everything, the others only run ranks for it."""
    rendezvous: str = Field(default="run", pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$")
    """Name of the run that these machines join, such as a job number. Two runs in one store need two names."""
    address: str = ""
    """Name or IPv4 address under which other machines reach this one as their leader; by default its own name."""

    @model_validator(mode="before")
    @classmethod
    def _extend(cls, given: Any) -> Any:
        """Accept a plain runtime, which trains with the defaults."""
        return given.model_dump(exclude_unset=True) if type(given) is Runtime else given

    @model_validator(mode="after")
    def _refuse_contradictions(self) -> Self:
        if self.hostfile is not None and self.nodes > 1:
            raise ValueError(f"hostfile = {self.hostfile} and nodes = {self.nodes} exclude each other; give one")
        if self.node >= self.nodes:
            raise ValueError(f"node = {self.node} is not below nodes = {self.nodes}; machines count from 0")
        return self

    @classmethod
    def of(cls, runtime: Runtime) -> TrainingRuntime:
        """Return a stage's runtime with the defaults of training if it has no such settings."""
        return runtime if isinstance(runtime, cls) else cls.model_validate(runtime).reporting_to(runtime.report)

    @property
    def cells_at_once(self) -> int:
        """Cells that run at once, if memory suffices."""
        return self.cells or (self.threads if self.memory_gib is not None else max(1, gpus(self.device)))

    @property
    def memory_bytes(self) -> int | None:
        """``memory_gib`` in bytes."""
        return None if self.memory_gib is None else int(self.memory_gib * (1 << 30))

    def of_a_cell(self, seat: int = 0) -> Self:
        """Return the runtime of a cell that runs beside others, by its number: its share of the threads, and its GPU."""
        return self.model_copy(update={"threads": max(1, self.threads // self.cells_at_once), "gpu": seat})


def check_device(_: Spec, runtime: Runtime) -> None:
    """Raise ValueError if the device is not available here; this is ``check`` of stages that train."""
    device = TrainingRuntime.of(runtime).device
    if device == "cuda":
        pick_device(device)
