"""The shapes of the encoders that the published tables compare, each as its own config.json has it, and how they are timed."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, field_validator

from korealbert.artifact import Spec, refuse_repeats

BASE = {"hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12, "intermediate_size": 3072}

OFFSET = {"max_position_embeddings": 514, "type_vocab_size": 1, "pad_token_id": 1}
"""RoBERTa and XLM-R count positions from the padding id on, and know no segments."""

ALBERT_LARGE = {"hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16, "intermediate_size": 4096}

BASELINE = "M-BERT"
"""What KoreALBERT's Table III gives speeds relative to."""

SHAPES: dict[str, tuple[str, dict[str, Any]]] = {
    BASELINE: ("bert", {**BASE, "vocab_size": 119_547}),
    "XLM-R base": ("xlm-roberta", {**BASE, **OFFSET, "vocab_size": 250_002}),
    "KoBERT": ("bert", {**BASE, "vocab_size": 8_002}),
    "DistilKoBERT": ("distilbert", {"vocab_size": 8_002, "dim": 768, "n_layers": 3, "n_heads": 12, "hidden_dim": 3072}),
    "KLUE-BERT base": ("bert", {**BASE, "vocab_size": 32_000}),
    "KLUE-RoBERTa base": ("roberta", {**BASE, **OFFSET, "vocab_size": 32_000}),
    "KoELECTRA base v3": ("electra", {**BASE, "vocab_size": 35_000, "embedding_size": 768}),
    "KoELECTRA small v3": (
        "electra",
        {
            **{"vocab_size": 35_000, "embedding_size": 128, "hidden_size": 256, "num_hidden_layers": 12},
            **{"num_attention_heads": 4, "intermediate_size": 1024},
        },
    ),
    "KoBigBird base": ("big_bird", {**BASE, "vocab_size": 32_500, "max_position_embeddings": 4096}),
    "ALBERT base v2": ("albert", {**BASE, "vocab_size": 30_000, "embedding_size": 128}),
    "ALBERT large v2": ("albert", {**ALBERT_LARGE, "vocab_size": 30_000, "embedding_size": 128}),
    "KoreALBERT base": ("albert", {**BASE, "vocab_size": 32_000, "embedding_size": 128}),
    "KoreALBERT large": ("albert", {**ALBERT_LARGE, "vocab_size": 32_000, "embedding_size": 128}),
}
"""Model type and fields of the config by the name that the tables give."""

WIDTHS = ("vocab_size", "embedding_size", "hidden_size", "intermediate_size", "dim", "hidden_dim")

HEADS = ("num_attention_heads", "n_heads")


def config_of(name: str, *, shrink: int = 1) -> Any:
    """The config of a shape, every width and the vocabulary divided by ``shrink``, a power of two up to 32.

    Layers and positions stay: what a step takes falls by about the same factor for every shape. Raises KeyError for others than
    ``SHAPES``.
    """
    from transformers import AutoConfig  # noqa: PLC0415 (planning does without)

    model_type, fields = SHAPES[name]
    smaller = {field: max(1, value // shrink) if field in (*WIDTHS, *HEADS) else value for field, value in fields.items()}
    config = AutoConfig.for_model(model_type, **smaller)
    if model_type == "big_bird":
        config.attention_type = "original_full"
    return config


def parameters_of(name: str) -> int:
    """All trainable numbers of the encoder with its pooler, where its family has one; no weight is made for that."""
    import torch  # noqa: PLC0415 (planning does without)
    from transformers import AutoModel  # noqa: PLC0415 (planning does without)

    from korealbert.model.parameters import count_parameters  # noqa: PLC0415 (planning does without)

    with torch.device("meta"):
        return count_parameters(AutoModel.from_config(config_of(name)))


class SpeedSpec(Spec):
    """Which shapes are measured, and how."""

    architectures: tuple[str, ...] = ()
    """Names of shapes, as ``korealbert/finetune/architectures.py`` lists them; none: nothing is measured."""
    batch_size: int = Field(default=32, ge=1)
    """Inputs of one step."""
    sequence_length: int = Field(default=128, ge=8, le=512)
    """Pieces of each input, all real: nothing is padded."""
    steps: int = Field(default=5, ge=1, le=1000)
    """Turns that are timed."""
    warmup_steps: int = Field(default=1, ge=1, le=1000)
    """Turns before them."""
    shrink: Literal[1, 2, 4, 8, 16, 32] = 1
    """Divides widths and vocabularies of all shapes, where their own are too much for the machine; parameters are always told
    of the whole shape."""
    precision: Literal["fp32", "bf16"] = "fp32"
    """bf16: matrix products under autocast."""
    seed: int = Field(default=1, ge=0, lt=2**63)
    """Seeds weights and pieces."""

    @field_validator("architectures")
    @classmethod
    def _known(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        for name in names:
            if name not in SHAPES:
                raise ValueError(f"there is no shape {name!r}; known are {', '.join(SHAPES)}")
        refuse_repeats("architectures", names)
        return names
