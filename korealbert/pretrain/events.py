"""Metrics as an event file of TensorBoard, which repeats byte for byte: a step stands where TensorBoard expects seconds."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

EVENT_FILE = "events.out.tfevents.0.pretrain"
"""TensorBoard looks for files named so; a fixed name has a resumed run go on in the same one."""

NOT_SCALARS = {"split", "step"}


class EventFile:
    """A fresh event file in a directory. Needs the package ``tensorboard``."""

    def __init__(self, directory: Path) -> None:
        from tensorboard.compat.proto.event_pb2 import Event  # noqa: PLC0415 - optional, and slow to import
        from tensorboard.compat.proto.summary_pb2 import Summary  # noqa: PLC0415
        from tensorboard.summary.writer.record_writer import RecordWriter  # noqa: PLC0415

        self._event, self._summary, self._writer = Event, Summary, RecordWriter
        self._path = directory / EVENT_FILE
        self._path.write_bytes(b"")
        self._write(Event(wall_time=0.0, file_version="brain.Event:2"))

    def append(self, line: Mapping[str, Any]) -> None:
        """The numbers of one line of ``metrics.jsonl``, as ``<split>/<name>`` at its step."""
        values = [
            self._summary.Value(tag=f"{line['split']}/{name}", simple_value=value)
            for name, value in line.items()
            if name not in NOT_SCALARS and isinstance(value, int | float)
        ]
        self._write(self._event(wall_time=float(line["step"]), step=line["step"], summary=self._summary(value=values)))

    def _write(self, event: Any) -> None:
        with self._path.open("ab") as handle:
            self._writer(handle).write(event.SerializeToString())
