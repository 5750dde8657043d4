"""Training rows of a views artifact, and a training run on one rank of the CPU, for `memorise` and `same_curve`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from bench.common import options
from korealbert.artifact import Artifact
from korealbert.examples.batches import Batch, ExampleBatches
from korealbert.pretrain.engine import join
from korealbert.pretrain.rows import BatchSource
from korealbert.pretrain.spec import PretrainSpec
from korealbert.pretrain.trainer import Trainer


class FirstRows:
    """The first rows of a source, always under its first view."""

    def __init__(self, source: ExampleBatches, rows: int) -> None:
        self.source = source
        self.num_rows, self.num_views = min(rows, source.num_rows), 1
        self.sequence_length, self.vocab_size = source.sequence_length, source.vocab_size

    def gather(self, view: int, rows: NDArray[np.int64]) -> Batch:
        return self.source.gather(view, rows)

    def noised(self, view: int) -> tuple[float, float]:
        return self.source.noised(view)


def from_command_line(doc: str | None, *, steps: int) -> tuple[ExampleBatches, int]:
    """Return the training rows of the views artifact that the command line names, and the number of steps."""
    parser = options(doc)
    parser.add_argument("views", type=Path, help="a views artifact; its examples are found by its manifest")
    parser.add_argument("--steps", type=int, default=steps)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    examples = Artifact(arguments.views.name, arguments.views.resolve()).inputs()["examples"].path
    return ExampleBatches(examples, arguments.views, "train"), arguments.steps


def trainer(spec: PretrainSpec, *, train: BatchSource, heldout: BatchSource, out_dir: Path, **options: Any) -> Trainer:
    """Return a trainer that runs in this process alone."""
    config = spec.config_for(vocab_size=train.vocab_size, sequence_length=train.sequence_length)
    ranks = join(rank=0, world_size=1, device=torch.device("cpu"))
    return Trainer(spec, config, train=train, heldout=heldout, ranks=ranks, out_dir=out_dir, **options)
