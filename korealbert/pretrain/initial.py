"""The weights that training starts from, and the tensors that it leaves frozen."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from hashlib import sha256
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from korealbert.model.heads import PretrainingModel, ReplacedTokenModel
from korealbert.pretrain.cooccurrence import VECTORS

_MISMATCH = "build the stage of the initial weights again"

_FRESH_HEADS = ("wop.", "bow.")
"""Heads that start from random weights if the given ones lack them or have another shape, as that of word order has for
other sequence lengths."""


def load_initial(model: nn.Module, directory: Path) -> None:
    """Load the tensors of ``directory/model.safetensors`` into the model.

    Raises ValueError naming the file if it is damaged, or if a tensor is missing, unknown or of another shape.
    """
    path = directory / "model.safetensors"
    try:
        given = load_file(path)
    except (FileNotFoundError, SafetensorError) as error:
        raise ValueError(f"{path}: no initial weights that can be read ({error}); build their stage again") from None
    own = model.state_dict()
    given = {
        name: tensor
        for name, tensor in given.items()
        if not name.startswith(_FRESH_HEADS) or (name in own and tensor.shape == own[name].shape)
    }
    for name in sorted(own.keys() ^ given.keys()):
        if name not in own:
            raise ValueError(f"{path}: tensor {name!r} is not one of the model; {_MISMATCH}")
        if not name.startswith(_FRESH_HEADS):
            raise ValueError(f"{path}: tensor {name!r} is missing; {_MISMATCH}")
    for name, tensor in given.items():
        if tensor.shape != own[name].shape:
            raise ValueError(f"{path}: {name} has shape {list(tensor.shape)}, the model {list(own[name].shape)}; {_MISMATCH}")
    model.load_state_dict(given, strict=False)


def set_word_embeddings(model: PretrainingModel | ReplacedTokenModel, directory: Path) -> None:
    """Replace word embeddings by the vectors of stage `cooccurrence`, scaled to the standard deviation of the random ones.

    Pieces without a vector, and dimensions beyond those of the vectors, keep their random values. Raises ValueError naming the
    file if it is damaged or belongs to another vocabulary.
    """
    path = directory / VECTORS
    table_VE = model.encoder.embeddings.word.weight
    try:
        vectors_VE = load_file(path)["vectors"]
    except (FileNotFoundError, SafetensorError, KeyError) as error:
        raise ValueError(f"{path}: no vectors that can be read ({error}); build their stage again") from None
    pieces, width = vectors_VE.shape
    if pieces > table_VE.shape[0] or width > table_VE.shape[1]:
        raise ValueError(
            f"{path}: vectors of shape {[pieces, width]} for a word table of {list(table_VE.shape)}; build them from the "
            "examples that the model is trained on"
        )
    seen_V = vectors_VE.any(dim=1)
    with torch.no_grad():
        table_VE[:pieces, :width][seen_V] = vectors_VE[seen_V] * table_VE.std()


def freeze(model: nn.Module, patterns: Sequence[str]) -> dict[str, Tensor]:
    """Exclude the parameters that match any pattern from training, and return them by name. Raises as ``frozen_names``."""
    parameters = dict(model.named_parameters())
    frozen: dict[str, Tensor] = {name: parameters[name] for name in frozen_names(list(parameters), patterns)}
    for parameter in frozen.values():
        parameter.requires_grad_(False)
    return frozen


def frozen_names(names: Sequence[str], patterns: Sequence[str]) -> list[str]:
    """Return the parameter names that match any pattern.

    Raises ValueError for a pattern that matches none, and if all parameters match.
    """
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in names):
            groups = ", ".join(dict.fromkeys(re.sub(r"\.(\d+\..*|[^.]*)$", ".*", name) for name in names))
            raise ValueError(f"frozen: no tensor of the model matches {pattern!r}; patterns that match some: {groups}")
    frozen = [name for name in names if any(fnmatchcase(name, pattern) for pattern in patterns)]
    if len(frozen) == len(names):
        raise ValueError(f"frozen = {list(patterns)} leaves nothing to train; freeze less")
    return frozen


def digest_of(tensors: Mapping[str, Tensor]) -> str:
    """Return the sha256 of names, shapes and bytes of tensors, sorted by name."""
    digest = sha256()
    for name, tensor in sorted(tensors.items()):
        digest.update(f"{name}{list(tensor.shape)}".encode())
        digest.update(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()
