"""SIGKILL during each stage in turn: the re-run ends with the bytes of an uninterrupted run and redoes no finished shard."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from korealbert import recipe as recipes
from korealbert.artifact import Artifact, ancestors
from tests.flows.conftest import TINY

LABELS = list(recipes.graph(recipes.load(TINY)))
RUNNER = Path(__file__).with_name("stage_runner.py")
SECONDS_TO_DIE = 120


def store_with_inputs_of(artifact: Artifact, store: Path) -> None:
    """A store that holds all ancestors of an artifact and nothing else."""
    store.mkdir()
    for ancestor in ancestors(artifact.inputs()).values():
        shutil.copytree(ancestor.path, store / ancestor.name)


def kill_when(process: subprocess.Popen[bytes], ready: Callable[[], bool]) -> None:
    """SIGKILL a process as soon as ``ready`` holds (or let it end, if it is faster)."""
    deadline = time.monotonic() + SECONDS_TO_DIE
    while process.poll() is None and not ready() and time.monotonic() < deadline:
        time.sleep(0.001)
    process.kill()
    process.wait()


@pytest.mark.parametrize("label", LABELS)
def test_killed_and_resumed_equals_straight(label: str, straight: dict[str, Artifact], tmp_path: Path) -> None:
    expected = straight[label]
    store = tmp_path / "store"
    store_with_inputs_of(expected, store)
    command = [sys.executable, str(RUNNER), str(TINY), label, str(store), "1"]
    partial = store / f"{expected.name}.partial"

    def something_done() -> bool:
        return partial.is_dir() and any(not p.name.startswith(".opening") for p in partial.rglob("*") if p.is_file())

    kill_when(subprocess.Popen(command), something_done)
    assert not (store / expected.name).exists(), "the stage was faster than the kill"
    assert partial.is_dir()
    done = {marker: marker.stat().st_mtime_ns for marker in partial.glob(".done/*.json")}
    outputs = {p: p.stat().st_mtime_ns for p in partial.glob("*.arrow")} if done else {}

    resumed = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert resumed.returncode == 0, resumed.stderr
    assert resumed.stdout.split()[-2:] == [expected.name, expected.output_digest]
    indices = {marker.stem.rsplit("-", 1)[-1] for marker in done}
    for path, written in outputs.items():
        if path.stem.rsplit("-", 1)[-1] in indices:
            assert (store / expected.name / path.name).stat().st_mtime_ns == written, f"{path.name} was written again"
