"""Faults at random moments over a whole pipeline: each is recovered from, and the digests are those of an undisturbed run.

Usage: python -m bench.soak [RECIPE] [--faults N] [--seed S]

As root, the store lies on a small file system of its own, which is also filled and made read-only.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from bench.installation import Installation, installation
from korealbert.artifact import Runtime, Store, build
from korealbert.recipe import prepare

SECONDS_PER_RUN = 3600
MEGABYTES = 256


@dataclass(frozen=True)
class Soak:
    """One installation and what may happen to it; every fault returns what ends it."""

    here: Installation

    def worker(self) -> Callable[[], None]:
        self.here.kill("data worker")
        return lambda: None

    def training_worker(self) -> Callable[[], None]:
        self.here.kill("training worker")
        return lambda: None

    def server(self) -> Callable[[], None]:
        self.here.kill("server")
        return lambda: None

    def database(self) -> Callable[[], None]:
        self.here.kill("database")
        return lambda: None

    def run(self) -> Callable[[], None]:
        """The flow's own process, as an out-of-memory killer takes it."""
        return self._first("prefect.engine")

    def rank(self) -> Callable[[], None]:
        return self._first("korealbert.pretrain.worker")

    def _first(self, module: str) -> Callable[[], None]:
        ours = psutil.Process(int(self._supervisor())).children(recursive=True)
        for process in ours:
            if module in " ".join(process.cmdline()):
                process.send_signal(signal.SIGKILL)
                break
        return lambda: None

    def _supervisor(self) -> str:
        import json

        return str(json.loads((self.here.home / "processes.json").read_text("utf-8"))["supervisor"])

    def full_disk(self) -> Callable[[], None]:
        ballast = self.here.store / "ballast"
        with ballast.open("wb") as stream:
            try:
                while True:
                    stream.write(bytes(1 << 20))
            except OSError:
                pass
        return lambda: ballast.unlink(missing_ok=True)

    def read_only_store(self) -> Callable[[], None]:
        self._remount("ro")
        return lambda: self._remount("rw")

    def _remount(self, how: str) -> None:
        # A file that is open for writing keeps a file system from becoming read-only; it soon is closed.
        for _ in range(200):
            if (
                subprocess.run(["mount", "-o", f"remount,{how}", self.here.store], capture_output=True, check=False).returncode
                == 0
            ):
                return
            time.sleep(0.05)


def digests(store: Path, recipe: Path) -> dict[str, str]:
    known = Store(store)
    return {p.label: a.output_digest for p in prepare(recipe, known).planned if (a := known.find(p.name)) is not None}


def undisturbed(recipe: Path, store: Path) -> dict[str, str]:
    built: dict[str, Any] = {}
    for label, node in prepare(recipe, Store(store)).nodes.items():
        inputs = {role: built[other] for role, other in node.inputs.items()}
        built[label] = build(node.stage, node.spec, inputs, Runtime(store=store, workers=1, threads=1), label=label).artifact
    return {label: artifact.output_digest for label, artifact in built.items()}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("recipe", type=Path, nargs="?", default=Path("data_specs/recipes/sample.toml"))
    parser.add_argument("--faults", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    recipe = options.recipe.resolve()
    draw = random.Random(options.seed)  # noqa: S311
    with installation() as (here, client):
        began = time.monotonic()
        wanted = undisturbed(recipe, here.home.parent / "undisturbed")
        span = time.monotonic() - began
        soak = Soak(here)
        faults = [soak.worker, soak.training_worker, soak.server, soak.database, soak.run, soak.rank]
        mounts = os.geteuid() == 0
        if mounts:
            faults += [soak.full_disk, soak.read_only_store]
        print("| fault | after | recovered by | seconds from fault to end | same digests |\n|---|---|---|---|---|", flush=True)
        failed = 0
        for number in range(options.faults):
            fault = faults[number % len(faults)] if number < len(faults) else draw.choice(faults)
            failed += not _one(here, client, recipe, fault, draw.uniform(0.1, 0.9) * span, wanted, mounts)
    return int(failed > 0)


def _one(
    here: Installation,
    client: Any,
    recipe: Path,
    fault: Callable[[], Callable[[], None]],
    after: float,
    wanted: dict[str, str],
    mounts: bool,
) -> bool:
    """One run from nothing, one fault, one recovery; prints a row and returns whether all was right."""
    here.store.mkdir(exist_ok=True)
    if mounts:
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={MEGABYTES}m", "soak", here.store], check=True)
    try:
        parameters = {"recipe": str(recipe), "runtime": {"store": str(here.store), "workers": 1, "threads": 1}}
        parameters["on_gpu"] = ["pretrain"]
        run = here.begin("corpus-to-model", **parameters)
        while not any(here.store.glob("*.partial")):
            time.sleep(0.1)
        time.sleep(after)
        end = fault()
        began = time.monotonic()
        if fault.__name__ in ("full_disk", "read_only_store"):
            time.sleep(5)
        end()
        state, by = here.ended(client, run, SECONDS_PER_RUN).state_name, "itself"
        while state != "Completed" and by.count("+") < 3:
            by = f"{by} + a run" if by != "itself" else "a new run"
            state = here.ended(client, here.begin("corpus-to-model", **parameters), SECONDS_PER_RUN).state_name
        same = digests(here.store, recipe) == wanted
        print(
            f"| {fault.__name__} | {after:.0f} s | {by} | {time.monotonic() - began:.0f} | {'yes' if same else 'NO'} |",
            flush=True,
        )
        return same and state == "Completed"
    finally:
        if mounts:
            subprocess.run(["umount", "--lazy", here.store], check=True)


if __name__ == "__main__":
    sys.exit(main())
