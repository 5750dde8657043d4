"""A model of ours as a Hugging Face checkpoint and back: ``config.json`` and ``model.safetensors``, never a pickle."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, ValidationError
from safetensors import SafetensorError

from korealbert.artifact import Statistics
from korealbert.huggingface.directory import read_settings
from korealbert.huggingface.families import (
    COMMON_SETTINGS,
    HEADS,
    Albert,
    Array,
    Bert,
    Electra,
    ElectraDiscriminator,
    Family,
    Roberta,
    SpecialIds,
)
from korealbert.huggingface.modern import ModernBert
from korealbert.model.config import AnyConfig, ModelConfig, ModernConfig

FAMILIES: tuple[Family[Any], ...] = (Albert(), Bert(), Roberta(), Electra(), ModernBert())
"""In the order in which they are tried for a model of ours, and by their model type for one of theirs."""


_LEFT_OUT = ("wop.", "generator.", "sop.", "bow.")
"""Prefixes of our tensors that the formats have no place for (of sentence order: some formats), and no user a use."""

_BY_PIECE = ("encoder.embeddings.word.weight", "mlm.bias")
"""Our tensors with a row for each piece, and maybe some more, which are not written out."""

_DECODERS = ("decoder.weight", "generator_lm_head.weight")
"""Names of the output matrix, which is the word table; files may repeat it."""

_DECODER_BIAS = "decoder.bias"
"""Name of its bias, beside the head's own name for it; a file has either or both."""

_OWN = ("vocab_size", "max_positions", "position_offset", "global_theta")
"""Fields of a shape that an exported directory decides, and not the training: its vocabulary and positions, and those of a
snapshot."""

_ENCODERS = ("encoder.", "embeddings.", "layers.")
"""How the names of an encoder's tensors begin behind a family's prefix."""

_COUNTERS = ("position_ids", "token_type_ids")
"""Tensors of old files that only count."""

_OLD_NAMES = {"LayerNorm.gamma": "LayerNorm.weight", "LayerNorm.beta": "LayerNorm.bias"}
"""How files converted from TensorFlow (Google's first BERTs) end the names of some tensors."""

_PICKLES = ("pytorch_model*.bin", "*.bin", "*.pt", "*.pth", "*.pkl", "*.ckpt")
"""File names of pickled weights, whole or in shards, the most frequent first."""

_PICKLED = (b"PK\x03\x04", b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05")
"""How torch's files begin, zipped or not."""


def family_of(config: AnyConfig) -> Family[Any]:
    """The family that a model belongs to. Raises ValueError when no class of ``transformers`` computes what it does."""
    if isinstance(config, ModernConfig):
        return ModernBert()
    for family in (ElectraDiscriminator(),) if config.generator_hidden_size else FAMILIES:
        if not isinstance(family, ModernBert) and family.expresses(config):
            return family
    fields = ("activation", "pooler", "position_offset", "embedding_size", "ffn_dropout")
    shape = {name: getattr(config, name) for name in fields}
    raise ValueError(f"neither ALBERT, BERT, ELECTRA nor RoBERTa of transformers has this shape: {shape}")


def architecture(config: AnyConfig) -> str:
    """The ``model_type`` that a model is exported as; empty where no class of ``transformers`` computes what it does."""
    try:
        return family_of(config).model_type
    except ValueError:
        return ""


def to_huggingface(config: AnyConfig, weights: Mapping[str, Array]) -> dict[str, Array]:
    """Tensors of the family's ``architecture`` from those of our pretraining model; word-order head and generator are left out.

    Raises ValueError for a tensor that has no place there.
    """
    family = family_of(config)
    pairs = list(family.names(config))
    known = {ours for ours, _ in pairs}
    unknown = sorted(name for name in weights.keys() - known if not name.startswith(_LEFT_OUT))
    if unknown:
        raise ValueError(f"model.safetensors: tensor {unknown[0]!r} has no name in the formats of Hugging Face")
    pieces = {name: weights[name][: config.vocab_size] for name in _BY_PIECE if name in weights}
    return {theirs: pieces.get(ours, weights[ours]) for ours, theirs in pairs} | family.constants(config)


def encoder_to_huggingface(config: AnyConfig, weights: Mapping[str, Array]) -> dict[str, Array]:
    """Tensors of the family's encoder alone, under the names of its class without heads, from ours (``encoder.…``)."""
    family = family_of(config)
    found = {theirs: weights[ours] for ours, theirs in family.names(config) if ours.startswith("encoder.")}
    constants = {name: array for name, array in family.constants(config).items() if name.startswith(family.prefix)}
    return {name.removeprefix(family.prefix): array for name, array in (found | constants).items()}


def renumbered(weights: Mapping[str, Array], order: NDArray[np.int64]) -> dict[str, Array]:
    """Our tensors with their rows for pieces in another order: row i is what row ``order[i]`` was."""
    return {name: np.ascontiguousarray(array[order]) if name in _BY_PIECE else array for name, array in weights.items()}


def exported(config: AnyConfig) -> set[str]:
    """Names of our tensors that are written out."""
    return {ours for ours, _ in family_of(config).names(config)}


def repeats_blocks(config: AnyConfig) -> bool:
    """Whether blocks that our model shares are written several times, since the family cannot say that they are one.

    Of shapes without a family there is no export.
    """
    try:
        return sum(1 for _ in family_of(config).names(config)) > len(exported(config))
    except ValueError:
        return False


def says_less(config: AnyConfig) -> bool:
    """Whether fine-tuning needs more than an export says, and would train more parameters from it alone.

    That is so where layers share what the family cannot say that they do, and where an ALBERT has no projection of its
    embeddings: theirs is then an identity, which training would not leave alone. Modern encoders are fine-tuned by our own in
    any case.
    """
    if isinstance(config, ModernConfig) or repeats_blocks(config):
        return True
    projects = config.embedding_size != config.hidden_size
    return not projects and not config.generator_hidden_size and Albert().expresses(config)


def settings(config: AnyConfig, special: SpecialIds) -> dict[str, Any]:
    """``config.json`` of the exported model. Raises ValueError as ``family_of``."""
    return family_of(config).settings(config, special)


@dataclass(frozen=True)
class Checkpoint:
    """A model read from a directory."""

    model_type: str
    """As its ``config.json`` says; written again it may be another that computes the same (a BERT with ALBERT's GELU)."""
    config: AnyConfig
    weights: dict[str, Array]
    """Under our names, fp32."""
    missing: tuple[str, ...]
    """Tensors of heads (and the pooler) that the file has not: they start afresh."""
    unused: tuple[str, ...]
    """Tensors of the file that a pretraining model has no place for, such as a classifier's."""


class SourceStats(Statistics):
    """A model that a cross-lingual post-training starts from."""

    model_type: str
    layers: int
    hidden_size: int | None = None
    vocab_size: int | None = None
    parameters: int | None = None
    fresh_heads: list[str] = Field(default_factory=list)
    """Tensors that it lacks and that are initialised afresh."""
    special_ids: dict[str, int] = Field(default_factory=dict)


def read(directory: Path) -> Checkpoint:
    """Read a checkpoint of ALBERT, BERT, ELECTRA or RoBERTa, with all heads, some or none.

    Raises ValueError naming the directory and what is wrong: no safetensors, an unknown model type, a setting that cannot be
    read, tensors of the encoder that are missing, too many or of another shape than ``config.json`` says, values that are no
    numbers.
    """
    settings = read_settings(directory)
    family, config = _described(directory, settings)
    tensors = _tensors(directory)
    prefix = family.prefix if any(name.startswith(family.prefix) for name in tensors) else ""
    pairs = {ours: theirs.replace(family.prefix, prefix, 1) for ours, theirs in family.names(config)}
    if pairs["mlm.bias"] not in tensors:
        pairs["mlm.bias"] = next((name for name in tensors if name.endswith(_DECODER_BIAS)), pairs["mlm.bias"])
    missing = tuple(ours for ours, theirs in pairs.items() if theirs not in tensors)
    lost = [name for name in missing if not name.startswith((*HEADS, "encoder.pooler."))]
    if lost:
        raise ValueError(
            f"{directory}/model.safetensors: lacks {len(lost)} tensors of the encoder that config.json describes "
            f"(first {pairs[lost[0]]!r}); the two files do not belong together"
        )
    weights = {ours: tensors[theirs] for ours, theirs in pairs.items() if theirs in tensors}
    _check_shapes(directory, config, weights, pairs)
    constants = {name.replace(family.prefix, prefix, 1): value for name, value in family.constants(config).items()}
    for name, value in constants.items():
        if name in tensors and not np.array_equal(tensors[name], value):
            raise ValueError(
                f"{directory}/model.safetensors: {name} is not the identity, though embedding_size = hidden_size; "
                "such a model cannot be read"
            )
    _check_tied(directory, settings, weights, tensors)
    unused = tensors.keys() - set(pairs.values()) - constants.keys() - _repeated(tensors)
    if more := sorted(name for name in unused if name.startswith(tuple(prefix + part for part in _ENCODERS))):
        raise ValueError(
            f"{directory}/model.safetensors: has {len(more)} tensors of the encoder that config.json does not describe "
            f"(first {more[0]!r}); the two files do not belong together"
        )
    return Checkpoint(family.model_type, config, weights, missing, tuple(sorted(unused)))


def read_as_trained(directory: Path, trained: AnyConfig) -> tuple[AnyConfig, dict[str, Array]]:
    """Shape and weights of an exported encoder, its layers sharing as in the pretraining whose config is ``trained``.

    Weights have the names of ``TransformerEncoder`` or ``ModernEncoder``; heads are left out. The vocabulary and the rows of
    positions are the directory's own. Raises ValueError as ``read``, and where copies of a shared block differ.
    """
    found = read(directory)
    own: dict[str, Any] = {name: getattr(found.config, name) for name in _OWN if hasattr(found.config, name)} | {"word_rows": 0}
    config = trained.model_copy(update={name: size for name, size in own.items() if name in type(trained).model_fields})
    weights = {name: array for name, array in found.weights.items() if name.startswith("encoder.")}
    if isinstance(config, ModelConfig) and isinstance(found.config, ModelConfig):
        weights = _joined(directory, weights, found.config, config)
    return config, {name.removeprefix("encoder."): array for name, array in weights.items()}


def _joined(directory: Path, weights: Mapping[str, Array], written: ModelConfig, config: ModelConfig) -> dict[str, Array]:
    """Each shared block once, under its number in ``config``."""
    joined = {name: array for name, array in weights.items() if not name.startswith(("encoder.attention.", "encoder.ffn."))}
    for layer in range(config.num_layers):
        for kind, copy, block in zip(("attention", "ffn"), written.blocks_of(layer), config.blocks_of(layer), strict=True):
            prefix = f"encoder.{kind}.{copy}."
            for name in [name for name in weights if name.startswith(prefix)]:
                shared = joined.setdefault(f"encoder.{kind}.{block}.{name.removeprefix(prefix)}", weights[name])
                if not np.array_equal(shared, weights[name]):
                    raise ValueError(
                        f"{directory}/model.safetensors: {name} of layer {layer} is not the block that it shares; the weights "
                        "were changed since the export, export them again"
                    )
    return joined


def read_config(directory: Path) -> AnyConfig:
    """The shape of a checkpoint as its ``config.json`` says it. Raises ValueError as ``read`` does, but of that file only."""
    return _described(directory, read_settings(directory))[1]


def _described(directory: Path, settings: Mapping[str, Any]) -> tuple[Family[Any], AnyConfig]:
    family = next((f for f in FAMILIES if f.model_type == settings.get("model_type")), None)
    if family is None:
        known = ", ".join(f.model_type for f in FAMILIES)
        raise ValueError(
            f"{directory}/config.json: model_type = {settings.get('model_type')!r} cannot be read; known are {known}"
        )
    try:
        return family, family.config(settings)
    except ValidationError as error:
        raise ValueError(f"{directory}/config.json: {_explained(error)}") from error
    except (ValueError, TypeError) as error:
        raise ValueError(f"{directory}/config.json: {error}") from error


def _explained(error: ValidationError) -> str:
    """What is wrong with settings, under the names that ``config.json`` has for them."""
    problems = []
    for problem in error.errors():
        message = problem["msg"].removeprefix("Value error, ")
        name = COMMON_SETTINGS.get(str(problem["loc"][0]), str(problem["loc"][0])) if problem["loc"] else ""
        problems.append(f"{name} = {problem['input']!r}: {message}" if name else message)
    return "; ".join(problems)


def _tensors(directory: Path) -> dict[str, Array]:
    """All tensors of ``model.safetensors``, or of the shards that its index lists, in fp32."""
    from safetensors.torch import load_file  # noqa: PLC0415 (numpy has no bfloat16, and torch takes seconds to load)

    tensors: dict[str, Array] = {}
    for path in _files(directory):
        try:
            loaded = load_file(path)
        except FileNotFoundError:
            raise ValueError(f"{path}: missing{_instead(path)}") from None
        except SafetensorError as error:
            if _is_pickle(path):
                problem = "a pickle under another name, which is never opened; save the model as safetensors"
                raise ValueError(f"{path}: {problem}") from error
            raise ValueError(f"{path}: damaged ({error}); copy it again") from error
        except OSError as error:
            raise ValueError(f"{path}: cannot be read ({error}); copy it again") from error
        for written, tensor in loaded.items():
            name = next((written.removesuffix(old) + new for old, new in _OLD_NAMES.items() if written.endswith(old)), written)
            if not tensor.is_floating_point() and not name.endswith(_COUNTERS):
                raise ValueError(f"{path}: {name} holds {tensor.dtype}, which is no weight; save the model unquantised")
            tensors[name] = tensor.float().numpy()
            if not np.isfinite(tensors[name]).all():
                raise ValueError(f"{path}: {name} holds values that are not finite; the model is broken, take another")
    return tensors


def _is_pickle(path: Path) -> bool:
    with path.open("rb") as handle:
        return handle.read(4).startswith(_PICKLED)


def _instead(path: Path) -> str:
    """What stands beside a weight file that is missing, and what to do about it."""
    if path.name != "model.safetensors":
        return ", though model.safetensors.index.json lists it; copy the model again"
    found = next((file.name for pattern in _PICKLES for file in sorted(path.parent.glob(pattern))), None)
    pickled = "" if found is None else f"; {found} is a pickle, which is never opened"
    return f"{pickled}; save the model as safetensors"


def _files(directory: Path) -> list[Path]:
    """The weight files of a directory, all directly in it: one file before an index of several, as transformers loads them."""
    whole, index = directory / "model.safetensors", directory / "model.safetensors.index.json"
    if whole.exists() or not index.exists():
        return [whole]
    try:
        names = sorted(set(json.loads(index.read_text("utf-8"))["weight_map"].values()))
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise ValueError(f"{index}: no weight_map of tensors to files ({error!r}); copy it again") from error
    for name in names:
        if not isinstance(name, str) or Path(name).name != name or not name.endswith(".safetensors"):
            raise ValueError(f"{index}: {name!r} is not the name of a safetensors file beside it; copy the model again")
    return [directory / name for name in names]


def _check_tied(
    directory: Path, settings: Mapping[str, Any], weights: Mapping[str, Array], tensors: Mapping[str, Array]
) -> None:
    if not settings.get("tie_word_embeddings", True) and "mlm.dense.weight" in weights:
        raise ValueError(
            f"{directory}/config.json: tie_word_embeddings = false: only models whose masked-token head shares the word table "
            "can be read, and encoders without that head"
        )
    words = weights["encoder.embeddings.word.weight"]
    for name in tensors:
        if name.endswith(_DECODERS) and not np.array_equal(tensors[name], words):
            raise ValueError(
                f"{directory}/model.safetensors: {name} is not the word table; only models whose masked-token head shares it "
                "can be read"
            )


def _check_shapes(directory: Path, config: AnyConfig, weights: Mapping[str, Array], pairs: Mapping[str, str]) -> None:
    for ours, shape in _expected_shapes(config).items():
        if ours in weights and weights[ours].shape != shape:
            raise ValueError(
                f"{directory}/model.safetensors: {pairs[ours]} has shape {list(weights[ours].shape)}, but config.json makes it "
                f"{list(shape)}; the two files do not belong together"
            )


def _expected_shapes(config: AnyConfig) -> dict[str, tuple[int, ...]]:
    """The shape of every tensor of our pretraining model, without allocating one."""
    import torch  # noqa: PLC0415 (seconds to load, and needed only where a checkpoint is read)

    from korealbert.model.heads import PretrainingModel  # noqa: PLC0415

    with torch.device("meta"):
        return {name: tuple(tensor.shape) for name, tensor in PretrainingModel(config).state_dict().items()}


def _repeated(tensors: Mapping[str, Array]) -> set[str]:
    """Tensors that files repeat or can do without: the tied output matrix, and counters of positions."""
    return {name for name in tensors if name.endswith((*_DECODERS, _DECODER_BIAS, *_COUNTERS))}
