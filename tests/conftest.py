"""Fixtures shared by all rooms."""

from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="session")
def sample_dir() -> Path:
    """The sample corpus that the project ships."""
    return ROOT / "data_specs" / "sample"


@pytest.fixture(scope="session")
def real_data() -> Path:
    """Real corpora and benchmarks beside the project, in their native formats; tests that want them are skipped without."""
    path = ROOT.parent / "shared" / "data"
    if not path.is_dir():
        pytest.skip("the real corpora are not beside the project")
    return path
