"""SIGKILL during each stage: the next run gives the bytes of an uninterrupted run and repeats no finished shard."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from multiprocessing.process import BaseProcess
from pathlib import Path

import pytest

from korealbert import recipe as recipes
from korealbert.artifact import Artifact, ancestors
from tests.flows.conftest import TINY
from tests.flows.stage_runner import begun, build_one

LABELS = list({node.stage.name: label for label, node in reversed(recipes.graph(recipes.load(TINY)).items())}.values())[::-1]
"""The first label of each stage; ``make soak`` kills all of a recipe."""
SECONDS_TO_DIE, SECONDS_TO_BEGIN = 120, 600
ATTEMPTS = 2
"""A stage of milliseconds may end while this process sleeps. In the last attempt it hangs and waits for the kill."""

FORKSERVER = multiprocessing.get_context("forkserver")
# Imports that take seconds; stages that train need the last three.
FORKSERVER.set_forkserver_preload(
    ["tests.flows.stage_runner", "torch", "transformers.modeling_utils", "korealbert.finetune.encoders.tokenizer"]
)


def start(label: str, store: Path, held: Path | None = None) -> BaseProcess:
    """Start a process that builds one stage; see ``build_one``."""
    process = FORKSERVER.Process(target=build_one, args=(TINY, label, store, held))
    process.start()
    return process


def store_with_inputs_of(artifact: Artifact, store: Path) -> None:
    """Make a store with all ancestors of an artifact and nothing else."""
    store.mkdir()
    for ancestor in ancestors(artifact.inputs()).values():
        shutil.copytree(ancestor.path, store / ancestor.name)


def kill_when(process: BaseProcess, partial: Path) -> None:
    """SIGKILL a process as soon as its stage has begun (or let it end, if it is faster)."""
    deadline = time.monotonic() + SECONDS_TO_DIE
    while process.is_alive() and not begun(partial) and time.monotonic() < deadline:
        time.sleep(0.001)
    process.kill()
    process.join()


@pytest.mark.parametrize("label", LABELS)
def test_killed_and_resumed_equals_straight(label: str, straight: dict[str, Artifact], tmp_path: Path) -> None:
    expected = straight[label]
    for attempt in range(ATTEMPTS):
        store = tmp_path / f"store-{attempt}"
        store_with_inputs_of(expected, store)
        partial = store / f"{expected.name}.partial"
        kill_when(start(label, store, partial if attempt == ATTEMPTS - 1 else None), partial)
        if not (store / expected.name).exists():
            break
    else:
        pytest.fail("the stage did not stand still")
    assert partial.is_dir()
    done = {marker: marker.stat().st_mtime_ns for marker in partial.glob(".done/*.json")}
    outputs = {p: p.stat().st_mtime_ns for p in partial.glob("*.arrow")} if done else {}

    resumed = start(label, store)
    resumed.join(240)
    assert resumed.exitcode == 0
    assert Artifact(expected.name, store / expected.name).output_digest == expected.output_digest
    indices = {marker.stem.rsplit("-", 1)[-1] for marker in done}
    for path, written in outputs.items():
        if path.stem.rsplit("-", 1)[-1] in indices:
            assert (store / expected.name / path.name).stat().st_mtime_ns == written, f"{path.name} was written again"


def start_run(store: Path, *options: str) -> subprocess.Popen[bytes]:
    """Start ``korealbert run`` of the recipe, as a terminal does: in a process group of its own."""
    command = [sys.executable, "-m", "korealbert", "run", str(TINY), "--store", str(store), *options]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, start_new_session=True)


def wait_until(begun: Callable[[], object], process: subprocess.Popen[bytes], event: str) -> None:
    """Wait until an event of a running process."""
    deadline = time.monotonic() + SECONDS_TO_BEGIN
    while not begun():
        assert process.poll() is None and time.monotonic() < deadline, f"{event} never began"
        time.sleep(0.05)


@pytest.mark.timeout(900)
@pytest.mark.usefixtures("one_server")
def test_a_terminated_run_leaves_without_finishing_what_it_does(straight: dict[str, Artifact], tmp_path: Path) -> None:
    store = tmp_path / "store"
    shutil.copytree(straight["vocab"].path.parent, store)
    finished = set(store.glob("finetune-*/manifest.json"))
    process = start_run(store, "--until", "finetune/nsmc/pretrained", "--set", "finetune.nsmc.epochs=1000")
    try:
        wait_until(lambda: list(store.glob("finetune-*.partial")), process, "fine-tuning")
        process.terminate()
        assert process.wait(600) == 128 + signal.SIGTERM
        assert set(store.glob("finetune-*/manifest.json")) == finished, "its thousand epochs were finished first"
    finally:
        process.kill()
        process.wait()


@pytest.mark.timeout(900)
@pytest.mark.usefixtures("one_server")
def test_ctrl_c_during_training_saves_a_checkpoint(straight: dict[str, Artifact], tmp_path: Path) -> None:
    store = tmp_path / "store"
    shutil.copytree(straight["vocab"].path.parent, store)
    metrics = "pretrain-*.partial/metrics.jsonl"
    endless = ("pretrain.steps=1_000_000", "pretrain.checkpoint_every=1_000_000", "pretrain.log_every=1")
    process = start_run(store, "--until", "pretrain", *(option for field in endless for option in ("--set", field)))
    try:
        wait_until(lambda: any('"step": 1,' in path.read_text() for path in store.glob(metrics)), process, "pretraining")
        os.killpg(process.pid, signal.SIGINT)
        assert process.wait(600) != 0
        saved = store.glob("pretrain-*.partial/.checkpoints/step-*")
        assert [path for path in saved if path.name != "step-00000000"]
    finally:
        process.kill()
        process.wait()
