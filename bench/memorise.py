"""Train on 128 real examples until the model knows all three tasks by heart, to show that it can learn.

python -m bench.memorise VIEWS [--steps 500]: VIEWS is the directory of a views artifact. It takes five to ten minutes.
Exits with 1 unless MLM, SOP and WOP accuracy on those examples all exceed 0.9.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

from bench.training import FirstRows, from_command_line, trainer
from korealbert.pretrain.spec import PretrainSpec

ROWS = 128


def spec_of(steps: int) -> PretrainSpec:
    """Return the settings of a training of so many steps."""
    return PretrainSpec(
        model={"embedding_size": 64, "hidden_size": 128, "num_layers": 2, "hidden_dropout": 0.0, "attention_dropout": 0.0},
        steps=steps,
        global_batch_size=32,
        micro_batch_size=32,
        optimizer={"name": "adamw", "lr": 2e-3},
        schedule={"warmup_steps": steps // 10, "decay": "linear"},
        log_every=100,
        heldout_every=steps,
        checkpoint_every=steps,
    )


def main() -> int:
    source, steps = from_command_line(__doc__, steps=500)
    rows = FirstRows(source, ROWS)
    names = ("loss", "mlm_accuracy", "sop_accuracy", "wop_accuracy")
    last: dict[str, float] = {}

    def report(step: int, metrics: dict[str, float | None]) -> None:
        if "loss" in metrics:
            last.update({name: value for name, value in metrics.items() if value is not None})
            shown = "  ".join(f"{name} {last.get(name, float('nan')):.3f}" for name in names)
            print(f"step {step:5d}  {shown}  {last['tokens_per_second']:,.0f} tokens/s", flush=True)

    start = time.monotonic()
    with tempfile.TemporaryDirectory() as out_dir:
        trainer(spec_of(steps), train=rows, heldout=rows, out_dir=Path(out_dir), report=report).run()
    learnt = all(last.get(name, 0.0) > 0.9 for name in names[1:])
    print(f"{rows.num_rows} examples, {time.monotonic() - start:.0f} s: {'learnt by heart' if learnt else 'NOT learnt'}")
    return 0 if learnt else 1


if __name__ == "__main__":
    sys.exit(main())
