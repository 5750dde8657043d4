"""The examples of train, dev and test: read from official files, held out where a benchmark has no dev set, cut to size."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from korealbert.artifact import InputPath, Inputs
from korealbert.documents.benchmark_files import BenchmarkFile
from korealbert.finetune.spec import FeaturesSpec
from korealbert.finetune.task import Example, Task

SPLITS = ("train", "dev", "test")

_DEV_SHARE = 0.05
"""Share of train held out where a benchmark has no dev set."""

_PART_STREAM = 1 << 32
"""Second word of the generator's key, beyond any epoch's: choosing examples and ordering them draw from different streams."""


def read_examples(
    task: Task, spec: FeaturesSpec, inputs: Inputs | None = None, *, splits: Collection[str] = SPLITS
) -> dict[str, list[Example]]:
    """The examples of the wanted splits that the spec asks for, each in the order of its file; no test where it names none.

    ``inputs`` holds the fetched files by split, for those that the spec names by URL. Raises ValueError naming file, line,
    field and remedy, and FileNotFoundError naming a missing file, where it comes from and its licence.
    """

    def read(split: str) -> list[Example]:
        return _read(task, _benchmark_file(spec, split, inputs or {}))

    found: dict[str, list[Example]] = {}
    if "train" in splits or spec.dev is None or spec.test_share is not None:
        found["train"] = read("train")
    if spec.test_share is not None:
        found["test"], found["train"] = _held_out(task, found["train"], spec.test_share, spec.split_seed)
    elif spec.test is not None and "test" in splits:
        found["test"] = read("test")
    if spec.dev is not None:
        found["dev"] = read("dev") if "dev" in splits else []
    else:
        found["dev"], found["train"] = _held_out(task, found["train"], _DEV_SHARE, spec.split_seed)
    limits = {"train": spec.max_train_examples, "dev": spec.max_dev_examples, "test": spec.max_test_examples}
    return {name: _part(found[name], limits[name], spec.split_seed) for name in SPLITS if name in found and name in splits}


def _benchmark_file(spec: FeaturesSpec, split: str, inputs: Inputs) -> BenchmarkFile:
    """The file of a split: the one that the spec names, or the fetched one."""
    place, member = getattr(spec, split), getattr(spec, f"{split}_member")
    if isinstance(place, InputPath):
        return BenchmarkFile(place.path, member)
    if split not in inputs:
        raise ValueError(f"{place.url}: not fetched; give the artifact of its fetch stage as input {split!r}")
    (path,) = inputs[split].files("files/*")
    return BenchmarkFile(path, member)


def _read(task: Task, file: BenchmarkFile) -> list[Example]:
    if not file.path.exists():
        raise FileNotFoundError(f"{file}: no such file; {task.title} comes from {task.origin}")
    examples = task.read(file)
    if len(examples) < 2:
        raise ValueError(f"{file}: holds {len(examples)} examples; scores need at least 2")
    return examples


def _held_out(task: Task, examples: list[Example], share: float, seed: int) -> tuple[list[Example], list[Example]]:
    """A share of the documents of ``examples``, and the rest."""
    number = {name: index for index, name in enumerate(dict.fromkeys(task.document(example) for example in examples))}
    held_out = set(random_part(len(number), round(len(number) * share) or 1, seed))
    dev = [example for example in examples if number[task.document(example)] in held_out]
    return dev, [example for example in examples if number[task.document(example)] not in held_out]


def _part(examples: list[Example], limit: int | None, seed: int) -> list[Example]:
    if limit is None or limit >= len(examples):
        return examples
    return [examples[index] for index in random_part(len(examples), limit, seed)]


def random_part(count: int, size: int, seed: int) -> list[int]:
    """``size`` different numbers below ``count``, ascending: the same for the same arguments."""
    generator = np.random.Generator(np.random.Philox(key=[seed, _PART_STREAM]))
    return sorted(generator.permutation(count)[:size].tolist())
