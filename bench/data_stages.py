"""From raw dump to clean, deduplicated documents: MB/s per core of each stage, and peak memory as the input grows.

python -m bench.data_stages KOWIKI... [--sizes 100 400 1600] [--workers 2]: archives or folders of WikiExtractor output. An
input larger than these repeats them with most Hangul syllables exchanged, differently each time, so that no two texts are
alike. MB are those of raw input, seconds the processor time of all processes. Memory is the largest sum of the proportional set
sizes of the stage's processes, sampled ten times a second. Exits with 1 unless the peak at the largest input is at most 1.25
times that at the smallest.
"""

from __future__ import annotations

import json
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

from bench.common import cpu_seconds, files, kowiki, options
from korealbert.artifact import Artifact, Runtime, Spec, Stage
from korealbert.corpus import extract
from korealbert.corpus.clean import stage as clean
from korealbert.corpus.dedup import stage as dedup

MAX_GROWTH = 1.25
HANGUL = range(0xAC00, 0xD7A4)
UNCHANGED_SYLLABLES = "다요까죠네은는이가을를의에"
"""Endings and particles, which sentences are split by."""
SAMPLE_SECONDS = 0.1


@dataclass(frozen=True)
class Measured:
    """Seconds by the clock and of processor time, peak memory in MB, and numbers of documents of one stage."""

    wall: float
    cpu: float
    documents: int
    dropped: dict[str, int]
    peak: float


def make_input(sources: list[Path], megabytes: int, directory: Path) -> float:
    """Write an input of this size or a little more; returns its size in MB."""
    written = 0
    for copy in count():
        table = _exchange(copy)
        for number, (_, content) in enumerate(files(sources, "*wiki_*")):
            if written >= megabytes * 1_000_000:
                return written / 1e6
            text = content.decode()
            if copy:
                text = text.translate(table).replace('<doc id="', f'<doc id="{copy}-')
            written += (directory / f"wiki_{copy:02}_{number:04}").write_bytes(text.encode())
    raise AssertionError("count() ends")


def _exchange(copy: int) -> dict[int, int]:
    """Return a permutation of the Hangul syllables."""
    syllables = [code for code in HANGUL if chr(code) not in UNCHANGED_SYLLABLES]
    exchanged = syllables.copy()
    random.Random(copy).shuffle(exchanged)  # noqa: S311
    return dict(zip(syllables, exchanged))


STAGES: dict[str, Stage[Any]] = {"extract": extract.STAGE, "clean": clean.STAGE, "dedup": dedup.STAGE}
"""In the order in which they run."""


def specs_of(source: Path) -> dict[str, Spec]:
    """Return the spec of each stage."""
    return {"extract": kowiki(source), "clean": clean.CleanSpec(), "dedup": dedup.DedupSpec()}


def run_stage(name: str, source: Path, out: Path, workers: int) -> None:
    """Run one stage on the output of the previous one, and print what it took as JSON."""
    wall, cpu = time.perf_counter(), cpu_seconds()
    inputs = {} if name == "extract" else {"documents": Artifact(source.name, source)}
    stats = STAGES[name].run(specs_of(source)[name], inputs, out, Runtime(workers=workers))
    wall, cpu = time.perf_counter() - wall, cpu_seconds() - cpu
    print(json.dumps({"wall": wall, "cpu": cpu, "documents": stats.documents_out, "dropped": stats.dropped}))


def measured(name: str, source: Path, out: Path, workers: int) -> Measured:
    """Run a stage in a process of its own, and sample the memory of that and its children."""
    command = [sys.executable, "-m", "bench.data_stages", "--child", name, str(source), str(out), str(workers)]
    peak = 0.0
    with tempfile.TemporaryFile("w+") as output:
        child = subprocess.Popen(command, stdout=output)
        while child.poll() is None:
            peak = max(peak, _memory(child.pid))
            time.sleep(SAMPLE_SECONDS)
        if child.returncode:
            raise SystemExit(f"{' '.join(command)} ended with {child.returncode}")
        output.seek(0)
        return Measured(**json.loads(output.read()), peak=peak)


def _memory(process: int) -> float:
    """Return the MB of a process and its descendants, without those that end meanwhile."""
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
    parser = options(__doc__)
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
    print(f"peak memory at the largest input / at the smallest: {growth:.2f} (goal <= {MAX_GROWTH})")
    return 0 if growth <= MAX_GROWTH else 1


def _print(megabytes: float, stage: str, one: Measured) -> None:
    cells = f"{megabytes:8.0f}  {stage:<8} {megabytes / one.cpu:11.2f} {one.cpu:7.1f} {one.wall:7.1f} {one.peak:8.0f}"
    dropped = ", ".join(f"{reason} {number}" for reason, number in one.dropped.items())
    print(f"{cells}  {one.documents:>9}  {dropped}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
