"""From an empty directory to a report: every command of docs/own-corpus.md, verbatim, on a few text files."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.corpus.documents_made import prose
from tests.flows.test_docs import ROOT, blocks

PAGE = ROOT / "docs" / "own-corpus.md"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home with 40 files in ``texts``, four of them short, and the command."""
    (tmp_path / "texts").mkdir()
    for number in range(40):
        text = "짧은 글이다.\n" if number % 10 == 3 else f"{prose(number, 3)}\n\n{prose(number + 50, 3)}\n"
        (tmp_path / "texts" / f"{number:02}.txt").write_text(text, "utf-8")
    command = tmp_path / "bin" / "korealbert"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m korealbert "$@"\n')
    command.chmod(0o755)
    return tmp_path


@pytest.mark.soak
@pytest.mark.usefixtures("one_server")
def test_the_page_leads_from_an_empty_directory_to_a_report(home: Path, tmp_path: Path) -> None:
    script = "\n".join(blocks(PAGE, "sh")[: PAGE.read_text("utf-8").split("## A corpus alone")[0].count("```sh")])
    assert script.count("korealbert ") >= 10
    (home / "work").mkdir()
    done = subprocess.run(
        ["bash", "-e", "-c", script],
        cwd=home / "work",
        env={**os.environ, "HOME": str(home), "PATH": f"{home / 'bin'}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    mine = home / "work" / "mine"
    assert "40 of 40 kept" in done.stdout
    assert "clean/texts: 4 of 40 documents dropped (4 too_short); korealbert inspect clean/texts --dropped all" in done.stdout
    assert "11 of 11 stages would run" in done.stdout and "fills " in done.stdout
    (report,) = mine.glob("store/report-*/report.html")
    assert str(report) in done.stdout
    assert "36 documents: my-corpus" in done.stdout
    assert (mine / "recipe.schema.json").stat().st_size > 10_000
    (example,) = blocks(ROOT / "docs" / "python-api.md", "python")
    called = subprocess.run(
        [sys.executable, "-c", example],
        cwd=mine,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert called.returncode == 0, called.stderr
    assert "extract/texts cached" in called.stdout and " 36\n" in called.stdout
