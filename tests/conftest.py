"""Fixtures shared by all packages."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from hypothesis import settings

# A check of a commit tries the same cases each time it runs; at a desk every run tries new ones.
settings.register_profile("ci", derandomize=True)
if os.environ.get("CI"):
    settings.load_profile("ci")

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="session")
def sample_dir() -> Path:
    """The sample corpus that the project ships."""
    return ROOT / "data_specs" / "sample"


@pytest.fixture
def specs(tmp_path: Path) -> Path:
    """A copy of the shipped recipes, ablations, sources and rules that a test may change."""
    return Path(shutil.copytree(ROOT / "data_specs", tmp_path / "data_specs"))


@pytest.fixture(scope="session")
def real_data() -> Path:
    """Real corpora and benchmarks beside the project, in their native formats; tests that want them are skipped without."""
    path = ROOT.parent / "shared" / "data"
    if not path.is_dir():
        pytest.skip("the real corpora are not beside the project")
    return path
