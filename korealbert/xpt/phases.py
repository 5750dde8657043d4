"""Stage ``xpt_phase`` (labels ``phase1/VARIANT``, ``phase2/VARIANT``): post-training of a transferred model.

It runs the pretraining stage from given weights, some of them frozen, with new learning rate, moments and data order. Input:
roles ``initial`` (a transfer, or the previous phase), ``vocab``, ``examples`` and ``views``. Output: that of pretraining.
Frozen layers still apply dropout.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Literal, Self, get_args

from pydantic import Field, model_validator

from korealbert.artifact import Artifact, Inputs, Runtime, Stage, Statistics
from korealbert.model.config import ModelSpec, read_config
from korealbert.pretrain import stage as pretrain
from korealbert.pretrain.optimizer_spec import AnyOptimizer, AnySchedule, OptimizerSpec, ScheduleSpec
from korealbert.pretrain.spec import PretrainSpec
from korealbert.vocab.tokenizer import Vocabulary
from korealbert.xpt.transfer import Freeze, unreached_names

Phase = Literal["phase1", "phase2"]
PHASES: tuple[Phase, ...] = get_args(Phase)
"""In this order, each from the weights of the one before."""


class PhaseSpec(PretrainSpec):
    """One phase. Defaults are those of Chameleon (table 5), or of RoBERTa for what the paper does not say."""

    objective: Literal["mlm"] = "mlm"
    """Masked words are the only objective."""
    freeze: Freeze = "none"
    """``chameleon`` freezes the encoder (phase 1), ``l21`` everything copied from the source (Lee et al. 2021), ``none``
    nothing (phase 2). Pooler and sentence-order head are never trained, because masked words give them no gradient."""
    steps: int = Field(default=50_000, ge=1)
    """Parameter updates. Chameleon has 100,000 for both phases; the paper may also mean 100,000 for each."""
    global_batch_size: int = Field(default=512, ge=1)
    """Sequences per update."""
    sop_weight: float = Field(default=0.0, ge=0, le=0)
    """Masked words are the only objective."""
    wop_weight: float = Field(default=0.0, ge=0, le=0)
    """Masked words are the only objective."""
    optimizer: AnyOptimizer = OptimizerSpec(name="adamw", lr=3e-4, betas=(0.9, 0.98), eps=1e-6, max_grad_norm=1.0)
    """Adam with RoBERTa's settings."""
    schedule: AnySchedule = ScheduleSpec(warmup_steps=1000)
    """Warm-up over 1,000 steps (Lee et al. 2021), then linear decay to 0."""

    @model_validator(mode="after")
    def _refuse_model_settings(self) -> Self:
        if self.model != ModelSpec():
            raise ValueError("[model]: a phase trains the model that was transferred; remove it")
        if self.long is not None:
            raise ValueError("[long]: a phase has sequences of one length; remove it")
        if self.embeddings != "random":
            raise ValueError(f"embeddings = {self.embeddings!r}: a phase has those that were transferred; remove it")
        if self.frozen:
            raise ValueError(f"frozen = {list(self.frozen)}: a phase freezes by preset; set freeze and remove frozen")
        return self

    def pretraining(self, frozen: list[str]) -> PretrainSpec:
        """Return the spec of the pretraining stage."""
        return PretrainSpec(**{**{name: getattr(self, name) for name in PretrainSpec.model_fields}, "frozen": tuple(frozen)})


class _Transferred(Statistics):
    """The statistics that a transfer and a phase have in common."""

    vocab_sha256: str | None = None


class PhaseStats(pretrain.PretrainStats):
    """Statistics of a phase."""

    vocab_sha256: str
    freeze: str


def run(spec: PhaseSpec, inputs: Inputs, out_dir: Path, runtime: Runtime) -> PhaseStats:
    """Train one phase. Raises ValueError if vocabulary, examples and weights do not belong together."""
    initial, vocab = inputs["initial"], Vocabulary.load(inputs["vocab"].path)
    meant_for = initial.stats_as(_Transferred).vocab_sha256
    if meant_for != vocab.sha256:
        raise ValueError(
            f"{initial.name} was transferred to another vocabulary (sha256 {str(meant_for)[:12]}…) than {inputs['vocab'].name} "
            f"({vocab.sha256[:12]}…); transfer to the vocabulary that the examples were packed with"
        )
    stats = pretrain.run(spec.pretraining(frozen_names(initial, spec.freeze)), inputs, out_dir, runtime)
    return PhaseStats.of({**stats.facts(), "vocab_sha256": vocab.sha256, "freeze": spec.freeze})


def frozen_names(initial: Artifact, freeze: Freeze) -> list[str]:
    """Return the names of the tensors that a phase does not train. Raises ValueError if the preset needs a transfer as
    ``initial``."""
    config = read_config(initial.path)
    unreached = unreached_names(["encoder.pooler.weight", "encoder.pooler.bias", "sop.weight", "sop.bias"] * config.pooler)
    if freeze == "none":
        return unreached
    file = initial.path / "layout.json"
    if not file.is_file():
        raise ValueError(
            f"freeze = {freeze!r} needs the layout of a transfer, which {initial.name} is not; set freeze = 'none'"
        )
    layout = json.loads(file.read_text("utf-8"))
    frozen = {*unreached, *layout["encoder"], *(layout["copied"] if freeze == "l21" else ())}
    return sorted(frozen)


STAGE = Stage("xpt_phase", version=3, spec=PhaseSpec, run=run, check=pretrain.check_runtime, needs=("torch", "deepspeed"))
