"""Settings that papers print: steps and warm-up steps, dropout within the encoder, a classifier of answerability."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from pydantic import ValidationError

from korealbert.artifact import Artifact
from korealbert.finetune import tasks
from korealbert.finetune.encoders.encoder import load_encoder
from korealbert.finetune.loop import optimizer_groups
from korealbert.finetune.model import FinetunedModel
from korealbert.finetune.search import trial_cell
from korealbert.finetune.spec import FinetuneSpec
from korealbert.finetune.stage import run
from korealbert.finetune.task import Encoded, EncoderOutput, Feature, Spans
from korealbert.finetune.task_types.questions import BestSpan, Question, Window
from korealbert.pretrain.runtime import TrainingRuntime


def test_steps_end_within_a_pass_and_warm_up_is_counted_in_steps(
    model: Artifact, runtime: TrainingRuntime, nsmc: dict[str, Any], fresh: Callable[[str], Path]
) -> None:
    settings = {"batch_size": 32, "learning_rate": 1e-3, "steps": 25, "warmup_steps": 4}
    out = fresh("out")
    run(FinetuneSpec(**{**nsmc, **settings}), {"model": model}, out, runtime)
    metrics = json.loads((out / "metrics.json").read_text())
    curve = [json.loads(line) for line in (out / "curve.jsonl").read_text().splitlines()]
    assert (curve[-1]["step"], len(metrics["epochs"])) == (25, 2), "18 steps are a pass"
    assert [point["step"] for point in curve if point["lr"] == pytest.approx(1e-3)] == [5]
    assert {"steps": 25, "warmup_steps": 4}.items() <= metrics["settings"].items()


def test_a_warm_up_as_long_as_the_run_is_an_error_with_both_numbers(
    model: Artifact, runtime: TrainingRuntime, nsmc: dict[str, Any], fresh: Callable[[str], Path]
) -> None:
    spec = FinetuneSpec(**nsmc, max_train_examples=64, max_dev_examples=2, batch_size=32, epochs=2, warmup_steps=4)
    for tried in (spec, trial_cell(spec, 1, {"batch_size": 64, "epochs": 4})):
        with pytest.raises(ValueError, match="warmup_steps = 4 leaves no step of 4; shorten the warm-up or train longer"):
            run(tried, {"model": model}, fresh(f"{tried.epochs}"), runtime)
    assert run(trial_cell(spec, 1, {"epochs": 3}), {"model": model}, fresh("longer"), runtime).best_epoch


def test_new_settings_leave_the_identity_of_cells_as_it_was(nsmc: dict[str, Any]) -> None:
    before = FinetuneSpec(**nsmc).as_before()
    assert not {"steps", "warmup_steps", "encoder_dropout", "embedding_lr_factor"} & before.keys()
    assert FinetuneSpec(**nsmc, encoder_dropout=0.0).as_before()["encoder_dropout"] == 0.0
    with pytest.raises(ValidationError, match="warmup_steps = 9 leaves no step of steps = 9"):
        FinetuneSpec(**nsmc, steps=9, warmup_steps=9)


@pytest.mark.parametrize("dropout", [None, 0.0, 0.25])
def test_dropout_within_an_encoder_is_its_own_or_the_one_given(model: Artifact, dropout: float | None) -> None:
    encoder = load_encoder(model.path, init="pretrained", dropout=dropout)
    own = encoder.transformer.config
    found = {part.p for part in encoder.modules() if isinstance(part, torch.nn.Dropout)}
    if dropout is not None:
        assert found == {dropout} and own.attention_probs_dropout_prob == dropout
    else:
        assert found == {own.hidden_dropout_prob, own.attention_probs_dropout_prob}


@pytest.mark.parametrize("factor", [0.0, 0.25, 1.0])
def test_tables_of_embeddings_learn_at_their_own_rate(model: Artifact, nsmc: dict[str, Any], factor: float) -> None:
    spec = FinetuneSpec(**nsmc, learning_rate=1e-3, embedding_lr_factor=factor)
    tuned = FinetunedModel.of(spec, load_encoder(model.path, init="pretrained"), [], pad_id=0, device=torch.device("cpu"))
    before = {name: weight.detach().clone() for name, weight in tuned.modules.named_parameters()}
    for weight in tuned.modules.parameters():
        weight.grad = torch.ones_like(weight)
    groups = optimizer_groups(tuned, spec)
    assert sorted(id(p) for group in groups for p in group["params"]) == sorted(map(id, tuned.modules.parameters()))
    torch.optim.AdamW(groups, lr=spec.learning_rate, weight_decay=0.0).step()
    for name, weight in tuned.modules.named_parameters():
        rate = 1e-3 * (factor if name.endswith("_embeddings.weight") else 1)
        decay = 0.01 if weight.ndim > 1 else 0.0
        torch.testing.assert_close(weight.detach(), before[name] * (1 - rate * decay) - rate, rtol=0, atol=1e-7)
    with pytest.raises(ValidationError, match="embedding_lr_factor"):
        FinetuneSpec(**nsmc, embedding_lr_factor=1.5)


def feature(example: int, target: tuple[int, int]) -> Feature:
    return Feature([2, 9, 3, 5, 6, 7, 3], [0, 0, 0, 1, 1, 1, 1], target, example, Window(3, [(0, 1), (1, 2), (2, 3)]))


FEATURES = [feature(0, (3, 4)), feature(1, (0, 0)), feature(0, (0, 0))]


def test_the_classifier_decides_whether_there_is_an_answer() -> None:
    task = tasks.load("squad2").headed("answerability")
    positions = torch.zeros(3, 7, 2)
    positions[0, 3, 0] = positions[0, 4, 1] = 5.0
    positions[1, 0] = 99.0  # The span of [CLS] does not decide any more.
    logits = Spans(positions, torch.tensor([-1.0, -0.5, 3.0]))
    decoded = task.decode(logits, FEATURES)
    assert [found.null for found in decoded] == [-1.0, -0.5, 3.0] and all(isinstance(found, BestSpan) for found in decoded)
    examples = [Question(name, "?", (), pair="abc") for name in "pq"]
    assert task.predictions(Encoded(examples, FEATURES), decoded)[0] == "ab", "one window with an answer suffices"
    none = task.decode(Spans(positions, torch.tensor([1.0, 0.5, 3.0])), FEATURES)
    assert task.predictions(Encoded(examples, FEATURES), none) == ["", ""]


def test_span_and_classifier_are_trained_together() -> None:
    torch.manual_seed(0)
    task = tasks.load("squad2").headed("answerability")
    head = task.head(hidden_size=8, dropout=0.1, train=FEATURES).eval()
    hidden_BLH, pooled_BH = torch.randn(3, 7, 8), torch.randn(3, 8)
    targets = [one.target for one in FEATURES]
    optimizer = torch.optim.Adam(head.parameters(), lr=0.1)
    for _ in range(60):
        optimizer.zero_grad()
        loss = task.loss(head(EncoderOutput(hidden_BLH, pooled_BH, FEATURES)), targets)
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    logits = head(EncoderOutput(hidden_BLH, pooled_BH, FEATURES))
    assert (logits.unanswerable_B > 0).tolist() == [False, True, True]
    span = tasks.load("squad2").loss(logits.positions_BL2, targets)
    assert task.loss(logits, targets) > span, "the classifier's loss is added to the span's"


def test_only_benchmarks_with_unanswerable_questions_have_it() -> None:
    with pytest.raises(ValueError, match=r"SQuAD1.1 has no head 'answerability'"):
        tasks.load("squad1").headed("answerability")
