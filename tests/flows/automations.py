"""Runs the documented automations on a real server, and reports which of them are triggered."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

import yaml

FILE = Path(__file__).parents[2] / "docs" / "automations.yaml"
SECONDS_OF_STALL = 10
"""The shortest time that a server accepts for an automation on a missing event."""

Api = Callable[[str, Any], Any]


def create(api: Api) -> dict[str, str]:
    """Create all automations of the page, with seconds instead of hours; returns their names by id."""
    made = {}
    for each in yaml.safe_load(FILE.read_text("utf-8"))["automations"]:
        if each["trigger"]["within"]:
            each["trigger"]["within"] = SECONDS_OF_STALL
        made[str(api("automations/", each)["id"])] = str(each["name"])
    return made


def begin(api: Api, flow: str) -> str:
    """Start a run of ours without a process."""
    flow_id = api("flows/", {"name": flow})["id"]
    run = str(api("flow_runs/", {"flow_id": flow_id, "tags": ["korealbert"], "state": {"type": "PENDING"}})["id"])
    move(api, run, "RUNNING")
    return run


def move(api: Api, run: str, state: str) -> None:
    """Set the run's next state."""
    api(f"flow_runs/{run}/set_state", {"state": {"type": state}, "force": True})


def triggered(api: Api, made: dict[str, str], wanted: set[str], *, seconds: float) -> set[str]:
    """Return the names of triggered automations once all wanted ones are among them, or the time is over."""
    deadline = time.monotonic() + seconds
    while True:
        events = api("events/filter", {"filter": {"event": {"name": ["prefect.automation.triggered"]}}, "limit": 50})["events"]
        ids = {each["resource"]["prefect.resource.id"].rpartition(".")[2] for each in events}
        found = {made[each] for each in ids if each in made}
        if wanted <= found or time.monotonic() > deadline:
            return found
        time.sleep(0.5)


def heartbeat(api: Api, run: str) -> None:
    """Send what the process of a run sends every half minute."""
    event = {"event": "prefect.flow-run.heartbeat", "resource": {"prefect.resource.id": f"prefect.flow-run.{run}"}}
    api("events", [{**event, "id": str(uuid4()), "occurred": datetime.now(UTC).isoformat()}])
