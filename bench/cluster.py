"""Data stages on a Ray cluster of two nodes beside two local processes: MB/s by the clock, processor time, equal bytes.

python -m bench.cluster KOWIKI... [--megabytes 100] [--rounds 3]: archives or folders of WikiExtractor output. Both sides have
two cores: two nodes of one core on this machine, or two processes. They take turns, in a network that has loopback alone. Exits
with 1 unless the stages together reach 0.8 of the local throughput and all bytes are equal.

Every turn is a program of its own, like a run, so that connecting to the cluster and starting workers count. Starting the
cluster does not count, because it serves many runs: it builds two shards before the first turn. The input should be large
enough for several shards per core (8 MB each). Processor time is that of all processes in the namespace, including the
cluster's own; other work on the machine affects it much less than the clock. A step with a single job (which documents are
duplicates, the sample that Kiwi splits) runs in the program itself on both sides.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

import psutil

from bench.common import answer, cpu_seconds_of, options
from bench.data_stages import STAGES, make_input, specs_of
from bench.ray_nodes import ENVIRONMENT, RayNode, enter_namespaces
from korealbert.artifact import Artifact, build
from korealbert.pretrain.runtime import TrainingRuntime

GOAL = 0.8
WARMING_MEGABYTES = 10
ENGINES = {"local": "local", "Ray": "auto"}


def run_stages(source: Path, store: Path, engine: str) -> dict[str, tuple[float, float, str]]:
    """Build the stages; return seconds by the clock, seconds of processor time and output digest of each."""
    specs = specs_of(source)
    measured = {}
    inputs: dict[str, Artifact] = {}
    runtime = TrainingRuntime(store=store, workers=2, threads=2, engine=engine)
    for name, stage in STAGES.items():
        began, used = time.monotonic(), cpu_seconds_of(psutil.process_iter())
        artifact = build(stage, specs[name], inputs, runtime, label=name).artifact
        measured[name] = (time.monotonic() - began, cpu_seconds_of(psutil.process_iter()) - used, artifact.output_digest)
        inputs = {"documents": artifact}
    return measured


def turn(source: Path, place: Path, engine: str) -> dict[str, tuple[float, float, str]]:
    """Call ``run_stages`` in a process of its own and with a store that is removed afterwards."""
    measured: dict[str, tuple[float, float, str]] = answer(
        [sys.executable, "-m", "bench.cluster", "--child", source, place / "store", engine]
    )
    shutil.rmtree(place / "store")
    return measured


def main() -> int:
    if sys.argv[1:2] == ["--child"]:
        print(json.dumps(run_stages(Path(sys.argv[2]), Path(sys.argv[3]), sys.argv[4])))
        return 0
    parser = options(__doc__)
    parser.add_argument("kowiki", type=Path, nargs="+")
    parser.add_argument("--megabytes", type=int, default=100, help="of input")
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    enter_namespaces()
    os.environ |= ENVIRONMENT
    clock: dict[str, dict[str, float]] = {name: {} for name in ENGINES}
    used: dict[str, dict[str, float]] = {name: {} for name in ENGINES}
    seen: dict[str, set[str]] = {stage: set() for stage in STAGES}
    with tempfile.TemporaryDirectory(prefix="korealbert-bench-") as directory:
        place = Path(directory)
        source, little = place / "source", place / "little"
        source.mkdir()
        little.mkdir()
        megabytes = make_input(arguments.kowiki, arguments.megabytes, source)
        make_input(arguments.kowiki, WARMING_MEGABYTES, little)
        nodes = [RayNode(place / "ray", os.environ, head=head) for head in (True, False)]
        try:
            turn(little, place, ENGINES["Ray"])
            for number in range(arguments.rounds):
                for name in sorted(ENGINES, reverse=bool(number % 2)):
                    for stage, (seconds, processor, digest) in turn(source, place, ENGINES[name]).items():
                        clock[name][stage] = min(seconds, clock[name].get(stage, seconds))
                        used[name][stage] = min(processor, used[name].get(stage, processor))
                        seen[stage].add(digest)
        finally:
            for node in reversed(nodes):
                node.kill()
    for taken in (*clock.values(), *used.values()):
        taken["all"] = sum(taken.values())
    print(f"{megabytes:.0f} MB of WikiExtractor text; MB/s by the clock, processor time in s; the best of {arguments.rounds}\n")
    print("| stage | two local processes | two Ray nodes | ratio | goal | local s | Ray s | same bytes |")
    print("|---|---|---|---|---|---|---|---|")
    for stage in (*STAGES, "all"):
        local, spread = (megabytes / clock[name][stage] for name in ENGINES)
        same = all(len(seen[each]) == 1 for each in (STAGES if stage == "all" else [stage]))
        cells = [stage, f"{local:.2f}", f"{spread:.2f}", f"{spread / local:.2f}", f"≥ {GOAL}" if stage == "all" else ""]
        cells += [f"{used[name][stage]:.1f}" for name in ENGINES]
        print(f"| {' | '.join(cells)} | {'yes' if same else 'NO'} |")
    return int(spread / local < GOAL or not same)


if __name__ == "__main__":
    sys.exit(main())
