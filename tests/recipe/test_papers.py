"""docs/papers.md has a row for every table and figure, with a command that exists or the reason why there is none."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from korealbert.recipe.tables import kind_of, read_toml
from korealbert.report import published

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "papers.md"

ITEMS = {
    "KoreALBERT": [*(f"Table {n}" for n in ("I", "II", "III", "IV")), "Figure 1"],
    "ALBERT": [*(f"Table {n}" for n in range(1, 15)), "Figure 1", "Figure 2"],
    "Language Chameleon": [*(f"Table {n}" for n in range(1, 12)), *(f"Figure {n}" for n in range(1, 4))],
    "Cross-lingual post-training": ["All tables"],
    "XPT on KLUE-RE": ["Table 1"],
}
"""All tables and figures of the papers."""

SOURCES = {"KoreALBERT": "KoreALBERT", "ALBERT": "ALBERT", "LanguageChameleon": "Language Chameleon"}
"""Titles of the papers on the page, by their name in published scores."""


def chapters() -> dict[str, dict[str, list[str]]]:
    """Return the cells of each row, without the item, by paper and item."""
    found: dict[str, dict[str, list[str]]] = {}
    for chapter in PAGE.read_text("utf-8").split("\n## ")[1:]:
        title, *lines = chapter.splitlines()
        rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("| ")]
        assert rows[0] == ["Item", "What it holds", "Command", "Run so far", "Not available"]
        names = [row[0] for row in rows[1:]]
        assert len(names) == len(set(names)), title
        found[re.sub(r" \(.*", "", title)] = {row[0]: row[1:] for row in rows[1:]}
    return found


PAPERS = chapters()


def recipe_of(command: str) -> Path:
    found = re.search(r"data_specs/\S+\.toml", command)
    assert found, command
    return ROOT / found[0]


def test_every_table_and_figure_has_its_row() -> None:
    assert {paper: list(rows) for paper, rows in PAPERS.items()} == ITEMS


@pytest.mark.parametrize("paper", ITEMS)
def test_every_row_has_a_command_over_a_recipe_that_exists_or_says_why_not(paper: str) -> None:
    for item, (holds, command, run, missing) in PAPERS[paper].items():
        assert holds and command and run and missing, (paper, item)
        if command == "–":
            assert len(missing) > 1, f"{paper}, {item}: neither a command nor the reason why there is none"
            continue
        assert re.match(r"`korealbert (run|plan) \S+( --set \S+)*`", command), (paper, item)
        kind_of(recipe_of(command))


def test_every_named_recipe_exists() -> None:
    for name in re.findall(r"`([\w/-]+\.toml)`", PAGE.read_text("utf-8")):
        place = ROOT / name if "/" in name else ROOT / "data_specs" / "recipes" / name
        assert place.is_file(), name


def test_a_grid_stands_at_the_table_that_it_fills() -> None:
    for path in sorted((ROOT / "data_specs" / "ablations").rglob("*.toml")):
        if "printed" not in (grid := read_toml(path)):
            continue  # It compares what no paper does.
        paper, _, number = grid["printed"]["source"].partition(" Table ")
        row = PAPERS[SOURCES[paper]][f"Table {number}"]
        if path.parent.name == "ablations":
            assert recipe_of(row[1]) == path
        elif path.parent.name == "sample":
            assert "sample" in row[2], path


def test_every_published_table_is_on_the_page() -> None:
    for name in ("albert", "korealbert", "xpt"):
        for source in published.load(name)["source"].unique():
            paper, _, number = source.partition(" Table ")
            if paper in SOURCES:
                assert f"Table {number.split(' ')[0]}" in PAPERS[SOURCES[paper]], source
