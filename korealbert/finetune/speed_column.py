"""Stage `speed`: shapes of encoders, from random weights → their parameters, and how fast they train beside M-BERT's.

What KoreALBERT's Table III prints as its speed column. A step is forward, backward and AdamW over encoder and a head of two
classes, on random pieces of equal length. Each shape takes turns with M-BERT's, step by step, so that whatever else the machine
does meets both alike; the speed-up is the median over the turns. Output: ``speed.json``. Times are of the machine that built
it, and another build gives others.
"""

from __future__ import annotations

from pathlib import Path

from korealbert.artifact import Inputs, Runtime, Stage, Stats
from korealbert.artifact.files import write_json
from korealbert.finetune.architectures import BASELINE, SpeedSpec
from korealbert.pretrain.runtime import TrainingRuntime, check_device


def run(spec: SpeedSpec, inputs: Inputs, out_dir: Path, runtime: Runtime) -> Stats:
    """Measure the shapes one after the other; see the module's docstring."""
    from korealbert.finetune.speed_turns import measured  # noqa: PLC0415 (planning does without)

    if not spec.architectures:
        raise ValueError("no architecture to measure; name some in architectures")
    device, rows = measured(spec, TrainingRuntime.of(runtime))
    settings = {name: getattr(spec, name) for name in ("batch_size", "sequence_length", "steps", "shrink", "precision")}
    write_json(out_dir / "speed.json", {"baseline": BASELINE, "device": device, **settings, "rows": rows})
    return {name: row["speedup"] for name, row in rows.items()}


STAGE = Stage("speed", version=1, spec=SpeedSpec, run=run, check=check_device)
