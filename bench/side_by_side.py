"""Two trainings on the same cores: how much they slow each other, by how long idle threads of libgomp look for work.

Usage: python -m bench.side_by_side [--steps 40] [--turns 3]

A modern encoder of 4 layers × 256 trains on 32 rows of 64 random tokens in bf16, on as many threads as there are cores: alone,
and beside a second training like it. Shown are milliseconds of the clock per step, the minimum of the turns.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from functools import partial

from bench.common import in_turns, options
from korealbert.artifact.subprocess_build import SPIN_ROUNDS

VARIABLE, OURS = SPIN_ROUNDS
ROUNDS = {"libgomp's own": None, "ours": OURS, "none": "0"}
"""Values of the variable that limits how long an idle thread looks for work; None: it is not set."""


def train(steps: int) -> None:
    """Print the milliseconds of a step."""
    import torch

    from korealbert.model.config import ModernConfig
    from korealbert.model.heads import PretrainingModel, initialise
    from korealbert.pretrain.optimizer import make_optimizer
    from korealbert.pretrain.optimizer_spec import MuonSpec

    torch.set_num_threads(os.cpu_count() or 1)
    config = ModernConfig(architecture="modern", hidden_size=256, num_layers=4, vocab_size=8000)
    model = PretrainingModel(config)
    initialise(model, 0.0, seed=1)
    optimizer = make_optimizer(model, MuonSpec(name="muon", lr=1e-3))
    ids_BL = torch.randint(5, config.vocab_size, (32, 64))
    positions_BP = torch.arange(0, 64, 5).expand(32, -1)
    for step in range(steps + 5):
        if step == 5:  # The first steps choose kernels and allocate memory.
            start = time.perf_counter()
        with torch.autocast("cpu", torch.bfloat16):
            logits = model(ids_BL, ids_BL, None, positions_BP, positions_BP).mlm_BPV
        torch.nn.functional.cross_entropy(logits.flatten(0, 1).float(), ids_BL.gather(1, positions_BP).flatten()).backward()
        optimizer.step()
        optimizer.zero_grad()
    print((time.perf_counter() - start) / steps * 1000)


def milliseconds(spin_rounds: str | None, trainings: int, steps: int) -> float:
    """Return the mean milliseconds per step of trainings that start together."""
    environment = {name: value for name, value in os.environ.items() if name not in (VARIABLE, "OMP_WAIT_POLICY")}
    if spin_rounds is not None:
        environment[VARIABLE] = spin_rounds
    command = [sys.executable, "-m", "bench.side_by_side", "--train", "--steps", str(steps)]
    runs = [subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) for _ in range(trainings)]
    return sum(float(run.communicate()[0]) for run in runs) / trainings


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--train", action="store_true", help="train once in this process")
    arguments = parser.parse_args()
    if arguments.train:
        train(arguments.steps)
        return
    sides = {
        f"{name}/{trainings}": partial(milliseconds, rounds, trainings, arguments.steps)
        for name, rounds in ROUNDS.items()
        for trainings in (1, 2)
    }
    runs = in_turns(arguments.turns, sides)
    print("| idle threads look | alone, ms a step | beside another |\n|---|---|---|")
    for name in ROUNDS:
        print(f"| {name} | {min(runs[f'{name}/1']):.0f} | {min(runs[f'{name}/2']):.0f} |")


if __name__ == "__main__":
    main()
