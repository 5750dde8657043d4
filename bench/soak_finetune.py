"""Fine-tuning on KoreALBERT's six tasks × 5 seeds by the flow, killed at random moments and resumed until it is done.

python -m bench.soak_finetune [--kills 6] [--cells 2] [--seed 0]. The files are toys and the model has two layers, because the
flow is what is tested. After each SIGKILL every process must be gone, and no finished cell may be built again. At the end there
are 30 cells and six summaries with the same bytes as those of a run that was not killed. Exits with 1 otherwise.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import sys
import tempfile
from pathlib import Path

from prefect.settings import PREFECT_API_URL
from prefect.testing.utilities import prefect_test_harness

from bench.common import options
from korealbert.flows.corpus_to_model import corpus_to_model
from korealbert.pretrain.runtime import TrainingRuntime
from tests.flows.killed_grid import finish, finished, kill_after, start
from tests.flows.six_tasks import write_recipe

CELLS = 30


def digests(store: Path) -> dict[str, str]:
    """Return the output digest of every cell and summary."""
    found = [*store.glob("finetune-*/manifest.json"), *store.glob("summary-*/manifest.json")]
    return {path.parent.name: json.loads(path.read_text("utf-8"))["output_digest"] for path in found}


def main() -> int:
    parser = options(__doc__)
    parser.add_argument("--kills", type=int, default=6)
    parser.add_argument("--cells", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    chance = random.Random(given.seed)  # noqa: S311
    os.environ["OMP_NUM_THREADS"] = "1"
    with tempfile.TemporaryDirectory() as directory, prefect_test_harness(server_startup_timeout=180):
        root = Path(directory)
        recipe = write_recipe(root, seeds=range(1, 6))
        store, straight = root / "store", root / "straight"
        corpus_to_model(recipe, until="export", runtime=TrainingRuntime(store=store, workers=1, threads=1))
        shutil.copytree(store, straight)
        api = str(PREFECT_API_URL.value())
        repeated = 0
        for kill in range(given.kills):
            before = finished(store)
            left = CELLS - len(before)
            if left < 4:
                break
            done = kill_after(start(recipe, store, given.cells, api), store, chance.randint(1, min(5, left - 3)))
            repeated += sum(done[name] != written for name, written in before.items())
            print(f"kill {kill + 1}: {len(done)} of {CELLS} cells are finished", flush=True)
        before = finished(store)
        finish(start(recipe, store, given.cells, api))
        repeated += sum(finished(store)[name] != written for name, written in before.items())
        finish(start(recipe, straight, given.cells, api))
        same = digests(store) == digests(straight)
        count = len(finished(store))
    print(f"{count} of {CELLS} cells, {repeated} built twice; {'the same' if same else 'OTHER'} bytes as without kills")
    return int(count != CELLS or repeated > 0 or not same)


if __name__ == "__main__":
    sys.exit(main())
