"""Map a function over shards on all cores, or on a Ray cluster, resumable shard by shard.

The result does not depend on the number of workers: jobs are numbered as they come, each writes files of its own number, and
statistics return in job order. A finished job leaves ``.done/<step>-<number>.json`` in the output directory; the next try of a
killed stage skips it.
"""

from __future__ import annotations

import ctypes
import itertools
import json
import multiprocessing
import os
import signal
import sys
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from pathlib import Path
from typing import Any, TypeVar

from korealbert.artifact import Progress, Runtime
from korealbert.artifact.files import write_json
from korealbert.artifact.ray_engine import map_on_ray

J = TypeVar("J")
ShardStats = dict[str, Any]
ShardFunction = Callable[[J, int, Path], ShardStats]
"""``function(job, index, out_dir) -> stats``: names its files by ``index``; must be importable by name."""

JOBS_IN_FLIGHT_PER_WORKER = 2
"""Back-pressure: jobs read ahead of the workers, so that memory stays bounded by a few jobs."""


def map_shards(
    function: ShardFunction[J],
    jobs: Iterable[J],
    *,
    out_dir: Path,
    runtime: Runtime,
    step: str,
    total: int | None = None,
) -> list[ShardStats]:
    """Run ``function`` on every job and return the statistics in job order.

    ``jobs`` may be a lazy iterator (a reader that cuts a dump into pieces); it must yield the same jobs in every run.
    ``step`` names this map within the stage. The first exception of a job ends the map and is raised; finished jobs stay done.
    """
    done_dir = out_dir / ".done"
    done_dir.mkdir(exist_ok=True)

    def marker(index: int) -> Path:
        return done_dir / f"{step}-{index:05d}.json"

    results: dict[int, ShardStats] = {}

    def record(index: int, stats: ShardStats, *, fresh: bool) -> None:
        if fresh:
            write_json(marker(index), stats)
        results[index] = stats
        runtime.report(Progress(len(results), total, "shards"))

    def pending() -> Iterator[tuple[int, J]]:
        for index, job in enumerate(jobs):
            if marker(index).exists():
                record(index, json.loads(marker(index).read_text("utf-8")), fresh=False)
            else:
                yield index, job

    remaining = pending()
    head = list(itertools.islice(remaining, 2))
    if len(head) == 2 and runtime.engine != "local":
        map_on_ray(function, itertools.chain(head, remaining), out_dir.resolve(), runtime.engine, record)
    elif runtime.workers == 1 or len(head) < 2:  # One job is not worth a second process.
        for index, job in itertools.chain(head, remaining):
            record(index, function(job, index, out_dir), fresh=True)
    else:
        _map_in_processes(function, itertools.chain(head, remaining), out_dir, runtime.workers, record)
    return [results[index] for index in sorted(results)]


def _map_in_processes(
    function: ShardFunction[J],
    pending: Iterator[tuple[int, J]],
    out_dir: Path,
    workers: int,
    record: Callable[..., None],
) -> None:
    # spawn: polars and pyarrow run threads, and a fork of a threaded process can deadlock.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, mp_context=context, initializer=die_with_parent, initargs=(os.getpid(),)) as pool:
        flying: dict[Future[ShardStats], int] = {}
        try:
            for index, job in pending:
                flying[pool.submit(function, job, index, out_dir)] = index
                if len(flying) >= workers * JOBS_IN_FLIGHT_PER_WORKER:
                    _collect(flying, record)
            while flying:
                _collect(flying, record)
        except BaseException:
            pool.shutdown(wait=True, cancel_futures=True)
            raise


def _collect(flying: dict[Future[ShardStats], int], record: Callable[..., None]) -> None:
    finished, _ = wait(flying, return_when=FIRST_COMPLETED)
    for future in sorted(finished, key=flying.__getitem__):
        record(flying.pop(future), future.result(), fresh=True)


def die_with_parent(parent: int | None = None) -> None:
    """Have the kernel kill this process when its parent dies, so that a SIGKILL leaves no worker behind (Linux).

    ``parent`` is the process id that this one must not outlive: a parent that died before this call would go unnoticed.
    """
    if sys.platform == "linux":
        pr_set_pdeathsig = 1
        ctypes.CDLL(None, use_errno=True).prctl(pr_set_pdeathsig, signal.SIGKILL)
    if parent is not None and os.getppid() != parent:
        os._exit(1)
