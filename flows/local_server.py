"""``make ui``: a Prefect server, its work pool, the deployments and a worker as processes on loopback, until Ctrl-C."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from urllib.parse import urlsplit

from prefect.settings import get_current_settings

SECONDS_TO_START = 180
POOL = "local"


def main() -> None:
    """Start everything in order, wait for Ctrl-C or SIGTERM, and stop everything."""
    root = Path(__file__).parents[1]
    url = str(get_current_settings().api.url)
    address = urlsplit(url)
    os.environ["PWD"] = str(root)
    running: list[subprocess.Popen[bytes]] = []
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(0))
    try:
        running.append(_prefect("server", "start", "--host", str(address.hostname), "--port", str(address.port), cwd=root))
        wait_until_healthy(f"{url}/health", running[0])
        _prefect("work-pool", "create", POOL, "--type", "process", "--overwrite", cwd=root).wait()
        _prefect("--no-prompt", "deploy", "--all", cwd=root).wait()
        running.append(_prefect("worker", "start", "--pool", POOL, cwd=root))
        print(f"\nthe UI is at {url.removesuffix('/api')}; in another terminal: prefect deployment run corpus-to-model\n")
        running[-1].wait()
    except KeyboardInterrupt:
        pass
    finally:
        for process in reversed(running):
            process.terminate()
        for process in running:
            process.wait(timeout=30)


def _prefect(*arguments: str, cwd: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-m", "prefect", *arguments], cwd=cwd)


def wait_until_healthy(url: str, server: subprocess.Popen[bytes]) -> None:
    """Return once the server answers. Raises RuntimeError when it died or stays silent."""
    deadline = time.monotonic() + SECONDS_TO_START
    while time.monotonic() < deadline:
        if server.poll() is not None:
            raise RuntimeError(f"the Prefect server ended with exit status {server.returncode}; is its port taken?")
        try:
            with urllib.request.urlopen(url, timeout=2):  # noqa: S310 (our own loopback address)
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.5)
    raise RuntimeError(f"the Prefect server did not answer at {url} within {SECONDS_TO_START} s")


if __name__ == "__main__":
    main()
