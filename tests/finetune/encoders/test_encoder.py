"""Encoders of any family are loaded from complete safetensors only."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import ElectraConfig, ElectraModel, RobertaConfig, RobertaModel

from korealbert.finetune.encoders.encoder import load_encoder, pad
from korealbert.finetune.encoders.tokenizer import load_tokenizer
from korealbert.finetune.spec import Init
from korealbert.finetune.task import Feature

CPU = torch.device("cpu")
BATCH = [Feature([2, 9, 3], [0, 0, 0], 1), Feature([2, 9, 8, 7, 3], [0, 0, 0, 1, 1], 0)]


def test_pretrained_weights_are_those_of_the_file_and_random_ones_follow_the_seed(model_dir: Path) -> None:
    saved = load_file(model_dir / "model.safetensors")["embeddings.word_embeddings.weight"]

    def embeddings(init: Init, seed: int) -> torch.Tensor:
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            weight: torch.Tensor = load_encoder(model_dir, init=init).transformer.embeddings.word_embeddings.weight
            return weight

    assert torch.equal(embeddings("pretrained", 1), saved)
    assert torch.equal(embeddings("random", 1), embeddings("random", 1))
    assert not torch.equal(embeddings("random", 1), embeddings("random", 2))
    assert not torch.equal(embeddings("random", 1), saved)


def test_padding_does_not_change_what_an_example_is(model_dir: Path) -> None:
    encoder = load_encoder(model_dir, init="pretrained").eval()
    together = encoder(pad(BATCH, pad_id=0, device=CPU)).pooled_BH
    alone = encoder(pad(BATCH[:1], pad_id=0, device=CPU)).pooled_BH
    torch.testing.assert_close(together[:1], alone)


def test_families_without_a_pooler_use_the_first_position(model_dir: Path, fresh: Callable[[str], Path]) -> None:
    sizes = {"vocab_size": 32, "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
    electra, roberta = fresh("electra"), fresh("roberta")
    ElectraModel(ElectraConfig(**sizes, embedding_size=16, max_position_embeddings=16)).save_pretrained(electra)
    RobertaModel(RobertaConfig(**sizes, max_position_embeddings=16, type_vocab_size=1)).save_pretrained(roberta)
    encoder = load_encoder(electra, init="pretrained").eval()
    output = encoder(pad(BATCH, pad_id=0, device=CPU))
    assert torch.equal(output.pooled_BH, output.hidden_BLH[:, 0])
    assert encoder.max_length == 16
    encoder = load_encoder(roberta, init="pretrained").eval()
    assert encoder(pad(BATCH, pad_id=1, device=CPU)).pooled_BH.shape == (2, 16)
    assert encoder.max_length == 14


def test_a_checkpoint_without_some_weights_is_refused_but_a_missing_pooler_is_not(
    model_dir: Path, fresh: Callable[[str], Path]
) -> None:
    directory = fresh("partial")
    shutil.copytree(model_dir, directory, dirs_exist_ok=True)
    weights = load_file(directory / "model.safetensors")
    without_pooler = {name: weight for name, weight in weights.items() if "pooler" not in name}
    save_file(without_pooler, directory / "model.safetensors", {"format": "pt"})
    load_encoder(directory, init="pretrained")
    del without_pooler["embeddings.word_embeddings.weight"]
    save_file(without_pooler, directory / "model.safetensors", {"format": "pt"})
    with pytest.raises(ValueError, match=r"model.safetensors: lacks 1 weights .*word_embeddings.*do not belong together"):
        load_encoder(directory, init="pretrained")


def test_pickled_weights_and_remote_code_are_refused(model_dir: Path, fresh: Callable[[str], Path]) -> None:
    directory = fresh("pickle")
    torch.save(load_file(model_dir / "model.safetensors"), directory / "pytorch_model.bin")
    shutil.copy(model_dir / "config.json", directory)
    with pytest.raises(ValueError, match="pickle: no encoder that can be loaded"):
        load_encoder(directory, init="pretrained")
    config = json.loads((model_dir / "config.json").read_text())
    config |= {"model_type": "theirs", "auto_map": {"AutoConfig": "theirs.Config", "AutoModel": "theirs.Model"}}
    (directory / "config.json").write_text(json.dumps(config))
    (directory / "theirs.py").write_text("raise SystemExit('executed')")
    with pytest.raises(ValueError, match="no encoder that can be loaded"):
        load_encoder(directory, init="random")


def test_a_directory_without_model_or_tokenizer_is_named(fresh: Callable[[str], Path]) -> None:
    with pytest.raises(ValueError, match="empty: no encoder that can be loaded"):
        load_encoder(fresh("empty"), init="pretrained")
    with pytest.raises(ValueError, match=r"(?s)bare: no tokenizer .*tokenizer\.json"):
        load_tokenizer(fresh("bare"))
