"""Two machines, here two launchers on loopback: they meet, run as one, and neither outlives the other."""

from __future__ import annotations

import json
import os
import signal
import socket
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from korealbert.pretrain import crew as crews
from korealbert.pretrain.channel import Channel, ChannelClosed, interface_of
from korealbert.pretrain.crew import Crew, meeting_file
from korealbert.pretrain.hosts import crew_of, leading, ranks_of, read_hostfile
from korealbert.pretrain.launch import RankFailed, RankKilled, run_ranks, stop_all
from korealbert.pretrain.member import LeaderGone, serve
from korealbert.pretrain.runtime import TrainingRuntime
from korealbert.pretrain.together import found_in
from tests.pretrain.test_launch import PRELUDE, alive, wait_until


@pytest.fixture
def hostfile(tmp_path: Path) -> Path:
    path = tmp_path / "hosts"
    path.write_text("127.0.0.1 slots=1\n# a comment\n127.0.0.2 slots=2  # another\n")
    return path


@pytest.fixture
def shell(tmp_path: Path) -> Path:
    """What stands for ssh: the command runs here, and the name of the machine is noted."""
    path = tmp_path / "shell"
    path.write_text(f'#!/bin/sh\necho "$$ $1" >> {tmp_path}/shells\nexec sh -c "$2"\n')
    path.chmod(0o755)
    return path


Launch = Callable[..., list[str]]


@pytest.fixture
def launch(tmp_path: Path, hostfile: Path, shell: Path) -> Launch:
    """Run a script as every rank of two machines and return what rank 0 printed."""

    def run(script: str, on_line: Callable[[str], None] | None = None) -> list[str]:
        (tmp_path / "rank_script.py").write_text(PRELUDE + script)
        environment = {"PYTHONPATH": f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}"}
        runtime = TrainingRuntime(store=tmp_path / "store", threads=4, hostfile=hostfile, remote_shell=str(shell))
        processes, _ = ranks_of(runtime)
        seen: list[str] = []
        with crew_of(runtime) as crew:
            listen = on_line or seen.append
            run_ranks("rank_script", [], processes=processes, threads=4, on_line=listen, environment=environment, crew=crew)
        return seen

    return run


def pids(tmp_path: Path, count: int) -> list[int]:
    paths = [tmp_path / f"pid-{rank}" for rank in range(count)]
    wait_until(lambda: all(path.exists() and path.read_text() for path in paths))
    return [int(path.read_text()) for path in paths]


def note_pid(tmp_path: Path) -> str:
    return f"open(r'{tmp_path}/pid-%d' % rank, 'w').write(str(os.getpid()))\n"


def test_ranks_of_both_machines_know_their_places(launch: Launch, tmp_path: Path) -> None:
    names = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "OMP_NUM_THREADS", "GLOO_SOCKET_IFNAME")
    script = f"""
open(r'{tmp_path}/place-%d' % rank, 'w').write(' '.join(os.environ[name] for name in {names}) + ' ' + sys.argv[2])
print("rank", rank)
"""
    assert launch(script) == ["rank 0"]
    places = [(tmp_path / f"place-{rank}").read_text().split() for rank in range(3)]
    assert [place[:6] for place in places] == [
        ["0", "0", "3", "1", "4", "lo"],
        ["1", "0", "3", "2", "2", "lo"],
        ["2", "1", "3", "2", "2", "lo"],
    ]
    assert len({place[6] for place in places}) == 1 and places[0][6].startswith("tcp://127.0.0.1:")
    assert (tmp_path / "shells").read_text().split()[1::2] == ["127.0.0.2"]
    assert not list((tmp_path / "store" / ".hosts").iterdir())  # The secret goes with the run.


def test_an_error_on_the_other_machine_is_told_first_with_its_own_words(launch: Launch) -> None:
    script = """
if rank == 2:
    raise MemoryError("no room for the batch")
time.sleep(0.2)
print("RuntimeError: Connection closed by peer", file=sys.stderr)
sys.exit(1)
"""
    with pytest.raises(RankFailed) as failure:
        launch(script)
    told = str(failure.value).splitlines()
    assert told[0] == f"training process 2 of 3 on {socket.gethostname()} ended with status 1; its own words:"
    assert told[-1] == "MemoryError: no room for the batch"


@pytest.mark.parametrize("victim", ["rank", "machine"])
def test_a_killed_rank_or_machine_ends_the_run_within_seconds(launch: Launch, tmp_path: Path, victim: str) -> None:
    def kill(line: str) -> None:
        ranks = pids(tmp_path, 3)
        wanted = ranks[2] if victim == "rank" else int((tmp_path / "shells").read_text().split()[0])
        os.kill(wanted, signal.SIGKILL)

    start = time.monotonic()
    with pytest.raises(RankKilled) as failure:
        launch(note_pid(tmp_path) + "print('ready', flush=True)\ntime.sleep(600)", kill)
    assert time.monotonic() - start < 20
    assert ("was killed by SIGKILL" if victim == "rank" else "the connection to") in str(failure.value)
    wait_until(lambda: not any(map(alive, pids(tmp_path, 3))), 5)


def test_stopping_lets_all_ranks_save(launch: Launch, tmp_path: Path) -> None:
    script = f"""
import signal
def save(*_):
    open(r'{tmp_path}/saved-%d' % rank, 'w').close()
    print("saved", flush=True)
    sys.exit(143)
signal.signal(signal.SIGTERM, save)
{note_pid(tmp_path)}
print("ready", flush=True)
time.sleep(600)
"""
    heard: list[str] = []

    def stop(line: str) -> None:
        heard.append(line)
        if line == "ready":
            pids(tmp_path, 3)
            time.sleep(0.2)
            assert stop_all()

    with pytest.raises(RankFailed, match="ended with status 143"):
        launch(script, stop)
    assert all((tmp_path / f"saved-{rank}").exists() for rank in range(3))
    assert heard == ["ready", "saved"]  # What rank 0 says while others have ended already is heard too.
    assert not stop_all()


LEADER = """
import sys
from pathlib import Path
from korealbert.pretrain.runtime import TrainingRuntime
from korealbert.pretrain.hosts import crew_of
from korealbert.pretrain.launch import run_ranks
runtime = TrainingRuntime(store=Path(sys.argv[1]), threads=2, nodes=2, address="127.0.0.1")
with crew_of(runtime) as crew:
    run_ranks("rank_script", [], processes=1, threads=1, on_line=print, crew=crew)
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_no_rank_of_any_machine_outlives_the_leader(tmp_path: Path, number: signal.Signals) -> None:
    (tmp_path / "rank_script.py").write_text(PRELUDE + note_pid(tmp_path) + "time.sleep(600)")
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}"}
    store = str(tmp_path / "store")
    leader = subprocess.Popen([sys.executable, "-c", LEADER, store], env=environment)
    member_command = [sys.executable, "-m", "korealbert.pretrain.member", "--store", store, "--meeting", "run", "--node", "1"]
    member = subprocess.Popen(
        [*member_command, "--processes", "1", "--threads", "1"], env=environment, stderr=subprocess.PIPE, text=True
    )
    try:
        ranks = pids(tmp_path, 2)
    finally:
        leader.send_signal(number)
    _, told = member.communicate(timeout=30)
    leader.wait(timeout=30)
    assert member.returncode == 1
    assert told.strip() in (
        "the leader has gone, or its machine cannot be reached; the next run resumes",
        "the run has failed; its leader says why",
    )
    wait_until(lambda: not any(map(alive, ranks)), 5)


@pytest.fixture
def crew(tmp_path: Path) -> Iterator[Crew]:
    found = Crew(tmp_path, "run", "127.0.0.1", [2, 1])
    yield found
    found.close(well=True)


def test_the_secret_is_its_owners_and_strangers_stay_out(crew: Crew, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert stat.S_IMODE(crew.file.stat().st_mode) == 0o600
    place = json.loads(crew.file.read_text())
    for message in (b"GET / HTTP/1.1\r\n\r\n", b"\xff\xfe\n", b"[1]\n", b""):
        with socket.create_connection((place["address"], place["port"])) as stranger:
            stranger.sendall(message)
    with pytest.raises(ChannelClosed):
        Channel(socket.create_connection((place["address"], place["port"])), "a guess", leader=False)
    wait_until(lambda: len(caplog.records) == 5)
    assert {record.msg for record in caplog.records} == {"a machine could not join: %s"}


@pytest.mark.parametrize(
    ("node", "processes", "why"),
    [(3, 1, "node 3 is none of 1 to 2"), (1, 3, "has 3 processes, the leader wants 2"), (0, 1, "node 0 is none of")],
)
def test_a_machine_that_does_not_fit_is_refused_with_the_reason(
    crew: Crew, tmp_path: Path, node: int, processes: int, why: str
) -> None:
    with pytest.raises(LeaderGone, match=why):
        serve(tmp_path, "run", node=node, processes=processes, threads=1)


def test_two_machines_of_one_number_are_refused(crew: Crew, tmp_path: Path) -> None:
    first = threading.Thread(target=serve, args=(tmp_path, "run"), kwargs={"node": 2, "processes": 1, "threads": 1})
    first.start()
    wait_until(lambda: 2 in crew._members)
    with pytest.raises(LeaderGone, match="node 2 has joined already"):
        serve(tmp_path, "run", node=2, processes=1, threads=1)
    crew.close(well=True)
    first.join(timeout=5)


def test_machines_that_do_not_come_are_told(tmp_path: Path, hostfile: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runtime = TrainingRuntime(store=tmp_path / "store", hostfile=hostfile, remote_shell="false")
    with (
        pytest.raises(ConnectionError, match=r"2 machines should meet; .* a remote shell ended with status 1"),
        crew_of(runtime),
    ):
        pass
    for module in ("crew", "member"):
        monkeypatch.setattr(f"korealbert.pretrain.{module}.JOIN_SECONDS", 0.5)
    monkeypatch.setattr(crews, "LATE_SECONDS", 0.1)
    with (
        pytest.raises(ConnectionError, match="joined by none; within"),
        crew_of(TrainingRuntime(store=tmp_path, nodes=2, address="127.0.0.1")),
    ):
        pass
    with pytest.raises(LeaderGone, match="do all machines see the same store"):
        serve(tmp_path, "elsewhere", node=1, processes=1, threads=1)


def test_what_an_earlier_run_left_behind_is_passed_over(tmp_path: Path) -> None:
    path = meeting_file(tmp_path, "run")
    path.parent.mkdir()
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    path.write_text(json.dumps({"address": "127.0.0.1", "port": port, "secret": "old"}))
    member = threading.Thread(target=serve, args=(tmp_path, "run"), kwargs={"node": 1, "processes": 1, "threads": 1})
    member.start()
    time.sleep(0.3)
    with leading(TrainingRuntime(store=tmp_path, nodes=2, address="127.0.0.1")):
        pass  # All stages were cached: the member is awaited and let go.
    member.join(timeout=5)
    assert not member.is_alive()


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "names no machine"),
        ("a slots=0\n", "line 1: 'a slots=0' is not of the form"),
        ("a slots=2\nb\n", "line 2: 'b' is not of the form"),
        ("a slots=2\na slots=2\n", "line 2: a is named twice"),
        ("-oProxyCommand=x slots=1\n", "line 1"),
        ("a slots=²\n", "line 1"),
    ],
)
def test_hostfiles_that_cannot_be_are_refused(tmp_path: Path, text: str, told: str) -> None:
    (tmp_path / "hosts").write_text(text)
    with pytest.raises(ValueError, match=told):
        read_hostfile(tmp_path / "hosts")
    with pytest.raises(ValueError, match="no hostfile that can be read"):
        read_hostfile(tmp_path / "none")


def test_addresses_that_others_cannot_reach_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match="cannot be resolved"):
        Crew(tmp_path, "run", "no-such-machine.invalid", [1])
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: [(0, 0, 0, "", ("127.0.1.1", 0))])
    with pytest.raises(ValueError, match=r"'node7' means 127\.0\.1\.1, which no other machine reaches"):
        Crew(tmp_path, "run", "node7", [1])


def test_interfaces_are_found_by_address() -> None:
    assert interface_of("127.0.0.1") == "lo"
    assert interface_of("203.0.113.7") is None


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
    assert found_in(TORCHRUN) == {"nodes": 2, "node": 1, "meeting": "torchrun-7-a", "address": "n1"}
    assert found_in(SLURM) == {"nodes": 2, "node": 1, "meeting": "slurm-12.0", "address": "n2"}
    assert found_in({}) == {}
    assert found_in({"SLURM_JOB_ID": "12", "SLURM_NNODES": "2", "SLURM_PROCID": "0"}) == {}  # Within sbatch, outside srun.
    assert found_in({**SLURM, "SLURM_STEP_NUM_NODES": "1", "SLURM_STEP_NUM_TASKS": "1"}) == {}
    with pytest.raises(ValueError, match="--nproc-per-node 1"):
        found_in({**TORCHRUN, "LOCAL_WORLD_SIZE": "8"})
    with pytest.raises(ValueError, match=r"8 tasks on 2 machines; .*--ntasks-per-node=1"):
        found_in({**SLURM, "SLURM_STEP_NUM_TASKS": "8"})
    with pytest.raises(ValueError, match="GROUP_RANK = 'first' in the environment is no number"):
        found_in({**TORCHRUN, "GROUP_RANK": "first"})


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"nodes": 2, "node": 2}, "node = 2 is not below nodes = 2"),
        ({"nodes": 2, "hostfile": "hosts"}, "exclude each other"),
        ({"meeting": "../x"}, "pattern"),
    ],
)
def test_runtimes_that_cannot_be_are_refused(fields: dict[str, Any], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        TrainingRuntime(**fields)
