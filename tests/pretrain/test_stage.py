"""The whole stage on real shards and in processes: killed, stopped, resumed, on two ranks, and refused."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from pydantic import ValidationError

from korealbert.artifact import Artifact, Progress, build
from korealbert.examples.batches import ExampleBatches
from korealbert.pretrain.engine import Ranks
from korealbert.pretrain.launch import RankFailed, RankKilled, RanksStopped
from korealbert.pretrain.metrics import EVENT_FILE
from korealbert.pretrain.runtime import TrainingRuntime
from korealbert.pretrain.spec import PretrainSpec
from korealbert.pretrain.stage import STAGE, PretrainingStopped, check
from korealbert.pretrain.trainer import Trainer
from korealbert.vocab.stage import VocabSpec, train_model
from tests.pretrain.conftest import TWO_RANKS
from tests.pretrain.runs import lines, ranks_using, same_bytes, train_here
from tests.pretrain.shards import build_long

SPEC: dict[str, Any] = {
    "model": {"hidden_size": 32, "embedding_size": 16, "num_heads": 2, "num_layers": 2, "max_positions": 32},
    "steps": 150,
    "global_batch_size": 8,
    "micro_batch_size": 4,
    "optimizer": {"lr": 0.01},
    "log_every": 10,
    "heldout_every": 75,
    "checkpoint_every": 25,
}


DRIVER = """
import sys
from pathlib import Path
from korealbert.artifact import build
from korealbert.pretrain.runtime import TrainingRuntime
from korealbert.artifact import Artifact
from korealbert.pretrain.spec import PretrainSpec
from korealbert.pretrain.stage import STAGE
store, spec, *paths = sys.argv[1:]
inputs = {role: Artifact(Path(path).name, Path(path)) for role, path in zip(paths[::2], paths[1::2])}
runtime = TrainingRuntime(store=Path(store), threads=1, device="cpu")
build(STAGE, PretrainSpec.model_validate_json(spec), inputs, runtime.reporting_to(lambda p: print(p.done, flush=True)))
"""


def interrupt(
    spec: PretrainSpec,
    ancestry: dict[str, Artifact],
    store: Path,
    number: int,
    ready: Callable[[], bool],
) -> None:
    """Build in a process, send it a signal once ``ready``, and wait until all its processes have ended."""
    paths = [word for role, artifact in ancestry.items() for word in (role, str(artifact.path))]
    command = [sys.executable, "-c", DRIVER, str(store), spec.model_dump_json(), *paths]
    driver = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    while not ready():
        assert driver.poll() is None, driver.communicate()[0]
        time.sleep(0.01)
    workers = Path(f"/proc/{driver.pid}/task/{driver.pid}/children").read_text().split()
    assert workers
    driver.send_signal(number)
    driver.communicate(timeout=300)
    deadline = time.monotonic() + 300
    while any(Path(f"/proc/{pid}").exists() for pid in workers):
        assert time.monotonic() < deadline, "a training process outlived its stage"
        time.sleep(0.02)


@pytest.mark.usefixtures("trains_here")
def test_stopped_killed_and_finished_equals_straight(
    ancestry: dict[str, Artifact], alone: Ranks, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Processes are stopped on short sequences and killed on long ones; this process then finishes with the bytes of a straight
    run. The lock of a killed compilation blocks none of them."""
    model = {**SPEC["model"], "max_positions": 64}
    short = {"steps": 60, "heldout_every": 30, "checkpoint_every": 15, "log_every": 5, "long": {"from_step": 30}}
    spec = PretrainSpec(**{**SPEC, **short, "model": model, "tensorboard": True})
    ancestry = {**ancestry, **build_long(tmp_path / "rows", ancestry)}
    store, compiled = tmp_path / "store", tmp_path / "compiled"
    lock = compiled / "deepspeed_shm_comm" / "lock"
    lock.parent.mkdir(parents=True)
    lock.touch()
    monkeypatch.setenv("TORCH_EXTENSIONS_DIR", str(compiled))

    def saved() -> set[str]:
        return {path.name for path in store.glob("pretrain-*.partial/.checkpoints/step-*") if path.suffix != ".partial"}

    def first_lines() -> bool:
        files = list(store.glob("pretrain-*.partial/metrics.jsonl"))
        return bool(files) and files[0].read_text().count("\n") > 2

    interrupt(spec, ancestry, store, signal.SIGTERM, first_lines)
    stopped = max(int(name.removeprefix("step-")) for name in saved())
    assert stopped > 0, "SIGTERM should have saved a checkpoint"
    interrupt(spec, ancestry, store, signal.SIGKILL, lambda: "step-00000045" in saved())

    reports: list[Progress] = []
    runtime = TrainingRuntime(store=store, threads=1, device="cpu").reporting_to(reports.append)
    artifact = build(STAGE, spec, ancestry, runtime).artifact
    straight = tmp_path / "straight"
    straight.mkdir()
    stats = train_here(spec, ancestry, straight, alone)
    assert same_bytes(straight, artifact.path)
    files = ["config.json", EVENT_FILE, "metrics.jsonl", "model.safetensors"]
    assert sorted(artifact.manifest["files"]) == files
    assert (straight / EVENT_FILE).read_bytes() == (artifact.path / EVENT_FILE).read_bytes()
    assert artifact.stats["resumed_from_step"] >= 45
    for name in ("steps", "tokens", "parameters", "heldout", "sequence_length", "epochs"):
        assert artifact.stats[name] == stats[name], name
    assert reports[-1].done == 60
    assert {"loss", "mlm_loss", "sop_loss", "wop_loss", "learning_rate", "tokens_per_second"} <= set(reports[0].metrics)
    assert list(compiled.iterdir()) == [lock.parent], "DeepSpeed compiled something"
    assert not lock.exists()


def test_two_processes_follow_the_curve_of_one(
    ancestry: dict[str, Artifact], two_ranks: Artifact, alone: Ranks, tmp_path: Path
) -> None:
    """Dropout included, whose seed belongs to the micro-batch and not to the rank."""
    train_here(TWO_RANKS, ancestry, tmp_path, alone)
    assert two_ranks.stats["processes"] == 2
    for split in ("train", "heldout"):
        for one, two in zip(lines(tmp_path, split), lines(two_ranks.path, split), strict=True):
            assert one.keys() == two.keys()
            for name in one.keys() - {"split"}:
                assert two[name] == (one[name] and pytest.approx(one[name], rel=2e-3, abs=1e-4)), (one["step"], name)


@pytest.mark.soak
def test_zero_divides_the_moments_and_changes_neither_curve_nor_checkpoint(
    ancestry: dict[str, Artifact], alone: Ranks, tmp_path: Path
) -> None:
    """One of two processes under ZeRO 2 is killed, which ends the other; resumed there, the curve is that of one
    process without it."""
    adamw = {"optimizer": {"name": "adamw", "lr": 0.01}, "steps": 60, "log_every": 5, "schedule": {"warmup_steps": 3}}
    fields = {**SPEC, **adamw}
    train_here(PretrainSpec(**fields), ancestry, tmp_path, alone)
    spec, runtime = (
        PretrainSpec(**fields, zero_stage=2),
        TrainingRuntime(store=tmp_path / "store", processes=2, threads=2, device="cpu"),
    )
    hit: list[int] = []

    def strike(progress: Progress) -> None:
        if progress.done >= 30 and not hit:
            hit.append(max(ranks_using(runtime.store)))
            os.kill(hit[0], signal.SIGKILL)

    with pytest.raises(RankKilled, match=r"of 2 was killed by SIGKILL \(out of memory\?\)"):
        build(STAGE, spec, ancestry, runtime.reporting_to(strike))
    assert not ranks_using(runtime.store)
    artifact = build(STAGE, spec, ancestry, runtime).artifact
    assert artifact.stats["resumed_from_step"] == 25
    for one, two in zip(lines(tmp_path), lines(artifact.path), strict=True):
        for name in ("loss", "gradient_norm", "learning_rate"):
            assert two[name] == pytest.approx(one[name], rel=2e-3), (one["step"], name)


@pytest.mark.skipif(torch.cuda.is_available(), reason="needs a machine without CUDA")
def test_a_failing_process_is_quoted(ancestry: dict[str, Artifact], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The stage finds a device that its process does not."""
    monkeypatch.setattr("korealbert.pretrain.stage.check_device", lambda spec, runtime: None)
    with pytest.raises(RankFailed) as failure:
        build(STAGE, PretrainSpec(**SPEC), ancestry, TrainingRuntime(store=tmp_path, device="cuda"))
    message = str(failure.value).splitlines()
    assert message[1].startswith("Traceback")
    assert "torch finds no CUDA device here" in message[-1]


def test_a_training_stopped_while_it_starts_is_stopped_and_not_tried_again(
    ancestry: dict[str, Artifact], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped(*given: object, **options: object) -> None:
        raise RanksStopped("the training processes were stopped before they could save")

    monkeypatch.setattr("korealbert.pretrain.stage.run_ranks", stopped)
    with pytest.raises(PretrainingStopped, match="it resumes at its last checkpoint, if it has one"):
        build(STAGE, PretrainSpec(**SPEC), ancestry, TrainingRuntime(store=tmp_path))


def test_contradictions_are_refused_before_launch(ancestry: dict[str, Artifact], tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"global_batch_size = 8 is not divisible by the number of ranks = 3"):
        build(STAGE, PretrainSpec(**SPEC), ancestry, TrainingRuntime(store=tmp_path, processes=3))
    short = {**SPEC, "model": {**SPEC["model"], "max_positions": 16}}
    with pytest.raises(ValueError, match=r"32 tokens long, but max_positions = 16"):
        build(STAGE, PretrainSpec(**short), ancestry, TrainingRuntime(store=tmp_path))
    rtd = {**SPEC, "objective": "rtd", "model": {**SPEC["model"], "pooler": False}}
    with pytest.raises(ValueError, match=r"moves tokens \(\d+ word-order slots\), but objective = 'rtd'"):
        build(STAGE, PretrainSpec(**rtd), ancestry, TrainingRuntime(store=tmp_path))
    long = {**SPEC, "long": {"from_step": 100}}
    with pytest.raises(ValueError, match=r"LongPhase\(from_step=100, .*\), but there are no long examples"):
        build(STAGE, PretrainSpec(**long), ancestry, TrainingRuntime(store=tmp_path))
    rows = build_long(tmp_path / "rows", ancestry)
    with pytest.raises(ValueError, match=r"64 tokens long, but max_positions = 32"):
        build(STAGE, PretrainSpec(**long), {**ancestry, **rows}, TrainingRuntime(store=tmp_path))
    with pytest.raises(ValueError, match=r"long = None, but there are long examples; give both or neither"):
        build(STAGE, PretrainSpec(**SPEC), {**ancestry, **rows}, TrainingRuntime(store=tmp_path))
    wide = {**long, "model": {**SPEC["model"], "max_positions": 64}}
    same = {"examples_long": ancestry["examples"], "views_long": ancestry["views"]}
    with pytest.raises(ValueError, match=r"the long examples are 32 tokens long, the short ones 32; pack the long ones"):
        build(STAGE, PretrainSpec(**wide), {**ancestry, **same}, TrainingRuntime(store=tmp_path))
    mixed = {**ancestry, "views": rows["views_long"]}
    with pytest.raises(ValueError, match=r"views-.*examples-"):
        build(STAGE, PretrainSpec(**SPEC), mixed, TrainingRuntime(store=tmp_path))
    for frozen, message in (
        (["encoder.fnn.*"], r"no tensor of the model matches 'encoder.fnn.\*'; patterns that match some: .*encoder\.ffn\.\*,"),
        (["*"], r"frozen = \['\*'\] leaves nothing to train"),
    ):
        with pytest.raises(ValueError, match=message):
            build(STAGE, PretrainSpec(**SPEC, frozen=frozen), ancestry, TrainingRuntime(store=tmp_path))
    with pytest.raises(ValidationError, match=r"device\n.*'cpu', 'cuda' or 'auto'|device\n.*Input should be"):
        TrainingRuntime(store=tmp_path, device="tpu")
    other = tmp_path / "vocab-other"
    other.mkdir()
    model = train_model(VocabSpec(size=17, character_coverage=1.0, training_threads=1), ["가 나 다 라 마 바 사 아 자 차"] * 9)
    (other / "spiece.model").write_bytes(model.SerializeToString())
    wrong = {**ancestry, "vocab": Artifact("vocab-other", other)}
    with pytest.raises(ValueError, match=r"was packed with another vocabulary \(65 pieces, .* than vocab-other \(17 pieces"):
        STAGE.run(PretrainSpec(**SPEC), wrong, tmp_path, TrainingRuntime())
    assert not list(tmp_path.rglob(".job.json"))


def test_planning_a_run_loads_neither_torch_nor_deepspeed() -> None:
    code = (
        "import sys, korealbert.pretrain.stage, korealbert.huggingface.export; print({'torch', 'deepspeed'} & set(sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "set()\n"


def test_without_held_out_rows_there_are_no_held_out_scores(
    ancestry: dict[str, Artifact], alone: Ranks, tmp_path: Path
) -> None:
    class Nothing:
        num_rows = 0

    examples, views = ancestry["examples"].path, ancestry["views"].path
    spec = PretrainSpec(**{**SPEC, "steps": 2})
    config = check(spec, vocab=ancestry["vocab"].path, examples=examples, views=views)
    train: Any = ExampleBatches(examples, views, "train")
    nothing: Any = Nothing()
    stats = Trainer(spec, config, train=train, heldout=nothing, ranks=alone, out_dir=tmp_path).run()
    assert stats["heldout"] == {}
    assert [json.loads(line)["split"] for line in (tmp_path / "metrics.jsonl").read_text().splitlines()] == ["train"]
    assert list((tmp_path / ".checkpoints").iterdir())
