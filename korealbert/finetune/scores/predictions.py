"""Read the predictions of a cell, and check that they belong to the benchmark and examples on which they are scored."""

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
"""File of a cell: id, gold, pred and loss of every test example."""


class Row(Line):
    """A row of a table."""

    def error(self, field: str, problem: str, remedy: str) -> ValueError:
        """Return an error that names file, row, field and remedy."""
        return ValueError(f"{self.file}, row {self.number}, field {field!r}: {problem}; {remedy}")


class StoredPrediction(NamedTuple):
    """A prediction as the task's ``prediction_type`` stores it."""

    row: Row
    value: Any


def read_predictions(file: BenchmarkFile, benchmark: Task, examples: Sequence[Example]) -> list[StoredPrediction]:
    """Return the predictions that a cell wrote, one per example.

    Raises ValueError if they belong to another task, if their ids or gold values differ from the examples', if an id is
    repeated, or if a prediction is missing.
    """
    task = tasks.name_of_task(benchmark)
    try:
        with ipc.open_file(pa.BufferReader(file.content())) as reader:
            table = reader.read_all()
        table.validate(full=True)
        ids, values = table["id"].to_pylist(), table["pred"].to_pylist()
    except (pa.ArrowException, KeyError, OSError) as error:
        remedy = "name predictions.arrow of a fine-tuning, or a file of JSON Lines"
        raise ValueError(f"{file}: not predictions of korealbert ({error}); {remedy}") from None
    made_for = (table.schema.metadata or {}).get(b"task", task.encode()).decode(errors="replace")
    if made_for != task:
        raise ValueError(f"{file}: predictions of {made_for}, not of {task}; name the task that they are of")
    if table["pred"].type != benchmark.prediction_type:
        raise ValueError(f"{file}: these are not predictions of {benchmark.title}; name the task that they are of")
    found: dict[str, StoredPrediction] = {}
    for number, (name, value) in enumerate(zip(ids, values, strict=True), start=1):
        row = Row(str(file), number, "")
        if name in found:
            raise row.error("id", f"{name!r} is in row {found[name].row.number} too", "keep one of the two")
        if value is None:
            raise row.error("pred", "found null", "give a prediction of each example")
        found[name] = StoredPrediction(row, value)
    unmatched = next(iter({example.id: None for example in examples}.keys() ^ found.keys()), None)
    if unmatched is not None:
        problem = f"the predictions are of other examples than the gold file's: {unmatched!r} is in only one of them"
        remedy = "name the file that was the cell's test"
        if found.keys() < {example.id for example in examples}:
            remedy += f"; if they are of a subset, name {PREDICTIONS} in the cell's own directory, whose manifest says which"
        raise ValueError(f"{file}: {problem}; {remedy}")
    _check_gold(file, table, benchmark, examples)
    return [found[example.id] for example in examples]


def _check_gold(file: BenchmarkFile, table: pa.Table, benchmark: Task, examples: Sequence[Example]) -> None:
    """Raise ValueError if the gold values of the predictions are not the gold file's: two data sets may have the same ids."""
    if "gold" not in table.column_names:
        return
    beside = dict(zip(table["id"].to_pylist(), table["gold"].to_pylist(), strict=True))
    gold = pa.array([benchmark.stored(example.target) for example in examples], benchmark.prediction_type).to_pylist()
    for example, value in zip(examples, gold, strict=True):
        if beside[example.id] != value:
            found = (
                f"for {example.id!r} they were made beside the gold value {beside[example.id]!r}, the gold file has {value!r}"
            )
            problem = f"the predictions are of other examples than the gold file's: {found}"
            raise ValueError(f"{file}: {problem}; name the file that was the cell's test")


_COMPRESSED = (".gz", ".bz2", ".xz", ".zst")


class Difference(NamedTuple):
    """A way in which the task or gold file of a score is not that of the cell's recipe."""

    text: str
    certain: bool = True
    """False if the cell's file was compressed or in an archive, so that equal content may have another digest."""


def differences(
    recipe: Mapping[str, Any], task: str, gold: BenchmarkFile, predictions: str, *, stored: str | None = None
) -> Iterator[Difference]:
    """Compare task and gold file of a score with the recipe of the cell whose file ``predictions`` (a name) was scored.

    The gold file may be a compressed copy of the cell's. ``stored``: the digest of the gold file, which then need not exist.
    """
    spec, split = _spec_and_split(recipe, predictions)
    named = spec.get("task")
    if isinstance(named, Mapping):
        named = named.get("name")
    if named not in (None, task):
        yield Difference(f"task: the score is of {task}, the recipe of the cell has {named}")
    held_out_of_train = spec.get("test_share") is not None if split == "test" else spec.get("dev") is None
    if held_out_of_train:
        split = "train"
    file = spec.get(split)
    if not isinstance(file, Mapping) or file.get("sha256") is None:
        return
    digest, member = file["sha256"], str(spec.get(f"{split}_member") or "")
    found = stored or digest_of(gold.path)
    if (digest, member) == (found, gold.member) or (not member and digest == _digest_of_content(gold)):
        return
    packed = bool(member) or str(file.get("name") or file.get("url")).lower().endswith(_COMPRESSED)
    expected = f"{digest} and the member {member}" if member else digest
    yield Difference(
        f"gold: sha256 of {gold} is {found}, the recipe of the cell has {expected} as its {split} file", certain=not packed
    )


def recipe_beside(predictions: Path) -> Mapping[str, Any]:
    """Return the recipe in the manifest beside a file of predictions, empty if that is not in an artifact.

    Raises ArtifactError if the manifest cannot be read.
    """
    directory = predictions.absolute().parent
    ours = (directory / MANIFEST).is_file() and is_of_an_artifact(directory)
    recipe = Artifact(directory.name, directory).manifest.get("recipe") if ours else None
    return recipe if isinstance(recipe, Mapping) else {}


def tested_examples(
    recipe: Mapping[str, Any], benchmark: Task, examples: Sequence[Example], predictions: str
) -> Sequence[Example]:
    """Return the examples of the gold file that a cell predicted, according to its recipe.

    They are a part of the file if ``test_share``, ``max_test_examples`` … are set. Raises ValueError if one of these fields is
    out of its range.
    """
    spec, split = _spec_and_split(recipe, predictions)
    share, seed, limit = spec.get("test_share"), spec.get("split_seed", 0), spec.get(f"max_{split}_examples")
    if isinstance(share, Mapping):  # A manifest stores real numbers in hexadecimal.
        share = float.fromhex(str(share.get("float")))
    if not (
        (share is None or (isinstance(share, float) and 0 < share < 1))
        and (isinstance(seed, int) and 0 <= seed < 2**63)
        and (limit is None or (isinstance(limit, int) and limit >= 2))
    ):
        raise ValueError(
            f"the recipe of the cell has test_share {share!r}, split_seed {seed!r} and {limit!r} examples; take another cell"
        )
    found, holds_dev = list(examples), split == "dev" and "dev" in spec and spec["dev"] is None
    if share is not None and (split == "test" or holds_dev):
        test, rest = held_out(benchmark, found, share, seed)
        found = test if split == "test" else rest
    if holds_dev:
        found, _ = held_out(benchmark, found, DEV_SHARE, seed)
    return limited(found, limit, seed)


def _spec_and_split(recipe: Mapping[str, Any], predictions: str) -> tuple[Mapping[str, Any], str]:
    """Return the settings of a recipe, and the split of a file of predictions (a name)."""
    spec = recipe.get("spec")
    split = "dev" if predictions.startswith("dev_") else "test"
    return (spec if isinstance(spec, Mapping) else {}), split


def digest_of(path: Path) -> str:
    """Return the sha256 of a file as stored, or of the listing of a directory."""
    if path.is_dir():
        return digest_of_listing({str(each.relative_to(path)): sha256_of_file(each) for each in files_of(path)})
    return sha256_of_file(path)


def _digest_of_content(file: BenchmarkFile) -> str | None:
    """Return the sha256 of a file's decompressed content; None for a directory or an unreadable file."""
    try:
        return hashlib.sha256(file.content()).hexdigest()
    except (ValueError, OSError):
        return None
