"""Which stages a run builds again: from a stage on, or after a change; and options that are refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from korealbert import recipe as recipes
from korealbert.artifact import Runtime, Store
from korealbert.flows.cli import app
from korealbert.recipe.nodes import downstream, select
from tests.building import build_all
from tests.flows.conftest import TINY


def test_from_selects_a_stage_and_all_downstream_ones() -> None:
    nodes = recipes.graph(recipes.load(TINY))
    found = downstream(nodes, ["examples"])
    assert {label.split("/")[0] for label in found} >= {"examples", "views", "pretrain", "export", "finetune", "report"}
    assert {label.split("/")[0] for label in set(nodes) - found} >= {"extract", "clean", "dedup", "balance", "vocab"}
    assert downstream(nodes, ["clean/news"]) >= {"clean/news", "dedup", "report"}
    assert "clean/books" not in downstream(nodes, ["clean/news"])
    with pytest.raises(recipes.RecipeError, match="did you mean 'examples'"):
        select(nodes, "exampels", option="from")


def test_set_changes_a_field_for_one_run(tmp_path: Path) -> None:
    store = ["--store", str(tmp_path / "store")]
    plain = CliRunner().invoke(app, ["plan", str(TINY), *store, "--until", "vocab"])
    changed = CliRunner().invoke(app, ["plan", str(TINY), *store, "--until", "vocab", "--set", "vocab.size=1000"])
    assert plain.exit_code == changed.exit_code == 0
    differ = [a for a, b in zip(plain.output.splitlines(), changed.output.splitlines(), strict=True) if a != b]
    assert differ[0].startswith("vocab") and all("would run" in line for line in differ[1:]), "and the sum of what it costs"


@pytest.mark.parametrize(
    ("option", "message"),
    [
        (["--set", "vocab.size"], "write FIELD=VALUE"),
        (["--set", "vocab.sise=1000"], "did you mean 'size'"),
        (["--set", "vocab.size=many"], "'size'"),
        (["--set", ".=1"], "dotted name"),
        (["--set", "clean=false"], "write [clean.NAME], one table per clean"),
        (["--set", 'extract="x"', "--set", "fetch.news=3"], "write [fetch.NAME], one table per fetch"),
        (["--set", 'pretrain.model="x"'], "[pretrain], field 'model': Input should be an object (it is 'x')"),
        (["--from", "vocub"], "did you mean 'vocab'"),
    ],
)
def test_what_means_nothing_is_refused_by_name(tmp_path: Path, option: list[str], message: str) -> None:
    refused = CliRunner().invoke(app, ["plan", str(TINY), "--store", str(tmp_path / "store"), *option])
    assert refused.exit_code == 2 and message in refused.output, refused.output


def test_a_damaged_manifest_is_planned_stale_beside_what_was_built_from_it(tmp_path: Path) -> None:
    nodes, store = recipes.until(recipes.graph(recipes.load(TINY)), "clean/news"), Store(tmp_path / "store").make()
    built = build_all(nodes, Runtime(store=store.root, workers=1))
    manifest = built["extract/news"].path / "manifest.json"
    whole = manifest.read_bytes()
    manifest.write_bytes(whole[: len(whole) // 2])
    prepared = recipes.prepare(TINY, store, until="clean/news")
    extract, clean = prepared.planned
    assert (extract.status, clean.status) == ("stale", "cached") and "not a whole manifest" in extract.reasons[0]
    again = build_all(prepared.nodes, Runtime(store=store.root, workers=1))
    assert {label: one.output_digest for label, one in again.items()} == {
        label: one.output_digest for label, one in built.items()
    }
    assert [stage.status for stage in recipes.prepare(TINY, store, until="clean/news").planned] == ["cached", "cached"]
