"""Stage ``xpt_perplexity`` (labels ``perplexity/VARIANT/PHASE``): a trained model on the test part, under one fixed noise.

Input: roles ``model`` (transfer, phase or pretraining), ``examples`` and ``views`` of the test part alone. Perplexity is exp of
the mean cross-entropy over all masked pieces.
"""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from korealbert.artifact import Inputs, Progress, Runtime, Spec, Stage, Stats
from korealbert.examples.batches import ExampleBatches
from korealbert.files import write_json
from korealbert.model.config import ModelConfig


class PerplexitySpec(Spec):
    """How the test part is scored."""

    batch_size: int = Field(default=32, ge=1)
    """Rows of one forward pass."""


def run(spec: PerplexitySpec, inputs: Inputs, out_dir: Path, runtime: Runtime) -> Stats:
    """Write ``scores.json``. Raises ValueError where the rows were packed with another vocabulary than the model's."""
    import torch  # noqa: PLC0415 (takes seconds to load)
    from safetensors.torch import load_file  # noqa: PLC0415

    from korealbert.model.device import pick_device  # noqa: PLC0415
    from korealbert.model.heads import PretrainingModel  # noqa: PLC0415
    from korealbert.pretrain.heldout import evaluate  # noqa: PLC0415
    from korealbert.pretrain.ranks import Ranks  # noqa: PLC0415

    directory = inputs["model"].path
    config = ModelConfig.model_validate_json((directory / "config.json").read_bytes())
    rows = ExampleBatches(inputs["examples"].path, inputs["views"].path, "train")
    if rows.vocab_size != config.vocab_size:
        raise ValueError(
            f"{inputs['model'].name} has {config.vocab_size:,} word embeddings, but {inputs['examples'].name} was packed with "
            f"{rows.vocab_size:,} pieces; pack the test part with the model's vocabulary"
        )
    before = torch.get_num_threads()
    torch.set_num_threads(runtime.threads)
    try:
        device = pick_device(runtime.device)
        model = PretrainingModel(config).to(device)
        model.load_state_dict(load_file(directory / "model.safetensors"))
        metrics = evaluate(model, rows, Ranks(0, 1, device), batch_size=spec.batch_size, autocast=None)
    finally:
        torch.set_num_threads(before)
    scores = {name: metrics[name] for name in ("mlm_loss", "mlm_accuracy", "mlm_perplexity")}
    write_json(out_dir / "scores.json", scores)
    runtime.report(Progress(1, 1, "models"))
    return {**scores, "rows": rows.num_rows}


STAGE = Stage("xpt_perplexity", version=1, spec=PerplexitySpec, run=run)
