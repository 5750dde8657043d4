"""The summary of a benchmark's cells: it has their scores, sums give the same as scoring, and systems are compared."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from korealbert.artifact import Artifact, Runtime
from korealbert.documents.shards import TableWriter
from korealbert.finetune import stage, tasks
from korealbert.finetune.features import read_examples
from korealbert.finetune.metrics import Mode
from korealbert.finetune.scores import summary
from korealbert.finetune.spec import FinetuneSpec
from korealbert.finetune.task import Example
from korealbert.finetune.tasks.klue_dp import Tree
from korealbert.finetune.tasks.klue_re import Relation
from tests.finetune.test_all_tasks import FILES
from tests.finetune.test_stage import QUICK
from tests.report.conftest import made

Random = np.random.Generator


def some_answer(task_name: str, example: Example, others: list[Example], random: Random) -> Any:
    """Return the gold answer, or another example's if it fits."""
    target = example.target if random.random() < 0.6 else others[int(random.integers(len(others)))].target
    if task_name == "klue_re":
        return Relation(target, list(random.dirichlet(np.ones(30))))
    if task_name == "klue_dst":
        return list(target)
    if task_name == "klue_dp":
        heads, relations = target if len(target[0]) == len(example.target[0]) else example.target
        return Tree(tuple(heads), tuple(relations))
    if task_name in ("naver_ner", "klue_ner"):
        return list(target if len(target) == len(example.target) else ["O"] * len(example.target))
    return target[0].text if isinstance(target, tuple) and target else "" if isinstance(target, tuple) else target


@pytest.mark.parametrize("mode", ["official", "corrected"])
@pytest.mark.parametrize("task_name", FILES)
def test_sums_over_examples_give_what_the_task_scores(task_name: str, mode: Mode, tmp_path: Path) -> None:
    random = np.random.default_rng(1)
    task = tasks.load(task_name)
    path = tmp_path / "file"
    path.write_text(FILES[task_name](random, 30), "utf-8")
    spec = FinetuneSpec(task=task_name, train=path, dev=path, test=path)
    examples = read_examples(task, spec, splits=("test",))["test"]
    predicted = [some_answer(task_name, example, examples, random) for example in examples]
    others = [some_answer(task_name, example, examples, random) for example in examples]
    ours, theirs = (task.answered(examples, answers, mode) for answers in (predicted, others))
    assert ours is not None and theirs is not None

    def score(chosen: list[Example], answers: list[Any]) -> float:
        return task.score(chosen, answers, mode).values[task.metric]

    assert ours.over(np.ones((len(examples), 1))) == pytest.approx(score(examples, predicted))
    for _ in range(5):
        rows = random.integers(len(examples), size=len(examples))
        expected = score([examples[row] for row in rows], [predicted[row] for row in rows])
        assert ours.over(np.bincount(rows, minlength=len(examples))[:, None].astype(float)) == pytest.approx(expected)
        mask = random.random(len(examples)) < 0.5
        mixed = [b if swap else a for swap, a, b in zip(mask, predicted, others, strict=True)]
        assert ours.parted(mask[:, None]).completed(theirs.parted(mask[:, None])) == pytest.approx(score(examples, mixed))


@pytest.mark.parametrize("which", ["nsmc", "korsts"])
def test_cells_are_summed_up_and_compared(
    which: str, model: Artifact, runtime: Runtime, fresh: Callable[[str], Path], request: pytest.FixtureRequest
) -> None:
    files: dict[str, Any] = request.getfixturevalue(which)
    spec = FinetuneSpec(**{**files, **QUICK, "epochs": 3, "max_train_examples": 200})
    cells = {}
    for system, more in {"pretrained": {}, "short": {"epochs": 1, "learning_rate": 1e-5}}.items():
        for seed in (1, 2):
            out = fresh(f"{system}-{seed}")
            stage.run(spec.with_settings({"seed": seed, **more}), {"model": model}, out, runtime)
            cells[f"{system}/{seed}"] = Artifact(f"finetune-{system}{seed}", out)
    out = fresh("summary")
    spec_of_all = summary.SummarySpec(**dict(spec.features()), resamples=60)
    stats = summary.run(spec_of_all, cells, out, runtime)
    found = json.loads((out / "summary.json").read_text("utf-8"))
    metric = tasks.load(which).metric
    for system in ("pretrained", "short"):
        scores = [
            json.loads((cells[f"{system}/{seed}"].path / "metrics.json").read_text("utf-8"))["test"][metric] for seed in (1, 2)
        ]
        own = found["systems"][system]
        assert list(own["scores"].values()) == pytest.approx(scores)
        assert (own["best"], own["mean"]) == pytest.approx((max(scores), sum(scores) / 2))
        assert own["interval"][0] <= own["mean"] <= own["interval"][1]
        assert stats.systems[system].mean == round(own["mean"], 4)
    (pair,) = found["comparisons"]
    assert pair["difference"] == pytest.approx(found["systems"]["pretrained"]["mean"] - found["systems"]["short"]["mean"])
    assert pair["interval"][0] < pair["difference"] < pair["interval"][1]
    assert (pair["p_value"] < 0.05) == (pair["interval"][0] > 0)
    assert ("mcnemar" in pair) == (which == "nsmc")
    again = fresh("again")
    summary.run(spec_of_all, cells, again, runtime)
    assert (again / "summary.json").read_bytes() == (out / "summary.json").read_bytes()
    other = spec_of_all.model_copy(update={"max_test_examples": 20})
    with pytest.raises(ValueError, match=r"predictions\.arrow: the predictions are of other examples than the gold file's"):
        summary.run(other, cells, fresh("other"), runtime)
    task = tasks.load(which)
    examples = read_examples(task, spec_of_all, splits=("test",))["test"]
    turned = [replace(example, target=1 - example.target) for example in examples]
    with pytest.raises(ValueError, match=r"predictions\.arrow: .* they were made beside the gold value"):
        summary.answers_of(task, turned, {1: cells["short/1"]})
    other_task = tasks.load("hate_speech" if which == "nsmc" else "klue_sts")
    with pytest.raises(ValueError, match=f"predictions of {which}, not of "):
        summary.answers_of(other_task, examples, {1: cells["short/1"]})


def test_means_of_an_undefined_score_and_differences_from_it_are_null_with_the_reason(tmp_path: Path) -> None:
    why = "every prediction is the same"
    file = tmp_path / "sts.tsv"
    header = "genre\tfilename\tyear\tid\tscore\tsentence1\tsentence2\n"
    file.write_text(header + "".join(f"main\tf\t2012\t{n:04d}\t{n % 6}.0\t가\t나\n" for n in range(30)), "utf-8")
    spec = summary.SummarySpec(task="korsts", train=str(file), dev=str(file), test=str(file), resamples=20)
    examples = read_examples(tasks.load("korsts"), spec, splits=("test",))["test"]

    def cell(name: str, predicted: list[float]) -> Artifact:
        def write(out: Path) -> None:
            undefined = {} if len(set(predicted)) > 1 else {"undefined": {"spearman": why}}
            content = {"dev": {"spearman": 1.0}, "selected_by": "spearman", "test": {"spearman": 0.0}, **undefined}
            (out / "metrics.json").write_text(json.dumps(content))
            kind = pa.float64()
            schema = pa.schema([("id", pa.string()), ("gold", kind), ("pred", kind)], metadata={"task": "korsts"})
            with TableWriter(out / "predictions.arrow", schema) as table:
                for example, value in zip(examples, predicted, strict=True):
                    table.append((example.id, float(example.target), value))

        return made(tmp_path / "store", f"finetune/{name}", {}, write=write)

    defined = [float(example.target) for example in examples]
    cells = {"a/1": cell("a1", [2.0] * len(examples)), "a/2": cell("a2", defined), "b/1": cell("b1", defined[::-1])}
    stats = summary.run(spec, cells, tmp_path, Runtime())
    found = json.loads((tmp_path / "summary.json").read_text("utf-8"))
    lost = {**dict.fromkeys(("best", "mean", "sd", "median", "interval")), "undefined": {"1": why}}
    assert found["systems"]["a"] == {**lost, "scores": {"1": None, "2": pytest.approx(100.0)}}
    assert found["comparisons"] == [{"first": "a", "second": "b", **dict.fromkeys(("difference", "interval", "p_value"))}]
    assert stats.systems["a"].mean is None and stats.systems["b"].mean is not None
