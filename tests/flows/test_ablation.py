"""A whole small ablation: it reuses what its recipe has built, builds the rest, and its table agrees with the runs."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import polars as pl
import pytest

from korealbert import recipe as recipes
from korealbert.artifact import Artifact, Store, build
from korealbert.pretrain.runtime import TrainingRuntime
from tests.flows.conftest import TINY

TINY_ABLATION = TINY.parent / "ablations" / "tiny.toml"


@pytest.mark.usefixtures("trains_here")
def test_an_ablation_builds_only_what_its_recipe_has_not(straight: dict[str, Artifact], tmp_path: Path) -> None:
    store = tmp_path / "store"
    shutil.copytree(straight["report"].path.parent, store)
    runtime = TrainingRuntime(store=store, workers=1, threads=1)
    new = {stage.label for stage in recipes.prepare(TINY_ABLATION, Store(store)).planned if stage.status == "new"}
    assert new == {
        *("views/noise-order", "intrinsic/with-dropout/1/order", "ablation"),
        *(f"{stage}/without-dropout/1" for stage in ("pretrain", "export")),
        *(
            "intrinsic/without-dropout/1/order",
            "features/without-dropout/1/nsmc",
            "finetune/without-dropout/1/nsmc/pretrained/1",
        ),
    }
    built: dict[str, Artifact] = {}
    for label, node in recipes.ablation_graph(recipes.load_ablation(TINY_ABLATION)).items():
        inputs = {role: built[other] for role, other in node.inputs.items()}
        found = build(node.stage, node.spec, inputs, runtime, label=label)
        assert found.cached == (label not in new), label
        built[label] = found.artifact
    assert all(stage.status == "cached" for stage in recipes.prepare(TINY_ABLATION, Store(store)).planned)

    table = pl.read_csv(built["ablation"].path / "table.csv")
    means = {(row, column): mean for row, column, mean in table.select("row", "column", "mean").iter_rows()}
    for row in ("with-dropout", "without-dropout"):
        scores = built[f"pretrain/{row}/1"].stats["heldout"]
        assert means[row, "MLM"] == pytest.approx(100 * scores["mlm_accuracy"])
        moved = built[f"intrinsic/{row}/1/order"].stats["heldout"]
        assert means[row, "WOP, much moved"] == pytest.approx(100 * moved["wop_accuracy"])
        tuned = json.loads((built[f"finetune/{row}/1/nsmc/pretrained/1"].path / "metrics.json").read_text("utf-8"))
        assert means[row, "NSMC"] == pytest.approx(tuned["test"]["accuracy"])
        assert means[row, "Avg"] is None
    assert table.filter(column="Avg")["printed"].to_list() == [90.4, 90.7]
