"""The tables `[pretrain.optimizer]` and `[pretrain.schedule]`: LAMB, AdamW or Muon, and the learning rate over the steps."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Discriminator, Field, Tag, model_validator

from korealbert.artifact import Spec


def _decay_rates(betas: tuple[float, float]) -> tuple[float, float]:
    if not all(0 <= beta < 1 for beta in betas):
        raise ValueError(f"betas = {list(betas)}: each lies in [0, 1); change the one that does not")
    return betas


Betas = Annotated[tuple[float, float], AfterValidator(_decay_rates)]


class OptimizerSpec(Spec):
    """LAMB or AdamW. The defaults are those of the official ALBERT optimiser: no bias correction, no bound on the ratio."""

    name: Literal["lamb", "adamw"] = "lamb"
    """LAMB scales each tensor's update to the norm of the tensor, as suits large batches."""
    lr: float = Field(default=1.25e-3, gt=0)
    """Peak learning rate. The default is for LAMB and 2,048 sequences (KoreALBERT); scale it with the square root of the batch.
    AdamW has no default; ELECTRA uses 5e-4 for small models and 128 sequences."""
    betas: Betas = (0.9, 0.999)
    """Decay rates of the first and second moment."""
    eps: float = Field(default=1e-6, gt=0)
    """Added to the square root of the second moment."""
    weight_decay: float = Field(default=0.01, ge=0)
    """Decoupled decay of all tensors of rank ≥ 2; biases and LayerNorms are left out."""
    max_grad_norm: float = Field(default=1.0, ge=0)
    """Bound on the global gradient norm, applied before the moments; 0 leaves gradients alone."""
    bias_correction: bool = False
    """LAMB: divide the moments by 1 − βᵗ (LAMB paper v3, apex, timm). AdamW always does."""
    max_trust_ratio: float = Field(default=0.0, ge=0)
    """LAMB: upper bound on ‖w‖/‖u‖; 0 means none, other implementations use 10."""
    max_weight_norm: float = Field(default=0.0, ge=0)
    """LAMB: upper bound on ‖w‖ in that ratio (φ of the LAMB paper, whose code uses 10); 0 means none."""
    gradient_averaging: bool = True
    """LAMB: weight gradients by 1 − β₁ in the first moment; false adds them unweighted (an option of apex)."""

    @model_validator(mode="after")
    def _check_adamw(self) -> Self:
        if self.name == "adamw":
            if "lr" not in self.model_fields_set:
                raise ValueError("name = 'adamw' needs an lr of its own; the default is LAMB's")
            for flag in ("bias_correction", "max_trust_ratio", "max_weight_norm", "gradient_averaging"):
                if (value := getattr(self, flag)) != type(self).model_fields[flag].default:
                    raise ValueError(f"{flag} = {value} belongs to LAMB, but name = 'adamw'; remove it")
        return self


class MuonSpec(Spec):
    """Muon (Jordan 2024) for the matrices of the layers and the projection of factorised embeddings, AdamW for all else: tables
    of embeddings, poolers, heads, biases and LayerNorms.

    Muon's updates are scaled to the size of AdamW's (Liu et al. 2025), so that one learning rate suits both.
    """

    name: Literal["muon"]
    """Muon makes the update of each matrix orthogonal, so that all its directions are learnt equally fast."""
    lr: float = Field(gt=0)
    """Peak learning rate; 1e-3 to 5e-3 for small encoders."""
    adamw_lr_factor: float = Field(default=1.0, gt=0)
    """The learning rate of the tensors that AdamW updates, as a multiple of ``lr``."""
    momentum: float = Field(default=0.95, ge=0, lt=1)
    """Muon's Nesterov momentum."""
    arithmetic: Literal["fp32", "bf16"] = "fp32"
    """Type in which Muon makes updates orthogonal. bf16 is faster on GPUs and on CPUs with hardware for it; other CPUs compute
    it ten times slower."""
    betas: Betas = (0.9, 0.98)
    """AdamW's decay rates of the first and second moment."""
    eps: float = Field(default=1e-6, gt=0)
    """AdamW: added to the square root of the second moment."""
    weight_decay: float = Field(default=0.01, ge=0)
    """Decoupled decay of all tensors of rank ≥ 2; biases and LayerNorms are left out."""
    max_grad_norm: float = Field(default=1.0, ge=0)
    """Bound on the global gradient norm, applied before the moments; 0 leaves gradients alone."""


class _WarmUp(Spec):
    """Linear warm-up from 0."""

    warmup_steps: int | None = Field(default=None, ge=0)
    """Steps of the warm-up."""
    warmup_ratio: float | None = Field(default=None, ge=0, lt=1)
    """Steps of the warm-up as a share of all steps; 0.0125 (KoreALBERT) if neither is given."""

    @model_validator(mode="after")
    def _refuse_both(self) -> Self:
        if self.warmup_steps is not None and self.warmup_ratio is not None:
            raise ValueError(
                f"warmup_steps = {self.warmup_steps} and warmup_ratio = {self.warmup_ratio} exclude each other; give one"
            )
        return self

    def warmup(self, steps: int) -> int:
        """Return the steps of the warm-up in a run of ``steps``."""
        if self.warmup_steps is not None:
            return self.warmup_steps
        return int((0.0125 if self.warmup_ratio is None else self.warmup_ratio) * steps)

    def learning_rate(self, update: int, *, peak: float, steps: int) -> float:
        """Return the learning rate after ``update`` updates; it is 0 for the first one of a warm-up, as in TF and Hugging
        Face."""
        warmup = self.warmup(steps)
        return peak * update / warmup if update < warmup else peak * self.factor(update, steps=steps)

    def factor(self, update: int, *, steps: int) -> float:
        """Return the share of the peak rate after the warm-up."""
        raise NotImplementedError


class ScheduleSpec(_WarmUp):
    """Learning rate over the steps: linear warm-up from 0, then a decay."""

    decay: Literal["linear", "linear_tf", "constant"] = "linear"
    """``linear`` falls from the peak at the end of the warm-up to 0 at the last step (Hugging Face). ``linear_tf`` follows
    peak · (1 − t / steps) from the end of the warm-up on, so it starts below the peak (google-research/albert)."""

    def factor(self, update: int, *, steps: int) -> float:
        """Return the share of the peak rate after the warm-up."""
        if self.decay == "constant":
            return 1.0
        if self.decay == "linear_tf":
            return max(0.0, 1 - update / steps)
        return max(0.0, (steps - update) / max(1, steps - self.warmup(steps)))


class StableSchedule(_WarmUp):
    """Warm-up, then the peak rate until the decay in the last steps, so that a run can be continued from before its decay."""

    decay: Literal["stable_linear", "stable_sqrt"]
    """How the rate falls to 0 at the end: linearly, or as 1 − √t over the decay (Hägele et al. 2024)."""
    decay_ratio: float = Field(default=0.2, gt=0, le=1)
    """Share of all steps over which it falls."""

    def factor(self, update: int, *, steps: int) -> float:
        """Return the share of the peak rate after the warm-up."""
        begin = max(self.warmup(steps), steps - round(self.decay_ratio * steps))
        done = min(1.0, max(0.0, (update - begin) / max(1, steps - begin)))
        return 1 - (done if self.decay == "stable_linear" else done**0.5)


def _optimizer_variant(value: Any) -> str:
    name = value.get("name") if isinstance(value, dict) else getattr(value, "name", None)
    return MUON if name == "muon" else MOMENTS


def _schedule_variant(value: Any) -> str:
    decay = value.get("decay") if isinstance(value, dict) else getattr(value, "decay", None)
    return STABLE if str(decay).startswith("stable") else FALLING


MOMENTS, MUON = "of moments", "of muon"
FALLING, STABLE = "falling", "held, then falling"
"""Tags of the two forms of each table, which appear in the location of validation errors."""

AnyOptimizer = Annotated[
    Annotated[OptimizerSpec, Tag(MOMENTS)] | Annotated[MuonSpec, Tag(MUON)], Discriminator(_optimizer_variant)
]
AnySchedule = Annotated[
    Annotated[ScheduleSpec, Tag(FALLING)] | Annotated[StableSchedule, Tag(STABLE)], Discriminator(_schedule_variant)
]
