"""Fixtures for all rooms, and the markers of tests."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from korealbert.pretrain.engine import Ranks
    from korealbert.pretrain.runtime import TrainingRuntime

# Every run tries the same cases without a time limit; `pytest --hypothesis-profile=explore` tries new ones.
settings.register_profile("fixed", deadline=None, derandomize=True)
settings.register_profile("explore", deadline=None)
settings.load_profile("fixed")

# Models of tests are too small for a second thread, and idle threads of parallel workers would take each other's cores. torch
# reads these variables when it is loaded, in this process and in those that tests start.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("GOMP_SPINCOUNT", "1000")

# A killed process loses nothing that it has written: only a loss of power does, which tests do not have.
os.fsync = lambda fd: None

ROOT = Path(__file__).parents[1]

# What tests need beside the interpreter, by the beginning of their path. `make test-fast` runs the others, `make test` all but
# the soaks.
NEEDS = {
    "torch": (
        "bench",
        "finetune",
        "huggingface",
        "model",
        "pretrain",
        "xpt",
        "recipe/test_data_root",
        "recipe/test_recipe",
        "recipe/test_retrieval",
        "recipe/test_shipped",
        "vocab",
    ),
    "process": (
        "artifact/maintenance",
        "artifact/test_artifact",
        "artifact/test_changed_inputs",
        "artifact/test_disk_space",
        "artifact/test_ray_engine",
        "artifact/test_subprocess_build",
        "artifact/test_trust",
        "bench",
        "corpus/clean/test_personal_data",
        "corpus/clean/test_stage",
        "corpus/crawl",
        "corpus/dedup/test_decontaminate",
        "corpus/dedup/test_repeats",
        "corpus/dedup/test_stage",
        "corpus/quality/test_stage",
        "corpus/test_balance",
        "corpus/test_extract",
        "corpus/test_standalone",
        "documents/test_containers",
        "examples/test_packing",
        "examples/test_views",
        "inspection/test_looking",
        "recipe/test_pricing",
        "recipe/test_registry",
        "report/test_browser",
        "test_api",
        "test_imports",
        "test_security",
        "test_wheel",
        "vocab",
    ),
    "server": ("flows",),
    "soak": ("bench/test_equal_time", "flows/services/test_topology", "pretrain/test_two_machines"),
}


def _needs(path: Path) -> set[str]:
    """Return the markers of the tests in a file."""
    beginning = path.relative_to(ROOT / "tests").as_posix()
    return {marker for marker, beginnings in NEEDS.items() if beginning.startswith(beginnings)}


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Do not import files that `-m "not torch"` excludes: collecting them takes longer than the fast tests."""
    excluded = {marker for marker in NEEDS if f"not {marker}" in config.option.markexpr}
    return True if _needs(collection_path) & excluded else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark every test with what it needs, and put tests with servers and processes first.

    Their modules are long; if one began last, the other workers would wait for it.
    """
    for item in items:
        for marker in _needs(item.path):
            item.add_marker(marker)
    items.sort(key=lambda item: [item.get_closest_marker(marker) is None for marker in ("server", "process", "torch")])


@pytest.fixture(scope="session")
def sample_dir() -> Path:
    """Return the shipped sample corpus."""
    return ROOT / "data_specs" / "sample"


@pytest.fixture
def specs(tmp_path: Path) -> Path:
    """Return a copy of the shipped recipes, ablations, sources and rules, which a test may change."""
    return Path(shutil.copytree(ROOT / "data_specs", tmp_path / "data_specs"))


@pytest.fixture(scope="session")
def real_data() -> Path:
    """Return the folder of real corpora and benchmarks beside the project, or skip the test."""
    path = ROOT.parent / "shared" / "data"
    if not path.is_dir():
        pytest.skip("the real corpora are not beside the project")
    return path


@pytest.fixture(scope="session")
def alone() -> Iterator[Ranks]:
    """Make this process the only rank, with one thread."""
    import torch

    from korealbert.pretrain.engine import join

    threads, before = torch.get_num_threads(), dict(os.environ)
    torch.set_num_threads(1)
    yield join(rank=0, world_size=1, device=torch.device("cpu"))
    torch.distributed.destroy_process_group()
    torch.set_num_threads(threads)
    os.environ.clear()
    os.environ.update(before)


@pytest.fixture
def one_precision(monkeypatch: pytest.MonkeyPatch) -> None:
    """Undo that DeepSpeed scales ZeRO's losses in a process that has once had an engine in low precision."""
    if autocast := sys.modules.get("deepspeed.runtime.torch_autocast"):
        monkeypatch.setattr(autocast, "TORCH_AUTOCAST_INITIALIZED", False)
        monkeypatch.setattr(autocast, "TORCH_AUTOCAST_DTYPE", None)


@contextmanager
def training_within(ranks: Ranks) -> Iterator[None]:
    """Let stages pretrain in this process, because loading torch in another one takes longer than a tiny model trains.

    ``tests/pretrain/test_stage.py`` shows that both write the same bytes.
    """
    from korealbert.pretrain.job import Job
    from korealbert.pretrain.worker import train

    def run_here(module: str, arguments: Sequence[str], *, runtime: TrainingRuntime, on_line: Callable[[str], None]) -> None:
        assert module == "korealbert.pretrain.worker" and runtime.processes == 1
        job = Job.model_validate_json(Path(*arguments).read_bytes())
        assert train(job, ranks, send=on_line, stop_requested=lambda: False) == 0

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("korealbert.pretrain.stage.run_ranks", run_here)
        yield


@pytest.fixture
def trains_here(alone: Ranks, one_precision: None) -> Iterator[None]:
    """Let stages pretrain in this process; see ``training_within``."""
    with training_within(alone):
        yield
