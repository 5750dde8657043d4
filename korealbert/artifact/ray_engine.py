"""The jobs of one map on a Ray cluster whose nodes all see the store (extra ``[cluster]``).

A job whose node or process dies is run again elsewhere, and it alone; its files are written whole or not at all, so nothing
tells the two tries apart. Nodes trust each other: jobs travel as pickles, so a cluster belongs on a network of its own, with
Ray's tokens.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

_TRIES_AFTER_A_LOSS = 5
"""How often one job is given to another process or node after its own has died."""

_JOBS_IN_FLIGHT_PER_CORE = 2
"""Back-pressure: jobs handed out beyond those that run, so that memory stays bounded by a few jobs."""


class ClusterMissing(RuntimeError):
    """Ray is not installed, or no cluster answers."""


class NodesLost(ConnectionError):
    """A job's nodes died one after the other; the next run goes on from the finished shards."""


def map_on_ray(
    function: Callable[..., Any],
    pending: Iterator[tuple[int, Any]],
    out_dir: Path,
    address: str,
    record: Callable[..., None],
) -> None:
    """Run ``function(job, index, out_dir)`` for every pending job on the cluster and record each result as it comes.

    Raises what a job raises, ClusterMissing, and NodesLost when a job outlived no node.
    """
    ray = _connected(address)
    remote = ray.remote(num_cpus=1, max_retries=_TRIES_AFTER_A_LOSS)(_job)
    flying: dict[Any, int] = {}
    try:
        for index, job in pending:
            flying[remote.remote(function, job, index, out_dir)] = index
            while len(flying) >= _JOBS_IN_FLIGHT_PER_CORE * max(1, int(ray.cluster_resources().get("CPU", 1))):
                _collect(ray, flying, record)
        while flying:
            _collect(ray, flying, record)
    except BaseException:
        for reference in flying:
            ray.cancel(reference, force=True)
        raise


def _job(function: Callable[..., Any], job: Any, index: int, out_dir: Path) -> Any:
    if not out_dir.is_dir():
        raise FileNotFoundError(f"{out_dir}: a node of the cluster does not see the store; put it on a shared file system")
    return function(job, index, out_dir)


def _collect(ray: Any, flying: dict[Any, int], record: Callable[..., None]) -> None:
    [reference], _ = ray.wait(list(flying), num_returns=1)
    index = flying.pop(reference)
    try:
        finished = ray.get(reference)
    except ray.exceptions.RayTaskError as error:
        raise error.cause from None  # What the job raised, as on one machine.
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
            raise ClusterMissing(f"no Ray cluster answers at {address!r}: {error}") from None
    return ray
