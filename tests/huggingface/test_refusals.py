"""Checkpoints that cannot be read are refused with the file and the reason."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file, save_file
from transformers import (
    AlbertConfig,
    AlbertForPreTraining,
    BertConfig,
    BertForPreTraining,
    BertModel,
    ModernBertConfig,
    ModernBertForMaskedLM,
)

from korealbert.huggingface import checkpoint
from korealbert.huggingface.families import SpecialIds
from korealbert.model.config import ModelConfig

SMALL = {
    **{"vocab_size": 30, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 20},
    "max_position_embeddings": 12,
}


@pytest.fixture
def bert(tmp_path: Path) -> Path:
    BertForPreTraining(BertConfig(**SMALL)).save_pretrained(tmp_path)
    return tmp_path


def change(directory: Path, **settings: object) -> None:
    path = directory / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | settings))


def test_a_directory_without_a_model(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"has no config.json"):
        checkpoint.read(tmp_path)


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"model_type": "gpt2"}, r"model_type = 'gpt2' cannot be read; take a model of albert, bert, roberta"),
        ({"hidden_act": "relu"}, r"hidden_act = 'relu': only .* can be read; take another model$"),
        ({"position_embedding_type": "relative_key"}, r"position_embedding_type = 'relative_key': .*; take another model$"),
        ({"tie_word_embeddings": False}, r"tie_word_embeddings = False: .*; take another model$"),
        (
            {"num_attention_heads": 3},
            r"json: num_attention_heads = 3 does not divide hidden_size = 16.* choose a number of heads",
        ),
        ({"layer_norm_eps": -1, "max_position_embeddings": 0}, r"max_position_embeddings = 0: .*; layer_norm_eps = -1: "),
        ({"num_hidden_layers": 3}, r"lacks 16 tensors of the encoder .*layer\.2"),
        ({"type_vocab_size": 0}, r"config\.json: type_vocab_size = 0: Input should be greater than or equal to 1$"),
        (
            {"vocab_size": 31},
            r"word_embeddings.weight has shape \[30, 16\], but config.json makes it \[31, 16\]; .*; copy the model again$",
        ),
    ],
)
def test_settings_that_cannot_be_read(bert: Path, settings: dict, expected: str) -> None:
    change(bert, **settings)
    with pytest.raises(ValueError, match=expected) as error:
        checkpoint.read(bert)
    assert str(bert) in str(error.value)


@pytest.fixture
def modern(tmp_path: Path) -> Path:
    config = ModernBertConfig(
        **SMALL, local_attention=4, pad_token_id=0, bos_token_id=2, eos_token_id=3, cls_token_id=2, sep_token_id=3
    )
    ModernBertForMaskedLM(config).save_pretrained(tmp_path)
    return tmp_path


def test_a_modern_encoder_and_its_config_must_agree(modern: Path) -> None:
    path, written = modern / "model.safetensors", (modern / "config.json").read_text("utf-8")
    tensors = load_file(path)
    assert not checkpoint.read(modern).unused
    save_file(tensors | {"decoder.weight": tensors["model.embeddings.tok_embeddings.weight"]}, path)
    assert not checkpoint.read(modern).unused, "repeats the word table"
    save_file(tensors | {"decoder.weight": np.ones((30, 16), np.float32)}, path)
    with pytest.raises(ValueError, match=r"decoder\.weight is not the word table"):
        checkpoint.read(modern)
    save_file(tensors | {"model.layers.1.attn.Wqkv.bias": np.ones(48, np.float32)}, path)
    with pytest.raises(ValueError, match=r"1 tensors of the encoder .*layers\.1\.attn\.Wqkv\.bias"):
        checkpoint.read(modern)
    save_file(tensors, path)
    change(modern, num_hidden_layers=1, layer_types=["full_attention"])
    with pytest.raises(ValueError, match=r"tensors of the encoder that config\.json does not describe .*layers\.1"):
        checkpoint.read(modern)
    for settings, expected in (
        ({"rope_parameters": {"full_attention": {"type": "linear", "factor": 2.0}}}, "rope_type of full_attention = 'linear'"),
        (
            {"rope_scaling": {"rope_type": "yarn", "factor": 2.0}},
            "rope_type of full_attention = 'yarn': .*; take another model$",
        ),
        ({"rope_scaling": "linear"}, "found 'linear', expected an object with rope_type"),
        ({"rope_parameters": ["linear"]}, "expected an object .*; correct it, or copy the file again$"),
        ({"rope_parameters": {}, "local_rope_theta": None}, "local_rope_theta = None: expected a number"),
        (
            {"rope_parameters": {"full_attention": {"rope_theta": 0}}},
            "rope_theta of full_attention = 0: expected a number, 1 or more",
        ),
        ({"norm_eps": 0}, "config.json: norm_eps = 0: Input should be greater than 0"),
        ({"num_attention_heads": 3}, "json: num_attention_heads = 3 does not divide hidden_size = 16 "),
        ({"num_hidden_layers": "two"}, "num_hidden_layers = 'two': "),
    ):
        (modern / "config.json").write_text(written, "utf-8")
        change(modern, **settings)
        with pytest.raises(ValueError, match=expected):
            checkpoint.read(modern)
    (modern / "config.json").write_text(written, "utf-8")
    change(modern, rope_scaling={"rope_type": "default"}, sliding_window=1)
    assert checkpoint.read_config(modern).model_dump()["local_attention"] == 2, "as transformers reads it"


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        (
            {"model_type": "albert", "num_hidden_groups": 3},
            "num_hidden_groups = 3 exceeds num_hidden_layers = 2; lower num_hidden_groups",
        ),
        (
            {"model_type": "roberta", "pad_token_id": 12},
            r"pad_token_id \+ 1 = 13 leaves no row of max_position_embeddings = 12",
        ),
    ],
)
def test_a_mistake_has_the_names_of_its_file(bert: Path, settings: dict, expected: str) -> None:
    change(bert, **settings)
    with pytest.raises(ValueError, match=expected):
        checkpoint.read_config(bert)


def test_a_pickle_is_never_opened(bert: Path) -> None:
    (bert / "model.safetensors").rename(bert / "pytorch_model.bin")
    with pytest.raises(
        ValueError, match=r"pytorch_model.bin is a pickle, which is never opened; save the model as safetensors"
    ):
        checkpoint.read(bert)


def test_pickles_in_shards_are_named_too(bert: Path) -> None:
    (bert / "model.safetensors").rename(bert / "pytorch_model-00001-of-00002.bin")
    (bert / "optimizer.bin").touch()
    with pytest.raises(ValueError, match=r"pytorch_model-00001-of-00002.bin is a pickle, which is never opened"):
        checkpoint.read(bert)


def test_a_pickle_under_the_name_of_safetensors(bert: Path) -> None:
    torch.save({"a": torch.ones(2)}, bert / "model.safetensors")
    with pytest.raises(ValueError, match=r"model.safetensors: a pickle under another name, which is never opened"):
        checkpoint.read(bert)
    torch.save({"a": torch.ones(2)}, bert / "model.safetensors", _use_new_zipfile_serialization=False)
    with pytest.raises(ValueError, match="a pickle under another name"):
        checkpoint.read(bert)


def test_a_file_in_place_of_a_directory(bert: Path) -> None:
    with pytest.raises(ValueError, match=r"model.safetensors: has no config.json; give the directory"):
        checkpoint.read(bert / "model.safetensors")


def rename_tensors(directory: Path, **endings: str) -> None:
    path = directory / "model.safetensors"
    tensors = load_file(path)
    for old, new in endings.items():
        tensors = {n.removesuffix(old) + new if n.endswith(old) else n: t for n, t in tensors.items()}
    save_file(tensors, path, metadata={"format": "pt"})


def test_names_of_old_files_and_the_other_name_of_the_bias(bert: Path) -> None:
    before = checkpoint.read(bert)
    rename_tensors(
        bert,
        **{
            "LayerNorm.weight": "LayerNorm.gamma",
            "LayerNorm.bias": "LayerNorm.beta",
            "cls.predictions.bias": "cls.predictions.decoder.bias",
        },
    )
    after = checkpoint.read(bert)
    assert (after.config, after.missing, after.unused) == (before.config, (), ())
    assert all(np.array_equal(after.weights[name], array) for name, array in before.weights.items())


def test_an_encoder_without_a_head_has_nothing_to_tie(tmp_path: Path) -> None:
    BertModel(BertConfig(**SMALL)).save_pretrained(tmp_path)
    change(tmp_path, tie_word_embeddings=False)
    assert "mlm.bias" in checkpoint.read(tmp_path).missing


def test_a_damaged_file(bert: Path) -> None:
    path = bert / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(ValueError, match=r"model.safetensors: damaged"):
        checkpoint.read(bert)


def test_a_projection_that_ours_does_not_have(tmp_path: Path) -> None:
    AlbertForPreTraining(AlbertConfig(**SMALL, embedding_size=16)).save_pretrained(tmp_path)
    with pytest.raises(ValueError, match=r"embedding_hidden_mapping_in.weight is not the identity"):
        checkpoint.read(tmp_path)


def test_tensors_of_other_heads_are_listed_as_unused(bert: Path) -> None:
    tensors = load_file(bert / "model.safetensors")
    save_file(tensors | {"classifier.weight": np.zeros((2, 16), np.float32)}, bert / "model.safetensors")
    assert checkpoint.read(bert).unused == ("classifier.weight",)


def test_half_precision_is_read_as_fp32(tmp_path: Path) -> None:
    model = BertForPreTraining(BertConfig(**SMALL)).to(torch.bfloat16)
    model.save_pretrained(tmp_path)
    word = checkpoint.read(tmp_path).weights["encoder.embeddings.word.weight"]
    assert word.dtype == np.float32
    assert torch.equal(torch.tensor(word), model.bert.embeddings.word_embeddings.weight.float())


def test_shapes_that_no_class_of_transformers_has() -> None:
    odd = ModelConfig(vocab_size=30, hidden_size=32, embedding_size=16, num_heads=2, pooler=False)
    with pytest.raises(
        ValueError,
        match=r"neither ALBERT, BERT, ELECTRA nor RoBERTa of transformers has this shape: .*'pooler': False.* set pooler =",
    ):
        checkpoint.settings(odd, SpecialIds(0, 2, 3))


def test_positions_of_roberta_begin_behind_its_padding_id() -> None:
    shape = {"vocab_size": 30, "hidden_size": 32, "embedding_size": 32, "num_heads": 2, "activation": "gelu", "share": "none"}
    config = ModelConfig(**shape, pooler=False, position_offset=2)
    with pytest.raises(ValueError, match=r"position_offset = 2: RoBERTa counts positions from pad \+ 1 = 1"):
        checkpoint.settings(config, SpecialIds(0, 2, 3))
