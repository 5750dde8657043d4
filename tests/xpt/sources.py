"""Small English encoders of every family with their tokenizers, as transformers writes them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors, trainers
from transformers import (
    AlbertConfig,
    AlbertForPreTraining,
    BertConfig,
    BertModel,
    ElectraConfig,
    ElectraForPreTraining,
    ModernBertConfig,
    ModernBertForMaskedLM,
    PreTrainedModel,
    PreTrainedTokenizerFast,
    RobertaConfig,
    RobertaForMaskedLM,
)

TEXT = [
    "the river runs past the mill and under the old bridge",
    "a miller and his daughter grind the corn of three villages",
    "in winter the wheel stands still and ice hangs from its blades",
    "children slide over the pond until the lamps are lit",
] * 5

SIZES: dict[str, Any] = {
    "hidden_size": 32,
    "num_attention_heads": 2,
    "intermediate_size": 48,
    "max_position_embeddings": 40,
    "initializer_range": 0.2,
}

ROBERTA_PIECES = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
BERT_PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


def make_source(family: str, directory: Path, **fields: Any) -> Path:
    """Write a random model of this family, without constant tensors, and its tokenizer into ``directory``."""
    directory.mkdir(parents=True, exist_ok=True)
    size = write_tokenizer(directory, ROBERTA_PIECES if family == "roberta" else BERT_PIECES)
    torch.manual_seed(4)
    model = _model(family, {**SIZES, "vocab_size": size, "num_hidden_layers": 2, **fields})
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim == 1:
                parameter.add_(torch.randn_like(parameter) * 0.1)
    model.save_pretrained(directory)
    return directory


def _model(family: str, sizes: dict[str, Any]) -> PreTrainedModel:
    if family == "roberta":
        return RobertaForMaskedLM(RobertaConfig(**sizes, type_vocab_size=1, pad_token_id=1))
    if family == "modernbert":
        return ModernBertForMaskedLM(
            ModernBertConfig(**sizes, local_attention=8, pad_token_id=0, cls_token_id=2, sep_token_id=3)
        )
    if family == "bert":  # The bare encoder, as sentence encoders are published.
        return BertModel(BertConfig(**sizes))
    if family == "electra":  # A discriminator.
        return ElectraForPreTraining(ElectraConfig(**sizes, embedding_size=16))
    return AlbertForPreTraining(AlbertConfig(**sizes, embedding_size=16))


def write_tokenizer(directory: Path, special: list[str], **drop: None) -> int:
    """Write a byte-pair tokenizer with these special pieces, without the roles in ``drop`` (``mask_token=None``)."""
    tokenizer = Tokenizer(models.BPE(unk_token=special[3] if special is ROBERTA_PIECES else special[1]))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.train_from_iterator(TEXT, trainers.BpeTrainer(vocab_size=90, special_tokens=special, show_progress=False))
    names = ("cls", "pad", "sep", "unk", "mask") if special is ROBERTA_PIECES else ("pad", "unk", "cls", "sep", "mask")
    roles: dict[str, str | None] = {f"{name}_token": piece for name, piece in zip(names, special, strict=True)}
    cls, sep = roles["cls_token"], roles["sep_token"]
    ends = [(str(piece), tokenizer.token_to_id(str(piece))) for piece in (sep, cls)]
    tokenizer.post_processor = processors.BertProcessing(*ends)
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, model_max_length=38, **{**roles, **drop})
    fast.save_pretrained(directory)
    return tokenizer.get_vocab_size()
