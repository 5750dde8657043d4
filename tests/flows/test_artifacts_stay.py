"""No command writes into an artifact of a store, whatever its arguments are."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from korealbert.artifact.maintenance import archive
from korealbert.flows.cli import app
from korealbert.flows.lineage import Lineage
from tests.report.conftest import made


@pytest.mark.parametrize(
    "command",
    [
        ("new", "OUT"),
        ("export", "NAME", "OUT"),
        ("export-corpus", "NAME", "OUT"),
        ("export-curves", "NAME", "OUT"),
        ("inspect", "NAME", "--html", "OUT"),
        ("diff", "NAME", "NAME", "--html", "OUT"),
        ("import", "TAR", "--store", "OUT"),
    ],
)
def test_a_command_that_writes_where_it_is_told_leaves_artifacts_alone(command: tuple[str, ...], tmp_path: Path) -> None:
    named, other = made(tmp_path / "store", "export", {}), made(tmp_path / "store", "dedup", {})
    before = sorted(other.path.rglob("*"))
    with (tmp_path / "named.tar").open("wb") as stream:
        archive.export(named, stream)
    words = {"OUT": str(other.path / "new/deeper"), "NAME": named.name, "TAR": str(tmp_path / "named.tar")}
    arguments = [words.get(word, word) for word in command]
    store = () if command[0] in ("new", "import") else ("--store", str(tmp_path / "store"))
    done = CliRunner().invoke(app, [*arguments, *store])
    assert done.exit_code == 2 and "is the directory of an artifact" in done.output, done.output
    assert sorted(other.path.rglob("*")) == before


def test_events_and_stores_are_kept_out_of_artifacts_and_inputs(tmp_path: Path) -> None:
    made_here, corpus = made(tmp_path / "store", "export", {}), tmp_path / "corpus.txt"
    corpus.write_text("글")
    with pytest.raises(ValueError, match="is the directory of an artifact"):
        Lineage(str(made_here.path / "manifest.json"))
    with pytest.raises(ValueError, match="which is read"):
        Lineage(str(corpus), read=[corpus])
    assert corpus.read_text() == "글"
    done = CliRunner().invoke(app, ["run", "sample", "--store", str(made_here.path / "inner")])
    assert done.exit_code == 2 and "is the directory of an artifact" in done.output
