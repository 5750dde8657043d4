"""Stage ``intrinsic``: a pretrained model → its held-out scores under another noise than that of its own views.

Input roles ``pretrain``, ``examples`` and ``views``. So models that were trained on different noise, or for different tasks,
are scored on the same targets (ALBERT, table 5). An untrained head scores as guessing does.
"""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from pydantic import Field

from korealbert.artifact import Inputs, Real, Runtime, Spec, Stage, Statistics
from korealbert.artifact.files import write_json
from korealbert.examples.batches import ExampleBatches
from korealbert.model.config import read_config, weights_file
from korealbert.pretrain.runtime import TrainingRuntime, check_device, pick_device
from korealbert.pretrain.spec import TASKS


class IntrinsicSpec(Spec):
    """How held-out rows are scored."""

    later: ClassVar[frozenset[str]] = frozenset({"snapshot"})

    batch_size: int = Field(default=32, ge=1)
    """Rows of one forward pass."""
    snapshot: int | None = Field(default=None, ge=1)
    """Step of the training whose weights are scored. None: those at the end."""


class IntrinsicStats(Statistics):
    """Scores of a model on held-out rows."""

    rows: int
    heldout: dict[str, Real | None]
    """By name: ``mlm_accuracy``, ``sop_loss``."""


def run(spec: IntrinsicSpec, inputs: Inputs, out_dir: Path, runtime: Runtime) -> IntrinsicStats:
    """Score the held-out rows. Raises ValueError where there are none, or vocabulary or length are not those of the model."""
    import torch  # noqa: PLC0415 (the graph of a recipe is made without it)
    from safetensors.torch import load_file  # noqa: PLC0415

    from korealbert.pretrain.engine import Ranks  # noqa: PLC0415
    from korealbert.pretrain.objective import evaluate, make_objective  # noqa: PLC0415

    weights = inputs["pretrain"].path
    config = read_config(weights)
    offsets = inputs["pretrain"].manifest["recipe"]["spec"].get("wop_target") == "offset"
    reach = config.word_order_classes // 2 if offsets else 0
    heldout = ExampleBatches(inputs["examples"].path, inputs["views"].path, "heldout", wop_reach=reach)
    if not heldout.num_rows:
        raise ValueError(f"{inputs['examples'].name} has no held-out rows to score; raise heldout_share in [examples]")
    if heldout.vocab_size != config.vocab_size:
        raise ValueError(
            f"{inputs['examples'].name} has {heldout.vocab_size:,} pieces, but {weights.name} was trained with "
            f'{config.vocab_size:,}; let all share one vocabulary (shared = ["vocab"])'
        )
    training = TrainingRuntime.of(runtime)
    device = pick_device(training.device)
    objective = make_objective(config, seed=0)
    objective.model.load_state_dict(load_file(weights_file(weights, spec.snapshot)))
    tasks = TASKS["rtd" if config.generator_hidden_size else "mlm"]
    ranks = Ranks(0, 1, device)
    threads = torch.get_num_threads()
    torch.set_num_threads(training.threads)
    try:
        scores = evaluate(objective.to(device), heldout, ranks, tasks=tasks, batch_size=spec.batch_size, autocast=None)
    finally:
        torch.set_num_threads(threads)
    write_json(out_dir / "metrics.json", scores, sort_keys=True)
    return IntrinsicStats.of({"rows": heldout.num_rows, "heldout": scores})


STAGE = Stage("intrinsic", version=1, spec=IntrinsicSpec, run=run, check=check_device)
