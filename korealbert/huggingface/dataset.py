"""Write a corpus as a Hugging Face dataset: Parquet or JSON lines, with a card of sources, licenses, counts and drops.

Documents have further columns for what stages computed about them (``columns.py``).
``datasets.load_dataset(directory)`` reads it, as do polars, pandas and other tools. Equal artifacts give equal files.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Literal

import pyarrow.parquet as pq

from korealbert.artifact import Artifact
from korealbert.artifact.locks import exclusive, if_free
from korealbert.documents.shards import DOCUMENT_SCHEMA, kept_nothing, read_batches
from korealbert.huggingface.card import dataset_card
from korealbert.huggingface.columns import ComputedColumns

Form = Literal["parquet", "jsonl"]
_LOCK = "export.lock"
"""Held in the hidden directory beside the target while an export writes there."""


def write_dataset(artifacts: Sequence[Artifact], directory: Path, form: Form) -> int:
    """Write the documents of some artifacts, one file per shard, and return their number.

    ``directory`` appears only when it is complete; a link is followed. Sources of which no document was kept are on the card
    alone. Raises ValueError for an artifact that is not of documents, if none is kept at all, and for a directory that is not
    empty or the working directory.
    """
    title, named = directory.name, directory
    directory = directory.resolve()
    _refuse_full(directory, named)
    for artifact in artifacts:
        if not artifact.files("documents-*.arrow") and not kept_nothing(artifact):
            raise ValueError(
                f"{artifact.name} ({artifact.manifest['label']}): it holds no documents; name clean, dedup or balance"
            )
    if artifacts and all(map(kept_nothing, artifacts)):
        raise ValueError(f"{why_nothing_kept(artifacts)}; there is nothing to write")
    directory.parent.mkdir(parents=True, exist_ok=True)
    _remove_killed(directory.parent)
    try:
        scratch = tempfile.TemporaryDirectory(dir=directory.parent, prefix=f".{directory.name}.")
    except OSError as error:
        error.filename = str(named)
        raise
    with scratch as beside, exclusive(Path(beside) / _LOCK):
        partial = Path(beside) / directory.name
        written = _write(artifacts, partial, form, title)
        _refuse_full(directory, named)  # Another export may have written it meanwhile.
        if directory.exists():
            directory.rmdir()
        partial.rename(directory)
    return written


def why_nothing_kept(artifacts: Sequence[Artifact]) -> str:
    """Return a line that names the given artifacts without documents, and why they have none."""
    labels = ", ".join(artifact.manifest["label"] for artifact in artifacts)
    dropped = sum((Counter(artifact.stats.get("dropped") or {}) for artifact in artifacts), Counter[str]())
    reasons = f" (dropped: {', '.join(f'{reason} {count}' for reason, count in sorted(dropped.items()))})" if dropped else ""
    return f"{labels}: no document was kept{reasons}"


def _remove_killed(parent: Path) -> None:
    """Remove what killed exports left in the directory of their targets, except another user's."""
    for other in parent.glob(".*.*"):
        with suppress(OSError):  # It may not be read.
            if (other / _LOCK).is_file():
                with if_free(other / _LOCK) as free:
                    if free:
                        shutil.rmtree(other, ignore_errors=True)


def _refuse_full(directory: Path, named: Path) -> None:
    """Raise ValueError if ``directory``, which the user ``named``, is a file, holds files or is the working directory."""
    if directory.exists() and not directory.is_dir():
        raise ValueError(f"{named} is a file; name another directory")
    if directory.exists() and any(directory.iterdir()):
        raise ValueError(f"{named} already exists and is not empty; name another directory")
    if directory.exists() and directory.samefile("."):  # It would be replaced, and a shell stay in the old one.
        raise ValueError(f"{named} is the working directory; name another directory, such as one in it")


def _write(artifacts: Sequence[Artifact], directory: Path, form: Form, title: str) -> int:
    (directory / "data").mkdir(parents=True)
    written = 0
    computed = ComputedColumns(artifacts)
    for artifact in artifacts:
        shards = artifact.files("documents-*.arrow")
        stem = artifact.manifest["label"].replace("/", "-")
        for number, shard in enumerate(shards):
            target = directory / "data" / f"{stem}-{number:05d}-of-{len(shards):05d}.{form}"
            written += sum((_parquet if form == "parquet" else _lines)(shard, target, computed))
    (directory / "README.md").write_text(dataset_card(title, artifacts, computed.columns), "utf-8")
    return written


def _parquet(shard: Path, target: Path, computed: ComputedColumns) -> Iterator[int]:
    """Write one shard, and yield the number of documents of each batch."""
    with pq.ParquetWriter(target, computed.schema(DOCUMENT_SCHEMA), compression="zstd") as writer:
        for batch in read_batches(shard, DOCUMENT_SCHEMA):
            writer.write_batch(computed.add(batch))
            yield batch.num_rows


def _lines(shard: Path, target: Path, computed: ComputedColumns) -> Iterator[int]:
    """Write one shard, and yield the number of documents of each batch."""
    with target.open("w", encoding="utf-8") as sink:
        for batch in read_batches(shard, DOCUMENT_SCHEMA):
            for row in computed.add(batch).to_pylist():
                sink.write(json.dumps(row, ensure_ascii=False) + "\n")
            yield batch.num_rows
