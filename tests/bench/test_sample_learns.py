"""The check of the shipped sample fails if one of its scores, or one of its answers, is at chance."""

from __future__ import annotations

from typing import Any

import pytest

from bench.sample_learns import MIN_HELD_OUT, check_benchmarks, check_held_out, check_prompts

MEANS = {"nsmc": {"pretrained": 100.0, "random": 54.3}, "korsts": {"pretrained": 90.1, "random": 0.1}}


def test_benchmarks_at_chance_or_missing_fail() -> None:
    check_benchmarks(MEANS)
    for change in (
        {"pretrained": 54.3, "random": 54.3},
        {"pretrained": 100.0, "random": 99.0},
        {"pretrained": float("nan"), "random": 0.0},
    ):
        with pytest.raises(SystemExit, match="nsmc: expected at least"):
            check_benchmarks({**MEANS, "nsmc": change})
    with pytest.raises(SystemExit, match="found nsmc"):
        check_benchmarks({"nsmc": MEANS["nsmc"]})


@pytest.mark.parametrize("measure", MIN_HELD_OUT)
def test_held_out_accuracy_at_chance_fails(measure: str) -> None:
    seen = {"mlm_accuracy": 0.70, "sop_accuracy": 0.91, "wop_accuracy": 0.43}
    check_held_out(seen)
    chance = {"mlm_accuracy": 0.05, "sop_accuracy": 0.5, "wop_accuracy": 1 / 65}
    with pytest.raises(SystemExit, match=measure):
        check_held_out({**seen, measure: chance[measure]})


def test_answers_of_the_wrong_kind_fail() -> None:
    def filled(*answers: str) -> list[dict[str, Any]]:
        return [
            {"prompt": f"{number} [MASK]", "answers": [[piece, 0.1] for piece in one.split()]}
            for number, one in enumerate(answers)
        ]

    check_prompts(filled("▁랜샌하다 ▁진호하다", "▁건매하다", "과 와", "▁할머니", "하시고"))
    with pytest.raises(SystemExit, match="건매하다: found after praise and after blame"):
        check_prompts(filled("▁랜샌하다 ▁건매하다", "▁건매하다", "과 와", "▁할머니", "시고"))
    with pytest.raises(SystemExit, match="expected 과 first, found 와"):
        check_prompts(filled("▁랜샌하다", "▁건매하다", "와 과", "▁할머니", "시고"))
