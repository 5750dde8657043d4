"""Map a function over shards on all cores, or on a Ray cluster; an interrupted map resumes shard by shard.

The result does not depend on the number of workers: jobs are numbered in order, each writes files with its own number, and
statistics are returned in job order. A finished job leaves a marker ``.done/<step>-<number>.json`` that lists its files. When
the stage resumes, the job is skipped if these files are unchanged (see ``markers``).
"""

from __future__ import annotations

import ctypes
import itertools
import multiprocessing
import os
import signal
import sys
from collections.abc import Callable, Iterable, Iterator, Sized
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from korealbert.artifact import Progress, Runtime, markers
from korealbert.artifact.files import recording_writes

_TRIES_AFTER_A_LOSS = 5
"""How often a job is retried on another process or node after its own has died."""

_JOBS_IN_FLIGHT = 2
"""Jobs read ahead per core or worker. Back-pressure: only a few jobs are in memory at a time."""


class ClusterMissing(RuntimeError):
    """Ray is not installed, or no cluster answers."""


class NodesLost(ConnectionError):
    """Each node that tried a job died. The next run continues from the finished shards."""


def _map_on_ray(
    function: Callable[..., Any],
    pending: Iterator[tuple[int, Any]],
    out_dir: Path,
    address: str,
    record: Callable[..., None],
) -> None:
    """Run ``function(job, index, out_dir)`` for every pending job on the cluster and record each result.

    Only a job whose node or process dies is run again. Its files are written atomically, so a first try leaves no trace. Nodes
    trust each other, because jobs travel as pickles: put a cluster (all of whose nodes see the store) on a network of its own,
    with Ray's tokens.

    Raises the errors of jobs, ClusterMissing, and NodesLost if every node of a job died.
    """
    ray = _connected(address)
    remote = ray.remote(num_cpus=1, max_retries=_TRIES_AFTER_A_LOSS)(_job)
    flying: dict[Any, int] = {}
    try:
        for index, job in pending:
            flying[remote.remote(function, job, index, out_dir)] = index
            while len(flying) >= _JOBS_IN_FLIGHT * max(1, int(ray.cluster_resources().get("CPU", 1))):
                _collect_from_ray(ray, flying, record)
        while flying:
            _collect_from_ray(ray, flying, record)
    except BaseException:
        with suppress(Exception):  # The first error is the one to tell.
            done, _ = ray.wait([*flying], num_returns=len(flying), timeout=0)
            for reference in done:
                with suppress(Exception):
                    _record_from_ray(ray, reference, flying, record)
        for reference in flying:
            ray.cancel(reference, force=True)
        raise


def _job(function: Callable[..., Any], job: Any, index: int, out_dir: Path) -> Any:
    if not out_dir.is_dir():
        raise FileNotFoundError(f"{out_dir}: a node of the cluster does not see the store; put it on a shared file system")
    return function(job, index, out_dir)


def _collect_from_ray(ray: Any, flying: dict[Any, int], record: Callable[..., None]) -> None:
    [reference], _ = ray.wait(list(flying), num_returns=1)
    _record_from_ray(ray, reference, flying, record)


def _record_from_ray(ray: Any, reference: Any, flying: dict[Any, int], record: Callable[..., None]) -> None:
    index = flying.pop(reference)
    try:
        finished = ray.get(reference)
    except ray.exceptions.RayTaskError as error:
        raise error.cause from None  # The job's own error, as on one machine.
    except ray.exceptions.RaySystemError as error:
        raise NodesLost(f"shard {index}: {error}") from None
    except (ray.exceptions.WorkerCrashedError, ray.exceptions.NodeDiedError) as error:
        raise NodesLost(f"shard {index}: its nodes died {_TRIES_AFTER_A_LOSS + 1} times in a row: {error}") from None
    record(index, finished)


def _connected(address: str) -> Any:
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        import ray  # noqa: PLC0415 (an extra)
    except ImportError:
        raise ClusterMissing("Ray is not installed: pip install 'korealbert[cluster]'") from None
    if not ray.is_initialized():
        try:
            ray.init(address=address, log_to_driver=False)
        except (ConnectionError, RuntimeError, ValueError) as error:
            raise ClusterMissing(
                f"no Ray cluster answers at {address!r} ({error}); start one with `ray start --head`"
            ) from None
    return ray


_J = TypeVar("_J")
_ShardStats = dict[str, Any]
_ShardFunction = Callable[[_J, int, Path], _ShardStats]
"""``function(job, index, out_dir) -> stats``. It must be importable by name. It names its files by ``index`` and writes them
with ``atomic_path`` or reports them with ``note_written``."""
_Finished = tuple[_ShardStats, dict[str, dict[str, Any]]]
"""Statistics of a job, and what its marker records about its files."""


def map_shards(
    function: _ShardFunction[_J], jobs: Iterable[_J], *, out_dir: Path, runtime: Runtime, step: str
) -> list[_ShardStats]:
    """Run ``function`` on every job and return the statistics in job order.

    ``jobs`` may be a lazy iterator (a reader that cuts a dump into pieces), but must yield the same jobs in every run. ``step``
    names this map within the stage. The first exception of a job ends the map and is raised; finished jobs stay done.
    Raises BrokenProcessPool if a worker process is killed.
    """
    (out_dir / markers.DONE).mkdir(exist_ok=True)
    results = markers.trusted(out_dir, step, runtime.workers)
    finished_before = frozenset(results)
    total = len(jobs) if isinstance(jobs, Sized) else None

    def report() -> None:
        runtime.report(Progress(len(results), total, "shards"))

    def record(index: int, finished: _Finished) -> None:
        results[index], files = finished
        markers.write(markers.marker(out_dir, step, index), results[index], files)
        report()

    if results:
        report()
    count = 0

    def pending() -> Iterator[tuple[int, _J]]:
        nonlocal count
        for index, job in enumerate(jobs):
            count += 1
            if index not in finished_before:
                yield index, job

    remaining = pending()
    head = list(itertools.islice(remaining, 2))
    if head:
        markers.forget_later_steps()
    if len(head) == 2 and runtime.engine != "local":
        root = out_dir.resolve()
        _map_on_ray(partial(_run, function), itertools.chain(head, remaining), root, runtime.engine, record)
    elif runtime.workers == 1 or len(head) < 2:  # One job is not worth a second process.
        for index, job in itertools.chain(head, remaining):
            record(index, _run(function, job, index, out_dir))
    else:
        _map_in_processes(partial(_run, function), itertools.chain(head, remaining), out_dir, runtime.workers, record)
    return [results[index] for index in range(count)]


def _run(function: _ShardFunction[_J], job: _J, index: int, out_dir: Path) -> _Finished:
    with recording_writes() as written:
        stats = function(job, index, out_dir)
    return stats, markers.facts_of(written, out_dir)


def _map_in_processes(
    function: Callable[[_J, int, Path], _Finished],
    pending: Iterator[tuple[int, _J]],
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
                if len(flying) >= workers * _JOBS_IN_FLIGHT:
                    _collect(flying, record)
            while flying:
                _collect(flying, record)
        except BaseException as error:
            pool.shutdown(wait=True, cancel_futures=True)
            while flying:  # All are finished, failed or cancelled.
                with suppress(Exception):  # The first error is the one to tell.
                    _record_done(flying, record)
            if isinstance(error, BrokenProcessPool):
                remedy = (
                    "most often because memory ran out: run again with fewer workers (--workers); finished shards stay done"
                )
                raise BrokenProcessPool(f"one of {workers} worker processes was killed, {remedy}") from error
            raise


def _collect(flying: dict[Future[_Finished], int], record: Callable[[int, _Finished], None]) -> None:
    wait(flying, return_when=FIRST_COMPLETED)
    _record_done(flying, record)


def _record_done(flying: dict[Future[_Finished], int], record: Callable[[int, _Finished], None]) -> None:
    """Record all jobs that are done. Then raise the error of the first one that failed."""
    failed = []
    for future in [future for future in flying if future.done()]:
        index = flying.pop(future)
        if future.cancelled() or future.exception() is not None:
            failed.append(future)
        else:
            record(index, future.result())
    if failed:
        failed[0].result()


def die_with_parent(parent: int | None = None) -> None:
    """Have the kernel kill this process when its parent dies, so that a SIGKILL leaves no worker behind (Linux).

    ``parent`` is the expected parent's process id: without it, a parent that died before this call would go unnoticed.
    """
    if sys.platform == "linux":
        pr_set_pdeathsig = 1
        ctypes.CDLL(None, use_errno=True).prctl(pr_set_pdeathsig, signal.SIGKILL)
    if parent is not None and os.getppid() != parent:
        os._exit(1)
