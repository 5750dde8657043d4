"""What a run does not begin anew, and what it does not change: initial weights and frozen tensors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from hashlib import sha256
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

_FRESH_HEADS = ("wop.",)
"""Heads that begin afresh where the initial weights lack them: their size is that of this run's sequences."""


def load_initial(model: nn.Module, directory: Path) -> None:
    """Put the tensors of ``directory/model.safetensors`` into the model.

    Raises ValueError naming the file when it is damaged, or tensors are missing, left over or of another shape.
    """
    path = directory / "model.safetensors"
    try:
        given = load_file(path)
    except (FileNotFoundError, SafetensorError) as error:
        raise ValueError(f"{path}: no initial weights that can be read ({error}); build their stage again") from None
    own = model.state_dict()
    given = {name: tensor for name, tensor in given.items() if name in own or not name.startswith(_FRESH_HEADS)}
    for name in sorted(own.keys() ^ given.keys()):
        if name in own and name.startswith(_FRESH_HEADS):
            continue
        raise ValueError(f"{path}: tensor {name!r} is {'missing' if name in own else 'not one of the model'}")
    for name, tensor in given.items():
        if tensor.shape != own[name].shape:
            raise ValueError(f"{path}: {name} has shape {list(tensor.shape)}, the model {list(own[name].shape)}")
    model.load_state_dict(given, strict=False)


def freeze(model: nn.Module, patterns: Sequence[str]) -> dict[str, Tensor]:
    """Take the parameters that any of the patterns matches out of training; returns them by name.

    Raises ValueError as ``frozen_names`` does.
    """
    parameters = dict(model.named_parameters())
    frozen: dict[str, Tensor] = {name: parameters[name] for name in frozen_names(list(parameters), patterns)}
    for parameter in frozen.values():
        parameter.requires_grad_(False)
    return frozen


def frozen_names(names: Sequence[str], patterns: Sequence[str]) -> list[str]:
    """Those of a model's parameters that any of the patterns matches.

    Raises ValueError for a pattern that matches none, and where nothing is left to train.
    """
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in names):
            raise ValueError(f"frozen: no tensor of the model matches {pattern!r}; its tensors: {', '.join(names)}")
    frozen = [name for name in names if any(fnmatchcase(name, pattern) for pattern in patterns)]
    if len(frozen) == len(names):
        raise ValueError(f"frozen = {list(patterns)} leaves nothing to train; freeze less")
    return frozen


def digest_of(tensors: Mapping[str, Tensor]) -> str:
    """sha256 over names, shapes and bytes of some tensors, in order of their names."""
    digest = sha256()
    for name, tensor in sorted(tensors.items()):
        digest.update(f"{name}{list(tensor.shape)}".encode())
        digest.update(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()
