"""Both phases: what they train and what they leave, stopped and resumed, repeated alone, and refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor
from transformers import AutoModelForMaskedLM

from korealbert.artifact import Artifact, InputPath, Store, build
from korealbert.examples import packing, views
from korealbert.examples.batches import ExampleBatches
from korealbert.huggingface import export
from korealbert.huggingface.directory import ModelPlace
from korealbert.pretrain import stage as pretrain
from korealbert.pretrain.engine import Ranks
from korealbert.pretrain.initial import digest_of
from korealbert.pretrain.runtime import TrainingRuntime
from korealbert.pretrain.trainer import Stopped, Trainer
from korealbert.vocab import stage as vocab_stage
from korealbert.xpt import phases, source, transfer
from korealbert.xpt.phases import PhaseSpec
from korealbert.xpt.transfer import TransferSpec
from tests.pretrain.runs import same_bytes
from tests.pretrain.shards import build_ancestry
from tests.xpt.sources import make_source

FAST: dict[str, Any] = {
    "steps": 6,
    "global_batch_size": 8,
    "micro_batch_size": 8,
    "optimizer": {"name": "adamw", "lr": 0.01},
    "schedule": {"warmup_steps": 1},
    "log_every": 1,
    "heldout_every": 3,
    "checkpoint_every": 2,
}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("store")


@pytest.fixture(scope="module")
def data(store: Path) -> dict[str, Artifact]:
    return build_ancestry(store)


@pytest.fixture(scope="module")
def transferred(store: Path, data: dict[str, Artifact], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Artifact]:
    """Transfers by family: with a masked-token head and positions after the padding id, and without either."""
    made = {}
    for family in ("roberta", "bert"):
        spec = ModelPlace(path=InputPath(make_source(family, tmp_path_factory.mktemp(family))))
        read = build(source.STAGE, spec, {}, TrainingRuntime(store=store)).artifact
        inputs = {"source": read, "vocab": data["vocab"]}
        made[family] = build(transfer.STAGE, TransferSpec(), inputs, TrainingRuntime(store=store)).artifact
    return made


@pytest.mark.usefixtures("trains_here")
def test_a_modern_encoder_is_trained_on_with_our_words_and_packed_rows(
    store: Path, data: dict[str, Artifact], tmp_path: Path
) -> None:
    """From a checkpoint's directory to an export with our vocabulary that transformers loads."""
    runtime = TrainingRuntime(store=store, threads=1, device="cpu")
    place = ModelPlace(path=InputPath(make_source("modernbert", tmp_path / "source")))
    read = build(source.STAGE, place, {}, runtime).artifact
    initial = build(transfer.STAGE, TransferSpec(itl=False), {"source": read, "vocab": data["vocab"]}, runtime).artifact
    spec = PhaseSpec(**{**FAST, "steps": 25, "heldout_every": 25, "checkpoint_every": 25}, packing="best_fit")
    trained = build(phases.STAGE, spec, {**data, "initial": initial}, runtime).artifact
    scores = [json.loads(line) for line in (trained.path / "metrics.jsonl").read_text().splitlines()]
    heldout = [line["mlm_loss"] for line in scores if line["split"] == "heldout"]
    assert heldout[-1] < heldout[0] - 0.3
    frozen = phases.frozen_names(initial, "chameleon")
    assert frozen
    assert all(name.startswith("encoder.layers.") for name in frozen)
    written = build(export.STAGE, export.STAGE.spec(), {"pretrain": trained, "vocab": data["vocab"]}, runtime).artifact
    model = AutoModelForMaskedLM.from_pretrained(written.path)
    assert model.config.model_type == "modernbert"
    assert model.get_input_embeddings().weight.shape == (65, 32)


def phase(**fields: Any) -> PhaseSpec:
    return PhaseSpec.model_validate({**FAST, **fields})


def train(
    spec: PhaseSpec, initial: Artifact, data: dict[str, Artifact], out_dir: Path, ranks: Ranks, stop: int = -1
) -> Trainer:
    """Train a phase within this process; ``stop`` asks it to stop before the step after that one."""
    out_dir.mkdir(exist_ok=True)
    settings = spec.pretraining(phases.frozen_names(initial, spec.freeze))
    shards = {"examples": data["examples"].path, "views": data["views"].path}
    config = pretrain.check(settings, vocab=data["vocab"].path, **shards, initial=initial.path)
    trainer = Trainer(
        settings,
        config,
        train=ExampleBatches(*shards.values(), "train"),
        heldout=ExampleBatches(*shards.values(), "heldout"),
        ranks=ranks,
        out_dir=out_dir,
        initial=initial.path,
        stop_requested=lambda: 0 <= stop <= trainer.state.step,
    )
    trainer.run()
    return trainer


def tensors(directory: Path) -> dict[str, Tensor]:
    loaded: dict[str, Tensor] = load_file(directory / "model.safetensors")
    return loaded


def layout(artifact: Artifact) -> dict[str, list[str]]:
    loaded: dict[str, list[str]] = json.loads((artifact.path / "layout.json").read_text())
    return loaded


UNREACHED = {"encoder.pooler.weight", "encoder.pooler.bias", "sop.weight", "sop.bias"}


@pytest.mark.parametrize("family", ["roberta", "bert"])
@pytest.mark.parametrize("freeze", ["chameleon", "l21", "none"])
def test_a_phase_changes_exactly_the_declared_tensors(
    transferred: dict[str, Artifact], data: dict[str, Artifact], alone: Ranks, tmp_path: Path, family: str, freeze: str
) -> None:
    initial = transferred[family]
    train(phase(freeze=freeze, steps=3), initial, data, tmp_path, alone)
    before, after, parts = tensors(initial.path), tensors(tmp_path), layout(initial)
    kept = {name for name in before if torch.equal(before[name], after[name])}
    unreached = UNREACHED if family == "bert" else set()
    expected = {
        "chameleon": set(parts["encoder"]) | unreached,
        "l21": set(parts["encoder"]) | set(parts["copied"]) | unreached,
        "none": unreached,
    }[freeze]
    assert kept == expected
    trained = set(before) - kept
    assert {"encoder.embeddings.word.weight", "mlm.bias", *parts["translation"]} <= trained
    if family == "bert":  # It came without a masked-token head, so the new one learns under either preset.
        assert {"mlm.dense.weight", "mlm.norm.bias"} <= trained
    if freeze != "none":
        unchanged = {name: before[name] for name in expected}
        assert digest_of(unchanged) == digest_of({name: after[name] for name in expected})


def test_phase_2_gives_every_tensor_a_gradient_and_begins_its_schedule_anew(
    transferred: dict[str, Artifact], data: dict[str, Artifact], alone: Ranks, tmp_path: Path
) -> None:
    run = train(phase(freeze="none", schedule={"warmup_steps": 3}), transferred["roberta"], data, tmp_path, alone)
    assert not run.frozen
    assert all(parameter in run.optimizer.state for parameter in run.model.parameters())
    lines = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    rates = [line["learning_rate"] for line in lines if line["split"] == "train"]
    assert rates[0] == 0
    assert max(rates) == rates[3] == pytest.approx(0.01)


def test_a_stopped_phase_resumes_to_the_same_bytes(
    transferred: dict[str, Artifact], data: dict[str, Artifact], alone: Ranks, tmp_path: Path
) -> None:
    spec, initial = phase(freeze="chameleon", steps=4), transferred["bert"]
    train(spec, initial, data, tmp_path / "straight", alone)
    with pytest.raises(Stopped):
        train(spec, initial, data, tmp_path / "stopped", alone, stop=3)
    train(spec, initial, data, tmp_path / "stopped", alone)
    assert same_bytes(tmp_path / "straight", tmp_path / "stopped")


@pytest.mark.usefixtures("trains_here")
def test_phase_2_goes_on_from_phase_1_and_leaves_it_cached(
    transferred: dict[str, Artifact], data: dict[str, Artifact], store: Path, alone: Ranks, tmp_path: Path
) -> None:
    runtime = TrainingRuntime(store=store, threads=1, device="cpu")
    spec, inputs = phase(freeze="chameleon", steps=2, snapshots=[1]), {"initial": transferred["roberta"], **data}
    first = build(phases.STAGE, spec, inputs, runtime, label="phase1/itl").artifact
    encoder = {
        name: tensor for name, tensor in tensors(first.path).items() if name in layout(transferred["roberta"])["encoder"]
    }
    assert first.stats["frozen_sha256"] == digest_of(encoder)
    assert first.stats["trainable_parameters"] == first.stats["parameters"] - sum(t.numel() for t in encoder.values())
    assert [path.name for path in first.files("snapshots/*")] == ["step-00000001.safetensors"]

    rates = [phase(steps=2, optimizer={"name": "adamw", "lr": rate}) for rate in (0.01, 0.02)]
    roles = {role: artifact.name for role, artifact in {"initial": first, **data}.items()}
    assert len({phases.STAGE.identity(other, roles, Store(store)).name for other in rates}) == 2
    assert build(phases.STAGE, spec, inputs, runtime).cached, "another rate of phase 2 is nothing to phase 1"
    train(rates[1], first, data, tmp_path, alone)
    after = tensors(tmp_path)
    assert not any(torch.equal(tensor, after[name]) for name, tensor in tensors(first.path).items())
    with pytest.raises(ValueError, match="needs the layout of a transfer"):
        build(phases.STAGE, phase(freeze="l21"), {"initial": first, **data}, runtime)


def test_a_vocabulary_that_the_weights_were_not_made_for_is_refused(
    transferred: dict[str, Artifact], data: dict[str, Artifact], store: Path, tmp_path: Path
) -> None:
    runtime = TrainingRuntime(store=store, threads=1, device="cpu")
    documents = {"documents": data["vocab"].inputs()["documents"]}
    spec = vocab_stage.VocabSpec(size=64, character_coverage=1.0, training_threads=1)
    other = build(vocab_stage.STAGE, spec, documents, runtime).artifact
    inputs = {"initial": transferred["bert"], "examples": data["examples"], "views": data["views"], "vocab": other}
    with pytest.raises(ValueError, match="was transferred to another vocabulary"):
        build(phases.STAGE, phase(), inputs, runtime)
    rows_spec = packing.ExamplesSpec(sequence_length=32, heldout_share=0.2)
    rows = build(packing.STAGE, rows_spec, {**documents, "vocab": other}, runtime).artifact
    noise = build(views.STAGE, views.ViewsSpec(views=1), {"examples": rows, "vocab": other}, runtime).artifact
    inputs = {"initial": transferred["bert"], "examples": rows, "views": noise, "vocab": data["vocab"]}
    with pytest.raises(ValueError, match="was packed with another vocabulary"):
        build(phases.STAGE, phase(), inputs, runtime)


def test_a_phase_says_only_what_is_its_own() -> None:
    with pytest.raises(ValueError, match="a phase trains the model that was transferred"):
        PhaseSpec.model_validate({"steps": 2, "schedule": {"warmup_steps": 0}, "model": {"num_layers": 3}})
    with pytest.raises(ValueError, match="set freeze and remove frozen"):
        phase(frozen=["mlm.*"])
    with pytest.raises(ValueError, match="sop_weight"):
        phase(sop_weight=1.0)
    defaults = PhaseSpec()
    assert (defaults.steps, defaults.global_batch_size, defaults.optimizer.lr) == (50_000, 512, 3e-4)
