"""A stage built by a run of its own on another work pool, followed to its end and cancelled with the run that waits."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any
from uuid import UUID

from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.objects import FlowRun
from prefect.deployments import run_deployment
from prefect.states import Cancelling

from korealbert.artifact import Runtime

_DEPLOYMENT = "one-stage/gpu"
_SECONDS_BETWEEN_LOOKS = 2.0


class DelegatedRunFailed(RuntimeError):
    """The run on the other work pool ended without its artifact; the message is that run's."""


class DelegatedRunLost(ConnectionError):
    """The run on the other work pool lost its process; another run goes on from what it left."""


def build_on_gpu(label: str, parameters: Mapping[str, Any], runtime: Runtime, *, rerun: bool) -> None:
    """Have the worker of the pool ``gpu`` build a stage, and return when it has.

    Raises DelegatedRunLost when its process was killed, and DelegatedRunFailed when it ended in any other way but well. Leaving
    early (a cancelled run) cancels that run too.
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
        told = ended.state.message if ended.state else ""
        lost = ended.state is not None and ended.state.is_crashed()
        kind = DelegatedRunLost if lost else DelegatedRunFailed
        raise kind(f"{label}: its run {ended.name} on the pool gpu ended as {ended.state_name}: {told}")


def _wait(client: SyncPrefectClient, run: UUID) -> FlowRun:
    while True:
        found = client.read_flow_run(run)
        if found.state is not None and found.state.is_final():
            return found
        time.sleep(_SECONDS_BETWEEN_LOOKS)
