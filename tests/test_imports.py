"""Help, plans, reading benchmarks and importing flows do not load the libraries for training."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from korealbert.__main__ import main

ROOT = Path(__file__).parents[1]
PROGRAM = """
import sys
from typer.testing import CliRunner
from korealbert.flows.cli import app

def check(what):
    loaded = {"torch", "transformers", "deepspeed", "optuna", "kiwipiepy", "ray"} & set(sys.modules)
    assert not loaded, f"{what} loads {loaded}"

for arguments in (["--help"], *(["plan", recipe, "--store", "store"] for recipe in sys.argv[1:])):
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, done.output
    check(arguments)

from korealbert.finetune import tasks
for name in tasks.names():
    tasks.load(name)
check("reading benchmarks")

import korealbert.flows.corpus_to_model, korealbert.flows.one_stage
check("a worker's process")
"""


def test_help_plans_benchmarks_and_flows_do_not_load_libraries_for_training(tmp_path: Path) -> None:
    specs = ROOT / "data_specs"
    recipes = [specs / "recipes/xpt-sample.toml", specs / "ablations/sample/korealbert-table-2.toml"]
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *map(str, recipes)], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_ctrl_c_while_the_command_line_is_imported_ends_it_without_a_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    class Interrupting:
        def find_spec(self, name: str, *_: object) -> None:
            if name == "korealbert.flows.cli":
                raise KeyboardInterrupt

    monkeypatch.delitem(sys.modules, "korealbert.flows.cli", raising=False)
    monkeypatch.setattr(sys, "meta_path", [Interrupting(), *sys.meta_path])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 130
