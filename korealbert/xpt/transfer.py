"""Stage ``xpt_transfer`` (labels ``transfer/VARIANT``): a source encoder → a model of the target vocabulary, before training.

Input: roles ``source`` and ``vocab``. Output: ``model.safetensors`` and ``config.json`` as pretraining reads them, and
``layout.json``: which tensors are copied, fresh, of the encoder, of the translation layers.

Word table and decoder bias are new, as the vocabulary is; where the source's tokenizer is kept (``xpt_tokenizer``), they are
the source's under the ids of the rows, and the model is the source. All else is copied: positions, segment types and the
embeddings' LayerNorm, encoder, pooler, and the heads as far as the source has them. The implicit translation layers (ITL)
become ordinary layers at either end, so the transferred model is a plain encoder of N + 2 layers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field
from safetensors.numpy import save_file

from korealbert.artifact import Inputs, Runtime, Spec, Stage, Statistics
from korealbert.artifact.files import write_json
from korealbert.huggingface import checkpoint
from korealbert.huggingface.families import Array
from korealbert.model.config import AnyConfig, ModelConfig, ModernConfig, even_rows
from korealbert.vocab.tokenizer import SPECIAL, KeptVocabulary, Vocabulary

Freeze = Literal["chameleon", "l21", "none"]
"""Frozen in a phase: the encoder (Chameleon), everything that was copied (Lee et al. 2021), nothing."""

WORD_TABLE = "encoder.embeddings.word.weight"
"""Tied to the decoder of the masked-token head: one tensor."""

DECODER_BIAS = "mlm.bias"

POSITIONS = "encoder.embeddings.position.weight"


def encoder_names(config: AnyConfig, names: Iterable[str]) -> list[str]:
    """The tensors of the source's layers, with the projection of factorised embeddings, which only they read."""
    return [name for name in names if name.startswith(("encoder.projection.", "encoder.layers.")) or _is_inner(config, name)]


def translation_names(config: AnyConfig, names: Iterable[str]) -> list[str]:
    """The tensors of the implicit translation layers."""
    return [name for name in names if _block(name) is not None and not _is_inner(config, name)]


def unreached_names(names: Iterable[str]) -> list[str]:
    """Tensors to which masked words give no gradient: pooler and sentence-order head. Trained, they would only decay."""
    return [name for name in names if name.startswith(("encoder.pooler.", "sop."))]


def _block_after_transfer(config: AnyConfig, name: str) -> str:
    """A source tensor's name in the transferred model of this ``config``: its blocks follow the first edge layers."""
    block = _block(name)
    if block is None or not isinstance(config, ModelConfig):
        return name
    kind, number, rest = block
    return f"encoder.{kind}.{number + config.edge_layers}.{rest}"


def _is_inner(config: AnyConfig, name: str) -> bool:
    block = _block(name)
    if block is None or not isinstance(config, ModelConfig):
        return False
    blocks = config.attention_blocks if block[0] == "attention" else config.ffn_blocks
    return config.edge_layers <= block[1] < blocks - config.edge_layers


def _block(name: str) -> tuple[str, int, str] | None:
    """Kind, number and inner name of a tensor of a layer."""
    part, _, rest = name.removeprefix("encoder.").partition(".")
    number, _, inner = rest.partition(".")
    return (part, int(number), inner) if part in ("attention", "ffn") and number.isdigit() else None


class TransferSpec(Spec):
    """How a source encoder becomes one of another language."""

    itl: bool = True
    """Whether one translation layer is added before the source's first layer and one after its last. A modern encoder takes
    none: its layers are global or local by their number."""
    itl_init: Literal["random", "identity"] = "random"
    """``identity`` zeroes the output matrices of both blocks, so that a translation layer begins as its residual path (up to
    its LayerNorms). The papers draw them like all other matrices."""
    encoder: Literal["source", "random"] = "source"
    """``random``: the layers begin anew instead (Chameleon, table 3); everything else stays the same, with the
    other random weights."""
    seed: int = Field(default=1, ge=0, lt=2**32)
    """Seed of all random weights: word table, translation layers, random encoder, heads that the source lacks."""


@dataclass(frozen=True)
class Transferred:
    """A model that has the target's vocabulary and the source's knowledge."""

    config: AnyConfig
    weights: dict[str, Array]
    copied: list[str]
    """Names of the tensors that are the source's."""


class TransferStats(Statistics):
    """Size of the transferred model and of its parts."""

    layers: int
    vocab_size: int
    vocab_sha256: str
    parameters: int
    parameters_copied: int
    parameters_fresh: int
    """Drawn anew."""
    parameters_encoder: int
    parameters_translation: int


def run(spec: TransferSpec, inputs: Inputs, out_dir: Path, runtime: Runtime) -> TransferStats:
    """Transfer; raises ValueError as ``checkpoint.read`` and ``transfer`` do."""
    vocabulary = Vocabulary.load(inputs["vocab"].path)
    kept = vocabulary.theirs if isinstance(vocabulary, KeptVocabulary) else None
    moved = transfer(checkpoint.read(inputs["source"].path), spec, vocab_size=vocabulary.size, kept=kept)
    config, names = moved.config, list(moved.weights)
    save_file(moved.weights, out_dir / "model.safetensors", metadata={"format": "pt"})
    write_json(out_dir / "config.json", config.as_before(), sort_keys=True)
    layout = {
        "copied": moved.copied,
        "fresh": sorted(set(names) - set(moved.copied)),
        "encoder": encoder_names(config, names),
        "translation": translation_names(config, names),
    }
    write_json(out_dir / "layout.json", layout, sort_keys=True)
    sizes = {f"parameters_{part}": _size(moved.weights, part_names) for part, part_names in layout.items()}
    return TransferStats(
        layers=config.num_layers,
        vocab_size=config.vocab_size,
        vocab_sha256=vocabulary.sha256,
        parameters=_size(moved.weights, names),
        **sizes,
    )


def transfer(
    source: checkpoint.Checkpoint, spec: TransferSpec, *, vocab_size: int, kept: NDArray[np.int64] | None = None
) -> Transferred:
    """The transferred model, not trained yet.

    ``kept`` [V]: the source's id of each piece, where its vocabulary stays: its word table and decoder bias are then copied.

    Without translation layers and with the source's own word table and decoder bias put back (``vocabulary_swap``) its outputs
    are those of the source, bit for bit.
    """
    theirs = source.config
    config = target_config(theirs, spec, vocab_size=vocab_size, kept=kept is not None)
    given = source.weights if kept is None else checkpoint.renumbered(source.weights, kept)
    weights = _drawn(config, spec.seed)
    encoder = set(encoder_names(config, weights)) - {"encoder.projection.weight", "encoder.projection.bias"}
    copied = []
    for source_name, array in given.items():
        name = _block_after_transfer(config, source_name)
        if (kept is None and name in (WORD_TABLE, DECODER_BIAS)) or (spec.encoder == "random" and name in encoder):
            continue
        # Rows before the first position are never read; our first position is right behind our padding id.
        unread = theirs.position_offset - config.position_offset if name == POSITIONS else 0
        weights[name] = np.ascontiguousarray(array[unread:])
        copied.append(name)
    if spec.itl and spec.itl_init == "identity":
        for name in translation_names(config, weights):
            if name.endswith((".output.weight", ".output.bias", ".outer.weight", ".outer.bias")):
                weights[name] = np.zeros_like(weights[name])
    return Transferred(config, weights, sorted(copied))


def target_config(source: AnyConfig, spec: TransferSpec, *, vocab_size: int, kept: bool = False) -> AnyConfig:
    """The shape of the transferred model; ``kept``: with the source's vocabulary, which leaves it as it is.

    Positions that begin behind the padding id (RoBERTa) begin behind ours, and the table keeps exactly the rows that occur.
    Raises ValueError for translation layers of a modern encoder, and of one whose vocabulary stays.
    """
    if kept:
        if spec.itl:
            raise ValueError("itl = true: translation layers are for a new vocabulary; set itl = false in [transfer]")
        if source.vocab_size != vocab_size:
            raise ValueError(
                f"the source has {source.vocab_size:,} word embeddings, the tokenizer was kept for {vocab_size:,}; "
                "keep the tokenizer of this source"
            )
        return source
    if isinstance(source, ModernConfig):
        if spec.itl:
            raise ValueError("itl = true: a modern encoder takes no translation layers; set itl = false in [transfer]")
        words = {"vocab_size": vocab_size, "word_rows": even_rows(vocab_size)}
        return ModernConfig.model_validate({**source.shape().model_dump(), **words})
    edges = 1 if spec.itl else 0
    offset = SPECIAL.pad + 1 if source.position_offset else 0
    return ModelConfig.model_validate(
        {
            **source.model_dump(),
            "vocab_size": vocab_size,
            "num_layers": source.num_layers + 2 * edges,
            "edge_layers": edges,
            "position_offset": offset,
            "max_positions": source.longest_sequence + offset,
            "word_order_classes": 0,
        }
    )


def _drawn(config: AnyConfig, seed: int) -> dict[str, Array]:
    """Fresh weights of a whole model."""
    from korealbert.model.heads import PretrainingModel, initialise  # noqa: PLC0415 (torch takes seconds to load)

    model = PretrainingModel(config)
    initialise(model, config.initializer_range, seed)
    return {name: tensor.numpy() for name, tensor in model.state_dict().items()}


def _size(weights: Mapping[str, Array], names: list[str]) -> int:
    return sum(weights[name].size for name in names)


STAGE = Stage("xpt_transfer", version=1, spec=TransferSpec, run=run, needs=("torch",))
