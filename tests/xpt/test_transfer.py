"""A transferred model: what is copied, what is random, and how large it is."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import save_file
from transformers import AutoModel

from korealbert.artifact.files import write_json
from korealbert.huggingface import checkpoint
from korealbert.huggingface.checkpoint import Checkpoint
from korealbert.huggingface.families import SpecialIds
from korealbert.model.attention import masked
from korealbert.model.config import ModelConfig, ModernConfig
from korealbert.model.heads import PretrainingModel
from korealbert.model.parameters import count_parameters
from korealbert.vocab.tokenizer import SPECIAL
from korealbert.xpt.transfer import Transferred, TransferSpec, encoder_names, target_config, transfer, translation_names
from tests.xpt.sources import make_source

FAMILIES = ("albert", "bert", "electra", "roberta")
WORDS = 120
"""Pieces of the target vocabulary."""


@pytest.fixture(scope="session")
def sources(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("sources")
    return {family: make_source(family, root / family) for family in (*FAMILIES, "modernbert")}


def moved(source: Checkpoint, **fields: object) -> Transferred:
    return transfer(source, TransferSpec.model_validate(fields), vocab_size=WORDS)


def as_model(config: ModelConfig, weights: dict[str, np.ndarray]) -> PretrainingModel:
    model = PretrainingModel(config).eval()
    model.load_state_dict({name: torch.from_numpy(array) for name, array in weights.items()})
    return model


@pytest.mark.parametrize("family", FAMILIES)
def test_what_is_copied_and_what_is_drawn(sources: dict[str, Path], family: str) -> None:
    source = checkpoint.read(sources[family])
    result = moved(source)
    config, weights = result.config, result.weights
    blocks = 1 if family == "albert" else 2
    assert (config.num_layers, config.edge_layers, config.attention_blocks) == (4, 1, blocks + 2)
    for name, array in source.weights.items():
        if name.startswith(("encoder.attention.", "encoder.ffn.")):
            kind, number, rest = name.split(".", 3)[1:]
            assert np.array_equal(weights[f"encoder.{kind}.{int(number) + 1}.{rest}"], array)
        elif name == "encoder.embeddings.position.weight":
            unread = source.config.position_offset - config.position_offset
            assert np.array_equal(weights[name], array[unread:])
        elif name not in ("encoder.embeddings.word.weight", "mlm.bias"):
            assert np.array_equal(weights[name], array), name
    assert weights["encoder.embeddings.word.weight"].shape == (WORDS, config.embedding_size)
    assert not weights["mlm.bias"].any()
    assert len(weights["mlm.bias"]) == WORDS
    drawn = set(weights) - set(result.copied)
    fresh_heads = {name for name in weights if name.startswith(("mlm.", "sop.", "encoder.pooler."))} & set(source.missing)
    words = {"encoder.embeddings.word.weight", "mlm.bias"}
    assert drawn == words | fresh_heads | set(translation_names(config, weights))
    as_model(config, weights)


@pytest.mark.parametrize("family", FAMILIES)
def test_the_random_encoder_shares_everything_else(sources: dict[str, Path], family: str) -> None:
    source = checkpoint.read(sources[family])
    with_source, random = moved(source), moved(source, encoder="random")
    encoder = set(encoder_names(with_source.config, with_source.weights))
    differing = {name for name, array in with_source.weights.items() if not np.array_equal(array, random.weights[name])}
    assert differing == {name for name in encoder if ".projection." not in name}
    assert np.array_equal(
        moved(source, itl=False).weights["encoder.embeddings.word.weight"],
        with_source.weights["encoder.embeddings.word.weight"],
    )


def test_identity_layers_begin_as_their_residual_path(sources: dict[str, Path]) -> None:
    result = moved(checkpoint.read(sources["bert"]), itl_init="identity")
    model = as_model(result.config, result.weights)
    hidden = torch.randn(2, 5, result.config.hidden_size, generator=torch.Generator().manual_seed(1))
    attention, ffn = model.encoder.layer(0)
    normed = torch.nn.functional.layer_norm(hidden, hidden.shape[-1:], eps=result.config.layer_norm_eps)
    with torch.no_grad():
        mixed = attention(hidden, masked(None), attention.joined())
        torch.testing.assert_close(ffn(mixed), normed, atol=1e-5, rtol=1e-5)


def test_position_rows_are_exactly_those_that_occur(sources: dict[str, Path]) -> None:
    source = checkpoint.read(sources["roberta"])
    config = moved(source, itl=False).config
    assert (source.config.position_offset, source.config.max_positions) == (2, 40)
    assert (config.position_offset, config.max_positions) == (SPECIAL.pad + 1, 39)
    assert config.longest_sequence == source.config.longest_sequence


@pytest.mark.parametrize(("family", "itl"), [*((family, True) for family in FAMILIES), ("roberta", False)])
def test_transformers_load_it_as_a_plain_encoder(sources: dict[str, Path], tmp_path: Path, family: str, itl: bool) -> None:
    result = moved(checkpoint.read(sources[family]), itl=itl)
    special = SpecialIds(SPECIAL.pad, SPECIAL.cls, SPECIAL.sep)
    weights = checkpoint.to_huggingface(result.config, result.weights)
    save_file(weights, tmp_path / "model.safetensors", metadata={"format": "pt"})
    write_json(tmp_path / "config.json", checkpoint.settings(result.config, special))
    theirs = AutoModel.from_pretrained(tmp_path, local_files_only=True, trust_remote_code=False).eval()
    assert theirs.config.num_hidden_layers == (4 if itl else 2)
    ids = torch.randint(5, WORDS, (3, 12), generator=torch.Generator().manual_seed(2))
    lengths = torch.tensor([12, 7, 1])
    mask = (torch.arange(12) < lengths[:, None]).long()
    padded = torch.where(mask == 1, ids, SPECIAL.pad)
    ours = as_model(result.config, result.weights)
    with torch.no_grad():
        expected = theirs(input_ids=padded, attention_mask=mask).last_hidden_state
        hidden, _ = ours.encoder(padded, torch.zeros_like(ids), lengths)
        shorter, _ = ours.encoder(padded[1:2, :7], torch.zeros_like(ids[1:2, :7]), None)
    for row, length in enumerate(lengths):
        torch.testing.assert_close(hidden[row, :length], expected[row, :length], atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(hidden[1, :7], shorter[0], atol=1e-5, rtol=1e-5)


ROBERTA_BASE = ModelConfig.model_validate(
    {
        "vocab_size": 50_265,
        "hidden_size": 768,
        "embedding_size": 768,
        "share": "none",
        "activation": "gelu",
        "max_positions": 514,
        "position_offset": 2,
        "type_vocab_size": 1,
        "pooler": False,
    }
)
LAYER = 7_087_872
"""Parameters of one layer of RoBERTa-base, and so of one translation layer."""
UNREAD_ROWS = 768
"""RoBERTa's table has one row more in front of its first position than ours: 513 rows for 512 positions, not 514."""


def test_parameter_counts_of_the_paper() -> None:
    def count(*, itl: bool) -> tuple[int, ModelConfig]:
        config = target_config(ROBERTA_BASE, TransferSpec(itl=itl), vocab_size=50_000)
        with torch.device("meta"):
            return count_parameters(PretrainingModel(config).encoder), config

    plain, _ = count(itl=False)
    with_itl, config = count(itl=True)
    assert plain == 50_000 * 768 + 514 * 768 + 768 + 2 * 768 + 12 * LAYER - UNREAD_ROWS
    assert with_itl - plain == 2 * LAYER
    assert round(with_itl / 1e6, 2) == 138.03
    with torch.device("meta"):
        sizes = {name: tensor.numel() for name, tensor in PretrainingModel(config).state_dict().items()}
    frozen = encoder_names(config, sizes)
    assert sum(sizes[name] for name in frozen) == 12 * LAYER
    # Chameleon's phase 1: 53,614,928 of 138.7 M.
    assert sum(sizes.values()) - sum(sizes[name] for name in frozen) == 53_614_928 - UNREAD_ROWS
    assert sum(sizes[name] for name in translation_names(config, sizes)) == 2 * LAYER


def test_edge_layers_share_with_nobody() -> None:
    config = ModelConfig(vocab_size=40, num_layers=8, num_groups=3, edge_layers=1)
    assert [config.blocks_of(layer)[0] for layer in range(8)] == [0, 1, 1, 2, 2, 3, 3, 4]
    assert (config.attention_blocks, config.ffn_blocks, config.inner_layers) == (5, 5, 6)
    half = ModelConfig(vocab_size=40, num_layers=4, share="attention", edge_layers=1)
    assert [half.blocks_of(layer) for layer in range(4)] == [(0, 0), (1, 1), (1, 2), (2, 3)]
    with pytest.raises(ValueError, match="leave none of num_layers = 2"):
        ModelConfig(vocab_size=40, num_layers=2, edge_layers=1)


def test_all_of_a_modern_encoder_is_copied_but_its_words(sources: dict[str, Path]) -> None:
    source = checkpoint.read(sources["modernbert"])
    result = moved(source, itl=False)
    assert isinstance(result.config, ModernConfig)
    assert (result.config.vocab_size, result.config.table_rows) == (WORDS, 128)
    words = {"encoder.embeddings.word.weight", "mlm.bias"}
    assert set(result.weights) - set(result.copied) == words
    assert all(np.array_equal(result.weights[name], source.weights[name]) for name in result.copied)
    as_model(result.config, result.weights)
    random = moved(source, itl=False, encoder="random")
    differing = {name for name, array in result.weights.items() if not np.array_equal(array, random.weights[name])}
    assert differing == set(encoder_names(result.config, result.weights))
    with pytest.raises(ValueError, match="a modern encoder takes no translation layers; set itl = false"):
        moved(source)
