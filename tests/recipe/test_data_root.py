"""Recipes may name files in their data root, public addresses and folders within a package, but no pipes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from korealbert import recipe as recipes
from korealbert.artifact import Store
from korealbert.corpus.crawl.source import load_source
from korealbert.recipe import RecipeError


@pytest.fixture
def editable(specs: Path) -> Path:
    """The sample recipe, as a test may change it."""
    return specs / "recipes" / "small-sample.toml"


def test_nothing_outside_the_data_root_is_read(editable: Path, tmp_path: Path) -> None:
    """Neither by a path, a link, a link within a directory, nor by another recipe."""
    store, root = Store(tmp_path / "store"), editable.parents[1]
    recipes.prepare(editable, store, data_root=root)
    secret = tmp_path / "secret.toml"
    secret.write_text("private = 1\n")
    link, inside = root / "link.toml", root / "directory"
    link.symlink_to(secret)
    inside.mkdir()
    (inside / "also").symlink_to(tmp_path)
    fields = ("extract.news.paths", "dedup.decontaminate", "finetune.nsmc.train", "crawl.news.source", "clean.news.title_rules")
    for field in (*fields, "encoder.theirs.path"):
        for path in (secret, link, inside, tmp_path / "none", root / ".." / "secret.toml"):
            given = {
                "dedup.decontaminate": [{"name": "x", "path": str(path), "format": "lines"}],
                "extract.news.paths": [str(path)],
            }
            with pytest.raises(RecipeError, match=rf"field '[a-z_.0-9]+': .* leads out of the data root {root}") as refused:
                recipes.prepare(editable, store, data_root=root, overrides={field: given.get(field, str(path))})
            assert "private" not in str(refused.value) and "\n" not in str(refused.value), field
    with pytest.raises(RecipeError, match=r"\[encoder.theirs\], field 'recipe': .* leads out of the data root"):
        recipes.prepare(editable, store, data_root=root, overrides={"encoder.theirs.recipe": "../../secret.toml"})
    grid = root / "ablation.toml"
    grid.write_text('recipe = "../secret.toml"\nseeds = [1]\n[[cells]]\nlabel = "a"\n')
    with pytest.raises(RecipeError, match=r"ablation.toml, field 'recipe': .* leads out of the data root"):
        recipes.prepare(grid, store, data_root=root)
    with pytest.raises(RecipeError, match="is no directory"):
        recipes.prepare(editable, store, data_root=tmp_path / "none")


STRANGE = {
    "private": ('url = "http://127.0.0.1:8099/x.jsonl"\nprivate_hosts = ["127.0.0.1"]', r"'private_hosts': under a data root"),
    "credentials": ('url = "s3://bucket/x.jsonl"', r"'url': s3:// is fetched with your credentials"),
    "hub": ('url = "hf://datasets/a/b"', r"'url': hf:// is fetched with your credentials"),
}


@pytest.mark.parametrize("given", STRANGE)
def test_a_recipe_in_a_data_root_fetches_nothing_private(given: str, editable: Path, tmp_path: Path) -> None:
    table, message = STRANGE[given]
    editable.write_text(f'{editable.read_text()}\n[extract.inner]\nformat = "jsonl"\n[fetch.inner]\n{table}\n')
    store = Store(tmp_path / "store")
    recipes.prepare(editable, store)
    with pytest.raises(RecipeError, match=rf"\[fetch.inner\], field {message}") as refused:
        recipes.prepare(editable, store, data_root=editable.parents[1])
    assert "\n" not in str(refused.value)


def test_files_that_a_recipe_in_a_data_root_names_fetch_nothing_private(editable: Path, tmp_path: Path) -> None:
    site = editable.parent / "site.toml"
    site.write_text(
        'outlet = "a"\nhosts = ["127.0.0.1"]\nprivate_hosts = ["127.0.0.1"]\narticle = "http://127.0.0.1/a"\n'
        'listing = [{ kind = "rss", url = "http://127.0.0.1/rss" }]\n'
    )
    load_source(site)
    with pytest.raises(ValueError, match=r"private_hosts.*under a data root"):
        load_source(site, within=tmp_path)
    remote = {"url": "http://127.0.0.1/a.tsv", "sha256": "0" * 64, "private_hosts": ["127.0.0.1"]}
    with pytest.raises(RecipeError, match=r"private_hosts': under a data root"):
        recipes.prepare(
            editable, Store(tmp_path / "store"), data_root=editable.parents[1], overrides={"finetune.nsmc.train": remote}
        )


@pytest.mark.parametrize("folder", ["../../../bin", "/bin", ".", "a/../.."])
def test_no_folder_of_a_package_leads_out_of_it(folder: str, editable: Path) -> None:
    editable.write_text(f'{editable.read_text()}\n[encoder.e]\npackage = "pip==23.2.1"\nfolder = "{folder}"\n')
    with pytest.raises(RecipeError, match=r"\[encoder.e\]: folder .* leads out of the package; name a directory within it"):
        recipes.load(editable)


def test_a_pipe_is_refused_before_it_is_read(editable: Path, tmp_path: Path) -> None:
    pipe = editable.parent / "pipe.toml"
    os.mkfifo(pipe)
    message = "pipe.toml is neither a regular file nor a directory; name one that is"
    for field, value in (
        ("extract.news.paths", [str(pipe)]),
        ("finetune.nsmc.train", str(pipe)),
        ("finetune.nsmc.task", str(pipe)),
        ("crawl.news.source", str(pipe)),
        ("encoder.theirs.recipe", "pipe.toml"),
    ):
        with pytest.raises(RecipeError, match=message) as refused:
            recipes.prepare(editable, Store(tmp_path / "store"), overrides={field: value})
        assert len([line for line in str(refused.value).splitlines() if "pipe.toml" in line]) == 1
