"""Ray nodes as processes of this machine; within a network that has nothing but loopback, for Ray listens on all addresses."""

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
    "RAY_worker_niceness": "0",  # Ray's default of 15 leaves its workers what nobody else on the machine wants.
}
"""What drivers and nodes of the cluster have in common."""


class RayNode:
    """One node: what ``ray start`` starts, for as long as it lives."""

    def __init__(self, temporary: Path, environment: Mapping[str, str], *, head: bool) -> None:
        """Start it, with one core; returns once it has joined."""
        where = ["--head", f"--port={PORT}", "--include-dashboard=false"] if head else [f"--address=127.0.0.1:{PORT}"]
        where += [f"--temp-dir={temporary}"] if head else []
        command = [sys.executable, "-m", "ray.scripts.scripts", "start", *where, "--num-cpus=1", "--block"]
        command.append(f"--object-store-memory={OBJECT_STORE_BYTES}")
        self.log = temporary.with_name(f"ray-{'head' if head else 'second'}.log")
        with self.log.open("ab") as stream:
            self._process = subprocess.Popen(command, env={**environment, **ENVIRONMENT}, stdout=stream, stderr=stream)
        deadline = time.monotonic() + SECONDS_TO_START
        while not any("raylet" in name for name, _ in self._members()):
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"the Ray node did not start:\n{self.log.read_text('utf-8', 'replace')[-2000:]}")
            time.sleep(0.1)

    def works(self) -> bool:
        """Whether a job of ours runs on it now."""
        return any(name.startswith("ray::_job") for name, _ in self._members())

    def kill(self) -> None:
        """All its processes at once, as a machine that loses power."""
        for _, process in self._members():
            try:
                os.kill(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        self._process.wait()

    def _members(self) -> list[tuple[str, psutil.Process]]:
        found = []
        try:
            own = psutil.Process(self._process.pid)
            for process in (own, *own.children(recursive=True)):
                found.append((" ".join(process.cmdline()) or process.name(), process))
        except psutil.NoSuchProcess:
            pass
        return found
