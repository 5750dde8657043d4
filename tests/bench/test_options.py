"""Benches take the options that they document."""

from __future__ import annotations

import sys

import pytest

from bench import memorise, overhead, peers


@pytest.mark.parametrize("steps", [1, 5, 50])
def test_memorise_takes_few_steps(steps: int) -> None:
    assert memorise.spec_of(steps).schedule.warmup(steps) == steps // 10


def test_overhead_says_how_it_is_used(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["overhead", "--help"])
    with pytest.raises(SystemExit, match="0"):
        overhead.main()
    assert "python -m bench.overhead [RECIPE]" in capsys.readouterr().out


def test_peers_list_their_names(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["peers", "--help"])
    with pytest.raises(SystemExit, match="0"):
        peers.main()
    assert "datatrove, scrapy" in capsys.readouterr().out
    monkeypatch.setattr(sys, "argv", ["peers", "unknown"])
    with pytest.raises(SystemExit, match="2"):
        peers.main()
    assert "choose from" in capsys.readouterr().err
