"""The cost of scheduling: of a DAG whose stages are all cached, and what Prefect adds to a run that builds all of them.

    python -m bench.overhead [RECIPE]

The cached DAG is run in this process, and by server and worker. What Prefect adds is the time that the flow spends outside the
stages, minus that of `korealbert.run`, plus the reports of progress of a stage of ten minutes.
"""

from __future__ import annotations

import logging
import sys
import time
from pathlib import Path

from prefect import flow
from prefect.logging import get_run_logger

import korealbert
from bench.common import cpu_seconds_of, options
from bench.installation import installation
from korealbert.artifact import Progress, Store
from korealbert.flows.corpus_to_model import corpus_to_model
from korealbert.flows.step import SECONDS_BETWEEN_REPORTS, reporter
from korealbert.pretrain.runtime import TrainingRuntime
from korealbert.recipe import prepare

GOALS = {"planning": 5.0, "flow in this process": 5.0, "flow through server and worker": 15.0}
RUN_SECONDS = 600
REPORTS = 50


@flow(name="reports", persist_result=False)
def reports() -> float:
    """Return the seconds that a stage waits for one report of progress."""
    report = reporter("bench", get_run_logger())
    report(Progress(0, REPORTS + 1, "steps", message="begins"))
    began = time.monotonic()
    for number in range(1, REPORTS + 1):
        report(Progress(number, REPORTS + 1, "steps", {"loss": 1.0}, message="goes on"))
    return (time.monotonic() - began) / REPORTS


def main() -> int:
    parser = options(__doc__)
    parser.add_argument("recipe", nargs="?", type=Path, default=Path("tests/recipes/tiny.toml"))
    recipe: Path = parser.parse_args().recipe
    logging.disable(logging.INFO)  # The flow in this process logs every stage.
    with installation() as (here, client):
        outside = {}
        for name in ("without", "with"):
            runtime = TrainingRuntime(store=here.store.with_name(f"{name}-prefect"), workers=1, threads=1)
            began = time.monotonic()
            if name == "with":
                corpus_to_model(recipe, runtime=runtime)
            else:
                korealbert.run(recipe, runtime.store, workers=1, threads=1)
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
        began, worked = time.monotonic(), cpu_seconds_of(here.processes())
        ended = here.ended(client, run, 600)
        seconds["flow through server and worker"] = time.monotonic() - began
        worked = cpu_seconds_of(here.processes()) - worked
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
    sys.exit(main())
