"""Load encoders in Hugging Face format from a local directory; no code in it is executed.

In BERT-like families the last layer can compute only the first position if a pooled vector is all that is needed: keys and
values are computed for every piece, but query, output and feed-forward for one. This saves ten twelfths of the layer's matrix
products and does not change the result.

If layers of our models share parameters in a way that no family of transformers can express, their export has equal copies.
Such models, and modern encoders, are fine-tuned by our own encoder, so that shared parameters stay shared.

Shapes: B inputs, L pieces, H hidden size, N heads.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import nn
from transformers import AutoConfig, AutoModel

from korealbert.artifact import Inputs
from korealbert.finetune.spec import Init
from korealbert.finetune.task import EncoderOutput, Feature
from korealbert.huggingface import checkpoint
from korealbert.huggingface.directory import longest_input
from korealbert.huggingface.loading import quiet_loading
from korealbert.model.config import AnyConfig, ModelConfig, read_config
from korealbert.model.encoder import TransformerEncoder
from korealbert.model.heads import initialise
from korealbert.model.modern import ModernEncoder

LOCAL_ONLY = {"local_files_only": True, "trust_remote_code": False}


@dataclass(frozen=True)
class PaddedBatch:
    """Features of one batch, padded to the longest: int64 [B, L]; the mask is 1 at real pieces."""

    input_ids_BL: torch.Tensor
    attention_mask_BL: torch.Tensor
    token_type_ids_BL: torch.Tensor
    features: Sequence[Feature]

    @property
    def targets(self) -> list[Any]:
        """The features' targets."""
        return [feature.target for feature in self.features]


def pad(features: Sequence[Feature], *, pad_id: int, device: torch.device) -> PaddedBatch:
    """Pad features on the right to the longest; each choice of a feature is a row."""
    inputs = [part for feature in features for part in (feature.choices or (feature,))]
    width = max(len(feature.input_ids) for feature in inputs)
    ids_BL = np.full((len(inputs), width), pad_id, dtype=np.int64)
    mask_BL = np.zeros_like(ids_BL)
    types_BL = np.zeros_like(ids_BL)
    for row, feature in enumerate(inputs):
        length = len(feature.input_ids)
        ids_BL[row, :length] = feature.input_ids
        mask_BL[row, :length] = 1
        types_BL[row, :length] = feature.token_type_ids

    def tensor(array: npt.NDArray[np.int64]) -> torch.Tensor:
        return torch.from_numpy(array).to(device)

    return PaddedBatch(tensor(ids_BL), tensor(mask_BL), tensor(types_BL), features)


def mean_vectors(hidden_BLH: torch.Tensor, attention_mask_BL: torch.Tensor) -> torch.Tensor:
    """Return the mean vectors [B, H] of real pieces, including special ones, like sentence-transformers."""
    real_BL1 = attention_mask_BL.bool()[..., None]
    return hidden_BLH.masked_fill(~real_BL1, 0.0).sum(1) / real_BL1.sum(1)


class Encoder(nn.Module):
    """A transformer of any family, which computes hidden vectors and one pooled vector per input."""

    def __init__(self, transformer: Any) -> None:
        super().__init__()
        self.transformer = transformer

    @property
    def hidden_size(self) -> int:
        """Width of hidden and pooled vectors."""
        return int(self.transformer.config.hidden_size)

    @property
    def max_length(self) -> int:
        """The longest input in pieces for which there are position embeddings."""
        longest = longest_input(self.transformer.config.to_dict())
        return 1 << 30 if longest is None else longest

    def check_length(self, max_length: int, directory: Path) -> None:
        """Raise ValueError if inputs may be longer than the encoder's positions allow."""
        if max_length > self.max_length:
            raise ValueError(
                f"max_length is {max_length}, but {directory}/config.json has positions for {self.max_length} pieces; lower it"
            )

    def forward(self, batch: PaddedBatch) -> EncoderOutput:
        """Return hidden vectors [B, L, H] and pooled vectors [B, H]: the first position's if the family has no pooler."""
        arguments = {"input_ids": batch.input_ids_BL, "attention_mask": batch.attention_mask_BL}
        if getattr(self.transformer.config, "type_vocab_size", 0) > 1:
            arguments["token_type_ids"] = batch.token_type_ids_BL
        output = self.transformer(**arguments)
        pooled = getattr(output, "pooler_output", None)
        hidden_BLH = output.last_hidden_state
        return EncoderOutput(hidden_BLH, hidden_BLH[:, 0] if pooled is None else pooled, batch.features)

    def make_room(self, vocabulary_size: int) -> None:
        """Add fresh embeddings, drawn from torch's generator, for pieces that were added to the tokenizer."""
        if vocabulary_size > self.transformer.get_input_embeddings().num_embeddings:
            self.transformer.resize_token_embeddings(vocabulary_size, mean_resizing=False)

    def keep_first_position(self) -> None:
        """Let the last layer compute only the first position, if the family supports it."""
        keep_first_position(self.transformer)


class OwnEncoder(Encoder):
    """Our own encoder, in which shared blocks are one parameter."""

    transformer: TransformerEncoder | ModernEncoder

    @property
    def max_length(self) -> int:
        """See ``Encoder``."""
        return self.transformer.config.longest_sequence

    def forward(self, batch: PaddedBatch) -> EncoderOutput:
        """See ``Encoder``."""
        lengths_B = batch.attention_mask_BL.sum(1)
        hidden_BLH, pooled_BH = self.transformer(batch.input_ids_BL, batch.token_type_ids_BL, lengths_B)
        return EncoderOutput(hidden_BLH, pooled_BH, batch.features)

    def make_room(self, vocabulary_size: int) -> None:
        """See ``Encoder``."""
        old = self.transformer.embeddings.word
        if vocabulary_size > old.num_embeddings:
            new = nn.Embedding(vocabulary_size, old.embedding_dim)
            nn.init.normal_(new.weight, std=self.transformer.config.initializer_range or old.embedding_dim**-0.5)
            with torch.no_grad():
                new.weight[: old.num_embeddings] = old.weight
            self.transformer.embeddings.word = new

    def keep_first_position(self) -> None:
        """Do nothing: every layer computes all positions."""


_DROPOUTS = (
    "hidden_dropout_prob",
    "attention_probs_dropout_prob",
    "dropout",
    "embedding_dropout",
    "attention_dropout",
    "hidden_dropout",
    "mlp_dropout",
)
"""Names of an encoder's dropouts in transformers' and our configurations."""


def load_encoder(directory: Path, *, init: Init, dropout: float | None = None) -> Encoder:
    """Load the encoder of a directory in float32, with its weights or (``random``) fresh ones from torch's generator.

    ``dropout`` replaces every dropout of its configuration. Only safetensors are read. BigBird always uses full attention:
    transformers would choose its sparse attention by the length of a batch, so that scores would depend on the order of
    batches. Raises ValueError naming the directory if there is no encoder in it, or weights are missing.
    """
    try:
        config = load_config(directory)
        if config.model_type == "big_bird":
            config.attention_type = "original_full"
        for name in _DROPOUTS if dropout is not None else ():
            if hasattr(config, name):
                setattr(config, name, dropout)
        if init == "random":
            return Encoder(AutoModel.from_config(config, trust_remote_code=False, dtype=torch.float32))
        with quiet_loading():
            transformer, loading = AutoModel.from_pretrained(
                directory, config=config, dtype=torch.float32, use_safetensors=True, output_loading_info=True, **LOCAL_ONLY
            )
    # transformers, safetensors and torch raise a dozen kinds of errors for damaged files.
    except Exception as error:
        raise ValueError(f"{directory}: no encoder that can be loaded ({first_line(error)}); {_remedy(directory)}") from error
    # Few objectives train a pooler; if a checkpoint has none, it starts with fresh weights like the head.
    missing = sorted(name for name in loading["missing_keys"] if "pooler" not in name)
    if missing:
        raise ValueError(
            f"{directory}/model.safetensors: lacks {len(missing)} weights of its config.json ({', '.join(missing[:3])}, …);"
            " the two files do not belong together; copy both again"
        )
    return Encoder(transformer)


def load_input(inputs: Inputs, *, init: Init, dropout: float | None = None) -> Encoder:
    """Load the encoder in input role ``model``, as our own encoder if there is a role ``pretrain``."""
    directory = inputs["model"].path
    if "pretrain" not in inputs:
        return load_encoder(directory, init=init, dropout=dropout)
    return _load_as_trained(directory, read_config(inputs["pretrain"].path), init=init, dropout=dropout)


def _load_as_trained(directory: Path, trained: AnyConfig, *, init: Init, dropout: float | None = None) -> OwnEncoder:
    """Load an export as our own encoder, whose layers share parameters as in the pretraining with config ``trained``.

    It computes the same as transformers' class, so that rows of a grid differ only in their sharing: a RoBERTa has a (fresh)
    pooler, and there is no dropout after ALBERT's feed-forward blocks. Raises ValueError as ``checkpoint.read_as_trained``.
    """
    config, weights = checkpoint.read_as_trained(directory, trained)
    if dropout is not None:
        config = config.model_copy(update={name: dropout for name in _DROPOUTS if hasattr(config, name)})
    model: TransformerEncoder | ModernEncoder
    if isinstance(config, ModelConfig):
        family = checkpoint.family_of(config).model_type
        changed = {"roberta": {"pooler": True}, "albert": {"ffn_dropout": False}}.get(family, {})
        model = TransformerEncoder(config.model_copy(update=changed))
    else:
        model = ModernEncoder(config)
    initialise(model, config.initializer_range, seed=int(torch.randint(1 << 62, ())))
    if init == "pretrained":
        loaded = model.load_state_dict({name: torch.from_numpy(array) for name, array in weights.items()}, strict=False)
        assert not loaded.unexpected_keys and all(name.startswith("pooler.") for name in loaded.missing_keys), loaded
    return OwnEncoder(model)


def as_exported(encoder: Encoder, inputs: Inputs) -> Encoder:
    """Convert an encoder from ``load_input`` to the class of its export, in which shared parameters are equal copies."""
    if not isinstance(encoder, OwnEncoder):
        return encoder
    exported = load_encoder(inputs["model"].path, init="pretrained")
    weights = {f"encoder.{name}": tensor.cpu().numpy() for name, tensor in encoder.transformer.state_dict().items()}
    tensors = checkpoint.encoder_to_huggingface(read_config(inputs["pretrain"].path), weights)
    loaded = exported.transformer.load_state_dict({k: torch.from_numpy(array) for k, array in tensors.items()}, strict=False)
    assert not loaded.unexpected_keys and all("pooler" in name for name in loaded.missing_keys), loaded
    return exported


def load_config(directory: Path) -> Any:
    """Load an encoder's config. Raises ValueError if it is an encoder-decoder's, and what transformers raises."""
    config = AutoConfig.from_pretrained(directory, **LOCAL_ONLY)
    if config.is_encoder_decoder:
        raise ValueError("an encoder-decoder")
    return config


def _remedy(directory: Path) -> str:
    pickled = next(iter(sorted([*directory.glob("*.bin"), *directory.glob("*.pt")])), None)
    if pickled is None or any(directory.glob("*.safetensors")):
        return "give a directory with config.json and model.safetensors of one encoder"
    return (
        f"{pickled.name} is a pickle, which can run code when it is loaded, and is never read here; where you trust it, convert"
        " it once with transformers: AutoModel.from_pretrained(DIRECTORY).save_pretrained(DIRECTORY)"
    )


def first_line(error: Exception) -> str:
    """Return the first line of an error's message, or its class if it has no message."""
    return str(error).strip().split("\n", maxsplit=1)[0] or type(error).__name__


FIRST_POSITION_FAMILIES = ("bert", "camembert", "electra", "roberta", "xlm-roberta")
"""Model types with BERT's layers under the same names. ALBERT is not among them, since its last layer is also its first."""


class _FirstPosition(nn.Module):
    """A layer of one of ``FIRST_POSITION_FAMILIES``: [B, L, H] -> [B, 1, H]."""

    def __init__(self, layer: Any) -> None:
        super().__init__()
        self.layer = layer
        self.train(layer.training)

    def forward(self, hidden_BLH: torch.Tensor, attention_mask: torch.Tensor | None = None, *_: Any, **__: Any) -> torch.Tensor:
        """Return the layer's output at the first position. The mask is [B, 1, L, L] or [B, 1, 1, L]."""
        attention = self.layer.attention
        own = attention.self
        first_B1H = hidden_BLH[:, :1]

        def heads(values_BXH: torch.Tensor) -> torch.Tensor:
            inputs, positions, _ = values_BXH.shape
            return values_BXH.view(inputs, positions, own.num_attention_heads, own.attention_head_size).transpose(1, 2)

        context_BN1D = nn.functional.scaled_dot_product_attention(
            heads(own.query(first_B1H)),
            heads(own.key(hidden_BLH)),
            heads(own.value(hidden_BLH)),
            attn_mask=None if attention_mask is None else attention_mask[:, :, :1],
            dropout_p=own.dropout.p if self.training else 0.0,
            scale=own.scaling,
        )
        attended_B1H = attention.output(context_BN1D.transpose(1, 2).flatten(2), first_B1H)
        result: torch.Tensor = self.layer.feed_forward_chunk(attended_B1H)
        return result


def keep_first_position(transformer: Any) -> bool:
    """Let the last layer compute only the first position, in place; returns whether the family supports it."""
    config = transformer.config
    if config.model_type not in FIRST_POSITION_FAMILIES or config._attn_implementation != "sdpa" or config.is_decoder:
        return False
    layers = transformer.encoder.layer
    layers[-1] = _FirstPosition(layers[-1])
    return True
