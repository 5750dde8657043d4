"""Stage ``distribution``: what a fine-tuned model predicted for each gold label (Chameleon, tables 8 to 10).

Input: role ``cell``, a finetune artifact; the spec is that of the cell, whose test examples are read again because texts are
not among its predictions. Output: ``distribution.json``. Similarity scores count as paraphrase or not, tags as the kind of each
character that is no space, relations by their names.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import polars as pl

from korealbert.artifact import Inputs, Progress, Runtime, Stage, Stats
from korealbert.files import write_json
from korealbert.finetune import tasks
from korealbert.finetune.spec import FinetuneSpec
from korealbert.finetune.splits import read_examples
from korealbert.finetune.tagged import Tagged
from korealbert.finetune.task import Example
from korealbert.finetune.tasks.klue_re import RELATIONS
from korealbert.finetune.tasks.klue_sts import THRESHOLD

L = TypeVar("L", bound=Hashable)

TASKS = ("klue_sts", "klue_ner", "klue_re")
"""Tasks that the stage knows labels of."""


def distribution(gold: Sequence[L], predicted: Sequence[L]) -> dict[L, dict[L, int]]:
    """For each gold label how often each label was predicted: both by falling number, equal numbers by name.

    Every row sums to the number of its gold label. Raises ValueError where the lengths differ.
    """
    if len(gold) != len(predicted):
        raise ValueError(f"{len(predicted):,} predictions for {len(gold):,} gold labels have no distribution")
    rows: dict[L, Counter[L]] = {}
    for wanted, given in zip(gold, predicted, strict=True):
        rows.setdefault(wanted, Counter())[given] += 1
    ordered = sorted(rows.items(), key=lambda row: (-row[1].total(), str(row[0])))
    return {label: dict(sorted(counts.items(), key=lambda item: (-item[1], str(item[0])))) for label, counts in ordered}


def f1_of(rows: Mapping[L, Mapping[L, int]], label: L) -> float:
    """F1 of one label, times 100, from a distribution; 0 where it is neither gold nor predicted rightly."""
    right = rows.get(label, {}).get(label, 0)
    gold = sum(rows.get(label, {}).values())
    predicted = sum(counts.get(label, 0) for counts in rows.values())
    return 200.0 * right / (gold + predicted) if gold + predicted else 0.0


def run(spec: FinetuneSpec, inputs: Inputs, out_dir: Path, runtime: Runtime) -> Stats:
    """Count. Raises ValueError for a task without such labels, and where predictions and examples do not belong together."""
    if spec.task not in TASKS:
        raise ValueError(f"{spec.task} has no distribution; it is made of {', '.join(TASKS)}")
    examples = read_examples(tasks.load(spec.task), spec, inputs, splits=("test",))["test"]
    frame = pl.read_ipc(inputs["cell"].path / "predictions.arrow")
    if frame["id"].to_list() != [example.id for example in examples]:
        raise ValueError(f"{inputs['cell'].name} predicts other examples than those of {spec.test}; fine-tune again")
    gold, predicted = (_labels(spec.task, examples, frame[column].to_list()) for column in ("gold", "pred"))
    rows = distribution(gold, predicted)
    write_json(out_dir / "distribution.json", [{"gold": label, "predicted": list(row.items())} for label, row in rows.items()])
    runtime.report(Progress(1, 1, "cells"))
    return {"task": spec.task, "labels": len(rows), "items": len(gold)}


def _labels(task: str, examples: Sequence[Example], values: Sequence[Any]) -> list[str]:
    if task == "klue_sts":
        return [str(int(score >= THRESHOLD)) for score in values]
    if task == "klue_ner":
        return [
            tag.rpartition("-")[2]
            for example, tags in zip(examples, values, strict=True)
            for unit, tag in zip(_units(example), tags, strict=True)
            if unit != " "
        ]
    return [RELATIONS[value["label"]] for value in values]


def _units(example: Example) -> list[str]:
    assert isinstance(example, Tagged)
    return example.units


STAGE = Stage("distribution", version=1, spec=FinetuneSpec, run=run)
