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
"""Begins each line on rank 0's standard output that is meant for the stage; all other lines are log lines."""

AGENT_MARK = "korealbert-agent "
"""Begins each line of the agent of a machine that is meant for the launcher: ``JOINED``, and at the end an ``Outcome``."""

JOINED = AGENT_MARK + "joined"
"""Says that all machines have met."""

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
    cooccurrence: Path | None = None
    """Directory of the vectors that the word embeddings begin with; None: random ones."""
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


@dataclass
class Failure:
    """A rank that ended with an error."""

    rank: int
    status: int
    """Exit status; negative: the signal that killed it."""
    at: float
    """Time of its error record, else of its last output, in seconds since 1970: earlier than the errors that it caused."""
    words: str
    """Its traceback, or else the last lines that it wrote."""
    machine: str

    @property
    def asked(self) -> bool:
        """Whether it ended because it was asked to."""
        return self.status in (STOPPED_STATUS, -signal.SIGTERM)


@dataclass
class Outcome:
    """The outcome of the ranks of one machine, or of all."""

    failures: list[Failure] = field(default_factory=list)
    """The cause first."""
    lost: list[str] = field(default_factory=list)
    """Machines that stopped giving signs of life."""
    problem: str = ""
    """A failure that no rank caused."""

    @property
    def well(self) -> bool:
        """Whether all ranks have ended as they should."""
        return not (self.failures or self.lost or self.problem)

    def text(self) -> str:
        """As JSON."""
        return json.dumps(asdict(self))

    @classmethod
    def of(cls, text: str | bytes) -> Self:
        """From JSON."""
        given = json.loads(text)
        return cls(**{**given, "failures": [Failure(**failure) for failure in given["failures"]]})
