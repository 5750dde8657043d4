"""Stage `speed`: parameters and training speed of encoder architectures with random weights, relative to M-BERT.

It reproduces the speed column of KoreALBERT's Table III. A step is forward, backward and AdamW of the encoder and a head with
two classes, on random pieces of equal length. Steps of each architecture alternate with steps of M-BERT, so that other load on
the machine slows both equally; the speed-up is the median over the pairs. With ``inference`` forward passes are also measured,
in torch and as ONNX. Output: ``speed.json``. Times depend on the machine and are not reproducible.

Shapes: B inputs, L pieces, H hidden size.
"""

from __future__ import annotations

import contextlib
import statistics
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import ConfigDict, Field, field_validator

from korealbert.artifact import Deployment, Inputs, Progress, Runtime, Spec, Stage, Statistics, refuse_repeats
from korealbert.artifact.files import write_json
from korealbert.finetune.spec import Precision
from korealbert.huggingface.onnx import check_onnx
from korealbert.pretrain.runtime import TrainingRuntime, check_device

if TYPE_CHECKING:
    import torch

_BASE = {"hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12, "intermediate_size": 3072}

_OFFSET = {"max_position_embeddings": 514, "type_vocab_size": 1, "pad_token_id": 1}
"""RoBERTa and XLM-R count positions from the padding id, and have no segments."""

_ALBERT_LARGE = {"hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16, "intermediate_size": 4096}

BASELINE = "M-BERT"
"""The architecture relative to which KoreALBERT's Table III gives speeds."""

SHAPES: dict[str, tuple[str, dict[str, Any]]] = {
    BASELINE: ("bert", {**_BASE, "vocab_size": 119_547}),
    "XLM-R base": ("xlm-roberta", {**_BASE, **_OFFSET, "vocab_size": 250_002}),
    "KoBERT": ("bert", {**_BASE, "vocab_size": 8_002}),
    "DistilKoBERT": ("distilbert", {"vocab_size": 8_002, "dim": 768, "n_layers": 3, "n_heads": 12, "hidden_dim": 3072}),
    "KLUE-BERT base": ("bert", {**_BASE, "vocab_size": 32_000}),
    "KLUE-RoBERTa base": ("roberta", {**_BASE, **_OFFSET, "vocab_size": 32_000}),
    "KoELECTRA base v3": ("electra", {**_BASE, "vocab_size": 35_000, "embedding_size": 768}),
    "KoELECTRA small v3": (
        "electra",
        {
            **{"vocab_size": 35_000, "embedding_size": 128, "hidden_size": 256, "num_hidden_layers": 12},
            **{"num_attention_heads": 4, "intermediate_size": 1024},
        },
    ),
    "KoBigBird base": ("big_bird", {**_BASE, "vocab_size": 32_500, "max_position_embeddings": 4096}),
    "ALBERT base v2": ("albert", {**_BASE, "vocab_size": 30_000, "embedding_size": 128}),
    "ALBERT large v2": ("albert", {**_ALBERT_LARGE, "vocab_size": 30_000, "embedding_size": 128}),
    "KoreALBERT base": ("albert", {**_BASE, "vocab_size": 32_000, "embedding_size": 128}),
    "KoreALBERT large": ("albert", {**_ALBERT_LARGE, "vocab_size": 32_000, "embedding_size": 128}),
}
"""Model type and config fields by the name in the paper's tables."""

_WIDTHS = ("vocab_size", "embedding_size", "hidden_size", "intermediate_size", "dim", "hidden_dim")

_HEADS = ("num_attention_heads", "n_heads")


def config_of(name: str, *, shrink: int = 1) -> Any:
    """Return the config of a shape, with widths and vocabulary divided by ``shrink``, a power of two up to 32.

    Layers and positions are kept, so that the time of a step falls by about the same factor for every shape. Raises KeyError
    for an unknown shape.
    """
    from transformers import AutoConfig  # noqa: PLC0415 (planning does without)

    model_type, fields = SHAPES[name]
    smaller = {field: max(1, value // shrink) if field in (*_WIDTHS, *_HEADS) else value for field, value in fields.items()}
    config = AutoConfig.for_model(model_type, **smaller)
    if model_type == "big_bird":
        config.attention_type = "original_full"
    return config


def parameters_of(name: str) -> int:
    """Return the number of parameters of the encoder with its pooler, if it has one, without allocating them."""
    import torch  # noqa: PLC0415 (planning does without)
    from transformers import AutoModel  # noqa: PLC0415 (planning does without)

    from korealbert.model.parameters import count_parameters  # noqa: PLC0415 (planning does without)

    with torch.device("meta"):
        return count_parameters(AutoModel.from_config(config_of(name)))


class SpeedSpec(Spec):
    """Shapes to measure, and settings of the measurement."""

    later: ClassVar[frozenset[str]] = frozenset({"inference"})

    architectures: tuple[str, ...] = ()
    """Names of shapes, which ``korealbert/finetune/encoders/speed.py`` lists."""
    batch_size: int = Field(default=32, ge=1)
    """Inputs per step."""
    sequence_length: int = Field(default=128, ge=8, le=512)
    """Pieces per input, without padding."""
    steps: int = Field(default=5, ge=1, le=1000)
    """Timed steps."""
    warmup_steps: int = Field(default=1, ge=1, le=1000)
    """Steps before the timed ones."""
    shrink: Literal[1, 2, 4, 8, 16, 32] = 1
    """Divide widths and vocabularies of all shapes by this number, for small machines. Reported parameters are always those
    of the whole shape."""
    precision: Precision = "fp32"
    """``bf16``: matrix products under autocast."""
    seed: int = Field(default=1, ge=0, lt=2**63)
    """Seed of weights and pieces."""
    inference: bool = False
    """Also measure forward passes with their peak memory on the CPU: in torch (fp32) and as ONNX (fp32 and int8). Needs the
    extra ``onnx``."""

    @field_validator("architectures")
    @classmethod
    def _known(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        for name in names:
            if name not in SHAPES:
                raise ValueError(f"there is no shape {name!r}; known are {', '.join(SHAPES)}")
        refuse_repeats("architectures", names)
        return names


class SpeedStats(Statistics):
    """Training speed by shape, as a multiple of that of ``BASELINE``."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, float]


def run(spec: SpeedSpec, inputs: Inputs, out_dir: Path, runtime: Runtime) -> SpeedStats:
    """Measure the shapes one after the other."""
    if not spec.architectures:
        raise ValueError("no architecture to measure; name some in architectures")
    device, rows = _measured_all(spec, TrainingRuntime.of(runtime))
    settings = {name: getattr(spec, name) for name in ("batch_size", "sequence_length", "steps", "shrink", "precision")}
    write_json(out_dir / "speed.json", {"baseline": BASELINE, "device": device, **settings, "rows": rows})
    return SpeedStats.of({name: row["speedup"] for name, row in rows.items()})


def _measured_all(spec: SpeedSpec, runtime: TrainingRuntime) -> tuple[str, dict[str, dict[str, Any]]]:
    """Return the type of the device and the figures of each architecture."""
    import torch  # noqa: PLC0415 (planning does without)

    from korealbert.pretrain.runtime import pick_device  # noqa: PLC0415 (planning does without)

    device = pick_device(runtime.device)
    rows: dict[str, dict[str, Any]] = {}
    with _torch_threads(runtime.threads), torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.manual_seed(spec.seed)
        baseline = _Trainer(BASELINE, spec, device)
        for number, name in enumerate(spec.architectures, start=1):
            rows[name] = _measured(name, baseline, spec, device)
            if spec.inference:
                rows[name]["inference"] = _inference(name, spec, runtime.threads)
            runtime.report(Progress(number, len(spec.architectures), "shapes", {"speedup": rows[name]["speedup"]}))
    return device.type, rows


class _Trainer:
    """An encoder with fresh weights, a head with two classes, their optimiser, and a batch of random pieces [B, L]."""

    def __init__(self, name: str, spec: SpeedSpec, device: torch.device) -> None:
        import torch  # noqa: PLC0415 (planning does without)
        from torch import nn  # noqa: PLC0415 (planning does without)
        from transformers import AutoModel  # noqa: PLC0415 (planning does without)

        config, shape = config_of(name, shrink=spec.shrink), (spec.batch_size, spec.sequence_length)
        self.encoder = AutoModel.from_config(config, dtype=torch.float32).to(device).train()
        self.head = nn.Linear(config.hidden_size, 2).to(device)
        self.parameters = [*self.encoder.parameters(), *self.head.parameters()]
        self.optimizer = torch.optim.AdamW(self.parameters, lr=1e-6, fused=True)
        self.device, self.bf16 = device, spec.precision == "bf16"
        self.ids_BL = torch.randint(5, config.vocab_size, shape, device=device)
        self.mask_BL = torch.ones(shape, dtype=torch.int64, device=device)
        self.labels_B = torch.randint(0, 2, shape[:1], device=device)

    def step(self) -> float:
        """Take one training step and return its seconds."""
        import torch  # noqa: PLC0415 (planning does without)

        self._wait()
        begin = time.perf_counter()
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.bf16):
            hidden_BLH = self.encoder(input_ids=self.ids_BL, attention_mask=self.mask_BL).last_hidden_state
            loss = torch.nn.functional.cross_entropy(self.head(hidden_BLH[:, 0]).float(), self.labels_B)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()
        self._wait()
        return time.perf_counter() - begin

    def _wait(self) -> None:
        import torch  # noqa: PLC0415 (planning does without)

        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)


@contextlib.contextmanager
def _torch_threads(number: int) -> Iterator[None]:
    """Set torch's number of threads within a block."""
    import torch  # noqa: PLC0415 (planning does without)

    before = torch.get_num_threads()
    torch.set_num_threads(number)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _measured(name: str, baseline: _Trainer, spec: SpeedSpec, device: torch.device) -> dict[str, Any]:
    trainer = baseline if name == BASELINE else _Trainer(name, spec, device)
    turns = [(baseline.step(), trainer.step()) for _ in range(spec.warmup_steps + spec.steps)][spec.warmup_steps :]
    ratios = [theirs / ours for theirs, ours in turns]
    seconds = statistics.median(ours for _, ours in turns)
    return {
        "parameters": parameters_of(name),
        "speedup": 1.0 if name == BASELINE else float(f"{statistics.median(ratios):.4g}"),
        "lowest": float(f"{min(ratios):.4g}"),
        "highest": float(f"{max(ratios):.4g}"),
        "pieces_per_second": float(f"{spec.batch_size * spec.sequence_length / seconds:.4g}"),
    }


def _inference(name: str, spec: SpeedSpec, threads: int) -> dict[str, dict[str, float]]:
    from transformers import AutoModel  # noqa: PLC0415 (planning does without)

    from korealbert.finetune.encoders.inference import measure_inference  # noqa: PLC0415 (planning does without)

    return measure_inference(
        AutoModel.from_config(config_of(name, shrink=spec.shrink)),
        batch_size=spec.batch_size,
        length=spec.sequence_length,
        steps=spec.steps,
        warmup_steps=spec.warmup_steps,
        threads=threads,
    )


def _check(spec: SpeedSpec, runtime: Runtime) -> None:
    check_device(spec, runtime)
    check_onnx(spec.inference, "[speed] inference")


STAGE = Stage(
    "speed",
    version=1,
    spec=SpeedSpec,
    run=run,
    check=_check,
    needs=("torch", "transformers"),
    table="speed",
    deployment=Deployment("Training speed of architectures beside M-BERT's", recipe="encoders"),
)
