"""Convert our models to Hugging Face checkpoints and back: ``config.json`` and ``model.safetensors``, never a pickle."""

from __future__ import annotations

import json
import re
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
    HEADS,
    Albert,
    Array,
    Bert,
    Electra,
    ElectraDiscriminator,
    Family,
    Roberta,
    SpecialIds,
    unsupported,
)
from korealbert.huggingface.modern import ModernBert
from korealbert.model.config import AnyConfig, ModelConfig, ModernConfig

FAMILIES: tuple[Family[Any], ...] = (Albert(), Bert(), Roberta(), Electra(), ModernBert())
"""Families in the order in which they are tried for a model of ours. A checkpoint of theirs is matched by its model type."""

_UNEXPORTED_PREFIXES = ("wop.", "generator.", "sop.", "bow.")
"""Prefixes of our tensors that Hugging Face's formats have no place for. Some formats have one for sentence order."""

_BY_PIECE = ("encoder.embeddings.word.weight", "mlm.bias")
"""Our tensors with one row per piece. They may have padding rows at the end, which are not exported."""

_OUTPUT_MATRICES = ("decoder.weight", "generator_lm_head.weight")
"""Names of the output matrix. It is tied to the word table, but files may repeat it."""

_DECODER_BIAS = "decoder.bias"
"""Second name of the masked-token head's bias; files have either name or both."""

_FIELDS_OF_EXPORT = ("vocab_size", "max_positions", "position_offset", "global_theta")
"""Config fields in which an export may differ from its training: another vocabulary, or the positions of a snapshot."""

_ENCODER_PREFIXES = ("encoder.", "embeddings.", "layers.")
"""Beginnings of the names of encoder tensors, after the family's prefix."""

_POSITION_COUNTERS = ("position_ids", "token_type_ids")
"""Integer tensors of old files that hold no weights."""

_OLD_NAMES = {"LayerNorm.gamma": "LayerNorm.weight", "LayerNorm.beta": "LayerNorm.bias"}
"""Endings of tensor names in files converted from TensorFlow (Google's first BERTs)."""

_MISMATCH = "the two files do not belong together; copy the model again"
_TIED = "a model whose masked-token head shares the word table, or an encoder without that head"

_PICKLE_PATTERNS = ("pytorch_model*.bin", "*.bin", "*.pt", "*.pth", "*.pkl", "*.ckpt")
"""File names of pickled weights, the most frequent first."""

_PICKLE_MAGIC = (b"PK\x03\x04", b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05")
"""First bytes of torch's files, zipped or not."""


def family_of(config: AnyConfig) -> Family[Any]:
    """Return the family of a model. Raises ValueError if no class of ``transformers`` computes the same."""
    if isinstance(config, ModernConfig):
        return ModernBert()
    for family in (ElectraDiscriminator(),) if config.generator_hidden_size else FAMILIES:
        if not isinstance(family, ModernBert) and family.expresses(config):
            return family
    fields = ("activation", "pooler", "position_offset", "embedding_size", "ffn_dropout")
    shape = {name: getattr(config, name) for name in fields}
    fitting = "pooler = true and position_offset = 0"
    if config.generator_hidden_size:
        fitting = "pooler = false, position_offset = 0 and ffn_dropout = true"
    raise ValueError(f"neither ALBERT, BERT, ELECTRA nor RoBERTa of transformers has this shape: {shape}; set {fitting}")


def architecture(config: AnyConfig) -> str:
    """Return the ``model_type`` that a model is exported as, or "" if no class of ``transformers`` computes the same."""
    try:
        return family_of(config).model_type
    except ValueError:
        return ""


def to_huggingface(config: AnyConfig, weights: Mapping[str, Array]) -> dict[str, Array]:
    """Return the tensors of our pretraining model under Hugging Face's names, without word-order head and generator.

    Raises ValueError for a tensor that the family has no name for.
    """
    family = family_of(config)
    pairs = list(family.names(config))
    known = {ours for ours, _ in pairs}
    unknown = sorted(name for name in weights.keys() - known if not name.startswith(_UNEXPORTED_PREFIXES))
    if unknown:
        raise ValueError(
            f"model.safetensors: tensor {unknown[0]!r} has no name in the formats of Hugging Face; export a pretraining"
        )
    pieces = {name: weights[name][: config.vocab_size] for name in _BY_PIECE if name in weights}
    return {theirs: pieces.get(ours, weights[ours]) for ours, theirs in pairs} | family.constants(config)


def encoder_to_huggingface(config: AnyConfig, weights: Mapping[str, Array]) -> dict[str, Array]:
    """Return the tensors of our encoder (``encoder.…``) under the names of the family's class without heads."""
    family = family_of(config)
    found = {theirs: weights[ours] for ours, theirs in family.names(config) if ours.startswith("encoder.")}
    constants = {name: array for name, array in family.constants(config).items() if name.startswith(family.prefix)}
    return {name.removeprefix(family.prefix): array for name, array in (found | constants).items()}


def renumbered(weights: Mapping[str, Array], order: NDArray[np.int64]) -> dict[str, Array]:
    """Return our tensors with their pieces in another order: row i becomes what row ``order[i]`` was."""
    return {name: np.ascontiguousarray(array[order]) if name in _BY_PIECE else array for name, array in weights.items()}


def exported(config: AnyConfig) -> set[str]:
    """Return the names of our tensors that are exported."""
    return {ours for ours, _ in family_of(config).names(config)}


def repeats_blocks(config: AnyConfig) -> bool:
    """Whether the export repeats blocks that our model shares, because the family cannot express this sharing."""
    try:
        return sum(1 for _ in family_of(config).names(config)) > len(exported(config))
    except ValueError:
        return False


def needs_trained_config(config: AnyConfig) -> bool:
    """Whether fine-tuning an export needs the config of its pretraining, because more parameters would be trained without it.

    This holds if the family cannot express how layers share, and for an ALBERT without a projection of its embeddings:
    transformers' ALBERT then has an identity, which training would change. Modern encoders always use our own model.
    """
    if isinstance(config, ModernConfig) or repeats_blocks(config):
        return True
    projects = config.embedding_size != config.hidden_size
    return not projects and not config.generator_hidden_size and Albert().expresses(config)


def settings(config: AnyConfig, special: SpecialIds) -> dict[str, Any]:
    """Return ``config.json`` of the exported model. Raises ValueError as ``family_of`` does."""
    return family_of(config).settings(config, special)


@dataclass(frozen=True)
class Checkpoint:
    """A model read from a directory."""

    model_type: str
    """The type in ``config.json``. An export may have another one that computes the same (a BERT with ALBERT's GELU)."""
    config: AnyConfig
    weights: dict[str, Array]
    """fp32 tensors under our names."""
    missing: tuple[str, ...]
    """Tensors of heads and the pooler that the file lacks; they are initialised afresh."""
    unused: tuple[str, ...]
    """Tensors of the file that a pretraining model does not have, such as a classifier's."""


class SourceStats(Statistics):
    """The model that a cross-lingual post-training starts from."""

    model_type: str
    layers: int
    hidden_size: int | None = None
    vocab_size: int | None = None
    parameters: int | None = None
    fresh_heads: list[str] = Field(default_factory=list)
    """Tensors that the source lacks; they are initialised afresh."""
    special_ids: dict[str, int] = Field(default_factory=dict)


def read(directory: Path) -> Checkpoint:
    """Read a checkpoint of a known family, with all heads, some or none.

    Raises ValueError naming the directory and the problem: no safetensors, an unknown model type, a setting that cannot be
    read, encoder tensors that do not fit ``config.json``, or values that are not finite.
    """
    settings = read_settings(directory)
    family, config = _family_and_config(directory, settings)
    tensors = _load_tensors(directory)
    prefix = family.prefix if any(name.startswith(family.prefix) for name in tensors) else ""
    pairs = {ours: theirs.replace(family.prefix, prefix, 1) for ours, theirs in family.names(config)}
    if pairs["mlm.bias"] not in tensors:
        pairs["mlm.bias"] = next((name for name in tensors if name.endswith(_DECODER_BIAS)), pairs["mlm.bias"])
    missing = tuple(ours for ours, theirs in pairs.items() if theirs not in tensors)
    lost = [name for name in missing if not name.startswith((*HEADS, "encoder.pooler."))]
    if lost:
        raise ValueError(
            f"{directory}/model.safetensors: lacks {len(lost)} tensors of the encoder that config.json describes "
            f"(first {pairs[lost[0]]!r}); {_MISMATCH}"
        )
    weights = {ours: tensors[theirs] for ours, theirs in pairs.items() if theirs in tensors}
    _check_shapes(directory, config, weights, pairs)
    constants = {name.replace(family.prefix, prefix, 1): value for name, value in family.constants(config).items()}
    _check_constants(directory, constants, tensors)
    _check_tied(directory, settings, weights, tensors)
    unused = sorted(
        name
        for name in tensors.keys() - set(pairs.values()) - constants.keys()
        if not name.endswith((*_OUTPUT_MATRICES, _DECODER_BIAS, *_POSITION_COUNTERS))
    )
    of_encoder = [name for name in unused if name.startswith(tuple(prefix + part for part in _ENCODER_PREFIXES))]
    if of_encoder:
        raise ValueError(
            f"{directory}/model.safetensors: has {len(of_encoder)} tensors of the encoder that config.json does not describe "
            f"(first {of_encoder[0]!r}); {_MISMATCH}"
        )
    return Checkpoint(family.model_type, config, weights, missing, tuple(unused))


def _check_constants(directory: Path, constants: Mapping[str, Array], tensors: Mapping[str, Array]) -> None:
    """Raise ValueError if a tensor that a model of this shape does not need has another value than the one it stands for."""
    for name, value in constants.items():
        if name in tensors and not np.array_equal(tensors[name], value):
            raise ValueError(
                f"{directory}/model.safetensors: {name} is not the identity, though embedding_size = hidden_size; "
                "take another model"
            )


def read_as_trained(directory: Path, trained: AnyConfig) -> tuple[AnyConfig, dict[str, Array]]:
    """Return config and weights of an exported encoder whose layers share as in its pretraining, whose config is ``trained``.

    Weights have the names of ``TransformerEncoder`` or ``ModernEncoder``, without heads. Vocabulary and positions are those
    of the directory. Raises ValueError as ``read`` does, and if copies of a shared block differ.
    """
    found = read(directory)
    own: dict[str, Any] = {name: getattr(found.config, name) for name in _FIELDS_OF_EXPORT if hasattr(found.config, name)} | {
        "word_rows": 0
    }
    config = trained.model_copy(update={name: size for name, size in own.items() if name in type(trained).model_fields})
    weights = {name: array for name, array in found.weights.items() if name.startswith("encoder.")}
    if isinstance(config, ModelConfig) and isinstance(found.config, ModelConfig):
        weights = _with_shared_blocks(directory, weights, found.config, config)
    return config, {name.removeprefix("encoder."): array for name, array in weights.items()}


def _with_shared_blocks(
    directory: Path, weights: Mapping[str, Array], written: ModelConfig, config: ModelConfig
) -> dict[str, Array]:
    """Merge the copies of each shared block, under its number in ``config``."""
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
    """Return the shape in a checkpoint's ``config.json``. Raises ValueError as ``read`` does, for this file alone."""
    return _family_and_config(directory, read_settings(directory))[1]


def _family_and_config(directory: Path, settings: Mapping[str, Any]) -> tuple[Family[Any], AnyConfig]:
    family = next((f for f in FAMILIES if f.model_type == settings.get("model_type")), None)
    if family is None:
        known = ", ".join(f.model_type for f in FAMILIES)
        raise ValueError(
            f"{directory}/config.json: model_type = {settings.get('model_type')!r} cannot be read; take a model of {known}"
        )
    try:
        return family, family.config(settings)
    except ValidationError as error:
        raise ValueError(f"{directory}/config.json: {_explain(error, family.fields)}") from error
    except (ValueError, TypeError) as error:
        raise ValueError(f"{directory}/config.json: {error}") from error


def _explain(error: ValidationError, names: Mapping[str, str]) -> str:
    """Describe a validation error with the names that ``config.json`` has for our fields."""
    problems = []
    for problem in error.errors():
        message = problem["msg"].removeprefix("Value error, ")
        if problem["loc"]:
            name = str(problem["loc"][0])
            problems.append(f"{names.get(name, name)} = {problem['input']!r}: {message}")
        else:
            problems.append(re.sub(r"\w+", lambda word: names.get(word[0], word[0]), message))
    return "; ".join(problems)


def _load_tensors(directory: Path) -> dict[str, Array]:
    """Read all tensors of ``model.safetensors``, or of the shards that its index lists, as fp32."""
    tensors: dict[str, Array] = {}
    for path in _weight_files(directory):
        for written, tensor in _loaded(path).items():
            name = next((written.removesuffix(old) + new for old, new in _OLD_NAMES.items() if written.endswith(old)), written)
            if not tensor.is_floating_point() and not name.endswith(_POSITION_COUNTERS):
                raise ValueError(f"{path}: {name} holds {tensor.dtype}, which is no weight; save the model unquantised")
            tensors[name] = tensor.float().numpy()
            if not np.isfinite(tensors[name]).all():
                raise ValueError(f"{path}: {name} holds values that are not finite; the model is broken, take another")
    return tensors


def _loaded(path: Path) -> dict[str, Any]:
    """Read the torch tensors of a file. Raises ValueError if it is missing, damaged or a pickle."""
    from safetensors.torch import load_file  # noqa: PLC0415 (numpy has no bfloat16, and torch takes seconds to load)

    try:
        tensors: dict[str, Any] = load_file(path)
    except FileNotFoundError:
        raise ValueError(f"{path}: missing{_missing_file_hint(path)}") from None
    except SafetensorError as error:
        with path.open("rb") as handle:
            pickled = handle.read(4).startswith(_PICKLE_MAGIC)
        problem = f"damaged ({error}); copy it again"
        if pickled:
            problem = "a pickle under another name, which is never opened; save the model as safetensors"
        raise ValueError(f"{path}: {problem}") from error
    except OSError as error:
        raise ValueError(f"{path}: cannot be read ({error}); copy it again") from error
    return tensors


def _missing_file_hint(path: Path) -> str:
    """Say what to do about a missing weight file."""
    if path.name != "model.safetensors":
        return ", though model.safetensors.index.json lists it; copy the model again"
    found = next((file.name for pattern in _PICKLE_PATTERNS for file in sorted(path.parent.glob(pattern))), None)
    pickled = "" if found is None else f"; {found} is a pickle, which is never opened"
    return f"{pickled}; save the model as safetensors"


def _weight_files(directory: Path) -> list[Path]:
    """Return the weight files of a directory. As in transformers, a single file is preferred to an index of shards."""
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
        raise ValueError(f"{directory}/config.json: {unsupported('tie_word_embeddings', False, _TIED)}")
    words = weights["encoder.embeddings.word.weight"]
    for name in tensors:
        if name.endswith(_OUTPUT_MATRICES) and not np.array_equal(tensors[name], words):
            raise ValueError(f"{directory}/model.safetensors: {name} is not the word table; take {_TIED}")


def _check_shapes(directory: Path, config: AnyConfig, weights: Mapping[str, Array], pairs: Mapping[str, str]) -> None:
    import torch  # noqa: PLC0415 (seconds to load, and needed only to read a checkpoint)

    from korealbert.model.heads import PretrainingModel  # noqa: PLC0415

    with torch.device("meta"):  # It allocates no memory.
        expected = PretrainingModel(config).state_dict()
    for ours, tensor in expected.items():
        if ours in weights and weights[ours].shape != tuple(tensor.shape):
            raise ValueError(
                f"{directory}/model.safetensors: {pairs[ours]} has shape {list(weights[ours].shape)}, but config.json makes it "
                f"{list(tensor.shape)}; {_MISMATCH}"
            )
