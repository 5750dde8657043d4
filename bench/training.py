"""What the benches share: the training rows of a views artifact, and a training run on one rank of the CPU."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from korealbert.artifact import Artifact
from korealbert.examples.batches import Batch, ExampleBatches
from korealbert.pretrain.engine import join
from korealbert.pretrain.rows import BatchSource
from korealbert.pretrain.spec import PretrainSpec
from korealbert.pretrain.trainer import Trainer


class FirstRows:
    """The first rows of a source under its first view, again and again."""

    def __init__(self, source: ExampleBatches, rows: int) -> None:
        self.source = source
        self.num_rows, self.num_views = min(rows, source.num_rows), 1
        self.sequence_length, self.vocab_size = source.sequence_length, source.vocab_size

    def gather(self, view: int, rows: NDArray[np.int64]) -> Batch:
        return self.source.gather(view, rows)

    def noised(self, view: int) -> tuple[float, float]:
        return self.source.noised(view)


def from_command_line(doc: str | None, *, steps: int) -> tuple[ExampleBatches, int]:
    """The training rows of the views artifact that the command line names, and how many steps to take."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("views", type=Path, help="a views artifact; the examples are those that it was drawn on")
    parser.add_argument("--steps", type=int, default=steps)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    examples = Artifact(arguments.views.name, arguments.views.resolve()).inputs()["examples"].path
    return ExampleBatches(examples, arguments.views, "train"), arguments.steps


def trainer(spec: PretrainSpec, *, train: BatchSource, heldout: BatchSource, out_dir: Path, **options: Any) -> Trainer:
    """A training run of this process alone."""
    config = spec.config_for(vocab_size=train.vocab_size, sequence_length=train.sequence_length)
    ranks = join(rank=0, world_size=1, device=torch.device("cpu"))
    return Trainer(spec, config, train=train, heldout=heldout, ranks=ranks, out_dir=out_dir, **options)
