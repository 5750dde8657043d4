"""Messages between the stage and its training processes: one JSON file in (``Job``), JSON lines out. Also the check of the
example rows against spec and model before launch, without torch."""

from __future__ import annotations

import json
import signal
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict

from korealbert.examples.batches import Batch, ExampleBatches
from korealbert.examples.best_fit import PackedBatches
from korealbert.model.config import AnyConfig, ModernConfig
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


class BatchSource(Protocol):
    """The interface of example rows that pretraining uses; ``korealbert.examples.batches.ExampleBatches`` has it."""

    num_rows: int
    num_views: int
    sequence_length: int
    vocab_size: int

    def gather(self, view: int, rows: NDArray[np.int64]) -> Batch:
        """The noised sequences of these rows in one view."""
        ...

    def noised(self, view: int) -> tuple[float, float]:
        """Shares of the pieces that a view has predicted and moved."""
        ...


class Rows(NamedTuple):
    """Rows of one sequence length. There are no held-out scores where ``heldout`` has no rows."""

    train: BatchSource
    heldout: BatchSource


def check_rows(spec: PretrainSpec, config: AnyConfig, short: Rows, long: Rows | None) -> None:
    """Raise ValueError naming both sides where spec, model and rows do not fit together."""
    if (spec.long is None) != (long is None):
        raise ValueError(
            f"long = {spec.long!r}, but {'there are' if long else 'there are no'} long examples; give both or neither"
        )
    rows = [short, *([long] if long else [])]
    if long is not None and long.train.sequence_length <= short.train.sequence_length:
        raise ValueError(
            f"the long examples are {long.train.sequence_length} tokens long, the short ones {short.train.sequence_length}; "
            "pack the long ones with a larger sequence_length"
        )
    for part in rows:
        if part.train.vocab_size != config.vocab_size:
            raise ValueError(
                f"the examples were packed with {part.train.vocab_size:,} pieces, but the model has {config.vocab_size:,}; "
                "pack them with the model's vocabulary"
            )
    longest = rows[-1].train.sequence_length
    if longest > config.longest_sequence:
        raise ValueError(
            f"the examples are {longest} tokens long, but max_positions = {config.max_positions}; "
            "raise max_positions in [pretrain.model] or pack shorter examples"
        )
    if config.word_order_classes not in {0, 2 * spec.reach + 1 if spec.reach else longest}:
        raise ValueError(
            f"word_order_classes = {config.word_order_classes}, but the examples are {longest} tokens long; "
            f"the word-order head needs a class per {'offset' if spec.reach else 'position'}"
        )
    if spec.theta_at(spec.steps) is not None and not isinstance(config, ModernConfig):
        raise ValueError("long.global_theta has no meaning in a model of learnt positions; remove it")
    if spec.packing != "none" and not isinstance(config, ModernConfig):
        raise ValueError(
            f"packing = {spec.packing!r} needs a model that keeps the sequences of a row apart; "
            "set packing = 'none' or architecture = 'modern' in [pretrain.model]"
        )


def open_batches(spec: PretrainSpec, examples: Path, views: Path, split: Literal["train", "heldout"]) -> ExampleBatches:
    """The rows of a split as the spec wants them. Raises ValueError as ``ExampleBatches`` and ``PackedBatches``."""
    kind = ExampleBatches if spec.packing == "none" else PackedBatches
    return kind(examples, views, split, wop_reach=spec.reach)
