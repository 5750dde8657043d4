"""Ensembles average probabilities of classes, predicted scores, and spans with the decision that there is no answer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch

from korealbert.artifact import Artifact, Runtime
from korealbert.documents.shards import TableWriter
from korealbert.finetune import tasks
from korealbert.finetune.scores import ensemble
from korealbert.finetune.stage import EVIDENCE
from korealbert.finetune.task import Encoded, Example, Feature, Spans
from korealbert.finetune.task_types.questions import Question, Window, best_span, best_spans
from tests.finetune.toml_benchmarks import REVIEWS, Bench
from tests.report.conftest import made

LINES = "id\tdocument\tlabel\n" + "".join(f"{n}\t문장 {n}\t{n % 2}\n" for n in range(4))


def test_classes_are_averaged_by_probability_not_by_vote() -> None:
    nsmc = tasks.load("nsmc")
    logits = torch.tensor([[0.2, 0.0], [0.1, 0.0], [0.0, 3.0]])
    evidence = nsmc.feature_evidence(logits, [])
    assert np.allclose(evidence, torch.softmax(logits.double(), -1).numpy())
    assert nsmc.joint_prediction(Example("1", "", 0), evidence) == 1, "two of three say 0"


def test_a_score_is_the_mean_of_the_predictions() -> None:
    sts = tasks.load("korsts")
    assert sts.feature_evidence(torch.tensor([[1.0], [4.0]]), []) == [1.0, 4.0]
    assert sts.joint_prediction(Example("1", "", 0.0), [1.0, 4.0]) == 2.5


def test_the_best_span_is_the_first_of_the_best_spans() -> None:
    logits_L2 = np.random.default_rng(3).normal(size=(14, 2)).astype(np.float32)
    window = Window(4, [(n, n + 1) for n in range(10)])
    found = best_spans(logits_L2, window, 3, number=20)
    starts, ends = logits_L2[:, 0], logits_L2[:, 1]
    every = {(a, b + 1): starts[4 + a] + ends[4 + b] for a in range(10) for b in range(a, min(a + 3, 10))}
    wanted = sorted(every, key=lambda span: -every[span])
    assert [span for _, span in found] == wanted[:20]
    assert best_span(logits_L2, window, 3)[:2] == found[0]


def test_spans_of_all_windows_share_a_probability_and_the_decision_of_none_is_averaged_apart() -> None:
    squad = tasks.load("squad2").headed("answerability")
    question = Question("q", "?", (), pair="abcdef")
    encoded = Encoded([question], [Feature([], [], None, 0), Feature([], [], None, 0)])
    first, second = ([(2.0, (0, 1)), (1.0, (2, 3))], 3.0), ([(2.5, (2, 3))], -1.0)
    [evidence] = squad.example_evidence(encoded, [first, second])
    expected = np.exp([2.5, 2.0]) / np.exp([2.5, 2.0]).sum()
    assert [(s["begin"], s["end"]) for s in evidence["spans"]] == [(2, 3), (0, 1)]
    assert np.allclose([s["probability"] for s in evidence["spans"]], expected)
    assert evidence["none"] == -1.0, "the least of the windows, as of one model"

    def one(none: float, **spans: float) -> dict[str, Any]:
        places = [{"begin": "abcdef".index(s), "end": "abcdef".index(s) + 1, "probability": p} for s, p in spans.items()]
        return {"spans": places, "none": none}

    assert squad.joint_prediction(question, [one(-1.0, a=0.6, b=0.4), one(-1.0, c=0.55, b=0.45)]) == "b"
    assert squad.joint_prediction(question, [one(-1.0, a=1.0), one(1.5, a=1.0)]) == ""
    assert tasks.load("squad1").joint_prediction(question, [one(9.0, a=1.0)]) == "a", "every question has an answer"


def test_a_single_model_agrees_with_itself() -> None:
    squad = tasks.load("squad2")
    logits = torch.from_numpy(np.random.default_rng(0).normal(size=(6, 12, 2)).astype(np.float32))
    layout = Window(3, [(n, n + 1) for n in range(9)])
    examples = [Question(str(n), "?", (), pair="abcdefghi") for n in range(3)]
    encoded = Encoded(examples, [Feature([], [], None, n // 2, layout) for n in range(6)])
    for task, given in ((squad, logits), (squad.headed("answerability"), Spans(logits, torch.linspace(-1, 1, 6)))):
        alone = task.predictions(encoded, task.decode(given, encoded.features))
        evidence = task.example_evidence(encoded, task.feature_evidence(given, encoded.features))
        assert [task.joint_prediction(e, [one]) for e, one in zip(examples, evidence, strict=True)] == alone


def cell(directory: Path, name: str, dev: float, rows: list[list[float]], task: str = "nsmc") -> Artifact:
    def write(out: Path) -> None:
        (out / "metrics.json").write_text(json.dumps({"dev": {"accuracy": dev}, "selected_by": "accuracy"}))
        schema = pa.schema([("id", pa.string()), ("evidence", pa.list_(pa.float64()))])
        with TableWriter(out / EVIDENCE, schema) as table:
            for number, row in enumerate(rows):
                table.append((str(number), row))
        schema = pa.schema([("id", pa.string()), ("gold", pa.int64()), ("pred", pa.int64())], metadata={"task": task})
        with TableWriter(out / "predictions.arrow", schema) as table:
            for number, _ in enumerate(rows):
                table.append((str(number), number % 2, 0))

    return made(directory, f"finetune/{name}", {}, write=write)


def test_the_best_on_dev_answer_and_their_scores_are_the_tasks(tmp_path: Path) -> None:
    file = tmp_path / "nsmc.txt"
    file.write_text(LINES, "utf-8")
    spec = ensemble.EnsembleSpec(task="nsmc", train=str(file), test=str(file), members=2)
    examples = ensemble.read_examples(spec.benchmark, spec, splits=("test",))["test"]
    right = [[0.9, 0.1] if e.target == 0 else [0.4, 0.6] for e in examples]
    wrong = [[0.3, 0.7] if e.target == 0 else [0.55, 0.45] for e in examples]
    store = tmp_path / "store"
    cells = {
        "a/1": cell(store, "a-1", 90.0, right),
        "a/2": cell(store, "a-2", 80.0, wrong),
        "b/1": cell(store, "b-1", 10.0, wrong),
    }
    out = tmp_path / "out"
    out.mkdir()
    stats = ensemble.run(spec, cells, out, Runtime())
    assert (stats.members, stats.test["accuracy"]) == (2, 100.0)
    found = json.loads((out / "metrics.json").read_text())
    assert [m["role"] for m in found["members"]] == ["a/1", "a/2"]
    with pytest.raises(ValueError, match="3 runs of nsmc cannot make an ensemble of 4"):
        ensemble.run(spec.model_copy(update={"members": 4}), cells, out, Runtime())
    nothing = Artifact("x", tmp_path)
    (tmp_path / "metrics.json").write_text(json.dumps({"dev": {"accuracy": 99.0}, "selected_by": "accuracy"}))
    with pytest.raises(ValueError, match="evidence = true"):
        ensemble.run(spec, {"x/1": nothing, **cells}, out, Runtime())
    with pytest.raises(ValueError, match="for '0' they were made beside the gold value 0, the gold file has 1"):
        file.write_text(LINES.replace("0\t문장 0\t0", "0\t문장 0\t1"), "utf-8")
        ensemble.run(spec, cells, out, Runtime())


def test_an_ensemble_of_a_benchmark_of_a_toml_file_has_its_name(bench: Bench, tmp_path: Path) -> None:
    rows = "".join(f"{n}\t문장 {n}\t{n % 2}\n" for n in range(4))
    file, toml = bench.write(f"number\treview\tstars\n{rows}", "test.tsv"), bench.write(REVIEWS)
    spec = ensemble.EnsembleSpec.model_validate({"task": str(toml), "train": str(file), "test": str(file)})
    evidence = [[0.9, 0.1], [0.2, 0.8], [0.6, 0.4], [0.7, 0.3]]
    cells = {f"a/{n}": cell(tmp_path / "store", f"a-{n}", 90.0 - n, evidence, "mine") for n in (1, 2)}
    out = tmp_path / "out"
    out.mkdir()
    ensemble.run(spec, cells, out, Runtime())
    found = json.loads((out / "metrics.json").read_text())
    assert (found["task"], found["title"], found["metric"], found["examples_test"]) == ("mine", "Mine", "macro_f1", 4)
    with pytest.raises(ValueError, match="2 runs of mine cannot make an ensemble of 3"):
        ensemble.run(spec.model_copy(update={"members": 3}), cells, out, Runtime())


def test_what_the_official_script_prints_as_nan_is_undefined_of_an_ensemble_too(tmp_path: Path) -> None:
    header = "genre\tfilename\tyear\tid\tscore\tsentence1\tsentence2\n"
    file = tmp_path / "sts.tsv"
    file.write_text(header + "".join(f"main\tf\t2012test\t{n:04d}\t{n}.0\t가\t나\n" for n in range(5)), "utf-8")
    ids = [f"main/f/2012test/{n:04d}" for n in range(5)]

    def constant(value: float) -> Artifact:
        def write(out: Path) -> None:
            warnings = ["dev: every prediction is the same: correlations are set to 0"] if value == 1.0 else []
            dev = {"spearman": 0.0 if warnings else 20.0}
            (out / "metrics.json").write_text(json.dumps({"dev": dev, "selected_by": "spearman", "warnings": warnings}))
            kind = pa.float64()
            with TableWriter(out / EVIDENCE, pa.schema([("id", pa.string()), ("evidence", kind)])) as table:
                for name in ids:
                    table.append((name, value))
            schema = pa.schema([("id", pa.string()), ("gold", kind), ("pred", kind)], metadata={"task": "korsts"})
            with TableWriter(out / "predictions.arrow", schema) as table:
                for number, name in enumerate(ids):
                    table.append((name, float(number), value))

        return made(tmp_path / "store", f"finetune/{value}", {}, write=write)

    spec = ensemble.EnsembleSpec(task="korsts", train=str(file), dev=str(file), test=str(file))
    out = tmp_path / "out"
    out.mkdir()
    stats = ensemble.run(spec, {"a/1": constant(1.0), "b/1": constant(2.0)}, out, Runtime())
    assert stats.test == {"spearman": None, "pearson": None}
    found = json.loads((out / "metrics.json").read_text())
    assert found["undefined"] == dict.fromkeys(("spearman", "pearson"), "every prediction is the same")
    assert [member["dev"] for member in found["members"]] == [20.0, None]
