"""A grid of fine-tuning cells in a process that is killed and resumed: which cells were finished, and which built again."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import psutil

from korealbert.artifact.spec import ARTIFACT_NAME
from korealbert.pretrain.runtime import TrainingRuntime

SECONDS_TO_WAIT = 300


def finished(store: Path) -> dict[str, int]:
    """The finished cells of a store, with the time at which their manifests were written."""
    manifests = [path for path in store.glob("finetune-*/manifest.json") if ARTIFACT_NAME.fullmatch(path.parent.name)]
    return {path.parent.name: path.stat().st_mtime_ns for path in manifests}


def start(recipe: Path, store: Path, cells: int, api: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-W", "ignore", "-m", "tests.flows.killed_grid", str(recipe), str(store), str(cells)]
    environment = {**os.environ, "PREFECT_API_URL": api, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment, cwd=Path(__file__).parents[2]
    )


def kill_after(process: subprocess.Popen[str], store: Path, more: int) -> dict[str, int]:
    """SIGKILL a run after ``more`` finished cells; returns the finished cells when all its processes are gone."""
    before = len(finished(store))
    deadline = time.monotonic() + SECONDS_TO_WAIT
    while process.poll() is None and len(finished(store)) < before + more and time.monotonic() < deadline:
        time.sleep(0.01)
    assert process.poll() is None, f"the run ended before it was killed:\n{process.communicate()[0][-3000:]}"
    children = psutil.Process(process.pid).children(recursive=True)
    process.kill()
    process.communicate()
    _, alive = psutil.wait_procs(children, timeout=600)
    assert not alive, f"{len(alive)} processes outlived the run"
    return finished(store)


def finish(process: subprocess.Popen[str]) -> None:
    output, _ = process.communicate(timeout=900)
    assert process.returncode == 0, output[-5000:]


def main(recipe: str, store: str, cells: str) -> None:
    """Run a recipe's fine-tuning through the flow."""
    from korealbert.flows.corpus_to_model import corpus_to_model  # not needed by the process of a cell, which loads this file

    runtime = TrainingRuntime(store=Path(store), workers=1, threads=int(cells), cells=int(cells), device="cpu")
    corpus_to_model(Path(recipe), until="summary", runtime=runtime)


if __name__ == "__main__":
    main(*sys.argv[1:])
