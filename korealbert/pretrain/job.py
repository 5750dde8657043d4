"""Messages between the stage and its training processes: one JSON file in (``Job``), JSON lines out."""

from __future__ import annotations

import json
import signal
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict

from korealbert.model.config import AnyConfig
from korealbert.pretrain.runtime import Device
from korealbert.pretrain.spec import PretrainSpec

_MARK = "korealbert-event "
"""Prefix of the lines on rank 0's standard output that are events for the stage; other lines are log lines."""

AGENT_MARK = "korealbert-agent "
"""Prefix of the lines that a machine's agent sends to the launcher: ``JOINED`` and, at the end, an ``Outcome``."""

JOINED = AGENT_MARK + "joined"
"""Sent when all machines have joined."""

STOPPED_STATUS = 143
"""Exit status of a rank that was asked to stop: 128 + SIGTERM, as in a shell."""


class Job(BaseModel):
    """A pretraining run, as its ranks read it from JOB.json."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    spec: PretrainSpec
    config: AnyConfig
    examples: Path
    views: Path
    initial: Path | None = None
    """Directory of the weights that training starts from; None: random ones."""
    cooccurrence: Path | None = None
    """Directory of the initial word embeddings; None: random ones."""
    examples_long: Path | None = None
    """Rows of the phase of long sequences, if there is one."""
    views_long: Path | None = None
    """Their noise."""
    out_dir: Path
    device: Device


def event_line(kind: Literal["metrics", "stats", "stopped"], step: int, content: Any) -> str:
    """Return the line that sends an event to the stage."""
    return _MARK + json.dumps({"kind": kind, "step": step, "content": content})


def parse_event(line: str) -> dict[str, Any] | None:
    """Return the event of a line, or None for a log line."""
    if not line.startswith(_MARK):
        return None
    event: dict[str, Any] = json.loads(line.removeprefix(_MARK))
    return event


@dataclass
class Failure:
    """A rank that ended with an error."""

    rank: int
    status: int
    """Exit status, or the negative number of the signal that killed it."""
    at: float
    """Time of its error record or last output, in seconds since 1970. The cause of a failure precedes its effects."""
    words: str
    """Its traceback, or the last lines of its output."""
    machine: str

    @property
    def asked(self) -> bool:
        """Whether it was asked to end."""
        return self.status in (STOPPED_STATUS, -signal.SIGTERM)


@dataclass
class Outcome:
    """How the ranks of one machine, or of all, have ended."""

    failures: list[Failure] = field(default_factory=list)
    """Failed ranks; sorted, the cause first."""
    lost: list[str] = field(default_factory=list)
    """Machines whose heartbeats stopped."""
    problem: str = ""
    """Message of a failure that no rank caused."""

    def __post_init__(self) -> None:
        self.failures.sort(key=lambda failure: (failure.asked, failure.at))

    @property
    def well(self) -> bool:
        """Whether nothing failed."""
        return not (self.failures or self.lost or self.problem)

    def text(self) -> str:
        """Return the outcome as JSON."""
        return json.dumps(asdict(self))

    @classmethod
    def of(cls, text: str | bytes) -> Self:
        """Parse ``text()``."""
        given = json.loads(text)
        return cls(**{**given, "failures": [Failure(**failure) for failure in given["failures"]]})
