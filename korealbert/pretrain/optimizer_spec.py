"""What a recipe says about the optimiser; ``optimizer`` makes it. Without torch, so that a plan needs none."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, field_validator, model_validator

from korealbert.artifact import Spec


class OptimizerSpec(Spec):
    """LAMB or AdamW. The defaults are those of the official ALBERT optimiser: no bias correction, no bound on the ratio."""

    name: Literal["lamb", "adamw"] = "lamb"
    """LAMB scales each tensor's update to the norm of the tensor, which is what large batches want."""
    lr: float = Field(default=1.25e-3, gt=0)
    """Peak learning rate. The default is LAMB's for 2,048 sequences (KoreALBERT), and goes with the square root of the batch.
    AdamW has no default; ELECTRA takes 5e-4 for small models at 128 sequences."""
    betas: tuple[float, float] = (0.9, 0.999)
    """Decay rates of the first and second moment."""
    eps: float = Field(default=1e-6, gt=0)
    """Added to the root of the second moment."""
    weight_decay: float = Field(default=0.01, ge=0)
    """Decoupled decay of all tensors of rank ≥ 2; biases and LayerNorms are left out."""
    max_grad_norm: float = Field(default=1.0, ge=0)
    """Bound on the global gradient norm, applied before the moments; 0 leaves gradients alone."""
    bias_correction: bool = False
    """LAMB: divide the moments by 1 − βᵗ (LAMB paper v3, apex, timm). AdamW always does."""
    max_trust_ratio: float = Field(default=0.0, ge=0)
    """LAMB: upper bound on ‖w‖/‖u‖; 0 means none, other implementations take 10."""
    max_weight_norm: float = Field(default=0.0, ge=0)
    """LAMB: upper bound on ‖w‖ within that ratio (φ of the LAMB paper, whose code takes 10); 0 means none."""
    adapt_excluded: bool = False
    """LAMB: give biases and LayerNorms a trust ratio too (NVIDIA's variant)."""
    gradient_averaging: bool = True
    """LAMB: weigh gradients by 1 − β₁ in the first moment; false adds them whole (an option of apex)."""

    @field_validator("betas")
    @classmethod
    def _check_betas(cls, betas: tuple[float, float]) -> tuple[float, float]:
        if not all(0 <= beta < 1 for beta in betas):
            raise ValueError(f"betas = {betas} must lie in [0, 1)")
        return betas

    @model_validator(mode="after")
    def _check_adamw(self) -> Self:
        if self.name == "adamw":
            if "lr" not in self.model_fields_set:
                raise ValueError("name = 'adamw' needs an lr of its own; the default is LAMB's")
            for flag in ("bias_correction", "max_trust_ratio", "max_weight_norm", "adapt_excluded", "gradient_averaging"):
                if (value := getattr(self, flag)) != type(self).model_fields[flag].default:
                    raise ValueError(f"{flag} = {value} belongs to LAMB, but name = 'adamw'; remove it")
        return self
