"""The reasons for a nan of the official script, as tasks give them, are read back from every split of metrics.json."""

from __future__ import annotations

from typing import Any

import pytest

from korealbert.finetune import tasks
from korealbert.finetune.scores.undefined import why_undefined
from korealbert.finetune.task import Example
from korealbert.finetune.tasks.klue_re import RELATIONS, Relation

SAME = "every prediction is the same"


def correlations(value: float) -> dict[str, float]:
    return {"spearman": value, "pearson": value}


@pytest.mark.parametrize("split", ["dev", "test"])
def test_warnings_tell_what_is_undefined_in_cells_without_that_field(split: str) -> None:
    examples = [Example(str(n), "", float(n)) for n in range(4)]
    for predicted, gold, why in (([2.0] * 4, 1, SAME), ([0.0, 1, 3, 2], 0, "every gold score is the same")):
        scored = [Example(e.id, "", gold * e.target) for e in examples]
        found = tasks.load("korsts").score(scored, predicted, "official")
        metrics = {split: dict(found.values), "warnings": [f"{split}: {text}" for text in found.warnings]}
        assert found.undefined == {name: why_undefined(metrics, name, split) for name in found.values}
        assert set(found.undefined.values()) == {why}
    probs = [1 / len(RELATIONS)] * len(RELATIONS)
    found = tasks.load("klue_re").score(examples[:2], [Relation(0, probs), Relation(1, probs)], "official")
    metrics = {split: dict(found.values), "warnings": [f"{split}: {text}" for text in found.warnings]}
    undefined = {name: why for name in found.values if (why := why_undefined(metrics, name, split))}
    assert undefined == found.undefined and set(undefined) == {"auprc"}
    other = "test" if split == "dev" else "dev"
    assert why_undefined(metrics | {other: {"auprc": 71.0}}, "auprc", other) == "", "a warning is of its split alone"


@pytest.mark.parametrize(
    ("test", "undefined", "onnx", "why"),
    [
        (correlations(0.0), dict.fromkeys(correlations(0.0), SAME), correlations(0.0), SAME),
        (correlations(0.0), dict.fromkeys(correlations(0.0), SAME), correlations(7.0), ""),
        (correlations(80.0), {}, correlations(0.0), SAME),
        (correlations(80.0), {}, {"spearman": 0.0, "pearson": 1.5}, ""),
        (
            {"auprc": 40.0},
            {"auprc": "3 of 30 relations do not occur in gold"},
            {"auprc": 39.0},
            "3 of 30 relations do not occur",
        ),
        ({"accuracy": 0.0}, {}, {"accuracy": 0.0}, ""),
    ],
)
def test_a_model_as_onnx_is_undefined_by_the_same_gold_or_by_its_own_constant_answers(
    test: dict[str, float], undefined: dict[str, str], onnx: dict[str, float], why: str
) -> None:
    metrics: dict[str, Any] = {"test": test, "test_corrected": test, "undefined": undefined, "test_onnx_int8": onnx}
    metric = next(iter(test))
    assert why_undefined(metrics, metric, "test_onnx_int8").startswith(why)
    assert bool(why_undefined(metrics, metric, "test_onnx_int8")) == bool(why)
    assert why_undefined(metrics, metric) == undefined.get(metric, "")
    assert why_undefined(metrics, metric, "test_corrected") == why_undefined(metrics, metric, "test_onnx_fp32") == ""
