"""From an empty directory to a report: every command of docs/own-corpus.md, verbatim, on a few text files."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.corpus.documents_made import prose
from tests.flows.test_docs import ROOT, blocks

PAGE = ROOT / "docs" / "own-corpus.md"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home with 40 files in ``texts``, four of them short and two alike, and the command."""
    (tmp_path / "texts").mkdir()
    for number in range(40):
        seed = max(1, number)
        text = "짧은 글이다.\n" if number % 10 == 3 else f"{prose(seed, 3)}\n\n{prose(seed + 50, 3)}\n"
        (tmp_path / "texts" / f"{number:02}.txt").write_text(text, "utf-8")
    command = tmp_path / "bin" / "korealbert"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m korealbert "$@"\n')
    command.chmod(0o755)
    return tmp_path


_VARIABLE = re.compile(
    r"(?P<why>\(\d+ \w+(?:, \d+ \w+)*\))"
    r"|(?P<path>\S+/report-\w+/)|(?P<time>(?:\d+ min )?[\d.,]*\d s\b)|\d[\d.,]*"
)
_FORMS = {"why": r"\(.+\)", "path": r"\S+/", "time": r"(\d+ min )?[\d.,]+ s", None: r"[\d.,]+"}


def shown_but_not_printed(page: str, printed: str) -> list[str]:
    """Return the lines of output on a page that a run has not printed in this form; numbers and reasons may differ."""
    shown = re.findall(r"^```(\w*)\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    found = []
    for line in "".join(text for language, text in shown if not language).splitlines():
        form, end = "", 0
        for match in _VARIABLE.finditer(line):
            form += re.escape(line[end : match.start()]) + _FORMS[match.lastgroup]
            end = match.end()
        if not re.search(f"^{form}{re.escape(line[end:])}$", printed, re.MULTILINE):
            found.append(line)
    return found


def test_a_shown_line_of_another_form_is_found() -> None:
    shown = (
        "a  built in 1,300.7 s, 4 of 5 kept\n9 built in 22 min 26 s\nb: 4 dropped (3 x, 1 y); see\n/me/store/report-7a/x.html\n"
    )
    printed = "a  built in 0.7 s, 1 of 2 kept\n1 built in 2 s\nb: 14 dropped (14 too_z); see\n/tmp/m-1/report-9/x.html\n"
    assert shown_but_not_printed(f"```\n{shown}```\n", printed) == []
    short = "fills 33.3 % correctly."
    assert shown_but_not_printed(f"```\n{short}\n```\n", f"{printed}fills 2 % correctly (9 pieces).\n") == [short]


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
    for page in (PAGE, PAGE.with_suffix(".ko.md")):
        assert shown_but_not_printed(page.read_text("utf-8"), done.stdout) == []
    assert "35 documents: my-corpus" in done.stdout
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
    assert "extract/texts cached" in called.stdout and " 36\n" in called.stdout, "deduplication comes later"
