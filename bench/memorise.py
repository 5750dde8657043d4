"""Can the model learn what it is shown? Train on 128 real examples until all three tasks are known by heart.

python -m bench.memorise VIEWS [--steps 500]: the directory of a views artifact. Five to ten minutes. Exits with 1
unless MLM, SOP and WOP accuracy on those examples all exceed 0.9.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from korealbert.artifact import Artifact
from korealbert.examples.batches import Batch, ExampleBatches
from korealbert.pretrain.loop import Trainer
from korealbert.pretrain.ranks import join
from korealbert.pretrain.spec import PretrainSpec

ROWS = 128


class FirstRows:
    """The first rows of a source under its first view, again and again."""

    def __init__(self, source: ExampleBatches, rows: int) -> None:
        self.source = source
        self.num_rows, self.num_views = min(rows, source.num_rows), 1
        self.sequence_length, self.vocab_size = source.sequence_length, source.vocab_size

    def gather(self, view: int, rows: NDArray[np.int64]) -> Batch:
        return self.source.gather(view, rows)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("views", type=Path, help="a views artifact; the examples are those that it was drawn on")
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    examples = Artifact(arguments.views.name, arguments.views.resolve()).inputs()["examples"].path
    rows = FirstRows(ExampleBatches(examples, arguments.views, "train"), ROWS)
    spec = PretrainSpec(
        model={"embedding_size": 64, "hidden_size": 128, "num_layers": 2, "hidden_dropout": 0.0, "attention_dropout": 0.0},
        steps=arguments.steps,
        global_batch_size=32,
        micro_batch_size=32,
        optimizer={"name": "adamw", "lr": 2e-3},
        schedule={"warmup_steps": 50, "decay": "linear"},
        log_every=100,
        heldout_every=arguments.steps,
        checkpoint_every=arguments.steps,
    )
    config = spec.albert_config(vocab_size=rows.vocab_size, sequence_length=rows.sequence_length)
    names = ("loss", "mlm_accuracy", "sop_accuracy", "wop_accuracy")
    last: dict[str, float] = {}

    def report(step: int, figures: dict[str, float | None]) -> None:
        if "loss" in figures:
            last.update({name: value for name, value in figures.items() if value is not None})
            shown = "  ".join(f"{name} {last.get(name, float('nan')):.3f}" for name in names)
            print(f"step {step:5d}  {shown}  {last['tokens_per_second']:,.0f} tokens/s", flush=True)

    start = time.monotonic()
    ranks = join(rank=0, world_size=1, device=torch.device("cpu"))
    with tempfile.TemporaryDirectory() as out_dir:
        Trainer(spec, config, train=rows, heldout=rows, ranks=ranks, out_dir=Path(out_dir), report=report).run()
    learned = all(last[name] > 0.9 for name in names[1:])
    print(f"{rows.num_rows} examples, {time.monotonic() - start:.0f} s: {'learned by heart' if learned else 'NOT learned'}")
    return 0 if learned else 1


if __name__ == "__main__":
    sys.exit(main())
