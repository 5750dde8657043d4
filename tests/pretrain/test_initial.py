"""Runs that start from given weights and keep a declared part of them frozen."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from korealbert.model.attention import masked
from korealbert.model.config import ModelConfig, ModernConfig, read_config
from korealbert.model.heads import PretrainingModel
from korealbert.pretrain.engine import Ranks
from korealbert.pretrain.initial import digest_of, freeze, load_initial
from korealbert.pretrain.intrinsic import LayerMoves
from korealbert.pretrain.spec import PretrainSpec
from korealbert.pretrain.trainer import Stopped
from tests.pretrain.runs import TINY_MODEL, same_bytes, spec, trainer, weights

FROZEN = ("encoder.attention.*", "encoder.ffn.*", "encoder.projection.*")


@pytest.fixture(scope="module")
def first(alone: Ranks, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run from whose weights others start."""
    out_dir = tmp_path_factory.mktemp("first")
    trainer(spec(steps=2), out_dir, alone).run()
    return out_dir


def test_training_starts_from_the_given_weights(alone: Ranks, first: Path, tmp_path: Path) -> None:
    begun = trainer(spec(seed=5), tmp_path, alone, initial=first)
    state = begun.model.state_dict()
    assert all(torch.equal(state[name], tensor) for name, tensor in weights(first).items())
    assert begun.state.step == 0
    assert not begun.optimizer.state


@pytest.mark.parametrize(
    "optimizer", [{"name": "adamw", "lr": 2e-3}, {"name": "lamb", "lr": 0.02}, {"name": "muon", "lr": 2e-3}]
)
def test_exactly_the_declared_tensors_stay_frozen(alone: Ranks, first: Path, tmp_path: Path, optimizer: dict[str, Any]) -> None:
    run = trainer(spec(frozen=FROZEN, optimizer=optimizer), tmp_path, alone, initial=first)
    stats = run.run()
    before, after = weights(first), weights(tmp_path)
    declared = {name for name in before if name.startswith(("encoder.attention.", "encoder.ffn.", "encoder.projection."))}
    assert {name for name in before if torch.equal(before[name], after[name])} == declared
    assert stats["frozen_tensors"] == len(declared)
    assert stats["frozen_sha256"] == digest_of({name: before[name] for name in declared})
    assert stats["parameters"] - stats["trainable_parameters"] == sum(before[name].numel() for name in declared)
    named = dict(run.model.named_parameters())
    in_optimizer = {id(p) for group in run.optimizer.param_groups for p in group["params"]}
    assert in_optimizer == {id(p) for name, p in named.items() if name not in declared}
    assert not any(named[name] in run.optimizer.state for name in declared)


def test_a_stopped_run_with_frozen_tensors_resumes_to_the_same_bytes(alone: Ranks, first: Path, tmp_path: Path) -> None:
    run_spec = spec(frozen=FROZEN)
    trainer(run_spec, tmp_path / "straight", alone, initial=first).run()
    with pytest.raises(Stopped):
        trainer(run_spec, tmp_path / "stopped", alone, initial=first, stop_after=3).run()
    trainer(run_spec, tmp_path / "stopped", alone, initial=first).run()
    assert same_bytes(tmp_path / "straight", tmp_path / "stopped")


def test_a_change_of_frozen_tensors_is_found(alone: Ranks, tmp_path: Path) -> None:
    run = trainer(spec(frozen=("encoder.ffn.*",)), tmp_path, alone)
    with torch.no_grad():
        run.frozen["encoder.ffn.0.inner.weight"][0, 0] += 1e-6
    with pytest.raises(RuntimeError, match="frozen"):
        run.run()
    assert not (tmp_path / "model.safetensors").exists()


def test_snapshots_are_the_weights_after_their_steps(alone: Ranks, tmp_path: Path) -> None:
    run_spec = spec(snapshots=(2, 6))
    trainer(run_spec, tmp_path / "straight", alone).run()
    kept = {path.name: load_file(path) for path in (tmp_path / "straight" / "snapshots").iterdir()}
    assert kept.keys() == {"step-00000002.safetensors", "step-00000006.safetensors"}
    assert all(torch.equal(t, weights(tmp_path / "straight")[name]) for name, t in kept["step-00000006.safetensors"].items())
    with pytest.raises(Stopped):
        trainer(run_spec, tmp_path / "stopped", alone, stop_after=3).run()
    stopped = load_file(tmp_path / "stopped" / ".checkpoints" / "step-00000002" / "model.safetensors")
    assert all(torch.equal(t, stopped[name]) for name, t in kept["step-00000002.safetensors"].items())
    trainer(run_spec, tmp_path / "stopped", alone).run()
    for name in kept:
        assert (tmp_path / "stopped" / "snapshots" / name).read_bytes() == (
            tmp_path / "straight" / "snapshots" / name
        ).read_bytes()


def test_a_damaged_snapshot_of_a_stopped_run_is_made_again(
    alone: Ranks, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    run_spec, name = spec(snapshots=(2, 6)), "snapshots/step-00000002.safetensors"
    trainer(run_spec, tmp_path / "straight", alone).run()
    with pytest.raises(Stopped):
        trainer(run_spec, tmp_path / "stopped", alone, stop_after=5).run()
    victim = tmp_path / "stopped" / name
    content = bytearray(victim.read_bytes())
    content[-3] ^= 1
    victim.write_bytes(content)
    trainer(run_spec, tmp_path / "stopped", alone).run()
    assert "snapshot of step 2" in caplog.text
    assert victim.read_bytes() == (tmp_path / "straight" / name).read_bytes()
    assert same_bytes(tmp_path / "straight", tmp_path / "stopped")


def test_a_damaged_snapshot_sends_a_stopped_run_back_to_the_newest_checkpoint_before_it(alone: Ranks, tmp_path: Path) -> None:
    run_spec, name = spec(snapshots=(2, 5)), "snapshots/step-00000005.safetensors"
    trainer(run_spec, tmp_path / "straight", alone).run()
    with pytest.raises(Stopped):
        trainer(run_spec, tmp_path / "stopped", alone, stop_after=5).run()
    (tmp_path / "stopped" / name).write_bytes(b"")
    resumed = trainer(run_spec, tmp_path / "stopped", alone)
    assert resumed.resumed_from == 4
    resumed.run()
    assert (tmp_path / "stopped" / name).read_bytes() == (tmp_path / "straight" / name).read_bytes()
    assert same_bytes(tmp_path / "straight", tmp_path / "stopped")


@pytest.mark.parametrize("steps", [(3, 2), (0,), (7,), (2, 2)])
def test_snapshots_must_be_steps_of_the_run(steps: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="snapshots"):
        spec(snapshots=steps)


def config(**fields: Any) -> ModelConfig:
    return ModelConfig(**{**TINY_MODEL, "vocab_size": 40, **fields})


def test_patterns_that_match_nothing_or_everything_are_refused() -> None:
    model = PretrainingModel(config())
    with pytest.raises(ValueError, match=r"no tensor of the model matches 'encoder\.ffm"):
        freeze(model, ["encoder.ffm.*"])
    with pytest.raises(ValueError, match="nothing to train"):
        freeze(model, ["*"])


def test_weights_of_another_model_are_refused_by_name(first: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="has shape"):
        load_initial(PretrainingModel(config(vocab_size=41)), first)
    with pytest.raises(ValueError, match="is missing; build the stage"):
        load_initial(PretrainingModel(config(vocab_size=50, share="none")), first)
    (tmp_path / "model.safetensors").write_bytes(b"no tensors")
    with pytest.raises(ValueError, match=r"model\.safetensors: no initial weights"):
        load_initial(PretrainingModel(config()), tmp_path)


def test_a_word_order_head_for_rows_of_another_length_starts_afresh(first: Path) -> None:
    given = weights(first)
    longer = PretrainingModel(config(max_positions=16, word_order_classes=33))
    fresh = longer.state_dict()["wop.weight"].clone()
    load_initial(longer, first)
    state = longer.state_dict()
    assert given["wop.weight"].shape != fresh.shape and torch.equal(state["wop.weight"], fresh)
    assert all(torch.equal(state[name], tensor) for name, tensor in given.items() if not name.startswith("wop."))


def test_spec_data_and_weights_must_fit() -> None:
    given = config(pooler=False)
    plain = PretrainSpec(steps=2, sop_weight=0, wop_weight=0)
    assert plain.config_for(vocab_size=40, sequence_length=16, initial=given) == given
    with pytest.raises(ValueError, match="40 word embeddings, but the examples were packed with 41"):
        plain.config_for(vocab_size=41, sequence_length=16, initial=given)
    with pytest.raises(ValueError, match=r"remove \[model\]"):
        PretrainSpec(steps=2, model=TINY_MODEL, wop_weight=0).config_for(vocab_size=40, sequence_length=16, initial=given)
    with pytest.raises(ValueError, match="sop_weight"):
        PretrainSpec(steps=2, wop_weight=0).config_for(vocab_size=40, sequence_length=16, initial=given)
    with pytest.raises(ValueError, match="17 tokens long, but the initial weights have max_positions = 16"):
        plain.config_for(vocab_size=40, sequence_length=17, initial=given)


def test_a_deeper_model_starts_from_one_whose_layers_share_all_weights(alone: Ranks, first: Path, tmp_path: Path) -> None:
    deeper = spec(model={**TINY_MODEL, "num_layers": 5})
    shallow = read_config(first)
    config = deeper.config_for(vocab_size=shallow.vocab_size, sequence_length=16, initial=shallow)
    assert config.num_layers == 5
    begun = PretrainingModel(config)
    load_initial(begun, first)
    assert all(torch.equal(begun.state_dict()[name], tensor) for name, tensor in weights(first).items())
    for wrong in ({"num_layers": 5, "share": "none"}, {"num_layers": 5, "hidden_size": 32}):
        with pytest.raises(ValueError, match=r"let it differ in num_layers and dropout alone, with share = 'all'"):
            spec(model={**TINY_MODEL, **wrong}).config_for(vocab_size=shallow.vocab_size, sequence_length=16, initial=shallow)


@pytest.mark.parametrize("share", ["all", "none", "attention"])
def test_layer_moves_are_the_distances_between_hidden_states(share: str) -> None:
    config = ModelConfig(**TINY_MODEL, vocab_size=30, word_order_classes=0, share=share)  # type: ignore[arg-type]
    model = PretrainingModel(config).eval()
    encoder = model.encoder
    ids_BL, lengths_B = torch.randint(5, 30, (3, 9)), torch.tensor([9, 4, 6])
    real_BL = torch.arange(9) < lengths_B[:, None]
    wanted: dict[str, list[float]] = {"l2": [], "degrees": []}
    with torch.no_grad():
        hidden_BLH = encoder.projection(encoder.embeddings(ids_BL, torch.zeros_like(ids_BL)))
        for layer in range(config.num_layers):
            attention, ffn = encoder.layer(layer)
            after_BLH = ffn(attention(hidden_BLH, masked(real_BL[:, None, None, :]), attention.joined()))
            before_TH, after_TH = hidden_BLH[real_BL].double(), after_BLH[real_BL].double()
            cosine_T = torch.nn.functional.cosine_similarity(before_TH, after_TH, dim=-1)
            wanted["l2"].append(float((after_TH - before_TH).norm(dim=-1).mean()))
            wanted["degrees"].append(float(cosine_T.arccos().rad2deg().mean()))
            hidden_BLH = after_BLH
        moves = LayerMoves(encoder)
        encoder(ids_BL, torch.zeros_like(ids_BL), lengths_B)
    assert moves.tokens == 19
    for kind, values in moves.means().items():
        assert values == pytest.approx(wanted[kind], rel=1e-5)


def test_layers_of_modern_encoders_are_measured_too() -> None:
    config = ModernConfig(architecture="modern", hidden_size=32, num_layers=3, num_heads=2, local_attention=8, vocab_size=60)
    encoder = PretrainingModel(config).encoder.eval()
    moves = LayerMoves(encoder)
    ids_BL = torch.randint(5, 60, (2, 7))
    with torch.no_grad():
        encoder(ids_BL, torch.zeros_like(ids_BL), torch.tensor([7, 3]))
    assert moves.tokens == 10 and all(value > 0 for values in moves.means().values() for value in values)
