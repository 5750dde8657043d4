"""Swapping to the source's vocabulary and back changes nothing but the words, and loses nothing."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from korealbert.artifact import Artifact, InputPath, Runtime, build
from korealbert.huggingface import checkpoint
from korealbert.huggingface.directory import ModelPlace
from korealbert.model.config import ModelConfig
from korealbert.xpt import source as source_stage
from korealbert.xpt import transfer as transfer_stage
from korealbert.xpt import vocabulary_swap
from korealbert.xpt.transfer import TransferSpec, unreached_names
from korealbert.xpt.vocabulary_swap import SwapSpec, WordPart, swap
from tests.pretrain.shards import build_ancestry
from tests.xpt.test_transfer import FAMILIES, as_model, moved, sources

__all__ = ["sources"]


@pytest.fixture(scope="module")
def vocab(tmp_path_factory: pytest.TempPathFactory) -> Artifact:
    return build_ancestry(tmp_path_factory.mktemp("vocab"))["vocab"]


def logits(config: ModelConfig, weights: dict[str, np.ndarray]) -> list[torch.Tensor]:
    """Return all outputs for some ids, and the hidden states."""
    model = as_model(config, weights)
    ids = torch.randint(5, 60, (3, 12), generator=torch.Generator().manual_seed(2))
    where = torch.arange(12).expand(3, -1)
    lengths = torch.tensor([12, 7, 3])
    with torch.no_grad():
        outputs = model(ids, torch.zeros_like(ids), lengths, where, where)
        hidden, _ = model.encoder(ids, torch.zeros_like(ids), lengths)
    return [tensor for tensor in (*outputs, hidden) if tensor is not None]


@pytest.mark.parametrize("family", (*FAMILIES, "modernbert"))
def test_without_translation_layers_and_training_it_is_the_source_bit_for_bit(sources: dict[str, Path], family: str) -> None:
    source = checkpoint.read(sources[family])
    korean = moved(source, itl=False)
    config, weights = swap(korean.config, korean.weights, WordPart.of(source.config, source.weights))
    assert config == source.config
    assert all(np.array_equal(weights[name], array) for name, array in source.weights.items()), "rows that nothing reads too"
    untrained = {name: array for name, array in weights.items() if name not in source.weights}
    assert set(untrained) <= set(source.missing), "only heads that the source lacks are not its own"
    for ours, theirs in zip(logits(config, weights), logits(source.config, {**untrained, **source.weights}), strict=True):
        assert torch.equal(ours, theirs)


@pytest.mark.parametrize(("family", "itl"), [*((family, True) for family in FAMILIES), ("modernbert", False)])
def test_korean_english_korean_gives_identical_logits(sources: dict[str, Path], family: str, itl: bool) -> None:
    source = checkpoint.read(sources[family])
    korean = moved(source, itl=itl)
    english = swap(korean.config, korean.weights, WordPart.of(source.config, source.weights))
    assert not np.array_equal(
        english[1]["encoder.embeddings.word.weight"][:60], korean.weights["encoder.embeddings.word.weight"][:60]
    )
    config, weights = swap(*english, WordPart.of(korean.config, korean.weights))
    assert config == korean.config
    assert all(np.array_equal(weights[name], array) for name, array in korean.weights.items())
    for before, after in zip(logits(korean.config, korean.weights), logits(config, weights), strict=True):
        assert torch.equal(before, after)


@pytest.mark.parametrize("family", ["albert", "roberta"])
def test_the_decoder_is_the_word_table(sources: dict[str, Path], family: str) -> None:
    korean = moved(checkpoint.read(sources[family]))
    model = as_model(korean.config, korean.weights)
    tables = [
        name for name, p in model.named_parameters() if p.shape == (korean.config.vocab_size, korean.config.embedding_size)
    ]
    assert tables == ["encoder.embeddings.word.weight"]
    ids = torch.tensor([[7, 8, 9]])
    where = torch.tensor([[1]])
    model(ids, torch.zeros_like(ids), None, where, where).mlm_BPV.sum().backward()
    gradient = model.encoder.embeddings.word.weight.grad
    assert gradient is not None
    assert gradient[20].any(), "a piece that no text has gets its gradient from the decoder"


def test_a_vocabulary_of_another_width_is_refused(sources: dict[str, Path]) -> None:
    korean, other = moved(checkpoint.read(sources["bert"])), checkpoint.read(sources["albert"])
    with pytest.raises(ValueError, match="16 columns, the model's 32"):
        swap(korean.config, korean.weights, WordPart.of(other.config, other.weights))
    roberta = checkpoint.read(sources["roberta"])
    with pytest.raises(ValueError, match="padding id"):
        swap(korean.config, korean.weights, WordPart.of(roberta.config, roberta.weights))


@pytest.mark.parametrize("family", (*FAMILIES, "modernbert"))
def test_the_stages_give_the_source_back(sources: dict[str, Path], vocab: Artifact, tmp_path: Path, family: str) -> None:
    runtime = Runtime(store=tmp_path, workers=1)
    spec = ModelPlace(path=InputPath(sources[family]))
    source = build(source_stage.STAGE, spec, {}, runtime).artifact
    inputs = {"source": source, "vocab": vocab}
    korean = build(transfer_stage.STAGE, TransferSpec(itl=False), inputs, runtime).artifact
    english = build(vocabulary_swap.STAGE, SwapSpec(), {"source": source, "model": korean}, runtime).artifact
    given, back = load_file(sources[family] / "model.safetensors"), load_file(english.path / "model.safetensors")
    prefix = checkpoint.family_of(checkpoint.read(english.path).config).prefix
    compared = 0
    for name, tensor in given.items():
        written = back.get(name, back.get(f"{prefix}{name}"))
        if written is not None:
            assert torch.equal(written, tensor), name
            compared += 1
    assert compared > 15
    assert (english.path / "tokenizer.json").read_bytes() == (sources[family] / "tokenizer.json").read_bytes()


def test_a_missing_snapshot_is_named(sources: dict[str, Path], vocab: Artifact, tmp_path: Path) -> None:
    runtime = Runtime(store=tmp_path, workers=1)
    source = build(source_stage.STAGE, ModelPlace(path=InputPath(sources["bert"])), {}, runtime).artifact
    korean = build(transfer_stage.STAGE, TransferSpec(), {"source": source, "vocab": vocab}, runtime).artifact
    with pytest.raises(ValueError, match="no snapshot of step 7"):
        build(vocabulary_swap.STAGE, SwapSpec(snapshot=7), {"source": source, "model": korean}, runtime)


def test_masked_words_never_reach_pooler_and_sentence_head(sources: dict[str, Path]) -> None:
    korean = moved(checkpoint.read(sources["bert"]))
    model = as_model(korean.config, korean.weights)
    ids, where = torch.tensor([[7, 8, 9]]), torch.tensor([[1]])
    model(ids, torch.zeros_like(ids), None, where, where).mlm_BPV.square().sum().backward()
    without = {name for name, p in model.named_parameters() if p.grad is None}
    assert without == set(unreached_names(dict(model.named_parameters())))
