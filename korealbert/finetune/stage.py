"""Stage `finetune` (labels ``finetune/BENCHMARK/INIT/SEED``): an encoder → its scores on dev and test of one benchmark.

Input role ``model``: a directory in Hugging Face format (the export artifact, or any encoder). Output: ``metrics.json`` (the
whole result: dev scores of every epoch, dev and test scores of the best, sizes, warnings; scores are official ones, for test
also the corrected and the best reachable), ``predictions.arrow`` (id, gold, pred of every test example) and ``curve.jsonl``
(training loss). The stage's statistics are the headline of ``metrics.json``; whoever needs a score reads the file. Killed, it
starts over: a cell takes minutes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from korealbert.arrow_tables import TableWriter
from korealbert.artifact import InputPath, Inputs, Progress, Runtime, Stage, Stats
from korealbert.benchmark_files import BenchmarkFile
from korealbert.files import atomic_write, write_json
from korealbert.finetune import tasks
from korealbert.finetune.encoder import load_encoder, load_tokenizer
from korealbert.finetune.loop import FinetunedModel, repeatable, train
from korealbert.finetune.spec import FinetuneSpec
from korealbert.finetune.task import Encoded, Example, Task
from korealbert.model.device import pick_device
from korealbert.model.parameters import count_parameters

DEV_SHARE = 0.05
"""Share of train held out where a benchmark has no dev set."""

PART_STREAM = 1 << 32
"""Second word of the generator's key, beyond any epoch's: choosing examples and ordering them draw from different streams."""

HEADLINE = ("metric", "dev", "test", "best_epoch", "warnings")
"""What of ``metrics.json`` the stage's statistics repeat, for whoever looks at a store or a running flow."""


def run(spec: FinetuneSpec, inputs: Inputs, out_dir: Path, runtime: Runtime) -> Stats:
    """Fine-tune, select, test; see the module's docstring."""
    task = tasks.load(spec.task)
    examples = read_examples(task, spec)
    device = pick_device(runtime.device)
    directory = inputs["model"].path
    tokenizer = load_tokenizer(directory)

    def report(step: int, total: int, metrics: Mapping[str, float]) -> None:
        runtime.report(Progress(step, total, "steps", metrics))

    with repeatable(seed=spec.seed, threads=runtime.threads, device=device):
        encoder = load_encoder(directory, init=spec.init)
        if spec.max_length > encoder.max_length:
            raise ValueError(
                f"max_length is {spec.max_length}, but {directory}/config.json has positions for {encoder.max_length} pieces"
            )
        if task.markers:
            tokenizer.add_tokens(list(task.markers), special_tokens=True)
            encoder.make_room(len(tokenizer))
        features = {split: task.encode(part, tokenizer, max_length=spec.max_length) for split, part in examples.items()}
        head = task.head(hidden_size=encoder.hidden_size, dropout=spec.dropout, train=features["train"])
        model = FinetunedModel(task, encoder.to(device), head.to(device), tokenizer.pad_token_id, device)
        history = train(model, features["train"], Encoded(examples["dev"], features["dev"]), spec, report)
        encoded_test = Encoded(examples["test"], features["test"])
        predicted = model.predict(encoded_test)
    test = task.score(examples["test"], predicted, "official")
    corrected = task.score(examples["test"], predicted, "corrected")
    oracle = task.oracle(encoded_test)
    warnings = [f"dev: {text}" for text in history.dev.warnings] + [f"test: {text}" for text in test.warnings]
    if spec.init == "pretrained" and spec.max_length > tokenizer.model_max_length:
        warnings.append(f"max_length is {spec.max_length}, pretraining saw {tokenizer.model_max_length} pieces at most")

    result = {
        "task": spec.task,
        "title": task.title,
        "init": spec.init,
        "seed": spec.seed,
        "metric": task.metric,
        "dev": dict(history.dev.values),
        "test": dict(test.values),
        "test_corrected": dict(corrected.values),
        "test_oracle": None if oracle is None else dict(task.score(examples["test"], oracle, "official").values),
        "epochs": history.epochs,
        "best_epoch": history.best_epoch,
        **{f"examples_{split}": len(part) for split, part in examples.items()},
        "examples_test_official": task.official_test_examples,
        "examples_at_max_length": sum(len(f.input_ids) == spec.max_length for part in features.values() for f in part),
        "parameters": count_parameters(model.modules),
        "warnings": warnings,
    }
    write_json(out_dir / "metrics.json", result)
    _write_predictions(out_dir / "predictions.arrow", task, examples["test"], predicted)
    atomic_write(out_dir / "curve.jsonl", "".join(json.dumps(point) + "\n" for point in history.curve).encode())
    return {name: result[name] for name in HEADLINE}


def read_examples(task: Task, spec: FinetuneSpec) -> dict[str, list[Example]]:
    """The examples of ``train``, ``dev`` and ``test`` that the spec asks for, each in the order of its file."""
    train_examples = _read(task, spec.train, spec.train_member)
    if spec.dev is not None:
        dev = _read(task, spec.dev, spec.dev_member)
    else:
        dev, train_examples = _held_out(task, train_examples, spec.split_seed)
    return {
        "train": _part(train_examples, spec.max_train_examples, spec.split_seed),
        "dev": _part(dev, spec.max_dev_examples, spec.split_seed),
        "test": _part(_read(task, spec.test, spec.test_member), spec.max_test_examples, spec.split_seed),
    }


def _held_out(task: Task, examples: list[Example], seed: int) -> tuple[list[Example], list[Example]]:
    """A share of the documents of ``examples``, and the rest."""
    number = {name: index for index, name in enumerate(dict.fromkeys(task.document(example) for example in examples))}
    held_out = set(random_part(len(number), round(len(number) * DEV_SHARE) or 1, seed))
    dev = [example for example in examples if number[task.document(example)] in held_out]
    return dev, [example for example in examples if number[task.document(example)] not in held_out]


def _read(task: Task, path: InputPath, member: str) -> list[Example]:
    file = BenchmarkFile(path.path, member)
    examples = task.read(file)
    if len(examples) < 2:
        raise ValueError(f"{file}: holds {len(examples)} examples; scores need at least 2")
    return examples


def _part(examples: list[Example], limit: int | None, seed: int) -> list[Example]:
    if limit is None or limit >= len(examples):
        return examples
    return [examples[index] for index in random_part(len(examples), limit, seed)]


def random_part(count: int, size: int, seed: int) -> list[int]:
    """``size`` different numbers below ``count``, ascending: the same for the same arguments."""
    generator = np.random.Generator(np.random.Philox(key=[seed, PART_STREAM]))
    return sorted(generator.permutation(count)[:size].tolist())


def _write_predictions(path: Path, task: Task, examples: Sequence[Example], predicted: Sequence[Any]) -> None:
    schema = pa.schema([("id", pa.string()), ("gold", task.prediction_type), ("pred", task.prediction_type)])
    with TableWriter(path, schema) as table:
        for example, prediction in zip(examples, predicted, strict=True):
            table.append((example.id, task.kept(example.target), task.kept(prediction)))


STAGE = Stage("finetune", version=3, spec=FinetuneSpec, run=run)
