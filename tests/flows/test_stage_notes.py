"""The notes on a finished stage in the Prefect UI."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from korealbert.artifact import Artifact, Built, Runtime, Spec, Stage, build
from korealbert.flows import publish


def notes(stage: Stage[Any], store: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Artifact, str, list[dict[str, Any]]]:
    """Return an artifact, the text with its path, and the table of its statistics."""
    shown: dict[str, Any] = {}
    for kind in ("markdown", "table"):
        monkeypatch.setattr(
            publish.artifacts, f"create_{kind}_artifact", lambda content, kind=kind, **_: shown.update({kind: content})
        )
    built: Built = build(stage, Spec(), {}, Runtime(store=store))
    publish.outcome("numbers", built)
    return built.artifact, shown["markdown"], shown["table"]


def test_the_command_in_the_note_works_for_this_artifact(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def write(spec: Spec, inputs: Any, out_dir: Path, runtime: Runtime) -> dict[str, int]:
        (out_dir / "documents-00000.arrow").write_bytes(b"")
        return {"numbers": 1}

    without = Stage("numbers", 1, Spec, lambda spec, inputs, out_dir, runtime: {"numbers": 1})
    artifact, text, _ = notes(without, tmp_path / "a", monkeypatch)
    assert f"`korealbert show {artifact.path}`" in text, "`korealbert inspect` fails: it has no documents"
    artifact, text, _ = notes(Stage("texts", 1, Spec, write), tmp_path / "b", monkeypatch)
    assert f"`korealbert inspect {artifact.path}`" in text
    (artifact.path / "report.html").touch()
    assert publish._next_step(artifact) == f"Open `{artifact.path}/report.html` in a browser."


def test_a_title_that_was_shortened_is_shown_whole_and_once() -> None:
    title = '<text class="title"><title>Wall time by stage</title>Wall time…</text>'
    drawing = f'<svg xmlns="http://www.w3.org/2000/svg">{title}<text class="title">in seconds</text><text>3</text></svg>'
    assert publish._title(drawing.encode()) == "Wall time by stage in seconds"


def test_statistics_are_sorted_by_their_numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counts = {"lengths": {"9-16": 1, "105-112": 2, "17-24": 3}, "category": {"": 4}}
    _, _, table = notes(Stage("numbers", 1, Spec, lambda *_: counts), tmp_path, monkeypatch)
    assert [row["statistic"] for row in table] == ["category.(none)", "lengths.9-16", "lengths.17-24", "lengths.105-112"]
