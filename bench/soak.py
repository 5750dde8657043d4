"""Faults at random moments of a whole pipeline: it recovers from each, with the digests of an undisturbed run.

Usage: python -m bench.soak [RECIPE] [--faults N] [--seed S] [--kinds WORD ...] [--until STAGE]

Everything happens in namespaces of the bench's own (Linux): the store is a small file system that is also filled and made
read-only, only the bench's processes see the changed clock, and the Ray cluster has a network of its own.
"""

from __future__ import annotations

import random
import shutil
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import korealbert
from bench.common import options
from bench.faults import Fault, Faults, clock
from bench.installation import Installation, installation
from bench.ray_nodes import ENVIRONMENT, enter_namespaces
from korealbert.artifact import Store
from korealbert.recipe import prepare

MAX_RUN_SECONDS = 3600
MAX_SECONDS_TO_BEGIN = 600
FAULT_SECONDS = 60
"""How long a lasting fault lasts, unless the run fails before."""
MAX_RUNS_TO_RECOVER = 3
STORE_MEGABYTES = 256


def digests(store: Path, recipe: Path, until: str | None) -> dict[str, str]:
    """Return the output digest of each finished stage, by its label."""
    known = Store(store)
    planned = prepare(recipe, known, until=until).planned
    return {stage.label: found.output_digest for stage in planned if (found := known.find(stage.name)) is not None}


class Soak:
    """Runs the recipe again and again on one installation."""

    def __init__(self, here: Installation, client: Any, recipe: Path, until: str | None, wanted: dict[str, str]) -> None:
        self.here, self.client, self.wanted = here, client, wanted
        self.recipe, self.until = recipe, until

    def row(self, name: str, fault: Fault, *, after: float, soon: float) -> bool:
        """Run from nothing with one fault, and recover. Prints a row of the table; returns whether the digests are right.

        The fault comes ``after`` this many seconds of work, or ``soon`` seconds after it is possible.
        """
        self.here.store.mkdir(exist_ok=True)
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={STORE_MEGABYTES}m", "soak", self.here.store], check=True)
        fault.before()
        try:
            run = self._begin(fault.engine)
            self._wait(lambda: any(self.here.store.glob("*.partial")), MAX_SECONDS_TO_BEGIN)
            began = time.monotonic()
            if fault.ready is not None:
                self._wait(fault.ready, MAX_SECONDS_TO_BEGIN)
            time.sleep(after if fault.ready is None else soon)
            at = ", ".join(sorted(path.name.split(".")[0].rpartition("-")[0] for path in self.here.store.glob("*.partial")))
            moment = f"{time.monotonic() - began:.0f} s, {at or 'between stages'}"
            fault.strike()
            struck = time.monotonic()
            if fault.end is not None:
                with suppress(TimeoutError):
                    self.here.ended(self.client, run, FAULT_SECONDS)
                fault.end()
            state, runs = self.here.ended(self.client, run, MAX_RUN_SECONDS).state_name, 0
            while state != "Completed" and runs < MAX_RUNS_TO_RECOVER:
                runs += 1
                state = self.here.ended(self.client, self._begin(fault.engine), MAX_RUN_SECONDS).state_name
            same = state == "Completed" and digests(self.here.store, self.recipe, self.until) == self.wanted
        finally:
            fault.after()
            subprocess.run(["umount", "--lazy", self.here.store], check=True)
        by = "itself" if runs == 0 else "a new run" if runs == 1 else f"{runs} new runs"
        seconds = time.monotonic() - struck
        print(f"| {name} | {moment} | {by} | {seconds:.0f} | {'yes' if same else 'NO'} |", flush=True)
        return same

    def _begin(self, engine: str) -> Any:
        runtime = {"store": str(self.here.store), "workers": 1, "threads": 1, "engine": engine}
        on_gpu = ["pretrain"] if "pretrain" in self.wanted else []
        return self.here.begin("corpus-to-model", recipe=str(self.recipe), until=self.until, on_gpu=on_gpu, runtime=runtime)

    @staticmethod
    def _wait(what: Any, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while not what():
            if time.monotonic() > deadline:
                raise TimeoutError(f"the moment of the fault did not come within {seconds} s")
            time.sleep(0.02)


def main() -> int:
    parser = options(__doc__)
    parser.add_argument("recipe", type=Path, nargs="?", default=Path("data_specs/recipes/small-sample.toml"))
    parser.add_argument("--faults", type=int, default=24)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--kinds", nargs="+", default=[""], metavar="WORD", help="only faults whose name has one of these words"
    )
    parser.add_argument("--until", help="build only up to this stage; before pretrain, faults of training are left out")
    parser.add_argument("--logs", type=Path, help="directory to copy the services' logs to")
    arguments = parser.parse_args()
    enter_namespaces()
    recipe = arguments.recipe.resolve()
    draw = random.Random(arguments.seed)  # noqa: S311
    failed = 0
    with installation(lambda place: ENVIRONMENT | clock(place / "clock")) as (here, client):
        began = time.monotonic()
        built = korealbert.run(recipe, here.home.parent / "undisturbed", until=arguments.until, workers=1, threads=1)
        wanted = {label: artifact.output_digest for label, artifact in built.items()}
        span = time.monotonic() - began
        print(f"{len(wanted)} stages, {span:.0f} s undisturbed in one process\n")
        print("| fault | moment | recovered by | seconds from fault to end | same digests |\n|---|---|---|---|---|", flush=True)
        soak = Soak(here, client, recipe, arguments.until, wanted)
        known = Faults(here, here.home.parent / "clock").by_name()
        possible = [name for name, fault in known.items() if "pretrain" in wanted or not fault.trains]
        chosen = [name for name in possible if any(word in name for word in arguments.kinds)]
        for number in range(arguments.faults):
            name = chosen[number] if number < len(chosen) else draw.choice(chosen)
            after, soon = draw.uniform(0.1, 0.9) * span, draw.uniform(0, 1)
            try:
                failed += not soak.row(name, known[name], after=after, soon=soon)
            except (RuntimeError, TimeoutError) as error:
                failed += 1
                print(f"| {name} | NOT MET: {error} | | | |", flush=True)
        if arguments.logs is not None:
            shutil.copytree(here.home / "logs", arguments.logs, dirs_exist_ok=True)
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
