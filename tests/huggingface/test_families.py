"""Our encoder computes the same as transformers from their checkpoints, and transformers load ours."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.numpy import save_file
from torch.nn import functional as F
from transformers import (
    AlbertConfig,
    AlbertForPreTraining,
    AutoModel,
    BertConfig,
    BertForPreTraining,
    ElectraConfig,
    ElectraForMaskedLM,
    PreTrainedModel,
    RobertaConfig,
    RobertaForMaskedLM,
)

from korealbert.artifact.files import write_json
from korealbert.huggingface import checkpoint
from korealbert.huggingface.families import SpecialIds
from korealbert.model.config import ModelConfig
from korealbert.model.heads import PretrainingModel, initialise
from korealbert.model.parameters import count_parameters

SPECIAL = SpecialIds(pad=0, cls=2, sep=3)

SMALL = {
    "vocab_size": 70,
    "hidden_size": 32,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "intermediate_size": 48,
    "max_position_embeddings": 26,
    "initializer_range": 0.2,
    "pad_token_id": 0,
}

THEIRS = {
    "albert": lambda: AlbertForPreTraining(AlbertConfig(**SMALL, embedding_size=16, num_hidden_groups=2)),
    "albert, exact GELU": lambda: AlbertForPreTraining(AlbertConfig(**SMALL, embedding_size=16, hidden_act="gelu")),
    "bert": lambda: BertForPreTraining(BertConfig(**SMALL)),
    "bert, tanh": lambda: BertForPreTraining(BertConfig(**SMALL, hidden_act="gelu_new", layer_norm_eps=1e-5)),
    "electra": lambda: ElectraForMaskedLM(ElectraConfig(**SMALL, embedding_size=16)),
    "electra, as wide as its embeddings": lambda: ElectraForMaskedLM(ElectraConfig(**SMALL, embedding_size=32)),
    "roberta": lambda: RobertaForMaskedLM(RobertaConfig(**{**SMALL, "pad_token_id": 1, "type_vocab_size": 1})),
}


WITHOUT_POOLER = ("electra", "electra, as wide as its embeddings", "roberta")


def random_model(name: str) -> PreTrainedModel:
    """A model of theirs with random biases and LayerNorms, which transformers initialises to 0 and 1."""
    torch.manual_seed(4)
    model = THEIRS[name]().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim == 1:
                parameter.add_(torch.randn_like(parameter) * 0.1)
    return model


def ours_from(directory: Path) -> PretrainingModel:
    read = checkpoint.read(directory)
    assert (read.missing, read.unused) == ((), ())
    model = PretrainingModel(read.config).eval()
    model.load_state_dict({name: torch.from_numpy(array) for name, array in read.weights.items()})
    return model


def a_batch() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return ids without special ones, segment types, lengths and masked positions."""
    ids = torch.randint(5, 70, (3, 24), generator=torch.Generator().manual_seed(2))
    types = (torch.arange(24) >= 11).long().expand(3, -1)
    return ids, types, torch.tensor([24, 15, 6]), torch.tensor([[1, 4, 23], [2, 14, 3], [1, 5, 2]])


@pytest.mark.parametrize("name", THEIRS)
def test_logits_and_gradients_equal_those_of_transformers(name: str, tmp_path: Path) -> None:
    theirs = random_model(name)
    theirs.save_pretrained(tmp_path)
    ours = ours_from(tmp_path)
    ids, types, lengths, positions = a_batch()
    logits = ours(ids, types, lengths, positions, positions)

    mask = (torch.arange(24) < lengths[:, None]).long()
    padded = torch.where(mask == 1, ids, theirs.config.pad_token_id)
    kinds = types if theirs.config.type_vocab_size > 1 else torch.zeros_like(types)
    expected = theirs(input_ids=padded, token_type_ids=kinds, attention_mask=mask)
    their_mlm = expected.logits if name in WITHOUT_POOLER else expected.prediction_logits
    their_sop = getattr(expected, "sop_logits", getattr(expected, "seq_relationship_logits", None))
    gathered = their_mlm.gather(1, positions[..., None].expand(-1, -1, 70))
    torch.testing.assert_close(logits.mlm_BPV, gathered, atol=1e-5, rtol=1e-5)
    if logits.sop_B2 is not None:
        torch.testing.assert_close(logits.sop_B2, their_sop, atol=1e-5, rtol=1e-5)
    assert (logits.sop_B2 is None) == (name in WITHOUT_POOLER)

    labels = torch.randint(5, 70, (9,), generator=torch.Generator().manual_seed(3))
    for mlm in (logits.mlm_BPV, gathered):
        F.cross_entropy(mlm.flatten(0, 1), labels).backward()
    gradients = {n: p.grad.numpy() for n, p in ours.named_parameters() if p.grad is not None}
    untouched = {n: torch.zeros_like(p).numpy() for n, p in ours.named_parameters() if p.grad is None}
    family = next(f for f in checkpoint.FAMILIES if f.model_type == theirs.config.model_type)
    reference = dict(theirs.named_parameters())
    for mine, yours in family.names(ours.config):
        gradient = reference[yours].grad
        wanted = torch.zeros_like(reference[yours]) if gradient is None else gradient
        torch.testing.assert_close(
            torch.tensor((gradients | untouched)[mine]), wanted, atol=1e-5, rtol=1e-4, msg=f"{mine}: gradients differ"
        )


@pytest.mark.parametrize("name", ["albert", "bert", "electra", "roberta"])
def test_reading_and_writing_gives_the_same_tensors_and_settings(name: str, tmp_path: Path) -> None:
    theirs = random_model(name)
    theirs.save_pretrained(tmp_path)
    read = checkpoint.read(tmp_path)
    written = checkpoint.to_huggingface(read.config, read.weights)
    for tensor, array in written.items():
        assert torch.equal(torch.tensor(array), theirs.state_dict()[tensor]), tensor
    settings = checkpoint.settings(read.config, SpecialIds(theirs.config.pad_token_id, 2, 3))
    assert checkpoint.family_of(read.config).config(settings) == read.config.model_copy(
        update={"ffn_dropout": name != "albert"}
    )


@pytest.mark.parametrize("name", ["albert", "bert", "electra", "roberta"])
def test_the_bare_encoder_is_read_without_its_heads(name: str, tmp_path: Path) -> None:
    random_model(name).base_model.save_pretrained(tmp_path)
    read = checkpoint.read(tmp_path)
    assert read.missing
    assert all(tensor.startswith(("mlm.", "sop.")) for tensor in read.missing)
    assert "encoder.embeddings.word.weight" in read.weights


BERT_BASE = {"embedding_size": 768, "share": "none", "activation": "gelu", "vocab_size": 30_000}
ROBERTA_BASE = {
    **BERT_BASE,
    "vocab_size": 50_265,
    "max_positions": 514,
    "position_offset": 2,
    "type_vocab_size": 1,
    "pooler": False,
}


@pytest.mark.parametrize(("fields", "parameters"), [(BERT_BASE, 109_081_344), (ROBERTA_BASE, 124_055_040)])
def test_base_shapes_have_the_published_number_of_parameters(fields: dict, parameters: int) -> None:
    with torch.device("meta"):
        assert count_parameters(PretrainingModel(ModelConfig(**fields)).encoder) == parameters


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"share": "none", "embedding_size": 32, "activation": "gelu"},
        {
            **{"share": "none", "embedding_size": 32, "activation": "gelu", "pooler": False},
            **{"position_offset": 1, "type_vocab_size": 1},
        },
        {"share": "none", "activation": "gelu", "pooler": False},
        {"share": "all", "num_layers": 4, "edge_layers": 1},
    ],
    ids=["albert", "bert", "roberta", "electra", "albert with layers of its own at either end"],
)
def test_transformers_load_what_we_write(fields: dict, tmp_path: Path) -> None:
    config = ModelConfig(
        **{"vocab_size": 70, "hidden_size": 32, "embedding_size": 16, "num_layers": 2, "num_heads": 4, **fields}
    )
    ours = PretrainingModel(config).eval()
    initialise(ours, 0.2, seed=1)
    weights = {name: tensor.numpy() for name, tensor in ours.state_dict().items()}
    save_file(checkpoint.to_huggingface(config, weights), tmp_path / "model.safetensors", metadata={"format": "pt"})
    write_json(tmp_path / "config.json", checkpoint.settings(config, SPECIAL))
    theirs, report = AutoModel.from_pretrained(tmp_path, output_loading_info=True, local_files_only=True)
    assert {name for name in report["missing_keys"] if "pooler" not in name} == set()
    ids, types, lengths, _ = a_batch()
    mask = (torch.arange(24) < lengths[:, None]).long()
    kinds = types if config.type_vocab_size > 1 else torch.zeros_like(types)
    with torch.no_grad():
        expected = theirs.eval()(torch.where(mask == 1, ids, 0), token_type_ids=kinds, attention_mask=mask).last_hidden_state
        hidden, _ = ours.encoder(ids, types, lengths)
    for row, length in enumerate(lengths):
        torch.testing.assert_close(hidden[row, :length], expected[row, :length], atol=1e-5, rtol=1e-5)


def test_a_base_model_of_full_size_equals_that_of_transformers(tmp_path: Path) -> None:
    torch.manual_seed(0)
    config = AlbertConfig(
        vocab_size=1_000, embedding_size=128, hidden_size=768, num_attention_heads=12, intermediate_size=3_072, pad_token_id=0
    )
    theirs = AlbertForPreTraining(config).eval()
    theirs.save_pretrained(tmp_path)
    ours = ours_from(tmp_path)
    ids = torch.randint(5, 1_000, (2, 32), generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        logits = ours(ids, torch.zeros_like(ids), None, torch.arange(32).expand(2, -1), torch.zeros(2, 1, dtype=torch.long))
        torch.testing.assert_close(logits.mlm_BPV, theirs(ids).prediction_logits, atol=1e-5, rtol=1e-5)
