"""Lock files of compilations are removed if no process holds them."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from korealbert.pretrain.stage import clear_stale_locks, extension_directory


def test_only_locks_that_nobody_holds_are_removed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    stale, held = tmp_path / "fused_adam" / "lock", tmp_path / "py311_cpu" / "shm_comm" / "lock"
    for path in (stale, held):
        path.parent.mkdir(parents=True)
        path.touch()
    (tmp_path / "fused_adam" / "build.ninja").write_text("kept")
    with held.open("w"), caplog.at_level(logging.WARNING):
        assert clear_stale_locks(tmp_path) == [stale]
    assert (held.exists(), stale.exists(), (stale.parent / "build.ninja").exists()) == (True, False, True)
    assert str(stale) in caplog.text
    assert clear_stale_locks(tmp_path) == [held]
    assert clear_stale_locks(tmp_path / "absent") == []


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"TORCH_EXTENSIONS_DIR": "/somewhere", "HOME": "/home/u"}, "/somewhere"),
        ({"HOME": "/home/u"}, "/home/u/.cache/torch_extensions"),
        ({"HOME": "/home/u", "XDG_CACHE_HOME": "/cache"}, "/cache/torch_extensions"),
    ],
)
def test_extensions_lie_where_torch_puts_them(environment: dict[str, str], expected: str) -> None:
    assert extension_directory(environment) == Path(expected)
