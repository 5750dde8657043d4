"""The Python API of `import korealbert`: plan and build a recipe, read what was built, score predictions.

Stages are built in this process, one after the other, without Prefect, in the same store that the commands use.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from korealbert.artifact import Artifact, ArtifactError, Store, build, locks
from korealbert.artifact.files import expanded
from korealbert.artifact.spec import explained
from korealbert.documents.schema import Document
from korealbert.documents.shards import kept_nothing
from korealbert.documents.shards import read_documents as _documents_of
from korealbert.finetune.metrics import Mode
from korealbert.finetune.scores.scoring import Scored, score_file
from korealbert.pretrain.runtime import TrainingRuntime
from korealbert.recipe.planning import Planned, prepare
from korealbert.shipped import shipped

Pathlike = str | Path


def plan(
    recipe: Pathlike,
    store: Pathlike = "store",
    *,
    until: str | None = None,
    data: Pathlike | None = None,
    overrides: Mapping[str, Any] | None = None,
) -> list[Planned]:
    """Return the stages of a recipe of any kind, in order: label, status, reasons, and the cost of building them.

    ``recipe`` is a TOML file, or the name of a shipped recipe (``"sample"``). ``until`` names the last stage wanted, ``data``
    the directory that ``${data}`` stands for, ``overrides`` fields by dotted name (``{"pretrain.steps": 200}``). Raises
    ``korealbert.recipe.RecipeError`` naming file, table, field and remedy.
    """
    return prepare(shipped(Path(recipe)), Store(Path(store)), until=until, data=_path(data), overrides=overrides).planned


def run(
    recipe: Pathlike,
    store: Pathlike = "store",
    *,
    until: str | None = None,
    data: Pathlike | None = None,
    overrides: Mapping[str, Any] | None = None,
    **runtime: Any,
) -> dict[str, Artifact]:
    """Build every stage that is missing or stale; returns all artifacts by label, including cached ones.

    ``runtime`` are fields of ``TrainingRuntime``: ``workers``, ``threads``, ``processes``, ``device`` and so on. Other
    arguments are those of ``plan``. An interrupted stage continues where it stopped. Workers are processes that import the
    script: call this below ``if __name__ == "__main__":``. Raises RecipeError, or ValueError for a field of ``runtime``, before
    building anything, and whatever a stage raises.
    """
    path = shipped(Path(recipe))
    try:
        settings = TrainingRuntime(store=Path(store), **runtime)
    except ValidationError as error:
        raise ValueError(explained("korealbert.run", TrainingRuntime, error)) from None
    here = Store(settings.store).make()
    prepared = prepare(path, here, until=until, data=_path(data), overrides=overrides)
    prepared.check(settings)
    built: dict[str, Artifact] = {}
    with locks.recorded(here.root, path, until, {stage.label: stage.name for stage in prepared.planned}):
        for label, node in prepared.nodes.items():
            inputs = {role: built[other] for role, other in node.inputs.items()}
            built[label] = build(node.stage, node.spec, inputs, settings, label=label).artifact
    return built


def open_artifact(path: Pathlike) -> Artifact:
    """Return a finished artifact by its directory, with ``path``, ``stats`` and ``files(pattern)``.

    Raises ArtifactError if there is none, or if its files do not match its manifest.
    """
    directory = expanded(path).resolve()
    store = Store(directory.parent)
    artifact = store.find(directory.name)
    if artifact is None:
        raise ArtifactError(
            f"{directory}: no finished artifact here; `korealbert show --store {directory.parent}` lists the finished ones"
        )
    if fault := store.damage(artifact):
        raise ArtifactError(f"{directory}: {fault}")
    return artifact


def read_documents(artifact: Artifact | Pathlike) -> Iterator[Document]:
    """Yield the documents of a data stage's artifact (extract, clean, dedup, balance, quality), in order; none if it kept none.

    Raises ArtifactError for an artifact of another stage, and as ``open_artifact`` does.
    """
    opened = artifact if isinstance(artifact, Artifact) else open_artifact(artifact)
    shards = opened.files("documents-*.arrow")
    if not shards and not kept_nothing(opened):
        raise ArtifactError(f"{opened.path}: holds no documents; name an artifact of extract, clean, dedup or balance")
    for shard in shards:
        yield from _documents_of(shard)


def score(task: str, gold: Pathlike, predictions: Pathlike, *, mode: Mode = "official") -> Scored:
    """Return the metrics of a prediction file, as ``korealbert score`` prints them.

    ``task`` is the name or TOML file of a benchmark. ``mode`` says whether defects of the official script are kept
    (``official``) or not (``corrected``). Raises ValueError naming file, line, field and remedy, and FileNotFoundError.
    """
    return score_file(task, str(expanded(gold)), str(expanded(predictions)), mode)


def _path(given: Pathlike | None) -> Path | None:
    return None if given is None else expanded(given)
