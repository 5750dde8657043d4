"""A CPU pretraining run that is killed at random moments ends in the same bytes as one that is not.

    python -m bench.soak_pretrain [--kills 100] [--seed 1] [--store DIR] [--packed]

Kills are spread evenly over the run: each waits for a random step of its own stretch, and for a random moment of the step after
it. Every third goes on waiting until a random number of a checkpoint's files has been written. Every tenth comes while the
processes start. The stage, the agent of its training process and this process are hit in random order.

Steps are small, with a checkpoint every four, a scoring every six, and a change to long sequences half-way. ``--packed`` trains
a modern encoder by Muon on packed rows, with other rotary frequencies in long sequences. Exits with 1 unless weights,
configuration, metrics and events are equal. The same command goes on after the last kill of an interrupted soak.
"""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from bench.common import options
from korealbert.artifact import Artifact, build
from korealbert.pretrain.runtime import TrainingRuntime
from korealbert.pretrain.spec import PretrainSpec
from korealbert.pretrain.stage import STAGE

STEPS_PER_KILL = 12
"""Steps of the stretch in which a kill comes: three checkpoints."""
CHECKPOINT_FILES = 5
"""Files of a checkpoint."""
MAX_SECONDS = 600
"""Longest wait for a moment."""
ROLES = ("vocab", "examples", "views", "examples_long", "views_long")

ALBERT: dict[str, Any] = {
    "model": {"hidden_size": 32, "embedding_size": 16, "num_heads": 2, "num_layers": 2, "max_positions": 64},
    "optimizer": {"lr": 2e-3},
}
PACKED: dict[str, Any] = {
    "model": {
        "architecture": "modern",
        "hidden_size": 32,
        "num_heads": 2,
        "num_layers": 3,
        "local_attention": 16,
        "global_theta": 100.0,
        "mlp_dropout": 0.1,
    },
    "optimizer": {"name": "muon", "lr": 2e-3},
    "schedule": {"decay": "stable_sqrt"},
    "packing": "best_fit",
    "wop_weight": 0.0,
}


def spec_for(kills: int, *, packed: bool) -> PretrainSpec:
    steps = STEPS_PER_KILL * (kills + 1)
    return PretrainSpec(
        **(PACKED if packed else ALBERT),
        steps=steps,
        global_batch_size=8,
        micro_batch_size=4,
        long={
            "from_step": steps // 2,
            "global_batch_size": 4,
            "micro_batch_size": 2,
            "global_theta": 9_000.0 if packed else None,
        },
        log_every=1,
        heldout_every=6,
        checkpoint_every=4,
        tensorboard=True,
    )


def train(store: Path, spec: PretrainSpec, paths: list[str], *, verbose: bool = False) -> None:
    """Run the stage; ``verbose`` prints a line for each report of progress."""
    inputs = {role: Artifact(Path(path).name, Path(path)) for role, path in zip(ROLES, paths, strict=True)}
    runtime = TrainingRuntime(store=store, threads=1, device="cpu")
    if verbose:
        runtime = runtime.reporting_to(lambda progress: print(progress.done, flush=True))
    build(STAGE, spec, inputs, runtime)


@dataclass(frozen=True)
class Moment:
    """When a kill comes, and what it hits."""

    step: int | None
    """It comes after this step; None: while the processes start."""
    share: float
    """Share of a step, or of the time that the processes take to start, which it waits in addition."""
    files: int | None
    """It comes when so many files of a checkpoint have been written; None: it waits for no checkpoint."""
    process: int
    """0: the stage, 1: the agent of its training process, 2: this process; one of them that has started."""


def moments(kills: int, lot: random.Random) -> list[Moment]:
    """Draw the moments of all kills, one in each stretch of the run."""
    drawn = []
    for number in range(kills):
        step = number * STEPS_PER_KILL + lot.randrange(STEPS_PER_KILL)
        share, files, process = lot.random(), lot.randrange(CHECKPOINT_FILES + 1), lot.randrange(3)
        if number % 10 == 9:
            drawn.append(Moment(None, share, None, process))
        else:
            drawn.append(Moment(step, share, files if number % 3 == 2 else None, process))
    return drawn


class Run:
    """The stage in a process of its own, and the step that it has reached."""

    def __init__(self, store: Path, spec: PretrainSpec, paths: list[str]) -> None:
        self._store, self._begun, self._begun_ns = store, time.monotonic(), time.time_ns()
        command = [sys.executable, "-m", "bench.soak_pretrain", "--child", str(store), spec.model_dump_json(), *paths]
        self._stage = psutil.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.step: int | None = None
        """The newest step that was reported; None before the first report."""
        self.seconds_to_start: float | None = None
        """Time to the first report."""
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        for line in self._stage.stdout:
            if self.step is None:
                self.seconds_to_start = time.monotonic() - self._begun
            self.step = int(line)

    def wait_for(self, moment: Moment, seconds_to_start: float) -> None:
        """Wait for a moment, or for the end of the run."""
        if (wanted := moment.step) is None:
            time.sleep(moment.share * seconds_to_start)
            return
        self._wait(lambda: self.step is not None and self.step >= wanted)
        before, since = self.step, time.monotonic()
        self._wait(lambda: self.step != before)
        time.sleep(moment.share * (time.monotonic() - since))
        if (files := moment.files) is not None:
            self._wait(lambda: self._files() >= files)

    def _wait(self, reached: Callable[[], bool]) -> None:
        deadline = time.monotonic() + MAX_SECONDS
        while self._stage.poll() is None and not reached():
            if time.monotonic() > deadline:
                raise TimeoutError(
                    f"the moment of the kill did not come within {MAX_SECONDS} s; the run is at step {self.step}"
                )
            time.sleep(0.0005)

    def _files(self) -> int:
        return files_of_half_written(self._store, self._begun_ns)

    def kill(self, number: int) -> str | None:
        """Kill a process, by its number in ``Moment``, and wait until all have ended.

        Returns what was hit, or None if the run had ended before.
        """
        with suppress(psutil.NoSuchProcess):
            family = [self._stage, *self._stage.children(recursive=True)]
            hit = min(number, len(family) - 1)
            family[hit].kill()
            psutil.wait_procs(family)
            if self._stage.wait() != 0:
                written = ", a checkpoint half written" if self._files() >= 0 else ""
                return ("the stage", "the agent", "the training process")[hit] + written
        return None


class Record:
    """The kills so far, one a line after a first one with what they were made for."""

    def __init__(self, path: Path, made_for: dict[str, Any]) -> None:
        self._path, self._first = path, made_for
        found = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
        self.lines = found if found[:1] == [made_for] else []
        """Empty if the file records other kills, or none."""

    @property
    def kills(self) -> list[dict[str, Any]]:
        return self.lines[1:]

    def begin(self) -> None:
        """Begin anew."""
        self._path.unlink(missing_ok=True)
        self.add(self._first)

    def add(self, line: dict[str, Any]) -> None:
        """Record a kill."""
        self.lines.append(line)
        with self._path.open("a") as file:
            file.write(json.dumps(line) + "\n")


def files_of_half_written(store: Path, since_ns: int) -> int:
    """Return the files of the checkpoint that is being written, -1 if none is; what earlier runs have left does not count."""
    for path in store.glob("pretrain-*.partial/.checkpoints/step-*.partial"):
        with suppress(FileNotFoundError):  # It was finished meanwhile.
            if path.stat().st_mtime_ns >= since_ns:
                return len(list(path.iterdir()))
    return -1


def main() -> int:
    if sys.argv[1:2] == ["--child"]:
        child_store, child_spec, *child_paths = sys.argv[2:]
        train(Path(child_store), PretrainSpec.model_validate_json(child_spec), child_paths, verbose=True)
        return 0
    parser = options(__doc__)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--store", type=Path, default=Path("store/soak-pretrain"))
    parser.add_argument("--packed", action="store_true", help="a modern encoder on packed rows instead of an ALBERT")
    arguments = parser.parse_args()
    from bench.pretrain import rows  # It imports torch, which the stage's process does not need

    vocab, *short = rows(32, arguments.store, copies=1, heldout_share=0.2)
    _, *long = rows(64, arguments.store, copies=1, heldout_share=0.2)
    paths = [str(artifact.path.resolve()) for artifact in (vocab, *short, *long)]
    spec = spec_for(arguments.kills, packed=arguments.packed)
    stores = {name: (arguments.store / name).resolve() for name in ("straight", "killed")}
    record = Record(arguments.store / "kills.jsonl", {"spec": spec.model_dump(mode="json"), "seed": arguments.seed})
    if not record.lines:
        for store in stores.values():
            shutil.rmtree(store, ignore_errors=True)
        record.begin()
    begun = time.monotonic()
    train(stores["straight"], spec, paths)
    seconds_to_start = time.monotonic() - begun
    for moment in moments(arguments.kills, random.Random(arguments.seed))[len(record.kills) :]:  # noqa: S311
        begun = time.monotonic()
        run = Run(stores["killed"], spec, paths)
        run.wait_for(moment, seconds_to_start)
        hit = run.kill(moment.process)
        if hit is None:
            break
        hit = hit if run.step is not None else f"{hit}, while starting"
        record.add({"hit": hit, "step": run.step, "seconds": time.monotonic() - begun})
        seconds_to_start = run.seconds_to_start or seconds_to_start
    train(stores["killed"], spec, paths)
    kills = record.kills
    for hit, count in Counter(kill["hit"] for kill in kills).most_common():
        print(f"{count:5} × {hit}")
    tenths = Counter(10 * kill["step"] // spec.steps for kill in kills if kill["step"] is not None)
    print(f"kills in each tenth of the steps: {', '.join(str(tenths[tenth]) for tenth in range(10))}")
    directories = [next(store.glob("pretrain-*[0-9a-f]")) for store in stores.values()]
    files = [
        {path.name: path.read_bytes() for path in directory.iterdir() if path.name != "manifest.json"}
        for directory in directories
    ]
    same = files[0] == files[1]
    print(
        f"{len(kills)} kills, {spec.steps:,} steps, {sum(kill['seconds'] for kill in kills):.0f} s: "
        f"{', '.join(sorted(files[0]))} {'equal' if same else 'DIFFER'}"
    )
    return 0 if same and len(kills) == arguments.kills else 1


if __name__ == "__main__":
    sys.exit(main())
