"""The reports in a real browser: light and dark, wide and narrow, with drawings and Hangul, and without running scripts."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from korealbert.artifact import Artifact, Runtime
from korealbert.recipe.registry import REPORT
from korealbert.report.ablation import stage as ablation
from korealbert.report.cross_lingual import stage as cross_lingual
from korealbert.report.cross_lingual.stage import CrossLingualReportSpec
from korealbert.report.render.blocks import Section, Table
from korealbert.report.render.writer import page
from korealbert.report.stage import ReportSpec
from tests.browser import Browser, browser
from tests.report.test_ablation import SPEC, two_rows

KINDS = ("run", "ablation", "cross-lingual")

HANGUL = """(() => {
  const drawn = letter => {
    const context = document.createElement('canvas').getContext('2d');
    context.font = getComputedStyle(document.body).font;
    context.fillText(letter, 0, 40);
    return context.getImageData(0, 0, 60, 60).data.join();
  };
  return new Set([...'각한글뷁 '].map(drawn)).size;
})()"""
"""Number of different drawings of five characters; missing ones would all be the same box."""

OUTSIDE = """[...document.querySelectorAll('main *')].filter(each => !each.closest('.scroll') && !each.closest('svg')
  && each.getBoundingClientRect().right > document.documentElement.clientWidth + 1).map(each => each.outerHTML.slice(0, 99))"""

SPILT = """[...document.querySelectorAll('svg.chart text')].filter(each => {
  const [inner, outer] = [each.getBoundingClientRect(), each.closest('svg').getBoundingClientRect()];
  return inner.width && (inner.right > outer.right + 2 || inner.left < outer.left - 2);
}).map(each => each.textContent)"""

SCROLLING = """[...document.querySelectorAll('.scroll, figure.wide')].filter(each => each.scrollWidth > each.clientWidth + 1)
  .map(each => each.innerText.slice(0, 60))"""

_LINES = """Math.max(0, ...[...document.querySelectorAll('tbody td:PLACE')].map(each => {
  const words = document.createRange();
  words.selectNodeContents(each);
  return new Set([...words.getClientRects()].filter(each => each.width).map(each => Math.round(each.top))).size;
}))"""
LINES_OF_FIRST_CELLS, LINES_OF_LAST_CELLS = (_LINES.replace("PLACE", f"{end}-child") for end in ("first", "last"))


@pytest.fixture(scope="module")
def reports(artifacts: dict[str, Artifact], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """One report of each kind."""
    out = {kind: tmp_path_factory.mktemp(kind) for kind in KINDS}
    REPORT.run(ReportSpec(), artifacts, out["run"], Runtime())
    ablation.run(SPEC, two_rows(tmp_path_factory.mktemp("cells")), out["ablation"], Runtime())
    cross_lingual.run(CrossLingualReportSpec(), {}, out["cross-lingual"], Runtime())
    return {kind: place / "report.html" for kind, place in out.items()}


@pytest.fixture(scope="module")
def tab() -> Iterator[Browser]:
    with browser() as opened:
        yield opened


def brightness(colour: str) -> float:
    return sum(float(part) for part in colour.strip("rgba()").split(",")[:3]) / 3


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
def test_a_report_is_legible_on_any_screen(kind: str, width: int, scheme: str, reports: dict[str, Path], tab: Browser) -> None:
    tab.show(reports[kind].as_uri(), width=width, scheme=scheme)
    tab.ask("document.querySelectorAll('details').forEach(each => each.open = true)")
    assert tab.ask("document.documentElement.scrollWidth <= document.documentElement.clientWidth"), "it scrolls sideways"
    assert tab.ask(OUTSIDE) == []
    assert tab.ask(SPILT) == []
    assert tab.ask(LINES_OF_FIRST_CELLS) <= 3
    ground = brightness(tab.ask("getComputedStyle(document.body).backgroundColor"))
    ink = brightness(tab.ask("getComputedStyle(document.body).color"))
    paper, print_ = (ground, ink) if scheme == "light" else (ink, ground)
    assert paper > 200 and print_ < 60
    charts = tab.ask(
        "[...document.querySelectorAll('svg.chart')].filter(each => each.getBoundingClientRect().width > 200).length"
    )
    assert charts >= {"run": 10, "ablation": 3, "cross-lingual": 0}[kind]
    assert tab.ask("[...document.images].length + document.scripts.length") == 0


@pytest.mark.parametrize("kind", KINDS)
def test_tables_and_the_graph_keep_their_layout_without_scrolling(kind: str, reports: dict[str, Path], tab: Browser) -> None:
    tab.show(reports[kind].as_uri(), width=1300, scheme="light")
    tab.ask("document.querySelectorAll('details').forEach(each => each.open = true)")
    assert tab.ask(SCROLLING) == []


@pytest.mark.parametrize("kind", KINDS)
def test_a_report_fits_paper_in_its_own_size(kind: str, reports: dict[str, Path], tab: Browser) -> None:
    """A browser shrinks all pages until the widest table fits."""
    tab.show(reports[kind].as_uri(), width=680, scheme="light")
    tab.call("Emulation.setEmulatedMedia", media="print")
    tab.ask("document.querySelectorAll('details').forEach(each => each.open = true)")
    try:
        assert tab.ask("document.documentElement.scrollWidth") <= 680
        tall = "[...document.querySelectorAll('figure')].filter(each => each.offsetHeight > innerHeight).length"
        assert tab.ask(tall) == 0, "its caption would stand on a page of its own"
    finally:
        tab.call("Emulation.setEmulatedMedia", media="")


def test_on_a_phone_the_beginnings_of_documents_are_in_sight(reports: dict[str, Path], tab: Browser) -> None:
    tab.show(reports["run"].as_uri(), width=390, scheme="light")
    assert tab.ask("document.querySelector('#texts .last-below td:last-child').getBoundingClientRect().right") <= 390


def test_on_a_phone_no_cell_of_a_comparison_lies_over_another(tab: Browser, tmp_path: Path) -> None:
    rows = [
        ["pretrain", "optimizer.gradient_averaging.with.a.long.name", "/a/long/path/of/a/benchmark.txt", "unset"],
        ["KoreALBERT-base-125K[MLM+SOP]", "88.4", "KoreALBERT Table II", ""],
    ]
    table = Table("Fields that differ", ["Stage", "Field", "A", "B"], rows, prose=frozenset({2, 3}))
    (tmp_path / "page.html").write_text(page("A and B", "", [Section("settings", "Settings", [table])]), "utf-8")
    tab.show((tmp_path / "page.html").as_uri(), width=390, scheme="light")
    assert tab.ask("[...document.querySelectorAll('td')].filter(each => each.scrollWidth > each.clientWidth + 1).length") == 0


def test_on_paper_labels_beside_a_long_text_are_not_broken(tab: Browser, tmp_path: Path) -> None:
    rows = [
        [
            "890",
            "그는 한쪽 눈의 모퉁이에서 움직임을 훑어보았다. " * 9 + "https://example.org/" + "a" * 90,
            "entailment",
            "contradiction",
        ]
    ]
    table = Table(
        "The test examples with the largest loss", ["Example", "Text", "Gold", "Predicted"], rows, prose=frozenset({1, 2, 3})
    )
    (tmp_path / "page.html").write_text(page("Errors", "", [Section("errors", "Errors", [table])]), "utf-8")
    tab.show((tmp_path / "page.html").as_uri(), width=680, scheme="light")
    tab.call("Emulation.setEmulatedMedia", media="print")
    try:
        assert tab.ask(LINES_OF_LAST_CELLS) == 1
        assert tab.ask("document.documentElement.scrollWidth") <= 680
    finally:
        tab.call("Emulation.setEmulatedMedia", media="")


def test_hangul_is_drawn_and_not_boxed(reports: dict[str, Path], tab: Browser) -> None:
    fonts = subprocess.run(["fc-list", ":lang=ko"], capture_output=True, check=False).stdout
    if not fonts:
        pytest.skip("no Korean font here (Debian: apt-get install fonts-noto-cjk)")
    tab.show(reports["run"].as_uri(), width=1280, scheme="light")
    assert tab.ask("document.body.textContent.includes('정치')")
    assert tab.ask(HANGUL) == 5


def test_a_script_in_a_title_is_shown_and_does_not_run(reports: dict[str, Path], tab: Browser) -> None:
    tab.show(reports["run"].as_uri(), width=1280, scheme="light")
    assert tab.ask("document.body.textContent.includes(\"<script>alert('제목')</script>\")")
    refused = "new Promise(done => { const it = document.createElement('script'); it.textContent = 'window.ran = 1';"
    assert tab.ask(f"{refused} document.body.append(it); setTimeout(() => done(window.ran === undefined), 50) }})")
