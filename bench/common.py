"""What several benches share: their options, processor time, child processes, and the documents of raw sources."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import psutil

from korealbert.artifact import InputPath
from korealbert.corpus.extract import parse, raw_parts
from korealbert.corpus.readers.records import Outcome, Tally
from korealbert.corpus.readers.spec import ExtractSpec
from korealbert.documents.containers import open_files
from korealbert.documents.schema import Document
from korealbert.documents.streams import RawFile, ReadLimits

T = TypeVar("T")


def options(description: str | None) -> argparse.ArgumentParser:
    """Return a parser whose help shows a module's docstring as it is written."""
    return argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)


def in_turns(rounds: int, sides: Mapping[str, Callable[[], T]]) -> dict[str, list[T]]:
    """Return what each side measured in each round; they take turns, so that other work on the machine slows all of them."""
    runs: dict[str, list[T]] = {name: [] for name in sides}
    for _ in range(rounds):
        for name, measure in sides.items():
            runs[name].append(measure())
    return runs


def cpu_seconds() -> float:
    """Return the processor seconds of this process and of its children that have ended."""
    return sum(os.times()[:4])


def cpu_seconds_of(processes: Iterable[psutil.Process]) -> float:
    """Return the processor seconds of living processes and of their children that have ended."""
    total = 0.0
    for process in processes:
        try:
            total += sum(process.cpu_times()[:4])
        except psutil.NoSuchProcess:
            continue
    return total


def answer(
    command: Sequence[str | Path],
    *,
    given: str | None = None,
    environment: Mapping[str, str] | None = None,
    seconds: float | None = None,
) -> Any:
    """Run a command with ``given`` on its standard input, and return the JSON on the last line that it prints.

    ``environment`` is added to that of this process. Raises RuntimeError with what it wrote to stderr if it fails, and
    subprocess.TimeoutExpired if it runs longer than ``seconds``.
    """
    done = subprocess.run(
        command,
        input=given,
        env={**os.environ, **(environment or {})},
        capture_output=True,
        text=True,
        check=False,
        timeout=seconds,
    )
    if done.returncode:
        raise RuntimeError(f"{' '.join(map(str, command))[:200]} failed:\n{done.stderr[-4000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def peer(python: str | Path, name: str, *arguments: str | Path) -> list[str]:
    """Return the command that runs a function of ``bench.peers`` with the interpreter of the peers' environment."""
    return [str(python), "-m", "bench.peers", name, *map(str, arguments)]


def child_of(process: int) -> int | None:
    """Return the first child of a process, or None if it has none or has ended."""
    try:
        children = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    except FileNotFoundError:
        return None
    return int(children[0]) if children else None


def files(paths: Sequence[Path], members: str) -> Iterator[tuple[str, bytes]]:
    """Yield the name and content of each file in folders and archives that matches a pattern."""
    for raw in open_files(paths, members, ReadLimits()):
        assert isinstance(raw, RawFile), raw
        yield raw.name, b"".join(iter(lambda raw=raw: raw.read(1 << 20), b""))


def outcomes(spec: ExtractSpec) -> Iterator[tuple[str, Outcome]]:
    """Yield what stage `extract` makes of each record of a source, with the record's name (``ARCHIVE::MEMBER#NUMBER``)."""
    for part in raw_parts(spec):
        for number, outcome in enumerate(parse(spec, part, Tally())):
            yield f"{part.file}#{number}", outcome


def documents(spec: ExtractSpec) -> Iterator[Document]:
    """Yield the documents that stage `extract` keeps of a source, in its order."""
    return (outcome for _, outcome in outcomes(spec) if isinstance(outcome, Document))


def kowiki(*paths: Path) -> ExtractSpec:
    """Return the spec of Korean Wikipedia as WikiExtractor wrote it, in folders or archives."""
    return ExtractSpec(source="kowiki", format="wikiextractor", paths=tuple(map(InputPath, paths)))
