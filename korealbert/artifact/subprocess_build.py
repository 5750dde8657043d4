"""Build a stage in a process of its own: several can run at once, each measured and held to a memory limit."""

from __future__ import annotations

import json
import multiprocessing
import os
import re
import resource
import sys
import traceback
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import psutil

from korealbert.artifact import Artifact, Built, Runtime, Spec, Stage, build
from korealbert.artifact.files import write_json
from korealbert.artifact.shards import die_with_parent

_POLL_SECONDS = 0.2
"""How often the memory of a process is measured."""

SPIN_ROUNDS = ("GOMP_SPINCOUNT", "1000")
"""How often an idle libgomp thread looks for work before it sleeps: here for some microseconds. By default it looks for
milliseconds, and trainings on the same cores take three times as long (``bench/side_by_side.py``)."""

SPARE = 1.1
"""A process is granted a tenth more memory than one like it needed."""


class DoesNotFit(MemoryError):
    """A stage needs more memory than is allowed, even alone."""


class Killed(ConnectionError):
    """A process ended without a message, most often because the system ran out of memory."""


@dataclass(frozen=True)
class Job:
    """The arguments of ``build``."""

    stage: Stage[Any]
    spec: Spec
    inputs: Mapping[str, Artifact]
    label: str
    rerun: bool


def build_in_subprocess(job: Job, runtime: Runtime, memory_bytes: int | None = None) -> Built:
    """Build in a new process that dies with this one, and remember its peak memory.

    Raises what the stage raises, ``DoesNotFit`` if the process takes more than ``memory_bytes``, and ``Killed`` if it is killed
    from outside.
    """
    os.environ.setdefault(*SPIN_ROUNDS)
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe(duplex=False)
    plain = type(runtime)(**runtime.model_dump())
    process = context.Process(target=_child, args=(theirs, os.getpid(), job, plain), name=job.label)
    process.start()
    theirs.close()
    try:
        return _watched(process, ours, job, runtime, memory_bytes)
    finally:
        process.kill()
        process.join()
        ours.close()


def _watched(process: Any, pipe: Connection, job: Job, runtime: Runtime, memory_bytes: int | None) -> Built:
    needs = Needs(runtime.store)
    while True:
        if pipe.poll(_POLL_SECONDS):
            kind, value = _received(process, pipe, job.label)
            if kind == "error":
                raise value
            if kind == "progress":
                runtime.report(value)
            else:
                built: Built = value[0]
                peak: int = value[1]
                if not built.cached:
                    needs.remember(job, peak)
                return built
        taken = _memory(process.pid)
        if memory_bytes is not None and taken > memory_bytes:
            needs.remember(job, taken)
            raise DoesNotFit(_too_large(job.label, "took", taken, memory_bytes))


def _received(process: Any, pipe: Connection, label: str) -> tuple[str, Any]:
    """Return the kind of the next message of a build, and what it says. Raises Killed if its process has ended."""
    try:
        kind, value = pipe.recv()
    except EOFError:
        process.join()
        problem = f"its process ended with exit code {process.exitcode}"
        remedy = "most often memory ran out: set memory_gib, run fewer cells at once, or lower micro_batch_size"
        raise Killed(f"{label}: {problem}; {remedy}") from None
    return kind, value


def _memory(pid: int) -> int:
    try:
        return int(psutil.Process(pid).memory_info().rss)
    except psutil.NoSuchProcess:
        return 0


def _too_large(label: str, verb: str, needed: int, given: int) -> str:
    gib = 1 << 30
    remedy = "raise memory_gib, or lower micro_batch_size (the score stays the same but for rounding) or max_length"
    return f"{label}: {verb} {needed / gib:.2f} GiB, but memory_gib allows {given / gib:.2f}; {remedy}"


def _child(pipe: Connection, parent: int, job: Job, runtime: Runtime) -> None:
    die_with_parent(parent)
    watched = runtime.reporting_to(lambda progress: pipe.send(("progress", progress)))
    try:
        built = build(job.stage, job.spec, job.inputs, watched, label=job.label, rerun=job.rerun)
    except Exception as error:
        error.add_note("".join(traceback.format_exception(error)))
        pipe.send(("error", _sendable(error)))
        return
    pipe.send(("built", (built, peak_memory())))


def peak_memory(pid: int | None = None) -> int:
    """Return the peak memory of this process or another one; without Linux, the other one's current memory.

    Linux's ru_maxrss would include what the parent held when it forked.
    """
    if sys.platform != "linux":
        if pid is not None:
            return _memory(pid)
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    found = re.search(r"VmHWM:\s*(\d+) kB", Path(f"/proc/{pid or 'self'}/status").read_text("ascii"))
    return int(found[1]) * 1024 if found else 0


def _sendable(error: Exception) -> Exception:
    """Return the error, or a RuntimeError with its message if it cannot be pickled."""
    try:
        multiprocessing.reduction.ForkingPickler.dumps(error)
    except Exception:
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error


class Needs:
    """The peak memory of stages by kind, remembered in the store."""

    def __init__(self, store: Path) -> None:
        self.directory = Path(store) / ".needs"

    def of(self, job: Job, limit: int | None) -> int | None:
        """Return the bytes to grant a job like this, or None if none has run yet.

        Raises DoesNotFit if its peak was more than ``limit``.
        """
        try:
            peak = int(json.loads(self._file(job).read_text("utf-8"))["bytes"])
        except (FileNotFoundError, ValueError, KeyError):
            return None
        if limit is not None and peak > limit:
            raise DoesNotFit(_too_large(job.label, "needs", peak, limit))
        return int(peak * SPARE)

    def remember(self, job: Job, peak: int) -> None:
        """Store a measured peak if it is the largest of its kind."""
        if int(peak * SPARE) > (self.of(job, None) or 0):
            self.directory.mkdir(parents=True, exist_ok=True)
            write_json(self._file(job), {"label": job.label, "bytes": peak})

    def _file(self, job: Job) -> Path:
        kind = job.stage.kind(job.spec, job.inputs)
        return self.directory / f"{sha256(kind.encode()).hexdigest()[:16]}.json"
