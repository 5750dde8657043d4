"""Compare losses with a plain loop around transformers' ALBERT over 200 steps, with identical batches and optimiser.

python -m bench.same_curve VIEWS [--steps 200]: VIEWS is the directory of a views artifact. Ours accumulates two
micro-batches on the DeepSpeed engine and computes only masked positions; theirs takes whole batches and computes MLM logits at
every position, as AlbertForPreTraining does. Exits with 1 when an MLM or SOP loss differs by more than 1e-4.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path

import torch
from torch import Tensor
from transformers import AlbertConfig as TheirConfig
from transformers import AlbertForPreTraining

from bench.training import FirstRows, from_command_line, trainer
from korealbert.examples.batches import Batch
from korealbert.huggingface.checkpoint import settings, to_huggingface
from korealbert.huggingface.export import SPECIAL_IDS
from korealbert.pretrain.data import micro_batches
from korealbert.pretrain.optimizer import Clipping, make_optimizer
from korealbert.pretrain.spec import PretrainSpec

TOLERANCE = 1e-4


def their_losses(model: AlbertForPreTraining, batch: Batch) -> tuple[Tensor, Tensor]:
    """Return the MLM and SOP loss as a user of transformers computes them."""
    ids = torch.from_numpy(batch.input_ids)
    labels = torch.full_like(ids, -100)
    used = batch.mlm_labels != -100
    rows = used.nonzero()[0]
    labels[torch.from_numpy(rows), torch.from_numpy(batch.mlm_positions[used])] = torch.from_numpy(batch.mlm_labels[used])
    output = model(
        input_ids=ids,
        token_type_ids=torch.from_numpy(batch.token_type_ids),
        attention_mask=(torch.arange(ids.shape[1]) < torch.from_numpy(batch.lengths)[:, None]).long(),
    )
    mlm = torch.nn.functional.cross_entropy(output.prediction_logits.flatten(0, 1), labels.flatten())
    return mlm, torch.nn.functional.cross_entropy(output.sop_logits, torch.from_numpy(batch.sop_labels))


def main() -> int:
    source, steps = from_command_line(__doc__, steps=200)
    spec = PretrainSpec(
        model={"hidden_size": 192, "num_layers": 2, "num_groups": 2, "hidden_dropout": 0.0, "attention_dropout": 0.0},
        steps=steps,
        global_batch_size=16,
        micro_batch_size=8,
        optimizer={"name": "lamb", "lr": 1.76e-3},
        schedule={"warmup_steps": steps // 10},
        wop_weight=0,
        log_every=1,
        heldout_every=steps,
        checkpoint_every=steps,
    )
    with tempfile.TemporaryDirectory() as directory:
        out_dir = Path(directory)
        ours = trainer(spec, train=source, heldout=FirstRows(source, 0), out_dir=out_dir)
        config = ours.config
        weights = to_huggingface(config, {name: tensor.numpy().copy() for name, tensor in ours.model.state_dict().items()})
        stats = ours.run()
        lines = [json.loads(line) for line in (out_dir / "metrics.jsonl").read_text("utf-8").splitlines()]

    theirs = AlbertForPreTraining(TheirConfig(**settings(config, SPECIAL_IDS))).eval()
    theirs.load_state_dict({name: torch.from_numpy(array) for name, array in weights.items()}, strict=False)
    optimizer = make_optimizer(theirs, spec.optimizer)
    Clipping(optimizer, spec.optimizer.max_grad_norm)
    whole = spec.model_copy(update={"micro_batch_size": spec.global_batch_size})
    worst, seconds = 0.0, 0.0
    for step, line in enumerate(lines):
        (batch,) = micro_batches(
            source, whole, start=step * whole.global_batch_size, count=whole.global_batch_size, rank=0, world_size=1
        )
        start = time.perf_counter()
        mlm, sop = their_losses(theirs, batch)
        for group in optimizer.param_groups:
            group["lr"] = spec.schedule.learning_rate(step, peak=spec.optimizer.lr, steps=spec.steps)
        optimizer.zero_grad()
        (mlm + sop).backward()
        optimizer.step()
        seconds += time.perf_counter() - start
        worst = max(worst, abs(mlm.item() - line["mlm_loss"]), abs(sop.item() - line["sop_loss"]))
    speed = stats["tokens"] / seconds
    print(
        f"{len(lines)} steps: MLM loss {lines[0]['mlm_loss']:.2f} to {lines[-1]['mlm_loss']:.2f}, worst difference {worst:.1e}"
    )
    print(
        f"ours {stats['tokens_per_second']:,.0f} tokens/s, theirs {speed:,.0f}: ratio {stats['tokens_per_second'] / speed:.2f}"
    )
    return 0 if worst <= TOLERANCE else 1


if __name__ == "__main__":
    sys.exit(main())
