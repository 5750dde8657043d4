"""Stage ``xpt_swap`` (labels ``english/VARIANT/PHASE``): a post-trained model with its source's vocabulary ("Vocab-En").

Fine-tuning it in its first language shows what the model has lost of it. Input: roles ``source`` and ``model`` (a transfer or a
phase). Output: a directory in Hugging Face format with the source's tokenizer, word table and decoder bias; everything else,
including positions, is the model's.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np
from pydantic import Field
from safetensors.numpy import load_file, save_file

from korealbert.artifact import Inputs, Runtime, Spec, Stage, Statistics
from korealbert.artifact.files import write_json
from korealbert.huggingface import checkpoint
from korealbert.huggingface.directory import TOKENIZER_FILES, copy_files
from korealbert.huggingface.families import Array
from korealbert.model.config import AnyConfig, ModernConfig, read_config, weights_file
from korealbert.xpt.source import special_ids
from korealbert.xpt.transfer import DECODER_BIAS, POSITIONS, WORD_TABLE


class SwapSpec(Spec):
    """Which weights of a phase get the source's vocabulary."""

    snapshot: int | None = Field(default=None, ge=1)
    """Step of the snapshot that is used. None: the final weights."""


class WordPart(NamedTuple):
    """The part of a model that belongs to its vocabulary."""

    table_VE: Array
    """Word embeddings, which are also the decoder's matrix."""
    bias_V: Array
    """The decoder's bias."""
    unread_PE: Array
    """Rows of the position table before the first position: padding id + 1 if positions start after it (RoBERTa), else none.
    Tokens never read them, but in transformers padding reads the last one."""
    pieces: int
    """V, without table rows after the pieces."""

    @property
    def position_offset(self) -> int:
        """Row of the first position."""
        return len(self.unread_PE)

    @classmethod
    def of(cls, config: AnyConfig, weights: Mapping[str, Array]) -> WordPart:
        """Return this part of a model; without a masked-token head the bias is 0."""
        bias = weights.get(DECODER_BIAS)
        no_bias = np.zeros(config.table_rows, dtype=np.float32)
        unread = weights[POSITIONS][: config.position_offset] if POSITIONS in weights else np.empty((0, 0), dtype=np.float32)
        return cls(weights[WORD_TABLE], no_bias if bias is None else bias, unread, config.vocab_size)


def swap(config: AnyConfig, weights: Mapping[str, Array], words: WordPart) -> tuple[AnyConfig, dict[str, Array]]:
    """Return the model with another vocabulary. Swapping back restores the model, bit for bit.

    Raises ValueError if the embeddings have another width, or positions start after the padding id in only one of the two.
    """
    if words.table_VE.shape[1] != config.embedding_size:
        raise ValueError(
            f"the other vocabulary's embeddings have {words.table_VE.shape[1]} columns, the model's {config.embedding_size}; "
            "take the vocabulary of the model's own source"
        )
    if bool(words.position_offset) != bool(config.position_offset):
        raise ValueError(
            "one of both vocabularies counts positions from the padding id, the other does not; take the vocabulary of the "
            "model's own source"
        )
    if isinstance(config, ModernConfig):
        rows = len(words.table_VE)
        update = {"vocab_size": words.pieces, "word_rows": 0 if rows == words.pieces else rows}
        return config.model_copy(update=update), {**weights, WORD_TABLE: words.table_VE, DECODER_BIAS: words.bias_V}
    read = weights[POSITIONS][config.position_offset :]
    changed = config.model_copy(
        update={
            "vocab_size": len(words.table_VE),
            "position_offset": words.position_offset,
            "max_positions": words.position_offset + len(read),
        }
    )
    moved = np.concatenate([words.unread_PE, read])
    return changed, {**weights, WORD_TABLE: words.table_VE, DECODER_BIAS: words.bias_V, POSITIONS: moved}


class SwapStats(Statistics):
    """Size of the swapped model."""

    layers: int
    vocab_size: int


def run(spec: SwapSpec, inputs: Inputs, out_dir: Path, runtime: Runtime) -> SwapStats:
    """Write the directory. Raises ValueError if the model has no snapshot of this step, or another source."""
    model, source_directory = inputs["model"].path, inputs["source"].path
    trained = load_file(weights_file(model, spec.snapshot))
    source = checkpoint.read(source_directory)
    config, weights = swap(read_config(model), trained, WordPart.of(source.config, source.weights))
    special = special_ids(source_directory, vocab_size=config.vocab_size, position_offset=config.position_offset)
    save_file(checkpoint.to_huggingface(config, weights), out_dir / "model.safetensors", metadata={"format": "pt"})
    write_json(out_dir / "config.json", checkpoint.settings(config, special), indent=2, sort_keys=True)
    copy_files(source_directory, out_dir, TOKENIZER_FILES)
    return SwapStats(layers=config.num_layers, vocab_size=config.vocab_size)


STAGE = Stage("xpt_swap", version=2, spec=SwapSpec, run=run)
