"""Where a recipe's file lies, and what it names: other recipes, directories that may not be entered, pipes."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from korealbert import recipe as recipes
from korealbert.recipe import RecipeError
from korealbert.recipe.planning import labels
from korealbert.recipe.reading import load_evaluation
from korealbert.recipe.tables import Tables, kind_of
from tests.editing import edit


@pytest.fixture
def editable(specs: Path) -> Path:
    """The sample recipe, as a test may change it."""
    return specs / "recipes" / "small-sample.toml"


def test_what_a_linked_recipe_names_lies_beside_the_file_that_the_link_leads_to(specs: Path, tmp_path: Path) -> None:
    (tmp_path / "links").mkdir()
    grid, evaluation = tmp_path / "links" / "grid.toml", tmp_path / "links" / "evaluation.toml"
    grid.symlink_to(specs / "ablations" / "sample" / "korealbert-table-2.toml")
    evaluation.symlink_to(specs / "recipes" / "encoders.toml")
    assert recipes.load_ablation(grid).cells
    assert load_evaluation(evaluation).encoder


def test_homes_may_stand_in_all_names(editable: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(editable.parent))
    assert recipes.load(editable, overrides={"encoder.ours.recipe": "~/small-sample.toml"}).encoder["ours"].recipe
    grid = tmp_path / "grid.toml"
    grid.write_text('recipe = "~/small-sample.toml"\nseeds = [1]\n[[cells]]\nlabel = "a"\n')
    assert recipes.load_ablation(grid).cells
    edit(grid, "~/", "~nobody-of-this-name/")
    with pytest.raises(RecipeError, match=r"~nobody-of-this-name/small-sample\.toml: no such recipe"):
        recipes.load_ablation(grid)
    grid.write_text('data = "~/corpora"')
    assert Tables(grid, None).data == editable.parent / "corpora"


def test_a_model_is_taken_from_a_recipe_whose_encoders_and_report_are_not_read(editable: Path, tmp_path: Path) -> None:
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs" / "config.json").write_text("{}")
    whole = editable.with_name("whole.toml")
    tables = (editable.with_name("encoders.toml").read_text("utf-8")).partition("[report.table.printed]")
    table = "".join(tables[1:]).partition("[[report.table.columns]]")[0].replace('shape = "', '# "')
    column = '[[report.table.columns]]\ntitle = "NSMC"\nbenchmark = "nsmc"\n'
    other = f'\n[encoder.english]\npath = "{tmp_path}/theirs"\n[encoder.sample]\npath = "{tmp_path}/theirs"\n'
    whole.write_text(editable.read_text("utf-8") + other + table + column, "utf-8")
    alone = recipes.load(whole)
    for removed in ([], ["encoder"], ["encoder.sample", "report.table"]):
        ours = {"encoder.ours": {"recipe": "whole.toml", "without": removed}}
        found = recipes.load(editable, overrides=ours).encoder["ours"].recipe
        assert isinstance(found, recipes.Recipe) and found.pretrain == alone.pretrain and not found.encoder


def test_all_mistakes_of_an_evaluation_are_listed_at_once(specs: Path) -> None:
    path = specs / "recipes" / "encoders.toml"
    edit(path, "[speed]\n", "[spede]\n[speed]\nbatch = 0\n")
    edit(path, "[report]\n", "[report]\ntitel = 3\n")
    edit(path, "[finetune.korsts]\n", "[finetune.korsts]\nepoch = 3\n")
    with pytest.raises(RecipeError) as refusal:
        load_evaluation(path)
    for part in ("[spede]", "[speed]: unknown field 'batch'", "'titel'", "'epoch'"):
        assert part in str(refusal.value)


def test_paths_that_cannot_be_looked_at_are_listed_with_all_other_mistakes(
    editable: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed, stat = tmp_path / "closed", os.stat

    def refuse(path: Path, *rest: object, **options: object) -> os.stat_result:
        if closed in (found := Path(path)).parents:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(found))
        return stat(path, *rest, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "stat", refuse)
    changed = {"extract.news.paths": [f"{closed}/news.jsonl"], "finetune.nsmc.test": "a" * 256, "vocab.size": "many"}
    with pytest.raises(RecipeError) as refusal:
        recipes.load(editable, overrides=changed)
    for line in (
        f"[extract.news], field 'paths.0': {closed}/news.jsonl: Permission denied; change its permissions (chmod), or",
        "[finetune.nsmc], field 'test': ",
        "[vocab], field 'size'",
    ):
        assert line in str(refusal.value)
    with pytest.raises(RecipeError, match=r"field 'data': .*/closed/data: Permission denied"):
        recipes.load(editable, overrides={"data": f"{closed}/data"})


def test_a_missing_file_in_a_directory_that_may_not_be_listed_is_named(
    editable: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: Path) -> None:
        raise PermissionError

    monkeypatch.setattr(Path, "iterdir", refuse)
    with pytest.raises(RecipeError, match=r"\[extract\.news\], field 'paths\.0': no such file or directory: .*none\.jsonl"):
        recipes.load(editable, overrides={"extract.news.paths": [f"{tmp_path}/none.jsonl"]})


@pytest.mark.parametrize("read", [kind_of, recipes.load, recipes.load_ablation, labels])
def test_a_pipe_is_no_recipe(tmp_path: Path, read: object) -> None:
    os.mkfifo(pipe := tmp_path / "recipe.toml")
    with pytest.raises(RecipeError, match=r"recipe\.toml is neither a regular file nor a directory; name one that is"):
        read(pipe)  # type: ignore[operator]
