"""Ray nodes as processes of this machine, in namespaces: Ray listens on all addresses, so its network has loopback alone."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import psutil

PORT = 6379
SECONDS_TO_START = 180
OBJECT_STORE_BYTES = 100_000_000
ENVIRONMENT = {
    "RAY_ADDRESS": f"127.0.0.1:{PORT}",
    "RAY_AUTH_MODE": "token",
    "RAY_AUTH_TOKEN": "0123456789abcdef0123456789abcdef",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_worker_niceness": "0",  # With Ray's default of 15, its workers get only the time that no other process wants.
}
"""Variables of all drivers and nodes of the cluster."""
INSIDE = "KOREALBERT_BENCH_INSIDE"


def enter_namespaces() -> None:
    """Restart this program in namespaces of its own, unless it runs there.

    Its network has loopback alone; its mounts and processes vanish when it ends. Raises SystemExit if the kernel does not
    give this user namespaces.
    """
    if INSIDE in os.environ:
        subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
        return
    root = os.geteuid() == 0
    spaces = [] if root else ["--user", "--map-current-user", "--keep-caps"]  # PostgreSQL refuses to serve as root.
    command = ["unshare", *spaces, "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
    tried = subprocess.run([*command, "true"], capture_output=True, text=True, check=False)
    if tried.returncode:
        raise SystemExit(f"the bench needs namespaces, which this kernel does not give this user: {tried.stderr.strip()}")
    module = sys.modules["__main__"].__spec__
    assert module is not None, "run it as python -m bench.NAME"
    os.environ[INSIDE] = "1"
    os.execvp(command[0], [*command, sys.executable, "-m", module.name, *sys.argv[1:]])  # noqa: S606


class RayNode:
    """One running node, started by ``ray start``."""

    def __init__(self, temporary: Path, environment: Mapping[str, str], *, head: bool) -> None:
        """Start it with one core, and wait until it has joined."""
        where = ["--head", f"--port={PORT}", "--include-dashboard=false"] if head else [f"--address=127.0.0.1:{PORT}"]
        where += [f"--temp-dir={temporary}"] if head else []
        command = [sys.executable, "-m", "ray.scripts.scripts", "start", *where, "--num-cpus=1", "--block"]
        command.append(f"--object-store-memory={OBJECT_STORE_BYTES}")
        self.log = temporary.with_name(f"ray-{'head' if head else 'second'}.log")
        with self.log.open("ab") as stream:
            self._process = subprocess.Popen(command, env={**environment, **ENVIRONMENT}, stdout=stream, stderr=stream)
        deadline = time.monotonic() + SECONDS_TO_START
        while not any("raylet" in name for name, _ in self._processes()):
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"the Ray node did not start:\n{self.log.read_text('utf-8', 'replace')[-2000:]}")
            time.sleep(0.1)

    def works(self) -> bool:
        """Return whether a job of ours runs on the node now."""
        return any(name.startswith("ray::_job") for name, _ in self._processes())

    def kill(self) -> None:
        """Kill all its processes at once, like a machine that loses power."""
        for _, process in self._processes():
            try:
                os.kill(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        self._process.wait()

    def _processes(self) -> list[tuple[str, psutil.Process]]:
        found = []
        try:
            own = psutil.Process(self._process.pid)
            for process in (own, *own.children(recursive=True)):
                found.append((" ".join(process.cmdline()) or process.name(), process))
        except psutil.NoSuchProcess:
            pass
        return found


if __name__ == "__main__":
    sys.exit("this module has no command: run bench.cluster or bench.soak, which start nodes by it")
