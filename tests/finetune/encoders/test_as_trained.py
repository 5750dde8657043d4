"""Models whose layers share more than their export can express are fine-tuned by our own encoder, with shared parameters."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from safetensors.numpy import load_file, save_file
from torch import nn

from korealbert.artifact import Artifact
from korealbert.artifact.files import write_json
from korealbert.finetune.encoders import stage as encoder_stage
from korealbert.finetune.encoders.encoder import Encoder, OwnEncoder, as_exported, load_encoder, load_input, pad
from korealbert.finetune.retrieval import stage as retrieval
from korealbert.finetune.retrieval.stage import RetrievalSpec
from korealbert.finetune.spec import FinetuneSpec, Init
from korealbert.finetune.stage import run
from korealbert.finetune.task import Feature
from korealbert.huggingface import checkpoint
from korealbert.huggingface.directory import ModelPlace
from korealbert.huggingface.families import SpecialIds
from korealbert.model.config import AnyConfig, ModelConfig, ModernConfig, encoder_size
from korealbert.model.heads import PretrainingModel, ReplacedTokenModel, initialise
from korealbert.model.parameters import count_parameters
from korealbert.pretrain.runtime import TrainingRuntime
from korealbert.pretrain.spec import PretrainSpec
from korealbert.xpt.vocabulary_swap import WordPart, swap
from tests.finetune.conftest import word_tokenizer

CPU = torch.device("cpu")
BATCH = [Feature([2, 9, 3], [0, 0, 0], 1), Feature([2, 9, 8, 7, 3, 6, 6, 3], [0, 0, 0, 0, 0, 1, 1, 1], 0)]
TINY = {"vocab_size": 32, "hidden_size": 32, "num_heads": 2, "num_layers": 4, "intermediate_size": 64, "max_positions": 64}
WIDE = {**TINY, "embedding_size": 32, "activation": "gelu"}
NO_POOLER = {**WIDE, "pooler": False, "type_vocab_size": 1}

MODES: dict[str, dict[str, Any]] = {
    "attention": {**TINY, "embedding_size": 16, "share": "attention"},
    "feed-forward": {**TINY, "embedding_size": 16, "share": "ffn"},
    "attention in two groups": {**TINY, "embedding_size": 16, "share": "attention", "num_groups": 2},
    "attention, no projection": {**TINY, "embedding_size": 32, "share": "attention"},
    "all, no projection": {**TINY, "embedding_size": 32},
    "nothing, no projection": {**TINY, "embedding_size": 32, "share": "none"},
    "groups that ALBERT assigns otherwise": {**TINY, "embedding_size": 16, "num_layers": 18, "num_groups": 14},
    "edge layers": {**TINY, "embedding_size": 16, "edge_layers": 1},
    "BERT": WIDE,
    "RoBERTa": {**NO_POOLER, "position_offset": 1},
    "ELECTRA": {**NO_POOLER, "embedding_size": 16},
    "discriminator": {**NO_POOLER, "embedding_size": 16, "share": "ffn", "generator_hidden_size": 16},
    "modern": {**TINY, "architecture": "modern", "num_layers": 3, "global_every": 2, "local_attention": 4},
}


class Made(NamedTuple):
    config: AnyConfig
    model: PretrainingModel | ReplacedTokenModel
    inputs: dict[str, Artifact]


def made(fields: dict[str, Any], directory: Path) -> Made:
    """Make a pretraining model and its export, as the two stages do."""
    config = ModernConfig(**fields) if "architecture" in fields else ModelConfig(**fields)
    replaced = isinstance(config, ModelConfig) and config.generator_hidden_size
    model = ReplacedTokenModel(config) if replaced else PretrainingModel(config)  # type: ignore[arg-type]
    initialise(model, 0.2, seed=3)
    trained, export = directory / "pretrain", directory / "export"
    trained.mkdir()
    export.mkdir()
    weights = {name: tensor.numpy() for name, tensor in model.state_dict().items()}
    write_json(trained / "config.json", config.model_dump(mode="json"))
    save_file(weights, trained / "model.safetensors")
    save_file(checkpoint.to_huggingface(config, weights), export / "model.safetensors", metadata={"format": "pt"})
    write_json(export / "config.json", checkpoint.settings(config, SpecialIds(0, 2, 3)))
    word_tokenizer().save_pretrained(export)
    return Made(config, model, {"model": Artifact("export-1", export), "pretrain": Artifact("pretrain-1", trained)})


@pytest.fixture(params=MODES)
def mode(request: pytest.FixtureRequest, tmp_path: Path) -> Made:
    return made(MODES[request.param], tmp_path)


def own_encoder(inputs: dict[str, Artifact], init: Init = "pretrained") -> OwnEncoder:
    torch.manual_seed(7)
    encoder = load_input(inputs, init=init)
    assert isinstance(encoder, OwnEncoder)
    return encoder


def test_vectors_before_the_first_step_are_those_of_the_untied_export(mode: Made) -> None:
    ours, theirs = own_encoder(mode.inputs).eval(), load_encoder(mode.inputs["model"].path, init="pretrained").eval()
    pooler = getattr(theirs.transformer, "pooler", None)
    if theirs.transformer.config.model_type == "roberta":  # Fresh in both.
        pooler.dense.load_state_dict(ours.transformer.pooler.state_dict())  # type: ignore[union-attr]
    with torch.no_grad():
        found, expected = (encoder(pad(BATCH, pad_id=0, device=CPU)) for encoder in (ours, theirs))
    real = pad(BATCH, pad_id=0, device=CPU).attention_mask_BL.bool()
    torch.testing.assert_close(found.hidden_BLH[real], expected.hidden_BLH[real], atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(found.pooled_BH, expected.pooled_BH, atol=1e-5, rtol=1e-5)
    assert (ours.hidden_size, ours.max_length) == (theirs.hidden_size, theirs.max_length)
    assert checkpoint.needs_trained_config(mode.config)
    if not isinstance(mode.config, ModernConfig):
        assert count_parameters(ours) < count_parameters(theirs)


def test_it_is_written_back_as_the_class_of_its_export(mode: Made) -> None:
    ours = own_encoder(mode.inputs)
    with torch.no_grad():
        for parameter in ours.parameters():
            parameter.add_(0.05)
    theirs = as_exported(ours.eval(), mode.inputs).eval()
    assert not isinstance(theirs, OwnEncoder)
    batch = pad(BATCH, pad_id=0, device=CPU)
    real = batch.attention_mask_BL.bool()
    torch.testing.assert_close(theirs(batch).hidden_BLH[real], ours(batch).hidden_BLH[real], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("mode", ["attention in two groups", "RoBERTa", "discriminator", "modern"], indirect=True)
def test_a_cell_has_as_many_parameters_as_the_training_and_repeats_itself(
    mode: Made, runtime: TrainingRuntime, nsmc: dict[str, Any], fresh: Callable[[str], Path]
) -> None:
    spec = FinetuneSpec(**nsmc, max_train_examples=32, max_test_examples=8, epochs=2, batch_size=16, learning_rate=1e-2)
    first, second = fresh("first"), fresh("second")
    run(spec, mode.inputs, first, runtime)
    pooler = 32 * 32 + 32 if mode.config.position_offset else 0
    parameters = json.loads((first / "metrics.json").read_text())["parameters"]
    assert parameters == count_parameters(mode.model.encoder) + pooler + 2 * 32 + 2
    (second / "curve.jsonl").write_text("what a killed try left")
    run(spec, mode.inputs, second, runtime)
    for name in ("metrics.json", "predictions.arrow", "curve.jsonl"):
        assert (first / name).read_bytes() == (second / name).read_bytes()


def test_a_shared_block_is_one_parameter_whose_gradient_sums_its_uses(tmp_path: Path) -> None:
    mode = made({**MODES["attention"], "hidden_dropout": 0.0, "attention_dropout": 0.0}, tmp_path)
    ours, theirs = own_encoder(mode.inputs), load_encoder(mode.inputs["model"].path, init="pretrained")
    for encoder in (ours, theirs):
        (encoder(pad(BATCH[1:], pad_id=0, device=CPU)).hidden_BLH ** 2).mean().backward()
    groups = theirs.transformer.encoder.albert_layer_groups
    copies = [group.albert_layers[0].attention.query.weight.grad for group in groups]
    (block,) = ours.transformer.attention
    torch.testing.assert_close(block.query.weight.grad, torch.stack(copies).sum(0), atol=1e-6, rtol=1e-4)  # type: ignore[union-attr]


def test_random_weights_follow_the_seed_and_have_the_shape_of_the_training(tmp_path: Path) -> None:
    mode = made(MODES["attention"], tmp_path)
    first, again, pretrained = (own_encoder(mode.inputs, init) for init in ("random", "random", "pretrained"))  # type: ignore[arg-type]
    name = "attention.0.query.weight"
    weights = [dict(encoder.transformer.named_parameters())[name] for encoder in (first, again, pretrained)]
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])
    assert count_parameters(first) == count_parameters(pretrained)
    torch.manual_seed(8)
    other = load_input(mode.inputs, init="random")
    assert not torch.equal(weights[0], dict(other.transformer.named_parameters())[name])


def test_markers_get_rows_and_leave_the_others(tmp_path: Path) -> None:
    encoder = own_encoder(made(MODES["modern"], tmp_path).inputs)
    before = encoder.transformer.embeddings.word.weight.detach().clone()
    encoder.make_room(36)
    word = encoder.transformer.embeddings.word
    assert isinstance(word, nn.Embedding) and word.num_embeddings == 36
    assert torch.equal(word.weight[:32], before)
    assert bool(word.weight[32:].abs().sum(1).min() > 0)


def test_another_vocabulary_may_be_put_in(tmp_path: Path) -> None:
    """The English side of a post-training does this; its layers have the weights of the phase."""
    mode = made(MODES["edge layers"], tmp_path)
    assert isinstance(mode.config, ModelConfig)
    rows = torch.randn(40, 16).numpy()
    words = WordPart(rows, rows[:, 0].copy(), rows[:0], pieces=len(rows))
    config, weights = swap(mode.config, load_file(mode.inputs["pretrain"].path / "model.safetensors"), words)
    export = mode.inputs["model"].path
    save_file(checkpoint.to_huggingface(config, weights), export / "model.safetensors", metadata={"format": "pt"})
    write_json(export / "config.json", checkpoint.settings(config, SpecialIds(0, 2, 3)))
    encoder = own_encoder(mode.inputs)
    assert torch.equal(encoder.transformer.embeddings.word.weight, torch.from_numpy(rows))
    assert len(encoder.transformer.attention) == 3  # type: ignore[arg-type]


def test_copies_that_differ_are_refused(tmp_path: Path) -> None:
    mode = made(MODES["attention"], tmp_path)
    file = mode.inputs["model"].path / "model.safetensors"
    weights = load_file(file)
    name = "albert.encoder.albert_layer_groups.2.albert_layers.0.attention.key.bias"
    weights[name] = weights[name] + 1
    save_file(weights, file, metadata={"format": "pt"})
    with pytest.raises(ValueError, match=r"encoder.attention.2.key.bias of layer 2 is not the block .* export them again"):
        load_input(mode.inputs, init="pretrained")


def test_an_encoder_of_another_recipe_counts_what_was_trained(tmp_path: Path, fresh: Callable[[str], Path]) -> None:
    mode = made(MODES["feed-forward"], tmp_path)
    stats = encoder_stage.run(ModelPlace(), mode.inputs, fresh("out"), TrainingRuntime())
    assert (stats.model_type, stats.parameters) == ("albert", count_parameters(mode.model.encoder))


@pytest.mark.parametrize("name", [*MODES, "modern, even rows"])
def test_parameters_are_counted_alike_before_and_after_the_export(name: str, tmp_path: Path) -> None:
    fields = MODES.get(name) or {**MODES["modern"], "word_rows": 64}
    found = made(fields, tmp_path)
    fresh = 32 * 32 + 32 if name == "RoBERTa" else 0  # Its pooler, which no pretraining trains.
    loaded = count_parameters(load_input(found.inputs, init="pretrained"))
    assert encoder_size(found.inputs["pretrain"].path) == loaded - fresh


@pytest.mark.parametrize(
    ("shape", "less"),
    [
        ({}, False),
        ({"num_groups": 3}, False),
        ({"share": "none"}, False),
        ({"share": "attention"}, True),
        ({"edge_layers": 2}, True),
        ({"embedding_size": 768}, True),
        ({"activation": "gelu", "embedding_size": 768, "share": "none"}, False),
        ({"activation": "gelu", "embedding_size": 768}, True),
        ({"architecture": "modern"}, True),
        ({"pooler": False, "activation": "gelu_tanh"}, False),  # No family has it: it cannot be exported at all.
    ],
)
def test_what_an_export_says(shape: dict[str, Any], less: bool) -> None:
    assert checkpoint.needs_trained_config(PretrainSpec(steps=1, model=shape, sop_weight=0.0, wop_weight=0.0).shape) == less


@pytest.mark.parametrize("mode", ["feed-forward", "modern"], indirect=True)
def test_retrieval_s_random_baseline_is_of_the_shape_that_was_trained(
    mode: Made, runtime: TrainingRuntime, fresh: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    toy = fresh("toy")
    (toy / "qrels").mkdir()
    (toy / "corpus.jsonl").write_text('{"_id": "d", "text": "영화"}\n{"_id": "e", "text": "음악 배우"}\n', "utf-8")
    (toy / "queries.jsonl").write_text('{"_id": "q", "text": "음악"}\n', "utf-8")
    (toy / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\nq\td\t1\n", "utf-8")
    sizes = []
    vectors = retrieval.unit_vectors

    def counted(encoder: Encoder, *given: Any, **settings: Any) -> Any:
        sizes.append(count_parameters(encoder))
        return vectors(encoder, *given, **settings)

    monkeypatch.setattr(retrieval, "unit_vectors", counted)
    retrieval.run(RetrievalSpec(path=toy, init="random", depth=2), mode.inputs, fresh("out"), runtime)
    assert set(sizes) == {count_parameters(own_encoder(mode.inputs, "random"))}
