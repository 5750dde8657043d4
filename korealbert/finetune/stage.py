"""Stage `finetune` (labels ``finetune/BENCHMARK/INIT/SEED``): fine-tune an encoder and score it on one benchmark.

Input roles:

- ``model``: a directory in Hugging Face format (the export artifact, or any encoder).
- ``pretrain``: the pretraining artifact, when layers share parameters in a way that the format cannot express.
- ``features``: the benchmark as piece ids, from stage ``features``. Without it the examples are encoded here.
- ``settings``: its ``settings.json`` replaces fields of the spec (stages ``proposal`` and ``selection``).
- ``train``, ``dev``, ``test``: downloaded files, when the spec names them by URL.

Output:

- ``metrics.json``: settings, dev scores of every epoch, scores of the best epoch, sizes, warnings. Scores are official ones;
  for test there are also the corrected scores and the best reachable ones. ``undefined`` gives the reason for each score that
  the official script prints as ``nan``; ``test`` then has our value, because means need a number. ``contrast`` describes a
  preceding training on triples.
- ``dev_predictions.arrow``, ``predictions.arrow``: id, gold, pred and loss of every dev and test example. Their metadata name
  the task, and its head unless that is the task's own.
- ``analysis.json``: confusions and the hardest test examples (see ``analysis``). ``curve.jsonl``: the training loss.
- With ``onnx`` the model itself (see ``OnnxModel``); its test scores are ``test_onnx_fp32`` and ``test_onnx_int8``.
- With ``evidence`` ``evidence.arrow``: id and evidence of every test prediction.

A spec without ``test`` is scored on dev only. A killed run starts over, since it takes only minutes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pydantic import Field

from korealbert.artifact import Deployment, Inputs, Progress, Runtime, Stage, Statistics
from korealbert.artifact.files import atomic_write, write_json
from korealbert.documents.shards import TableWriter
from korealbert.finetune.features import (
    SPLITS,
    FeatureTable,
    encode_triples,
    encoded_splits,
    read_examples,
    task_tokenizer,
)
from korealbert.finetune.scores.analysis import analysis
from korealbert.finetune.search import AXES
from korealbert.finetune.spec import FinetuneSpec
from korealbert.finetune.task import Encoded, Example, Feature, Task
from korealbert.huggingface.onnx import check_onnx
from korealbert.pretrain.runtime import TrainingRuntime, check_device, pick_device

if TYPE_CHECKING:
    from korealbert.finetune.model import Answers, FinetunedModel


class FinetuneStats(Statistics):
    """The headline of ``metrics.json``, for stores and running flows."""

    metric: str
    """The task's main metric."""
    head: str = "own"
    dev: dict[str, float]
    """Official dev scores of the best epoch by metric, times 100; empty if the run diverged."""
    test: dict[str, float] = Field(default_factory=dict)
    """Official test scores; empty in runs of a search."""
    best_epoch: int
    """Counted from 1; 0 if the run diverged."""
    warnings: list[str]

    @classmethod
    def within(cls, result: Mapping[str, Any]) -> FinetuneStats:
        """The statistics in the content of ``metrics.json``."""
        return cls.model_validate({name: result[name] for name in cls.model_fields if name in result})


EVIDENCE = "evidence.arrow"
"""Id and evidence of every test example: the input of an ensemble."""


def run(spec: FinetuneSpec, inputs: Inputs, out_dir: Path, runtime: Runtime) -> FinetuneStats:
    """Fine-tune, select the best epoch on dev, and test it.

    When the loss becomes infinite or nan, a run of a search has no dev scores; any other run raises Diverged.
    """
    from korealbert.finetune.model import Diverged  # noqa: PLC0415 (planning does without)

    spec = _settled(spec, inputs)
    try:
        return _run(spec, inputs, out_dir, TrainingRuntime.of(runtime))
    except Diverged as error:
        if spec.tested:
            raise
        task = spec.benchmark
        result = {**_described(task, spec), "dev": {}, "epochs": [], "best_epoch": 0, "warnings": [f"dev: {error}"]}
        write_json(out_dir / "metrics.json", result)
        return FinetuneStats.within(result)


def _settled(spec: FinetuneSpec, inputs: Inputs) -> FinetuneSpec:
    """Return the spec, with the settings that a search chose or tries."""
    if "settings" not in inputs:
        return spec
    return spec.with_settings(inputs["settings"].read_json("settings.json"))


def _memory_class(spec: FinetuneSpec, inputs: Inputs) -> str:
    """Return what a run's memory depends on: the encoder, the examples, the number of pieces per forward pass, and what else
    the run does: training on triples, export as ONNX, whitening."""
    batch_size = spec.micro_batch_size or _settled(spec, inputs).batch_size
    examples = f"{spec.max_train_examples} {spec.max_dev_examples} {spec.max_test_examples if spec.tested else 0}"
    head = f" {spec.head}" if spec.head == "bi-encoder" else ""
    before = spec.contrast
    contrast = f" contrast {before.task} {before.max_triples} {before.batch_size}" if before is not None else ""
    onnx = f" onnx {' '.join(spec.onnx)}" if spec.onnx else ""
    whitened = " whitened" if spec.whiten else ""
    sizes = f"{examples} {spec.max_length} {batch_size} {spec.precision}{contrast}{onnx}{whitened}"
    return f"{inputs['model'].name} {spec.task_name}{head} {sizes}"


def _run(spec: FinetuneSpec, inputs: Inputs, out_dir: Path, runtime: TrainingRuntime) -> FinetuneStats:
    from korealbert.finetune.encoders.encoder import load_input  # noqa: PLC0415 (planning does without)
    from korealbert.finetune.loop import repeatable, steps_of, train  # noqa: PLC0415 (planning does without)
    from korealbert.finetune.model import FinetunedModel  # noqa: PLC0415 (planning does without)
    from korealbert.model.parameters import count_parameters  # noqa: PLC0415 (planning does without)

    task = spec.benchmark
    device = pick_device(runtime.device, local_rank=runtime.gpu)
    directory = inputs["model"].path
    tokenizer = task_tokenizer(task, directory)
    examples = read_examples(task, spec, inputs, splits=SPLITS if "features" not in inputs else SPLITS[1:])

    def report(step: int, total: int, metrics: Mapping[str, float]) -> None:
        runtime.report(Progress(step, total, "steps", metrics))

    with repeatable(seed=spec.seed, threads=runtime.threads, device=device):
        encoder = load_input(inputs, init=spec.init, dropout=spec.encoder_dropout)
        encoder.check_length(spec.max_length, directory)
        if task.markers:
            encoder.make_room(len(tokenizer))
        features = _features(task, spec, inputs, out_dir, examples, tokenizer)
        steps_of(spec, len(features["train"]))  # Raises before triples are trained on.
        model = FinetunedModel.of(spec, encoder, features["train"], pad_id=tokenizer.pad_token_id, device=device)
        before = {} if spec.contrast is None else _contrasted(spec, model, examples, tokenizer, out_dir, report)
        if spec.whiten:
            model.whiten(features["train"])
        history = train(model, features["train"], Encoded(examples["dev"], features["dev"]), spec, report)
        encoded = {split: Encoded(examples[split], features[split]) for split in SPLITS[1:] if split in examples}
        answers = {split: model.answer(part, with_losses=True) for split, part in encoded.items()}
        evidence = model.evidence(encoded["test"]) if spec.evidence and "test" in encoded else None

    onnx_scores = _as_onnx(spec, model, encoded.get("test"), out_dir, runtime.threads) if spec.onnx else {}
    if evidence is not None:
        _write_evidence(out_dir / EVIDENCE, task, examples["test"], evidence)
    tested, warnings = _tested(task, encoded["test"], answers["test"].predicted) if "test" in encoded else ({}, [])
    warnings = [*(f"dev: {text}" for text in history.dev.warnings), *warnings]
    if spec.init == "pretrained" and spec.max_length > tokenizer.model_max_length:
        warnings.append(f"max_length is {spec.max_length}, pretraining saw {tokenizer.model_max_length} pieces at most")
    result = {
        **_described(task, spec),
        **before,
        "dev": dict(history.dev.values),
        **tested,
        **onnx_scores,
        "epochs": history.epochs,
        "best_epoch": history.best_epoch,
        **_sizes(task, spec, features, encoded),
        "parameters": count_parameters(model.modules),
        "warnings": warnings,
    }
    write_json(out_dir / "metrics.json", result)
    for split, name in (("dev", "dev_predictions.arrow"), ("test", "predictions.arrow")):
        if split in answers:
            _write_predictions(out_dir / name, spec.task_name, task, examples[split], answers[split])
    if "test" in answers:
        write_json(out_dir / "analysis.json", analysis(task, examples["test"], *answers["test"]))
    atomic_write(out_dir / "curve.jsonl", "".join(json.dumps(point) + "\n" for point in history.curve).encode())
    return FinetuneStats.within(result)


def _as_onnx(
    spec: FinetuneSpec, model: FinetunedModel, test: Encoded | None, out_dir: Path, threads: int
) -> dict[str, dict[str, float]]:
    """Write the model as ONNX; returns its official test scores in each form, none without a test set."""
    from korealbert.finetune.model import OnnxModel, write_model  # noqa: PLC0415 (planning does without)

    write_model(model, out_dir, spec.onnx)
    if test is None:
        return {}
    found = {form: OnnxModel.within(out_dir, form, model, threads=threads).evaluate(test) for form in spec.onnx}
    return {f"test_onnx_{form}": dict(scores.values) for form, scores in found.items()}


def _contrasted(
    spec: FinetuneSpec,
    model: FinetunedModel,
    examples: Mapping[str, Sequence[Example]],
    tokenizer: Any,
    out_dir: Path,
    report: Callable[[int, int, Mapping[str, float]], None],
) -> dict[str, Any]:
    """Train the model on entailment triples; returns the field ``contrast`` of ``metrics.json``.

    Triples with a sentence of dev are left out, and those with one of test unless the run belongs to a search.
    """
    from korealbert.finetune.loop import contrast  # noqa: PLC0415 (planning does without)

    scored = [example for split in SPLITS[1:] for example in examples.get(split, ())]
    excluded = {text.strip() for example in scored for text in (example.text, example.pair) if text}
    triples = encode_triples(spec, lambda text: text.strip() in excluded, tokenizer, out_dir)
    history = contrast(model, triples, spec, report)
    return {"contrast": {**triples.described, "epochs": history.epochs, "best_epoch": history.best_epoch}}


def _features(
    task: Task, spec: FinetuneSpec, inputs: Inputs, out_dir: Path, examples: Mapping[str, list[Example]], tokenizer: Any
) -> dict[str, FeatureTable]:
    """The features by split, from the cached artifact or encoded into a hidden directory that is removed after the build."""
    if "features" not in inputs:
        return encoded_splits(out_dir / ".features", task, examples, tokenizer, max_length=spec.max_length)
    splits = SPLITS if spec.tested else SPLITS[:2]
    return {split: FeatureTable(inputs["features"].path / f"{split}.arrow", task) for split in splits}


def _described(task: Task, spec: FinetuneSpec) -> dict[str, Any]:
    """Return the fields of ``metrics.json`` that are known before the run."""
    settings = {name: getattr(spec, name) for name in AXES}
    others = ("steps", "warmup_steps", "encoder_dropout", "whiten")
    settings |= {name: getattr(spec, name) for name in others if getattr(spec, name) != FinetuneSpec.model_fields[name].default}
    known = {"task": spec.task_name, "title": task.title, "init": spec.init, "seed": spec.seed}
    if spec.head != "own":
        known["head"] = spec.head
    return {**known, "settings": settings, "metric": task.metric, "selected_by": task.selects_by}


def _tested(task: Task, test: Encoded, predicted: Sequence[Any]) -> tuple[dict[str, Any], list[str]]:
    """Return the test scores in both modes with the best reachable ones, and warnings."""
    official = task.score(test.examples, predicted, "official")
    oracle = task.oracle(test)
    scores: dict[str, Any] = {
        "test": dict(official.values),
        "test_corrected": dict(task.score(test.examples, predicted, "corrected").values),
        "test_oracle": None if oracle is None else dict(task.score(test.examples, oracle, "official").values),
    }
    if official.undefined:
        scores["undefined"] = dict(official.undefined)
    return scores, [f"test: {text}" for text in official.warnings]


def _sizes(
    task: Task, spec: FinetuneSpec, features: Mapping[str, Sequence[Feature]], encoded: Mapping[str, Encoded]
) -> dict[str, int | None]:
    train, test = features["train"], encoded.get("test")
    return {
        "examples_train": train[len(train) - 1].example + 1,
        **{f"examples_{split}": len(part.examples) for split, part in encoded.items()},
        "examples_test_official": task.official_size(test.examples if test else ()),
    }


def _write_evidence(path: Path, task: Task, examples: Sequence[Example], evidence: Sequence[Any]) -> None:
    """Write what an ensemble averages."""
    assert task.evidence_type is not None
    schema = pa.schema([("id", pa.string()), ("evidence", task.evidence_type)])
    with TableWriter(path, schema) as table:
        for example, value in zip(examples, evidence, strict=True):
            table.append((example.id, value))


def _write_predictions(path: Path, name: str, task: Task, examples: Sequence[Example], answers: Answers) -> None:
    kind = task.prediction_type
    metadata = {"task": name} if task.chosen == "own" else {"task": name, "head": task.chosen}
    schema = pa.schema([("id", pa.string()), ("gold", kind), ("pred", kind), ("loss", pa.float32())], metadata=metadata)
    with TableWriter(path, schema) as table:
        for example, prediction, loss in zip(examples, *answers, strict=True):
            table.append((example.id, task.stored(example.target), task.stored(prediction), loss))


def _check(spec: FinetuneSpec, runtime: Runtime) -> None:
    check_device(spec, runtime)
    check_onnx(bool(spec.onnx), "[finetune.NAME] onnx")


STAGE = Stage(
    "finetune",
    version=9,
    spec=FinetuneSpec,
    run=run,
    memory_class=_memory_class,
    check=_check,
    needs=("torch", "transformers"),
    table="finetune.NAME",
    inputs={"model": "export", "features": "features/NAME"},
    required=True,
    deployment=Deployment("Fine-tune on every benchmark and seed", gpu=True),
)
