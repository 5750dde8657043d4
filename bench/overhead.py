"""What scheduling costs: the whole DAG when every stage is cached, in this process and through server and worker.

Usage: python -m bench.overhead [RECIPE]
"""

from __future__ import annotations

import logging
import sys
import time
from pathlib import Path

from bench.installation import installation
from flows.corpus_to_model import corpus_to_model
from korealbert.artifact import Runtime, Store
from korealbert.recipe import prepare

GOALS = {"planning": 5.0, "flow in this process": 5.0, "flow through server and worker": 15.0}


def main(recipe: Path) -> int:
    logging.disable(logging.INFO)  # The flow in this process would tell of every stage.
    with installation() as (here, client):
        runtime = Runtime(store=here.store, workers=1, threads=1)
        began = time.monotonic()
        corpus_to_model(recipe, runtime=runtime)
        around = time.monotonic() - began - sum(each.manifest["wall_seconds"] for each in Store(here.store).artifacts())
        seconds = {}
        began = time.monotonic()
        stages = len(prepare(recipe, Store(here.store)).planned)
        seconds["planning"] = time.monotonic() - began
        began = time.monotonic()
        corpus_to_model(recipe, runtime=runtime)
        seconds["flow in this process"] = time.monotonic() - began
        run = here.begin("corpus-to-model", recipe=str(recipe.resolve()), runtime=runtime.model_dump(mode="json"))
        began = time.monotonic()
        ended = here.ended(client, run, 600)
        seconds["flow through server and worker"] = time.monotonic() - began
        assert ended.state_name == "Completed", ended.state
    print(f"{stages} stages, all cached; through the server: from the end of the command, the wait for the worker included\n")
    print("| what | seconds | a stage | goal |\n|---|---|---|---|")
    for what, taken in seconds.items():
        print(f"| {what} | {taken:.1f} | {1000 * taken / stages:.0f} ms | ≤ {GOALS[what]:.0f} |")
    share = 100 * around / 600  # Planning, locks and digests of raw files are in it, so Prefect's own is less.
    print(f"| a run that builds all of it, less the stages' own time: of ten minutes | {share:.2f} % | | < 1 % |")
    return int(any(taken > GOALS[what] for what, taken in seconds.items()) or share >= 1)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1] if len(sys.argv) > 1 else "tests/recipes/tiny.toml")))
