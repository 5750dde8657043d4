"""Our discriminator computes the same as ELECTRA of transformers, and can be read again."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.numpy import save_file
from torch.nn import functional as F
from transformers import ElectraForPreTraining

from korealbert.artifact.files import write_json
from korealbert.huggingface import checkpoint
from korealbert.huggingface.families import SpecialIds
from korealbert.model.config import ModelConfig
from korealbert.model.heads import ReplacedTokenModel, initialise

SHAPE = {"vocab_size": 70, "hidden_size": 32, "embedding_size": 16, "num_layers": 2, "num_heads": 4, "pooler": False}


@pytest.mark.parametrize(
    "fields",
    [
        {"share": "none", "activation": "gelu"},
        {"share": "all", "embedding_size": 32},
    ],
)
def test_transformers_compute_what_our_discriminator_computes(fields: dict, tmp_path: Path) -> None:
    config = ModelConfig(**{**SHAPE, **fields}, generator_hidden_size=16)
    ours = ReplacedTokenModel(config).eval()
    initialise(ours, 0.2, seed=1)
    weights = {name: tensor.numpy() for name, tensor in ours.state_dict().items()}
    save_file(checkpoint.to_huggingface(config, weights), tmp_path / "model.safetensors", metadata={"format": "pt"})
    write_json(tmp_path / "config.json", checkpoint.settings(config, SpecialIds(0, 2, 3)))
    theirs, info = ElectraForPreTraining.from_pretrained(tmp_path, output_loading_info=True)
    assert not any(info.values())

    ids = torch.randint(5, 70, (3, 24), generator=torch.Generator().manual_seed(2))
    types, lengths = (torch.arange(24) >= 11).long().expand(3, -1), torch.tensor([24, 15, 6])
    real = torch.arange(24) < lengths[:, None]
    replaced = torch.rand(3, 24, generator=torch.Generator().manual_seed(3)) < 0.2
    verdicts = ours.judge(ids, types, lengths)
    expected = theirs.eval()(input_ids=ids, token_type_ids=types, attention_mask=real.long(), labels=replaced.long())
    torch.testing.assert_close(verdicts[real], expected.logits[real], atol=1e-5, rtol=1e-5)
    loss = F.binary_cross_entropy_with_logits(verdicts[real], replaced[real].float())
    torch.testing.assert_close(loss, expected.loss, atol=1e-5, rtol=1e-5)
    loss.backward()
    expected.loss.backward()
    gradient = theirs.electra.embeddings.word_embeddings.weight.grad
    torch.testing.assert_close(ours.encoder.embeddings.word.weight.grad, gradient, atol=1e-5, rtol=1e-4)

    read = checkpoint.read(tmp_path)
    assert all(name.startswith("mlm.") for name in read.missing)  # A masked-token head would be initialised afresh.
    assert all(name.startswith("discriminator_predictions.") for name in read.unused)
    unshared = {"share": "none", "num_groups": 1, "generator_hidden_size": 0}
    assert read.config == config.model_copy(update=unshared)
