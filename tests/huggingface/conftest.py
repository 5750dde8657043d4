"""A small vocabulary and an untrained model as artifacts with the ancestors of a real run."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from pydantic import Field
from safetensors.torch import save_file

from korealbert.artifact import Artifact, Inputs, Runtime, Spec, Stage, Stats, build
from korealbert.model.heads import PretrainingModel, initialise
from korealbert.model.parameters import count_parameters
from korealbert.pretrain.spec import PretrainSpec
from korealbert.vocab.stage import VocabSpec, train_model
from korealbert.vocab.tokenizer import fast_tokenizer

SENTENCES = [
    "오늘은 비가 와서 우산을 챙겼다.",
    "어제 산 우산은 바람에 금방 뒤집혔다.",
    "도서관에서 빌린 책을 모두 읽었다.",
    "친구와 함께 도서관까지 걸어갔다.",
    "바람이 불면 나뭇잎이 소리를 낸다.",
    "비가 그친 뒤에 산책을 나갔다.",
    "이 가게는 아침 9시에 문을 연다.",
    "ALBERT 모형은 층마다 같은 값을 쓴다.",
] * 3


class AnySpec(Spec):
    """Fields of an ancestor's spec that the card shows."""

    source: str = ""
    license: str = ""
    title: str = ""
    sentence_task: str = "sop"
    sequence_length: int = 8
    word_order: dict[str, float] = Field(default={"portion": 0.3})


def ancestor(store: Path, stage: str, stats: Stats, inputs: Inputs | None = None, **spec: Any) -> Artifact:
    """Build an artifact of any stage with these statistics."""

    def run(spec: AnySpec, inputs: Inputs, out_dir: Path, runtime: Runtime) -> Stats:
        (out_dir / "data").write_text(stage)
        return stats

    label = f"{stage}/{spec['source']}" if "source" in spec else stage
    return build(Stage(stage, 1, AnySpec, run), AnySpec(**spec), inputs or {}, Runtime(store=store), label=label).artifact


def write_vocab(spec: VocabSpec, inputs: Inputs, out_dir: Path, runtime: Runtime) -> Stats:
    model = train_model(spec, SENTENCES)
    (out_dir / "spiece.model").write_bytes(model.SerializeToString())
    (out_dir / "tokenizer.json").write_text(fast_tokenizer(model).to_str(), "utf-8")
    return {"pieces": len(model.pieces), "characters_per_piece": 1.7}


def write_model(spec: PretrainSpec, inputs: Inputs, out_dir: Path, runtime: Runtime) -> Stats:
    config = spec.config_for(vocab_size=inputs["vocab"].stats["pieces"], sequence_length=16)
    model = PretrainingModel(config)
    initialise(model, 0.2, spec.seed)
    with torch.no_grad():  # Biases of a trained model are not 0.
        for parameter in model.parameters():
            parameter.data += 0.1 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(parameter.numel()))
    save_file(model.state_dict(), out_dir / "model.safetensors")
    for step in spec.snapshots:
        (out_dir / "snapshots").mkdir(exist_ok=True)
        save_file(model.state_dict(), out_dir / "snapshots" / f"step-{step:08d}.safetensors")
    (out_dir / "config.json").write_text(json.dumps(config.model_dump(mode="json")))
    scored = {"split": "heldout", "step": 5, "tokens": 61_111, "mlm_accuracy": 0.1234}
    (out_dir / "metrics.jsonl").write_text(json.dumps(scored) + "\n")
    heldout = {"mlm_accuracy": 0.4321, "mlm_perplexity": 12.5, "sop_accuracy": 0.8, "wop_accuracy": None}
    counted = {"steps": spec.steps, "tokens": 123_456, "epochs": 1.5, "parameters": count_parameters(model)}
    return {**counted, "sequence_length": 16, "heldout": heldout}


MakeModel = Callable[..., tuple[dict[str, Artifact], PretrainingModel]]


@pytest.fixture(scope="session")
def make_model(tmp_path_factory: pytest.TempPathFactory) -> MakeModel:
    """Artifacts ``pretrain`` and ``vocab`` of a model with the given architecture, and the model itself."""
    store = tmp_path_factory.mktemp("store")
    sizes = {"characters_out": 50_000, "bytes_out": 120_000}
    news = ancestor(store, "extract", {"documents_in": 12, "documents_out": 12, **sizes}, source="news", license="CC BY 4.0")
    books = ancestor(store, "extract", {"documents_in": 5, "documents_out": 5, **sizes}, source="books")
    counts = {"documents_in": 12, "documents_out": 9, "dropped": {"too_short": 2, "not_korean": 1}, **sizes}
    cleaned = ancestor(store, "clean", counts, {"documents": news}, source="news")
    counts = {"documents_in": 14, "documents_out": 11, "dropped": {"exact_duplicate": 3}, **sizes}
    unique = ancestor(store, "dedup", counts, {"news": cleaned, "books": books})
    vocab_spec = VocabSpec(size=82, character_coverage=1.0, training_threads=1)
    vocab_stage = Stage("vocab", 1, VocabSpec, write_vocab)
    vocab = build(vocab_stage, vocab_spec, {"documents": unique}, Runtime(store=store)).artifact
    packed = {"documents_in": 11, "documents_out": 11, "rows_train": 300, "rows_heldout": 10}
    examples = ancestor(store, "examples", packed, {"documents": unique, "vocab": vocab})

    def make(
        bow_weight: float = 0.0,
        noise: Mapping[str, Any] | None = None,
        training: Mapping[str, Any] | None = None,
        **architecture: Any,
    ) -> tuple[dict[str, Artifact], PretrainingModel]:
        tiny = {"hidden_size": 32, "num_heads": 4, "num_layers": 3, "max_positions": 32, **architecture}
        if "architecture" not in tiny:
            tiny.setdefault("embedding_size", 16)
        sop_weight = float(tiny.get("pooler", True))
        spec = PretrainSpec(steps=10, model=tiny, sop_weight=sop_weight, bow_weight=bow_weight, **(training or {}))
        parents = {"examples": examples, "vocab": vocab}
        views = ancestor(store, "views", {"views": 3, "mlm_rate": 0.149}, parents, **(noise or {}))
        inputs = {**parents, "views": views}
        pretrain = build(Stage("pretrain", 1, PretrainSpec, write_model), spec, inputs, Runtime(store=store)).artifact
        config = spec.config_for(vocab_size=vocab.stats["pieces"], sequence_length=16)
        from safetensors.torch import load_file

        model = PretrainingModel(config).eval()
        model.load_state_dict(load_file(pretrain.path / "model.safetensors"))
        return {"pretrain": pretrain, "vocab": vocab}, model

    return make
