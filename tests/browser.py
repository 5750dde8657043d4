"""A headless browser, controlled by its debugging protocol, that shows pages like people see them."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from websockets.sync.client import ClientConnection, connect

NAMES = ("chromium", "chromium-browser", "google-chrome")
SECONDS_TO_START = 120
_OFFLINE = (
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-quic",
)
"""Options with which it requests nothing from the network by itself."""


class Browser:
    """One tab."""

    def __init__(self, socket: ClientConnection) -> None:
        self._socket, self._calls = socket, 0

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Return the answer of a method of the protocol."""
        self._calls += 1
        self._socket.send(json.dumps({"id": self._calls, "method": method, "params": parameters}))
        while True:
            answer = json.loads(self._socket.recv(timeout=300))
            if answer.get("id") == self._calls:
                assert "error" not in answer, f"{method}: {answer['error']}"
                return dict(answer["result"])

    def show(self, url: str, *, width: int, scheme: str, height: int = 900) -> None:
        """Open a page on a screen of this size, in the scheme `light` or `dark`."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600)
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        self.call("Page.navigate", url=url)
        deadline = time.monotonic() + 300
        while self.ask("location.href === 'about:blank' || document.readyState !== 'complete'"):
            assert time.monotonic() < deadline, url
            time.sleep(0.05)

    def ask(self, expression: str) -> Any:
        """Return the value of a JavaScript expression in the page."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def picture(self, path: Path) -> None:
        """Write the whole page as a PNG."""
        size = self.call("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": min(size["height"], 16_000), "scale": 1}
        shot = self.call("Page.captureScreenshot", captureBeyondViewport=True, clip=clip)
        path.write_bytes(base64.b64decode(shot["data"]))


@contextmanager
def browser() -> Iterator[Browser]:
    """Start a browser with an empty profile, or skip the test if none is installed."""
    program = next(filter(None, map(shutil.which, NAMES)), None)
    if program is None:
        pytest.skip("no Chromium here (Debian: apt-get install chromium)")
    with tempfile.TemporaryDirectory(prefix="korealbert-browser-", ignore_cleanup_errors=True) as profile:
        command = [
            program,
            "--headless=new",
            "--disable-gpu",
            "--remote-debugging-port=0",
            f"--user-data-dir={profile}",
            *_OFFLINE,
        ]
        if os.geteuid() == 0:
            command.append("--no-sandbox")  # Chromium's sandbox does not run as root; the pages are the tests' own.
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        process = subprocess.Popen([*command, "about:blank"], **quiet)
        try:
            with connect(_tab(_port(Path(profile), process)), max_size=None) as socket:
                yield Browser(socket)
        finally:
            process.terminate()
            process.wait(timeout=600)


def _tab(port: int) -> str:
    deadline = time.monotonic() + SECONDS_TO_START
    while True:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/json") as answer:
            pages = [each for each in json.load(answer) if each["type"] == "page"]
        if pages:
            return str(pages[0]["webSocketDebuggerUrl"])
        assert time.monotonic() < deadline, "the browser opened no tab"
        time.sleep(0.05)


def _port(profile: Path, process: subprocess.Popen[bytes]) -> int:
    file = profile / "DevToolsActivePort"
    deadline = time.monotonic() + SECONDS_TO_START
    while not (file.exists() and file.read_text().strip()):
        assert process.poll() is None and time.monotonic() < deadline, "the browser did not start"
        time.sleep(0.05)
    return int(file.read_text().split()[0])
