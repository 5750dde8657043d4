"""From raw dump to clean, deduplicated documents: MB/s a core of each stage, and peak memory as the input grows.

python -m bench.data_stages KOWIKI... [--sizes 100 400 1600] [--workers 2]: archives or folders of WikiExtractor output. Larger
inputs are more of their files, then all again with most Hangul syllables exchanged for others, another way each time, so
that no two texts are alike. MB are of raw input; seconds are processor time of all processes; memory is the greatest sum of
proportional set sizes of the stage's processes, looked at ten times a second. Exits with 1 unless the peak at the largest input
is at most 1.25 times that at the smallest.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import psutil

from korealbert.artifact import Artifact, InputPath, Runtime, Spec, Stage
from korealbert.corpus import extract
from korealbert.corpus.clean import stage as clean
from korealbert.corpus.dedup import stage as dedup
from korealbert.corpus.readers.spec import ExtractSpec
from korealbert.documents.containers import open_files
from korealbert.documents.streams import RawFile, ReadLimits

FLAT = 1.25
HANGUL = range(0xAC00, 0xD7A4)
KEPT_SYLLABLES = "다요까죠네은는이가을를의에"
"""Endings and particles keep their place, so that sentences end where they ended."""
SECONDS_BETWEEN_LOOKS = 0.1


@dataclass(frozen=True)
class Measured:
    """What a stage took: seconds of wall and of processor time, peak memory in MB; and what came out."""

    wall: float
    cpu: float
    documents: int
    dropped: dict[str, int]
    peak: float


def make_input(kowiki: list[Path], megabytes: int, directory: Path) -> float:
    """Write so much input; returns its size in MB."""
    written = 0
    for copy in count():
        table = _exchange(copy)
        for number, raw in enumerate(open_files(kowiki, "*wiki_*", ReadLimits())):
            assert isinstance(raw, RawFile), raw
            if written >= megabytes * 1_000_000:
                return written / 1e6
            text = raw.read(1 << 30).decode()
            if copy:
                text = text.translate(table).replace('<doc id="', f'<doc id="{copy}-')
            written += (directory / f"wiki_{copy:02}_{number:04}").write_bytes(text.encode())
    raise AssertionError("count() ends")


def _exchange(copy: int) -> dict[int, int]:
    """A bijection of the Hangul syllables."""
    syllables = [code for code in HANGUL if chr(code) not in KEPT_SYLLABLES]
    exchanged = syllables.copy()
    random.Random(copy).shuffle(exchanged)  # noqa: S311  (nothing secret)
    return dict(zip(syllables, exchanged))


STAGES: dict[str, Stage[Any]] = {"extract": extract.STAGE, "clean": clean.STAGE, "dedup": dedup.STAGE}
"""In the order in which they run."""


def run_stage(name: str, source: Path, out: Path, workers: int) -> None:
    """Run one stage on what the one before it wrote, and tell on stdout what it took."""
    specs: dict[str, Spec] = {
        "extract": ExtractSpec(source="kowiki", format="wikiextractor", paths=(InputPath(path=source),)),
        "clean": clean.CleanSpec(),
        "dedup": dedup.DedupSpec(),
    }
    wall, cpu = time.perf_counter(), _cpu_seconds()
    inputs = {} if name == "extract" else {"documents": Artifact(source.name, source)}
    stats = STAGES[name].run(specs[name], inputs, out, Runtime(workers=workers))
    wall, cpu = time.perf_counter() - wall, _cpu_seconds() - cpu
    print(json.dumps({"wall": wall, "cpu": cpu, "documents": stats.documents_out, "dropped": stats.dropped}))


def _cpu_seconds() -> float:
    """Of this process and of all its children that have ended."""
    return sum(os.times()[:4])


def measured(name: str, source: Path, out: Path, workers: int) -> Measured:
    """A stage in a process of its own, with the peak memory of that and its children."""
    command = [sys.executable, "-m", "bench.data_stages", "--child", name, str(source), str(out), str(workers)]
    peak = 0.0
    with tempfile.TemporaryFile("w+") as told:
        child = subprocess.Popen(command, stdout=told)
        while child.poll() is None:
            peak = max(peak, _memory(child.pid))
            time.sleep(SECONDS_BETWEEN_LOOKS)
        if child.returncode:
            raise SystemExit(f"{' '.join(command)} ended with {child.returncode}")
        told.seek(0)
        return Measured(**json.loads(told.read()), peak=peak)


def _memory(process: int) -> float:
    """MB of a process and all below it; those that end meanwhile count no more."""
    total = 0
    with suppress(psutil.NoSuchProcess):
        root = psutil.Process(process)
        for one in [root, *root.children(recursive=True)]:
            with suppress(psutil.Error):
                total += one.memory_full_info().pss
    return total / 1e6


def main() -> int:
    if sys.argv[1:2] == ["--child"]:
        name, source, out, workers = sys.argv[2:]
        run_stage(name, Path(source), Path(out), int(workers))
        return 0
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kowiki", type=Path, nargs="+")
    parser.add_argument("--sizes", type=int, nargs="+", default=[100, 400, 1600], help="MB of input")
    parser.add_argument("--workers", type=int, default=2)
    arguments = parser.parse_args()
    peaks: list[float] = []
    print(f"{'input MB':>8}  {'stage':<8} {'MB/s a core':>11} {'CPU s':>7} {'wall s':>7} {'peak MB':>8}  documents  dropped")
    for size in arguments.sizes:
        with tempfile.TemporaryDirectory() as directory:
            source = Path(directory) / "source"
            source.mkdir()
            megabytes = make_input(arguments.kowiki, size, source)
            found = []
            for name in STAGES:
                out = Path(directory) / name
                out.mkdir()
                found.append(measured(name, source, out, arguments.workers))
                shutil.rmtree(source)
                source = out
                _print(megabytes, name, found[-1])
        whole = [sum(values) for values in zip(*((one.cpu, one.wall) for one in found))]
        peaks.append(max(one.peak for one in found))
        _print(megabytes, "all", Measured(whole[1], whole[0], found[-1].documents, {}, peaks[-1]))
    growth = peaks[-1] / peaks[0]
    print(f"peak memory at the largest input / at the smallest: {growth:.2f} (goal <= {FLAT})")
    return 0 if growth <= FLAT else 1


def _print(megabytes: float, stage: str, one: Measured) -> None:
    cells = f"{megabytes:8.0f}  {stage:<8} {megabytes / one.cpu:11.2f} {one.cpu:7.1f} {one.wall:7.1f} {one.peak:8.0f}"
    dropped = ", ".join(f"{reason} {number}" for reason, number in one.dropped.items())
    print(f"{cells}  {one.documents:>9}  {dropped}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
