"""Stage `features` (labels ``features/BENCHMARK``): encode all examples of a benchmark as piece ids.

Input role ``model`` is a model directory, of which only the tokenizer is read; ``train``, ``dev`` and ``test`` are downloaded
files, when the spec names them by URL. Output: ``train.arrow``, ``dev.arrow`` and ``test.arrow``, uncompressed, so that all
runs of the benchmark on a machine map them into memory and share their pages. Files are written in chunks; rows become a
``Feature`` when they are read.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyarrow import ipc
from pydantic import Field

from korealbert.artifact import Deployment, InputPath, Inputs, Progress, Runtime, Stage, Statistics
from korealbert.artifact.files import atomic_path
from korealbert.documents.benchmark_files import BenchmarkFile, local_path
from korealbert.documents.shards import ARROW_FAULTS, not_whole
from korealbert.finetune import tasks
from korealbert.finetune.spec import FeaturesSpec, FinetuneSpec
from korealbert.finetune.task import Encoded, Example, Feature, Task
from korealbert.finetune.task_types.sequence import EntailmentTriples, SequenceClassification, Triple

SPLITS = ("train", "dev", "test")

DEV_SHARE = 0.05
"""Share of train that is held out if a benchmark has no dev set."""

_SUBSET_STREAM = 1 << 32
"""Second word of the generator's key, above any epoch number: subsets and batches are drawn from different streams."""

EXAMPLES_PER_BATCH = 10_000
"""Examples that are encoded at once. It limits memory, which holds the features of one chunk."""

_IDS = pa.list_(pa.int32())
_SEGMENTS = pa.list_(pa.uint8())
_CHOICES = pa.list_(pa.struct([("input_ids", _IDS), ("token_type_ids", _SEGMENTS)]))


def read_examples(
    task: Task, spec: FeaturesSpec, inputs: Inputs | None = None, *, splits: Collection[str] = SPLITS
) -> dict[str, list[Example]]:
    """Read the wanted splits of the spec, in the order of their files; there is no test if the spec names none.

    ``inputs`` holds the downloaded files by split. Raises ValueError naming file, line, field and remedy, and
    FileNotFoundError naming a missing file, its origin and license.
    """

    def file(split: str) -> BenchmarkFile:
        return BenchmarkFile(local_path(getattr(spec, split), inputs or {}, split), getattr(spec, f"{split}_member"))

    def hold_out(split: str, share: float, remedy: str) -> None:
        found[split], found["train"] = held_out(task, found["train"], share, spec.split_seed)
        if not found["train"]:
            number = len({task.document(example) for example in found[split]})
            problem = f"its documents ({number:,}) would all be held out as {split}, and none is left to train on"
            raise ValueError(f"{file('train')}: {problem}; {remedy}")

    found: dict[str, list[Example]] = {}
    if "train" in splits or spec.dev is None or spec.test_share is not None:
        found["train"] = _read(task, file("train"))
    if spec.test_share is not None:
        hold_out("test", spec.test_share, "lower test_share, or name a file as test")
    elif spec.test is not None and "test" in splits:
        found["test"] = _read(task, file("test"))
    if spec.dev is not None:
        found["dev"] = _read(task, file("dev")) if "dev" in splits else []
    else:
        hold_out("dev", DEV_SHARE, "name a file as dev, or add documents to train")
    limits = {"train": spec.max_train_examples, "dev": spec.max_dev_examples, "test": spec.max_test_examples}
    return {name: limited(found[name], limits[name], spec.split_seed) for name in SPLITS if name in found and name in splits}


def read_triples(
    spec: FinetuneSpec, excluded: Callable[[str], bool]
) -> tuple[EntailmentTriples, dict[str, list[Example]], int]:
    """Return the task of ``spec.contrast``, its ``train`` and ``dev`` triples, and how many triples were left out.

    Triples with an ``excluded`` sentence are left out. Raises ValueError if fewer than two remain.
    """
    assert spec.contrast is not None
    file = BenchmarkFile(spec.contrast.train.path, spec.contrast.train_member)
    entailment = tasks.load(spec.contrast.task)
    assert isinstance(entailment, SequenceClassification)
    triples = EntailmentTriples(entailment, spec.contrast.scale)
    found = [example for example in triples.read(file) if isinstance(example, Triple)]
    kept: list[Example] = [triple for triple in found if not any(map(excluded, triple.sentences))]
    if len(kept) < 2:
        raise ValueError(f"{file}: {len(kept)} premises have hypotheses that they entail and contradict; give a training file")
    dev, train = held_out(triples, limited(kept, spec.contrast.max_triples, spec.split_seed), DEV_SHARE, spec.split_seed)
    return triples, {"train": train, "dev": dev}, len(found) - len(kept)


@dataclass(frozen=True)
class EncodedTriples:
    """The training data of ``spec.contrast`` as piece ids."""

    task: EntailmentTriples
    train: FeatureTable
    dev: Encoded
    described: Mapping[str, Any]
    """Title of the benchmark, and numbers of triples that are trained on, held out and left out; for ``metrics.json``."""


def encode_triples(spec: FinetuneSpec, excluded: Callable[[str], bool], tokenizer: Any, out_dir: Path) -> EncodedTriples:
    """Encode the triples of ``read_triples`` into a hidden directory, which is removed after the build."""
    triples, parts, left_out = read_triples(spec, excluded)
    tables = encoded_splits(out_dir / ".triples", triples, parts, tokenizer, max_length=spec.max_length)
    sizes = {"triples": len(parts["train"]), "held_out": len(parts["dev"]), "left_out": left_out}
    described = {"title": triples.entailment.title, **sizes}
    return EncodedTriples(triples, tables["train"], Encoded(parts["dev"], tables["dev"]), described)


def encoded_splits(
    directory: Path, task: Task, examples: Mapping[str, Sequence[Example]], tokenizer: Any, *, max_length: int
) -> dict[str, FeatureTable]:
    """Encode each split into a file of a directory."""
    directory.mkdir(exist_ok=True)
    tables = {}
    for split, part in examples.items():
        write_features(directory / f"{split}.arrow", task, part, tokenizer, max_length=max_length)
        tables[split] = FeatureTable(directory / f"{split}.arrow", task)
    return tables


def _read(task: Task, file: BenchmarkFile) -> list[Example]:
    if not file.path.exists():
        raise FileNotFoundError(f"{file}: no such file; {task.title} comes from {task.origin}")
    examples = task.read(file)
    if len(examples) < 2:
        raise ValueError(f"{file}: holds {len(examples)} examples, and scores need two; give the whole file")
    return examples


def held_out(task: Task, examples: Sequence[Example], share: float, seed: int) -> tuple[list[Example], list[Example]]:
    """Split examples into those of a random share of their documents, and the rest."""
    number = {name: index for index, name in enumerate(dict.fromkeys(task.document(example) for example in examples))}
    chosen = set(random_subset(len(number), round(len(number) * share) or 1, seed))
    held = [example for example in examples if number[task.document(example)] in chosen]
    return held, [example for example in examples if number[task.document(example)] not in chosen]


def limited(examples: list[Example], limit: int | None, seed: int) -> list[Example]:
    """Return a random subset of at most ``limit`` examples, in their order; all of them without a limit."""
    if limit is None or limit >= len(examples):
        return examples
    return [examples[index] for index in random_subset(len(examples), limit, seed)]


def random_subset(count: int, size: int, seed: int) -> list[int]:
    """Return ``size`` different numbers below ``count``, ascending; equal arguments give equal numbers."""
    generator = np.random.Generator(np.random.Philox(key=[seed, _SUBSET_STREAM]))
    return sorted(generator.permutation(count)[:size].tolist())


def write_features(path: Path, task: Task, examples: Sequence[Example], tokenizer: Any, *, max_length: int) -> int:
    """Encode examples into an Arrow file, atomically. Returns the number of features.

    Raises ValueError if there is no example, and what ``task.encode`` raises.
    """
    if not examples:
        raise ValueError(f"{path.stem}: no example to encode; give a file with more, or raise its limit")
    rows = 0
    with atomic_path(path) as temporary, pa.OSFile(str(temporary), "wb") as sink:
        writer: ipc.RecordBatchFileWriter | None = None
        schema: pa.Schema | None = None
        for start in range(0, len(examples), EXAMPLES_PER_BATCH):
            chunk = examples[start : start + EXAMPLES_PER_BATCH]
            features = task.encode(chunk, tokenizer, max_length=max_length)
            batch = _batch(task, features, start, schema)
            schema = schema or batch.schema
            writer = writer or ipc.new_file(sink, schema)
            writer.write_batch(batch)
            rows += batch.num_rows
        assert writer is not None
        writer.close()
    return rows


def _batch(task: Task, features: Sequence[Feature], start: int, schema: pa.Schema | None) -> pa.RecordBatch:
    """Convert the features of the examples from ``start`` on. A task without declared types gets those of its first batch."""
    columns = {
        "input_ids": pa.array([feature.input_ids for feature in features], _IDS),
        "token_type_ids": pa.array([feature.token_type_ids for feature in features], _SEGMENTS),
        "example": pa.array([start + feature.example for feature in features], pa.int32()),
        "target": pa.array([feature.target for feature in features], _type(task.target_type, schema, "target")),
        "layout": pa.array([task.stored_layout(f.layout) for f in features], _type(task.layout_type, schema, "layout")),
    }
    if any(feature.choices for feature in features):
        inputs = [
            [{"input_ids": c.input_ids, "token_type_ids": c.token_type_ids} for c in feature.choices] for feature in features
        ]
        columns["choices"] = pa.array(inputs, _CHOICES)
    return pa.record_batch(columns)


def _type(given: pa.DataType | None, schema: pa.Schema | None, name: str) -> pa.DataType | None:
    return schema.field(name).type if given is None and schema is not None else given


class FeatureTable(Sequence[Feature]):
    """The features of a split in the order of its examples, read from a memory-mapped file.

    Raises ShardError if the file is not a complete Arrow file.
    """

    def __init__(self, path: Path, task: Task) -> None:
        try:
            reader = ipc.open_file(pa.memory_map(str(path)))
            batches = [reader.get_batch(index) for index in range(reader.num_record_batches)]
        except ARROW_FAULTS as error:
            raise not_whole(path, error) from error
        self._parts = [_Part(batch, task) for batch in batches]
        self._ends = np.cumsum([batch.num_rows for batch in batches])
        self.lengths: npt.NDArray[np.int64] = np.concatenate([part.lengths for part in self._parts])
        """Pieces of each feature; for one with choices, the length of the longest."""

    def __len__(self) -> int:
        return int(self._ends[-1])

    def __getitem__(self, index: Any) -> Any:
        """Return a feature, or the list of a slice."""
        if isinstance(index, slice):
            return [self[row] for row in range(*index.indices(len(self)))]
        row = int(index) + len(self) if index < 0 else int(index)
        if not 0 <= row < len(self):
            raise IndexError(index)
        part = int(np.searchsorted(self._ends, row, side="right"))
        return self._parts[part].feature(row - int(self._ends[part - 1] if part else 0))

    def __iter__(self) -> Iterator[Feature]:
        return (self[row] for row in range(len(self)))


class _Part:
    """One record batch."""

    def __init__(self, batch: pa.RecordBatch, task: Task) -> None:
        self._ids, self._segments = _lists(batch.column("input_ids")), _lists(batch.column("token_type_ids"))
        self._example, self._target, self._layout = (_values(batch.column(n)) for n in ("example", "target", "layout"))
        self._choices = _values(batch.column("choices")) if "choices" in batch.schema.names else None
        self._task = task
        self.lengths = np.diff(batch.column("input_ids").offsets.to_numpy()).astype(np.int64)

    def feature(self, row: int) -> Feature:
        choices = self._choices(row) if self._choices else ()
        return Feature(
            cast("Sequence[int]", self._ids(row)),
            cast("Sequence[int]", self._segments(row)),
            self._target(row),
            self._example(row),
            self._task.restored_layout(self._layout(row)),
            tuple(Feature(c["input_ids"], c["token_type_ids"], None) for c in choices),
        )


def _lists(column: pa.Array) -> Callable[[int], npt.NDArray[Any]]:
    """Return a function from row to value of a column of number lists; values are views of the file."""
    offsets, values = column.offsets.to_numpy(), column.values.to_numpy()
    return lambda row: values[offsets[row] : offsets[row + 1]]


def _values(column: pa.Array) -> Callable[[int], Any]:
    """Return a function from row to ``column[row].as_py()``, which is many times faster for lists of numbers."""
    kind = column.type
    if column.null_count == 0 and pa.types.is_list(kind):
        if kind.value_type in (pa.int32(), pa.int64(), pa.float64()) and column.values.null_count == 0:
            numbers = _lists(column)
            return lambda row: numbers(row).tolist()
        offsets, inner = column.offsets.to_numpy(), _values(column.values)
        return lambda row: [inner(at) for at in range(offsets[row], offsets[row + 1])]
    if column.null_count == 0 and pa.types.is_struct(kind):
        fields = {field.name: _values(column.field(number)) for number, field in enumerate(kind)}
        return lambda row: {name: value(row) for name, value in fields.items()}
    if column.null_count == 0 and (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
        plain = column.to_numpy()
        return lambda row: plain[row].item()
    return lambda row: column[row].as_py()


def lengths_of(features: Sequence[Feature]) -> npt.NDArray[np.int64]:
    """Return the number of pieces of each feature; a ``FeatureTable`` knows them without reading its rows."""
    known = getattr(features, "lengths", None)
    return np.array([len(feature.input_ids) for feature in features]) if known is None else known


class FeaturesStats(Statistics):
    """Sizes of a benchmark's splits; 0 for a split that the spec does not name."""

    task: str
    examples_train: int = 0
    features_train: int = 0
    """Encoder inputs; a long example may have several."""
    mean_length_train: float = 0.0
    """Mean length of features, in pieces."""
    at_max_length_train: int = 0
    """Features of maximum length, most of which were cut."""
    examples_dev: int = 0
    features_dev: int = 0
    mean_length_dev: float = 0.0
    at_max_length_dev: int = 0
    examples_test: int = 0
    features_test: int = 0
    mean_length_test: float = 0.0
    at_max_length_test: int = 0
    tags: dict[str, int] = Field(default_factory=dict)
    """Tagged units (``B`` and ``I``) by entity type, in all splits; empty for tasks without entities."""
    entities: dict[str, int] = Field(default_factory=dict)
    """Entities by type."""


def run(spec: FeaturesSpec, inputs: Inputs, out_dir: Path, runtime: Runtime) -> FeaturesStats:
    """Encode all splits."""
    task = spec.benchmark
    tokenizer = task_tokenizer(task, inputs["model"].path)
    examples = read_examples(task, spec, inputs)
    whole = [example for part in examples.values() for example in part]
    stats: dict[str, Any] = {"task": spec.task_name, **task.gold_counts(whole)}
    for number, (split, part) in enumerate(examples.items(), start=1):
        path = out_dir / f"{split}.arrow"
        write_features(path, task, part, tokenizer, max_length=spec.max_length)
        lengths = FeatureTable(path, task).lengths
        stats[f"examples_{split}"], stats[f"features_{split}"] = len(part), len(lengths)
        stats[f"mean_length_{split}"] = round(float(lengths.mean()), 2)
        stats[f"at_max_length_{split}"] = int((lengths == spec.max_length).sum())
        runtime.report(Progress(number, len(examples), "splits"))
    return FeaturesStats.of(stats)


def task_tokenizer(task: Task, directory: Path) -> Any:
    """Load the tokenizer of a model directory and add the task's markers to it."""
    from korealbert.finetune.encoders.tokenizer import load_tokenizer  # noqa: PLC0415 (planning does without)

    tokenizer = load_tokenizer(directory)
    if task.markers:
        tokenizer.add_tokens(list(task.markers), special_tokens=True)
    return tokenizer


def _check(spec: FeaturesSpec, runtime: Runtime) -> None:
    """Raise ValueError for a file that is empty, which would otherwise show only after the training of the model."""
    for split in SPLITS:
        file = getattr(spec, split)
        if isinstance(file, InputPath) and file.path.is_file() and not file.path.stat().st_size:
            raise ValueError(
                f"field '{split}': {file.path} is empty; {spec.benchmark.title} comes from {spec.benchmark.origin}"
            )


STAGE = Stage(
    "features",
    version=2,
    spec=FeaturesSpec,
    run=run,
    check=_check,
    needs=("transformers",),
    inputs={"model": "export"},
    deployment=Deployment("Benchmarks as piece ids"),
)
