"""Faults at random moments over a whole pipeline: each is recovered from, and the digests are those of an undisturbed run.

Usage: python -m bench.soak [RECIPE] [--faults N] [--seed S] [--kinds WORD ...] [--until STAGE]

Everything happens within namespaces of the bench's own (Linux): the store is a small file system that is also filled and made
read-only, the clock is one that the bench's processes alone see, and a Ray cluster has a network that is nobody else's.
"""

from __future__ import annotations

import argparse
import random
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import httpx

from bench import namespace
from bench.faults import Fault, Faults, clock
from bench.installation import Installation, installation
from bench.ray_nodes import ENVIRONMENT
from korealbert.artifact import Store, build
from korealbert.pretrain.runtime import TrainingRuntime
from korealbert.recipe import prepare

SECONDS_PER_RUN = 3600
SECONDS_TO_BEGIN = 600
SECONDS_TO_NOTICE = 60
"""How long a fault lasts that must be ended, unless the run fails of it before."""
RUNS_TO_RECOVER = 3
MEGABYTES = 256


def digests(store: Path, recipe: Path, until: str | None) -> dict[str, str]:
    """Output digest by label."""
    known = Store(store)
    planned = prepare(recipe, known, until=until).planned
    return {stage.label: found.output_digest for stage in planned if (found := known.find(stage.name)) is not None}


def undisturbed(recipe: Path, store: Path, until: str | None) -> dict[str, str]:
    """The same of a run without Prefect, in this process, that nothing happens to."""
    built: dict[str, Any] = {}
    runtime = TrainingRuntime(store=store, workers=1, threads=1)
    for label, node in prepare(recipe, Store(store), until=until).nodes.items():
        inputs = {role: built[other] for role, other in node.inputs.items()}
        built[label] = build(node.stage, node.spec, inputs, runtime, label=label).artifact
    return {label: artifact.output_digest for label, artifact in built.items()}


class Soak:
    """One installation that runs the recipe again and again."""

    def __init__(self, here: Installation, client: Any, recipe: Path, until: str | None, wanted: dict[str, str]) -> None:
        self.here, self.client, self.wanted = here, client, wanted
        self.recipe, self.until = recipe, until

    def row(self, name: str, fault: Fault, *, after: float, soon: float) -> bool:
        """One run from nothing, one fault, one recovery; prints a row of the table and returns whether all was right.

        The fault comes ``after`` so many seconds of work, or ``soon`` after it can.
        """
        self.here.store.mkdir(exist_ok=True)
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={MEGABYTES}m", "soak", self.here.store], check=True)
        fault.before()
        try:
            run = self._begin(fault.engine)
            self._wait(lambda: any(self.here.store.glob("*.partial")), SECONDS_TO_BEGIN)
            began = time.monotonic()
            if fault.ready is not None:
                self._wait(fault.ready, SECONDS_TO_BEGIN)
            time.sleep(after if fault.ready is None else soon)
            at = ", ".join(sorted(path.name.split(".")[0].rpartition("-")[0] for path in self.here.store.glob("*.partial")))
            moment = f"{time.monotonic() - began:.0f} s, {at or 'between stages'}"
            fault.strike()
            struck = time.monotonic()
            if fault.end is not None:
                self._notice(run)
                fault.end()
            state, runs = self.here.ended(self.client, run, SECONDS_PER_RUN).state_name, 0
            while state != "Completed" and runs < RUNS_TO_RECOVER:
                runs += 1
                state = self.here.ended(self.client, self._begin(fault.engine), SECONDS_PER_RUN).state_name
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
        asked = {"recipe": str(self.recipe), "until": self.until, "on_gpu": ["pretrain"] if "pretrain" in self.wanted else []}
        return self.here.begin("corpus-to-model", runtime=runtime, **asked)

    def _notice(self, run: Any) -> None:
        deadline = time.monotonic() + SECONDS_TO_NOTICE
        while time.monotonic() < deadline:
            try:
                state = self.client.read_flow_run(run).state
                if state is not None and state.is_final():
                    return
            except httpx.HTTPError:
                pass
            time.sleep(0.2)

    @staticmethod
    def _wait(what: Any, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while not what():
            if time.monotonic() > deadline:
                raise TimeoutError(f"what the fault waits for did not come within {seconds} s")
            time.sleep(0.02)


def main() -> int:
    """Print the table; returns 1 if anything was not right."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("recipe", type=Path, nargs="?", default=Path("data_specs/recipes/small-sample.toml"))
    parser.add_argument("--faults", type=int, default=24)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kinds", nargs="+", default=[""], metavar="WORD", help="only faults whose name holds one of these")
    parser.add_argument("--until", help="only to this stage: a shorter soak, which before pretrain kills nothing that trains")
    parser.add_argument("--logs", type=Path, help="where the services' logs are left")
    options = parser.parse_args()
    namespace.enter()
    recipe = options.recipe.resolve()
    draw = random.Random(options.seed)  # noqa: S311
    failed = 0
    with installation(lambda place: ENVIRONMENT | clock(place / "clock")) as (here, client):
        began = time.monotonic()
        wanted = undisturbed(recipe, here.home.parent / "undisturbed", options.until)
        span = time.monotonic() - began
        print(f"{len(wanted)} stages, {span:.0f} s undisturbed in one process\n")
        print("| fault | moment | recovered by | seconds from fault to end | same digests |\n|---|---|---|---|---|", flush=True)
        soak = Soak(here, client, recipe, options.until, wanted)
        known = Faults(here, here.home.parent / "clock").by_name()
        possible = [name for name, fault in known.items() if "pretrain" in wanted or not fault.trains]
        chosen = [name for name in possible if any(word in name for word in options.kinds)]
        for number in range(options.faults):
            name = chosen[number] if number < len(chosen) else draw.choice(chosen)
            after, soon = draw.uniform(0.1, 0.9) * span, draw.uniform(0, 1)
            try:
                failed += not soak.row(name, known[name], after=after, soon=soon)
            except (RuntimeError, TimeoutError) as error:
                failed += 1
                print(f"| {name} | NOT MET: {error} | | | |", flush=True)
        if options.logs is not None:
            shutil.copytree(here.home / "logs", options.logs, dirs_exist_ok=True)
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
