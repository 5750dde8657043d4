"""Two trainings on the same cores: what they cost each other, by how long idle threads of libgomp look for work.

Usage: python -m bench.side_by_side [--steps 40] [--turns 3]

A modern encoder of 4 layers × 256 on 32 rows of 64 random tokens in bf16, as many threads as there are cores; milliseconds of
the clock a step, the least of the turns. Alone, and with another one like it beside.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time

from korealbert.artifact.subprocess_build import SPIN_ROUNDS

NAME, OURS = SPIN_ROUNDS
LOOKS = {"libgomp's own": None, "ours": OURS, "none": "0"}


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
        if step == 5:  # Kernels are chosen and memory is had in the first ones.
            start = time.perf_counter()
        with torch.autocast("cpu", torch.bfloat16):
            logits = model(ids_BL, ids_BL, None, positions_BP, positions_BP).mlm_BPV
        torch.nn.functional.cross_entropy(logits.flatten(0, 1).float(), ids_BL.gather(1, positions_BP).flatten()).backward()
        optimizer.step()
        optimizer.zero_grad()
    print((time.perf_counter() - start) / steps * 1000)


def milliseconds(looks: str | None, beside: int, steps: int) -> float:
    """The mean of ``beside`` trainings that begin together."""
    environment = {name: value for name, value in os.environ.items() if name not in (NAME, "OMP_WAIT_POLICY")}
    if looks is not None:
        environment[NAME] = looks
    command = [sys.executable, "-m", "bench.side_by_side", "--train", "--steps", str(steps)]
    runs = [subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) for _ in range(beside)]
    return sum(float(run.communicate()[0]) for run in runs) / beside


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--train", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.train:
        train(options.steps)
        return
    seen: dict[tuple[str, int], list[float]] = {}
    for _ in range(options.turns):
        for name, looks in LOOKS.items():
            for beside in (1, 2):
                seen.setdefault((name, beside), []).append(milliseconds(looks, beside, options.steps))
    print("| idle threads look | alone, ms a step | beside another |\n|---|---|---|")
    for name in LOOKS:
        print(f"| {name} | {min(seen[name, 1]):.0f} | {min(seen[name, 2]):.0f} |")


if __name__ == "__main__":
    main()
