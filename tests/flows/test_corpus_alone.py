"""A recipe of a corpus alone is complete without tables of a model, and needs no library that trains."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from korealbert import recipe as recipes
from korealbert.artifact import Runtime
from korealbert.recipe.tables import RecipeError, kind_of
from tests.building import build_all
from tests.corpus.documents_made import prose

RECIPE = """
name = "mine"
[extract.blog]
format = "jsonl"
paths = ["blog.jsonl"]
[clean.blog]
limits = "novels"
agreement_documents = 0
"""
PROGRAM = """
import json, sys
sys.modules.update(dict.fromkeys(("torch", "deepspeed", "transformers")))
from typer.testing import CliRunner
from korealbert.flows.cli import app
for arguments in json.load(sys.stdin):
    done = CliRunner().invoke(app, [*arguments, "--store", "store"])
    print(json.dumps([done.exit_code, done.stdout, done.stderr]), file=sys.__stdout__)
"""
"""Runs commands in a process that lacks the libraries that train."""


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    """Twelve documents, a short one, and a line that is no JSON."""
    rows = [
        json.dumps({"text": text, "title": "글"}, ensure_ascii=False) for text in (*(prose(n, 12) for n in range(12)), "짧다")
    ]
    (tmp_path / "blog.jsonl").write_text("\n".join([*rows, "{broken", ""]), "utf-8")
    (tmp_path / "recipe.toml").write_text(RECIPE, "utf-8")
    return tmp_path / "recipe.toml"


@pytest.mark.usefixtures("one_server")
def test_a_corpus_ends_in_a_report_of_it_where_nothing_can_train(recipe: Path, tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text("{}")
    commands = [
        ["run", "--lineage", "http://127.0.0.1:1/x"],
        ["run", "--until", "clean"],
        ["export-corpus", "balance", "out"],
        ["run", "sample", "--until", "pretrain"],
        ["fill-mask", "model", "[MASK]"],
    ]
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        input=json.dumps(commands),
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
        capture_output=True,
        text=True,
        check=True,
    )
    (built, again, exported, training, filling) = map(json.loads, done.stdout.splitlines())
    assert [status for status, _, _ in (built, again, exported, training, filling)] == [0, 0, 0, 2, 2], done
    _, output, warned = built
    assert warned.count("lineage: http://127.0.0.1:1/x takes no events (") == 1 and "Connection refused" in warned
    assert "13 of 14 kept, 1 quarantined" in output and "12 of 13 kept, 1 dropped" in output
    assert (
        "extract/blog: 1 of 14 documents quarantined (1 malformed_json); korealbert inspect extract/blog --quarantine\n"
        in output
    )
    assert "clean/blog: 1 of 13 documents dropped (1 too_short); korealbert inspect clean/blog --dropped all\n" in output
    assert "A corpus of 12 documents" in output
    report = (Path(output.splitlines()[-1]).parent / "report.md").read_text("utf-8")
    assert report.startswith("# korealbert: a corpus\n")
    assert "## What the corpus holds" in report and "| clean/blog | 13 | 1 | 0 | 12 |" in report
    assert "too short" in report and "malformed json" in report
    assert "Not part of this run" not in report and "published" not in report.casefold()
    assert "all 2 stages are cached" in again[1]
    assert "12 documents: out" in exported[1]
    assert pq.read_table(next((tmp_path / "out" / "data").iterdir())).num_rows == 12
    assert training[2].strip() == (
        "sample, pretrain: it needs torch, deepspeed, not installed here; install korealbert with its dependencies, or name"
        " an earlier stage by --until"
    )
    assert filling[2] == "torch is not installed here; install korealbert with its dependencies\n"


def test_a_vocabulary_is_made_where_it_has_a_table(recipe: Path) -> None:
    def labels() -> list[str]:
        graphs = {"corpus": lambda: recipes.dag.corpus_graph(recipes.reading.load_corpus(recipe))}
        return list(graphs[kind_of(recipe)]())

    assert labels() == ["extract/blog", "clean/blog", "dedup", "balance", "report"]
    recipe.write_text(f"{RECIPE}[vocab]\nsize = 500\n", "utf-8")
    assert labels() == ["extract/blog", "clean/blog", "dedup", "balance", "vocab", "report"]


def test_quality_stands_between_dedup_and_balance(recipe: Path, tmp_path: Path) -> None:
    """Without a table for it, nothing changes."""
    quality = """
[quality]
perplexity = { reference = ["blog"] }
copies = { 2 = 2 }
"""

    def graph() -> dict[str, recipes.Node]:
        return recipes.dag.corpus_graph(recipes.reading.load_corpus(recipe))

    assert graph()["balance"].inputs == {"documents": "dedup"}
    recipe.write_text(RECIPE + quality, "utf-8")
    assert kind_of(recipe) == "corpus"
    assert list(graph()) == ["extract/blog", "clean/blog", "dedup", "quality", "balance", "report"]
    assert graph()["balance"].inputs == {"documents": "quality"}
    built = build_all(graph(), Runtime(store=tmp_path / "store", workers=1))
    report = (built["report"].path / "report.md").read_text("utf-8")
    assert "## Quality of the documents" in report and "Models were trained on 12 reference texts." in report
    recipe.write_text(RECIPE + quality.replace('"blog"', '"blogs"'), "utf-8")
    with pytest.raises(RecipeError, match=r"\[quality\]: no source 'blogs' \(did you mean 'blog'\?\)"):
        recipes.reading.load_corpus(recipe)


def test_what_names_a_model_is_one_and_lacks_its_training(recipe: Path) -> None:
    recipe.write_text(f"{RECIPE}[views]\nviews = 2\n", "utf-8")
    assert kind_of(recipe) == "model"
    with pytest.raises(RecipeError, match=r"\[pretrain\]: field 'steps' is missing"):
        recipes.load(recipe)
    recipe.write_text(RECIPE.replace("[clean.blog]", "[clean.blogs]"), "utf-8")
    with pytest.raises(RecipeError, match=r"\[clean.blogs\]: no source of this name \(did you mean 'blog'\?\)"):
        recipes.reading.load_corpus(recipe)
