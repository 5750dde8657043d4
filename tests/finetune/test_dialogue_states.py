"""KLUE-DST: turns and scores as in KLUE-baseline, and a head whose slots attend to the input."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import accuracy_score, f1_score
from sklearn.preprocessing import MultiLabelBinarizer

from korealbert.documents.benchmark_files import BenchmarkFile
from korealbert.finetune.metrics.units import joint_goal_accuracy, slot_micro_f1
from korealbert.finetune.scores.scoring import score_file
from korealbert.finetune.task import EncoderOutput, Example, Feature
from korealbert.finetune.tasks import klue_dst
from korealbert.finetune.tasks.klue_dst import KlueDst, Turn, slot_and_value

ENTRIES = [f"식당-{slot}-{value}" for slot in ("종류", "지역") for value in ("가", "나", "다-라")]
states = st.lists(st.tuples(*[st.lists(st.sampled_from(ENTRIES), max_size=4, unique=True)] * 2), min_size=1, max_size=30)
DIALOGUE = [
    {"role": "user", "text": "이 영화", "state": ["영화-제목-이"]},
    {"role": "sys", "text": "정말 최고의"},
    {"role": "user", "text": "배우", "state": ["영화-제목-이", "영화-시간-18:00"]},
]


def read(path: Path, *dialogues: list[dict[str, Any]]) -> list[Example]:
    rows = [{"guid": f"wos-{n}", "domains": ["영화"], "dialogue": turns} for n, turns in enumerate(dialogues)]
    path.write_text(json.dumps(rows, ensure_ascii=False), "utf-8")
    return KlueDst().read(BenchmarkFile(path))


def test_an_example_is_a_turn_of_the_user_with_all_that_was_said(tmp_path: Path) -> None:
    first, second = read(tmp_path / "dev", DIALOGUE)
    assert first == Turn("wos-0-0", "이 영화", ("영화-제목-이",), "", dialogue="wos-0")
    assert second == Turn(
        "wos-0-1", "배우", ("영화-제목-이", "영화-시간-18:00"), "정말 최고의", dialogue="wos-0", history=("", "이 영화")
    )
    assert KlueDst().document(first) == KlueDst().document(second) == "wos-0"


@pytest.mark.parametrize(
    ("turn", "message"),
    [
        ({"role": "user", "text": "말"}, r"dialogue\[0\].state': missing; the record has role, text"),
        (
            {"role": "user", "text": "말", "state": ["영화"]},
            r"dialogue\[0\].state\[0\]': found '영화'; an entry is domain-slot-value",
        ),
        ({"role": "bot", "text": "말"}, r"dialogue\[0\].role': found 'bot'; a turn is of user or sys"),
    ],
)
def test_damaged_dialogues_are_refused(tmp_path: Path, turn: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=rf"dev, line 1, field '{message}"):
        read(tmp_path / "dev", [turn])


def test_inputs_are_those_of_klue_baseline_and_cut_at_their_beginning(tmp_path: Path, tokenizer: Callable[..., Any]) -> None:
    examples, vocabulary = read(tmp_path / "dev", DIALOGUE), tokenizer()
    rows = [vocabulary.convert_ids_to_tokens(f.input_ids) for f in KlueDst().encode(examples, vocabulary, max_length=16)]
    # KLUE-baseline: history, separator, system, separator, user. The first turn has no history.
    assert rows[0] == ["[CLS]", "[SEP]", "[SEP]", "이", "영화", "[SEP]"]
    assert rows[1] == ["[CLS]", "[SEP]", "이", "영화", "[SEP]", "정말", "최고의", "[SEP]", "배우", "[SEP]"]
    (cut,) = KlueDst().encode(examples[1:], vocabulary, max_length=6)
    assert vocabulary.convert_ids_to_tokens(cut.input_ids) == ["[CLS]", "정말", "최고의", "[SEP]", "배우", "[SEP]"]
    assert set(cut.token_type_ids) == {0}


@settings(max_examples=30)
@given(states)
def test_scores_are_those_of_scikit_learn_over_sets_of_labels(pairs: list[tuple[list[str], list[str]]]) -> None:
    gold, predicted = map(list, zip(*pairs, strict=True))
    labels = MultiLabelBinarizer(classes=ENTRIES)
    wanted, found = labels.fit_transform(gold), labels.transform(predicted)
    assert joint_goal_accuracy(gold, predicted) == pytest.approx(100 * accuracy_score(wanted, found))
    samples = f1_score(wanted, found, average="samples", zero_division=1.0)
    assert slot_micro_f1(gold, predicted, "official") == pytest.approx(100 * samples)
    pooled = f1_score(wanted, found, average="micro", zero_division=0.0)
    assert slot_micro_f1(gold, predicted, "corrected") == pytest.approx(100 * pooled)


def test_only_the_official_f1_counts_a_repeated_entry_twice() -> None:
    gold, predicted = [["a-b-c", "a-b-c", "a-d-e"]], [["a-b-c"]]
    # Two of three are found, none is wrong: precision 1, recall 2 / 3.
    assert slot_micro_f1(gold, predicted, "official") == pytest.approx(80)
    assert slot_micro_f1(gold, predicted, "corrected") == pytest.approx(200 / 3)
    assert joint_goal_accuracy([["a-b-c", "a-b-c"]], predicted) == 100


def test_values_may_hold_hyphens() -> None:
    assert slot_and_value("택시-도착지-N-서울 타워") == ("택시-도착지", "N-서울 타워")


def test_the_head_knows_the_values_of_training_and_no_padding() -> None:
    torch.manual_seed(0)
    train = [Feature([2, 3], [0, 0], state) for state in (["영화-제목-이"], [], ["영화-제목-저", "배우-이름-김"])]
    head = KlueDst().head(hidden_size=8, dropout=0.0, train=train)
    hidden = torch.randn(2, 5, 8)
    features = [Feature([2] * 5, [0] * 5, None), Feature([2] * 3, [0] * 3, None)]
    together = head(EncoderOutput(hidden, hidden[:, 0], features))
    assert together.slots[0] == {"배우-이름": ("none", "김"), "영화-제목": ("none", "이", "저")}
    alone = head(EncoderOutput(hidden[1:, :3], hidden[1:, 0], features[1:]))
    torch.testing.assert_close(together.scores_BV[1:], alone.scores_BV)
    loss = KlueDst().loss(together, [["영화-제목-이"], ["영화-제목-unseen"]])
    parts = [scores.log_softmax(-1) for scores in together.by_slot()]
    torch.testing.assert_close(loss, -(parts[0][0, 0] + parts[1][0, 1] + parts[0][1, 0]) / 2)
    with pytest.raises(ValueError, match="no turn of the training file has a state"):
        KlueDst().head(hidden_size=8, dropout=0.0, train=[Feature([2], [0], [])])


def test_slots_are_counted_right_wrong_and_missing() -> None:
    turn = Turn("0", "말", ("a-b-1", "a-c-2", "a-d-3"))
    gold, given_ = KlueDst().labelled(turn, ["a-b-1", "a-c-9", "a-e-4"])
    assert (gold, given_) == (["a-b", "a-c", "a-d", "none"], ["a-b", "another value", "none", "a-e"])


def test_a_thousand_dialogues_are_official_only_with_all_their_turns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    turns = read(tmp_path / "gold", *[DIALOGUE] * 1_000)
    predictions = tmp_path / "predictions.jsonl"
    predictions.write_text("".join(f"{json.dumps({'id': t.id, 'state': t.target})}\n" for t in turns), "utf-8")
    found = score_file("KLUE-DST", str(tmp_path / "gold"), str(predictions), "official")
    assert found.examples_official is None
    assert any("2,000 examples that are not known to be all of KLUE-DST's official" in warning for warning in found.warnings)
    hashed = subprocess.run(["git", "hash-object", tmp_path / "gold"], check=True, capture_output=True, text=True)
    monkeypatch.setattr(klue_dst, "_DEV", hashed.stdout.strip())
    found = score_file("KLUE-DST", str(tmp_path / "gold"), str(predictions), "official")
    assert (found.values, found.warnings) == ({"jga": 100.0, "slot_micro_f1": 100.0}, ())
    assert (found.examples, found.examples_official) == (2_000, 2_000)
    assert KlueDst().official_size(read(tmp_path / "gold", *[DIALOGUE] * 1_000)[:30]) == 2_000
    predictions.write_text("".join(f"{json.dumps({'id': t.id, 'state': []})}\n" for t in read(tmp_path / "gold", DIALOGUE)))
    part = score_file("klue_dst", str(tmp_path / "gold"), str(predictions), "official")
    assert part.examples_official is None and part.values["jga"] == 0
    assert any("2 examples that are not known to be all of KLUE-DST's official test set" in w for w in part.warnings)
    assert any("every predicted state is empty" in warning for warning in part.warnings)
