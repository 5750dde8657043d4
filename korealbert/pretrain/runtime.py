"""How and where training runs: processes, threads, device and machines. Like every runtime it is no part of any identity."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

from pydantic import Field, model_validator

from korealbert.artifact import Runtime, Spec

if TYPE_CHECKING:
    import torch

Device = Literal["auto", "cpu", "cuda"]
"""Where training runs; auto takes CUDA where there is one."""


def pick_device(wanted: Device, *, local_rank: int = 0) -> torch.device:
    """The device of a process. Processes of one machine share its GPUs out by rank.

    Raises ValueError when CUDA is wanted and torch finds none.
    """
    import torch  # noqa: PLC0415 (a recipe is checked without it, but where CUDA is asked for)

    if wanted == "cpu" or (wanted == "auto" and not torch.cuda.is_available()):
        return torch.device("cpu")
    if not torch.cuda.is_available():
        raise ValueError("runtime.device = 'cuda', but torch finds no CUDA device here; use 'cpu' or 'auto'")
    return torch.device("cuda", local_rank % torch.cuda.device_count())


def gpus(wanted: Device) -> int:
    """GPUs of this machine that training may take; 0 where it is to run on the processor."""
    if wanted == "cpu" or not any(Path("/dev").glob("nvidia[0-9]*")):
        return 0
    import torch  # noqa: PLC0415 (only where there is a GPU to count)

    return torch.cuda.device_count()


class TrainingRuntime(Runtime):
    """A runtime that says besides how models are trained; threads, processes and device may move the last bits of training."""

    processes: int = Field(default=1, ge=1)
    """Training processes (ranks) on this machine."""
    threads: int = Field(default=os.cpu_count() or 1, ge=1)
    """CPU threads over all training processes of a machine together."""
    device: Device = "auto"
    """The device of all training processes."""
    cells: int | None = Field(default=None, ge=1)
    """Fine-tuning cells (one task, model and seed) that run at once, each in a process of its own; they share ``threads``.
    None: one for each GPU that they may take, one without; or with ``memory_gib`` as many as fit, at most one for each
    thread. Cells that run at once share the GPUs of the machine out."""
    memory_gib: float | None = Field(default=None, gt=0)
    """Main memory, in GiB, that cells may take together. What one needs is measured when the first of its kind runs, alone."""
    gpu: int = Field(default=0, ge=0)
    """Which GPU of the machine a cell takes, modulo their number; set for each cell that runs beside others."""
    hostfile: Path | None = None
    """Train on several machines, started from this one over ssh: DeepSpeed's hostfile, a line ``NAME slots=N`` for each, this
    machine first. Its slots take the place of ``processes``. All machines see the store under the same path."""
    remote_shell: str = Field(default="ssh", min_length=1)
    """What is called with a machine's name and a command, for the machines of a hostfile."""
    nodes: int = Field(default=1, ge=1)
    """Or: machines on which the same command was started (srun, torchrun, by hand); each has ``processes`` ranks."""
    node: int = Field(default=0, ge=0)
    """Which of them this is; 0 builds everything, the others only run ranks for it."""
    meeting: str = Field(default="run", pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$")
    """What these machines call their run: the number of a job. Two runs in one store need two names."""
    address: str = ""
    """Name or IPv4 address under which the other machines reach this one, where it leads; by default its own name."""

    @model_validator(mode="before")
    @classmethod
    def _extend(cls, given: Any) -> Any:
        """A plain runtime trains as the defaults say."""
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
        """The runtime that a stage was given, with the defaults of training where it says nothing of it."""
        return runtime if isinstance(runtime, cls) else cls.model_validate(runtime).reporting_to(runtime.report)

    @property
    def cells_at_once(self) -> int:
        """Cells that run at once, memory permitting."""
        return self.cells or (self.threads if self.memory_gib is not None else max(1, gpus(self.device)))

    @property
    def memory_bytes(self) -> int | None:
        """``memory_gib`` in bytes."""
        return None if self.memory_gib is None else int(self.memory_gib * (1 << 30))

    def of_a_cell(self, seat: int = 0) -> Self:
        """The runtime of one of the cells that run at once, by its number: its share of the threads, and its GPU."""
        return self.model_copy(update={"threads": max(1, self.threads // self.cells_at_once), "gpu": seat})


def check_device(_: Spec, runtime: Runtime) -> None:
    """``check`` of a stage that trains: raise ValueError where its device is not available here."""
    device = TrainingRuntime.of(runtime).device
    if device == "cuda":
        pick_device(device)
