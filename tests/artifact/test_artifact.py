"""The stage contract: identity before running, atomic output, resuming, verification, conservation of documents."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from korealbert.artifact import ArtifactError, InputPath, Inputs, Runtime, Spec, Stage, Store, ancestors, build, canonical
from korealbert.artifact.files import atomic_path, sha256_of_file
from korealbert.artifact.shards import map_shards


class CountSpec(Spec):
    text: InputPath
    times: int = 1
    share: float = 0.5


def count(spec: CountSpec, inputs: Inputs, out_dir: Path, runtime: Runtime) -> dict[str, Any]:
    (out_dir / "out.txt").write_text(Path(spec.text).read_text() * spec.times)
    return {"documents_in": 2, "documents_out": 1, "dropped": {"too_short": 1}, "quarantined": 0}


COUNT = Stage("count", 1, CountSpec, count)


class JoinSpec(Spec):
    pass


def join(spec: JoinSpec, inputs: Inputs, out_dir: Path, runtime: Runtime) -> dict[str, Any]:
    (out_dir / "joined.txt").write_text("".join((a.path / "out.txt").read_text() for a in inputs.values()))
    return {}


JOIN = Stage("join", 1, JoinSpec, join)


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "in.txt"
    path.write_text("가나다\n")
    return path


def spec_of(text: Path, **fields: Any) -> CountSpec:
    return CountSpec(text=InputPath(text), **fields)


def test_identity_is_known_before_running_and_follows_content_not_place(tmp_path: Path, text: Path, runtime: Runtime) -> None:
    store = Store(runtime.store)
    before = COUNT.identity(spec_of(text), {}, store).name
    assert build(COUNT, spec_of(text), {}, runtime).artifact.name == before
    moved = tmp_path / "elsewhere" / text.name
    moved.parent.mkdir()
    moved.write_bytes(text.read_bytes())
    assert COUNT.identity(spec_of(moved), {}, store).name == before
    renamed = moved.with_suffix(".gz")
    renamed.write_bytes(text.read_bytes())
    assert COUNT.identity(spec_of(renamed), {}, store).name != before, "the ending says how to read a file"
    moved.write_text("라마바\n")
    assert COUNT.identity(spec_of(moved), {}, store).name != before
    assert COUNT.identity(spec_of(text, times=2), {}, store).name != before
    assert Stage("count", 2, CountSpec, count).identity(spec_of(text), {}, store).name != before


def test_runtime_is_not_identity(text: Path, runtime: Runtime) -> None:
    first = build(COUNT, spec_of(text), {}, runtime)
    again = build(COUNT, spec_of(text), {}, runtime.model_copy(update={"workers": 7, "processes": 3}))
    assert again.cached and again.artifact.name == first.artifact.name


def test_unknown_fields_and_values_without_canonical_form_are_refused() -> None:
    with pytest.raises(ValidationError):
        CountSpec.model_validate({"text": "x", "tims": 2})
    with pytest.raises(TypeError, match="canonical"):
        canonical({1, 2}, sha256_of_file)


def test_floats_enter_the_identity_exactly(text: Path, runtime: Runtime) -> None:
    store = Store(runtime.store)
    names = {COUNT.identity(spec_of(text, share=share), {}, store).name for share in (0.1 + 0.2, 0.3)}
    assert len(names) == 2


def test_a_failing_stage_leaves_no_artifact_and_its_partial_is_resumed(text: Path, runtime: Runtime) -> None:
    calls = []

    def fails_once(spec: CountSpec, inputs: Inputs, out_dir: Path, runtime: Runtime) -> dict[str, Any]:
        calls.append(sorted(p.name for p in out_dir.iterdir() if not p.name.startswith(".")))
        (out_dir / "first.txt").write_text("done")
        (out_dir / "other.txt").write_text("done")
        if len(calls) == 1:
            raise RuntimeError("killed")
        return {}

    stage = Stage("fails", 1, CountSpec, fails_once, continued=("first*",))
    with pytest.raises(RuntimeError):
        build(stage, spec_of(text), {}, runtime)
    assert Store(runtime.store).artifacts() == []
    build(stage, spec_of(text), {}, runtime)
    assert calls == [[], ["first.txt"]]


def test_directories_without_files_are_not_part_of_an_artifact(text: Path, runtime: Runtime) -> None:
    def leaves_one(spec: CountSpec, inputs: Inputs, out_dir: Path, runtime: Runtime) -> dict[str, Any]:
        (out_dir / "views" / "heldout").mkdir(parents=True)
        return count(spec, inputs, out_dir, runtime)

    stage = Stage("leaves", 1, CountSpec, leaves_one)
    artifact = build(stage, spec_of(text), {}, runtime).artifact
    assert sorted(path.name for path in artifact.path.iterdir()) == ["manifest.json", "out.txt"]
    assert build(stage, spec_of(text), {}, runtime).cached


def test_lost_documents_are_an_error(text: Path, runtime: Runtime) -> None:
    def loses(spec: CountSpec, inputs: Inputs, out_dir: Path, runtime: Runtime) -> dict[str, Any]:
        return {"documents_in": 3, "documents_out": 1, "dropped": {"x": 1}, "quarantined": 0}

    with pytest.raises(ArtifactError, match="3 documents came in, but 1 out \\+ 1 dropped \\+ 0 quarantined = 2"):
        build(Stage("loses", 1, CountSpec, loses), spec_of(text), {}, runtime)


def test_a_flipped_byte_is_found_even_under_a_restored_mtime(text: Path, runtime: Runtime) -> None:
    artifact = build(COUNT, spec_of(text), {}, runtime).artifact
    victim = artifact.path / "out.txt"
    status = victim.stat()
    content = bytearray(victim.read_bytes())
    content[0] ^= 1
    victim.write_bytes(content)
    os.utime(victim, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert "another sha256" in (Store(runtime.store).damage(artifact) or "")
    rebuilt = build(COUNT, spec_of(text), {}, runtime)
    assert not rebuilt.cached and "another sha256" in (rebuilt.repaired or "")
    assert Store(runtime.store).damage(rebuilt.artifact) is None


def unrepeatable(content: Sequence[str]) -> Stage[CountSpec]:
    """A stage that writes what is now the first element of ``content``."""

    def run(spec: CountSpec, inputs: Inputs, out_dir: Path, runtime: Runtime) -> dict[str, Any]:
        (out_dir / "out.txt").write_text(content[0])
        return {}

    return Stage("gpu", 1, CountSpec, run)


def test_an_input_rebuilt_with_other_bytes_outdates_what_was_built_from_it(text: Path, runtime: Runtime) -> None:
    content = ["one"]
    stage = unrepeatable(content)
    first = build(stage, spec_of(text), {}, runtime).artifact
    build(JOIN, JoinSpec(), {"a": first}, runtime)
    same = build(stage, spec_of(text), {}, runtime, rerun=True).artifact
    assert build(JOIN, JoinSpec(), {"a": same}, runtime).cached
    content[0] = "two"
    other = build(stage, spec_of(text), {}, runtime, rerun=True).artifact
    rebuilt = build(JOIN, JoinSpec(), {"a": other}, runtime)
    assert not rebuilt.cached and "other bytes" in (rebuilt.repaired or "")
    assert (rebuilt.artifact.path / "joined.txt").read_text() == "two"
    assert list(ancestors({"j": rebuilt.artifact})) == [other.name, rebuilt.artifact.name]


def test_measured_files_are_checked_but_are_no_part_of_the_output_digest(tmp_path: Path) -> None:
    def timed(spec: JoinSpec, inputs: Inputs, out_dir: Path, runtime: Runtime) -> dict[str, Any]:
        (out_dir / "result.txt").write_text("42")
        (out_dir / "times.txt").write_text(runtime.store.name)
        return {}

    stage = Stage("timed", 1, JoinSpec, timed, measured=("times.*",))
    one, other = (build(stage, JoinSpec(), {}, Runtime(store=tmp_path / name)).artifact for name in ("a", "b"))
    assert one.output_digest == other.output_digest
    assert one.manifest["files"]["times.txt"] != other.manifest["files"]["times.txt"]
    assert one.manifest["processor_seconds"] >= 0
    store = Store(tmp_path / "a")
    assert store.damage(one) is None and store.verify(one) == []
    (one.path / "times.txt").write_text("b")
    assert "times.txt" in (store.damage(one) or "")


def test_a_partial_begun_on_other_bytes_is_not_resumed(text: Path, runtime: Runtime) -> None:
    seen: list[bool] = []

    def interrupted(spec: JoinSpec, inputs: Inputs, out_dir: Path, runtime: Runtime) -> dict[str, Any]:
        seen.append((out_dir / "old.txt").exists())
        (out_dir / "old.txt").write_text("x")
        raise RuntimeError("killed")

    content = ["one"]
    stage = unrepeatable(content)
    for value in ("one", "two"):
        content[0] = value
        source = build(stage, spec_of(text), {}, runtime, rerun=True).artifact
        with pytest.raises(RuntimeError):
            build(Stage("join", 1, JoinSpec, interrupted), JoinSpec(), {"a": source}, runtime)
    assert seen == [False, False]


def test_killed_between_manifest_and_rename_the_stage_is_not_run_again(
    text: Path, runtime: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []

    def counted(spec: CountSpec, inputs: Inputs, out_dir: Path, runtime: Runtime) -> dict[str, Any]:
        calls.append(1)
        (out_dir / ".scratch").mkdir(exist_ok=True)
        (out_dir / ".scratch" / ".hidden").write_text("x")
        return count(spec, inputs, out_dir, runtime)

    def killed(source: Path, target: Path) -> None:
        raise KeyboardInterrupt

    stage = Stage("counted", 1, CountSpec, counted)
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr("korealbert.artifact.stage.replace_directory", killed)
        build(stage, spec_of(text), {}, runtime)
    artifact = build(stage, spec_of(text), {}, runtime).artifact
    assert calls == [1]
    assert sorted(p.name for p in artifact.path.iterdir()) == ["manifest.json", "out.txt"]


@pytest.mark.parametrize("damage", ["", "{}", "[]", '{"name": "count-0'])
def test_a_damaged_manifest_is_named_and_its_stage_rebuilt(text: Path, runtime: Runtime, damage: str) -> None:
    artifact = build(COUNT, spec_of(text), {}, runtime).artifact
    (artifact.path / "manifest.json").write_text(damage)
    assert Store(runtime.store).artifacts() == []
    rebuilt = build(COUNT, spec_of(text), {}, runtime)
    assert str(artifact.path / "manifest.json") in (rebuilt.repaired or "")
    assert Store(runtime.store).damage(rebuilt.artifact) is None


def test_threads_that_write_one_file_at_once_leave_one_whole(tmp_path: Path) -> None:
    together = threading.Barrier(2, timeout=300)

    def write(content: str) -> None:
        with atomic_path(tmp_path / "x") as temporary:
            temporary.write_text(content)
            together.wait()

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(write, ("a" * 9, "b" * 9)))
    assert [path.name for path in tmp_path.iterdir()] == ["x"]
    assert (tmp_path / "x").read_text() in ("a" * 9, "b" * 9)


def test_atomic_path_leaves_nothing_behind_on_error(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError), atomic_path(tmp_path / "x") as temporary:
        temporary.write_text("half")
        raise RuntimeError
    assert list(tmp_path.iterdir()) == []


def test_an_error_in_writing_names_the_file_that_was_asked_for() -> None:
    with pytest.raises(OSError, match=r"No such file|Permission") as refused, atomic_path(Path("/proc/x")) as temporary:
        temporary.write_bytes(b"")
    assert refused.value.filename == "/proc/x"


@pytest.mark.parametrize(("place", "error"), [("none/x", FileNotFoundError), ("file/x", NotADirectoryError)])
def test_a_file_without_a_directory_names_what_is_missing(place: str, error: type[OSError], tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(error) as refused, atomic_path(tmp_path / place):
        pass
    assert refused.value.filename == str((tmp_path / place).parent)


SCRIPT = """
import sys, time, json
from pathlib import Path
from korealbert.artifact import Spec
from korealbert.artifact import Runtime, Stage, build
from korealbert.artifact.files import atomic_write
from korealbert.artifact.shards import map_shards

class S(Spec):
    jobs: int = 40

def work(job, index, out_dir):
    with open(sys.argv[2], "a") as log:
        log.write(f"{index}\\n")
    time.sleep(0.03)
    atomic_write(out_dir / f"part-{index:05d}.txt", (f"job {job}\\n" * 100).encode())
    return {"n": job}

def run(spec, inputs, out_dir, runtime):
    results = map_shards(work, range(spec.jobs), out_dir=out_dir, runtime=runtime, step="work")
    return {"n": sum(r["n"] for r in results)}

if __name__ == "__main__":
    built = build(Stage("slow", 1, S, run), S(), {}, Runtime(store=Path(sys.argv[1]), workers=int(sys.argv[3])))
    print(built.artifact.output_digest, built.cached, built.artifact.stats["n"])
"""


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "slow_stage.py"
    path.write_text(textwrap.dedent(SCRIPT))
    return path


def test_sigkill_then_resume_gives_the_same_bytes_without_redoing_finished_shards(tmp_path: Path, script: Path) -> None:
    straight = subprocess.run(
        [sys.executable, script, tmp_path / "straight", tmp_path / "log0", "2"], capture_output=True, text=True, check=True
    )
    log = tmp_path / "log1"
    victim = subprocess.Popen([sys.executable, script, tmp_path / "killed", log, "1"])
    partial_done = (tmp_path / "killed").glob
    deadline = time.monotonic() + 300
    while len(list(partial_done("slow-*.partial/.done/*.json"))) < 4 and time.monotonic() < deadline:
        time.sleep(0.02)
    victim.send_signal(signal.SIGKILL)
    victim.wait()
    finished = len(list(partial_done("slow-*.partial/.done/*.json")))
    assert 4 <= finished < 40
    resumed = subprocess.run(
        [sys.executable, script, tmp_path / "killed", log, "1"], capture_output=True, text=True, check=True, timeout=600
    )
    assert resumed.stdout == straight.stdout
    started = log.read_text().split()
    assert len(started) <= 40 + 1, "at most the shard that was being written is done twice"


def test_the_lock_dies_with_its_holder_and_so_do_the_workers(tmp_path: Path, script: Path) -> None:
    log = tmp_path / "log"
    victim = subprocess.Popen([sys.executable, script, tmp_path / "store", log, "2"])
    deadline = time.monotonic() + 300
    while (not log.exists() or len(log.read_text().split()) < 3) and time.monotonic() < deadline:
        time.sleep(0.02)
    children = [int(pid) for pid in Path(f"/proc/{victim.pid}/task/{victim.pid}/children").read_text().split()]
    assert children
    victim.kill()
    victim.wait()
    again = subprocess.run(
        [sys.executable, script, tmp_path / "store", log, "1"], capture_output=True, text=True, timeout=600, check=True
    )
    assert again.stdout.split()[1] == "False"
    deadline = time.monotonic() + 300
    while any(_alive(pid) for pid in children) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(_alive(pid) for pid in children)


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().split(") ")[1][0] != "Z"
    except FileNotFoundError:
        return False


def double(job: int, index: int, out_dir: Path) -> dict[str, Any]:
    (out_dir / f"{index:05d}.txt").write_text(str(job * 2))
    return {"job": job}


def test_map_shards_keeps_job_order_for_any_number_of_workers(tmp_path: Path) -> None:
    for workers in (1, 2):
        out_dir = tmp_path / str(workers)
        out_dir.mkdir()
        runtime = Runtime(store=tmp_path, workers=workers)
        results = map_shards(double, iter(range(9)), out_dir=out_dir, runtime=runtime, step="double")
        assert [r["job"] for r in results] == list(range(9))
    one, two = (sorted((p.name, p.read_text()) for p in (tmp_path / w).glob("*.txt")) for w in "12")
    assert one == two and len(one) == 9


def killed(job: int, index: int, out_dir: Path) -> dict[str, Any]:
    os.kill(os.getpid(), signal.SIGKILL)
    return {}


def test_a_killed_worker_process_is_an_error_with_its_remedy(tmp_path: Path) -> None:
    with pytest.raises(BrokenProcessPool, match=r"one of 2 worker processes was killed, .* with fewer workers \(--workers\)"):
        map_shards(killed, range(2), out_dir=tmp_path, runtime=Runtime(store=tmp_path, workers=2), step="killed")


def first_fails_once(job: int, index: int, out_dir: Path) -> dict[str, Any]:
    with (out_dir / ".begun").open("a") as log:
        log.write(f"{index}\n")
    failed = out_dir / ".failed"
    if index == 0 and not failed.exists():
        failed.touch()
        raise ValueError("bad record in line 7")
    while not failed.exists():
        time.sleep(0.01)
    time.sleep(1)  # The other process reports its error meanwhile.
    return double(job, index, out_dir)


def test_jobs_that_were_running_when_another_failed_are_not_run_again(tmp_path: Path) -> None:
    runtime = Runtime(store=tmp_path, workers=2)
    with pytest.raises(ValueError, match="bad record in line 7"):
        map_shards(first_fails_once, range(3), out_dir=tmp_path, runtime=runtime, step="work")
    assert len(map_shards(first_fails_once, range(3), out_dir=tmp_path, runtime=runtime, step="work")) == 3
    assert sorted((tmp_path / ".begun").read_text().split()) == ["0", "0", "1", "2"]
