"""Data stages on a Ray cluster of two nodes beside the same on local processes: MB/s by the clock, processor time, and whether
bytes are equal.

python -m bench.cluster KOWIKI... [--megabytes 100] [--rounds 3]: archives or folders of WikiExtractor output. Both have two
cores: two nodes of one core on this machine, or two processes. They take turns, within a network that has nothing but
loopback. Exits with 1 unless the stages together reach 0.8 of the local throughput and all bytes are equal.

Every turn is a program of its own, as a run is, so that its connection to the cluster and the start of its workers count.
What does not count is the start of the cluster itself, which serves many runs: it builds two shards before the first turn.
The input should be large enough for several shards a core (8 MB each). Processor time is that of all processes in
sight, the cluster's own ones too; unlike the clock it is hardly touched by other work on the machine. A stage's part that has
but one job (which documents are duplicates, the sample that Kiwi splits) runs in the program itself either way.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil

from bench import namespace
from bench.data_stages import STAGES, make_input
from bench.ray_nodes import ENVIRONMENT, RayNode
from korealbert.artifact import Artifact, InputPath, Spec, build
from korealbert.corpus.clean import stage as clean
from korealbert.corpus.dedup import stage as dedup
from korealbert.corpus.readers.spec import ExtractSpec
from korealbert.pretrain.runtime import TrainingRuntime

GOAL = 0.8
WARMING_MEGABYTES = 10
ENGINES = {"local": "local", "Ray": "auto"}


def run_stages(source: Path, store: Path, engine: str) -> dict[str, tuple[float, float, str]]:
    """Seconds by the clock, seconds of processor time and output digest of each stage, built from nothing."""
    specs: dict[str, Spec] = {
        "extract": ExtractSpec(source="kowiki", format="wikiextractor", paths=(InputPath(path=source),)),
        "clean": clean.CleanSpec(),
        "dedup": dedup.DedupSpec(),
    }
    measured = {}
    inputs: dict[str, Artifact] = {}
    runtime = TrainingRuntime(store=store, workers=2, threads=2, engine=engine)
    for name, stage in STAGES.items():
        began, used = time.monotonic(), _processor_seconds()
        artifact = build(stage, specs[name], inputs, runtime, label=name).artifact
        measured[name] = (time.monotonic() - began, _processor_seconds() - used, artifact.output_digest)
        inputs = {"documents": artifact}
    return measured


def _processor_seconds() -> float:
    """Of all processes that live in this namespace, and of those whose end their parents have seen."""
    total = 0.0
    for process in psutil.process_iter():
        try:
            total += sum(process.cpu_times()[:4])
        except psutil.NoSuchProcess:
            continue
    return total


def turn(source: Path, place: Path, engine: str) -> dict[str, tuple[float, float, str]]:
    """``run_stages`` in a process of its own and a store that goes."""
    command = [sys.executable, "-m", "bench.cluster", "--child", str(source), str(place / "store"), engine]
    told = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
    shutil.rmtree(place / "store")
    measured: dict[str, tuple[float, float, str]] = json.loads(told.splitlines()[-1])
    return measured


def main() -> int:
    """Print the table; returns 1 below the goal."""
    if sys.argv[1:2] == ["--child"]:
        print(json.dumps(run_stages(Path(sys.argv[2]), Path(sys.argv[3]), sys.argv[4])))
        return 0
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kowiki", type=Path, nargs="+")
    parser.add_argument("--megabytes", type=int, default=100, help="of input")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    namespace.enter()
    os.environ |= ENVIRONMENT
    clock: dict[str, dict[str, float]] = {name: {} for name in ENGINES}
    used: dict[str, dict[str, float]] = {name: {} for name in ENGINES}
    seen: dict[str, set[str]] = {stage: set() for stage in STAGES}
    with tempfile.TemporaryDirectory(prefix="korealbert-bench-") as directory:
        place = Path(directory)
        source, little = place / "source", place / "little"
        source.mkdir()
        little.mkdir()
        megabytes = make_input(options.kowiki, options.megabytes, source)
        make_input(options.kowiki, WARMING_MEGABYTES, little)
        nodes = [RayNode(place / "ray", os.environ, head=head) for head in (True, False)]
        try:
            turn(little, place, ENGINES["Ray"])
            for number in range(options.rounds):
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
    print(f"{megabytes:.0f} MB of WikiExtractor text; MB/s by the clock, processor time in s; the best of {options.rounds}\n")
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
