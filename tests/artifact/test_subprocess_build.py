"""Stages in processes of their own: same artifact, errors are passed on, memory is measured and limited."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from korealbert.artifact import Inputs, Progress, Spec, Stage, Stats, build, cached
from korealbert.artifact.subprocess_build import SPARE, DoesNotFit, Job, Killed, Needs, build_in_subprocess
from korealbert.pretrain.runtime import TrainingRuntime

MIB = 1 << 20


class ToySpec(Spec):
    """What the toy stage does."""

    text: str = "a"
    mebibytes: int = 0
    fails: str = ""


class Odd(Exception):
    """An error that cannot be pickled."""

    def __init__(self, first: str, second: object) -> None:
        super().__init__(f"{first} is odd")
        self.second = second


def run(spec: ToySpec, inputs: Inputs, out_dir: Path, runtime: TrainingRuntime) -> Stats:
    if spec.fails == "value":
        raise ValueError("text: too short; write more")
    if spec.fails == "odd":
        raise Odd("this", lambda: None)
    if spec.fails == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    ballast = bytearray(spec.mebibytes * MIB)
    for page in range(0, len(ballast), 4096):
        ballast[page] = 1
    if spec.fails == "hoards":
        signal.pause()
    runtime.report(Progress(1, 1, "toys", {"pid": os.getpid(), "spins": int(os.environ["GOMP_SPINCOUNT"])}))
    (out_dir / "text").write_text(spec.text)
    return {"threads": runtime.threads}


def memory_class(spec: ToySpec, inputs: Inputs) -> str:
    return str(spec.mebibytes)


STAGE = Stage("toy", version=1, spec=ToySpec, run=run, memory_class=memory_class)


def job(**fields: Any) -> Job:
    return Job(STAGE, ToySpec(**fields), {}, "toy/one", rerun=False)


def test_a_stage_apart_gives_the_same_artifact_and_reports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GOMP_SPINCOUNT", raising=False)
    seen: list[Progress] = []
    runtime = TrainingRuntime(store=tmp_path / "store", threads=3, cells=2)
    assert cached(STAGE, ToySpec(), {}, runtime) is None
    built = build_in_subprocess(job(), runtime.of_a_cell().reporting_to(seen.append))
    assert not built.cached and built.artifact.stats == {"threads": 1}
    assert [report.unit for report in seen] == ["toys"] and seen[0].metrics["pid"] != os.getpid()
    assert seen[0].metrics["spins"] == 1000, "idle threads soon sleep"
    assert cached(STAGE, ToySpec(), {}, runtime) == built.artifact
    here = build(STAGE, ToySpec(), {}, TrainingRuntime(store=tmp_path / "other"))
    assert here.artifact.output_digest == built.artifact.output_digest
    assert build_in_subprocess(job(), runtime).cached


def test_its_errors_are_its_own(tmp_path: Path) -> None:
    runtime = TrainingRuntime(store=tmp_path)
    with pytest.raises(ValueError, match="text: too short; write more") as caught:
        build_in_subprocess(job(fails="value"), runtime)
    assert any("in run" in note for note in caught.value.__notes__)
    with pytest.raises(RuntimeError, match="Odd: this is odd"):
        build_in_subprocess(job(fails="odd"), runtime)
    with pytest.raises(Killed, match=r"toy/one: its process ended with exit code -9; most often memory ran out"):
        build_in_subprocess(job(fails="killed"), runtime)


def test_memory_is_measured_and_what_does_not_fit_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOMP_SPINCOUNT", "7")
    seen: list[Progress] = []
    runtime = TrainingRuntime(store=tmp_path).reporting_to(seen.append)
    needs = Needs(tmp_path)
    assert needs.of(job(mebibytes=150), None) is None
    build_in_subprocess(job(), runtime)
    build_in_subprocess(job(mebibytes=150), runtime)
    assert [report.metrics["spins"] for report in seen] == [7, 7], "a value of the user's own stays"
    bare, more = (needs.of(job(mebibytes=size), None) for size in (0, 150))
    assert bare is not None and more is not None
    assert 130 * MIB * SPARE < more - bare < 250 * MIB * SPARE
    with pytest.raises(DoesNotFit, match=r"toy/one: needs 0\.\d\d GiB, but memory_gib allows 0\.01; .*micro_batch_size"):
        needs.of(job(mebibytes=150), 10 * MIB)


def test_a_process_beyond_the_limit_is_ended(tmp_path: Path) -> None:
    runtime = TrainingRuntime(store=tmp_path, memory_gib=0.4)
    with pytest.raises(DoesNotFit, match=r"toy/one: took 0\.[4-9]\d GiB, but memory_gib allows 0\.40"):
        build_in_subprocess(job(mebibytes=450, fails="hoards"), runtime, runtime.memory_bytes)
    with pytest.raises(DoesNotFit, match=r"needs 0\.[4-9]"):
        Needs(tmp_path).of(job(mebibytes=450), runtime.memory_bytes)


def test_cells_share_the_threads() -> None:
    assert TrainingRuntime(threads=8, cells=3).of_a_cell().threads == 2
    assert TrainingRuntime(threads=2, cells=4).of_a_cell().threads == 1
    assert TrainingRuntime(threads=8, device="cpu").cells_at_once == 1
    assert TrainingRuntime(threads=8, memory_gib=4).cells_at_once == 8
    assert TrainingRuntime(threads=8, memory_gib=4, cells=3).cells_at_once == 3
