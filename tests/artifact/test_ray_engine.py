"""Data stages on a Ray cluster: a local run's bytes, also if a node dies midway, and only the lost shards again.

Ray listens on all addresses whatever its options are, so the clusters run in a network namespace that has only loopback.
"""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from korealbert.artifact import Runtime
from korealbert.artifact.files import atomic_write
from korealbert.artifact.shards import NodesLost, map_shards

pytestmark = pytest.mark.timeout(900)

SECONDS_TO_END = 800


class Failure(Exception):
    """What Ray raises; ``cause`` is the job's own error."""

    def __init__(self, cause: Exception | None = None) -> None:
        super().__init__("the node is gone")
        self.cause = cause


class TaskError(Failure):
    pass


class NodeDied(Failure):
    pass


class Cluster:
    """Stands in for the module ``ray``, with two CPUs: the job submitted last ends first, and some jobs fail."""

    exceptions = SimpleNamespace(
        RayTaskError=TaskError, NodeDiedError=NodeDied, RaySystemError=MemoryError, WorkerCrashedError=BrokenPipeError
    )

    def __init__(self, failing: dict[int, Exception], finished: tuple[int, ...] = ()) -> None:
        self.failing, self.finished, self.in_flight, self.cancelled = failing, finished, 0, 0

    def is_initialized(self) -> bool:
        return True

    def cluster_resources(self) -> dict[str, float]:
        return {"CPU": 2.0}

    def remote(self, **options: int) -> Any:
        assert options["max_retries"] > 0
        return lambda function: SimpleNamespace(remote=lambda *arguments: (function, *arguments))

    def wait(self, references: list[Any], *, num_returns: int, timeout: float | None = None) -> tuple[list[Any], list[Any]]:
        if timeout == 0:  # Which are finished already?
            return [each for each in references if each[3] in self.finished], []
        self.in_flight = max(self.in_flight, len(references))
        return references[-num_returns:], references[:-num_returns]

    def get(self, reference: Any) -> Any:
        function, job, work, index, out_dir = reference
        if index in self.failing:
            raise self.failing[index]
        return function(job, work, index, out_dir)

    def cancel(self, reference: Any, *, force: bool) -> None:
        self.cancelled += 1


def write(job: int, index: int, out_dir: Path) -> dict[str, Any]:
    atomic_write(out_dir / f"part-{index:05d}.txt", f"작업 {job}".encode())
    return {"n": job}


def mapped(directory: Path, **runtime: Any) -> list[dict[str, Any]]:
    directory.mkdir(exist_ok=True)
    return map_shards(write, range(9), out_dir=directory, runtime=Runtime(store=directory, workers=1, **runtime), step="work")


def test_a_cluster_gives_what_one_process_gives_and_takes_few_jobs_ahead(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = Cluster({})
    monkeypatch.setitem(sys.modules, "ray", cluster)
    assert mapped(tmp_path / "cluster", engine="auto") == mapped(tmp_path / "local") == [{"n": n} for n in range(9)]
    here, there = ({p.name: p.read_bytes() for p in (tmp_path / run).glob("part-*")} for run in ("local", "cluster"))
    assert here == there and len(here) == 9
    assert cluster.in_flight == 4, "two for each CPU"


def test_an_error_on_the_cluster_is_the_jobs_own_and_lost_nodes_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bad = Cluster({3: TaskError(ValueError("bad record in line 7"))})
    monkeypatch.setitem(sys.modules, "ray", bad)
    with pytest.raises(ValueError, match="bad record in line 7"):
        mapped(tmp_path, engine="auto")
    assert bad.cancelled == 3, "all others in flight"
    monkeypatch.setitem(sys.modules, "ray", Cluster({3: NodeDied()}))
    with pytest.raises(NodesLost, match="shard 3: its nodes died 6 times in a row"):
        mapped(tmp_path, engine="auto")
    finished = sorted(tmp_path.glob(".done/*"))
    times = [path.stat().st_mtime_ns for path in finished]
    monkeypatch.setitem(sys.modules, "ray", Cluster({}))
    assert mapped(tmp_path, engine="auto") == [{"n": n} for n in range(9)]
    assert [path.stat().st_mtime_ns for path in finished] == times, "finished shards are not made again"


def test_shards_that_the_cluster_had_finished_when_another_failed_are_not_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bad = Cluster({3: TaskError(ValueError("bad record in line 7")), 2: NodeDied()}, finished=(2, 1))
    monkeypatch.setitem(sys.modules, "ray", bad)
    with pytest.raises(ValueError, match="bad record in line 7"):
        mapped(tmp_path, engine="auto")
    assert bad.cancelled == 1 and [path.name for path in tmp_path.glob(".done/*")] == ["work-00001.json"]


NAMESPACE = ["unshare", "--user", "--map-root-user", "--net", "--pid", "--fork", "--kill-child", "--mount-proc"]

PROGRAM = """
import json, os, sys, threading, time
from pathlib import Path
from korealbert.artifact import Runtime, Spec, Stage, build
from korealbert.artifact.files import atomic_write
from korealbert.artifact.shards import map_shards

store, log = Path(sys.argv[1]), Path(sys.argv[2])

class S(Spec):
    jobs: int = 24

def node():
    ray = sys.modules.get("ray")
    return ray.get_runtime_context().get_node_id() if ray and ray.is_initialized() else "local"

def work(job, index, out_dir):
    with open(log, "a") as stream:
        stream.write(f"begin {index} {os.getpid()} {node()}\\n")
    time.sleep(0.1)
    if index >= 8 and (store / "doomed").exists():
        if (store / "doomed").read_text() == node():
            (store / "held").touch()
            time.sleep(500)
        while not (store / "lost").exists():
            time.sleep(0.02)
    if index == 3 and (store / "fail").exists():
        raise ValueError("bad record in line 7")
    atomic_write(out_dir / f"part-{index:05d}.txt", (f"작업 {job}\\n" * 1000).encode())
    return {"n": job}

def jobs(spec):
    for job in range(spec.jobs):
        drawn.append(job)
        yield job

drawn = []

def run(spec, inputs, out_dir, runtime):
    results = map_shards(work, jobs(spec), out_dir=out_dir, runtime=runtime, step="work")
    return {"n": sum(r["n"] for r in results)}

STAGE = Stage("slow", 1, S, run)

def main():
    local = build(STAGE, S(), {}, Runtime(store=store / "local", workers=2)).artifact
    begun_locally = len(log.read_text().splitlines())
    from ray.cluster_utils import Cluster
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "object_store_memory": 80_000_000})
    second = cluster.add_node(num_cpus=1, object_store_memory=80_000_000)
    (store / "doomed").write_text(second.node_id)
    drawn.clear()
    ahead = []

    def kill():
        while not (store / "held").exists() and not finished.is_set():
            time.sleep(0.02)
        time.sleep(1)  # Nothing ends now; whoever draws without measure has the time for it.
        ahead.append(len(drawn) - len(log.read_text().splitlines()) + begun_locally)
        cluster.remove_node(second, allow_graceful=False)
        (store / "lost").touch()

    import korealbert.artifact.shards as engine
    import ray
    ray.init(address=cluster.address, log_to_driver=False)
    killer = threading.Thread(target=kill)
    finished = threading.Event()
    killer.start()
    spread = build(STAGE, S(), {}, Runtime(store=store / "spread", workers=1, engine="auto")).artifact
    finished.set()
    killer.join()
    begun = log.read_text().splitlines()[begun_locally:]
    (store / "fail").touch()
    try:
        build(STAGE, S(jobs=6), {}, Runtime(store=store / "spread", workers=1, engine="auto"))
        raised = None
    except Exception as error:
        raised = [type(error).__name__, str(error)]
    (store / "fail").unlink()
    build(STAGE, S(jobs=6), {}, Runtime(store=store / "spread", workers=1, engine="auto"))
    Path(sys.argv[2] + ".json").write_text(json.dumps({
        "same": local.output_digest == spread.output_digest,
        "begun": len(begun),
        "processes": len({line.split()[2] for line in begun}),
        "ahead": ahead[0],
        "raised": raised,
    }))
    ray.shutdown()
    cluster.shutdown()

if __name__ == "__main__":
    main()
"""


TOKENS = """
export RAY_AUTH_MODE=token RAY_AUTH_TOKEN=0123456789abcdef0123456789abcdef RAY_USAGE_STATS_ENABLED=0
RAY="$0 -m ray.scripts.scripts"
$RAY start --head --port=6399 --num-cpus=1 --object-store-memory=80000000 --include-dashboard=false >/dev/null || exit 3
JOIN='import ray; ray.init("127.0.0.1:6399", log_to_driver=False); print("joined", int(ray.cluster_resources()["CPU"]))'
RAY_AUTH_TOKEN=ffffffffffffffffffffffffffffffff timeout 25 "$0" -c "$JOIN" 2>&1 | tail -3 &
RAY_AUTH_TOKEN=ffffffffffffffffffffffffffffffff timeout 25 $RAY start --address=127.0.0.1:6399 --num-cpus=7 >/dev/null 2>&1 &
env -u RAY_AUTH_TOKEN -u RAY_AUTH_MODE timeout 25 $RAY start --address=127.0.0.1:6399 --num-cpus=9 >/dev/null 2>&1 &
wait
timeout 150 "$0" -c "$JOIN"
timeout 150 $RAY start --address=127.0.0.1:6399 --num-cpus=2 --object-store-memory=80000000 >/dev/null || exit 5
timeout 150 "$0" -c "$JOIN"
$RAY stop --force >/dev/null 2>&1
"""


def run(*command: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run a command in the namespace; fails with its output if it takes too long."""
    try:
        return subprocess.run(
            [*NAMESPACE, *command], capture_output=True, text=True, check=False, timeout=SECONDS_TO_END, cwd=cwd
        )
    except subprocess.TimeoutExpired as late:
        said = "".join((part or b"").decode("utf-8", "replace")[-4000:] for part in (late.stdout, late.stderr))
        pytest.fail(f"not over after {SECONDS_TO_END} s:\n{said}")


@pytest.mark.soak
def test_only_who_has_the_clusters_token_joins(tmp_path: Path) -> None:
    if importlib.util.find_spec("ray") is None:
        pytest.skip("Ray is not installed: the extra [cluster]")
    done = run("sh", "-c", f"ip link set lo up || exit 4\n{TOKENS}", sys.executable, cwd=tmp_path)
    if done.returncode == 4 or "unshare" in done.stderr:
        pytest.skip(f"this kernel gives nobody a network namespace: {done.stderr.strip()}")
    joined = [line for line in done.stdout.splitlines() if line.startswith("joined")]
    assert joined == ["joined 1", "joined 3"], done.stdout + done.stderr  # CPUs: the head alone, then with the right node


@pytest.mark.soak
def test_two_nodes_of_which_one_dies_give_the_bytes_of_a_local_run(tmp_path: Path) -> None:
    if importlib.util.find_spec("ray") is None:
        pytest.skip("Ray is not installed: the extra [cluster]")
    tried = subprocess.run([*NAMESPACE, "ip", "link", "set", "lo", "up"], capture_output=True, text=True, check=False)
    if tried.returncode:
        pytest.skip(f"this kernel gives nobody a network namespace: {tried.stderr.strip()}")
    program = tmp_path / "on_a_cluster.py"
    program.write_text(PROGRAM, "utf-8")
    (tmp_path / "stores").mkdir()
    log = tmp_path / "log"
    log.touch()
    inside = 'ip link set lo up && exec "$0" "$@"'
    done = run("sh", "-c", inside, sys.executable, str(program), str(tmp_path / "stores"), str(log), cwd=tmp_path)
    assert done.returncode == 0, done.stderr[-4000:]
    found = json.loads(Path(f"{log}.json").read_text("utf-8"))
    assert found["same"], "the same bytes"
    assert 24 < found["begun"] <= 24 + 4, "only what the dead node held was begun again"
    assert found["processes"] >= 2
    assert found["ahead"] <= 4 + 1, "jobs are not drawn far ahead of the workers"
    assert found["raised"] == ["ValueError", "bad record in line 7"]
