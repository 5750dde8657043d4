"""The package without its checkout: a wheel contains recipes, sample and rules, and runs in an empty directory."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path
from zipfile import ZipFile

import pytest

from tests.conftest import ROOT


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    copy = tmp_path_factory.mktemp("checkout")
    for name in ("korealbert", "flows", "data_specs"):
        shutil.copytree(ROOT / name, copy / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE", "MANIFEST.in"):
        shutil.copy(ROOT / name, copy)
    compiled = copy / "data_specs" / "sample" / "artificial" / "__pycache__"  # Like in a used checkout.
    compiled.mkdir()
    (compiled / "generate.cpython-311.pyc").write_bytes(b"compiled")
    options = ["--quiet", "--no-build-isolation", "--no-deps", "--wheel-dir", "wheels"]
    subprocess.run([sys.executable, "-m", "pip", "wheel", *options, "."], cwd=copy, check=True)
    [found] = (copy / "wheels").iterdir()
    return found


def test_a_wheel_contains_every_shipped_file(wheel: Path) -> None:
    files = {path for path in (ROOT / "data_specs").rglob("*") if path.is_file() and path.parent.name != "__pycache__"}
    shipped = {f"korealbert/{path.relative_to(ROOT)}" for path in files}
    assert len(shipped) > 50
    held = set(ZipFile(wheel).namelist())
    assert shipped <= held
    assert not [name for name in held if name.endswith(".pyc")], "files that were compiled in the checkout"
    assert "korealbert/flows/cli.py" in held
    assert {name.split("/")[0].split("-")[0] for name in held} == {"korealbert"}, "only one name in site-packages"


def test_an_installed_wheel_plans_a_shipped_recipe_in_an_empty_directory(wheel: Path, tmp_path: Path) -> None:
    """Its dependencies are those of this environment."""
    environment, empty = tmp_path / "environment", tmp_path / "empty"
    venv.create(environment, with_pip=False)
    empty.mkdir()
    python = environment / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--python", str(python)]
    subprocess.run([*pip, "install", "--quiet", "--no-deps", "--no-index", "--no-compile", str(wheel)], check=True, cwd=empty)
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    packages = environment / "lib" / version / "site-packages"
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib"))
    variables = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}

    def run(*command: str) -> str:
        return subprocess.run(command, cwd=empty, env=variables, capture_output=True, text=True, check=True).stdout

    assert str(packages) in run(str(python), "-c", "import korealbert.flows; print(korealbert.flows.__file__)")
    planned = run(str(environment / "bin" / "korealbert"), "plan", "sample")
    assert "32 of 32 stages would run" in planned
    assert not list(empty.iterdir())
