"""Checkpoints: written whole or not at all, verified before use, and loaded without executing any code.

``step-00001000/`` holds ``model.safetensors``, ``optimizer.safetensors``, ``state.json``, ``metrics.jsonl`` and, written last,
``sha256.json`` with the digests of the others. The directory is renamed into place, and the two newest are kept. No random
state is stored: the order of rows is a function of the step, and each micro-batch has its own dropout seed.
"""

from __future__ import annotations

import json
import logging
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Self

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.optim import Optimizer

from korealbert.artifact.files import replace_directory, sha256_of_file, sync_file
from korealbert.model.config import AnyConfig
from korealbert.pretrain.guard import GuardState, Recent
from korealbert.pretrain.metrics import Metrics, MetricsFile, TaskTotals
from korealbert.pretrain.spec import PretrainSpec

_KEPT = 2
"""Checkpoints that are kept: one more than needed, in case the newest is damaged."""

_FILES = {"model.safetensors", "optimizer.safetensors", "state.json", "metrics.jsonl"}

log = logging.getLogger(__name__)


@dataclass
class TrainingState:
    """The state of the training loop that is stored besides tensors."""

    step: int = 0
    """Finished steps."""
    updates: int = 0
    """Finished updates: the steps without those that fp16 overflow skipped. The learning rate follows it."""
    position: int = 0
    """Position in the training order where the next batch begins."""
    long_position: int = 0
    """The same for long sequences."""
    sequences: int = 0
    """Sequences trained on, without those that were skipped after a collapse."""
    slots: int = 0
    """Positions of these sequences, padding included."""
    returns_to: int = 0
    """Step of the checkpoint that a collapse returns to: the newest one that was due after a good step. Checkpoints saved
    because a stop was requested do not count."""
    returns_to_scored: int = 0
    """The same if held-out scores show the collapse: the newest one that is not younger than the last good scores."""
    rate_factor: float = 1.0
    """Factor on the learning rate, lowered by each collapse."""
    tokens: int = 0
    """Tokens trained on, special ones included, padding not."""
    seconds: float = 0.0
    """Time that the steps have taken, if the run has a time budget."""
    window: TaskTotals = field(default_factory=TaskTotals)
    """Sums since the last log line."""
    heldout: Metrics = field(default_factory=dict)
    """The newest held-out scores."""
    heldout_long: Metrics = field(default_factory=dict)
    """The same on long rows."""
    guard: GuardState = field(default_factory=GuardState)

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Self:
        """Return the state from which ``asdict`` made these values."""
        guard = {**values["guard"], **{name: Recent(**values["guard"][name]) for name in ("loss", "gradient")}}
        return cls(**{**values, "window": TaskTotals(**values["window"]), "guard": GuardState(**guard)})


@dataclass(frozen=True)
class Checkpoint:
    """A verified checkpoint, without its tensors."""

    path: Path
    training: TrainingState
    scaler: dict[str, Any] | None
    """State of the fp16 loss scaler."""
    metrics: bytes
    """Content of ``metrics.jsonl`` at that step."""


class Checkpoints:
    """The checkpoints of one run under ``root``: weights, moments and loss scale of an engine, and the training state."""

    def __init__(
        self, root: Path, spec: PretrainSpec, config: AnyConfig, *, model: nn.Module, optimizer: Optimizer, engine: Any
    ) -> None:
        self._root, self._sharded = root, spec.zero_stage > 0
        self._model, self._optimizer, self._engine = model, optimizer, engine
        self._scaler = getattr(engine, "torch_autocast_z0_gradscaler", None)
        self._identity = {"spec": spec.as_before(), "config": config.as_before()}

    def save(self, state: TrainingState, metrics: MetricsFile | None) -> None:
        """Write the checkpoint of ``state.step``. Every rank must call it; the one that has the metrics file writes.

        Later checkpoints are removed first, since a run that rolled back must not resume from them. Of the earlier ones, the
        newest and those that ``state`` may return to are kept.
        """
        sharded = _gather_moments(self._model, self._engine.optimizer) if self._sharded else None
        if metrics is None:
            return
        for later in self._newest_first():
            if _step(later) > state.step:
                shutil.rmtree(later)
        path = self._root / f"step-{state.step:08d}"
        partial = path.with_suffix(".partial")
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        save_file(detached(self._model), partial / "model.safetensors")
        save_file(_moments_of(self._model, self._optimizer) if sharded is None else sharded, partial / "optimizer.safetensors")
        scaler = None if self._scaler is None else self._scaler.state_dict()
        content = {"identity": self._identity, "training": asdict(state), "scaler": scaler}
        (partial / "state.json").write_text(json.dumps(content, sort_keys=True), "utf-8")
        (partial / "metrics.jsonl").write_bytes(metrics.content())
        digests = {name: sha256_of_file(partial / name) for name in sorted(_FILES)}
        (partial / "sha256.json").write_text(json.dumps(digests), "utf-8")
        for file in partial.iterdir():
            sync_file(file)
        replace_directory(partial, path)
        for old in self._newest_first()[_KEPT:]:
            if _step(old) not in (state.returns_to, state.returns_to_scored):
                shutil.rmtree(old)

    def latest(self, *, until: int | None = None) -> Checkpoint | None:
        """Return the newest intact checkpoint, of step ``until`` at most; damaged ones are skipped with a warning.

        Raises ValueError if it belongs to another run.
        """
        for path in self._newest_first():
            if until is not None and _step(path) > until:
                continue
            if damage := _damage(path):
                log.warning("checkpoint %s is damaged (%s); falling back to the one before", path.name, damage)
                continue
            state = json.loads((path / "state.json").read_text("utf-8"))
            if state["identity"] != self._identity:
                raise ValueError(f"{path} belongs to another spec; remove {self._root} to start over")
            metrics = (path / "metrics.jsonl").read_bytes()
            return Checkpoint(path, TrainingState.of(state["training"]), state["scaler"], metrics)
        return None

    def restore(self, saved: Checkpoint) -> TrainingState:
        """Load a checkpoint's tensors into the engine and return its training state."""
        self._model.load_state_dict(load_file(saved.path / "model.safetensors"))
        moments = load_file(saved.path / "optimizer.safetensors")
        if self._sharded:
            _scatter_moments(self._model, self._engine.optimizer, moments)
        else:
            _set_moments(self._model, self._optimizer, moments)
        if self._scaler is not None:
            self._scaler.load_state_dict(saved.scaler)
        return saved.training

    def _newest_first(self) -> list[Path]:
        paths = (path for path in self._root.glob("step-*") if path.name.removeprefix("step-").isdigit())
        return sorted(paths, key=_step, reverse=True)


def _step(path: Path) -> int:
    return int(path.name.removeprefix("step-"))


def _damage(path: Path) -> str | None:
    """Return what is wrong with a checkpoint, or None."""
    try:
        digests: dict[str, str] = json.loads((path / "sha256.json").read_bytes())
    except (OSError, ValueError):
        return "sha256.json is unreadable"
    if not isinstance(digests, dict) or set(digests) != _FILES:
        return "sha256.json does not list its files"
    for name, digest in digests.items():
        try:
            if sha256_of_file(path / name) != digest:
                return f"{name} has another sha256"
        except OSError as error:
            return f"{name} cannot be read: {error.strerror}"
    return None


def detached(model: nn.Module) -> dict[str, Tensor]:
    """Return all tensors of a model by name, on the CPU, ready for safetensors."""
    return {name: tensor.detach().cpu().contiguous() for name, tensor in model.state_dict().items()}


def _moments_of(model: nn.Module, optimizer: Optimizer) -> dict[str, Tensor]:
    """Return the optimiser's state as ``<parameter>/<field>``, on the CPU; it is empty before the first update."""
    return {
        f"{name}/{field}": torch.as_tensor(value).detach().cpu().contiguous()
        for name, parameter in model.named_parameters()
        for field, value in optimizer.state.get(parameter, {}).items()
    }


def _set_moments(model: nn.Module, optimizer: Optimizer, moments: Mapping[str, Tensor]) -> None:
    """Replace the optimiser's state by what ``_moments_of`` returned."""
    optimizer.state.clear()  # The checkpoint of step 0 has no moments, and none must survive a return to it.
    parameters = dict(model.named_parameters())
    fused = _fused(optimizer)
    for key, tensor in moments.items():
        name, _, field = key.rpartition("/")
        parameter = parameters[name]
        on_cpu = field == "step" and parameter not in fused
        optimizer.state[parameter][field] = tensor if on_cpu else tensor.to(parameter.device)


def _fused(optimizer: Optimizer) -> set[Tensor]:
    """Return the tensors that fused kernels update: these read the step counter on the tensor's device, others on the CPU."""
    return {tensor for group in optimizer.param_groups if group.get("fused") for tensor in group["params"]}


_ADAM = ("exp_avg", "exp_avg_sq")
"""The fields of Adam's state that have the shape of their parameter."""


def _gather_moments(model: nn.Module, zero: Any) -> dict[str, Tensor]:
    """Return ``_moments_of`` an AdamW under DeepSpeed's ZeRO 1 or 2. Every rank must call it and gets the same."""
    from deepspeed.utils import safe_get_full_optimizer_state  # noqa: PLC0415 - imported first by the engine, for its device

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
    """Do ``_set_moments`` for such an optimiser, whose fp32 master weights also take over the model's weights."""
    from deepspeed.utils import safe_set_full_optimizer_state  # noqa: PLC0415

    zero.refresh_fp32_params()
    zero.optimizer.state.clear()
    if not moments:
        return
    step = next(tensor for key, tensor in moments.items() if key.endswith("/step"))
    fused = _fused(zero.optimizer)
    for partition in zero.single_partition_of_fp32_groups:
        empty = {field: torch.zeros_like(partition) for field in _ADAM}
        counter = step.to(partition.device if partition in fused else "cpu", copy=True)
        zero.optimizer.state[partition] = {"step": counter, **empty}
    _link(zero)
    for name, parameter in _trained(model).items():
        for moment in _ADAM:
            safe_set_full_optimizer_state(parameter, moments[f"{name}/{moment}"].to(parameter.device), moment)


def _trained(model: nn.Module) -> dict[str, nn.Parameter]:
    return {name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad}


def _link(zero: Any) -> None:
    """Link parameters to their parts of the sharded state; DeepSpeed itself does this before all of it exists."""
    from deepspeed.utils import lazy_init_hp_params_optimizer_state  # noqa: PLC0415

    for parameters, partition in zip(zero.bit16_groups, zero.single_partition_of_fp32_groups, strict=True):
        lazy_init_hp_params_optimizer_state(parameters, partition, zero.optimizer.state)
