"""Checkpoints that are whole or absent, verified before use, and that execute nothing when loaded.

``step-00001000/`` holds ``model.safetensors``, ``optimizer.safetensors``, ``state.json``, ``metrics.jsonl`` and, written last,
``sha256.json`` over the others. The directory is renamed into place, and the two newest are kept. No random state is stored:
order is a function of the step, and dropout has a seed of its own for every micro-batch.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Self

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.optim import Optimizer

from korealbert.artifact.files import replace_directory, sha256_of_file
from korealbert.model.config import AnyConfig
from korealbert.pretrain.guard import GuardState, Recent
from korealbert.pretrain.metrics import Metrics, MetricsFile, TaskTotals
from korealbert.pretrain.spec import PretrainSpec


@dataclass
class TrainingState:
    """All that a checkpoint needs beside tensors."""

    step: int = 0
    """Steps done."""
    updates: int = 0
    """Updates made: steps less those that fp16 overflow skipped. The learning rate follows it."""
    position: int = 0
    """Where in the training order the next batch begins."""
    long_position: int = 0
    """The same of the long sequences."""
    sequences: int = 0
    """Sequences trained on; the positions less those that were left out after a collapse."""
    slots: int = 0
    """Places of their tokens, padding included."""
    returns_to: int = 0
    """Step of the checkpoint that a collapse returns to: the last that was due after a good step. One that was saved on request
    changes nothing."""
    rate_factor: float = 1.0
    """What collapses have made of the learning rate."""
    tokens: int = 0
    """Real tokens seen, specials included, padding not."""
    seconds: float = 0.0
    """Time that steps have taken, where the run has a budget of it."""
    window: TaskTotals = field(default_factory=TaskTotals)
    """Sums since the last log line."""
    heldout: Metrics = field(default_factory=dict)
    """The newest held-out scores."""
    heldout_long: Metrics = field(default_factory=dict)
    """The same of the long held-out rows."""
    guard: GuardState = field(default_factory=GuardState)

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Self:
        """The state that ``asdict`` gave these values of."""
        guard = {**values["guard"], **{name: Recent(**values["guard"][name]) for name in ("loss", "gradient")}}
        return cls(**{**values, "window": TaskTotals(**values["window"]), "guard": GuardState(**guard)})


_KEPT = 2
"""Newest checkpoints that stay: one more than needed, in case the newest is damaged."""

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class _Checkpoint:
    """What a verified checkpoint says; tensors load separately."""

    path: Path
    state: Mapping[str, Any]
    """The loop's own state, as it was given to ``save``."""
    metrics: bytes
    """``metrics.jsonl`` at that step."""


def save(
    root: Path,
    *,
    step: int,
    model: nn.Module,
    moments: dict[str, Tensor],
    state: Mapping[str, Any],
    metrics: bytes,
    keep: int,
) -> None:
    """Write the checkpoint of ``step``; of older ones stay that of step ``keep`` and the newest, ``_KEPT`` in all.

    Later checkpoints are removed first: a run that rolled back to ``step`` must not resume from them.
    """
    root.mkdir(parents=True, exist_ok=True)
    for later in _newest_first(root):
        if _step(later) > step:
            shutil.rmtree(later)
    partial = root / f"step-{step:08d}.partial"
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir()
    save_file(detached(model), partial / "model.safetensors")
    save_file(moments, partial / "optimizer.safetensors")
    (partial / "state.json").write_text(json.dumps(state, sort_keys=True), "utf-8")
    (partial / "metrics.jsonl").write_bytes(metrics)
    digests = {path.name: sha256_of_file(path) for path in sorted(partial.iterdir())}
    (partial / "sha256.json").write_text(json.dumps(digests), "utf-8")
    for path in partial.iterdir():
        with path.open("rb") as handle:
            os.fsync(handle.fileno())
    replace_directory(partial, root / f"step-{step:08d}")
    for old in _newest_first(root)[_KEPT:]:
        if _step(old) != keep:
            shutil.rmtree(old)


def latest(root: Path, *, until: int | None = None) -> _Checkpoint | None:
    """The newest intact checkpoint, of a step ``until`` or before, or None. A damaged one is passed over with a warning."""
    for path in _newest_first(root):
        if until is not None and _step(path) > until:
            continue
        damage = _damage(path)
        if damage is None:
            state = json.loads((path / "state.json").read_text("utf-8"))
            return _Checkpoint(path, state, (path / "metrics.jsonl").read_bytes())
        log.warning("checkpoint %s is damaged (%s); falling back to the one before", path.name, damage)
    return None


def _restore_weights(checkpoint: _Checkpoint, model: nn.Module) -> None:
    """Put the weights of a checkpoint into a model, which must be shaped as when it was saved."""
    model.load_state_dict(load_file(checkpoint.path / "model.safetensors"))


def _load_moments(checkpoint: _Checkpoint) -> dict[str, Tensor]:
    """The optimiser's state, as it was given to ``save``."""
    return dict(load_file(checkpoint.path / "optimizer.safetensors"))


def detached(model: nn.Module) -> dict[str, Tensor]:
    """All tensors of a model on the CPU, by name, ready for safetensors."""
    return {name: tensor.detach().cpu().contiguous() for name, tensor in model.state_dict().items()}


def _newest_first(root: Path) -> list[Path]:
    return sorted((path for path in root.glob("step-*") if path.name.removeprefix("step-").isdigit()), reverse=True)


def _step(path: Path) -> int:
    return int(path.name.removeprefix("step-"))


def _damage(path: Path) -> str | None:
    try:
        digests: dict[str, str] = json.loads((path / "sha256.json").read_bytes())
    except (OSError, ValueError):
        return "sha256.json is unreadable"
    expected = {"model.safetensors", "optimizer.safetensors", "state.json", "metrics.jsonl"}
    if not isinstance(digests, dict) or set(digests) != expected:
        return "sha256.json does not list its files"
    for name, digest in digests.items():
        try:
            if sha256_of_file(path / name) != digest:
                return f"{name} has another sha256"
        except OSError as error:
            return f"{name} cannot be read: {error.strerror}"
    return None


def _moments_of(model: nn.Module, optimizer: Optimizer) -> dict[str, Tensor]:
    """All state as ``<parameter>/<field>`` on the CPU; nothing before the first update."""
    return {
        f"{name}/{field}": torch.as_tensor(value).detach().cpu().contiguous()
        for name, parameter in model.named_parameters()
        for field, value in optimizer.state.get(parameter, {}).items()
    }


def _set_moments(model: nn.Module, optimizer: Optimizer, moments: Mapping[str, Tensor]) -> None:
    """Replace all state by what ``_moments_of`` gave."""
    optimizer.state.clear()  # The checkpoint of step 0 holds no moments, and a return to it must keep none.
    parameters = dict(model.named_parameters())
    for key, tensor in moments.items():
        name, _, field = key.rpartition("/")
        parameter = parameters[name]
        # Optimisers keep their step counters on the CPU.
        optimizer.state[parameter][field] = tensor if field == "step" else tensor.to(parameter.device)


_ADAM = ("exp_avg", "exp_avg_sq")
"""The fields of Adam's state that have the shape of the parameter."""


def _gather_moments(model: nn.Module, zero: Any) -> dict[str, Tensor]:
    """``_moments_of`` an AdamW under DeepSpeed's ZeRO 1 or 2; every rank must call it, and receives the same."""
    from deepspeed.utils import safe_get_full_optimizer_state  # noqa: PLC0415 - imported by the engine, as its device demands

    if not any(zero.optimizer.state.values()):
        return {}
    _link(zero)
    (step,) = {float(state["step"]) for state in zero.optimizer.state.values()}
    gathered: dict[str, Tensor] = {}
    for name, parameter in _trained(model).items():
        gathered |= {f"{name}/{field}": safe_get_full_optimizer_state(parameter, field).cpu() for field in _ADAM}
        gathered[f"{name}/step"] = torch.tensor(step)
    return gathered


def _scatter_moments(model: nn.Module, zero: Any, moments: Mapping[str, Tensor]) -> None:
    """``_set_moments`` of such an optimiser, and have its master weights follow the model's, which were set before."""
    from deepspeed.utils import safe_set_full_optimizer_state  # noqa: PLC0415

    zero.refresh_fp32_params()
    zero.optimizer.state.clear()
    if not moments:
        return
    step = next(tensor for key, tensor in moments.items() if key.endswith("/step"))
    for partition in zero.single_partition_of_fp32_groups:
        empty = {field: torch.zeros_like(partition) for field in _ADAM}
        zero.optimizer.state[partition] = {"step": step.clone(), **empty}
    _link(zero)
    for name, parameter in _trained(model).items():
        for moment in _ADAM:
            safe_set_full_optimizer_state(parameter, moments[f"{name}/{moment}"].to(parameter.device), moment)


def _trained(model: nn.Module) -> dict[str, nn.Parameter]:
    return {name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad}


def _link(zero: Any) -> None:
    """Tie parameters to their places in the divided state; DeepSpeed itself does so before all of it exists."""
    from deepspeed.utils import lazy_init_hp_params_optimizer_state  # noqa: PLC0415

    for parameters, partition in zip(zero.bit16_groups, zero.single_partition_of_fp32_groups, strict=True):
        lazy_init_hp_params_optimizer_state(parameters, partition, zero.optimizer.state)


class RunCheckpoints:
    """Weights, moments and loss scale of an engine, and the training state beside them, under ``root``."""

    def __init__(
        self, root: Path, spec: PretrainSpec, config: AnyConfig, *, model: nn.Module, optimizer: Optimizer, engine: Any
    ) -> None:
        self._root, self._divided = root, spec.zero_stage > 0
        self._model, self._optimizer, self._engine = model, optimizer, engine
        self._scaler = getattr(engine, "torch_autocast_z0_gradscaler", None)
        self._identity = {"spec": spec.as_before(), "config": config.as_before()}

    def latest(self, *, until: int | None = None) -> _Checkpoint | None:
        """The newest intact one, of a step ``until`` or before. Raises ValueError where it is another run's."""
        saved = latest(self._root, until=until)
        if saved is not None and saved.state["identity"] != self._identity:
            raise ValueError(f"{saved.path} belongs to another spec; remove {self._root} to start over")
        return saved

    def save(self, state: TrainingState, metrics: MetricsFile | None) -> None:
        """Write the checkpoint of ``state.step``. Every rank must call it; the one that has the metrics writes."""
        moments = _gather_moments(self._model, self._engine.optimizer) if self._divided else None
        if metrics is None:
            return
        save(
            self._root,
            step=state.step,
            model=self._model,
            moments=_moments_of(self._model, self._optimizer) if moments is None else moments,
            state={
                "identity": self._identity,
                "training": asdict(state),
                "scaler": None if self._scaler is None else self._scaler.state_dict(),
            },
            metrics=metrics.content(),
            keep=state.returns_to,
        )

    def restore(self, saved: _Checkpoint) -> TrainingState:
        """Put a checkpoint's tensors back into the engine; returns the training state of its step."""
        _restore_weights(saved, self._model)
        moments = _load_moments(saved)
        if self._divided:
            _scatter_moments(self._model, self._engine.optimizer, moments)
        else:
            _set_moments(self._model, self._optimizer, moments)
        if self._scaler is not None:
            self._scaler.load_state_dict(saved.state["scaler"])
        return TrainingState.of(saved.state["training"])
