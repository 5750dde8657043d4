"""Run a recipe's fine-tuning through the flow in a separate process, which tests and soaks of killed grids kill.

Usage: python -m tests.flows.grid_runner RECIPE STORE CELLS, with PREFECT_API_URL set to a server.
"""

from __future__ import annotations

import sys
from pathlib import Path

from korealbert.pretrain.runtime import TrainingRuntime


def main(recipe: str, store: str, cells: str) -> None:
    from korealbert.flows.corpus_to_model import (
        corpus_to_model,  # Which the process of each cell, that loads this file, does not need.
    )

    runtime = TrainingRuntime(store=Path(store), workers=1, threads=int(cells), cells=int(cells), device="cpu")
    corpus_to_model(Path(recipe), until="summary", runtime=runtime)


if __name__ == "__main__":
    main(*sys.argv[1:])
