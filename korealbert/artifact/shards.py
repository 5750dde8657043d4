"""Map a function over shards on all cores, or on a Ray cluster, resumable shard by shard.

The result does not depend on the number of workers: jobs are numbered as they come, each writes files of its own number, and
statistics return in job order. A finished job leaves ``.done/<step>-<number>.json`` in the output directory, which vouches for
the files that it wrote; the next try of a killed stage skips it when they were read and are as they were (see ``markers``).
"""

from __future__ import annotations

import ctypes
import itertools
import multiprocessing
import os
import signal
import sys
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from korealbert.artifact import Progress, Runtime, markers
from korealbert.artifact.files import noting_writes
from korealbert.artifact.ray_engine import map_on_ray

J = TypeVar("J")
_ShardStats = dict[str, Any]
_ShardFunction = Callable[[J, int, Path], _ShardStats]
"""``function(job, index, out_dir) -> stats``: names its files by ``index``, and writes them by ``atomic_path`` or tells
``note_written`` of them; must be importable by name."""
_Finished = tuple[_ShardStats, dict[str, dict[str, Any]]]
"""Statistics of a job, and what its marker says of its files."""

_JOBS_IN_FLIGHT_PER_WORKER = 2
"""Back-pressure: jobs read ahead of the workers, so that memory stays bounded by a few jobs."""


def map_shards(
    function: _ShardFunction[J],
    jobs: Iterable[J],
    *,
    out_dir: Path,
    runtime: Runtime,
    step: str,
    total: int | None = None,
) -> list[_ShardStats]:
    """Run ``function`` on every job and return the statistics in job order.

    ``jobs`` may be a lazy iterator (a reader that cuts a dump into pieces); it must yield the same jobs in every run.
    ``step`` names this map within the stage. The first exception of a job ends the map and is raised; finished jobs stay done.
    """
    (out_dir / markers.DONE).mkdir(exist_ok=True)
    results = markers.believed(out_dir, step, runtime.workers)
    believed = frozenset(results)

    def report() -> None:
        runtime.report(Progress(len(results), total, "shards"))

    def record(index: int, finished: _Finished) -> None:
        results[index], files = finished
        markers.leave(markers.marker(out_dir, step, index), results[index], files)
        report()

    if results:
        report()
    count = 0

    def pending() -> Iterator[tuple[int, J]]:
        nonlocal count
        for index, job in enumerate(jobs):
            count += 1
            if index not in believed:
                yield index, job

    remaining = pending()
    head = list(itertools.islice(remaining, 2))
    if len(head) == 2 and runtime.engine != "local":
        root = out_dir.resolve()
        map_on_ray(partial(_run, function), itertools.chain(head, remaining), root, runtime.engine, record)
    elif runtime.workers == 1 or len(head) < 2:  # One job is not worth a second process.
        for index, job in itertools.chain(head, remaining):
            record(index, _run(function, job, index, out_dir))
    else:
        _map_in_processes(partial(_run, function), itertools.chain(head, remaining), out_dir, runtime.workers, record)
    return [results[index] for index in range(count)]


def _run(function: _ShardFunction[J], job: J, index: int, out_dir: Path) -> _Finished:
    with noting_writes() as written:
        stats = function(job, index, out_dir)
    return stats, markers.facts_of(written, out_dir)


def _map_in_processes(
    function: Callable[[J, int, Path], _Finished],
    pending: Iterator[tuple[int, J]],
    out_dir: Path,
    workers: int,
    record: Callable[[int, _Finished], None],
) -> None:
    # spawn: polars and pyarrow run threads, and a fork of a threaded process can deadlock.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, mp_context=context, initializer=die_with_parent, initargs=(os.getpid(),)) as pool:
        flying: dict[Future[_Finished], int] = {}
        try:
            for index, job in pending:
                flying[pool.submit(function, job, index, out_dir)] = index
                if len(flying) >= workers * _JOBS_IN_FLIGHT_PER_WORKER:
                    _collect(flying, record)
            while flying:
                _collect(flying, record)
        except BaseException:
            pool.shutdown(wait=True, cancel_futures=True)
            raise


def _collect(flying: dict[Future[_Finished], int], record: Callable[[int, _Finished], None]) -> None:
    finished, _ = wait(flying, return_when=FIRST_COMPLETED)
    for future in sorted(finished, key=flying.__getitem__):
        record(flying.pop(future), future.result())


def die_with_parent(parent: int | None = None) -> None:
    """Have the kernel kill this process when its parent dies, so that a SIGKILL leaves no worker behind (Linux).

    ``parent`` is the process id that this one must not outlive: a parent that died before this call would go unnoticed.
    """
    if sys.platform == "linux":
        pr_set_pdeathsig = 1
        ctypes.CDLL(None, use_errno=True).prctl(pr_set_pdeathsig, signal.SIGKILL)
    if parent is not None and os.getppid() != parent:
        os._exit(1)
