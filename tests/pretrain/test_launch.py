"""Ranks are followed, their failures are explained, and none is left behind. The ranks here are small scripts."""

from __future__ import annotations

import ctypes
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from korealbert.pretrain import worker
from korealbert.pretrain.job import Failure, Outcome
from korealbert.pretrain.launch import RankFailed, RanksStopped, run_ranks, stop_all
from korealbert.pretrain.machines import Place
from korealbert.pretrain.runtime import TrainingRuntime

Launch = Callable[..., list[str]]

PRELUDE = """
import os, sys, time
from korealbert.artifact.shards import die_with_parent
die_with_parent()
rank = int(os.environ["RANK"])
"""


@pytest.fixture
def launch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Launch:
    """Run a script as every rank and return the lines of rank 0."""
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)

    def run(script: str, processes: int = 1, threads: int = 1, on_line: Callable[[str], None] | None = None) -> list[str]:
        (tmp_path / "rank_script.py").write_text(PRELUDE + script)
        seen: list[str] = []
        runtime = TrainingRuntime(processes=processes, threads=threads)
        run_ranks("rank_script", [], runtime=runtime, on_line=on_line or seen.append)
        return seen

    return run


def alive(pid: int) -> bool:
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 240
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.02)


def test_each_rank_knows_its_place_its_rendezvous_and_its_share_of_threads(launch: Launch) -> None:
    seen = launch(
        "names = 'RANK', 'WORLD_SIZE', 'OMP_NUM_THREADS', 'GOMP_SPINCOUNT';"
        "print(*map(os.environ.get, names), sys.argv[1:3], sep='|')",
        processes=3,
        threads=8,
    )
    assert len(seen) == 1 and seen[0].startswith("0|3|2|1000|['--init-method', 'file:///")


def test_ranks_meet_below_a_directory_with_blanks_and_korean_letters(
    launch: Launch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "임시 파일 #1?").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "임시 파일 #1?"))
    monkeypatch.setattr("tempfile.tempdir", None)
    script = """
import torch
from korealbert.pretrain.engine import join
ranks = join(rank=rank, world_size=2, device=torch.device("cpu"), init_method=sys.argv[2])
print(ranks.sum([rank + 1.0]))
torch.distributed.destroy_process_group()
"""
    assert launch(script, processes=2) == ["[3.0]"]


def test_the_failing_ranks_own_traceback_comes_first(launch: Launch, tmp_path: Path) -> None:
    script = f"""
import signal
from pathlib import Path
signal.signal(signal.SIGTERM, signal.SIG_IGN)
pid = Path(r"{tmp_path}/pid")
if rank == 1:
    print("some noise before")
    pid.write_text(str(os.getpid()))
    raise ValueError("the shard is torn")
while not pid.exists() or not pid.read_text() or os.path.exists("/proc/" + pid.read_text()):
    time.sleep(0.01)
print("RuntimeError: gloo: Connection closed by peer", file=sys.stderr)
sys.exit(1)
"""
    with pytest.raises(RankFailed) as failure:
        launch(script, processes=2)
    words = str(failure.value).splitlines()
    assert words[0] == "training process 1 of 2 ended with status 1:"
    assert words[1].startswith("Traceback")
    assert words[-1] == "ValueError: the shard is torn"


def test_of_failures_found_at_once_the_first_is_the_cause_and_no_rank_that_was_asked_to_end() -> None:
    victim, asked, cause = (
        Failure(rank, status, at, "", "localhost")
        for rank, status, at in [(0, 1, 3.0), (1, -signal.SIGTERM, 1.0), (2, -9, 2.0)]
    )
    assert Outcome([victim, asked, cause]).failures == [cause, victim, asked]


def test_a_rank_that_the_kernel_killed_is_named_and_the_others_do_not_outlive_it(launch: Launch, tmp_path: Path) -> None:
    script = f"open(r'{tmp_path}/pid-%d' % rank, 'w').write(str(os.getpid()))\n"
    script += f"while not os.path.getsize(r'{tmp_path}/pid-%d' % rank): pass\n"
    script += f"while rank and not os.path.exists(r'{tmp_path}/pid-0'): time.sleep(0.01)\n"
    script += "if rank == 1: os.kill(os.getpid(), 9)\ntime.sleep(6000)"
    with pytest.raises(RankFailed, match=r"training process 1 of 2 was killed by SIGKILL \(out of memory\?\)"):
        launch(script, processes=2)
    assert not alive(int((tmp_path / "pid-0").read_text() or 0))


def test_an_error_in_the_caller_asks_the_ranks_to_stop_and_waits(launch: Launch, tmp_path: Path) -> None:
    script = f"""
import signal
def save(*_):
    open(r'{tmp_path}/saved-%d' % rank, 'w').close()
    sys.exit(143)
signal.signal(signal.SIGTERM, save)
open(r'{tmp_path}/ready-%d' % rank, 'w').close()
print("ready", flush=True)
time.sleep(600)
"""

    def fail(line: str) -> None:
        wait_until(lambda: line == "ready" and all((tmp_path / f"ready-{rank}").exists() for rank in range(2)))
        raise RuntimeError("the caller's own")

    with pytest.raises(RuntimeError, match="the caller's own"):
        launch(script, processes=2, on_line=fail)
    assert all((tmp_path / f"saved-{rank}").exists() for rank in range(2))


DRIVER = """
import json, sys
from korealbert.pretrain.launch import run_ranks
from korealbert.pretrain.runtime import TrainingRuntime
run_ranks("rank_script", [], runtime=TrainingRuntime(processes=2, threads=2), on_line=lambda line: print(line, flush=True))
"""


def test_no_rank_outlives_a_killed_parent(tmp_path: Path) -> None:
    (tmp_path / "rank_script.py").write_text(
        PRELUDE + f"open(r'{tmp_path}/pid-%d' % rank, 'w').write(str(os.getpid()))\ntime.sleep(600)"
    )
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    driver = subprocess.Popen([sys.executable, "-c", DRIVER], stdout=subprocess.PIPE, env=environment, text=True)
    pid_files = [tmp_path / "pid-0", tmp_path / "pid-1"]
    try:
        wait_until(lambda: all(path.exists() and path.read_text() for path in pid_files))
    finally:
        driver.kill()
    driver.communicate(timeout=240)
    assert driver.returncode == -signal.SIGKILL
    pids = [json.loads(path.read_text()) for path in pid_files]
    wait_until(lambda: not any(map(alive, pids)))


def test_a_second_sigterm_does_not_cut_the_saving_short(tmp_path: Path) -> None:
    script = f"""
import signal
def save(*_):
    open(r'{tmp_path}/asked-%d' % rank, 'w').close()
    time.sleep(1)
    open(r'{tmp_path}/saved-%d' % rank, 'w').close()
    os._exit(143)
signal.signal(signal.SIGTERM, save)
open(r'{tmp_path}/ready-%d' % rank, 'w').close()
time.sleep(600)
"""
    (tmp_path / "rank_script.py").write_text(PRELUDE + script)
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(tmp_path), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]),
    }
    driver = subprocess.Popen([sys.executable, "-c", DRIVER], env=environment)
    try:
        for state in ("ready", "asked"):
            wait_until(lambda state=state: all((tmp_path / f"{state}-{rank}").exists() for rank in (0, 1)))
            driver.send_signal(signal.SIGTERM)
        assert driver.wait(timeout=240) == 143
    finally:
        driver.kill()
    assert all((tmp_path / f"saved-{rank}").exists() for rank in (0, 1))


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallopt"), reason="the C library is not glibc")
def test_a_step_on_a_cpu_reuses_the_memory_of_the_one_before() -> None:
    """Counts the pages that the system hands out for the tensors of a step, in the best of nine steps."""
    code = """
import resource, torch
from korealbert.pretrain.worker import _keep_memory
def pages():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    tensors = [torch.ones(1 << size) for size in range(12, 25)]
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
by_default = min(pages() for _ in range(9))
_keep_memory()
print(min(pages() for _ in range(9)), by_default)
"""
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    kept, by_default = map(int, found.split())
    assert kept < by_default / 10


def test_an_old_c_library_gets_the_highest_threshold_that_it_accepts(monkeypatch: pytest.MonkeyPatch) -> None:
    kept: dict[int, int] = {}

    def mallopt(name: int, value: int) -> int:
        taken = name != -3 or value <= 32 << 20
        kept.update({name: value} if taken else {})
        return int(taken)

    monkeypatch.setattr(ctypes, "CDLL", lambda _: SimpleNamespace(mallopt=mallopt))
    worker._keep_memory()
    assert kept == {-1: (1 << 31) - 1, -3: 32 << 20}


def test_a_request_to_stop_before_the_agent_listens_is_no_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SIGTERM ends an agent that is still importing; the run then said that it ended with status -15, and was tried again."""

    def starting(place: Place, *given: object, **options: object) -> subprocess.Popen[str]:
        pipe = subprocess.PIPE
        agent = subprocess.Popen(["sleep", "60"], stdout=pipe, stderr=pipe, text=True)
        threading.Thread(target=lambda: wait_until(stop_all), daemon=True).start()
        return agent

    monkeypatch.setattr(Place, "start_agent", starting)
    with pytest.raises(RanksStopped, match="the training processes were stopped before they could save"):
        run_ranks("rank_script", [], runtime=TrainingRuntime(store=tmp_path), on_line=print)
