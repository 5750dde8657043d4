"""Encoders in Hugging Face format: ours or anybody's, from a directory on this machine, never executing what lies there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import nn
from transformers import AutoConfig, AutoModel, AutoTokenizer
from transformers.utils import logging as transformers_logging

from korealbert.finetune.encode import PaddedBatch
from korealbert.finetune.init import Init
from korealbert.finetune.own_pieces import check_own_pieces
from korealbert.finetune.sentencepiece_tokenizer import sentencepiece_of_wordpiece_family, tokenizer_from_sentencepiece
from korealbert.finetune.task import EncoderOutput
from korealbert.huggingface.positions import OFFSET_POSITIONS, longest_input
from korealbert.vocab.morpheme_tokenizer import for_directory

LOCAL_ONLY = {"local_files_only": True, "trust_remote_code": False}


class Encoder(nn.Module):
    """A transformer that gives hidden vectors and one pooled vector, whatever its family."""

    def __init__(self, transformer: Any) -> None:
        super().__init__()
        self.transformer = transformer

    @property
    def hidden_size(self) -> int:
        """Width of hidden and pooled vectors."""
        return int(self.transformer.config.hidden_size)

    @property
    def max_length(self) -> int:
        """Longest input in pieces that has trained or at least existing positions."""
        longest = longest_input(self.transformer.config.to_dict())
        return 1 << 30 if longest is None else longest

    def forward(self, batch: PaddedBatch) -> EncoderOutput:
        """Hidden vectors [B, L, H]; the pooled vector [B, H] is the family's own, or the first position's where it has none."""
        arguments = {"input_ids": batch.input_ids_BL, "attention_mask": batch.attention_mask_BL}
        if getattr(self.transformer.config, "type_vocab_size", 0) > 1:
            arguments["token_type_ids"] = batch.token_type_ids_BL
        output = self.transformer(**arguments)
        pooled = getattr(output, "pooler_output", None)
        hidden_BLH = output.last_hidden_state
        return EncoderOutput(hidden_BLH, hidden_BLH[:, 0] if pooled is None else pooled, batch.features)

    def make_room(self, vocabulary_size: int) -> None:
        """Give pieces that were added to the tokenizer fresh embeddings, drawn from torch's generator."""
        if vocabulary_size > self.transformer.get_input_embeddings().num_embeddings:
            self.transformer.resize_token_embeddings(vocabulary_size, mean_resizing=False)


def load_encoder(directory: Path, *, init: Init) -> Encoder:
    """The encoder of a directory in float32, with its weights or (``random``) with fresh ones from torch's generator.

    Reads safetensors only. BigBird attends to everything: its sparse patterns are for inputs beyond a thousand pieces, and
    transformers would choose between the two by the length of a batch, so that a score would depend on the order of batches.
    Raises ValueError naming the directory when it holds no encoder, or not all of its weights.
    """
    try:
        config = load_config(directory)
        if config.model_type == "big_bird":
            config.attention_type = "original_full"
        if init == "random":
            return Encoder(AutoModel.from_config(config, trust_remote_code=False, dtype=torch.float32))
        transformer, loading = _quietly_loaded(directory, config)
    # Whatever lies in a stranger's directory: transformers, safetensors and torch raise a dozen kinds of errors over it.
    except Exception as error:
        raise ValueError(f"{directory}: no encoder that can be loaded ({_first_line(error)}); {_remedy(directory)}") from error
    # A pooler is trained by few objectives; where a checkpoint has none it starts afresh, like the head.
    missing = sorted(name for name in loading["missing_keys"] if "pooler" not in name)
    if missing:
        raise ValueError(
            f"{directory}/model.safetensors: lacks {len(missing)} weights of its config.json ({', '.join(missing[:3])}, …);"
            " the two files do not belong together"
        )
    return Encoder(transformer)


def load_config(directory: Path) -> Any:
    """The config of an encoder's directory. Raises ValueError when it is an encoder-decoder's, and what transformers raises."""
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


def _first_line(error: Exception) -> str:
    return str(error).strip().split("\n", maxsplit=1)[0] or type(error).__name__


def _quietly_loaded(directory: Path, config: Any) -> tuple[Any, dict[str, Any]]:
    """Model and loading report, without the progress bar and the advice to train the model, which is what happens next."""
    verbosity, bar = transformers_logging.get_verbosity(), transformers_logging.is_progress_bar_enabled()
    transformers_logging.set_verbosity_error()
    transformers_logging.disable_progress_bar()
    try:
        transformer, loading = AutoModel.from_pretrained(
            directory, config=config, dtype=torch.float32, use_safetensors=True, output_loading_info=True, **LOCAL_ONLY
        )
    finally:
        transformers_logging.set_verbosity(verbosity)
        if bar:
            transformers_logging.enable_progress_bar()
    return transformer, loading


def load_tokenizer(directory: Path) -> Any:
    """The tokenizer of a directory, which knows offsets, pads, and belongs to the encoder beside it.

    Raises ValueError naming the directory where there is none such.
    """
    try:
        config = load_config(directory)
        tokenizer = _tokenizer(directory, config.model_type)
    except Exception as error:
        problem = f"no tokenizer that can be loaded ({_first_line(error)})"
        raise ValueError(f"{directory}: {problem}; put its tokenizer.json beside config.json") from error
    if not tokenizer.is_fast:
        raise ValueError(f"{directory}: its tokenizer knows no offsets; save it with a tokenizer.json")
    if tokenizer.pad_token_id is None or tokenizer.cls_token_id is None:
        raise ValueError(f"{directory}/tokenizer_config.json: needs a pad_token and a cls_token")
    _check_together(directory, tokenizer, config)
    check_own_pieces(directory, tokenizer)
    return for_directory(tokenizer, directory)


def _tokenizer(directory: Path, model_type: str) -> Any:
    model = sentencepiece_of_wordpiece_family(directory, model_type)
    if model is not None:
        return tokenizer_from_sentencepiece(model)
    # A [SEP] that somebody typed is text, as it was in pretraining.
    return AutoTokenizer.from_pretrained(directory, split_special_tokens=True, **LOCAL_ONLY)


def _check_together(directory: Path, tokenizer: Any, config: Any) -> None:
    largest = max(tokenizer.get_vocab().values())
    if largest >= config.vocab_size:
        problem = f"the tokenizer has a piece number {largest:,}, config.json a vocab_size of {config.vocab_size:,}"
        raise ValueError(f"{directory}: {problem}; the two do not belong together")
    if config.model_type in OFFSET_POSITIONS and tokenizer.pad_token_id != config.pad_token_id:
        problem = f"the tokenizer pads with {tokenizer.pad_token_id}, config.json has pad_token_id {config.pad_token_id}"
        raise ValueError(f"{directory}: {problem}, from which positions are counted; the two do not belong together")
