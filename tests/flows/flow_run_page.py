"""The page of a flow run in Prefect's UI, opened in a browser."""

from __future__ import annotations

import base64
import json
import time
from pathlib import Path

from tests.browser import Browser

COLOURS = """new Promise(done => {
  const image = new Image();
  image.onload = () => {
    const canvas = Object.assign(document.createElement('canvas'), {width: image.width, height: image.height});
    const context = canvas.getContext('2d');
    context.drawImage(image, 0, 0);
    const pixels = context.getImageData(0, 0, image.width, image.height).data;
    let green = 0;
    for (let at = 0; at < pixels.length; at += 4)
      green += pixels[at + 1] > 120 && pixels[at] < 90 && pixels[at + 2] < 140;
    done(green);
  };
  image.src = 'data:image/png;base64,%s';
})"""
"""Counts the pixels of a picture that have the green of completed runs."""


SECONDS_TO_SHOW = 300


class FlowRunPage:
    """A run's page. Every wait ends after SECONDS_TO_SHOW and fails with the page's text."""

    def __init__(self, tab: Browser, base: str) -> None:
        self.tab, self.base = tab, base

    def open(self, run: str, *, password: str | None, scheme: str) -> None:
        """Open the page in a fresh tab with stored settings: a password or none, light or dark."""
        self.tab.show(f"{self.base}/robots.txt", width=1280, scheme=scheme)
        self.tab.ask(f"localStorage.clear(); localStorage.setItem('color-scheme', '\"{scheme}\"')")
        if password is not None:
            self.tab.ask(f"localStorage.setItem('prefect-password', btoa({json.dumps(password)}))")
        # Lists draw only what is visible.
        self.tab.show(f"{self.base}/runs/flow-run/{run}", width=1280, height=2400, scheme=scheme)

    def says(self, *words: str) -> None:
        """Wait until the page shows all of these."""
        self._wait(f"{json.dumps(words)}.every(word => document.body.innerText.includes(word))")

    def choose(self, name: str) -> None:
        """Click on a tab by its name."""
        found = f"[...document.querySelectorAll('.p-tab')].find(each => each.innerText.trim() === {json.dumps(name)})"
        self._wait(f"!!{found}")
        self.tab.ask(f"{found}.click()")

    def ground(self) -> float:
        """Brightness of the page's background, 0 to 255."""
        colour = self.tab.ask("getComputedStyle(document.body).backgroundColor")
        return sum(float(part) for part in colour.strip("rgba()").split(",")[:3]) / 3

    def draws_completed_tasks(self) -> None:
        """Wait until the graph has something in the colour of completed tasks."""
        deadline = time.monotonic() + SECONDS_TO_SHOW
        while (seen := self._completed_pixels()) < 100:
            assert time.monotonic() < deadline, (f"{seen} pixels of completed tasks", self.tab.ask("document.body.innerText"))
            time.sleep(1)  # Taking a picture slows down the page.

    def _completed_pixels(self) -> int:
        box = "(() => { const r = document.querySelector('canvas').getBoundingClientRect();"
        x, y, width, height = self.tab.ask(f"{box} return [r.x, r.y, r.width, r.height]; }})()")
        clip = {"x": x, "y": y, "width": width, "height": height - 20, "scale": 1}  # Without the bar of the run's own state.
        shot = self.tab.call("Page.captureScreenshot", clip=clip)["data"]
        assert base64.b64decode(shot)[:4] == b"\x89PNG"
        return int(self.tab.ask(COLOURS % shot))

    def _wait(self, condition: str) -> None:
        deadline = time.monotonic() + SECONDS_TO_SHOW
        while not self.tab.ask(condition):
            assert time.monotonic() < deadline, (condition, self.tab.ask("document.body.innerText"))
            time.sleep(0.2)


def check(tab: Browser, base: str, auth: str, run: str, pictures: Path) -> None:
    """Check the page of a run that built ``extract/news``: closed without password; graph, tasks, artifacts, light and dark."""
    page = FlowRunPage(tab, base)
    page.open(run, password=None, scheme="dark")
    page.says("Authentication failed")
    assert "corpus-to-model" not in tab.ask("document.body.innerText")
    for scheme in ("dark", "light"):
        page.open(run, password=auth, scheme=scheme)
        page.says("Completed", "corpus-to-model")
        page.draws_completed_tasks()
        page.choose("Task Runs")
        page.says("extract/news")
        page.choose("Artifacts")
        page.says("plan", "extract-news-output", "extract-news-stats")
        tab.picture(pictures / f"flow-run-{scheme}.png")
        assert (page.ground() > 200) == (scheme == "light") and (page.ground() < 60) == (scheme == "dark")
