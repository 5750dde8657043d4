"""Two machines, here two agents on loopback: they join, run as one, and neither outlives the other."""

from __future__ import annotations

import contextvars
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from korealbert.pretrain import machines
from korealbert.pretrain.launch import RankFailed, RankKilled, run_ranks, stop_all
from korealbert.pretrain.machines import LeaderGone, leading, read_hostfile, serve, started_together
from korealbert.pretrain.runtime import TrainingRuntime
from tests.pretrain.test_launch import PRELUDE, alive, wait_until


@pytest.fixture
def hostfile(tmp_path: Path) -> Path:
    path = tmp_path / "hosts"
    path.write_text("127.0.0.1 slots=1\n# a comment\n127.0.0.2 slots=2  # another\n")
    return path


@pytest.fixture
def shell(tmp_path: Path) -> Path:
    """A stand-in for ssh, which runs the command here and writes down the machine's name."""
    path = tmp_path / "shell"
    path.write_text(f'#!/bin/sh\necho "$$ $1" >> {tmp_path}/shells\nexec sh -c "$2"\n')
    path.chmod(0o755)
    return path


Launch = Callable[..., list[str]]


@pytest.fixture
def launch(tmp_path: Path, hostfile: Path, shell: Path, monkeypatch: pytest.MonkeyPatch) -> Launch:
    """Run a script as every rank of two machines and return the lines of rank 0."""
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)

    def run(script: str, on_line: Callable[[str], None] | None = None) -> list[str]:
        (tmp_path / "rank_script.py").write_text(PRELUDE + script)
        runtime = TrainingRuntime(store=tmp_path / "store", threads=4, hostfile=hostfile, remote_shell=str(shell))
        seen: list[str] = []
        run_ranks("rank_script", [], runtime=runtime, on_line=on_line or seen.append)
        return seen

    return run


def pids(tmp_path: Path, count: int) -> list[int]:
    paths = [tmp_path / f"pid-{rank}" for rank in range(count)]
    wait_until(lambda: all(path.exists() and path.read_text() for path in paths))
    return [int(path.read_text()) for path in paths]


def note_pid(tmp_path: Path) -> str:
    return f"open(r'{tmp_path}/pid-%d' % rank, 'w').write(str(os.getpid()))\n"


def test_ranks_of_both_machines_know_their_places_and_their_store_listens_at_its_address_alone(
    launch: Launch, tmp_path: Path
) -> None:
    names = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "OMP_NUM_THREADS", "GLOO_SOCKET_IFNAME", "MASTER_ADDR")
    script = f"""
open(r'{tmp_path}/place-%d' % rank, 'w').write(' '.join(os.environ[name] for name in {names}))
if rank == 0:
    import psutil
    listening = [c.laddr.ip for c in psutil.Process(os.getppid()).net_connections() if c.status == "LISTEN"]
    print("rank", rank, listening)
"""
    assert launch(script) == ["rank 0 ['127.0.0.1']"]
    places = [(tmp_path / f"place-{rank}").read_text().split() for rank in range(3)]
    assert places == [
        ["0", "0", "3", "1", "4", "lo", "127.0.0.1"],
        ["1", "0", "3", "2", "2", "lo", "127.0.0.1"],
        ["2", "1", "3", "2", "2", "lo", "127.0.0.1"],
    ]
    assert (tmp_path / "shells").read_text().split()[1::2] == ["127.0.0.2"]


@pytest.mark.soak
def test_an_error_on_the_other_machine_comes_first_with_its_traceback(launch: Launch, tmp_path: Path) -> None:
    script = f"""
import signal
from pathlib import Path
from torch.distributed.elastic.multiprocessing.errors import record
signal.signal(signal.SIGTERM, signal.SIG_IGN)
pid = Path(r"{tmp_path}/pid")
@record
def main():
    if rank == 2:
        pid.write_text(str(os.getpid()))
        raise MemoryError("no room for the batch")
    while not pid.exists() or not pid.read_text() or os.path.exists("/proc/" + pid.read_text()):
        time.sleep(0.01)
    raise RuntimeError("Connection closed by peer")
main()
"""
    with pytest.raises(RankFailed) as failure:
        launch(script)
    words = str(failure.value).splitlines()
    assert words[0] == "training process 2 of 3 on 127.0.0.2 ended with status 1:"
    assert words[-1] == "MemoryError: no room for the batch"


@pytest.mark.parametrize("victim", [pytest.param("rank", marks=pytest.mark.soak), "machine"])
def test_a_killed_rank_or_machine_ends_the_run_and_is_named(
    launch: Launch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, victim: str
) -> None:
    """The ranks sleep, as in a collective operation that notices nothing, so it is the agents that end the run."""
    monkeypatch.setattr(machines, "LOST_SECONDS", 8.0)

    def kill(line: str) -> None:
        ranks = pids(tmp_path, 3)
        wanted = ranks[2] if victim == "rank" else int((tmp_path / "shells").read_text().split()[0])
        os.kill(wanted, signal.SIGKILL)

    with pytest.raises(RankKilled) as failure:
        launch(note_pid(tmp_path) + "print('ready', flush=True)\ntime.sleep(6000)", kill)
    killed = (
        "training process 2 of 3 on 127.0.0.2 was killed by SIGKILL" if victim == "rank" else "127.0.0.2 gave no sign of life"
    )
    assert str(failure.value).startswith(killed)
    wait_until(lambda: not any(map(alive, pids(tmp_path, 3))))


def test_stopping_lets_all_ranks_save(launch: Launch, tmp_path: Path) -> None:
    script = f"""
import signal
def save(*_):
    open(r'{tmp_path}/saved-%d' % rank, 'w').close()
    print("saved", flush=True)
    sys.exit(143)
signal.signal(signal.SIGTERM, save)
{note_pid(tmp_path)}
while not all(os.path.exists(r'{tmp_path}/pid-%d' % other) for other in range(3)): time.sleep(0.01)
print("ready", flush=True)
time.sleep(6000)
"""
    heard: list[str] = []

    def stop(line: str) -> None:
        heard.append(line)
        if line == "ready":
            assert stop_all()

    with pytest.raises(RankFailed, match="ended with status 143"):
        launch(script, stop)
    assert all((tmp_path / f"saved-{rank}").exists() for rank in range(3))
    assert heard == ["ready", "saved"]  # Rank 0's output is read even after other ranks have ended.
    assert not stop_all()


LEADER = """
import sys
from pathlib import Path
from korealbert.pretrain.launch import run_ranks
from korealbert.pretrain.runtime import TrainingRuntime
runtime = TrainingRuntime(store=Path(sys.argv[1]), threads=2, nodes=2, address="127.0.0.1")
run_ranks("rank_script", [], runtime=runtime, on_line=print)
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


@pytest.mark.parametrize("number", [signal.SIGKILL, pytest.param(signal.SIGTERM, marks=pytest.mark.soak)])
def test_no_rank_of_any_machine_outlives_the_leader(tmp_path: Path, number: signal.Signals) -> None:
    (tmp_path / "rank_script.py").write_text(PRELUDE + note_pid(tmp_path) + "time.sleep(6000)")
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}"}
    store = str(tmp_path / "store")
    leader = subprocess.Popen([sys.executable, "-c", LEADER, store], env=environment)
    member = subprocess.Popen([sys.executable, "-c", MEMBER, store], env=environment, stderr=subprocess.PIPE, text=True)
    try:
        ranks = pids(tmp_path, 2)
    finally:
        leader.send_signal(number)
    _, words = member.communicate(timeout=240)
    leader.wait(timeout=240)
    assert member.returncode == 1
    gone = "the leader has gone" if number == signal.SIGKILL else "the run has failed; its leader says why"
    assert gone in words
    wait_until(lambda: not any(map(alive, ranks)))


@pytest.mark.soak
def test_a_machine_of_the_same_command_runs_all_jobs_and_is_let_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "rank_script.py").write_text(PRELUDE + "print(os.environ['WORLD_SIZE'], sys.argv[1])")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    runtime = TrainingRuntime(store=tmp_path / "store", threads=2, nodes=2, address="127.0.0.1")
    member = threading.Thread(target=serve, args=(runtime.model_copy(update={"node": 1}),))
    member.start()
    heard: list[str] = []
    with leading(runtime):
        for job in ("first", "second"):
            run_ranks("rank_script", [job], runtime=runtime, on_line=heard.append)
    assert heard == ["2 first", "2 second"]
    member.join(timeout=300)
    assert not member.is_alive()
    assert [path.name for path in (tmp_path / "store" / ".hosts").iterdir()] == ["run.lock"]


def test_machines_that_do_not_fit_are_refused_with_the_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runtime = TrainingRuntime(store=tmp_path, nodes=3, processes=2)
    first = threading.Thread(target=serve, args=(runtime.model_copy(update={"node": 2}),))
    with leading(runtime):
        with pytest.raises(LeaderGone, match="node 3 is none of 1 to 2"):
            serve(runtime.model_copy(update={"node": 3}))
        with pytest.raises(LeaderGone, match="3 processes here, but the leader has 2"):
            serve(runtime.model_copy(update={"node": 1, "processes": 3}))
        first.start()
        lock = tmp_path / ".hosts" / "run.2.lock"
        wait_until(lambda: lock.exists() and lock.stat().st_size > 0)
        with pytest.raises(LeaderGone, match=f"node 2 has joined already: process {os.getpid()}"):
            serve(runtime.model_copy(update={"node": 2}))
        with pytest.raises(ValueError, match=f"process {os.getpid()} .* leads a run named 'run'"):
            contextvars.Context().run(lambda: leading(runtime).__enter__())
        monkeypatch.setattr(machines, "LATE_SECONDS", 2)  # Node 1 never comes.
    first.join(timeout=300)
    assert not first.is_alive()


def test_machines_that_do_not_come_are_named(tmp_path: Path, hostfile: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def run(runtime: TrainingRuntime) -> None:
        run_ranks("rank_script", [], runtime=runtime, on_line=print)

    with pytest.raises(ConnectionError, match=r"2 machines should meet; the remote shell of 127\.0\.0\.2 ended with status 1"):
        run(TrainingRuntime(store=tmp_path / "store", hostfile=hostfile, remote_shell="false"))
    monkeypatch.setattr(machines, "JOIN_SECONDS", 0.5)
    monkeypatch.setattr(machines, "LATE_SECONDS", 0.1)
    with pytest.raises(ConnectionError, match=r"2 machines should meet; .* was joined by none within 0\.5 s"):
        run(TrainingRuntime(store=tmp_path, nodes=2, address="127.0.0.1"))
    with pytest.raises(LeaderGone, match="do all machines see the same store"):
        serve(TrainingRuntime(store=tmp_path, rendezvous="elsewhere", nodes=2, node=1))


def test_files_of_an_earlier_run_are_ignored(tmp_path: Path) -> None:
    runtime = TrainingRuntime(store=tmp_path, nodes=2)
    (tmp_path / ".hosts").mkdir()
    for name in ("run.lock", "run.1.lock"):
        (tmp_path / ".hosts" / name).write_text('{"host": "elsewhere", "pid": 1, "since": "long ago"}')
    (tmp_path / ".hosts" / "run.json").write_text('{"run": "old", "job": 7, "end": "", "nodes": 2, "processes": 9}')
    member = threading.Thread(target=serve, args=(runtime.model_copy(update={"node": 1}),))
    member.start()
    with leading(runtime):
        pass  # All stages were cached: the member is awaited and released.
    member.join(timeout=300)
    assert not member.is_alive()


def test_a_machine_that_has_left_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machines, "LATE_SECONDS", 0.1)
    runtime = TrainingRuntime(store=tmp_path, nodes=2, address="127.0.0.1")
    with pytest.raises(ConnectionError, match="node 1, process 7 on node-b since then, has left the run"), leading(runtime):
        (tmp_path / ".hosts" / "run.1.lock").write_text('{"host": "node-b", "pid": 7, "since": "then"}')
        run_ranks("rank_script", [], runtime=runtime, on_line=print)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "names no machine"),
        ("a slots=0\n", "line 1: 'a slots=0' is not of the form"),
        ("a slots=2\nb\n", "line 2: 'b' is not of the form"),
        ("a slots=2\na slots=2\n", "line 2: a is named twice"),
        ("-oProxyCommand=x slots=1\n", "line 1"),
        ("a slots=²\n", "line 1"),
    ],
)
def test_invalid_hostfiles_are_refused(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "hosts").write_text(text)
    with pytest.raises(ValueError, match=message):
        read_hostfile(tmp_path / "hosts")
    with pytest.raises(ValueError, match="no hostfile that can be read"):
        read_hostfile(tmp_path / "none")


def test_addresses_that_others_cannot_reach_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def run(address: str) -> None:
        hosts = tmp_path / "hosts"
        hosts.write_text("node7 slots=1\nnode8 slots=1\n")
        run_ranks("none", [], runtime=TrainingRuntime(store=tmp_path, hostfile=hosts, address=address), on_line=print)

    with pytest.raises(ValueError, match="cannot be resolved"):
        run("no-such-machine.invalid")
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: [(0, 0, 0, "", ("127.0.1.1", 0))])
    with pytest.raises(ValueError, match=r"'node7' means 127\.0\.1\.1, which no other machine reaches"):
        run("")


TORCHRUN = {
    "TORCHELASTIC_RUN_ID": "7 a",
    "GROUP_WORLD_SIZE": "2",
    "GROUP_RANK": "1",
    "LOCAL_WORLD_SIZE": "1",
    "MASTER_ADDR": "n1",
}
SLURM = {
    **{"SLURM_JOB_ID": "12", "SLURM_STEP_ID": "0", "SLURM_PROCID": "1", "SLURM_NODEID": "1"},
    **{"SLURM_STEP_NUM_NODES": "2", "SLURM_STEP_NUM_TASKS": "2", "SLURMD_NODENAME": "n2"},
}


def test_srun_and_torchrun_are_understood() -> None:
    assert started_together(TORCHRUN) == {"nodes": 2, "node": 1, "rendezvous": "torchrun-7-a", "address": "n1"}
    assert started_together(SLURM) == {"nodes": 2, "node": 1, "rendezvous": "slurm-12.0", "address": "n2"}
    assert started_together({}) == {}
    assert (
        started_together({"SLURM_JOB_ID": "12", "SLURM_NNODES": "2", "SLURM_PROCID": "0"}) == {}
    )  # Within sbatch, outside srun.
    assert started_together({**SLURM, "SLURM_STEP_NUM_NODES": "1", "SLURM_STEP_NUM_TASKS": "1"}) == {}
    with pytest.raises(ValueError, match="--nproc-per-node 1"):
        started_together({**TORCHRUN, "LOCAL_WORLD_SIZE": "8"})
    with pytest.raises(ValueError, match=r"8 tasks on 2 machines; .*--ntasks-per-node=1"):
        started_together({**SLURM, "SLURM_STEP_NUM_TASKS": "8"})
    with pytest.raises(ValueError, match="GROUP_RANK = 'first' in the environment is no number"):
        started_together({**TORCHRUN, "GROUP_RANK": "first"})


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"nodes": 2, "node": 2}, "node = 2 is not below nodes = 2"),
        ({"nodes": 2, "hostfile": "hosts"}, "exclude each other"),
        ({"rendezvous": "../x"}, "pattern"),
    ],
)
def test_contradictory_runtimes_are_refused(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        TrainingRuntime(**fields)
