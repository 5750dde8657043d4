"""Markers of finished jobs: a job's statistics, and the files that it wrote with sha256, size and rows.

A marker ``.done/<step>-<number>.json`` is trusted only after its files were read and match: when a stage resumes, and again
when its output is sealed. It carries a digest of itself and the name of its job, so that a copy is not taken for another job's
marker.

A stage runs its steps in the same order every time, and a step reads files of earlier ones. Before a step runs a job, the
markers of all later steps are removed, wherever in the stage's directory they are.
"""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from korealbert.artifact.files import known_digested, remove, sha256_of_file, write_digested

DONE = ".done"

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _StageRun:
    partial: Path
    mapped: set[tuple[Path, str]] = field(default_factory=set)
    """Directory and name of each step that this run has reached."""


_stage_run: ContextVar[_StageRun | None] = ContextVar("_stage_run", default=None)


@contextlib.contextmanager
def stage_run(partial: Path) -> Iterator[None]:
    """Mark one run of a stage, from its first step to its last. All its markers are within ``partial``."""
    token = _stage_run.set(_StageRun(partial.resolve()))
    try:
        yield
    finally:
        _stage_run.reset(token)


def marker(out_dir: Path, step: str, index: int) -> Path:
    """Return the path of a job's marker."""
    return out_dir / DONE / f"{step}-{index:05d}.json"


def facts_of(written: Iterable[Path], out_dir: Path) -> dict[str, dict[str, Any]]:
    """Return sha256, size and rows of the files that a job wrote and left, by name within ``out_dir``."""
    files = sorted({path for path in written if path.is_relative_to(out_dir) and path.is_file()})
    return {str(path.relative_to(out_dir)): _facts(path) for path in files}


def _facts(path: Path) -> dict[str, Any]:
    facts: dict[str, Any] = {"sha256": sha256_of_file(path), "size": path.stat().st_size}
    return {**facts, "rows": rows_of(path)} if path.suffix == ".arrow" else facts


def rows_of(path: Path) -> int:
    """Return the number of rows of an Arrow IPC file."""
    import pyarrow as pa  # noqa: PLC0415 (a third of a second that planning need not wait)

    with pa.memory_map(str(path)) as source, pa.ipc.open_file(source) as reader:
        return int(reader.count_rows())


def write(path: Path, stats: Mapping[str, Any], files: Mapping[str, Any]) -> None:
    """Write the marker of a finished job."""
    write_digested(path, {"job": _job(path), "stats": stats, "files": files})


def _job(path: Path) -> str:
    """Return the job that a marker at this path belongs to: artifact, step and number."""
    return f"{path.parent.parent.name}/{path.stem}"


def remove_misplaced(partial: Path) -> None:
    """Remove from a partial directory what no stage writes: links (not their targets), and directories in place of files."""
    found = [partial] if os.path.lexists(partial) and (partial.is_symlink() or not partial.is_dir()) else []
    for each in found or sorted(partial.rglob("*")):
        strange = each.suffix in (".arrow", ".json") if each.is_dir() else each.name == DONE or not each.is_file()
        if found or each.is_symlink() or strange:
            kind = "link" if each.is_symlink() else "directory" if each.is_dir() else "file"
            log.warning("%s: no stage puts a %s here; it is removed", each, kind)
            remove(each)


def trusted(out_dir: Path, step: str, threads: int) -> dict[int, dict[str, Any]]:
    """Return the statistics of finished jobs of a step, by number, after checking their files.

    Invalid markers are removed, with a warning that names the file.
    """
    if (run := _stage_run.get()) is not None:
        run.mapped.add(((out_dir / DONE).resolve(), step))
    paths = [path for path in sorted((out_dir / DONE).glob(f"{step}-*.json")) if path.stem[len(step) + 1 :].isdigit()]
    with ThreadPoolExecutor(threads) as pool:
        faults = list(pool.map(fault, paths))
    forget({path: why for path, why in zip(paths, faults, strict=True) if why})
    found = {path: known_digested(path) for path in paths if path.exists()}
    return {int(path.stem[len(step) + 1 :]): dict(content["stats"]) for path, content in found.items() if content is not None}


def distrusted(partial: Path, digests: Mapping[str, str]) -> dict[Path, str]:
    """Return what is wrong with the files of each marker in a stage's directory, by marker.

    ``digests`` are the sha256 of files that were already read, by name within ``partial``.
    """
    return {path: why for path in sorted(partial.rglob(f"{DONE}/*.json")) if (why := fault(path, partial, digests))}


def named(path: Path) -> set[Path]:
    """Return the files that a marker lists; none if the marker is damaged."""
    content = known_digested(path)
    return {path.parent.parent / name for name in content["files"]} if content is not None else set()


def fault(path: Path, partial: Path | None = None, digests: Mapping[str, str] | None = None) -> str | None:
    """Return why a marker cannot be trusted, or None."""
    content = known_digested(path)
    if content is None:
        return "its marker is damaged"
    if content.get("job") != _job(path):
        return "its marker is that of another job"
    for name, facts in content["files"].items():
        file = path.parent.parent / name
        try:
            known = digests.get(str(file.relative_to(partial))) if partial is not None and digests is not None else None
            if (known or sha256_of_file(file)) != facts["sha256"]:
                return f"{name} has another sha256 than when it was finished"
        except OSError as error:
            return f"{name} cannot be read ({error.strerror})"
    return None


def forget(faults: Mapping[Path, str]) -> None:
    """Remove markers that cannot be trusted, with a warning that says why."""
    for path, why in faults.items():
        log.warning("%s: %s; it is built again", path.stem, why)
        path.unlink(missing_ok=True)


def forget_later_steps() -> None:
    """Remove the markers of all steps that this run has not reached: they may have read files that are now rebuilt."""
    if (run := _stage_run.get()) is not None:
        for path in run.partial.rglob(f"{DONE}/*.json"):
            if (path.parent, path.stem.rpartition("-")[0]) not in run.mapped:
                path.unlink(missing_ok=True)
