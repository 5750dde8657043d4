"""The checkpoints of one run: what of its engine they hold, whole tensors however ZeRO divides them, and how it is put back."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

from torch import nn
from torch.optim import Optimizer

from korealbert.model.config import ModelConfig
from korealbert.pretrain import checkpoint
from korealbert.pretrain.checkpoint import Checkpoint
from korealbert.pretrain.metrics import MetricsFile
from korealbert.pretrain.moments import gather_moments, moments_of, scatter_moments, set_moments
from korealbert.pretrain.spec import PretrainSpec
from korealbert.pretrain.state import TrainingState


class RunCheckpoints:
    """Weights, moments and loss scale of an engine, and the training state beside them, under ``root``."""

    def __init__(
        self, root: Path, spec: PretrainSpec, config: ModelConfig, *, model: nn.Module, optimizer: Optimizer, engine: Any
    ) -> None:
        self._root, self._divided = root, spec.zero_stage > 0
        self._model, self._optimizer, self._engine = model, optimizer, engine
        self._scaler = getattr(engine, "torch_autocast_z0_gradscaler", None)
        self._identity = {"spec": spec.model_dump(mode="json"), "config": config.model_dump(mode="json")}

    def latest(self, *, until: int | None = None) -> Checkpoint | None:
        """The newest intact one, of a step ``until`` or before. Raises ValueError where it is another run's."""
        saved = checkpoint.latest(self._root, until=until)
        if saved is not None and saved.state["identity"] != self._identity:
            raise ValueError(f"{saved.path} belongs to another spec; remove {self._root} to start over")
        return saved

    def save(self, state: TrainingState, metrics: MetricsFile | None) -> None:
        """Write the checkpoint of ``state.step``. Every rank must call it; the one that has the metrics writes."""
        moments = gather_moments(self._model, self._engine.optimizer) if self._divided else None
        if metrics is None:
            return
        checkpoint.save(
            self._root,
            step=state.step,
            model=self._model,
            moments=moments_of(self._model, self._optimizer) if moments is None else moments,
            state={
                "identity": self._identity,
                "training": asdict(state),
                "scaler": None if self._scaler is None else self._scaler.state_dict(),
            },
            metrics=metrics.content(),
            keep=state.returns_to,
        )

    def restore(self, saved: Checkpoint) -> TrainingState:
        """Put a checkpoint's tensors back into the engine; returns the training state of its step."""
        checkpoint.restore_weights(saved, self._model)
        moments = checkpoint.load_moments(saved)
        if self._divided:
            scatter_moments(self._model, self._engine.optimizer, moments)
        else:
            set_moments(self._model, self._optimizer, moments)
        if self._scaler is not None:
            self._scaler.load_state_dict(saved.state["scaler"])
        return TrainingState.of(saved.state["training"])
