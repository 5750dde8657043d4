"""Features survive their Arrow file for every kind of task, and are encoded once for all cells."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from korealbert.artifact import Artifact, Runtime
from korealbert.documents.shards import ShardError
from korealbert.finetune import features, stage, tasks
from korealbert.finetune.features import FeatureTable, read_examples, task_tokenizer, write_features
from korealbert.finetune.spec import FinetuneSpec
from korealbert.finetune.task import Feature
from tests.finetune.test_all_tasks import FILES
from tests.finetune.test_stage import QUICK


def plain(value: Any) -> Any:
    """A value with all sequences as lists, so that tuples, named tuples and arrays compare."""
    if isinstance(value, Feature):
        return [plain(getattr(value, n)) for n in ("input_ids", "token_type_ids", "target", "example", "layout", "choices")]
    if isinstance(value, np.ndarray):
        return value.tolist()
    return [plain(item) for item in value] if isinstance(value, list | tuple) else value


@pytest.mark.parametrize("task_name", FILES)
def test_features_of_every_kind_survive_their_file(
    task_name: str, model: Artifact, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(features, "EXAMPLES_PER_BATCH", 7)
    task = tasks.load(task_name)
    path = tmp_path / "train"
    path.write_text(FILES[task_name](np.random.default_rng(3), 20), "utf-8")
    spec = FinetuneSpec(task=task_name, train=path, dev=path, test=path, max_length=16)
    examples = read_examples(task, spec)["train"]
    tokenizer = task_tokenizer(task, model.path)
    rows = write_features(tmp_path / "t.arrow", task, examples, tokenizer, max_length=16)
    table = FeatureTable(tmp_path / "t.arrow", task)
    expected = [
        Feature(f.input_ids, f.token_type_ids, f.target, start + f.example, f.layout, f.choices)
        for start in range(0, len(examples), 7)
        for f in task.encode(examples[start : start + 7], tokenizer, max_length=16)
    ]
    assert rows == len(table) == len(expected)
    assert [type(f.layout) for f in table] == [type(f.layout) for f in expected]
    assert [plain([f.input_ids, f.token_type_ids, f.target, f.example, f.layout]) for f in table] == [
        plain([f.input_ids, f.token_type_ids, f.target, f.example, f.layout]) for f in expected
    ]
    inputs = [[plain([c.input_ids, c.token_type_ids]) for c in f.choices] for f in table]
    assert inputs == [[plain([c.input_ids, c.token_type_ids]) for c in f.choices] for f in expected]
    assert table.lengths.tolist() == [len(f.input_ids) for f in expected]
    assert plain(table[-1].input_ids) == plain(table[len(table) - 1].input_ids)
    assert len(table[2:5]) == 3
    with pytest.raises(IndexError):
        table[len(table)]


def test_a_cell_gives_the_same_bytes_with_and_without_cached_features(
    model: Artifact, runtime: Runtime, nsmc: dict[str, Any], fresh: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = FinetuneSpec(**{**nsmc, **QUICK, "epochs": 1}, max_train_examples=64)
    made, with_cache, without = fresh("features"), fresh("with"), fresh("without")
    stats = features.run(spec.features(), {"model": model}, made, runtime)
    assert [stats.examples_train, stats.examples_dev, stats.examples_test] == [64, 30, 90]
    stage.run(spec, {"model": model}, without, runtime)
    monkeypatch.setattr(stage, "encoded_splits", None)
    stage.run(spec, {"model": model, "features": Artifact("features-0", made)}, with_cache, runtime)
    for name in ("metrics.json", "predictions.arrow", "dev_predictions.arrow", "curve.jsonl", "analysis.json"):
        assert (with_cache / name).read_bytes() == (without / name).read_bytes()


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "train.arrow").write_bytes(b"ARROW1 and no more")
    with pytest.raises(ShardError, match=r"train\.arrow: not a whole Arrow file"):
        FeatureTable(tmp_path / "train.arrow", tasks.load("nsmc"))
