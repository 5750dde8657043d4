"""One training process (rank): ``python -m korealbert.pretrain.worker JOB.json``, started by the agent of its machine.

On SIGTERM or SIGINT it saves a checkpoint at the next step and exits with status 143.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import signal
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Literal

import torch
from torch import distributed
from torch.distributed.elastic.multiprocessing.errors import record

from korealbert.artifact.shards import die_with_parent
from korealbert.pretrain.engine import Ranks, join
from korealbert.pretrain.job import STOPPED_STATUS, Job, event_line
from korealbert.pretrain.metrics import Metrics
from korealbert.pretrain.rows import open_splits
from korealbert.pretrain.runtime import pick_device
from korealbert.pretrain.trainer import Stopped, Trainer


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one rank, whose number is in the environment variables of torch's launchers (RANK, WORLD_SIZE, LOCAL_RANK)."""
    parser = argparse.ArgumentParser(description="One pretraining process.")
    parser.add_argument("job", type=Path, help="JSON file written by the pretrain stage")
    parser.add_argument("--parent", type=int, help="process id that this one must not outlive")
    parser.add_argument("--init-method", default="env://", help="URL of torch's rendezvous; default: the launcher's")
    given = parser.parse_args(arguments)
    if given.parent is not None:
        die_with_parent(given.parent)
    return run(Job.model_validate_json(given.job.read_bytes()), given.init_method)


def run(job: Job, init_method: str) -> int:
    """Join the other ranks, train, and write events to standard output; return the exit status."""
    rank, world_size = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
    stopping: list[int] = []

    def stop(number: int, frame: FrameType | None) -> None:
        stopping.append(number)

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", torch.get_num_threads())))

    device = pick_device(job.device, local_rank=int(os.environ.get("LOCAL_RANK", "0")))
    if device.type == "cuda":
        torch.cuda.set_device(device)
        torch.set_float32_matmul_precision("high")  # Products of float32 in TF32.
    else:
        _keep_memory()
    ranks = join(rank=rank, world_size=world_size, device=device, init_method=init_method)
    status = train(job, ranks, send=partial(print, flush=True), stop_requested=lambda: bool(stopping))
    if status == 0:
        distributed.destroy_process_group()
    return status


def _keep_memory() -> None:
    """Reuse the memory of one step for the tensors of the next, if the C library is glibc.

    By default glibc returns large tensors to the system, which then hands out their pages again, one by one and zeroed. That
    took an eighth of the processor time of kowiki-small's steps (docs/results.md).
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        trim_threshold, mmap_threshold = -1, -3
        mallopt(trim_threshold, (1 << 31) - 1)
        if not mallopt(mmap_threshold, 1 << 30):
            mallopt(
                mmap_threshold, 32 << 20
            )  # The most that older versions accept. Without it their threshold would stay at 128 KiB.


def train(job: Job, ranks: Ranks, *, send: Callable[[str], object], stop_requested: Callable[[], bool]) -> int:
    """Train as one rank of a process group; rank 0 sends one line per event. Returns the exit status."""

    def send_event(kind: Literal["metrics", "stats", "stopped"], step: int, content: Metrics | None) -> None:
        if ranks.rank == 0:
            send(event_line(kind, step, content))

    long = None
    if job.examples_long is not None and job.views_long is not None:
        long = open_splits(job.spec, job.examples_long, job.views_long)
    try:
        short = open_splits(job.spec, job.examples, job.views)
        trainer = Trainer(
            job.spec,
            job.config,
            train=short.train,
            heldout=short.heldout,
            long=long,
            initial=job.initial,
            cooccurrence=job.cooccurrence,
            ranks=ranks,
            out_dir=job.out_dir,
            report=partial(send_event, "metrics"),
            stop_requested=stop_requested,
        )
        stats = trainer.run()
    except Stopped as stopped:
        send_event("stopped", stopped.step, None)
        return STOPPED_STATUS
    send_event("stats", job.spec.steps, stats)
    return 0


if __name__ == "__main__":
    sys.exit(record(main)())  # ``record`` writes the traceback of an error to the file that the agent names.
