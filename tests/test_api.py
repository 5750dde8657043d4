"""The Python API does what the commands do, and `import korealbert` loads nothing before it is used."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import chdir
from pathlib import Path

import pytest
from typer.testing import CliRunner

import korealbert
from korealbert.artifact import ArtifactError
from korealbert.flows.cli import app
from tests.conftest import ROOT

TINY = ROOT / "tests" / "recipes" / "tiny.toml"


def test_a_recipe_is_planned_built_and_read(tmp_path: Path) -> None:
    assert {stage.status for stage in korealbert.plan(TINY, tmp_path, until="clean/books")} == {"new"}
    built = korealbert.run(str(TINY), str(tmp_path), until="clean/books", workers=1)
    assert list(built) == ["extract/books", "clean/books"]
    assert {stage.status for stage in korealbert.plan(TINY, tmp_path, until="clean/books")} == {"cached"}
    path = built["clean/books"].path
    assert korealbert.open_artifact(path).output_digest == built["clean/books"].output_digest
    documents = list(korealbert.read_documents(path))
    assert len(documents) == built["clean/books"].stats["documents_out"] > 0
    assert documents == list(korealbert.read_documents(built["clean/books"])) and all(each.text for each in documents)

    with chdir(path):
        assert korealbert.open_artifact(".").name == path.name

    with pytest.raises(ArtifactError, match="no finished artifact here; `korealbert show --store"):
        korealbert.open_artifact(tmp_path / "clean-0000000000000000")
    shard = next(path.glob("documents-*.arrow"))
    shard.write_bytes(shard.read_bytes() + b"\0")
    with pytest.raises(ArtifactError, match=f"{shard.name} has "):
        next(korealbert.read_documents(path))


def test_shipped_recipes_have_names_and_a_misspelt_setting_is_reported_in_one_line(tmp_path: Path) -> None:
    assert korealbert.plan("sample", tmp_path, until="extract")[0].label.startswith("extract/")
    with pytest.raises(
        ValueError, match=r"\Akorealbert\.run: unknown field 'worker' \(did you mean 'workers'\?\); valid: [^\n]*\Z"
    ):
        korealbert.run("sample", tmp_path / "store", worker=1)
    assert not (tmp_path / "store").exists()


def test_a_home_directory_is_expanded_everywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home, here = tmp_path / "home", tmp_path / "here"
    (home / "c").mkdir(parents=True)
    here.mkdir()
    (home / "c" / "a.txt").write_text("강이 흐른다.\n", "utf-8")
    (home / "r.toml").write_text('[extract.a]\nformat = "text"\npaths = ["${data}/a.txt"]\nlicense = "CC0-1.0"\n', "utf-8")
    monkeypatch.setenv("HOME", str(home))
    with chdir(here):
        (artifact,) = korealbert.run("~/r.toml", "~/st", until="extract", data="~/c", workers=1).values()
        assert artifact.path.parent == home / "st"
        assert korealbert.open_artifact(f"~/st/{artifact.name}").name == artifact.name
        assert {stage.status for stage in korealbert.plan("~/r.toml", "~/st", until="extract", data="~/c")} == {"cached"}
        planned = CliRunner().invoke(
            app, ["plan", "~/r.toml", "--store=~/st", "--data=~/c", "--data-root=~", "--until=extract"]
        )
        assert planned.exit_code == 0 and "cached" in planned.output, planned.output
        with pytest.raises(ValueError, match=r"~nobody-has-this-name/r\.toml"):
            korealbert.plan("~nobody-has-this-name/r.toml")
    assert not list(here.iterdir())


def test_predictions_are_scored(tmp_path: Path) -> None:
    (tmp_path / "gold.tsv").write_text("id\tdocument\tlabel\n1\t좋다\t1\n2\t나쁘다\t0\n", "utf-8")
    (tmp_path / "predictions.jsonl").write_text('{"label": 1}\n' * 2, "utf-8")
    scored = korealbert.score("nsmc", tmp_path / "gold.tsv", tmp_path / "predictions.jsonl")
    assert scored.values["accuracy"] == 50 and scored.examples == 2
    (tmp_path / "gold.tsv").rename(tmp_path / "a::b.tsv")
    assert korealbert.score("nsmc", tmp_path / "a::b.tsv", tmp_path / "predictions.jsonl") == scored


def test_scores_equal_those_of_the_command(tmp_path: Path) -> None:
    """Official scores: KLUE's script counts the position before and after each sentence as right."""
    (tmp_path / "gold.tsv").write_text("## ner-1\t<김구:PS> 선\n김\tB-PS\n구\tI-PS\n \tO\n선\tO\n\n", "utf-8")
    (tmp_path / "given.jsonl").write_text('{"tags": ["B-PS", "O", "O", "O"]}\n', "utf-8")
    files = tmp_path / "gold.tsv", tmp_path / "given.jsonl"
    printed = CliRunner().invoke(app, ["score", "klue_ner", *map(str, files)])
    assert json.loads(printed.stdout) == korealbert.score("klue_ner", *files).facts(), printed.output
    assert korealbert.score("klue_ner", *files) != korealbert.score("klue_ner", *files, mode="corrected")
    with pytest.raises(ValueError, match=r"mode: 'oficial' is none of 'official', 'corrected' \(did you mean 'official'\?\)"):
        korealbert.score("klue_ner", *files, mode="oficial")  # type: ignore[arg-type]


def test_importing_the_package_imports_none_of_its_modules() -> None:
    code = "import sys, korealbert; sys.exit(any(name.startswith('korealbert.') for name in sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0
    with pytest.raises(AttributeError, match="no attribute 'prepare'"):
        korealbert.prepare  # noqa: B018
    assert set(korealbert.__all__) <= set(dir(korealbert))
