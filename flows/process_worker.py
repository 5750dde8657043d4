"""Prefect's process worker, changed so that its runs are known to be lost when it dies; ``flows/worker.py`` starts it.

Usage: python -m korealbert.flows.process_worker worker start --type process --pool POOL   (options as of ``prefect``)

It announces each run (``recovery.py``) before claiming it, and until Prefect knows how the run ended. The kernel kills a run's
process when the worker dies; otherwise the process would live on, find its log's pipe closed and report the run as crashed.
Prefect has no hook for either, so its functions are replaced; its version is pinned.
"""

from __future__ import annotations

import os
import sys
from contextlib import ExitStack
from functools import wraps
from typing import Any
from uuid import UUID

from prefect.cli import app
from prefect.client.schemas.objects import FlowRun
from prefect.runner import _starter_engine
from prefect.workers.process import ProcessWorker

from korealbert.artifact.store import default_store
from korealbert.flows.recovery import announced

_BOUND = """
import os, sys
from korealbert.artifact.shards import die_with_parent
die_with_parent(int(sys.argv[1]))
os.execvp(sys.argv[2], sys.argv[2:])
"""
"""What a run's process executes first. The kernel's promise to kill it survives ``exec``."""

_REPLACED = "run_process"


def announcing() -> None:
    """Replace, in this process, the functions that claim and submit runs and that start processes."""
    claim, submit = ProcessWorker._propose_pending_state, ProcessWorker._submit_run_and_capture_errors
    run_process = getattr(_starter_engine, _REPLACED)
    held: dict[UUID, ExitStack] = {}

    @wraps(claim)
    async def announced_claim(self: ProcessWorker, flow_run: FlowRun) -> bool:
        with ExitStack() as stack:
            stack.enter_context(announced(flow_run.id, flow_run.run_count + 1, default_store()))
            if claimed := await claim(self, flow_run):
                held[flow_run.id] = stack.pop_all()
            return claimed

    @wraps(submit)
    async def announced_run(self: ProcessWorker, flow_run: FlowRun, *args: Any, **kwargs: Any) -> Any:
        with held.pop(flow_run.id, ExitStack()):
            return await submit(self, flow_run, *args, **kwargs)

    @wraps(run_process)
    async def bound_process(command: list[str], **kwargs: Any) -> Any:
        return await run_process([sys.executable, "-c", _BOUND, str(os.getpid()), *command], **kwargs)

    # A subclass could not serve pools of the type `process`.
    setattr(ProcessWorker, claim.__name__, announced_claim)
    setattr(ProcessWorker, submit.__name__, announced_run)
    setattr(_starter_engine, _REPLACED, bound_process)


if __name__ == "__main__":
    announcing()
    app()
