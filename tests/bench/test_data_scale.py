"""docs/scale.md has the figures that the simulation prints."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from bench import data_scale

COMPARING = re.compile(r"Comparing holds (\d+) bytes a document, (\d+) a candidate")
PAGE = Path(__file__).parents[2] / "docs" / "scale.md"


def test_the_page_has_the_figures_of_the_simulation(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["data_scale"])
    data_scale.main()
    printed = re.findall(r"(?m)^(\w+) +(?!seal)\S.*? +([\d.]+) +([\d.]+) +([\d.]+) +([\d.]+) ", capsys.readouterr().out)
    table = PAGE.read_text("utf-8").partition("| stage | step | core-hours |")[2].partition("| all stages |")[0]
    rows = [[cell.strip(" *") for cell in line.split("|")[1:-1]] for line in table.splitlines()[2:]]
    assert len(printed) == len(rows) > 10
    for (stage, *numbers), (page_stage, step, *cells) in zip(printed, rows, strict=True):
        shown = [float(re.match(r"[\d.]*", cell)[0] or 0) for cell in cells]  # type: ignore[index]
        assert page_stage == stage
        assert shown == pytest.approx([float(one) for one in numbers], rel=0.05, abs=0.05), step


def test_the_page_states_the_memory_of_comparing() -> None:
    stated = COMPARING.search(PAGE.read_text("utf-8"))
    assert stated
    assert tuple(map(int, stated.groups())) == (data_scale.COMPARED_BYTES, data_scale.CANDIDATE_BYTES)
