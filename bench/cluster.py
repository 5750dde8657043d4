"""Data stages on a Ray cluster of two nodes beside the same on local processes: MB/s by the clock, and whether bytes are equal.

python -m bench.cluster KOWIKI... [--megabytes 40] [--rounds 2]: archives or folders of WikiExtractor output. Both have two
cores: two nodes of one core on this machine, or two processes. They take turns, within a network that has nothing but
loopback. Exits with 1 unless the stages together reach 0.8 of the local throughput and all bytes are equal.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

from bench import namespace
from bench.data_stages import STAGES, make_input
from bench.ray_nodes import ENVIRONMENT, RayNode
from korealbert.artifact import Artifact, InputPath, Runtime, Spec, build
from korealbert.corpus import clean, dedup
from korealbert.corpus.sources import ExtractSpec

GOAL = 0.8
ENGINES = {"local": "local", "Ray": "auto"}


def run(source: Path, store: Path, engine: str) -> tuple[dict[str, float], dict[str, str]]:
    """Seconds and output digest of each stage, built from nothing in a store that goes."""
    specs: dict[str, Spec] = {
        "extract": ExtractSpec(source="kowiki", format="wikiextractor", paths=(InputPath(path=source),)),
        "clean": clean.CleanSpec(),
        "dedup": dedup.DedupSpec(),
    }
    seconds, digests = {}, {}
    inputs: dict[str, Artifact] = {}
    runtime = Runtime(store=store, workers=2, threads=2, engine=engine)
    for name, stage in STAGES.items():
        began = time.monotonic()
        artifact = build(stage, specs[name], inputs, runtime, label=name).artifact
        seconds[name], digests[name] = time.monotonic() - began, artifact.output_digest
        inputs = {"documents": artifact}
    shutil.rmtree(store)
    return seconds, digests


def main() -> int:
    """Print the table; returns 1 below the goal."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kowiki", type=Path, nargs="+")
    parser.add_argument("--megabytes", type=int, default=40, help="of input")
    parser.add_argument("--rounds", type=int, default=2)
    options = parser.parse_args()
    namespace.enter()
    os.environ |= ENVIRONMENT
    best: dict[str, dict[str, float]] = {name: {} for name in ENGINES}
    seen: dict[str, set[str]] = {stage: set() for stage in STAGES}
    with tempfile.TemporaryDirectory(prefix="korealbert-bench-") as place:
        source = Path(place) / "source"
        source.mkdir()
        megabytes = make_input(options.kowiki, options.megabytes, source)
        nodes = [RayNode(Path(place) / "ray", os.environ, head=head) for head in (True, False)]
        try:
            for turn in range(options.rounds):
                for name in sorted(ENGINES, reverse=bool(turn % 2)):
                    seconds, digests = run(source, Path(place) / "store", ENGINES[name])
                    for stage, taken in seconds.items():
                        best[name][stage] = min(taken, best[name].get(stage, taken))
                        seen[stage].add(digests[stage])
        finally:
            for node in reversed(nodes):
                node.kill()
    for taken in best.values():
        taken["all"] = sum(taken.values())
    print(f"{megabytes:.0f} MB of WikiExtractor text, MB/s by the clock, the best of {options.rounds} turns\n")
    print("| stage | two local processes | two Ray nodes | ratio | goal | same bytes |\n|---|---|---|---|---|---|")
    for stage in (*STAGES, "all"):
        local, spread = (megabytes / best[name][stage] for name in ENGINES)
        goal = f"≥ {GOAL}" if stage == "all" else ""
        same = all(len(seen[each]) == 1 for each in (STAGES if stage == "all" else [stage]))
        print(f"| {stage} | {local:.2f} | {spread:.2f} | {spread / local:.2f} | {goal} | {'yes' if same else 'NO'} |")
    return int(spread / local < GOAL or not same)


if __name__ == "__main__":
    sys.exit(main())
