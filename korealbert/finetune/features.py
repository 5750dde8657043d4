"""Stage `features` (labels ``features/BENCHMARK``): official files and a model's tokenizer → every example as piece ids.

Input role ``model``: as of stage ``finetune``; only its tokenizer is read. Roles ``train``, ``dev`` and ``test``: fetched
files, for those that the spec names by URL. Output: ``train.arrow``, ``dev.arrow`` and ``test.arrow`` (see
``feature_table``), which all inits, seeds and settings of the benchmark read.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from korealbert.artifact import Inputs, Progress, Runtime, Stage, Stats
from korealbert.finetune import tasks
from korealbert.finetune.feature_table import FeatureTable, write_features
from korealbert.finetune.spec import FeaturesSpec
from korealbert.finetune.splits import read_examples
from korealbert.finetune.task import Task


def run(spec: FeaturesSpec, inputs: Inputs, out_dir: Path, runtime: Runtime) -> Stats:
    """Encode all splits; see the module's docstring."""
    task = tasks.load(spec.task)
    tokenizer = task_tokenizer(task, inputs["model"].path)
    examples = read_examples(task, spec, inputs)
    stats: Stats = {"task": spec.task}
    for number, (split, part) in enumerate(examples.items(), start=1):
        path = out_dir / f"{split}.arrow"
        write_features(path, task, part, tokenizer, max_length=spec.max_length)
        lengths = FeatureTable(path, task).lengths
        stats[f"examples_{split}"], stats[f"features_{split}"] = len(part), len(lengths)
        stats[f"mean_length_{split}"] = round(float(lengths.mean()), 2)
        stats[f"at_max_length_{split}"] = int((lengths == spec.max_length).sum())
        runtime.report(Progress(number, len(examples), "splits"))
    return stats


def task_tokenizer(task: Task, directory: Path) -> Any:
    """The tokenizer of a model's directory, with the markers that a task puts into its texts."""
    from korealbert.finetune.encoder import load_tokenizer  # noqa: PLC0415 (planning does without)

    tokenizer = load_tokenizer(directory)
    if task.markers:
        tokenizer.add_tokens(list(task.markers), special_tokens=True)
    return tokenizer


STAGE = Stage("features", version=1, spec=FeaturesSpec, run=run)
