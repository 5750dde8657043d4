"""The package without its checkout: a wheel contains recipes, sample and rules, and runs in an empty directory."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
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


def test_an_unpacked_wheel_plans_a_shipped_recipe_in_an_empty_directory(wheel: Path, tmp_path: Path) -> None:
    """Dependencies come from this environment, but the package only from the wheel."""
    packages, empty = tmp_path / "packages", tmp_path / "empty"
    empty.mkdir()
    with ZipFile(wheel) as archive:
        archive.extractall(packages)
    [entry_points] = packages.glob("*.dist-info/entry_points.txt")
    assert "korealbert = korealbert.__main__:main\n" in entry_points.read_text("utf-8")
    program = "import korealbert.flows, sys; print(korealbert.flows.__file__); sys.argv[1:] = ['plan', 'sample']; "
    program += "from korealbert.__main__ import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=empty,
        env={**os.environ, "PYTHONPATH": str(packages)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert str(packages) in done.stdout and "32 of 32 stages would run" in done.stdout
    assert not list(empty.iterdir())
