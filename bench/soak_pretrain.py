"""A CPU pretraining run that is killed at random moments ends in the same bytes as one that is not.

    python -m bench.soak_pretrain [--kills 100] [--seed 1] [--store DIR] [--packed]

Steps take milliseconds, with a checkpoint every four, a scoring every six, and a change to long sequences half-way, so that
kills hit loading, steps, scoring and writing alike. Every third kill waits until a checkpoint is being written. SIGKILL goes to
the stage and to its training process in turns; every tenth kill comes while they start. ``--packed`` trains a modern encoder by
Muon on packed rows, with other rotary frequencies in long sequences. Exits with 1 unless weights, configuration, metrics and
events are equal.
"""

from __future__ import annotations

import os
import random
import select
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

from bench.common import child_of, options
from bench.pretrain import rows
from korealbert.artifact import Artifact, build
from korealbert.pretrain.runtime import TrainingRuntime
from korealbert.pretrain.spec import PretrainSpec
from korealbert.pretrain.stage import STAGE

STEPS_PER_KILL = 24
"""A little more than can be done between two kills, so that the run is not finished before the last one."""
MAX_SECONDS_TRAINING = 0.6
"""Longest time between the first step and the kill."""
MAX_SECONDS_STARTING = 6.0
"""Longest time between the start of the processes and a kill that comes before they train."""
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
    steps = STEPS_PER_KILL * max(kills, 1)
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
        log_every=2,
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


def start(store: Path, spec: PretrainSpec, paths: list[str]) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "bench.soak_pretrain", "--child", str(store), spec.model_dump_json(), *paths]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)


def live_and_kill(store: Path, spec: PretrainSpec, paths: list[str], number: int, lot: random.Random) -> str | None:
    """Start, wait and kill once; returns what the kill hit, or None if the run had ended before."""
    stage = start(store, spec, paths)
    assert stage.stdout is not None
    starting = number % 10 == 0
    if starting:
        time.sleep(lot.uniform(0, MAX_SECONDS_STARTING))
    else:
        select.select([stage.stdout], [], [], 120)
        time.sleep(lot.uniform(0, MAX_SECONDS_TRAINING))
        deadline = time.monotonic() + MAX_SECONDS_TRAINING
        while number % 3 == 0 and not writing(store) and time.monotonic() < deadline and stage.poll() is None:
            time.sleep(0.0002)
    rank = child_of(stage.pid)
    hit = "the start" if starting else "the stage" if number % 2 else "its training process"
    if stage.poll() is None:
        os.kill(rank if rank and hit == "its training process" else stage.pid, signal.SIGKILL)
        hit += ", a checkpoint half written" if writing(store) else ""
    else:
        hit = ""
    stage.stdout.read()
    finished = stage.wait() == 0
    while rank and Path(f"/proc/{rank}").exists():
        time.sleep(0.01)
    return None if finished or not hit else hit


def writing(store: Path) -> bool:
    return bool(list(store.glob("pretrain-*.partial/.checkpoints/step-*.partial")))


def main() -> int:
    if sys.argv[1:2] == ["--child"]:
        store, spec, *paths = sys.argv[2:]
        train(Path(store), PretrainSpec.model_validate_json(spec), paths, verbose=True)
        return 0
    parser = options(__doc__)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--store", type=Path, default=Path("store/soak-pretrain"))
    parser.add_argument("--packed", action="store_true", help="a modern encoder on packed rows instead of an ALBERT")
    arguments = parser.parse_args()
    vocab, *short = rows(32, arguments.store, copies=1, heldout_share=0.2)
    _, *long = rows(64, arguments.store, copies=1, heldout_share=0.2)
    paths = [str(artifact.path.resolve()) for artifact in (vocab, *short, *long)]
    spec, lot = spec_for(arguments.kills, packed=arguments.packed), random.Random(arguments.seed)  # noqa: S311
    stores = {name: (arguments.store / name).resolve() for name in ("straight", "killed")}
    for store in stores.values():
        shutil.rmtree(store, ignore_errors=True)
    begun = time.monotonic()
    train(stores["straight"], spec, paths)
    straight = time.monotonic() - begun
    hits: Counter[str] = Counter()
    for number in range(1, arguments.kills + 1):
        hit = live_and_kill(stores["killed"], spec, paths, number, lot)
        if hit is None:
            break
        hits[hit] += 1
    train(stores["killed"], spec, paths)
    for hit, count in hits.most_common():
        print(f"{count:5} × {hit}")
    directories = [next(store.glob("pretrain-*[0-9a-f]")) for store in stores.values()]
    files = [
        {path.name: path.read_bytes() for path in directory.iterdir() if path.name != "manifest.json"}
        for directory in directories
    ]
    same = files[0] == files[1]
    print(
        f"{hits.total()} kills, {spec.steps:,} steps, {time.monotonic() - begun:.0f} s (straight: {straight:.0f} s): "
        f"{', '.join(sorted(files[0]))} {'equal' if same else 'DIFFER'}"
    )
    return 0 if same and hits.total() == arguments.kills else 1


if __name__ == "__main__":
    sys.exit(main())
