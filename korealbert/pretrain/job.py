"""What the stage and its training processes send each other: one JSON file in, JSON lines out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from korealbert.model.config import AnyConfig
from korealbert.pretrain.runtime import Device
from korealbert.pretrain.spec import PretrainSpec

_MARK = "korealbert-event "
"""Begins each line on rank 0's standard output that is meant for the stage; all other lines are log lines."""

AGENT_MARK = "korealbert-agent "
"""Begins each line of the agent of a machine that is meant for the launcher."""

STOPPED_STATUS = 143
"""Exit status of a rank that was asked to stop: 128 + SIGTERM, as a shell would say."""


class Job(BaseModel):
    """A pretraining run as its processes need it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    spec: PretrainSpec
    config: AnyConfig
    examples: Path
    views: Path
    initial: Path | None = None
    """Directory of the weights that training starts from; None: fresh ones."""
    examples_long: Path | None = None
    """Rows of the phase of long sequences, where there is one."""
    views_long: Path | None = None
    """Their noise."""
    out_dir: Path
    device: Device


def event_line(kind: Literal["metrics", "stats", "stopped"], step: int, content: Any) -> str:
    """One line for the stage."""
    return _MARK + json.dumps({"kind": kind, "step": step, "content": content})


def parse_event(line: str) -> dict[str, Any] | None:
    """The event of a line, or None for a log line."""
    if not line.startswith(_MARK):
        return None
    event: dict[str, Any] = json.loads(line.removeprefix(_MARK))
    return event
