"""Stage ``xpt_transfer`` (labels ``transfer/VARIANT``): a source encoder → a model of the target vocabulary, before training.

Input: roles ``source`` and ``vocab``. Output: ``model.safetensors`` and ``config.json`` as pretraining reads them, and
``layout.json``: the names of the tensors that are copied, fresh, of the encoder, of the translation layers.

Word table and decoder bias are new, since the vocabulary is; if the source's tokenizer is kept (``xpt_tokenizer``), they are
the source's, in another order of ids. Everything else is copied: positions, segment types and LayerNorm of the embeddings,
encoder, pooler, and the heads that the source has. The implicit translation layers (ITL) are ordinary layers at either end, so
the transferred model is a plain encoder with N + 2 layers.
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
"""What a phase freezes: the encoder (Chameleon), everything copied (Lee et al. 2021), nothing."""

WORD_TABLE = "encoder.embeddings.word.weight"
"""Also the decoder matrix of the masked-token head."""

DECODER_BIAS = "mlm.bias"

POSITIONS = "encoder.embeddings.position.weight"


def encoder_names(config: AnyConfig, names: Iterable[str]) -> list[str]:
    """Return the tensors of the source's layers, and of the projection of factorised embeddings, which only they use."""
    return [name for name in names if name.startswith(("encoder.projection.", "encoder.layers.")) or _is_inner(config, name)]


def translation_names(config: AnyConfig, names: Iterable[str]) -> list[str]:
    """Return the tensors of the implicit translation layers."""
    return [name for name in names if _block(name) is not None and not _is_inner(config, name)]


def unreached_names(names: Iterable[str]) -> list[str]:
    """Return the tensors without a gradient from masked words, pooler and sentence-order head, which would only decay."""
    return [name for name in names if name.startswith(("encoder.pooler.", "sop."))]


def _block_after_transfer(config: AnyConfig, name: str) -> str:
    """Return the name of a source tensor in the transferred model, where blocks are shifted by the first edge layers."""
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
    """Split the name of a layer's tensor into kind, number and inner name."""
    part, _, rest = name.removeprefix("encoder.").partition(".")
    number, _, inner = rest.partition(".")
    return (part, int(number), inner) if part in ("attention", "ffn") and number.isdigit() else None


class TransferSpec(Spec):
    """How a source encoder becomes one of another language."""

    itl: bool = True
    """Add a translation layer before the source's first layer and one after its last. Modern encoders cannot have any, because
    their layers are global or local by number."""
    itl_init: Literal["random", "identity"] = "random"
    """``identity`` sets the output matrices of both blocks to 0, so that a translation layer starts as its residual path (up to
    its LayerNorms). The papers initialise them like all other matrices."""
    encoder: Literal["source", "random"] = "source"
    """``random``: start with random layers instead (Chameleon, table 3); all other weights stay the same."""
    seed: int = Field(default=1, ge=0, lt=2**32)
    """Seed of all random weights: word table, translation layers, random encoder, heads that the source lacks."""


@dataclass(frozen=True)
class Transferred:
    """A source model with another vocabulary, before training."""

    config: AnyConfig
    weights: dict[str, Array]
    copied: list[str]
    """Names of the tensors that were copied from the source."""


class TransferStats(Statistics):
    """Size of the transferred model and of its parts."""

    layers: int
    vocab_size: int
    vocab_sha256: str
    parameters: int
    parameters_copied: int
    parameters_fresh: int
    """Random ones."""
    parameters_encoder: int
    parameters_translation: int


def run(spec: TransferSpec, inputs: Inputs, out_dir: Path, runtime: Runtime) -> TransferStats:
    """Transfer the source. Raises ValueError as ``checkpoint.read`` and ``transfer``."""
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
    """Return the transferred model, before training.

    ``kept`` [V] has the source's id of each piece if its vocabulary is kept; then word table and decoder bias are copied.
    Without translation layers, and with the source's vocabulary put back (``vocabulary_swap``), the model gives the source's
    outputs, bit for bit.
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
        # Rows before the first position are never read. Our first position follows our padding id.
        unread = theirs.position_offset - config.position_offset if name == POSITIONS else 0
        weights[name] = np.ascontiguousarray(array[unread:])
        copied.append(name)
    if spec.itl and spec.itl_init == "identity":
        for name in translation_names(config, weights):
            if name.endswith((".output.weight", ".output.bias", ".outer.weight", ".outer.bias")):
                weights[name] = np.zeros_like(weights[name])
    return Transferred(config, weights, sorted(copied))


def target_config(source: AnyConfig, spec: TransferSpec, *, vocab_size: int, kept: bool = False) -> AnyConfig:
    """Return the shape of the transferred model, which is the source's if its vocabulary is ``kept``.

    Positions that start after the padding id (RoBERTa) start after ours, and the table keeps only rows that occur. Raises
    ValueError for translation layers of a modern encoder, or with a kept vocabulary.
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
    """Return random weights of a whole model."""
    from korealbert.model.heads import PretrainingModel, initialise  # noqa: PLC0415 (torch takes seconds to load)

    model = PretrainingModel(config)
    initialise(model, config.initializer_range, seed)
    return {name: tensor.numpy() for name, tensor in model.state_dict().items()}


def _size(weights: Mapping[str, Array], names: list[str]) -> int:
    return sum(weights[name].size for name in names)


STAGE = Stage("xpt_transfer", version=1, spec=TransferSpec, run=run, needs=("torch",))
