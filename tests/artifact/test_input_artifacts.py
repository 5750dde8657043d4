"""Input artifacts that are temporarily replaced, and markers that were copied."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from korealbert.artifact import Artifact, InputChanged, Inputs, Runtime, Stage, build
from korealbert.artifact.shards import map_shards
from korealbert.corpus import extract
from tests.artifact.conftest import source
from tests.artifact.test_changed_inputs import copy
from tests.artifact.test_trust import Parts, Stopped, flip


def add(victim: Path) -> Callable[[], object]:
    added = victim.with_name("documents-00009.arrow")
    shutil.copy(victim, added)
    return lambda: None


def add_for_a_while(victim: Path) -> Callable[[], object]:
    added = victim.with_name("documents-00009.arrow")
    shutil.copy(victim, added)
    return added.unlink


def exchange_for_a_while(victim: Path) -> Callable[[], object]:
    aside = victim.with_name(".aside")
    victim.rename(aside)
    shutil.copy(victim.with_name("documents-00001.arrow"), victim)
    return lambda: aside.rename(victim)


def overwrite_for_a_while(victim: Path) -> Callable[[], object]:
    content = victim.read_bytes()
    flip(victim)
    return lambda: victim.write_bytes(content)


@pytest.mark.parametrize("killed", [False, True])
@pytest.mark.parametrize("change", [add, add_for_a_while, exchange_for_a_while, overwrite_for_a_while])
def test_an_input_artifact_that_is_other_for_a_while_fails_the_stage(
    change: Callable[[Path], Callable[[], object]], killed: bool, runtime: Runtime, documents: Artifact
) -> None:
    changing = [True]

    def run(spec: Parts, inputs: Inputs, out_dir: Path, runtime: Runtime) -> dict[str, Any]:
        back = change(documents.path / "documents-00002.arrow") if changing else None
        read = b"".join(file.read_bytes() for file in documents.files("documents-*.arrow"))
        map_shards(copy, [sha256(read).hexdigest()], out_dir=out_dir, runtime=runtime, step="copy")
        if back is not None:
            back()
        if changing and killed:
            raise Stopped
        return {}

    with pytest.raises(Stopped if killed else InputChanged, match=None if killed else f"{documents.name} "):
        build(Stage("parts", 1, Parts, run), Parts(), {"documents": documents}, runtime)
    changing.clear()
    (documents.path / "documents-00009.arrow").unlink(missing_ok=True)
    made = build(Stage("parts", 1, Parts, run), Parts(), {"documents": documents}, runtime).artifact
    true = b"".join(file.read_bytes() for file in documents.files("documents-*.arrow"))
    assert (made.path / "part-0.txt").read_text() == sha256(true).hexdigest()


def test_an_input_artifact_may_be_linked_and_built_again_with_the_same_bytes_meanwhile(
    raw: Path, tmp_path: Path, runtime: Runtime, documents: Artifact
) -> None:
    """Views link the files of other views; another run may build an input anew."""

    def run(spec: Parts, inputs: Inputs, out_dir: Path, runtime: Runtime) -> dict[str, Any]:
        os.link(documents.path / "documents-00002.arrow", tmp_path / "linked")
        assert not build(extract.STAGE, source(raw), {}, runtime, rerun=True).cached
        os.link(documents.path / "documents-00002.arrow", tmp_path / "linked again")
        return {}

    build(Stage("parts", 1, Parts, run), Parts(), {"documents": documents}, runtime)


def test_a_marker_vouches_for_its_own_job_alone(tmp_path: Path) -> None:
    killed = [True]

    def run(spec: Parts, inputs: Inputs, out_dir: Path, runtime: Runtime) -> dict[str, Any]:
        map_shards(copy, ["가", "나"], out_dir=out_dir, runtime=runtime, step="copy")
        if killed:
            (out_dir / "part-1.txt").unlink()
            shutil.copy(out_dir / ".done" / "copy-00000.json", out_dir / ".done" / "copy-00001.json")
            raise Stopped
        return {}

    runtime = Runtime(store=tmp_path, workers=1)
    with pytest.raises(Stopped):
        build(Stage("parts", 1, Parts, run), Parts(), {}, runtime)
    killed.clear()
    made = build(Stage("parts", 1, Parts, run), Parts(), {}, runtime).artifact
    assert [path.read_text() for path in made.files("part-*")] == ["가", "나"]
