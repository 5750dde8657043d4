"""Training on two machines, here two launchers on loopback: killed, resumed, and equal to two ranks on one machine."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from korealbert.artifact import Artifact
from tests.pretrain.conftest import TWO_RANKS
from tests.pretrain.runs import ranks_using, same_bytes
from tests.pretrain.test_launch import wait_until

LEADER = """
import sys
from pathlib import Path
from korealbert.artifact import Artifact, Progress, build
from korealbert.pretrain.runtime import TrainingRuntime
from korealbert.pretrain.hosts import leading
from korealbert.pretrain.spec import PretrainSpec
from korealbert.pretrain.stage import STAGE
store, spec, *paths = sys.argv[1:]
inputs = {role: Artifact(Path(path).name, Path(path)) for role, path in zip(("vocab", "examples", "views"), paths)}
runtime = TrainingRuntime(store=Path(store), threads=1, device="cpu", nodes=2, address="127.0.0.1")
with leading(runtime):
    build(STAGE, PretrainSpec.model_validate_json(spec), inputs, runtime.reporting_to(lambda p: print(p.done, flush=True)))
"""


def started(store: Path, ancestry: dict[str, Artifact]) -> tuple[subprocess.Popen[str], subprocess.Popen[str]]:
    """The leader and its member, each a process of its own."""
    paths = [str(ancestry[role].path) for role in ("vocab", "examples", "views")]
    spec = TWO_RANKS.model_dump_json()
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    leader = subprocess.Popen([sys.executable, "-c", LEADER, str(store), spec, *paths], **pipes)
    command = ["korealbert.pretrain.member", "--store", str(store), "--meeting", "run", "--node", "1"]
    member = subprocess.Popen([sys.executable, "-m", *command, "--processes", "1", "--threads", "1"], **pipes)
    return leader, member


def test_two_machines_train_as_one_also_after_one_was_killed(
    ancestry: dict[str, Artifact], two_ranks: Artifact, tmp_path: Path
) -> None:
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
    assert same_bytes(two_ranks.path, found.path)
