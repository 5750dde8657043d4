"""Refuse artifacts that were given the labels of other rows of a grid.

A score in the wrong row looks like any other, so manifests are checked: the model that a cell was built from, the step of an
export, the cells of an ensemble, the settings of a row and the noise of a column. Two rows must not be the same artifacts.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from korealbert.artifact import Artifact
from korealbert.finetune.features import SPLITS
from korealbert.report.ablation.spec import Row
from korealbert.report.artifacts import Artifacts, refuse_swapped


def check_labels(rows: Sequence[Row], noises: Mapping[str, Mapping[str, Any]], artifacts: Artifacts) -> None:
    """Raise ValueError naming label, artifact and contradiction. ``noises``: as in ``AblationReportSpec``."""
    refuse_swapped(artifacts.by_label, _model_of(artifacts))
    by_key = {row.key: row for row in rows}
    _check_steps(by_key, artifacts)
    _check_ensembles(by_key, artifacts)
    _check_noises(noises, artifacts)
    for row in rows:
        for setting in row.settings:
            _check_setting(row, setting, artifacts)
    _check_rows_differ(by_key, artifacts)


def _model_of(artifacts: Artifacts) -> Callable[[str], str]:
    """Return a function from a cell's label to its model's: ``export/ROW/SEED`` if there is one, else ``pretrain/ROW/SEED``."""

    def model_of(label: str) -> str:
        stage, *rest = label.split("/")
        row = "/".join(rest[:2])
        if stage == "finetune" and f"export/{row}" in artifacts.by_label:
            return f"export/{row}"
        return f"pretrain/{row}" if stage in ("finetune", "export", "intrinsic") else ""

    return model_of


def _check_steps(rows: dict[str, Row], artifacts: Artifacts) -> None:
    for label, artifact in {**artifacts.of("intrinsic"), **artifacts.of("export")}.items():
        row, step = rows[label.split("/")[1]], artifact.manifest["spec"].get("snapshot")
        if step != row.snapshot:
            steps = [f"step {one}" if one else "the end" for one in (step, row.snapshot)]
            raise ValueError(f"{_named(label, artifact)}: of {steps[0]} of its training, not of {steps[1]}; {_ANOTHER}")


def _check_ensembles(rows: dict[str, Row], artifacts: Artifacts) -> None:
    keys, cells = {row.label: row.key for row in rows.values()}, artifacts.of("finetune")
    for label, artifact in artifacts.of("ensemble").items():
        _, key, benchmark = label.split("/", maxsplit=2)
        parts = {keys[part] for part in rows[key].ensemble}
        expected = {
            cell.name
            for name, cell in cells.items()
            if (words := name.split("/"))[1] in parts and "/".join(words[3:-2]) == benchmark
        }
        found = {name for role, name in artifact.manifest["inputs"].items() if role not in SPLITS}
        if found and found != expected:
            raise ValueError(f"{_named(label, artifact)}: not of the cells of {', '.join(rows[key].ensemble)}; {_ANOTHER}")


def _check_noises(noises: Mapping[str, Mapping[str, Any]], artifacts: Artifacts) -> None:
    for label, artifact in artifacts.of("intrinsic").items():
        noise, rows = label.split("/")[3], artifact.inputs().get("views")
        if rows is not None and _contradicts(rows.manifest["spec"], noises.get(noise, {})):
            raise ValueError(
                f"{_named(label, artifact)}: scored on {rows.name}, not on noise {noise!r}; its score belongs to another "
                f"column; {_REMEDY}"
            )


def _check_setting(row: Row, setting: str, artifacts: Artifacts) -> None:
    """Compare one of ``Row.settings`` with the manifests; a setting that they do not contain passes."""
    name, equals, value = setting.partition(" = ")
    table, *path = name.removeprefix("without ").split(".")
    trained = artifacts.of(f"pretrain/{row.key}")
    if table == "extract" and path:
        if equals or len(path) == 1:  # To remove a field of a source leaves the source itself.
            _check_source(path[0], setting, trained, removed=not equals)
    elif equals:
        for label, artifact in _built_with(table, path, row, trained, artifacts):
            found = _field(artifact.manifest["spec"], path[1:] if table == "finetune" else path)
            if found != _SET_BY_GRAPH.get(path[-1]) and _contradicts(found, json.loads(value)):
                raise ValueError(f"{_named(label, artifact)}: its {name} is {json.dumps(found)}, not {value}; {_ANOTHER}")


def _check_source(source: str, setting: str, trained: Mapping[str, Artifact], *, removed: bool) -> None:
    """Raise ValueError if a training has the text of a source that its row removes, or lacks that of one that it sets."""
    for label, artifact in trained.items():
        sources = [str(each.manifest["spec"].get("source")) for each in _above(artifact) if _stage_of(each) == "extract"]
        if sources and (source in sources) == removed:
            raise ValueError(
                f"{_named(label, artifact)}: trained on {', '.join(sources)}, but its row says {setting!r}; {_ANOTHER}"
            )


def _built_with(
    table: str, path: Sequence[str], row: Row, trained: dict[str, Artifact], artifacts: Artifacts
) -> Iterator[tuple[str, Artifact]]:
    """Yield the artifacts of a row that were built from a table of the recipe, each with its label or its training's."""
    if table in ("pretrain", "export", "finetune"):
        for label, artifact in artifacts.of(f"{table}/{row.key}").items():
            if table != "finetune" or label.split("/")[3:-2] == path[0].split("/"):
                yield label, artifact
        return
    for label, artifact in trained.items():
        inputs = artifact.inputs()
        found = [inputs[table]] if table in inputs else [each for each in _above(artifact) if _stage_of(each) == table]
        if len(found) == 1:
            yield label, found[0]


def _check_rows_differ(rows: dict[str, Row], artifacts: Artifacts) -> None:
    built: dict[tuple[str, str], set[str]] = {}
    for label, artifact in artifacts.by_label.items():
        stage, *rest = label.split("/")
        if stage in ("pretrain", "intrinsic", "export", "finetune") and rest[0] in rows:
            built.setdefault((rest[0], rest[1]), set()).add(artifact.name)
    known: dict[tuple[str, frozenset[str]], str] = {}
    for (key, seed), names in built.items():
        twin = known.setdefault((seed, frozenset(names)), key)
        if twin != key:
            raise ValueError(
                f"rows {rows[twin].label!r} and {rows[key].label!r} have the same artifacts for seed {seed}, "
                f"{', '.join(sorted(names)[:2])}, …; {_REMEDY}, or remove one of two rows that set the same"
            )


def _above(training: Artifact) -> list[Artifact]:
    """Return the ancestors through which a training got its text, without its vocabulary and the training it starts from,
    which may belong to other rows."""
    found: dict[str, Artifact] = {}
    waiting = [training]
    while waiting:
        above = {each.name: each for each in waiting.pop().inputs().values() if _stage_of(each) not in ("vocab", "pretrain")}
        waiting += [each for name, each in above.items() if name not in found]
        found |= above
    return list(found.values())


def _stage_of(artifact: Artifact) -> str:
    return str(artifact.manifest["recipe"]["stage"])


def _field(spec: Any, path: Sequence[str]) -> Any:
    """Return the value of a dotted field, or None if the spec has none."""
    for name in path:
        spec = spec.get(name) if isinstance(spec, dict) else None
    return spec


def _contradicts(found: Any, wanted: Any) -> bool:
    """Whether a value in a manifest contradicts a setting.

    Missing values never do. Neither do paths, which are absolute in manifests, nor an integer 0 in a setting, which may mean
    that the size follows from others.
    """
    if isinstance(found, dict) and isinstance(wanted, Mapping):
        return any(_contradicts(found.get(name), value) for name, value in wanted.items())
    if isinstance(found, list) and isinstance(wanted, list):
        return len(found) != len(wanted) or any(map(_contradicts, found, wanted))
    scalar = (bool, int, float, str)
    if not isinstance(found, scalar) or not isinstance(wanted, scalar) or (type(wanted) is int and wanted == 0):
        return False
    return found != wanted and not (isinstance(found, str) and found.startswith("/"))


def _named(label: str, artifact: Artifact) -> str:
    return f"{label} ({artifact.name})"


_SET_BY_GRAPH = {"head": "electra", "evidence": True, "heldout_rest": "unused", "card": "snapshot"}
"""Values that the graph itself may set, whatever the row says, for a model, an ensemble, another corpus or a snapshot."""

_REMEDY = "give each label its own artifact"
_ANOTHER = f"its score belongs to another row; {_REMEDY}"
