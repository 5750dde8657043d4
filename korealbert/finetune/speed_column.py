"""Stage `speed`: shapes of encoders, from random weights → their parameters, and how fast they train beside M-BERT's.

What KoreALBERT's Table III prints as its speed column. A step is forward, backward and AdamW over encoder and a head of two
classes, on random pieces of equal length. Each shape takes turns with M-BERT's, step by step, so that whatever else the machine
does meets both alike; the speed-up is the median over the turns. Output: ``speed.json``. Times are of the machine that built
it, and another build gives others.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field, field_validator

from korealbert.artifact import Inputs, Runtime, Spec, Stage, Stats, refuse_repeats
from korealbert.artifact.files import write_json
from korealbert.finetune.architectures import BASELINE, SHAPES
from korealbert.pretrain.runtime import TrainingRuntime, check_device


class SpeedSpec(Spec):
    """Which shapes are measured, and how."""

    architectures: tuple[str, ...] = ()
    """Names of shapes, as ``korealbert/finetune/architectures.py`` lists them; none: nothing is measured."""
    batch_size: int = Field(default=32, ge=1)
    """Inputs of one step."""
    sequence_length: int = Field(default=128, ge=8, le=512)
    """Pieces of each input, all real: nothing is padded."""
    steps: int = Field(default=5, ge=1, le=1000)
    """Turns that are timed."""
    warmup_steps: int = Field(default=1, ge=1, le=1000)
    """Turns before them."""
    shrink: Literal[1, 2, 4, 8, 16, 32] = 1
    """Divides widths and vocabularies of all shapes, where their own are too much for the machine; parameters are always told
    of the whole shape."""
    precision: Literal["fp32", "bf16"] = "fp32"
    """bf16: matrix products under autocast."""
    seed: int = Field(default=1, ge=0, lt=2**63)
    """Seeds weights and pieces."""

    @field_validator("architectures")
    @classmethod
    def _known(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        for name in names:
            if name not in SHAPES:
                raise ValueError(f"there is no shape {name!r}; known are {', '.join(SHAPES)}")
        refuse_repeats("architectures", names)
        return names


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
