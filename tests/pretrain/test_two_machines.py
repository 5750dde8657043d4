"""Training on two machines, here two launchers on loopback: killed, resumed, and equal to two ranks on one machine."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from korealbert.artifact import Artifact, Progress, Runtime, build
from korealbert.pretrain.launch import RankKilled
from korealbert.pretrain.spec import PretrainSpec
from korealbert.pretrain.stage import STAGE
from tests.pretrain.runs import same_bytes
from tests.pretrain.shards import build_ancestry
from tests.pretrain.test_launch import wait_until

SPEC: dict[str, Any] = {
    "model": {"hidden_size": 32, "embedding_size": 16, "num_heads": 2, "num_layers": 2, "max_positions": 32},
    "steps": 40,
    "global_batch_size": 8,
    "micro_batch_size": 4,
    "optimizer": {"lr": 0.01},
    "log_every": 1,
    "heldout_every": 40,
    "checkpoint_every": 10,
}

LEADER = """
import sys
from pathlib import Path
from korealbert.artifact import Artifact, Progress, Runtime, build
from korealbert.pretrain.hosts import leading
from korealbert.pretrain.spec import PretrainSpec
from korealbert.pretrain.stage import STAGE
store, spec, *paths = sys.argv[1:]
inputs = {role: Artifact(Path(path).name, Path(path)) for role, path in zip(("vocab", "examples", "views"), paths)}
runtime = Runtime(store=Path(store), threads=1, device="cpu", nodes=2, address="127.0.0.1")
with leading(runtime):
    build(STAGE, PretrainSpec.model_validate_json(spec), inputs, runtime.reporting_to(lambda p: print(p.done, flush=True)))
"""


def started(store: Path, ancestry: dict[str, Artifact]) -> tuple[subprocess.Popen[str], subprocess.Popen[str]]:
    """The leader and its member, each a process of its own."""
    paths = [str(ancestry[role].path) for role in ("vocab", "examples", "views")]
    spec = PretrainSpec.model_validate(SPEC).model_dump_json()
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    leader = subprocess.Popen([sys.executable, "-c", LEADER, str(store), spec, *paths], **pipes)
    command = ["korealbert.pretrain.member", "--store", str(store), "--meeting", "run", "--node", "1"]
    member = subprocess.Popen([sys.executable, "-m", *command, "--processes", "1", "--threads", "1"], **pipes)
    return leader, member


def ranks_using(store: Path) -> list[int]:
    """Workers that train in this store."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().split(b"\0")
        except (FileNotFoundError, ProcessLookupError):
            continue
        if b"korealbert.pretrain.worker" in words and any(str(store).encode() in word for word in words):
            found.append(int(path.parent.name))
    return found


def test_two_machines_train_as_one_also_after_one_was_killed(tmp_path: Path) -> None:
    ancestry = build_ancestry(tmp_path / "inputs")
    store = tmp_path / "store"
    leader, member = started(store, ancestry)
    try:
        assert leader.stdout is not None
        wait_until(lambda: any(store.glob("*.partial/.checkpoints/step-00000010")), 60)
        assert len(ranks_using(store)) == 2
        os.kill(member.pid, signal.SIGKILL)
        killed = time.monotonic()
        told, _ = leader.communicate(timeout=40)
        assert time.monotonic() - killed < 20
    finally:
        for process in (leader, member):
            process.kill()
            process.communicate()
    assert leader.returncode == 1
    assert "RankKilled: training process 1 of 2 on" in told
    assert "was lost with its machine" in told
    assert not ranks_using(store)

    leader, member = started(store, ancestry)
    told, _ = leader.communicate(timeout=120)
    assert leader.returncode == 0, told
    assert member.wait(timeout=20) == 0
    member.communicate()
    (resumed,) = [path for path in store.glob("pretrain-*") if path.is_dir()]
    found = Artifact(resumed.name, resumed)
    assert found.stats["resumed_from_step"] >= 10
    runtime = Runtime(store=tmp_path / "one", threads=1, processes=2, device="cpu")
    straight = build(STAGE, PretrainSpec.model_validate(SPEC), ancestry, runtime).artifact
    same_bytes(straight.path, found.path)


def test_a_killed_rank_ends_the_other_within_seconds(tmp_path: Path) -> None:
    ancestry, store = build_ancestry(tmp_path / "inputs"), tmp_path / "store"
    hit: list[float] = []

    def strike(progress: Progress) -> None:
        if progress.done >= 2 and not hit:
            os.kill(max(ranks_using(store)), signal.SIGKILL)
            hit.append(time.monotonic())

    runtime = Runtime(store=store, threads=1, processes=2, device="cpu").reporting_to(strike)
    with pytest.raises(RankKilled, match=r"of 2 was killed by SIGKILL \(out of memory\?\)"):
        build(STAGE, PretrainSpec.model_validate({**SPEC, "steps": 100_000}), ancestry, runtime)
    assert time.monotonic() - hit[0] < 10
    assert not ranks_using(store)
