"""A stage needs only its module and a line in the registry to be planned, built, reported, inspected and deployed."""

from __future__ import annotations

import ast
import inspect
import json
import os
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest
import yaml

from korealbert.artifact import Spec, Stage, Store
from korealbert.recipe import RecipeError, ablation_graph, dag, graph, load, load_ablation, prepare, registry
from korealbert.recipe.nodes import Nodes
from korealbert.xpt import kept_tokenizer, source
from tests.flows.conftest import TINY

ROOT = Path(__file__).parents[2]
SAMPLE = ROOT / "data_specs" / "sample"

STAGE_FILE = '''"""Stage ``shortest``: the shortest documents of the corpus."""

from korealbert.artifact import Deployment, Spec, Stage
from korealbert.documents.schema import Drop
from korealbert.documents.shards import DocumentShard, read_documents


class ShortestSpec(Spec):
    """How many there are."""

    documents: int = 3
    """Documents that stay."""


def run(spec, inputs, out_dir, runtime):
    found = [document for shard in inputs["documents"].files("documents-*.arrow") for document in read_documents(shard)]
    with DocumentShard(out_dir, 0) as shard:
        for place, document in enumerate(sorted(found, key=lambda each: len(each.text))):
            if place < spec.documents:
                shard.keep(document)
            else:
                shard.drop(document, Drop("not_among_the_shortest", str(place)))
    return shard.stats


STAGE = Stage(
    "shortest",
    version=1,
    spec=ShortestSpec,
    run=run,
    table="shortest",
    inputs={"documents": "balance"},
    deployment=Deployment("The shortest documents"),
)
'''
RECIPE = f"""
[extract.books]
format = "books"
paths = ["{SAMPLE / "books.csv"}"]
fields = {{ text = "introduction", outlet = "", url = "", published = "", id = "isbn" }}
[clean.books]
limits = {{ min_characters = 30 }}
[shortest]
documents = 2
[pretrain]
steps = 1
"""
PROGRAM = """
import contextlib, io, json, runpy
from pathlib import Path
from typer.testing import CliRunner
from korealbert.flows.cli import app
from korealbert.artifact import Runtime, Store, build
from korealbert.recipe import prepare

def command(*arguments):
    done = CliRunner().invoke(app, [*arguments, "--store", "store"], env={"COLUMNS": "200"})
    assert done.exit_code == 0, done.output
    return done.stdout

recipe, runtime, built = Path("recipe.toml"), Runtime(store=Path("store"), workers=1), {}
def made(label, node):
    inputs = {role: built[other] for role, other in node.inputs.items() if other in built}
    built[label] = build(node.stage, node.spec, inputs, runtime, label=label).artifact

message = {"plan": command("plan", "recipe.toml"), "corpus": command("plan", "corpus.toml")}
for label, node in prepare(recipe, Store(runtime.store), until="shortest").nodes.items():
    made(label, node)
made("report", prepare(recipe, Store(runtime.store)).nodes["report"])
message["report"] = (built["report"].path / "report.md").read_text("utf-8")
message["inspect"] = command("inspect", "shortest", "--dropped", "all")
with contextlib.redirect_stdout(io.StringIO()) as printed:
    for module in ("korealbert.flows.one_stage", "korealbert.recipe.reference"):
        runpy.run_module(module, run_name="__main__")
message["reference"] = printed.getvalue()
print(json.dumps(message))
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """The project with one more stage: a file in the corpus room, and its line in the registry."""
    root = tmp_path / "checkout"
    for package in ("korealbert", "flows", "data_specs"):
        shutil.copytree(ROOT / package, root / package, symlinks=True)  # With what is compiled.
    shutil.copy(ROOT / "prefect.yaml", root)
    (root / "korealbert" / "corpus" / "shortest.py").write_text(STAGE_FILE, "utf-8")
    file = root / "korealbert" / "recipe" / "registry.py"
    line = "    shortest.STAGE,\n"
    before, first, after = file.read_text("utf-8").partition("    vocab.STAGE,\n")
    assert first
    imported = before.replace("import balance, extract\n", "import balance, extract, shortest\n")
    assert imported != before
    file.write_text(imported + line + first + after, "utf-8")
    (root / "recipe.toml").write_text(RECIPE, "utf-8")
    (root / "corpus.toml").write_text(RECIPE.partition("[pretrain]")[0], "utf-8")
    return root


@pytest.mark.process
def test_a_stage_of_one_line_is_planned_reported_inspected_and_deployed(checkout: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(checkout), "NO_COLOR": "1"}
    command = [sys.executable, "-c", PROGRAM]
    done = subprocess.run(command, cwd=checkout, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    message = json.loads(done.stdout.splitlines()[-1])
    for planned in (message["plan"], message["corpus"]):
        assert [line.split()[:2] for line in planned.splitlines() if line.startswith("shortest")] == [["shortest", "new"]]
    assert "pretrain" in message["plan"] and "pretrain" not in message["corpus"]
    report = message["report"]
    accounted = next(line for line in report.splitlines() if line.startswith("| shortest") and " 2 " in line)
    assert accounted.count("|") == 8, "documents in, dropped, quarantined, out, kept, characters"
    assert "not among the shortest" in report, "its drops are reported"
    assert report.index("| balance") < report.index("| shortest"), "in the order of the registry"
    assert "Not part of this run" not in report, "a corpus lacks no training"
    assert "not_among_the_shortest" in message["inspect"]
    deployments = yaml.safe_load((checkout / "prefect.yaml").read_text("utf-8"))["deployments"]
    (found,) = [each for each in deployments if each["name"] == "shortest"]
    assert (found["description"], found["parameters"]) == ("The shortest documents", {"stage": "shortest"})
    assert "## [shortest]" in message["reference"]


def test_the_page_of_the_graph_chains_what_stages_declare() -> None:
    single = registry.tables()
    for label, node in graph(load(TINY)).items():
        if label not in single or label in ("report", "dedup"):
            continue
        declared = {role: other for role, other in node.stage.inputs.items() if role in node.inputs}
        assert dict(node.inputs) == declared, label


def test_every_stage_of_a_recipe_is_registered() -> None:
    registered = {stage.name for stage in (*registry.STAGES, registry.REPORT)}
    assert {node.stage.name for node in graph(load(TINY)).values()} <= registered
    labels = [stage.label for stage in registry.STAGES]
    assert len(set(labels)) == len(labels)
    ablation = ablation_graph(load_ablation(ROOT / "data_specs" / "ablations" / "sample" / "albert-table-9.toml"))
    names = {node.stage.name for node in ablation.values()}
    assert "ensemble" in names and names <= registry.by_name().keys()


def test_a_stage_whose_input_a_recipe_does_not_make_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage("toy", 1, Spec, lambda *_: {}, table="toy", inputs={"sizes": "vocab_sizes"})
    monkeypatch.setattr(registry, "tables", lambda: {"toy": stage})
    with pytest.raises(
        RecipeError, match=r"\[toy\]: it reads 'vocab_sizes', which this recipe does not make; remove the table"
    ):
        dag._add_further(Nodes(), {"toy": Spec()})


def test_a_table_of_no_stage_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "recipe.toml"
    file.write_text(RECIPE, "utf-8")
    with pytest.raises(RecipeError, match=r"unknown table or field \[shortest\]"):
        prepare(file, Store(tmp_path / "store"))


def test_sources_may_have_the_names_that_the_graph_has_for_its_own_things() -> None:
    inputs = {name: f"clean/{name}" for name in ("self", "label", "stage", "spec")}
    nodes = Nodes()
    nodes.add("dedup", registry.tables()["dedup"], Spec(), **inputs)
    assert nodes.by_label["dedup"].inputs == inputs


@cache
def _imports(path: Path, *, everywhere: bool) -> set[str]:
    """Modules that a file imports at its top, or also within its functions, except those for annotations only."""
    tree = ast.parse(path.read_text("utf-8"))
    tree.body = [each for each in tree.body if not (isinstance(each, ast.If) and "TYPE_CHECKING" in ast.dump(each.test))]
    nodes = list(ast.walk(tree)) if everywhere else tree.body
    return {each.module or "" for each in nodes if isinstance(each, ast.ImportFrom)} | {
        name.name for each in nodes if isinstance(each, ast.Import) for name in each.names
    }


def test_stages_name_the_libraries_that_a_corpus_does_without() -> None:
    stages = {stage.name: stage for stage in (*registry.STAGES, kept_tokenizer.STAGE, source.STAGE)}
    for stage in stages.values():
        used = set()
        for module in _imports(Path(inspect.getfile(stage.run)), everywhere=True):
            file = (ROOT / module.replace(".", "/")).with_suffix(".py")
            used |= _imports(file, everywhere=False) if file.is_file() else {module}
        assert used & {"torch", "transformers"} <= set(stage.needs), stage.name
