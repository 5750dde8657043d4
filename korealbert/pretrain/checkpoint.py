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
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from korealbert.files import replace_directory, sha256_of_file

KEPT = 2
"""Newest checkpoints that stay: one more than needed, in case the newest is damaged."""

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Checkpoint:
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
    """Write the checkpoint of ``step``; of older ones stay that of step ``keep`` and the newest, ``KEPT`` in all.

    Those of later steps go first: a run that went back to ``step`` must not resume in what it left.
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
    for old in _newest_first(root)[KEPT:]:
        if _step(old) != keep:
            shutil.rmtree(old)


def latest(root: Path, *, until: int | None = None) -> Checkpoint | None:
    """The newest intact checkpoint, of a step ``until`` or before, or None. A damaged one is passed over with a warning."""
    for path in _newest_first(root):
        if until is not None and _step(path) > until:
            continue
        damage = _damage(path)
        if damage is None:
            state = json.loads((path / "state.json").read_text("utf-8"))
            return Checkpoint(path, state, (path / "metrics.jsonl").read_bytes())
        log.warning("checkpoint %s is damaged (%s); falling back to the one before", path.name, damage)
    return None


def restore_weights(checkpoint: Checkpoint, model: nn.Module) -> None:
    """Put the weights of a checkpoint into a model, which must be shaped as when it was saved."""
    model.load_state_dict(load_file(checkpoint.path / "model.safetensors"))


def load_moments(checkpoint: Checkpoint) -> dict[str, Tensor]:
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
