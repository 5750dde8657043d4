"""Training on two machines gives the result of one, also after a machine was lost, and on fewer ranks after that.

The machines are network namespaces, if the user may create them, joined by a virtual cable.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from safetensors.numpy import load_file

from korealbert.artifact import Artifact, build
from korealbert.pretrain.runtime import TrainingRuntime
from korealbert.pretrain.stage import STAGE
from tests.pretrain.conftest import TWO_RANKS
from tests.pretrain.runs import ranks_using, same_bytes
from tests.pretrain.test_launch import wait_until

LEADER = """
import sys
from pathlib import Path
from korealbert.artifact import Artifact, build
from korealbert.pretrain.machines import leading
from korealbert.pretrain.runtime import TrainingRuntime
from korealbert.pretrain.spec import PretrainSpec
from korealbert.pretrain.stage import STAGE
store, address, spec, *paths = sys.argv[1:]
inputs = {role: Artifact(Path(path).name, Path(path)) for role, path in zip(("vocab", "examples", "views"), paths)}
runtime = TrainingRuntime(store=Path(store), threads=1, device="cpu", nodes=2, address=address)
with leading(runtime):
    build(STAGE, PretrainSpec.model_validate_json(spec), inputs, runtime.reporting_to(lambda p: print(p.done, flush=True)))
"""

MEMBER = """
import sys
from pathlib import Path
from korealbert.pretrain.machines import LeaderGone, serve
from korealbert.pretrain.runtime import TrainingRuntime
try:
    serve(TrainingRuntime(store=Path(sys.argv[1]), threads=1, nodes=2, node=1))
except LeaderGone as gone:
    sys.exit(str(gone))
"""

SECONDS_TO_END = 600

OF_A_GROUP = {"GLOO_SOCKET_IFNAME", "LOCAL_RANK", "NCCL_SOCKET_IFNAME"}

INSIDE = ["unshare", "--user", "--map-root-user", "--net", "--uts", "--fork", "--kill-child"]
"""Starts a command in a network and with a host name of its own."""


class Machines:
    """Two machines: the prefixes that run a command on each, and the leader's address."""

    def __init__(self, prefixes: tuple[list[str], list[str]], address: str) -> None:
        self.prefixes, self.address = prefixes, address

    def cable(self, state: str) -> None:
        """Cut the cable ("down") or restore it ("up")."""
        subprocess.run([*self.prefixes[1], "ip", "link", "set", "eth0", state], check=True)

    def started(self, store: Path, ancestry: dict[str, Artifact]) -> tuple[subprocess.Popen[str], subprocess.Popen[str]]:
        """Start the leader and the other machine, each as a process."""
        paths = [str(ancestry[role].path) for role in ("vocab", "examples", "views")]
        # Variables that an earlier process group of this process has set are wrong on other machines.
        environment = {key: value for key, value in os.environ.items() if key not in OF_A_GROUP}
        pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True, "env": environment}
        spec = TWO_RANKS.model_dump_json()
        arguments = [sys.executable, "-c", LEADER, str(store), self.address, spec, *paths]
        leader = subprocess.Popen([*self.prefixes[0], *arguments], **pipes)
        return leader, subprocess.Popen([*self.prefixes[1], sys.executable, "-c", MEMBER, str(store)], **pipes)


@pytest.fixture
def cabled() -> Iterator[Machines]:
    """Two namespaces with 10.77.0.1 and 10.77.0.2 at the ends of a cable."""
    try:
        first = subprocess.Popen([*INSIDE, "sleep", "infinity"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    except FileNotFoundError:
        pytest.skip("needs unshare")
    second: subprocess.Popen[bytes] | None = None
    try:
        one = _child_of(first)
        second = subprocess.Popen(
            [*_inside(one), "unshare", "--net", "--uts", "--fork", "--kill-child", "sleep", "infinity"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        two = _child_of(second)
        links = [
            (one, "hostname node-a"),
            (one, f"ip link add eth0 type veth peer name eth0 netns {two}"),
            *((pid, f"ip addr add 10.77.0.{number}/24 dev eth0") for number, pid in ((1, one), (2, two))),
            *((pid, f"ip link set {name} up") for name in ("eth0", "lo") for pid in (one, two)),
            (two, "hostname node-b"),
        ]
        for pid, command in links:
            done = subprocess.run([*_inside(pid), *command.split()], capture_output=True, text=True, check=False)
            if done.returncode:
                pytest.skip(f"{command}: {done.stderr}")
        yield Machines((_inside(one), _inside(two)), "10.77.0.1")
    finally:
        for holder in (second, first):
            if holder is not None:
                holder.kill()
                holder.wait()


def _inside(pid: int) -> list[str]:
    return ["nsenter", f"--target={pid}", "--user", "--net", "--uts", "--preserve-credentials"]


def _child_of(holder: subprocess.Popen[bytes]) -> int:
    """Return the process inside the namespaces. Skips the test if they cannot be created here."""
    children = Path(f"/proc/{holder.pid}/task/{holder.pid}/children")

    def inside() -> bool:
        return holder.poll() is not None or bool(children.read_text().split())

    wait_until(inside)
    if holder.poll() is not None:
        pytest.skip("needs the right to make network namespaces")
    return int(children.read_text().split()[0])


def begun(store: Path) -> bool:
    """Return whether there is a checkpoint of step 10 or later."""
    return any(int(path.name[5:]) >= 10 for path in store.glob("*.partial/.checkpoints/step-????????"))


def test_two_machines_of_which_one_vanishes_go_on_to_the_weights_of_one_machine(
    ancestry: dict[str, Artifact], two_ranks: Artifact, cabled: Machines, tmp_path: Path
) -> None:
    """The cable is cut, so that no connection is closed but nothing arrives. Then both machines resume, and also one alone."""
    store, of_one = tmp_path / "store", tmp_path / "of-one"
    leader, member = cabled.started(store, ancestry)
    try:
        wait_until(lambda: begun(store) or leader.poll() is not None)
        assert leader.poll() is None, leader.communicate()[0]
        assert len(ranks_using(store)) == 2
        cabled.cable("down")
        words, _ = leader.communicate(timeout=SECONDS_TO_END)
        assert leader.returncode == 1
        assert "RankKilled: node-b gave no sign of life any more: the machine was lost" in words
        message, _ = member.communicate(timeout=SECONDS_TO_END)
        assert "the first machine of the run has gone, or cannot be reached" in message
    finally:
        for process in (leader, member):
            process.kill()
            process.communicate()
    assert not ranks_using(store)
    shutil.copytree(store, of_one)

    cabled.cable("up")
    leader, member = cabled.started(store, ancestry)
    words, _ = leader.communicate(timeout=SECONDS_TO_END)
    assert leader.returncode == 0, words
    assert member.wait(timeout=SECONDS_TO_END) == 0
    member.communicate()
    [resumed] = [path for path in store.glob("pretrain-*") if path.is_dir()]
    assert Artifact(resumed.name, resumed).stats["resumed_from_step"] >= 10
    assert same_bytes(two_ranks.path, resumed)

    alone = build(STAGE, TWO_RANKS, ancestry, TrainingRuntime(store=of_one, threads=1, device="cpu")).artifact
    assert alone.stats["processes"] == 1 and alone.stats["resumed_from_step"] >= 10
    straight, found = (load_file(path / "model.safetensors") for path in (two_ranks.path, alone.path))
    for name, tensor in straight.items():
        assert abs(tensor - found[name]).max() < 1e-4
