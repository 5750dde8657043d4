"""The only Prefect task: it builds one stage of a recipe, or finds it in the store.

The artifact store owns identity, so Prefect's own caching is off; a stage found in the store returns a state named ``Cached``.
Only artifact names pass between tasks, as futures from which the UI draws the DAG. If training has a work pool of its own, a
run there builds the stage; this task waits for it and cancels it when it is cancelled itself.

A ``Gate`` decides which stages may run: either one that takes the whole machine, or as many cells as number and memory allow.
No stage overtakes a waiting one, so that none waits for ever.
"""

from __future__ import annotations

import contextlib
import itertools
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures.process import BrokenProcessPool
from contextvars import ContextVar
from typing import Any
from uuid import UUID

from prefect import Task, task
from prefect.cache_policies import NO_CACHE
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.objects import FlowRun, State, TaskRun
from prefect.deployments import run_deployment
from prefect.logging import get_run_logger
from prefect.states import Cancelling, Completed

from korealbert.artifact import Artifact, Built, Progress, Runtime, build, cached
from korealbert.artifact.subprocess_build import Job, Needs, build_in_subprocess
from korealbert.finetune.scores.undefined import why_undefined
from korealbert.flows import publish
from korealbert.flows.lineage import Lineage
from korealbert.pretrain.launch import RankKilled
from korealbert.pretrain.runtime import TrainingRuntime
from korealbert.recipe import Node


class Gate:
    """Decides when stages may run. All stages of a run must pass the same gate, and none inside may wait for one outside."""

    def __init__(self, runtime: TrainingRuntime) -> None:
        self.cells, self.memory = runtime.cells_at_once, runtime.memory_bytes
        self._changed = threading.Condition()
        self._waiting: deque[object] = deque()
        self._running = 0
        self._taken = 0
        self._alone = False
        self._seats: set[int] = set()

    def alone(self) -> contextlib.AbstractContextManager[int]:
        """Wait until nothing runs, and keep all others out."""
        return self._entered(lambda: self._running == 0, alone=True)

    def cell(self, bytes_needed: int | None) -> contextlib.AbstractContextManager[int]:
        """Wait for a free seat and for memory; yields the seat's number, the lowest that is free.

        If memory is limited, a stage whose need is unknown (None) runs alone.
        """
        limit = self.memory
        if limit is None:
            return self._entered(lambda: self._running < self.cells)
        if bytes_needed is None or bytes_needed > limit:
            return self.alone()
        return self._entered(lambda: self._running < self.cells and self._taken + bytes_needed <= limit, bytes_needed)

    @contextlib.contextmanager
    def _entered(self, free: Callable[[], bool], bytes_needed: int = 0, *, alone: bool = False) -> Iterator[int]:
        ticket = object()
        with self._changed:
            self._waiting.append(ticket)
            try:
                self._changed.wait_for(lambda: self._waiting[0] is ticket and not self._alone and free())
            finally:
                self._waiting.remove(ticket)
                self._changed.notify_all()
            self._running, self._taken, self._alone = self._running + 1, self._taken + bytes_needed, alone
            seat = next(number for number in itertools.count() if number not in self._seats)
            self._seats.add(seat)
        try:
            yield seat
        finally:
            with self._changed:
                self._seats.remove(seat)
                self._running, self._taken, self._alone = self._running - 1, self._taken - bytes_needed, False
                self._changed.notify_all()


_DEPLOYMENT = "one-stage/gpu"
_POLL_SECONDS = 2.0


class DelegatedRunFailed(RuntimeError):
    """The run on the other work pool ended without its artifact; the message is that run's."""


class DelegatedRunLost(ConnectionError):
    """The run on the other work pool lost its process; the next run continues from its finished work."""


def _build_on_gpu(label: str, parameters: Mapping[str, Any], runtime: Runtime, *, rerun: bool) -> None:
    """Have the worker of the pool ``gpu`` build a stage, and wait until it has.

    Raises DelegatedRunLost if its process was killed, and DelegatedRunFailed if it failed in another way. If this task is
    cancelled, that run is cancelled too.
    """
    wanted = {**parameters, "stage": label, "rerun": rerun, "runtime": runtime.model_dump(mode="json", exclude_unset=True)}
    wanted["runtime"]["store"] = str(runtime.store.resolve())
    run: Any = run_deployment(_DEPLOYMENT, parameters=wanted, timeout=0, flow_run_name=label.replace("/", " "))
    with get_client(sync_client=True) as client:
        try:
            ended = _wait(client, run.id)
        except BaseException:
            client.set_flow_run_state(run.id, Cancelling(message="the run that waits for it was left"))
            raise
    if ended.state is None or not ended.state.is_completed():
        message = ended.state.message if ended.state else ""
        lost = ended.state is not None and ended.state.is_crashed()
        kind = DelegatedRunLost if lost else DelegatedRunFailed
        raise kind(f"{label}: its run {ended.name} on the pool gpu ended as {ended.state_name}: {message}")


def _wait(client: SyncPrefectClient, run: UUID) -> FlowRun:
    while True:
        found = client.read_flow_run(run)
        if found.state is not None and found.state.is_final():
            return found
        time.sleep(_POLL_SECONDS)


SECONDS_BETWEEN_REPORTS = 5.0
"""Interval of reports to the server, each of which costs a request. A shorter stage shows no bar."""

CACHED = "cached"
"""Last message of a stage that was found in the store."""
watcher: ContextVar[Callable[[str, Progress | Exception], None] | None] = ContextVar("watcher", default=None)
"""A further listener to progress and errors by label, such as the terminal, while a flow runs in this process."""


def _worth_retrying(task_: Task[..., Any], run: TaskRun, state: State[Any]) -> bool:
    """Whether to retry after a failure: after a lost worker or rank, but not for a bad spec or bad input."""
    try:
        state.result()
    except (BrokenProcessPool, ConnectionError, TimeoutError, RankKilled):
        return True
    except Exception:
        return False
    return False


@task(
    name="stage",
    task_run_name="{label}",
    cache_policy=NO_CACHE,
    persist_result=False,
    retries=2,
    retry_delay_seconds=[5, 30],
    retry_condition_fn=_worth_retrying,
)
def step(
    label: str,
    node: Node,
    inputs: Mapping[str, str],
    runtime: TrainingRuntime,
    gate: Gate,
    *,
    rerun: bool,
    on_gpu: Mapping[str, Any] | None = None,
    lineage: Lineage = Lineage(None),  # noqa: B008 (which sends nothing)
) -> State[str]:
    """Build one stage and return its artifact's name. ``inputs`` are the names that earlier steps returned, by role.

    ``gate`` decides when: a stage that takes the whole machine runs alone, cells run next to each other. With ``on_gpu``, the
    parameters of the run, a worker of that pool builds the stage. ``lineage`` receives its events.
    """
    artifacts = {role: Artifact(name, runtime.store.resolve() / name) for role, name in inputs.items()}
    logger = get_run_logger()
    watched = runtime.reporting_to(reporter(label, logger))
    job = Job(node.stage, node.spec, artifacts, label, rerun and on_gpu is None)
    events = lineage.of_stage(job, runtime.store)
    try:
        if on_gpu is not None:
            events.start()
            _build_on_gpu(label, on_gpu, runtime, rerun=rerun)
        built = _built(job, watched, gate, events.start)
    except BaseException as error:
        events.fail(error)
        if isinstance(error, Exception) and (watch := watcher.get()) is not None:
            watch(label, error)
        raise
    events.complete(built)
    if not built.cached or on_gpu is not None:
        publish.outcome(label, built)
    watched.report(Progress(1, 1, "stages", message=CACHED if built.cached else _took(built)))
    name = built.artifact.name
    return Completed(name=publish.CACHED if built.cached else "Completed", message=_message(label, built), data=name)


def _built(job: Job, runtime: TrainingRuntime, gate: Gate, begin: Callable[[], None]) -> Built:
    """Build a stage once the gate lets it through; ``begin`` is called then."""
    if job.stage.memory_class is None or (runtime.cells_at_once == 1 and runtime.memory_gib is None):
        with gate.alone():
            begin()
            return build(job.stage, job.spec, job.inputs, runtime, label=job.label, rerun=job.rerun)
    if not job.rerun and (found := cached(job.stage, job.spec, job.inputs, runtime)) is not None:
        return Built(found, cached=True)  # which needs neither memory nor a process
    with gate.cell(Needs(runtime.store).of(job, runtime.memory_bytes)) as seat:
        begin()
        return build_in_subprocess(job, runtime.of_a_cell(seat), runtime.memory_bytes)


def _message(label: str, built: Built) -> str:
    if built.cached:
        return f"{label} is in the store: {built.artifact.name}"
    because = f" ({built.repaired})" if built.repaired else ""
    return f"{label} {_took(built)}: {built.artifact.name}{because}"


def _took(built: Built) -> str:
    stats = built.artifact.stats
    return f"built in {built.artifact.manifest['wall_seconds']:,.1f} s{_counted(stats)}{scored(stats)}"


def scored(stats: Mapping[str, Any]) -> str:
    """Return the metrics of a stage that trained something: ``, loss 2.051, mlm_accuracy 69.8 %, 1,234 tokens a second``."""
    parts = []
    if (metric := stats.get("metric")) and isinstance(stats.get("dev"), Mapping):
        parts = [
            f"{metric} {'undefined' if why_undefined(stats, metric, split) else f'{stats[split][metric]:.2f}'} on {split}"
            for split in ("dev", "test")
            if metric in stats.get(split, {})
        ]
    for name, value in (stats.get("heldout") or {}).items():
        if isinstance(value, int | float) and name.endswith(("_loss", "_accuracy")):
            parts.append(f"{name} {value:.1%}" if name.endswith("_accuracy") else f"{name} {value:.3f}")
    if speed := stats.get("tokens_per_second"):
        parts.append(f"{speed:,.0f} tokens a second")
    return "".join(f", {part}" for part in parts)


def _counted(stats: Mapping[str, Any]) -> str:
    """Return what happened to the documents of a stage: ``, 98 of 100 kept, 1 dropped, 1 quarantined``.

    Also names files of a directory that were not read. Empty if the stage counts no documents.
    """
    if "documents_out" not in stats:
        return ""
    dropped, quarantined = sum(stats.get("dropped", {}).values()), stats.get("quarantined", 0)
    files = stats.get("files") or stats["documents_in"]
    read = "" if files == stats["documents_in"] else f" {files:,} {'file' if files == 1 else 'files'} →"
    nothing = stats["documents_in"] and not stats["documents_out"]
    copies = stats.get("repeated", 0)  # included in documents_out
    kept = "NOTHING KEPT" if nothing else f"{stats['documents_out'] - copies:,}"
    text = f",{read} {kept} of {stats['documents_in']:,}{'' if nothing else ' kept'}"
    others = ((dropped, "dropped"), (quarantined, "quarantined"), (copies, "further copies made"))
    text += "".join(f", {number:,} {word}" for number, word in others if number)
    if unread := stats.get("files_unread"):
        text += f"; {unread:,} of {stats['files']:,} {'file' if files == 1 else 'files'} UNREAD"
    if cut := stats.get("files_cut"):
        text += f"; {cut:,} of {stats['files']:,} {'file' if files == 1 else 'files'} READ IN PART"
    if aside := stats.get("files_left_aside"):
        text += f"; left aside for their endings: {', '.join(f'{number:,} {ending}' for ending, number in aside.items())}"
    return text + "".join(f"\n  WARNING: {warning}" for warning in stats.get("warnings", ()))


def reporter(label: str, logger: Any) -> Callable[[Progress], None]:
    """Return a receiver of a stage's progress: it informs the listener, and at intervals the server's bar and log."""
    bar = publish.ProgressBar(label)
    watch = watcher.get()
    last = time.monotonic()

    def report(progress: Progress) -> None:
        nonlocal last
        if watch is not None:
            watch(label, progress)
        now = time.monotonic()
        final = progress.total is not None and progress.done >= progress.total
        if now - last >= SECONDS_BETWEEN_REPORTS or final or progress.message:
            last = now
            bar.update(progress)
            logger.info(publish.line(progress))

    return report
