"""What scheduling costs: the whole DAG when every stage is cached, in this process and through server and worker; and what
Prefect adds to a run that builds all of it.

Usage: python -m bench.overhead [RECIPE]

The last is what the flow spends outside the stages, less what building the same stages without Prefect spends there, and a
report of progress as often as a stage of ten minutes makes one.
"""

from __future__ import annotations

import logging
import sys
import time
from pathlib import Path
from typing import Any

import psutil
from prefect import flow
from prefect.logging import get_run_logger

from bench.installation import Installation, installation
from korealbert.artifact import Progress, Store, build
from korealbert.flows.corpus_to_model import corpus_to_model
from korealbert.flows.step import SECONDS_BETWEEN_REPORTS, reporter
from korealbert.pretrain.runtime import TrainingRuntime
from korealbert.recipe import prepare

GOALS = {"planning": 5.0, "flow in this process": 5.0, "flow through server and worker": 15.0}
RUN_SECONDS = 600
REPORTS = 50


def without_prefect(recipe: Path, runtime: TrainingRuntime) -> None:
    """Build the same stages, planned in the same way, one after the other."""
    built: dict[str, Any] = {}
    for label, node in prepare(recipe, Store(runtime.store)).nodes.items():
        inputs = {role: built[other] for role, other in node.inputs.items()}
        built[label] = build(node.stage, node.spec, inputs, runtime, label=label).artifact


@flow(name="reports", persist_result=False)
def reports() -> float:
    """Seconds of one report of progress, all that a stage waits for."""
    report = reporter("bench", get_run_logger())
    report(Progress(0, REPORTS + 1, "steps", message="begins"))
    began = time.monotonic()
    for number in range(1, REPORTS + 1):
        report(Progress(number, REPORTS + 1, "steps", {"loss": 1.0}, message="goes on"))
    return (time.monotonic() - began) / REPORTS


def processor_seconds(here: Installation) -> float:
    """Of all processes of the installation, those that have ended included."""
    total = 0.0
    for process in here.processes():
        try:
            total += sum(process.cpu_times()[:4])
        except psutil.NoSuchProcess:
            continue
    return total


def main(recipe: Path) -> int:
    logging.disable(logging.INFO)  # The flow in this process would tell of every stage.
    with installation() as (here, client):
        outside = {}
        for name, job in (("without", without_prefect), ("with", corpus_to_model)):
            runtime = TrainingRuntime(store=here.store.with_name(f"{name}-prefect"), workers=1, threads=1)
            began = time.monotonic()
            job(recipe, runtime=runtime)
            built = sum(each.manifest["wall_seconds"] for each in Store(runtime.store).artifacts())
            outside[name] = time.monotonic() - began - built
        a_report = reports()
        seconds = {}
        began = time.monotonic()
        stages = len(prepare(recipe, Store(runtime.store)).planned)
        seconds["planning"] = time.monotonic() - began
        began = time.monotonic()
        corpus_to_model(recipe, runtime=runtime)
        seconds["flow in this process"] = time.monotonic() - began
        run = here.begin("corpus-to-model", recipe=str(recipe.resolve()), runtime=runtime.model_dump(mode="json"))
        began, worked = time.monotonic(), processor_seconds(here)
        ended = here.ended(client, run, 600)
        seconds["flow through server and worker"] = time.monotonic() - began
        worked = processor_seconds(here) - worked
        assert ended.state_name == "Completed", ended.state
    print(f"{stages} stages, all cached; through the server: from the end of the command, the wait for the worker included,")
    print(f"with {worked:.1f} s of processor time of server, database and worker\n")
    print("| what | seconds | a stage | goal |\n|---|---|---|---|")
    for what, taken in seconds.items():
        print(f"| {what} | {taken:.1f} | {1000 * taken / stages:.0f} ms | ≤ {GOALS[what]:.0f} |")
    for name, taken in outside.items():
        print(f"| outside the stages of a run building all, {name} Prefect | {taken:.1f} | {1000 * taken / stages:.0f} ms | |")
    reported = a_report * RUN_SECONDS / SECONDS_BETWEEN_REPORTS
    print(f"| reports of progress of ten minutes, {1000 * a_report:.0f} ms each | {reported:.1f} | | |")
    share = 100 * (outside["with"] - outside["without"] + reported) / RUN_SECONDS
    print(f"| what Prefect adds to ten minutes | {share:.2f} % | | < 1 % |")
    return int(any(taken > GOALS[what] for what, taken in seconds.items()) or share >= 1)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1] if len(sys.argv) > 1 else "tests/recipes/tiny.toml")))
