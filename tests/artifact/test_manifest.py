"""A foreign or damaged manifest: every command says what it is, and none crashes."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from korealbert.artifact import Artifact, ArtifactError, Runtime, Store, build
from korealbert.artifact.files import write_digested
from korealbert.flows.cli import app
from tests.artifact.conftest import WORDS, Text

DAMAGE = [
    ("created", 5),
    ("label", ["x"]),
    ("label", "\x1b]0;title\x07"),
    ("wall_seconds", "soon"),
    ("wall_seconds", float("nan")),
    ("stats", None),
    ("inputs", []),
    ("inputs", {"a": 5}),
    ("inputs", {"a": "../../elsewhere"}),
    ("built_from", None),
    ("files", []),
    ("files", {"out.txt": 3}),
    ("files", {"out.txt": {"sha256": "x"}}),
    ("files", {"../../secret": {"sha256": "x", "size": 3}}),
    ("files", {"/etc/passwd": {"sha256": "x", "size": 3}}),
    ("recipe", 3),
    ("recipe", {"stage": "words"}),
    ("spec", []),
    ("output_digest", 3),
]


@pytest.mark.parametrize(("field", "value"), DAMAGE)
def test_a_manifest_of_wrong_facts_is_named_by_every_command(field: str, value: object, tmp_path: Path) -> None:
    store = tmp_path / "store"
    artifact = build(WORDS, Text(), {}, Runtime(store=store, workers=1)).artifact
    other = build(WORDS, Text(text="다른 글"), {}, Runtime(store=store, workers=1)).artifact
    path = artifact.path / "manifest.json"
    path.write_text(json.dumps({**json.loads(path.read_text("utf-8")), field: value}), "utf-8")
    assert [each.name for each in Store(store).artifacts()] == [other.name], "the others are as usable as before"
    for command, status in (
        (["verify"], 1),
        (["verify", other.name], 0),
        (["gc", "--recipe", "tests/recipes/tiny.toml"], 0),
        (["plan", "tests/recipes/tiny.toml", "--until", "extract"], 0),
        (["export", artifact.name, str(tmp_path / "out.tar")], 2),
    ):
        done = CliRunner().invoke(app, [*command, "--store", str(store)])
        assert done.exception is None or isinstance(done.exception, SystemExit), (command, done.exception)
        assert done.exit_code == status, (command, done.output)
    assert not (tmp_path / "out.tar").exists()
    again = build(WORDS, Text(), {}, Runtime(store=store, workers=1))
    assert not again.cached and again.repaired is not None and field in again.repaired


@pytest.mark.parametrize(
    ("stats", "field"),
    [
        ({"documents_in": 1, "dropped": []}, "documents_out"),
        ({"documents_in": 1, "documents_out": 1, "dropped": []}, "dropped"),
        ({"documents_in": 1, "documents_out": 1, "dropped": {"short": None}}, r"dropped\.short"),
        ({"documents_in": None, "documents_out": 1}, "documents_in"),
    ],
)
def test_statistics_that_count_no_documents_are_a_fault_of_their_field(
    stats: dict[str, Any], field: str, tmp_path: Path
) -> None:
    artifact = build(WORDS, Text(), {}, Runtime(store=tmp_path, workers=1)).artifact
    write_digested(artifact.path / "manifest.json", {**artifact.manifest, "stats": stats})
    changed = Artifact(artifact.name, artifact.path)
    expected = rf"manifest\.json: its statistics do not count documents \({field}: .*\); build it again"
    assert re.fullmatch(expected, str(Store(tmp_path).damage(changed)))
    shown = CliRunner().invoke(app, ["verify", "--store", str(tmp_path)])
    assert shown.exit_code == 1 and "do not count documents" in shown.output.replace("\n", " ")
    (again,) = (build(WORDS, Text(), {}, Runtime(store=tmp_path, workers=1)),)
    assert again.repaired and not Store(tmp_path).verify(again.artifact)


def test_a_manifest_that_lacks_a_field_says_which(tmp_path: Path) -> None:
    artifact = build(WORDS, Text(), {}, Runtime(store=tmp_path, workers=1)).artifact
    path = artifact.path / "manifest.json"
    content = json.loads(path.read_text("utf-8"))
    del content["stats"], content["recipe"]["version"]
    path.write_text(json.dumps(content), "utf-8")
    (again,) = Store(tmp_path).directories()
    with pytest.raises(ArtifactError, match=r"it lacks recipe\.version, stats; remove"):
        _ = type(artifact)(again.name, again).manifest
