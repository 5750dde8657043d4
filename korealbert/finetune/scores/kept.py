"""Predictions that a cell has kept, checked to be of the benchmark and of the examples that they are scored on."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
from pyarrow import ipc

from korealbert.artifact import Artifact
from korealbert.artifact.files import MANIFEST, digest_of_listing, files_of, is_of_an_artifact, sha256_of_file
from korealbert.documents.benchmark_files import BenchmarkFile, Line
from korealbert.finetune import tasks
from korealbert.finetune.features import DEV_SHARE, held_out, limited
from korealbert.finetune.task import Example, Task

PREDICTIONS = "predictions.arrow"
"""What a cell keeps: id, gold, pred and loss of every test example."""


class Row(Line):
    """A row of a table."""

    def error(self, field: str, problem: str, remedy: str) -> ValueError:
        """The error to raise for this row, naming file, row, field and remedy."""
        return ValueError(f"{self.file}, row {self.number}, field {field!r}: {problem}; {remedy}")


class Kept(NamedTuple):
    """A prediction as the task's ``prediction_type`` stores it."""

    row: Row
    value: Any


def read_kept(file: BenchmarkFile, benchmark: Task, examples: Sequence[Example]) -> list[Kept]:
    """The predictions that a cell has kept, one per example in their order.

    Raises ValueError where they are of another task or of other examples, by their ids or their gold values, where an id is
    repeated, or a prediction is missing.
    """
    task = tasks.name_of_task(benchmark)
    try:
        with ipc.open_file(pa.BufferReader(file.content())) as reader:
            table = reader.read_all()
        table.validate(full=True)
        ids, values = table["id"].to_pylist(), table["pred"].to_pylist()
    except (pa.ArrowException, KeyError, OSError) as error:
        remedy = "name predictions.arrow of a fine-tuning, or a file of JSON Lines"
        raise ValueError(f"{file}: no predictions of ours ({error}); {remedy}") from None
    made_for = (table.schema.metadata or {}).get(b"task", task.encode()).decode(errors="replace")
    if made_for != task:
        raise ValueError(f"{file}: predictions of {made_for}, not of {task}; name the task that they are of")
    if table["pred"].type != benchmark.prediction_type:
        raise ValueError(f"{file}: predictions of another kind than those of {benchmark.title}; name the task that they are of")
    kept: dict[str, Kept] = {}
    for number, (name, value) in enumerate(zip(ids, values, strict=True), start=1):
        row = Row(str(file), number, "")
        if name in kept:
            raise row.error("id", f"{name!r} is in row {kept[name].row.number} too", "keep one of the two")
        if value is None:
            raise row.error("pred", "found null", "give a prediction of each example")
        kept[name] = Kept(row, value)
    strange = next(iter({example.id: None for example in examples}.keys() ^ kept.keys()), None)
    if strange is not None:
        problem = f"the predictions are of other examples than the gold file's: {strange!r} is in one of them only"
        remedy = "name the file that was the cell's test"
        if kept.keys() < {example.id for example in examples}:
            remedy += f"; where they are of a part, name {PREDICTIONS} in the cell's own directory: its manifest tells which"
        raise ValueError(f"{file}: {problem}; {remedy}")
    _check_gold(file, table, benchmark, examples)
    return [kept[example.id] for example in examples]


def _check_gold(file: BenchmarkFile, table: pa.Table, benchmark: Task, examples: Sequence[Example]) -> None:
    """Raise ValueError where the gold values that a cell has kept are not the gold file's: two sets may have the same ids."""
    if "gold" not in table.column_names:
        return
    kept = dict(zip(table["id"].to_pylist(), table["gold"].to_pylist(), strict=True))
    gold = pa.array([benchmark.kept(example.target) for example in examples], benchmark.prediction_type).to_pylist()
    for example, value in zip(examples, gold, strict=True):
        if kept[example.id] != value:
            found = f"for {example.id!r} they were made beside the gold value {kept[example.id]!r}, the gold file has {value!r}"
            problem = f"the predictions are of other examples than the gold file's: {found}"
            raise ValueError(f"{file}: {problem}; name the file that was the cell's test")


_PACKED = (".gz", ".bz2", ".xz", ".zst")


class Difference(NamedTuple):
    """What the recipe of a cell says of its task, or of its test (or dev) file, where a score is of another."""

    text: str
    certain: bool = True
    """False: its file was packed, so that the same content may have another digest."""


def differences(
    recipe: Mapping[str, Any], task: str, gold: BenchmarkFile, predictions: str, *, stored: str | None = None
) -> Iterator[Difference]:
    """How a score differs from the recipe of the cell whose file of predictions (a name) was scored.

    The gold file may be packed where the cell's was not. ``stored``: the digest of the gold file, which then need not be there.
    """
    spec, split = _spec_and_split(recipe, predictions)
    named = spec.get("task")
    named = named.get("name") if isinstance(named, Mapping) else named
    if named not in (None, task):
        yield Difference(f"task: the score is of {task}, the recipe of the cell has {named}")
    if (spec.get("test_share") is not None) if split == "test" else (spec.get("dev") is None):
        split = "train"  # A part of it is held out.
    file = spec.get(split)
    digest = file.get("sha256") if isinstance(file, Mapping) else None
    if digest is None or not isinstance(file, Mapping):
        return
    member = str(spec.get(f"{split}_member") or "")
    found = stored or digest_of(gold.path)
    if (digest, member) == (found, gold.member) or (not member and digest == _digest_of_content(gold)):
        return
    packed = bool(member) or str(file.get("name") or file.get("url")).lower().endswith(_PACKED)
    named = f"{digest}{f' and the member {member}' if member else ''}"
    yield Difference(
        f"gold: sha256 of {gold} is {found}, the recipe of the cell has {named} as its {split} file", certain=not packed
    )


def recipe_beside(predictions: Path) -> Mapping[str, Any]:
    """The recipe in the manifest beside a file of predictions; empty where there is none of ours.

    Raises ArtifactError where the manifest cannot be read.
    """
    directory = predictions.absolute().parent
    ours = (directory / MANIFEST).is_file() and is_of_an_artifact(directory)
    recipe = Artifact(directory.name, directory).manifest.get("recipe") if ours else None
    return recipe if isinstance(recipe, Mapping) else {}


def answered_of(recipe: Mapping[str, Any], benchmark: Task, examples: Sequence[Example], predictions: str) -> Sequence[Example]:
    """The examples of a gold file that a cell was tested on (of ``dev_predictions.arrow``: selected on), by its recipe.

    All of them, unless fields as ``test_share`` and ``max_test_examples`` name a part. Raises ValueError where one of these is
    out of its range.
    """
    spec, split = _spec_and_split(recipe, predictions)
    share, seed, limit = spec.get("test_share"), spec.get("split_seed", 0), spec.get(f"max_{split}_examples")
    if isinstance(share, Mapping):  # As a recipe writes a real number.
        share = float.fromhex(str(share.get("float")))
    if not (
        (share is None or (isinstance(share, float) and 0 < share < 1))
        and (isinstance(seed, int) and 0 <= seed < 2**63)
        and (limit is None or (isinstance(limit, int) and limit >= 2))
    ):
        raise ValueError(f"the recipe of the cell has test_share {share!r}, split_seed {seed!r} and {limit!r} examples")
    found, holds_dev = list(examples), split == "dev" and "dev" in spec and spec["dev"] is None
    if share is not None and (split == "test" or holds_dev):
        test, rest = held_out(benchmark, found, share, seed)
        found = test if split == "test" else rest
    if holds_dev:
        found, _ = held_out(benchmark, found, DEV_SHARE, seed)
    return limited(found, limit, seed)


def _spec_and_split(recipe: Mapping[str, Any], predictions: str) -> tuple[Mapping[str, Any], str]:
    """The settings of a recipe, and the split that a file of predictions (a name) is of."""
    spec = recipe.get("spec")
    return spec if isinstance(spec, Mapping) else {}, "dev" if predictions.startswith("dev_") else "test"


def digest_of(path: Path) -> str:
    """The sha256 of a file as stored, or of the listing of a directory."""
    if path.is_dir():
        return digest_of_listing({str(each.relative_to(path)): sha256_of_file(each) for each in files_of(path)})
    return sha256_of_file(path)


def _digest_of_content(file: BenchmarkFile) -> str | None:
    """The sha256 of a file unpacked; None of a directory, and where it cannot be read."""
    try:
        return hashlib.sha256(file.content()).hexdigest()
    except (ValueError, OSError):
        return None
