"""Rows on disk in partitions: what does not fit into memory is sorted and joined a partition at a time."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

ROWS_PER_PARTITION = 1 << 19
"""Rows that are sorted at once; a few tens of MB with the copies that sorting takes."""

Rows = npt.NDArray[Any]


class Partitions:
    """Rows of one dtype in numbered files, each appended to; whoever writes starts with none."""

    def __init__(self, directory: Path, dtype: npt.DTypeLike) -> None:
        self.directory, self.dtype = directory, np.dtype(dtype)

    def clear(self) -> None:
        """Forget all rows, those of a killed try too."""
        shutil.rmtree(self.directory, ignore_errors=True)
        self.directory.mkdir(parents=True)

    def append(self, rows: Rows, partitions: npt.NDArray[np.integer[Any]]) -> None:
        """Add each row to the partition given for it, in the order of ``rows``."""
        order = np.argsort(partitions, kind="stable")
        present, starts = np.unique(partitions[order], return_index=True)
        for partition, part in zip(present.tolist(), np.split(rows[order], starts[1:])):
            with self._path(partition).open("ab") as sink:
                sink.write(part.astype(self.dtype, copy=False).tobytes())

    def read(self, partition: int) -> Rows:
        """All rows of a partition, in the order in which they were added."""
        path = self._path(partition)
        return np.fromfile(path, dtype=self.dtype) if path.exists() else np.empty(0, dtype=self.dtype)

    def _path(self, partition: int) -> Path:
        return self.directory / f"{partition:05d}.bin"


def partitions_for(rows: int, rows_each: int) -> int:
    """How many partitions hold that many rows; at least one."""
    return max(1, -(-rows // rows_each))
